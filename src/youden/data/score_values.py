"""Check how the scores of a table are written: numbers, commas, percent signs and words such as yes."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import numpy as np

from youden.data.importers.foreign_files import import_error
from youden.data.pools.spool import format_excerpt
from youden.data.score_columns import CONVERSIONS, ScoreColumn, format_names, is_percentage, is_word, split_std_error
from youden.data.score_roles import ScoreColumns
from youden.text.number_text import list_spellings


def check_scores(table: ScoreColumns, name: str) -> None:
    """Check that the values of a column of scores are finite numbers with a clear meaning.

    name : column of scores

    Raises: ImportFormatError for the first value that is wrong: [scores-value] if it is not a finite number or has an
        ambiguous comma, as in 1,234; [scores-percent] if it has no percent sign, but other values of the column have one.
    """
    column = table.columns[name]
    needs_sign = any(map(is_percentage, column.converted))
    must_be_checked = column.is_converted | np.isinf(column.unique_numbers)
    if needs_sign:  # plain numbers have no percent sign
        must_be_checked = ~np.isnan(column.unique_numbers)
    for position in np.flatnonzero(must_be_checked).tolist():
        value = column.unique_values[position]
        score_text, _ = split_std_error(str(value))
        spellings = list_spellings(score_text)
        if spellings:
            problem = f"{name} has an ambiguous comma: got {value!r}. Write {' or '.join(spellings)}."
            raise import_error(_locate(table, column, position), problem, slug="scores-value")

        received = f"got {format_excerpt(value)}"
        if np.isinf(column.unique_numbers[position]):
            problem = f"{name} is not a finite number: {received}. Set a number, or leave the cell empty."
            raise import_error(_locate(table, column, position), problem, slug="scores-value")
        if needs_sign and not is_percentage(value):
            remedy = "Write all of them in the same way."
            problem = f"{name} has scores with and without a percent sign: {received}. {remedy}"
            raise import_error(_locate(table, column, position), problem, slug="scores-percent")


def _locate(table: ScoreColumns, column: ScoreColumn, position: int) -> str:
    """Return the location of the first row that contains a value of a column, given by its position in `unique_values`."""
    return table.located.locate(int((column.codes == position).argmax()))


def note_conversions(table: ScoreColumns, names: Sequence[str]) -> None:
    """Add a note for each way in which values of columns were converted to numbers."""
    for conversion, is_converted in CONVERSIONS.items():
        converted = [name for name in names if any(map(is_converted, table.columns[name].converted))]
        if converted:
            columns = format_names(converted) if len(converted) < len(names) else "all columns of scores"
            table.notes.append(f"{conversion}: {columns}")


def check_words_fit_scores(table: ScoreColumns, score_columns: Sequence[str], *, highest: float) -> None:
    """Check that words and numbers in columns of scores have the same unit. The words yes and no are read as 1 and 0.

    For example, "yes" next to 80 is an error, because 80 seems to be a percentage. However, "fail" next to 80 is accepted,
    because 0 means the same in both units.

    table : columns of the table of scores
    score_columns : columns of scores
    highest : highest possible score, if the user set it, or else the highest score

    Raises: ImportFormatError [scores-scale] if `highest` is above 1, and a column contains words that are read as a number
        above 0, or only words.
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
    """Check that all scores have the same unit: percentages with a percent sign, or other numbers.

    Percentages with a sign have been divided by 100, so they are usually at most 1. A larger number probably has a different
    unit, such as percent without a sign. There are two errors:

    - Only some columns have percent signs, and a score or the upper end of the range exceeds 1.
    - All columns have percent signs, and only the upper end of the range exceeds 1.

    table : columns of the table of scores
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
