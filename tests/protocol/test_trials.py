"""Test that trials are counted like a naive count of their rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from youden.errors import PlanError
from youden.types import Trials
from youden.types.trials import ANCHOR, FOLLOW_UP, MAIN

ROWS = st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.integers(-1, 2)), max_size=40)


@given(rows=ROWS, scale=st.sampled_from([1, 9_999]))
def test_a_repeated_comparison_gets_the_next_replicate_number(rows: list[tuple[int, ...]], scale: int) -> None:
    item, first, second, other_item = np.array(rows, dtype=np.int32).reshape(-1, 4).T * np.int32(scale)
    before: Counter[tuple[int, ...]] = Counter()
    expected = []
    for row in rows:
        expected.append(before[row])
        before[row] += 1
    result = Trials.independent(item, first, second, other_item).with_replicate_numbers().replicate
    assert result.tolist() == expected
    assert result.dtype == np.int32


@pytest.mark.parametrize(
    "given_", [("step",), ("weight_first",), ("weight_second",), ("role",), ("step", "weight_first")]
)
def test_given_columns_are_kept_and_omitted_ones_have_defaults(given_: tuple[str, ...]) -> None:
    part = Trials.paired(*np.array([[0, 1], [0, 1], [1, 2]], dtype=np.int32))
    columns = {
        name: part.columns()[name]
        for name in ("item", "first", "second", "trial_type", "other_item", "replicate", "block")
    }
    own = {
        "step": np.array([3, 4], dtype=np.int32),
        "weight_first": np.array([0.0, 2.0]),
        "weight_second": np.array([0.5, 0.0]),
        "role": np.array([ANCHOR, FOLLOW_UP], dtype=np.int8),
    }
    usual = {"step": [0, 0], "weight_first": [1, 1], "weight_second": [1, 1], "role": [MAIN, MAIN]}
    trials = Trials(**columns, **{name: own[name] for name in given_})
    for name, default in usual.items():
        assert getattr(trials, name).tolist() == (own[name].tolist() if name in given_ else default), name
    kept = trials.take(np.array([False, False]))
    assert len(kept.columns()["weight_first"]) == 0


def replace_column(trials: Trials, name: str, column: Any) -> Trials:
    return replace(trials, **{name: column})


@pytest.mark.parametrize("name", ["step", "role", "weight_first", "block"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_columns_of_another_length_are_refused(name: str, length: int) -> None:
    trials = Trials.paired(*np.array([[0, 1], [0, 1], [1, 2]], dtype=np.int32))
    with pytest.raises(PlanError, match=rf"got 2 in item and {length} in {name}.*\[trials-length\]"):
        replace_column(trials, name, np.ones(length, dtype=np.int32))


def test_repeats_are_given_for_both_agents_or_for_neither() -> None:
    trials = Trials.paired(*np.array([[0, 1], [0, 1], [1, 2]], dtype=np.int32))
    for name in ("first_repeat", "second_repeat"):
        with pytest.raises(PlanError, match=r"\[trials-length\]"):
            replace_column(trials, name, np.ones(2, dtype=np.int32))
