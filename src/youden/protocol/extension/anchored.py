"""Trials that place some agents against the anchors, the agents of a run's first plan, without comparing the anchors anew."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np

from youden.nouns import Trials
from youden.nouns.arrays import Bools, Ids
from youden.protocol.designs.checks import PairRule

Comparison = tuple[int, int, int]
_TRIES = 20


def trials_against_anchors(
    eligible: Bools,
    rng: np.random.Generator,
    *,
    scored: tuple[int, ...],
    n_anchors: int,
    n_paired: int,
    asked: Set[Comparison],
    pairs: PairRule,
    items: Ids,
    start: int,
) -> Trials:
    """In every slot, on one item, each scored agent stands once first and once second, against two different anchors.

    Items come in the order `items`, round and round; anchors in one random order at a random shift a slot, so that a scored agent
    meets all of them about as often. A comparison (item, first, second) in `asked` is not asked again, nor, where `pairs` is
    unordered, its reverse: the next anchor takes its place. Slots are numbered from `start`, and drawn while they fit
    `n_paired`; fewer where everything was asked.

    eligible: bool[K, J]. scored: positions of agents. n_anchors: the anchors are agents 0 … n_anchors − 1; a scored one is never
    compared with itself.
    """
    order = rng.permutation(n_anchors).tolist()
    shifts = rng.permutation(n_anchors)
    taken = set(asked)
    taken.update((item, two, one) for item, one, two in asked if pairs == "unordered")
    rows: list[tuple[int, int, int, int]] = []
    barren = 0
    for s in range(len(items) * n_anchors):
        item = int(items[s % len(items)])
        shift = int(shifts[(s + s // len(items)) % n_anchors])
        slot: list[Comparison] = []
        for place, agent in enumerate(scored):
            if not eligible[agent, item]:
                continue
            at = shift + place * n_anchors // len(scored)
            others = (k for k in _cycle(order, at) if k != agent and eligible[k, item])
            second = next((k for k in others if (item, agent, k) not in taken), None)
            others = (k for k in _cycle(order, at + n_anchors // 2) if k not in (agent, second) and eligible[k, item])
            first = next((k for k in others if (item, k, agent) not in taken), None)
            found = [(item, agent, second)] if second is not None else []
            found += [(item, first, agent)] if first is not None else []
            taken.update(found, ((item, two, one) for item, one, two in found if pairs == "unordered"))
            slot += found
        if len(rows) + len(slot) > n_paired:
            break
        rows += [(*row, start) for row in slot]
        start += bool(slot)
        barren = 0 if slot else barren + 1
        if barren == len(items):
            break
    columns = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    return Trials.paired(*columns[:3], slot=columns[3])


def independent_against_anchors(
    eligible: Bools, rng: np.random.Generator, *, scored: tuple[int, ...], n_anchors: int, n: int
) -> Trials:
    """n independent trials spread over `scored`, each by turns first and second, against anchors' texts on other items.

    Fewer where there are not so many.
    """
    rows: dict[tuple[int, int, int, int], None] = {}
    for number in range(_TRIES * n):
        agent, anchor = scored[number % len(scored)], int(rng.integers(n_anchors))
        own, other = np.flatnonzero(eligible[agent]), np.flatnonzero(eligible[anchor])
        if len(rows) == n:
            break
        if agent == anchor or not (len(own) and len(other)):
            continue
        a, b = int(rng.choice(own)), int(rng.choice(other))
        if a != b:
            rows[(a, agent, anchor, b) if number // len(scored) % 2 == 0 else (b, anchor, agent, a)] = None
    return Trials.independent(*np.array(list(rows), dtype=np.int32).reshape(-1, 4).T)


def _cycle(order: list[int], start: int) -> Iterator[int]:
    return (order[(start + i) % len(order)] for i in range(len(order)))
