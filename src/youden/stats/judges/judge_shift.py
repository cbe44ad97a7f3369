"""How one judge's answers differ from another's on the same paired trials, agent by agent, and whether agents that
share a label differ from the rest by more than agents differ among themselves.

Neither judge is taken to be right: every shift of the other is a shift against the one. Also: how far two judges would
rank alike, where one of them has seen few trials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.stats.base.clusters import NOTHING, check_level
from youden.stats.judges.curved_relation import curved_relation
from youden.stats.trials.comparisons import holm
from youden.stats.trials.noninferiority import unseen_share
from youden.types.pool import Bools, Floats, Ids

LEAST_TRIALS_AN_AGENT = 4
"""Trials that both judges answered, an agent, below which nothing is said of agents."""


class JudgeShift:
    """How one judge's answers on paired trials differ from another's, agent by agent.

    Agents are the positions `agents`, those of which the first judge answered a trial that both answered: `one` and `other`,
    float (n,), are their additive effects under the judges, `other` as predicted for all that the first judged, with its
    `covariance`; `one_seen` and `other_seen` are those of the trials that both answered. `slope` is that of `other` on `one`.
    `shift` with its bounds `low` and `high` and `p_holm` is what `curve` leaves of each agent; `n_of` counts an agent's
    trials. The reliabilities are the shares of the variance of `one` and of `other` over agents that are not sampling
    variance.

    Notes
    -----
    Least squares of y_other = α_i + α_k + β·y_one over trials that both answered: the noise of a trial that both judges saw
    cancels as far as they agree. e = α + βa extends this to all trials of the first judge (two-phase sampling). Shifts are
    residuals from a curve in a, so that a judge with another threshold shifts no agent; Student t, Holm. If the judges never
    differ, the n trials of an agent still allow a shift of 1 − .025^(1/n).

    References
    ----------
    Cochran (1977), Sampling Techniques, §12.6.
    """

    def __init__(
        self, first: Ids, second: Ids, one: Floats, other: Floats, *, n_agents: int, level: float = 0.95
    ) -> None:
        """Compare two judges' answers to the same paired trials, NaN if missing: float (n_trials,) each.

        Raises
        ------
        StatisticsError
            [shift-few] if both answered too few trials; [level].
        """
        check_level(level)
        both = ~(np.isnan(one) | np.isnan(other))
        known = np.bincount(np.append(first[both], second[both]), minlength=n_agents) > 0
        K, n = int(known.sum()), int(both.sum())
        if K < 3 or 2 * n < LEAST_TRIALS_AN_AGENT * K:
            raise StatisticsError(
                f"Both judges answered {n} paired trials of {K} agents; shifts of agents need {LEAST_TRIALS_AN_AGENT} trials "
                "each and 3 agents. Judge more trials with both.",
                slug="shift-few",
            )
        place = np.cumsum(known) - 1
        answered = ~np.isnan(one) & known[first] & known[second]
        mine = place[first[answered]], place[second[answered]]
        a, unscaled = _effects(*mine, one[answered], K)
        doubt = _doubt(*mine, one[answered] - a[mine[0]] - a[mine[1]], unscaled)
        i, k = place[first[both]], place[second[both]]
        solved, inverse = _effects(i, k, other[both], K, beside=one[both])
        fitted = solved[i] + solved[k] + solved[K] * one[both]
        variance = _variance(other[both] - fitted, K + 1)
        onto = np.column_stack([np.eye(K), a])
        e, covariance = onto @ solved, variance * (onto @ inverse @ onto.T)
        line = np.column_stack([np.ones(K), a - a.mean()])
        curve = curved_relation(i, k, a, one[both] - a[i] - a[k], other[both], doubt=doubt)
        half = student.ppf((1 + level) / 2, curve.freedom) * curve.error
        self.agents, self.one, self.other, self.covariance = np.flatnonzero(known), a, e, covariance
        self.one_seen, self.other_seen = _effects(i, k, one[both], K)[0], _effects(i, k, other[both], K)[0]
        self.slope, self.curve = float((np.linalg.pinv(line) @ e)[1]), curve
        self.shift = np.where(np.abs(curve.shift) < NOTHING, 0.0, curve.shift)
        self.low, self.high = self.shift - half, self.shift + half
        self.p_holm, self.level = holm(curve.p_value), level
        self.n_trials, self.n_of = n, np.bincount(np.append(i, k), minlength=K)
        self.reliability, self.other_reliability = _reliability(a, doubt), _reliability(e, np.diag(covariance))

    def least_half_width(self, member: Bools, level: float) -> float:
        """Return the half-width that a shift of some agents against the others has at least: answers may hide so much."""
        return math.hypot(*(self._unseen(side, level) for side in (member, ~member)))

    def _unseen(self, side: Bools, level: float) -> float:
        n = self.n_of[side]
        return float(unseen_share((1 - level) / 2, n.sum()) * np.sqrt(np.average(self.curve.hidden[side], weights=n)))


def _reliability(effect: Floats, doubt: Floats) -> float:
    spread = float(effect.var())
    return max(0.0, 1 - float(doubt.mean()) / spread) if spread > 0 else 0.0


def _effects(first: Ids, second: Ids, answer: Floats, K: int, *, beside: Floats | None = None) -> tuple[Floats, Floats]:
    """Least squares answer ≈ x_first + x_second (+ β·beside), and the inverse of its normal equations; gauges by least norm."""
    pairs = np.zeros((K, K))
    np.add.at(pairs, (first, second), 1.0)
    normal = pairs + pairs.T
    np.fill_diagonal(normal, np.bincount(np.append(first, second), minlength=K))
    right = _total(first, second, answer, K)
    if beside is not None:
        border = _total(first, second, beside, K)[:, None]
        normal = np.block([[normal, border], [border.T, np.array([[float(beside @ beside)]])]])
        right = np.append(right, beside @ answer)
    inverse = np.asarray(np.linalg.pinv(normal, rcond=1e-10, hermitian=True), dtype=np.float64)
    return inverse @ right, inverse


def _doubt(first: Ids, second: Ids, left: Floats, inverse: Floats) -> Floats:
    """Variances of effects, each trial with its own error: a judge that nearly always says no to an agent knows it better."""
    each = inverse[:, first] + inverse[:, second]
    return np.asarray((each**2) @ left**2) * len(left) / max(len(left) - len(inverse), 1)


def _variance(left: Floats, n_fitted: int) -> float:
    return float(left @ left) / max(len(left) - n_fitted, 1)


def _total(first: Ids, second: Ids, answer: Floats, K: int) -> Floats:
    return np.bincount(np.append(first, second), np.tile(answer, 2), K).astype(np.float64)


_BENDS = np.linspace(0.0, 1.0, 21)
"""How far a curve may bend, in the rise of its straight part."""


@dataclass(frozen=True)
class RankingSeen:
    """ρ of two judges' rankings, had both judged the whole plan: median and interval at `level`, NaN where neither varies.

    ceiling: the ρ that the one would come to with itself, its own answers given anew; median.
    low and high are NaN where all but 1 − level of the draws have one ρ: no interval is a point.
    """

    rho: float
    low: float
    high: float
    level: float
    ceiling: float


def ranking_seen(shift: JudgeShift, *, rng: np.random.Generator, n_draws: int = 4000) -> RankingSeen:
    """Spearman ρ of the one's ranking (as it stands) and the other's, with the other's few trials allowed for.

    e_i ~ N(c₀ + c₁a_i + c₂a_i², τ²) beneath what was seen, τ and the curve unknown (flat priors, a bend of up to the rise of the
    straight part; τ and the bend's size on a grid of restricted likelihood): draws of all e given what was seen, and ρ of each
    with a. Not attenuated, as ρ of the estimates is. Without a bend, judges who draw the line for a yes elsewhere would seem to
    disagree: it covered .3–.6 in replays of PubMed and SAMSum, where this covers .9.
    Its ceiling is ρ of a with draws of what is beneath it, N(ā + B(a − ā), B(1 − B)·var a), B its reliability.
    """
    a, e, covariance = shift.one, shift.other, shift.covariance
    K = len(a)
    x = _unit(a - a.mean())
    if not x.any():
        return RankingSeen(np.nan, np.nan, np.nan, shift.level, np.nan)
    line = np.column_stack([np.full(K, K**-0.5), x])
    bend = _unit(x**2 - line @ (line.T @ x**2)) if K > 3 else np.zeros(K)
    fixed = np.column_stack([line, bend]) if bend.any() else line
    apart = np.linalg.svd(fixed, full_matrices=True)[0][:, fixed.shape[1] :]
    value, vector = np.linalg.eigh(apart.T @ covariance @ apart)
    basis = np.column_stack([apart @ vector, bend])
    value = np.append(value, float(bend @ covariance @ bend)).clip(0) + 1e-12
    seen = basis.T @ e
    tau2 = (np.linspace(0, 3, 301) * max(float(np.abs(seen).max()), float(np.sqrt(value.max())))) ** 2
    bent = tau2[:, None] + (_BENDS * float(x @ e)) ** 2
    log = _log(seen[:-1], value[:-1] + tau2[:, None]).sum(axis=1)[:, None] + _log(seen[-1], value[-1] + bent)
    chance = np.exp(log - log.max()).ravel()
    drawn = rng.choice(chance.size, n_draws, p=chance / chance.sum())
    own = np.repeat(tau2[drawn // len(_BENDS), None], len(value), axis=1)
    own[:, -1] = bent.ravel()[drawn]
    share = own / (own + value)
    off = share * seen + np.sqrt(share * value) * rng.standard_normal((n_draws, len(value)))
    along = x @ e + np.sqrt(max(float(x @ covariance @ x), 0.0)) * rng.standard_normal(n_draws)
    rho = _spearman_rows(along[:, None] * x + off @ basis.T, a)
    z = (1 + shift.level) / 2
    low, middle, high = np.quantile(rho, [1 - z, 0.5, z]).tolist()
    if low == high:
        low = high = np.nan
    kept = shift.reliability
    beneath = (
        a.mean() + kept * (a - a.mean()) + (kept * (1 - kept)) ** 0.5 * a.std() * rng.standard_normal((n_draws, K))
    )
    return RankingSeen(middle, low, high, shift.level, float(np.median(_spearman_rows(beneath, a))))


def _log(seen: Floats, variance: Floats) -> Floats:
    return np.asarray(-0.5 * (np.log(variance) + seen**2 / variance))


def _unit(vector: Floats) -> Floats:
    length = float(np.sqrt(vector @ vector))
    return vector / length if length > 1e-12 else np.zeros_like(vector)


def _spearman_rows(rows: Floats, reference: Floats) -> Floats:
    """ρ of every row with `reference`, ties at their mean rank; 0 for a row all equal."""
    one = rankdata(rows, axis=1)
    one -= one.mean(axis=1, keepdims=True)
    other = rankdata(reference) - (len(reference) + 1) / 2
    length = np.sqrt((one**2).sum(axis=1) * (other @ other))
    rho: Floats = np.divide(one @ other, length, out=np.zeros(len(rows)), where=length > 0)
    return rho


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
