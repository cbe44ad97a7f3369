"""Results computed from verdicts: rates, scores, curl curves, variance components and the signature of a run.

Cells without data are NaN, so that a missing answer never counts as 0.
"""

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
"""Scores from one order of the two responses, or the mean over both orders."""
ScoreRole = Literal["train", "holdout"]
"""Scores to which an estimator is fitted, or scores of held-out cells."""
ABOUT: dict[Target, str] = {
    "items-like-these": "more items like these",
    "these-items": "these items alone, if this judge answered every comparison once",
    "items-and-judges": "more items like these, by more judges like these",
}
"""Target → the population that intervals refer to, as part of a sentence."""


@dataclass(frozen=True, eq=False)
class IndependentRates(ReadOnly):
    """Answers to the independent trials of a plan, one row per (item, first, second, other_item).

    Raises
    ------
    StatisticsError
        [rates-length]: if the columns have different lengths.
    """

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


def _check_lengths(columns: Mapping[str, object], subject: str) -> None:
    """Raise StatisticsError [rates-length] unless all arrays have the same length."""
    lengths = {name: len(column) for name, column in columns.items() if isinstance(column, np.ndarray)}
    if len(set(lengths.values())) > 1:
        raise StatisticsError(
            f"The columns of {subject} must have one length: got {lengths}. Pass one value per row in each column.",
            slug="rates-length",
        )


