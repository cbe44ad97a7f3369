"""What the additive part of a matrix leaves: how much, where, and whether it has a direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from youden.errors import StatisticsError
from youden.stats.additive.clipped_linear import explained
from youden.stats.additive.solver import solve_additive
from youden.stats.base.clusters import NOTHING
from youden.stats.base.estimator import observed_scores
from youden.types import Scores
from youden.types.cells import CellIndex
from youden.types.pool import Floats, ReadOnly


@dataclass(frozen=True, eq=False)
class ResidualMap(ReadOnly):
    """What least squares of score ≈ ability − difficulty leaves.

    residual: float[K, J], NaN where unseen. agent_rms: float[K], item_rms: float[J], root mean squares over what was seen, NaN
    where nothing was. r2: 1 − RSS/TSS, NaN where all scores are equal. All but r2 in the scores' unit.
    """

    residual: Floats
    agent_rms: Floats
    item_rms: Floats
    r2: float


@dataclass(frozen=True, eq=False)
class RankOneTest(ReadOnly):
    """Whether the residuals follow one pattern u_i·v_j more than noise would.

    share: of the residual sum of squares, the leading singular value's; expected: its mean over flips; p_value: in (0, 1].
    agent: float[K], item: float[J]: the pattern, unit vectors, the largest agent's entry positive; NaN where nothing was seen.
    """

    share: float
    expected: float
    p_value: float
    n_draws: int
    agent: Floats
    item: Floats


def residual_map(scores: Scores | ArrayLike) -> ResidualMap:
    """Residuals s − θ_i + b_j of the unweighted least-squares fit, their size by agent and item, and R².

    scores: float[K, J] in [−1, 1], NaN is unseen. Parts that share no agent and no item are fitted apart.

    Raises: StatisticsError as `observed_scores`.
    """
    value = observed_scores(scores)
    at = CellIndex.of(~np.isnan(value))
    seen = value[at.agent, at.item]
    left = additive_residuals(at, seen)
    residual = at.matrix(left, empty=np.nan)
    return ResidualMap(residual, _rms(residual, axis=1), _rms(residual, axis=0), explained(seen, left))


def additive_residuals(at: CellIndex, value: Floats) -> Floats:
    """s − θ_i + b_j of the least-squares fit of cells' values on any scale: float[N]."""
    fit = solve_additive(at.agent, at.item, value, n_agents=at.n_agents, n_items=at.n_items, constraint="none")
    return np.asarray(value - fit.ability[at.agent] + fit.difficulty[at.item])


def rank_one_test(scores: Scores | ArrayLike, *, rng: np.random.Generator, n_draws: int = 999) -> RankOneTest:
    """Test of what the additive model leaves against noise without a pattern, by random sign flips.

    T = σ₁²/Σσ² of the residuals (0 where unseen). Under the null each cell's noise is symmetric and independent, of any size by
    agent and by item; flipping signs keeps the sizes and breaks a pattern. Flipped residuals are made residuals again, as
    the observed ones are. p = (1 + flips with T ≥ observed)/(1 + n_draws). With two agents or items T is always 1.

    scores: float[K, J] in [−1, 1], NaN is unseen. Raises: StatisticsError as `observed_scores`, [bootstrap-draws].
    Source: Hong, Sheng and Dobriban (2020), 'Selecting the number of components in PCA via random signflips'.
    """
    if n_draws < 1:
        raise StatisticsError(
            f"{n_draws} sign flips were asked for. Give at least 1; 999 are usual.", slug="bootstrap-draws"
        )
    value = observed_scores(scores)
    at = CellIndex.of(~np.isnan(value))
    left = additive_residuals(at, value[at.agent, at.item])
    agent, item = np.full(at.n_agents, np.nan), np.full(at.n_items, np.nan)
    if left @ left <= NOTHING**2 * len(at):
        return RankOneTest(0.0, 0.0, 1.0, n_draws, agent, item)
    u, s, vt = np.linalg.svd(at.matrix(left, empty=0.0), full_matrices=False)
    sign = np.sign(u[np.abs(u[:, 0]).argmax(), 0])
    agent[at.agent], item[at.item] = sign * u[at.agent, 0], sign * vt[0, at.item]
    share, null = _leading_share(s), np.empty(n_draws)
    for draw in range(n_draws):
        flipped = additive_residuals(at, left * rng.choice(np.array([-1.0, 1.0]), len(at)))
        null[draw] = _leading_share(np.linalg.svd(at.matrix(flipped, empty=0.0), compute_uv=False))
    p_value = (1 + int((null >= share - NOTHING).sum())) / (1 + n_draws)
    return RankOneTest(share, float(null.mean()), p_value, n_draws, agent, item)


def _leading_share(singular: NDArray[np.floating]) -> float:
    """σ₁²/Σσ²; 0 where nothing is left."""
    total = float(singular @ singular)
    return float(singular[0] ** 2) / total if total > 0 else 0.0


def _rms(residual: Floats, *, axis: int) -> Floats:
    n = (~np.isnan(residual)).sum(axis=axis)
    mean = np.full(len(n), np.nan)
    np.divide(np.nansum(residual**2, axis=axis), n, out=mean, where=n > 0)
    return np.asarray(np.sqrt(mean))
