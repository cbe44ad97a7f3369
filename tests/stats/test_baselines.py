"""Test every registered baseline against one contract, and Rasch models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, ndtr

from worlds import published_scores
from youden import ClippedLinear
from youden.errors import ConfigError, StatisticsError
from youden.stats import BASELINES, Rasch, curl_quantiles
from youden.stats import baselines as nuclear_norm
from youden.stats.additive.rasch import RaschMethod
from youden.stats.base.links import LINKS
from youden.stats.baselines import GRID, ImputedSVD, IsotonicOnTop, NuclearNorm, UVFactorization, draw_folds
from youden.types import Scores
from youden.types.pool import Floats

EVERY = pytest.mark.parametrize("name", list(BASELINES))


def additive(*, n_agents: int = 8, n_items: int = 20, gaps: float = 0.3, noise: float = 0.05, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    theta, b = rng.normal(0.4, 0.15, n_agents), rng.normal(0, 0.1, n_items)
    value = np.clip(theta[:, None] - b + noise * rng.normal(size=(n_agents, n_items)), -1, 1)
    holes = rng.random(value.shape) < gaps
    holes[:, :3], holes[:3] = False, False
    value[holes] = np.nan
    return value


@EVERY
def test_a_baseline_predicts_every_cell_in_range_and_better_than_the_mean(name: str) -> None:
    value, truth = additive(), additive(gaps=0, noise=0)
    model = BASELINES.load(name)().fit(value)
    predicted = model.predict()
    assert predicted.shape == value.shape
    assert (np.abs(predicted) <= 1).all()
    assert model.ability_.shape == (8,)
    assert np.corrcoef(model.ability_, truth.mean(axis=1))[0, 1] > 0.9
    if not name.endswith("-paper"):
        hole = np.isnan(value)
        assert np.mean((predicted - truth)[hole] ** 2) < np.mean((np.nanmean(value) - truth)[hole] ** 2)


@EVERY
def test_a_baseline_is_deterministic_and_does_not_change_its_input(name: str) -> None:
    value = additive()
    before = value.copy()
    a, b = (BASELINES.load(name)().fit(value).predict() for _ in range(2))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(value, before)


@EVERY
def test_unobserved_agents_and_items_are_nan_and_change_no_other_prediction(name: str) -> None:
    value = additive()
    wider = np.full((9, 21), np.nan)
    wider[1:, :-1] = value
    model, alone = BASELINES.load(name)().fit(wider), BASELINES.load(name)().fit(value)
    predicted = model.predict()
    assert np.isnan(predicted[0]).all()
    assert np.isnan(predicted[:, -1]).all()
    assert np.isnan(model.ability_[0])
    if name != "uv-paper":  # the start is drawn for observed items only; equal except for the order of sums
        np.testing.assert_allclose(predicted[1:, :-1], alone.predict(), atol=1e-6)


@EVERY
def test_scores_are_accepted_like_their_matrix(name: str) -> None:
    value = additive()
    observed = ~np.isnan(value)
    scores = Scores.from_matrices(
        value=value,
        weight=np.where(observed, 58.0, 0.0),
        role="train",
        kind="row",
        agent_ids=tuple(f"a{i}" for i in range(8)),
        item_ids=tuple(f"p{j}" for j in range(20)),
    )
    by_scores, by_matrix = (BASELINES.load(name)().fit(given).predict() for given in (scores, value))
    np.testing.assert_allclose(by_scores, by_matrix, atol=1e-9)


@EVERY
@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (2, 2)])
def test_minimal_matrices_are_completed_or_refused_with_a_reason(name: str, shape: tuple[int, int]) -> None:
    value = np.linspace(-0.5, 0.5, shape[0] * shape[1]).reshape(shape)
    model = BASELINES.load(name)()
    if name == "isotonic" and 1 in shape:
        with pytest.raises(StatisticsError, match=r"\[isotonic-folds\]"):
            model.fit(value)
    else:
        assert np.isfinite(model.fit(value).predict()).all()


def test_an_unknown_baseline_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'nuclear-norm'"):
        BASELINES.load("nuclear-nrm")


def test_svd_fills_gaps_with_the_mean_of_the_agent_or_of_all_scores() -> None:
    value = np.array([[0.2, 0.4, np.nan], [0.6, 0.6, 0.6]])
    np.testing.assert_allclose(ImputedSVD(rank=2, fill="agent").fit(value).predict()[0, 2], 0.3)
    np.testing.assert_allclose(ImputedSVD(rank=2, fill="global").fit(value).predict()[0, 2], 0.48)


def test_uv_of_rank_one_recovers_a_rank_one_matrix() -> None:
    truth = np.outer([0.2, 0.5, 0.9], [0.4, 0.8, 1.0, 0.6])
    value = truth.copy()
    value[0, 1] = value[2, 3] = np.nan
    np.testing.assert_allclose(UVFactorization(ridge=1e-9, n_sweeps=200).fit(value).predict(), truth, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), penalty=st.floats(0.1, 1.5))
def test_the_nuclear_norm_fit_is_optimal(seed: int, penalty: float) -> None:
    """The subgradient: with X = UΣVᵀ, residual R on observed cells obeys UᵀR = penalty·Vᵀ and ‖R‖₂ ≤ penalty."""
    value = additive(n_agents=5, n_items=7, seed=seed) / 2  # predictions are clipped at ±1, where the optimum is not
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nuclear_norm, "_TOLERANCE", 1e-10)
        x = NuclearNorm(penalty=penalty, max_rounds=10_000).fit(value).predict()
    residual = np.where(np.isnan(value), 0, value - x)
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    kept = s > 1e-8
    assert np.linalg.norm(residual, 2) <= penalty + 1e-5
    np.testing.assert_allclose(u[:, kept].T @ residual, penalty * vt[kept], atol=1e-4)


def test_the_penalty_is_selected_from_the_grid_and_small_for_little_noise() -> None:
    little, much = (NuclearNorm().fit(additive(noise=noise)).penalty_ for noise in (0.0, 0.5))
    assert little in GRID
    assert little < much


def test_a_tall_matrix_is_completed_like_its_transpose() -> None:
    value = additive()
    np.testing.assert_allclose(
        NuclearNorm(penalty=0.3).fit(value.T).predict(), NuclearNorm(penalty=0.3).fit(value).predict().T, atol=1e-10
    )


def test_the_isotonic_curve_linearizes_a_monotone_relation() -> None:
    rng = np.random.default_rng(2)
    linear = rng.uniform(0, 0.9, 12)[:, None] - rng.uniform(-0.1, 0.1, 40)
    bent = np.clip(linear**3, -1, 1)
    value = np.where(rng.random(bent.shape) < 0.3, np.nan, bent)
    hole = np.isnan(value)
    errors = [np.mean((model.fit(value).predict() - bent)[hole] ** 2) for model in (IsotonicOnTop(), ClippedLinear())]
    assert errors[0] < errors[1]
    order = np.argsort(ClippedLinear().fit(value).predict(), axis=None)
    assert (np.diff(IsotonicOnTop().fit(value).predict().ravel()[order]) >= -1e-12).all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99), n_folds=st.sampled_from([2, 3, 6, 200]))
def test_each_observed_cell_is_in_one_fold_and_folds_have_equal_sizes(seed: int, n_folds: int) -> None:
    observed = np.random.default_rng(seed).random((20, 30)) < 0.7
    fold = draw_folds(observed, n_folds=n_folds, seed=seed)
    assert ((fold >= 0) == observed).all()
    assert np.ptp(np.bincount(fold[observed], minlength=n_folds)) <= 1


CURVED = pytest.mark.parametrize("link", ["probit", "logit"])


def gappy(seed: int, *, n_agents: int = 5, n_items: int = 8) -> Floats:
    rng = np.random.default_rng(seed)
    value = np.clip(rng.normal(0.2, 0.5, (n_agents, n_items)), -1, 1)
    value[rng.random(value.shape) < 0.2] = np.nan
    value[0], value[:, 0] = 0.3, 0.1
    return value


def quasi_twin(value: Floats, link: str, *, ridge: float) -> Floats:
    """Return predictions at the optimum of the quasi-likelihood by a general optimizer (scipy 1.17, BFGS)."""
    mean = {"logit": expit, "probit": ndtr}[link]
    observed = ~np.isnan(value)
    p = (value[observed] + 1) / 2
    K, J = value.shape

    def eta(x: Floats) -> Floats:
        return np.asarray(x[:K, None] - (x[K:] - x[K:].mean()))

    def loss(x: Floats) -> float:
        mu = mean(eta(x)[observed])
        penalty = (x[:K] ** 2).sum() + ((x[K:] - x[K:].mean()) ** 2).sum()
        return float(-(p * np.log(mu) + (1 - p) * np.log1p(-mu)).sum() + ridge / 2 * penalty)

    optimum: Floats = minimize(loss, np.zeros(K + J), method="BFGS", options={"gtol": 1e-7}).x
    return np.asarray(2 * mean(eta(optimum)) - 1)


@CURVED
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_quasi_likelihood_is_at_its_optimum(link: str, seed: int) -> None:
    value = gappy(seed, n_agents=3, n_items=4)
    model = Rasch(link=link, method="quasi", ridge=0.1).fit(value)
    assert model.status_ == "ok"
    np.testing.assert_allclose(model.predict(), quasi_twin(value, link, ridge=0.1), atol=1e-4)


@CURVED
@pytest.mark.parametrize("method", ["least-squares", "quasi"])
def test_a_matrix_that_is_additive_on_the_link_is_recovered(link: str, method: RaschMethod) -> None:
    theta, b = np.array([0.1, 0.5, 0.9]), np.array([-0.4, -0.1, 0.2, 0.3])
    value = LINKS[link].inverse(theta[:, None] - b)
    value[1, 2] = np.nan
    model = Rasch(link=link, method=method, ridge=1e-9).fit(value)
    np.testing.assert_allclose(model.ability_, theta, atol=1e-6)
    np.testing.assert_allclose(model.difficulty_, b, atol=1e-6)
    np.testing.assert_allclose(model.predict(), LINKS[link].inverse(theta[:, None] - b), atol=1e-6)


def test_the_identity_link_equals_the_linear_fit() -> None:
    value = gappy(4) / 2
    model, linear = Rasch(link="identity").fit(value), ClippedLinear().fit(value)
    np.testing.assert_allclose(model.predict(), linear.predict(), atol=1e-9)
    assert curl_quantiles(model.ability_[:, None] - model.difficulty_).max() < 1e-12


@CURVED
def test_quasi_likelihood_converges_for_saturated_agents_and_items(link: str) -> None:
    value = gappy(5)
    value[0], value[:, 0] = 1, -1
    model = Rasch(link=link, method="quasi").fit(value)
    assert model.status_ == "ok"
    assert model.n_rounds_ < 40
    assert (np.abs(model.predict()) <= 1).all()
    assert model.ability_.argmax() == 0


def test_unobserved_agents_and_items_are_nan() -> None:
    value = gappy(7)
    value[2] = value[:, 3] = np.nan
    for method in ("least-squares", "quasi"):
        model = Rasch(method=method).fit(value)
        assert np.isnan(model.ability_).tolist() == [False, False, True, False, False]
        unseen = np.isnan(model.predict())
        assert unseen[2].all()
        assert unseen[:, 3].all()
        assert unseen.sum() == 8 + 5 - 1


def test_disconnected_components_are_named() -> None:
    value = np.full((4, 4), np.nan)
    value[:2, :2] = value[2:, 2:] = [[0.1, 0.2], [0.3, 0.5]]
    model = Rasch(method="quasi").fit(value)
    assert model.status_ == "disconnected"
    assert "2 components" in model.message_


def test_predictions_on_real_scores_have_the_published_curl(peer_prediction: Path) -> None:
    """Project statistics: logit .010 / .074 on PubMed (the paper .009 / .072), the identity 0."""
    value = published_scores(peer_prediction, "pubmed_200_config_results")
    np.testing.assert_allclose(curl_quantiles(Rasch(link="logit").fit(value).predict()), [0.010, 0.074], atol=5e-4)
    np.testing.assert_allclose(curl_quantiles(Rasch(link="identity").fit(value).predict()), 0, atol=1e-12)


def uniform_with_gaps(seed: int, *, shape: tuple[int, int] = (5, 9), gaps: float = 0.4) -> Floats:
    rng = np.random.default_rng(seed)
    value = rng.uniform(-1, 1, shape)
    value[rng.random(shape) < gaps] = np.nan
    value[0, 0] = 0.25
    return value
