"""Lists and pandas objects give the results of arrays, and values of different indexes are not matched by position."""

from __future__ import annotations

from array import array
from collections import UserList, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from narrowing import untyped
from youden import stats
from youden.errors import StatisticsError
from youden.stats.base.array_likes import takes_array_likes

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=8), RNG.normal(size=8)
SHUFFLED = RNG.permutation(8)


@pytest.mark.parametrize("name", ["spearman", "kendall", "rmse"])
def test_lists_and_series_give_the_result_of_arrays(name: str) -> None:
    function = untyped(getattr(stats, name))
    expected = function(A, B)
    assert function(A.tolist(), B.tolist()) == expected
    assert function(pd.Series(A, SHUFFLED), pd.Series(B, SHUFFLED)) == expected


@pytest.mark.parametrize("name", ["spearman", "kendall", "rmse"])
def test_series_with_different_indexes_are_refused(name: str) -> None:
    ability = pd.Series(A, index=list("abcdefgh")).sort_values(ascending=False)
    reference = pd.Series(B, index=list("abcdefgh")).sort_values(ascending=False)
    function = untyped(getattr(stats, name))
    with pytest.raises(StatisticsError, match=r"`b\.loc\[a\.index\]`.*\[array-index\]"):
        function(ability, reference)
    assert function(ability, reference.loc[ability.index]).value == pytest.approx(function(A, B).value)


def test_frames_of_predictions_give_the_rmse_of_arrays() -> None:
    predicted, observed = A.reshape(2, 4), np.where(np.arange(8) % 4, B, np.nan).reshape(2, 4)
    assert untyped(stats.rmse)(pd.DataFrame(predicted), pd.DataFrame(observed)) == stats.rmse(predicted, observed)


def test_frames_with_columns_in_another_order_are_refused() -> None:
    a = pd.DataFrame(A.reshape(2, 4), columns=list("abcd"))
    b = pd.DataFrame(np.abs(B).reshape(2, 4), columns=list("abcd"))
    calls: list[Callable[[pd.DataFrame], object]] = [
        lambda b: untyped(stats.rmse)(a, b),
        lambda b: stats.cells_from_matrix(a, weight=b),
    ]
    for call in calls:
        with pytest.raises(StatisticsError, match=r"the same columns: .*`b\[a\.columns\]`.*\[array-index\]"):
            call(b[list("dcba")])
        call(b)


def test_shuffled_columns_of_cells_and_replications_are_refused() -> None:
    agent, score = pd.Series([0, 1, 2]), pd.Series([0.1, 0.2, 0.3])
    with pytest.raises(StatisticsError, match=r"the same index: .*\[array-index\]"):
        stats.solve_additive(agent, [0, 0, 0], score.sort_values(ascending=False), n_agents=3, n_items=1)
    same, other = pd.DataFrame([[1, 0], [0, 1]], columns=["s1", "s2"]), pd.DataFrame([[0, 1], [1, 0]])
    assert stats.replication_scores(same, other).pearson.tolist() == [1, -1]
    with pytest.raises(StatisticsError, match=r"\[array-index\]"):
        stats.replication_scores(same, other[::-1])


@pytest.mark.parametrize(
    "convert",
    [
        pa.array,
        pd.Index,
        lambda values: pa.chunked_array([values]),
        lambda values: array(values.dtype.char, values),
        deque,
        UserList,
    ],
)
def test_arrays_of_other_packages_give_the_result_of_numpy(convert: Callable[[Any], object]) -> None:
    for name in ("spearman", "kendall", "rmse"):
        function = untyped(getattr(stats, name))
        assert function(convert(A), convert(B)) == function(A, B)
    trials = np.array([0, 1, 2] * 8), np.array([1, 2, 0] * 8), np.arange(24) // 3, np.array([1.0, 0, 0.5] * 8)
    fitted = untyped(stats.fit_preferences)(*map(convert, trials), n_agents=3)
    np.testing.assert_array_equal(fitted.ability, stats.fit_preferences(*trials, n_agents=3).ability)


def test_the_index_of_p_values_does_not_change_their_correction() -> None:
    p = np.array([0.01, 0.04, 0.03, 0.2])
    expected = stats.holm(p).tolist()
    assert untyped(stats.holm)(pd.Series(p, index=[2, 0, 3, 1])).tolist() == expected
    assert untyped(stats.holm)(p.tolist()).tolist() == expected


def test_preferences_in_a_shuffled_data_frame_give_the_result_of_arrays() -> None:
    first = RNG.integers(0, 4, 400)
    second = (first + RNG.integers(1, 4, 400)) % 4
    columns = {"first": first, "second": second, "item": RNG.integers(0, 20, 400), "answer": RNG.random(400).round()}
    frame = pd.DataFrame(columns).sample(frac=1, random_state=0)
    arrays = [frame[name].to_numpy() for name in columns]
    expected = stats.fit_preferences(*arrays, n_agents=4)
    fitted = untyped(stats.fit_preferences)(*(frame[name] for name in columns), n_agents=4)
    np.testing.assert_array_equal(fitted.ability, expected.ability)
    np.testing.assert_array_equal(fitted.covariance.covariance, expected.covariance.covariance)


