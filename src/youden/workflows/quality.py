"""Estimate the quality of a run's agents from a few labeled responses and the abilities of the ranking together.

The ranking itself and its files do not change.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from youden.data.folder.run_files import VERSION
from youden.data.folder.run_folder import RunFolder
from youden.data.label_tables import LabelTable, parse_id, parse_label
from youden.data.pools.spool import format_excerpt
from youden.data.pools.tidy_reader import get_column_values
from youden.errors import ConfigError, StatisticsError
from youden.pipeline.fitted_run import check_fit
from youden.stats.small_areas.quality_estimates import MIN_AGENTS, QualityEstimates, quality_from_labels
from youden.stats.trials.comparisons import rank_with_ties
from youden.text.number_text import is_unit_label
from youden.text.sentences import format_with_interval
from youden.text.tables import Table, format_decimal
from youden.types.arguments import describe_no_frame, is_data_frame
from youden.types.label_facts import QualityFacts, QualityLine, QualityRow
from youden.types.pool import Floats, Positions, or_none
from youden.workflows.gate_answers import GateAnswers, QualityDifference
from youden.workflows.label_names import (
    describe_renamed_agents,
    describe_unknown_agents,
    describe_unknown_items,
    shorten_list,
)
from youden.workflows.labels import check_labeled_agents, open_labels

if TYPE_CHECKING:
    import pandas as pd

    Labels = str | PathLike[str] | Sequence[str | PathLike[str]] | pd.DataFrame

_Label = tuple[str, str, float]
"""Agent, item and value of a label."""

MIN_EXPLAINED = 0.1
"""Share of the variance explained by ability below which a sentence says that ability hardly predicts the label."""


@dataclass(frozen=True, eq=False)
class LabeledAnswers:
    """Labeled responses of a run's agents, one row per response.

    Attributes
    ----------
    agent : int array (n_responses,)
        Position of the agent in the ranking.
    item : int array (n_responses,)
        Number of the item; equal numbers mean the same item.
    value : float array (n_responses,)
        Mean label of the response, in the units of the labels.
    label : str
        Name of the column with the labels.
    scale : (float, float)
        Lowest and highest possible label.
    item_ids : tuple of str
        Id of the item of each response.
    notes : tuple of str
        Sentences on labeled agents that are not in the run or have another name, and on items that are not in the run.
    """

    agent: Positions
    item: Positions
    value: Floats
    label: str
    scale: tuple[float, float]
    item_ids: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def unit(self) -> Floats:
        """Mean labels rescaled to [0, 1], float array (n_responses,)."""
        low, high = self.scale
        return (self.value - low) / (high - low)


def read_answers(
    folder: RunFolder,
    labels: Labels,
    *,
    label: str | None = None,
    scale: tuple[float, float] | None = None,
) -> LabeledAnswers:
    """Read labels of the responses of a run's agents.

    Parameters
    ----------
    folder : RunFolder
        A fitted run.
    labels : path, sequence of paths, or DataFrame
        Paths of tables of labels, or a data frame with the columns agent, item and a label. Labels of agents that are not in
        the run are ignored, with a note, but each file must label at least one agent of the run.
    label : str, optional
        Column of the label, if the tables have several. If one table has this column, other tables may have "label" as their
        only column of labels, which is then read. Default: the only column of labels; for a DataFrame "label".
    scale : (float, float), default (0, 1)
        Lowest and highest possible label. Labels are checked against it, but not rescaled. On the default scale, percentages and
        words, for example 95% or yes, are read as numbers.

    Returns
    -------
    LabeledAnswers
        One row per labeled response: `agent` (position in the ranking of the run), `item` (a number that only distinguishes
        items; their ids are in `item_ids`), and `value`, the mean over all labels of the response in all tables. It is in the
        unit of the labels; the property `unit` has the means in [0, 1]. Missing labels (NaN) are left out.

    Raises
    ------
    RunFolderError
        If the run is not fitted; [run-preference] if it asks for preferences; [fit-stale], [run-other-plan] if it was planned or
        judged again since it was fitted.
    ConfigError
        [quality-items] if a table labels agents, not responses; [quality-column] if the label's column is missing or not
        unique; [quality-scale] if a label is outside the scale, if it is a percentage or a word and the scale is not (0, 1), or
        if the scale is not ascending; [quality-none] if no response of a ranked agent is labeled; [labels-unknown] if a table
        labels no agent of the run; [labels-alias] if two names in a table refer to one agent.
    ImportFormatError
        If a file cannot be read as labels; [labels-id] if an agent or an item of a DataFrame is not an id, [labels-value] if one
        of its labels is not a number.
    """
    folder.check_information()
    check_fit(folder)
    agent_ids = [row.agent for row in folder.read_ranking()]
    id_by_name: dict[str, str] = {}
    if isinstance(labels, str | PathLike | Sequence):
        pool_agents = folder.read_pool().agents
        tables = [open_labels(path, pool_agents, repeated=True) for path in _to_paths(labels)]
        rows, names = [], []
        is_in_some_table = any(label in table.names for table in tables)
        for table in tables:
            # a table of `youden label` has the column `label`, also if the user's own tables have another one
            has_own_label = is_in_some_table and table.names == ("label",)
            name = "label" if has_own_label else _find_label_column(table, label)
            names.append(name)
            _check_unit_label(table.unit_labels.get(name), scale)
            rows += _list_labels(table, name)
            id_by_name |= table.id_by_name
        label = " and ".join(dict.fromkeys(names))
    else:
        label = label or "label"
        rows = _read_labels_of_frame(labels, agent_ids, label=label, scale=scale)

    known_agents = set(agent_ids)
    rows_of_run = [row for row in rows if row[0] in known_agents]
    answers = _average_by_answer(agent_ids, rows_of_run, label=label, scale=scale)
    notes = [
        *describe_renamed_agents(id_by_name),
        *describe_unknown_agents([agent for agent, _, _ in rows], agent_ids),
        *describe_unknown_items(answers.item_ids, _read_item_ids(folder), consequence="the labels count nevertheless"),
    ]
    return replace(answers, notes=tuple(notes))


def _list_labels(table: LabelTable, name: str) -> list[_Label]:
    """List the labels in one column of a table; missing labels are left out."""
    values = table.value[:, table.names.index(name)].tolist()
    items = table.items or ()  # not None: `_find_label_column` has checked that the table has items
    rows = zip(table.agents, items, values, strict=True)
    return [(agent, item, value) for agent, item, value in rows if not np.isnan(value)]


def _read_item_ids(folder: RunFolder) -> frozenset[str]:
    """Read the ids of the items of a run."""
    has_plan = folder.has("plan.parquet")
    return frozenset(folder.read_plan().item_ids if has_plan else folder.read_rates().item_ids)


def _to_paths(labels: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    """Convert one path or several to a list of paths. Raises ConfigError [quality-column] if one is not a path."""
    paths = [labels] if isinstance(labels, str | PathLike) else labels
    for path in paths:
        if not isinstance(path, str | PathLike):
            raise ConfigError(
                f"A list of labels consists of paths: got {type(path).__name__}. Pass paths, or a single DataFrame "
                "(`pandas.concat` joins several).",
                slug="quality-column",
            )
    return [Path(path) for path in paths]


def _read_labels_of_frame(
    frame: pd.DataFrame, agent_ids: Sequence[str], *, label: str, scale: tuple[float, float] | None
) -> list[_Label]:
    """Read labels from a data frame with one row per label.

    Its columns are agent, item and `label`.

    agent_ids : ids of the agents of the run
    label : column of the labels
    scale : lowest and highest possible label; None for (0, 1)

    Returns one tuple (agent, item, label) per row with a label.

    Raises: ConfigError [quality-column] if `frame` is not a table or lacks a column, [labels-unknown] if no agent of the run is
    labeled, or [quality-scale] if a label such as 95% or yes is not on the scale from 0 to 1; ImportFormatError [labels-id] if
    an agent or an item is not an id, or [labels-value] if a label is not a number.
    """
    _check_label_columns(frame, label)
    agents = get_column_values(frame, "agent")
    items = get_column_values(frame, "item")
    values = frame[label].astype(object).where(frame[label].notna(), None)
    labels = []
    for row_number, (agent, item, value) in enumerate(zip(agents, items, values, strict=True), 1):
        if value is None:
            continue
        location = f"DataFrame, row {row_number}"
        number = parse_label(value, label, location)
        if np.isnan(number):  # a text of white space only
            continue
        if is_unit_label(value):
            _check_unit_label(f"{format_excerpt(value)} ({location})", scale)
        agent_id = parse_id(agent, "agent", location)
        item_id = parse_id(item, "item", location)
        labels.append((agent_id, item_id, number))

    if labels:
        labeled_agents = list(dict.fromkeys(agent_id for agent_id, _, _ in labels))
        check_labeled_agents("The DataFrame", labeled_agents, agent_ids)
    return labels


def _check_label_columns(frame: pd.DataFrame, label: str) -> None:
    """Check that the user passed a data frame with the columns agent, item and `label`.

    Raises ConfigError [quality-column].
    """
    if not is_data_frame(frame):
        raise ConfigError(
            f"Labels are read from paths or a pandas DataFrame: {describe_no_frame(frame)} Pass a path, a list of paths or "
            "a DataFrame with one row per label.",
            slug="quality-column",
        )
    column_names = list(frame.columns)
    missing = [name for name in ("agent", "item", label) if name not in column_names]
    duplicates = [name for name in ("agent", "item", label) if column_names.count(name) > 1]
    if duplicates:
        problem = f"Several columns of the labels have the same name: got {duplicates[0]}. Keep one of them."
        raise ConfigError(problem, slug="quality-column")
    if not missing:
        return

    raise ConfigError(
        f"The labels have no column {', '.join(missing)}: got {', '.join(map(str, frame))}. Rename the columns to agent and "
        "item, and pass the label's name as `label`. For a table of `youden label`, pass the path of its file.",
        slug="quality-column",
    )


def _find_label_column(table: LabelTable, label: str | None) -> str:
    """Return the name of the label column to use.

    This is `label`, or the only label column if `label` is None.

    Raises ConfigError [quality-items] if the table has no items; [quality-column] if `label` is not a label column, or if it is
    None and the table has several label columns.
    """
    if table.items is None:
        raise ConfigError(
            f"{table.source} labels agents, not responses: it has no column `item`. The estimate of quality depends on the "
            "number of labeled responses. Add one row per label, with its agent and item.",
            slug="quality-items",
        )
    if label is None and len(table.names) == 1:
        return table.names[0]
    if label is None or label not in table.names:
        raise ConfigError(
            f"{table.source} has the labels {', '.join(table.names)}: got {label or 'none'}. Set one of them (--label).",
            slug="quality-column",
        )
    return label


def _average_by_answer(
    agent_ids: Sequence[str], label_rows: Sequence[_Label], *, label: str, scale: tuple[float, float] | None
) -> LabeledAnswers:
    """Average the labels of each response of an agent to an item.

    agent_ids : ids of the agents, whose order defines the positions in the result
    label_rows : one (agent, item, label) per label
    label : name of the label
    scale : lowest and highest possible label; None for (0, 1)

    Raises ConfigError [quality-none] if there are no labels, [quality-scale] if one is outside the scale, or if the scale is not
    two numbers in ascending order.
    """
    if not label_rows:
        raise ConfigError("No response of a ranked agent has a label. Add labels.", slug="quality-none")
    low, high = _parse_scale(scale)
    _check_labels_fit_scale([value for _, _, value in label_rows], low, high)

    labels_by_response: dict[tuple[str, str], list[float]] = {}
    for agent, item, value in label_rows:
        labels_by_response.setdefault((agent, item), []).append(value)
    means = [sum(labels) / len(labels) for labels in labels_by_response.values()]
    agent_of_response, item_of_response = zip(*labels_by_response, strict=True)

    agent_positions = {agent: position for position, agent in enumerate(agent_ids)}
    item_numbers = {item: number for number, item in enumerate(dict.fromkeys(item_of_response))}
    return LabeledAnswers(
        agent=np.array([agent_positions[agent] for agent in agent_of_response], dtype=np.int64),
        item=np.array([item_numbers[item] for item in item_of_response], dtype=np.int64),
        value=np.array(means),
        label=label,
        scale=(low, high),
        item_ids=item_of_response,
    )


def _check_unit_label(unit_label: str | None, scale: tuple[float, float] | None) -> None:
    """Check that the scale is from 0 to 1 if there is a label such as 95% or yes, which has no meaning on another scale.

    unit_label : such a label and its location, for the error message; None if all labels are numbers
    scale : lowest and highest possible label; None for (0, 1)

    Raises ConfigError [quality-scale] if the check fails, or if the scale is not two numbers.
    """
    low, high = _parse_scale(scale)
    if unit_label is not None and (low, high) != (0, 1):
        raise ConfigError(
            f"Percentages and words such as yes fit only the scale from 0 to 1, not from {low:g} to {high:g}: got {unit_label}. "
            "Set a number on the scale in all rows, or remove --scale.",
            slug="quality-scale",
        )


def _check_labels_fit_scale(values: Sequence[float], low: float, high: float) -> None:
    """Check that all labels are on their scale.

    values : the labels, at least one
    low, high : lowest and highest possible label

    Raises ConfigError [quality-scale] in three cases: `low` and `high` are no finite range; a label is outside of it; or all
    labels look like fractions, such as 0.8, on a scale from 0 to 10 or more. Spreadsheets store percentages as fractions.
    """
    if not -math.inf < low < high < math.inf:
        raise ConfigError(
            f"The scale must be two finite numbers, the lower one first: got {low:g},{high:g}. Set the lowest and the highest "
            "possible label, such as --scale 1,5; if low labels are the best, change the sign of the labels and of the scale.",
            slug="quality-scale",
        )
    values_outside = [value for value in values if not low <= value <= high]
    if values_outside:
        raise ConfigError(
            f"The labels do not fit the scale from {low:g} to {high:g}: got {values_outside[0]:g}. Set the "
            "lowest and the highest possible label, such as --scale 1,5.",
            slug="quality-scale",
        )
    are_in_unit_range = all(0 <= value <= 1 for value in values)
    are_binary = all(value in (0, 1) for value in values)
    if are_in_unit_range and not are_binary and low == 0 and high >= 10:
        raise ConfigError(
            f"All labels are fractions on a scale from {low:g} to {high:g}: got {min(values):g} to {max(values):g}. Remove "
            "--scale if a spreadsheet shows them as percentages, such as 0.8 as 80%.",
            slug="quality-scale",
        )


def _parse_scale(scale: tuple[float, float] | None) -> tuple[float, float]:
    """Convert the scale of labels to the lowest and the highest possible label.

    scale : two numbers, or None for labels from 0 to 1

    Raises ConfigError [quality-scale] if the scale does not consist of two numbers.
    """
    if scale is None:
        return 0.0, 1.0
    try:
        low, high = map(float, scale)
    except (TypeError, ValueError):
        raise ConfigError(
            f"The scale of the labels is not two numbers: got {scale!r}. Set the lowest and the highest possible label, such as "
            "(1, 5).",
            slug="quality-scale",
        ) from None
    return low, high


def fit_quality(folder: RunFolder, answers: LabeledAnswers) -> QualityEstimates:
    """Estimate the quality of each agent from its ability and from the labels of its responses.

    The quality of an agent is the expected label of its responses, scaled to [0, 1].

    folder : folder of a fitted run
    answers : labels of responses; `answers.agent` holds the row of each agent in the ranking of the run

    Returns the estimates with the agents in the order of the ranking.
    """
    facts = folder.read_facts()
    rows = folder.read_ranking()
    ability = np.array([row.ability for row in rows], dtype=np.float64)
    std_error = np.array([row.std_error for row in rows], dtype=np.float64)
    return quality_from_labels(
        answers.agent, answers.item, answers.unit, ability=ability, std_error=std_error, level=facts.level
    )


def make_quality_rows(agent_ids: Sequence[str], answers: LabeledAnswers, fit: QualityEstimates) -> list[QualityRow]:
    """Make the rows of quality.csv, one per agent, by descending quality.

    Agents without an estimate come last. Qualities and intervals have the scale of the labels. Agents with equal qualities have
    the same rank, the best of theirs. Agents with equal qualities, and those without an estimate, keep the order of the ranking.

    agent_ids : ids of the agents in the order of the ranking
    answers : labeled responses, with the scale of the labels
    fit : estimated qualities of the same agents in [0, 1], in the same order

    Returns one row per agent, with ranks from 1. For an agent without an estimate, `quality`, `low`, `high` and `rank` are None.
    """
    n_agents = len(agent_ids)
    n_labels = np.bincount(answers.agent, minlength=n_agents)
    label_totals = np.bincount(answers.agent, weights=answers.value, minlength=n_agents)
    label_means = np.divide(label_totals, n_labels, out=np.full(n_agents, np.nan), where=n_labels > 0)
    p_best = fit.best_probabilities()

    ranks = rank_with_ties(fit.quality).tolist()
    rows = []
    for position in np.argsort(ranks, kind="stable").tolist():
        has_estimate = not np.isnan(fit.quality[position])
        row = QualityRow(
            agent=agent_ids[position],
            n_labels=int(n_labels[position]),
            label_mean=or_none(label_means[position]),
            quality=_to_label_units(fit.quality[position], answers.scale),
            low=_to_label_units(fit.low[position], answers.scale),
            high=_to_label_units(fit.high[position], answers.scale),
            label_weight=float(fit.label_weight[position]),
            rank=ranks[position] if has_estimate else None,
            p_best=float(p_best[position]),
            predicted=_to_label_units(fit.predicted[position], answers.scale),
            outlier=int(fit.is_outlier[position]),
        )
        rows.append(row)
    return rows


def _to_label_units(quality: float, scale: tuple[float, float]) -> float | None:
    """Convert a quality in [0, 1] to the scale (lowest, highest possible label) of the labels, NaN to None."""
    low, high = scale
    return or_none(low + (high - low) * quality)


def estimate_quality(
    folder: RunFolder,
    labels: Labels,
    *,
    label: str | None = None,
    scale: tuple[float, float] | None = None,
) -> QualityFacts:
    """Estimate the quality of a run's agents, and write quality.csv and quality.json, replacing earlier ones.

    Parameters
    ----------
    folder : RunFolder
        A fitted run. Its other files do not change.
    labels : path, sequence of paths, or DataFrame
        Paths of tables of labels, or a data frame with the columns agent, item and a label. Labels of agents that are not in
        the run are ignored, with a note, but each file must label at least one agent of the run.
    label : str, optional
        Column of the label, if the tables have several. Default: the only one; for a DataFrame "label".
    scale : (float, float), default (0, 1)
        Lowest and highest possible label. Labels are checked against it, but not rescaled.

    Returns
    -------
    QualityFacts
        Contents of quality.json, in the units of the labels: `agents`, one row per agent with its quality, credible interval at
        `level`, rank and probability of being the best (`p_best`), the highest quality first; `best`, `regret_bound`, `summary`
        and others.

    Raises
    ------
    RunFolderError
        If the run is not fitted; [run-preference] if it asks for preferences; [fit-stale], [run-other-plan] if it was planned or
        judged again since it was fitted.
    ConfigError
        [quality-items], [quality-column], [quality-scale], [quality-none], [labels-unknown], [labels-alias] if the
        labels do not fit the run.
    ImportFormatError
        If a file or a DataFrame cannot be read as labels.
    """
    answers = read_answers(folder, labels, label=label, scale=scale)
    sources = map(str, _to_paths(labels)) if isinstance(labels, str | PathLike | Sequence) else ["DataFrame"]
    fit = fit_quality(folder, answers)
    agent_ids = [row.agent for row in folder.read_ranking()]
    rows = make_quality_rows(agent_ids, answers, fit)
    scale_width = answers.scale[1] - answers.scale[0]
    facts = QualityFacts(
        version=VERSION,
        tables_digest=folder.compute_tables_digest(),
        sources=tuple(sources),
        label=answers.label,
        scale=answers.scale,
        level=fit.level,
        n_labels=len(answers.value),
        best=rows[0].agent,
        regret_bound=scale_width * fit.regret_bound(agent_ids.index(rows[0].agent)),
        regression=fit.regression,
        item_variance_share=fit.item_variance_share,
        summary=(),
        agents=tuple(rows),
        notes=answers.notes,
    )
    facts = replace(facts, summary=tuple(describe_quality(facts)))
    folder.write_quality(facts)
    return facts


def describe_quality(facts: QualityFacts) -> Iterator[str]:
    """Yield sentences on the best agent, on how well ability predicts quality, and on outlier agents.

    facts : estimates of quality, with the agents sorted by quality, best first
    """
    top = facts.agents[0]
    yield (
        f"Best by quality: {top.agent}, {format_decimal(top.quality, 2)} [{format_decimal(top.low, 2)}, "
        f"{format_decimal(top.high, 2)}]{facts.tie}. The upper bound on "
        f"its regret is {facts.regret_bound:.2f} ({facts.level:.0%}), and it is the best with probability {top.p_best:.2f}."
    )
    if facts.regression is None:
        yield f"Fewer than {MIN_AGENTS} agents have labels, so ability is not used."
        return
    yield _describe_regression(facts.regression)
    if facts.regression.equivalent_labels > facts.n_labels:
        yield (
            f"Label means alone would need about {facts.regression.equivalent_labels:,} labels for the precision of "
            f"{facts.n_labels:,}."
        )
        if facts.regression.slope == 0:
            yield "The slope is 0, so the gain comes from shrinkage towards the mean of all agents, not from ability."
    outliers = [
        f"{row.agent} (predicted {row.predicted:.2f}, labels {row.label_mean:.2f})"
        for row in facts.agents
        if row.outlier
    ]
    if outliers:
        yield f"Outliers from the regression on ability; check their answers: {', '.join(shorten_list(outliers))}."


def _describe_regression(regression: QualityLine) -> str:
    """Describe how well ability predicts quality."""
    slope = format_with_interval(regression.slope, regression.low, regression.high)
    if regression.slope == 0 and regression.r2 >= MIN_EXPLAINED:
        return (
            f"The labels show no relation with ability: the slope is {slope} logits per SD (probability of no relation: "
            f"{regression.p_zero_slope:.0%})."
        )
    if regression.r2 < MIN_EXPLAINED:
        return f"Ability hardly predicts this label (probability of no relation: {regression.p_zero_slope:.0%})."
    return (
        f"Ability explains {regression.r2:.0%} of the differences in quality, with a slope of {slope} logits per SD "
        f"(probability of no relation: {regression.p_zero_slope:.0%})."
    )


def quality_table(facts: QualityFacts) -> Table:
    """Format the quality of the agents as a table, one row per agent.

    Parameters
    ----------
    facts : QualityFacts
        Contents of quality.json.

    Returns
    -------
    Table
        At most 80 characters wide unless names are long. The weights of the labels are only in quality.csv.
    """
    title = f"quality by '{facts.label}', {facts.n_labels:,} labeled answers ({facts.level:.0%} intervals)"
    headings = ["rank", "agent", "quality", "interval", "labels", "mean", "predicted", "outlier"]
    return Table(title, headings, "rlrcrrrl", map(_format_row, facts.agents))


def _format_row(row: QualityRow) -> list[str]:
    """Format the quality of one agent as a row of the table."""
    return [
        "–" if row.rank is None else str(row.rank),
        row.agent,
        format_decimal(row.quality, 2),
        f"{format_decimal(row.low, 2)}–{format_decimal(row.high, 2)}",
        str(row.n_labels),
        format_decimal(row.label_mean, 2),
        format_decimal(row.predicted, 2),
        "yes" if row.outlier else "",
    ]


def quality_difference(fit: QualityEstimates, a: int, b: int, *, level: float) -> tuple[float, float, float]:
    """Estimate the difference between the qualities of two agents, q_a − q_b, with a credible interval.

    A quality is a mean label, scaled to [0, 1]. Given the regression on ability, the two agents are treated as independent.

    fit : posterior distributions of the qualities, on a grid in [0, 1]
    a, b : positions of two different agents in `fit`
    level : posterior probability that the interval contains the difference, in (0, 1)

    Returns the difference of the estimated qualities and both ends of the equal-tailed interval, all in [−1, 1]. Raises
    StatisticsError [quality-unknown] if one of the qualities is unknown.
    """
    if np.isnan(fit.quality[[a, b]]).any():
        raise StatisticsError(
            "The quality of one of the two agents is unknown: it has no labels, and there is no regression on ability. "
            "Add labels.",
            slug="quality-unknown",
        )

    # posterior distribution of the difference, on the grid of all pairs of qualities
    differences = (fit.grid[:, None] - fit.grid).ravel()
    probabilities = (fit.density[a][:, None] * fit.density[b]).ravel()
    ascending = np.argsort(differences)
    cumulative = np.cumsum(probabilities[ascending])

    tail_probabilities = ((1 - level) / 2, (1 + level) / 2)
    tail_positions = np.searchsorted(cumulative, tail_probabilities)
    low, high = differences[ascending][tail_positions].tolist()
    return float(fit.quality[a] - fit.quality[b]), low, high


def add_quality_comparison(gate_answers: GateAnswers, folder: RunFolder, labeled: LabeledAnswers | None) -> GateAnswers:
    """Add a comparison by quality to the answers from which a gate compares agents by ability.

    Quality is estimated from labels and abilities, so that agents without labels can also be compared. The digest of the result
    depends on the labels, because a comparison by new labels counts as a new interim analysis.

    gate_answers : answers of the run
    folder : folder of the run, which is fitted
    labeled : labeled responses, read for this run by `read_answers` of this module; None to return `gate_answers`
        unchanged

    Returns a copy of `gate_answers` whose `quality` is a function of an agent id, the id of a baseline and a confidence level.
    It returns the quality of the agent minus that of the baseline, with its interval, in the unit of the labels, and the number
    of labels of both. It raises StatisticsError [quality-unknown] if one of the qualities is unknown. No file is written.
    """
    if labeled is None:
        return gate_answers
    agent_ids = [row.agent for row in folder.read_ranking()]  # in the order of the fit and of `labeled.agent`
    quality_comparison = _QualityComparison(agent_ids, labeled, fit_quality(folder, labeled))

    # the digest does not depend on the order of the labels
    sorted_labels = sorted(zip(labeled.agent.tolist(), labeled.item_ids, labeled.value.tolist(), strict=True))
    hashed_text = f"{gate_answers.digest} {labeled.scale} {sorted_labels}"
    return replace(
        gate_answers,
        digest=hashlib.sha256(hashed_text.encode()).hexdigest(),
        method=f"from {len(sorted_labels):,} labeled answers and ability",
        quality=quality_comparison,
    )


@dataclass(frozen=True, eq=False)
class _QualityComparison:
    """Function that compares the qualities of two agents; see `GateAnswers.quality`."""

    agent_ids: Sequence[str]
    labeled: LabeledAnswers
    fit: QualityEstimates

    def __call__(self, agent: str, baseline: str, level: float) -> QualityDifference:
        """Compute the difference of two agents in quality, agent minus baseline, on the scale of the labels."""
        a, b = self.agent_ids.index(agent), self.agent_ids.index(baseline)
        difference, low, high = quality_difference(self.fit, a, b, level=level)
        low_label, high_label = self.labeled.scale
        width = high_label - low_label
        n_labels = int(np.isin(self.labeled.agent, [a, b]).sum())
        return QualityDifference(width * difference, width * low, width * high, n_labels)
