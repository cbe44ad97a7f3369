"""Handle the signals that stop a command.

The first signal lets the command store received answers and end. The second one ends the process at once, even if a thread
blocks.
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
from typing import NoReturn

from youden.judging.store.watchdog import shutdown_started

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that stop a command in addition to SIGINT."""
WRITE_SECONDS = 0.7
"""Time after the second signal in which received answers may still be written."""


class SignalInterrupt(KeyboardInterrupt):
    """Raised on SIGTERM or SIGHUP, so that they end a command in the same way as Ctrl-C.

    Attributes
    ----------
    number : int
        Number of the signal; the exit code of the command is 128 plus this number.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def raise_on_signals(format_message: Callable[[int], str]) -> Iterator[None]:
    """Raise `SignalInterrupt` on SIGTERM and SIGHUP within the `with` block; end the process at the second signal.

    A separate thread handles the second signal, so that the process ends even if the main thread is blocked. Signals that are
    ignored, as under nohup, stay ignored. Outside the main thread, nothing is changed, because Python sets signal handlers only
    in the main thread.

    Parameters
    ----------
    format_message : callable
        Takes the number of the second signal, and returns the message that is printed before the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    handled_signals = [number for number in STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled_signals:
        signal.signal(number, _raise_interrupt)
    try:
        with _run_exit_thread(format_message):
            yield
    finally:
        for number in handled_signals:
            signal.signal(number, signal.SIG_DFL)


def _raise_interrupt(number: int, _frame: object) -> None:
    """Raise `SignalInterrupt` for a signal; Python calls a signal handler with the number and the interrupted frame."""
    raise SignalInterrupt(number)


@contextmanager
def _run_exit_thread(format_message: Callable[[int], str]) -> Iterator[None]:
    """Within the `with` block, run a thread that ends the process at the second stop signal.

    The thread works even if the main thread is blocked, because it reads the numbers of signals from a socket. At the first stop
    signal, it sets the event `shutdown_started`. At the end of the block, the event is cleared.

    format_message : function of the signal number that returns the message to print before the process ends
    """
    # Python writes the number of each received signal to `sender`; the thread reads it from `receiver`
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    previous_fd = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(
        target=_exit_on_second_signal, args=(receiver, format_message), name="youden stop", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        sender.close()  # the thread ends if it cannot receive any more signals
        shutdown_started.clear()


def _exit_on_second_signal(receiver: socket.socket, format_message: Callable[[int], str]) -> None:
    """Read signal numbers from a socket until it is closed, and end the process at the second stop signal.

    Stop signals are SIGINT and `STOP_SIGNALS`; other signals are ignored. The first stop signal only sets `shutdown_started`.
    After the second one, the other threads have `WRITE_SECONDS` to store received answers before the process ends.

    receiver : socket to which Python writes the number of each signal as one byte
    format_message : function of the signal number that returns the message to print
    """
    n_signals = 0
    with receiver:
        while received := receiver.recv(1):
            number = received[0]
            if number not in (signal.SIGINT, *STOP_SIGNALS):
                continue

            n_signals += 1
            if n_signals == 1:
                shutdown_started.set()
            else:
                time.sleep(WRITE_SECONDS)  # the other threads write meanwhile
                _end_process(number, format_message(number))


def _end_process(number: int, message: str) -> NoReturn:
    """Print a message to standard error and end the process at once, with the exit code of a signal, 128 + its number."""
    stderr = sys.__stderr__.fileno() if sys.__stderr__ else 2
    os.write(stderr, f"{message}\n".encode())
    os._exit(128 + number)
