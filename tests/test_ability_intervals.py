"""Intervals of abilities, one entry for four methods, each against its slow obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from youden.errors import StatisticsError
from youden.nouns import Scores
from youden.nouns.arrays import Floats
from youden.stats.additive.ability_intervals import intervals
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.refits import refit_abilities
from youden.stats.curl.additivity import additive_effects

METHODS = ("hc2", "multinomial", "items", "jackknife")


def gappy(seed: int = 0, *, shape: tuple[int, int] = (6, 25), gaps: float = 0.3) -> Floats:
    rng = np.random.default_rng(seed)
    value = np.clip(rng.normal(0.4, 0.2, (shape[0], 1)) + rng.normal(0, 0.2, shape), -1, 1)
    holes = rng.random(shape) < gaps
    holes[:, :2] = False
    value[holes] = np.nan
    return value


def weighted(value: Floats, seed: int = 0) -> Scores:
    weight = np.where(np.isnan(value), 0, np.random.default_rng(seed).integers(1, 9, value.shape)).astype(float)
    ids = [tuple(f"{letter}{n}" for n in range(size)) for letter, size in zip("ap", value.shape, strict=True)]
    return Scores(value=value, weight=weight, role="train", kind="row", agent_ids=ids[0], item_ids=ids[1])


def centred_refit(value: Floats, weight: Floats) -> Floats:
    """θ − θ̄ by numpy's lstsq; NaN where some agent is apart."""
    agent, item = np.nonzero(weight)
    K, J = value.shape
    X = np.zeros((len(agent), K + J))
    X[np.arange(len(agent)), agent], X[np.arange(len(agent)), K + item] = 1, -1
    root = np.sqrt(weight[agent, item])
    x, _, rank, _ = np.linalg.lstsq(X * root[:, None], root * value[agent, item], rcond=None)
    joined = rank == K + len(np.unique(item)) - 1
    return x[:K] - x[:K].mean() if joined else np.full(K, np.nan)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), shape=st.sampled_from([(3, 4), (5, 12), (6, 4)]))
