"""Check repeats (responses of one agent to one item) that are all equal, or that differ unusually."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from youden.pools.checks.checked import format_names
from youden.types import Finding, Pool

_MAX_RELATIVE_SD, _MIN_REPORTED_SD = 3.0, 1.0
"""Repeats of an agent differ unusually if the SD of their log lengths is above two limits.

The limits are the first value times the median agent's SD, and the second value.
"""


def find_unusual_repeats(pool: Pool) -> Iterator[Finding]:
    """Yield at most two findings: for agents whose repeats are all equal, and for agents whose repeats differ too much.

    Differences are those of length, compared with the median agent.
    """
    if pool.repeat_texts is None:
        return
    has_repeats = pool.n_repeats > 1
    n_cells = has_repeats.sum(axis=1)

    # repeats of a cell are equal if they are one distinct text
    texts = np.stack(pool.texts_by_repeat)
    is_equal = np.zeros(has_repeats.shape, dtype=np.bool_)
    for k, j in np.ndindex(*has_repeats.shape):
        is_equal[k, j] = len({text for text in texts[:, k, j] if text is not None}) == 1
    is_equal_agent = (n_cells > 0) & ((is_equal & has_repeats).sum(axis=1) == n_cells)
    equal = tuple(pool.agents[k].id for k in np.flatnonzero(is_equal_agent))

    # variance of log(1 + length) over the repeats of a cell, averaged over the cells of an agent
    is_present = pool.all_present.reshape(texts.shape)
    length = pool.all_lengths.reshape(texts.shape).astype(np.float64)
    log_length = np.log1p(np.where(is_present, length, np.nan))
    variance = np.full(pool.n_agents, np.nan)
    for k in np.flatnonzero(n_cells):
        variance[k] = np.nanmean(np.nanvar(log_length[:, k, has_repeats[k]], axis=0))
    median = float(np.nanmedian(variance)) if n_cells.any() else np.nan
    threshold = max(_MAX_RELATIVE_SD**2 * median, _MIN_REPORTED_SD**2)
    unusual = tuple(pool.agents[k].id for k in np.flatnonzero(variance > threshold))
    factor = float(np.exp(np.nanmax(variance) ** 0.5)) if n_cells.any() else 1.0
    if equal:
        yield Finding(
            "repeats-equal",
            f"All repeats of {format_names(equal)} are equal.",
            "They were sampled without randomness, or copied, so they do not show how much the agent's responses vary.",
            "Sample at the temperature at which the agent is used, or remove all but one response per item.",
            agents=equal,
        )
    if unusual:
        yield Finding(
            "repeats-wild",
            f"Repeats of {format_names(unusual)} differ widely in length, by a factor of about {factor:.1f}.",
            "Some may be truncated, refused, or from another agent, so the agent's rank depends on which of them is judged.",
            "Read the shortest and the longest response of such an agent to one item.",
            agents=unusual,
        )
