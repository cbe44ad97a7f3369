"""Interpret the raw answers of judges, and truncate texts that are too long for a model.

Parsing is a pure, versioned second pass over stored answers, so that a better parser needs no new calls. A judge
decides by a label in its text, by a JSON object, or by the log-probabilities of its first token. Nothing is guessed: an
answer that does not clearly give one label is missing, and does not count as a no.

Texts are truncated only if the judge's config allows it. Their length is counted in characters, because the model's
tokenizer is not available.
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

_SURROUNDING_CHARACTERS = " \t\r\n.,:;!*_`\"'"


def make_decision_parameters(decision: Decision, labels: Sequence[str]) -> dict[str, Json]:
    """Return the request parameters that make a model decide in a certain way.

    Parameters
    ----------
    decision : {"text", "json", "logprobs"}
    labels : sequence of str
        The labels that may be answered.

    Returns
    -------
    dict
        A JSON schema for "json", a request for log-probabilities for "logprobs", nothing for "text".
    """
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


def make_decision_hint(decision: Decision, labels: Sequence[str]) -> str:
    """Return the instruction on the form of a JSON answer, to append to a question; empty for other decisions."""
    if decision != "json":
        return ""
    objects = " or ".join(orjson.dumps({"answer": label}).decode() for label in labels)
    return f"\n\nGive the answer as a JSON object and nothing else: {objects}."


def find_json_label(text: str, labels: Sequence[str]) -> str | None:
    """Return the label that a JSON answer gives; None if it gives none of them or more than one.

    Examples
    --------
    >>> find_json_label('{"answer": "YES"}', ["YES", "NO"]), find_json_label('YES', ["YES", "NO"])
    ('YES', None)
    """
    try:
        value = parse_json(text).value
        json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_reject_two_answers)
    except (ValueError, RecursionError):
        return None
    answer = value.get("answer") if isinstance(value, dict) else None
    return next((label for label in labels if label == answer), None)


def _reject_two_answers(pairs: list[tuple[str, object]]) -> None:
    if sum(name == "answer" for name, _ in pairs) > 1:
        raise ValueError


def compute_label_probabilities(
    top_logprobs: Sequence[tuple[str, float]], labels: Sequence[str]
) -> dict[str, float] | None:
    """Compute the probability of each label from the alternatives of the first token, (token, log-probability) pairs.

    The probabilities are normalized to a sum of 1. Returns None if no token belongs to a label.

    Examples
    --------
    >>> tokens = [("YES", math.log(0.6)), (" yes", math.log(0.2)), ("NO", math.log(0.1)), ("Nor", -3.0)]
    >>> compute_label_probabilities(tokens, ["YES", "NO"])["NO"]
    0.11111...
    """
    probability = dict.fromkeys(labels, 0.0)
    for token, logprob in top_logprobs:
        label = find_unique_label(token, labels)
        if label is not None:
            probability[label] += math.exp(logprob)
    total = math.fsum(probability.values())
    return {label: p / total for label, p in probability.items()} if total > 0 else None


def find_unique_label(token: str, labels: Sequence[str]) -> str | None:
    """Return the only label that equals a token or begins with it; None if no label or several labels match.

    Letter case does not matter, and punctuation and Markdown around the token are ignored. A label that equals the
    token takes precedence over labels that begin with it.
    """
    beginning = token.strip(_SURROUNDING_CHARACTERS).casefold()
    if not beginning:
        return None
    matching = [label for label in labels if label.casefold() == beginning]
    matching = matching or [label for label in labels if label.casefold().startswith(beginning)]
    return matching[0] if len(matching) == 1 else None


Truncation = Literal["refuse", "middle", "end"]

MARK = "\n[…]\n"
"""Replaces the part of a text that is cut out."""


def truncate_texts(first: str, second: str, *, max_characters: int, policy: Truncation) -> tuple[str, str]:
    """Truncate two texts so that together they have at most `max_characters`.

    Each text may have half of them; what one text does not need goes to the other. By `policy`, `MARK` replaces the
    middle or the end of a long text; "refuse" changes nothing.

    Examples
    --------
    >>> truncate_texts("a" * 9, "b" * 40, max_characters=30, policy="end")
    ('aaaaaaaaa', 'bbbbbbbbbbbbbbbb\\n[…]\\n')
    """
    if policy == "refuse" or len(first) + len(second) <= max_characters:
        return first, second
    half = max_characters // 2
    max_first = max(half, max_characters - len(second)) if len(first) > half else len(first)
    max_second = max_characters - min(max_first, len(first))
    return _truncate(first, max_first, policy), _truncate(second, max_second, policy)


def _truncate(text: str, max_characters: int, policy: Truncation) -> str:
    if len(text) <= max_characters:
        return text
    n_remaining = max(0, max_characters - len(MARK))
    if policy == "end":
        return text[:n_remaining] + MARK
    n_tail = n_remaining // 2
    return text[: n_remaining - n_tail] + MARK + text[len(text) - n_tail :]


MissingReason = Literal["answered", "unparsed", "refused", "truncated", "unfinished_reasoning", "failed", "not_asked"]


@dataclass(frozen=True)
class Reading:
    """The decision that an answer contains."""

    answer: float
    """Answer in [0, 1]; NaN if missing."""
    hard_answer: float
    """Hard decision, 0 or 1; NaN if missing."""
    missing_reason: MissingReason = "answered"
    """Why the decision is missing; "answered" if it is not."""


def make_missing_reading(reason: MissingReason) -> Reading:
    """Return the reading of an answer without a decision."""
    return Reading(math.nan, math.nan, reason)


def read_answer(completion: Completion, prompt: Prompt, *, decision: Decision = "text") -> Reading:
    """Read the answer in a raw completion.

    Parameters
    ----------
    completion : Completion
        The judge's reply. Reasoning that its server left in the text is not part of the answer.
    prompt : Prompt
        The labels that may be answered, and their grades.
    decision : {"text", "json", "logprobs"}, default "text"
        How the judge decides. With "logprobs" the label in the text is the hard answer, and the soft answer is Σ
        P(label)·grade over the labels' shares of the first token's probability.

    Returns
    -------
    Reading
        Missing if the completion does not clearly give one label: refused, truncated, unfinished_reasoning or unparsed.
        An answer that consists of a label counts even if it was cut off after it.
    """
    labels = tuple(prompt.labels)
    label, has_reasoning = _find_answer_label(completion, labels, decision)
    if isinstance(label, Reading):
        return label

    grade = prompt.labels[label]
    answer = grade
    if decision == "logprobs":
        probabilities = compute_label_probabilities(completion.top_logprobs, labels)
        if probabilities is None:
            return make_missing_reading("unparsed")
        if has_reasoning and not _begins_with_likeliest(label, completion.top_logprobs, labels):
            return make_missing_reading("unparsed")
        answer = math.fsum(p * prompt.labels[name] for name, p in probabilities.items())
    return Reading(answer, float(grade >= prompt.yes_threshold))


def _begins_with_likeliest(label: str, top_logprobs: Sequence[tuple[str, float]], labels: Sequence[str]) -> bool:
    """Return whether the log-probabilities are those of the first token of the label, not of the reasoning."""
    token, _ = max(top_logprobs, key=lambda pair: pair[1])
    return find_unique_label(token, labels) == label


def _find_answer_label(
    completion: Completion, labels: tuple[str, ...], decision: Decision
) -> tuple[str | Reading, bool]:
    """Return the label of the answer, or why it is missing; and whether the completion contains reasoning."""
    if decision == "json" and (label := find_json_label(completion.text, labels)) is not None:
        return label, False
    answer, has_reasoning = split_reasoning(completion.text)
    label = None
    if answer is not None:
        if decision == "json":
            label = find_json_label(answer, labels)
        else:
            label = _only_label(answer, labels)
            if label is None and decision == "logprobs":
                label = find_unique_label(answer, labels)
    if label is not None:
        return label, has_reasoning
    if completion.refusal or completion.finish_reason == "content_filter":
        return make_missing_reading("refused"), has_reasoning
    if answer is None:
        return make_missing_reading("unfinished_reasoning"), has_reasoning
    if completion.finish_reason == "length":
        return make_missing_reading("truncated"), has_reasoning
    if decision != "json":
        label = find_label(answer, labels)
    return make_missing_reading("unparsed") if label is None else label, has_reasoning


def find_label(text: str, labels: Collection[str]) -> str | None:
    """Find the one label that a text without reasoning gives as its answer; None if that is not clear.

    Letter case does not matter. If several labels occur, the answer is the one that is the whole first line or the
    whole last line, except for punctuation and Markdown around it. It is not clear if neither line is a label, or if
    they are different labels.

    Examples
    --------
    >>> labels = {"YES": 1.0, "NO": 0.0}
    >>> find_label("Yes.", labels), find_label("Yes, there is no doubt", labels), find_label("**Yes**\\nNo doubt.", labels)
    ('YES', None, 'YES')
    """
    choices, normal = tuple(labels), _normalize(text)
    occurring = {
        choices[int(match.lastgroup[1:])]
        for match in _pattern(choices).finditer(normal)
        if match.lastgroup and not (_is_mark(normal, match.start() - 1) or _is_mark(normal, match.end()))
    }
    if len(occurring) == 1:
        return occurring.pop()
    lines = [line for line in normal.splitlines() if _SURROUNDING_MARKS.sub("", line)]
    line_labels = {_only_label(line, choices) for line in (*lines[:1], *lines[-1:])} - {None}
    return line_labels.pop() if len(line_labels) == 1 else None


@lru_cache(maxsize=256)
def _only_label(text: str, labels: tuple[str, ...]) -> str | None:
    """Return the label that `text` consists of; None if it is anything else."""
    folded = _fold(text)
    without_number = folded if any(label[:1].isdigit() for label in labels) else _ITEM_NUMBER.sub("", folded)
    for normal, normalize in ((folded, _fold), (_fold_and_trim(without_number), _fold_and_trim)):
        matching = [label for label in labels if normal and normalize(label) == normal]
        if len(matching) == 1:
            return matching[0]
    return None


_ITEM_NUMBER = re.compile(r"^[\W_]*\d+[.)]\s")
_SURROUNDING_MARKS = re.compile(r"^(?:(?!-\d)[\W_])+|[\W_]+$")
"""Punctuation and Markdown around a label (quotes, emphasis, list markers). A minus sign belongs to its number."""


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")


def _is_mark(text: str, position: int) -> bool:
    """Return whether a character continues a word although `\\w` does not match it, as vowel and tone signs do."""
    character = text[position : position + 1] or " "
    return unicodedata.category(character).startswith("M") and not "\ufe00" <= character <= "\ufe0f"


def _fold(label: str) -> str:
    return " ".join(_normalize(label).split()).casefold()


def _fold_and_trim(label: str) -> str:
    return _SURROUNDING_MARKS.sub("", _fold(label))


@lru_cache(maxsize=64)
def _pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern of whole words that are labels, the longest first; its group `l3` is the fourth label.

    A number that is not a label, such as 0.5 or -1, is matched as a whole without a group, so that no part of it
    is a label.
    """
    words = [r"\s+".join(map(re.escape, _normalize(label).split())) for label in labels]
    longest_first = sorted(range(len(labels)), key=lambda number: len(labels[number]), reverse=True)
    groups = "|".join(f"(?P<l{number}>{words[number]})" for number in longest_first)
    return re.compile(rf"(?<!\w)(?:(?:{groups})(?!\w)(?!(?<=\d)[.,]\d)|-?\d+(?:[.,]\d+)*(?!\w))", re.IGNORECASE)
