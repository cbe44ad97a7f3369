"""Transforms: one text made from another by rule, a small pure function each in (text, rng), and their names.

Some hardly use the text (an agent that makes no effort), some answer with sentences of its own, some change which words stand
where, some how it is put.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Literal, Protocol

import numpy as np
import regex
from numpy.typing import NDArray

from youden.errors import ConfigError
from youden.registry import Registry
from youden.text.sentences import first_pieces, pieces, sentences
from youden.text.words import synonyms, words
from youden.types.pool import Json


def wanted(value: object, allowed: str, *, fits: bool, option: str) -> None:
    """Raises: ConfigError [transform-option] where an option's value does not fit."""
    if not fits:
        raise ConfigError(
            f"The transform option '{option}' is {value!r}. Give {allowed}.",
            slug="transform-option",
        )


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


MOST_RANKED = 40
"""Sentences that TextRank compares, from the start of a text."""
_DAMPING = 0.85
_CONVERGED = 1e-4
"""Change of the ratings below which power iteration stops."""


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
    """Extract the n sentences that TextRank ranks first (after the `skip` first ones), in the text's order.

    References: Mihalcea and Tarau (2004), TextRank: Bringing Order into Texts, EMNLP; tested against sumy 0.13.
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
    """Return the positions of the sentences, the most central first. Agents that differ by n share the result."""
    counts = [Counter(words(part)) for part in parts]
    vocabulary = sorted(set().union(*counts))
    occurrences = np.array([[count[word] for word in vocabulary] for count in counts], dtype=np.float64)

    # similarity of two sentences: pairs of equal words over the sum of the logarithms of their lengths (eq. in section 3)
    n_shared = occurrences @ occurrences.T
    log_length = np.log(np.maximum(occurrences.sum(axis=1), 1.0))
    norm = log_length[:, None] + log_length
    similarity = np.divide(n_shared, norm, out=n_shared.copy(), where=norm > 1e-8)

    # PageRank with damping, by power iteration
    transition = _DAMPING * similarity / (similarity.sum(axis=1, keepdims=True) + 1e-7) + (1 - _DAMPING) / len(parts)
    rating, change = np.full(len(parts), 1 / len(parts)), np.inf
    while change > _CONVERGED:
        previous, rating = rating, transition.T @ rating
        change = float(np.linalg.norm(rating - previous))
    return np.argsort(-rating.round(12), kind="stable")


def _check(n: int, skip: int = 0) -> None:
    wanted(n, "1 or more", fits=n >= 1, option="n")
    wanted(skip, "0 or more", fits=skip >= 0, option="skip")


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


_WORD = regex.compile(r"\p{L}+")
_LEAST_LETTERS_OF_WORDING = 4

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
        if len(word) < _LEAST_LETTERS_OF_WORDING or rng.random() >= share:
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


class Transform(Protocol):
    """Makes a text from a text. What else it takes is keyword-only and has a default."""

    def __call__(self, text: str, rng: np.random.Generator, /) -> str: ...


TRANSFORMS: Registry[Transform] = Registry(
    "youden.transforms",
    "transform",
    {
        "reorder": "youden.text.transforms:reorder",
        "omit": "youden.text.transforms:omit",
        "truncate": "youden.text.transforms:truncate",
        "repeat": "youden.text.transforms:repeat",
        "clone": "youden.text.transforms:unchanged",
        "dump": "youden.text.transforms:unchanged",
        "pick": "youden.text.transforms:pick",
        "lead": "youden.text.transforms:lead",
        "textrank": "youden.text.transforms:textrank",
        "synonyms": "youden.text.transforms:substitute",
        "filler": "youden.text.transforms:filler",
        "pad": "youden.text.transforms:pad",
        "case": "youden.text.transforms:case",
        "bullets": "youden.text.transforms:bullets",
        "template": "youden.text.transforms:template",
        "random": "youden.text.transforms:random_words",
        "empty": "youden.text.transforms:empty",
    },
)


@dataclass(frozen=True)
class Step:
    """A transform by its registered name, with the options that differ from its defaults."""

    name: str
    options: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        allowed = [
            option
            for option, parameter in inspect.signature(TRANSFORMS.load(self.name)).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        if unknown := sorted(set(self.options) - set(allowed)):
            raise ConfigError(
                f"The transform '{self.name}' has no option '{unknown[0]}'. It has: {', '.join(allowed) or 'none'}.",
                slug="transform-option",
            )

    def __call__(self, text: str, rng: np.random.Generator) -> str:
        make: object = TRANSFORMS.load(self.name)
        if not callable(make):
            raise ConfigError(f"The transform '{self.name}' cannot be called. Register a function.", slug="transform")
        try:
            return str(make(text, rng, **self.options))
        except TypeError as error:
            raise ConfigError(
                f"The transform '{self.name}' cannot take {dict(self.options)} ({error}). Correct the option's type.",
                slug="transform-option",
            ) from error


def apply_steps(text: str, steps: Sequence[Step], rng: np.random.Generator) -> str:
    """`text` after each step in turn.

    >>> apply_steps("One. Two.", [Step("repeat"), Step("case", {"to": "upper"})], np.random.default_rng(0))
    'ONE. TWO. ONE. TWO.'
    """
    for step in steps:
        text = step(text, rng)
    return text
