"""Rank language-model agents without labels. Everything named here loads when first used.

What is public, here and nowhere else:

- the names in `__all__` of `youden`, of `youden.stats` and of `youden.inspect`, and the errors in `youden.errors`
- the command line, and the files it reads and writes
- the pytest plugin: the marker and fixture `youden_cassette`, and `--youden-cassettes`
- for packages that add to this one: the entry-point groups `youden.judges`, `youden.batches`, `youden.stores`,
  `youden.importers`, `youden.exporters`, `youden.transforms`, `youden.designs`, `youden.baselines`, `youden.items` and
  `youden.attacks`; the types in `__all__` of `youden.nouns`; and what these contracts are written with,
  `youden.judging.call.connection`, `youden.judging.call.failures`, `youden.judging.outside.batch_providers` and
  `youden.practice.attacks`

Any other module may change in any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youden import stats
    from youden.data.pools.pool_reader import read_pool
    from youden.judging.asking.terms import Batching
    from youden.practice.quality import quality
    from youden.protocol.plan import make_plan
    from youden.protocol.scores import holdout_scores, tally, train_scores
    from youden.run.ability import TrialMean
    from youden.run.pipeline import judge, judge_async
    from youden.run.ranking import rank, read_run
    from youden.stats.additive.clipped_linear import ClippedLinear
    from youden.study.agreement import compare

__version__ = "0.2.0"

_HOMES = {
    "read_pool": "youden.data.pools.pool_reader",
    "Batching": "youden.judging.asking.terms",
    "make_plan": "youden.protocol.plan",
    "judge": "youden.run.pipeline",
    "judge_async": "youden.run.pipeline",
    "rank": "youden.run.ranking",
    "read_run": "youden.run.ranking",
    "compare": "youden.study.agreement",
    "quality": "youden.practice.quality",
    "tally": "youden.protocol.scores",
    "train_scores": "youden.protocol.scores",
    "holdout_scores": "youden.protocol.scores",
    "ClippedLinear": "youden.stats.additive.clipped_linear",
    "TrialMean": "youden.run.ability",
}

__all__ = [
    "Batching",
    "ClippedLinear",
    "TrialMean",
    "__version__",
    "compare",
    "holdout_scores",
    "judge",
    "judge_async",
    "make_plan",
    "quality",
    "rank",
    "read_pool",
    "read_run",
    "stats",
    "tally",
    "train_scores",
]


def __getattr__(name: str) -> object:
    if name == "stats":
        return import_module("youden.stats")
    if name not in _HOMES:
        raise AttributeError(f"module 'youden' has no attribute '{name}'")
    globals()[name] = getattr(import_module(_HOMES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
