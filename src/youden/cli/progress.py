"""What is shown and reported while a command runs.

Work under way on standard error: rate, answers, failures by kind, money and time left; where that is no terminal, plain lines,
fewer the longer it takes. The last line stays.

`--mlflow`: looked at before anything is asked, done when all is written.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import click

from youden.cli import output
from youden.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from youden.data.folder.run_folder import RunFolder
    from youden.types import Json

T = TypeVar("T")

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
        self._print(self._tally.line(self._clock(), ended=True))
        self._tally = self._bar = None

    @property
    def _narrow(self) -> bool:
        """A terminal that has no room for a bar beside the words."""
        return self._console.width < 3 * BAR

    def _line(self, tally: Tally) -> str:
        taken = 1 if self._narrow else BAR + 2
        return tally.line(self._said, width=None if self._bar is None else self._console.width - taken)

    def _show(self) -> None:
        every = self._wait if self._bar is None else DRAWN_EVERY_SECONDS
        if self._tally is not None and self._clock() - self._said >= every:
            self._say(self._tally)

    def _say(self, tally: Tally) -> None:
        self._said = self._clock()
        self._wait = min(2 * self._wait, PLAIN_EVERY_SECONDS)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=tally.done, description=self._line(tally))
        else:
            self._print(self._line(tally))

    def _print(self, line: str) -> None:
        """A terminal that hung up takes nothing more, and is no reason to lose answers."""
        with suppress(OSError):
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A bar on standard error that is always taken down; none in a log, whatever FORCE_COLOR says."""
    from rich.console import Console

    bar = Bar(Console(file=sys.stderr, force_interactive=None if sys.stderr.isatty() else False))
    try:
        yield bar
    finally:
        bar.stop()


def asked(
    planned: Mapping[str, Json], ask: Callable[[Bar | None], T], *, dry_run: bool, as_json: bool, quiet: bool = False
) -> T | None:
    """What `ask` brings, with a bar while it works; None after a dry run, which asks nothing and prints what is planned."""
    if dry_run:
        if as_json:
            output.print_json(planned)
        return None
    with nullcontext() if quiet else progress_bar() as bar:
        return ask(bar)


option = click.option(
    "--mlflow",
    "to_mlflow",
    is_flag=True,
    help="Log the ranking, its intervals, the cost and the report to MLflow, where MLFLOW_TRACKING_URI says.",
)


def check() -> None:
    """Raises: ConfigError where a run could not be logged."""
    from youden.report.tracking import check_tracking

    check_tracking()


def log(folder: RunFolder) -> None:
    """Log a run that has its report, and say under which id."""
    from youden.report.tracking import log_run

    output.note(f"MLflow run {log_run(folder)}")
