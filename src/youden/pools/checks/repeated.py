"""Looks at several responses of one agent to one item: all equal, or wildly different."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from youden.pools.checks.checked import listed
from youden.types import Finding, Pool

WILD, WILD_LEAST = 3.0, 1.0
"""Repeats of an agent differ wildly where the SD of the logarithm of their lengths is so many times the median agent's, and at
least so much."""


def repeat_findings(pool: Pool) -> Iterator[Finding]:
    """Agents whose repeats are all equal, and agents whose repeats differ far more in length than those of others."""
    if pool.further is None:
        return
    several = pool.n_repeats > 1
    blocks = np.stack(pool.blocks)
    same = np.array(
        [
            [len({text for text in cell if text is not None}) == 1 for cell in column]
            for column in blocks.transpose(1, 2, 0)
        ]
    )
    n = several.sum(axis=1)
    equal = tuple(pool.agents[k].id for k in np.flatnonzero((n > 0) & ((same & several).sum(axis=1) == n)))
    length = pool.every_length.reshape(blocks.shape).astype(np.float64)
    length = np.log1p(np.where(pool.every_present.reshape(blocks.shape), length, np.nan))
    spread = np.array(
        [np.nanmean(np.nanvar(length[:, k, several[k]], axis=0)) if n[k] else np.nan for k in range(len(n))]
    )
    usual = float(np.nanmedian(spread)) if (n > 0).any() else np.nan
    wild = tuple(pool.agents[k].id for k in np.flatnonzero(spread > max(WILD**2 * usual, WILD_LEAST**2)))
    factor = float(np.exp(np.nanmax(spread) ** 0.5)) if n.any() else 1.0
    if equal:
        yield Finding(
            "repeats-equal",
            f"All repeats are equal of {listed(equal)}.",
            "They were sampled without chance, or copied: they say nothing of the agent's luck.",
            "Sample at the temperature that the agent is used at, or keep one response each.",
            agents=equal,
        )
    if wild:
        yield Finding(
            "repeats-wild",
            f"Repeats differ wildly in length, by {factor:.1f} times or so, of {listed(wild)}.",
            "Some may be cut off, refused, or another agent's: the agent's place then depends on which of them is shown.",
            "Look at its shortest and its longest responses to one item.",
            agents=wild,
        )
