"""Asks one model at several servers: the one with the fewest calls in flight, in turn where these are equal.

A server that fails is left out. After a wait, which doubles as long as it fails, one call tries whether it is back. A call that
cost nothing and says nothing of its request goes on to the next server; every other failure is left to who asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from youden.judging.call.failures import CallError, is_silence
from youden.judging.call.retry import TOO_MANY
from youden.nouns import Completion, Judge, Request

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


class InTurn:
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

    def warnings(self) -> tuple[str, ...]:
        """What became of servers that were left out."""
        return tuple(
            f"{server.address} failed and was left out, {server.n_left_out:,} ×"
            f"{', also at the end' if server.wait else ''} (the last failure: {server.said}). Other servers were asked instead."
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
            if error.kind != "rejected" and error.status != TOO_MANY:
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
