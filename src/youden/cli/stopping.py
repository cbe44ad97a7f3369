"""How signals end a command.

The first lets it keep what was answered; the second ends it at once, whatever a thread waits for.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from youden.judging.store.watchdog import shutdown_started

STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""What stops a command beside Ctrl-C; it ends with 128 and the signal's number."""
AT_ONCE = 0.7
"""Seconds after the second signal in which answers that are there may still be written."""


class Stopped(KeyboardInterrupt):
    """SIGTERM or SIGHUP came: the same end as after Ctrl-C, with a code of its own."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stoppable(last_words: Callable[[int], str]) -> Iterator[None]:
    """SIGTERM and SIGHUP raise `Stopped`, unless they are ignored, as under nohup. last_words: said by the second signal, of
    its number."""

    def stop(number: int, _frame: object) -> None:
        raise Stopped(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in STOPS if signal.getsignal(number) is signal.SIG_DFL}
    heard, told = socket.socketpair()
    told.setblocking(False)
    others = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_end_at_the_second, args=(heard, last_words), name="youden stop", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(others)
        told.close()
        shutdown_started.clear()
        for number, old in before.items():
            signal.signal(number, old)


def _end_at_the_second(heard: socket.socket, last_words: Callable[[int], str]) -> None:
    """Wait for signals where nothing else is waited for: Python writes their numbers as they come."""
    n = 0
    with heard:
        while came := heard.recv(1):
            n += came[0] in (signal.SIGINT, *STOPS)
            if n == 1:
                shutdown_started.set()
            elif n > 1:
                time.sleep(AT_ONCE)
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{last_words(came[0])}\n".encode())
                os._exit(128 + came[0])
