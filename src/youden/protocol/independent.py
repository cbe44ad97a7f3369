"""Adds the independent arm: comparisons of texts on different items, whose yes is a false positive.

It knows which cells may be touched; it refuses to know how the paired arm was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.types import IndependentRule, PairedTrials
from youden.types.arrays import Bools, Ids


@dataclass(frozen=True, eq=False)
class IndependentTrials:
    """Independent comparisons, int32[M] each: `first` on `item` against `second` on `other_item`."""

    item: Ids
    first: Ids
    second: Ids
    other_item: Ids


N_POOLED = 100
"""Independent calls of a pooled arm where the user names no number: 0 hits of 100 mean a rate under 3 % at 95 %."""


class IndependentArm(NamedTuple):
    """Which independent arm, and how many calls a pooled one makes."""

    rule: IndependentRule
    n: int


def independent_arm(asked: str, n: int | None = None) -> IndependentArm:
    """What `twin`, `pooled` or `pooled:N` asks for; n: the number where it was given apart.

    Raises: PlanError [independent-rule], [independent].

    >>> independent_arm("pooled:300")
    IndependentArm(rule='pooled', n=300)
    """
    name, colon, number = asked.partition(":")
    if name not in ("twin", "pooled") or (colon and not (name == "pooled" and number.isdecimal())):
        raise PlanError(f"'{asked}' is no independent arm. Give twin, pooled or pooled:N.", slug="independent-rule")
    if colon and n is not None and n != int(number):
        raise PlanError(f"'{asked}' and n_independent: {n} were given. Keep one of them.", slug="independent")
    count = int(number) if colon else N_POOLED if n is None else n
    if count < 0:
        raise PlanError(f"n_independent is {count}. Give 0 or more.", slug="independent")
    return IndependentArm("pooled" if name == "pooled" else "twin", count)


def twins(paired: PairedTrials, eligible: Bools, rng: np.random.Generator) -> IndependentTrials:
    """For every paired trial one independent trial of the same ordered pair: first's text against second's on another item.

    The other item is uniform over the second agent's eligible cells but this one (the paper's q). A second agent with one
    eligible item has no twin.
    """
    counts = eligible.sum(axis=1)
    cells = np.flatnonzero(eligible.ravel()) % eligible.shape[1]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    position = np.cumsum(eligible, axis=1) - 1
    keep = counts[paired.second] > 1
    item, first, second = paired.item[keep], paired.first[keep], paired.second[keep]
    step = 1 + np.floor(rng.random(len(item)) * (counts[second] - 1)).astype(np.int64)
    other = cells[starts[second] + (position[second, item] + step) % counts[second]]
    return IndependentTrials(item, first, second, other.astype(np.int32))


def pooled(eligible: Bools, n: int, rng: np.random.Generator) -> IndependentTrials:
    """n independent trials spread evenly: every agent stands first, and second, ⌊n/K⌋ or ⌈n/K⌉ times.

    Partners are a random cyclic shift apart in a random order; items are uniform over each agent's eligible cells, and differ.
    """
    agents = np.flatnonzero(eligible.any(axis=1))
    if n > 0 and (len(agents) < 2 or eligible.any(axis=0).sum() < 2):
        raise PlanError(
            "Independent comparisons need two agents with responses on two items. Add responses, or set n_independent: 0.",
            slug="independent",
        )
    items_of = {int(agent): np.flatnonzero(eligible[agent]) for agent in agents}
    rows: list[tuple[int, int, int, int]] = []
    tries = 0
    while len(rows) < n:
        order = rng.permutation(agents)
        shift = int(rng.integers(1, len(agents)))
        for first, second in zip(order.tolist(), np.roll(order, -shift).tolist(), strict=True):
            item, other = int(rng.choice(items_of[first])), int(rng.choice(items_of[second]))
            if item != other:
                rows.append((item, first, second, other))
        tries += 1
        if tries > 100 + 10 * n:
            raise PlanError(
                "No two agents have responses on different items, so nothing independent can be compared. "
                "Add items, or set n_independent: 0.",
                slug="independent",
            )
    columns = np.array(rows[:n], dtype=np.int32).reshape(-1, 4).T
    return IndependentTrials(*columns)
