"""How wide intervals will be at a number of cyclic slots, and how many slots, or items, a wished width takes.

An agent's variance has two parts: what it has of its own on an item, and what a trial adds. With p_j the share of item j in an
agent's n trials, v = own·Σ_j p_j² + noise/n. More trials on the same items take away the second part alone; only more items take
away the first. A slot compares each agent twice on one item; slot s asks item s mod J.

Before a run has answers, variances, rank correlation and top-5 recall are those of four judged domains. Source:
`python benchmarks/precision.py --only domains`, 60 plans each of GPT-4o-mini's answers that stand in the paper's data, and of the
answers of `lexical`. ρ and recall are against the domain's dense ranking, mostly of about 30 agents; where there are more agents,
or they are more alike, both are lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from youden.stats.base.clusters import PRIOR_CLUSTERS
from youden.stats.trials.trial_errors import ItemContributions
from youden.types.judging import AnswerKind
from youden.types.pool import Floats


class OwnVariances(NamedTuple):
    """own, noise: float[K] ≥ 0, variances; of the item's part of an agent, and of a trial on a given item."""

    own: Floats
    noise: Floats


def parts_of(of: ItemContributions, variance: Floats) -> OwnVariances:
    """Both parts of agents whose abilities vary by `variance`, float[K], NaN where nobody knows.

    With within_i what trials of one item differ by, left_i = (v_i − (K−2)/K·within_i/n_i)/Σp²: K of a slot's residuals sum to 0.
    own: left, shrunk towards its mean by how much more it differs between agents than chance lets it (2v²/items each), between 0
    and v/Σp². noise: the rest of v, times n, so that both parts give back v. An agent about whom nothing is known gets the means.

    >>> e = np.array([[0.1, -0.1], [-0.1, 0.1], [0.0, 0.0]])
    >>> of = ItemContributions(np.zeros(3), e / 2, np.full((3, 2), 0.5), np.full((3, 2), 2.0), np.full(3, 0.06))
    >>> parts = parts_of(of, np.full(3, 0.02))
    >>> parts.own.round(3).tolist(), parts.noise.round(3).tolist()
    ([0.03, 0.03, 0.03], [0.02, 0.02, 0.02])
    """
    known = ~np.isnan(variance) & (of.weight.sum(axis=1) > 0)
    own, noise = np.zeros(len(variance)), np.zeros(len(variance))
    if known.any():
        v, p, n = variance[known], (of.weight[known] ** 2).sum(axis=1), of.n_trials[known].sum(axis=1)
        K = int(known.sum())
        within = of.within[known]
        mean_within = float(np.nanmean(within)) if not np.isnan(within).all() else np.inf
        left = (v - (K - 2) / K * np.where(np.isnan(within), mean_within, within) / n) / p
        chance = float((2 * v**2 / (of.weight[known] > 0).sum(axis=1) / p**2).mean())
        mean, spread = max(0.0, float(left.mean())), float(left.var())
        trust = max(0.0, 1 - chance / spread) if spread > 0 else 0.0
        own[known] = np.clip(mean + trust * (left - mean), 0, v / p)
        noise[known] = (v - own[known] * p) * n
        own[~known], noise[~known] = own[known].mean(), noise[known].mean()
    return OwnVariances(own, noise)


LEVEL = 0.95
MOST_ITEMS = 10_000_000
"""More items than this are not looked for."""


def item_squares(n_slots: int, n_items: int) -> float:
    """Σ_j p_j², p_j the share of item j: 1/S where no item is asked twice, 1/J where all are asked as often.

    >>> [item_squares(n, 100) for n in (50, 100, 1000)]
    [0.02, 0.01, 0.01]
    """
    full, more = divmod(n_slots, n_items)
    return float(((n_items - more) * full**2 + more * (full + 1) ** 2) / n_slots**2)


def half_widths(parts: OwnVariances, n_slots: int, n_items: int) -> Floats:
    """Of 95 % intervals for items like these at `n_slots` slots: float[K], t·√(own·Σp² + noise/2S)."""
    variance = parts.own * item_squares(n_slots, n_items) + parts.noise / (2 * n_slots)
    freedom = min(n_slots, n_items) - 1 + PRIOR_CLUSTERS
    return np.asarray(stdtrit(freedom, (1 + LEVEL) / 2) * np.sqrt(variance))


