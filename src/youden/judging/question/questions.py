"""Turns a plan's row into the request that is sent, and the request into the key it is stored under.

Only what can change an answer is part of the key: no timeout, no concurrency, no price. Keys of a whole plan are made without
their requests: each text is encoded and hashed once a chunk, the rest is a template. They equal `Questions.key` of
`Questions.request`, byte for byte, at half of its time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import orjson

from youden.errors import InputError
from youden.judging.question.parsing import Decision, Reading, Truncation, decision_hint, read_answer, shortened
from youden.judging.question.prompts import Prompt, fence_of
from youden.text.printable import sendable
from youden.types import INDEPENDENT, Completion, Plan, Request
from youden.types.pool import Bools, Json, Positions

SCHEMA = 1
"""Version of the canonical request; a new one makes every stored key unknown."""

CHARACTERS_A_TOKEN = 4

SHORT = 64
"""Characters of an answer whose reading is kept, and how many readings are."""


@dataclass(frozen=True)
class Questions:
    """What one judge is asked about each trial.

    address: base URL without credentials. parameters: everything sent beside model and messages.
    context: tokens that the model can read, counted as characters / 4; None where no limit is known. truncate: what is done
    with texts that are too long for it. answer_tokens: how many of its tokens are kept free for the answer.
    """

    prompt: Prompt
    model: str
    address: str
    parameters: Mapping[str, Json]
    context: int | None = None
    decision: Decision = "text"
    truncate: Truncation = "refuse"
    answer_tokens: int = 0

    def request(self, plan: Plan, row: int) -> Request:
        """The request for trial `row`, its texts in the plan's order, shortened where they have to be.

        Raises: InputError [plan-missing-text] where the pool has no response.
        """
        item, texts, (one, two) = plan.item.item(row), plan.pool.every, plan.text_rows
        other = plan.other_item.item(row) if plan.arm.item(row) == INDEPENDENT else item
        first, second = texts.item(one.item(row), item), texts.item(two.item(row), other)
        if first is None or second is None:
            raise InputError(
                f"The plan asks about a response that the pool does not have ({trial_name(plan, row)}). "
                "Make the plan again from this pool.",
                slug="plan-missing-text",
            )
        return self.about(first, second, replicate=plan.replicate.item(row))

    def request_under(self, key: str, plan: Plan, row: int) -> Request:
        """As `request`, which has to have the key under which its answer will be kept.

        Raises: InputError [keys-other] where it has another; as `request`.
        """
        request = self.request(plan, row)
        if (made := self.key(request)) != key:
            raise InputError(
                f"The key kept for {trial_name(plan, row)} is {key[:12]}, and its request has {made[:12]}: the file of keys in "
                "the run's folder was changed by hand. Delete it, and the same command makes it again.",
                slug="keys-other",
            )
        return request

    def about(self, first: str, second: str, *, replicate: int = 0) -> Request:
        """The request about these two texts."""
        if self.room is not None:
            first, second = shortened(first, second, room=self.room, policy=self.truncate)
        asked_as: dict[str, Json] = {"schema": SCHEMA, "replicate": replicate}
        return Request(self.model, self.prompt.messages(first, second, hint=self.hint), self.parameters, asked_as)

    def key(self, request: Request) -> str:
        """What the answer to `request` is stored under."""
        return key_of(canonical(request, address=self.address))

    def all(self, plan: Plan) -> Iterator[tuple[int, str, Request]]:
        """(row, key, request) of every trial, one at a time."""
        for row in range(len(plan)):
            request = self.request(plan, row)
            yield row, self.key(request), request

    def fits(self, request: Request) -> bool:
        """Whether the request is, by estimate, within the model's context."""
        return self.context is None or characters(request) <= CHARACTERS_A_TOKEN * self.context

    def read(self, completion: Completion) -> Reading:
        """The answer that a raw completion gives; most say one of a few words, which are read once."""
        if completion.top_logprobs or len(completion.text) > SHORT:
            return read_answer(completion, self.prompt, decision=self.decision)
        said = completion.text, completion.finish_reason, completion.refusal
        if (reading := self._readings.get(said)) is None:
            if len(self._readings) >= SHORT:
                self._readings.clear()
            reading = self._readings[said] = read_answer(completion, self.prompt, decision=self.decision)
        return reading

    @cached_property
    def _readings(self) -> dict[tuple[str, str, str | None], Reading]:
        return {}

    def cut(self, plan: Plan) -> Bools:
        """bool[N]: the trials whose texts are shortened."""
        if self.room is None or self.truncate == "refuse":
            return np.zeros(len(plan), dtype=np.bool_)
        return np.asarray(_characters_of(plan) > self.room)

    def characters(self, plan: Plan) -> Positions:
        """int64[N]: characters of each trial's messages."""
        found = _characters_of(plan) + self.around
        for row in np.flatnonzero(self.cut(plan)).tolist():
            found[row] = characters(self.request(plan, row))
        return found

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of all that decides keys beside a plan and its pool."""
        request = canonical(self.about("one", "other"), address=self.address)
        return key_of(request | {"room": self.room, "truncate": self.truncate})

    @cached_property
    def room(self) -> int | None:
        """Characters that both texts may have together; None for no limit known."""
        if self.context is None:
            return None
        return max(0, CHARACTERS_A_TOKEN * (self.context - self.answer_tokens) - self.around)

    @cached_property
    def around(self) -> int:
        """Characters of a request around its two texts."""
        return characters(Request("", self.prompt.messages("", "", hint=self.hint)))

    @cached_property
    def hint(self) -> str:
        """What stands at the very end of each question."""
        return decision_hint(self.decision, tuple(self.prompt.labels))


def canonical(request: Request, *, address: str) -> dict[str, object]:
    """All that can change the answer to a request at `address`, and as what it is asked."""
    return {
        "base_url": address,
        "model": request.model,
        "messages": request.messages,
        "parameters": dict(request.parameters),
        **request.asked_as,
    }


def key_of(canonical: Mapping[str, object]) -> str:
    """sha256 (hex) of the JSON of a canonical request."""
    return hashlib.sha256(orjson.dumps(canonical, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _characters_of(plan: Plan) -> Positions:
    """int64[N]: characters of each trial's two texts, as the pool has them."""
    (item, other), (one, two) = plan.trials.text_cells, plan.text_rows
    lengths = plan.pool.every_length
    return lengths[one, item] + lengths[two, other]


