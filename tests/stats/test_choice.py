"""Test the selection of the best agent: regret bound against simulations, selection-adjusted interval, incomparable agents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from narrowing import not_none
from youden.stats import CentredCovariance, pairwise_differences
from youden.stats.trials.best_selection import (
    Choice,
    _compute_dunnett_quantiles,
    expected_selection_bias,
    next_allocation,
    select_best,
    simultaneous_upper_bounds,
)
from youden.types.pool import Floats


def chosen(
    ability: Floats, covariance: Floats, *, freedom: float = 60.0, top: int = 1, share: float = 1.0
) -> Choice | None:
    K = len(ability)
    center = np.eye(K) - 1 / K
    of = CentredCovariance(center @ covariance @ center, np.full(K, freedom))
    return select_best(ability, of, pairwise_differences(ability, of), top=top, alpha_fraction=share)


def covariance_of(K: int, error: Floats, correlation: float) -> Floats:
    return np.asarray(np.outer(error, error) * (correlation + (1 - correlation) * np.eye(K)))


TRUTHS = {
    "all alike": np.zeros(12),
    "a leader": np.append(0.06, np.zeros(11)),
    "two leaders": np.append([0.08, 0.08], np.zeros(10)),
    "a slope": np.linspace(0, 0.2, 12),
    "three agents": np.array([0.0, 0.0, -0.1]),
}


@pytest.mark.parametrize("correlation", [pytest.param(0.0, marks=pytest.mark.slow), 0.6])
@pytest.mark.parametrize("name", TRUTHS)
def test_the_regret_bound_and_the_selection_adjusted_interval_cover(name: str, correlation: float) -> None:
    truth = TRUTHS[name]
    K, rng = len(truth), np.random.default_rng(3)
    covariance = covariance_of(K, np.linspace(0.01, 0.03, K), correlation)
    root, n = np.linalg.cholesky(covariance), 120
    lost = left_out = 0
    for _ in range(n):
        ability = truth + root @ rng.standard_normal(K)
        result = not_none(chosen(ability, covariance))
        (taken,) = result.agents
        lost += truth.max() - truth[taken] > result.regret_bound
        own = truth[taken] - truth.mean() + ability.mean()
        left_out += not result.ability_low <= own <= result.ability_high
    # a share of .05 gives 13 of 120 or more in .008 of cases
    assert lost <= 12
    assert left_out <= 12


@pytest.mark.slow
def test_no_smaller_regret_bound_would_cover_in_the_least_favorable_case() -> None:
    """One agent leads eleven equal ones by Dunnett's quantile times the standard error: the bound fails in 5%."""
    covariance = np.eye(12) * 0.02**2
    (quantile,) = _compute_dunnett_quantiles(np.array([0.02]), np.full(12, 0.02), 0.95)
    truth = np.append(quantile * np.sqrt(2) * 0.02, np.zeros(11))
    rng, n = np.random.default_rng(5), 800
    is_violated = []
    for _ in range(n):
        choice = chosen(truth + 0.02 * rng.standard_normal(12), covariance, freedom=1e6)
        assert choice is not None
        is_violated.append(truth.max() - truth[choice.agents[0]] > choice.regret_bound)
    assert 0.03 < np.mean(is_violated) < 0.075


@pytest.mark.parametrize("name", TRUTHS)
def test_with_top_above_1_the_regret_bound_covers_the_worst_selected_agent(name: str) -> None:
    truth, top = TRUTHS[name], 2
    K, rng = len(truth), np.random.default_rng(4)
    covariance = covariance_of(K, np.linspace(0.01, 0.03, K), 0.3)
    root, n = np.linalg.cholesky(covariance), 120
    lost = left_out = 0
    for _ in range(n):
        result = not_none(chosen(truth + root @ rng.standard_normal(K), covariance, top=top))
        assert len(result.agents) == top
        edge = np.sort(truth)[-top]
        lost += edge - truth[list(result.agents)].min() > result.regret_bound
        left_out += not set(np.flatnonzero(truth > np.sort(truth)[-top - 1])) <= {*result.agents, *result.candidates}
    assert lost <= 12
    assert left_out <= 12


def test_an_analysis_with_a_fraction_of_alpha_has_wider_bounds() -> None:
    ability, covariance = np.linspace(0.1, 0, 8), covariance_of(8, np.full(8, 0.02), 0.0)
    once, often = (not_none(chosen(ability, covariance, share=share)) for share in (1.0, 1 / 6))
    assert often.regret_bound > 1.15 * once.regret_bound
    assert set(often.candidates) > set(once.candidates)


def test_a_unique_best_is_the_only_candidate() -> None:
    result = not_none(chosen(np.array([0.9, 0.1, 0.0, 0.05]), covariance_of(4, np.full(4, 0.01), 0.0)))
    assert (result.agents, result.regret_bound, result.candidates) == ((0,), 0.0, ())


def test_all_equal_agents_are_candidates_and_the_bound_grows_with_their_number() -> None:
    few, many = (chosen(np.zeros(K), covariance_of(K, np.full(K, 0.02), 0.0)) for K in (3, 20))
    assert not_none(many).candidates == tuple(range(1, 20))
    # Dunnett's one-sided quantiles of 2 and 19 comparisons with correlation ½, times √2 errors
    assert not_none(few).regret_bound == pytest.approx(1.92 * 0.02 * 2**0.5, rel=0.08)
    assert not_none(many).regret_bound == pytest.approx(2.65 * 0.02 * 2**0.5, rel=0.08)


