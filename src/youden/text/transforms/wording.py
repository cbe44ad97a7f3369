"""Transforms that keep what a text says and change how it is put."""

from __future__ import annotations

from itertools import chain
from typing import Literal

import numpy as np
import regex

from youden.text.sentences import pieces, sentences
from youden.text.thesaurus import synonyms
from youden.text.transforms.options import wanted

_WORD = regex.compile(r"\p{L}+")
_LEAST_LETTERS = 4

FILLER = (
    "It is worth noting that this deserves attention.",
    "There is, of course, more that could be said about this.",
    "As is often the case, the details matter here.",
    "In this respect a number of things come together.",
    "This should be seen in its wider context.",
    "It goes without saying that opinions on this may differ.",
    "All in all, this is an interesting point.",
    "With that in mind, let us move on to what follows.",
)


def substitute(text: str, rng: np.random.Generator, *, share: float = 0.5) -> str:
    """A share of the English words that have synonyms replaced by one of them, its capitals kept.

    Raises: ConfigError [synonyms-missing].
    """
    wanted(share, "a number between 0 and 1", fits=0 <= share <= 1, option="share")

    def replaced(found: regex.Match[str]) -> str:
        word: str = found.group()
        if len(word) < _LEAST_LETTERS or rng.random() >= share:
            return word
        choices = synonyms(word.lower())
        if not choices:
            return word
        new = choices[int(rng.integers(len(choices)))]
        return new.upper() if word.isupper() else new.capitalize() if word[0].isupper() else new

    result: str = _WORD.sub(replaced, text)
    return result


def filler(text: str, rng: np.random.Generator, *, every: int = 1) -> str:
    """A stock sentence that says nothing after every so many sentences."""
    wanted(every, "1 or more", fits=every >= 1, option="every")
    parts = sentences(text)
    if not parts:
        return text
    stock = (FILLER[k] for k in chain.from_iterable(rng.permutation(len(FILLER)) for _ in parts))
    mixed = [[part, next(stock)] if number % every == 0 else [part] for number, part in enumerate(parts, 1)]
    return " ".join(chain.from_iterable(mixed))


def pad(text: str, rng: np.random.Generator, *, share: float = 1.0) -> str:
    """The text, then stock sentences until they are at least this share of its length in pieces."""
    wanted(share, "a number from 0 to 100", fits=0 <= share <= 100, option="share")
    wanted_pieces = share * len(pieces(text))
    added: list[str] = []
    n = 0
    while n < wanted_pieces:
        added.append(FILLER[int(rng.integers(len(FILLER)))])
        n += len(added[-1].split())
    return " ".join([text, *added]) if added else text


def case(text: str, rng: np.random.Generator, *, to: Literal["upper", "lower", "title", "swap"] = "upper") -> str:
    """The text in other letters: all capitals, all small, capitals at the start of words, or small and capital swapped."""
    ways = {"upper": str.upper, "lower": str.lower, "title": str.title, "swap": str.swapcase}
    wanted(to, "upper, lower, title or swap", fits=to in ways, option="to")
    return ways[to](text)


def bullets(text: str, rng: np.random.Generator) -> str:
    """Each sentence on a line of its own, after a dash."""
    return "\n".join(f"- {part}" for part in sentences(text)) or text
