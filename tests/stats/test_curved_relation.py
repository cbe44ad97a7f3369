"""Agents off a curve between two judges: equal to dense algebra, silent where judges differ by threshold only."""

from __future__ import annotations

import numpy as np
import pytest

from youden.stats.judges.curved_relation import curve_share, curved_relation
from youden.types.pool import Floats, Ids

K = 12
FULL, LITTLE = np.array([0.15, 0.75, 0.95]), np.array([0.02, 0.05, 0.95])


def threshold_judges(seed: int, *, times: int = 8) -> tuple[Ids, Ids, Floats, Floats]:
    """Two judges who see the same grades of no, little and full gain and say yes by FULL and by LITTLE."""
    rng = np.random.default_rng(seed)
    first, second = (np.tile(part, times).astype(np.int32) for part in np.nonzero(~np.eye(K, dtype=bool)))
    strength = np.linspace(-1.2, 1.2, K)
    seen = strength[first] + strength[second] + rng.logistic(size=len(first))
    grade = (seen > -0.9).astype(int) + (seen > 0.9)
    one, other = ((rng.random(len(first)) < chance[grade]).astype(np.float64) for chance in (FULL, LITTLE))
    return first, second, one, other


def relation_of(first: Ids, second: Ids, one: Floats) -> tuple[Floats, Floats, Floats]:
    agents = np.zeros((len(first), K))
    agents[np.arange(len(first)), first] = agents[np.arange(len(first)), second] = 1
    a = np.asarray(np.linalg.lstsq(agents, one, rcond=None)[0])
    return agents, a, one - agents @ a


@pytest.mark.slow
def test_score_and_shift_equal_dense_generalised_least_squares() -> None:
    first, second, one, other = threshold_judges(0, times=2)
    agents, a, luck = relation_of(first, second, one)
    found = curved_relation(first, second, a, luck, other)
    x = (a - a.mean()) / a.std()
    fixed = np.column_stack([np.ones(len(one)), agents @ x, agents @ x**2, luck, luck * (agents @ x)])

    def off(known: Floats, inverse: Floats) -> Floats:
        """P = V⁻¹ − V⁻¹X(X'V⁻¹X)⁻¹X'V⁻¹."""
        return inverse - inverse @ known @ np.linalg.inv(known.T @ inverse @ known) @ known.T @ inverse

    def fit(known: Floats, random: Floats) -> tuple[float, float, Floats]:
        """Restricted likelihood on a grid of τ²/σ²: the ratio, σ² and V⁻¹, each by dense matrices."""
        best: tuple[float, float, float, Floats] | None = None
        for ratio in np.append(0.0, np.geomspace(1e-4, 10, 150)):
            inverse = np.linalg.inv(np.eye(len(one)) + ratio * random @ random.T)
            normal, P = known.T @ inverse @ known, off(known, inverse)
            squares, freedom = float(other @ P @ other), len(one) - known.shape[1]
            log = -0.5 * (
                freedom * np.log(squares)
                - np.linalg.slogdet(inverse)[1]
                + np.linalg.slogdet(normal)[1]
                - np.linalg.slogdet(known.T @ known)[1]
            )
            if best is None or log > best[0]:
                best = (log, ratio, squares / freedom, inverse)
        return best[1:]

    _, _, inverse = fit(fixed, agents)
    P = off(fixed, inverse)
    np.testing.assert_allclose(found.plain_score, agents.T @ P @ other, atol=1e-8)
    np.testing.assert_allclose(found.plain_information, agents.T @ P @ agents, atol=1e-8)
    P = off(np.column_stack([fixed[:, :3], one]), inverse)
    np.testing.assert_allclose(found.score, agents.T @ P @ other, atol=1e-8)
    np.testing.assert_allclose(found.information, agents.T @ P @ agents, atol=1e-8)
    np.testing.assert_allclose(found.variance, agents.T @ P @ agents, atol=1e-8)
    i = 3
    ratio, variance, inverse = fit(np.column_stack([fixed, agents[:, i]]), np.delete(agents, i, axis=1))
    known = np.column_stack([fixed, agents[:, i]])
    normal = np.linalg.inv(known.T @ inverse @ known)
    assert found.shift[i] == pytest.approx((normal @ known.T @ inverse @ other)[-1])
    everything = np.column_stack([fixed, agents])
    left = (other - everything @ np.linalg.pinv(everything) @ other) ** 2
    noisier = max(left[agents[:, i] == 1].mean() / left.mean(), 1)
    assert found.error[i] == pytest.approx(np.sqrt(variance * (noisier * normal[-1, -1] + ratio)))


