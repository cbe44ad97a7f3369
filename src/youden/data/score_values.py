"""Check how the scores of a table are written: numbers, commas, percent signs and words such as yes."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import numpy as np

from youden.data.importers.foreign_files import import_error
from youden.data.pools.spool import format_excerpt
from youden.data.score_columns import CONVERSIONS, ScoreColumn, format_names, is_percentage, is_word
from youden.data.score_roles import ScoreColumns
from youden.text.number_text import list_spellings


def check_scores(table: ScoreColumns, name: str) -> None:
    """Check that the values of a column of scores are finite numbers with a clear meaning.

    name : column of scores

    Raises: ImportFormatError [scores-value] if a comma is ambiguous, as in 1,234, or if a value is not a finite number;
        [scores-percent] if some values have a percent sign and others do not.
    """
    _check_commas(table, name)
    column = table.columns[name]
    infinite_indices = np.flatnonzero(np.isinf(column.unique_numbers)).tolist()
    if infinite_indices:
        excerpt = format_excerpt(column.unique_values[infinite_indices[0]])
        problem = f"{name} is not a finite number: got {excerpt}. Set a number, or leave the cell empty."
        raise import_error(_locate(table, column, infinite_indices[0]), problem, slug="scores-value")

    has_percentages = any(map(is_percentage, column.converted))
    if has_percentages:
        _check_percent_signs_of_values(table, name)


def _check_commas(table: ScoreColumns, name: str) -> None:
    """Check that no score has an ambiguous comma, as in 1,234, which is 1234 in some languages and 1.234 in others.

    An error after the score, as in 1,234 ± 0.1, is ignored.

    name : column of scores

    Raises ImportFormatError [scores-value] for the first such score. The message states both ways to write it.
    """
    column = table.columns[name]
    # plain numbers, which are not converted, have no comma
    for unique_index in np.flatnonzero(column.is_converted).tolist():
        value = column.unique_values[unique_index]
        score_text, _, _ = str(value).partition("±")
        spellings = list_spellings(score_text)
        if spellings:
            problem = f"{name} has an ambiguous comma: got {value!r}. Write {' or '.join(spellings)}."
            raise import_error(_locate(table, column, unique_index), problem, slug="scores-value")


def _check_percent_signs_of_values(table: ScoreColumns, name: str) -> None:
    """Check a column in which some scores have a percent sign: all its scores must have one.

    name : column of scores

    Raises ImportFormatError [scores-percent] for the first score without a percent sign; missing scores are ignored.
    """
    column = table.columns[name]
    for unique_index in np.flatnonzero(~np.isnan(column.unique_numbers)).tolist():
        value = column.unique_values[unique_index]
        if not is_percentage(value):
            received = f"got {format_excerpt(value)}"
            problem = (
                f"{name} has scores with and without a percent sign: {received}. Write all of them in the same way."
            )
            raise import_error(_locate(table, column, unique_index), problem, slug="scores-percent")


def _locate(table: ScoreColumns, column: ScoreColumn, unique_index: int) -> str:
    """Return the location of the first row that contains a value of a column, given by its index in `unique_values`."""
    has_value = column.codes == unique_index
    first_row = int(has_value.argmax())
    return table.located.locate(first_row)


def note_conversions(table: ScoreColumns, names: Sequence[str]) -> None:
    """Add a note for each way in which values of columns were converted to numbers."""
    for conversion, is_converted in CONVERSIONS.items():
        converted = [name for name in names if any(map(is_converted, table.columns[name].converted))]
        if converted:
            columns = format_names(converted) if len(converted) < len(names) else "all columns of scores"
            table.notes.append(f"{conversion}: {columns}")


def check_words_fit_scores(table: ScoreColumns, score_columns: Sequence[str], *, highest: float) -> None:
    """Check that no score exceeds 1 if columns contain words such as yes and no, which are read as 1 and 0.

    For example, a column with "yes" and 80 is an error, because the number seems to be a percentage. A column with "fail"
    and 80 is accepted, because "fail" is read as 0, which is the same score in both units.

    score_columns : columns of scores
    highest : highest possible score, if the user set it, or else the highest score

    Raises: ImportFormatError [scores-scale] if `highest` is above 1, and a column contains such words.
    """
    columns_of_words = [name for name in score_columns if table.columns[name].has_words_for_fractions]
    if not columns_of_words or highest <= 1:
        return
    name = columns_of_words[0]
    words = format_names(str(value) for value in table.columns[name].converted if is_word(value))
    problem = f"{name!r} has words, which are read as 0 to 1, and scores are up to {highest:g}: got {words}."
    remedy = "Write numbers of one unit"
    if len(score_columns) > 1:
        remedy += f", or set --column {quote(f'ignore={name}')}"
    raise import_error(table.source, f"{problem} {remedy}.", slug="scores-scale")


def check_percent_signs_of_columns(
    table: ScoreColumns, score_columns: Sequence[str], *, highest: float, score_range: tuple[float, float] | None
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
    with_sign = [name for name in score_columns if any(map(is_percentage, table.columns[name].converted))]
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
        raise import_error(table.source, problem, slug="scores-percent")
    # here, the end of the range can be above 1 only if all columns have percent signs
    if highest <= 1 and end_of_range > 1:
        problem = (
            f"scores with a percent sign are divided by 100, but their range is above 1: got up to {end_of_range:g}."
        )
        remedy = "Set --range 0,1, or remove the percent signs."
        raise import_error(table.source, f"{problem} {remedy}", slug="scores-percent")
