"""Find the label that a judge's reply gives as its answer, such as YES or NO.

Nothing is guessed: a label that is negated, or that is an ordinary word of a sentence, is not an answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache


def find_label(text: str, labels: Collection[str]) -> str | None:
    """Find the label that a text gives as its answer; None if the answer is not clear. The text must contain no reasoning.

    - If only one label occurs in the text, it is the answer. One of its occurrences must be a real answer: neither negated
      ("YES is wrong") nor an ordinary word of a sentence ("no doubt").
    - Otherwise, the answer is the label that is the whole first line or the whole last line. If both lines are labels, they
      must be the same. The label of the first line does not count if the text ends with another label, as in "YES\\nWait, NO".
    - A label that the rest of the text retracts, or that begins a refusal, is not an answer, as in "YES. Wait, they differ" and
      "No, I cannot answer that".

    Punctuation and Markdown around a line, and lines with an empty checkbox, are ignored, but a label with a question mark is not
    an answer. Letter case does not matter, except for a label of one letter within a line: "a" is not the label A.

    Examples
    --------
    >>> labels = {"YES": 1.0, "NO": 0.0}
    >>> find_label("Yes.", labels), find_label("Yes, there is no doubt", labels), find_label("**Yes**\\nNo doubt.", labels)
    ('YES', None, 'YES')
    >>> find_label("No, they differ.", labels), find_label("There is no way to tell.", labels)
    ('NO', None)
    """
    choices = tuple(labels)
    normalized_text = _UNCHECKED_LINE.sub("", _normalize_characters(text))
    occurrences = list(_iter_labels(normalized_text, choices))
    label = _find_stated_label(normalized_text, choices, occurrences)
    ends = [match.end() for name, match in occurrences if name == label and _may_be_answer(name, match)]
    end = max(ends, default=0)
    is_retracted = any(pattern.search(normalized_text, end) for pattern in (_RETRACTION, _REFUSAL))
    return None if is_retracted else label


def _find_stated_label(
    text: str, labels: tuple[str, ...], occurrences: Sequence[tuple[str, re.Match[str]]]
) -> str | None:
    """Find the only label of a text, or else the label on its first or last line; None if the answer is not clear.

    occurrences : the labels that occur in the text, each with its match
    """
    distinct_labels = {label for label, _ in occurrences}
    if len(distinct_labels) == 1 and any(_may_be_answer(label, match) for label, match in occurrences):
        return distinct_labels.pop()

    lines = [line for line in text.splitlines() if _SURROUNDING_MARKS.sub("", line)]
    if not lines:
        return None
    first_label, last_label = parse_label(lines[0], labels), parse_label(lines[-1], labels)
    if last_label is not None:
        return last_label if first_label in (None, last_label) else None
    ends_with_other_label = any(label != first_label and _is_stated_at_end(match) for label, match in occurrences)
    return None if ends_with_other_label else first_label


def _is_stated_at_end(match: re.Match[str]) -> bool:
    """Return whether a label ends a text and is stated there as the answer, as in "Wait, NO" and "the answer is NO"."""
    text, start, end = match.string, match.start(), match.end()
    is_at_end = _ONLY_MARKS.match(text, end) is not None
    return is_at_end and _STATEMENT_BEFORE.search(text, max(start - _MAX_CHARACTERS_BEFORE, 0), start) is not None


_EMPTY_BOX = r"\[[ \t]\]|\([ \t]\)|[☐⬜○]"
_UNCHECKED_LINE = re.compile(
    rf"^[^\w\n]*(?:\d+[.)][ \t]*)?(?:\[\]|{_EMPTY_BOX}).*|"  # 2. [ ] NO
    rf"^.*(?:{_EMPTY_BOX})[^\w\n]*$",  # NO [ ]
    re.MULTILINE,
)
"""A line that begins or ends with an empty checkbox."""


def _iter_labels(text: str, labels: tuple[str, ...]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the labels that occur as whole words in a text, each with the match of its occurrence.

    text : text whose characters are normalized (`_normalize_characters`)
    labels : labels that may be answered
    """
    # the pattern also matches numbers that are not labels, such as 0.5, so that the label 5 is not found within them
    for match in _compile_label_pattern(labels).finditer(text):
        group_name = match.lastgroup  # "label" and the position of the label, such as "label0"; None for a number
        if group_name is None:
            continue
        follows_mark = _is_combining_mark(text, match.start() - 1)
        precedes_mark = _is_combining_mark(text, match.end())
        is_part_of_word = follows_mark or precedes_mark
        if not is_part_of_word:
            yield labels[int(group_name.removeprefix("label"))], match


