"""What can be seen of a run while it goes on: counts for a progress display, and a line of JSON for every event.

Nobody tells it a secret, so that a log can be shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import orjson

from youden.errors import ConfigError
from youden.types import Completion, Progress
from youden.types.pool import Json

FLUSH_SECONDS = 1.0


class ProgressLog:
    """Tells a progress display, where there is one, and adds lines of JSON to the file at `path`: `time` (Unix seconds), `event`,
    and the event's fields. Use it as a context manager where there is a file. A display that also has `say(text)` is told what
    whoever watches should know, one that has `beside(n_workers, answered=…)` of others who work on the same.

    Raises: ConfigError [log-unwritable].
    """

    def __init__(
        self, progress: Progress | None = None, path: Path | None = None, *, now: Callable[[], float] = time.time
    ) -> None:
        self._progress = progress
        self._now = now
        self._flushed = now()
        self._file: BinaryIO | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        except OSError as error:
            raise ConfigError(
                f"The log {path} cannot be written ({error.strerror}). Give --log another path.", slug="log-unwritable"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def start(self, total: int, *, what: str) -> None:
        if self._progress is not None:
            self._progress.start(total, what=what)
        self.tell("start", trials=total, what=what)

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self.tell("stop")

    def advance(self, n: int, *, missing: str = "answered", usd: float = 0.0, stored: bool = False) -> None:
        """So many more trials are done; `missing` says of all of them whether and why they have no answer."""
        if self._progress is not None:
            failed = 0 if missing == "answered" else n
            self._progress.advance(n, failed=failed, usd=usd, cached=n if stored else 0, why=missing if failed else "")

    def throttled(self) -> None:
        """A call met a 429."""
        if self._progress is not None:
            self._progress.throttled()

    def beside(self, n_workers: int, *, answered: int) -> None:
        """So many others ask the same, and got so many answers."""
        if (beside := getattr(self._progress, "beside", None)) is not None:
            beside(n_workers, answered=answered)

    def say(self, event: str, text: str) -> None:
        """Something that whoever watches should know now."""
        if (say := getattr(self._progress, "say", None)) is not None:
            say(text)
        self.tell(event, says=text)

    def answered(self, key: str, completion: Completion, *, outcome: str, usd: float) -> None:
        """The line of the log for a call that was answered."""
        self.tell(
            "call",
            key=key,
            outcome=outcome,
            seconds=round(completion.seconds, 4),
            tokens_in=completion.tokens_in,
            tokens_out=completion.tokens_out,
            usd=usd,
            model=completion.model,
        )

    def tell(self, event: str, **fields: Json) -> None:
        """One line of the log, on disk within `FLUSH_SECONDS` of the next one."""
        if self._file is None:
            return
        now = self._now()
        self._file.write(orjson.dumps({"time": round(now, 3), "event": event, **fields}) + b"\n")
        if now - self._flushed >= FLUSH_SECONDS:
            self._flushed = now
            self._file.flush()
