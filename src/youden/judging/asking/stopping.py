"""How a run is told to stop: calls in flight are answered and stored first, for so long as the grace lasts.

Ctrl-C (through `asyncio.run`), SIGTERM, SIGHUP and a task's `cancel()` all come here as a cancellation. A second ends at once.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from youden.errors import ShortRunError

T = TypeVar("T")

_DEFERRED = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

FOR_WRITING = 1.0
"""Seconds of the grace, a quarter of it at most, that are kept for storing answers and ending the process."""


async def drained(asking: asyncio.Task[None], *, stop: Callable[[], None], grace: float) -> None:
    """Wait for `asking`; when the waiting is cancelled, `stop` it and give it its `grace` before it is cancelled too.

    Raises: what `asking` raises; CancelledError once it has ended.
    """
    try:
        await asyncio.wait({asking})
    except asyncio.CancelledError:
        stop()
        try:
            await asyncio.wait({asking}, timeout=grace - min(FOR_WRITING, grace / 4))
        finally:
            asking.cancel()
            await asyncio.wait({asking})
            if not asking.cancelled():
                asking.exception()
        raise
    await asking


def run_until_stopped(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, except that SIGTERM and SIGHUP first cancel `main`, as Ctrl-C does, and take effect once it has ended.

    Raises: what `main` raises; ShortRunError [stopped] where the process outlives the signal.
    """
    came: list[int] = []
    results: list[T] = []
    try:
        asyncio.run(_deferring(main, came, results))
    except asyncio.CancelledError:
        if not came:
            raise
    else:
        if not came:
            return results[0]
    signal.raise_signal(came[0])
    raise ShortRunError(
        f"A signal ({signal.Signals(came[0]).name}) stopped the run. What was answered is kept; run the same again.",
        slug="stopped",
    )


async def _deferring(main: Coroutine[Any, Any, T], came: list[int], results: list[T]) -> None:
    """Puts what `main` returns into `results`: were it the task's, `signal` would spell it out, array by array, as `asyncio.run`
    looks who handles Ctrl-C."""
    loop = asyncio.get_running_loop()
    task = cast(asyncio.Task[None], asyncio.current_task())

    def stop(number: int, _frame: object) -> None:
        came.append(number)
        loop.call_soon_threadsafe(task.cancel)

    with _handled_by(stop):
        results.append(await main)


@contextmanager
def _handled_by(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Signals that would end the process go to `handler`; only the main thread may say so."""
    here = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _DEFERRED} if here else {}
    held = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in held:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in held.items():
            signal.signal(number, old)
