"""What a call without a reply is thought to have cost: no more than calls like it did.

The cap still counts the most it can have cost. What is reported is closer: by the answers so far, and a margin above the dearest.
"""

from __future__ import annotations

import math

ENOUGH = 20
"""Answers that have to be there before anything is concluded from them."""

MARGIN = 1.25


class Usual:
    """What answers said they used, beside the most that their requests could have."""

    def __init__(self) -> None:
        self._n = 0
        self._share = 0.0
        self._most_out = 0

    def saw(self, tokens_in: int, tokens_out: int, *, most_in: int) -> None:
        """An answer whose use is believed. most_in: tokens that its request can be at most."""
        self._n += 1
        self._share = max(self._share, tokens_in / most_in)
        self._most_out = max(self._most_out, tokens_out)

    def at_most(self, most_in: int, most_out: int) -> tuple[int, int]:
        """Tokens in and out of a call of which nobody can say; (most_in, most_out) until there are `ENOUGH` answers.

        >>> usual = Usual()
        >>> for _ in range(ENOUGH):
        ...     usual.saw(100, 1, most_in=400)
        >>> usual.at_most(800, 50)
        (250, 2)
        """
        if self._n < ENOUGH:
            return most_in, most_out
        most = math.ceil(MARGIN * self._share * most_in), math.ceil(MARGIN * self._most_out)
        return min(most[0], most_in), min(most[1], most_out)
