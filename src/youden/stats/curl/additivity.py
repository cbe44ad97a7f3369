"""What the additive part of a matrix leaves: how much, where, and whether it has a direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import pinvh

from youden.errors import StatisticsError
from youden.nouns import Scores
from youden.nouns.pool import Floats, freeze
from youden.stats.base.estimator import observed_scores

_CHUNK = 2**22
_NOTHING = 1e-20


@dataclass(frozen=True, eq=False)
class ResidualMap:
    """What least squares of score ≈ ability − difficulty leaves.

    residual: float[K, J], NaN where unseen. agent_rms: float[K], item_rms: float[J], root mean squares over what was seen, NaN
    where nothing was. r2: 1 − RSS/TSS, NaN where all scores are equal. All but r2 in the scores' unit.
    """

    residual: Floats
    agent_rms: Floats
    item_rms: Floats
    r2: float

    def __post_init__(self) -> None:
        freeze([self.residual, self.agent_rms, self.item_rms])


@dataclass(frozen=True, eq=False)
class RankOneTest:
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

    def __post_init__(self) -> None:
        freeze([self.agent, self.item])


def residual_map(scores: Scores | ArrayLike) -> ResidualMap:
    """Residuals s − θ_i + b_j of the unweighted least-squares fit, their size by agent and item, and R².

    scores: float[K, J] in [−1, 1], NaN is unseen. Parts that share no agent and no item are fitted apart.

    Raises: StatisticsError as `observed_scores`.
    """
    value = observed_scores(scores)
    observed = ~np.isnan(value)
    residual = np.where(observed, additive_residuals(np.nan_to_num(value), observed.astype(np.float64)), np.nan)
    return ResidualMap(residual, _rms(residual, axis=1), _rms(residual, axis=0), additive_r2(value))


def additive_r2(value: Floats) -> float:
    """1 − RSS/TSS of the additive fit to float[K, J] on any scale, NaN unseen; NaN where all are equal."""
    observed = ~np.isnan(value)
    seen = value[observed]
    total = float(((seen - seen.mean()) ** 2).sum())
    if np.ptp(seen) == 0:
        return float("nan")
    return (
        1 - float((AdditiveDesign.of(observed.astype(np.float64)).residuals(np.nan_to_num(value)) ** 2).sum()) / total
    )


class AdditiveEffects(NamedTuple):
    """θ: float[…, K], b: float[…, J], with Σb = 0 over the items seen; 0 where unseen."""

    theta: Floats
    b: Floats


@dataclass(frozen=True, eq=False)
class AdditiveDesign:
    """Weights float[K, J], 0 where unseen, and what least squares on them has in common for all scores.

    inverse: (D − A diag(w) Aᵀ)⁺ of the shorter side, with w = 1/(column sums of A).
    """

    weight: Floats
    w: Floats
    inverse: Floats

    @classmethod
    def of(cls, weight: Floats) -> AdditiveDesign:
        A = _short_first(weight)
        m = A.sum(axis=0)
        w = np.divide(1, m, out=np.zeros_like(m), where=m > 0)
        return cls(weight, w, pinvh(np.diag(A.sum(axis=1)) - (A * w) @ A.T))

    def effects(self, value: Floats) -> AdditiveEffects:
        """Least squares of float[…, K, J], 0 where unseen.

        θ = (D − A diag(w) Aᵀ)⁺ (r − A(w∘c)), b = w∘(Aᵀθ − c), of least norm where parts are apart.
        """
        A, seen = _short_first(self.weight), self.weight > 0
        flipped = A.shape != self.weight.shape
        weighted = A * (-np.swapaxes(value, -1, -2) if flipped else value)
        c = weighted.sum(axis=-2)
        theta = (weighted.sum(axis=-1) - (c * self.w) @ A.T) @ self.inverse
        b = self.w * (theta @ A - c)
        if flipped:
            theta, b = b, theta
        shift = b.sum(axis=-1, keepdims=True) / max(1, int(seen.any(axis=0).sum()))
        return AdditiveEffects((theta - shift) * seen.any(axis=1), (b - shift) * seen.any(axis=0))

    def residuals(self, value: Floats) -> Floats:
        """s − θ_i + b_j of `effects`, 0 where unseen: float[…, K, J]."""
        theta, b = self.effects(value)
        return np.asarray((value - theta[..., :, None] + b[..., None, :]) * (self.weight > 0))


def additive_effects(value: Floats, weight: Floats) -> AdditiveEffects:
    """Weighted least squares of float[…, K, J] on one set of weights float[K, J]; both 0 where unseen."""
    return AdditiveDesign.of(weight).effects(value)


def additive_residuals(value: Floats, weight: Floats) -> Floats:
    """s − θ_i + b_j of `additive_effects`, 0 where unseen: float[…, K, J]."""
    return AdditiveDesign.of(weight).residuals(value)


def _short_first(weight: Floats) -> Floats:
    return weight if weight.shape[0] <= weight.shape[1] else weight.T


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
    observed = ~np.isnan(value)
    residual = additive_residuals(np.nan_to_num(value), observed.astype(np.float64))
    agent, item = np.full(value.shape[0], np.nan), np.full(value.shape[1], np.nan)
    agents, items = observed.any(axis=1), observed.any(axis=0)
    if (residual**2).sum() <= _NOTHING * observed.sum():
        return RankOneTest(0.0, 0.0, 1.0, n_draws, agent, item)
    u, s, vt = np.linalg.svd(residual, full_matrices=False)
    sign = np.sign(u[np.abs(u[:, 0]).argmax(), 0])
    agent[agents], item[items] = sign * u[agents, 0], sign * vt[0, items]
    flipped: list[Floats] = []
    chunk = max(1, _CHUNK // residual.size)
    for start in range(0, n_draws, chunk):
        signs = rng.choice(np.array([-1.0, 1.0]), (min(chunk, n_draws - start), *residual.shape))
        flipped.append(_leading_shares(additive_residuals(residual * signs, observed.astype(np.float64))))
    null = np.concatenate(flipped)
    share = float(s[0] ** 2 / (s**2).sum())
    p_value = (1 + int((null >= share - 1e-12).sum())) / (1 + n_draws)
    return RankOneTest(share, float(null.mean()), p_value, n_draws, agent, item)


def _leading_shares(residuals: Floats) -> Floats:
    """σ₁²/Σσ² of each float[K, J]; 0 for a matrix of zeros."""
    if residuals.shape[1] > residuals.shape[2]:
        residuals = np.swapaxes(residuals, 1, 2)
    gram = residuals @ np.swapaxes(residuals, 1, 2)
    total = np.trace(gram, axis1=1, axis2=2)
    share = np.zeros(len(total))
    np.divide(np.linalg.eigvalsh(gram)[:, -1], total, out=share, where=total > 0)
    return share


def _rms(residual: Floats, *, axis: int) -> Floats:
    n = (~np.isnan(residual)).sum(axis=axis)
    mean = np.full(len(n), np.nan)
    np.divide(np.nansum(residual**2, axis=axis), n, out=mean, where=n > 0)
    return np.asarray(np.sqrt(mean))