def test_judges_that_draw_the_line_elsewhere_move_nobody_and_one_that_favours_does() -> None:
    false, found = 0, 0
    for seed in range(40):
        first, second, one, other = threshold_judges(seed)
        _, a, luck = relation_of(first, second, one)
        false += curved_relation(first, second, a, luck, other).p_value.min() < 0.05 / K
        liked = (first == 4) | (second == 4)
        rng = np.random.default_rng([seed, 1])
        more = np.where(liked & (rng.random(len(other)) < 0.35), 1.0, other)
        found += np.argmin(curved_relation(first, second, a, luck, more).p_value) == 4
    assert false <= 6
    assert found >= 36


@pytest.mark.slow
def test_abilities_known_with_error_do_not_make_the_strongest_look_favoured() -> None:
    """Two judges of one mind, whose abilities are seen with noise: the plain fit leaves part of them to the label."""
    first, second = (np.tile(part, 4).astype(np.int32) for part in np.nonzero(~np.eye(30, dtype=bool)))
    ability, strongest = np.linspace(0.0, 0.3, 30), (np.arange(30) >= 20).astype(float)
    plain, freed = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        seen = ability + 0.02 * rng.standard_normal(30)
        answer = ability[first] + ability[second] + 0.2 * rng.standard_normal(len(first))
        luck = rng.standard_normal(len(first)) - seen[first] - seen[second]
        for doubt, kept in ((np.zeros(30), plain), (np.full(30, 0.02**2), freed)):
            found = curved_relation(first, second, seen, luck, answer, doubt=doubt)
            kept.append(strongest @ found.score / (strongest @ found.information @ strongest))
    assert np.mean(plain) > 0.01
    assert abs(np.mean(freed)) < 0.5 * np.mean(plain)


def test_an_agent_whose_trials_are_noisier_than_all_has_the_larger_error() -> None:
    first, second = (np.tile(part, 6).astype(np.int32) for part in np.nonzero(~np.eye(K, dtype=bool)))
    ability = np.linspace(0.0, 0.3, K)
    rng = np.random.default_rng(0)
    loud = (first == 3) | (second == 3)
    noise = rng.standard_normal(len(first)) * np.where(loud, 0.6, 0.1)
    luck = rng.standard_normal(len(first))
    found = curved_relation(first, second, ability, luck, ability[first] + ability[second] + noise)
    assert np.argmax(found.error) == 3
    assert found.error[3] > 1.5 * np.median(found.error)


def test_a_judge_that_repeats_the_one_or_sees_no_difference_moves_nobody() -> None:
    first, second, one, other = threshold_judges(1)
    _, a, luck = relation_of(first, second, one)
    same = curved_relation(first, second, a, luck, one)
    assert np.abs(same.shift).max() < 1e-9
    assert same.p_value.min() > 0.99
    flat = curved_relation(first, second, np.full(K, 0.5), np.zeros(len(one)), other)
    assert np.isfinite(flat.shift).all()


def test_the_strongest_stand_on_the_curve_and_scattered_agents_do_not() -> None:
    ability = np.linspace(0, 1, 30)
    assert curve_share(ability, (np.arange(30) >= 20).astype(float)) > 0.6
    assert curve_share(ability, (np.arange(30) % 3 == 0).astype(float)) < 0.05
    assert np.isnan(curve_share(ability[:4], np.array([1.0, 0, 0, 0])))
