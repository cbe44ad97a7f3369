"""Test shifts between two judges: of agents, of labels, and along a nonlinear relation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrowing import not_none
from youden.errors import StatisticsError
from youden.stats import spearman
from youden.stats.judges.curved_relation import curved_relation, parabola_r2
from youden.stats.judges.judge_shift import JudgeShift
from youden.stats.judges.label_shift import label_shift
from youden.stats.judges.rank_agreement import estimate_rank_agreement
from youden.types.pool import Bools, Floats, Ids

K = 8


def all_pairs(times: int = 6) -> tuple[Ids, Ids]:
    first, second = np.nonzero(~np.eye(K, dtype=bool))
    return np.tile(first, times).astype(np.int32), np.tile(second, times).astype(np.int32)


def answers(first: Ids, second: Ids, *, seed: int, effect: Floats | None = None) -> Floats:
    rng = np.random.default_rng(seed)
    effect = np.linspace(0.1, 0.4, K) if effect is None else effect
    return (rng.random(len(first)) < effect[first] + effect[second]).astype(float)


def test_an_identical_judge_has_zero_shifts_and_ranks_alike() -> None:
    first, second = all_pairs()
    answers_a = answers(first, second, seed=0)
    answers_b = np.where(np.arange(len(answers_a)) < 150, answers_a, np.nan)
    shift = JudgeShift(first, second, answers_a, answers_b, n_agents=K)
    assert shift.n_trials == 150
    assert np.abs(shift.shift).max() < 1e-9
    assert shift.p_holm.min() > 0.99
    assert shift.slope == pytest.approx(1)
    assert estimate_rank_agreement(shift, rng=np.random.default_rng(0)).rho == pytest.approx(1)


def test_judges_without_different_answers_have_shift_intervals_of_positive_width() -> None:
    first, second = all_pairs()
    answers_a = answers(first, second, seed=0)
    shift = JudgeShift(first, second, answers_a, answers_a, n_agents=K)
    n_trials = 2 * 6 * (K - 1)
    assert shift.shift.tolist() == [0.0] * K
    assert not np.signbit(shift.shift).any()
    assert shift.high == pytest.approx(np.full(K, 1 - 0.025 ** (1 / n_trials)), rel=0.05)
    assert (shift.high >= 1 - 0.025 ** (1 / n_trials)).all()
    assert shift.low == pytest.approx(-shift.high)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_shift_effects_equal_ordinary_least_squares(seed: int) -> None:
    first, second = all_pairs()
    answers_a, answers_b = answers(first, second, seed=seed), answers(first, second, seed=seed + 1)
    observed = np.random.default_rng(seed).random(len(answers_a)) < 0.5
    shift = JudgeShift(first, second, answers_a, np.where(observed, answers_b, np.nan), n_agents=K)
    X = np.zeros((len(first), K))
    X[np.arange(len(first)), first] = X[np.arange(len(first)), second] = 1
    a = np.linalg.lstsq(X, answers_a, rcond=None)[0]
    solved = np.linalg.lstsq(np.column_stack([X, answers_a])[observed], answers_b[observed], rcond=None)[0]
    e = solved[:K] + solved[K] * a
    np.testing.assert_allclose(shift.effect_a, a, atol=1e-9)
    np.testing.assert_allclose(shift.effect_b, e, atol=1e-9)
    assert shift.slope == pytest.approx(np.polyfit(a, e, 1)[0])


def test_a_shifted_agent_is_detected_and_a_noisier_judge_shifts_none() -> None:
    first, second = all_pairs(40)
    rng = np.random.default_rng(3)
    answers_a = answers(first, second, seed=1)
    turned = np.where(rng.random(len(answers_a)) < 0.25, 1 - answers_a, answers_a)
    plain = JudgeShift(first, second, answers_a, turned, n_agents=K)
    assert plain.slope == pytest.approx(0.5, abs=0.1)
    assert plain.p_holm.min() > 0.05
    favored = ((first == 2) | (second == 2)) & (rng.random(len(answers_a)) < 0.4)
    moved = JudgeShift(first, second, answers_a, np.where(favored, 1.0, turned), n_agents=K)
    assert np.argmax(moved.shift) == np.argmin(moved.p_holm) == 2
    assert moved.p_holm[2] < 0.001
    assert moved.low[2] > 0


@pytest.mark.parametrize("discordant", [0.0, 0.03])
def test_intervals_cover_the_shift_of_an_agent_if_judges_rarely_differ(discordant: float) -> None:
    """Only answers about agent 2 differ, and rarely; the other judge has no random yes."""
    first, second = all_pairs(4)
    n_covered, of = 0, (first == 2) | (second == 2)
    for seed in range(60):
        answers_a = answers(first, second, seed=seed) * ~of
        moved = of & (np.random.default_rng(seed).random(len(answers_a)) < discordant)
        shift = JudgeShift(first, second, answers_a, np.where(moved, 1 - answers_a, answers_a), n_agents=K)
        n_covered += shift.low[2] <= discordant <= shift.high[2]
        assert (shift.high - shift.low).min() > 0.01
    assert n_covered >= 55


def test_reliability_accounts_for_the_low_variance_of_agents_with_few_yes_answers() -> None:
    """Four agents are mostly compared with each other and rarely get a yes; four strong ones are compared often."""
    weak = np.arange(K) < 4
    effect = np.where(weak, 0.01, np.linspace(0.1, 0.4, K))
    first, second = all_pairs(4)
    often = np.repeat(np.arange(len(first)), np.where(weak[first] | weak[second], 1, 8))
    first, second = first[often], second[often]
    kept = (weak[first] == weak[second]) | (np.arange(len(first)) % 4 == 0)
    first, second = first[kept], second[kept]
    estimated, true = [], []
    for seed in range(60):
        answers_a = answers(first, second, seed=seed, effect=effect)
        shift = JudgeShift(first, second, answers_a, answers_a, n_agents=K)
        estimated.append((1 - shift.reliability_a) * shift.effect_a.var())
        true.append(((shift.effect_a - effect) ** 2).mean())
    assert np.mean(estimated) == pytest.approx(np.mean(true), rel=0.15)


def test_an_agent_that_one_judge_did_not_compare_is_unknown() -> None:
    first, second = all_pairs()
    answers_a = answers(first, second, seed=0)
    answers_b = np.where((first == 5) | (second == 5), np.nan, answers_a)
    shift = JudgeShift(first, second, answers_a, answers_b, n_agents=K)
    assert np.setdiff1d(np.arange(K), shift.agents).tolist() == [5]
    assert np.isfinite(shift.shift).all()


def test_rank_correlation_is_corrected_for_few_trials() -> None:
    """Two judges see the same abilities, the second on few trials: only the naive correlation is too low."""
    first, second = all_pairs(60)
    effect = np.random.default_rng(5).uniform(0.05, 0.45, K)
    observed, inferred, covered = [], [], 0
    for seed in range(20):
        answers_a, answers_b = (answers(first, second, seed=2 * seed + n, effect=effect) for n in (0, 1))
        few = np.random.default_rng(seed).permutation(len(first)) < 80
        shift = JudgeShift(first, second, answers_a, np.where(few, answers_b, np.nan), n_agents=K)
        rho = estimate_rank_agreement(shift, rng=np.random.default_rng(seed), n_draws=500)
        observed.append(np.corrcoef(shift.shared_effect_b, shift.effect_a)[0, 1])
        inferred.append(rho.rho)
        covered += rho.low <= 0.95 <= rho.high
    assert np.mean(observed) < np.mean(inferred)
    assert covered >= 16


def test_equal_judges_correlate_below_one_but_reach_the_attenuation_ceiling() -> None:
    """Ten agents have two abilities: within each group, only random variation decides their order."""
    n, level_with, without_one, below = 10, np.repeat([0.2, 0.3], 5), 0, 0
    first, second = (np.tile(agents, 20).astype(np.int32) for agents in np.nonzero(~np.eye(n, dtype=bool)))
    for seed in range(20):
        answers_a, answers_b = (answers(first, second, seed=2 * seed + number, effect=level_with) for number in (0, 1))
        shift = JudgeShift(first, second, answers_a, answers_b, n_agents=n)
        rho = estimate_rank_agreement(shift, rng=np.random.default_rng(seed), n_draws=500)
        assert 0 < rho.ceiling < 1
        without_one += rho.high < 0.9995
        below += rho.high < rho.ceiling
    assert without_one >= 5
    assert below <= 2


def test_a_judge_with_another_threshold_ranks_alike() -> None:
    """The second judge answers yes mainly to strong agents: its order of agents is the same, by a nonlinear relation."""
    n = 16
    first, second = (np.tile(agents, 30).astype(np.int32) for agents in np.nonzero(~np.eye(n, dtype=bool)))
    place = np.linspace(0, 1, n)
    n_covered = 0
    for seed in range(8):
        answers_a = answers(first, second, seed=2 * seed, effect=place / 2)
        answers_b = answers(first, second, seed=2 * seed + 1, effect=0.05 * place + 0.45 * place**2)
        few = np.random.default_rng(seed).permutation(len(first)) < 5000
        shift = JudgeShift(first, second, answers_a, np.where(few, answers_b, np.nan), n_agents=n)
        rho = estimate_rank_agreement(shift, rng=np.random.default_rng(seed), n_draws=500)
        n_covered += rho.low <= spearman(shift.effect_a, place).value <= rho.high
    assert n_covered >= 7


def test_too_few_trials_are_refused() -> None:
    first, second = all_pairs(1)
    answers_a = answers(first, second, seed=0)
    answers_b = np.where(np.arange(len(answers_a)) < 10, answers_a, np.nan)
    with pytest.raises(StatisticsError, match=r"\[shift-few\]"):
        JudgeShift(first, second, answers_a, answers_b, n_agents=K)


def test_a_judge_that_always_answers_yes_has_no_ranking_to_compare() -> None:
    first, second = all_pairs()
    answers_a = np.ones(len(first))
    shift = JudgeShift(first, second, answers_a, answers(first, second, seed=0), n_agents=K)
    assert np.isnan(estimate_rank_agreement(shift, rng=np.random.default_rng(0)).rho)


def plain(value: Floats, covariate: Floats | None = None) -> tuple[Floats, Floats]:
    """Return score and information of least squares on 1 and the covariate."""
    design = np.column_stack([np.ones(len(value)), *([] if covariate is None else [covariate])])
    off = np.eye(len(value)) - design @ np.linalg.pinv(design)
    return off @ value, off


def slow_p(value: Floats, member: Bools, covariate: Floats, *, shift: float) -> float:
    """Return the two-sided p-value of `shift` over all permutations, each fitted by least squares."""
    K = len(value)

    def statistic(dealt: Floats) -> float:
        design = np.column_stack([np.ones(K), covariate])
        left = dealt - design @ np.linalg.lstsq(design, dealt, rcond=None)[0]
        return float(left @ (value - shift * member) / np.sqrt(left @ left))

    deals = [np.isin(np.arange(K), chosen).astype(float) for chosen in combinations(range(K), int(member.sum()))]
    u = np.array([statistic(dealt) for dealt in deals])
    own = statistic(member.astype(float))
    return float(min(1, 2 * min((u >= own - 1e-9).mean(), (u <= own + 1e-9).mean())))


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_p_value_and_interval_equal_a_naive_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value, covariate = rng.standard_normal(8), rng.standard_normal(8)
    member = np.arange(8) < 3
    result = label_shift(*plain(value, covariate), member, rng=rng, level=0.9)
    design = np.column_stack([np.ones(8), covariate, member])
    assert result.shift == pytest.approx(np.linalg.lstsq(design, value, rcond=None)[0][2])
    assert result.n_permutations == 56
    assert result.p_value == pytest.approx(slow_p(value, member, covariate, shift=0))
    for inside, outside in ((result.low + 1e-6, result.low - 1e-6), (result.high - 1e-6, result.high + 1e-6)):
        assert slow_p(value, member, covariate, shift=inside) > 0.1
        assert slow_p(value, member, covariate, shift=outside) <= 0.1


def test_random_permutations_approximate_all_permutations() -> None:
    rng = np.random.default_rng(0)
    value, member = rng.standard_normal(14), np.arange(14) < 4
    every = label_shift(*plain(value), member, rng=rng)
    some = label_shift(*plain(value), member, rng=rng, n_permutations=900)
    assert every.n_permutations == 1001
    assert some.n_permutations == 901
    assert some.p_value == pytest.approx(every.p_value, abs=0.06)
    assert some.low == pytest.approx(every.low, abs=0.3)


def test_intervals_cover_a_planted_effect_among_heterogeneous_agents() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        covariate, member = rng.standard_normal(20), rng.permutation(20) < 6
        value = 0.5 * covariate + 0.3 * member + rng.standard_normal(20)
        result = label_shift(*plain(value, covariate), member, rng=rng, n_permutations=499)
        covered += result.low <= 0.3 <= result.high
    assert 182 <= covered <= 198


def test_a_label_of_a_single_agent_is_never_significant() -> None:
    value = np.array([100.0, 0, 0.1, 0.2, 0.3])
    result = label_shift(*plain(value), np.arange(5) == 0, rng=np.random.default_rng(0))
    assert not result.is_bounded
    assert result.p_value == pytest.approx(0.4)


def test_a_label_that_is_collinear_with_the_covariate_has_no_estimate() -> None:
    member = np.arange(6) < 3
    result = label_shift(*plain(np.arange(6.0), member.astype(float)), member, rng=np.random.default_rng(0))
    assert not result.is_bounded
    assert result.p_value == 1


def test_labels_of_all_agents_or_none_are_refused() -> None:
    for member in (np.ones(4, dtype=bool), np.zeros(4, dtype=bool)):
        with pytest.raises(StatisticsError, match=r"\[label-constant\]"):
            label_shift(*plain(np.arange(4.0)), member, rng=np.random.default_rng(0))
    with pytest.raises(StatisticsError):
        label_shift(*plain(np.arange(4.0)), np.ones(3, dtype=bool), rng=np.random.default_rng(0))


N_AGENTS = 12
FULL, LITTLE = np.array([0.15, 0.75, 0.95]), np.array([0.02, 0.05, 0.95])


def threshold_judges(seed: int, *, times: int = 8) -> tuple[Ids, Ids, Floats, Floats]:
    """Return answers of two judges who see equal grades of no, little and full gain, with yes for FULL and for LITTLE."""
    rng = np.random.default_rng(seed)
    first, second = (np.tile(part, times).astype(np.int32) for part in np.nonzero(~np.eye(N_AGENTS, dtype=bool)))
    strength = np.linspace(-1.2, 1.2, N_AGENTS)
    observed = strength[first] + strength[second] + rng.logistic(size=len(first))
    grade = (observed > -0.9).astype(int) + (observed > 0.9)
    answers_a, answers_b = ((rng.random(len(first)) < chance[grade]).astype(np.float64) for chance in (FULL, LITTLE))
    return first, second, answers_a, answers_b


def relation_of(first: Ids, second: Ids, one: Floats) -> tuple[Floats, Floats, Floats]:
    agents = np.zeros((len(first), N_AGENTS))
    agents[np.arange(len(first)), first] = agents[np.arange(len(first)), second] = 1
    a = np.asarray(np.linalg.lstsq(agents, one, rcond=None)[0])
    return agents, a, one - agents @ a


@pytest.mark.slow
def test_score_and_shift_equal_dense_generalized_least_squares() -> None:
    first, second, answers_a, answers_b = threshold_judges(0, times=2)
    agents, a, noise = relation_of(first, second, answers_a)
    result = curved_relation(first, second, a, noise, answers_b)
    x = (a - a.mean()) / a.std()
    fixed = np.column_stack([np.ones(len(answers_a)), agents @ x, agents @ x**2, noise, noise * (agents @ x)])

    def off(design: Floats, inverse: Floats) -> Floats:
        """Compute P = V⁻¹ − V⁻¹X(X'V⁻¹X)⁻¹X'V⁻¹."""
        return inverse - inverse @ design @ np.linalg.inv(design.T @ inverse @ design) @ design.T @ inverse

    def fit(design: Floats, random: Floats) -> tuple[float, float, Floats]:
        """Maximize the restricted likelihood on a grid of τ²/σ² by dense matrices; return the ratio, σ² and V⁻¹."""
        best: tuple[float, float, float, Floats] | None = None
        for ratio in np.append(0.0, np.geomspace(1e-4, 10, 150)):
            inverse = np.linalg.inv(np.eye(len(answers_a)) + ratio * random @ random.T)
            normal, P = design.T @ inverse @ design, off(design, inverse)
            squares, freedom = float(answers_b @ P @ answers_b), len(answers_a) - design.shape[1]
            log = -0.5 * (
                freedom * np.log(squares)
                - np.linalg.slogdet(inverse)[1]
                + np.linalg.slogdet(normal)[1]
                - np.linalg.slogdet(design.T @ design)[1]
            )
            if best is None or log > best[0]:
                best = (log, ratio, squares / freedom, inverse)
        return not_none(best)[1:]

    _, _, inverse = fit(fixed, agents)
    P = off(fixed, inverse)
    np.testing.assert_allclose(result.plain_score, agents.T @ P @ answers_b, atol=1e-8)
    np.testing.assert_allclose(result.plain_information, agents.T @ P @ agents, atol=1e-8)
    P = off(np.column_stack([fixed[:, :3], answers_a]), inverse)
    np.testing.assert_allclose(result.score, agents.T @ P @ answers_b, atol=1e-8)
    np.testing.assert_allclose(result.information, agents.T @ P @ agents, atol=1e-8)
    np.testing.assert_allclose(result.variance, agents.T @ P @ agents, atol=1e-8)
    i = 3
    ratio, variance, inverse = fit(np.column_stack([fixed, agents[:, i]]), np.delete(agents, i, axis=1))
    design = np.column_stack([fixed, agents[:, i]])
    normal = np.linalg.inv(design.T @ inverse @ design)
    assert result.shift[i] == pytest.approx((normal @ design.T @ inverse @ answers_b)[-1])
    everything = np.column_stack([fixed, agents])
    left = (answers_b - everything @ np.linalg.pinv(everything) @ answers_b) ** 2
    noisier = max(left[agents[:, i] == 1].mean() / left.mean(), 1)
    assert result.std_error[i] == pytest.approx(np.sqrt(variance * (noisier * normal[-1, -1] + ratio)))


@pytest.mark.slow
def test_another_threshold_shifts_no_agent_and_a_preference_does() -> None:
    false, result = 0, 0
    for seed in range(40):
        first, second, answers_a, answers_b = threshold_judges(seed)
        _, a, noise = relation_of(first, second, answers_a)
        false += curved_relation(first, second, a, noise, answers_b).p_value.min() < 0.05 / N_AGENTS
        liked = (first == 4) | (second == 4)
        rng = np.random.default_rng([seed, 1])
        favored_answers = np.where(liked & (rng.random(len(answers_b)) < 0.35), 1.0, answers_b)
        result += np.argmin(curved_relation(first, second, a, noise, favored_answers).p_value) == 4
    assert false <= 6
    assert result >= 36


@pytest.mark.slow
def test_measurement_error_of_abilities_does_not_bias_the_strongest_agent() -> None:
    """Two identical judges estimate abilities with error: ordinary least squares attributes part of them to the label."""
    first, second = (np.tile(part, 4).astype(np.int32) for part in np.nonzero(~np.eye(30, dtype=bool)))
    ability, strongest = np.linspace(0.0, 0.3, 30), (np.arange(30) >= 20).astype(float)
    plain: list[bool] = []
    freed: list[bool] = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        observed = ability + 0.02 * rng.standard_normal(30)
        answer = ability[first] + ability[second] + 0.2 * rng.standard_normal(len(first))
        noise = rng.standard_normal(len(first)) - observed[first] - observed[second]
        for doubt, kept in ((np.zeros(30), plain), (np.full(30, 0.02**2), freed)):
            result = curved_relation(first, second, observed, noise, answer, ability_variance=doubt)
            kept.append(strongest @ result.score / (strongest @ result.information @ strongest))
    assert np.mean(plain) > 0.01
    assert abs(np.mean(freed)) < 0.5 * np.mean(plain)


def test_an_agent_with_noisier_trials_has_a_larger_standard_error() -> None:
    first, second = (np.tile(part, 6).astype(np.int32) for part in np.nonzero(~np.eye(N_AGENTS, dtype=bool)))
    ability = np.linspace(0.0, 0.3, N_AGENTS)
    rng = np.random.default_rng(0)
    loud = (first == 3) | (second == 3)
    noise = rng.standard_normal(len(first)) * np.where(loud, 0.6, 0.1)
    luck = rng.standard_normal(len(first))
    result = curved_relation(first, second, ability, luck, ability[first] + ability[second] + noise)
    assert np.argmax(result.std_error) == 3
    assert result.std_error[3] > 1.5 * np.median(result.std_error)


def test_an_identical_or_uninformative_judge_shifts_no_agent() -> None:
    first, second, answers_a, answers_b = threshold_judges(1)
    _, a, noise = relation_of(first, second, answers_a)
    same = curved_relation(first, second, a, noise, answers_a)
    assert np.abs(same.shift).max() < 1e-9
    assert same.p_value.min() > 0.99
    flat = curved_relation(first, second, np.full(N_AGENTS, 0.5), np.zeros(len(answers_a)), answers_b)
    assert np.isfinite(flat.shift).all()


def test_the_strongest_agents_follow_the_curve_and_scattered_ones_do_not() -> None:
    ability = np.linspace(0, 1, 30)
    assert parabola_r2(ability, (np.arange(30) >= 20).astype(float)) > 0.6
    assert parabola_r2(ability, (np.arange(30) % 3 == 0).astype(float)) < 0.05
    assert np.isnan(parabola_r2(ability[:4], np.array([1.0, 0, 0, 0])))
