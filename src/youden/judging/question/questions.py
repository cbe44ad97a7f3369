"""Build the request for each trial of a plan, and compute the request hash, the key under which its answer is stored.

Only what can change an answer is part of the hash: no timeout, concurrency or price. `iter_keys` computes the keys of
a whole plan without building its requests: each text is encoded once per chunk and inserted into a template. The keys
equal those that `Questions.key` computes from `Questions.request`, in half the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import orjson

from youden.errors import InputError
from youden.judging.question.parsing import (
    Decision,
    Reading,
    Truncation,
    make_decision_hint,
    read_answer,
    truncate_texts,
)
from youden.judging.question.prompts import Prompt, make_fence_bytes
from youden.text.printable import to_encodable
from youden.types import Completion, Plan, Request
from youden.types.pool import Bools, Json, Positions

SCHEMA = 1
"""Version of the canonical request. A new version changes all keys, so that no stored answer is found any more."""

CHARACTERS_PER_TOKEN = 4
"""Estimate of the number of characters per token."""

NO_TASK = "(The task is not recorded.)"
"""Shown in place of a prompt that the pool does not have."""

MAX_CACHED_CHARACTERS = MAX_CACHED_READINGS = 64
"""Length of the longest answer whose reading is cached, and the number of cached readings."""


@dataclass(frozen=True)
class Questions:
    """Builds the requests that a judge gets about the trials of a plan."""

    prompt: Prompt
    """The prompt of the judge."""
    model: str
    """Name of the model."""
    address: str
    """Base URL without credentials."""
    parameters: Mapping[str, Json]
    """All parameters of a request other than model and messages."""
    context: int | None = None
    """Context window of the model in tokens, estimated as characters / 4; None if no limit is known."""
    decision: Decision = "text"
    """How the judge decides."""
    truncate: Truncation = "refuse"
    """What is done with texts that are too long for the context window."""
    answer_tokens: int = 0
    """Number of tokens of the context window that are reserved for the answer."""

    def request(self, plan: Plan, row: int) -> Request:
        """Build the request for a trial: the question about the two texts of the trial.

        If the texts are too long for the context window of the model, they are truncated as the attribute `truncate` states: in
        the middle ("middle"), at the end ("end"), or not at all ("refuse").

        Parameters
        ----------
        plan : Plan
            Plan with its pool.
        row : int
            Position of the trial in the plan.

        Returns
        -------
        Request
            Model, messages and parameters. The request may exceed the context window; `fits` checks this.

        Raises
        ------
        InputError
            [plan-missing-text]: if the pool has no response for the trial.
        """
        first_item = plan.item.item(row)
        other_item = plan.other_item.item(row)
        second_item = first_item if other_item < 0 else other_item  # −1: both texts respond to the same item

        first_text_rows, second_text_rows = plan.text_rows
        texts = plan.pool.all_texts
        first_text = texts.item(first_text_rows.item(row), first_item)
        second_text = texts.item(second_text_rows.item(row), second_item)
        if first_text is None or second_text is None:
            raise _make_missing_text_error(plan, row)

        task = self._get_task(plan, first_item)
        replicate = plan.replicate.item(row)
        return self.request_for_texts(first_text, second_text, task=task, replicate=replicate)

    def _get_task(self, plan: Plan, item: int) -> str:
        """Return the prompt of an item if the question shows it; else an empty text."""
        if not self.prompt.shows_task:
            return ""
        return plan.pool.items[item].prompt or NO_TASK

    def request_with_key(self, key: str, plan: Plan, row: int) -> Request:
        """Build the request for a trial, and check that its hash is the expected key.

        Parameters
        ----------
        key : str
            The request hash under which the answer will be stored.
        plan : Plan
            Plan with its pool.
        row : int
            Position of the trial in the plan.

        Returns
        -------
        Request
            Model, messages and parameters. Texts that are too long for the context window are truncated as in `request`.

        Raises
        ------
        InputError
            [request-hash-mismatch]: if the request has another key. [plan-missing-text]: if the pool has no response
            for the trial.
        """
        request = self.request(plan, row)
        actual_key = self.key(request)
        if actual_key != key:
            raise InputError(
                f"The stored request hash of {describe_trial(plan, row)} is {key[:12]}, but its request has "
                f"{actual_key[:12]}: the file of request hashes in the run folder was changed. Remove the file and run the "
                "same command again, which recomputes it.",
                slug="request-hash-mismatch",
            )
        return request

    def request_for_texts(self, first: str, second: str, *, task: str = "", replicate: int = 0) -> Request:
        """Build the request about two texts.

        If the texts are too long for the context window of the model, they are truncated as the attribute `truncate` states: in
        the middle ("middle"), at the end ("end"), or not at all ("refuse").

        Parameters
        ----------
        first, second : str
            The texts, in the order in which the judge sees them.
        task : str, default ""
            Prompt of the item. It is not truncated, and reduces the room for the texts. Pass "" if the judge's prompt does not
            contain {{task}}.
        replicate : int, default 0
            Number of the replicate, for a trial that is sent several times.

        Returns
        -------
        Request
            Model, messages and parameters. Its hash differs for each replicate. It may exceed the context window, for
            example if `truncate` is "refuse"; `fits` checks this.
        """
        if self.max_text_characters is not None:
            max_characters = max(0, self.max_text_characters - len(task))
            first, second = truncate_texts(first, second, max_characters=max_characters, policy=self.truncate)
        cache_salt: dict[str, Json] = {"schema": SCHEMA, "replicate": replicate}
        messages = self.prompt.messages(first, second, task=task, hint=self.hint)
        return Request(self.model, messages, self.parameters, cache_salt)

    def key(self, request: Request) -> str:
        """Compute the request hash (SHA-256, hex) under which the answer to a request is stored."""
        return hash_request(canonical_request(request, address=self.address))

    def iter_requests(self, plan: Plan) -> Iterator[tuple[int, str, Request]]:
        """Iterate over (row, key, request) of every trial of a plan."""
        for row in range(len(plan)):
            request = self.request(plan, row)
            yield row, self.key(request), request

    def fits(self, request: Request) -> bool:
        """Return whether a request is estimated to fit into the model's context window."""
        return self.context is None or count_characters(request) <= CHARACTERS_PER_TOKEN * self.context

    def read(self, completion: Completion) -> Reading:
        """Parse the answer in a raw completion. Short answers are cached, because most of them are equal."""
        if completion.top_logprobs or len(completion.text) > MAX_CACHED_CHARACTERS:
            return self._read_answer(completion)

        content = completion.text, completion.finish_reason, completion.refusal
        reading = self._readings.get(content)
        if reading is None:
            reading = self._read_answer(completion)
            if len(self._readings) >= MAX_CACHED_READINGS:
                self._readings.clear()
            self._readings[content] = reading
        return reading

    def _read_answer(self, completion: Completion) -> Reading:
        """Parse the answer in a raw completion, without the cache."""
        is_sampled = self.parameters.get("temperature") != 0
        return read_answer(completion, self.prompt, decision=self.decision, is_sampled=is_sampled)

    @cached_property
    def _readings(self) -> dict[tuple[str, str, str | None], Reading]:
        """Interpretations of answers by their text, refusal and finish reason, so that each is parsed only once."""
        return {}

    def truncated_rows(self, plan: Plan) -> Bools:
        """Return which trials of a plan have texts that are truncated, bool array (n_trials,)."""
        if self.max_text_characters is None or self.truncate == "refuse":
            return np.zeros(len(plan), dtype=np.bool_)
        return np.asarray(self._count_texts(plan) > self.max_text_characters)

    def count_characters(self, plan: Plan) -> Positions:
        """Count the characters of the messages of each trial, int64 array (n_trials,)."""
        n_characters = self._count_texts(plan) + self.overhead_characters
        for row in np.flatnonzero(self.truncated_rows(plan)).tolist():
            n_characters[row] = count_characters(self.request(plan, row))
        return n_characters

    def _count_texts(self, plan: Plan) -> Positions:
        """Count the characters of the texts of each trial before any truncation, int64 (n_trials,)."""
        n_characters = _count_text_characters(plan)
        if not self.prompt.shows_task:
            return n_characters
        task_lengths = np.array([len(self._get_task(plan, item)) for item in range(plan.n_items)], dtype=np.int64)
        return np.asarray(n_characters + task_lengths[plan.item])

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that determines the keys of a plan, in addition to the plan and its pool."""
        request = canonical_request(self.request_for_texts("one", "other"), address=self.address)
        return hash_request(request | {"room": self.max_text_characters, "truncate": self.truncate})

    @cached_property
    def max_text_characters(self) -> int | None:
        """Largest number of characters of both texts together; None if no limit is known."""
        if self.context is None:
            return None
        return max(0, CHARACTERS_PER_TOKEN * (self.context - self.answer_tokens) - self.overhead_characters)

    @cached_property
    def overhead_characters(self) -> int:
        """Number of characters of a request without its two texts."""
        return count_characters(Request("", self.prompt.messages("", "", hint=self.hint)))

    @cached_property
    def hint(self) -> str:
        """Instruction on the form of the answer that is appended to each question; may be empty."""
        return make_decision_hint(self.decision, tuple(self.prompt.labels))


def canonical_request(request: Request, *, address: str) -> dict[str, object]:
    """Return everything that can change the answer to a request, and its cache salt.

    Parameters
    ----------
    request : Request
        Model, messages, parameters and cache salt.
    address : str
        Base URL without credentials.

    Returns
    -------
    dict
        The canonical request, which `hash_request` hashes.
    """
    return {
        "base_url": address,
        "model": request.model,
        "messages": request.messages,
        "parameters": dict(request.parameters),
        **request.cache_salt,
    }


def hash_request(canonical: Mapping[str, object]) -> str:
    """Compute the SHA-256 (hex) of the JSON of a canonical request."""
    return hashlib.sha256(orjson.dumps(canonical, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _count_text_characters(plan: Plan) -> Positions:
    """Count the characters of the two texts of each trial before any truncation, int64 array (n_trials,)."""
    first_item, second_item = plan.trials.text_cells
    first_row, second_row = plan.text_rows
    lengths = plan.pool.all_lengths
    return lengths[first_row, first_item] + lengths[second_row, second_item]


def count_characters(request: Request) -> int:
    """Count the characters of all messages of a request."""
    return sum(len(message.content) for message in request.messages)


def describe_trial(plan: Plan, row: int) -> str:
    """Describe a trial for a message, such as "trial 17: agents 'a' and 'b', item 'p3', paired"."""
    first = plan.agent_ids[plan.first[row]]
    second = plan.agent_ids[plan.second[row]]
    item = plan.item_ids[plan.item[row]]
    is_paired = plan.other_item[row] in (-1, plan.item[row])  # −1 means that there is no other item
    if is_paired:
        return f"trial {row}: agents '{first}' and '{second}', item '{item}', paired"
    second_item = plan.item_ids[plan.other_item[row]]
    return f"trial {row}: agents '{first}' and '{second}', items '{item}' and '{second_item}', independent"


def _make_missing_text_error(plan: Plan, row: int) -> InputError:
    """Make the error for a trial of a plan whose pool lacks a response; `row` is the position of the trial."""
    trial = describe_trial(plan, row)
    message = f"The pool has no response for a trial of the plan ({trial}). Make a new plan from this pool."
    return InputError(message, slug="plan-missing-text")


TRIALS_PER_CHUNK = 4096
"""Number of trials whose texts are in memory in encoded form at a time."""


RowKey = tuple[int, str]
"""The row of a trial, and the request hash (hex) under which its answer is stored."""


class KeySource(Protocol):
    """A source of the keys of a plan: `iter_keys`, which computes them, or a file that contains them."""

    def __call__(self, questions: Questions, plan: Plan, *, start: int = 0) -> Iterator[RowKey]:
        """Iterate over the rows and keys of a plan, from the row `start` on."""
        ...


def iter_keys(questions: Questions, plan: Plan, *, start: int = 0) -> Iterator[RowKey]:
    """Iterate over the rows and keys of the trials of a plan, from the row `start` on.

    Trials with the same request have the same key, and are not left out.

    Parameters
    ----------
    questions : Questions
        Prompt, model and parameters of the judge.
    plan : Plan
        Plan with its pool.
    start : int, default 0
        First row. Earlier trials are skipped.

    Yields
    ------
    (int, str)
        The row of a trial, and the request hash (hex) under which its answer is stored.

    Raises
    ------
    InputError
        [plan-missing-text]: if the pool has no response for a trial.
    """
    if questions.prompt.shows_task:  # the tags depend on the task, too, which templates do not know
        yield from ((row, questions.key(questions.request(plan, row))) for row in range(start, len(plan)))
        return

    templates: dict[int, _Template] = {}  # by replicate
    encoded_texts: dict[int, _EncodedText] = {}  # by position in the flat array of texts
    max_characters, n_items = questions.max_text_characters, plan.n_items
    first_rows, second_rows = plan.text_rows

    def encode_text(position: int, row: int) -> _EncodedText:
        """Encode a text that the trial at `row` needs, unless it was encoded for an earlier trial."""
        text = encoded_texts.get(position)
        if text is None:
            text = _encode_text(plan, row, divmod(position, n_items))
            encoded_texts[position] = text
        return text

    for chunk_start in range(start, len(plan), TRIALS_PER_CHUNK):
        encoded_texts.clear()
        chunk = slice(chunk_start, chunk_start + TRIALS_PER_CHUNK)
        item, other_item = plan.item[chunk], plan.other_item[chunk]
        second_item = np.where(other_item >= 0, other_item, item)
        first_positions = first_rows[chunk].astype(np.int64) * n_items + item
        second_positions = second_rows[chunk].astype(np.int64) * n_items + second_item

        columns = first_positions.tolist(), second_positions.tolist(), plan.replicate[chunk].tolist()
        for row, (first_position, second_position, replicate) in enumerate(zip(*columns, strict=True), chunk_start):
            first = encode_text(first_position, row)
            second = encode_text(second_position, row)
            n_characters = first.n_pool_characters + second.n_pool_characters
            needs_truncation = max_characters is not None and n_characters > max_characters
            if needs_truncation:
                yield row, questions.key(questions.request(plan, row))
                continue

            if replicate not in templates:
                templates[replicate] = _Template(questions, replicate)
            yield row, templates[replicate].key(first, second)


class _EncodedText(NamedTuple):
    """A text in the forms that a key needs."""

    n_pool_characters: int
    """Number of characters in the pool."""
    n_characters: int
    """Number of characters that are sent."""
    utf8: bytes
    """The text that is sent."""
    json: bytes
    """The text that is sent, escaped for JSON."""


def _encode_text(plan: Plan, row: int, cell: tuple[int, int]) -> _EncodedText:
    """Encode one text of a trial for requests. Raises: InputError [plan-missing-text] if there is no text.

    row : position of the trial in the plan, for the error message
    cell : row and column of the text in `Pool.all_texts`
    """
    text = plan.pool.all_texts[cell]
    if text is None:
        raise _make_missing_text_error(plan, row)
    sent_text = to_encodable(text)
    json_without_quotes = orjson.dumps(sent_text)[1:-1]
    return _EncodedText(len(text), len(sent_text), sent_text.encode(), json_without_quotes)


def _make_marked_request(questions: Questions, replicate: int, markers: Mapping[str, str]) -> Request:
    """Build the request with markers in place of the two texts and of their fence (a part of the tags around them)."""
    fence = markers["fence"]
    fenced = {name: f"<{name}-{fence}>\n{markers[name]}\n</{name}-{fence}>" for name in ("first", "second")}
    messages = questions.prompt.fill_template({**fenced, "fence": fence}, hint=questions.hint)
    cache_salt: dict[str, Json] = {"schema": SCHEMA, "replicate": replicate}
    return Request(questions.model, messages, questions.parameters, cache_salt)


class _Template:
    """The JSON of a canonical request in parts.

    For each trial, the parts with the two texts and their fence (a part of the tags around them) are replaced.
    """

    def __init__(self, questions: Questions, replicate: int) -> None:
        # markers that occur nowhere else in the request
        markers = {name: f"<{name} of {questions.prompt.digest}>" for name in ("first", "second", "fence")}
        request = _make_marked_request(questions, replicate, markers)
        remainder = orjson.dumps(canonical_request(request, address=questions.address), option=orjson.OPT_SORT_KEYS)

        # split the JSON at the markers, and leave an empty part for each of them
        self._parts: list[bytes] = []
        self._positions: dict[str, list[int]] = {name: [] for name in markers}
        while True:
            starts = [(remainder.find(marker.encode()), name) for name, marker in markers.items()]
            start, name = min((pair for pair in starts if pair[0] >= 0), default=(-1, ""))
            if start < 0:
                break
            self._positions[name].append(len(self._parts) + 1)
            self._parts += [remainder[:start], b""]
            remainder = remainder[start + len(markers[name]) :]
        self._parts.append(remainder)
        self._first, self._second = self._positions["first"][0], self._positions["second"][0]

    def key(self, first: _EncodedText, second: _EncodedText) -> str:
        """Compute the key of the request about two texts."""
        parts = self._parts
        fence = make_fence_bytes(first.n_characters, first.utf8, second.utf8)
        for position in self._positions["fence"]:
            parts[position] = fence
        parts[self._first], parts[self._second] = first.json, second.json
        return hashlib.sha256(b"".join(parts)).hexdigest()
