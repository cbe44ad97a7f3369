"""Make one text from another by a rule, for example by extracting, reordering or replacing words or sentences.

Each transform is a pure function of a text and a random generator, and is registered in `TRANSFORMS`. Some ignore most
of the text, like an agent that makes no effort.
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
from youden.text.sentences import split_pieces, split_sentences, take_pieces
from youden.text.words import find_synonyms, split_words
from youden.types.pool import Floats, Json


def check_option(value: object, allowed: str, *, fits: bool, option: str) -> None:
    """Check the value of an option of a transform; raise ConfigError [transform-option] unless `fits` is true.

    value : the value, which the message shows; only `fits` decides whether it is valid
    allowed : valid values, for the message, for example "1 or more"
    fits : whether the value is valid
    option : name of the option, for the message
    """
    if not fits:
        raise ConfigError(
            f"The transform option '{option}' is invalid: got {value!r}. Set {allowed}.", slug="transform-option"
        )


def _is_written_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_positive_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


FORM = (
    "The text is about {topic}. It explains what {topic} means and gives several details. "
    "Overall it is informative and covers the main points."
)

_MIN_TOPIC_LETTERS = 5
_SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvwz" for vowel in "aiou")


def fill_template(text: str, rng: np.random.Generator, *, form: str = FORM) -> str:
    """Fill the text `form` with the topic of the text, its most frequent long word, in place of {topic}."""
    check_option(form, "a text that is not blank", fits=_is_written_text(form), option="form")
    counts = Counter(split_words(text))
    candidates = [word for word in counts if len(word) >= _MIN_TOPIC_LETTERS] or list(counts) or ["this"]
    topic = max(candidates, key=lambda word: (counts[word], len(word), word))
    return form.replace("{topic}", topic)


def generate_random_words(text: str, rng: np.random.Generator, *, n: int | None = None) -> str:
    """Generate `n` words that do not exist; by default, as many as the text has words."""
    check_option(n, "a whole number from 1 on", fits=n is None or _is_positive_integer(n), option="n")
    n_words = max(1, len(split_pieces(text))) if n is None else n
    syllables = rng.integers(len(_SYLLABLES), size=(n_words, 3))
    words = ["".join(_SYLLABLES[k] for k in word) for word in syllables]
    return " ".join(words)


def return_empty(text: str, rng: np.random.Generator) -> str:
    """Return an empty text."""
    return ""


MAX_RANKED_SENTENCES = 40
"""Number of sentences, from the start of a text, that TextRank compares."""
_DAMPING = 0.85
_CONVERGED = 1e-4
"""Change of the ratings below which power iteration stops."""


def take_first_sentences(text: str, rng: np.random.Generator, *, n: int = 3, skip: int = 0) -> str:
    """Return `n` sentences after the first `skip` sentences; fewer are skipped if the text is too short."""
    _check_counts(n, skip)
    sentences = split_sentences(text)
    start = min(skip, max(0, len(sentences) - n))
    return " ".join(sentences[start : start + n]) or text


def sample_sentences(text: str, rng: np.random.Generator, *, n: int = 3) -> str:
    """Return `n` random sentences, in the order of the text; all if there are fewer."""
    _check_counts(n)
    sentences = split_sentences(text)
    chosen = np.sort(rng.choice(len(sentences), size=min(n, len(sentences)), replace=False))
    return " ".join(sentences[k] for k in chosen) or text


def take_central_sentences(text: str, rng: np.random.Generator, *, n: int = 3, skip: int = 0) -> str:
    """Return the most central sentences by TextRank, in the order of the text, joined by spaces.

    Only the first 40 sentences of the text are ranked. If they are at most `n`, all are returned.

    Parameters
    ----------
    text : str
        The text.
    rng : numpy.random.Generator
        Not used; every transform has this parameter.
    n : int, default 3
        Number of sentences to return.
    skip : int, default 0
        Number of the most central sentences that are left out. If fewer than `n` sentences would remain, fewer are left out.

    Returns
    -------
    str
        The selected sentences. A text without a sentence is returned unchanged.

    Raises
    ------
    ConfigError
        [transform-option]: unless n ≥ 1 and skip ≥ 0.

    References
    ----------
    Mihalcea and Tarau (2004), TextRank: Bringing Order into Texts, EMNLP. Tested against sumy 0.13.
    """
    _check_counts(n, skip)
    sentences = split_sentences(text)[:MAX_RANKED_SENTENCES]
    if len(sentences) <= n:
        return " ".join(sentences) or text
    most_central_first = _rank_by_centrality(tuple(sentences))
    n_skipped = min(skip, len(sentences) - n)
    selected = most_central_first[n_skipped : n_skipped + n]
    return " ".join(sentences[position] for position in np.sort(selected))


@lru_cache(maxsize=128)
def _rank_by_centrality(sentences: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the positions of sentences, sorted by TextRank, the most central sentence first.

    The result is an int array (n_sentences,).

    TextRank is PageRank on a graph of sentences, in which the weight of an edge is the number of shared words. Rankings are
    cached, because several agents may use the same ranking with different numbers of sentences.
    """
    # PageRank with damping d: rating ← (d·P + (1 − d)/n)ᵀ·rating, with P the similarities divided by their row sums
    similarity = _compute_similarity(sentences)
    n_sentences = len(sentences)
    row_sums = similarity.sum(axis=1, keepdims=True) + 1e-7
    transition = _DAMPING * similarity / row_sums + (1 - _DAMPING) / n_sentences
    rating = np.full(n_sentences, 1 / n_sentences)
    change = np.inf
    while change > _CONVERGED:
        previous = rating
        rating = transition.T @ previous
        change = float(np.linalg.norm(rating - previous))
    # ratings that differ only by rounding errors are ties, which keep the order of the text
    return np.argsort(-rating.round(12), kind="stable")


