"""Shows the progress of a command or call: a bar in a terminal or notebook, plain lines elsewhere.

Both go to standard error: rate, answers, failures by kind, cost and time left. In plain text, lines become rarer the longer the
work takes. The last line stays.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from youden.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

PLAIN_AFTER_SECONDS = 10.0
"""The first plain line; each further one comes after twice the time, at most `PLAIN_EVERY_SECONDS`."""
PLAIN_EVERY_SECONDS = 600.0
DRAWN_EVERY_SECONDS = 0.1
BAR = 20


@dataclass
class Tally:
    """What happened since `began` (seconds of any clock). failed: reason → how many."""

    what: str
    total: int
    began: float
    done: int = 0
    cached: int = 0
    throttled: int = 0
    usd: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    workers: int = 0
    by_them: int = 0

    def line(self, now: float, *, width: int | None = None, ended: bool = False) -> str:
        """All of it in words, zeros left out; the rate and the time left are of what did not come from the store.

        width: characters there are; what matters least is left out until it fits. ended: the time it took, for what is left.
        """
        asked = self.done - self.cached
        rate = asked / (now - self.began) if now > self.began else 0.0
        n_failed = self.failed.total()
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(self.failed.items()) if reason)
        left = (self.total - self.done) / rate if rate else 0.0
        took = f"in {_duration(now - self.began)}" if now - self.began >= 1 else ""
        parts = {
            "done": f"{self.what}: {self.done:,} of {self.total:,}",
            "rate": f"{rate:,.0f}/s" if asked else "",
            "answered": f"{self.done - n_failed:,} answered",
            "stored": f"{self.cached:,} from the store" if self.cached else "",
            "failed": (f"{n_failed:,} failed" + (f" ({reasons})" if reasons else "")) if n_failed else "",
            "throttled": f"{self.throttled:,} × 429" if self.throttled else "",
            "workers": f"{self.workers:,} more {'worker' if self.workers == 1 else 'workers'}" if self.workers else "",
            "by them": f"{self.by_them:,} answered by others" if self.by_them else "",
            "usd": f"${self.usd:.4f}" if self.usd else "",
            "time": took if ended else f"{_duration(left)} left" if left >= 1 else "",
        }
        said = {name: part for name, part in parts.items() if part}
        for name in ("answered", "stored", "by them", "throttled", "failed", "rate", "time", "usd"):
            if width is None or len(", ".join(said.values())) <= width:
                break
            said.pop(name, None)
        return ", ".join(said.values())


class Bar:
    """Draws work under way; implements `youden.types.Progress`."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._tally: Tally | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._cell: Any = None
        self._said = 0.0
        self._wait = PLAIN_AFTER_SECONDS

    def start(self, total: int, *, what: str) -> None:
        now = self._clock()
        self._tally, self._said, self._wait = Tally(printable(what), total, now), now, PLAIN_AFTER_SECONDS
        if self._console.is_interactive:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(bar_width=BAR), TextColumn("{task.description}", markup=False))
            self._bar = Progress(*columns[self._narrow :], console=self._console, transient=True)
            self._task = self._bar.add_task(self._line(self._tally), total=total)
            self._bar.start()
        elif self._console.is_jupyter:
            display = import_module("IPython.display").display
            self._cell = display(_cell_of(self._tally, self._line(self._tally)), raw=True, display_id=True)

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, why: str = "") -> None:
        if self._tally is not None:
            self._tally.done += n
            self._tally.cached += cached
            self._tally.usd += usd
            if failed:
                self._tally.failed[why] += failed
            self._show()

    def throttled(self) -> None:
        if self._tally is not None:
            self._tally.throttled += 1
            self._show()

    def beside(self, n_workers: int, *, answered: int) -> None:
        """So many others ask the same run, and others got so many answers in this pass."""
        if self._tally is not None:
            self._tally.workers, self._tally.by_them = n_workers, answered
            self._show()

    def say(self, text: str) -> None:
        """A line of its own."""
        self._print(printable(text))

    def stop(self) -> None:
        if self._tally is None:
            return
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()
        last = self._tally.line(self._clock(), ended=True)
        if self._cell is None:
            self._print(last)
        else:
            self._cell.update(_cell_of(self._tally, last), raw=True)
        self._tally = self._bar = self._cell = None

    @property
    def _narrow(self) -> bool:
        """A terminal that has no room for a bar beside the words."""
        return self._console.width < 3 * BAR

    def _line(self, tally: Tally) -> str:
        taken = 1 if self._narrow else BAR + 2
        return tally.line(self._said, width=None if self._bar is None else self._console.width - taken)

    def _show(self) -> None:
        every = self._wait if self._bar is None and self._cell is None else DRAWN_EVERY_SECONDS
        if self._tally is not None and self._clock() - self._said >= every:
            self._say(self._tally)

    def _say(self, tally: Tally) -> None:
        self._said = self._clock()
        self._wait = min(2 * self._wait, PLAIN_EVERY_SECONDS)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=tally.done, description=self._line(tally))
        elif self._cell is not None:
            self._cell.update(_cell_of(tally, self._line(tally)), raw=True)
        else:
            self._print(self._line(tally))

    def _print(self, line: str) -> None:
        """A terminal that hung up takes nothing more, and is no reason to lose answers."""
        with suppress(OSError):
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _cell_of(tally: Tally, line: str) -> dict[str, str]:
    """What a notebook displays, by MIME type. Works without ipywidgets, which rich's own bar needs."""
    drawn = f'<progress max="{tally.total}" value="{tally.done}"></progress> {escape(line)}'
    return {"text/plain": line, "text/html": drawn}


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress_bar(*, plain: bool = True) -> Iterator[Bar | None]:
    """Open a progress bar on standard error, or in the notebook, and close it at the end of the block.

    Parameters
    ----------
    plain : bool, default True
        Whether to print plain lines if there is neither a terminal nor a notebook, whatever FORCE_COLOR says.

    Yields
    ------
    Bar or None
        None if there is neither and `plain` is false.
    """
    from rich.console import Console

    console = Console(file=sys.stderr, force_interactive=None if sys.stderr.isatty() else False)
    if not (plain or console.is_interactive or console.is_jupyter):
        yield None
        return
    bar = Bar(console)
    try:
        yield bar
    finally:
        bar.stop()
