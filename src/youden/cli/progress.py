"""A progress bar on standard error, with rate, ETA, failures and money; plain lines where that is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

PLAIN_EVERY_SECONDS = 10.0


class Bar:
    """Draws work under way; implements `youden.types.Progress`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._what = ""
        self._total = self._done = self._failed = 0
        self._usd = 0.0
        self._began = self._said = 0.0

    def start(self, total: int, *, what: str) -> None:
        self._what, self._total, self._done, self._failed, self._usd = what, total, 0, 0, 0.0
        self._began = self._said = time.monotonic()
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[failed]} failed"),
                TextColumn("{task.fields[usd]}"),
                console=self._console,
            )
            self._task = self._bar.add_task(what, total=total, rate="", failed=0, usd="")
            self._bar.start()

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0) -> None:
        self._done += n
        self._failed += failed
        self._usd += usd
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=n, rate=self._rate(), failed=self._failed, usd=self._money())
        elif time.monotonic() - self._said >= PLAIN_EVERY_SECONDS:
            self._said = time.monotonic()
            self._console.print(self._line(), highlight=False)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if not self._console.is_terminal and self._total:
            self._console.print(self._line(), highlight=False)
        self._total = 0

    def _rate(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self._done / seconds:,.0f}/s" if seconds > 0 else ""

    def _money(self) -> str:
        return f"${self._usd:.4f}" if self._usd else ""

    def _line(self) -> str:
        parts = [
            f"{self._what}: {self._done:,} of {self._total:,}",
            self._rate(),
            f"{self._failed:,} failed",
            self._money(),
        ]
        return ", ".join(part for part in parts if part)


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A bar on standard error that is always taken down."""
    bar = Bar(Console(file=sys.stderr))
    try:
        yield bar
    finally:
        bar.stop()
