"""Whether a new agent is good enough, too bad or undecided at each look at growing data, and whether a later look
decides.

The interval of a difference holds where two agents hardly ever differ: where no item shows a difference a variance of 0
says nothing, and 12 agreements of 12 still allow 26 % of items that differ.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.stats.base.clusters import unseen_square
from youden.stats.trials.trial_errors import ItemContributions
from youden.types.pool import Floats, Positions

_MOST_ITEMS = 10**6
_PRIOR_ITEMS = 6
_LEAST = 0.4
"""Over n items: the least share of `unseen_square` kept. Single trials that rarely fail leave the few items a skewed variance."""


class QuietDifference(NamedTuple):
    """value: θ_new − θ_old; variance: own and noise together.

    n_items: that hold a trial of either; n_equal: as many of equal weight; hidden: `unseen_square` of what each does
    to the difference. noise: the part of the variance that more trials on the same items take away. fewest: items of the agent
    that was seen on fewer.
    """

    value: float
    variance: float
    n_items: int
    n_equal: float
    hidden: float
    noise: float = 0.0
    fewest: float = math.inf

    def half_width(self, alpha: float, *, n_items: int | None = None) -> float:
        """√(t²·v + (1 − alpha^(1/m))²·hidden) at the error `alpha` on either side; never 0. m is n_equal, t has n_items − 1.

        Where nothing differs it is 1 − alpha^(1/m), exact: were a larger share of items to differ, so many in a row that do not
        would have a chance below alpha. n_items: at so many items instead, all else as it is.
        """
        times = 1.0 if n_items is None else n_items / self.n_items
        unseen = float(unseen_share(alpha, np.array(self.n_equal * times)))
        t = float(student.ppf(1 - alpha, self.n_items * times - 1))
        return math.sqrt(t**2 * self.variance / times + unseen**2 * self.hidden)


def unseen_share(alpha: float, n: Floats) -> Floats:
    """1 − alpha^(1/n): with more than that share of items moved, n unmoved ones in a row have a chance below alpha."""
    return np.asarray(-np.expm1(math.log(alpha) / n))


def quiet_difference(of: ItemContributions, new: int, old: int) -> QuietDifference:
    """Estimate θ_new − θ_old with its item-clustered variance.

    Raises
    ------
    StatisticsError
        [difference-agent] if an agent has no ability; [difference-items] for fewer than 2 items.

    Notes
    -----
    The variance is n/(n−1)·v over n items, v = Σ_j (U_new,j − U_old,j)², or (v(n−1) + 6v̄)/(n+5) if that is more, v̄ being what the
    trials of all agents vary by at as many trials. Of it, noise = (K−2)/(K−1)·Σ_i Σ_j p_ij²·within_i/n_ij over both agents: one
    partner in K − 1 is the other agent, and what both share cancels.
    """
    for agent in (new, old):
        if np.isnan(of.ability[agent]):
            raise StatisticsError(
                f"Agent number {agent} has no ability. Judge it before it is compared.", slug="difference-agent"
            )
    both, seen = [new, old], of.n_trials.any(axis=1)
    n_by_item = of.n_trials[both]
    n = int((n_by_item > 0).any(axis=0).sum())
    if n < 2:
        raise StatisticsError(f"Both agents were seen on {n} items. A difference needs 2.", slug="difference-items")
    U, K, n_trials = of.by_item[seen], int(seen.sum()), of.n_trials.sum(axis=1)
    per_trial = float((((U - U.mean(axis=0)) ** 2).sum(axis=1) * n_trials[seen]).sum()) / (K - 1)
    of_all = per_trial * float((1 / n_trials[both]).sum())
    difference = of.by_item[new] - of.by_item[old]
    own = float((difference**2).sum())
    variance = n / (n - 1) * max(own, (own * (n - 1) + _PRIOR_ITEMS * of_all) / (n - 1 + _PRIOR_ITEMS))
    within = np.nan_to_num(of.within[both]) @ (of.weight[both] ** 2 / np.maximum(n_by_item, 1)).sum(axis=1)
    noise = min((K - 2) / (K - 1) * float(within), variance)
    n_equal = 1 / float((of.weight[both].mean(axis=0) ** 2).sum())
    moved = (difference * n_equal)[None]
    hidden = float(unseen_square(moved, np.array([n]), least=_LEAST / n)[0])
    fewest = int((n_by_item > 0).sum(axis=1).min())
    value = float(of.ability[new] - of.ability[old])
    return QuietDifference(value, variance, n, n_equal, hidden, noise, fewest)


def items_that_decide(of: QuietDifference, *, margin: float, alpha: float) -> int | None:
    """The fewest items at which a difference that stays as it is passes −margin or is below 0; None above a million.

    Raises: StatisticsError [decision-error] unless 0 < alpha < ½ and margin > 0.

    >>> alike = QuietDifference(0.0, 0.0, 12, 12.0, 1.0)
    >>> round(alike.half_width(0.025), 3), items_that_decide(alike, margin=0.05, alpha=0.025)
    (0.265, 72)
    """
    if not 0 < alpha < 0.5 or margin <= 0:
        raise StatisticsError(
            f"An error of {alpha} and a margin of {margin} were given. Give an error between 0 and ½, a margin above 0.",
            slug="decision-error",
        )
    room = max(margin + of.value, -of.value)
    low, high = 2, _MOST_ITEMS
    if of.half_width(alpha, n_items=high) >= room:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if of.half_width(alpha, n_items=middle) < room else (middle + 1, high)
    return low


Verdict = Literal["better", "no worse", "worse", "undecided"]

ERROR = 0.025
"""Chance, on either side, that the first look errs; all later ones together err as often."""
_UNSURE = np.arange(0.025, 1, 0.05)


class Decision(NamedTuple):
    """The interval of a difference at the level 1 − 2·alpha, and what follows from it."""

    low: float
    high: float
    verdict: Verdict


def look_error(look: int, *, n_asked: int = 1) -> float:
    """.025 · 2^(1−look) / n_asked: the error on either side at look 1, 2, …, where `n_asked` differences are asked together.

    Over all looks at all of them a wrong 'worse' has at most the chance .05, however often one looks, and so has a wrong pass.

    Raises: StatisticsError [look-number].
    Source: Bonferroni over looks with a geometric series, as alpha spending without a last look.

    >>> look_error(1), look_error(3, n_asked=5)
    (0.025, 0.00125)
    """
    if look < 1 or n_asked < 1:
        raise StatisticsError(
            f"Look {look} at {n_asked} differences was asked for. Both count from 1.", slug="look-number"
        )
    return ERROR * 2.0 ** (1 - look) / n_asked


def decide(value: float, half: float, *, margin: float) -> Decision:
    """value ± half: passes above −margin ('better' above 0), is 'worse' below 0, else 'undecided'."""
    low, high = value - half, value + half
    if low > -margin:
        return Decision(low, high, "better" if low > 0 else "no worse")
    return Decision(low, high, "worse" if high < 0 else "undecided")


def chance_decided(
    value: float,
    parts: tuple[float, float],
    *,
    left: tuple[Floats, Floats],
    freedom: int,
    later_freedom: Positions,
    hidden: Floats,
    margin: float,
    alpha: float,
) -> Floats:
    """The chance that a later look decides if the truth is at −margin/2, where deciding is hardest: float[n].

    parts: the items' own variance and the noise, together v; left: what is left of either at the later look, float[n] each, so
    that its variance is w = own·left + noise·left. Given the value now, the later one is N(ρ·value − (1−ρ)·margin/2, w·(1−ρ)),
    ρ = w/v; between −h and h − margin it is undecided, h = √(t²w + hidden) the half width at `alpha`: never where
    h ≤ margin/2. hidden: float[n], what rare events not seen then add to h². v is an estimate: the chance is the mean over
    v·freedom/χ²_freedom, of which noise stays what it is.
    """
    own, noise = parts
    critical = student.ppf(1 - alpha, later_freedom)
    chance = np.zeros(len(later_freedom))
    for total in (own + noise) * freedom / chi2.ppf(_UNSURE, freedom):
        noisy = min(noise, total)
        later = np.minimum((total - noisy) * left[0] + noisy * left[1], total)
        h = np.sqrt(critical**2 * later + hidden)
        known = later / total if total > 0 else np.zeros(len(later))
        middle = known * value - (1 - known) * margin / 2
        spread = np.sqrt(np.maximum(later * (1 - known), np.finfo(np.float64).tiny))
        open_ = np.maximum(0.0, ndtr((h - margin - middle) / spread) - ndtr((-h - middle) / spread))
        chance += (1 - open_) / len(_UNSURE)
    return chance
