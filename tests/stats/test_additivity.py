"""What the additive part leaves, against plain least squares and simulated noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.stats import rank_one_test, residual_map
from youden.types.pool import Floats


def gappy(seed: int, *, shape: tuple[int, int] = (5, 9), gaps: float = 0.4) -> Floats:
    rng = np.random.default_rng(seed)
    value = rng.uniform(-1, 1, shape)
    value[rng.random(shape) < gaps] = np.nan
    value[0, 0] = 0.25
    return value


def least_squares_residuals(value: Floats) -> Floats:
    """numpy's lstsq on indicator columns: the minimum-norm solution leaves the same residuals whatever the gauge."""
    agent, item = np.nonzero(~np.isnan(value))
    K, J = value.shape
    X = np.zeros((len(agent), K + J))
    X[np.arange(len(agent)), agent], X[np.arange(len(agent)), K + item] = 1, -1
    x = np.linalg.lstsq(X, value[agent, item], rcond=None)[0]
    residual = np.full(value.shape, np.nan)
    residual[agent, item] = value[agent, item] - X @ x
    return residual


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), gaps=st.sampled_from([0.0, 0.4, 0.8]), tall=st.booleans())
def test_residuals_and_r2_are_those_of_least_squares_on_any_pattern(seed: int, gaps: float, tall: bool) -> None:
    value = gappy(seed, gaps=gaps, shape=(9, 5) if tall else (5, 9))
    found, truth = residual_map(value), least_squares_residuals(value)
    np.testing.assert_allclose(found.residual, truth, atol=1e-5)
    seen = value[~np.isnan(value)]
    if np.ptp(seen) > 0:
        assert found.r2 == pytest.approx(1 - np.nansum(truth**2) / ((seen - seen.mean()) ** 2).sum(), abs=1e-9)
    for rms, axis in ((found.agent_rms, 1), (found.item_rms, 0)):
        squares, n = np.nansum(truth**2, axis=axis), (~np.isnan(truth)).sum(axis=axis)
        np.testing.assert_allclose(rms[n > 0], np.sqrt(squares[n > 0] / n[n > 0]), atol=1e-5)
        assert np.isnan(rms[n == 0]).all()


def noisy(seed: int, *, strength: float) -> Floats:
    """Additive, plus noise of every agent's and item's own size, plus `strength` times a pattern u_i·v_j."""
    rng = np.random.default_rng(seed)
    size = np.outer(rng.uniform(0.3, 2, 8), rng.uniform(0.3, 2, 25))
    value = rng.normal(size=(8, 1)) + rng.normal(size=25) + size * rng.normal(size=(8, 25))
    value += strength * np.outer(rng.normal(size=8), rng.normal(size=25))
    value[rng.random(value.shape) < 0.2] = np.nan
    return value / (1.01 * np.nanmax(np.abs(value)))


def test_the_rank_one_test_keeps_its_level_under_uneven_noise_and_finds_a_pattern() -> None:
    rng = np.random.default_rng(0)
    null = [rank_one_test(noisy(seed, strength=0), rng=rng, n_draws=39).p_value for seed in range(120)]
    assert np.mean(np.array(null) <= 0.1) < 0.18
    found = [rank_one_test(noisy(seed, strength=2), rng=rng, n_draws=39).p_value for seed in range(20)]
    assert np.mean(np.array(found) <= 0.1) > 0.9


def test_the_pattern_found_is_the_one_put_in() -> None:
    rng = np.random.default_rng(5)
    u, v = rng.normal(size=10), rng.normal(size=30)
    value = 0.1 * np.outer(u - u.mean(), v - v.mean()) + 0.01 * rng.normal(size=(10, 30))
    result = rank_one_test(value, rng=rng, n_draws=19)
    assert result.share > 0.9
    assert result.p_value == 1 / 20
    assert abs(np.corrcoef(result.agent, u)[0, 1]) > 0.99
    assert (
        np.corrcoef(np.outer(result.agent, result.item).ravel(), np.outer(u - u.mean(), v - v.mean()).ravel())[0, 1]
        > 0.99
    )
    assert result.agent[np.abs(result.agent).argmax()] > 0


def test_nothing_left_and_two_agents_say_nothing() -> None:
    theta, b = np.array([0.1, 0.4, 0.6]), np.array([-0.3, 0.0, 0.1, 0.2])
    assert rank_one_test(theta[:, None] - b, rng=np.random.default_rng(0)).p_value == 1
    two = rank_one_test(gappy(6, shape=(2, 9), gaps=0), rng=np.random.default_rng(0), n_draws=9)
    assert (two.share, two.p_value) == (pytest.approx(1), 1)
