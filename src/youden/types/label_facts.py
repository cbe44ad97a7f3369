"""Records in `labels.json` and `quality.json`: agreement of a ranking with labels, quality estimated from labels.

They hold only plain values, so that JSON has the same structure as the classes. No ranking depends on a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from youden.types.columns import Meaning


@dataclass(frozen=True)
class Agreement:
    """Measure of agreement with its confidence interval."""

    value: float | None
    """Value of the measure; None if it cannot be computed."""
    low: float | None
    """Lower confidence bound; None if it cannot be computed."""
    high: float | None
    """Upper confidence bound; None if it cannot be computed."""
    method: str
    """Method of the interval, or the reason why there is none."""


@dataclass(frozen=True)
class Disagreement:
    """Agent whose ranks by label and by ability differ; ranks are among the labeled agents, and 1 is best."""

    agent: str
    """Id of the agent."""
    label: float
    """Label of the agent, or its mean label over items."""
    ability: float
    """Ability of the agent."""
    label_low: int
    """Best rank that is compatible with the labels: with ties, and with differences of mean labels that are
    not significant."""
    label_high: int
    """Worst rank that is compatible with the labels."""
    rank: int
    """Rank by ability."""
    rank_low: int
    """Best rank that is compatible with the abilities and their intervals."""
    rank_high: int
    """Worst rank that is compatible with the abilities and their intervals."""
    gap: int
    """Number of ranks between `rank` and the nearest rank by label."""
    explained: bool
    """Whether the two ranges of compatible ranks overlap."""


@dataclass(frozen=True)
class CellAgreement:
    """Spearman correlation of the scores and the labels of cells (one agent on one item each)."""

    n_cells: int
    """Number of cells with a score and a label."""
    n_items: int
    """Number of items of which `within_item` is the mean."""
    overall: Agreement
    """Correlation over all cells."""
    within_item: Agreement
    """Mean over items of the correlation among the agents on one item."""


@dataclass(frozen=True)
class LabelFacts:
    """Agreement of the ranking with one label."""

    name: str
    """Column of the label."""
    n_agents: int
    """Number of agents with an ability and a label."""
    spearman: Agreement
    """Spearman correlation of abilities and labels."""
    kendall: Agreement
    """Kendall's τ-b of abilities and labels."""
    auc: Agreement | None
    """Probability that an agent labeled 1 ranks above one labeled 0; None unless all labels are 0 or 1."""
    n_positive: int | None
    """Number of agents labeled 1; None unless all labels are 0 or 1."""
    cells: CellAgreement | None
    """Agreement of cells; None if only agents are labeled."""
    disagreements: tuple[Disagreement, ...]
    """Agents with the largest gaps between their ranks, largest first."""
    n_unexplained: int
    """Number of agents whose two ranges of compatible ranks do not overlap."""
    summary: tuple[str, ...]
    """Sentences that summarize the agreement."""


@dataclass(frozen=True)
class Validation:
    """Contents of `labels.json`."""

    version: int
    """Version of the file format."""
    tables_digest: str
    """Digest of the ranking and the scores that were compared."""
    source: str
    """Path of the table of labels."""
    source_digest: str
    """Digest of that table."""
    level: float
    """Confidence level of all intervals."""
    labels: tuple[LabelFacts, ...]
    """One record per label."""
    notes: tuple[str, ...]
    """Remarks, such as on agents that are missing in the table."""


@dataclass(frozen=True)
class QualityRow:
    """Row of `quality.csv`: the estimated mean label of one agent, in the unit of the labels.

    The annotations describe the columns; rows are sorted by quality, best first.
    """

    agent: Annotated[str, Meaning("id of the agent")]
    n_labels: Annotated[int, Meaning("number of its labeled responses", heading="labels")]
    label_mean: Annotated[float | None, Meaning("mean of its labels; empty if it has none", heading="label mean")]
    quality: Annotated[
        float | None,
        Meaning("mean label, estimated from labels and ability; empty if neither determines it"),
    ]
    low: Annotated[float | None, Meaning("lower bound of the 95% interval of the quality")]
    high: Annotated[float | None, Meaning("upper bound of the 95% interval of the quality")]
    label_weight: Annotated[
        float,
        Meaning(
            "approximate weight of its own labels in the estimate: their number (for grades, their effective number), divided by "
            "this number plus the number of labels that the prediction is worth",
            heading="label weight",
        ),
    ]
    rank: Annotated[int | None, Meaning("rank by quality")]
    p_best: Annotated[float, Meaning("probability of being the best")]
    predicted: Annotated[
        float | None,
        Meaning(
            "quality predicted from ability and the labels of others, averaged over all slopes of the regression, also if its "
            "median slope, which determines the quality, is 0; empty without a regression"
        ),
    ]
    outlier: Annotated[int, Meaning("1 if its labels deviate from the prediction, so that it is worth reading")]


@dataclass(frozen=True)
class QualityLine:
    """Logistic regression of quality on ability, averaged over three monotone forms of ability."""

    slope: float
    """Posterior median of the slope: change of logit quality per standard deviation of (transformed) ability."""
    low: float
    """Lower bound of the interval of the slope."""
    high: float
    """Upper bound of the interval of the slope."""
    p_zero_slope: float
    """Posterior probability that the slope is 0, so that ability does not predict quality."""
    r2: float
    """Fraction of the variance of logit quality that ability explains, among agents that follow the regression."""
    equivalent_labels: int
    """Equivalent number of labels: how many a direct estimate would need for the same precision."""
    curve: tuple[tuple[float, float], ...] = ()
    """Points (ability, predicted quality) of the regression, with labels rescaled to [0, 1]."""


@dataclass(frozen=True)
class QualityFacts:
    """Contents of `quality.json`."""

    version: int
    """Version of the file format."""
    tables_digest: str
    """Digest of the ranking and the scores that provide the abilities."""
    sources: tuple[str, ...]
    """Paths of the tables of labels, or "DataFrame"."""
    label: str
    """Column of the label."""
    scale: tuple[float, float]
    """Lowest and highest possible label."""
    level: float
    """Confidence level of all intervals."""
    n_labels: int
    """Number of labeled responses."""
    best: str
    """Agent with the highest quality."""
    regret_bound: float
    """Regret bound: no other agent has a higher quality than `best` by more than this, at `level`."""
    regression: QualityLine | None
    """Regression of quality on ability; None if fewer than five agents have labels."""
    item_variance_share: float
    """Fraction of the variance of the labels that the items explain."""
    summary: tuple[str, ...]
    """Sentences that summarize the result."""
    agents: tuple[QualityRow, ...]
    """One row per agent, best first."""
    notes: tuple[str, ...] = ()
    """Remarks, such as on labeled agents that are not in the run."""

    @property
    def tie(self) -> str:
        """Remark on the other agents that have the highest quality, in parentheses after a space; empty if there are none."""
        n_others = sum(row.rank == 1 for row in self.agents) - 1
        if n_others < 1:
            return ""
        return " (1 other agent has the same)" if n_others == 1 else f" ({n_others} other agents have the same)"
