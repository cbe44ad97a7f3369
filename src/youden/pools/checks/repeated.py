"""Find agents whose repeats (responses of one agent to one item) are all equal, or differ unusually in length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from youden.data.pools.sampled_texts import format_names, select_ids
from youden.types import Finding, Pool
from youden.types.pool import Bools, Floats

_MAX_RELATIVE_SD, _MIN_REPORTED_SD = 3.0, 1.0
"""Repeats of an agent differ unusually if the SD of their log lengths is above two limits.

The limits are the first value times the median agent's SD, and the second value.
"""


def find_unusual_repeats(pool: Pool) -> Iterator[Finding]:
    """Report agents whose repeats (responses to the same item) are all equal, or differ unusually in length.

    Yields at most one finding for each of the two problems.
    """
    if pool.repeat_texts is None:
        return
    has_repeats = pool.n_repeats > 1
    n_cells = has_repeats.sum(axis=1)
    if not n_cells.any():
        return

    n_equal_cells = (_find_equal_repeats(pool) & has_repeats).sum(axis=1)
    is_equal_agent = (n_cells > 0) & (n_equal_cells == n_cells)
    equal = select_ids(pool.agents, np.flatnonzero(is_equal_agent))
    if equal:
        yield Finding(
            "repeats-equal",
            f"All repeats of {format_names(equal)} are equal.",
            "They were sampled without randomness, or copied, so they do not show how much the agent's responses vary.",
            "Sample at the temperature at which the agent is used, or remove all but one response per item.",
            agents=equal,
        )

    yield from _find_varying_lengths(pool, _compute_length_variance(pool, has_repeats))


def _find_varying_lengths(pool: Pool, variance: Floats) -> Iterator[Finding]:
    """Report agents whose repeated responses to one item differ much more in length than those of other agents.

    variance : float array (n_agents,), variance of the logarithm of the length over the repeats of an item, averaged
        over the items of the agent; NaN if the agent has no repeats

    Yields one finding that lists these agents, or nothing if there are none.
    """
    # the limits are standard deviations, so they are squared
    relative_limit = _MAX_RELATIVE_SD**2 * float(np.nanmedian(variance))
    threshold = max(relative_limit, _MIN_REPORTED_SD**2)
    unusual = select_ids(pool.agents, np.flatnonzero(variance > threshold))
    if unusual:
        largest_sd = np.sqrt(np.nanmax(variance))
        factor = float(np.exp(largest_sd))  # a difference of log(length) is a factor of the length
        yield Finding(
            "repeats-wild",
            f"Repeats of {format_names(unusual)} differ widely in length, by a factor of about {factor:.1f}.",
            "Some may be truncated, refused, or from another agent, so the agent's rank depends on which of them is judged.",
            "Read the shortest and the longest response of such an agent to one item.",
            agents=unusual,
        )


def _find_equal_repeats(pool: Pool) -> Bools:
    """Return whether all responses in a cell are the same text, bool array (n_agents, n_items)."""
    texts = np.stack(pool.texts_by_repeat)
    is_equal = np.zeros(texts.shape[1:], dtype=np.bool_)
    for k, j in np.ndindex(*is_equal.shape):
        distinct_texts = {text for text in texts[:, k, j] if text is not None}
        is_equal[k, j] = len(distinct_texts) == 1
    return is_equal


def _compute_length_variance(pool: Pool, has_repeats: Bools) -> Floats:
    """Compute how much the lengths of repeated responses vary, for each agent.

    The measure is the variance of log(1 + length) over the repeated responses to an item, averaged over the items on which the
    agent has repeats.

    has_repeats : bool array (n_agents, n_items)

    Returns a float array (n_agents,), NaN for an agent without repeats.
    """
    shape = (-1, *has_repeats.shape)
    is_present = pool.all_present.reshape(shape)
    length = pool.all_lengths.reshape(shape).astype(np.float64)
    log_length = np.log1p(np.where(is_present, length, np.nan))
    variance = np.full(pool.n_agents, np.nan)
    for agent in np.flatnonzero(has_repeats.any(axis=1)):
        log_length_of_agent = log_length[:, agent, has_repeats[agent]]  # (n_repeats, n_cells)
        variance_by_cell = np.nanvar(log_length_of_agent, axis=0)
        variance[agent] = np.nanmean(variance_by_cell)
    return variance
