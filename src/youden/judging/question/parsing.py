"""What an answer means: a pure, versioned second pass over raw answers, so that a better parser costs nothing.

A judge decides by a label in text, a JSON object, or the odds of the first token. Nothing is guessed: an answer that does not say
one label clearly is missing, never a no.

Two texts are shortened so that a request fits a model's context, where the judge's config asks for it. Characters are counted,
for no tokenizer is at hand.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import orjson

from youden.judging.question.prompts import Prompt
from youden.text.json_text import parse_json
from youden.text.reasoning import split_reasoning
from youden.types import Completion
from youden.types.pool import Json

Decision = Literal["text", "json", "logprobs"]

PARSERS: Mapping[Decision, str] = {"text": "label/2", "json": "json/2", "logprobs": "logprobs/2"}
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
    """Return the label that a JSON answer gives; None if it gives none of them or more than one.

    >>> json_label('{"answer": "YES"}', ["YES", "NO"]), json_label('YES', ["YES", "NO"])
    ('YES', None)
    """
    try:
        said = parse_json(text).value
        json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_refuse_two_answers)
    except (ValueError, RecursionError):
        return None
    answer = said.get("answer") if isinstance(said, dict) else None
    return next((label for label in labels if label == answer), None)


def _refuse_two_answers(pairs: list[tuple[str, object]]) -> None:
    if sum(name == "answer" for name, _ in pairs) > 1:
        raise ValueError


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


MissingReason = Literal["answered", "unparsed", "refused", "truncated", "unfinished_reasoning", "failed", "not_asked"]


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
    """Read the answer in a raw completion.

    Parameters
    ----------
    completion : Completion
        What the judge returned. Reasoning that its server left in the text is not part of the answer.
    prompt : Prompt
        The labels that may be answered, and their grades.
    decision : {"text", "json", "logprobs"}, default "text"
        How the judge decides. With "logprobs" the label in the text is the hard answer, and the soft answer is
        Σ P(label)·grade over the labels' shares of the first token's probability.

    Returns
    -------
    Reading
        Missing if the completion does not clearly give one label: refused, truncated, unfinished_reasoning or unparsed. An
        answer that is nothing but a label counts even if it was cut off after it.
    """
    label, reasoned = _label(completion, tuple(prompt.labels), decision)
    if isinstance(label, Reading):
        return label
    grade = prompt.labels[label]
    soft = grade
    if decision == "logprobs":
        odds = label_odds(completion.top_logprobs, tuple(prompt.labels))
        if odds is None or (
            reasoned and not _begins_with_likeliest(label, completion.top_logprobs, tuple(prompt.labels))
        ):
            return no_reading("unparsed")
        soft = math.fsum(share * prompt.labels[each] for each, share in odds.items())
    return Reading(soft, float(grade >= prompt.yes_from))


def _begins_with_likeliest(label: str, top_logprobs: Sequence[tuple[str, float]], labels: Sequence[str]) -> bool:
    """Return whether the log-probabilities are those of the label's first token, not of the first token of the reasoning."""
    token, _ = max(top_logprobs, key=lambda pair: pair[1])
    return spoken_for(token, labels) == label


def _label(completion: Completion, labels: tuple[str, ...], decision: Decision) -> tuple[str | Reading, bool]:
    """Return the label of the answer, or why it is missing; and whether the completion contains reasoning."""
    if decision == "json" and (label := json_label(completion.text, labels)) is not None:
        return label, False
    answer, reasoned = split_reasoning(completion.text)
    label = None
    if answer is not None:
        if decision == "json":
            label = json_label(answer, labels)
        else:
            label = _only_label(answer, labels)
            if label is None and decision == "logprobs":
                label = spoken_for(answer, labels)
    if label is not None:
        return label, reasoned
    if completion.refusal or completion.finish_reason == "content_filter":
        return no_reading("refused"), reasoned
    if answer is None:
        return no_reading("unfinished_reasoning"), reasoned
    if completion.finish_reason == "length":
        return no_reading("truncated"), reasoned
    if decision != "json":
        label = find_label(answer, labels)
    return no_reading("unparsed") if label is None else label, reasoned


def find_label(text: str, labels: Collection[str]) -> str | None:
    """Find the one label that a text gives as its answer.

    Parameters
    ----------
    text : str
        An answer, without reasoning.
    labels : collection of str
        The labels that may be answered; letter case does not matter.

    Returns
    -------
    str or None
        The only label that occurs. If several occur, the label that is the whole first line or the whole last line, apart from
        punctuation and Markdown around it; None if neither line is a label, or if they are different labels.

    Examples
    --------
    >>> labels = {"YES": 1.0, "NO": 0.0}
    >>> find_label("Yes.", labels), find_label("Yes, there is no doubt", labels), find_label("**Yes**\\nNo doubt.", labels)
    ('YES', None, 'YES')
    """
    choices, normal = tuple(labels), _normal(text)
    occurring = {
        choices[int(match.lastgroup[1:])]
        for match in _pattern(choices).finditer(normal)
        if match.lastgroup and not (_is_mark(normal, match.start() - 1) or _is_mark(normal, match.end()))
    }
    if len(occurring) == 1:
        return occurring.pop()
    lines = [line for line in normal.splitlines() if _AROUND_A_LINE.sub("", line)]
    line_labels = {_only_label(line, choices) for line in (*lines[:1], *lines[-1:])} - {None}
    return line_labels.pop() if len(line_labels) == 1 else None


@lru_cache(maxsize=256)
def _only_label(text: str, labels: tuple[str, ...]) -> str | None:
    """Return the label that `text` consists of; None if it is anything else."""
    plain = _plain(text)
    without_number = plain if any(label[:1].isdigit() for label in labels) else _ITEM_NUMBER.sub("", plain)
    for normal, normalize in ((plain, _plain), (_trimmed(without_number), _trimmed)):
        matching = [label for label in labels if normal and normalize(label) == normal]
        if len(matching) == 1:
            return matching[0]
    return None


_ITEM_NUMBER = re.compile(r"^[\W_]*\d+[.)]\s")
_AROUND_A_LINE = re.compile(r"^(?:(?!-\d)[\W_])+|[\W_]+$")
"""Punctuation and Markdown around a label: quotes, emphasis, headings, list markers. A minus sign belongs to its number."""


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")


def _is_mark(text: str, position: int) -> bool:
    """Return whether a character continues a word although `\\w` does not match it, as vowel and tone signs do."""
    character = text[position : position + 1] or " "
    return unicodedata.category(character).startswith("M") and not "\ufe00" <= character <= "\ufe0f"


def _plain(label: str) -> str:
    return " ".join(_normal(label).split()).casefold()


def _trimmed(label: str) -> str:
    return _AROUND_A_LINE.sub("", _plain(label))


@lru_cache(maxsize=64)
def _pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern of whole words that are labels, the longest first; its group `l3` is the fourth label.

    A number that is no label, such as 0.5 or -1, is matched as a whole without a group, so that no part of it is a label.
    """
    words = [r"\s+".join(map(re.escape, _normal(label).split())) for label in labels]
    longest_first = sorted(range(len(labels)), key=lambda number: len(labels[number]), reverse=True)
    groups = "|".join(f"(?P<l{number}>{words[number]})" for number in longest_first)
    return re.compile(rf"(?<!\w)(?:(?:{groups})(?!\w)(?!(?<=\d)[.,]\d)|-?\d+(?:[.,]\d+)*(?!\w))", re.IGNORECASE)
