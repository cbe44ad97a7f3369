"""The ways in which a judge can be made to decide: a label in text, a JSON object, or the odds of the first token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import orjson

from youden.nouns import Json

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
