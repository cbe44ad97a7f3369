"""What a run's `labels.json` says: how far its ranking agrees with labels that no fit has seen."""

from __future__ import annotations

from dataclasses import dataclass


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
