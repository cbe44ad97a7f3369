"""Find the columns of a table that name models and items or contain scores.

Each role is that of the column that the user set, or else inferred from the name and the values of the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

import numpy as np
from numpy.typing import NDArray

from youden.data.importers.column_names import (
    REPEAT_NUMBERS,
    SUBJECTS,
    get_name_priority,
    infer_role,
    normalize_name,
    split_into_words,
)
from youden.data.importers.foreign_files import import_error
from youden.data.score_columns import ScoreColumn, format_names
from youden.data.score_names import (
    METRICS,
    NO_SCORE,
    ROW_LABEL,
    SCORE_NAMES,
    WHOLE_NUMBER,
    describes_item,
    find_statistics,
)
from youden.data.score_ranges import find_aggregates
from youden.data.score_rows import LocatedFrame, is_model_name
from youden.errors import ImportFormatError
from youden.text.sentences import suggest_name

_MAX_RISING_SCORES = 5
"""Maximum number of rows in which scores may happen to be 1, 2, 3 and so on, like row numbers."""


class ScoreColumns:
    """Columns of a table of scores, from which the columns of each role are chosen.

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

    def list_unassigned_columns(self) -> list[str]:
        """List the columns that the user set neither for models nor for items nor for scores."""
        assigned_columns = {name for role in ("model", "item", "score") for name in self.get_given_columns(role)}
        return [name for name in self.columns if name not in assigned_columns]

    def choose_model_columns(self) -> list[str]:
        """Choose the columns that contain the names of the models.

        The columns that the user set are chosen. Otherwise, it is the column of texts with the best name, such as "model".
        The result is empty if there is no such column.

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
        """Choose the columns that together name the items: those that the user set, or others by their names and values.

        If no column names the models, each row is an item, and one column is sufficient to name it. Row numbers are used only
        if there is no other column.

        model_columns : columns with the names of the models; empty if there are none
        """
        given_columns = self.get_given_columns("item")
        if given_columns:
            return given_columns
        possible_columns = [name for name in self.list_unassigned_columns() if self.may_be_item(name)]
        named_columns = [name for name in possible_columns if not self.has_row_numbers(name)] or possible_columns
        return self.omit_row_ids(named_columns, model_columns) if model_columns else named_columns[:1]

    def omit_row_ids(self, item_columns: list[str], model_columns: Sequence[str]) -> list[str]:
        """Leave out columns that identify single rows, so that models have items in common.

        These columns are named like row numbers, or have a different value in each row. If the remaining columns do not
        distinguish the rows of a model, no column is left out. The result may be empty: each row is then a model.

        item_columns : columns that may identify the items
        model_columns : columns with the names of the models; at least one

        Returns the remaining columns, in the given order.
        """
        other_columns = [name for name in item_columns if not ROW_LABEL.fullmatch(normalize_name(name))]
        shared_columns = [name for name in other_columns if not self.has_distinct_values(name)]
        return shared_columns if self.are_rows_distinct([*model_columns, *shared_columns]) else item_columns

    def has_distinct_values(self, name: str) -> bool:
        """Return whether a column has a different value in each row."""
        return len(self.columns[name].unique_values) == self.n_rows

    def has_row_numbers(self, name: str) -> bool:
        """Return whether a column has row numbers: its name suggests them, and its values are distinct whole numbers."""
        numbers = self.numbers[name]
        are_whole = bool((numbers >= 0).all() and np.isfinite(numbers).all()) and not (numbers % 1).any()
        return are_whole and self.has_distinct_values(name) and bool(ROW_LABEL.fullmatch(normalize_name(name)))

    def may_be_item(self, name: str) -> bool:
        """Return whether a column may identify items: by its name, and by values that are texts or whole numbers."""
        has_name = infer_role(name) in ("item", "prompt") or not SUBJECTS.isdisjoint(split_into_words(name))
        numbers = self.numbers[name][np.isfinite(self.numbers[name])]
        return has_name and not (numbers % 1).any() and not NO_SCORE.fullmatch(normalize_name(name))

    def choose_score_columns(self, model_columns: Sequence[str], item_columns: Sequence[str]) -> list[str]:
        """Choose the columns of scores (`list_score_candidates`), and add a note that lists the columns that are not used.

        model_columns, item_columns : columns that name the model, or the item, of each row; a long table has both, other tables
            have one of them

        Returns one column for a long table, and at least two for other tables.

        Raises: ImportFormatError [scores-columns] if it is unclear which columns have scores, or if the table has only one
            model.
        """
        score_columns = self.list_score_candidates(model_columns, item_columns)
        used_columns = (*score_columns, *model_columns, *item_columns)
        not_used = [name for name in self.columns if name not in used_columns]
        if not_used:
            is_wide = not (model_columns and item_columns)
            may_be_scores = is_wide and not set(not_used).isdisjoint(self.numeric)
            remedy = " (--column score=A,B reads the columns A and B as scores)" if may_be_scores else ""
            self.notes.append(f"columns not used: {', '.join(not_used)}{remedy}")

        if not model_columns or not item_columns:
            self.check_wide_scores(score_columns, has_models=bool(model_columns))
        elif len(score_columns) != 1:
            raise self.make_unclear_scores_error(score_columns, option="score=NAME")
        return score_columns

    def list_score_candidates(self, model_columns: Sequence[str], item_columns: Sequence[str]) -> list[str]:
        """List the columns that may contain scores.

        - Ranks, averages, prices and other numbers that are not scores are left out.
        - In a table with one column per model or item, the mean or the sum of the other columns is left out, too.
        - In a table with one row per model and item, if exactly one column has a usual name (for example "score") and no missing
          value, all other columns are left out.

        model_columns, item_columns : columns that name the model, or the item, of each row; a long table has both

        Returns the names of the columns, which may be none, in the order of the table.
        """
        candidates = self.list_columns_of_numbers(model_columns, item_columns)
        is_long = bool(model_columns and item_columns)
        if not is_long:
            return self.omit_aggregates(candidates)

        usual_columns = [name for name in candidates if normalize_name(name) in SCORE_NAMES]
        if len(usual_columns) == 1 and not np.isnan(self.numbers[usual_columns[0]]).any():
            return usual_columns
        return candidates

    def list_columns_of_numbers(self, model_columns: Sequence[str], item_columns: Sequence[str]) -> list[str]:
        """List the columns of numbers that may be scores, judged by their names and values, in the order of the table.

        If the rows are items, two more rules apply. Columns that describe items are left out, unless fewer than two columns would
        remain, because a table has the scores of at least two models. A column with a name like "date" or "id" is listed if its
        values resemble the other scores (`resembles_scores`).

        model_columns, item_columns : columns that name the model, or the item, of each row, which are not listed; the rows are
            items if `model_columns` is empty
        """
        other_columns = {*model_columns, *item_columns, *find_statistics(list(self.columns))}
        number_columns = [name for name in self.numeric if name not in other_columns]
        candidates = [name for name in number_columns if not self.holds_no_scores(name)]
        if model_columns:
            return candidates
        models = [name for name in candidates if not describes_item(name)]
        candidates = models if len(models) > 1 else candidates
        return [name for name in number_columns if name in candidates or self.resembles_scores(name, candidates)]

    def omit_aggregates(self, names: Sequence[str]) -> list[str]:
        """Leave out the columns that equal the mean or the sum of the other columns."""
        if not names:
            return []
        aggregates = find_aggregates(np.column_stack([self.numbers[name] for name in names]))
        return [name for position, name in enumerate(names) if position not in aggregates]

    def check_wide_scores(self, score_columns: Sequence[str], *, has_models: bool) -> None:
        """Check that a table has at least two columns of scores, each named after a model or an item.

        - A general name, for example "score", suggests that the table has one row per model and item, but no recognized
          column for one of them.
        - If the rows are models, a single column of scores suggests the same.
        - If the rows are items, a single column contains the scores of a single model, which is too few.

        score_columns : columns that may hold scores
        has_models : whether the rows are models; otherwise they are items

        Raises: ImportFormatError [scores-columns] if there are fewer than two columns of scores, or if one has a general name.
        """
        if len(score_columns) == 1 and not has_models:
            problem = f"it has the scores of one model: got one column of scores, {score_columns[0]!r}, and no column of models."
            remedy = "Pass one file per model, at least two, or add a column `model` with at least two models."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

        has_general_name = any(normalize_name(name) in SCORE_NAMES for name in score_columns)
        if len(score_columns) < 2 or has_general_name:
            raise self.make_unclear_scores_error(score_columns, option="model=NAME, item=NAME or score=NAME,NAME")

    def make_unclear_scores_error(self, score_columns: Sequence[str], *, option: str) -> ImportFormatError:
        """Make the error [scores-columns] for a table in which it is unclear which columns contain scores.

        score_columns : columns that may contain scores, which the message lists; if empty, the message lists all columns
        option : value of the option --column that resolves the error, for example "score=NAME", for the message

        Returns the error, to be raised by the caller.
        """
        received = (
            f"got {format_names(score_columns)}" if score_columns else f"got none except {format_names(self.columns)}"
        )
        remedy = f"Set --column {option}."
        if not score_columns:
            remedy = f"Write scores as numbers, such as 0.81, 81% or 0.81 ± 0.02. {remedy}"
        problem = f"its columns of scores are not clear: {received}. {remedy}"
        return import_error(self.source, problem, slug="scores-columns")

    def holds_no_scores(self, name: str) -> bool:
        """Return whether a column holds ranks, row numbers, ids, or other numbers that are not scores."""
        numbers = self.numbers[name]
        normalized_name = normalize_name(name)
        if WHOLE_NUMBER.fullmatch(normalized_name):
            # "no" may be the language Norwegian, whose scores are not all integers
            may_be_norwegian = normalized_name == "no" and bool((numbers[np.isfinite(numbers)] % 1).any())
            return not may_be_norwegian
        if NO_SCORE.fullmatch(normalized_name) or self.has_row_numbers(name):
            return True

        # the numbers 0, 1, 2, … or 1, 2, 3, … are row numbers, but a few scores may have these values, too
        counts_rows = any(np.array_equal(numbers, np.arange(start, start + self.n_rows)) for start in (0, 1))
        is_first_column = name == next(iter(self.columns))
        min_rows = 3 if is_first_column else _MAX_RISING_SCORES + 1
        return counts_rows and self.n_rows >= min_rows

    def resembles_scores(self, name: str, score_columns: Sequence[str]) -> bool:
        """Return whether a column with a name like "date" or "id" has the scores of a model of this name.

        Its values are compared with the other scores:

        - Numbers with decimals resemble scores if their median is in the range of the scores.
        - Whole numbers resemble scores if all scores are whole numbers, and both have the same lowest and highest value. They do
          not if the column is named like the number of a repeat, for example "trial".

        name : column to be tested, with at least one number. The result is False if its name does not suggest a whole number, as
            "date" and "id" do.
        score_columns : other columns, which have scores. If empty, the result is False.
        """
        if not WHOLE_NUMBER.fullmatch(normalize_name(name)) or not score_columns:
            return False
        numbers = self.numbers[name][np.isfinite(self.numbers[name])]
        all_scores = np.concatenate([self.numbers[column] for column in score_columns])
        scores = all_scores[np.isfinite(all_scores)]
        if (numbers % 1).any():
            return bool(scores.min() <= np.median(numbers) <= scores.max())
        have_same_range = (numbers.min(), numbers.max()) == (scores.min(), scores.max())
        return have_same_range and not (scores % 1).any() and normalize_name(name) not in REPEAT_NUMBERS

    def list_metric_columns(self, score_columns: Sequence[str], name_columns: Sequence[str]) -> list[str]:
        """List the columns that state the metric of each row, which have a name such as "metric".

        A column that contains scores, or that names models or items, is left out.
        """
        other_columns = [name for name in self.columns if name not in (*score_columns, *name_columns)]
        return [name for name in other_columns if normalize_name(name) in METRICS]

    def check_single_metric(self, score_columns: Sequence[str], name_columns: Sequence[str]) -> None:
        """Check that all scores of a table have the same metric, so that their mean is meaningful.

        A column named "metric", "metric_name", "measure" or "filter" states the metric of each row. It must have a single value
        (a blank counts as a value), unless it is a part of the names of models or items. The option `--column item=task+metric`
        makes it such a part.

        score_columns : columns of scores, which state no metric whatever their names are
        name_columns : columns that together name models and items; the column of models is the first

        Raises: ImportFormatError [scores-columns] if a column of metrics that is not in `name_columns` has several values.
        """
        for name in self.list_metric_columns(score_columns, name_columns):
            metrics = self.columns[name].unique_values
            if len(metrics) > 1:
                item_option = "+".join([*name_columns[1:], name])
                is_blank = [isinstance(metric, float) and np.isnan(metric) for metric in metrics]
                labels = ["a blank" if blank else str(metric) for blank, metric in zip(is_blank, metrics, strict=True)]
                problem = f"{name!r} has several metrics: got {format_names(labels)}."
                remedy = f"Keep one, or set --column item={item_option}."
                raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

    def check_rows_are_named(self, model_columns: Sequence[str], item_columns: Sequence[str]) -> None:
        """Check that the table has rows, and columns that name the model or the item of each row. Their values are not checked.

        model_columns, item_columns : columns that name the model, or the item, of each row; empty if there are none

        Raises: ImportFormatError [import-empty] if the table has no rows; [scores-columns] if both lists are empty, or if
            `model_columns` is empty and a column "model" has numbers that distinguish several rows of an item. The second is
            not an error if the user set the columns of scores.
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
        for name in self.numeric:
            if normalize_name(name) != "model" or self.are_rows_distinct(item_columns):
                continue
            if self.are_rows_distinct([name, *item_columns]):
                problem = f"a column of models has numbers, and items have several rows: got {name!r}."
                option = quote(f"model={name}")
                remedy = f"Set --column {option}, or name all columns of scores by --column score=NAME,NAME."
                raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

    def make_unnamed_rows_error(self) -> ImportFormatError:
        """Make the error [scores-columns] for a table in which no column contains the names of models or of items.

        As a remedy, the error proposes the first column of texts for these names. Without such a column, it proposes a column
        of numbers with a name such as "model", or else a new column.
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

    def are_rows_distinct(self, names: Sequence[str]) -> bool:
        """Return whether no two rows have the same ids in all of the columns."""
        return len(set(self.make_ids(names))) == self.n_rows

    def make_ids(self, names: Sequence[str]) -> NDArray[np.object_]:
        """Return the id of each row (n_rows,), which joins the values of columns by " / "; empty if a value is blank."""
        parts = [self.columns[name].to_ids() for name in names]
        ids = parts[0]
        for part in parts[1:]:
            is_blank = (ids == "") | (part == "")
            ids = np.where(is_blank, "", ids + " / " + part)
        return ids
