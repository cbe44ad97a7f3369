"""Compare the ranking of a run with external labels.

A fit never reads a label: the comparison is written to a separate file, and the ranking does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np

from youden.data.folder.run_files import VERSION
from youden.data.folder.run_folder import RunFolder
from youden.data.label_tables import LabelTable, read_labels
from youden.errors import ConfigError
from youden.pipeline.ranking import differences_from_rates, differences_from_verdicts
from youden.run_keys import Target
from youden.stats.base.auc import auc_sampling_interval
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.base.metrics import Metric, RankRange, kendall, rank_ranges, spearman
from youden.stats.judges.cell_agreement import cell_correlation
from youden.stats.trials.comparisons import Differences, pairwise_differences, rank_with_ties
from youden.types import Agent
from youden.types.facts import RankingRow
from youden.types.label_facts import Agreement, CellAgreement, Disagreement, LabelFacts, Validation
from youden.types.pool import Bools, Floats, or_none
from youden.workflows.label_names import (
    MAX_NAMED,
    describe_renamed_agents,
    describe_unknown_agents,
    describe_unknown_items,
    get_unique_aliases,
    quote_with_suggestions,
    rename_to_agent_ids,
    shorten_list,
)
from youden.workflows.label_text import describe_agreement

MIN_AGENTS = 3

_ComputeMetric = Callable[[Floats, Floats], Metric]
"""Function of the abilities and the labels of the same agents that returns a measure of agreement with its interval."""


def open_labels(path: Path, agents: Sequence[Agent], *, repeated: bool = False) -> LabelTable:
    """Read a table of labels, and check that it labels at least one agent of a run.

    Call it before a judge is paid, so that a wrong file costs nothing.

    Parameters
    ----------
    path : Path
        Table of labels (.csv, .tsv, .xlsx, .jsonl or .parquet): the columns `agent`, optionally `item` and `alias`, and
        one column per label with numbers or words, for example yes (1) and no (0); or the table that `youden label` wrote, with
        the column `label` filled in.
    agents : sequence of Agent
        Agents of the run. The file can name them by their ids or by their `meta.alias`.
    repeated : bool, default False
        Whether the same agent, or the same agent and item, may have more than one label.

    Returns
    -------
    LabelTable
        The labels (`value`, one row per row of the file and one column per label; NaN if missing), also of agents that are not in
        the run. `agents` and `items` have the agent and the item of each row; agents of the run are named by their ids. `items`
        is None for labels of agents.

    Raises
    ------
    ConfigError
        [labels-unknown] if no agent of the run is labeled; [labels-alias] if two names in the file refer to one agent.
    ImportFormatError
        If the file cannot be read as labels; if `repeated` is False and the file has several labels for an agent, or for
        an agent and item.
    """
    agent_ids = [agent.id for agent in agents]
    labels = read_labels(path, repeated=repeated)
    table = rename_to_agent_ids(labels, agent_ids, get_unique_aliases(agents))
    check_labeled_agents(str(path), table.agents, agent_ids)
    return table


def check_labeled_agents(source: str, names: Sequence[str], agent_ids: Sequence[str]) -> None:
    """Check that at least one labeled agent is an agent of the run.

    Parameters
    ----------
    source : str
        Name of the table of labels, with which the error begins.
    names : sequence of str
        Names of the labeled agents; they may repeat.
    agent_ids : sequence of str
        Ids of the agents of the run.

    Raises
    ------
    ConfigError
        [labels-unknown]: if no name is the id of an agent of the run.
    """
    if set(names) & set(agent_ids):
        return
    labeled_names = ", ".join(quote_with_suggestions(names, agent_ids))
    raise ConfigError(
        f"{source} labels no agent of this run: got {labeled_names}. The run has {', '.join(shorten_list(agent_ids))}. "
        "Use these ids in the labels.",
        slug="labels-unknown",
    )


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
    If items are labeled, the label of an agent is its mean over items. In addition, labels of cells (an agent on an item) are
    then correlated with scores of cells. The confidence interval of a rank follows from the intervals of the differences
    between the agent and all others, in ability or in mean label.
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
    """Compute the differences between the abilities of some agents of a run, with intervals.

    agents : ids of the agents
    target : population for which the intervals hold, such as more items like those of the run
    """
    if folder.has("plan.parquet"):
        plan = folder.read_plan()
        agent_ids = plan.agent_ids
        all_differences = differences_from_verdicts(folder.read_verdicts(plan), target=target)
    else:
        rates = folder.read_rates()
        agent_ids = rates.agent_ids
        all_differences = differences_from_rates(rates, target=target)

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
    """Compare one column of a table of labels with the ranking.

    column : position of the column
    rows : rows of the ranking that have an ability
    ability_differences : differences between the abilities of the agents in `rows`
    level : confidence level
    """
    mean_labels = _compute_mean_labels(table, column)
    positions = [position for position, row in enumerate(rows) if row.agent in mean_labels]
    agents = [rows[position].agent for position in positions]
    label = np.array([mean_labels[agent] for agent in agents], dtype=np.float64)
    ability = np.array([rows[position].ability for position in positions], dtype=np.float64)
    is_binary = set(label.tolist()) == {0.0, 1.0}

    ranks_by_ability = ability_differences.subset(np.array(positions, dtype=np.int64)).marginal_ranks
    cells = None
    if table.items is None:
        ranks_by_label = rank_ranges(label, label)
    else:
        ranks_by_label = _compute_label_ranks(table, column, agents, label, level=level)
        if not folder.asks_preference:  # preferences have no scores of cells
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


def _measure_agreement(compute_metric: _ComputeMetric, ability: Floats, label: Floats) -> Agreement:
    """Measure the agreement of abilities with labels, for example by a correlation.

    compute_metric : function of `ability` and `label` that returns the measure with its interval
    ability, label : float arrays (n_agents,), without NaN

    Returns the value, the bounds of its interval and the method. For fewer than `MIN_AGENTS` agents, or if all have the same
    label or ability, the measure is undefined: the value and the bounds are None, and the method is "none: " and the reason.
    """
    if len(label) < MIN_AGENTS:
        return Agreement(None, None, None, f"none: too few agents ({len(label)})")
    for quantity, values in (("label", label), ("ability", ability)):
        if np.ptp(values) == 0:
            return Agreement(None, None, None, f"none: all agents have the same {quantity}")
    return _to_agreement(compute_metric(ability, label))


def _to_agreement(metric: Metric) -> Agreement:
    """Convert a metric to the type of labels.json, with None in place of NaN."""
    return Agreement(or_none(metric.value), or_none(metric.low), or_none(metric.high), metric.method)


def _find_disagreements(
    agents: Sequence[str], label: Floats, ability: Floats, *, ranks_by_label: RankRange, ranks_by_ability: RankRange
) -> list[Disagreement]:
    """Find the agents whose rank by ability differs from their rank by label.

    The agent with the largest difference comes first. Agents with equal labels share a range of ranks. A disagreement is
    `explained` by sampling error if the two rank intervals of the agent overlap.

    agents : ids of the agents
    label, ability : float array (n_agents,), mean label and ability of each agent
    ranks_by_label, ranks_by_ability : confidence intervals of the ranks
    """
    # the gap is the distance of the rank by ability from the rank by label, or from the range of ranks of tied labels
    rank = rank_with_ties(ability)
    tied_ranks = rank_ranges(label, label)
    gap = np.maximum(0, np.maximum(tied_ranks.low - rank, rank - tied_ranks.high))
    is_explained = (ranks_by_ability.low <= ranks_by_label.high) & (ranks_by_label.low <= ranks_by_ability.high)

    largest_first = np.argsort(-gap, kind="stable")
    n_disagreements = np.count_nonzero(gap)
    disagreements = []
    for position in largest_first[:n_disagreements].tolist():
        disagreement = Disagreement(
            agent=agents[position],
            label=float(label[position]),
            ability=float(ability[position]),
            label_low=int(ranks_by_label.low[position]),
            label_high=int(ranks_by_label.high[position]),
            rank=int(rank[position]),
            rank_low=int(ranks_by_ability.low[position]),
            rank_high=int(ranks_by_ability.high[position]),
            gap=int(gap[position]),
            explained=bool(is_explained[position]),
        )
        disagreements.append(disagreement)
    return disagreements


def _build_label_matrix(table: LabelTable, column: int, agent_ids: Sequence[str], item_ids: Sequence[str]) -> Floats:
    """Arrange the labels of one column of a table in an array with agents and items as axes.

    Returns a float array (n_agents, n_items), NaN for a cell without a label.

    table : labels of agents on items
    column : position of the column among the label columns
    agent_ids, item_ids : ids of the rows and columns; labels of other agents and items are left out
    """
    agent_positions = {agent: position for position, agent in enumerate(agent_ids)}
    item_positions = {item: position for position, item in enumerate(item_ids)}
    matrix = np.full((len(agent_positions), len(item_positions)), np.nan)
    values = table.value[:, column].tolist()
    for agent, item, value in zip(table.agents, _get_items(table), values, strict=True):
        if agent in agent_positions and item in item_positions:
            matrix[agent_positions[agent], item_positions[item]] = value
    return matrix


def _get_items(table: LabelTable) -> tuple[str, ...]:
    """Return the item of each row of a table of labels of agents on items; callers check that it has items."""
    return table.items or ()


def _compare_cells(folder: RunFolder, table: LabelTable, column: int, *, level: float) -> CellAgreement:
    """Correlate the symmetric scores of cells (one agent on one item each) with their labels, at a confidence level."""
    scores = folder.read_scores("symmetric")
    labels = _build_label_matrix(table, column, scores.agent_ids, scores.item_ids)
    result = cell_correlation(scores.value, labels, level=level)
    return CellAgreement(
        result.n_cells, result.n_items, _to_agreement(result.overall), _to_agreement(result.within_items)
    )


def _compute_label_ranks(
    table: LabelTable, column: int, agents: Sequence[str], mean: Floats, *, level: float
) -> RankRange:
    """Compute the confidence interval of each agent's rank by label, from the differences between mean labels.

    Standard errors are clustered by item. If fewer than two agents have two labels or more, each interval contains all ranks.

    column : position of the column among the label columns
    agents : ids of the agents
    mean : float array (n_agents,), mean label of each agent
    level : confidence level
    """
    item_ids = list(dict.fromkeys(_get_items(table)))
    labels = _build_label_matrix(table, column, agents, item_ids)  # (n_agents, n_items), NaN without a label
    has_label = ~np.isnan(labels)
    n_labels = has_label.sum(axis=1, keepdims=True)
    if (n_labels >= 2).sum() < 2:
        unknown_bound = np.full(len(agents), np.nan)
        return rank_ranges(unknown_bound, unknown_bound)  # an agent with unknown bounds may have any rank

    # `pairwise_differences` expects values on the scale of abilities, so the labels are scaled to a range of 1
    label_range = float(np.nanmax(labels) - np.nanmin(labels)) or 1.0
    scaled_residual = np.where(has_label, labels - mean[:, None], 0.0) / label_range

    # sandwich estimator of the covariance of the means; the influence of an item on a mean is weight · residual
    weight = has_label / np.maximum(n_labels, 1)
    influence = weight * scaled_residual
    covariance = covariance_over_clusters(influence, weight)
    return pairwise_differences(mean / label_range, covariance, level=level).marginal_ranks


def _compute_mean_labels(table: LabelTable, column: int) -> dict[str, float]:
    """Compute the mean label of each labeled agent, by its id.

    If the table labels responses to items, the mean over items is rounded to 12 significant digits. If it labels whole agents,
    an agent has a single label, which is returned.

    column : position of the column among the label columns
    """
    labels_by_agent: dict[str, list[float]] = {}
    for agent, label in zip(table.agents, table.value[:, column].tolist(), strict=True):
        if not math.isnan(label):
            labels_by_agent.setdefault(agent, []).append(label)

    if table.items is None:
        return {agent: labels[0] for agent, labels in labels_by_agent.items()}
    means = {agent: math.fsum(labels) / len(labels) for agent, labels in labels_by_agent.items()}
    return {agent: float(f"{mean:.12g}") for agent, mean in means.items()}


def _describe_coverage(table: LabelTable, ranking: Sequence[RankingRow], item_ids: Sequence[str]) -> list[str]:
    """Describe how the agents and items of a table of labels differ from those of a run.

    Each difference is one sentence.
    """
    notes = _describe_labeled_agents(table, ranking)
    if table.left_out:
        columns = ", ".join(repr(name) for name in table.left_out)
        notes.append(f"Columns that are not labels, because they have no number or no name: {columns}.")
    if table.items is not None:
        notes += _describe_labeled_items(table, {row.agent for row in ranking}, set(item_ids))
    return notes


def _has_label(table: LabelTable) -> Bools:
    """Return for each row of a table whether one of its labels is filled in."""
    return np.asarray((~np.isnan(table.value)).any(axis=1))


def _describe_labeled_agents(table: LabelTable, ranking: Sequence[RankingRow]) -> list[str]:
    """Describe how the agents of a table of labels differ from the agents of a run.

    table : labels, and the agent ids of names that the table uses in place of ids
    ranking : ranking of the run, one row per agent

    Returns one sentence for each kind of difference that exists: agents that the table names differently, labeled
    agents that are not in the run, agents of the run without a label, and labeled agents without an ability.
    """
    ranked = dict.fromkeys(row.agent for row in ranking)
    labeled = dict.fromkeys(compress(table.agents, _has_label(table)))
    unlabeled = [agent for agent in ranked if agent not in labeled]
    without_ability = [row.agent for row in ranking if row.ability is None and row.agent in labeled]

    notes = [*describe_renamed_agents(table.id_by_name), *describe_unknown_agents(labeled, ranked)]
    if unlabeled:
        names = ", ".join(shorten_list(unlabeled))
        notes.append(f"No label for {len(unlabeled)} of {len(ranked)} agents: {names}.")
    if without_ability:
        names = ", ".join(shorten_list(without_ability))
        notes.append(f"Agents with a label but without an ability: {names}.")
    return notes


def _describe_labeled_items(table: LabelTable, agents: set[str], items: set[str]) -> list[str]:
    """Describe labeled items that are not in the run, and agents that are labeled on different items.

    table : labels of agents on items
    agents, items : ids of the run
    """
    labeled_items: list[str] = []
    items_by_agent: dict[str, set[str]] = {}
    for agent, item, has_label in zip(table.agents, _get_items(table), _has_label(table), strict=True):
        if agent in agents and has_label:
            labeled_items.append(item)
            items_by_agent.setdefault(agent, set()).add(item)

    consequence = "the labels count only in the mean labels of agents"
    notes = describe_unknown_items(labeled_items, items, consequence=consequence)

    distinct_item_sets = {frozenset(item_set) for item_set in items_by_agent.values()}
    if len(distinct_item_sets) > 1:
        notes.append(
            "Agents are labeled on different items, so their mean labels also depend on how hard these items are."
        )
    return notes
