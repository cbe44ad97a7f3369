"""Turns chosen cells into comparisons: each chosen cell against partners on its item."""

from __future__ import annotations

import numpy as np

from youden.nouns import Trials
from youden.nouns.arrays import Bools, Positions
from youden.protocol.designs.checks import PairRule

_CHUNK = 1 << 24


def n_comparisons(chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule) -> int:
    """How many comparisons `compare` makes; the most it can make where unordered pairs have few partners."""
    n_chosen, m = chosen.sum(axis=0, dtype=np.int64), eligible.sum(axis=0, dtype=np.int64)
    if pairs == "unordered" and n_partners is None:
        return int((n_chosen * (m - n_chosen) + n_chosen * (n_chosen - 1) // 2).sum())
    each = m - 1 if n_partners is None else np.minimum(m - 1, n_partners)
    return int((n_chosen * each).sum())


def compare(
    chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule, rng: np.random.Generator
) -> Trials:
    """Every chosen cell against its partners on the item: all other eligible agents, or `n_partners` of them at random.

    ordered: the chosen cell stands first (the row score's D[j, i, k]); where both cells of a pair are chosen, both orders are
    asked. unordered: one comparison a pair, which serves both cells, in an order drawn by coin.
    chosen, eligible: bool[K, J], chosen within eligible. Sorted by item, then first, then second agent.
    """
    shape = chosen.shape[1], len(chosen), len(chosen)
    on, who = np.nonzero(chosen.T)
    step = max(1, _CHUNK // len(chosen))
    blocks = [slice(start, start + step) for start in range(0, len(on), step)]
    chunks = [_met(on[block], who[block], eligible, n_partners=n_partners, rng=rng) for block in blocks]
    cell = np.concatenate([cells + block.start for (cells, _), block in zip(chunks, blocks, strict=True)] or [on])
    other = np.concatenate([others for _, others in chunks] or [on])
    pair = np.ravel_multi_index((on[cell], who[cell], other), shape)
    if pairs == "unordered":
        low, high = np.minimum(who[cell], other), np.maximum(who[cell], other)
        pair = np.unique(np.ravel_multi_index((on[cell], low, high), shape))
        low, high = np.unravel_index(pair, shape)[1:]
        swap = rng.random(len(pair)) < 0.5
        pair = np.where(swap, pair + (high - low) * (len(chosen) - 1), pair)
    item, first, second = (column.astype(np.int32) for column in np.unravel_index(pair, shape))
    return Trials.paired(item, first, second)


def _met(
    on: Positions, who: Positions, eligible: Bools, *, n_partners: int | None, rng: np.random.Generator
) -> tuple[Positions, Positions]:
    """Which of these cells meets whom: position of the cell, and the partner."""
    partner = eligible.T[on]
    partner[np.arange(len(who)), who] = False
    if n_partners is not None and n_partners < partner.shape[1] - 1:
        key = np.where(partner, rng.random(partner.shape, dtype=np.float32), np.inf)
        nearest = np.argpartition(key, n_partners - 1, axis=1)[:, :n_partners]
        near = np.zeros_like(partner)
        np.put_along_axis(near, nearest, True, axis=1)
        partner &= near
    cell, other = np.nonzero(partner)
    return cell, other
