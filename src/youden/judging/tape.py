"""Plays a cassette to every run of this process while it is inserted, and records what the runs ask beyond it.

It knows modes, and which recorded request is nearest to one that is unknown; it refuses to know tests and pytest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from youden.errors import ConfigError, ReplayMissError
from youden.judging.cassette import Cassette, Entry, read_cassette, recorded, redacted_messages, write_cassette
from youden.judging.failures import CallError, Failure
from youden.judging.judge_config import JudgeConfig
from youden.judging.store import Store
from youden.types import Completion, Judge, Plan, Pool, Request

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


def played(config: JudgeConfig, plan: Plan, pool: Pool, *, store: Store, make: Callable[[], Judge]) -> Judge:
    """The judge to ask: the inserted tape's player, or what `make` makes where there is none."""
    return Player(_inserted[-1], config, plan, pool, store=store, make=make) if _inserted else make()


class Player:
    """Answers one run from a tape. The judge itself is made, with its key, when something has to be asked."""

    def __init__(
        self, tape: Tape, config: JudgeConfig, plan: Plan, pool: Pool, *, store: Store, make: Callable[[], Judge]
    ) -> None:
        self.name = config.name
        self._tape = tape
        self._config = config
        self._questions = config.questions()
        self._plan = plan
        self._pool = pool
        self._store = store
        self._make = make
        self._judge: Judge | None = None
        self._replicates = sorted(set(plan.replicate.tolist()))
        self._played: set[str] = set()

    async def answer(self, request: Request) -> Completion:
        """What the tape holds, each replicate once; a failure given up on is one again, without more tries.

        Raises: CallError; ReplayMissError [cassette-miss] with the difference to the nearest recorded request.
        """
        found = self._next(request)
        if found is None:
            if not self._tape.records:
                raise self._miss(request)
            self._judge = self._judge or self._make()
            return await self._judge.answer(request)
        self._played.add(found.key)
        self._tape.n_played += 1
        if isinstance(found.outcome, Failure):
            raise CallError(found.outcome.reason, kind="rejected", status=found.outcome.status)
        return found.outcome

    async def aclose(self) -> None:
        """Record what the store got from this run, and let go of the judge."""
        if self._tape.records:
            self._record()
        if self._judge is not None and hasattr(self._judge, "aclose"):
            await self._judge.aclose()

    def _next(self, request: Request) -> Entry | None:
        keys = [self._questions.key(request, replicate=replicate) for replicate in self._replicates]
        known = [key for key in keys if key in self._tape.entries]
        stored = self._store.answers(known) if len(known) > 1 else {}
        fresh = [key for key in known if key not in self._played and key not in stored]
        return self._tape.entries[(fresh or known)[0]] if known else None

    def _record(self) -> None:
        tape = self._tape
        for key, one in recorded(self._questions, self._plan, self._pool, self._store):
            if one is not None and key not in tape.entries:
                tape.entries[key] = one
                tape.n_recorded += 1
        if (public := self._config.public()) not in tape.judges:
            tape.judges.append(public)

    def _miss(self, request: Request) -> ReplayMissError:
        asked = orjson.loads(orjson.dumps(self._questions.canonical(request, replicate=0)))
        return ReplayMissError(
            f"The cassette {self._tape.path} has no answer to a request of the judge '{self.name}'. "
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
    lines = [f"base_url: {request['base_url']}", f"model: {request['model']}"]
    lines += [f"{name}: {value!r}" for name, value in sorted(request["parameters"].items())]
    for message in request["messages"]:
        lines.append(f"{message['role']}:")
        lines += message.get("content", f"sha256 {message.get('sha256')}").splitlines()
    return [_FENCE.sub("…", line) for line in lines]


def _likeness(one: set[str], other: set[str]) -> tuple[int, int]:
    """Lines in common, then words in common less words that are not."""
    words, others = set(" ".join(one).split()), set(" ".join(other).split())
    return len(one & other), len(words & others) - len(words ^ others)
