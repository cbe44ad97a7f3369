"""What the viewer shows: runs, found once by name; trials page by page; what a search finds; a run under way.

A request names a run and never a path. A large run is counted once for a question, then the blocks of the page are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from starlette.exceptions import HTTPException

from youden.data.folder.csv_tables import ranking_rows
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, YoudenError
from youden.judging.config.judge_files import load_judge_of_run, price
from youden.judging.question.questions import keys
from youden.judging.store.answers import open_store_of_folder
from youden.judging.store.permission import check_store_allowed
from youden.pipeline.ranking import rank
from youden.report.data.answer_blocks import trials_on_disk
from youden.report.data.ranking_tables import RankedAgent, rank_agents
from youden.report.data.trial_rows import Column, Page, TrialFilter, TrialLine, TrialRows
from youden.text.printable import printable
from youden.types import MISSING_REASONS, Completion, Plan, Pool, Verdicts
from youden.types.pool import Bools, Floats, Positions


class _Counted(NamedTuple):
    """How many fitting rows a block holds of a level of what is sorted by; one entry for each of both that has some."""

    block: Positions
    level: Floats
    n: Positions


class TrialParts:
    """All trials of a run that is too large for memory, read one row group at a time.

    Answers are sorted as they are shown, to two decimals. That the same two texts got different answers is told by no block
    alone, so those trials are of the kind that fits them next.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Raises: RunFolderError."""
        source = trials_on_disk(folder)
        self.plan, self.judge, self._blocks = source.plan, source.asked, source.blocks
        self._ends = np.cumsum([block.n_rows for block in self._blocks])
        self._counted: tuple[object, _Counted] | None = None
        self._open: tuple[int, TrialRows] | None = None

    def __len__(self) -> int:
        return int(self._ends[-1])

    def page(self, chosen: TrialFilter, *, by: Column, descending: bool, start: int, stop: int) -> Page:
        """The trials from `start` to `stop` among those that fit, sorted by a column. Raises: HTTPException 400."""
        if chosen.kind == "answers differ":
            raise HTTPException(
                400,
                "A run of more than 4 million comparisons is read in blocks, so trials whose answers differ are not gathered. "
                "Choose an agent and an item instead.",
            )
        if by == "row" and chosen == TrialFilter():
            every = range(len(self))[::-1] if descending else range(len(self))
            return Page(len(self), tuple(self.line(row) for row in every[start:stop]))
        block, level, n = self._count(chosen, by)
        order = np.lexsort((block, -level if descending else level))
        block, n = block[order], n[order]
        ends = np.cumsum(n)
        shown = np.flatnonzero((ends > start) & (ends - n < stop))
        lines: dict[int, list[TrialLine]] = {}
        for number in np.unique(block[shown]).tolist():
            rows = self._rows(number)
            found = rows.find(chosen, by=by, descending=descending)
            ends_here = np.cumsum(np.where(block == number, n, 0))
            for at in shown[block[shown] == number].tolist():
                mine = found[ends_here[at] - n[at] : ends_here[at]]
                begin = int(ends[at] - n[at])
                lines[at] = [rows.line(int(row)) for row in mine[max(start - begin, 0) : stop - begin]]
        return Page(int(n.sum()), tuple(line for at in shown.tolist() for line in lines[at]))

    def line(self, row: int) -> TrialLine:
        """One trial."""
        return self._rows(self._block_of(row)).line(row)

    def keys(self, rows: Sequence[int]) -> list[bytes]:
        """The trials' requests in the store; empty where they were not asked there."""
        if self.judge is None:
            return [b""] * len(rows)
        blocks = [self._blocks[self._block_of(row)] for row in rows]
        return [block.keys_of(np.array([row - block.start]))[0] for block, row in zip(blocks, rows, strict=True)]

    def _count(self, chosen: TrialFilter, by: Column) -> _Counted:
        if self._counted is None or self._counted[0] != (chosen, by):
            found = [self._levels(number, chosen, by) for number in range(len(self._blocks))]
            counted = _Counted(*(np.concatenate(column) for column in zip(*found, strict=True)))
            self._counted = (chosen, by), counted
        return self._counted[1]

    def _levels(self, number: int, chosen: TrialFilter, by: Column) -> _Counted:
        value = self._rows(number).values(chosen, by=by)
        if by == "row":
            value = np.full(len(value), float(number))
        level, n = np.unique(value.round(2), return_counts=True)
        return _Counted(np.full(len(level), number), level, n)

    def _rows(self, number: int) -> TrialRows:
        """Those of one block; what was read of the one before is let go."""
        if self._open is None or self._open[0] != number:
            if self._open is not None:
                self._blocks[self._open[0]].clear()
            block = self._blocks[number]
            self._open = number, TrialRows(block, self.plan, start=block.start)
        return self._open[1]

    def _block_of(self, row: int) -> int:
        return int(np.searchsorted(self._ends, row, side="right"))


