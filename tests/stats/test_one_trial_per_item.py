"""Variance components if no agent has two trials on an item, as after many missing answers."""

import numpy as np
import pytest

from youden.stats.forecast import estimate_components
from youden.stats.trials.trial_errors import InfluenceTable


@pytest.mark.parametrize("n_unknown", [0, 1])
def test_the_whole_variance_is_residual_if_components_cannot_be_separated(n_unknown: int) -> None:
    n_agents, n_items = 4, 5
    weight = np.full((n_agents, n_items), 1 / n_items)
    n_trials = np.ones((n_agents, n_items))
    influence = InfluenceTable(
        np.zeros(n_agents), np.zeros((n_agents, n_items)), weight, n_trials, np.full(n_agents, np.nan)
    )
    variance = np.array([0.01, 0.02, 0.03, np.nan if n_unknown else 0.04])
    components = estimate_components(influence, variance)
    np.testing.assert_array_equal(components.agent_item, 0)
    np.testing.assert_allclose(components.residual[:3], n_items * variance[:3])
    assert np.isfinite(components.residual).all()
