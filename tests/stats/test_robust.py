"""Test the robust ranking: groups that agree beyond their abilities, and dependence on the pool."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import rankdata

from narrowing import not_none
from worlds import write_run
from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.stats import PairChunk
from youden.stats.flagged_groups import FlaggedGroups, flag_groups
from youden.stats.partners import (
    PairTotals,
    PartnerWeights,
    WeightedAbilities,
    fit_weighted_abilities,
    group_balanced_weights,
    panel_weights,
    uniform_weights,
)
from youden.stats.trials.partner_halves import PartnerSplitHalf, partner_split_half
from youden.types.pool import Bools, Floats, Ids, Positions

K, J = 14, 40


class Answers(NamedTuple):
    """Answers to both orders of all pairs on all items."""

    first: Ids
    second: Ids
    item: Ids
    value: Floats


def answers(ability: Floats, *, together: tuple[int, ...] = (), agreement: float = 1.0, seed: int = 0) -> Answers:
    """Answer yes with probability a_i + a_k plus an item effect; agents `together` always agree."""
    rng = np.random.default_rng(seed)
    n = len(ability)
    first, second = np.nonzero(~np.eye(n, dtype=np.bool_))
    item = np.repeat(np.arange(J), len(first))
    first, second = np.tile(first, J), np.tile(second, J)
    chance = ability[first] + ability[second] + rng.normal(0, 0.05, J)[item]
    chance[np.isin(first, together) & np.isin(second, together)] = agreement
    output = (rng.random(len(first)) < chance).astype(np.float64)
    return Answers(first.astype(np.int32), second.astype(np.int32), item.astype(np.int32), output)


def taken(of: Answers, rows: Bools | Positions) -> Answers:
    return Answers(of.first[rows], of.second[rows], of.item[rows], of.value[rows])


def linked(of: Answers, n: int = K) -> FlaggedGroups:
    return flag_groups(PairTotals.from_chunks(blocks(of), n))


def fitted(of: Answers, partners: PartnerWeights) -> WeightedAbilities:
    return fit_weighted_abilities(
        lambda: blocks(of), PairTotals.from_chunks(blocks(of), len(partners.importance)), partners
    )


def blocks(of: Answers) -> list[PairChunk]:
    """Yield chunks of items."""
    cuts = [np.flatnonzero(of.item // (J // 3) == part) for part in range(4)]
    parts = [(part * (J // 3), taken(of, rows)) for part, rows in enumerate(cuts) if len(rows)]
    return [
        PairChunk(
            first=half_means.first,
            second=half_means.second,
            item=half_means.item - np.int32(start),
            value=half_means.value,
            weight=np.ones(len(half_means.value)),
            rate=np.ones(len(half_means.value)),
            n_items=J,
        )
        for start, half_means in parts
    ]


ABILITY = np.linspace(0.1, 0.45, K)
EACH = np.arange(K, dtype=np.int32)
THREES: Ids = EACH // np.int32(3)


def test_with_equal_partner_weights_an_ability_is_the_mean_over_partners() -> None:
    pair_answers = answers(ABILITY)
    plain = np.array(
        [pair_answers.value[(pair_answers.first == i) | (pair_answers.second == i)].mean() for i in range(K)]
    )
    assert fitted(pair_answers, uniform_weights(K)).ability == pytest.approx(plain, abs=1e-12)


def test_honest_agents_are_not_flagged_and_weights_of_single_agents_change_nothing() -> None:
    pair_answers = answers(ABILITY)
    result = linked(pair_answers)
    assert result.clusters == ()
    alone = fitted(pair_answers, group_balanced_weights(result.cluster))
    assert alone.ability == pytest.approx(fitted(pair_answers, uniform_weights(K)).ability, abs=1e-12)


@pytest.mark.parametrize("agreement", [1.0, 0.9, 0.8])
def test_a_ring_of_the_worst_agents_is_flagged_and_falls(agreement: float) -> None:
    ring = (0, 1, 2, 3)
    pair_answers = answers(ABILITY, together=ring, agreement=agreement)
    result = linked(pair_answers)
    assert result.clusters == (ring,)
    places = rankdata(-fitted(pair_answers, group_balanced_weights(result.cluster)).ability)
    assert rankdata(-fitted(pair_answers, uniform_weights(K)).ability)[list(ring)].mean() < 10
    assert places[list(ring)].mean() == pytest.approx(12.5, abs=0.5)


def test_a_panel_scores_every_agent_and_its_own_members() -> None:
    pair_answers = answers(ABILITY, together=(0, 1, 2, 3, 4, 5, 6))
    trusted = np.isin(np.arange(K), (10, 11, 12, 13))
    assert np.corrcoef(fitted(pair_answers, panel_weights(trusted)).ability, ABILITY)[0, 1] > 0.95


def test_the_standard_error_includes_the_variance_over_items() -> None:
    worlds = [fitted(answers(ABILITY, seed=seed), group_balanced_weights(THREES)) for seed in range(30)]
    result = np.array([half_means.ability - half_means.ability.mean() for half_means in worlds])
    std_errors = np.array([half_means.covariance.std_error for half_means in worlds])
    assert np.sqrt((std_errors**2).mean() / result.var(axis=0, ddof=1).mean()) == pytest.approx(1.05, abs=0.2)


def test_one_group_and_a_panel_of_one_are_errors() -> None:
    with pytest.raises(StatisticsError, match=r"\[one-group\]"):
        group_balanced_weights(np.zeros(K, dtype=np.int32))
    with pytest.raises(StatisticsError, match=r"\[panel-small\]"):
        panel_weights(np.arange(K) == 3)


def test_an_agent_whose_partners_do_not_count_has_no_ability() -> None:
    pair_answers = answers(ABILITY)
    kept = (pair_answers.first > 1) & (pair_answers.second > 1) | ((pair_answers.first < 2) & (pair_answers.second < 2))
    result = fitted(taken(pair_answers, kept), group_balanced_weights(np.maximum(EACH - 1, 0)))
    assert np.flatnonzero(np.isnan(result.ability)).tolist() == [0, 1]


def halves(dense: Floats, *, seed: int = 0, n_splits: int = 20) -> PartnerSplitHalf:
    """Split the partners of D, float (J, K, K), with all pairs compared."""
    asked = ~np.eye(dense.shape[1], dtype=bool)
    centered = dense - dense[:, asked].mean(axis=1)[:, None, None]
    times = np.where(asked, float(len(dense)), 0.0)
    return partner_split_half(centered.sum(axis=0) * asked, times, rng=np.random.default_rng(seed), n_splits=n_splits)


def additive(K: int = 8, J: int = 10) -> Floats:
    ability, item = np.linspace(-0.3, 0.3, K), np.linspace(0, 0.4, J)
    return ability[:, None] + ability + item[:, None, None]


def test_additive_abilities_do_not_depend_on_the_partners() -> None:
    result = halves(additive())
    assert result.rho == pytest.approx(1.0)
    assert result.rank_change.tolist() == [0.0] * 8


def test_an_agent_with_few_matching_partners_depends_most_on_the_pool() -> None:
    dense = additive()
    side = np.array([1.0, -1, 1, -1, 0, 1, -1, 1])
    dense[:, 4] += 0.5 * side
    dense[:, :, 4] += 0.5 * side
    result = halves(dense)
    assert result.rho < 0.95
    assert int(result.rank_change.argmax()) == 4


def test_one_split_is_the_correlation_of_two_means_over_partners() -> None:
    rng = np.random.default_rng(3)
    dense = additive(9) + 0.2 * rng.standard_normal((10, 9, 9))
    m = dense - dense[:, ~np.eye(9, dtype=bool)].mean(axis=1)[:, None, None]
    m = (m + m.transpose(0, 2, 1)).mean(axis=0) / 2
    pairs = np.argwhere(np.triu(np.ones((9, 9), dtype=bool), 1))
    design = np.zeros((len(pairs), 9))
    for row, pair in enumerate(pairs):
        design[row, pair] = 1
    effect = np.linalg.lstsq(design, m[pairs[:, 0], pairs[:, 1]], rcond=None)[0]
    half = np.random.default_rng(1).permutation(9)[:4]
    half_means = [np.mean([m[i, k] - effect[k] for k in half if k != i]) for i in range(9)]
    other_half_means = [
        np.mean([m[i, k] - effect[k] for k in set(range(9)) - set(half.tolist()) - {i}]) for i in range(9)
    ]
    places = [np.argsort(np.argsort(side)) for side in (half_means, other_half_means)]
    result = halves(dense, seed=1, n_splits=1)
    assert result.rho == pytest.approx(np.corrcoef(places[0], places[1])[0, 1])
    assert result.rank_change.tolist() == np.abs(places[0] - places[1]).tolist()


def test_a_run_states_pool_dependence_and_names_at_most_three_agents(tmp_path: Path) -> None:
    write_run(tmp_path / "run", n_agents=8, n_items=30, design="cyclic", calls=2000)
    facts = not_none(RunFolder(tmp_path / "run").read_facts().partners)
    assert 0 < facts.split_half_rho < 1
    assert 1 <= len(facts.agents) <= 3
    assert [moved for _, moved in facts.agents] == sorted((moved for _, moved in facts.agents), reverse=True)
    write_run(tmp_path / "small", n_agents=4, n_items=10)
    assert RunFolder(tmp_path / "small").read_facts().partners is None
