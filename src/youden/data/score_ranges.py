"""Determine the range of the scores of a table, and check their direction and unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress

import numpy as np

from youden.data.importers.column_names import normalize_name
from youden.data.importers.foreign_files import import_error
from youden.text.sentences import format_count
from youden.types.pool import Floats

_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0))
"""Ranges of scores. The first that contains all scores is assumed."""
_LOSS = re.compile(
    r"(?!(.*_)?(1|100|inverse|neg|negative|no|non|win)_)"  # such as "1 - WER" and "neg_log_loss"
    r"(?!(.*_)?(weight|hair|hearing|memory|vision|bone|blood|heat|and)_loss)"  # topics of questions
    r"((.*_)?lower_(is_)?better(_.*)?|errors?|(.*_)?(loss|nll|perplexity|ppl|bits_per_byte|wer|cer|mae|mse|rmse|brier(_score)?"
    r"|(error|hallucination|failure)_rate))"
)
"""Normalized names of losses and error rates, of which lower values are better."""
_MAX_SCORE = 1e100
_UNROUNDED = 7
"""Number of decimals of scores that are not rounded to at most six decimals."""
_MISSING_CODES = (-1.0, -9.0, -99.0, -999.0)
"""Negative numbers that often stand for a missing score."""
_MAX_METRICS = 100
"""A table with more items has scores of single items instead of metrics."""


def determine_range(source: str, scores: Floats, score_range: tuple[float, float] | None) -> tuple[float, float]:
    """Return the lowest and the highest possible score.

    Parameters
    ----------
    source : str
        Name of the table, for errors.
    scores : float array (n_scores,)
        All scores, without NaN; at least one.
    score_range : tuple of (float, float), optional
        The range, as set by the user. Default: the first of 0 to 1, −1 to 1, 0 to 10 and 0 to 100 that contains all scores,
        or else the range of the scores.

    Returns
    -------
    tuple of (float, float)
        Lowest and highest possible score.

    Raises
    ------
    ImportFormatError
        [scores-bounds]: if all scores are equal and their range is unknown, if a bound is above 10¹⁰⁰ in magnitude, or if
        scores are outside of `score_range`.
    """
    lowest, highest = float(scores.min()), float(scores.max())
    low, high = score_range or _find_usual_range(lowest, highest)
    if low == high:
        problem = f"all scores are equal, so their range is unknown: got {low:g}. Set it by --range LOW,HIGH."
        raise import_error(source, problem, slug="scores-bounds")
    if max(abs(low), abs(high)) > _MAX_SCORE:
        problem = f"scores are too large to be squared: got a range of {low:g} to {high:g}. Rescale or correct them."
        raise import_error(source, problem, slug="scores-bounds")
    if lowest < low or highest > high:
        problem = f"some scores are outside of the range {low:g} to {high:g}: got {lowest:g} to {highest:g}."
        raise import_error(source, f"{problem} Correct them, or set --range LOW,HIGH.", slug="scores-bounds")
    return low, high


def _find_usual_range(lowest: float, highest: float) -> tuple[float, float]:
    """Return the first usual range of scores, such as 0 to 1, that contains all scores, or else the range of the scores.

    lowest, highest : lowest and highest score
    """
    for low, high in _RANGES:
        if low <= lowest and highest <= high:
            return low, high
    return lowest, highest


def is_loss(name: str, values: Floats) -> bool:
    """Return whether lower values of a column seem to be better.

    Parameters
    ----------
    name : str
        Name of the column.
    values : float array (n_rows,)
        Its values; NaN if missing.

    Returns
    -------
    bool
        True if the column has the name of a loss or of an error rate, or the sign ↓, and positive values; a loss without
        positive values has changed its sign already.
    """
    has_name_of_loss = "↓" in name or _LOSS.fullmatch(normalize_name(name)) is not None
    return has_name_of_loss and bool((values > 0).any())


def find_losses(item_ids: Sequence[str], score: Floats) -> list[str]:
    """Find the items for which lower scores seem to be better, by the names of the items (`is_loss`).

    Only metrics, such as an error rate, can be losses. If a table has more than 100 items, all items count as tasks, and none is
    returned. An item with only the scores 0 and 1 counts as a task, too.

    Parameters
    ----------
    item_ids : sequence of str
        Ids of the items.
    score : float array (n_models, n_items)
        Scores; NaN if missing.

    Returns
    -------
    list of str
        Ids of the items.
    """
    if len(item_ids) > _MAX_METRICS:
        return []
    is_graded = np.asarray(((score > 0) & (score != 1)).any(axis=0))
    graded_items = compress(item_ids, is_graded.tolist())
    return [name for name, values in zip(graded_items, score.T[is_graded], strict=True) if is_loss(name, values)]


def find_aggregates(scores: Floats) -> list[int]:
    """Find columns that contain the mean or the sum of all other columns, such as an average over benchmarks.

    A column is an aggregate if it equals the mean or the sum in all rows, up to the rounding of all columns. This can
    be decided only from at least three columns and three rows without missing scores, and if the column has at least
    three different values.

    Parameters
    ----------
    scores : float array (n_rows, n_columns)
        Scores; NaN if missing.

    Returns
    -------
    list of int
        Positions of the aggregates, ascending.
    """
    complete = scores[(np.abs(scores) <= _MAX_SCORE).all(axis=1)]
    n_rows, n_columns = complete.shape
    if n_rows < 3 or n_columns < 3:
        return []

    # sum and mean of all other columns in each row, in place of each column
    others_sum = complete.sum(axis=1, keepdims=True) - complete
    others_mean = others_sum / (n_columns - 1)
    aggregates: set[int] = set()
    for expected in (others_sum, others_mean):
        largest_difference = np.abs(complete - expected).max(axis=0)
        for position in np.flatnonzero(largest_difference < 0.11).tolist():  # rounded to one decimal or more
            if _is_aggregate(complete, position, largest_difference[position]):
                aggregates.add(position)
    return sorted(aggregates)


def _is_aggregate(scores: Floats, position: int, difference: float) -> bool:
    """Return whether a column that is close to the mean or sum of all other columns is an aggregate of them.

    It is an aggregate if rounding explains the difference, if the column has at least three different values, and if it is
    unlikely that values as coarse as these agree by chance.

    scores : float array (n_rows, n_columns), without missing scores
    position : position of the column
    difference : largest absolute difference between the column and the mean or sum in any row
    """
    column = scores[:, position]
    if len(np.unique(column)) < 3:
        return False
    others = np.delete(scores, position, axis=1)
    tolerance = _find_rounding_error(column) + _find_rounding_error(others) + 1e-9

    # approximate probability that any column agrees by chance with the mean or the sum, with uniform values
    n_rows, n_columns = scores.shape
    p_chance = 2 * n_columns * (2 * tolerance / np.ptp(scores)) ** n_rows
    return bool(difference <= tolerance and p_chance < 1e-3)


def _find_rounding_error(values: Floats) -> float:
    """Return half a unit of the last decimal of an array, up to six decimals; 0 for whole numbers."""
    n_decimals = _count_decimals(values)
    is_rounded = 0 < n_decimals < _UNROUNDED
    return 0.5 * 10.0**-n_decimals if is_rounded else 0.0


def _count_decimals(values: Floats) -> int:
    """Return the number of decimals of an array without missing values; `_UNROUNDED` if there are more than six."""
    for n_decimals in range(_UNROUNDED):
        if np.allclose(values, values.round(n_decimals), rtol=0, atol=1e-9):
            return n_decimals
    return _UNROUNDED


def describe_missing_codes(scores: Floats) -> list[str]:
    """Describe a negative number that may stand for missing scores, such as −1 among scores from 0 to 1.

    Scores of −1, 0 and 1 may be losses, ties and wins, so they are not described.

    Parameters
    ----------
    scores : float array (n_scores,)
        All scores, without NaN.

    Returns
    -------
    list of str
        At most one note.
    """
    negative = np.unique(scores[scores < 0])
    are_outcomes = bool(np.isin(scores, (-1, 0, 1)).all())
    if len(negative) != 1 or negative[0] not in _MISSING_CODES or are_outcomes:
        return []
    code = float(negative[0])
    n_cells = format_count(int((scores == code).sum()), "time")
    return [f"the only negative score is {code:g}, {n_cells}: if it stands for a missing score, leave the cell empty"]


def check_not_win_rates(source: str, score: Floats, model_ids: Sequence[str], item_ids: Sequence[str]) -> None:
    """Check that a table is not a matrix of the win rates of pairs of models.

    In such a matrix, rows and columns have the same names, and the rates of both models of a pair add up to 1 or 100.

    Parameters
    ----------
    source : str
        Name of the table, for errors.
    score : float array (n_models, n_items)
        Scores; NaN if missing.
    model_ids, item_ids : sequence of str
        Ids of the models and items.

    Raises
    ------
    ImportFormatError
        [scores-pairs]: if it is such a matrix.
    """
    if len(model_ids) < 3 or set(model_ids) != set(item_ids):
        return
    item_positions = [item_ids.index(model) for model in model_ids]
    square = score[:, item_positions]
    first, second = np.triu_indices(len(model_ids), k=1)
    pair_sums = square[first, second] + square[second, first]
    if np.allclose(pair_sums, 1, atol=0.011) or np.allclose(pair_sums, 100, atol=0.11):
        received = f"got rows and columns of the same names, such as {model_ids[0]!r}"
        problem = f"its scores seem to be win rates of pairs of models: {received}."
        remedy = "Pass scores of models on items, or import the single comparisons by `youden import battles`."
        raise import_error(source, f"{problem} {remedy}", slug="scores-pairs")


def check_units(source: str, score: Floats, item_ids: Sequence[str]) -> None:
    """Check that all items have scores of one unit, unlike, for example, fractions of one item and Elo ratings of another.

    A unit has an upper bound: 1 for fractions, 10 for grades and 100 for percentages. For each bound, items of two kinds are
    searched for: items whose scores are all within the bound, and items whose scores are too large for it. If there are
    items of both kinds, the units differ. Scores are too large if one of these conditions holds:

    - All exceed the bound.
    - One exceeds ten times the bound.
    - All except 0, which occurs in each unit, exceed three times the bound. For the bound 1, scores of 1 are excepted, too,
      because 1 is the lowest grade of many scales. This condition does not apply to a table of whole and half points, in
      which 0 and 1 may be grades of a hard item.

    Negative scores are within each bound. Two cases are not evidence of different units:

    - Scores within the bound 1 or 10 that are whole numbers, because they may be counts.
    - Bounds 1 and 10 in a table of more than 100 items, because so many items are tasks with scores of one unit, and not
      metrics.

    Parameters
    ----------
    source : str
        Name of the table, for errors.
    score : float array (n_models, n_items)
        Scores; NaN if missing. Each item has at least one.
    item_ids : sequence of str
        Ids of the items.

    Raises
    ------
    ImportFormatError
        [scores-scale]: if the units differ.
    """
    lowest, highest = np.nanmin(score, axis=0), np.nanmax(score, axis=0)
    has_fractions = (np.nan_to_num(score) % 1 > 0).any(axis=0)
    may_be_metrics = len(item_ids) <= _MAX_METRICS
    for bound in (1, 10, 100):
        is_largest_bound = bound == 100
        if not may_be_metrics and not is_largest_bound:
            continue
        is_within_bound = highest <= bound
        if not is_largest_bound:
            is_within_bound &= has_fractions
        lowest_nonzero = _find_lowest_nonzero(score, has_lowest_grade=bound == 1)
        is_zero_or_large = (highest > bound) & (lowest_nonzero > 3 * bound)
        is_too_large = (lowest > bound) | (highest > 10 * bound) | is_zero_or_large
        if not is_within_bound.any() or not is_too_large.any():
            continue

        examples = (int(is_within_bound.argmax()), int(is_too_large.argmax()))
        ranges = [f"{lowest[item]:g} to {highest[item]:g} for {item_ids[item]!r}" for item in examples]
        raise import_error(
            source,
            f"its scores seem to have different units: got {' and '.join(ranges)}. Keep scores of one unit, for example by "
            "--column score=NAME,NAME or ignore=NAME, or set --range LOW,HIGH if all scores have this range.",
            slug="scores-scale",
        )


def _find_lowest_nonzero(score: Floats, *, has_lowest_grade: bool) -> Floats:
    """Return the lowest score of each item, without the scores 0; infinite if no score is left.

    If `has_lowest_grade` is True, scores of 1 are left out, too. In a table of whole and half points, no score is left out,
    because 0 and 1 are grades like all others.

    score : float array (n_models, n_items); NaN if missing
    has_lowest_grade : whether 1 may be the lowest grade of a scale, so that it is left out as 0 is
    """
    is_left_out = score == 0
    if has_lowest_grade:
        is_left_out |= score == 1
    has_finer_scores = bool((2 * np.nan_to_num(score) % 1 > 0).any())
    is_left_out = np.isnan(score) | is_left_out & has_finer_scores
    return np.asarray(np.where(is_left_out, np.inf, score).min(axis=0))


def check_model_units(source: str, score: Floats, model_ids: Sequence[str]) -> str | None:
    """Check that no model has fractions from 0 to 1 while other models have percentages or other large scores.

    A model has large scores if one exceeds 10, and none is between 0 and 1. A model with scores from 0 to 1 may be weak, so units
    differ only in two cases:

    - The large scores are only 0 and 100, and the model has a score above 0.
    - Its scores have more decimals than the large ones, or are not rounded, and the ranking depends on the unit: on a scale
      to 100 (or to the highest score of the table), its mean would exceed the mean of a model with large scores.

    Parameters
    ----------
    source : str
        Name of the table, for errors.
    score : float array (n_models, n_items)
        Scores; NaN if missing. Each model has at least one.
    model_ids : sequence of str
        Ids of the models.

    Returns
    -------
    str or None
        A note if a model has scores from 0 to 1, others have large scores, and the units do not differ for certain.

    Raises
    ------
    ImportFormatError
        [scores-scale]: if the units differ.
    """
    lowest, highest = np.nanmin(score, axis=1), np.nanmax(score, axis=1)
    mean = np.nanmean(score, axis=1)
    has_fractions = ((score > 0) & (score < 1)).any(axis=1)
    is_large = (highest > 10) & ~has_fractions
    is_small = (lowest >= 0) & (highest > 0) & (highest <= 1)
    if not is_large.any() or not is_small.any():
        return None

    large_scores = score[is_large]
    large_scores = large_scores[~np.isnan(large_scores)]
    are_binary_percentages = bool(np.isin(large_scores, (0, 100)).all())
    n_large_decimals = _count_decimals(large_scores)
    unit = max(100.0, float(highest.max()))
    for model in np.flatnonzero(is_small).tolist():
        n_decimals = _count_decimals(score[model][~np.isnan(score[model])])
        is_finer = n_decimals > n_large_decimals or n_decimals == _UNROUNDED
        changes_ranking = unit * mean[model] > mean[is_large].min()
        if are_binary_percentages or (is_finer and changes_ranking):
            examples = (model, int(is_large.argmax()))
            ranges = [f"{lowest[example]:g} to {highest[example]:g} for {model_ids[example]!r}" for example in examples]
            problem = f"the scores of its models seem to have different units: got {' and '.join(ranges)}."
            remedy = (
                "Convert the scores of all models to one unit, or set --range LOW,HIGH if all scores have this range."
            )
            raise import_error(source, f"{problem} {remedy}", slug="scores-scale")

    first = model_ids[int(is_small.argmax())]
    others = f"other models have scores up to {highest.max():g}"
    return f"the scores of {first!r} are at most 1, and {others}: convert them if their units differ"
