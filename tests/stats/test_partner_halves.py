"""How much a ranking owes to who else was in the pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from worlds import write_run
from youden.data.folder.run_folder import RunFolder
from youden.stats.trials.partner_halves import PartnerHalves, partner_halves
from youden.types.pool import Floats


def halves(dense: Floats, *, seed: int = 0, n_splits: int = 20) -> PartnerHalves:
    """Of D float[J, K, K]: everything asked."""
    asked = ~np.eye(dense.shape[1], dtype=bool)
    centred = dense - dense[:, asked].mean(axis=1)[:, None, None]
    times = np.where(asked, float(len(dense)), 0.0)
    return partner_halves(centred.sum(axis=0) * asked, times, rng=np.random.default_rng(seed), n_splits=n_splits)


def additive(K: int = 8, J: int = 10) -> Floats:
    ability, item = np.linspace(-0.3, 0.3, K), np.linspace(0, 0.4, J)
    return ability[:, None] + ability + item[:, None, None]


def test_where_abilities_add_up_it_matters_not_who_else_was_there() -> None:
    found = halves(additive())
    assert found.correlation == pytest.approx(1.0)
    assert found.moved.tolist() == [0.0] * 8


def test_an_agent_that_only_some_can_be_matched_to_depends_most_on_the_pool() -> None:
    dense = additive()
    side = np.array([1.0, -1, 1, -1, 0, 1, -1, 1])
    dense[:, 4] += 0.5 * side
    dense[:, :, 4] += 0.5 * side
    found = halves(dense)
    assert found.correlation < 0.95
    assert int(found.moved.argmax()) == 4


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
    one = [np.mean([m[i, k] - effect[k] for k in half if k != i]) for i in range(9)]
    other = [np.mean([m[i, k] - effect[k] for k in set(range(9)) - set(half.tolist()) - {i}]) for i in range(9)]
    places = [np.argsort(np.argsort(side)) for side in (one, other)]
    found = halves(dense, seed=1, n_splits=1)
    assert found.correlation == pytest.approx(np.corrcoef(*places)[0, 1])
    assert found.moved.tolist() == np.abs(places[0] - places[1]).tolist()


def test_a_run_says_it_and_names_at_most_three_agents(tmp_path: Path) -> None:
    write_run(tmp_path / "run", n_agents=8, n_items=30, design="cyclic", calls=2000)
    facts = RunFolder(tmp_path / "run").read_facts().partners
    assert 0 < facts.correlation < 1
    assert 1 <= len(facts.agents) <= 3
    assert [moved for _, moved in facts.agents] == sorted((moved for _, moved in facts.agents), reverse=True)
    write_run(tmp_path / "small", n_agents=4, n_items=10)
    assert RunFolder(tmp_path / "small").read_facts().partners is None
