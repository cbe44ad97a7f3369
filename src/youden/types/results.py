"""What is made from verdicts: rates, scores, a fit, and the signature printed beside every number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

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
    """The independent arm apart: one row a (item, first, second, other_item).

    item, first, second, other_item: int32[M]; total: float[M], the sum of answers; n: int32[M], how many answered.
    """

    item: Ids
    first: Ids
    second: Ids
    other_item: Ids
    total: Floats
    n: Ids

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
    """True- and false-positive rates of ordered pairs on items, sparse: one row a pair that was asked.

    item, first, second: int32[M].
    tpr, fpr: float[M] in [0, 1]; NaN where no call of that arm answered.
    n_paired, n_independent: int32[M], calls that answered; n_missing: int32[M], calls of either arm that did not.
    independent: `twin`: D = TPR − the pair's own FPR; `pooled`: D = TPR − one rate over all independent calls.
    split: the held-out cells; training scores always leave these out.
    detail: the independent arm by other item, None where it was not recorded (imported data).

    Raises: StatisticsError [split-shape] if the split is missing or has another shape than agents × items; [rates-length],
    [rates-ids].
    """

    item: Ids
    first: Ids
    second: Ids
    tpr: Floats
    fpr: Floats
    n_paired: Ids
    n_independent: Ids
    n_missing: Ids
    independent: IndependentRule
    agent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    split: Split
    detail: IndependentRates | None = None

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
            of the same shape, the number of answers behind each cell.

        Raises
        ------
        StatisticsError
            [score-kind]: if `kind` is neither of the two.

        Notes
        -----
        D = TPR − FPR of the pair, or TPR − the pooled FPR. The rule `shared` excludes every trial, paired or independent,
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
    """Scores of agents on items.

    value: float[K, J] in [−1, 1]; NaN is unseen (or kept out by the split).
    weight: float[K, J], answered paired trials behind a cell; 0 where unseen.
    cells: the same as columns, of the cells that have a value. Scores of `of_cells` have matrices only once they are asked for.

    Raises: StatisticsError [scores-ids], [weights-shape] if matrices and ids do not fit each other.
    """

    value: Floats
    weight: Floats
    role: ScoreRole
    kind: ScoreKind
    agent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        self._check_ids(self.value.shape)
        if self.weight.shape != self.value.shape:
            raise StatisticsError(
                f"The weights do not fit the scores: got the shape {self.weight.shape} for {self.value.shape}. "
                "Pass one weight per score.",
                slug="weights-shape",
            )
        super().__post_init__()

    def _check_ids(self, shape: tuple[int, ...]) -> None:
        if shape != (len(self.agent_ids), len(self.item_ids)):
            raise StatisticsError(
                f"The scores do not fit their ids: got the shape {shape} for {len(self.agent_ids)} agents and "
                f"{len(self.item_ids)} items. Pass one row per agent and one column per item.",
                slug="scores-ids",
            )

    @classmethod
    def of_cells(
        cls,
        cells: ScoredCells,
        *,
        role: ScoreRole,
        kind: ScoreKind,
        agent_ids: tuple[str, ...],
        item_ids: tuple[str, ...],
    ) -> Scores:
        """Scores that are known as columns."""
        freeze([cells.value, cells.weight])
        made = object.__new__(cls)
        made.__dict__.update(cells=cells, role=role, kind=kind, agent_ids=agent_ids, item_ids=item_ids)
        made._check_ids((cells.at.n_agents, cells.at.n_items))
        return made

    @cached_property
    def cells(self) -> ScoredCells:
        at = CellIndex.of(~np.isnan(self.value))
        return ScoredCells(at, self.value[at.agent, at.item], self.weight[at.agent, at.item])

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Floats:
            """A matrix that is not made yet."""
            if name not in ("value", "weight") or "cells" not in self.__dict__:
                raise AttributeError(f"Scores have no {name}.")
            empty = np.nan if name == "value" else 0.0
            made = self.cells.at.matrix(getattr(self.cells, name), empty=empty)
            freeze([made])
            self.__dict__[name] = made
            return made


@dataclass(frozen=True, eq=False)
class CurlCurve(ReadOnly):
    """Share of rectangles with |Δ| at most x, on one link.

    x: float[n] in the link's unit; share: float[n]; error: float[n], standard errors, 0 where all rectangles were taken; sd: of
    the scores on the link's scale.
    """

    link: str
    x: Floats
    share: Floats
    error: Floats
    sd: float


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
