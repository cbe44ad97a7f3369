"""Show the progress of a command or call: a bar in a terminal or notebook, and plain lines elsewhere.

Both are written to standard error. Plain lines become rarer with time, so that logs of long runs stay short; the last line is
always written.
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
"""Time of the first plain line; the interval is doubled after each line, up to `MAX_PLAIN_INTERVAL_SECONDS`."""
MAX_PLAIN_INTERVAL_SECONDS = 600.0
REDRAW_INTERVAL_SECONDS = 0.1
BAR_WIDTH = 20


@dataclass
class Tally:
    """Progress counts of a task since its start.

    Attributes
    ----------
    name : str
        Name of the task.
    total, done, cached : int
        Number of trials in all, done, and answered from the store.
    start_time : float
        Start of the task in seconds of any clock.
    throttled : int
        Number of replies with status 429.
    usd : float
        Cost.
    failed : Counter
        Number of trials without an answer, by reason.
    workers, answered_by_workers : int
        Number of other workers on the same run, and of their answers.
    """

    name: str
    total: int
    start_time: float
    done: int = 0
    cached: int = 0
    throttled: int = 0
    usd: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    workers: int = 0
    answered_by_workers: int = 0

    def format_line(self, now: float, *, width: int | None = None, ended: bool = False) -> str:
        """Format the counts as one line: "judging: 50 of 90, 10/s, 49 answered, 1 failed (1 timeout), 0:04 left".

        Parameters
        ----------
        now : float
            Current time in seconds, by the clock of `start_time`.
        width : int, optional
            Maximum number of characters. The least important parts are left out until the line fits; the number of finished
            trials and the number of other workers are always shown, so that the line may be longer. Default: no maximum.
        ended : bool, default False
            Whether to show the time that the task took instead of the time left.

        Returns
        -------
        str
            The line, without a line break. Rate and time left are computed without the trials that were answered from the store.
        """
        parts = self._format_parts(now, ended=ended)
        line = ", ".join(parts.values())
        if width is None:
            return line

        # names of the parts that may be left out, the least important first
        for name in ("answered", "cached", "answered by workers", "throttled", "failed", "rate", "time", "usd"):
            if len(line) <= width:
                break
            parts.pop(name, None)
            line = ", ".join(parts.values())
        return line

    def _format_parts(self, now: float, *, ended: bool) -> dict[str, str]:
        """Return the texts of the progress line by name, in the order of the line.

        Counts that are 0 are left out, except the numbers of finished and of answered trials. A time below one second is
        left out, too.

        now : current time in seconds, by the clock of `start_time`
        ended : whether the task has ended, so that its duration is shown instead of the remaining time
        """
        n_requested = self.done - self.cached
        n_failed = self.failed.total()
        elapsed = now - self.start_time
        rate = n_requested / elapsed if elapsed > 0 else 0.0

        parts = {"done": f"{self.name}: {self.done:,} of {self.total:,}"}
        if n_requested:
            parts["rate"] = f"{rate:,.0f}/s"
        parts["answered"] = f"{self.done - n_failed:,} answered"
        if self.cached:
            parts["cached"] = f"{self.cached:,} from the store"
        if n_failed:
            parts["failed"] = f"{n_failed:,} failed{self._format_reasons()}"
        if self.throttled:
            parts["throttled"] = f"{self.throttled:,} × 429"
        if self.workers:
            parts["workers"] = f"{self.workers:,} more {'worker' if self.workers == 1 else 'workers'}"
        if self.answered_by_workers:
            parts["answered by workers"] = f"{self.answered_by_workers:,} answered by others"
        if self.usd:
            parts["usd"] = f"${self.usd:.4f}"

        seconds = elapsed if ended else self._estimate_seconds_left(rate)
        if seconds >= 1:
            duration = _format_duration(seconds)
            parts["time"] = f"in {duration}" if ended else f"{duration} left"
        return parts

    def _estimate_seconds_left(self, rate: float) -> float:
        """Estimate the remaining time from the number of finished requests per second; 0 if none is finished."""
        return (self.total - self.done) / rate if rate else 0.0

    def _format_reasons(self) -> str:
        """Return the number of failures by reason as " (3 refused, 1 timeout)"; "" if no reason is known."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.failed.items()) if reason)
        return f" ({reasons})" if reasons else ""


