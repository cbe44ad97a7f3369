"""Holds a run's ranking against labels: does it put agents in the order in which somebody else puts them?

No fit sees a label: what is found is a file beside the ranking and changes no other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

import numpy as np

from youden.data.folder.run_files import VERSION
from youden.data.folder.run_folder import RunFolder
from youden.data.label_tables import LabelTable, read_labels
from youden.errors import ConfigError
from youden.pipeline.ranking import differences_of, differences_of_rates
from youden.run_keys import Target
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.base.metrics import Metric, RankRange, kendall, rank_ranges, sampled_auc, spearman
from youden.stats.judges.cell_agreement import cell_correlation
from youden.stats.trials.comparisons import Differences, differences, tied_places
from youden.text.sentences import with_interval
from youden.types import Agent
from youden.types.facts import RankingRow
from youden.types.label_facts import Agreement, CellAgreement, Disagreement, LabelFacts, Validation
from youden.types.pool import Floats, or_none

WIDE = 0.5
"""Width of ρ's interval from which on it says little of other agents."""


def label_words(found: LabelFacts, differing: Sequence[Disagreement]) -> Iterator[str]:
    """What a ranking's agreement with a label means, a sentence each. differing: all agents that differ."""
    rho, n = found.spearman, len(differing)
    if rho.value is None:
        yield f"'{found.name}' and the ranking cannot be compared: {rho.method.removeprefix('none: ')}."
    else:
        yield f"The ranking and '{found.name}', on {found.n_agents} agents: ρ = {_figure(rho)}."
        if rho.low is None or rho.high is None:
            yield f"It has no interval: {rho.method.removeprefix('none: ')}."
        elif rho.low <= 0 <= rho.high:
            yield f"That is no evidence of agreement: with {found.n_agents} agents the interval holds 0."
        elif rho.high - rho.low > WIDE:
            yield f"{found.n_agents} agents leave the interval this wide; more agents narrow it, more calls do not."
    if rho.high is not None and rho.high < 0:
        yield "High labels go with low abilities: if a high number is the worse one (an error rate), change its sign."
    if found.cells is not None:
        cells, within = found.cells, found.cells.within
        each = f"Cell by cell ({cells.n_cells:,}) ρ = {_figure(cells.overall)}"
        if cells.overall.value is None:
            yield f"Cell by cell nothing can be compared: {cells.n_cells:,} cells have a score and a label."
        elif within.value is None:
            yield f"{each}; within items too few agents differ."
        else:
            yield f"{each}; among agents within {cells.n_items:,} items its mean is {_figure(within)}."
    if rho.value is None:
        return
    if not differing:
        yield "No agent stands at a place that its label does not allow."
        return
    rest = f", not the other {found.n_unexplained}: there this judge and the label value different things, or the label errs"
    yield (
        f"Elsewhere by label: {n} of {found.n_agents} agents; differences too small to be sure explain "
        f"{n - found.n_unexplained} of these{rest if found.n_unexplained else ''}."
    )


def _figure(found: Agreement) -> str:
    if found.value is None:
        return "–"
    return with_interval(found.value, found.low, found.high)


MOST_NAMED = 5
LOOKED_AT = 500
"""How many names that match nobody are compared with all agents, which takes a millisecond for ten pairs."""


def aliases_of(agents: Iterable[Agent]) -> dict[str, str]:
    """Other name → agent, where `meta.alias` says one that is no other agent's id or alias."""
    known = list(agents)
    said = [(str(agent.meta["alias"]), agent.id) for agent in known if agent.meta.get("alias")]
    taken = Counter([*(alias for alias, _ in said), *(agent.id for agent in known)])
    return {alias: agent for alias, agent in said if taken[alias] == 1}


def matched(table: LabelTable, agent_ids: Collection[str], aliases: Mapping[str, str]) -> LabelTable:
    """The table with its agents called as in the run: by id; else by its column alias; else by an alias of the run's agent.

    Raises: ConfigError [labels-alias] where two labelled agents turn out to be one.
    """
    known = set(agent_ids)
    called: dict[str, str] = {}
    for name, alias in zip(table.agents, table.aliases, strict=True):
        if name in known:
            continue
        if alias in known:
            called[name] = str(alias)
        elif (found := aliases.get(name) or aliases.get(alias or "")) is not None:
            called[name] = found
    taken = {name: name for name in table.agents if name in known}
    for name, agent in called.items():
        if taken.setdefault(agent, name) != name:
            raise ConfigError(
                f"{table.source} labels the agent '{agent}' as '{taken[agent]}' and, by an alias, as '{name}'. Keep one of them.",
                slug="labels-alias",
            )
    return replace(table, agents=tuple(called.get(name, name) for name in table.agents), called=called)


