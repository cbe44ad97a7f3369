"""The mixed model of ordered pairs against its textbook equations and a general-purpose optimiser."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import minimize

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats, Ids
from youden.stats.trials.pair_model import PairModel, Variances, fit_pair_model


class Trials(NamedTuple):
    first: Ids
    second: Ids
    item: Ids
    answer: Floats


def draw(*, n_agents: int = 6, n_items: int = 8, n: int = 150, noise: float = 0.3, seed: int = 0) -> Trials:
    rng = np.random.default_rng(seed)
    a = rng.normal(0, 0.3, n_agents)
    c = 0.8 * a + rng.normal(0, 0.1, n_agents)
    g = rng.normal(0, 0.15, (n_agents, n_agents))
    b = rng.normal(0, 0.2, n_items)
    first = rng.integers(0, n_agents, n)
    second = (first + rng.integers(1, n_agents, n)) % n_agents
    item = rng.integers(0, n_items, n)
    answer = 0.4 + a[first] + c[second] + g[first, second] + b[item] + noise * rng.normal(size=n)
    return Trials(first.astype(np.int32), second.astype(np.int32), item.astype(np.int32), answer)


def fit(trials: Trials, *, n_agents: int = 6, n_items: int = 8, tolerance: float = 1e-4) -> PairModel:
    return fit_pair_model(*trials, n_agents=n_agents, n_items=n_items, tolerance=tolerance, max_rounds=5000)


def design(trials: Trials, *, n_agents: int, n_items: int) -> Floats:
    """a, c, b, then g for all ordered pairs."""
    n = len(trials.answer)
    Z = np.zeros((n, 2 * n_agents + n_items + n_agents**2))
    rows = np.arange(n)
    Z[rows, trials.first] = 1
    Z[rows, n_agents + trials.second] = 1
    Z[rows, 2 * n_agents + trials.item] = 1
    Z[rows, 2 * n_agents + n_items + trials.first * n_agents + trials.second] = 1
    return Z


def covariance(v: Variances, *, n_agents: int, n_items: int) -> Floats:
    cross = v.correlation * np.sqrt(v.first * v.second)
    agents = np.kron(np.array([[v.first, cross], [cross, v.second]]), np.eye(n_agents))
    return block_diag(agents, v.item * np.eye(n_items), v.pair * np.eye(n_agents**2))


def reml(v: Variances, trials: Trials, *, n_agents: int, n_items: int) -> float:
    """Twice the negative restricted log-likelihood, up to a constant, from the full covariance of the answers."""
    Z = design(trials, n_agents=n_agents, n_items=n_items)
    V = Z @ covariance(v, n_agents=n_agents, n_items=n_items) @ Z.T + v.noise * np.eye(len(Z))
    inverse = np.linalg.inv(V)
    one = np.ones(len(V))
    information = one @ inverse @ one
    e = trials.answer - (one @ inverse @ trials.answer) / information
    return float(np.linalg.slogdet(V)[1] + np.log(information) + e @ inverse @ e)


def test_effects_are_the_best_linear_predictions_for_the_variances_found() -> None:
    trials = draw()
    model = fit(trials, tolerance=1e-6)
    v = model.variances
    Z = design(trials, n_agents=6, n_items=8)
    G = covariance(v, n_agents=6, n_items=8)
    inverse = np.linalg.inv(Z @ G @ Z.T + v.noise * np.eye(len(Z)))
    mean = inverse.sum(axis=0) @ trials.answer / inverse.sum()
    effects = G @ Z.T @ inverse @ (trials.answer - mean)
    assert model.mean == pytest.approx(mean, abs=1e-5)
    np.testing.assert_allclose(model.first, effects[:6], atol=1e-5)
    np.testing.assert_allclose(model.second, effects[6:12], atol=1e-5)
    np.testing.assert_allclose(model.item, effects[12:20], atol=1e-5)
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(model.pair[off], effects[20:].reshape(6, 6)[off], atol=1e-5)
    row = [
        mean + effects[i] + np.mean([effects[6 + k] + effects[20 + 6 * i + k] for k in range(6) if k != i])
        for i in range(6)
    ]
    np.testing.assert_allclose(model.ability, row, atol=1e-5)
    np.testing.assert_allclose(model.predict(), np.clip(np.array(row)[:, None] + effects[12:20], -1, 1), atol=1e-5)


def test_variances_reach_the_restricted_likelihood_of_a_general_optimiser() -> None:
    """Nelder–Mead (scipy 1.17) on the likelihood of the full covariance, from the variances the trials were drawn with."""
    trials = draw(n_agents=5, n_items=6, n=80, seed=1)

    def named(x: Floats) -> Variances:
        first, second, pair, item, noise = np.exp(x[[0, 1, 3, 4, 5]]).tolist()
        return Variances(first, second, float(np.tanh(x[2])), pair, item, noise)

    def loss(x: Floats) -> float:
        return reml(named(x), trials, n_agents=5, n_items=6)

    start = np.log([0.09, 0.07, np.e, 0.02, 0.04, 0.09])
    best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 500, "xatol": 1e-3, "fatol": 1e-4})
    ours = fit(trials, n_agents=5, n_items=6, tolerance=1e-6)
    assert reml(ours.variances, trials, n_agents=5, n_items=6) < best.fun + 1e-2


def test_variances_of_many_trials_are_those_they_were_drawn_with() -> None:
    v = fit(draw(n_agents=40, n_items=60, n=20_000), n_agents=40, n_items=60).variances
    assert v.noise == pytest.approx(0.09, rel=0.05)
    assert v.pair == pytest.approx(0.0225, rel=0.15)
    assert v.first == pytest.approx(0.09, rel=0.6)
    assert v.correlation == pytest.approx(0.92, abs=0.12)


def test_all_pairs_asked_often_give_the_dense_row_means() -> None:
    rng = np.random.default_rng(3)
    first, second, item = (x.ravel() for x in np.meshgrid(range(5), range(5), range(40), indexing="ij"))
    off = first != second
    D = rng.normal(0.3, 0.2, (5, 5))[first[off], second[off]] + 0.01 * rng.normal(size=int(off.sum()))
    trials = Trials(*(x[off].astype(np.int32) for x in (first, second, item)), D)
    expected = [D[trials.first == i].mean() for i in range(5)]
    np.testing.assert_allclose(fit(trials, n_agents=5, n_items=40).ability, expected, atol=1e-3)


def test_relabelling_agents_permutes_abilities() -> None:
    trials = draw(seed=4)
    order = np.random.default_rng(0).permutation(6).astype(np.int32)
    moved = fit(Trials(order[trials.first], order[trials.second], trials.item, trials.answer))
    np.testing.assert_allclose(moved.ability[order], fit(trials).ability, atol=1e-9)


def test_an_agent_in_no_trial_is_nan_and_an_unseen_item_is_average() -> None:
    trials = draw(seed=5)
    model = fit(trials, n_agents=7, n_items=9)
    assert np.isnan(model.ability).tolist() == [False] * 6 + [True]
    assert model.item[8] == pytest.approx(0)
    assert np.isnan(model.predict()[6]).all()


def test_running_out_of_rounds_is_said() -> None:
    model = fit_pair_model(*draw(), n_agents=6, n_items=8, max_rounds=2)
    assert (model.status, model.n_rounds) == ("not_converged", 2)


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        ({"answer": np.zeros(150)}, "pair-model-constant"),
        ({"answer": np.r_[np.nan, np.zeros(149)]}, "trial-answer"),
        ({"answer": np.zeros(3)}, "trial-columns"),
        ({"first": np.full(150, 9, np.int32)}, "trial-id"),
        ({"item": np.full(150, -1, np.int32)}, "trial-id"),
        ({"item": np.zeros(150, np.int32)}, "pair-model-small"),
    ],
)
def test_wrong_trials_are_refused(change: dict[str, Floats], slug: str) -> None:
    with pytest.raises(StatisticsError) as caught:
        fit(draw()._replace(**change))
    assert caught.value.slug == slug


def test_an_agent_paired_with_itself_is_refused() -> None:
    trials = draw()
    with pytest.raises(StatisticsError, match="with itself"):
        fit(trials._replace(second=trials.first))
