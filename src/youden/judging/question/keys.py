"""The keys of a plan's trials without their requests: each text is encoded and hashed once a chunk, the rest is a template.

Equal to `Questions.key` of `Questions.request`, byte for byte, at half of its time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import orjson

from youden.judging.question.prompts import fence_of, sendable
from youden.judging.question.questions import SCHEMA, Questions, canonical
from youden.nouns import INDEPENDENT, Json, Plan, Pool, Request

MOST_TEXTS = 4096
"""Trials whose texts are kept in encoded form at once."""


Keyed = tuple[int, str]
"""A trial's row and what its answer is stored under, in hex."""


class Keys(Protocol):
    """Where the keys of a plan come from: `keys`, which makes them, or a file that holds them."""

    def __call__(self, questions: Questions, plan: Plan, pool: Pool, *, start: int = 0) -> Iterator[Keyed]: ...


def keys(questions: Questions, plan: Plan, pool: Pool, *, start: int = 0) -> Iterator[Keyed]:
    """Row and key of every trial from `start` on, in order.

    Raises: InputError [plan-missing-text] where the pool has no response.
    """
    templates: dict[int, _Template] = {}
    kept: dict[int, _Text] = {}
    room, n_items = questions.room, plan.n_items
    for begin in range(start, len(plan), MOST_TEXTS):
        kept.clear()
        part = slice(begin, begin + MOST_TEXTS)
        other = np.where(plan.arm[part] == INDEPENDENT, plan.other_item[part], plan.item[part])
        cells = (
            plan.first[part].astype(np.int64) * n_items + plan.item[part],
            plan.second[part].astype(np.int64) * n_items + other,
        )
        columns = (*(cell.tolist() for cell in cells), plan.replicate[part].tolist())
        for row, (first, second, replicate) in enumerate(zip(*columns, strict=True), begin):
            one, two = kept.get(first), kept.get(second)
            if one is None:
                one = kept[first] = _text(questions, plan, pool, row, divmod(first, n_items))
            if two is None:
                two = kept[second] = _text(questions, plan, pool, row, divmod(second, n_items))
            if room is not None and one[0] + two[0] > room:
                yield row, questions.key(questions.request(plan, pool, row))
                continue
            template = templates.get(replicate)
            if template is None:
                template = templates[replicate] = _Template(questions, replicate)
            yield row, template.key(one, two)


_Text = tuple[int, int, bytes, bytes]
"""Characters as the pool has them and as they are sent; the text as it is sent, and as it stands inside JSON."""


def _text(questions: Questions, plan: Plan, pool: Pool, row: int, cell: tuple[int, int]) -> _Text:
    text = pool.texts[cell]
    if text is None:
        questions.request(plan, pool, row)  # which says what is missing
    sent = sendable(text)
    return len(text), len(sent), sent.encode(), orjson.dumps(sent)[1:-1]


class _Template:
    """A canonical request as JSON in pieces, of which some are filled for each trial: the texts and their fence."""

    def __init__(self, questions: Questions, replicate: int) -> None:
        marks = {name: f"<{name} of {questions.prompt.digest}>" for name in ("first", "second", "fence")}
        fenced = {
            name: f"<{name}-{marks['fence']}>\n{marks[name]}\n</{name}-{marks['fence']}>"
            for name in ("first", "second")
        }
        messages = questions.prompt.filled({**fenced, "fence": marks["fence"]}, hint=questions.hint)
        asked_as: dict[str, Json] = {"schema": SCHEMA, "replicate": replicate}
        request = Request(questions.model, messages, questions.parameters, asked_as)
        whole = orjson.dumps(canonical(request, address=questions.address), option=orjson.OPT_SORT_KEYS)
        self._pieces: list[bytes] = []
        self._at: dict[str, list[int]] = {name: [] for name in marks}
        while found := [(whole.find(mark.encode()), name) for name, mark in marks.items() if mark.encode() in whole]:
            at, name = min(found)
            self._at[name].append(len(self._pieces) + 1)
            self._pieces += [whole[:at], b""]
            whole = whole[at + len(marks[name]) :]
        self._pieces.append(whole)
        self._first, self._second = self._at["first"][0], self._at["second"][0]

    def key(self, one: _Text, two: _Text) -> str:
        pieces = self._pieces
        tag = fence_of(one[1], one[2], two[2])
        for at in self._at["fence"]:
            pieces[at] = tag
        pieces[self._first], pieces[self._second] = one[3], two[3]
        return hashlib.sha256(b"".join(pieces)).hexdigest()
