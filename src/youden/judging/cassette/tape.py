"""Plays a cassette to every run of this process while it is inserted, and records what the runs ask beyond it.

It knows modes, and which recorded request is nearest to one that is unknown; it refuses to know tests and pytest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from youden.errors import ConfigError, ReplayMissError
from youden.judging.call.failures import CallError, Failure
from youden.judging.cassette.lines import Cassette, Entry, read_cassette, redacted_messages, write_cassette
from youden.nouns import Completion, Judge, Request

MODES = ("none", "once", "new", "all")

Canonical = Callable[[str, Request], Mapping[str, object]]

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

    def save(self) -> None:
        """Write the file where something was recorded."""
        if self.n_recorded:
            write_cassette(self.path, Cassette(tuple(self.judges), self.entries))


_inserted: list[Tape] = []


@contextmanager
def inserted(tape: Tape) -> Iterator[Tape]:
    """Play `tape` to every judge that makes calls, in whatever thread, until the block ends; then save it."""
    _inserted.append(tape)
    try:
        yield tape
    finally:
        _inserted.remove(tape)
        tape.save()


def playing() -> bool:
    """Whether a tape is inserted."""
    return bool(_inserted)


def plays_only() -> bool:
    """Whether a tape is inserted that records nothing, so that no server has to be spared."""
    return bool(_inserted) and not _inserted[-1].records


def played(who: str, *, canonical: Canonical, make: Callable[[], Judge]) -> Judge | Player:
    """Whom to ask: a player of the inserted tape, or what `make` makes where there is none.

    who: is asked, in words. canonical: (key, request) → all that can change the answer.
    """
    return Player(_inserted[-1], who, canonical=canonical, make=make) if _inserted else make()


def record(found: Iterable[tuple[str, Entry | None]], *, judge: Mapping[str, Any] | None = None) -> None:
    """Keep what a run was answered, and the judge who answered, on the inserted tape, where it records."""
    if not _inserted or not _inserted[-1].records:
        return
    tape = _inserted[-1]
    for key, one in found:
        if one is not None and key not in tape.entries:
            tape.entries[key] = one
            tape.n_recorded += 1
    if judge is not None and judge not in tape.judges:
        tape.judges.append(dict(judge))


class Player:
    """Answers from a tape. The judge itself is made, with its key, when something has to be asked."""

    def __init__(self, tape: Tape, who: str, *, canonical: Canonical, make: Callable[[], Judge]) -> None:
        self._tape = tape
        self._who = who
        self._canonical = canonical
        self._make = make
        self._judge: Judge | None = None

    async def play(self, key: str, request: Request) -> Completion:
        """What the tape holds under `key`; a failure given up on is one again, without more tries.

        Raises: CallError; ReplayMissError [cassette-miss] with the difference to the nearest recorded request.
        """
        found = self._tape.entries.get(key)
        if found is None:
            if not self._tape.records:
                raise self._miss(key, request)
            self._judge = self._judge or self._make()
            return await self._judge.answer(request)
        self._tape.n_played += 1
        if isinstance(found.outcome, Failure):
            raise CallError(found.outcome.reason, kind="rejected", status=found.outcome.status)
        return found.outcome

    async def aclose(self) -> None:
        """Let go of the judge."""
        if self._judge is not None and hasattr(self._judge, "aclose"):
            await self._judge.aclose()

    def _miss(self, key: str, request: Request) -> ReplayMissError:
        asked = orjson.loads(orjson.dumps(self._canonical(key, request)))
        return ReplayMissError(
            f"The cassette {self._tape.path} has no answer to a request of {self._who}. "
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