def with_near(names: Iterable[str], known: Iterable[str], *, labelled: Collection[str] = ()) -> list[str]:
    """The first names, each with the known one it may have meant: those nearest to an agent without a label first."""
    found = list(dict.fromkeys(names))
    folded = {one.strip().casefold(): one for one in known}
    near: dict[str, tuple[bool, float, str]] = {}
    for one in found[:LOOKED_AT]:
        key = one.strip().casefold()
        for close in get_close_matches(key, folded, n=1):
            ratio = SequenceMatcher(None, close, key).ratio()
            near[one] = (folded[close] in labelled, -ratio, folded[close])
    found.sort(key=lambda one: near.get(one, (True, 0.0, ""))[:2])
    said = [f"'{one}'" + (f" (did you mean '{near[one][2]}'?)" if one in near else "") for one in found[:MOST_NAMED]]
    return said + _more(found)


def first(names: Iterable[str]) -> list[str]:
    """The first names, and how many more there are."""
    found = list(dict.fromkeys(names))
    return found[:MOST_NAMED] + _more(found)


def _more(names: Sequence[str]) -> list[str]:
    return [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []


MIN_AGENTS = 3

_Compare = Callable[[Floats, Floats], Metric]


def open_labels(path: Path, agents: Sequence[Agent], *, repeated: bool = False) -> LabelTable:
    """Labels, of which at least one agent is in the run, so that a wrong file is refused before a judge is paid.

    agents: of the run; their other names are taken, too. repeated: as in `read_labels`.

    Raises: ConfigError [labels-unknown] with the nearest ids, [labels-alias]; ImportFormatError as `read_labels`.
    """
    agent_ids = [agent.id for agent in agents]
    table = matched(read_labels(path, repeated=repeated), agent_ids, aliases_of(agents))
    if not set(table.agents) & set(agent_ids):
        raise ConfigError(
            f"{path} labels no agent of this run, but {', '.join(with_near(table.agents, agent_ids))}. "
            f"The run has {', '.join(first(agent_ids))}. "
            "Give the agents' ids as in the pool.",
            slug="labels-unknown",
        )
    return table


def validate(folder: RunFolder, table: LabelTable) -> Validation:
    """Compare the fitted run in `folder` with labels and write labels.json, which is about this very ranking.

    An agent's label is the mean over its rows; where there are labels of cells, they are also held against the scores. Which
    places an ability or a mean label allows goes by who is told apart from whom, by differences and their own errors.

    Raises: RunFolderError where the run is not fitted.
    """
    facts, ranking = folder.read_facts(), folder.read_ranking()
    rows = [row for row in ranking if row.ability is not None]
    apart = _apart(folder, [row.agent for row in rows], target=facts.target)
    if facts.n_components > 1:
        apart = replace(apart, half_width=np.full_like(apart.half_width, np.nan))
    labels = tuple(_against(folder, table, at, rows, apart, level=facts.level) for at in range(len(table.names)))
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


def _apart(folder: RunFolder, agents: Sequence[str], *, target: Target) -> Differences:
    """Whom the run tells apart of `agents`."""
    if folder.has("plan.parquet"):
        plan = folder.read_plan()
        ids, found = plan.agent_ids, differences_of(folder.read_verdicts(plan), target=target)
    else:
        rates = folder.read_rates()
        ids, found = rates.agent_ids, differences_of_rates(rates, target=target)
    return found.among(np.array([ids.index(agent) for agent in agents], dtype=np.int64))


def _against(
    folder: RunFolder, table: LabelTable, at: int, rows: Sequence[RankingRow], apart: Differences, *, level: float
) -> LabelFacts:
    """One label. apart: whom of `rows` the run tells apart."""
    means = _means(table, at)
    kept = [number for number, row in enumerate(rows) if row.agent in means]
    both = [rows[number] for number in kept]
    label, ability = (
        np.array(column, dtype=np.float64)
        for column in ([means[row.agent] for row in both], [row.ability for row in both])
    )
    binary = bool(np.isin(label, (0.0, 1.0)).all()) and len(set(label.tolist())) == 2
    agents = [row.agent for row in both]
    by_label = rank_ranges(label, label) if table.items is None else _places(table, at, agents, label, level=level)
    by_ability = apart.among(np.array(kept, dtype=np.int64)).places
    differing = _disagreements(agents, label, ability, by_label=by_label, by_ability=by_ability)
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
    return replace(found, words=tuple(label_words(found, differing)))


def _agreement(compare: _Compare, ability: Floats, label: Floats) -> Agreement:
    """The figure where there is one, and no interval where a perfect one leaves the method none."""
    if len(label) < MIN_AGENTS:
        return Agreement(None, None, None, f"none: too few agents ({len(label)})")
    for what, values in (("label", label), ("ability", ability)):
        if np.ptp(values) == 0:
            return Agreement(None, None, None, f"none: all agents have the same {what}")
    return _plain(compare(ability, label))


def _plain(metric: Metric) -> Agreement:
    return Agreement(or_none(metric.value), or_none(metric.low), or_none(metric.high), metric.method)


def _disagreements(
    agents: Sequence[str], label: Floats, ability: Floats, *, by_label: RankRange, by_ability: RankRange
) -> list[Disagreement]:
    """Agents whose place by ability is not theirs by label, the widest gap first; ranges: the places told apart."""
    ties, place = rank_ranges(label, label), tied_places(ability)
    gap = np.maximum(0, np.maximum(ties.low - place, place - ties.high))
    explained = (by_ability.low <= by_label.high) & (by_label.low <= by_ability.high)
    columns = (label, ability, by_label.low, by_label.high, place, by_ability.low, by_ability.high, gap, explained)
    rows = zip(agents, *(column.tolist() for column in columns), strict=True)
    return sorted((line for row in rows if (line := Disagreement(*row)).gap), key=lambda line: -line.gap)


def _matrix(table: LabelTable, at: int, agent_ids: Sequence[str], item_ids: Sequence[str]) -> Floats:
    """Labels of cells, float[agents, items], NaN where there is none."""
    agent_at = {agent: i for i, agent in enumerate(agent_ids)}
    item_at = {item: j for j, item in enumerate(item_ids)}
    label = np.full((len(agent_at), len(item_at)), np.nan)
    for agent, item, value in zip(table.agents, table.items or (), table.value[:, at].tolist(), strict=True):
        if agent in agent_at and item in item_at:
            label[agent_at[agent], item_at[item]] = value
    return label


def _cells(folder: RunFolder, table: LabelTable, at: int, *, level: float) -> CellAgreement:
    scores = folder.read_scores("symmetric")
    found = cell_correlation(scores.value, _matrix(table, at, scores.agent_ids, scores.item_ids), level=level)
    return CellAgreement(found.n_cells, found.n_items, _plain(found.overall), _plain(found.within))


def _places(table: LabelTable, at: int, agents: Sequence[str], mean: Floats, *, level: float) -> RankRange:
    """Places that mean labels allow, by their differences over items; any place where nothing says how they compare."""
    value = _matrix(table, at, agents, list(dict.fromkeys(table.items or ())))
    seen = ~np.isnan(value)
    if (seen.sum(axis=1) >= 2).sum() < 2:
        return rank_ranges(*np.full((2, len(agents)), np.nan))
    scale = float(np.nanmax(value) - np.nanmin(value)) or 1.0
    share = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    moved = np.where(seen, value - mean[:, None], 0.0) / scale * share
    return differences(mean / scale, covariance_over_clusters(moved, share), level=level).places


def _means(table: LabelTable, at: int) -> dict[str, float]:
    """Each agent's mean label, to 12 digits."""
    said: dict[str, list[float]] = {}
    for agent, value in zip(table.agents, table.value[:, at].tolist(), strict=True):
        if not np.isnan(value):
            said.setdefault(agent, []).append(value)
    if table.items is None:
        return {agent: values[0] for agent, values in said.items()}
    return {agent: float(f"{math.fsum(values) / len(values):.12g}") for agent, values in said.items()}


def _notes(table: LabelTable, ranking: Sequence[RankingRow], item_ids: Sequence[str]) -> list[str]:
    """What a reader has to know of the file: who is in it and not in the run, and the other way round."""
    known = dict.fromkeys(row.agent for row in ranking)
    labelled = dict.fromkeys(table.agents)
    notes = []
    if table.called:
        said = [f"'{name}' is '{agent}'" for name, agent in table.called.items()]
        notes.append(f"Labelled by another name: {', '.join(first(said))}.")
    if unknown := [one for one in labelled if one not in known]:
        named = ", ".join(with_near(unknown, known, labelled=labelled))
        notes.append(
            f"Left out, for they are not in this run: {len(unknown)} of {len(labelled)} labelled agents, {named}."
        )
    if without := [one for one in known if one not in labelled]:
        notes.append(f"Without a label: {len(without)} of {len(known)} agents, {', '.join(first(without))}.")
    if unranked := [row.agent for row in ranking if row.ability is None and row.agent in labelled]:
        notes.append(f"Labelled, but without an ability: {', '.join(first(unranked))}.")
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
