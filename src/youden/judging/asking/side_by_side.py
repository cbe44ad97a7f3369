"""Loops that ask side by side and end together: told to stop, they let calls in flight be answered and stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from youden.errors import ShortRunError
from youden.judging.asking.endings import Ending
from youden.judging.asking.loop import Loop
from youden.judging.asking.stopping import drained


async def ask_all(loops: Sequence[Loop], ending: Ending, *, grace: float) -> None:
    """Let loops that share an ending ask side by side. When this is cancelled, calls in flight get `grace` seconds.

    Raises: the reason of `ending`, once the calls in flight have ended; what a backend raises beside CallError; CancelledError.
    """

    def stop() -> None:
        for loop in loops:
            loop.say_stopping(grace)
        ending.stop(_interrupted)

    try:
        await drained(asyncio.create_task(_side_by_side(loops)), stop=stop, grace=grace)
    finally:
        for loop in loops:
            loop.let_go()
    ending.raise_reason()


async def _side_by_side(loops: Sequence[Loop]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(loop.go())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


def _interrupted() -> ShortRunError:
    return ShortRunError("The run was told to stop. What was answered is kept; run the same again.", slug="stopped")