def _compute_similarity(sentences: Sequence[str]) -> Floats:
    """Compute the similarity of each pair of sentences by their shared words.

    The similarity of sentences a and b is the number of pairs of equal words, one from each sentence, divided by log length(a) +
    log length(b). Lengths are numbers of words (Mihalcea and Tarau, 2004, section 3).

    Returns a float array (n_sentences, n_sentences).
    """
    # how often each word (column) occurs in each sentence (row)
    counts = [Counter(split_words(sentence)) for sentence in sentences]
    vocabulary = sorted(set().union(*counts))
    occurrences = np.zeros((len(sentences), len(vocabulary)))
    for sentence, count in enumerate(counts):
        occurrences[sentence] = [count[word] for word in vocabulary]

    n_equal_pairs = occurrences @ occurrences.T
    n_words = np.maximum(occurrences.sum(axis=1), 1.0)
    log_length = np.log(n_words)
    divisor = log_length[:, np.newaxis] + log_length

    # the divisor is 0 for two sentences of one word each, whose similarity is the number of pairs, not divided
    is_divided = divisor > 1e-8
    similarity: Floats = np.divide(n_equal_pairs, divisor, out=n_equal_pairs.copy(), where=is_divided)
    return similarity


def _check_counts(n: int, skip: int = 0) -> None:
    """Check the options `n` and `skip` of a transform; raise ConfigError [transform-option]."""
    check_option(n, "1 or more", fits=n >= 1, option="n")
    check_option(skip, "0 or more", fits=skip >= 0, option="skip")


def shuffle_sentences(text: str, rng: np.random.Generator) -> str:
    """Put the sentences into a random order that differs from the original one.

    If all sentences are equal, or if there is only one, the text is returned unchanged.
    """
    sentences = split_sentences(text)
    if len(set(sentences)) < 2:
        return text
    shuffled = sentences
    while shuffled == sentences:
        shuffled = [sentences[position] for position in rng.permutation(len(sentences))]
    return " ".join(shuffled)


def omit_sentences(text: str, rng: np.random.Generator, *, share: float = 0.5) -> str:
    """Omit a random share of the sentences of a text, or of its words if it is one sentence. At least one remains.

    In scripts without spaces between words, characters count as words. The remaining sentences or words keep their order and are
    joined by spaces. A blank text is returned unchanged.

    text : the text
    rng : source of the random choice
    share : fraction that is omitted, in [0, 1]; the number of omitted sentences or words is rounded

    Raises: ConfigError [transform-option] unless 0 ≤ share ≤ 1.
    """
    check_option(share, "a number between 0 and 1", fits=0 <= share <= 1, option="share")
    units = split_sentences(text)
    if len(units) < 2:
        units = split_pieces(text)
    if not units:
        return text
    n_remaining = max(1, len(units) - round(share * len(units)))
    remaining = np.sort(rng.choice(len(units), size=n_remaining, replace=False))
    return " ".join(units[position] for position in remaining)


