"""Transforms that hardly use the text they are given: what an agent does that makes no effort."""

from __future__ import annotations

from collections import Counter

import numpy as np

from youden.text.sentences import pieces
from youden.text.transforms.options import wanted
from youden.text.words import words

FORM = (
    "The text is about {topic}. It explains what {topic} means and gives several details. "
    "Overall it is informative and covers the main points."
)

_LEAST_LETTERS = 5
_SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvwz" for vowel in "aiou")


def template(text: str, rng: np.random.Generator, *, form: str = FORM) -> str:
    """The same sentences for every text, with its most frequent longer word in place of {topic}."""
    wanted(form, "a text with something to see in it", fits=bool(form.strip()), option="form")
    counts = Counter(words(text))
    longer = [word for word in counts if len(word) >= _LEAST_LETTERS] or list(counts) or ["this"]
    return form.replace("{topic}", max(longer, key=lambda word: (counts[word], len(word), word)))


def random_words(text: str, rng: np.random.Generator, *, n: int | None = None) -> str:
    """Words that do not exist: as many as the text has pieces, or n."""
    wanted(n, "1 or more", fits=n is None or n >= 1, option="n")
    n_words = max(1, len(pieces(text))) if n is None else n
    drawn = rng.integers(len(_SYLLABLES), size=(n_words, 3))
    return " ".join("".join(_SYLLABLES[k] for k in row) for row in drawn)


def empty(text: str, rng: np.random.Generator) -> str:
    """Nothing."""
    return ""
