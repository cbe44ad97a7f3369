"""What is made from verdicts: rates, scores, a fit, and the signature printed beside every number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.types.cells import CellIndex, ScoredCells
from youden.types.planning import IndependentRule, Split
from youden.types.pool import Floats, Ids, Json, ReadOnly, freeze

ScoreKind = Literal["row", "symmetric"]
ScoreRole = Literal["train", "holdout"]
ABOUT: dict[Target, str] = {
    "items-like-these": "more items like these",
    "these-items": "these items alone, as if every comparison had been asked this judge once",
    "items-and-judges": "more items like these, by more judges like these",
}
"""What a target is about, to be put into a sentence."""


@dataclass(frozen=True, eq=False)
class IndependentRates(ReadOnly):
    """Independent trials of a plan: one row per (item, first, second, other_item)."""

    item: Ids
    """int32 (n_rows,), item of the first text."""
    first: Ids
    """int32 (n_rows,), agent of the first text."""
    second: Ids
    """int32 (n_rows,), agent of the second text."""
    other_item: Ids
    """int32 (n_rows,), item of the second text."""
    total: Floats
    """float (n_rows,), sum of the answers."""
    n: Ids
    """int32 (n_rows,), number of answers."""

    def __post_init__(self) -> None:
        _check_lengths(vars(self), "independent rates")
        super().__post_init__()


def _check_lengths(columns: Mapping[str, object], noun: str) -> None:
    """Raise StatisticsError [rates-length] unless all arrays have the same length."""
    lengths = {name: len(column) for name, column in columns.items() if isinstance(column, np.ndarray)}
    if len(set(lengths.values())) > 1:
        raise StatisticsError(
            f"The columns of {noun} must have one length: got {lengths}. Pass one value per row in each column.",
            slug="rates-length",
        )


@dataclass(frozen=True, eq=False)
class Rates(ReadOnly):
    """True- and false-positive rates of ordered pairs of agents on items: one row per pair that was compared on an item.

    Raises: StatisticsError [split-shape] if the split is missing or has another shape than agents × items; [rates-length],
    [rates-ids].
    """

    item: Ids
    """int32 (n_rows,), position of the item."""
    first: Ids
    """int32 (n_rows,), agent whose text the judge reads first."""
    second: Ids
    """int32 (n_rows,), agent of the second text."""
    tpr: Floats
    """float (n_rows,) in [0, 1], mean answer of the paired trials; NaN if none was answered."""
    fpr: Floats
    """float (n_rows,) in [0, 1], mean answer of the independent trials; NaN if none was answered."""
    n_paired: Ids
    """int32 (n_rows,), answered paired trials."""
    n_independent: Ids
    """int32 (n_rows,), answered independent trials."""
    n_missing: Ids
    """int32 (n_rows,), trials of either type without an answer."""
    independent: IndependentRule
    """`twin`: D = TPR − FPR of the pair; `pooled`: D = TPR − one rate of all independent trials."""
    agent_ids: tuple[str, ...]
    """Ids of the agents, by position."""
    item_ids: tuple[str, ...]
    """Ids of the items, by position."""
    split: Split
    """The held-out cells; training scores always leave them out."""
    detail: IndependentRates | None = None
    """The independent trials by their other item; None if it was not recorded, as in imported data."""

    def __post_init__(self) -> None:
        shape = (self.n_agents, self.n_items)
        split_shape = getattr(getattr(self.split, "train", None), "shape", None)
        if split_shape != shape:
            raise StatisticsError(
                f"The split does not fit the rates: got {split_shape} for {shape[0]} agents × {shape[1]} items. "
                "Pass the split of the plan that these rates come from; Split.whole(shape) holds nothing out.",
                slug="split-shape",
            )
        _check_lengths(vars(self), "rates")
        for side, n in ((self.first, shape[0]), (self.second, shape[0]), (self.item, shape[1])):
            if side.max(initial=-1) >= n:
                raise StatisticsError(
                    f"The rows of the rates do not fit their ids: got the position {side.max()} for {shape[0]} agents × "
                    f"{shape[1]} items. Pass the ids of the plan that these rates come from.",
                    slug="rates-ids",
                )
        super().__post_init__()

    @property
    def n_agents(self) -> int:
        return len(self.agent_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.item)

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over ids and rates, but not `detail`."""
        hasher = hashlib.sha256(json.dumps([self.agent_ids, self.item_ids, self.independent]).encode())
        for column in (self.item, self.first, self.second, self.tpr, self.fpr, self.n_paired, self.n_independent):
            hasher.update(np.ascontiguousarray(column).tobytes())
        return hasher.hexdigest()

    def training_scores(self, *, kind: ScoreKind = "symmetric") -> Scores:
        """Compute training scores, with NaN for the held-out cells of the split.

        Parameters
        ----------
        kind : {"symmetric", "row"}, default "symmetric"
            `row`: mean over partners k of D[j, i, k]; `symmetric`: mean over k of D[j, i, k] and D[j, k, i].

        Returns
        -------
        Scores
            `value`, float array (n_agents, n_items) in [−1, 1], NaN for a cell that was not seen or is held out; `weight`,
            of the same shape, the number of answered paired trials behind each cell.

        Raises
        ------
        StatisticsError
            [score-kind]: if `kind` is neither of the two.

        Notes
        -----
        D[j, i, k] is TPR − FPR, or TPR − the pooled FPR, of the pair (i, k) on item j, where the judge reads the
        response of i first. The rule `shared` excludes every trial, paired or independent,
        that touches a held-out cell with either text; the rule `own` (the paper's) excludes only trials that are scored for a
        held-out cell, that is, whose first text is that cell.

        References
        ----------
        The paper's appendix "TVD-MI Score Construction"; the rule `shared` is ours.

        Examples
        --------
        >>> import youden
        >>> pool = youden.read_pool("datasets/field-notes")
        >>> plan = youden.make_plan(pool, design="nlogn", holdout=0.2)
        >>> scores = youden.judge(plan).rates().training_scores()
        >>> scores.value.shape, scores.role
        ((12, 32), 'train')
        """
        from youden.protocol.scores import training_scores

        return training_scores(self, kind=kind)

    def holdout_scores(self, *, kind: ScoreKind = "symmetric") -> Scores:
        """Compute scores of the held-out cells from all their trials.

        Every other cell is NaN. These scores are only for evaluation: no estimator may be fitted to them.

        Parameters
        ----------
        kind : {"symmetric", "row"}, default "symmetric"
            As in `training_scores`.

        Returns
        -------
        Scores
            As `training_scores` returns them, with the role "holdout".

        Raises
        ------
        StatisticsError
            [score-kind]: if `kind` is neither of the two.

        Examples
        --------
        >>> import numpy as np
        >>> import youden
        >>> pool = youden.read_pool("datasets/field-notes")
        >>> plan = youden.make_plan(pool, design="nlogn", holdout=0.2)
        >>> scores = youden.judge(plan).rates().holdout_scores()
        >>> int(np.isfinite(scores.value).sum()) == int(plan.split.holdout.sum())
        True
        """
        from youden.protocol.scores import holdout_scores

        return holdout_scores(self, kind=kind)


