"""The answers of a run, read from its files a block of rows at a time, with what the fit predicts of them.

Texts that were compared more than once are told here: whether the judge said the same again, or in the other order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import TrialBlock, verdict_blocks
from youden.types import INDEPENDENT, Plan
from youden.types.pool import Bools, Floats, Ids, Json, Positions


class TrialSource(NamedTuple):
    """A judged run's trials. plan: its trials are not looked at; judge: the one that gave the answers; measured: columns that it
    filled."""

    plan: Plan
    blocks: Sequence[TrialBlock]
    judge: Mapping[str, Json]
    measured: frozenset[str]

    @property
    def n_trials(self) -> int:
        return sum(block.n_rows for block in self.blocks)

    @property
    def asked(self) -> Mapping[str, Json] | None:
        """The judge; None for one that makes no calls, whose answers lie in no store."""
        return self.judge if "key" in self.measured else None


def trials_on_disk(folder: RunFolder) -> TrialSource:
    """Of the files of a run. Raises: RunFolderError."""
    plan, of = folder.judged_files()
    return TrialSource(plan, verdict_blocks(of, plan), of.said.judge, frozenset(of.said.measured))


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the fit predicts, cell by cell where it is asked for. ability: float[K]; difficulty: float[J]."""

    ability: Floats
    difficulty: Floats

    def at(self, agent: Ids | Positions | int, item: Ids | Positions | int | slice) -> Floats:
        """clip(θ_i − b_j, −1, 1) of cells by position; NaN for agents and items never seen."""
        return np.clip(self.ability[agent] - self.difficulty[item], -1, 1)


MOST_TEXTS = 1_500_000_000
"""More than a pool has, whose square fits a code."""
AT_ONCE = 8_000_000
"""Trials that are sorted at once, about; 200 bytes each."""


@dataclass(frozen=True)
class AnswerAgreement:
    """How often two answers about the same two texts were the same. n: pairs of answers."""

    n: int
    n_same: int

    @property
    def share(self) -> float:
        return self.n_same / self.n


class Repeats(NamedTuple):
    """again: the same two texts in the same order; turned: in the other order; None where that was never asked.

    differ: bool[N], whether the same two texts got a yes and a no, in another order or another time.
    """

    again: AnswerAgreement | None
    turned: AnswerAgreement | None
    differ: Bools


def codes_of(columns: Mapping[str, NDArray[Any]], plan: Plan) -> Positions:
    """int64[N]: 4 × the two cells, whichever is read first, + 2 where the later cell is, + 1 for a yes; −1 without an answer."""
    first, second = cell_keys(columns, plan)
    low, high = np.minimum(first, second), np.maximum(first, second)
    n_texts = MOST_TEXTS if "first_repeat" in columns else plan.n_agents * plan.n_items
    code = 4 * (low * n_texts + high) + 2 * (first > second)
    answered = columns["missing"] == 0
    return np.where(answered, code + (columns["hard"] == 1), -1)


def cell_keys(columns: Mapping[str, NDArray[Any]], plan: Plan) -> tuple[Positions, Positions]:
    """int64[N] each: the cell of the first and of the second text, agent × J + item; repeats behind the cells of all agents."""
    item, other = columns["item"], columns["item"]
    if (apart := columns["arm"] == INDEPENDENT).any():
        other = np.where(apart, columns["other_item"], item)
    J = np.int64(plan.n_items)
    first, second = columns["first"], columns["second"]
    if "first_repeat" in columns:
        first = first + (columns["first_repeat"] - 1) * plan.n_agents
        second = second + (columns["second_repeat"] - 1) * plan.n_agents
    return first * J + item, second * J + other


def repeats_of(code: Positions) -> Repeats:
    """From the codes of a run's trials, in the order of its rows."""
    n_parts = 1 << (len(code) // AT_ONCE).bit_length()
    differ = np.zeros(len(code), dtype=np.bool_)
    again, turned = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for part in range(n_parts):
        rows = np.concatenate(
            [
                start + np.flatnonzero((some >= 0) & (some >> 2 & n_parts - 1 == part))
                for start in range(0, len(code), AT_ONCE)
                for some in [code[start : start + AT_ONCE]]
            ]
            or [np.empty(0, dtype=np.int64)]
        )
        rows = rows[np.argsort(code[rows] >> 1, kind="stable")]
        asked, yes = code[rows] >> 1, code[rows] & 1
        again += _counted(asked[1:] == asked[:-1], yes[1:] == yes[:-1])
        once = np.flatnonzero(np.diff(asked, prepend=-1))
        asked_once, yes_once = asked[once], yes[once]
        turned += _counted(asked_once[1:] == (asked_once[:-1] | 1), yes_once[1:] == yes_once[:-1])
        texts = np.flatnonzero(np.diff(asked >> 1, prepend=-1))
        n = np.diff(texts, append=len(rows))
        n_yes = np.add.reduceat(yes, texts) if len(texts) else n
        differ[rows[np.repeat((n_yes > 0) & (n_yes < n), n)]] = True
    return Repeats(_alike(again), _alike(turned), differ)


def _alike(found: Positions) -> AnswerAgreement | None:
    n, n_same = found.tolist()
    return AnswerAgreement(n, n_same) if n else None


def _counted(of: Bools, same: Bools) -> tuple[int, int]:
    return int(of.sum()), int((of & same).sum())
