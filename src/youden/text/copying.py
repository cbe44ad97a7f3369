"""Who copies: how much of a response is taken from its prompt word for word.

It counts runs of words. Whether copying is bad depends on the task.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from youden.nouns.arrays import Floats

N_GRAM = 5
COPYING_SHARE = 0.5


@dataclass(frozen=True)
class Copying:
    """An agent (its row) that copies, and the share of its median response that is copied, in [0, 1]."""

    agent: int
    share: float


def copied_shares(
    responses: Iterable[Sequence[Hashable]], prompt: Sequence[Hashable], *, n: int = N_GRAM
) -> list[float]:
    """For each response, the share of its runs of n words that also occur in the prompt, in [0, 1].

    Responses and prompt are words, or numbers that stand for words. A response of fewer than n words is one run, itself;
    one without words has nothing to copy: NaN.

    >>> copied_shares([["a", "b", "c"], ["b", "c", "d"], ["c"]], ["x", "a", "b", "c"], n=2)
    [1.0, 0.5, 1.0]
    """
    in_prompt: dict[int, set[tuple[Hashable, ...]]] = {}
    shares = []
    for response in responses:
        size = min(n, len(response))
        if size and size not in in_prompt:
            in_prompt[size] = set(_runs(prompt, size))
        shares.append(
            sum(map(in_prompt[size].__contains__, _runs(response, size))) / (len(response) - size + 1)
            if size
            else float("nan")
        )
    return shares


def _runs(sequence: Sequence[Hashable], size: int) -> Iterable[tuple[Hashable, ...]]:
    return zip(*(sequence[k:] for k in range(size)), strict=False)


def copying_agents(shares: Floats, *, at_least: float = COPYING_SHARE) -> tuple[Copying, ...]:
    """The agents whose median over items reaches `at_least`, in their order.

    shares: float[K, J] in [0, 1], NaN where there is no response, no word in it, or no prompt. An agent of NaN only is not
    named.
    """
    medians = [float(np.median(known)) if known.size else 0.0 for known in (row[~np.isnan(row)] for row in shares)]
    return tuple(Copying(agent, share) for agent, share in enumerate(medians) if share >= at_least)
