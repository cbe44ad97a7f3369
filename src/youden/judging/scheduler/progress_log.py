"""Report the progress of a run to a display, and write each event as a line of JSON to a log file.

Secrets are never passed to it, so that a log file can be shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import orjson

from youden.errors import ConfigError
from youden.types import Completion, Progress
from youden.types.pool import Json

FLUSH_SECONDS = 1.0


class ProgressLog:
    """Reports events to a progress display and a log file; a context manager that closes the file.

    Each line of the log is a JSON object with `time` (Unix seconds), `event`, and the event's fields.

    Parameters
    ----------
    progress : Progress, optional
        Progress display. If it also has a method `say(text)`, it gets messages for the user; if it has
        `show_workers(n_workers, answered=…)`, it gets the numbers of the other processes that work on the run.
    path : Path, optional
        Log file, to which lines are appended.
    now : callable, optional
        Returns the time in Unix seconds.

    Raises
    ------
    ConfigError
        [log-unwritable]: if the file cannot be opened. The methods raise it if the file cannot be written, for example because
        the disk is full.
    """

    def __init__(
        self, progress: Progress | None = None, path: Path | None = None, *, now: Callable[[], float] = time.time
    ) -> None:
        self._progress = progress
        self._now = now
        self._last_flush = now()
        self._file: BinaryIO | None = None
        self._path = path
        if path is None:
            return
        with self._convert_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with self._convert_errors() if error is None else suppress(OSError):
                self._file.close()

    def start(self, total: int, *, what: str) -> None:
        """Report the start of the work on `total` trials; `what` describes the work, for display."""
        if self._progress is not None:
            self._progress.start(total, what=what)
        self.write_event("start", trials=total, what=what)

    def stop(self) -> None:
        """Report the end of the work."""
        if self._progress is not None:
            self._progress.stop()
        self.write_event("stop")

    def advance(self, n: int, *, outcome: str = "answered", usd: float = 0.0, stored: bool = False) -> None:
        """Report to the progress display, if there is one, that trials are done; nothing is logged.

        Parameters
        ----------
        n : int
            Number of trials.
        outcome : str, default "answered"
            "answered", or the reason why these trials have no answer, for example "refused".
        usd : float, default 0
            Cost of the call for these trials in USD; NaN if unknown.
        stored : bool, default False
            Whether the outcome was in the store already.
        """
        if self._progress is None:
            return
        is_answered = outcome == "answered"
        n_failed = 0 if is_answered else n
        reason = "" if is_answered else outcome
        # a request that is too long ("not_asked") has no outcome in the store
        n_stored = n if stored and outcome != "not_asked" else 0
        self._progress.advance(n, failed=n_failed, usd=usd, cached=n_stored, reason=reason)

    def record_throttled(self) -> None:
        """Report that the server replied with HTTP 429, too many requests."""
        if self._progress is not None:
            self._progress.throttled()

    def report_workers(self, n_workers: int, *, answered: int) -> None:
        """Report the number of other processes that work on the run, and of the answers that they got."""
        report = getattr(self._progress, "show_workers", None)
        if report is not None:
            report(n_workers, answered=answered)

    def announce(self, event: str, text: str) -> None:
        """Show a message to the user, and write it to the log; `event` is the name of the event in the log."""
        show = getattr(self._progress, "say", None)
        if show is not None:
            show(text)
        self.write_event(event, message=text)

    def record_answer(self, key: str, completion: Completion, *, outcome: str, usd: float) -> None:
        """Write a line of JSON about a call that was answered to the log file, if there is one.

        Parameters
        ----------
        key : str
            Request hash of the call.
        completion : Completion
            The reply, of which duration (in seconds), tokens and model are logged, but no text.
        outcome : str
            "answered", or the reason why the answer is missing.
        usd : float
            Cost of all attempts of the call in USD; NaN if unknown, which is logged as null.
        """
        self.write_event(
            "call",
            key=key,
            outcome=outcome,
            seconds=round(completion.seconds, 4),
            tokens_in=completion.tokens_in,
            tokens_out=completion.tokens_out,
            usd=usd,
            model=completion.model,
        )

    def write_event(self, event: str, **fields: Json) -> None:
        """Write a line of JSON to the log file, if there is one: the time, the name of the event, and the fields.

        The lines are buffered in memory. The first line that is written at least `FLUSH_SECONDS` after the last flush moves all
        of them to the file; a full buffer does so earlier.
        """
        if self._file is None:
            return
        now = self._now()
        line = orjson.dumps({"time": round(now, 3), "event": event, **fields})
        with self._convert_errors():
            self._file.write(line + b"\n")
            if now - self._last_flush >= FLUSH_SECONDS:
                self._last_flush = now
                self._file.flush()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors of the file system inside the block to ConfigError [log-unwritable]."""
        try:
            yield
        except OSError as error:
            raise ConfigError(
                f"The log {self._path} cannot be written ({error.strerror}). Set --log to another path.",
                slug="log-unwritable",
            ) from None
