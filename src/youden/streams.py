"""Every stream of random numbers in the package, by name, so that no two draw the same numbers from a run's seed."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

Stream = Literal[
    "holdout",
    "trials",
    "independent trials",
    "trials of held-out cells",
    "probes",
    "extension",
    "slots on new items",
    "part of a run",
    "known truth",
    "planted texts",
    "known independent trials",
    "follow-ups",
    "attackers",
    "repeats",
    "answers to label",
    "halves",
]
KEYS: Final[dict[Stream, int]] = {
    "holdout": 0,
    "trials": 1,
    "independent trials": 2,
    "trials of held-out cells": 3,
    "probes": 4,
    "extension": 5,
    "slots on new items": 6,
    "part of a run": 7,
    "known truth": 8,
    "planted texts": 9,
    "known independent trials": 10,
    "follow-ups": 11,
    "attackers": 12,
    "repeats": 13,
    "answers to label": 14,
    "halves": 15,
}


def stream(name: Stream, seed: int, *number: int) -> np.random.Generator:
    """The stream `name` of a run's seed. number: which of its streams, where there are several (an extension's step).

    NumPy pads seeds with zeros: [s, 5] and [s, 5, 0] are one stream, so a key belongs to one name alone.
    """
    return np.random.default_rng([seed, KEYS[name], *number])


def own_stream(seed: int) -> np.random.Generator:
    """The stream of a seed that belongs to one thing alone, which draws once: a judge, a baseline, a study, a sample to show.

    It is the stream `holdout` of a run with the same seed; nothing that is drawn for a run may use it.
    """
    return np.random.default_rng(seed)
