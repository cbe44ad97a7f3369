"""A whole world imagined from a pilot: what a dense run might look like if the additive model held.

The pilot's scores, their intervals and its trials' residuals make it. Preferences of particular pairs are not in it, so budgets
tried on it look somewhat better than they will be; the world's words say so.
"""

from __future__ import annotations

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.nouns import Agent, Item, Pool, Rates
from youden.nouns.arrays import Floats
from youden.protocol.scores import train_scores
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.streams import own_stream
from youden.study.replay import DENSE_ENOUGH, World, read_world

_Z95 = 1.959964
_ROUNDING = 1e-9


def read_dense_or_imagine(folder: RunFolder, *, seed: int) -> World:
    """The world of a run's folder where it is dense, else one imagined from it. Raises: RunFolderError, StatisticsError."""
    world = read_world(folder)
    return world if world.observed >= DENSE_ENOUGH else imagine(world, seed=seed)


def imagine(pilot: World, *, seed: int) -> World:
    """A dense world: y = μ + a_i + a_k − b_j + e, clipped so that y less the FPR is in [−1, 1], e drawn from the residuals.

    a and b: of `ClippedLinear` on symmetric scores, shrunk towards their mean by their reliability (a's from its intervals, b's
    from the residuals), so that noise of the pilot is not taken for differences between agents.

    Raises: StatisticsError [pilot-thin] where fewer than 3 agents of the pilot have an interval.
    """
    rates = pilot.rates
    model = ClippedLinear().fit(train_scores(rates))
    error = (model.high_ - model.low_) / (2 * _Z95)
    if (~np.isnan(error)).sum() < 3:
        raise StatisticsError(
            "The pilot gives fewer than 3 agents an interval, so nothing says how much of their difference is noise. "
            "Give it more calls (30 an agent are a start).",
            slug="pilot-thin",
        )
    K, J = model.residual_.shape
    ability = _shrunk(model.ability_, np.where(np.isnan(error), np.nanmean(error), error))
    n_agents = (~np.isnan(model.residual_)).sum(axis=0)
    spread = np.sqrt(np.nanmean(model.residual_**2))
    difficulty = _shrunk(np.nan_to_num(model.difficulty_), spread / np.sqrt(np.maximum(n_agents, 1)))
    a = (K - 1) / (K - 2) * (ability - ability.mean())
    mean = ability.mean() + a[:, None] + a[None, :] - difficulty[:, None, None]
    known = ~np.isnan(pilot.paired)
    left = (pilot.paired - mean)[known]
    rng = own_stream(seed)
    apart = pilot.independent[known & ~np.isnan(pilot.independent)]
    rate = float(apart.mean()) if len(apart) else 0.0
    paired = np.clip(mean + rng.choice(left, size=mean.shape), rate - 1 + _ROUNDING, 1)
    paired[:, np.arange(K), np.arange(K)] = np.nan
    independent = np.where(np.isnan(paired), np.nan, rate)
    return World(
        paired,
        independent,
        Pool(
            tuple(map(Agent, rates.agent_ids)),
            tuple(map(Item, rates.item_ids)),
            np.full((K, J), "", dtype=object),
            name="imagined",
        ),
        _rates(paired, independent, rates),
        pilot.groups,
        (
            *pilot.words,
            f"The run is a pilot ({pilot.observed:.1%} of its ordered pairs were asked): figures come from a dense run imagined "
            "from its additive fit and residuals, without preferences of particular pairs, and are somewhat too good.",
        ),
    )


def _shrunk(value: Floats, error: Floats) -> Floats:
    """Towards the mean by reliability 1 − mean error² / variance, at least 0."""
    variance = float(np.nanvar(value))
    reliability = max(0.0, 1 - float(np.mean(error**2)) / variance) if variance > 0 else 0.0
    centre = float(np.nanmean(value))
    return np.where(np.isnan(value), centre, centre + np.sqrt(reliability) * (value - centre))


def _rates(paired: Floats, independent: Floats, like: Rates) -> Rates:
    item, first, second = (index.astype(np.int32) for index in np.nonzero(~np.isnan(paired)))
    ones = np.ones(len(item), dtype=np.int32)
    place = item, first, second
    return Rates(
        item=item,
        first=first,
        second=second,
        tpr=paired[place],
        fpr=independent[place],
        n_paired=ones,
        n_independent=ones,
        n_missing=np.zeros_like(ones),
        n_agents=like.n_agents,
        n_items=like.n_items,
        independent="twin",
        agent_ids=like.agent_ids,
        item_ids=like.item_ids,
    )