@dataclass(frozen=True, eq=False)
class Scores(ReadOnly):
    """Scores of agents on items, as columns of the cells that have one; `value` and `weight` are the same as matrices.

    Raises: StatisticsError [scores-ids] if cells and ids do not fit each other.
    """

    cells: ScoredCells
    """Cells that have a score in [−1, 1], and the number of answered paired trials behind each."""
    role: ScoreRole
    """`train` or `holdout`: estimators refuse scores of held-out cells."""
    kind: ScoreKind
    """`row` or `symmetric`, see `Rates.training_scores`."""
    agent_ids: tuple[str, ...]
    """Ids of the agents, by row."""
    item_ids: tuple[str, ...]
    """Ids of the items, by column."""

    def __post_init__(self) -> None:
        shape = self.cells.at.n_agents, self.cells.at.n_items
        if shape != (len(self.agent_ids), len(self.item_ids)):
            raise StatisticsError(
                f"The scores do not fit their ids: got the shape {shape} for {len(self.agent_ids)} agents and "
                f"{len(self.item_ids)} items. Pass one row per agent and one column per item.",
                slug="scores-ids",
            )
        freeze([self.cells.value, self.cells.weight])

    @classmethod
    def from_matrices(
        cls,
        value: Floats,
        weight: Floats,
        *,
        role: ScoreRole,
        kind: ScoreKind,
        agent_ids: tuple[str, ...],
        item_ids: tuple[str, ...],
    ) -> Scores:
        """Make scores from two matrices, float (n_agents, n_items); NaN in `value` is a cell without a score.

        Raises: StatisticsError [weights-shape], [scores-ids].
        """
        if weight.shape != value.shape:
            raise StatisticsError(
                f"The weights do not fit the scores: got the shape {weight.shape} for {value.shape}. Pass one weight per score.",
                slug="weights-shape",
            )
        at = CellIndex.of(~np.isnan(value))
        cells = ScoredCells(at, value[at.agent, at.item], weight[at.agent, at.item])
        return cls(cells, role, kind, agent_ids, item_ids)

    @cached_property
    def value(self) -> Floats:
        """float (n_agents, n_items) in [−1, 1]; NaN for a cell that was not seen or that the split excludes."""
        return self._matrix(self.cells.value, np.nan)

    @cached_property
    def weight(self) -> Floats:
        """float (n_agents, n_items), answered paired trials of a cell; 0 if it was not seen."""
        return self._matrix(self.cells.weight, 0.0)

    def _matrix(self, column: Floats, empty: float) -> Floats:
        matrix = self.cells.at.matrix(column, empty=empty)
        freeze([matrix])
        return matrix


