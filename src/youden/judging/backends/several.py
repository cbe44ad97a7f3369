"""Judges made of several: servers that answer for one another, and a jury.

Of several servers of one model the one with the fewest calls in flight is asked, in turn where these are equal. A server that
fails is left out. After a wait, which doubles as long as it fails, one call tries whether it is back. A call that cost nothing
and says nothing of its request goes on to the next server; every other failure is left to who asks.

A jury says what most of its judges say, or the mean of it. Nothing is guessed for a judge that did not answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from youden.errors import JudgeError
from youden.judging.call.failures import TOO_MANY_REQUESTS, CallError, is_silence
from youden.types import MISSING_REASONS, Completion, Finding, Judge, Plan, Request, Verdicts
from youden.types.pool import Codes

IN_A_ROW = 3
"""So many failures in a row leave a server out; one does, where it turns every call down or takes no connection."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds until a server that is left out is tried again."""


@dataclass
class _Server:
    """judge: asks it. wait: seconds until it is tried again, 0 while it is not left out; until: when that is, by the clock.

    trying: whether a call is there to see if it is back.
    """

    address: str
    judge: Judge
    n_open: int = 0
    n_failed: int = 0
    n_left_out: int = 0
    wait: float = 0.0
    until: float = 0.0
    trying: bool = False
    said: str = ""

    def heard(self) -> None:
        """It works."""
        self.n_failed, self.wait = 0, 0.0

    def failed(self, said: str, *, now: float, surely: bool, tried: bool) -> None:
        """A call failed. surely: every call would have; tried: whether it was left out and this call tried it."""
        self.n_failed += 1
        self.said = said
        if self.wait and not tried:
            return
        if self.wait or surely or self.n_failed >= IN_A_ROW:
            self.n_left_out += not self.wait
            self.wait = min(LONGEST_WAIT, 2 * self.wait) or FIRST_WAIT
            self.until = now + self.wait


