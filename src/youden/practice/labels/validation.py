"""Holds a run's ranking against labels: does it put agents in the order in which somebody else puts them?

No fit sees a label: what is found is a file beside the ranking and changes no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from youden.data.folder.run_files import VERSION
from youden.data.folder.run_folder import RankingRow, RunFolder
from youden.data.labels import LabelTable, read_labels
from youden.errors import ConfigError
from youden.nouns import Agreement, CellAgreement, Disagreement, LabelFacts, Validation
from youden.nouns.arrays import Floats
from youden.practice.labels.words import label_words
from youden.stats.base.metrics import Metric, kendall, sampled_auc, spearman
from youden.stats.base.ranks import RankRange, rank_ranges, ranks
from youden.stats.judges.cell_agreement import cell_correlation

MIN_AGENTS = 3
MOST_NAMED = 5

_Compare = Callable[[Floats, Floats], Metric]


def open_labels(path: Path, agent_ids: Sequence[str]) -> LabelTable:
    """Labels, of which at least one agent is in the run, so that a wrong file is refused before a judge is paid.

    Raises: ConfigError [labels-unknown] with the nearest ids; ImportFormatError as `read_labels`.
    """
    table = read_labels(path)
    if not set(table.agents) & set(agent_ids):
        raise ConfigError(
            f"{path} labels no agent of this run, but {', '.join(_with_near(table.agents, agent_ids))}. "
            f"The run has {', '.join(_named(agent_ids))}. "
            "Give the agents' ids as in the pool.",
            slug="labels-unknown",
        )
    return table


def validate(folder: RunFolder, table: LabelTable) -> Validation:
    """Compare the fitted run in `folder` with labels and write labels.json, which is about this very ranking.

    An agent's label is the mean over its rows; where there are labels of cells, they are also held against the scores.

    Raises: RunFolderError where the run is not fitted.
    """
    facts, ranking = folder.read_facts(), folder.read_ranking()
    rows = [row for row in ranking if row.ability is not None]
    labels = tuple(
        _against(folder, table, at, rows, level=facts.level, apart=facts.n_components > 1)
        for at in range(len(table.names))
    )
    found = Validation(
        version=VERSION,
        tables=folder.tables_digest(),
        source=table.source,
        source_digest=table.digest,
        level=facts.level,
        labels=labels,
        notes=tuple(_notes(table, ranking, folder.read_pool().item_ids)),
    )
    folder.write_labels(found)
    return found


def _against(
    folder: RunFolder, table: LabelTable, at: int, rows: Sequence[RankingRow], *, level: float, apart: bool
) -> LabelFacts:
    """One label. apart: whether agents fall into parts that do not compare, so that no interval bars a place."""
    means = _means(table, at, level=level)
    both = [row for row in rows if row.agent in means]
    label, half = np.array([means[row.agent] for row in both]).reshape(-1, 2).T
    ability, low, high = (
        np.array([np.nan if end is None else end for end in ends], dtype=np.float64)
        for ends in ([row.ability for row in both], [row.low for row in both], [row.high for row in both])
    )
    binary = bool(np.isin(label, (0.0, 1.0)).all()) and len(set(label.tolist())) == 2
    bars = rank_ranges(*(np.full((2, len(both)), np.nan) if apart else (low, high)))
    allowed = rank_ranges(label - half, label + half)
    differing = _disagreements([row.agent for row in both], label, ability, by_label=allowed, by_ability=bars)
    cells = None if table.items is None else _cells(folder, table, at, level=level)
    found = LabelFacts(
        name=table.names[at],
        n_agents=len(both),
        spearman=_agreement(lambda a, b: spearman(a, b, level=level), ability, label),
        kendall=_agreement(lambda a, b: kendall(a, b, level=level), ability, label),
        auc=_agreement(lambda a, b: sampled_auc(a, b == 1, level=level), ability, label) if binary else None,
        n_positive=int(label.sum()) if binary else None,
        cells=cells,
        disagreements=tuple(differing[:MOST_NAMED]),
        n_unexplained=sum(not one.explained for one in differing),
        words=(),
    )
    return label_words(found, differing)


def _agreement(compare: _Compare, ability: Floats, label: Floats) -> Agreement:
    """The figure where there is one, and no interval where a perfect one leaves the method none."""
    if len(label) < MIN_AGENTS:
        return Agreement(None, None, None, f"none: too few agents ({len(label)})")
    for what, values in (("label", label), ("ability", ability)):
        if np.ptp(values) == 0:
            return Agreement(None, None, None, f"none: all agents have the same {what}")
    return _plain(compare(ability, label))


def _plain(metric: Metric) -> Agreement:
    value, low, high = (None if np.isnan(one) else one for one in (metric.value, metric.low, metric.high))
    return Agreement(value, low, high, metric.method)


def _disagreements(
    agents: Sequence[str], label: Floats, ability: Floats, *, by_label: RankRange, by_ability: RankRange
) -> list[Disagreement]:
    """Agents whose place by ability is not theirs by label, the widest gap first; ranges: the places that intervals allow."""
    ties, place = rank_ranges(label, label), ranks(ability)
    gap = np.maximum(0, np.maximum(ties.low - place, place - ties.high))
    explained = (by_ability.low <= by_label.high) & (by_label.low <= by_ability.high)
    columns = (label, ability, by_label.low, by_label.high, place, by_ability.low, by_ability.high, gap, explained)
    rows = zip(agents, *(column.tolist() for column in columns), strict=True)
    return sorted((line for row in rows if (line := Disagreement(*row)).gap), key=lambda line: -line.gap)


def _cells(folder: RunFolder, table: LabelTable, at: int, *, level: float) -> CellAgreement:
    scores = folder.read_scores("symmetric")
    agent_at = {agent: i for i, agent in enumerate(scores.agent_ids)}
    item_at = {item: j for j, item in enumerate(scores.item_ids)}
    label = np.full(scores.value.shape, np.nan)
    for agent, item, value in zip(table.agents, table.items or (), table.value[:, at].tolist(), strict=True):
        if agent in agent_at and item in item_at:
            label[agent_at[agent], item_at[item]] = value
    found = cell_correlation(scores.value, label, level=level)
    return CellAgreement(found.n_cells, found.n_items, _plain(found.overall), _plain(found.within))


def _means(table: LabelTable, at: int, *, level: float) -> dict[str, tuple[float, float]]:
    """Each agent's mean label, to 12 digits, and the half width of its interval over items: Student's t, NaN with one item; 0
    where labels are of agents alone."""
    said: dict[str, list[float]] = {}
    for agent, value in zip(table.agents, table.value[:, at].tolist(), strict=True):
        if not np.isnan(value):
            said.setdefault(agent, []).append(value)
    if table.items is None:
        return {agent: (values[0], 0.0) for agent, values in said.items()}
    return {
        agent: (float(f"{math.fsum(values) / len(values):.12g}"), _half_width(values, level=level))
        for agent, values in said.items()
    }


def _half_width(values: Sequence[float], *, level: float) -> float:
    n = len(values)
    return float(student.ppf((1 + level) / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else np.nan


def _notes(table: LabelTable, ranking: Sequence[RankingRow], item_ids: Sequence[str]) -> list[str]:
    """What a reader has to know of the file: who is in it and not in the run, and the other way round."""
    known = dict.fromkeys(row.agent for row in ranking)
    labelled = dict.fromkeys(table.agents)
    notes = []
    if unknown := [one for one in labelled if one not in known]:
        named = ", ".join(_with_near(unknown, known))
        notes.append(
            f"Left out, for they are not in this run: {len(unknown)} of {len(labelled)} labelled agents, {named}."
        )
    if without := [one for one in known if one not in labelled]:
        notes.append(f"Without a label: {len(without)} of {len(known)} agents, {', '.join(_named(without))}.")
    if unranked := [row.agent for row in ranking if row.ability is None and row.agent in labelled]:
        notes.append(f"Labelled, but without an ability: {', '.join(_named(unranked))}.")
    if table.left_out:
        notes.append(f"No label, for it has no number or no name: {', '.join(repr(one) for one in table.left_out)}.")
    if table.items is not None:
        notes += _item_notes(table, set(known), set(item_ids))
    return notes


def _item_notes(table: LabelTable, agents: set[str], items: set[str]) -> list[str]:
    seen: dict[str, set[str]] = {}
    for agent, item in zip(table.agents, table.items or (), strict=True):
        if agent in agents:
            seen.setdefault(agent, set()).add(item)
    notes = []
    if elsewhere := len(set().union(*seen.values()) - items):
        notes.append(f"Labelled items that are not in this run: {elsewhere}. They count in agents' means only.")
    if len({frozenset(found) for found in seen.values()}) > 1:
        notes.append("Agents are labelled on different items, so that their mean labels also say how hard those are.")
    return notes


def _with_near(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The first names, each with the known one it may have meant."""
    found = list(dict.fromkeys(names))
    folded = {one.strip().casefold(): one for one in known}
    said = []
    for one in found[:MOST_NAMED]:
        close = get_close_matches(one.strip().casefold(), folded, n=1)
        said.append(f"'{one}'" + (f" (did you mean '{folded[close[0]]}'?)" if close else ""))
    return said + _more(found)


def _named(names: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(names))
    return found[:MOST_NAMED] + _more(found)


def _more(names: Sequence[str]) -> list[str]:
    return [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