def test_batched_refits_are_those_of_a_loop_and_nan_where_agents_fall_apart(seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    value = rng.uniform(-1, 1, shape)
    weights = (
        rng.multinomial(value.size // 2, np.full(value.size, 1 / value.size), 12).reshape(12, *shape).astype(float)
    )
    batched = refit_abilities(value, lambda start, stop: weights[start:stop], n_draws=12)
    np.testing.assert_allclose(batched, [centred_refit(value, w) for w in weights], atol=1e-8)


def test_hc2_intervals_are_the_estimators() -> None:
    for given_ in (gappy(), weighted(gappy())):
        model, result = ClippedLinear(level=0.9).fit(given_), intervals(given_, level=0.9)
        np.testing.assert_allclose(result.ability, model.ability_, atol=1e-6)
        np.testing.assert_allclose(result.low, model.low_, atol=1e-6)
        np.testing.assert_allclose(result.high, model.high_, atol=1e-6)


def test_hc2_covariance_is_the_textbook_sandwich() -> None:
    value = gappy(1, shape=(5, 9))
    agent, item = np.nonzero(~np.isnan(value))
    X = np.zeros((len(agent), 14))
    X[np.arange(len(agent)), agent], X[np.arange(len(agent)), 5 + item] = 1, -1
    V = np.linalg.pinv(X.T @ X)
    e = value[agent, item] - X @ V @ X.T @ value[agent, item]
    move = (np.eye(5) - 1 / 5) @ (V @ X.T)[:5]
    expected = (move * (e**2 / (1 - np.diag(X @ V @ X.T)))) @ move.T
    np.testing.assert_allclose(intervals(value).covariance, expected, atol=1e-12)


def test_the_multinomial_bootstrap_is_the_papers_percentile_interval() -> None:
    value = gappy(2, shape=(4, 10))
    result = intervals(value, method="multinomial", rng=np.random.default_rng(3), n_draws=60)
    cells = np.flatnonzero(~np.isnan(value))
    drawn = cells[np.random.default_rng(3).integers(0, len(cells), (60, len(cells)))]
    weights = [np.bincount(draw, minlength=value.size).reshape(value.shape) for draw in drawn]
    refits = np.array([centred_refit(np.nan_to_num(value), w.astype(float)) for w in weights])
    refits = refits[~np.isnan(refits[:, 0])]
    ends = np.quantile(refits, [0.025, 0.975], axis=0) + result.ability.mean()
    np.testing.assert_allclose([result.low, result.high], ends, atol=1e-9)
    np.testing.assert_allclose(result.covariance, np.cov(refits.T), atol=1e-9)
    assert result.n_draws + result.n_apart == 60


def test_the_jackknife_leaves_out_one_item_at_a_time() -> None:
    value = gappy(4, shape=(4, 10))
    refits = [
        centred_refit(np.nan_to_num(np.delete(value, j, 1)), (~np.isnan(np.delete(value, j, 1))).astype(float))
        for j in range(10)
    ]
    error = np.sqrt(9 / 10 * ((refits - np.mean(refits, axis=0)) ** 2).sum(axis=0))
    result = intervals(value, method="jackknife")
    np.testing.assert_allclose(result.high - result.ability, ndtri(0.975) * error, atol=1e-9)
    assert (result.n_draws, result.n_apart) == (10, 0)


def test_whole_items_are_drawn_where_cells_depend_within_an_item() -> None:
    """Two agents that move together on every item differ by nothing: cells drawn alone cannot know, whole items do."""
    rng = np.random.default_rng(5)
    value = np.clip(rng.normal(0, 0.2, (6, 40)), -1, 1)
    value[1] = value[0] + 0.1
    by_cell, by_item = (
        intervals(value, method=method, rng=np.random.default_rng(0), n_draws=200).covariance
        for method in ("multinomial", "items")
    )
    apart = np.array([1, -1, 0, 0, 0, 0])
    assert apart @ by_item @ apart < 1e-12
    assert apart @ by_cell @ apart > 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_intervals_cover_about_as_often_as_they_say(method: str) -> None:
    rng = np.random.default_rng(6)
    theta, b, sd = rng.normal(0.3, 0.15, 10), rng.normal(0, 0.1, 50), rng.uniform(0.05, 0.2, 10)
    covered = []
    for _ in range(60):
        value = np.clip(theta[:, None] - b + sd[:, None] * rng.normal(size=(10, 50)), -1, 1)
        value[rng.random(value.shape) < 0.5] = np.nan
        result = intervals(value, method=method, rng=rng, n_draws=100)
        shift = theta.mean() - result.ability.mean()
        covered.append((result.low + shift < theta) & (theta < result.high + shift))
    assert 0.90 < np.mean(covered) < 0.985


@pytest.mark.parametrize("method", METHODS)
def test_relabelling_agents_permutes_intervals(method: str) -> None:
    value, order = gappy(7), np.array([3, 1, 0, 2, 5, 4])
    one, other = (
        intervals(v, method=method, rng=np.random.default_rng(0), n_draws=2000) for v in (value, value[order])
    )
    exact = method in ("hc2", "jackknife")
    np.testing.assert_allclose(other.ability, one.ability[order], atol=1e-12)
    np.testing.assert_allclose(other.high - other.low, (one.high - one.low)[order], rtol=1e-9 if exact else 0.1)


@pytest.mark.parametrize("method", METHODS)
def test_agents_without_a_say_have_no_interval_and_cost_no_refit(method: str) -> None:
    value = gappy(8)
    wider = np.full((8, 26), np.nan)
    wider[:6, :25], wider[6, 0] = value, 0.5
    result = intervals(wider, method=method, rng=np.random.default_rng(0), n_draws=50)
    alone = intervals(value, method=method, rng=np.random.default_rng(0), n_draws=50)
    assert np.isnan(result.low).tolist() == [False] * 6 + [True, True]
    assert np.isfinite(result.ability).tolist() == [True] * 7 + [False]
    assert np.isnan(result.covariance[6:]).all()
    np.testing.assert_allclose((result.high - result.low)[:6], alone.high - alone.low, atol=1e-9)


def test_weights_are_counts_over_their_mean() -> None:
    value = gappy(9)
    plain, equal = intervals(value), intervals(weighted(value))
    scaled = weighted(value)
    same = Scores(value, 7 * scaled.weight, "train", "row", scaled.agent_ids, scaled.item_ids)
    np.testing.assert_allclose(intervals(same).low, equal.low, atol=1e-12)
    theta = additive_effects(np.nan_to_num(value), scaled.weight).theta
    np.testing.assert_allclose(equal.ability, theta, atol=1e-12)
    assert np.abs(plain.ability - equal.ability).max() > 1e-4


def test_the_same_rng_gives_the_same_interval_and_a_wider_level_a_wider_one() -> None:
    one, other, wide = (
        intervals(gappy(10), method="items", rng=np.random.default_rng(1), level=level) for level in (0.8, 0.8, 0.99)
    )
    np.testing.assert_array_equal(one.low, other.low)
    assert (wide.high - wide.low > one.high - one.low).all()


def two_parts() -> Floats:
    value = np.full((6, 20), np.nan)
    value[:3, :10], value[3:, 10:] = gappy(11, shape=(3, 10), gaps=0), gappy(12, shape=(3, 10), gaps=0)
    return value


def test_hc2_says_nothing_across_components() -> None:
    covariance = intervals(two_parts()).covariance
    assert np.isfinite(covariance[:3, :3]).all()
    assert np.isnan(covariance[:3, 3:]).all()


@pytest.mark.parametrize(
    ("value", "params", "slug"),
    [
        (gappy(), {"method": "bca"}, "interval-method"),
        (gappy(), {"level": 0.0}, "level"),
        (gappy(), {"method": "multinomial"}, "interval-draws"),
        (gappy(), {"method": "items", "rng": np.random.default_rng(0), "n_draws": 5}, "interval-draws"),
        (two_parts(), {"method": "jackknife"}, "intervals-disconnected"),
        (gappy(shape=(1, 5)), {"method": "jackknife"}, "intervals-none"),
        (np.where(np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-3) > 0, 0.5, np.nan), {"method": "jackknife"}, None),
        (
            np.where(np.eye(5) + np.eye(5, k=1) + np.eye(5, k=-4) > 0, 0.5, np.nan),
            {"method": "items"},
            "bootstrap-thin",
        ),
        (np.full((3, 3), np.nan), {}, "scores-empty"),
        (np.full((3, 3), 1.01), {}, "scores-range"),
        (np.full((3, 3), np.inf), {}, "scores-infinite"),
    ],
)
def test_wrong_input_is_refused_with_a_reason(value: Floats, params: dict[str, object], slug: str | None) -> None:
    if slug == "bootstrap-thin":
        params = {**params, "rng": np.random.default_rng(0)}
    if slug is None:
        assert np.isfinite(intervals(value, **params).low).all()
        return
    with pytest.raises(StatisticsError) as caught:
        intervals(value, **params)
    assert caught.value.slug == slug