MAX_WORDS = 200
"""Characters of a search."""
MAX_NAMES = 20
"""Names that are offered at a time."""


def named(names: Sequence[str], sought: str) -> frozenset[int] | None:
    """Positions of the name that reads `sought`, else of all that hold it, in upper or lower case; None where nothing is sought.

    Raises: HTTPException 400 for a search too long.

    >>> [sorted(named(("a1", "a10", "b"), sought)) for sought in ("a1", "A", "c")]
    [[0], [0, 1], []]
    """
    words = _checked(sought)
    if not words:
        return None
    shown = [printable(name).lower() for name in names]
    exact = frozenset(k for k, name in enumerate(shown) if name == words)
    return exact or frozenset(k for k, name in enumerate(shown) if words in name)


def names_like(names: Sequence[str], sought: str) -> list[str]:
    """The first names that hold `sought`, as they are shown, those that begin with it ahead.

    Raises: HTTPException 400 for a search too long.

    >>> names_like(("ba", "ab", "b"), "b")
    ['ba', 'b', 'ab']
    """
    words = _checked(sought)
    found = [name for name in map(printable, names) if words in name.lower()]
    return sorted(found, key=lambda name: not name.lower().startswith(words))[:MAX_NAMES]


def cells_with(plan: Plan, pool: Pool | None, words: str) -> Bools | None:
    """bool[K, J]: the cells whose response, agent or item holds these words, in upper or lower case; None for no words.

    pool: None where the texts cannot be read, then names alone are searched. Raises: HTTPException 400 for a search too long.
    """
    sought = _checked(words)
    if not sought:
        return None
    agents, items = (np.array([sought in name.lower() for name in names]) for names in (plan.agent_ids, plan.item_ids))
    held = agents[:, None] | items
    if pool is not None:
        found = np.array([[text is not None and sought in text.lower() for text in row] for row in pool.every])
        held |= found.reshape(pool.repeats, *held.shape).any(axis=0)
    return np.asarray(held, dtype=np.bool_)


def _checked(words: str) -> str:
    sought = words.strip().lower()
    if len(sought) > MAX_WORDS:
        raise HTTPException(400, f"A search is at most {MAX_WORDS} characters long.")
    return sought


State = Literal["fitted", "under way", "unfinished"]


@dataclass(frozen=True)
class Runs:
    """Named runs. root: a folder whose subfolders are runs, looked through anew each time; given: runs named by the user."""

    root: Path | None
    given: tuple[Path, ...] = ()

    def all(self) -> dict[str, RunFolder]:
        """Every run by name, in alphabetical order."""
        paths = list(self.given)
        if self.root is not None and self.root.is_dir():
            paths += [path for path in self.root.iterdir() if _is_run(path)]
        found: dict[str, RunFolder] = {}
        for path in sorted(paths, key=lambda path: path.resolve().name):
            name = path.resolve().name
            number = 2
            while name in found:
                name, number = f"{path.resolve().name} ({number})", number + 1
            found[name] = RunFolder(path)
        return found


def find_runs(paths: Sequence[Path], *, root: Path) -> Runs:
    """The runs at `paths`, or all runs in `root` where none is named.

    Raises: RunFolderError [run-missing] for a path that is no run.
    """
    for path in paths:
        if not _is_run(path):
            raise RunFolderError(
                f"There is no run's folder at {path}. Make one with `youden run CONFIG`, or correct the path.",
                slug="run-missing",
            )
    return Runs(None, tuple(paths)) if paths else Runs(root)