@dataclass(frozen=True, eq=False)
class CurlCurve(ReadOnly):
    """Fraction of rectangles with |Δ| ≤ x, on one link."""

    link: str
    """Name of the link."""
    x: Floats
    """float (n,), in the link's unit."""
    share: Floats
    """float (n,), the fraction."""
    error: Floats
    """float (n,), standard errors of the fraction; 0 if all rectangles were measured."""
    sd: float
    """Standard deviation of the scores on the link's scale."""


class Part(NamedTuple):
    """A variance, with its interval at 95 %; of an answer, or of what it comes to in an ability."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Part:
        """The same in other units."""
        return Part(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class MovingPart:
    """name, in words. of_ability: what it comes to in the variance of an agent's distance from the average; None: not measured,
    then `measure` is the command that measures it. in_interval: whether the ranking's interval holds it. doubled: what twice of
    it would make of the interval's width, as a share; None where nothing can be doubled."""

    name: str
    of_ability: Part | None
    measure: str = ""
    in_interval: bool = True
    doubled: float | None = None


@dataclass(frozen=True)
class WhatMoves:
    """The whole of `moves.json`: what moves a ranking. error: of an agent's distance from the average, by the parts that its
    interval holds; of_difference: of two agents'. between: variance of abilities between agents, beyond error. sentence: what to
    do."""

    run: str
    n_items: int
    parts: tuple[MovingPart, ...]
    error: float
    of_difference: float
    between: float
    sentence: str
    version: int = 1

    @property
    def unknown(self) -> list[str]:
        """A line for each part that was not measured: what measures it."""
        return [
            f"Unknown: {part.name}. To measure it: {part.measure}" for part in self.parts if part.of_ability is None
        ]


@dataclass(frozen=True)
class Signature:
    """Everything a number depends on. Two results with the same signature were made the same way from the same input."""

    parts: Mapping[str, Json]

    @property
    def text(self) -> str:
        """One line: `youden:0.2.0|pool:…|design:…|…|sha:…`."""
        shown = [f"{name}:{value}" for name, value in self.parts.items() if isinstance(value, str | int | float | bool)]
        return "|".join([*shown, f"sha:{self.digest[:10]}"])

    @property
    def digest(self) -> str:
        """sha256 (hex) of the canonical JSON."""
        return hashlib.sha256(json.dumps(self.parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