def truncate_text(text: str, rng: np.random.Generator, *, words: int = 20, share: float | None = None) -> str:
    """Return the first `words` words of the text; with `share`, this share of its words, at least one."""
    check_option(words, "a whole number from 1 on", fits=_is_positive_integer(words), option="words")
    if share is not None:
        check_option(share, "a number between 0 and 1", fits=0 <= share <= 1, option="share")
        words = max(1, round(share * len(split_pieces(text))))
    return take_pieces(text, words)


def repeat_text(text: str, rng: np.random.Generator, *, times: int = 2) -> str:
    """Repeat the text `times` times."""
    check_option(times, "1 or more", fits=times >= 1, option="times")
    return " ".join([text] * times)


def copy_text(text: str, rng: np.random.Generator) -> str:
    """Return the text unchanged, for a clone of another agent's response or a copy of the item's source."""
    return text


_WORD = regex.compile(r"\p{L}+")
_MIN_SUBSTITUTED_LETTERS = 4

FILLER = (
    "It is worth noting that this deserves attention.",
    "There is, of course, more to say about this.",
    "As is often the case, the details matter here.",
    "In this respect a number of things come together.",
    "This should be seen in its wider context.",
    "It goes without saying that opinions on this may differ.",
    "All in all, this is an interesting point.",
    "With that in mind, let us move on to what follows.",
)


def substitute_synonyms(text: str, rng: np.random.Generator, *, share: float = 0.5) -> str:
    """Replace a random share of the English words that have synonyms by a synonym in the same letter case.

    Words of fewer than 4 letters are kept. `rng` selects the words and their synonyms. Raises ConfigError
    [transform-option] unless 0 ≤ share ≤ 1, and [synonyms-missing] if the thesaurus is not installed.
    """
    check_option(share, "a number between 0 and 1", fits=0 <= share <= 1, option="share")
    result: str = _WORD.sub(lambda match: _substitute_word(match.group(), rng, share=share), text)
    return result


def _substitute_word(word: str, rng: np.random.Generator, *, share: float) -> str:
    """Return, with the probability `share`, a random synonym of a word in the same letter case; else the word itself."""
    if len(word) < _MIN_SUBSTITUTED_LETTERS or rng.random() >= share:
        return word
    choices = find_synonyms(word.lower())
    if not choices:
        return word
    synonym = choices[int(rng.integers(len(choices)))]
    if word.isupper():
        return synonym.upper()
    return synonym.capitalize() if word[0].isupper() else synonym


def insert_filler(text: str, rng: np.random.Generator, *, every: int = 1) -> str:
    """Insert empty phrases, such as "All in all, this is an interesting point.", after the sentences of a text.

    All eight phrases of `FILLER` are used once in random order, then again in a new random order, and so on. Sentences and
    phrases are joined by spaces. A text without a sentence is returned unchanged.

    text : the text
    rng : source of the order of the phrases
    every : number of sentences before each phrase. With 1, a phrase follows every sentence, also the last; with 2, it follows the
        second sentence, the fourth, and so on.

    Raises: ConfigError [transform-option] unless `every` is an integer of at least 1.
    """
    check_option(every, "a whole number from 1 on", fits=_is_positive_integer(every), option="every")
    sentences = split_sentences(text)
    if not sentences:
        return text
    # all phrases once in random order, then all in another random order, …
    phrase_order = chain.from_iterable(rng.permutation(len(FILLER)) for _ in sentences)
    output = []
    for number, sentence in enumerate(sentences, 1):
        output.append(sentence)
        if number % every == 0:
            output.append(FILLER[next(phrase_order)])
    return " ".join(output)


def append_filler(text: str, rng: np.random.Generator, *, share: float = 1.0) -> str:
    """Append random empty phrases to a text, until they have at least `share` times as many words as the text.

    In scripts without spaces between words, each character of the text counts as a word. Text and phrases are joined by spaces,
    and phrases may repeat. A blank text is returned unchanged.

    text : the text, which stays unchanged at the beginning of the result
    rng : source of the random choice of phrases
    share : minimum number of words in all phrases, as a multiple of the number of words of the text, from 0 to 100; with 0, no
        phrase is appended

    Raises: ConfigError [transform-option] unless 0 ≤ share ≤ 100.
    """
    check_option(share, "a number from 0 to 100", fits=0 <= share <= 100, option="share")
    min_words = share * len(split_pieces(text))
    phrases: list[str] = []
    n_words = 0
    while n_words < min_words:
        phrase = FILLER[int(rng.integers(len(FILLER)))]
        phrases.append(phrase)
        n_words += len(phrase.split())
    return " ".join([text, *phrases]) if phrases else text


