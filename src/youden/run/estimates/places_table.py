"""Abilities with the places that their differences allow, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from youden.nouns.arrays import Ids
from youden.run.estimates.ability import LEVEL, Abilities
from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.places import Differences, differences, places_at_once

if TYPE_CHECKING:
    import pandas as pd

Groups = Mapping[str, str | None]


def told_apart(found: Abilities, *, component: Ids) -> Differences:
    """All differences of abilities, and who is told apart by them; agents of two components are not compared."""
    same = component[:, None] == component
    covariance = np.where(same, found.covariance.covariance, np.nan)
    return differences(found.ability, CentredCovariance(covariance, found.covariance.freedom), level=LEVEL)


def ranking_table(
    found: Abilities, agent_ids: Sequence[str], *, apart: Differences, groups: Groups | None = None
) -> pd.DataFrame:
    """Abilities and the places their differences allow, best first."""
    import pandas as pd  # takes long to load, and a plan needs this module without its tables

    places, at_once = apart.places, places_at_once(apart)
    return pd.DataFrame(
        {
            "agent": list(agent_ids),
            "group": [(groups or {}).get(agent) for agent in agent_ids],
            "ability": found.ability,
            "low": found.low,
            "high": found.high,
            "rank_low": at_once.low,
            "rank_high": at_once.high,
            "n_trials": found.n_trials,
            "error": found.covariance.error,
            "place_low": places.low,
            "place_high": places.high,
            "target": found.target,
        }
    ).sort_values("ability", ascending=False, kind="stable", na_position="last", ignore_index=True)