def characters(request: Request) -> int:
    """Length of all messages together."""
    return sum(len(message.content) for message in request.messages)


def trial_name(plan: Plan, row: int) -> str:
    """A trial in words: agents, item, arm.

    Example: `trial 17: agents 'a' and 'b', item 'p3', paired`.
    """
    first, second = plan.agent_ids[plan.first[row]], plan.agent_ids[plan.second[row]]
    where = f"item '{plan.item_ids[plan.item[row]]}', paired"
    if plan.arm[row] == INDEPENDENT:
        where = f"items '{plan.item_ids[plan.item[row]]}' and '{plan.item_ids[plan.other_item[row]]}', independent"
    return f"trial {row}: agents '{first}' and '{second}', {where}"


MOST_TEXTS = 4096
"""Trials whose texts are kept in encoded form at once."""


Keyed = tuple[int, str]
"""A trial's row and what its answer is stored under, in hex."""


class Keys(Protocol):
    """Where the keys of a plan come from: `keys`, which makes them, or a file that holds them."""

    def __call__(self, questions: Questions, plan: Plan, *, start: int = 0) -> Iterator[Keyed]: ...


def keys(questions: Questions, plan: Plan, *, start: int = 0) -> Iterator[Keyed]:
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
        one_row, two_row = plan.text_rows
        cells = (
            one_row[part].astype(np.int64) * n_items + plan.item[part],
            two_row[part].astype(np.int64) * n_items + other,
        )
        columns = (*(cell.tolist() for cell in cells), plan.replicate[part].tolist())
        for row, (first, second, replicate) in enumerate(zip(*columns, strict=True), begin):
            one, two = kept.get(first), kept.get(second)
            if one is None:
                one = kept[first] = _text(questions, plan, row, divmod(first, n_items))
            if two is None:
                two = kept[second] = _text(questions, plan, row, divmod(second, n_items))
            if room is not None and one[0] + two[0] > room:
                yield row, questions.key(questions.request(plan, row))
                continue
            template = templates.get(replicate)
            if template is None:
                template = templates[replicate] = _Template(questions, replicate)
            yield row, template.key(one, two)


_Text = tuple[int, int, bytes, bytes]
"""Characters as the pool has them and as they are sent; the text as it is sent, and as it stands inside JSON."""


def _text(questions: Questions, plan: Plan, row: int, cell: tuple[int, int]) -> _Text:
    text = plan.pool.every[cell]
    if text is None:
        questions.request(plan, row)  # raises the error for a missing text
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
