"""Test the regression of quality on ability over three monotone forms: nonlinear relations, order, and missing data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from youden.stats.small_areas import ability_regression
from youden.stats.small_areas.quality_estimates import QualityEstimates, quality_from_labels

N_AGENTS = 40


def _fit_drawn_labels(rng: np.random.Generator, ability: np.ndarray, truth: np.ndarray, n: int) -> QualityEstimates:
    """Estimate quality from n labels of 0 or 1 per agent, on separate items."""
    agent = np.repeat(np.arange(len(truth)), n)
    value = (rng.random(len(agent)) < truth[agent]).astype(float)
    return quality_from_labels(
        agent, np.arange(len(agent)), value, ability=ability, std_error=np.full(len(ability), 0.05)
    )


@pytest.mark.slow
@pytest.mark.parametrize("direction", [1, -1])
def test_a_curved_relation_is_estimated_better_than_by_a_line_and_covered(
    direction: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logit quality is convex (or concave) in ability: nearly flat on one side, steep on the other."""
    z = np.linspace(-2, 2, N_AGENTS)
    truth = expit(direction * (1.2 * np.log1p(np.exp(2 * direction * z)) - 3))

    def measure() -> tuple[float, np.ndarray]:
        rng = np.random.default_rng(4)
        errors, is_covered = [], []
        for _ in range(20):
            estimates = _fit_drawn_labels(rng, z, truth, 10)
            errors.append(np.mean((estimates.quality - truth) ** 2))
            is_covered.append((estimates.low <= truth) & (truth <= estimates.high))
        return float(np.mean(errors)), np.mean(is_covered, axis=0)

    error, coverage = measure()
    monkeypatch.setattr(ability_regression, "_CURVATURES", (0.0,))
    monkeypatch.setattr(ability_regression, "_CURVATURE_PRIOR", (1.0,))
    linear_error, _ = measure()
    assert error < 0.9 * linear_error
    assert min(coverage[: N_AGENTS // 2].mean(), coverage[N_AGENTS // 2 :].mean()) > 0.92


def test_agents_without_labels_keep_the_order_of_their_abilities() -> None:
    rng = np.random.default_rng(5)
    z = np.linspace(-2, 2, N_AGENTS)
    ability = np.r_[z, np.sort(rng.uniform(-3.5, 3.5, 30))]
    truth = expit(1.2 * np.exp(z / 2) - 2)
    estimates = _fit_drawn_labels(rng, ability, truth, 20)
    assert estimates.regression is not None
    assert estimates.regression.low > 0
    assert (np.diff(estimates.quality[N_AGENTS:]) > 0).all()
    assert (np.diff(estimates.predicted[N_AGENTS:]) > 0).all()


def test_the_curve_is_monotone_and_bends_like_the_labels() -> None:
    rng = np.random.default_rng(6)
    z = np.linspace(-2, 2, N_AGENTS)
    truth = expit(1.2 * np.log1p(np.exp(2 * z)) - 3)
    regression = _fit_drawn_labels(rng, 10 + 2 * z, truth, 100).regression
    assert regression is not None
    ability, quality = np.array(regression.curve).T
    assert (ability[0], ability[-1]) == pytest.approx((6, 14))
    assert (np.diff(quality) > 0).all()
    slopes = np.diff(np.log(quality / (1 - quality)))
    assert slopes[-1] > 1.5 * slopes[0]
    assert np.abs(np.interp(10 + 2 * z, ability, quality) - truth).max() < 0.1


def test_an_ability_shared_by_no_agent_leaves_quality_to_the_labels() -> None:
    unknown = np.full(N_AGENTS, np.nan)
    truth = np.linspace(0.1, 0.9, N_AGENTS)
    estimates = _fit_drawn_labels(np.random.default_rng(7), unknown, truth, 20)
    assert estimates.regression is not None
    assert estimates.regression.curve == ()
    assert np.corrcoef(estimates.quality, truth)[0, 1] > 0.9
    assert (estimates.low < estimates.high).all()


def test_equal_abilities_have_a_flat_curve() -> None:
    truth = np.linspace(0.1, 0.9, N_AGENTS)
    regression = _fit_drawn_labels(np.random.default_rng(8), np.full(N_AGENTS, 0.3), truth, 5).regression
    assert regression is not None
    assert np.ptp([quality for _, quality in regression.curve]) < 1e-12


def test_the_median_slope_is_0_if_a_slope_is_less_probable_than_none() -> None:
    rng = np.random.default_rng(9)
    truth = rng.permutation(np.linspace(0.1, 0.9, N_AGENTS))
    regression = _fit_drawn_labels(rng, np.linspace(-2, 2, N_AGENTS), truth, 30).regression
    assert regression is not None
    assert regression.p_zero_slope > 0.5
    assert regression.slope == 0
    assert regression.low < 0 < regression.high