_NEGATIVE_WORDS = (
    r"\w+n['’]t|not|never|cannot|hardly|unable|impossible|far from|nowhere near|anything but|"
    "unlikely|loser|weaker|weakest|worse|worst"
)
_NEGATION_BEFORE = re.compile(
    rf"""\b(?:{_NEGATIVE_WORDS}|no|neither|nor|instead of|(?:better|rather) than|"""
    r"""(?:false|incorrect|wrong) (?:\w+ )?(?:is|that|to))\b"""  # the wrong answer is YES
    r"""(?:(?!\b(?:but|hence|so the|therefore|thus)\b)[\w \t"“”'‘’*])*\Z""",
    re.IGNORECASE,
)
"""A negative word before a label in the same clause: no conjunction and no punctuation except quotes and emphasis follows."""
_MAX_CHARACTERS_BEFORE = 100
"""Number of characters before a label that are searched for a negative word."""

_ONLY_MARKS = re.compile(r"[\W_]*\Z")
_STATEMENT_BEFORE = re.compile(
    r"(?:^|[^\w\s]|\b(?:is|be|to|say|choose|pick|prefer|meant?|answer|label|verdict|actually|maybe|perhaps|probably|rather))"
    r"(?:[\W_]|\b(?:the|a|answer|option|response|text)\b)*\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""Punctuation or a word before a label that is stated as the answer, at the end of the text before the label."""

_SENTENCE_START = r"(?:^|[.!?;:…–—]|[ \t]-)[\W_]{0,9}(?:(?:ah|but|hm+|no|oh|sorry|well)\b[\W_]{1,9}){0,3}"
_RETRACTION = re.compile(
    rf"""(?:{_SENTENCE_START}|,[ \t]*)wait\b(?:[ \t]*(?:[^\w\s-]|$)|[ \t]+(?:no|an?)\b)|"""
    rf"""{_SENTENCE_START}(?:actually|apologies|correction|hold on|let me (?:re\w+|think|correct)|never ?mind|"""
    r"""on (?:second thoughts?|(?:further )?reflection)|(?:scratch|strike) that|"""
    r"""(?:that|this)(?:['’]s| (?:is|was)) (?:false|incorrect|wrong|a mistake)(?![ \t]+\w)|"""
    r"""I (?:mean|meant|misread|was wrong|made an? (?:error|mistake)|(?:have )?changed my mind|take (?:it|that) back))\b""",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a sentence that retracts an answer, such as "Wait, they differ" and "On second thought, they differ"."""

_TASK = (
    "answer|assist|compare|comply|decide|decline|determine|do (?:so|that|this)|evaluate|fulfill?|give|help|judge|process|"
    r"provide|respond|say(?: for (?:certain|sure))?(?=[\W_]*$)|tell(?! th)|view"
)
_REFUSAL = re.compile(
    r"""(?:(?<!["“'‘])\bI|[^\w\s])[ \t]*(?:(?:can|could|will|would|must)(?: ?not|n['’]t)?|can['’]t|won['’]t|['’]ll|"""
    rf"""(?:['’]m |am )?(?:unable|not able|not going) to|['’]d be (?:glad|happy) to) (?:\w+ly )?(?:{_TASK})\b|"""
    r"""\bI (?:refuse|decline|(?:do not|don['’]t) (?:know(?! (?:any|of))|have (?:enough|sufficient)))\b|"""
    r"""\b(?:it|that|this) (?:cannot|can['’]t) be (?:answered|compared|decided|determined|judged)\b|"""
    rf"""\b(?:im|not )possible to (?:{_TASK})(?=[ \t]*(?:[^\w\s]|$)|[ \t]+(?:if|whether)\b)|"""
    r"""\b(?:insufficient|not enough) (?:context|information)\b""",
    re.IGNORECASE | re.MULTILINE,
)
"""Words of a judge that does not compare, such as "I cannot answer that" and "it is impossible to tell"."""

_VERB = "is|was|are|were|be|seems|looks|does|did|has|can|could|should|would"
_NEGATION_AFTER = re.compile(
    r"""["”'’*]*[ \t]+(?:if|unless|only if|"""
    r"""(?:(?:response|answer|text|option|one) )?"""
    rf"""(?:(?:{_VERB}) )*(?:the )?(?!hardly any\b)"""  # NO hardly any overlap
    rf"""(?:{_NEGATIVE_WORDS}|fails|lacks|loses|misses|false|incorrect|inferior|less|wrong))\b|"""
    r"""["”'’*)]*[ \t]*[:=][ \t]*(?:(?:false|0)\b(?![.,]\d|[ \t]\w)|\d*[.,]\d|\d+[ \t]?%)|"""
    r"""[^\w\s]*[ \t]*[?؟]|[ \t]\(\?|[-‐]\w""",
    re.IGNORECASE,
)
"""A condition, probability or question mark directly after a label, or a negative word after words such as "response is".

Examples: "YES if both …", "YES is wrong", "The first response is worse", "YES: false", "YES: 0.2", "YES?", "no-one".
"""

_CONJUNCTIONS = "as|because|but|due|for|over|since|than|with"
_SUBJECTS = "and|both|it|that|the|there|these|they|this|those|we|I"
_NO = re.compile(
    rf"[Nn]o(?:\.[ \t]*\d|[ \t]+(?!(?:{_CONJUNCTIONS}|{_SUBJECTS}|based|given|is)\b)\w)"
)  # no doubt, No. 5
_ARTICLE_OR_PRONOUN = re.compile(  # a hard question, I think
    rf"(?:a|I|(?<![\w,] )A)(?:[ \t]+|['’])(?!(?:{_CONJUNCTIONS}|{_SUBJECTS}|\w*(?<![su])s)\b)\w"
)
_ORDINAL = re.compile(  # at first glance; First, both are correct
    rf"(?<![Tt]he )(?:[Ff]irst|[Ss]econd)[ \t,]*(?!(?:{_CONJUNCTIONS}|based|given|is|one|response)\b)\w"
)
_ORDINARY_WORDS = {"no": _NO, "a": _ARTICLE_OR_PRONOUN, "i": _ARTICLE_OR_PRONOUN, "first": _ORDINAL, "second": _ORDINAL}
"""Labels that are also English words, each with a pattern of the word in a sentence in which it is not the label.

A label in capitals is the label, as in "NO doubt". A at the beginning of a sentence may also be the article. The verb after the
name A ends with s, as in "A gives the reason", unlike most words after an article.
"""


def _may_be_answer(label: str, match: re.Match[str]) -> bool:
    """Return whether an occurrence of a label in a text may be the answer: neither negated nor an ordinary word."""
    text, start, end = match.string, match.start(), match.end()
    if _NEGATION_BEFORE.search(text, max(start - _MAX_CHARACTERS_BEFORE, 0), start) or _NEGATION_AFTER.match(text, end):
        return False
    ordinary_word = _ORDINARY_WORDS.get(label.casefold())
    return ordinary_word is None or ordinary_word.match(text, start) is None


@lru_cache(maxsize=256)
def parse_label(text: str, labels: tuple[str, ...]) -> str | None:
    """Return the label that a text consists of; None if the text contains anything else.

    Letter case, white space, punctuation and Markdown around the label are ignored, except a question mark after it. The number
    of a list item, as in "1. YES", is also ignored if no label begins with a digit.

    labels : labels that may be answered
    """
    folded_text = _normalize_case_and_spaces(text)
    label = _find_only_match(folded_text, labels, _normalize_case_and_spaces)
    if label is not None:
        return label

    has_numeric_label = any(label[:1].isdigit() for label in labels)
    if not has_numeric_label:
        folded_text = _ITEM_NUMBER.sub("", folded_text)
    return _find_only_match(_normalize_and_trim(folded_text), labels, _normalize_and_trim)


def _find_only_match(text: str, labels: tuple[str, ...], normalize: Callable[[str], str]) -> str | None:
    """Return the only label that equals a text once it is normalized; None if the text is empty or there is no such label."""
    matching = [label for label in labels if normalize(label) == text]
    return matching[0] if text and len(matching) == 1 else None


_ITEM_NUMBER = re.compile(r"^[\W_]*\d+[.)]\s")
_SURROUNDING_MARKS = re.compile(r"^(?:(?!-\d)[\W_])+|(?<![\W_])(?:(?![?؟])[\W_])+$")
"""Punctuation and Markdown around a label (quotes, emphasis, list markers).

A minus sign belongs to its number. A question mark after a label is not removed, because "YES?" is not an answer.
"""


def _normalize_characters(text: str) -> str:
    """Replace compatibility characters, such as full-width letters, and the minus sign by their usual forms."""
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")


def _is_combining_mark(text: str, position: int) -> bool:
    """Return whether a character continues a word although `\\w` does not match it, as vowel and tone signs do.

    Variation selectors (U+FE00 to U+FE0F) only choose the style of the character before them, such as an emoji.
    """
    character = text[position : position + 1] or " "
    return unicodedata.category(character).startswith("M") and not "\ufe00" <= character <= "\ufe0f"


def _normalize_case_and_spaces(text: str) -> str:
    """Normalize characters, letter case and white space."""
    return " ".join(_normalize_characters(text).split()).casefold()


def _normalize_and_trim(text: str) -> str:
    """Normalize a text, and remove punctuation and Markdown around it."""
    return _SURROUNDING_MARKS.sub("", _normalize_case_and_spaces(text))


@lru_cache(maxsize=64)
def _compile_label_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern that finds labels as whole words in a text.

    - The label at position 3 is matched by the group `label3`. If several labels match, the longest one is taken.
    - If more than two labels are numbers, they form a scale. A label may then be followed by the highest number of the scale, as
      in "4/5" and "4 out of 5".
    - Numbers that are not labels, such as 0.5, 3/10 and "scale of 1 to 5", are matched in no group. The label 5 is therefore not
      found in 0.5.
    """
    groups = []
    for label in sorted(labels, key=len, reverse=True):
        position = labels.index(label)
        words = map(re.escape, _normalize_characters(label).split())
        words_pattern = r"\s+".join(words)
        flags = "?-i:" if len(label) == 1 else "?:"  # a label of one letter must have the same case
        groups.append(f"(?P<label{position}>({flags}{words_pattern}))")
    any_label = "|".join(groups)

    word_start, word_end = r"(?<!\w)", r"(?!\w)"
    fraction = r"[ \t*]*(?:/|out of)[ \t*]*"
    numbers = [label for label in labels if label.isdecimal()]
    is_scale = len(numbers) > 2  # "1/2" may be two labels
    highest_number = max(numbers, key=int) if is_scale else ""
    # "4/5" and "4 out of 5", but not "4 out of 5 claims"
    out_of_highest = rf"(?:{fraction}{highest_number}{word_end}{_NO_NOUN})?" if is_scale else ""
    ends_number = rf"(?!(?<=\d)(?:[.,]\d|{fraction}\d))"  # the label 1 does not match at the beginning of 1.5
    label_pattern = f"(?:{any_label}){word_end}{out_of_highest}{ends_number}"
    number_pattern = rf"-?\d+(?:[.,]\d+)*{word_end}(?:{fraction}\d+{word_end})?"
    scale_pattern = r"scale (?:of|from) \d+[ \t]*(?:to|[-–])[ \t]*\d+"
    return re.compile(f"{word_start}(?:{label_pattern}|{number_pattern}|{scale_pattern})", re.IGNORECASE)


_NO_NOUN = rf"(?![ \t]+(?!(?:stars?|points?|{_CONJUNCTIONS})\b)\w)"
"""No word follows that may be a noun."""
