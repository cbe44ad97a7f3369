"""Transforms that keep a text's own words and change which of them stand where."""

from __future__ import annotations

import numpy as np

from youden.text.sentences import first_pieces, pieces, sentences
from youden.text.transforms.options import wanted


def reorder(text: str, rng: np.random.Generator) -> str:
    """The sentences in another order, uniformly; a text of one sentence stays as it is."""
    parts = sentences(text)
    if len(set(parts)) < 2:
        return text
    shuffled = parts
    while shuffled == parts:
        shuffled = [parts[k] for k in rng.permutation(len(parts))]
    return " ".join(shuffled)


def omit(text: str, rng: np.random.Generator, *, share: float = 0.5) -> str:
    """The text without a share of its sentences (of its pieces, where it is one sentence), at least one of which stays."""
    wanted(share, "a number between 0 and 1", fits=0 <= share <= 1, option="share")
    parts = sentences(text)
    if len(parts) < 2:
        parts = pieces(text)
    if not parts:
        return text
    n_kept = max(1, len(parts) - round(share * len(parts)))
    kept = np.sort(rng.choice(len(parts), size=n_kept, replace=False))
    return " ".join(parts[k] for k in kept)


def truncate(text: str, rng: np.random.Generator, *, words: int = 20, share: float | None = None) -> str:
    """The first pieces of the text: so many, or a share of them, at least one."""
    wanted(words, "1 or more", fits=words >= 1, option="words")
    if share is not None:
        wanted(share, "a number between 0 and 1", fits=0 <= share <= 1, option="share")
        words = max(1, round(share * len(pieces(text))))
    return first_pieces(text, words)


def repeat(text: str, rng: np.random.Generator, *, times: int = 2) -> str:
    """The text so many times over."""
    wanted(times, "1 or more", fits=times >= 1, option="times")
    return " ".join([text] * times)


def unchanged(text: str, rng: np.random.Generator) -> str:
    """The text as it is: a clone where it is another agent's, a dump where it is the source."""
    return text
