"""What a run's `labels.json` and `quality.json` say, as plain facts: how far its ranking agrees with labels that no fit has seen,
and what few labels and ability together say of its agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from youden.types.columns import Meaning


@dataclass(frozen=True)
class Agreement:
    """A figure and its interval; None where it cannot be given, and `method` says how or why not."""

    value: float | None
    low: float | None
    high: float | None
    method: str


@dataclass(frozen=True)
class Disagreement:
    """An agent whose places by label and by ability differ, both among the labelled agents, 1 is best.

    label_low, label_high: the places its label allows: more than one where labels tie or, as means over items, are not told
    apart. rank_low, rank_high: those its ability allows, by the agents it is told apart from; place: by ability alone.
    gap: places between it and the nearest by label alone. explained: whether the two ranges meet.
    """

    agent: str
    label: float
    ability: float
    label_low: int
    label_high: int
    place: int
    rank_low: int
    rank_high: int
    gap: int
    explained: bool


@dataclass(frozen=True)
class CellAgreement:
    """Scores of cells against labels of cells: ρ over all of them, and the mean ρ of agents within items."""

    n_cells: int
    n_items: int
    overall: Agreement
    within: Agreement


@dataclass(frozen=True)
class LabelFacts:
    """One label against the ranking of the `n_agents` that have both.

    auc: P(an agent labelled 1 ranks above one labelled 0), None unless all labels are 0 or 1; n_positive: labelled 1.
    cells: None for labels of agents alone. n_unexplained: how many of all that differ no
    interval explains; disagreements: those with the widest gap.
    """

    name: str
    n_agents: int
    spearman: Agreement
    kendall: Agreement
    auc: Agreement | None
    n_positive: int | None
    cells: CellAgreement | None
    disagreements: tuple[Disagreement, ...]
    n_unexplained: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Validation:
    """The whole of `labels.json`. tables: digest of the ranking and scores it is about; level: of every interval."""

    version: int
    tables: str
    source: str
    source_digest: str
    level: float
    labels: tuple[LabelFacts, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class QualityRow:
    """One line of `quality.csv`: what a label would say of an agent on average, in the labels' units, best first."""

    agent: Annotated[str, Meaning("the agent")]
    n_labels: Annotated[int, Meaning("its labelled answers", heading="labels")]
    label_mean: Annotated[float | None, Meaning("their mean; empty without any", heading="label mean")]
    quality: Annotated[
        float | None,
        Meaning("the same from labels and ability together; empty where labels alone speak and it has none"),
    ]
    low: Annotated[float | None, Meaning("lower end of the 95 % interval")]
    high: Annotated[float | None, Meaning("upper end of the 95 % interval")]
    label_share: Annotated[
        float, Meaning("the weight of its own labels in that, between 0 and 1", heading="labels' share")
    ]
    place: Annotated[int | None, Meaning("its place by quality")]
    best: Annotated[float, Meaning("the probability that it is the best")]
    expected: Annotated[
        float | None, Meaning("what ability and the other agents' labels let one expect; empty without a line")
    ]
    off_line: Annotated[int, Meaning("1 where its labels say something else than that: read it")]


@dataclass(frozen=True)
class QualityLine:
    """How well ability predicts quality. slope, low, high: b in logits for one SD of ability, its median and interval; no_slope:
    the probability that b = 0, and ability says nothing; explained: b's share of the variance of logit quality among agents on
    the line; labels_alone: labels that would have told as much; intercept: logit quality, on labels of 0 to 1, at the mean
    ability."""

    slope: float
    low: float
    high: float
    no_slope: float
    explained: float
    labels_alone: int
    intercept: float


@dataclass(frozen=True)
class QualityFacts:
    """The whole of `quality.json`. tables: digest of the ranking and scores beside it; label: the column; scale: its ends;
    within: no other agent is better than `best` by more, at `level`. line: None where fewer than five agents have labels. items:
    how much of a label's variance its item explains."""

    version: int
    tables: str
    sources: tuple[str, ...]
    label: str
    scale: tuple[float, float]
    level: float
    n_labels: int
    best: str
    within: float
    line: QualityLine | None
    items: float
    words: tuple[str, ...]
    agents: tuple[QualityRow, ...]
