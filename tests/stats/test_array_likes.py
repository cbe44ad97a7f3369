"""Lists and pandas objects give the results of arrays, and values of different indexes are not matched by position."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from narrowing import untyped
from youden import stats
from youden.errors import StatisticsError

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
