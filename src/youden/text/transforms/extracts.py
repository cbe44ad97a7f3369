"""Transforms that answer a source with sentences of its own: the first, the most central, any.

TextRank is sumy's, on our own sentences, as sumy's tokenizers want files from the network.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from youden.errors import ConfigError
from youden.text.sentences import sentences
from youden.text.transforms.options import wanted
from youden.text.words import words

MOST_RANKED = 40
"""Sentences that TextRank looks at, from the start: it compares all with all, word by word."""


def lead(text: str, rng: np.random.Generator, *, n: int = 3, skip: int = 0) -> str:
    """n sentences from the start, after `skip` of them where so many are there."""
    _check(n, skip)
    parts = sentences(text)
    start = min(skip, max(0, len(parts) - n))
    return " ".join(parts[start : start + n]) or text


def pick(text: str, rng: np.random.Generator, *, n: int = 3) -> str:
    """n sentences at random, in the text's order."""
    _check(n)
    parts = sentences(text)
    chosen = np.sort(rng.choice(len(parts), size=min(n, len(parts)), replace=False))
    return " ".join(parts[k] for k in chosen) or text


def textrank(text: str, rng: np.random.Generator, *, n: int = 3, skip: int = 0) -> str:
    """The n sentences that TextRank puts first (after the `skip` first ones), in the text's order.

    Raises: ConfigError [textrank-missing] where `sumy` is not installed.
    Source: Mihalcea and Tarau, TextRank (2004), as in sumy.
    """
    _check(n, skip)
    parts = sentences(text)[:MOST_RANKED]
    if len(parts) <= n:
        return " ".join(parts) or text
    order = _central_first(tuple(parts))
    start = min(skip, len(parts) - n)
    return " ".join(parts[k] for k in np.sort(order[start : start + n]))


@lru_cache(maxsize=128)
def _central_first(parts: tuple[str, ...]) -> NDArray[np.int64]:
    """Positions of the sentences by TextRank, the most central first. Agents that differ by n share it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dom, text_rank = import_module("sumy.models.dom"), import_module("sumy.summarizers.text_rank")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "TextRank needs the package `sumy`, which is not installed. Install youden[pools].", slug="textrank-missing"
        ) from error
    document = dom.ObjectDocumentModel([dom.Paragraph([dom.Sentence(part, _Words()) for part in parts])])
    ratings = text_rank.TextRankSummarizer().rate_sentences(document)
    rating = np.array([ratings[sentence] for sentence in document.sentences])
    return np.argsort(-rating, kind="stable")


class _Words:
    """The tokenizer that sumy asks of a sentence."""

    def to_words(self, sentence: str) -> tuple[str, ...]:
        return tuple(words(sentence))


def _check(n: int, skip: int = 0) -> None:
    wanted(n, "1 or more", fits=n >= 1, option="n")
    wanted(skip, "0 or more", fits=skip >= 0, option="skip")
