"""Trials are counted as a slow reading of their rows counts them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from youden.nouns import Trials

ROWS = st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.integers(-1, 2)), max_size=40)


@given(rows=ROWS, scale=st.sampled_from([1, 9_999]))
def test_a_comparison_that_stands_there_again_is_counted_on(rows: list[tuple[int, ...]], scale: int) -> None:
    item, first, second, other = np.array(rows, dtype=np.int32).reshape(-1, 4).T * np.int32(scale)
    before: Counter[tuple[int, ...]] = Counter()
    expected = []
    for row in rows:
        expected.append(before[row])
        before[row] += 1
    found = Trials.independent(item, first, second, other).counted().replicate
    assert (found.tolist(), found.dtype) == (expected, np.int32)
