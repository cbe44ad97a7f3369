"""Labels dealt to other agents: the p-value counts deals, the interval inverts it, small families can claim nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.errors import StatisticsError
from youden.stats.judges.judge_shift import label_shift
from youden.types.pool import Bools, Floats


def plain(value: Floats, covariate: Floats | None = None) -> tuple[Floats, Floats]:
    """Score and information of least squares on 1 and the covariate."""
    known = np.column_stack([np.ones(len(value)), *([] if covariate is None else [covariate])])
    off = np.eye(len(value)) - known @ np.linalg.pinv(known)
    return off @ value, off


def slow_p(value: Floats, member: Bools, covariate: Floats, *, shift: float) -> float:
    """Two-sided p-value of `shift` over every deal, each fitted by least squares."""
    K = len(value)

    def statistic(dealt: Floats) -> float:
        known = np.column_stack([np.ones(K), covariate])
        left = dealt - known @ np.linalg.lstsq(known, dealt, rcond=None)[0]
        return float(left @ (value - shift * member) / np.sqrt(left @ left))

    deals = [np.isin(np.arange(K), chosen).astype(float) for chosen in combinations(range(K), int(member.sum()))]
    u = np.array([statistic(dealt) for dealt in deals])
    own = statistic(member.astype(float))
    return float(min(1, 2 * min((u >= own - 1e-9).mean(), (u <= own + 1e-9).mean())))


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_p_value_and_interval_equal_the_slow_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value, covariate = rng.standard_normal(8), rng.standard_normal(8)
    member = np.arange(8) < 3
    found = label_shift(*plain(value, covariate), member, rng=rng, level=0.9)
    known = np.column_stack([np.ones(8), covariate, member])
    assert found.shift == pytest.approx(np.linalg.lstsq(known, value, rcond=None)[0][2])
    assert found.n_deals == 56
    assert found.p_value == pytest.approx(slow_p(value, member, covariate, shift=0))
    for inside, outside in ((found.low + 1e-6, found.low - 1e-6), (found.high - 1e-6, found.high + 1e-6)):
        assert slow_p(value, member, covariate, shift=inside) > 0.1
        assert slow_p(value, member, covariate, shift=outside) <= 0.1


def test_random_deals_come_close_to_all_of_them() -> None:
    rng = np.random.default_rng(0)
    value, member = rng.standard_normal(14), np.arange(14) < 4
    every = label_shift(*plain(value), member, rng=rng)
    some = label_shift(*plain(value), member, rng=rng, n_deals=900)
    assert every.n_deals == 1001
    assert some.n_deals == 901
    assert some.p_value == pytest.approx(every.p_value, abs=0.06)
    assert some.low == pytest.approx(every.low, abs=0.3)


def test_intervals_cover_what_was_planted_among_agents_that_differ_by_themselves() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        covariate, member = rng.standard_normal(20), rng.permutation(20) < 6
        value = 0.5 * covariate + 0.3 * member + rng.standard_normal(20)
        found = label_shift(*plain(value, covariate), member, rng=rng, n_deals=499)
        covered += found.low <= 0.3 <= found.high
    assert 182 <= covered <= 198


def test_a_label_that_one_agent_carries_can_never_be_told_from_luck() -> None:
    value = np.array([100.0, 0, 0.1, 0.2, 0.3])
    found = label_shift(*plain(value), np.arange(5) == 0, rng=np.random.default_rng(0))
    assert not found.reachable
    assert found.p_value == pytest.approx(0.4)


def test_a_label_that_follows_the_covariate_exactly_says_nothing() -> None:
    member = np.arange(6) < 3
    found = label_shift(*plain(np.arange(6.0), member.astype(float)), member, rng=np.random.default_rng(0))
    assert not found.reachable
    assert found.p_value == 1


def test_labels_of_all_or_none_are_refused() -> None:
    for member in (np.ones(4, dtype=bool), np.zeros(4, dtype=bool)):
        with pytest.raises(StatisticsError, match=r"\[label-all\]"):
            label_shift(*plain(np.arange(4.0)), member, rng=np.random.default_rng(0))
    with pytest.raises(StatisticsError):
        label_shift(*plain(np.arange(4.0)), np.ones(3, dtype=bool), rng=np.random.default_rng(0))
