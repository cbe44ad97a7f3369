"""What moves an ability: the variance of an answer in parts (items, luck, pairs, the rest), and what each does to a mean.

An answer is m + a_i + a_k + b_j + c_ij + c_kj + l_ijr + l_kjr' + g_ik + e: agents, the item, what each agent has of its own on
the item, its luck in the response that is shown, what the two have as a pair, and the rest, the judge's whims among it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from youden.errors import StatisticsError
from youden.streams import own_stream
from youden.types.pool import Floats, Ids, Positions
from youden.types.results import Part

MOST_NUMBERS = 3 * 10**8
"""Items are drawn where all of them would take more numbers than that."""


class VarianceParts:
    """Variance components of an answer, and what each contributes to the variance of a mean answer.

    `items` is what an agent has of its own on an item, `luck` that of one response (None if no response was shown twice),
    `pairs` what a pair has of its own (None for too few meetings), `rest` the residual of a trial. `of_items`, `of_luck`,
    `of_meeting` and `of_rest` are their factors in the variance of an ability, averaged over agents, `of_meeting` that of
    partners' own parts on the items they met; `shown_again` is how often a response was shown.

    Notes
    -----
    By moments: sums of squares of residuals by cell, by response and by trial, within items, are set to their expectations
    (Rao 1972, MINQUE with identity weights). Intervals by jackknife over items (over agents for `pairs`), Student t with
    Satterthwaite's degrees of freedom by the kurtosis of the jackknife values.

    References
    ----------
    Rao (1972), J. American Statistical Association 67. Satterthwaite (1946), Biometrics Bulletin 2.
    """

    def __init__(
        self,
        first: Ids,
        second: Ids,
        item: Ids,
        answer: Floats,
        *,
        ability: Floats,
        n_items: int,
        first_repeat: Ids | None = None,
        second_repeat: Ids | None = None,
    ) -> None:
        """Estimate from answered paired trials; ability : float array (n_agents,), NaN for agents without one.

        Raises
        ------
        StatisticsError
            [variance-few] for fewer than 3 agents, or 5 items with several trials.
        """
        K, times = int((~np.isnan(ability)).sum()), np.bincount(item, minlength=n_items)
        if K < 3 or (times > 1).sum() < 5:
            raise StatisticsError(
                f"{K} agents were compared on {int((times > 1).sum())} items more than once; to say what moves a ranking takes 3 "
                "agents and 5 such items. Judge more.",
                slug="variance-few",
            )
        effect = np.nan_to_num((K - 1) / (K - 2) * (ability - np.nanmean(ability)))
        residual = answer - effect[first] - effect[second]
        residual = residual - (np.bincount(item, residual, n_items) / np.maximum(times, 1))[item]
        responses, R = (first, second), 1
        if first_repeat is not None and second_repeat is not None:
            R = max(int(first_repeat.max()), int(second_repeat.max()))
            responses = (first * R + first_repeat - 1, second * R + second_repeat - 1)
        self._set_factors(first, second, item, responses, K=len(ability), R=R, n_items=n_items)
        has_luck = _told_apart_by_luck(first, second, item, responses, n_items=n_items)
        squares, means = _sums(first, second, item, residual, responses if has_luck else None, K=len(ability), R=R)
        found, left_out = _solved(squares, means)
        J = len(squares)
        squared = (left_out - left_out.mean(axis=0)) ** 2
        error = np.sqrt((J - 1) / J * squared.sum(axis=0))
        tails = J * (squared**2).sum(axis=0) / np.maximum(squared.sum(axis=0) ** 2, 1e-300)
        t = stdtrit(np.clip(2 * J / np.maximum(tails - 1, 1e-9), 4, J - 1), 0.975)
        own = (
            found[0] * self.of_items
            + (found[1] * self.of_luck if has_luck else 0.0)
            + float(found[:-1].sum()) * self.of_meeting
            + found[-1] * self.of_rest
        )
        own = max(own, 0.0)
        self.pairs = _pairs(first, second, item, residual, K=len(ability), own=own, n_items=n_items)
        # abilities were taken off, and with them the means of what agents have of their own
        found[0] += own + (0.0 if self.pairs is None else self.pairs.value / (K - 1))
        parts = [_interval(*of) for of in zip(found.tolist(), error.tolist(), t.tolist(), strict=True)]
        self.items, self.luck, self.rest = parts[0], parts[1] if has_luck else None, parts[-1]

    def _set_factors(
        self, first: Ids, second: Ids, item: Ids, responses: tuple[Ids, Ids], *, K: int, R: int, n_items: int
    ) -> None:
        T = np.bincount(np.append(first, second), minlength=K)
        seen = T > 0
        n = int(seen.sum())
        w = 1 / np.maximum(T, 1)
        base = (w[first] + w[second]) / n

        def squared(one: Positions, two: Positions, size: int) -> tuple[float, float]:
            """Of all cells, and the share of an agent's own."""
            B = np.bincount(np.append(one, two), np.tile(base, 2), size)
            cross = w * (np.bincount(first, B[one] + B[two], K) + np.bincount(second, B[one] + B[two], K))
            own = np.bincount(np.append(one, two), minlength=size).astype(np.float64)
            agent = np.zeros(size, dtype=np.int64)
            agent[one], agent[two] = first, second
            mine = np.bincount(agent, own**2, K) * w**2
            met, count = np.unique(
                np.append(first.astype(np.int64) * size + two, second.astype(np.int64) * size + one), return_counts=True
            )
            partners = np.bincount(met // size, count.astype(np.float64) ** 2, K) * w**2
            whole = float(((mine + partners) - 2 * cross + (B**2).sum())[seen].mean())
            return whole, float((mine / np.maximum(mine + partners, 1e-300))[seen].mean())

        J = n_items
        cells, own_cells = squared(first.astype(np.int64) * J + item, second.astype(np.int64) * J + item, K * J)
        texts, own_texts = squared(
            responses[0].astype(np.int64) * J + item, responses[1].astype(np.int64) * J + item, K * R * J
        )
        crossed = w * (np.bincount(first, base, K) + np.bincount(second, base, K))
        rest = float((w - 2 * crossed + (base**2).sum())[seen].mean())
        shown = np.unique(np.append(responses[0].astype(np.int64) * J + item, responses[1].astype(np.int64) * J + item))
        again = 2 * len(first) / len(shown)
        self.of_items, self.of_luck, self.of_meeting = cells * own_cells, texts * own_texts, cells * (1 - own_cells)
        self.of_rest, self.shown_again = rest, again


def _interval(value: float, error: float, t: float) -> Part:
    """Longer above, by the second term of exp(half / value), for a variance's error grows with it."""
    half = t * error
    return Part(value, value - half, value + half + half**2 / (2 * max(value, half, 1e-300)))


def _told_apart_by_luck(first: Ids, second: Ids, item: Ids, responses: tuple[Ids, Ids], *, n_items: int) -> bool:
    """Whether cells show two responses, and responses are shown twice: else luck cannot be told."""
    agents, texts = np.append(first, second).astype(np.int64), np.append(*responses).astype(np.int64)
    where = np.tile(item, 2)
    n_cells = len(np.unique(agents * n_items + where))
    n_texts = len(np.unique(texts * n_items + where))
    return n_cells < n_texts < len(agents)


def _sums(
    first: Ids, second: Ids, item: Ids, residual: Floats, responses: tuple[Ids, Ids] | None, *, K: int, R: int
) -> tuple[Floats, Floats]:
    order = np.argsort(item, kind="stable")
    groups = [rows for rows in np.split(order, np.flatnonzero(np.diff(item[order])) + 1) if len(rows) > 1]
    width = (K * R) if responses is not None else K
    most = max(20, MOST_NUMBERS // max(width * width, 1))
    if len(groups) > most:
        chosen = own_stream(len(groups)).choice(len(groups), most, replace=False)
        groups = [groups[at] for at in np.sort(chosen)]
    squares, means = [], []
    for rows in groups:
        e, n = residual[rows], len(rows)
        sides = [(first[rows], second[rows])] + (
            [] if responses is None else [(responses[0][rows], responses[1][rows])]
        )
        Z = []
        for one, two in sides:
            _, at = np.unique(np.append(one, two), return_inverse=True)
            table = np.zeros((n, int(at.max()) + 1))
            table[np.arange(n), at[:n]] += 1
            table[np.arange(n), at[n:]] += 1
            Z.append(table - table.mean(axis=0))  # centred within the item, as residuals are
        own = [float(((z.T @ e) ** 2).sum()) for z in Z] + [float((e**2).sum())]
        size = len(Z) + 1
        mean = np.empty((size, size))
        for a, z in enumerate(Z):
            for b, other in enumerate(Z):
                mean[a, b] = ((z.T @ other) ** 2).sum()
            mean[a, -1] = mean[-1, a] = (z**2).sum()
        mean[-1, -1] = n - 1
        squares.append(own)
        means.append(mean)
    return np.array(squares), np.array(means)


def _solved(squares: Floats, means: Floats) -> tuple[Floats, Floats]:
    """float[P], and float[J, P] without each item."""
    S, M = squares.sum(axis=0), means.sum(axis=0)
    found = np.linalg.lstsq(M, S, rcond=None)[0]
    without = np.stack([np.linalg.lstsq(M - m, S - s, rcond=None)[0] for s, m in zip(squares, means, strict=True)])
    return np.asarray(found), without


def _pairs(first: Ids, second: Ids, item: Ids, residual: Floats, *, K: int, own: float, n_items: int) -> Part | None:
    """Mean product of two residuals of a pair on different items; None where fewer than 2K products are there."""
    pair = np.minimum(first, second).astype(np.int64) * K + np.maximum(first, second)
    on_item, at = np.unique(pair * n_items + item, return_inverse=True)
    of_pair = on_item // n_items
    by_item, n_by_item = np.bincount(at, residual), np.bincount(at).astype(np.float64)
    products = np.bincount(of_pair, by_item, K * K) ** 2 - np.bincount(of_pair, by_item**2, K * K)
    n = np.bincount(of_pair, n_by_item, K * K) ** 2 - np.bincount(of_pair, n_by_item**2, K * K)
    products, n = products.reshape(K, K), n.reshape(K, K)
    total, count = products.sum(), n.sum()
    if count < 4 * K:
        return None
    of_agent, n_of_agent = products.sum(axis=0) + products.sum(axis=1), n.sum(axis=0) + n.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        without = (total - of_agent) / (count - n_of_agent)
    without = without[np.isfinite(without)]
    m = len(without)
    error = float(np.sqrt((m - 1) / m * ((without - without.mean()) ** 2).sum())) if m > 4 else float("nan")
    # two abilities were taken off each product, and what pairs have of their own is in them as its share of an agent's partners
    value = (float(total / count) + 2 * own) / (1 - 2 / max(m - 2, 3))
    return _interval(value, error, float(stdtrit(max((m - 1) / 2, 1), 0.975)))  # a pair is of two agents
