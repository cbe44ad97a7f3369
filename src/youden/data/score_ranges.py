"""Determine the range of the scores of a table, check their unit, and find averages and totals by their values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from youden.data.importers.column_names import normalize_name
from youden.data.importers.foreign_files import import_error
from youden.text.sentences import format_count
from youden.types.pool import Bools, Floats, Positions

_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0))
"""Ranges of scores. The first that contains all scores is assumed."""
_EXTREME = re.compile(r"(best|worst|max(imum)?|min(imum)?|highest|lowest|sota|oracle)(_.*)?")
"""Normalized names of columns that may contain the highest or lowest of other scores."""
_MAX_SCORE = 1e100
_UNROUNDED = 7
"""Number of decimals of scores that are not rounded to at most six decimals."""
_MISSING_CODES = (-1.0, -9.0, -99.0, -999.0)
"""Negative numbers that often stand for a missing score."""
MAX_METRICS = 100
"""A table with more items has scores of single items instead of metrics."""
_MAX_ROUNDING_ERROR = 0.11
"""Upper bound on the rounding errors of a column and of all other columns, which are at most 0.05 + 0.05 with one decimal."""


def determine_range(source: str, scores: Floats, score_range: tuple[float, float] | None) -> tuple[float, float]:
    """Return the lowest and the highest possible score.

    source : name of the table, for errors
    scores : float array (n_scores,), all scores, without NaN; at least one
    score_range : lowest and highest possible score, as set by the user; None to infer them

    If the user set no range, it is the first of these that contains all scores: 0 to 1, −1 to 1, 0 to 10, 0 to 100. If none
    does, it is the range from the lowest to the highest score.

    Raises: ImportFormatError [scores-bounds] in three cases: the lowest and the highest possible score are equal; one of them is
        above 10¹⁰⁰ in magnitude; scores are outside of `score_range`.
    """
    lowest, highest = float(scores.min()), float(scores.max())
    if score_range is None:
        usual_ranges = [(low, high) for low, high in _RANGES if low <= lowest and highest <= high]
        score_range = usual_ranges[0] if usual_ranges else (lowest, highest)
    low, high = score_range
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


def find_aggregates(scores: Floats) -> list[int]:
    """Find columns that contain the mean or the sum of all other columns, such as an average over benchmarks.

    - The column must agree with the mean or the sum in all rows without missing scores. Differences may come from rounding.
    - There must be at least three such rows and at least three columns.
    - The column must have at least three different values.

    scores : float array (n_rows, n_columns); NaN if missing

    Returns the positions of the aggregates, ascending.
    """
    is_complete = (np.abs(scores) <= _MAX_SCORE).all(axis=1)  # a comparison with NaN is False
    complete_rows = scores[is_complete]
    n_rows, n_columns = complete_rows.shape
    if n_rows < 3 or n_columns < 3:
        return []

    # sum and mean of all other columns in each row, in place of each column
    others_sum = complete_rows.sum(axis=1, keepdims=True) - complete_rows
    others_mean = others_sum / (n_columns - 1)
    aggregates: set[int] = set()
    for expected in (others_sum, others_mean):
        largest_difference = np.abs(complete_rows - expected).max(axis=0)
        candidates = np.flatnonzero(largest_difference < _MAX_ROUNDING_ERROR)
        for position in candidates.tolist():
            if _is_aggregate(complete_rows, position, largest_difference[position]):
                aggregates.add(position)
    return sorted(aggregates)


def find_extremes(scores: Floats, names: Sequence[str]) -> list[int]:
    """Find columns such as "best" or "min" that contain the highest or the lowest score of the other columns in each row.

    There must be at least two other columns, and at least three scores in the column.

    scores : float array (n_rows, n_columns); NaN if missing
    names : names of the columns. Only columns with a name such as "best" or "min" are examined.

    Returns the positions of these columns, ascending.
    """
    if len(names) < 3:
        return []
    extremes = []
    for position, name in enumerate(names):
        if not _EXTREME.fullmatch(normalize_name(name)):
            continue
        has_score = ~np.isnan(scores[:, position])
        if has_score.sum() < 3:
            continue
        column = scores[has_score, position]
        other_columns = np.delete(scores[has_score], position, axis=1)
        highest, lowest = np.fmax.reduce(other_columns, axis=1), np.fmin.reduce(other_columns, axis=1)
        if np.array_equal(column, highest) or np.array_equal(column, lowest):
            extremes.append(position)
    return extremes


def _is_aggregate(scores: Floats, position: int, largest_difference: float) -> bool:
    """Return whether a column is the mean or the sum of all other columns.

    Three conditions must hold:

    - The column has at least three different values.
    - Rounding explains all differences from the mean or sum.
    - Such a good agreement is unlikely to be a coincidence. It may be one if there are few rows or decimals.

    scores : float array (n_rows, n_columns), without missing scores
    position : position of the column
    largest_difference : largest absolute difference between the column and the mean or sum in any row
    """
    column = scores[:, position]
    if len(np.unique(column)) < 3:
        return False
    other_columns = np.delete(scores, position, axis=1)
    tolerance = _find_rounding_error(column) + _find_rounding_error(other_columns) + 1e-9
    return bool(largest_difference <= tolerance and _bound_chance_of_agreement(scores, tolerance) < 1e-3)


def _bound_chance_of_agreement(scores: Floats, tolerance: float) -> float:
    """Return an upper bound on the probability that a column equals the mean or sum of the others by coincidence.

    scores : float array (n_rows, n_columns), without missing scores
    tolerance : largest difference that counts as agreement
    """
    # If scores are uniform on the range of all scores, one is within ± tolerance of a given value with probability p_row.
    # Whole numbers are equal with a larger probability.
    n_rows, n_columns = scores.shape
    unit = 1.0 if _count_decimals(scores) == 0 else 0.0
    p_row = max(2 * tolerance, unit) / np.ptp(scores)
    p_all_rows = p_row**n_rows
    # Bonferroni's inequality for 2 · n_columns comparisons: each column with the mean and with the sum
    return float(2 * n_columns * p_all_rows)


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

    Scores of −1, 0 and 1 may mean losses, ties and wins, so they are not described.

    scores : float array (n_scores,), all scores, without NaN

    Returns at most one note.
    """
    negative = np.unique(scores[scores < 0])
    are_outcomes = bool(np.isin(scores, (-1, 0, 1)).all())
    if len(negative) != 1 or negative[0] not in _MISSING_CODES or are_outcomes:
        return []
    code = float(negative[0])
    n_cells = format_count(int((scores == code).sum()), "time")
    return [f"the only negative score is {code:g}, {n_cells}: if it stands for a missing score, leave the cell empty"]