@dataclass(frozen=True, eq=False)
class Rates(ReadOnly):
    """True- and false-positive rates of ordered pairs of agents on items, one row per compared pair and item.

    Raises
    ------
    StatisticsError
        [split-shape]: if the split is missing or its shape is not agents × items; [rates-length]: if the columns have
        different lengths; [rates-ids]: if a position exceeds the ids.
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
    """int32 (n_rows,), number of answered paired trials."""
    n_independent: Ids
    """int32 (n_rows,), number of answered independent trials."""
    n_missing: Ids
    """int32 (n_rows,), number of trials of either type without an answer."""
    independent: IndependentRule
    """`matched`: D = TPR − FPR of the pair; `pooled`: D = TPR − FPR over all independent trials."""
    agent_ids: tuple[str, ...]
    """Ids of the agents, by position."""
    item_ids: tuple[str, ...]
    """Ids of the items, by position."""
    split: Split
    """Training and held-out cells; training scores always exclude the held-out cells."""
    detail: IndependentRates | None = None
    """Independent trials by their other item; None if it was not recorded, as in imported data."""

    def __post_init__(self) -> None:
        split_shape = getattr(getattr(self.split, "train", None), "shape", None)
        if split_shape != (self.n_agents, self.n_items):
            raise StatisticsError(
                f"The split does not fit the rates: got {split_shape} for {self.n_agents} agents × {self.n_items} items. "
                "Pass the split of the plan that these rates come from, or Split.without_holdout(shape).",
                slug="split-shape",
            )
        _check_lengths(vars(self), "rates")
        self._check_positions(self.first, self.n_agents)
        self._check_positions(self.second, self.n_agents)
        self._check_positions(self.item, self.n_items)
        super().__post_init__()

    def _check_positions(self, column: Ids, n_positions: int) -> None:
        """Raise StatisticsError [rates-ids] unless all positions in a column are below `n_positions`."""
        if column.max(initial=-1) >= n_positions:
            raise StatisticsError(
                f"The rows of the rates do not fit their ids: got the position {column.max()} for {self.n_agents} agents × "
                f"{self.n_items} items. Pass the ids of the plan that these rates come from.",
                slug="rates-ids",
            )

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return len(self.agent_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.item)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of ids and rates, without `detail`."""
        header = json.dumps([self.agent_ids, self.item_ids, self.independent])
        hasher = hashlib.sha256(header.encode())
        for column in (self.item, self.first, self.second, self.tpr, self.fpr, self.n_paired, self.n_independent):
            hasher.update(np.ascontiguousarray(column).tobytes())
        return hasher.hexdigest()

    def training_scores(self, *, kind: ScoreKind = "symmetric") -> Scores:
        """Compute training scores, with NaN for the held-out cells of the split.

        Parameters
        ----------
        kind : {"symmetric", "row"}, default "symmetric"
            Comparisons of which a score is the mean. "row": those in which the judge reads the agent's response first;
            "symmetric": those in both orders.

        Returns
        -------
        Scores
            `value`, float array (n_agents, n_items) in [−1, 1], NaN for a cell that is unobserved or held out;
            `weight`, of the same shape, the number of answered paired trials of each cell.

        Raises
        ------
        StatisticsError
            [score-kind]: if `kind` is neither of the two.

        Notes
        -----
        D[j, i, k] is TPR − FPR, or TPR − the pooled FPR, of the pair (i, k) on item j, where the judge reads the
        response of i first. The row score of agent i on item j is the mean of D[j, i, k] over its partners k. The
        symmetric score is the mean of D[j, i, k] and D[j, k, i] over its partners.

        The rule `strict` of the split excludes every trial that contains a text of a held-out cell. The rule `paper`
        excludes only those trials whose first text belongs to a held-out cell, as the paper does.

        References
        ----------
        The paper's appendix "TVD-MI Score Construction"; the rule `strict` is ours.

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

        These scores are only for evaluation: estimators refuse them.

        Parameters
        ----------
        kind : {"symmetric", "row"}, default "symmetric"
            Comparisons of which a score is the mean. "row": those in which the judge reads the agent's response first;
            "symmetric": those in both orders. The notes of `training_scores` give the formula.

        Returns
        -------
        Scores
            `value`, float array (n_agents, n_items) in [−1, 1], NaN for every cell that is not held out; `weight`, of
            the same shape, the number of answered paired trials of each cell.

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

    `cells` stores only the cells that have a score; `value` and `weight` are the same data as matrices.

    Raises
    ------
    StatisticsError
        [scores-ids]: if the shape of the cells is not agents × items.
    """

    cells: ScoredCells
    """Cells that have a score, with scores in [−1, 1] and the number of answered paired trials as weight."""
    role: ScoreRole
    """`train` or `holdout`; estimators refuse scores of held-out cells."""
    kind: ScoreKind
    """`row` (one order of the two responses) or `symmetric` (mean over both orders)."""
    agent_ids: tuple[str, ...]
    """Ids of the agents, by row."""
    item_ids: tuple[str, ...]
    """Ids of the items, by column."""

    def __post_init__(self) -> None:
        shape = self.cells.cell_index.n_agents, self.cells.cell_index.n_items
        n_agents, n_items = len(self.agent_ids), len(self.item_ids)
        if shape != (n_agents, n_items):
            raise StatisticsError(
                f"The scores do not fit their ids: got the shape {shape} for {n_agents} agents and "
                f"{n_items} items. Pass one row per agent and one column per item.",
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
        """Create scores from matrices. The values in the matrices are not checked.

        Parameters
        ----------
        value : float array (n_agents, n_items)
            Score of each cell (the response of an agent to an item), in [−1, 1]; NaN for a cell without a score.
        weight : float array (n_agents, n_items)
            Number of answered paired trials of each cell with a score, greater than 0. Other elements are ignored.
        role : {"train", "holdout"}
            Whether the scores are for training or held out.
        kind : {"row", "symmetric"}
            Trials from which the scores were computed. "row": only trials in which the agent's response comes first. "symmetric":
            trials in both orders.
        agent_ids, item_ids : tuple of str
            Ids of the agents, by row, and of the items, by column.

        Returns
        -------
        Scores
            The cells that have a score.

        Raises
        ------
        StatisticsError
            [weights-shape]: if `weight` has another shape than `value`; [scores-ids]: if the ids do not fit the shape.
        """
        if weight.shape != value.shape:
            raise StatisticsError(
                f"The weights do not fit the scores: got the shape {weight.shape} for {value.shape}. Pass one weight per score.",
                slug="weights-shape",
            )
        has_score = ~np.isnan(value)
        index = CellIndex.from_mask(has_score)
        cells = ScoredCells(index, value[index.agent, index.item], weight[index.agent, index.item])
        return cls(cells, role, kind, agent_ids, item_ids)

    @cached_property
    def value(self) -> Floats:
        """Score of each cell: float array (n_agents, n_items) in [−1, 1]; NaN if unobserved or excluded by the split."""
        return self._to_matrix(self.cells.value, np.nan)

    @cached_property
    def weight(self) -> Floats:
        """Number of answered paired trials of a cell: float array (n_agents, n_items); 0 if it is unobserved."""
        return self._to_matrix(self.cells.weight, 0.0)

    def _to_matrix(self, column: Floats, empty: float) -> Floats:
        """Arrange a value of each scored cell as a read-only float array (n_agents, n_items), with `empty` elsewhere."""
        matrix = self.cells.cell_index.to_matrix(column, empty=empty)
        freeze([matrix])
        return matrix


@dataclass(frozen=True, eq=False)
class CurlCurve(ReadOnly):
    """Distribution of the curl |Δ|, which shows how far the scores are from additive on one link.

    A link is a transformation of the scores. A rectangle is the four scores of two agents on two items. Its Δ is the
    interaction of agents and items; it is 0 if the transformed scores are a sum of ability and difficulty.
    """

    link: str
    """Name of the link."""
    x: Floats
    """float (n_points,), values of |Δ|, in the unit of the link."""
    share: Floats
    """float (n_points,), fraction of rectangles with |Δ| ≤ x."""
    std_error: Floats
    """float (n_points,), standard errors of `share`; 0 if all rectangles were measured."""
    sd: float
    """Standard deviation of the scores on the scale of the link."""


class Part(NamedTuple):
    """Variance component with its 95% confidence interval."""

    value: float
    """Estimate."""
    low: float
    """Lower confidence bound."""
    high: float
    """Upper confidence bound."""

    def times(self, factor: float) -> Part:
        """Multiply the estimate and its bounds by a positive factor, for example to convert the unit."""
        return Part(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class ComponentFacts:
    """Source of variance of an ability, and what doubling it would achieve."""

    name: str
    """Name for display."""
    ability_variance: Part | None
    """Its component in the variance of an agent's distance from the average ability; None if it was not measured."""
    measure_command: str = ""
    """Command that measures it, with `RUN` for the path of the run, if it was not measured."""
    in_interval: bool = True
    """Whether the intervals of the ranking include this component."""
    width_change_if_doubled: float | None = None
    """Relative change of the width of an interval if twice as much were collected; None if nothing can be doubled."""


@dataclass(frozen=True)
class VarianceFacts:
    """Contents of `variance_components.json`: the variance components of abilities."""

    run: str
    """Name of the run."""
    n_items: int
    """Number of items."""
    components: tuple[ComponentFacts, ...]
    """Sources of variance."""
    std_error: float
    """Standard error of an agent's distance from the average ability, from the components that the intervals include."""
    difference_std_error: float
    """Standard error of the difference of two abilities."""
    between_agent_variance: float
    """Variance of the abilities between agents, without estimation error."""
    summary: str
    """Sentence that names the most useful next step."""
    version: int = 2
    """Version of the file format."""

    def list_unknown(self, run: str) -> list[str]:
        """Return one line per component that was not measured, with the command that measures it.

        Parameters
        ----------
        run : str
            Path of the run as a word of a command, which replaces `RUN` in the commands.

        Returns
        -------
        list of str
            The lines.
        """
        unknown_parts = [part for part in self.components if part.ability_variance is None]
        return [
            f"Unknown: {part.name}. To measure it: {part.measure_command.replace('RUN', run)}" for part in unknown_parts
        ]


@dataclass(frozen=True)
class Signature:
    """All inputs of a result. Results with the same signature were computed in the same way from the same input."""

    parts: Mapping[str, Json]
    """Name → value of each input."""

    @property
    def text(self) -> str:
        """The signature as one line, such as `youden:0.3.0|pool:…|design:…|…|sha:…`."""
        fields = [
            f"{name}:{value}" for name, value in self.parts.items() if isinstance(value, str | int | float | bool)
        ]
        fields.append(f"sha:{self.digest[:10]}")
        return "|".join(fields)

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the canonical JSON of all parts."""
        canonical = json.dumps(self.parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
