"""Types for plugins: the objects that each entry-point group registers, and the types in their contracts.

- `youden.judges`: class that is constructed with a `Connection` and implements `Judge`: it answers one `Request`, which
  consists of `Message`s, with a `Completion`, or raises `CallError`
- `youden.batches`: class that is constructed with a `Connection` and a keyword `policy`, a `RetryPolicy`, and
  implements `BatchProvider`. Its methods return a `BatchState` (with `LineError`s for rejected requests) or raise
  `CallError`
- `youden.stores`: function that takes the address of a store and the keyword `read_only`, and returns a `StorageBackend`. The
  processes that share a store are its `Member`s; they write `PendingWrites` with `Payment`s. Without its method
  `read_members`, `youden view` shows a run in progress as unfinished. Without its method `read_all_members`, `youden doctor`
  omits what killed processes may have paid
- `youden.importers`: an `Importer`, which returns an `ImportedPool` of `Agent`s and `Item`s
- `youden.exporters`: an `Exporter`, which takes `ExportOptions` and returns `Exported`
- `youden.transforms`: a `Transform`
- `youden.designs`: a `MakeDesign`, which returns a `Design`. A design returns `DesignResult`, with `Trials` of the
  types `PAIRED` and `INDEPENDENT`, and with `Rounds` if it is adaptive
- `youden.baselines`: class without constructor parameters that implements `Baseline`: it is fitted to `Scores`
- `youden.item_sources`: function without parameters that returns a tuple of `Item`
- `youden.attacks`: an `Attack`, which takes an `AttackContext`

A `PlanJudge` answers a whole `Plan` with `Verdicts`, which refer to `MISSING_REASONS` and contain `Finding`s as
warnings. A `Progress` receives the progress updates of `youden.judge`. Arrays in these types are read-only. The
docstring of each type states shapes, ranges and the meaning of a missing value.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from youden.types.finding import Finding
from youden.types.judging import MISSING_REASONS, Completion, Judge, Message, PlanJudge, Progress, Request, Verdicts
from youden.types.plan_steps import Rounds
from youden.types.planning import Design, DesignResult, Plan
from youden.types.pool import Agent, Item, Pool
from youden.types.results import Scores
from youden.types.trials import INDEPENDENT, PAIRED, Trials

if TYPE_CHECKING:
    from youden.data.exporters import Exporter
    from youden.data.exporters.export_files import Exported, ExportOptions
    from youden.data.importers import Importer
    from youden.data.importers.pool_joiner import ImportedPool
    from youden.judging.call.connection import Connection
    from youden.judging.call.failures import CallError
    from youden.judging.call.retries import RetryPolicy
    from youden.judging.offline.batch_providers import BatchProvider, BatchState, LineError
    from youden.judging.store.contract import Member, Payment, PendingWrites, StorageBackend
    from youden.protocol.designs import MakeDesign
    from youden.stats.baselines import Baseline
    from youden.text.transforms import Transform
    from youden.workflows.attacks import Attack, AttackContext

_HOMES = {
    "Connection": "youden.judging.call.connection",
    "CallError": "youden.judging.call.failures",
    "RetryPolicy": "youden.judging.call.retries",
    "BatchProvider": "youden.judging.offline.batch_providers",
    "BatchState": "youden.judging.offline.batch_providers",
    "LineError": "youden.judging.offline.batch_providers",
    "Member": "youden.judging.store.contract",
    "Payment": "youden.judging.store.contract",
    "PendingWrites": "youden.judging.store.contract",
    "StorageBackend": "youden.judging.store.contract",
    "Importer": "youden.data.importers",
    "ImportedPool": "youden.data.importers.pool_joiner",
    "Exporter": "youden.data.exporters",
    "Exported": "youden.data.exporters.export_files",
    "ExportOptions": "youden.data.exporters.export_files",
    "MakeDesign": "youden.protocol.designs",
    "Baseline": "youden.stats.baselines",
    "Transform": "youden.text.transforms",
    "Attack": "youden.workflows.attacks",
    "AttackContext": "youden.workflows.attacks",
}
"""Name → module of the types that are defined next to the code that uses them; they are imported on first access."""

__all__ = [
    "INDEPENDENT",
    "MISSING_REASONS",
    "PAIRED",
    "Agent",
    "Attack",
    "AttackContext",
    "Baseline",
    "BatchProvider",
    "BatchState",
    "CallError",
    "Completion",
    "Connection",
    "Design",
    "DesignResult",
    "ExportOptions",
    "Exported",
    "Exporter",
    "Finding",
    "ImportedPool",
    "Importer",
    "Item",
    "Judge",
    "LineError",
    "MakeDesign",
    "Member",
    "Message",
    "Payment",
    "PendingWrites",
    "Plan",
    "PlanJudge",
    "Pool",
    "Progress",
    "Request",
    "RetryPolicy",
    "Rounds",
    "Scores",
    "StorageBackend",
    "Transform",
    "Trials",
    "Verdicts",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'youden.types' has no attribute '{name}'")
    globals()[name] = getattr(import_module(_HOMES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
