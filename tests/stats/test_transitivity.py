"""Test open paths in triples: none in an equivalence relation, many among independent answers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fixtures import SHARED
from skip_reasons import NO_SHARED
from youden.data.importers.peer_prediction import import_results
from youden.errors import StatisticsError
from youden.stats.judges.transitivity import count_open_paths

RECORDED = SHARED / "peer-prediction" / "eval_results" / "samsum_200_config_results"


def test_an_equivalence_relation_has_no_open_path_and_independent_answers_have_many() -> None:
    rng = np.random.default_rng(5)
    classes = rng.integers(0, 3, (4000, 3))
    a, b, c = classes.T
    equivalence = count_open_paths(np.stack([a == b, b == c, a == c], axis=1).astype(float))
    assert (equivalence.share, equivalence.low) == (0, 0)
    assert equivalence.n_paths > 1000

    independent = count_open_paths((rng.random((4000, 3)) < 0.4).astype(float))
    assert independent.low < 0.6 < independent.high
    assert independent.expected == pytest.approx(0.6, abs=0.02)


def test_the_interval_covers_the_fraction_at_the_size_of_a_calibration() -> None:
    """Draws 12 triples with these probabilities of the numbers of yes answers, 2,000 times."""
    p = np.array([0.1, 0.3, 0.2, 0.4])
    truth = p[2] / (p[2] + 3 * p[3])
    rng = np.random.default_rng(6)
    n_yes = rng.choice(4, (2000, 12), p=p)
    paths = [count_open_paths((np.arange(3) < row[:, None]).astype(float)) for row in n_yes]
    covered = np.mean([path.low <= truth <= path.high for path in paths])
    assert 0.93 <= covered <= 0.985


def test_without_a_path_the_fraction_is_unknown_and_other_shapes_are_refused() -> None:
    none = count_open_paths(np.array([[1.0, 0, 0], [np.nan, 1, 1]]))
    assert (none.n_paths, none.n_open) == (0, 0)
    assert np.isnan([none.share, none.low, none.high]).all()
    with pytest.raises(StatisticsError) as error:
        count_open_paths(np.ones((4, 2)))
    assert error.value.slug == "triples-shape"


@pytest.mark.skipif(not RECORDED.exists(), reason=NO_SHARED)
def test_a_quarter_of_the_paths_of_gpt_4o_mini_on_samsum_is_open() -> None:
    """The relation holds if the mean answer to both orders is at least ½; all triples of agents on all items."""
    rates = import_results(RECORDED).rates
    D = np.zeros((rates.n_items, rates.n_agents, rates.n_agents))
    D[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr
    is_same = (D + D.transpose(0, 2, 1)) / 2 >= 0.5
    a, b, c = np.array(list(combinations(range(rates.n_agents), 3))).T
    answers = np.stack([is_same[:, a, b], is_same[:, b, c], is_same[:, a, c]], axis=-1)
    paths = count_open_paths(answers.reshape(-1, 3).astype(float))
    assert paths.share == pytest.approx(0.2337, abs=5e-5)
    assert paths.expected == pytest.approx(0.511, abs=5e-4)
