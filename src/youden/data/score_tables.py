"""Read tables of scores of models on items, in long or wide form.

What a table does not state is inferred and noted. If the roles of its columns are ambiguous, the error names the option
that sets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
    normalize_name,
    split_into_words,
)
from youden.data.importers.foreign_files import import_error
from youden.data.label_tables import list_spellings
from youden.data.pools.spool import format_excerpt
from youden.data.score_columns import CONVERSIONS, ScoreColumn, is_percentage, is_word, make_id
from youden.data.score_ranges import (
    check_model_units,
    check_not_win_rates,
    check_units,
    describe_missing_codes,
    determine_range,
    find_aggregates,
    find_losses,
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
    r"all|(mean|median|sum)(_.*)?|(.*_)?(average|avg|overall|total)(_.*)?"
    r"|(durchschnitt|mittelwert|gesamt|insgesamt|summe|moyenne|promedio)(_.*)?|(平均|合計|总分|總分)(_.*)?"
)
"""Normalized names of averages and totals."""
_NO_SCORE = re.compile(
    r"(.*_)?rank(ing)?(_.*)?|(δ|delta)(_.*)?|no|#|(.*_)?(stderr|stddev|std|std_error|se|ci)|(number_of_|num_|n_|#_?)?param(eter)?s?(_.)?|(model_)?size(_.*)?"
    r"|memory(_usage)?(_.*)?|max_tokens|embedding_dim.*|context_(length|window|size|k)|(release_)?(date|year)|(.*_)?(price|cost|usd|latency)"
    r"|((n|num|avg|mean|total|input|output|completion)_)*tokens(_s|_per_second)?|(speed|throughput)(_(tok|tokens)_.*)?"
    r"|(latency|(run)?time|duration)(_(s|ms|sec|seconds|min|h))?|(task_)?weights?"
    r"|votes|n|count|num_.*|n_(samples|items)|co[2₂].*|(hub_)?likes|hub|seed|version|zero_shot|repeat|epoch|trial|attempt"
)
"""Normalized names of columns of numbers that are no scores."""
_MAX_NAMES = 10
"""Number of names that a message lists."""
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
        Tables (CSV, TSV, Excel, JSON, JSON Lines or Parquet), or results of lm-eval, HELM, MTEB or SWE-bench. Several
        files without a column of models are one model each, named by the file.
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
    """Return columns by role; raise ConfigError [scores-role] for another role, or if a column is not a text."""
    if not isinstance(columns, Mapping):
        problem = f"The columns of a table are not a mapping of roles to names: got {columns!r}."
        raise ConfigError(f"{problem} Pass, for example, {{'model': 'System'}}.", slug="scores-role")
    for role, name in columns.items():
        if role not in ROLES:
            unknown_role = f"The role of a column is unknown: got {role!r}. Set one of: {', '.join(ROLES)}."
            raise ConfigError(unknown_role, slug="scores-role")
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
        models, items = self.choose_name_columns(given_scores)
        is_long = bool(models and items)
        scores = given_scores or self.choose_score_columns([*models, *items], is_long=is_long)
        if is_long:
            self.check_single_metric([*models, *items])
        if models:
            self.check_direction(scores, is_given=bool(given_scores))
        else:
            self.note_losses_as_models(scores)
        self.check_metric_directions(scores, [*models, *items])
        for name in scores:
            self.check_scores(name)
        self.note_conversions(scores)
        if is_long:
            return self.collect_long_scores(models, items, scores, score_range)
        return self.collect_wide_scores(models, items, scores, score_range)

    def choose_name_columns(self, given_scores: Sequence[str]) -> tuple[list[str], list[str]]:
        """Choose the columns that contain the names of the models, and those that contain the names of the items.

        A long table has one row per score, with the names of both. In a wide table, the names of the models or of the
        items are the headers of columns, so one of the lists is empty.

        given_scores : columns of scores that the user named, in which no names are expected

        Returns the names of the columns for models and for items.

        Raises ImportFormatError [import-empty] if the table has no rows, and [scores-columns] if no column contains
        names.
        """
        models = self.get_given_columns("model")
        items = self.get_given_columns("item")
        other_columns = [name for name in self.columns if name not in (*models, *items, *given_scores)]
        text_columns = [name for name in other_columns if name not in self.numeric]

        if not models:
            models = self.choose_model_columns([name for name in text_columns if is_model_name(name)])
        if not items:
            possible_items = [name for name in other_columns if self.may_be_item(name)]
            # without models, each row of the wide table is an item, which the first of these columns names
            items = possible_items if models else possible_items[:1]

        if items and not models and not given_scores:
            self.check_numbered_models(items)
        if self.n_rows == 0:
            problem = "the table is empty: got 0 rows. Pass a table with a header and at least one row."
            raise import_error(self.source, problem, slug="import-empty")
        if not models and not items:
            raise self.make_unnamed_rows_error(text_columns)
        return models, items

    def check_numbered_models(self, items: Sequence[str]) -> None:
        """Check that a long table does not name its models by numbers, which would be read as the scores of a model "model".

        items : columns that name the items; no column names the models

        Raises: ImportFormatError [scores-columns] if a column of numbers is named `model`, items have several rows, and all
            rows of an item have different numbers in this column.
        """
        item_ids = self.make_ids(items)
        if len(set(item_ids)) == self.n_rows:
            return
        for name in self.numeric:
            is_numbered = normalize_name(name) == "model" and len(set(self.make_ids([name, *items]))) == self.n_rows
            if is_numbered:
                problem = f"a column of models has numbers, and items have several rows: got {name!r}."
                remedy = (
                    f"Set --column {quote(f'model={name}')}, or name all columns of scores by --column score=NAME,NAME."
                )
                raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

    def make_unnamed_rows_error(self, text_columns: Sequence[str]) -> ImportFormatError:
        """Make the error for a table in which no column names models or items; it proposes the first column of texts."""
        problem = f"its columns do not state whether a row is a model or an item: got {_format_names(self.columns)}."
        remedy = "Add a column `model` or `item` that names each row."
        models = [name for name in self.columns if is_model_name(name)]
        if text_columns:
            label = text_columns[0]
            remedy = f"Set --column {quote(f'model={label}')} or --column {quote(f'item={label}')}."
        elif models:
            remedy = f"Set --column {quote(f'model={models[0]}')} if the numbers in this column name the models."
        return import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

    def collect_long_scores(
        self, models: list[str], items: list[str], scores: list[str], score_range: tuple[float, float] | None
    ) -> ScoreTable:
        """Return the scores of a long table, which has one row per score of a model on an item.

        Rows without a score are skipped, and several scores of a model on an item are averaged. The scores stay in the unit
        of the table.

        models, items : columns that together name the model, or the item, of a row
        scores : columns of scores; the score of a row is the first that is not blank
        score_range : lowest and highest possible score; None if the user did not set them, so that they are inferred

        Raises: ImportFormatError; see `average_cells`.
        """
        self.notes.append(f"models: {models[0]}; items: {' + '.join(items)}; scores: {', '.join(scores)}")
        row_scores = np.full(self.n_rows, np.nan)
        for name in scores:
            row_scores = np.where(np.isnan(row_scores), self.numbers[name], row_scores)
        model_ids, item_ids = self.make_ids(models), self.make_ids(items)
        return self.average_cells(model_ids, item_ids, row_scores, score_range, columns=scores)

    def check_words(self, scores: Sequence[str], *, highest: float) -> None:
        """Raise ImportFormatError [scores-scale] if there are words such as yes (1) and no (0), and a score may be above 1.

        A word that is read as 0, such as "fail", is accepted in a column that also has numbers, because 0 is the same score
        as a fraction and as a percentage.

        scores : columns of scores
        highest : highest score, or highest possible score
        """
        columns_of_words = [name for name in scores if self.columns[name].has_words_of_a_unit]
        if not columns_of_words or highest <= 1:
            return
        name = columns_of_words[0]
        words = _format_names(str(value) for value in self.columns[name].converted if is_word(value))
        problem = f"{name!r} has words, which are read as 0 to 1, and scores are up to {highest:g}: got {words}."
        remedy = "Write numbers of one unit"
        if len(scores) > 1:
            remedy += f", or set --column {quote(f'ignore={name}')}"
        raise import_error(self.source, f"{problem} {remedy}.", slug="scores-scale")

    def check_columns_of_percentages(
        self, scores: Sequence[str], *, highest: float, score_range: tuple[float, float] | None
    ) -> None:
        """Check that the columns of scores have the same unit: percentages with a percent sign, or other numbers.

        Percentages have been divided by 100. If other columns contain scores above 1, or if the range exceeds 1, these
        numbers are probably percentages without a sign. The columns, or the scores and the range, would then have different
        units.

        scores : columns of scores
        highest : highest score, after division of percentages by 100
        score_range : lowest and highest possible score; None if the user did not set them

        Raises ImportFormatError [scores-percent] if only some columns have percent signs, and a score or the range is above 1;
            or if all columns have percent signs and no score is above 1, but the range is.
        """
        with_sign = [name for name in scores if any(map(is_percentage, self.columns[name].converted))]
        without_sign = [name for name in scores if name not in with_sign]
        high = 1.0 if score_range is None else score_range[1]
        if not with_sign or max(highest, high) <= 1:
            return

        if without_sign:
            problem = (
                f"some columns, such as {with_sign[0]!r}, have percent signs, but others, such as {without_sign[0]!r}, have "
                f"none, and the scores or the range go up to {max(highest, high):g}. Write all scores in the same way, with a "
                "percent sign or without."
            )
            raise import_error(self.source, problem, slug="scores-percent")
        if highest <= 1:
            problem = f"scores with a percent sign are divided by 100, but their range is above 1: got up to {high:g}."
            remedy = "Set --range 0,1, or remove the percent signs."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-percent")

    def collect_wide_scores(
        self, models: list[str], items: list[str], scores: list[str], score_range: tuple[float, float] | None
    ) -> ScoreTable:
        """Return the scores of a wide table, whose rows are models and whose columns are items, or the reverse.

        Empty cells are missing scores, and several rows with the same name are averaged. The scores stay in the unit of the
        table.

        models, items : columns that together name the model, or the item, of a row; one of the two lists is empty
        scores : columns of scores, one per item or per model
        score_range : lowest and highest possible score; None if the user did not set them, so that they are inferred

        Raises: ImportFormatError; see `average_cells`.
        """
        row_role, column_role = ("models", "items") if models else ("items", "models")
        self.notes.append(
            f"rows are {row_role} ({' + '.join(models or items)}); {column_role}: {_format_names(scores)}"
        )

        # cells row by row
        row_ids = np.repeat(self.make_ids(models or items), len(scores))
        column_ids = np.tile(np.array([make_id(name) for name in scores], dtype=object), self.n_rows)
        cell_scores = np.column_stack([self.numbers[name] for name in scores]).ravel()

        model_ids, item_ids = (row_ids, column_ids) if models else (column_ids, row_ids)
        return self.average_cells(model_ids, item_ids, cell_scores, score_range, columns=scores)

    def choose_model_columns(self, candidates: list[str]) -> list[str]:
        """Choose the column of models by its name; raise ImportFormatError [scores-columns] if several are as reliable."""
        priority = {name: get_name_priority(name, "agent") for name in candidates}
        best = [name for name in candidates if priority[name] == min(priority.values())]
        if len(best) > 1:
            unclear = f"several columns may contain the models: got {_format_names(best)}. Set --column model=NAME."
            raise import_error(self.source, unclear, slug="scores-columns")
        return best

    def may_be_item(self, name: str) -> bool:
        """Return whether a column may identify items: by its name, and by values that are texts or whole numbers."""
        has_name = infer_role(name) in ("item", "prompt") or not SUBJECTS.isdisjoint(split_into_words(name))
        numbers = self.numbers[name][np.isfinite(self.numbers[name])]
        return has_name and not (numbers % 1).any() and not _NO_SCORE.fullmatch(normalize_name(name))

    def choose_score_columns(self, labels: Sequence[str], *, is_long: bool) -> list[str]:
        """Choose the columns of scores (`list_score_candidates`), and add a note that lists the columns that are not used.

        labels : columns that name models and items; the column of models is the first
        is_long : whether the table has one row per model and item; otherwise its columns of scores are models or items

        Returns one column for a long table, and at least two for other tables.

        Raises: ImportFormatError [scores-columns] if it is unclear which columns have scores, or if the table has only one model.
        """
        scores = self.list_score_candidates(labels, is_long=is_long)
        not_used = [name for name in self.columns if name not in scores and name not in labels]
        if not_used:
            self.notes.append(f"columns not used: {', '.join(not_used)}")

        if not is_long:
            self.check_wide_scores(scores, labels)
            return scores
        if len(scores) != 1:
            raise self.make_unclear_scores_error(scores, option="score=NAME")
        return scores

    def list_score_candidates(self, labels: Sequence[str], *, is_long: bool) -> list[str]:
        """List the columns of numbers that may have scores.

        Columns of other numbers, such as ranks, averages and prices, are left out. In a wide table, columns that equal the mean
        or the sum of the others are left out, too. If exactly one column of a long table has a usual name, such as "score", and
        no value of this column is missing, it is the only candidate.

        labels : columns that name models and items, which have no scores
        is_long : whether the table has one row per model and item; otherwise its columns of scores are models or items
        """
        number_columns = [name for name in self.numeric if name not in labels]
        candidates = [name for name in number_columns if not self.holds_no_scores(name)]
        if not candidates:
            return []
        if not is_long:
            aggregates = find_aggregates(np.column_stack([self.numbers[name] for name in candidates]))
            return [name for position, name in enumerate(candidates) if position not in aggregates]

        usual_columns = [name for name in candidates if normalize_name(name) in _SCORE_NAMES]
        complete_columns = [name for name in usual_columns if not np.isnan(self.numbers[name]).any()]
        return complete_columns if len(usual_columns) == len(complete_columns) == 1 else candidates

    def check_wide_scores(self, scores: Sequence[str], labels: Sequence[str]) -> None:
        """Check that a table with one column of scores per model or item has several of them.

        No column may have a usual name of scores, such as "score". Such a column is not a model or an item, so the column of
        models or items was not recognized.

        scores : columns that may hold scores
        labels : columns that name models or items

        Raises: ImportFormatError [scores-columns].
        """
        has_models = any(map(is_model_name, labels)) or "model" in self.given
        if len(scores) == 1 and not has_models:
            problem = (
                f"it has the scores of one model: got one column of scores, {scores[0]!r}, and no column of models."
            )
            remedy = "Pass one file per model, at least two, or add a column `model` with at least two models."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

        has_usual_name = any(normalize_name(name) in _SCORE_NAMES for name in scores)
        if len(scores) < 2 or has_usual_name:
            raise self.make_unclear_scores_error(scores, option="model=NAME, item=NAME or score=NAME,NAME")

    def make_unclear_scores_error(self, scores: Sequence[str], *, option: str) -> ImportFormatError:
        """Return the error that the columns of scores are not clear [scores-columns].

        scores : columns that may hold scores
        option : values of --column that resolve it, for the message
        """
        received = f"got {_format_names(scores)}" if scores else f"got none except {_format_names(self.columns)}"
        problem = f"its columns of scores are not clear: {received}. Set --column {option}."
        return import_error(self.source, problem, slug="scores-columns")

    def check_single_metric(self, labels: Sequence[str]) -> None:
        """Raise ImportFormatError [scores-columns] if the rows of a long table have scores of several metrics.

        A column with a name such as "metric" states the metric of each row. It may have several values only if it is a part
        of the name of the model or item.

        labels : columns that name models and items; the column of models is the first
        """
        for name, column in self.columns.items():
            if name in labels or normalize_name(name) not in _METRICS:
                continue
            if len(column.unique_values) > 1:
                metrics = _format_names(map(str, column.unique_values))
                item_option = "+".join([*labels[1:], name])
                problem = f"{name!r} has several metrics: got {metrics}. Keep one, or set --column item={item_option}."
                raise import_error(self.source, problem, slug="scores-columns")

    def holds_no_scores(self, name: str) -> bool:
        """Return whether a column holds ranks, averages, row numbers, or other numbers that are no scores."""
        numbers, normalized = self.numbers[name], normalize_name(name)
        may_count_rows = len(numbers) > 2 and numbers[0] in (0, 1) and bool(np.isfinite(numbers).all())
        counts_rows = may_count_rows and bool((np.diff(numbers) == 1).all())
        return counts_rows or bool(_TOTAL.fullmatch(normalized) or _NO_SCORE.fullmatch(normalized))

    def check_direction(self, scores: Sequence[str], *, is_given: bool) -> None:
        """Check that higher values are better in columns of scores, by their names.

        scores : columns of scores
        is_given : whether the user named these columns; a loss among them is then noted

        Raises: ImportFormatError [scores-direction] if a column that the user did not name seems to be a loss or an error
            rate.
        """
        loss = next((name for name in scores if is_loss(name, self.numbers[name])), None)
        if loss is None:
            return
        if is_given:
            self.note_direction(loss)
            return
        problem = (
            f"lower values seem to be better in a column of scores, and an audit ranks the highest first: got {loss!r}."
        )
        remedy = (
            f"Change their sign, or leave the column out by --column {quote(f'ignore={loss}')}. If higher values are better, "
            "name all columns of scores by --column score=NAME,NAME."
        )
        raise import_error(self.source, f"{problem} {remedy}", slug="scores-direction")

    def note_losses_as_models(self, columns: Sequence[str]) -> None:
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

    def check_metric_directions(self, scores: Sequence[str], labels: Sequence[str]) -> None:
        """Check that higher values are better for the metrics that a column such as "metric" names.

        If the user named the columns of scores, a loss is noted instead.

        scores : columns of scores
        labels : columns that name models and items

        Raises: ImportFormatError [scores-direction] if a metric seems to be a loss or an error rate.
        """
        values = np.concatenate([self.numbers[name] for name in scores])
        metric_columns = [name for name in self.columns if normalize_name(name) in _METRICS and name not in labels]
        for name in metric_columns:
            losses = [metric for metric in map(str, self.columns[name].unique_values) if is_loss(metric, values)]
            if losses and self.given.get("score"):
                self.note_direction(losses[0])
            elif losses:
                problem = (
                    "lower values seem to be better for a metric, and an audit ranks the highest first: got "
                    f"{format_excerpt(losses[0])} in the column {name!r}."
                )
                remedy = (
                    "Change the sign of the scores. If higher values are better, name all columns of scores by --column "
                    "score=NAME,NAME."
                )
                raise import_error(self.source, f"{problem} {remedy}", slug="scores-direction")

    def check_item_directions(self, item_ids: Sequence[str], score: Floats) -> None:
        """Check that higher scores are better on all items, by their names.

        If the user named the columns of scores, losses are noted instead.

        score : float array (n_models, n_items); NaN if missing

        Raises: ImportFormatError [scores-direction] if an item seems to be a loss or an error rate.
        """
        losses = find_losses(item_ids, score)
        if self.given.get("score"):
            for loss in losses:
                self.note_direction(loss)
        elif losses:
            problem = (
                "lower scores seem to be better on an item, and an audit ranks the highest first: got the item "
                f"{format_excerpt(losses[0])}."
            )
            remedy = (
                "Change the sign of its scores, or leave out its rows. If higher scores are better, name all columns of scores "
                "by --column score=NAME,NAME."
            )
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-direction")

    def check_scores(self, name: str) -> None:
        """Check that the values of a column can be converted to scores.

        Raises: ImportFormatError [scores-value] if a comma may separate thousands or decimals, as in 1,234, or if a value
            is not a finite number; [scores-percent] if some values have a percent sign and others do not.
        """
        column = self.columns[name]
        self.check_commas(name)
        infinite = np.flatnonzero(np.isinf(column.unique_numbers)).tolist()
        if infinite:
            excerpt = format_excerpt(column.unique_values[infinite[0]])
            problem = f"{name} is not a finite number: got {excerpt}. Set a number, or leave the cell empty."
            raise import_error(self.locate(column, infinite[0]), problem, slug="scores-value")

        if any(map(is_percentage, column.converted)):
            self.check_percentages(name)

    def check_commas(self, name: str) -> None:
        """Check that no score has an ambiguous comma, as in 1,234, which is 1234 in some languages and 1.234 in others.

        name : column of scores

        Raises ImportFormatError [scores-value] for the first such score. The message states both ways to write it.
        """
        column = self.columns[name]
        for position in np.flatnonzero(column.is_converted).tolist():
            value = column.unique_values[position]
            spellings = list_spellings(str(value).partition("±")[0])
            if spellings:
                problem = f"{name} has an ambiguous comma: got {value!r}. Write {' or '.join(spellings)}."
                raise import_error(self.locate(column, position), problem, slug="scores-value")

    def check_percentages(self, name: str) -> None:
        """Check a column in which some scores have a percent sign: all its scores must have one.

        name : column of scores

        Raises ImportFormatError [scores-percent] for the first score without a percent sign; missing scores are
        ignored.
        """
        column = self.columns[name]
        filled = np.flatnonzero(~np.isnan(column.unique_numbers)).tolist()
        without_sign = [position for position in filled if not is_percentage(column.unique_values[position])]
        if without_sign:
            excerpt = format_excerpt(column.unique_values[without_sign[0]])
            problem = (
                f"{name} has scores with and without a percent sign: got {excerpt}. Write all of them in the same way."
            )
            raise import_error(self.locate(column, without_sign[0]), problem, slug="scores-percent")

    def locate(self, column: ScoreColumn, position: int) -> str:
        """Return the location of the first row with a value, the one at `position` of the unique values of a column."""
        return self.located.locate(int((column.codes == position).argmax()))

    def note_conversions(self, names: Sequence[str]) -> None:
        """Add a note for each way in which values of columns were converted to numbers."""
        for conversion, is_converted in CONVERSIONS.items():
            converted = [name for name in names if any(map(is_converted, self.columns[name].converted))]
            if converted:
                columns = _format_names(converted) if len(converted) < len(names) else "all columns of scores"
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

        is_used = ~np.isnan(values) & ~self.mark_totals(models, items)
        model_positions, model_ids = pd.factorize(models[is_used])
        item_positions, item_ids = pd.factorize(items[is_used])
        self.check_ids(model_ids.tolist(), item_ids.tolist())
        used_values = values[is_used]
        highest = float(used_values.max())
        highest_possible = highest if score_range is None else score_range[1]
        self.check_words(columns, highest=highest_possible)
        self.check_columns_of_percentages(columns, highest=highest, score_range=score_range)
        low, high = determine_range(self.source, used_values, score_range)

        shape = (len(model_ids), len(item_ids))
        mean, n_scores = _average_by_cell(model_positions, item_positions, used_values, shape=shape)
        self.check_item_directions(item_ids.tolist(), mean)
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
            self.notes.append(f"{n_repeated} several scores (up to {n_scores.max()}), which are averaged")

    def mark_totals(self, models: NDArray[np.object_], items: NDArray[np.object_]) -> Bools:
        """Mark the scores whose model or item has a name such as "total" or "average".

        Such a score summarizes several models or items, so it is not used. The names are added to the notes for the
        user.

        models, items : ids of the model and of the item of each score, arrays (n_scores,)

        Returns a bool array (n_scores,).
        """
        import pandas as pd  # takes long to load

        totals = self.find_totals([*pd.unique(models), *pd.unique(items)])
        if not totals:
            return np.zeros(len(models), dtype=np.bool_)
        self.notes.append(f"averages or totals not used: {', '.join(totals)}")
        is_total = pd.Series(models).isin(totals) | pd.Series(items).isin(totals)
        return is_total.to_numpy()

    def find_totals(self, ids: Iterable[str]) -> list[str]:
        """Return the sorted ids that name averages or totals, without names of columns of scores that the user set."""
        given_scores = self.get_given_columns("score")
        return sorted(name for name in {*ids}.difference(given_scores) if _TOTAL.fullmatch(normalize_name(name)))

    def check_ids(self, model_ids: Sequence[str], item_ids: Sequence[str]) -> None:
        """Check that there are several models and items, and that their names are valid.

        Raises: ImportFormatError [scores-size] if there are fewer than two models or items; [scores-id] if a name is blank
            or not valid.
        """
        n_models, n_items = len(model_ids), len(item_ids)
        if n_models < 2 or n_items < 2:
            got = f"got {format_count(n_models, 'model')} and {format_count(n_items, 'item')}"
            problem = f"it has scores of fewer than 2 models or on fewer than 2 items: {got}."
            raise import_error(self.source, f"{problem} Add scores, or set --column ROLE=NAME.", slug="scores-size")
        for name in (*model_ids, *item_ids):
            fault = find_name_fault(name) if name else "of a model or item is blank. Fill in the cell."
            if fault:
                raise import_error(self.source, f"the name {format_excerpt(name)} {fault}", slug="scores-id")


def _average_by_cell(
    model: Positions, item: Positions, scores: Floats, *, shape: tuple[int, int]
) -> tuple[Floats, Positions]:
    """Average the scores of each cell (a model on an item), because a table may have several scores of the same cell.

    model, item : int arrays (n_scores,), position of the model and of the item of each score
    scores : float array (n_scores,)
    shape : numbers of models and items

    Returns the mean score of each cell, NaN if it has no score, and its number of scores: arrays (n_models, n_items).
    """
    n_models, n_items = shape
    n_cells = n_models * n_items

    # number the cells row by row
    cell = model * n_items + item
    n_scores = np.bincount(cell, minlength=n_cells)
    total = np.bincount(cell, scores, minlength=n_cells)
    mean = np.divide(total, n_scores, out=np.full(n_cells, np.nan), where=n_scores > 0)
    return mean.reshape(shape), n_scores.reshape(shape)


def _format_names(names: Iterable[str]) -> str:
    """Format the first `_MAX_NAMES` names for a message, each once."""
    distinct = list(dict.fromkeys(names))
    ellipsis = ", …" if len(distinct) > _MAX_NAMES else ""
    return ", ".join(map(format_excerpt, distinct[:_MAX_NAMES])) + ellipsis if distinct else "none"