@pytest.mark.parametrize("scale", [2.0, -1.0])
def test_preferences_outside_0_to_1_are_refused(scale: float) -> None:
    first, second, item = np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]), np.array([0, 0, 1, 1])
    answer = np.array([1.0, 0.0, 1.0, 1.0]) * scale
    with pytest.raises(StatisticsError, match=r"from 0 to 1: got .*\[trial-answer\]"):
        stats.fit_preferences(first, second, item, answer, n_agents=2)


def test_indexes_are_compared_only_between_series_of_the_same_length() -> None:
    add_lengths = untyped(takes_array_likes(lambda *arrays: sum(map(len, arrays))))
    a, b = pd.Series(A, index=list("abcdefgh")), pd.Series(B, index=list("hgfedcba"))
    assert add_lengths(a[:3], b) == 11
    with pytest.raises(StatisticsError, match=r"\[array-index\]"):
        add_lengths(a[:3], a, b)


def test_masked_values_count_as_missing() -> None:
    ability, reference = np.array([1.0, 2, 3, 4, 99]), np.array([1.0, 2, 3, 4, 0])
    masked = np.ma.array(reference, mask=[False, False, False, False, True])
    with pytest.raises(StatisticsError, match=r"\[metric-missing\]"):
        stats.spearman(ability, masked)
    assert stats.rmse(ability, masked).value == 0

    matrix = RNG.random((5, 8))
    expected = stats.cells_from_matrix(np.where(matrix > 0.8, np.nan, matrix))
    cells = untyped(stats.cells_from_matrix)(np.ma.array(matrix, mask=matrix > 0.8))
    np.testing.assert_array_equal(cells.score, expected.score)
    np.testing.assert_array_equal(cells.agent, expected.agent)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "float16", "bool", "object"])
def test_every_type_of_numbers_gives_the_result_of_floats(dtype: str) -> None:
    a, b = np.array([0, 1, 1, 0, 120]).astype(dtype), np.array([1, 0, 1, 0, 0]).astype(dtype)
    floats = a.astype(np.float64), b.astype(np.float64)
    for function in map(untyped, (stats.spearman, stats.kendall, stats.rmse)):
        assert function(a, b) == function(*floats)


def test_differences_of_small_numbers_do_not_overflow() -> None:
    assert untyped(stats.rmse)(np.array([0, 255], np.uint8), np.array([255, 0], np.uint8)).value == 255
    assert untyped(stats.rmse)(np.array([0, 60000], np.float16), np.array([60000, 0], np.float16)).value > 59_000


@pytest.mark.parametrize(
    "values",
    [
        {"a": 1, "b": 2, "c": 3},
        {1, 2, 3},
        iter([1, 2, 3]),
        {"a": 1, "b": 2, "c": 3}.values(),
        ["1", "2", "x"],
        np.array([1, 2, "x"], dtype=object),
        np.array([1, 2, 3j]),
        np.arange(3).astype("datetime64[D]"),
        [[1], [2, 3]],
    ],
    ids=lambda values: type(values).__name__,
)
def test_values_that_are_not_real_numbers_are_refused(values: object) -> None:
    with pytest.raises(StatisticsError, match=r"arrays of real numbers: got .*\[array-numbers\]"):
        untyped(stats.spearman)(values, [3, 1, 2])


def test_missing_values_of_pandas_and_python_count_as_nan() -> None:
    for missing in (pd.Series([1, None, 3], dtype="Int64"), [1, None, 3], np.array([1, pd.NA, 3], dtype=object)):
        with pytest.raises(StatisticsError, match=r"\[metric-missing\]"):
            untyped(stats.spearman)(missing, range(3))


@pytest.mark.parametrize("name", ["fit_preferences", "fit_bradley_terry"])
@pytest.mark.parametrize("agent", [3, -1, 0.5, 1])
def test_wrong_positions_and_trials_of_an_agent_with_itself_are_refused(name: str, agent: float) -> None:
    first, second = np.array([0, 1, agent] * 8), np.array([1, 2, 1] * 8)
    item = {"item": np.arange(24)} if name == "fit_preferences" else {}
    with pytest.raises(StatisticsError, match=r"\[trial-position\]"):
        untyped(getattr(stats, name))(
            first=first, second=second, answer=np.array([1.0, 0.5, 0] * 8), n_agents=3, **item
        )


@pytest.mark.parametrize(
    ("column", "values", "slug"),
    [
        ("agent", [0, 0, 1, 2], "trial-position"),
        ("other_item", [-1, 1, -1, 1], "trial-position"),
        ("answer", [1, 0, 5, 1], "trial-answer"),
    ],
)
def test_self_trials_with_wrong_columns_are_refused(column: str, values: list[float], slug: str) -> None:
    columns: dict[str, list[float]] = {
        "agent": [0, 0, 1, 1],
        "item": [0, 1, 0, 1],
        "other_item": [-1, 0, -1, 0],
        "answer": [1, 0, 1, 0],
    }
    untyped(stats.estimate_self_consistency)(**columns, n_agents=2, n_items=2)
    with pytest.raises(StatisticsError, match=rf"\[{slug}\]"):
        untyped(stats.estimate_self_consistency)(**(columns | {column: values}), n_agents=2, n_items=2)
