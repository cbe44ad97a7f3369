"""Replay answers from a cassette, a file of recorded requests and answers, and record the answers to other requests.

A cassette applies to all backends that are made while `use_cassette` is active, so that no caller has to pass it on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import orjson

from youden.errors import ConfigError, ReplayMissError
from youden.judging.call.connection import Backend
from youden.judging.call.failures import CallError, Failure
from youden.judging.offline.cassette_file import (
    Cassette,
    Entry,
    make_entry,
    read_cassette,
    redacted_messages,
    write_cassette,
)
from youden.judging.question.questions import canonical_request, hash_request
from youden.types import Completion, Judge, Request
from youden.types.pool import Json

MODES = ("none", "once", "new", "all")

_MAX_DIFF_LINES = 60
_FENCE = re.compile(r"\b[0-9a-f]{16}\b")


class CassetteRecorder:
    """An open cassette.

    Parameters
    ----------
    path : Path
        File of the cassette.
    mode : {"none", "once", "new", "all"}
        "none" only replays; "once" records if the file does not exist, else only replays; "new" replays, and records
        requests that are missing; "all" records all requests again.

    Attributes
    ----------
    is_recording : bool
        Whether requests that are not in the cassette are sent and recorded.
    n_played, n_recorded : int
        Numbers of requests so far.

    Raises
    ------
    ConfigError
        [cassette-mode] if the mode is unknown; [cassette-missing] if the file does not exist and mode is "none".
    InputError
        [cassette] if the file is damaged.
    """

    def __init__(self, path: Path, *, mode: str) -> None:
        if mode not in MODES:
            raise ConfigError(
                f"The mode of a cassette must be none, once, new or all: got '{mode}'. Pass one of them.",
                slug="cassette-mode",
            )
        exists = path.is_file()
        if mode == "none" and not exists:
            raise ConfigError(
                f"There is no cassette at {path}, and mode 'none' records nothing. Record it with mode 'once'.",
                slug="cassette-missing",
            )
        self.path = path
        self.mode = mode
        self.is_recording = mode in ("new", "all") or (mode == "once" and not exists)
        self.n_played = 0
        self.n_recorded = 0
        saved = read_cassette(path) if exists and mode != "all" else Cassette()
        self.judges = list(saved.judges)
        self.entries = dict(saved.entries)

    def record(
        self, request: Mapping[str, object], outcome: Completion | Failure, *, judge: Mapping[str, Json] | None
    ) -> None:
        """Add the outcome of a request in memory, unless the request is recorded already.

        The judge is added even if the request is recorded already. `save` writes the file only if an outcome was added.

        Parameters
        ----------
        request : mapping
            Canonical form of the request: all fields that can change its answer.
        outcome : Completion or Failure
            Answer to the request, or its failure.
        judge : mapping or None
            Config of the judge that answered, which is recorded too; None for a model that is not a judge.
        """
        key = hash_request(request)
        if key not in self.entries:
            self.entries[key] = make_entry(key, request, outcome)
            self.n_recorded += 1
        if judge is not None and judge not in self.judges:
            self.judges.append(dict(judge))

    def save(self) -> None:
        """Write the file, if anything was recorded."""
        if self.n_recorded:
            write_cassette(self.path, Cassette(tuple(self.judges), self.entries))


_active: ContextVar[CassetteRecorder | None] = ContextVar("youden_cassette", default=None)


@contextmanager
def use_cassette(recorder: CassetteRecorder) -> Iterator[CassetteRecorder]:
    """Use a cassette in the body of a `with` statement, then save it.

    All backends that are made in the body use the cassette, also those in tasks, and in threads that copy this context
    (`asyncio.to_thread`).

    Parameters
    ----------
    recorder : CassetteRecorder
        The cassette.

    Yields
    ------
    CassetteRecorder
        The same cassette.
    """
    previous = _active.get()
    _active.set(recorder)
    try:
        yield recorder
    finally:
        _active.set(previous)
        recorder.save()


def is_replay_only() -> bool:
    """Return whether a cassette is active that only replays, so that no request is sent."""
    recorder = _active.get()
    return recorder is not None and not recorder.is_recording


def with_cassette(
    backend: Backend, *, address: str, description: str, judge: Mapping[str, Json] | None = None
) -> Backend:
    """Wrap a backend in the active cassette, a file of recorded requests and answers. It answers all requests that it contains.

    The mode of the cassette (see `CassetteRecorder`) decides whether other requests are sent and recorded, or whether the backend
    raises ReplayMissError.

    Parameters
    ----------
    backend : Backend
        Backend that sends the requests.
    address : str
        Address of its server, which is part of each request hash.
    description : str
        Name of the judge or model for messages.
    judge : mapping, optional
        Config of the judge, which is recorded with its answers. Default: none, for a model that is not a judge.

    Returns
    -------
    Backend
        A `CassetteBackend`. If no cassette is active, the given backend is returned unchanged.
    """
    recorder = _active.get()
    if recorder is None:
        return backend

    return CassetteBackend(recorder, backend, address=address, description=description, judge=judge)


class CassetteBackend(Backend):
    """Answers requests from a cassette, and sends the others if the cassette records.

    The judge of `backend` is made, and its API key is looked up, only when a request has to be sent.
    """

    def __init__(
        self,
        recorder: CassetteRecorder,
        backend: Backend,
        *,
        address: str,
        description: str,
        judge: Mapping[str, Json] | None,
    ) -> None:
        record = self._record_outcome if recorder.is_recording else None
        super().__init__(backend.make, live=recorder.is_recording, batches=False, record=record)
        self.name = description
        self._recorder = recorder
        self._address = address
        self._judge_config = judge

    def open(self) -> Judge:
        """Return this backend, which needs no key to replay."""
        return self

    async def answer(self, request: Request) -> Completion:
        """Return the recorded answer to a request. If there is none and the cassette is recording, send the request.

        Raises
        ------
        CallError
            If the call fails, or if the cassette contains a failure of this request. Its kind is then "rejected", so that the
            request is not sent again.
        ReplayMissError
            [cassette-miss] if the request is not recorded and may not be sent.
        """
        request_fields = canonical_request(request, address=self._address)
        entry = self._recorder.entries.get(hash_request(request_fields))
        if entry is None and self._recorder.is_recording:
            sending_judge = super().open()
            return await sending_judge.answer(request)
        if entry is None:
            raise self._make_miss_error(request_fields)

        self._recorder.n_played += 1
        if isinstance(entry.outcome, Failure):
            raise CallError(entry.outcome.reason, kind="rejected", status=entry.outcome.status)
        return entry.outcome

    def _record_outcome(self, request: Request, outcome: Completion | Failure) -> None:
        """Add the outcome of a request to the cassette."""
        request_fields = canonical_request(request, address=self._address)
        self._recorder.record(request_fields, outcome, judge=self._judge_config)

    def _make_miss_error(self, request_fields: Mapping[str, object]) -> ReplayMissError:
        """Make the error for a request that is not in the cassette. request_fields: canonical form of the request."""
        fields_in_json = orjson.loads(orjson.dumps(request_fields))  # in the types of recorded requests
        return ReplayMissError(
            f"The cassette {self._recorder.path} has no answer to a request of {self.name}. "
            f"{format_difference(fields_in_json, self._recorder.entries)}\n"
            "Correct what changed, or record the request with mode 'new' ('all' records all requests again).",
            slug="cassette-miss",
        )


def format_difference(request: Mapping[str, Any], entries: Mapping[str, Entry]) -> str:
    """Format the difference between a request and the most similar recorded request, as a unified diff.

    Parameters
    ----------
    request : mapping
        Canonical form of the request.
    entries : mapping of str to Entry
        Entries of the cassette by request hash.

    Returns
    -------
    str
        A sentence, followed by the lines of the diff. There is no diff if the cassette is empty, or if it contains the same
        request for another repetition of the trial (`replicate`).
    """
    if not entries:
        return "The cassette is empty."
    # a redacted entry has hashes in place of texts, so the request is compared with it in the same form
    redacted_request = {**request, "messages": redacted_messages(request["messages"])}
    lines = _format_lines(request)
    redacted_lines = _format_lines(redacted_request)
    nearest = _find_nearest_entry(entries, lines, redacted_lines)
    requested_lines = redacted_lines if nearest.redacted else lines
    recorded_lines = _format_lines(nearest.request)
    diff = difflib.unified_diff(recorded_lines, requested_lines, "nearest recorded", "requested", n=1, lineterm="")
    diff_lines = list(diff)
    if not diff_lines:
        return "The same request is recorded for another replicate only."
    if len(diff_lines) > _MAX_DIFF_LINES:
        diff_lines = [*diff_lines[:_MAX_DIFF_LINES], "…"]
    return "\n".join(["It differs from the nearest recorded request:", *diff_lines])


def _find_nearest_entry(entries: Mapping[str, Entry], lines: list[str], redacted_lines: list[str]) -> Entry:
    """Return the recorded entry that is most similar to a request.

    If several entries are equally similar, the one with the smallest request hash is returned.

    entries : entries by request hash, at least one
    lines : the request as lines (`_format_lines`)
    redacted_lines : the same with hashes in place of texts, for comparison with redacted entries
    """
    plain_set, redacted_set = set(lines), set(redacted_lines)
    sorted_entries = [entry for _, entry in sorted(entries.items())]
    similarities = []
    for entry in sorted_entries:
        requested_lines = redacted_set if entry.redacted else plain_set
        recorded_lines = set(_format_lines(entry.request))
        similarities.append(_compute_similarity(recorded_lines, requested_lines))
    return sorted_entries[similarities.index(max(similarities))]


def _format_lines(request: Mapping[str, Any]) -> list[str]:
    """Format a request as lines of text, for a comparison with other requests.

    Parts that differ between equal questions are removed: the number of the replicate is left out, and `…` replaces the
    hexadecimal digits in the tags around the texts.

    request : canonical form, with the fields `base_url`, `model`, `parameters` (a mapping) and `messages`. Each message is a
        mapping with `role` and `content`. A redacted message has `sha256`, the hash of its text, in place of `content`.
    """
    lines = [f"{name}: {request[name]}" for name in ("base_url", "model") if name in request]
    lines += [f"{name}: {value!r}" for name, value in sorted(request["parameters"].items())]
    for message in request["messages"]:
        lines.append(f"{message['role']}:")
        text = message.get("content", f"sha256 {message.get('sha256')}")
        lines += text.splitlines()
    return [_FENCE.sub("…", line) for line in lines]


def _compute_similarity(a: set[str], b: set[str]) -> tuple[int, int]:
    """Compare two sets of lines by their number of common lines and, for ties, by their words.

    The second number is the number of common words minus the number of words that only one set has.
    """
    a_words, b_words = set(" ".join(a).split()), set(" ".join(b).split())
    return len(a & b), len(a_words & b_words) - len(a_words ^ b_words)
