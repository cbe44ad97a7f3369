"""Named streams of random numbers, one per purpose.

Streams of different names are independent, so that a new draw for one purpose does not change the others.
"""

from __future__ import annotations

from numbers import Integral
from typing import Final, Literal

import numpy as np

from youden.errors import ConfigError
from youden.types.arguments import check_argument

Stream = Literal[
    "holdout",
    "trials",
    "independent trials",
    "independent trials of rounds",
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
    "self trials",
    "known triples",
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
    "independent trials of rounds": 16,
    "self trials": 17,
    "known triples": 18,
}


def stream(name: Stream, seed: int, *number: int) -> np.random.Generator:
    """Return the random generator of a named stream. Each purpose has its own stream, independent of all others.

    Parameters
    ----------
    name : str
        A key of `KEYS`.
    seed : int
        Seed of the run.
    *number : int
        Number of the stream if several streams have the same name. For example, each step of an extension has a number.

    Returns
    -------
    numpy.random.Generator
        A generator; the same arguments give the same random numbers.

    Raises
    ------
    ConfigError
        [argument-type]: if the seed is not a whole number; [seed-invalid]: if it is negative.

    Notes
    -----
    NumPy pads seeds with zeros: [s, 5] and [s, 5, 0] give the same stream. Therefore, no two names may have the same key.
    """
    _check_seed(seed)
    return np.random.default_rng([seed, KEYS[name], *number])


def _check_seed(seed: int) -> None:
    """Raise ConfigError [argument-type] if a seed is not a whole number, or [seed-invalid] if it is negative."""
    check_argument("seed", seed, Integral, "Set a whole number, such as 0.")
    if seed < 0:
        raise ConfigError(
            f"A seed must be a whole number from 0 on: got {seed!r}. Set, for example, 0.", slug="seed-invalid"
        )


def standalone_stream(seed: int) -> np.random.Generator:
    """Return the random generator of a seed that is used for a single purpose.

    Parameters
    ----------
    seed : int
        The seed.

    Returns
    -------
    numpy.random.Generator
        A generator; the same seed gives the same random numbers.

    Raises
    ------
    ConfigError
        [argument-type]: if the seed is not a whole number; [seed-invalid]: if it is negative.

    Notes
    -----
    Judges, baselines, studies and samples of texts use this generator. Draws for a run must not use it: it gives the same random
    numbers as the stream "holdout" of a run with this seed.
    """
    _check_seed(seed)
    return np.random.default_rng(seed)
