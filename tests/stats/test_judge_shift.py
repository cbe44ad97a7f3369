"""One judge against another, agent by agent: what moves, what only looks as if it did, and how alike they would rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.errors import StatisticsError
from youden.stats import spearman
from youden.stats.judges.judge_shift import judge_shift, ranking_seen
from youden.types.pool import Floats, Ids

K = 8


def all_pairs(times: int = 6) -> tuple[Ids, Ids]:
    first, second = np.nonzero(~np.eye(K, dtype=bool))
    return np.tile(first, times).astype(np.int32), np.tile(second, times).astype(np.int32)


def answers(first: Ids, second: Ids, *, seed: int, effect: Floats | None = None) -> Floats:
    rng = np.random.default_rng(seed)
    effect = np.linspace(0.1, 0.4, K) if effect is None else effect
    return (rng.random(len(first)) < effect[first] + effect[second]).astype(float)


def test_a_judge_that_repeats_the_one_moves_nobody_and_ranks_alike() -> None:
    first, second = all_pairs()
    one = answers(first, second, seed=0)
    other = np.where(np.arange(len(one)) < 150, one, np.nan)
    found = judge_shift(first, second, one, other, n_agents=K)
    assert found.n_trials == 150
    assert np.abs(found.shift).max() < 1e-9
    assert found.p_holm.min() > 0.99
    assert found.slope == pytest.approx(1)
    assert ranking_seen(found, rng=np.random.default_rng(0)).rho == pytest.approx(1)


def test_judges_that_never_differed_leave_shifts_that_so_many_trials_allow() -> None:
    first, second = all_pairs()
    one = answers(first, second, seed=0)
    found = judge_shift(first, second, one, one, n_agents=K)
    n_trials = 2 * 6 * (K - 1)
    assert found.shift.tolist() == [0.0] * K
    assert not np.signbit(found.shift).any()
    assert found.high == pytest.approx(np.full(K, 1 - 0.025 ** (1 / n_trials)), rel=0.05)
    assert (found.high >= 1 - 0.025 ** (1 / n_trials)).all()
    assert found.low == pytest.approx(-found.high)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_effects_equal_plain_least_squares(seed: int) -> None:
    first, second = all_pairs()
    one, other = answers(first, second, seed=seed), answers(first, second, seed=seed + 1)
    seen = np.random.default_rng(seed).random(len(one)) < 0.5
    found = judge_shift(first, second, one, np.where(seen, other, np.nan), n_agents=K)
    X = np.zeros((len(first), K))
    X[np.arange(len(first)), first] = X[np.arange(len(first)), second] = 1
    a = np.linalg.lstsq(X, one, rcond=None)[0]
    solved = np.linalg.lstsq(np.column_stack([X, one])[seen], other[seen], rcond=None)[0]
    e = solved[:K] + solved[K] * a
    np.testing.assert_allclose(found.one, a, atol=1e-9)
    np.testing.assert_allclose(found.other, e, atol=1e-9)
    assert found.slope == pytest.approx(np.polyfit(a, e, 1)[0])


def test_an_agent_that_moves_is_found_and_a_judge_that_is_less_sure_moves_nobody() -> None:
    first, second = all_pairs(40)
    rng = np.random.default_rng(3)
    one = answers(first, second, seed=1)
    turned = np.where(rng.random(len(one)) < 0.25, 1 - one, one)
    plain = judge_shift(first, second, one, turned, n_agents=K)
    assert plain.slope == pytest.approx(0.5, abs=0.1)
    assert plain.p_holm.min() > 0.05
    favoured = ((first == 2) | (second == 2)) & (rng.random(len(one)) < 0.4)
    moved = judge_shift(first, second, one, np.where(favoured, 1.0, turned), n_agents=K)
    assert np.argmax(moved.shift) == np.argmin(moved.p_holm) == 2
    assert moved.p_holm[2] < 0.001
    assert moved.low[2] > 0


@pytest.mark.parametrize("discordant", [0.0, 0.03])
def test_where_judges_hardly_ever_differ_intervals_hold_what_an_agent_really_moves_by(discordant: float) -> None:
    """Agent 2 alone is told otherwise, and rarely: no yes of the other is by chance."""
    first, second = all_pairs(4)
    held, of = 0, (first == 2) | (second == 2)
    for seed in range(60):
        one = answers(first, second, seed=seed) * ~of
        moved = of & (np.random.default_rng(seed).random(len(one)) < discordant)
        found = judge_shift(first, second, one, np.where(moved, 1 - one, one), n_agents=K)
        held += found.low[2] <= discordant <= found.high[2]
        assert (found.high - found.low).min() > 0.01
    assert held >= 55


def test_agents_that_nearly_always_get_a_no_are_known_better_than_their_few_trials_say() -> None:
    """Four agents seldom meet anybody but each other, and then hardly ever get a yes; four strong ones meet often."""
    weak = np.arange(K) < 4
    effect = np.where(weak, 0.01, np.linspace(0.1, 0.4, K))
    first, second = all_pairs(4)
    often = np.repeat(np.arange(len(first)), np.where(weak[first] | weak[second], 1, 8))
    first, second = first[often], second[often]
    kept = (weak[first] == weak[second]) | (np.arange(len(first)) % 4 == 0)
    first, second = first[kept], second[kept]
    told, true = [], []
    for seed in range(60):
        one = answers(first, second, seed=seed, effect=effect)
        found = judge_shift(first, second, one, one, n_agents=K)
        told.append((1 - found.reliability) * found.one.var())
        true.append(((found.one - effect) ** 2).mean())
    assert np.mean(told) == pytest.approx(np.mean(true), rel=0.15)


def test_an_agent_that_one_judge_never_met_is_unknown() -> None:
    first, second = all_pairs()
    one = answers(first, second, seed=0)
    other = np.where((first == 5) | (second == 5), np.nan, one)
    found = judge_shift(first, second, one, other, n_agents=K)
    assert np.setdiff1d(np.arange(K), found.agents).tolist() == [5]
    assert np.isfinite(found.shift).all()


def test_rank_correlation_is_not_held_down_by_few_trials() -> None:
    """Two judges of the same abilities, the second on few trials: what is seen falls short, what is inferred does not."""
    first, second = all_pairs(60)
    effect = np.random.default_rng(5).uniform(0.05, 0.45, K)
    seen, inferred, covered = [], [], 0
    for seed in range(20):
        one, other = (answers(first, second, seed=2 * seed + n, effect=effect) for n in (0, 1))
        few = np.random.default_rng(seed).permutation(len(first)) < 80
        found = judge_shift(first, second, one, np.where(few, other, np.nan), n_agents=K)
        rho = ranking_seen(found, rng=np.random.default_rng(seed), n_draws=500)
        seen.append(np.corrcoef(found.other_seen, found.one)[0, 1])
        inferred.append(rho.rho)
        covered += rho.low <= 0.95 <= rho.high
    assert np.mean(seen) < np.mean(inferred)
    assert covered >= 16


def test_two_judges_that_are_one_fall_short_of_1_by_repetition_but_not_of_the_ceiling() -> None:
    """Ten agents of two strengths: within each, repetition alone decides their order."""
    n, level_with, without_one, below = 10, np.repeat([0.2, 0.3], 5), 0, 0
    first, second = (np.tile(agents, 20).astype(np.int32) for agents in np.nonzero(~np.eye(n, dtype=bool)))
    for seed in range(20):
        one, other = (answers(first, second, seed=2 * seed + number, effect=level_with) for number in (0, 1))
        found = judge_shift(first, second, one, other, n_agents=n)
        rho = ranking_seen(found, rng=np.random.default_rng(seed), n_draws=500)
        assert 0 < rho.ceiling < 1
        without_one += rho.high < 0.9995
        below += rho.high < rho.ceiling
    assert without_one >= 5
    assert below <= 2


def test_a_judge_that_draws_the_line_elsewhere_ranks_alike() -> None:
    """The other says yes to strong agents above all: its order of agents is the one's, along a curve."""
    n = 16
    first, second = (np.tile(agents, 30).astype(np.int32) for agents in np.nonzero(~np.eye(n, dtype=bool)))
    place = np.linspace(0, 1, n)
    held = 0
    for seed in range(8):
        one = answers(first, second, seed=2 * seed, effect=place / 2)
        other = answers(first, second, seed=2 * seed + 1, effect=0.05 * place + 0.45 * place**2)
        few = np.random.default_rng(seed).permutation(len(first)) < 5000
        found = judge_shift(first, second, one, np.where(few, other, np.nan), n_agents=n)
        rho = ranking_seen(found, rng=np.random.default_rng(seed), n_draws=500)
        held += rho.low <= spearman(found.one, place).value <= rho.high
    assert held >= 7


def test_too_few_trials_are_refused() -> None:
    first, second = all_pairs(1)
    one = answers(first, second, seed=0)
    other = np.where(np.arange(len(one)) < 10, one, np.nan)
    with pytest.raises(StatisticsError, match=r"\[shift-few\]"):
        judge_shift(first, second, one, other, n_agents=K)


def test_a_judge_that_always_says_yes_has_no_ranking_to_compare() -> None:
    first, second = all_pairs()
    one = np.ones(len(first))
    found = judge_shift(first, second, one, answers(first, second, seed=0), n_agents=K)
    assert np.isnan(ranking_seen(found, rng=np.random.default_rng(0)).rho)
