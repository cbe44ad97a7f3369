"""Test abilities as means of trials, with intervals over similar items and on these items."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import spearmanr
from scipy.stats import t as student

from narrowing import not_none
from small_pools import answer_with, make_pool
from youden import make_plan
from youden.engines import trial_blocks
from youden.errors import PlanError, StatisticsError
from youden.pipeline.abilities import estimate_mean_abilities
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.run_keys import Target
from youden.stats import PairChunk, trial_means
from youden.stats.base.clusters import UNSEEN_CLUSTERS, unseen_effect_square
from youden.stats.trials.trial_errors import TrialMeans
from youden.types import INDEPENDENT, PAIRED, Plan, Trials
from youden.types.pool import Bools, Floats, Ids


class Drawn(NamedTuple):
    item: Ids
    first: Ids
    second: Ids
    block: Ids


def cyclic(n_agents: int, n_items: int, n_blocks: int, rng: np.random.Generator) -> Drawn:
    """Draw complete cyclic rounds: one agent order per run, random orders of items and shifts, no block twice."""
    K, J = n_agents, n_items
    order, items, shifts = rng.permutation(K), rng.permutation(J), 1 + rng.permutation(K - 1)
    s = np.repeat(np.arange(n_blocks), K)
    q = np.tile(np.arange(K), n_blocks)
    shift = shifts[(s + s // math.lcm(J, K - 1)) % (K - 1)]
    columns = (items[s % J], order[q], order[(q + shift) % K], s)
    return Drawn(*(column.astype(np.int32) for column in columns))


def dense_ability(dense: Floats) -> Floats:
    """Return the mean of all trials with the agent on either side; `dense` is float (J, K, K), diagonal ignored."""
    _, K, _ = dense.shape
    off = np.where(np.eye(K, dtype=bool), 0.0, dense)
    return np.asarray((off.sum(axis=(0, 2)) + off.sum(axis=(0, 1))) / (2 * (K - 1) * len(dense)))


def means_of(drawn: Drawn, answer: Floats, *, K: int, J: int, target: Target = "these-items") -> TrialMeans:
    block = PairChunk.from_trials(drawn.item, drawn.first, drawn.second, answer, n_items=J, block=drawn.block)
    return trial_means(lambda: [block], n_agents=K, target=target)


def replay(dense: Floats, n_blocks: int, rng: np.random.Generator) -> TrialMeans:
    J, K, _ = dense.shape
    drawn = cyclic(K, J, n_blocks, rng)
    return means_of(drawn, dense[drawn.item, drawn.first, drawn.second], K=K, J=J)


def coverage(dense: Floats, n_blocks: int, *, seeds: int) -> float:
    truth = dense_ability(dense)
    truth = truth - truth.mean()
    hits = []
    for seed in range(seeds):
        got = replay(dense, n_blocks, np.random.default_rng(seed))
        off = got.ability - got.ability.mean() - truth
        hits.append((np.abs(off) <= got.covariance.half_width()).mean())
    return float(np.mean(hits))


def slow_twin(drawn: Drawn, answer: Floats, *, K: int) -> tuple[list[float], list[float]]:
    """Compute means and half-widths for complete rounds by the formula: two trials per agent and block, one item per block."""
    trials = list(zip(drawn.first.tolist(), drawn.second.tolist(), drawn.block.tolist(), answer.tolist(), strict=True))
    S = len({s for _, _, s, _ in trials})
    m = [np.mean([y for i, k, _, y in trials if a in (i, k)]) for a in range(K)]
    mu = np.mean(m)
    E = np.zeros((K, S))
    for i, k, s, y in trials:
        e = y - (mu + (K - 1) / (K - 2) * ((m[i] - mu) + (m[k] - mu)))
        E[i, s] += e / 2
        E[k, s] += e / 2
    E -= E.mean(axis=0)
    v = (E**2).sum(axis=1) / (S * (S - 1))
    unseen = unseen_effect_square(E * np.sqrt(S / (S - 1)), np.full(K, S))
    v = (v * (S - 1) + 6 * v.mean()) / (S + 5) + UNSEEN_CLUSTERS / 2 * unseen / S**2
    return m, list(student.ppf(0.975, S + 5) * np.sqrt(v))


@pytest.mark.parametrize("seed", range(2))
def test_complete_rounds_equal_the_documented_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, J, S = 6, 9, 7
    drawn = cyclic(K, J, S, rng)
    answer = rng.choice([0.0, 0.25, 1.0], len(drawn.item))
    got = means_of(drawn, answer, K=K, J=J, target="items-like-these")
    mean, margin = slow_twin(drawn, answer, K=K)
    np.testing.assert_allclose(got.ability, mean)
    np.testing.assert_allclose(got.covariance.half_width(), margin)
    assert (got.weight == 2 * S).all()


def test_means_equal_manually_computed_values() -> None:
    nothing = np.zeros(3, dtype=np.int32)
    drawn = Drawn(nothing, np.array([0, 1, 2], dtype=np.int32), np.array([1, 2, 0], dtype=np.int32), nothing)
    got = means_of(drawn, np.array([1.0, 0.0, 0.5]), K=4, J=1)
    np.testing.assert_array_equal(got.ability, [0.75, 0.5, 0.25, np.nan])
    assert got.weight.tolist() == [2, 2, 2, 0]
    assert np.isnan(got.covariance.std_error).all()
    assert got.method == "none: fewer than 3 agents have trials in 2 blocks"


def test_the_dense_ability_is_recovered_with_a_small_width_from_all_trials() -> None:
    rng = np.random.default_rng(2)
    K, J = 5, 7
    dense = rng.random((J, K, K))
    got = replay(dense, J * (K - 1), rng)
    np.testing.assert_allclose(got.ability, dense_ability(dense))
    plain, half = replay(dense, J, rng).covariance.half_width(), got.covariance.half_width()
    assert (half > 0).all()
    assert half.max() < 0.12 * plain.min()


@pytest.mark.parametrize("target", ["items-like-these", "these-items"])
def test_no_interval_has_zero_width_for_any_answers(target: Target) -> None:
    drawn = cyclic(5, 7, 28, np.random.default_rng(2))
    for answer in (np.ones(140), (drawn.first == 0).astype(float)):
        assert (means_of(drawn, answer, K=5, J=7, target=target).covariance.half_width() > 5e-5).all()


def test_intervals_cover_despite_missing_answers_and_an_agent_that_skips_items() -> None:
    rng = np.random.default_rng(1)
    K, J, S = 12, 60, 40
    ability = rng.normal(0, 0.1, K)
    dense = 0.5 + ability[:, None] + ability[None, :] + rng.normal(0, 0.1, (J, 1, 1)) + rng.normal(0, 0.2, (J, K, K))
    truth = dense_ability(dense)
    hits = []
    for seed in range(120):
        draw = np.random.default_rng(seed)
        drawn = cyclic(K, J, S, draw)
        gone = ((drawn.item < J // 2) & ((drawn.first == 0) | (drawn.second == 0))) | (draw.random(K * S) < 0.1)
        kept = Drawn(*(column[~gone] for column in drawn))
        answer = dense[kept.item, kept.first, kept.second]
        got = means_of(kept, answer, K=K, J=J)
        off = got.ability - truth
        hits.append(np.abs(off - off.mean()) <= got.covariance.half_width())
    rate = np.mean(hits, axis=0)
    assert 0.91 <= rate[1:].mean() <= 0.98


def test_an_agent_in_one_block_has_no_interval_and_does_not_affect_others() -> None:
    drawn = cyclic(5, 4, 4, np.random.default_rng(3))
    lone = (drawn.first == 0) | (drawn.second == 0)
    keep = ~lone | (drawn.block == 0)
    kept = Drawn(*(column[keep] for column in drawn))
    answer = np.random.default_rng(4).random(len(kept.item))
    got = means_of(kept, answer, K=5, J=4)
    assert np.isnan(got.covariance.std_error).tolist() == [True, False, False, False, False]
    assert np.isfinite(got.ability).all()


def test_inconsistent_columns_and_missing_answers_are_refused() -> None:
    ids = np.array([0, 1, 2], dtype=np.int32)
    for wrong, slug in [([0, 1, np.nan], "trial-answer"), ([0, 1], "trial-columns")]:
        with pytest.raises(StatisticsError, match=rf"\[{slug}\]"):
            PairChunk(ids, ids[::-1], ids, np.array(wrong), np.ones(3), np.zeros(3), 3)


def plan_of(drawn: Drawn, train: Bools, *, independent: list[tuple[int, int, int, int]]) -> Plan:
    """Return the drawn paired trials and the independent ones (item, first, second, other item)."""
    paired = np.column_stack([*drawn[:3], np.full(len(drawn.item), -1)])
    item, first, second, other_item = np.vstack([paired, *independent]).astype(np.int32).T
    trial_type = np.where(other_item < 0, PAIRED, INDEPENDENT).astype(np.int8)
    block = np.append(drawn.block, np.full(len(independent), -1)).astype(np.int32)
    plan = make_plan(make_pool(*train.shape), design="dense", holdout=0.0, independent="pooled")
    trials = Trials(item, first, second, trial_type, other_item, np.zeros(len(item), dtype=np.int32), block)
    return replace(plan, trials=trials, split=replace(plan.split, train=train, holdout=~train))


def test_own_rates_are_subtracted_with_their_errors_and_missing_answers_counted() -> None:
    drawn = cyclic(4, 5, 5, np.random.default_rng(0))
    plan = plan_of(drawn, np.ones((4, 5), dtype=bool), independent=[(0, 0, 1, 2), (1, 1, 2, 3), (2, 2, 3, 0)])
    answer = np.concatenate([np.random.default_rng(1).random(20), [1.0, 0.0, 1.0]])
    lost = np.zeros(23, dtype=bool)
    lost[[3, 22]] = True
    model = estimate_mean_abilities(answer_with(plan, answer, missing=lost))
    used = ~lost[:20]
    kept = Drawn(*(column[used] for column in drawn))
    core = means_of(kept, answer[:20][used], K=4, J=5, target="items-like-these")
    assert model.rates.pooled == pytest.approx(model.rates.rate.mean()) == pytest.approx(0.5)
    np.testing.assert_allclose(model.ability, core.ability - model.rates.rate)
    half = model.rates.add_errors_to(core.covariance).half_width()
    assert (half > core.covariance.half_width()).all()
    np.testing.assert_allclose(model.low, np.maximum(core.ability - model.rates.rate - half, -1))
    np.testing.assert_allclose(model.high, np.minimum(core.ability - model.rates.rate + half, 1))
    assert model.n_trials.sum() == 38


def test_without_independent_answers_the_fpr_is_zero_and_the_method_states_it() -> None:
    plan = plan_of(cyclic(4, 5, 5, np.random.default_rng(0)), np.ones((4, 5), dtype=bool), independent=[])
    model = estimate_mean_abilities(answer_with(plan, np.ones(20)))
    assert not model.rates.rate.any()
    assert model.method.endswith("; FPR taken as 0: no independent trial answered")
    np.testing.assert_array_equal(model.ability, 1)
    slotless = replace(plan, trials=replace(plan.trials, block=np.full(20, -1, dtype=np.int32)))
    method = estimate_mean_abilities(answer_with(slotless, np.ones(20))).method
    assert method == "none: there are trials without a block; FPR taken as 0: no independent trial answered"


def test_chunked_means_of_a_plan_equal_those_of_the_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_blocks, "MAX_CELLS_PER_CHUNK", 60)
    plan = plan_of(cyclic(6, 40, 150, np.random.default_rng(7)), np.ones((6, 40), dtype=bool), independent=[])
    result = answer_with(plan, np.random.default_rng(8).random(len(plan)))
    ranked, model = not_none(trial_abilities_from_verdicts(result)), estimate_mean_abilities(result)
    np.testing.assert_array_equal(model.ability, ranked.ability)
    np.testing.assert_array_equal(model.covariance.covariance, ranked.covariance.covariance)


def test_answers_of_trials_that_touch_a_held_out_cell_change_nothing() -> None:
    rng = np.random.default_rng(5)
    train = rng.random((6, 8)) > 0.2
    others = [(int(j), 0, 1, int((j + 1) % 8)) for j in range(8)]
    plan = plan_of(cyclic(6, 8, 8, rng), train, independent=others)
    second_item = np.where(plan.trial_type == PAIRED, plan.item, plan.other_item)
    touched = ~train[plan.first, plan.item] | ~train[plan.second, second_item]
    assert 0 < touched.sum() < len(plan)
    answer = rng.random(len(plan))
    before = estimate_mean_abilities(answer_with(plan, answer))
    after = estimate_mean_abilities(answer_with(plan, np.where(touched, 1 - answer, answer)))
    np.testing.assert_array_equal(before.ability, after.ability)
    np.testing.assert_array_equal(before.low, after.low)
    np.testing.assert_array_equal(before.rates.rate, after.rates.rate)


def test_a_plan_without_answers_and_verdicts_of_another_plan_are_refused() -> None:
    plan = plan_of(cyclic(4, 5, 5, np.random.default_rng(0)), np.ones((4, 5), dtype=bool), independent=[])
    with pytest.raises(StatisticsError, match=r"answered: got 0 of 20\..*\[trial-none\]"):
        estimate_mean_abilities(answer_with(plan, np.ones(20), missing=np.ones(20, dtype=bool)))
    with pytest.raises(PlanError, match=r"3 values in answer for 20 trials.*\[verdicts-length\]"):
        answer_with(plan, np.ones(3), missing=np.zeros(3, dtype=bool))


@pytest.mark.slow
def test_one_percent_of_pubmeds_calls_ranks_like_all_of_them(peer_prediction: Path) -> None:
    files = sorted((peer_prediction / "eval_results/pubmed_200_config_results").glob("*/tvd_mi_example_*.json"))
    dense = np.array([json.loads(file.read_text(encoding="utf-8"))["tvd_mi_matrix"] for file in files])
    J, K, _ = dense.shape
    n_blocks = (2 * K * (K - 1) * J // 100 - 100) // K
    truth = dense_ability(dense)
    rho = [
        spearmanr(replay(dense, n_blocks, np.random.default_rng(seed)).ability, truth).statistic for seed in range(20)
    ]
    assert np.mean(rho) >= 0.945
    assert 0.93 <= coverage(dense, n_blocks, seeds=100) <= 0.99
