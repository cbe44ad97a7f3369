"""What is known before a run has answers: variances, rank correlation and top-5 recall measured on four judged domains.

Source: `python benchmarks/precision.py --only domains`, 30 plans each of GPT-4o-mini's answers that stand in the paper's data.
ρ and recall are against the domain's dense ranking of about 30 agents; where there are more agents, or they are more alike, both
are lower.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.nouns.arrays import Floats
from youden.stats.precision.forecast import half_widths
from youden.stats.precision.parts import Parts

TRIALS = (60, 120, 225, 450, 900)


class Domain(NamedTuple):
    """own, noise: mean variances, see `Parts`; widest: the widest agent's half width over the mean one at 450 trials.

    rho, recall: at each of `TRIALS` trials an agent.
    """

    name: str
    n_agents: int
    n_items: int
    own: float
    noise: float
    widest: float
    rho: tuple[float, ...]
    recall: tuple[float, ...]


DOMAINS = (
    Domain(
        "PubMed", 30, 200, 0.0080, 0.0801, 1.32, (0.932, 0.950, 0.963, 0.974, 0.982), (0.55, 0.63, 0.65, 0.73, 0.83)
    ),
    Domain("ICLR", 29, 100, 0.0113, 0.0469, 2.09, (0.841, 0.899, 0.938, 0.956, 0.972), (0.49, 0.51, 0.59, 0.64, 0.68)),
    Domain(
        "SAMSum", 30, 200, 0.0077, 0.0821, 1.18, (0.963, 0.978, 0.988, 0.992, 0.995), (0.71, 0.76, 0.85, 0.89, 0.92)
    ),
    Domain("OPUS", 31, 30, 0.0109, 0.0731, 1.57, (0.895, 0.922, 0.948, 0.966, 0.981), (0.47, 0.51, 0.57, 0.63, 0.69)),
)


class Range(NamedTuple):
    """Lowest, mean and highest of the domains."""

    low: float
    mean: float
    high: float


def prior_parts() -> Parts:
    """Own and noise of each domain's average agent: float[D] each."""
    return Parts(np.array([one.own for one in DOMAINS]), np.array([one.noise for one in DOMAINS]))


def mean_parts() -> Parts:
    """Of an average agent in an average domain: float[1] each."""
    return Parts(*(part.mean(keepdims=True) for part in prior_parts()))


def odd_parts(share: float) -> Parts:
    """Of each domain's agent at `share` from the least to the most varying: float[D]."""
    far = max(0.0, 2 * share - 1) ** 2
    parts = prior_parts()
    stretch = 1 + far * (np.array([one.widest for one in DOMAINS]) - 1)
    return Parts(parts.own * stretch**2, parts.noise * stretch**2)


def prior_half_width(n_slots: int, n_items: int) -> Range:
    """Of the average agent at `n_slots` slots on `n_items` items, were the run like one of the domains."""
    return range_of(half_widths(prior_parts(), n_slots, n_items))


def expected_rho(trials: float) -> Range | None:
    """Spearman's ρ to the dense ranking at `trials` trials an agent; None beyond what was measured."""
    return _between(trials, [one.rho for one in DOMAINS])


def expected_recall(trials: float) -> Range | None:
    """Share of the dense top 5 that is found; None beyond what was measured."""
    return _between(trials, [one.recall for one in DOMAINS])


def _between(trials: float, rows: list[tuple[float, ...]]) -> Range | None:
    if not TRIALS[0] <= trials <= TRIALS[-1]:
        return None
    return range_of(np.array([np.interp(np.log(trials), np.log(TRIALS), row) for row in rows]))


def range_of(values: Floats) -> Range:
    """Of at least one value."""
    return Range(float(values.min()), float(values.mean()), float(values.max()))
