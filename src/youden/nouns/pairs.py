"""What a fit knows of every two agents, kept so that a report of it needs no trial."""

from __future__ import annotations

from dataclasses import dataclass

from youden.nouns.arrays import Floats, freeze


@dataclass(frozen=True, eq=False)
class Pairs:
    """Every two agents; float[K, K] each, NaN on the diagonal and where there is nothing to say.

    agreement: mean of TPR over items, less the pair's own FPR where it has one; the first-read agent by row.
    mean, error, n: mean answer to both orders, items' own means taken off, its standard error and the answers behind it; of what
    may be learned from.
    above: 1 where the row's agent is told to be better than the column's, 0 where it is not.
    ability: float[K], of the additive fit, which predicts; NaN for an agent never seen.
    partners_seen: share of its possible partners with which a compared cell was compared; None where nothing was.
    """

    agreement: Floats
    mean: Floats
    error: Floats
    n: Floats
    above: Floats
    ability: Floats
    partners_seen: float | None

    def __post_init__(self) -> None:
        freeze([self.agreement, self.mean, self.error, self.n, self.above, self.ability])
