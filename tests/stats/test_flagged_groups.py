"""Groups that agree more than any honest group on record are flagged; styles, good agents and few answers are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from youden.stats import PairChunk
from youden.stats.flagged_groups import FlaggedGroups, flag_groups
from youden.stats.partners import PairTotals
from youden.types.pool import Bools, Floats, Positions

K = 16
ABILITY = np.linspace(0.05, 0.4, K)


def agreement_of(*groups: tuple[Sequence[int], float], n: int = K) -> Floats:
    """Expected answers of pairs: a_i + a_k, but another value within each group."""
    ability = np.linspace(0.05, 0.4, n)
    expected = ability[:, None] + ability
    for members, value in groups:
        expected[np.ix_(members, members)] = value
    return expected


def totals_of(
    expected: Floats, *, n_items: int = 20, answers: str = "yes or no", compared: Bools | None = None, seed: int = 0
) -> PairTotals:
    """Draw the answers to both orders of all compared pairs on all items."""
    n = len(expected)
    rng = np.random.default_rng(seed)
    is_compared = ~np.eye(n, dtype=np.bool_) if compared is None else compared
    agents = np.argwhere(is_compared).astype(np.int32)
    first, second = np.tile(agents, (n_items, 1)).T
    item = np.repeat(np.arange(n_items, dtype=np.int32), len(agents))
    mean = expected[first, second]
    value = (rng.random(len(mean)) < mean).astype(np.float64)
    if answers == "graded":  # 0, 1/4 or 1, with the same mean
        value = np.where(rng.random(len(mean)) < 0.4, 0.25, np.clip(value, 0, 1) * (mean > 0))
        value = np.where(mean == 1, 1.0, value)
    if answers == "soft":
        value = np.clip(mean + rng.normal(0, 0.1, len(mean)), 0, 1)
    chunk = PairChunk(first, second, item, value, np.ones(len(value)), np.zeros(len(value)), n_items=n_items)
    return PairTotals.from_chunks([chunk], n)


def flagged(
    expected: Floats, *, n_items: int = 20, answers: str = "yes or no", compared: Bools | None = None
) -> FlaggedGroups:
    return flag_groups(totals_of(expected, n_items=n_items, answers=answers, compared=compared))


@pytest.mark.parametrize("answers", ["yes or no", "graded", "soft"])
def test_honest_agents_are_not_flagged(answers: str) -> None:
    assert flagged(agreement_of(), answers=answers).clusters == ()


@pytest.mark.parametrize("members", [(0, 1, 2), (1, 4, 6, 9)])
def test_agents_of_one_style_are_not_flagged_however_many_answers_there_are(members: tuple[int, ...]) -> None:
    expected = agreement_of()
    square = np.ix_(members, members)
    expected[square] += 0.4 * (1 - expected[square])
    result = flagged(expected, n_items=200)
    assert result.clusters == ()


@pytest.mark.parametrize("answers", ["yes or no", "graded", "soft"])
def test_a_ring_of_five_that_always_agrees_is_flagged_and_no_other_agent_with_it(answers: str) -> None:
    ring = (0, 3, 5, 8, 10)
    assert flagged(agreement_of((ring, 1.0)), n_items=6, answers=answers).clusters == (ring,)


def test_a_ring_of_nine_that_agrees_on_eight_of_ten_items_is_flagged() -> None:
    ring = tuple(range(9))
    expected = agreement_of((ring, 0.8), n=30)
    assert flagged(expected, n_items=10).clusters == (ring,)


def test_an_agent_with_the_style_of_a_copied_agent_is_not_flagged_with_the_copies() -> None:
    copies, twin = (0, 1, 2, 3, 4), 7
    expected = agreement_of((copies, 1.0))
    expected[twin, copies] = expected[copies, twin] = 0.7
    assert flagged(expected, n_items=40).clusters == (copies,)


def test_a_pair_that_always_agrees_is_flagged_and_one_with_eight_of_ten_is_not() -> None:
    assert flagged(agreement_of(((0, 1), 1.0)), n_items=40).clusters == ((0, 1),)
    assert flagged(agreement_of(((0, 1), 0.8)), n_items=200).clusters == ()


def test_two_rings_are_two_clusters() -> None:
    result = flagged(agreement_of(((0, 1, 2, 3), 1.0), ((4, 5, 6, 7, 8), 1.0)))
    assert result.clusters == ((4, 5, 6, 7, 8), (0, 1, 2, 3))


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_agents_does_not_matter(seed: int) -> None:
    expected = agreement_of(((0, 1, 2, 3), 0.9), ((6, 8), 1.0))
    totals = totals_of(expected, n_items=10, seed=seed)
    order: Positions = np.random.default_rng(seed).permutation(K)
    permuted = PairTotals(K)
    for name in ("total", "weight", "squares", "n_answers", "uncentered_total"):
        setattr(permuted, name, getattr(totals, name)[np.ix_(order, order)])
    result, of_permuted = flag_groups(totals), flag_groups(permuted)
    assert np.array_equal(of_permuted.flagged, result.flagged[np.ix_(order, order)])
    assert [tuple(sorted(order[list(group)])) for group in of_permuted.undecided] == list(result.undecided)


def test_a_ring_with_pairs_that_were_not_compared_is_flagged() -> None:
    ring = (0, 1, 2, 3, 4, 5)
    compared = ~np.eye(K, dtype=np.bool_)
    for i, k in ((0, 1), (2, 5)):
        compared[i, k] = compared[k, i] = False
    assert flagged(agreement_of((ring, 1.0)), compared=compared).clusters == (ring,)


def test_few_answers_make_a_pair_undecided_and_not_flagged() -> None:
    result = flagged(agreement_of(((0, 1), 1.0)), n_items=8)
    assert result.clusters == ()
    assert result.undecided[0] == (0, 1)


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_among_fewer_than_eight_agents_no_group_is_flagged(n: int) -> None:
    result = flagged(agreement_of(((0, 1), 1.0), n=n), n_items=100)
    assert result.clusters == ()
    assert result.undecided == ()


def test_without_answers_or_without_residuals_no_group_is_flagged() -> None:
    assert flag_groups(PairTotals(K)).clusters == ()
    exact = np.full((K, K), 1.0)
    assert flagged(exact, n_items=100).clusters == ()


def test_pairs_flagged_for_other_reasons_form_one_cluster_whatever_their_answers() -> None:
    prior = np.zeros((K, K), dtype=np.bool_)
    prior[3, 9] = True
    assert flag_groups(totals_of(agreement_of()), prior_flags=prior).clusters == ((3, 9),)
