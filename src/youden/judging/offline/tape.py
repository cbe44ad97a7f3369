"""A cassette around a backend: it answers what is recorded, and records what the backend is asked beyond that."""

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
    entry,
    read_cassette,
    redacted_messages,
    write_cassette,
)
from youden.judging.question.questions import canonical, key_of
from youden.types import Completion, Judge, Request
from youden.types.pool import Json

MODES = ("none", "once", "new", "all")

_LONGEST_DIFF = 60
_FENCE = re.compile(r"\b[0-9a-f]{16}\b")


class Tape:
    """A cassette file at work.

    mode: `none` plays only; `once` records where there is no file, else plays only; `new` plays and records what is not
    there; `all` records everything anew. n_played, n_recorded: requests so far.

    Raises: ConfigError [cassette-mode], [cassette-missing]; InputError [cassette] for a damaged file.
    """

    def __init__(self, path: Path, *, mode: str) -> None:
        if mode not in MODES:
            raise ConfigError(f"'{mode}' is no mode of a cassette. Give none, once, new or all.", slug="cassette-mode")
        there = path.is_file()
        if mode == "none" and not there:
            raise ConfigError(
                f"There is no cassette at {path}, and mode 'none' records nothing. Record it with mode 'once'.",
                slug="cassette-missing",
            )
        self.path = path
        self.mode = mode
        self.records = mode in ("new", "all") or (mode == "once" and not there)
        self.n_played = 0
        self.n_recorded = 0
        before = read_cassette(path) if there and mode != "all" else Cassette()
        self.judges = list(before.judges)
        self.entries = dict(before.entries)

    def keep(
        self, asked: Mapping[str, object], outcome: Completion | Failure, *, judge: Mapping[str, Json] | None
    ) -> None:
        """Record what came of a canonical request, if it is not there yet, and the judge who was asked."""
        if (key := key_of(asked)) not in self.entries:
            self.entries[key] = entry(key, asked, outcome)
            self.n_recorded += 1
        if judge is not None and judge not in self.judges:
            self.judges.append(dict(judge))

    def save(self) -> None:
        """Write the file where something was recorded."""
        if self.n_recorded:
            write_cassette(self.path, Cassette(tuple(self.judges), self.entries))


_inserted: ContextVar[Tape | None] = ContextVar("youden_cassette", default=None)


@contextmanager
def inserted(tape: Tape) -> Iterator[Tape]:
    """Put `tape` around every backend that is made before the block ends; then save it.

    Tasks, and threads that copy this context (`asyncio.to_thread`), see it too.
    """
    before = _inserted.get()
    _inserted.set(tape)
    try:
        yield tape
    finally:
        _inserted.set(before)
        tape.save()


def only_plays() -> bool:
    """Return whether the inserted tape only replays, so that no request is sent."""
    tape = _inserted.get()
    return tape is not None and not tape.records


def with_cassette(backend: Backend, *, address: str, who: str, judge: Mapping[str, Json] | None = None) -> Backend:
    """`backend` behind the inserted tape, or `backend` itself where there is none.

    who: is asked, in words. judge: kept on a tape that records, beside what the backend answered.
    """
    tape = _inserted.get()
    if tape is None:
        return backend

    return Player(tape, backend, address=address, who=who, judge=judge)


class Player(Backend):
    """Answers from a tape, and by the judge of `backend`, which is made with its key once something has to be asked."""

    def __init__(
        self, tape: Tape, backend: Backend, *, address: str, who: str, judge: Mapping[str, Json] | None
    ) -> None:
        record = self._keep if tape.records else None
        super().__init__(backend.make, live=tape.records, batches=False, record=record)
        self.name = who
        self._tape = tape
        self._address = address
        self._asked = judge

    def open(self) -> Judge:
        """Itself: what is on the tape needs no key."""
        return self

    async def answer(self, request: Request) -> Completion:
        """What the tape holds of the request; a failure given up on is one again, without more tries.

        Raises: CallError; ReplayMissError [cassette-miss] with the difference to the nearest recorded request.
        """
        asked = canonical(request, address=self._address)
        found = self._tape.entries.get(key_of(asked))
        if found is None:
            if not self._tape.records:
                raise self._miss(orjson.loads(orjson.dumps(asked)))
            return await super().open().answer(request)
        self._tape.n_played += 1
        if isinstance(found.outcome, Failure):
            raise CallError(found.outcome.reason, kind="rejected", status=found.outcome.status)
        return found.outcome

    def _keep(self, request: Request, outcome: Completion | Failure) -> None:
        self._tape.keep(canonical(request, address=self._address), outcome, judge=self._asked)

    def _miss(self, asked: Mapping[str, Any]) -> ReplayMissError:
        return ReplayMissError(
            f"The cassette {self._tape.path} has no answer to a request of {self.name}. "
            f"{difference(asked, self._tape.entries)}\n"
            "Correct what changed, or record it with mode 'new' ('all' for everything anew).",
            slug="cassette-miss",
        )


def difference(asked: Mapping[str, Any], entries: Mapping[str, Entry]) -> str:
    """How `asked`, a canonical request, differs from the nearest of `entries`, as a unified diff."""
    if not entries:
        return "Nothing is recorded there."
    hidden = {**asked, "messages": redacted_messages(asked["messages"])}
    nearest, lines = max(
        ((one, _lines(hidden if one.redacted else asked)) for _, one in sorted(entries.items())),
        key=lambda pair: _likeness(set(_lines(pair[0].request)), set(pair[1])),
    )
    changes = list(difflib.unified_diff(_lines(nearest.request), lines, "nearest recorded", "asked", n=1, lineterm=""))
    if not changes:
        return "The same request is recorded for another replicate only."
    shown = changes[:_LONGEST_DIFF] + ["…"] * (len(changes) > _LONGEST_DIFF)
    return "\n".join(["It differs from the nearest recorded request:", *shown])


def _lines(request: Mapping[str, Any]) -> list[str]:
    """A canonical request for people, a fact a line: without its replicate, and without the marks of fences, which change
    with every text."""
    lines = [f"{name}: {request[name]}" for name in ("base_url", "model", "asker") if name in request]
    lines += [f"{name}: {value!r}" for name, value in sorted(request["parameters"].items())]
    for message in request["messages"]:
        lines.append(f"{message['role']}:")
        lines += message.get("content", f"sha256 {message.get('sha256')}").splitlines()
    return [_FENCE.sub("…", line) for line in lines]


def _likeness(one: set[str], other: set[str]) -> tuple[int, int]:
    """Lines in common, then words in common less words that are not."""
    words, others = set(" ".join(one).split()), set(" ".join(other).split())
    return len(one & other), len(words & others) - len(words ^ others)
