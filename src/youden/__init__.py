"""Rank language-model agents without labels. Each name is imported when it is first used.

The public interface is:

- the version (`__version__`), the names in `__all__` of `youden`, of `youden.stats` and of `youden.inspect`, and the errors in
  `youden.errors`
- the command line, and the files it reads and writes
- the pytest plugin: the marker and fixture `youden_cassette`, and `--youden-cassettes`
- for plugins: the entry-point groups `youden.judges`, `youden.batches`, `youden.stores`,
  `youden.importers`, `youden.exporters`, `youden.transforms`, `youden.designs`, `youden.baselines`, `youden.item_sources` and
  `youden.attacks`; and the types in `__all__` of `youden.types`, which their contracts use

Any other module may change in any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youden import stats
    from youden.data.pools.pool_reader import read_pool
    from youden.pipeline.ranking import rank
    from youden.pipeline.score_audit import audit
    from youden.pipeline.verdicts import judge, judge_async
    from youden.protocol.plan import make_plan
    from youden.runs.run_object import Run, read_run, run
    from youden.stats.additive.clipped_linear import ClippedLinear
    from youden.study.comparison import compare

__version__ = "0.3.0"

_MODULES = {
    "read_pool": "youden.data.pools.pool_reader",
    "make_plan": "youden.protocol.plan",
    "judge": "youden.pipeline.verdicts",
    "judge_async": "youden.pipeline.verdicts",
    "rank": "youden.pipeline.ranking",
    "audit": "youden.pipeline.score_audit",
    "run": "youden.runs.run_object",
    "read_run": "youden.runs.run_object",
    "Run": "youden.runs.run_object",
    "compare": "youden.study.comparison",
    "ClippedLinear": "youden.stats.additive.clipped_linear",
}

__all__ = [
    "ClippedLinear",
    "Run",
    "audit",
    "compare",
    "judge",
    "judge_async",
    "make_plan",
    "rank",
    "read_pool",
    "read_run",
    "run",
    "stats",
]


def __getattr__(name: str) -> object:
    if name == "stats":
        return import_module("youden.stats")
    if name not in _MODULES:
        raise AttributeError(f"module 'youden' has no attribute '{name}'")
    globals()[name] = getattr(import_module(_MODULES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
