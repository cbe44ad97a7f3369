"""Compare the ranking of a run with external labels.

A fit never reads a label: the comparison is written to a separate file, and the ranking does not change.
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
from youden.pipeline.ranking import differences_from_rates, differences_from_verdicts
from youden.run_keys import Target
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.base.metrics import Metric, RankRange, auc_sampling_interval, kendall, rank_ranges, spearman
from youden.stats.judges.cell_agreement import cell_correlation
from youden.stats.trials.comparisons import Differences, pairwise_differences, rank_with_ties
from youden.text.sentences import format_with_interval
from youden.types import Agent
from youden.types.facts import RankingRow
from youden.types.label_facts import Agreement, CellAgreement, Disagreement, LabelFacts, Validation
from youden.types.pool import Floats, or_none

WIDE_INTERVAL = 0.5
"""Width of the confidence interval of ρ above which a sentence warns that it is wide."""


def describe_agreement(facts: LabelFacts, disagreements: Sequence[Disagreement]) -> Iterator[str]:
    """Yield sentences on how well a ranking agrees with a label.

    `disagreements` has all agents whose ranks by ability and by label differ; `facts` has only the first of them.
    """
    rho = facts.spearman
    if rho.value is None:
        yield f"'{facts.name}' and the ranking cannot be compared: {rho.method.removeprefix('none: ')}."
    else:
        yield f"Agreement of the ranking with '{facts.name}' on {facts.n_agents} agents: ρ = {_format_with_interval(rho)}."
        if rho.low is None or rho.high is None:
            yield f"It has no confidence interval: {rho.method.removeprefix('none: ')}."
        elif rho.low <= 0 <= rho.high:
            yield f"This is no evidence of agreement: with {facts.n_agents} agents, the interval contains 0."
        elif rho.high - rho.low > WIDE_INTERVAL:
            yield f"With {facts.n_agents} agents, the interval is wide. Add agents to narrow it; more calls do not."

    if rho.high is not None and rho.high < 0:
        yield "High labels go with low abilities. If high values are worse, as for an error rate, change their sign."
    if facts.cells is not None:
        yield _describe_cell_agreement(facts.cells)
    if rho.value is not None:
        yield _describe_disagreements(facts, n_differing=len(disagreements))


def _describe_cell_agreement(cells: CellAgreement) -> str:
    if cells.overall.value is None:
        return f"Single cells cannot be compared: {cells.n_cells:,} cells have both a score and a label."
    overall = f"Over single cells ({cells.n_cells:,}), ρ = {_format_with_interval(cells.overall)}"
    if cells.within.value is None:
        return f"{overall}; too few agents differ within items."
    within_items = _format_with_interval(cells.within)
    return f"{overall}; its mean over agents within {cells.n_items:,} items is {within_items}."


def _describe_disagreements(facts: LabelFacts, *, n_differing: int) -> str:
    if n_differing == 0:
        return "Every agent has a rank that its label allows."
    n_explained = n_differing - facts.n_unexplained
    reasons = "for these, the judge and the label value different things, or the label is wrong"
    unexplained = f", but not the other {facts.n_unexplained}: {reasons}" if facts.n_unexplained else ""
    return (
        f"{n_differing} of {facts.n_agents} agents have another rank by label; overlapping rank intervals explain "
        f"{n_explained} of these{unexplained}."
    )


def _format_with_interval(agreement: Agreement) -> str:
    if agreement.value is None:
        return "–"
    return format_with_interval(agreement.value, agreement.low, agreement.high)


MAX_NAMED = 5
MAX_NAMES_COMPARED = 500
"""Maximum number of unknown names that are compared with all agents; ten such comparisons take about a millisecond."""


def get_unique_aliases(agents: Iterable[Agent]) -> dict[str, str]:
    """Map `meta.alias` to agent id, without aliases that are also the id or the alias of another agent."""
    all_agents = list(agents)
    pairs = [(str(agent.meta["alias"]), agent.id) for agent in all_agents if agent.meta.get("alias")]
    aliases = [alias for alias, _ in pairs]
    ids = [agent.id for agent in all_agents]
    n_uses = Counter([*aliases, *ids])
    return {alias: agent_id for alias, agent_id in pairs if n_uses[alias] == 1}


def rename_to_agent_ids(table: LabelTable, agent_ids: Collection[str], aliases: Mapping[str, str]) -> LabelTable:
    """Replace the names of agents in a table of labels by the ids that the run uses.

    A name in `agent_ids` stays. Otherwise its entry in the column `alias` replaces it, if that is in `agent_ids`.
    Otherwise the name, or else the entry, is looked up in `aliases` (alias → agent id). A name that is not found stays.
    Raises: ConfigError [labels-alias] if two names in the file refer to one agent.
    """
    ids = set(agent_ids)
    replacements: dict[str, str] = {}
    for name, alias in zip(table.agents, table.aliases, strict=True):
        if name in ids:
            continue
        if alias in ids:
            replacements[name] = str(alias)
        elif (agent_id := aliases.get(name) or aliases.get(alias or "")) is not None:
            replacements[name] = agent_id

    name_by_id = {name: name for name in table.agents if name in ids}
    for name, agent_id in replacements.items():
        if name_by_id.setdefault(agent_id, name) != name:
            raise ConfigError(
                f"{table.source} has two names for the agent '{agent_id}': got '{name_by_id[agent_id]}' and, by an alias, "
                f"'{name}'. Remove one of them.",
                slug="labels-alias",
            )
    renamed = tuple(replacements.get(name, name) for name in table.agents)
    return replace(table, agents=renamed, called=replacements)


def quote_with_suggestions(
    names: Iterable[str], candidates: Iterable[str], *, labelled: Collection[str] = ()
) -> list[str]:
    """Quote the first unknown names, the closest matches first, each with the candidate that it resembles, if any.

    Names that resemble a candidate without a label come before names that resemble a `labelled` one.
    """
    unknown = list(dict.fromkeys(names))
    candidate_by_key = {candidate.strip().casefold(): candidate for candidate in candidates}
    matches: dict[str, tuple[bool, float, str]] = {}
    for name in unknown[:MAX_NAMES_COMPARED]:
        key = name.strip().casefold()
        for closest in get_close_matches(key, candidate_by_key, n=1):
            similarity = SequenceMatcher(None, closest, key).ratio()
            candidate = candidate_by_key[closest]
            matches[name] = (candidate in labelled, -similarity, candidate)

    no_match = (True, 0.0, "")
    unknown.sort(key=lambda name: matches.get(name, no_match)[:2])
    quoted = []
    for name in unknown[:MAX_NAMED]:
        suggestion = f" (did you mean '{matches[name][2]}'?)" if name in matches else ""
        quoted.append(f"'{name}'{suggestion}")
    return quoted + _format_remainder(unknown)


def shorten_list(names: Iterable[str]) -> list[str]:
    """Return the first `MAX_NAMED` distinct names and, as a last entry, the number of the remaining ones ("3 more")."""
    distinct = list(dict.fromkeys(names))
    return distinct[:MAX_NAMED] + _format_remainder(distinct)


def _format_remainder(names: Sequence[str]) -> list[str]:
    return [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []


MIN_AGENTS = 3

_Compare = Callable[[Floats, Floats], Metric]


def open_labels(path: Path, agents: Sequence[Agent], *, repeated: bool = False) -> LabelTable:
    """Read labels and check that they label at least one agent of a run.

    This check takes place before a judge is paid, so that a wrong file costs nothing.

    Parameters
    ----------
    path : Path
        Table of labels (.csv, .tsv, .xlsx, .jsonl or .parquet).
    agents : sequence of Agent
        Agents of the run. The file can name them by their ids or by their `meta.alias`.
    repeated : bool, default False
        Allow more than one label for the same agent, or for the same agent and item.

    Returns
    -------
    LabelTable
        The labels, also of agents that are not in the run; agents of the run are named by their ids.

    Raises
    ------
    ConfigError
        [labels-unknown] if no agent of the run is labelled; [labels-alias] if two names in the file refer to one agent.
    ImportFormatError
        If the file cannot be read as labels.
    """
    agent_ids = [agent.id for agent in agents]
    table = rename_to_agent_ids(read_labels(path, repeated=repeated), agent_ids, get_unique_aliases(agents))
    if not set(table.agents) & set(agent_ids):
        raise ConfigError(
            f"{path} labels no agent of this run: got {', '.join(quote_with_suggestions(table.agents, agent_ids))}. "
            f"The run has {', '.join(shorten_list(agent_ids))}. "
            "Set the ids of the agents as in the pool.",
            slug="labels-unknown",
        )
    return table


def validate(folder: RunFolder, table: LabelTable) -> Validation:
    """Compare the ranking of a fitted run with labels and write labels.json.

    Parameters
    ----------
    folder : RunFolder
        A fitted run. Only its labels.json is written.
    table : LabelTable
        Labels of agents, or of agents on items, with agents named by their ids in the run.

    Returns
    -------
    Validation
        Contents of labels.json: agreement of each label with the ranking, and notes on missing labels and ranks.

    Raises
    ------
    RunFolderError
        If the run is not fitted.

    Notes
    -----
    If items are labelled, the label of an agent is its mean over items, and labels of cells are correlated with scores
    of cells. Confidence intervals of pairwise differences determine the ranks that an ability or a mean label allows.
    """
    facts, ranking = folder.read_facts(), folder.read_ranking()
    rows = [row for row in ranking if row.ability is not None]
    ability_differences = _compute_differences(folder, [row.agent for row in rows], target=facts.target)
    if facts.n_components > 1:
        # abilities of different components have no common scale
        unknown = np.full_like(ability_differences.half_width, np.nan)
        ability_differences = replace(ability_differences, half_width=unknown)

    labels = tuple(
        _compare_label(folder, table, column, rows, ability_differences, level=facts.level)
        for column in range(len(table.names))
    )
    validation = Validation(
        version=VERSION,
        tables_digest=folder.compute_tables_digest(),
        source=table.source,
        source_digest=table.digest,
        level=facts.level,
        labels=labels,
        notes=tuple(_describe_coverage(table, ranking, folder.read_pool().item_ids)),
    )
    folder.write_labels(validation)
    return validation


def _compute_differences(folder: RunFolder, agents: Sequence[str], *, target: Target) -> Differences:
    """Compute the pairwise differences of abilities among some agents of a run."""
    if folder.has("plan.parquet"):
        plan = folder.read_plan()
        agent_ids, all_differences = (
            plan.agent_ids,
            differences_from_verdicts(folder.read_verdicts(plan), target=target),
        )
    else:
        rates = folder.read_rates()
        agent_ids, all_differences = rates.agent_ids, differences_from_rates(rates, target=target)
    positions = np.array([agent_ids.index(agent) for agent in agents], dtype=np.int64)
    return all_differences.subset(positions)


def _compare_label(
    folder: RunFolder,
    table: LabelTable,
    column: int,
    rows: Sequence[RankingRow],
    ability_differences: Differences,
    *,
    level: float,
) -> LabelFacts:
    """Compare one column of labels with the ranking. `ability_differences` has the agents of `rows`, in their order."""
    mean_labels = _compute_mean_labels(table, column)
    positions = [position for position, row in enumerate(rows) if row.agent in mean_labels]
    agents = [rows[position].agent for position in positions]
    label = np.array([mean_labels[agent] for agent in agents], dtype=np.float64)
    ability = np.array([rows[position].ability for position in positions], dtype=np.float64)
    is_binary = bool(np.isin(label, (0.0, 1.0)).all()) and len(set(label.tolist())) == 2

    ranks_by_ability = ability_differences.subset(np.array(positions, dtype=np.int64)).marginal_ranks
    cells = None
    if table.items is None:
        ranks_by_label = rank_ranges(label, label)
    else:
        ranks_by_label = _compute_label_ranks(table, column, agents, label, level=level)
        cells = _compare_cells(folder, table, column, level=level)
    disagreements = _find_disagreements(
        agents, label, ability, ranks_by_label=ranks_by_label, ranks_by_ability=ranks_by_ability
    )

    auc = None
    if is_binary:
        auc = _measure_agreement(lambda a, b: auc_sampling_interval(a, b == 1, level=level), ability, label)
    facts = LabelFacts(
        name=table.names[column],
        n_agents=len(agents),
        spearman=_measure_agreement(lambda a, b: spearman(a, b, level=level), ability, label),
        kendall=_measure_agreement(lambda a, b: kendall(a, b, level=level), ability, label),
        auc=auc,
        n_positive=int(label.sum()) if is_binary else None,
        cells=cells,
        disagreements=tuple(disagreements[:MAX_NAMED]),
        n_unexplained=sum(not disagreement.explained for disagreement in disagreements),
        summary=(),
    )
    return replace(facts, summary=tuple(describe_agreement(facts, disagreements)))


def _measure_agreement(compare: _Compare, ability: Floats, label: Floats) -> Agreement:
    """Apply a measure to abilities and labels, float arrays (n_agents,), or say why it is undefined."""
    if len(label) < MIN_AGENTS:
        return Agreement(None, None, None, f"none: too few agents ({len(label)})")
    for quantity, values in (("label", label), ("ability", ability)):
        if np.ptp(values) == 0:
            return Agreement(None, None, None, f"none: all agents have the same {quantity}")
    return _to_agreement(compare(ability, label))


def _to_agreement(metric: Metric) -> Agreement:
    return Agreement(or_none(metric.value), or_none(metric.low), or_none(metric.high), metric.method)


def _find_disagreements(
    agents: Sequence[str], label: Floats, ability: Floats, *, ranks_by_label: RankRange, ranks_by_ability: RankRange
) -> list[Disagreement]:
    """Find the agents whose rank by ability is not one of their tied ranks by label, the largest gap first.

    `ranks_by_label` and `ranks_by_ability` are allowed by the intervals; if they overlap, they explain a disagreement.
    """
    tied_ranks = rank_ranges(label, label)
    rank = rank_with_ties(ability)
    gap = np.maximum(0, np.maximum(tied_ranks.low - rank, rank - tied_ranks.high))
    is_explained = (ranks_by_ability.low <= ranks_by_label.high) & (ranks_by_label.low <= ranks_by_ability.high)

    low, high = ranks_by_label
    columns = (label, ability, low, high, rank, ranks_by_ability.low, ranks_by_ability.high, gap, is_explained)
    rows = zip(agents, *(column.tolist() for column in columns), strict=True)
    disagreements = [Disagreement(*row) for row in rows]
    differing = [disagreement for disagreement in disagreements if disagreement.gap > 0]
    return sorted(differing, key=lambda disagreement: -disagreement.gap)


def _build_label_matrix(table: LabelTable, column: int, agent_ids: Sequence[str], item_ids: Sequence[str]) -> Floats:
    """Arrange labels of cells in a float array (n_agents, n_items), NaN if a cell has no label."""
    agent_positions = {agent: i for i, agent in enumerate(agent_ids)}
    item_positions = {item: j for j, item in enumerate(item_ids)}
    matrix = np.full((len(agent_positions), len(item_positions)), np.nan)
    for agent, item, value in zip(table.agents, table.items or (), table.value[:, column].tolist(), strict=True):
        if agent in agent_positions and item in item_positions:
            matrix[agent_positions[agent], item_positions[item]] = value
    return matrix


def _compare_cells(folder: RunFolder, table: LabelTable, column: int, *, level: float) -> CellAgreement:
    scores = folder.read_scores("symmetric")
    labels = _build_label_matrix(table, column, scores.agent_ids, scores.item_ids)
    result = cell_correlation(scores.value, labels, level=level)
    return CellAgreement(
        result.n_cells, result.n_items, _to_agreement(result.overall), _to_agreement(result.within_items)
    )


def _compute_label_ranks(
    table: LabelTable, column: int, agents: Sequence[str], mean: Floats, *, level: float
) -> RankRange:
    """Compute the ranks that mean labels, float array (n_agents,), allow by their differences clustered by item.

    Any rank is allowed if fewer than two agents have labels on two items or more.
    """
    labels = _build_label_matrix(table, column, agents, list(dict.fromkeys(table.items or ())))
    observed = ~np.isnan(labels)
    n_labels = observed.sum(axis=1, keepdims=True)
    if (n_labels >= 2).sum() < 2:
        return rank_ranges(*np.full((2, len(agents)), np.nan))

    # scaled to a range of 1, because `differences` works in the units of abilities
    scale = float(np.nanmax(labels) - np.nanmin(labels)) or 1.0
    weight = observed / np.maximum(n_labels, 1)
    residual = np.where(observed, labels - mean[:, None], 0.0) / scale
    covariance = covariance_over_clusters(residual * weight, weight)
    return pairwise_differences(mean / scale, covariance, level=level).marginal_ranks


def _compute_mean_labels(table: LabelTable, column: int) -> dict[str, float]:
    """Return the mean label of each labelled agent, rounded to 12 digits if items are labelled."""
    values_by_agent: dict[str, list[float]] = {}
    for agent, value in zip(table.agents, table.value[:, column].tolist(), strict=True):
        if not np.isnan(value):
            values_by_agent.setdefault(agent, []).append(value)
    if table.items is None:
        return {agent: values[0] for agent, values in values_by_agent.items()}
    return {agent: float(f"{math.fsum(values) / len(values):.12g}") for agent, values in values_by_agent.items()}


def _describe_coverage(table: LabelTable, ranking: Sequence[RankingRow], item_ids: Sequence[str]) -> list[str]:
    """Describe which labelled agents and items are not in the run, and which agents of the run lack a label."""
    ranked = dict.fromkeys(row.agent for row in ranking)
    labelled = dict.fromkeys(table.agents)
    notes = []
    if table.called:
        renamed = [f"'{name}' is '{agent}'" for name, agent in table.called.items()]
        notes.append(f"Labelled under another name: {', '.join(shorten_list(renamed))}.")
    if unknown := [agent for agent in labelled if agent not in ranked]:
        suggestions = ", ".join(quote_with_suggestions(unknown, ranked, labelled=labelled))
        notes.append(
            f"{len(unknown)} of {len(labelled)} labelled agents are not in this run and are left out: {suggestions}."
        )
    if unlabelled := [agent for agent in ranked if agent not in labelled]:
        names = ", ".join(shorten_list(unlabelled))
        notes.append(f"{len(unlabelled)} of {len(ranked)} agents have no label: {names}.")
    if unranked := [row.agent for row in ranking if row.ability is None and row.agent in labelled]:
        notes.append(f"Agents with a label but without an ability: {', '.join(shorten_list(unranked))}.")
    if table.left_out:
        notes.append(
            f"Columns that are not labels, because they have no number or no name: {', '.join(map(repr, table.left_out))}."
        )
    if table.items is not None:
        notes += _describe_labelled_items(table, set(ranked), set(item_ids))
    return notes


def _describe_labelled_items(table: LabelTable, agents: set[str], items: set[str]) -> list[str]:
    items_by_agent: dict[str, set[str]] = {}
    for agent, item in zip(table.agents, table.items or (), strict=True):
        if agent in agents:
            items_by_agent.setdefault(agent, set()).add(item)
    notes = []
    labelled_items: set[str] = set().union(*items_by_agent.values())
    if n_unknown := len(labelled_items - items):
        notes.append(f"{n_unknown} labelled items are not in this run; they count only in the mean labels of agents.")
    if len({frozenset(item_set) for item_set in items_by_agent.values()}) > 1:
        notes.append(
            "Agents are labelled on different items, so their mean labels also depend on how hard these items are."
        )
    return notes