@pytest.mark.parametrize("highest", [0.5, 513 / 1024])
def test_the_first_of_equal_agents_is_selected_despite_rounding_errors(highest: float) -> None:
    ability = np.array([0.1, highest, highest + 1e-15, highest])
    covariance = CentredCovariance(0.01 * (np.eye(4) - 1 / 4), np.full(4, 20.0))
    choice = not_none(select_best(ability, covariance, pairwise_differences(ability, covariance)))
    assert choice.agents + choice.candidates[:2] == (1, 2, 3)
    exact = CentredCovariance(np.zeros((4, 4)), np.full(4, 20.0))
    p_best = not_none(select_best(ability, exact, pairwise_differences(ability, exact))).p_best
    assert p_best == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


def test_agents_that_cannot_be_compared_give_no_selection() -> None:
    assert chosen(np.array([0.3, np.nan, 0.1]), covariance_of(3, np.full(3, 0.02), 0.0)) is None
    covariance = CentredCovariance(np.where(np.eye(3) > 0, 0.01, np.nan), np.full(3, 20.0))
    assert select_best(np.zeros(3), covariance, pairwise_differences(np.zeros(3), covariance)) is None


def simulate_pools(draw: Callable[[np.random.Generator], Floats], error: Floats) -> tuple[float, float, float, float]:
    """Return mean p_best of the selected agent, how often it is best (ties share), mean expected regret and mean regret."""
    rng, rows = np.random.default_rng(5), []
    for _ in range(250):
        truth = draw(rng)
        result = not_none(
            chosen(truth + error * rng.standard_normal(len(truth)), covariance_of(len(truth), error, 0.0))
        )
        assert result.p_best.sum() == pytest.approx(1)
        (named,), best = result.agents, truth == truth.max()
        rows.append(
            (result.p_best[named], best[named] / best.sum(), result.expected_regret, truth.max() - truth[named])
        )
    p_best, right, expected, lost = np.mean(rows, axis=0).tolist()
    return p_best, right, expected, lost


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        (0.03, "normal"),
        *(
            pytest.param(size, shape, marks=pytest.mark.slow)
            for size, shape in ((0.01, "normal"), (0.1, "normal"), (0.1, "exponential"), (0.2, "random"))
        ),
    ],
)
def test_p_best_and_expected_regret_are_calibrated_for_random_agents(size: float, shape: str) -> None:
    K = 12 if shape == "normal" else 30
    p_best, right, expected, lost = simulate_pools(
        lambda rng: -size * np.asarray(getattr(rng, {"normal": "standard_normal"}.get(shape, shape))(size=K)),
        np.linspace(0.02, 0.03, K) if shape == "normal" else np.full(K, 0.02),
    )
    assert p_best == pytest.approx(right, abs=0.1)
    assert expected == pytest.approx(lost, rel=0.4)


@pytest.mark.slow
@pytest.mark.parametrize(("level", "most"), [(2, 0.66), (10, 0.3)])
def test_p_best_among_equal_agents_is_more_accurate_than_with_a_normal_prior(level: int, most: float) -> None:
    """A normal prior gives .74 for two equal agents and .43 for ten."""
    remainder = np.where(np.arange(30) < level, 0.0, -0.1)
    p_best, right, *_ = simulate_pools(
        lambda rng: remainder - np.where(remainder, 0.1 * np.abs(rng.standard_normal(30)), 0), np.full(30, 0.02)
    )
    assert right <= p_best <= most


def test_selection_bias_is_large_among_equal_agents_and_small_otherwise() -> None:
    all_agents, ability = np.ones(20, dtype=np.bool_), np.random.default_rng(6).standard_normal(20)
    for size, share in ((0.02, (0.7, 0.9)), (1.0, (-0.01, 0.01))):
        covariance = CentredCovariance(0.02**2 * (np.eye(20) - 1 / 20), np.full(20, 60.0))
        estimate = size * (ability - ability.mean()) / ability.std(ddof=1)
        result = expected_selection_bias(pairwise_differences(estimate, covariance), all_agents)
        assert share[0] <= float((result / estimate).mean()) <= share[1]
        assert not expected_selection_bias(pairwise_differences(estimate, covariance), ability > 10).any()


def test_an_agent_within_the_maximum_regret_at_the_last_analysis_gets_no_more_trials() -> None:
    """With .01 of alpha, three agents exceed the maximum regret; with .7 of alpha, only the second one."""
    ability = np.array([0.1, 0.09, 0.075, 0.07, 0.0, -0.1])
    K = len(ability)
    center = np.eye(K) - 1 / K
    differences = pairwise_differences(
        ability, CentredCovariance(center @ np.diag(np.full(K, 1e-4)) @ center, np.full(K, 200.0))
    )
    strict = simultaneous_upper_bounds(differences, top=1, alpha_fraction=0.01)
    assert (strict[:, 0] > 0.02).tolist() == [False, True, True, True, False, False]
    active, _, is_enough = next_allocation(differences, strict, top=1, alpha_fraction=0.7, max_regret=0.02)
    assert active.tolist() == [True, True, False, False, False, False]
    assert is_enough
    active, *_ = next_allocation(differences, strict, top=1, alpha_fraction=0.7, max_regret=0.03)
    assert active.tolist() == [True, True, False, False, False, False]
