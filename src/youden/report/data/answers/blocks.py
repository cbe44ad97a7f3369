"""Where a run's trials are read from, a block of rows at a time: arrays in memory, or files that are never whole there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trials.trial_blocks import verdict_blocks
from youden.nouns import Json, Plan, Verdicts
from youden.nouns.arrays import Positions


class Block(NamedTuple):
    """Rows from `start` on, `n` of them. read: gives their columns, as `TrialRows` takes them; keys: of some, by their place in
    the block, the requests' in the store."""

    start: int
    n: int
    read: Callable[[], Mapping[str, NDArray[Any]]]
    keys: Callable[[Positions], Sequence[bytes]]


class TrialSource(NamedTuple):
    """A judged run's trials. plan: its trials are not looked at; judge: the one that gave the answers; measured: columns that it
    filled; kept: the answers, where they are in memory."""

    plan: Plan
    blocks: Sequence[Block]
    judge: Mapping[str, Json]
    measured: frozenset[str]
    kept: Verdicts | None

    @property
    def n_trials(self) -> int:
        return sum(block.n for block in self.blocks)

    @property
    def asked(self) -> Mapping[str, Json] | None:
        """The judge; None for one that makes no calls, whose answers lie in no store."""
        return self.judge if "key" in self.measured else None


def trials_in_memory(result: Verdicts) -> TrialSource:
    """Of answers as they are."""
    columns: dict[str, NDArray[Any]] = dict(result.plan.trials.columns())
    columns |= {"answer": result.answer, "hard": result.hard, "missing": result.missing}
    more = {"key": result.key, "seconds": result.seconds}
    columns |= {name: column for name, column in more.items() if column is not None}
    block = Block(0, len(result), lambda: columns, lambda rows: columns["key"][rows].tolist())
    return TrialSource(result.plan, [block], result.judge, frozenset(columns), result)


def trials_on_disk(folder: RunFolder) -> TrialSource:
    """Of the files of a run. Raises: RunFolderError."""
    plan, of = folder.judged_files()
    blocks = [
        Block(block.start, block.n_rows, block.again, block.keys_of)
        for block in verdict_blocks(folder.file("verdicts.parquet"), plan)
    ]
    return TrialSource(plan, blocks, of.judge, frozenset(of.measured), None)