def at_share(half_width: Floats, share: float) -> float:
    """The half width that the share `share` of agents keeps, infinite where too few have one.

    >>> at_share(np.array([0.3, 0.1, 0.2, np.nan]), 0.5), at_share(np.array([0.3, np.nan]), 1.0)
    (0.2, inf)
    """
    ordered = np.sort(np.nan_to_num(half_width, nan=np.inf))
    return float(ordered[ceil(share * len(ordered) - 1e-9) - 1])


def slots_for(parts: OwnVariances, width: float, *, share: float, n_items: int, most: int) -> int | None:
    """Return the fewest slots, up to `most`, at which this share of agents has a half-width of at most `width`; None if none."""
    return _fewest(lambda n_slots: at_share(half_widths(parts, n_slots, n_items), share) <= width, most)


def items_for(parts: OwnVariances, width: float, *, share: float, n_agents: int) -> int | None:
    """Return the fewest items on which that can be had, every pair asked on each; None above `MOST_ITEMS`."""
    return _fewest(
        lambda n_items: at_share(half_widths(parts, n_items * (n_agents - 1), n_items), share) <= width, MOST_ITEMS
    )


def _fewest(suffices: Callable[[int], bool], most: int) -> int | None:
    """Find the smallest number from 2 to `most` that suffices, by bisection; None if `most` does not."""
    if most < 2 or not suffices(most):
        return None
    low, high = 1, most
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (low, mid) if suffices(mid) else (mid, high)
    return high


TRIALS = (60, 120, 225, 450, 900)


class Domain(NamedTuple):
    """name: of a judged domain, agents × items; own, noise: variances of an agent whose half width is the mean one, see
    `OwnVariances`; widest: the widest agent's over it; all at 450 trials an agent. rho, recall: at each of `TRIALS`."""

    name: str
    own: float
    noise: float
    widest: float
    rho: tuple[float, ...]
    recall: tuple[float, ...]


DOMAINS: dict[AnswerKind, tuple[Domain, ...]] = {
    "graded": (
        Domain(
            "PubMed 30 × 200", 0.0078, 0.0784, 1.33, (0.924, 0.948, 0.962, 0.974, 0.982), (0.51, 0.60, 0.65, 0.73, 0.81)
        ),
        Domain(
            "ICLR 29 × 100", 0.0099, 0.0408, 2.10, (0.837, 0.896, 0.933, 0.957, 0.971), (0.45, 0.50, 0.55, 0.63, 0.67)
        ),
        Domain(
            "SAMSum 30 × 200", 0.0077, 0.0817, 1.18, (0.960, 0.977, 0.987, 0.992, 0.995), (0.69, 0.74, 0.81, 0.85, 0.89)
        ),
        Domain(
            "OPUS 31 × 30", 0.0105, 0.0699, 1.56, (0.892, 0.929, 0.947, 0.966, 0.980), (0.48, 0.54, 0.56, 0.61, 0.68)
        ),
    ),
    "yes or no": (
        Domain(
            "PubMed 30 × 200", 0.0120, 0.1315, 1.29, (0.924, 0.949, 0.962, 0.974, 0.983), (0.51, 0.60, 0.68, 0.74, 0.82)
        ),
        Domain(
            "ICLR 29 × 100", 0.0141, 0.0649, 2.02, (0.841, 0.897, 0.933, 0.956, 0.972), (0.46, 0.50, 0.56, 0.63, 0.70)
        ),
        Domain(
            "SAMSum 30 × 200", 0.0112, 0.1345, 1.20, (0.959, 0.976, 0.986, 0.991, 0.995), (0.69, 0.75, 0.81, 0.86, 0.89)
        ),
        Domain(
            "OPUS 31 × 30", 0.0156, 0.1141, 1.42, (0.892, 0.932, 0.951, 0.968, 0.981), (0.47, 0.55, 0.54, 0.61, 0.72)
        ),
    ),
    "lexical": (
        Domain(
            "AlpacaEval 39 × 200",
            0.0086,
            0.0145,
            1.85,
            (0.947, 0.971, 0.985, 0.992, 0.995),
            (0.65, 0.76, 0.83, 0.85, 0.89),
        ),
        Domain(
            "field-notes 12 × 32",
            0.0023,
            0.0213,
            1.21,
            (0.976, 0.985, 0.987, 0.991, 1.000),
            (1.00, 1.00, 1.00, 1.00, 1.00),
        ),
    ),
}
"""By kind of answer: as recorded (graded), the same cut at ½ (yes or no), and of the judge `lexical`."""


