"""Test that probes compare unrelated texts that look similar, and do not affect the pooled rate."""

from __future__ import annotations

import numpy as np
import pytest

from narrowing import not_none
from small_pools import answer_with, make_pool
from worlds import analyzed
from youden import make_plan
from youden.pipeline.abilities import estimate_mean_abilities
from youden.protocol.scores import pooled_fpr
from youden.types import INDEPENDENT, PAIRED, Plan, Pool
from youden.types.trials import PROBE

WORDS = [f"w{number}" for number in range(4000)]


def pool_with_templates(templates: tuple[int, ...] = (2, 5)) -> Pool:
    """Return ten agents with 20 random words on each of 30 items, of which some repeat one text on all items."""
    rng = np.random.default_rng(0)
    pool = make_pool(10, 30)
    texts = pool.texts.copy()
    for i in range(10):
        for j in range(30):
            words = WORDS[:20] if i in templates else rng.choice(WORDS, 20)
            texts[i, j] = " ".join([*words, f"only{i}and{j}"])
    return Pool(pool.agents, pool.items, texts)


@pytest.fixture(scope="module")
def probe_plan() -> Plan:
    return make_plan(pool_with_templates(), calls="40%", independent="pooled:200", seed=1)


def test_probes_compare_templates_and_are_at_most_a_quarter(probe_plan: Plan) -> None:
    probes = probe_plan.role == PROBE
    assert 0 < probes.sum() <= 50
    assert (probe_plan.trial_type == INDEPENDENT).sum() == 200
    assert (probe_plan.trial_type[probes] == INDEPENDENT).all()
    assert set(probe_plan.first[probes]) | set(probe_plan.second[probes]) == {2, 5}
    assert any("unusually similar" in note for note in probe_plan.notes)


def test_texts_without_unusual_features_have_no_probes() -> None:
    plan = make_plan(pool_with_templates(()), calls="40%", independent="pooled:200")
    assert not (plan.role == PROBE).any()
    assert "probes" not in plan.options


@pytest.mark.slow
def test_the_pooled_rate_is_unbiased_and_the_alarm_is_raised() -> None:
    pool = pool_with_templates()
    rates = []
    for seed in range(40):
        plan = make_plan(pool, calls="40%", independent="pooled:200", seed=seed)
        mistaken = np.isin(plan.first, [2, 5]) & np.isin(plan.second, [2, 5])
        answer = np.where(plan.trial_type == PAIRED, 0.6, mistaken.astype(float))
        result = answer_with(plan, answer)
        rates.append(not_none(pooled_fpr(result.rates())))
    truth = 2 / 90
    assert np.mean(rates) == pytest.approx(truth, abs=4 * np.std(rates) / np.sqrt(40))
    facts = analyzed(result).facts
    assert facts.fpr == rates[-1]
    assert "alarm" in {warning.slug for warning in facts.warnings}


def test_means_of_trials_subtract_a_rate_that_probes_do_not_change(probe_plan: Plan) -> None:
    probes = probe_plan.role == PROBE
    means = estimate_mean_abilities(answer_with(probe_plan, probes.astype(float)))
    np.testing.assert_allclose(means.rates.rate, 0, atol=1e-5)