def check_not_win_rates(source: str, score: Floats, model_ids: Sequence[str], item_ids: Sequence[str]) -> None:
    """Check that a table does not contain the win rates of pairs of models.

    Such a table has at least three models, with the same names for its rows and its columns, in any order. The two rates of each
    pair add up to 1 ± 0.01 in all pairs, or to 100 ± 0.1 in all pairs. If a rate of a pair is missing, it is no such table.

    source : name of the table, for errors
    score : float array (n_models, n_items); NaN if missing
    model_ids, item_ids : ids of the models and items

    Raises: ImportFormatError [scores-pairs] if it is such a matrix.
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
        remedy = "Pass scores of models on items, or import the individual comparisons by `youden import battles`."
        raise import_error(source, f"{problem} {remedy}", slug="scores-pairs")


def check_units(source: str, score: Floats, item_ids: Sequence[str]) -> None:
    """Check that the scores of all items have the same unit: not, for example, fractions on one item and Elo ratings on another.

    The upper bound of a unit is 1 for fractions, 10 for grades and 100 for percentages. The units differ if, for one of these
    bounds,

    - one item has no score above the bound (negative scores are allowed) and, for the bounds 1 and 10, some decimals, and
    - another item has scores that are too large for it: all exceed it, one exceeds it tenfold, all except 0 exceed it
      threefold, or, for the bound 1, all are whole numbers and one exceeds it (`_find_items_above_bound` states exceptions).

    With more than 100 items, only the bound 100 is checked. Such items are usually tasks with scores of one unit.

    source : name of the table, for errors
    score : float array (n_models, n_items); NaN if missing. Each item has at least one.
    item_ids : ids of the items

    Raises: ImportFormatError [scores-scale] if the units differ.
    """
    may_be_metrics = len(item_ids) <= MAX_METRICS
    bounds = (1, 10, 100) if may_be_metrics else (100,)
    for bound in bounds:
        within_bound = _find_items_within_bound(score, bound)
        above_bound = _find_items_above_bound(score, bound)
        if len(within_bound) > 0 and len(above_bound) > 0:
            ranges = [_format_range(score[:, item], item_ids[item]) for item in (within_bound[0], above_bound[0])]
            raise import_error(
                source,
                f"its scores seem to have different units: got {' and '.join(ranges)}. Keep scores of one unit, for example by "
                "--column score=NAME,NAME or ignore=NAME, or set --range LOW,HIGH if all scores have this range.",
                slug="scores-scale",
            )


def _find_items_within_bound(score: Floats, bound: int) -> Positions:
    """Find the items whose scores may be fractions, grades or percentages, depending on the upper bound.

    No score of such an item exceeds the bound. For the bounds 1 and 10, at least one score must have decimals. Otherwise, the
    scores may be counts, which have no upper bound.

    score : float array (n_models, n_items); NaN if missing
    bound : 1 for fractions, 10 for grades or 100 for percentages

    Returns the positions of the items, ascending.
    """
    is_within_bound = np.nanmax(score, axis=0) <= bound
    if bound < 100:
        has_decimals = (np.nan_to_num(score) % 1 > 0).any(axis=0)
        is_within_bound &= has_decimals
    return np.flatnonzero(is_within_bound)


def _find_items_above_bound(score: Floats, bound: int) -> Positions:
    """Find the items whose scores are too large to be fractions, grades or percentages, depending on the upper bound.

    Scores are too large in these cases, here with examples for the bound 1:

    - All scores exceed the bound: 2.5 and 3.
    - At least one score exceeds ten times the bound: 0.5 and 12.
    - All scores except 0 exceed three times the bound: 0, 4.2 and 6.
    - All scores are whole numbers, and one exceeds the bound, which is 1: 1, 2 and 3. They may be ranks or counts.

    In the third case, scores of 1 are accepted, too, if the bound is 1, because 1 is the lowest grade of many scales. An
    exception for tables of points is explained in `_find_lowest_nonzero`, and applies to the fourth case, too.

    score : float array (n_models, n_items); NaN if missing
    bound : 1 for fractions, 10 for grades or 100 for percentages

    Returns the positions of the items, ascending.
    """
    highest = np.nanmax(score, axis=0)
    lowest_nonzero = _find_lowest_nonzero(score, excludes_ones=bound == 1)
    all_exceed_bound = np.nanmin(score, axis=0) > bound
    one_far_exceeds_bound = highest > 10 * bound
    all_nonzero_are_large = (highest > bound) & (lowest_nonzero > 3 * bound)
    exceeds_bound = all_exceed_bound | one_far_exceeds_bound | all_nonzero_are_large
    if bound == 1 and not _are_half_points(score):
        are_counts = (highest > bound) & (np.nan_to_num(score) % 1 == 0).all(axis=0)
        exceeds_bound |= are_counts
    return np.flatnonzero(exceeds_bound)


def _format_range(scores: Floats, name: str) -> str:
    """Format the range of the scores of an item or a model, as in "0 to 1 for 'accuracy'"; NaN is ignored."""
    return f"{np.nanmin(scores):g} to {np.nanmax(scores):g} for {name!r}"


def _are_half_points(score: Floats) -> bool:
    """Return whether all scores of a table, except missing ones, are multiples of 0.5."""
    return bool((2 * np.nan_to_num(score) % 1 == 0).all())


def _find_lowest_nonzero(score: Floats, *, excludes_ones: bool) -> Floats:
    """Return the lowest score of each item, without scores of 0; infinite if an item has no other score.

    If all scores of the table are multiples of 0.5, they are points. Then 0 and 1 are points like all others, and no score is
    left out.

    score : float array (n_models, n_items); NaN if missing
    excludes_ones : whether scores of 1 are left out as well, because 1 is the lowest grade of many scales

    Returns a float array (n_items,).
    """
    is_excluded = np.isnan(score)
    are_half_points = _are_half_points(score)
    if not are_half_points:
        is_excluded |= score == 0
    if excludes_ones and not are_half_points:
        is_excluded |= score == 1
    return np.asarray(np.min(score, axis=0, where=~is_excluded, initial=np.inf))


def check_model_units(source: str, score: Floats, model_ids: Sequence[str]) -> str | None:
    """Check that no model has fractions from 0 to 1 while other models have percentages or other large scores.

    A small model has scores from 0 to 1, not all 0. A large model has a score above 10, and none between 0 and 1 (0 and 1
    excluded). If the table has both kinds, their units may differ; they may also be the same, if the small model is weak. They
    certainly differ in two cases:

    - All scores of the large models are 0 or 100.
    - A small model has scores with more decimals than those of the large models, or with more than six. In addition, its mean
      times 100 (or times the highest score, if this is larger) exceeds the mean of a large model.

    source : name of the table, for errors
    score : float array (n_models, n_items); NaN if missing. Each model has at least one.
    model_ids : ids of the models

    Returns a note for the user if the units may differ; None if one of the two kinds is missing.

    Raises: ImportFormatError [scores-scale] if the units certainly differ.
    """
    lowest, highest = np.nanmin(score, axis=1), np.nanmax(score, axis=1)
    has_fractions = ((score > 0) & (score < 1)).any(axis=1)
    small_models = np.flatnonzero((lowest >= 0) & (highest > 0) & (highest <= 1))
    large_models = np.flatnonzero((highest > 10) & ~has_fractions)
    if len(small_models) == 0 or len(large_models) == 0:
        return None

    scale = max(100.0, float(highest.max()))
    other_unit = small_models[_mark_models_with_other_unit(score[small_models], score[large_models], scale=scale)]
    if len(other_unit) > 0:
        ranges = [_format_range(score[model], model_ids[model]) for model in (other_unit[0], large_models[0])]
        problem = f"the scores of its models seem to have different units: got {' and '.join(ranges)}."
        remedy = "Convert the scores of all models to one unit, or set --range LOW,HIGH if all scores have this range."
        raise import_error(source, f"{problem} {remedy}", slug="scores-scale")

    first_id = model_ids[small_models[0]]
    others = f"other models have scores up to {highest.max():g}"
    return f"the scores of {first_id!r} are at most 1, and {others}: convert them if their units differ"


def _mark_models_with_other_unit(small_scores: Floats, large_scores: Floats, *, scale: float) -> Bools:
    """Mark the models with scores from 0 to 1 whose unit certainly differs from that of the models with large scores.

    If the large scores are only 0 and 100, they are percentages, and all models are marked. Otherwise, a model is marked if
    two conditions hold:

    - Its scores have more decimals than the large scores, or more than six.
    - The unit changes its rank: if its scores were fractions of `scale`, its mean would exceed that of a model with large
      scores.

    small_scores : float array (n_small_models, n_items), scores from 0 to 1, at least one above 0 per model; NaN if missing
    large_scores : float array (n_large_models, n_items), scores of the models with large scores; NaN if missing
    scale : highest possible score on the scale of the large scores, at least 100

    Returns a bool array (n_small_models,).
    """
    present_large_scores = large_scores[~np.isnan(large_scores)]
    are_binary_percentages = np.isin(present_large_scores, (0, 100)).all()
    if are_binary_percentages:
        return np.ones(len(small_scores), dtype=np.bool_)

    n_large_decimals = _count_decimals(present_large_scores)
    n_decimals = np.array([_count_decimals(scores[~np.isnan(scores)]) for scores in small_scores])
    has_more_decimals = (n_decimals > n_large_decimals) | (n_decimals == _UNROUNDED)

    converted_means = scale * np.nanmean(small_scores, axis=1)
    lowest_large_mean = np.nanmean(large_scores, axis=1).min()
    ranking_depends_on_unit = converted_means > lowest_large_mean
    return np.asarray(has_more_decimals & ranking_depends_on_unit)