class RoundRobin:
    """A judge at several servers, by their public addresses."""

    def __init__(self, servers: Mapping[str, Judge], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._servers = [_Server(address, judge) for address, judge in servers.items()]
        self.name = self._servers[0].judge.name
        self._clock = clock
        self._last = -1

    @property
    def has_others(self) -> bool:
        """Whether a server is not left out."""
        return any(not server.wait for server in self._servers)

    async def answer(self, request: Request) -> Completion:
        """The reply of one of them. Raises: CallError, with the address of the last that was asked."""
        asked: list[_Server] = []
        while True:
            server = self._next(asked)
            asked.append(server)
            try:
                return await self._ask(server, request)
            except CallError as error:
                if len(asked) == len(self._servers) or not (error.free and _of_every_call(error)):
                    raise _named(error, server.address) from None

    def warnings(self) -> tuple[Finding, ...]:
        """What became of servers that were left out."""
        return tuple(
            Finding(
                "server",
                f"{server.address} failed and was left out, {server.n_left_out:,} ×"
                f"{', also at the end' if server.wait else ''} (the last failure: {server.said}). Other servers were asked "
                "instead.",
                facts={"address": server.address, "n": server.n_left_out},
            )
            for server in self._servers
            if server.n_left_out
        )

    async def aclose(self) -> None:
        """Let go of all connections."""
        for server in self._servers:
            if hasattr(server.judge, "aclose"):
                await server.judge.aclose()

    def _next(self, asked: Collection[_Server]) -> _Server:
        """Whom to ask: one whose wait is over, else the freest that is not left out, else the one that is tried next."""
        now, n = self._clock(), len(self._servers)
        in_turn = [self._servers[(self._last + 1 + k) % n] for k in range(n)]
        free = [server for server in in_turn if server not in asked]
        due = [server for server in free if server.wait and now >= server.until and not server.trying]
        there = [server for server in free if not server.wait]
        if due or not there:
            return min(due or free, key=lambda server: server.until)
        chosen = min(there, key=lambda server: server.n_open)
        self._last = self._servers.index(chosen)
        return chosen

    async def _ask(self, server: _Server, request: Request) -> Completion:
        trying, said, surely = bool(server.wait), "", False
        server.trying |= trying
        server.n_open += 1
        try:
            completion = await server.judge.answer(request)
        except CallError as error:
            if error.kind != "rejected" and error.status != TOO_MANY_REQUESTS:
                said, surely = error.reason, _of_every_call(error) and error.free
            raise
        except asyncio.CancelledError:
            said = "no reply in time"
            raise
        else:
            return completion
        finally:
            server.n_open -= 1
            server.trying &= not trying
            if said:
                server.failed(said, now=self._clock(), surely=surely, tried=trying)
            else:
                server.heard()


def _of_every_call(error: CallError) -> bool:
    """Whether it says nothing of the request: the server is away, or would turn every call down."""
    return error.kind == "stop" or is_silence(error)


def _named(error: CallError, address: str) -> CallError:
    """`error` with the server in its reason."""
    said = f"{address}: {error.reason}"
    return CallError(said, kind=error.kind, status=error.status, retry_after=error.retry_after, free=error.free)


class Jury:
    """Combines `ballots`, one judge's verdicts each, by `vote`.

    majority: the yes or no that more than half of all judges gave. mean: of all judges' answers, and yes from 1/2 on.
    A trial without a majority, or under `mean` without one judge's answer, is missing for the reason of the first judge
    that has none. Each judge's own answers stay in the store, where `{backend: replay, of: NAME}` finds them.
    """

    name = "jury"

    def __init__(self, ballots: Sequence[Verdicts], *, vote: str, name: str = "jury") -> None:
        self.name = name
        self._ballots = ballots
        self._vote = vote

    def answer_many(self, plan: Plan) -> Verdicts:
        """The jury's verdicts; usd, tokens and seconds are sums over its judges."""
        ballots = self._ballots
        if any(each.plan is not plan for each in ballots):
            raise JudgeError(
                f"The ballots of '{self.name}' are not on the plan that was passed to the jury. Pass the plan of the ballots.",
                slug="judge-plan",
            )
        hard = np.stack([each.hard for each in ballots])
        if self._vote == "majority":
            n_yes, n_no = (hard == 1).sum(axis=0), (hard == 0).sum(axis=0)
            decided = np.maximum(n_yes, n_no) * 2 > len(ballots)
            answer = np.where(decided, (n_yes > n_no).astype(float), np.nan)
            verdict = answer
        else:
            answer = np.mean([each.answer for each in ballots], axis=0)
            verdict = np.where(np.isnan(answer), np.nan, (answer >= 0.5).astype(float))
        missing = _first_reason(np.stack([each.missing for each in ballots]))
        return Verdicts(
            plan=plan,
            answer=answer,
            hard=verdict.copy(),
            missing=np.where(np.isnan(answer), missing, 0).astype(np.int8),
            judge={
                "name": self.name,
                "backend": "jury",
                "vote": self._vote,
                "judges": [dict(each.judge) for each in ballots],
            },
            tokens_in=np.sum([_or_zeros(each.tokens_in, plan) for each in ballots], axis=0, dtype=np.int32),
            tokens_out=np.sum([_or_zeros(each.tokens_out, plan) for each in ballots], axis=0, dtype=np.int32),
            usd=np.sum([_or_zeros(each.usd, plan) for each in ballots], axis=0, dtype=float),
            seconds=np.sum([_or_zeros(each.seconds, plan) for each in ballots], axis=0, dtype=float),
            models=tuple(dict.fromkeys(model for each in ballots for model in each.models)),
            usd_tried=sum(each.usd_tried for each in ballots),
            votes=np.stack([each.answer for each in ballots]),
            warnings=tuple(_of_juror(each, warning) for each in ballots for warning in each.warnings),
        )


def _of_juror(ballot: Verdicts, warning: Finding) -> Finding:
    name = str(ballot.judge.get("name"))
    return replace(warning, says=f"{name}: {warning.says}", facts={**warning.facts, "judge": name})


def _first_reason(missing: Codes) -> Codes:
    """int8[N]: the first reason that is not 'answered' of each column; 'unparsed' where all answered and disagree."""
    first = np.take_along_axis(missing, (missing != 0).argmax(axis=0)[None], axis=0)[0]
    return np.asarray(np.where(first == 0, MISSING_REASONS.index("unparsed"), first))


def _or_zeros(column: np.ndarray | None, plan: Plan) -> np.ndarray:
    return np.zeros(len(plan)) if column is None else column
