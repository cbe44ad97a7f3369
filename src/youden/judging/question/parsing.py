"""What an answer means: a pure, versioned second pass over raw answers, so that a better parser costs nothing.

A judge decides by a label in text, a JSON object, or the odds of the first token. Nothing is guessed: an answer that does not say
one label clearly is missing, never a no.

Two texts are shortened so that a request fits a model's context, where the judge's config asks for it. Characters are counted,
for no tokenizer is at hand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import orjson

from youden.judging.question.prompts import Prompt
from youden.nouns import Completion, Json

Decision = Literal["text", "json", "logprobs"]

PARSERS: Mapping[Decision, str] = {"text": "label/1", "json": "json/1", "logprobs": "logprobs/1"}
MAX_TOKENS: Mapping[Decision, int] = {"text": 8, "json": 32, "logprobs": 1}
TOP_LOGPROBS = 5

_AROUND = " \t\r\n.,:;!*_`\"'"


def decision_parameters(decision: Decision, labels: Sequence[str]) -> dict[str, Json]:
    """What is sent so that the model decides this way."""
    if decision == "json":
        schema: Json = {
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": list(labels)}},
            "required": ["answer"],
            "additionalProperties": False,
        }
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "decision", "strict": True, "schema": schema},
            }
        }
    return {"logprobs": True, "top_logprobs": TOP_LOGPROBS} if decision == "logprobs" else {}


def decision_hint(decision: Decision, labels: Sequence[str]) -> str:
    """What the question says of the form of the answer, beside the prompt's own words; empty where those do."""
    if decision != "json":
        return ""
    shapes = " or ".join(orjson.dumps({"answer": label}).decode() for label in labels)
    return f"\n\nGive the answer as a JSON object and nothing else: {shapes}."


def json_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a JSON answer gives, None where it is none of them.

    >>> json_label('{"answer": "YES"}', ["YES", "NO"]), json_label('YES', ["YES", "NO"])
    ('YES', None)
    """
    try:
        said = orjson.loads(text)
    except ValueError:
        return None
    answer = said.get("answer") if isinstance(said, dict) else None
    return next((label for label in labels if label == answer), None)


def label_odds(top_logprobs: Sequence[tuple[str, float]], labels: Sequence[str]) -> dict[str, float] | None:
    """label → its share of the probability that first tokens give to labels; None where they give none to any.

    >>> label_odds([("YES", math.log(0.6)), (" yes", math.log(0.2)), ("NO", math.log(0.1)), ("Nor", -3.0)], ["YES", "NO"])["NO"]
    0.11111...
    """
    mass = dict.fromkeys(labels, 0.0)
    for token, logprob in top_logprobs:
        label = spoken_for(token, labels)
        if label is not None:
            mass[label] += math.exp(logprob)
    total = math.fsum(mass.values())
    return {label: part / total for label, part in mass.items()} if total > 0 else None


def spoken_for(token: str, labels: Sequence[str]) -> str | None:
    """The one label that `token` is, or that alone begins with it, whatever its case; None for no or several labels."""
    said = token.strip(_AROUND).casefold()
    if not said:
        return None
    meant = [label for label in labels if label.casefold() == said]
    meant = meant or [label for label in labels if label.casefold().startswith(said)]
    return meant[0] if len(meant) == 1 else None


Truncation = Literal["refuse", "middle", "end"]

MARK = "\n[…]\n"


def shortened(first: str, second: str, *, room: int, policy: Truncation) -> tuple[str, str]:
    """Both texts, cut to `room` characters together: half for each, and what one does not need goes to the other.

    `middle` takes the middle out of a text, `end` its end, and leaves `MARK` there; `refuse` changes nothing.

    >>> shortened("a" * 9, "b" * 40, room=30, policy="end")
    ('aaaaaaaaa', 'bbbbbbbbbbbbbbbb\\n[…]\\n')
    """
    if policy == "refuse" or len(first) + len(second) <= room:
        return first, second
    half = room // 2
    for_first = max(half, room - len(second)) if len(first) > half else len(first)
    for_second = room - min(for_first, len(first))
    return _cut(first, for_first, policy), _cut(second, for_second, policy)


def _cut(text: str, room: int, policy: Truncation) -> str:
    if len(text) <= room:
        return text
    kept = max(0, room - len(MARK))
    if policy == "end":
        return text[:kept] + MARK
    tail = kept // 2
    return text[: kept - tail] + MARK + text[len(text) - tail :]


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
