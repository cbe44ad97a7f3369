"""Read tables of scores of models on items, in long or wide form.

What a table does not state is inferred and noted. If the roles of its columns are ambiguous, the error names the option
that sets them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from youden.data.importers.column_names import (
    SUBJECTS,
    get_name_priority,
    infer_role,
    is_about_responses,
    normalize_name,
    split_into_words,
)
from youden.data.importers.foreign_files import import_error
from youden.data.label_tables import list_spellings
from youden.data.pools.spool import format_excerpt
from youden.data.score_columns import (
    CONVERSIONS,
    ScoreColumn,
    average_by_cell,
    format_names,
    is_percentage,
    is_word,
    make_id,
)
from youden.data.score_ranges import (
    MAX_METRICS,
    check_model_units,
    check_not_win_rates,
    check_units,
    describe_missing_codes,
    describe_reversal,
    determine_range,
    find_aggregates,
    find_extremes,
    find_loss_items,
    find_possible_losses,
    is_loss,
)
from youden.data.score_rows import LocatedFrame, is_model_name, locate_frame_rows, read_score_rows
from youden.errors import ConfigError, ImportFormatError
from youden.text.printable import find_name_fault
from youden.text.sentences import describe_similar_names, format_count, suggest_name
from youden.types.pool import Bools, Floats, Positions, ReadOnly

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("model", "item", "score", "ignore")
"""Roles that `--column` accepts. A column of the role "ignore" is not used."""
_SCORE_NAMES = {"score", "scores", "value", "main_score"}
"""Normalized names of the column of scores in a long table, which has one row per model and item."""
_TOTAL = re.compile(
    r"all(_(models|systems|agents|items|tasks|benchmarks|datasets))?|σ|(mean|median|sum)(_.*)?|(.*_)?(average|avg|overall|total)(_.*)?"
    r"|(durchschnitt|mittelwert|gesamt|insgesamt|summe|moyenne|promedio)(_.*)?|(平均|合計|总分|總分)(_.*)?"
)
"""Normalized names of averages and totals."""
_DEVIATION = re.compile(
    r"(.*_)?(std|stdev|stddev|std_dev|std_?err(or)?|standard_(deviation|error)|sem|variance|\d+_ci|ci_\d+)"
)
"""Normalized names of standard deviations and errors."""
_STATISTIC = re.compile(r"sd|se|n|min(imum)?|max(imum)?|count|range|ci|var|q1|q3|iqr")
"""Normalized names of statistics, which may also name models or items if no other statistic is next to them."""
_NO_SCORE = re.compile(
    r"(.*_)?rank(ing)?(_.*)?|(δ|delta)(_.*)?|no|#|(.*_)?(stderr|stddev|std|std_error|se|ci)|(number_of_|num_|n_|#_?)?param(eter)?s?(_.)?|(model_)?size(_.*)?"
    r"|memory(_usage)?(_.*)?|max_tokens|embedding_dim.*|context_(length|window|size|k)|(release_)?(date|year)|(.*_)?(price|cost|usd|latency)"
    r"|((n|num|avg|mean|total|input|output|completion)_)*tokens(_s|_per_second)?|(speed|throughput)(_(tok|tokens)_.*)?"
    r"|(latency|(run)?time|duration)(_(s|ms|sec|seconds|min|h))?|(task_)?weights?"
    r"|temperature|top_[kp]|((n|num|few)_)*shots?|votes|n|count|num_.*|n_(samples|items)|co[2₂].*|(hub_)?likes|hub|seed|version|zero_shot|repeat|epoch|trial|attempt"
)
"""Normalized names of columns of numbers that are not scores."""
_ITEM_FACT = re.compile(
    r"(.*_)?(difficulty|complexity|length|max(imum)?_(score|points|marks)|points|marks|level|(n|num)_\w+|word_count|answer|target)"
)
"""Normalized names of columns of numbers that describe items, such as their difficulty."""
_MAX_RISING_SCORES = 5
"""Maximum number of rows in which scores may happen to be 1, 2, 3 and so on, like row numbers."""
_ROW_LABEL = re.compile(
    r"index|idx|index_level_\d+|level_0|column_1|unnamed_0(_\d+)*|row(_?(id|index|no|num|number|nr))?|nr|no|#"
)
"""Normalized names of columns that may number the rows, such as the index of a table saved by pandas."""
_METRICS = {"metric", "metric_name", "measure", "filter"}


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
        Mean score of each model on each item (n_models, n_items), NaN if missing, with the range of the scores. Scores stay
        in the unit of the table; only percentages are divided by 100, and words such as yes become 1. In a wide table, each
        column of scores is an item or a model. In a long table, the score of a row is its first one that is not blank.
        Higher scores must be better.

    Raises
    ------
    ImportFormatError
        [scores-columns], [scores-direction], [scores-value], [scores-percent], [scores-scale], [scores-bounds], [scores-id],
        [scores-size], [scores-pairs]: if the table cannot be used, or the roles of its columns are ambiguous; others if a
        file cannot be read.
    ConfigError
        [scores-role]: if `columns` has another role, or a name that is not a text; [scores-range]: if `score_range` is
        not two finite numbers in ascending order.
    """
    given = _check_roles({} if columns is None else columns)
    bounds = None if score_range is None else _check_range(score_range)
    notes: list[str] = []
    given_paths = [table] if isinstance(table, str | Path) else table
    if isinstance(given_paths, Sequence) and all(isinstance(path, str | Path) for path in given_paths):
        if "" in given_paths:
            raise import_error("table", "a path is empty: got ''. Pass the path of a table.", slug="import-not-found")
        paths = [Path(path) for path in given_paths]
        source, located = ", ".join(path.name for path in paths), read_score_rows(paths, notes)
    else:
        source, located = "table", locate_frame_rows(table)
    return _TableReader(source, located, given, notes).read(bounds)


