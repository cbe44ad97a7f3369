"""Read tables of scores of models on items, in long or wide form.

What a table does not state is inferred and noted. If the roles of its columns are ambiguous, the error names the option
that sets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from youden.data.importers.foreign_files import import_error
from youden.data.pools.spool import format_excerpt
from youden.data.score_columns import average_by_cell, format_names, make_id
from youden.data.score_directions import (
    check_direction,
    check_direction_of_averages,
    check_item_directions,
    check_metric_directions,
    note_models_named_like_losses,
    note_possible_losses,
)
from youden.data.score_names import find_statistics
from youden.data.score_ranges import (
    check_model_units,
    check_not_win_rates,
    check_units,
    describe_missing_codes,
    determine_range,
    find_aggregates,
    find_extremes,
)
from youden.data.score_roles import ScoreColumns
from youden.data.score_rows import read_frame_rows, read_score_rows
from youden.data.score_values import (
    check_percent_signs_of_columns,
    check_scores,
    check_words_fit_scores,
    note_conversions,
)
from youden.errors import ConfigError
from youden.text.printable import find_name_fault
from youden.text.sentences import describe_similar_names, format_count
from youden.types.pool import Floats, Positions, ReadOnly

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("model", "item", "score", "ignore")
"""Roles that `--column` accepts. A column of the role "ignore" is not used."""


@dataclass(frozen=True, eq=False)
class ScoreTable(ReadOnly):
    """Scores of models on items.

    Attributes
    ----------
    source : str
        Name of the table, for display.
    model_ids, item_ids : tuple of str
        Ids, by position.
    score : float array (n_models, n_items)
        Mean score of each cell, in the unit of the table; NaN if the cell is missing.
    n_scores : int array (n_models, n_items)
        Number of scores of each cell.
    low, high : float
        Range of the scores.
    notes : tuple of str
        What was assumed or left out when the table was read.
    """

    source: str
    model_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    score: Floats
    n_scores: Positions
    low: float
    high: float
    notes: tuple[str, ...]


def read_scores(
    table: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    score_range: tuple[float, float] | None = None,
) -> ScoreTable:
    """Read a table of scores.

    Parameters
    ----------
    table : path, sequence of paths or DataFrame
        Tables (CSV, TSV, Excel, JSON, JSON Lines or Parquet), or results of lm-eval, HELM, MTEB or SWE-bench. If there are
        several files, a file without a column of models contains the scores of one model, which is named after the file.
    columns : mapping of str to str, optional
        Column by role: "model", "item", "score" or "ignore". Several names are separated by commas; columns that
        together identify an item by "+". Roles that are not given are inferred.
    score_range : tuple of (float, float), optional
        Lowest and highest possible score. Default: the first of 0 to 1, −1 to 1, 0 to 10 and 0 to 100 that contains all
        scores, or else the range of the scores.

    Returns
    -------
    ScoreTable
        `score`: mean score of each model on each item, float array (n_models, n_items), NaN if missing; the number of scores
        `n_scores`; `model_ids` and `item_ids`; the range `low`, `high`; and `notes` on what was assumed or left out, for
        example averages. Scores stay in the unit of the table; only percentages are divided by 100, and words such as yes
        become 1. In a wide table, each column of scores is an item or a model. In a long table, the score of a row is its
        first one that is not blank. Higher scores must be better.

    Raises
    ------
    ImportFormatError
        [scores-columns]: if the role of a column is unclear, or a named column does not exist; [scores-direction]: if lower
        scores seem to be better and `columns` does not name the scores; [scores-value]: if a score is infinite or has an
        ambiguous comma, as in 1,234; [scores-percent]: if percent signs are used inconsistently, or do not fit the range;
        [scores-scale]: if scores differ in units; [scores-bounds]: if scores are outside of `score_range`, above 10¹⁰⁰, or all
        equal and of unknown range; [scores-id]: if an id is blank or invalid; [scores-size]: if there are fewer than 2 models
        or items; [scores-pairs]: if scores seem to be win rates of pairs; [scores-reports]: if two reports of a model list
        different instances; others if a file cannot be read.
    ConfigError
        [scores-role]: if `columns` has an unknown role, or a name that is not a text; [scores-range]: if `score_range` is
        not two finite numbers in ascending order.
    """
    given = _validate_roles({} if columns is None else columns)
    bounds = None if score_range is None else _parse_range(score_range)
    notes: list[str] = []
    given_paths = [table] if isinstance(table, str | Path) else table
    if isinstance(given_paths, Sequence) and all(isinstance(path, str | Path) for path in given_paths):
        if "" in given_paths:
            raise import_error("table", "a path is empty: got ''. Pass the path of a table.", slug="import-not-found")
        paths = [Path(path) for path in given_paths]
        source, located = ", ".join(path.name for path in paths), read_score_rows(paths, notes)
    else:
        source, located = "table", read_frame_rows(table)
    return _read_table(ScoreColumns(source, located, given, notes), bounds)


def _validate_roles(columns: Any) -> dict[str, str]:
    """Check the columns that the user set, and return them as a dictionary: role → name of the column.

    columns : value that the user passed for the parameter `columns` of `read_scores`

    Raises ConfigError [scores-role] if it is not a mapping, if a role is not one of `ROLES`, or if a name is not a text.
    """
    if not isinstance(columns, Mapping):
        problem = f"The columns of a table are not a mapping of roles to names: got {columns!r}."
        raise ConfigError(f"{problem} Pass, for example, {{'model': 'System'}}.", slug="scores-role")
    for role, name in columns.items():
        if role not in ROLES:
            problem = f"The role of a column is unknown: got {role!r}."
            raise ConfigError(f"{problem} Set one of: {', '.join(ROLES)}.", slug="scores-role")
        if not isinstance(name, str):
            problem = f"The column of the role {role} is not a text: got {name!r}."
            raise ConfigError(f"{problem} Join several names as in 'x,y' or, for items, 'x+y'.", slug="scores-role")
    return dict(columns)


def _parse_range(score_range: Any) -> tuple[float, float]:
    """Convert the range of scores to floats; raise ConfigError [scores-range] if it is not two finite numbers in order."""
    try:
        low, high = map(float, score_range)
        is_range = -inf < low < high < inf and not isinstance(score_range, str)
    except (TypeError, ValueError):
        is_range = False
    if not is_range:
        problem = f"The range of scores is not a finite LOW below HIGH: got {score_range}. Set, for example, 1 and 5."
        raise ConfigError(problem, slug="scores-range")
    return low, high


def _read_table(table: ScoreColumns, score_range: tuple[float, float] | None) -> ScoreTable:
    """Read the scores of each model on each item from the chosen columns of a table.

    The table has one of these layouts:

    - Long: columns name both the model and the item, and each row has one score.
    - Wide: columns name only the models or only the items. The columns of scores are the items or the models.

    score_range : lowest and highest possible score; None if the user did not set them

    Raises: ImportFormatError; see `read_scores`.
    """
    given_scores = table.get_given_columns("score")
    model_columns = table.choose_model_columns()
    item_columns = table.choose_item_columns(model_columns)
    table.check_rows_are_named(model_columns, item_columns)
    name_columns = [*model_columns, *item_columns]
    score_columns = given_scores or table.choose_score_columns(model_columns, item_columns)

    # check that all scores have one metric, and that higher scores are better
    if model_columns and item_columns:
        table.check_single_metric(score_columns, name_columns)
    check_direction_of_averages(table, table.numbers)
    if model_columns:
        check_direction(table, score_columns)
    else:  # each column of scores is a model
        note_models_named_like_losses(table, score_columns)
    check_metric_directions(table, score_columns, name_columns)

    # check the values
    for name in score_columns:
        check_scores(table, name)
    note_conversions(table, score_columns)
    scores = _collect_scores(table, model_columns, item_columns, score_columns)
    return _average_cells(table, scores, score_range, columns=score_columns)


def _collect_scores(
    table: ScoreColumns, model_columns: list[str], item_columns: list[str], score_columns: list[str]
) -> pd.DataFrame:
    """List the scores of a table, one per row, and add a note on how the table was read.

    A long table has columns that name the model and the item of each row. A wide table has only one of these, and the other
    is the name of each column of scores.

    model_columns, item_columns : columns that together name the model, or the item, of a row; empty if there are none
    score_columns : columns of scores; in a long table, the first score of a row that is not blank is used

    Returns a table with one row per score, and the columns `model`, `item` and `score`; the score is NaN if it is missing.
    """
    import pandas as pd  # slow to import

    scores = np.column_stack([table.numbers[name] for name in score_columns])
    if model_columns and item_columns:
        table.notes.append(
            f"models: {model_columns[0]}; items: {' + '.join(item_columns)}; scores: {', '.join(score_columns)}"
        )
        first_scores = pd.DataFrame(scores).bfill(axis="columns")[0]
        ids = {"model": table.make_ids(model_columns), "item": table.make_ids(item_columns)}
        return pd.DataFrame({**ids, "score": first_scores})

    row_role, column_role = ("model", "item") if model_columns else ("item", "model")
    name_columns = model_columns or item_columns
    table.notes.append(
        f"rows are {row_role}s ({' + '.join(name_columns)}); {column_role}s: {format_names(score_columns)}"
    )
    column_ids = np.array([make_id(name) for name in score_columns], dtype=object)
    return pd.DataFrame(
        {
            row_role: np.repeat(table.make_ids(name_columns), len(score_columns)),
            column_role: np.tile(column_ids, table.n_rows),
            "score": scores.ravel(),
        }
    )


def _average_cells(
    table: ScoreColumns,
    scores: pd.DataFrame,
    score_range: tuple[float, float] | None,
    *,
    columns: Sequence[str],
) -> ScoreTable:
    """Average the scores of each model on each item, and check names, size, units, directions and range.

    Models and items with a name such as "average" are left out, unless the user chose their columns.

    scores : result of `_collect_scores`
    score_range : lowest and highest possible score; None to infer it
    columns : columns of the scores

    Raises: ImportFormatError [scores-size] if there are fewer than two models or items; [scores-id] if a name is blank
        or not valid; [scores-bounds] if a score is outside the range; [scores-percent] or [scores-scale] if percent signs
        or words do not fit the other scores or the range; [scores-scale] if `score_range` is None and the items or models
        have different units; [scores-direction] if an item seems to be a loss; [scores-pairs] for win rates of pairs.
    """
    used_scores = _remove_totals(table, scores)
    model_ids, item_ids, mean, n_scores = average_by_cell(used_scores)
    _check_ids(table, model_ids, item_ids)
    used_values = used_scores["score"].to_numpy()
    highest = float(used_values.max())
    highest_possible = highest if score_range is None else score_range[1]
    check_words_fit_scores(table, columns, highest=highest_possible)
    check_percent_signs_of_columns(table, columns, highest=highest, score_range=score_range)
    low, high = determine_range(table.source, used_values, score_range)

    check_item_directions(table, item_ids, mean)
    note_possible_losses(table, [*columns, *item_ids])
    check_not_win_rates(table.source, mean, model_ids, item_ids)
    _note_averaged_cells(table, n_scores)
    table.notes += filter(None, [describe_similar_names(model_ids), describe_similar_names(item_ids)])
    if score_range is None:
        check_units(table.source, mean, item_ids)
        table.notes += filter(None, [check_model_units(table.source, mean, model_ids)])
        table.notes += describe_missing_codes(used_values)
        table.notes.append(f"range of scores assumed: {low:g} to {high:g} (--range sets it)")
    return ScoreTable(table.source, tuple(model_ids), tuple(item_ids), mean, n_scores, low, high, tuple(table.notes))


def _note_averaged_cells(table: ScoreColumns, n_scores: Positions) -> None:
    """Add a note with the number of cells that have several scores, if there are such cells.

    n_scores : int array (n_models, n_items), number of scores of each cell
    """
    if n_scores.max() > 1:
        n_repeated = format_count(int((n_scores > 1).sum()), "cell", "has", "have")
        note = f"{n_repeated} several scores (up to {n_scores.max()}), which are averaged"
        if table.located.tables:
            names = format_names(table.located.tables)
            note += f"; if the tables {names} have different items, give these different names"
        table.notes.append(note)


def _remove_totals(table: ScoreColumns, scores: pd.DataFrame) -> pd.DataFrame:
    """Remove missing scores, and the scores of models and items that summarize others.

    A note lists these models and items. They have a name such as "total" or "std. dev.", or scores that summarize all
    others (`_find_summaries`). Columns of scores that the user set are not removed.

    scores : result of `_collect_scores`

    Raises: ImportFormatError [scores-direction] if an average is named like a loss.
    """
    kept_names = table.get_given_columns("score")
    ids = scores[["model", "item"]]
    model_statistics = find_statistics(ids["model"].unique().tolist())
    item_statistics = find_statistics(ids["item"].unique().tolist())
    totals = sorted((model_statistics | item_statistics).difference(kept_names))
    scores_of_totals = {}
    for name in totals:
        is_score_of_total = ids.isin([name]).any(axis=1)
        scores_of_totals[name] = scores["score"][is_score_of_total].to_numpy()
    check_direction_of_averages(table, scores_of_totals)
    scores = scores[~ids.isin(totals).any(axis=1)].dropna()

    summaries = _find_summaries(scores) - set(kept_names)
    if totals or summaries:
        table.notes.append(f"averages or other statistics not used: {', '.join(sorted({*totals, *summaries}))}")
    return scores[~scores[["model", "item"]].isin(summaries).any(axis=1)]


def _find_summaries(scores: pd.DataFrame) -> set[str]:
    """Find models and items whose scores are a mean, a maximum or another summary of all others.

    scores : table with the columns `model`, `item` and `score`, without NaN

    Returns the ids of the models and items.
    """
    model_ids, item_ids, mean, _ = average_by_cell(scores)
    summaries: set[str] = set()
    # one column per model, and then one column per item
    for columns, ids in ((mean.T, model_ids), (mean, item_ids)):
        extremes = find_extremes(columns, ids)
        other_positions = np.delete(np.arange(len(ids)), extremes)
        aggregates = other_positions[find_aggregates(columns[:, other_positions])]
        summaries.update(ids[position] for position in [*extremes, *aggregates.tolist()])
    return summaries


def _check_ids(table: ScoreColumns, model_ids: Sequence[str], item_ids: Sequence[str]) -> None:
    """Check that there are several models and items, and that their names are valid.

    Raises: ImportFormatError [scores-size] if there are fewer than two models or items; [scores-id] if a name is blank
        or not valid.
    """
    n_models, n_items = len(model_ids), len(item_ids)
    if n_models < 2 or n_items < 2:
        numbers = f"{format_count(n_models, 'model')} and {format_count(n_items, 'item')}"
        problem = f"it has scores of fewer than 2 models or on fewer than 2 items: got {numbers}."
        remedy = "Add scores, or set --column ROLE=NAME."
        raise import_error(table.source, f"{problem} {remedy}", slug="scores-size")

    for name in (*model_ids, *item_ids):
        fault = find_name_fault(name) if name else "of a model or item is blank. Fill in the cell."
        if fault is not None:
            raise import_error(table.source, f"the name {format_excerpt(name)} {fault}", slug="scores-id")