def state_of(folder: RunFolder) -> State:
    """Fitted: it has a ranking of its answers; under way: it is planned and has a store to follow; else unfinished."""
    if folder.has("fit.json") and folder.has("ranking.csv") and not _is_newer(folder, "verdicts.parquet", "fit.json"):
        return "fitted"
    if folder.has("plan.parquet") and folder.has("config.yaml"):
        return "under way"
    return "unfinished"


def stamp(folder: RunFolder) -> tuple[float, ...]:
    """Changes when the files behind a report do."""
    names = ("fit.json", "ranking.csv", "signature.json", "verdicts.parquet", "labels.json", "moves.json")
    return tuple(folder.file(name).stat().st_mtime if folder.has(name) else 0.0 for name in names)


def _is_run(path: Path) -> bool:
    return RunFolder(path).has("pool.json")


def _is_newer(folder: RunFolder, name: str, than: str) -> bool:
    return folder.has(name) and folder.file(name).stat().st_mtime > folder.file(than).stat().st_mtime


_CODES = {reason: code for code, reason in enumerate(MISSING_REASONS)}


@dataclass(frozen=True)
class LiveState:
    """A run so far.

    usd: price of the answers that came, None where a price is unknown; why_no_ranking: None where there is one.
    """

    n_trials: int
    n_answered: int
    n_missing: int
    n_yes: int
    usd: float | None
    ranking: tuple[RankedAgent, ...]
    why_no_ranking: str | None


class LiveRun:
    """Follows one run's store. Make it once, `look()` as often as wanted."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises: YoudenError where plan, pool or judge cannot be read; RunFolderError [live-no-store] for a judge without."""
        config = folder.read_config()
        judge = load_judge_of_run(config)
        if not judge.makes_calls:
            raise RunFolderError(
                f"The judge '{judge.name}' makes no calls, so there is nothing to follow. Wait for the run to end.",
                slug="live-no-store",
            )
        check_store_allowed(config.store_place)
        self._judge = judge
        self._questions = judge.questions()
        self._store = config.store_place
        self._plan = folder.read_plan()
        self._pool = folder.read_pool()
        self._rows: dict[str, list[int]] = {}
        for row, key in keys(self._questions, self._plan):
            self._rows.setdefault(key, []).append(row)
        n = len(self._plan)
        self._answer, self._hard = np.full(n, np.nan), np.full(n, np.nan)
        self._missing = np.full(n, _CODES["not_asked"], dtype=np.int8)
        self._usd = np.zeros(n)
        self._state: LiveState | None = None

    def look(self) -> LiveState:
        """The run now. Raises: JudgeError where the store is damaged."""
        try:
            with open_store_of_folder(self._store) as store:
                outcomes = store.known([key for key, rows in self._rows.items() if self._missing[rows[0]] != 0])
        except ConfigError:
            outcomes = {}  # nothing was asked yet, so there is no store
        before = self._missing.copy()
        for key, outcome in outcomes.items():
            rows = self._rows[key]
            if isinstance(outcome, Completion):
                reading = self._questions.read(outcome)
                self._answer[rows], self._hard[rows] = reading.answer, reading.hard
                self._missing[rows] = _CODES[reading.missing]
                self._usd[rows[0]] = price(self._judge, outcome.tokens_in, outcome.tokens_out)
            else:
                self._missing[rows] = _CODES["failed"]
        if self._state is None or (before != self._missing).any():
            self._state = self._summed_up()
        return self._state

    def _summed_up(self) -> LiveState:
        came = self._missing != _CODES["not_asked"]
        answered = self._missing == 0
        ranking, why_not = self._rank()
        return LiveState(
            n_trials=len(self._plan),
            n_answered=int(answered.sum()),
            n_missing=int((came & ~answered).sum()),
            n_yes=int((self._hard == 1).sum()),
            usd=None if np.isnan(self._usd).any() else float(self._usd.sum()),
            ranking=ranking,
            why_no_ranking=why_not,
        )

    def _rank(self) -> tuple[tuple[RankedAgent, ...], str | None]:
        if not (self._missing == 0).any():
            return (), "No answer has come yet."
        result = Verdicts(
            self._plan,
            self._answer.copy(),
            self._hard.copy(),
            self._missing.copy(),
            judge={"name": self._judge.name},
        )
        try:
            table = rank(result)
        except YoudenError as error:
            return (), str(error)
        return rank_agents(ranking_rows(table), self._pool), None
