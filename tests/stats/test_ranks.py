"""Places that intervals allow."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.stats import rank_ranges
from youden.stats.trials.comparisons import tied_places

abilities = st.lists(st.sampled_from([-0.5, 0.0, 0.2, 0.4, np.nan]), min_size=1, max_size=8)
intervals = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=30, deadline=None)
@given(drawn=intervals)
def test_ranges_count_those_wholly_above_and_below(drawn: list[tuple[int, int, bool]]) -> None:
    low = np.array([np.nan if gone else float(a) for a, _, gone in drawn])
    high = np.array([np.nan if gone else float(a + width) for a, width, gone in drawn])
    got = rank_ranges(low, high)
    for i in range(len(low)):
        above = sum(1 for k in range(len(low)) if low[k] > high[i])
        below = sum(1 for k in range(len(low)) if high[k] < low[i])
        assert (got.low[i], got.high[i]) == (1 + above, len(low) - below)


@settings(max_examples=30, deadline=None)
@given(values=abilities)
def test_an_ability_without_width_holds_its_own_rank(values: list[float]) -> None:
    ability = np.array(values)
    place = tied_places(ability)
    got = rank_ranges(ability, ability)
    known = ~np.isnan(ability)
    np.testing.assert_array_equal(got.low[known], place[known])
    assert (place[~known] == known.sum() + 1).all()


def test_agents_of_two_components_bar_each_other_from_no_place() -> None:
    low, high = np.array([0.8, 0.1, 0.5, 0.0]), np.array([0.9, 0.2, 0.6, 0.05])
    places = rank_ranges(low, high, component=np.array([0, 0, 1, 1], dtype=np.int32))
    assert places.low.tolist() == [1, 2, 1, 2]
    assert places.high.tolist() == [3, 4, 3, 4]
