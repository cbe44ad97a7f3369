"""Test that ability is TPR minus the FPR of the agent, for every estimator and budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtrit

from narrowing import not_none
from small_pools import answer_with, make_pool
from youden import make_plan
from youden.pipeline.abilities import Abilities, summarize_rates
from youden.pipeline.precision import estimate_variance_components
from youden.pipeline.ranking import estimate_abilities, trial_abilities_from_verdicts
from youden.protocol.extension import add_agents, add_calls
from youden.protocol.independent import with_added_trials
from youden.protocol.pooled_trials import draw_scored_trials
from youden.stats.base.clusters import PRIOR_CLUSTERS, CentredCovariance
from youden.stats.forecast import find_min_blocks, find_min_items, half_width_quantile, half_widths
from youden.stats.trials.comparisons import pairwise_differences
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.types.pool import Floats
from youden.workflows.gate_answers import make_forecaster

K, J = 10, 40
PART = np.where(np.arange(K + 2) == 2, 0.25, 0.01)
"""A pair's FPR is the sum of its agents' parts; agents 10 and 11 join later."""
POOL = make_pool(K + 2, J)
FIRST = Pool(POOL.agents[:K], POOL.items, POOL.texts[:K])


def answers(plan: Plan, *, seed: int = 0) -> Verdicts:
    """Return paired answers of .5 plus the FPR, so that all abilities are .5, and independent ones that vary around the FPR."""
    rng = np.random.default_rng(seed)
    rate = PART[plan.first] + PART[plan.second]
    noise = rng.normal(0, 0.02, len(plan))
    return answer_with(plan, np.clip(np.where(plan.trial_type == PAIRED, 0.5 + rate, rate) + noise, 0, 1))


def with_gaps(pool: Pool) -> Pool:
    texts = pool.texts.copy()
    texts[np.random.default_rng(0).random(texts.shape) < 0.15] = None
    return replace(pool, texts=texts)


PLANS = {
    "1 %": lambda: make_plan(FIRST, calls="1.5%"),
    "below 20 %": lambda: make_plan(FIRST, calls="19.9%"),
    "20 %": lambda: make_plan(FIRST, calls="20.1%"),
    "all": lambda: make_plan(FIRST, calls="100%"),
    "matched": lambda: make_plan(FIRST, calls="20%", independent="matched"),
    "dense": lambda: make_plan(FIRST, design="dense"),
    "gaps": lambda: make_plan(with_gaps(FIRST), calls="20%"),
    "holdout": lambda: make_plan(FIRST, calls="30%", holdout=0.2),
    "cells": lambda: make_plan(FIRST, design="nlogn", calls="30%", independent="pooled", holdout=0.0),
    "search": lambda: make_plan(FIRST, design="adaptive", calls="40%"),
    "joined": lambda: add_agents(make_plan(FIRST, calls="10%"), POOL),
    "focused": lambda: add_calls(make_plan(FIRST, calls="19%"), calls=200, focus=(2, 3)),
    "extended": lambda: add_calls(make_plan(FIRST, calls="19%"), calls=400),
    "few independent trials": lambda: make_plan(FIRST, calls="20%", independent="pooled:60"),
}


def estimate(plan: Plan) -> Abilities:
    return estimate_abilities(answers(plan))


@pytest.mark.parametrize("name", PLANS)
def test_every_estimator_subtracts_the_agents_own_rates(name: str) -> None:
    abilities = estimate(PLANS[name]())
    np.testing.assert_allclose(abilities.ability, 0.5, atol=0.15 if name == "1 %" else 0.06)
    assert not np.isnan(abilities.low).any()
    distance = abilities.ability - abilities.ability[:K].mean()
    assert (np.abs(distance) <= abilities.covariance.half_width()).mean() > 0.8


@pytest.mark.parametrize("name", ["1 %", "below 20 %", "20 %", "gaps", "holdout", "cells", "search", "joined"])
def test_intervals_contain_the_error_of_the_rates(name: str) -> None:
    abilities = estimate(PLANS[name]())
    variance = np.diag(abilities.covariance.covariance)
    assert (abilities.rate_variance > 0).all()
    assert (variance > abilities.rate_variance).all()

    rates = abilities.rates.centred_covariance(abilities.covariance, reference=abilities.reference)
    without_rates = CentredCovariance(abilities.covariance.covariance - rates, abilities.covariance.df)
    widths = [
        pairwise_differences(abilities.ability, each).half_width for each in (abilities.covariance, without_rates)
    ]
    assert np.nanmean(widths[0]) > 1.05 * np.nanmean(widths[1])


def test_neither_abilities_nor_widths_jump_at_20_percent() -> None:
    below, above = estimate(PLANS["below 20 %"]()), estimate(PLANS["20 %"]())
    np.testing.assert_allclose(below.ability, above.ability, atol=0.02)
    ratio = above.covariance.half_width() / below.covariance.half_width()
    np.testing.assert_allclose(ratio, 1, atol=0.2)
    assert np.mean(ratio) == pytest.approx(1, abs=0.06)


def test_agents_that_join_across_20_percent_do_not_change_the_first_agents() -> None:
    plan = make_plan(FIRST, calls="19%")
    later = add_agents(plan, POOL, calls=1500)
    before, after = (trial_abilities_from_verdicts(answers(each)) for each in (plan, later))
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(after.ability[:K], before.ability)
    np.testing.assert_array_equal(after.rates.rate[:K], before.rates.rate)
    np.testing.assert_allclose(after.covariance.half_width()[:K], before.covariance.half_width(), rtol=1e-12)


@pytest.mark.parametrize("name", ["1 %", "20 %", "gaps", "joined"])
def test_a_gate_compares_the_abilities_of_the_ranking_with_the_error_of_the_rates(name: str) -> None:
    result = answers(PLANS[name]())
    abilities = trial_abilities_from_verdicts(result)
    difference = make_forecaster(result, abilities)(2, 3).difference
    ability = (abilities or estimate_abilities(result)).ability
    assert difference.value == pytest.approx(ability[2] - ability[3], abs=1e-6)
    assert difference.rate_variance > 0
    assert difference.half_width(0.025) > difference._replace(rate_variance=0.0).half_width(0.025)


def test_trials_of_some_agents_count_for_them_only() -> None:
    plan = make_plan(FIRST, calls="10%", independent="pooled:40")
    rng = np.random.default_rng(0)
    added = draw_scored_trials(plan, plan.split.train, rng, scored=np.array([2, 5]), partners=np.arange(K), n=200)
    assert len(added) == 200
    counted = np.append(added.first[added.weight_first > 0], added.second[added.weight_second > 0])
    assert np.bincount(counted, minlength=K).tolist() == [0, 0, 100, 0, 0, 100, 0, 0, 0, 0]
    assert (added.first != added.second).all()
    assert not with_added_trials(plan, added).replicate.any()


@pytest.mark.parametrize(("independent", "is_constant"), [("pooled:60", True), ("pooled", False)])
def test_forecast_errors_of_rates_fall_only_if_calls_add_independent_trials(
    independent: str, is_constant: bool
) -> None:
    verdicts = answers(make_plan(FIRST, calls=300, independent=independent))
    n_blocks = int(verdicts.plan.block.max()) + 1
    assert n_blocks < J
    standard_error = np.sqrt(estimate_abilities(verdicts).rate_variance)
    components = estimate_variance_components(verdicts)

    # with many items and blocks, only the constant part of the variance is left
    smallest = half_widths(components, 10**7, 10**7)
    np.testing.assert_allclose(smallest, 1.96 * standard_error * is_constant, rtol=0.01, atol=0.002)
    width = 0.5 * half_width_quantile(1.96 * standard_error, 1.0)
    n_needed = find_min_blocks(components, width, fraction=1.0, n_items=10**6, max_blocks=10**6)
    assert (n_needed is None) == is_constant
    assert (find_min_items(components, width, fraction=1.0, blocks_per_item=K - 1) is None) == is_constant


@pytest.mark.parametrize("independent", ["pooled:60", "pooled"])
def test_variance_components_reproduce_the_present_half_widths(independent: str) -> None:
    verdicts = answers(make_plan(FIRST, calls=300, independent=independent))
    n_blocks = int(verdicts.plan.block.max()) + 1
    variance = np.diag(estimate_abilities(verdicts).covariance.covariance)
    df = n_blocks - 1 + PRIOR_CLUSTERS
    forecast = half_widths(estimate_variance_components(verdicts), n_blocks, J)
    np.testing.assert_allclose(forecast, stdtrit(df, 0.975) * np.sqrt(variance), rtol=1e-9)


def estimate_with_rates(part: Floats, *, n_independent: int, seed: int) -> Abilities:
    """Estimate abilities from yes/no answers, with an FPR of a pair that is the sum of its agents' parts."""
    plan = make_plan(FIRST, calls=600 + n_independent, independent=f"pooled:{n_independent}", seed=seed)
    p_yes = part[plan.first] + part[plan.second] + np.where(plan.trial_type == PAIRED, 0.5, 0.0)
    draws = np.random.default_rng(seed).random(len(plan))
    return estimate_abilities(answer_with(plan, (draws < p_yes).astype(np.float64)))


def test_the_stated_number_of_calls_halves_the_standard_errors_of_shrunk_rates() -> None:
    ratios, factors = [], []
    for seed in range(8):
        part = np.random.default_rng(seed).gamma(4.0, 0.025, K)  # mean .1, SD .05
        before = estimate_with_rates(part, n_independent=100, seed=seed)
        rates = not_none(summarize_rates(before, [agent.id for agent in FIRST.agents]))
        n_added = not_none(rates.calls_to_halve)
        after = estimate_with_rates(part, n_independent=100 + n_added, seed=seed)
        ratios.append(np.sqrt(after.rate_variance.mean() / before.rate_variance.mean()))
        factors.append(n_added / 100)
    assert np.mean(ratios) == pytest.approx(0.47, abs=0.07)
    assert np.mean(factors) > 6  # without shrinkage, it would be 3