class ProgressBar:
    """Progress of a task on a console, as defined by `youden.types.Progress`.

    Parameters
    ----------
    console : rich.console.Console
    clock : callable, default time.monotonic
        Returns the current time in seconds.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._tally: Tally | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._notebook_output: Any = None
        self._last_redraw = 0.0
        self._line_interval = PLAIN_AFTER_SECONDS

    def start(self, total: int, *, what: str) -> None:
        """Start to display the progress of a task on the console.

        The caller must end an earlier task by `stop` before. A terminal shows a bar. A notebook shows an output that is updated.
        Any other console shows nothing at first; after 10 seconds, a line is printed from time to time as trials are completed.

        Parameters
        ----------
        total : int
            Number of trials of the task.
        what : str
            Name of the task on the display.
        """
        now = self._clock()
        tally = Tally(printable(what), total, now)
        self._tally = tally
        self._last_redraw = now
        self._line_interval = PLAIN_AFTER_SECONDS

        if self._console.is_interactive:
            self._start_bar(tally)
        elif self._console.is_jupyter:
            display = import_module("IPython.display").display
            output = _render_notebook_output(tally, self._format_line(tally))
            self._notebook_output = display(output, raw=True, display_id=True)

    def _start_bar(self, tally: Tally) -> None:
        """Start a display in the terminal that is redrawn in place as the trials are done.

        The display is a bar followed by a line of text. A narrow terminal shows only the text. The display is removed
        when the task ends.

        tally : counts so far, which the text states, and the total number of trials
        """
        from rich.progress import BarColumn, Progress, TextColumn

        bar = BarColumn(bar_width=BAR_WIDTH)
        text = TextColumn("{task.description}", markup=False)
        columns = (text,) if self._is_narrow else (bar, text)
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(self._format_line(tally), total=tally.total)
        self._bar.start()

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, reason: str = "") -> None:
        """Count completed trials, and redraw the display if it is due. Does nothing if no task was started.

        Parameters
        ----------
        n : int, default 1
            Number of trials completed since the last call, with or without an answer, including those from the store.
        failed : int, default 0
            Number of these trials without an answer.
        usd : float, default 0
            Cost of these trials in USD.
        cached : int, default 0
            Number of these trials whose answer came from the store.
        reason : str, default ""
            Reason for all of these failures, for example "refused"; empty if no trial failed, or if the reason is unknown.
        """
        if self._tally is not None:
            self._tally.done += n
            self._tally.cached += cached
            self._tally.usd += usd
            if failed:
                self._tally.failed[reason] += failed
            self._redraw_if_due()

    def throttled(self) -> None:
        """Count a reply with status 429."""
        if self._tally is not None:
            self._tally.throttled += 1
            self._redraw_if_due()

    def show_workers(self, n_workers: int, *, answered: int) -> None:
        """Set the number of other workers on the same run, and of the answers that they got in this invocation."""
        if self._tally is not None:
            self._tally.workers = n_workers
            self._tally.answered_by_workers = answered
            self._redraw_if_due()

    def say(self, text: str) -> None:
        """Print a separate line."""
        self._print(printable(text))

    def stop(self) -> None:
        """End the task, and replace its display by a last line with the final counts and the time that it took.

        Does nothing if no task was started.
        """
        if self._tally is None:
            return
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()
        last_line = self._tally.format_line(self._clock(), ended=True)
        if self._notebook_output is None:
            self._print(last_line)
        else:
            self._notebook_output.update(_render_notebook_output(self._tally, last_line), raw=True)
        self._tally = None
        self._bar = None
        self._notebook_output = None

    @property
    def _is_narrow(self) -> bool:
        """Whether the terminal has no room for a bar and text."""
        return self._console.width < 3 * BAR_WIDTH

    def _format_line(self, tally: Tally) -> str:
        """Format the counts as a line that fits next to the bar, if there is one."""
        if self._bar is None:
            return tally.format_line(self._last_redraw)
        n_used = 1 if self._is_narrow else BAR_WIDTH + 2
        return tally.format_line(self._last_redraw, width=self._console.width - n_used)

    def _redraw_if_due(self) -> None:
        """Display the counts if enough time has passed since they were last displayed."""
        is_plain = self._bar is None and self._notebook_output is None
        interval = self._line_interval if is_plain else REDRAW_INTERVAL_SECONDS
        if self._tally is not None and self._clock() - self._last_redraw >= interval:
            self._redraw(self._tally)

    def _redraw(self, tally: Tally) -> None:
        """Display the counts as a bar, as the output of a notebook, or as a plain line."""
        self._last_redraw = self._clock()
        self._line_interval = min(2 * self._line_interval, MAX_PLAIN_INTERVAL_SECONDS)  # used only for plain lines
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=tally.done, description=self._format_line(tally))
        elif self._notebook_output is not None:
            self._notebook_output.update(_render_notebook_output(tally, self._format_line(tally)), raw=True)
        else:
            self._print(self._format_line(tally))

    def _print(self, line: str) -> None:
        """Print a line to standard error."""
        with suppress(OSError):  # a terminal that was closed must not stop the run
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _render_notebook_output(tally: Tally, line: str) -> dict[str, str]:
    """Return the output of a notebook by MIME type. Unlike the bar of rich, it does not need ipywidgets."""
    bar = f'<progress max="{tally.total}" value="{tally.done}"></progress> {escape(line)}'
    return {"text/plain": line, "text/html": bar}


def _format_duration(total_seconds: float) -> str:
    """Format a duration as minutes:seconds, or as hours:minutes:seconds from one hour on."""
    minutes, seconds = divmod(round(total_seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@contextmanager
def progress_bar(*, plain: bool = True) -> Iterator[ProgressBar | None]:
    """Open a progress bar, and stop it at the end of the block.

    Parameters
    ----------
    plain : bool, default True
        Applies only if there is neither a terminal nor a notebook. True: a line of text is printed from time to time. False:
        nothing is printed.

    Yields
    ------
    ProgressBar or None
        The progress bar; None if nothing is printed.
    """
    from rich.console import Console

    # rich decides whether a terminal is interactive; without a terminal, it would draw a bar if FORCE_COLOR is set
    is_interactive = None if sys.stderr.isatty() else False
    console = Console(file=sys.stderr, force_interactive=is_interactive)
    has_display = console.is_interactive or console.is_jupyter
    if not has_display and not plain:
        yield None
        return
    bar = ProgressBar(console)
    try:
        yield bar
    finally:
        bar.stop()
