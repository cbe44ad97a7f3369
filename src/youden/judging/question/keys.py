"""The keys of a plan's trials without their requests: each text is encoded and hashed once a chunk, the rest is a template.

Equal to `Questions.key` of `Questions.request`, byte for byte, at a third of its time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import orjson

from youden.judging.question.prompts import fence_of, sendable
from youden.judging.question.questions import SCHEMA, Questions, canonical
from youden.nouns import INDEPENDENT, Json, Plan, Pool, Request

MOST_TEXTS = 4096
"""Trials whose texts are kept in encoded form at once."""


class Keyed(NamedTuple):
    """A trial and what its answer is stored under."""

    row: int
    key: str


def keys(questions: Questions, plan: Plan, pool: Pool) -> Iterator[Keyed]:
    """Row and key of every trial, in order. Raises: InputError [plan-missing-text] where the pool has no response."""
    templates: dict[int, _Template] = {}
    kept: dict[int, _Text] = {}
    room, n_items = questions.room, plan.n_items
    for start in range(0, len(plan), MOST_TEXTS):
        kept.clear()
        part = slice(start, start + MOST_TEXTS)
        other = np.where(plan.arm[part] == INDEPENDENT, plan.other_item[part], plan.item[part])
        cells = (
            plan.first[part].astype(np.int64) * n_items + plan.item[part],
            plan.second[part].astype(np.int64) * n_items + other,
        )
        columns = (*(cell.tolist() for cell in cells), plan.replicate[part].tolist())
        for row, (first, second, replicate) in enumerate(zip(*columns, strict=True), start):
            one, two = kept.get(first), kept.get(second)
            if one is None:
                one = kept[first] = _text(questions, plan, pool, row, divmod(first, n_items))
            if two is None:
                two = kept[second] = _text(questions, plan, pool, row, divmod(second, n_items))
            if room is not None and one.length + two.length > room:
                yield Keyed(row, questions.key(questions.request(plan, pool, row)))
                continue
            template = templates.get(replicate)
            if template is None:
                template = templates[replicate] = _Template.of(questions, replicate)
            yield Keyed(row, template.key(one, two))


class _Text(NamedTuple):
    """length: characters as the pool has them; n_sent, encoded: as it is sent; quoted: inside JSON."""

    length: int
    n_sent: int
    encoded: bytes
    quoted: bytes

    @classmethod
    def of(cls, text: str) -> _Text:
        sent = sendable(text)
        return cls(len(text), len(sent), sent.encode(), orjson.dumps(sent)[1:-1])


def _text(questions: Questions, plan: Plan, pool: Pool, row: int, cell: tuple[int, int]) -> _Text:
    text = pool.texts[cell]
    if text is None:
        questions.request(plan, pool, row)  # which says what is missing
    return _Text.of(text)


@dataclass(frozen=True)
class _Template:
    """A canonical request as JSON, cut where a text or its fence goes. begun: up to the first; pieces: what goes there, and what
    follows."""

    begun: bytes
    pieces: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, questions: Questions, replicate: int) -> _Template:
        marks = {name: f"<{name} of {questions.prompt.digest}>" for name in ("first", "second", "fence")}
        messages = questions.prompt.filled(marks, hint=questions.hint)
        asked_as: dict[str, Json] = {"schema": SCHEMA, "replicate": replicate}
        request = Request(questions.model, messages, questions.parameters, asked_as)
        whole = orjson.dumps(canonical(request, address=questions.address), option=orjson.OPT_SORT_KEYS)
        parts, places = [], []
        while found := [(whole.find(mark.encode()), name) for name, mark in marks.items() if mark.encode() in whole]:
            at, name = min(found)
            parts.append(whole[:at])
            places.append(name)
            whole = whole[at + len(marks[name]) :]
        return cls(parts[0], tuple(zip(places, (*parts[1:], whole), strict=True)))

    def key(self, one: _Text, two: _Text) -> str:
        tag = fence_of(one.n_sent, one.encoded, two.encoded)
        filled = {
            "first": b"<first-%b>\\n%b\\n</first-%b>" % (tag, one.quoted, tag),
            "second": b"<second-%b>\\n%b\\n</second-%b>" % (tag, two.quoted, tag),
            "fence": tag,
        }
        return hashlib.sha256(self.begun + b"".join([filled[place] + part for place, part in self.pieces])).hexdigest()