REGRET = {
    "uniform": (
        (0.0194, 0.0119, 0.0045, 0.0039, 0.0018),
        (0.0056, 0.0056, 0.0045, 0.0034, 0.0027),
        (0.0314, 0.0207, 0.0140, 0.0028, 0.0000),
        (0.0293, 0.0186, 0.0234, 0.0169, 0.0116),
    ),
    "search": (
        (0.0101, 0.0065, 0.0012, 0.0016, 0.0014),
        (0.0040, 0.0046, 0.0041, 0.0024, 0.0018),
        (0.0178, 0.0067, 0.0014, 0.0000, 0.0000),
        (0.0251, 0.0176, 0.0147, 0.0115, 0.0106),
    ),
}
"""Mean regret at `TRIALS` trials per agent on the graded reference data sets: of uniform allocation, and of a search on as many
calls (`benchmarks/search.py`)."""


class DomainRange(NamedTuple):
    """Lowest, mean and highest of the domains."""

    low: float
    mean: float
    high: float


def prior_parts(kind: AnswerKind) -> OwnVariances:
    """Own and noise of each domain's average agent: float[D] each."""
    return OwnVariances(*np.array([[one.own, one.noise] for one in DOMAINS[kind]]).T)


def mean_parts() -> OwnVariances:
    """Of an average agent in an average domain, by answers that are yes or no: float[1] each."""
    return OwnVariances(*(part.mean(keepdims=True) for part in prior_parts("yes or no")))


def odd_parts(share: float, kind: AnswerKind) -> OwnVariances:
    """Of each domain's agent at `share` from the least to the most varying: float[D]."""
    far = max(0.0, 2 * share - 1) ** 2
    parts = prior_parts(kind)
    stretch = 1 + far * (np.array([one.widest for one in DOMAINS[kind]]) - 1)
    return OwnVariances(parts.own * stretch**2, parts.noise * stretch**2)


def prior_half_width(n_slots: int, n_items: int, kind: AnswerKind) -> DomainRange:
    """Of the average agent at `n_slots` slots on `n_items` items, were the run like one of the domains."""
    return range_of(half_widths(prior_parts(kind), n_slots, n_items))


def expected_rho(trials: float, kind: AnswerKind) -> DomainRange | None:
    """Spearman's ρ to the dense ranking at `trials` trials an agent; None beyond what was measured."""
    return _between(trials, [one.rho for one in DOMAINS[kind]])


def expected_recall(trials: float, kind: AnswerKind) -> DomainRange | None:
    """Share of the dense top 5 that is found; None beyond what was measured."""
    return _between(trials, [one.recall for one in DOMAINS[kind]])


def expected_regret(trials: float, *, search: bool) -> DomainRange | None:
    """By how much the best is better than the one named, on average; None beyond what was measured."""
    return _between(trials, REGRET["search" if search else "uniform"])


def nearest(parts: OwnVariances, n_items: int) -> float:
    """The least bound on the better of two agents alike, whatever is asked of them on so many items; parts: float[1] each."""
    return float(stdtrit(n_items - 1, (1 + LEVEL) / 2) * np.sqrt(2 * parts.own[0] / n_items))


def alike_width(within: float, n_agents: int) -> float:
    """The half width of so many agents, all alike and asked alike, at which one is known to be `within` of the best."""
    return float(within * ndtri((1 + LEVEL) / 2) / (np.sqrt(2) * -ndtri((1 - LEVEL) / (n_agents - 1))))


def _between(trials: float, rows: Sequence[tuple[float, ...]]) -> DomainRange | None:
    if not TRIALS[0] <= trials <= TRIALS[-1]:
        return None
    return range_of(np.array([np.interp(np.log(trials), np.log(TRIALS), row) for row in rows]))


def range_of(values: Floats) -> DomainRange:
    """Of at least one value."""
    return DomainRange(float(values.min()), float(values.mean()), float(values.max()))
