"""The interval of a difference of two agents that holds where they hardly ever differ, and how many items would decide.

Where no item shows a difference a variance of 0 says nothing: 12 agreements of 12 still allow 26 % of items that differ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats
from youden.stats.base.clusters import unseen_square
from youden.stats.trials.item_contributions import ItemContributions, paired_difference

_MOST_ITEMS = 10**6
_LEAST = 0.4
"""Over n items: the least share of `unseen_square` kept. Single trials that rarely fail leave the few items a skewed variance."""


class QuietDifference(NamedTuple):
    """value: θ_new − θ_old; variance: as `paired_difference` gives it, own and noise together.

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
    """What items say of θ_new − θ_old. Raises: StatisticsError [difference-agent], [difference-items]."""
    found = paired_difference(of, new, old)
    share = of.weight[[new, old]].mean(axis=0)
    n_equal = 1 / float((share**2).sum())
    moved = (of.by_item[new] - of.by_item[old]) * n_equal
    hidden = float(unseen_square(moved[None], np.array([found.n_items]), least=_LEAST / found.n_items)[0])
    fewest = int((of.n_trials[[new, old]] > 0).sum(axis=1).min())
    return QuietDifference(found.value, found.own + found.noise, found.n_items, n_equal, hidden, found.noise, fewest)


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
