"""Interpret the raw answers of judges, and truncate texts that are too long for a model.

Parsing is a pure, versioned second pass over stored answers, so that a better parser needs no new calls. A judge
decides by a label in its text, by a JSON object, or by the log-probabilities of its first token. Nothing is guessed: an
answer that does not clearly give one label is missing, and does not count as a no.

Texts are truncated only if the judge's config allows it, and by characters, because no tokenizer is available.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from youden.judging.question.label_reading import find_label, parse_label
from youden.judging.question.prompts import Prompt
from youden.text.reasoning import split_reasoning
from youden.types import Completion
from youden.types.pool import Json

Decision = Literal["text", "json", "logprobs"]

PARSERS: Mapping[Decision, str] = {"text": "label/7", "json": "json/6", "logprobs": "logprobs/7"}
MAX_TOKENS: Mapping[Decision, int] = {"text": 8, "json": 32, "logprobs": 1}
TOP_LOGPROBS = 5

_END_OF_TURN = re.compile(
    r"<\|(?:im_end|eot_id|eom_id|end|endoftext|end_of_text)\|>|</s>|<end_of_turn>|<\uff5cend\u2581of\u2581sentence\uff5c>"
)
"""A token with which a model ends its reply. Some servers leave it in the text, and let the model write on."""

_SURROUNDING_CHARACTERS = " \t\r\n.,:;!*_`\"'"


def make_decision_parameters(decision: Decision, labels: Sequence[str]) -> dict[str, Json]:
    """Return the request parameters for the form of a judge's answers.

    Parameters
    ----------
    decision : {"text", "json", "logprobs"}
        Whether the judge answers by a label, by a JSON object, or by the probabilities of labels.
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
    if decision == "logprobs":
        return {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return {}


def make_decision_hint(decision: Decision, labels: Sequence[str]) -> str:
    """Return the instruction on the form of a JSON answer, to append to a question; empty for other decisions."""
    if decision != "json":
        return ""
    objects = " or ".join(orjson.dumps({"answer": label}).decode() for label in labels)
    return f"\n\nGive the answer as a JSON object and nothing else: {objects}."


_CODE_BLOCK = re.compile(r"\s*```(?:json)?\s(.*)```\s*", re.DOTALL | re.IGNORECASE)


def find_json_label(text: str, labels: Sequence[str]) -> str | None:
    """Return the label in the field "answer" of a JSON object; None if the text has no such label, or several answers.

    The object may be in a code block of Markdown. Letter case and punctuation around the label are ignored.

    Examples
    --------
    >>> find_json_label('{"answer": "YES"}', ["YES", "NO"]), find_json_label('YES', ["YES", "NO"])
    ('YES', None)
    """
    code_block = _CODE_BLOCK.fullmatch(text)
    json_text = text.removeprefix("\ufeff") if code_block is None else code_block[1]
    try:
        # with `strict=False`, strings may contain line breaks
        value = json.loads(json_text, strict=False, object_pairs_hook=_make_object_with_one_answer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("answer"), str):
        return None
    return parse_label(value["answer"], tuple(labels))


def _make_object_with_one_answer(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make a JSON object from its keys and values. Raises ValueError if the key "answer" occurs more than once."""
    if sum(name == "answer" for name, _ in pairs) > 1:
        raise ValueError
    return dict(pairs)


MIN_LABEL_PROBABILITY = 0.5
"""Smallest probability of all labels together with which the first token of a reply is taken as its answer.

It is not required if the reply begins with a label: a server that restricts the reply to the labels may return the
log-probabilities that hold without the restriction.
"""

MAX_TOTAL_PROBABILITY = 1.05
"""Largest sum of the probabilities of all tokens, with rounding errors. A larger sum is impossible for one position."""


def compute_label_probabilities(
    top_logprobs: Sequence[tuple[str, float]],
    labels: Sequence[str],
    *,
    min_probability: float = MIN_LABEL_PROBABILITY,
) -> dict[str, float] | None:
    """Compute the probability of each label from the log-probabilities of the first token of an answer.

    The probability of a label is the sum over the tokens that belong to the label. A token belongs to a label if it equals the
    label, or if this label and no other begins with the token. Letter case does not matter, nor do punctuation and white space
    around the token.

    Parameters
    ----------
    top_logprobs : sequence of (str, float)
        The tokens that the model considered, with their natural log-probabilities. A pair that occurs twice counts once.
    labels : sequence of str
        The labels that may be answered.
    min_probability : float in [0, 1], default 0.5
        Smallest probability of all labels together. If the labels have less, the answer probably begins with an explanation. The
        first token of an explanation does not predict the label that follows.

    Returns
    -------
    dict of str to float or None
        Probability of every label, normalized to a sum of 1; it is 0 for a label to which no token belongs. None if no
        token belongs to a label, if the labels have less than `min_probability`, or if the probabilities of all tokens add
        up to more than 1.05 (`MAX_TOTAL_PROBABILITY`).

    Examples
    --------
    >>> tokens = [("YES", math.log(0.6)), (" yes", math.log(0.2)), ("NO", math.log(0.1)), ("Nor", -3.0)]
    >>> compute_label_probabilities(tokens, ["YES", "NO"])["NO"]
    0.11111...
    """
    distinct_tokens = dict.fromkeys(top_logprobs)  # some servers list the chosen token twice
    if math.fsum(math.exp(logprob) for _, logprob in distinct_tokens) > MAX_TOTAL_PROBABILITY:
        return None

    probabilities = dict.fromkeys(labels, 0.0)
    for token, logprob in distinct_tokens:
        label = find_unique_label(token, labels)
        if label is not None:
            probabilities[label] += math.exp(logprob)

    total = math.fsum(probabilities.values())
    if total > 0 and total >= min_probability:
        return {label: probability / total for label, probability in probabilities.items()}
    return None


def find_unique_label(token: str, labels: Sequence[str]) -> str | None:
    """Return the only label that equals a token or begins with it; None if no label or several labels match.

    Letter case does not matter, and punctuation and Markdown around the token are ignored. A label that equals the
    token takes precedence over labels that begin with it.
    """
    folded_token = token.strip(_SURROUNDING_CHARACTERS).casefold()
    if not folded_token:
        return None
    matching = [label for label in labels if label.casefold() == folded_token]
    if not matching:
        matching = [label for label in labels if label.casefold().startswith(folded_token)]
    return matching[0] if len(matching) == 1 else None


Truncation = Literal["refuse", "middle", "end"]

MARK = "\n[…]\n"
"""Replaces the part of a text that is cut out."""


def truncate_texts(first: str, second: str, *, max_characters: int, policy: Truncation) -> tuple[str, str]:
    """Truncate two texts so that together they have at most a given number of characters.

    Each text may have half of the characters. If one text needs less than its half, the other text may have the rest.

    Parameters
    ----------
    first, second : str
        Texts of a trial, in the order in which the judge sees them.
    max_characters : int
        Maximum number of characters of both texts together, `MARK` ("[…]" between line breaks, 5 characters) included. If the
        share of a long text is shorter than `MARK`, the text becomes `MARK` alone, even if that exceeds the maximum.
    policy : {"refuse", "middle", "end"}
        Part of a long text that is replaced by `MARK`; "refuse" returns the texts unchanged.

    Returns
    -------
    first, second : str
        The truncated texts; texts that fit are unchanged.

    Examples
    --------
    >>> truncate_texts("a" * 9, "b" * 40, max_characters=30, policy="end")
    ('aaaaaaaaa', 'bbbbbbbbbbbbbbbb\\n[…]\\n')
    """
    if policy == "refuse" or len(first) + len(second) <= max_characters:
        return first, second

    half = max_characters // 2
    left_by_second = max_characters - len(second)  # less than half if the second text is long
    max_first = max(half, left_by_second)
    n_first = min(len(first), max_first)
    max_second = max_characters - n_first
    return _truncate_text(first, max_first, policy), _truncate_text(second, max_second, policy)


def _truncate_text(text: str, max_characters: int, policy: Truncation) -> str:
    """Shorten one text to a number of characters, and put `MARK` at the position where characters were removed.

    text : text to shorten; a text that is short enough is returned unchanged
    max_characters : largest number of characters of the result, `MARK` included. If it is smaller than the length of `MARK`,
        the result is `MARK` alone.
    policy : "end" to remove the end of the text; any other policy removes its middle
    """
    if len(text) <= max_characters:
        return text

    n_remaining = max(0, max_characters - len(MARK))
    if policy == "end":
        return text[:n_remaining] + MARK

    n_tail = n_remaining // 2
    n_head = n_remaining - n_tail
    return text[:n_head] + MARK + text[len(text) - n_tail :]


MissingReason = Literal[
    "answered", "unparsed", "refused", "truncated", "unfinished_reasoning", "failed", "not_asked", "pending"
]


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


def read_answer(
    completion: Completion, prompt: Prompt, *, decision: Decision = "text", is_sampled: bool = False
) -> Reading:
    """Read the answer in a raw completion.

    Parameters
    ----------
    completion : Completion
        The judge's reply. The answer contains neither reasoning that the server left in the text, nor text after a token that
        ends the reply, such as <|im_end|>.
    prompt : Prompt
        The labels that may be answered, and their grades.
    decision : {"text", "json", "logprobs"}, default "text"
        Form of the answer: a label, a JSON object, or log-probabilities. With "text" and "json", the graded answer is the grade
        of the label. With "logprobs", the label in the text gives the hard answer, and the graded answer is the expected
        grade, Σ P(label)·grade. P(label) is the probability of the label as the first token, divided by the sum over all labels.
    is_sampled : bool, default False
        Whether the answer was drawn at random, because the temperature is above 0 or the provider's default. It has an
        effect only with "logprobs". If it is False, or if the reply contains reasoning, an answer is "unparsed" unless its label
        is the likeliest.

    Returns
    -------
    Reading
        The graded answer in [0, 1], and the hard answer: 1 if the grade of the label reaches the prompt's
        `yes_threshold`, else 0. Both are missing (NaN) if the completion does not clearly give one label. The reason is
        then "refused", "truncated", "unfinished_reasoning" or "unparsed"; with "logprobs", it is also "unparsed" if the
        log-probabilities are missing or do not fit the label. If an answer was cut off after its label, the label counts.
    """
    labels = tuple(prompt.labels)
    if decision == "json":
        label = find_json_label(completion.text, labels)
        if label is not None:
            return _make_reading(label, prompt)

    answer, has_reasoning = split_reasoning(completion.text)
    if answer is not None:
        text_before_end = _END_OF_TURN.split(answer, maxsplit=1)[0]
        answer = text_before_end if text_before_end.strip() else answer
    label, missing_reason = _find_answer_label(completion, answer, labels, decision)
    if answer is None or label is None:
        return make_missing_reading(missing_reason)
    if decision != "logprobs":
        return _make_reading(label, prompt)

    # If the answer begins with the label, the log-probabilities are those of the label, even if all labels are unlikely:
    # they may be computed without the server's restriction of the answer to the labels.
    first_word = answer.split(maxsplit=1)[0]
    begins_with_label = find_unique_label(first_word, labels) == label
    min_probability = 0.0 if begins_with_label else MIN_LABEL_PROBABILITY
    probabilities = compute_label_probabilities(completion.top_logprobs, labels, min_probability=min_probability)
    if probabilities is None:
        return make_missing_reading("unparsed")

    may_differ_from_likeliest = is_sampled and not has_reasoning
    is_likeliest = _is_likeliest_label(label, completion.top_logprobs, labels, has_reasoning=has_reasoning)
    if not (is_likeliest or may_differ_from_likeliest):
        return make_missing_reading("unparsed")
    expected_grade = math.fsum(probability * prompt.labels[name] for name, probability in probabilities.items())
    return _make_reading(label, prompt, answer=expected_grade)


def _make_reading(label: str, prompt: Prompt, *, answer: float | None = None) -> Reading:
    """Make the reading of an answer that gives a label; `answer` is the graded answer, by default the label's grade."""
    grade = prompt.labels[label]
    return Reading(grade if answer is None else answer, float(grade >= prompt.yes_threshold))


def _is_likeliest_label(
    label: str, top_logprobs: Sequence[tuple[str, float]], labels: Sequence[str], *, has_reasoning: bool
) -> bool:
    """Return whether a label is the most likely answer: a token of this label has the largest log-probability.

    A token belongs to a label if it equals the label or is its beginning. Tokens of no label are ignored, because the server
    may have excluded them from the answer. If the reply contains reasoning, they count: the log-probabilities may then be
    those of the first token of the reasoning.

    top_logprobs : pairs of token and log-probability, of which at least one token belongs to a label
    labels : all labels that may be answered
    has_reasoning : whether the reply contains reasoning
    """
    label_logprobs = [(find_unique_label(token, labels), logprob) for token, logprob in top_logprobs]
    if not has_reasoning:
        label_logprobs = [(name, logprob) for name, logprob in label_logprobs if name is not None]
    highest_logprob = max(logprob for _, logprob in label_logprobs)
    return (label, highest_logprob) in label_logprobs


def _find_answer_label(
    completion: Completion, answer: str | None, labels: tuple[str, ...], decision: Decision
) -> tuple[str | None, MissingReason]:
    """Find the label that an answer gives.

    - If the answer is only a label (for the decision "json": only a JSON object), it gives this label. This holds even if the
      model was cut off after it.
    - A label within a longer text counts only if the reply is complete and is not a refusal.

    completion : reply of the model
    answer : text of the reply after its reasoning; None if the reasoning is not finished
    labels : labels that may be answered
    decision : form of the answer: "text", "json" or "logprobs"

    Returns the label and "answered", or None and the reason why there is no label.
    """
    exact_label = None if answer is None else _find_exact_label(answer, labels, decision)
    if exact_label is not None:
        return exact_label, "answered"

    if completion.refusal or _get_finish_reason(completion) in _FILTERED:
        return None, "refused"
    if answer is None:
        return None, "unfinished_reasoning"
    if is_cut_off(completion):
        return None, "truncated"

    # the reply is complete: search its text for a label
    found_label = None if decision == "json" else find_label(answer, labels)
    if found_label is None:
        return None, "unparsed"
    return found_label, "answered"


_FILTERED = {
    *("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii", "sensitive", "refusal"),
    *("guardrail_intervened", "content_filtered"),
}
"""Finish reasons of a reply that the provider withheld or ended because of its content, in lower case."""
_CUT_OFF = {
    *("length", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded"),
    *("abort", "pause_turn"),
}
"""Finish reasons of a reply that ended before the model had finished it, in lower case."""


def is_cut_off(completion: Completion) -> bool:
    """Return whether a reply ended before the model had finished it, for example at its limit of tokens."""
    return _get_finish_reason(completion) in _CUT_OFF


def _get_finish_reason(completion: Completion) -> str:
    """Return the finish reason of a reply in lower case, without details as in "content_filter: RECITATION"."""
    return completion.finish_reason.casefold().partition(":")[0]


def _find_exact_label(answer: str, labels: tuple[str, ...], decision: Decision) -> str | None:
    """Find the label, such as YES or NO, of an answer that has exactly the form that was requested.

    answer : text of the reply after its reasoning
    labels : labels that may be answered
    decision : requested form. "text": the whole answer is a label. "json": the answer is a JSON object that contains a label.
        "logprobs": the answer is one token: a label, or a beginning that only one of the labels has.

    Returns the label, or None if the answer does not have this form.
    """
    if decision == "json":
        return find_json_label(answer, labels)
    label = parse_label(answer, labels)
    if label is None and decision == "logprobs":
        return find_unique_label(answer, labels)
    return label
