"""Which agents two judges' runs tell apart, and whether both put them in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from youden.nouns import Target
from youden.nouns.arrays import Bools

MOST_SHOWN = 5
SPEAKS_OF: dict[Target, str] = {
    "items-like-these": "more items of this kind",
    "these-items": "these items alone, as if every comparison of them had been asked",
}


@dataclass(frozen=True)
class Orders:
    """Pairs of shared agents by what their differences tell, each pair at 95 %, in the runs' own rankings.

    n_pairs: all; one, other: told apart by that run; both: by each of the two. turned: pairs (above by the one, above by the
    other) that both tell apart, in opposite orders, n_turned in all and the first of them.
    """

    n_pairs: int
    one: int
    other: int
    both: int
    n_turned: int
    turned: tuple[tuple[str, str], ...]


def orders(one: Bools, other: Bools, agent_ids: Sequence[str]) -> Orders:
    """Of two runs; one, other: bool[K, K], whether the row's agent is told above the column's."""
    K = len(agent_ids)
    above, below = np.nonzero(one & other.T)
    return Orders(
        n_pairs=K * (K - 1) // 2,
        one=int(one.sum()),
        other=int(other.sum()),
        both=int((one & (other | other.T)).sum()),
        n_turned=len(above),
        turned=tuple((agent_ids[i], agent_ids[k]) for i, k in zip(above[:MOST_SHOWN], below[:MOST_SHOWN], strict=True)),
    )


def order_words(names: tuple[str, str], found: Orders, target: Target) -> str:
    """What of the two orders is sure, and what that speaks of."""
    one, other = names
    said = (
        f"Of {found.n_pairs:,} pairs of agents {one} tells {found.one:,} apart and {other} {found.other:,}, by differences on "
        f"{SPEAKS_OF[target]} (95 % a pair); {found.both:,} are told apart by both, "
    )
    if not found.n_turned:
        return f"{said}all in the same order." if found.both else f"{said}so nothing says whether their orders differ."
    named = ", ".join(f"{above} over {below}" for above, below in found.turned)
    rest = f" and {found.n_turned - len(found.turned)} more" if found.n_turned > len(found.turned) else ""
    return f"{said}{found.n_turned:,} of them in opposite orders: {one} puts {named}{rest}."
