"""Reads a raw answer: a pure, versioned second pass, so that a better parser costs nothing.

It never guesses: an answer that does not say one label clearly is missing, never a no.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from youden.judging.question.decisions import Decision, json_label, label_odds, spoken_for
from youden.judging.question.prompts import Prompt
from youden.nouns import Completion

MissingReason = Literal["answered", "unparsed", "refused", "truncated", "failed", "not_asked"]


@dataclass(frozen=True)
class Reading:
    """What one answer says: `answer` in [0, 1] and `hard` 0 or 1, both NaN where `missing` is not 'answered'."""

    answer: float
    hard: float
    missing: MissingReason = "answered"


def no_reading(missing: MissingReason) -> Reading:
    """No answer, and why."""
    return Reading(math.nan, math.nan, missing)


def read_answer(completion: Completion, prompt: Prompt, *, decision: Decision = "text") -> Reading:
    """What `completion` says, by the parser `label/1`, `json/1` or `logprobs/1` (see `PARSERS`).

    An answer that is a label counts even when cut off behind it; otherwise refused and cut-off answers are missing.
    Labels as written: the last one wins. In any other case (yes, Yes): all of them have to agree.
    Under `logprobs` the label as written is the hard decision, the grades weighted by the labels' odds the soft one:
    Σ P(label)·grade, which is P(yes) for yes and no. Without odds, or without a label, the answer is missing.
    """
    label = _label(completion, tuple(prompt.labels), decision)
    if isinstance(label, Reading):
        return label
    grade = prompt.labels[label]
    soft = grade
    if decision == "logprobs":
        odds = label_odds(completion.top_logprobs, tuple(prompt.labels))
        if odds is None:
            return no_reading("unparsed")
        soft = math.fsum(share * prompt.labels[each] for each, share in odds.items())
    return Reading(soft, float(grade >= prompt.yes_from))


def _label(completion: Completion, labels: tuple[str, ...], decision: Decision) -> str | Reading:
    text = completion.text
    if decision == "json":
        label = json_label(text, labels)
    elif decision == "logprobs":
        label = _whole(text, labels) or spoken_for(text, labels)
    else:
        label = _whole(text, labels)
    if label is not None:
        return label
    if completion.refusal or completion.finish_reason == "content_filter":
        return no_reading("refused")
    if completion.finish_reason == "length":
        return no_reading("truncated")
    if decision != "json":
        label = find_label(text, labels)
    return no_reading("unparsed") if label is None else label


def find_label(text: str, labels: Collection[str]) -> str | None:
    """The label that `text` settles on, None where it settles on none.

    >>> labels = {"YES": 1.0, "NO": 0.0}
    >>> find_label("Not NO but YES.", labels), find_label("Yes.", labels), find_label("Yes, there is no doubt", labels)
    ('YES', 'YES', None)
    """
    pattern = _pattern(tuple(labels))
    by_name = {_plain(label): label for label in labels}
    found = [match[0] for match in pattern.finditer(text)]
    as_written = [match for match in found if " ".join(match.split()) in labels]
    if as_written:
        return by_name[_plain(as_written[-1])]
    settled = {by_name[_plain(match)] for match in found}
    return settled.pop() if len(settled) == 1 else None


@lru_cache(maxsize=256)
def _whole(text: str, labels: tuple[str, ...]) -> str | None:
    said = _plain(text.strip(" \t\r\n.!*_`\"'"))
    return next((label for label in labels if _plain(label) == said), None)


def _plain(label: str) -> str:
    return " ".join(label.split()).casefold()


@lru_cache(maxsize=64)
def _pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(labels, key=len, reverse=True)
    words = "|".join(r"\s+".join(re.escape(word) for word in label.split()) for label in longest_first)
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)
