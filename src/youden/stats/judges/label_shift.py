"""Whether agents that share a label differ from the rest by more than agents differ among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats
from youden.stats.base.validation import check_level

N_DEALS = 9999


@dataclass(frozen=True)
class LabelShift:
    """How far labelled agents lie above the others, at equal covariate.

    low, high: the interval at `level`; −∞, ∞ where so few ways to deal the labels cannot exclude anything, or where errors leave
    no information (shift is then on the scale of the score's variance). p_value: two-sided, of no difference. n_deals: ways the
    labels were dealt. reachable: whether any data could have put 0 outside the interval.
    """

    shift: float
    low: float
    high: float
    p_value: float
    n_deals: int
    level: float

    @property
    def reachable(self) -> bool:
        return bool(np.isfinite([self.low, self.high]).all())


def label_shift(
    score: Floats,
    information: Floats,
    member: Bools,
    *,
    variance: Floats | None = None,
    rng: np.random.Generator,
    level: float = 0.95,
    n_deals: int = N_DEALS,
) -> LabelShift:
    """c = F'score / F'MF, F the member column and M the information; labels dealt to other agents say how far c can be luck.

    For a fit with residual maker P of y ≈ … + c·F: score = Py, M = P (both between Z' and Z where F is one of agents and y one
    of trials). u(F; c) = F'(score − c·M·member)/√(F'VF), V the score's variance (None: M). The p-value of c counts deals F' with
    u(F'; c) ≥ u(F; c), the true one included; u is linear in c, so each deal rules out one half-line and the interval is read
    from sorted bounds. All deals where there are at most `n_deals`, else so many random ones. What agents differ by among
    themselves is in every deal, so it is no preference for a label.

    score: float[K], information, variance: float[K, K], no NaN; member: bool[K], some and not all.

    Raises: StatisticsError [label-shape], [label-all], [level].
    Source: Fisher's randomisation test and its inversion; Ernst (2004), Statistical Science 19.
    """
    check_level(level)
    K, f = len(score), int(member.sum())
    if member.shape != score.shape or information.shape != (K, K):
        raise StatisticsError(
            f"Scores and labels of different agents arrived ({score.shape}, {information.shape}, {member.shape}). "
            "Align them first.",
            slug="label-shape",
        )
    if not 0 < f < K:
        raise StatisticsError(
            f"{f} of {K} agents carry the label. Give a label that some and not all carry.", slug="label-all"
        )
    exact = comb(K, f) <= n_deals
    dealt = _all_deals(K, f) if exact else _some_deals(K, f, n_deals, rng)
    V = information if variance is None else variance
    length = np.sqrt(np.maximum(((dealt @ V) * dealt).sum(axis=1), 0))
    possible = length > 1e-6
    dealt, length = dealt[possible], length[possible]
    true = member.astype(np.float64)
    own, known = float(np.sqrt(max(float(true @ V @ true), 0.0))), float(true @ information @ true)
    if own < 1e-6 or known < 1e-12:
        return LabelShift(
            float(true @ score) / own**2 if own >= 1e-6 else np.nan, -np.inf, np.inf, 1.0, len(dealt), level
        )
    shift = float(true @ score) / known
    u, g = dealt @ score / length, dealt @ (information @ true) / length
    apart = known / own - g > 1e-9
    # a deal that is the true one (or its mirror image in the covariate, or closer to it than itself) is as extreme whatever c is
    always = len(dealt) - int(apart.sum()) + (0 if exact else 1)
    n = len(dealt) + (0 if exact else 1)
    bound = np.sort((known / own * shift - u[apart]) / (known / own - g[apart]))
    left = int((1 - level) / 2 * n + 1e-9) - always
    low, high = (bound[left], bound[-1 - left]) if 0 <= left < len(bound) else (-np.inf, np.inf)
    p = min(int((bound <= 0).sum()), int((bound >= 0).sum())) + always
    return LabelShift(shift, float(low), float(high), min(1.0, 2 * p / n), n, level)


def _all_deals(K: int, f: int) -> Floats:
    places = np.array(list(combinations(range(K), f)))
    dealt = np.zeros((len(places), K))
    dealt[np.arange(len(places))[:, None], places] = 1.0
    return dealt


def _some_deals(K: int, f: int, n: int, rng: np.random.Generator) -> Floats:
    return (np.argsort(rng.random((n, K)), axis=1) < f).astype(np.float64)
