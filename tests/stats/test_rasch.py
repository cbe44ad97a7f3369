"""Rasch models on curved links: least squares there, and quasi-likelihood."""

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
from youden.stats import LINKS, Rasch, curl_quantiles
from youden.types.pool import Floats

CURVED = pytest.mark.parametrize("link", ["probit", "logit"])


def gappy(seed: int, *, n_agents: int = 5, n_items: int = 8) -> Floats:
    rng = np.random.default_rng(seed)
    value = np.clip(rng.normal(0.2, 0.5, (n_agents, n_items)), -1, 1)
    value[rng.random(value.shape) < 0.2] = np.nan
    value[0], value[:, 0] = 0.3, 0.1
    return value


def quasi_twin(value: Floats, link: str, *, ridge: float) -> Floats:
    """Predictions at the optimum of the quasi-likelihood, by a general-purpose optimiser (scipy 1.17, BFGS)."""
    mean = {"logit": expit, "probit": ndtr}[link]
    seen = ~np.isnan(value)
    p = (value[seen] + 1) / 2
    K, J = value.shape

    def eta(x: Floats) -> Floats:
        return x[:K, None] - (x[K:] - x[K:].mean())

    def loss(x: Floats) -> float:
        mu = mean(eta(x)[seen])
        penalty = (x[:K] ** 2).sum() + ((x[K:] - x[K:].mean()) ** 2).sum()
        return float(-(p * np.log(mu) + (1 - p) * np.log1p(-mu)).sum() + ridge / 2 * penalty)

    return 2 * mean(eta(minimize(loss, np.zeros(K + J), method="BFGS", options={"gtol": 1e-7}).x)) - 1


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
def test_a_matrix_additive_on_the_link_is_given_back(link: str, method: str) -> None:
    theta, b = np.array([0.1, 0.5, 0.9]), np.array([-0.4, -0.1, 0.2, 0.3])
    value = LINKS[link].inverse(theta[:, None] - b)
    value[1, 2] = np.nan
    model = Rasch(link=link, method=method, ridge=1e-9).fit(value)
    np.testing.assert_allclose(model.ability_, theta, atol=1e-6)
    np.testing.assert_allclose(model.difficulty_, b, atol=1e-6)
    np.testing.assert_allclose(model.predict(), LINKS[link].inverse(theta[:, None] - b), atol=1e-6)


def test_the_identity_link_is_the_linear_fit() -> None:
    value = gappy(4) / 2
    model, linear = Rasch(link="identity").fit(value), ClippedLinear().fit(value)
    np.testing.assert_allclose(model.predict(), linear.predict(), atol=1e-9)
    assert curl_quantiles(model.ability_[:, None] - model.difficulty_).max() < 1e-12


@CURVED
def test_quasi_likelihood_settles_where_agents_and_items_are_saturated(link: str) -> None:
    value = gappy(5)
    value[0], value[:, 0] = 1, -1
    model = Rasch(link=link, method="quasi").fit(value)
    assert model.status_ == "ok"
    assert model.n_rounds_ < 40
    assert (np.abs(model.predict()) <= 1).all()
    assert model.ability_.argmax() == 0


def test_agents_and_items_never_seen_are_nan() -> None:
    value = gappy(7)
    value[2] = value[:, 3] = np.nan
    for method in ("least-squares", "quasi"):
        model = Rasch(method=method).fit(value)
        assert np.isnan(model.ability_).tolist() == [False, False, True, False, False]
        unseen = np.isnan(model.predict())
        assert unseen[2].all()
        assert unseen[:, 3].all()
        assert unseen.sum() == 8 + 5 - 1


def test_components_are_named() -> None:
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