def change_case(
    text: str, rng: np.random.Generator, *, to: Literal["upper", "lower", "title", "swap"] = "upper"
) -> str:
    """Convert the text to upper case, lower case or title case, or swap upper and lower case."""
    converters = {"upper": str.upper, "lower": str.lower, "title": str.title, "swap": str.swapcase}
    check_option(to, "upper, lower, title or swap", fits=to in converters, option="to")
    return converters[to](text)


def format_bullets(text: str, rng: np.random.Generator) -> str:
    """Format the sentences as a bulleted list."""
    return "\n".join(f"- {part}" for part in split_sentences(text)) or text


class Transform(Protocol):
    """A function that makes a text from a text; options, if any, are keyword-only and have defaults."""

    def __call__(self, text: str, rng: np.random.Generator, /) -> str:
        """Transform a text.

        Parameters
        ----------
        text : str
            The text to transform.
        rng : numpy.random.Generator
            Source of all random choices, so that the result is reproducible.

        Returns
        -------
        str
            The new text.
        """


TRANSFORMS: Registry[Transform] = Registry(
    "youden.transforms",
    "transform",
    {
        "reorder": "youden.text.transforms:shuffle_sentences",
        "omit": "youden.text.transforms:omit_sentences",
        "truncate": "youden.text.transforms:truncate_text",
        "repeat": "youden.text.transforms:repeat_text",
        "clone": "youden.text.transforms:copy_text",
        "dump": "youden.text.transforms:copy_text",
        "pick": "youden.text.transforms:sample_sentences",
        "lead": "youden.text.transforms:take_first_sentences",
        "textrank": "youden.text.transforms:take_central_sentences",
        "synonyms": "youden.text.transforms:substitute_synonyms",
        "filler": "youden.text.transforms:insert_filler",
        "pad": "youden.text.transforms:append_filler",
        "case": "youden.text.transforms:change_case",
        "bullets": "youden.text.transforms:format_bullets",
        "template": "youden.text.transforms:fill_template",
        "random": "youden.text.transforms:generate_random_words",
        "empty": "youden.text.transforms:return_empty",
    },
)


@dataclass(frozen=True)
class Step:
    """A transform with its options.

    Raises
    ------
    ConfigError
        [unknown-transform]: if no such transform is registered. [transform-option]: if it has no such option, or if an
        option has an invalid value; the latter is raised by the call.
    """

    name: str
    """Registered name of the transform."""
    options: Mapping[str, Json] = field(default_factory=dict)
    """Options that differ from the defaults."""

    def __post_init__(self) -> None:
        parameters = inspect.signature(TRANSFORMS.load(self.name)).parameters.values()
        allowed = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        unknown = sorted(set(self.options) - set(allowed))
        if unknown:
            raise ConfigError(
                f"The transform '{self.name}' has no option '{unknown[0]}'. Its options are: {', '.join(allowed) or 'none'}.",
                slug="transform-option",
            )

    def __call__(self, text: str, rng: np.random.Generator) -> str:
        """Apply the transform to a text."""
        transform: object = TRANSFORMS.load(self.name)
        if not callable(transform):
            raise ConfigError(f"The transform '{self.name}' cannot be called. Register a function.", slug="transform")
        try:
            return str(transform(text, rng, **self.options))
        except TypeError as error:
            raise ConfigError(
                f"The transform '{self.name}' does not accept its options: got {dict(self.options)} "
                f"({error}). Set options of the right type.",
                slug="transform-option",
            ) from error


def apply_steps(text: str, steps: Sequence[Step], rng: np.random.Generator) -> str:
    """Apply steps to a text, one after another.

    Parameters
    ----------
    text : str
        Text to transform.
    steps : sequence of Step
        Transforms with their options, in the order in which they are applied.
    rng : numpy.random.Generator
        Source of all random choices.

    Returns
    -------
    str
        The transformed text; `text` itself if there are no steps.

    Raises
    ------
    ConfigError
        [transform-option]: if an option of a step has an invalid value; [synonyms-missing]: if a step replaces words by
        synonyms, and the dictionary of synonyms is not installed.

    Examples
    --------
    >>> apply_steps("One. Two.", [Step("repeat"), Step("case", {"to": "upper"})], np.random.default_rng(0))
    'ONE. TWO. ONE. TWO.'
    """
    for step in steps:
        text = step(text, rng)
    return text