def _check_roles(columns: Any) -> dict[str, str]:
    """Return the columns that the user set, as a dictionary: role → name of the column.

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


def _check_range(score_range: Any) -> tuple[float, float]:
    """Return the range of scores as floats; raise ConfigError [scores-range] if it is not two finite numbers in order."""
    try:
        low, high = map(float, score_range)
        is_range = -inf < low < high < inf and not isinstance(score_range, str)
    except (TypeError, ValueError):
        is_range = False
    if not is_range:
        problem = f"The range of scores is not a finite LOW below HIGH: got {score_range}. Set, for example, 1 and 5."
        raise ConfigError(problem, slug="scores-range")
    return low, high


def find_statistics(names: Sequence[str]) -> set[str]:
    """Find names of averages, totals and other statistics among the names of models or items.

    A name such as "SD" or "min", which may also be that of a model or an item, counts only next to another statistic.

    >>> sorted(find_statistics(["gpt", "SD", "claude"])), sorted(find_statistics(["gpt", "claude", "mean", "SD"]))
    ([], ['SD', 'mean'])

    names : names in the order of the table
    """
    statistics: set[str] = set()
    block: list[str] = []
    for name in [*names, ""]:
        normalized = normalize_name(name)
        is_certain = bool(_TOTAL.fullmatch(normalized) or _DEVIATION.fullmatch(normalized))
        if is_certain:
            statistics.add(name)
        if is_certain or _STATISTIC.fullmatch(normalized):
            block.append(name)
        else:
            statistics.update(block if len(block) > 1 else [])
            block = []
    return statistics


def _describes_item(name: str) -> bool:
    """Return whether a column of numbers describes the item of a row, judged by its name, such as "difficulty" or "gold"."""
    normalized = normalize_name(name)
    is_fact = is_about_responses(name) or _ITEM_FACT.fullmatch(normalized) is not None
    return is_fact and normalized not in _SCORE_NAMES


class _TableReader:
    """Finds the roles of the columns of a table, and collects its scores.

    Attributes
    ----------
    source : str
        Name of the table, for errors.
    located : LocatedFrame
        Rows of the table, and their locations.
    given : mapping of str to str
        Columns by role, as set by the user.
    notes : list of str
        Receives what was assumed or left out.
    columns : dict of str to ScoreColumn
        Columns by name, without those to be ignored.
    numbers : dict of str to float array (n_rows,)
        Number in each row of a column; NaN for a blank value and infinite for a text.
    numeric : list of str
        Columns with at least one number, and no more texts than numbers.
    """

    def __init__(self, source: str, located: LocatedFrame, given: Mapping[str, str], notes: list[str]) -> None:
        self.source, self.located, self.given, self.notes = source, located, given, notes
        self.n_rows = len(located.frame)
        self.columns = {str(name): ScoreColumn.from_values(values) for name, values in located.frame.items()}
        for name in set(self.get_given_columns("ignore")):
            del self.columns[name]
        self.numbers = {name: column.to_numbers() for name, column in self.columns.items()}

        self.numeric = []
        for name, numbers in self.numbers.items():
            n_numbers = np.isfinite(numbers).sum()
            n_texts = np.isinf(numbers).sum()
            if n_numbers > 0 and n_numbers >= n_texts:
                self.numeric.append(name)

    def get_given_columns(self, role: str) -> list[str]:
        """Return the columns that the user set for a role; empty if the user set none.

        Names are separated by "+" for the role "item", and by commas for others.

        Raises: ImportFormatError [scores-columns] if the table has no such column.
        """
        option = self.given.get(role, "")
        separator = "+" if role == "item" else ","
        parts = [option] if option in self.columns else option.split(separator)
        names = [part.strip() for part in parts if part.strip()]
        for name in names:
            if name not in self.columns:
                suggestion = suggest_name(name, list(self.columns))
                problem = f"there is no column {name!r}. {suggestion} Set --column {role}=NAME."
                raise import_error(self.source, problem, slug="scores-columns")
        return names

    def read(self, score_range: tuple[float, float] | None) -> ScoreTable:
        """Return the scores of the table.

        A table with columns of models and of items is long: it has one row per model and item. A table with only one of
        them is wide, and its columns of scores are the items or the models.

        score_range : lowest and highest possible score; None if the user did not set them

        Raises: ImportFormatError; see `read_scores`.
        """
        given_scores = self.get_given_columns("score")
        model_columns = self.choose_model_columns()
        item_columns = self.choose_item_columns(model_columns)
        self.check_rows_are_named(model_columns, item_columns)
        name_columns = [*model_columns, *item_columns]
        is_long = bool(model_columns and item_columns)
        score_columns = given_scores or self.choose_score_columns(name_columns, is_long=is_long)

        # check that all scores have one metric, and that higher scores are better
        if is_long:
            self.check_single_metric(score_columns, name_columns)
        self.check_direction_of_averages(self.numbers)
        if model_columns:
            self.check_direction(score_columns, is_set_by_user=bool(given_scores))
        else:  # each column of scores is a model
            self.note_models_named_like_losses(score_columns)
        self.check_metric_directions(score_columns, name_columns)

        # check the values
        for name in score_columns:
            self.check_scores(name)
        self.note_conversions(score_columns)
        if is_long:
            return self.collect_long_scores(model_columns, item_columns, score_columns, score_range)
        return self.collect_wide_scores(model_columns, item_columns, score_columns, score_range)

    def list_unassigned_columns(self) -> list[str]:
        """List the columns that the user set neither for models nor for items nor for scores."""
        assigned_columns = {name for role in ("model", "item", "score") for name in self.get_given_columns(role)}
        return [name for name in self.columns if name not in assigned_columns]

    def check_rows_are_named(self, model_columns: Sequence[str], item_columns: Sequence[str]) -> None:
        """Check that the table has rows, and that each row names a model or an item.

        model_columns, item_columns : columns that name the model, or the item, of each row

        Raises: ImportFormatError [import-empty] if the table has no rows; [scores-columns] if no column names models or
            items, or if a column of numbers seems to name the models.
        """
        if self.n_rows == 0:
            problem = "the table is empty: got 0 rows. Pass a table with a header and at least one row."
            raise import_error(self.source, problem, slug="import-empty")
        if not model_columns and not item_columns:
            raise self.make_unnamed_rows_error()
        # if the user did not set the columns of scores, each column of numbers next to the items would become a model
        if not model_columns and not self.get_given_columns("score"):
            self.check_models_are_not_numbers(item_columns)

    def check_models_are_not_numbers(self, item_columns: Sequence[str]) -> None:
        """Check that the table does not name its models by numbers, which would be read as scores.

        For example, a table has the columns item, model and score, and its models are called 1, 2 and 3. Without this
        check, the column `model` would be read as the scores of a model with the name "model".

        item_columns : columns that name the items; no column names the models

        Raises: ImportFormatError [scores-columns] if a column of numbers is named `model`, items have several rows, and all
            rows of an item have different numbers in this column.
        """
        n_items = len(set(self.make_ids(item_columns)))
        if n_items == self.n_rows:
            return
        number_columns = [name for name in self.numeric if normalize_name(name) == "model"]
        for name in number_columns:
            model_and_item_ids = self.make_ids([name, *item_columns])
            is_unique_in_each_row = len(set(model_and_item_ids)) == self.n_rows
            if is_unique_in_each_row:
                problem = f"a column of models has numbers, and items have several rows: got {name!r}."
                option = quote(f"model={name}")
                remedy = f"Set --column {option}, or name all columns of scores by --column score=NAME,NAME."
                raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

    def make_unnamed_rows_error(self) -> ImportFormatError:
        """Make the error [scores-columns] for a table without a column that contains the names of models or of items.

        The remedy proposes the first column of texts for these names. If there is none, it proposes a column of numbers with
        a name such as "model", or else a new column.
        """
        text_columns = [name for name in self.list_unassigned_columns() if name not in self.numeric]
        model_columns = [name for name in self.columns if is_model_name(name)]
        if text_columns:
            column = text_columns[0]
            remedy = f"Set --column {quote(f'model={column}')} or --column {quote(f'item={column}')}."
        elif model_columns:
            remedy = f"Set --column {quote(f'model={model_columns[0]}')} if the numbers in this column name the models."
        else:
            remedy = "Add a column `model` or `item` that names each row."
        problem = f"its columns do not state whether a row is a model or an item: got {format_names(self.columns)}."
        return import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

    def collect_long_scores(
        self,
        model_columns: list[str],
        item_columns: list[str],
        score_columns: list[str],
        score_range: tuple[float, float] | None,
    ) -> ScoreTable:
        """Return the scores of a long table, which has one row per score of a model on an item.

        Rows without a score are skipped, and several scores of a model on an item are averaged. The scores stay in the unit
        of the table.

        model_columns, item_columns : columns that together name the model, or the item, of a row
        score_columns : columns of scores; the score of a row is the first that is not blank
        score_range : lowest and highest possible score; None if the user did not set them, so that they are inferred

        Raises: ImportFormatError; see `average_cells`.
        """
        self.notes.append(
            f"models: {model_columns[0]}; items: {' + '.join(item_columns)}; scores: {', '.join(score_columns)}"
        )
        row_scores = np.full(self.n_rows, np.nan)
        for name in score_columns:
            row_scores = np.where(np.isnan(row_scores), self.numbers[name], row_scores)
        model_ids, item_ids = self.make_ids(model_columns), self.make_ids(item_columns)
        return self.average_cells(model_ids, item_ids, row_scores, score_range, columns=score_columns)

    def check_words_fit_scores(self, score_columns: Sequence[str], *, highest: float) -> None:
        """Check that no score exceeds 1 if columns contain words such as yes and no, which are read as 1 and 0.

        For example, a column with "yes" and 80 is an error, because the number seems to be a percentage. A column with "fail"
        and 80 is accepted, because "fail" is read as 0, which is the same score in both units.

        score_columns : columns of scores
        highest : highest possible score, if the user set it, or else the highest score

        Raises: ImportFormatError [scores-scale] if `highest` is above 1, and a column contains such words.
        """
        columns_of_words = [name for name in score_columns if self.columns[name].has_words_for_fractions]
        if not columns_of_words or highest <= 1:
            return
        name = columns_of_words[0]
        words = format_names(str(value) for value in self.columns[name].converted if is_word(value))
        problem = f"{name!r} has words, which are read as 0 to 1, and scores are up to {highest:g}: got {words}."
        remedy = "Write numbers of one unit"
        if len(score_columns) > 1:
            remedy += f", or set --column {quote(f'ignore={name}')}"
        raise import_error(self.source, f"{problem} {remedy}.", slug="scores-scale")

    def check_percent_signs_of_columns(
        self, score_columns: Sequence[str], *, highest: float, score_range: tuple[float, float] | None
    ) -> None:
        """Check that the columns of scores have the same unit: percentages with a percent sign, or other numbers.

        Percentages with a sign have been divided by 100, so they are usually at most 1. A score or range above 1 probably has
        another unit, such as percent without a sign. There are two errors:

        - Some columns have percent signs, others have none, and a score or the end of the range is above 1.
        - All columns have percent signs, no score is above 1, but the end of the range is.

        score_columns : columns of scores
        highest : highest score, after division of percentages by 100
        score_range : lowest and highest possible score; None if the user did not set them

        Raises: ImportFormatError [scores-percent] in these two cases.
        """
        with_sign = [name for name in score_columns if any(map(is_percentage, self.columns[name].converted))]
        if not with_sign:
            return
        without_sign = [name for name in score_columns if name not in with_sign]
        end_of_range = 1.0 if score_range is None else score_range[1]
        upper_bound = max(highest, end_of_range)
        if without_sign and upper_bound > 1:
            problem = (
                f"some columns, such as {with_sign[0]!r}, have percent signs, but others, such as {without_sign[0]!r}, have "
                f"none, and the scores or the range go up to {upper_bound:g}. Write all scores in the same way, with a "
                "percent sign or without."
            )
            raise import_error(self.source, problem, slug="scores-percent")
        # here, the end of the range can be above 1 only if all columns have percent signs
        if highest <= 1 and end_of_range > 1:
            problem = f"scores with a percent sign are divided by 100, but their range is above 1: got up to {end_of_range:g}."
            remedy = "Set --range 0,1, or remove the percent signs."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-percent")

    def collect_wide_scores(
        self,
        model_columns: list[str],
        item_columns: list[str],
        score_columns: list[str],
        score_range: tuple[float, float] | None,
    ) -> ScoreTable:
        """Return the scores of a wide table, whose rows are models and whose columns are items, or the reverse.

        Empty cells are missing scores, and several rows with the same name are averaged. The scores stay in the unit of the
        table.

        model_columns : columns that together name the model of a row; empty if the rows are items
        item_columns : columns that together name the item of a row; empty if the rows are models
        score_columns : columns of scores, each named after its item, or after its model if the rows are items
        score_range : lowest and highest possible score; None if the user did not set them, so that they are inferred

        Raises: ImportFormatError; see `average_cells`.
        """
        row_names = self.make_ids(model_columns or item_columns)
        column_names = np.array([make_id(name) for name in score_columns], dtype=object)
        scores = np.column_stack([self.numbers[name] for name in score_columns])

        # list the scores row by row, with the names of the row and the column of each score
        score_rows = np.repeat(row_names, len(score_columns))
        score_names = np.tile(column_names, self.n_rows)
        if model_columns:
            models, items = score_rows, score_names
            note = f"rows are models ({' + '.join(model_columns)}); items: {format_names(score_columns)}"
        else:
            models, items = score_names, score_rows
            note = f"rows are items ({' + '.join(item_columns)}); models: {format_names(score_columns)}"
        self.notes.append(note)
        return self.average_cells(models, items, scores.ravel(), score_range, columns=score_columns)

    def choose_model_columns(self) -> list[str]:
        """Choose the columns that contain the names of the models: those that the user set, or else one by its name.

        The result is empty if the user set no column, and no column of texts has a name such as "model".

        Raises: ImportFormatError [scores-columns] if several columns have equally good names.
        """
        given_columns = self.get_given_columns("model")
        if given_columns:
            return given_columns
        text_columns = [name for name in self.list_unassigned_columns() if name not in self.numeric]
        candidates = [name for name in text_columns if is_model_name(name)]
        priority = {name: get_name_priority(name, "agent") for name in candidates}
        best = [name for name in candidates if priority[name] == min(priority.values())]
        if len(best) > 1:
            problem = f"several columns may contain the models: got {format_names(best)}. Set --column model=NAME."
            raise import_error(self.source, problem, slug="scores-columns")
        return best

    def choose_item_columns(self, model_columns: Sequence[str]) -> list[str]:
        """Choose the columns that together name the items.

        Columns that the user set are chosen. If there are none, the columns whose names and values fit items are chosen. In a
        table without a column of models, each row is an item, and the first of these columns is sufficient to name it. Columns
        that number the rows are chosen only if there are no others.

        model_columns : columns with the names of the models; empty if there are none
        """
        given_columns = self.get_given_columns("item")
        if given_columns:
            return given_columns
        possible_columns = [name for name in self.list_unassigned_columns() if self.may_be_item(name)]
        named_columns = [name for name in possible_columns if not self.numbers_rows(name)] or possible_columns
        return self.omit_row_ids(named_columns, model_columns) if model_columns else named_columns[:1]

    def omit_row_ids(self, item_columns: list[str], model_columns: Sequence[str]) -> list[str]:
        """Leave out columns that number rows by their name, or have another value in each row, so that models share items.

        If the other columns do not distinguish the rows of a model, all columns are kept. If all columns are left out, each row
        is a model.

        item_columns : columns that may identify the items
        model_columns : columns with the names of the models
        """
        other_columns = [name for name in item_columns if not _ROW_LABEL.fullmatch(normalize_name(name))]
        shared_columns = [name for name in other_columns if not self.has_distinct_values(name)]
        cell_ids = self.make_ids([*model_columns, *shared_columns])
        are_cells_distinct = len(set(cell_ids)) == self.n_rows
        return shared_columns if are_cells_distinct else item_columns

    def has_distinct_values(self, name: str) -> bool:
        """Return whether a column has another value in each row."""
        return len(self.columns[name].unique_values) == self.n_rows

    def numbers_rows(self, name: str) -> bool:
        """Return whether a column numbers the rows: by its name, and by values that are distinct whole numbers."""
        numbers = self.numbers[name]
        are_whole = bool((numbers >= 0).all() and np.isfinite(numbers).all()) and not (numbers % 1).any()
        return are_whole and self.has_distinct_values(name) and bool(_ROW_LABEL.fullmatch(normalize_name(name)))

    def may_be_item(self, name: str) -> bool:
        """Return whether a column may identify items: by its name, and by values that are texts or whole numbers."""
        has_name = infer_role(name) in ("item", "prompt") or not SUBJECTS.isdisjoint(split_into_words(name))
        numbers = self.numbers[name][np.isfinite(self.numbers[name])]
        return has_name and not (numbers % 1).any() and not _NO_SCORE.fullmatch(normalize_name(name))

    def choose_score_columns(self, name_columns: Sequence[str], *, is_long: bool) -> list[str]:
        """Choose the columns of scores (`list_score_candidates`), and add a note that lists the columns that are not used.

        name_columns : columns that name models and items; the column of models is the first
        is_long : whether the table has one row per model and item; otherwise its columns of scores are models or items

        Returns one column for a long table, and at least two for other tables.

        Raises: ImportFormatError [scores-columns] if it is unclear which columns have scores, or if the table has only one model.
        """
        score_columns = self.list_score_candidates(name_columns, is_long=is_long)
        not_used = [name for name in self.columns if name not in score_columns and name not in name_columns]
        if not_used:
            self.notes.append(f"columns not used: {', '.join(not_used)}")

        if not is_long:
            self.check_wide_scores(score_columns, name_columns)
            return score_columns
        if len(score_columns) != 1:
            raise self.make_unclear_scores_error(score_columns, option="score=NAME")
        return score_columns

    def list_score_candidates(self, name_columns: Sequence[str], *, is_long: bool) -> list[str]:
        """List the columns that may contain scores.

        Numbers that are not scores, such as ranks, averages and prices, are left out. In a wide table, a column is also left out
        if it equals the mean or the sum of the other columns. If the rows are items, columns that describe items are left out,
        unless fewer than two columns would remain: a table has the scores of at least two models. If exactly one column of a
        long table has a usual name, such as "score", and no missing value, the list contains only this column.

        name_columns : columns that name models and items, which have no scores
        is_long : whether the table has one row per model and item; otherwise its columns of scores are models or items
        """
        statistics = find_statistics(list(self.columns))
        number_columns = [name for name in self.numeric if name not in name_columns and name not in statistics]
        candidates = [name for name in number_columns if not self.holds_no_scores(name)]
        if not self.has_rows_of_models(name_columns):
            models = [name for name in candidates if not _describes_item(name)]
            candidates = models if len(models) > 1 else candidates
        if not candidates:
            return []
        if not is_long:
            candidate_scores = np.column_stack([self.numbers[name] for name in candidates])
            aggregates = find_aggregates(candidate_scores)
            return [name for position, name in enumerate(candidates) if position not in aggregates]

        usual_columns = [name for name in candidates if normalize_name(name) in _SCORE_NAMES]
        if len(usual_columns) == 1:
            is_missing = np.isnan(self.numbers[usual_columns[0]])
            if not is_missing.any():
                return usual_columns
        return candidates

    def check_wide_scores(self, score_columns: Sequence[str], name_columns: Sequence[str]) -> None:
        """Check that a wide table has at least two columns of scores, which are named after models or items.

        A column with a general name, such as "score", is not named after a model or an item. The table is then probably long,
        with a column of models or items that was not recognized. The same is likely if the rows are models, and there is
        only one column of scores. If the rows are items, a single column contains the scores of a single model.

        score_columns : columns that may hold scores
        name_columns : columns that name models or items

        Raises: ImportFormatError [scores-columns] if there are fewer than two columns of scores, or if one has a general name.
        """
        if len(score_columns) == 1 and not self.has_rows_of_models(name_columns):
            problem = f"it has the scores of one model: got one column of scores, {score_columns[0]!r}, and no column of models."
            remedy = "Pass one file per model, at least two, or add a column `model` with at least two models."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

        has_general_name = any(normalize_name(name) in _SCORE_NAMES for name in score_columns)
        if len(score_columns) < 2 or has_general_name:
            raise self.make_unclear_scores_error(score_columns, option="model=NAME, item=NAME or score=NAME,NAME")

    def make_unclear_scores_error(self, score_columns: Sequence[str], *, option: str) -> ImportFormatError:
        """Make the error [scores-columns] for a table in which it is unclear which columns contain scores.

        score_columns : columns that may contain scores
        option : value of the option --column that resolves the error, such as "score=NAME", for the message
        """
        received = (
            f"got {format_names(score_columns)}" if score_columns else f"got none except {format_names(self.columns)}"
        )
        problem = f"its columns of scores are not clear: {received}. Set --column {option}."
        return import_error(self.source, problem, slug="scores-columns")

    def check_single_metric(self, score_columns: Sequence[str], name_columns: Sequence[str]) -> None:
        """Check that all scores of a long table have the same metric, so that their mean is meaningful.

        A column with a name such as "metric" states the metric of each row. It may have several values only if the user made
        it a part of the names of models or items, as by the option `--column item=task+metric`.

        score_columns : columns of scores
        name_columns : columns that together name models and items; the column of models is the first

        Raises: ImportFormatError [scores-columns] if a column of metrics that is not in `name_columns` has several values.
        """
        for name in self.list_metric_columns(score_columns, name_columns):
            metrics = self.columns[name].unique_values
            if len(metrics) > 1:
                item_option = "+".join([*name_columns[1:], name])
                problem = f"{name!r} has several metrics: got {format_names(map(str, metrics))}."
                remedy = f"Keep one, or set --column item={item_option}."
                raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

    def list_metric_columns(self, score_columns: Sequence[str], name_columns: Sequence[str]) -> list[str]:
        """List the columns that state the metric of each row, which have a name such as "metric".

        A column that contains scores, or that names models or items, is left out.
        """
        other_columns = [name for name in self.columns if name not in (*score_columns, *name_columns)]
        return [name for name in other_columns if normalize_name(name) in _METRICS]

    def has_rows_of_models(self, name_columns: Sequence[str]) -> bool:
        """Return whether a column names the model of each row: the user set it, or its name says so."""
        return "model" in self.given or any(map(is_model_name, name_columns))

    def holds_no_scores(self, name: str) -> bool:
        """Return whether a column holds ranks, row numbers, ids, or other numbers that are not scores."""
        numbers = self.numbers[name]
        normalized_name = normalize_name(name)
        if _NO_SCORE.fullmatch(normalized_name):
            # "no" may be the language Norwegian, whose scores are not all integers
            may_be_norwegian = normalized_name == "no" and bool((numbers[np.isfinite(numbers)] % 1).any())
            return not may_be_norwegian
        may_count_rows = len(numbers) > 2 and numbers[0] in (0, 1) and bool(np.isfinite(numbers).all())
        if self.numbers_rows(name) or normalized_name == "id" or normalized_name.endswith("_id"):
            return True
        if may_count_rows and bool((np.diff(numbers) == 1).all()):
            is_first_column = name == next(iter(self.columns))
            return is_first_column or len(numbers) > _MAX_RISING_SCORES  # three scores may be 1, 2 and 3
        return False

    def check_direction(self, score_columns: Sequence[str], *, is_set_by_user: bool) -> None:
        """Check that no column of scores seems to be a loss or an error rate, of which lower values are better.

        score_columns : columns of scores
        is_set_by_user : whether the user set these columns; the first loss among them is then noted and accepted

        Raises: ImportFormatError [scores-direction] if a column seems to be a loss, and the user did not set the columns.
        """
        losses = [name for name in score_columns if is_loss(name, self.numbers[name])]
        if not losses:
            return
        loss = losses[0]
        if is_set_by_user:
            self.note_direction(loss)
            return
        problem = (
            f"lower values seem to be better in a column of scores, and an audit ranks the highest first: got {loss!r}."
        )
        remedy = (
            f"Leave the column out by --column {quote(f'ignore={loss}')}{describe_reversal(loss, self.numbers[loss])}. If higher "
            "values are better, name all columns of scores by --column score=NAME,NAME."
        )
        raise import_error(self.source, f"{problem} {remedy}", slug="scores-direction")

    def check_direction_of_averages(self, values_by_name: Mapping[str, Floats]) -> None:
        """Check that no average has the name of a loss, such as "Average WER": the scores are then losses, whatever their names.

        values_by_name : values of columns, models or items by name; NaN if missing

        Raises: ImportFormatError [scores-direction] if there is such an average, and the user did not set the columns of scores.
        """
        averages = [name for name in values_by_name if _TOTAL.fullmatch(normalize_name(name))]
        losses = [name for name in averages if is_loss(name, values_by_name[name])]
        if not losses:
            return
        if self.given.get("score"):
            self.note_direction(losses[0])
            return
        problem = (
            "lower values seem to be better for an average of the scores, and an audit ranks the highest first: got "
            f"{losses[0]!r}."
        )
        remedy = (
            "Change the sign of all scores. If higher ones are better, name all columns of scores by --column "
            "score=NAME,NAME."
        )
        raise import_error(self.source, f"{problem} {remedy}", slug="scores-direction")

    def note_models_named_like_losses(self, columns: Sequence[str]) -> None:
        """Add a note for each column that is read as a model, although it is named like a loss or an error rate."""
        for name in columns:
            if is_loss(name, self.numbers[name]):
                remedy = f"if it is not one, leave it out by --column {quote(f'ignore={name}')}"
                self.notes.append(f"the column {name!r} is read as a model; {remedy}")

    def note_direction(self, loss: str) -> None:
        """Add a note, once, that the highest values of a loss rank first."""
        note = f"the highest values of {loss!r} rank first, although lower ones seem to be better"
        if note not in self.notes:
            self.notes.append(note)

    def check_metric_directions(self, score_columns: Sequence[str], name_columns: Sequence[str]) -> None:
        """Check that higher values are better for the metrics that a column such as "metric" names.

        If the user set the columns of scores, a note about the first loss is added instead of an error.

        score_columns : columns of scores
        name_columns : columns that name models and items

        Raises: ImportFormatError [scores-direction] if a metric seems to be a loss, and the user did not set the columns.
        """
        values = np.concatenate([self.numbers[name] for name in score_columns])
        for name in self.list_metric_columns(score_columns, name_columns):
            losses = [metric for metric in map(str, self.columns[name].unique_values) if is_loss(metric, values)]
            if losses and self.given.get("score"):
                self.note_direction(losses[0])
            elif losses:
                problem = (
                    "lower values seem to be better for a metric, and an audit ranks the highest first: got "
                    f"{format_excerpt(losses[0])} in the column {name!r}."
                )
                remedy = (
                    f"Leave out its rows{describe_reversal(losses[0], values)}. If higher values are better, name all columns of "
                    "scores by --column score=NAME,NAME."
                )
                raise import_error(self.source, f"{problem} {remedy}", slug="scores-direction")

    def check_item_directions(self, item_ids: Sequence[str], score: Floats) -> None:
        """Check that no item has the name of a loss or an error rate, of which lower scores are better.

        If the user set the columns of scores, each such item is accepted, and a note is added. Otherwise, it is an error,
        because the highest scores rank first.

        item_ids : ids of the items
        score : float array (n_models, n_items); NaN if missing

        Raises: ImportFormatError [scores-direction] if an item seems to be a loss, and the user did not set the columns.
        """
        loss_items = find_loss_items(item_ids, score)
        are_columns_set_by_user = bool(self.given.get("score"))
        if are_columns_set_by_user:
            for item_id in loss_items:
                self.note_direction(item_id)
        if are_columns_set_by_user or not loss_items:
            return

        problem = (
            "lower scores seem to be better on an item, and an audit ranks the highest first: got the item "
            f"{format_excerpt(loss_items[0])}."
        )
        reversal = describe_reversal(loss_items[0], score[:, item_ids.index(loss_items[0])])
        remedy = (
            f"Leave out its rows{reversal}. If higher scores are better, name all columns of scores by --column "
            "score=NAME,NAME."
        )
        raise import_error(self.source, f"{problem} {remedy}", slug="scores-direction")

    def note_possible_losses(self, names: Sequence[str]) -> None:
        """Add a note if columns or items are named like metrics of which lower values are often better, such as "toxicity"."""
        metrics = list(dict.fromkeys(names))
        possible_losses = find_possible_losses(metrics) if len(metrics) <= MAX_METRICS else []
        if possible_losses:
            self.notes.append(
                f"the highest values of {format_names(possible_losses)} rank first: if lower ones are better, subtract them from "
                "their highest possible value, or leave them out"
            )

    def check_scores(self, name: str) -> None:
        """Check that the values of a column of scores are finite numbers with a clear meaning.

        name : column of scores

        Raises: ImportFormatError [scores-value] if a comma is ambiguous, as in 1,234, or if a value is not a finite number;
            [scores-percent] if some values have a percent sign and others do not.
        """
        self.check_commas(name)
        column = self.columns[name]
        infinite_indices = np.flatnonzero(np.isinf(column.unique_numbers)).tolist()
        if infinite_indices:
            excerpt = format_excerpt(column.unique_values[infinite_indices[0]])
            problem = f"{name} is not a finite number: got {excerpt}. Set a number, or leave the cell empty."
            raise import_error(self.locate(column, infinite_indices[0]), problem, slug="scores-value")

        has_percentages = any(map(is_percentage, column.converted))
        if has_percentages:
            self.check_percent_signs_of_values(name)

    def check_commas(self, name: str) -> None:
        """Check that no score has an ambiguous comma, as in 1,234, which is 1234 in some languages and 1.234 in others.

        An error after the score, as in 1,234 ± 0.1, is ignored.

        name : column of scores

        Raises ImportFormatError [scores-value] for the first such score. The message states both ways to write it.
        """
        column = self.columns[name]
        # plain numbers, which are not converted, have no comma
        for unique_index in np.flatnonzero(column.is_converted).tolist():
            value = column.unique_values[unique_index]
            score_text, _, _ = str(value).partition("±")
            spellings = list_spellings(score_text)
            if spellings:
                problem = f"{name} has an ambiguous comma: got {value!r}. Write {' or '.join(spellings)}."
                raise import_error(self.locate(column, unique_index), problem, slug="scores-value")

    def check_percent_signs_of_values(self, name: str) -> None:
        """Check a column in which some scores have a percent sign: all its scores must have one.

        name : column of scores

        Raises ImportFormatError [scores-percent] for the first score without a percent sign; missing scores are ignored.
        """
        column = self.columns[name]
        for unique_index in np.flatnonzero(~np.isnan(column.unique_numbers)).tolist():
            value = column.unique_values[unique_index]
            if not is_percentage(value):
                received = f"got {format_excerpt(value)}"
                problem = (
                    f"{name} has scores with and without a percent sign: {received}. Write all of them in the same way."
                )
                raise import_error(self.locate(column, unique_index), problem, slug="scores-percent")

    def locate(self, column: ScoreColumn, unique_index: int) -> str:
        """Return the location of the first row that contains a value of a column, given by its index in `unique_values`."""
        has_value = column.codes == unique_index
        first_row = int(has_value.argmax())
        return self.located.locate(first_row)

    def note_conversions(self, names: Sequence[str]) -> None:
        """Add a note for each way in which values of columns were converted to numbers."""
        for conversion, is_converted in CONVERSIONS.items():
            converted = [name for name in names if any(map(is_converted, self.columns[name].converted))]
            if converted:
                columns = format_names(converted) if len(converted) < len(names) else "all columns of scores"
                self.notes.append(f"{conversion}: {columns}")

    def make_ids(self, names: Sequence[str]) -> NDArray[np.object_]:
        """Return the id of each row (n_rows,), which joins the values of columns by " / "; empty if a value is blank."""
        parts = [self.columns[name].to_ids() for name in names]
        ids = parts[0]
        for part in parts[1:]:
            is_blank = (ids == "") | (part == "")
            ids = np.where(is_blank, "", ids + " / " + part)
        return ids

    def average_cells(
        self,
        models: NDArray[np.object_],
        items: NDArray[np.object_],
        values: Floats,
        score_range: tuple[float, float] | None,
        *,
        columns: Sequence[str],
    ) -> ScoreTable:
        """Average the scores of each cell (model and item), and check names, size, units, directions and range.

        Models and items with a name such as "average" or "total" are left out, unless the user chose a column of this name
        for the scores.

        models, items : ids of the model and the item of each score (n_scores,)
        values : scores (n_scores,); NaN if missing
        score_range : lowest and highest possible score; None if the user did not set them, so that they are inferred
        columns : columns of the scores

        Raises: ImportFormatError [scores-size] if there are fewer than two models or items; [scores-id] if a name is blank
            or not valid; [scores-bounds] if a score is outside the range; [scores-percent] or [scores-scale] if percent signs
            or words do not fit the other scores or the range; [scores-scale] if `score_range` is None and the items or models
            have different units; [scores-direction] if an item seems to be a loss; [scores-pairs] for win rates of pairs.
        """
        import pandas as pd  # takes long to load

        is_used = ~np.isnan(values) & ~self.mark_totals(models, items, values)
        model_positions, model_ids = pd.factorize(models[is_used])
        item_positions, item_ids = pd.factorize(items[is_used])
        self.check_ids(model_ids.tolist(), item_ids.tolist())
        used_values = values[is_used]
        highest = float(used_values.max())
        highest_possible = highest if score_range is None else score_range[1]
        self.check_words_fit_scores(columns, highest=highest_possible)
        self.check_percent_signs_of_columns(columns, highest=highest, score_range=score_range)
        low, high = determine_range(self.source, used_values, score_range)

        shape = (len(model_ids), len(item_ids))
        mean, n_scores = average_by_cell(model_positions, item_positions, used_values, shape=shape)
        self.check_item_directions(item_ids.tolist(), mean)
        self.note_possible_losses([*columns, *item_ids])
        check_not_win_rates(self.source, mean, model_ids.tolist(), item_ids.tolist())
        self.note_averaged_cells(n_scores)
        self.notes += filter(None, [describe_similar_names(model_ids), describe_similar_names(item_ids)])
        if score_range is None:
            check_units(self.source, mean, item_ids.tolist())
            self.notes += filter(None, [check_model_units(self.source, mean, model_ids.tolist())])
            self.notes += describe_missing_codes(used_values)
            self.notes.append(f"range of scores assumed: {low:g} to {high:g} (--range sets it)")
        return ScoreTable(self.source, tuple(model_ids), tuple(item_ids), mean, n_scores, low, high, tuple(self.notes))

    def note_averaged_cells(self, n_scores: Positions) -> None:
        """Add a note with the number of cells that have several scores, if there are such cells.

        n_scores : int array (n_models, n_items), number of scores of each cell
        """
        if n_scores.max() > 1:
            n_repeated = format_count(int((n_scores > 1).sum()), "cell", "has", "have")
            note = f"{n_repeated} several scores (up to {n_scores.max()}), which are averaged"
            if self.located.tables:
                note += f"; if the tables {format_names(self.located.tables)} have different items, give these different names"
            self.notes.append(note)

    def mark_totals(self, models: NDArray[np.object_], items: NDArray[np.object_], values: Floats) -> Bools:
        """Mark the scores whose model or item summarizes others: by a name such as "total" or "std. dev.", or by its scores.

        Such a score is not used. The names are added to the notes for the user.

        models, items : ids of the model and of the item of each score, arrays (n_scores,)
        values : scores (n_scores,); NaN if missing

        Returns a bool array (n_scores,).

        Raises: ImportFormatError [scores-direction] if an average is named like a loss.
        """
        import pandas as pd  # takes long to load

        totals = sorted({*self.find_totals(pd.unique(models).tolist()), *self.find_totals(pd.unique(items).tolist())})
        self.check_direction_of_averages({name: values[(models == name) | (items == name)] for name in totals})
        is_total = np.isin(models, totals) | np.isin(items, totals)

        is_used = ~np.isnan(values) & ~is_total
        summaries = self.find_summaries(models[is_used], items[is_used], values[is_used])
        is_total |= np.isin(models, summaries) | np.isin(items, summaries)
        if totals or summaries:
            self.notes.append(f"averages or other statistics not used: {', '.join(sorted({*totals, *summaries}))}")
        return is_total

    def find_summaries(self, models: NDArray[np.object_], items: NDArray[np.object_], values: Floats) -> list[str]:
        """Find models that summarize all other models on each item, and items that summarize all other items, by their scores.

        Columns of scores that the user set are left out.

        models, items : ids of the model and of the item of each score, arrays (n_scores,)
        values : scores (n_scores,), without NaN

        Returns the ids of the models and items.
        """
        import pandas as pd  # takes long to load

        model_positions, model_ids = pd.factorize(models)
        item_positions, item_ids = pd.factorize(items)
        shape = (len(model_ids), len(item_ids))
        score, _ = average_by_cell(model_positions, item_positions, values, shape=shape)

        summaries: set[str] = set()
        for scores, ids in ((score.T, model_ids), (score, item_ids)):
            extremes = find_extremes(scores, ids.tolist())
            other_positions = np.delete(np.arange(len(ids)), extremes)
            aggregates = other_positions[find_aggregates(scores[:, other_positions])]
            summaries.update(ids[[*extremes, *aggregates.tolist()]].tolist())
        return sorted(summaries.difference(self.get_given_columns("score")))

    def find_totals(self, ids: Sequence[str]) -> list[str]:
        """Return the sorted ids that name averages or other statistics, without columns of scores that the user set."""
        return sorted(find_statistics(ids).difference(self.get_given_columns("score")))

    def check_ids(self, model_ids: Sequence[str], item_ids: Sequence[str]) -> None:
        """Check that there are several models and items, and that their names are valid.

        Raises: ImportFormatError [scores-size] if there are fewer than two models or items; [scores-id] if a name is blank
            or not valid.
        """
        n_models, n_items = len(model_ids), len(item_ids)
        if n_models < 2 or n_items < 2:
            numbers = f"{format_count(n_models, 'model')} and {format_count(n_items, 'item')}"
            problem = f"it has scores of fewer than 2 models or on fewer than 2 items: got {numbers}."
            remedy = "Add scores, or set --column ROLE=NAME."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-size")

        for name in (*model_ids, *item_ids):
            fault = find_name_fault(name)
            if name == "":
                fault = "of a model or item is blank. Fill in the cell."
            if fault is not None:
                raise import_error(self.source, f"the name {format_excerpt(name)} {fault}", slug="scores-id")
