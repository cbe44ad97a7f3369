"""How one judge's answers differ from another's on the same paired trials, agent by agent.

Neither judge is taken to be right: every shift of the other is a shift against the one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats, Ids, Positions, freeze
from youden.stats.base.clusters import NOTHING
from youden.stats.base.validation import check_level
from youden.stats.judges.curved_relation import curved_relation
from youden.stats.trials.comparisons import holm
from youden.stats.trials.quiet_differences import unseen_share

LEAST_TRIALS_AN_AGENT = 4
"""Trials that both judges answered, an agent, below which nothing is said of agents."""


@dataclass(frozen=True, eq=False)
class JudgeShift:
    """The other judge against the one, on paired trials.

    one: float[K], the one's agent effects a (y ≈ a_i + a_k) over all it answered; other: float[K], the other's e, had it answered
    as much; covariance: float[K, K] of e. one_seen, other_seen: float[K], effects from the trials both answered alone.
    slope: of the line e ≈ c₀ + c₁a over agents, 1 where both tell agents apart alike.
    shift: float[K], off a curve in a (see `curved_relation`); low, high: its interval; p_value, p_holm: float[K], of no shift
    beyond what agents differ by. NaN for an agent without trials on both sides. score, information, variance: float[K] and twice
    float[K, K], from which `label_shift` reads what a label adds; plain_score, plain_information: the same with nothing taken out
    for errors of `one`. n_trials: answered by both; n_of: int[K], of an agent; hidden: float[K], how much they may not have shown
    yet, 1 where the judges differ on none. level: of the intervals.
    reliability, other_reliability: share of the spread of `one`, of `other`, over agents that is not its own error, in [0, 1].
    """

    one: Floats
    other: Floats
    covariance: Floats
    one_seen: Floats
    other_seen: Floats
    slope: float
    shift: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_holm: Floats
    score: Floats
    information: Floats
    variance: Floats
    plain_score: Floats
    plain_information: Floats
    n_trials: int
    n_of: Positions
    hidden: Floats
    level: float
    reliability: float
    other_reliability: float

    def __post_init__(self) -> None:
        freeze([self.one, self.other, self.covariance, self.one_seen, self.other_seen])
        freeze([self.shift, self.low, self.high, self.p_value, self.p_holm, self.score])
        freeze([self.information, self.variance, self.plain_score, self.plain_information, self.n_of, self.hidden])

    @property
    def known(self) -> Bools:
        """bool[K]: agents with trials that both judges answered."""
        return ~np.isnan(self.other)

    def least_half_width(self, member: Bools, level: float) -> float:
        """Of every interval of `member`, bool[K], against the rest: so many trials in a row may agree by chance."""
        sides = [side & self.known for side in (member, ~member)]
        return math.hypot(*(self._unseen(side, level) for side in sides))

    def _unseen(self, side: Bools, level: float) -> float:
        n = self.n_of[side]
        return float(unseen_share((1 - level) / 2, n.sum()) * np.sqrt(np.average(self.hidden[side], weights=n)))


def judge_shift(
    first: Ids, second: Ids, one: Floats, other: Floats, *, n_agents: int, level: float = 0.95
) -> JudgeShift:
    """What the other judge would say of each agent, and how far that is from what the one's answers lead to expect.

    Least squares y_other = α_i + α_k + β·y_one over trials both answered: a trial's luck that both saw cancels as far as they
    agree on trials (β = 1 is the plain difference). e = α + βa takes the one's answers to all its trials for those the other did
    not see (two-phase sampling). Shifts are off a curve in a, so that a judge that is less sure, or draws the line for a yes
    elsewhere, moves nobody. Errors of e: one variance a judge for all trials. Shifts: Student t, Holm. Where the judges never
    differ, an agent's n trials still allow a shift of at least 1 − .025^(1/n).

    first, second: int[U] in 0 … K−1; one, other: float[U], answers to paired trials, NaN where there is none.

    Raises: StatisticsError [shift-few] below 4 trials an agent that both answered or below 3 agents, [level].
    Source: regression estimator of two-phase sampling, Cochran (1977) §12.6.
    """
    check_level(level)
    both = ~(np.isnan(one) | np.isnan(other))
    known = np.bincount(np.append(first[both], second[both]), minlength=n_agents) > 0
    K, n = int(known.sum()), int(both.sum())
    if K < 3 or 2 * n < LEAST_TRIALS_AN_AGENT * K:
        raise StatisticsError(
            f"Both judges answered {n} paired trials of {K} agents; shifts of agents need {LEAST_TRIALS_AN_AGENT} trials each "
            "and 3 agents. Judge more trials with both.",
            slug="shift-few",
        )
    place = np.cumsum(known) - 1
    answered = ~np.isnan(one) & known[first] & known[second]
    mine = place[first[answered]], place[second[answered]]
    a, unscaled = _effects(*mine, one[answered], K)
    doubt = np.diag(unscaled) * _variance(one[answered] - a[mine[0]] - a[mine[1]], K)
    i, k = place[first[both]], place[second[both]]
    solved, inverse = _effects(i, k, other[both], K, beside=one[both])
    fitted = solved[i] + solved[k] + solved[K] * one[both]
    variance = _variance(other[both] - fitted, K + 1)
    onto = np.column_stack([np.eye(K), a])
    e, covariance = onto @ solved, variance * (onto @ inverse @ onto.T)
    line = np.column_stack([np.ones(K), a - a.mean()])
    slope = float((np.linalg.pinv(line) @ e)[1])
    curved = curved_relation(i, k, a, one[both] - a[i] - a[k], other[both], doubt=doubt)
    half = student.ppf((1 + level) / 2, curved.freedom) * curved.error
    moved = np.where(np.abs(curved.shift) < NOTHING, 0.0, curved.shift)

    def spread(values: Floats) -> Floats:
        found: Floats = np.full(n_agents, np.nan)
        found[known] = values
        return found

    def spread_pairs(values: Floats) -> Floats:
        found: Floats = np.full((n_agents, n_agents), np.nan)
        found[np.ix_(known, known)] = values
        return found

    return JudgeShift(
        one=spread(a),
        other=spread(e),
        covariance=spread_pairs(covariance),
        one_seen=spread(_effects(i, k, one[both], K)[0]),
        other_seen=spread(_effects(i, k, other[both], K)[0]),
        slope=slope,
        shift=spread(moved),
        low=spread(moved - half),
        high=spread(moved + half),
        p_value=spread(curved.p_value),
        p_holm=spread(holm(curved.p_value)),
        score=spread(curved.score),
        information=spread_pairs(curved.information),
        variance=spread_pairs(curved.variance),
        plain_score=spread(curved.plain_score),
        plain_information=spread_pairs(curved.plain_information),
        n_trials=n,
        n_of=np.bincount(np.append(first[both], second[both]), minlength=n_agents),
        hidden=spread(curved.hidden),
        level=level,
        reliability=_reliability(a, doubt),
        other_reliability=_reliability(e, np.diag(covariance)),
    )


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


def _variance(left: Floats, n_fitted: int) -> float:
    return float(left @ left) / max(len(left) - n_fitted, 1)


def _total(first: Ids, second: Ids, answer: Floats, K: int) -> Floats:
    return np.bincount(np.append(first, second), np.tile(answer, 2), K).astype(np.float64)
