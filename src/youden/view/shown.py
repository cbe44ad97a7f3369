"""Provide the data of the viewer: runs, pages of trials, searches, and runs in progress.

A request names a run and never a path. The trials of a large run are counted once per filter; after that, only the
blocks of a page are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from starlette.exceptions import HTTPException

from youden.data.folder.csv_tables import to_ranking_rows
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError, YoudenError
from youden.judging.call.failures import Failure
from youden.judging.config.judge_files import call_cost, load_judge_of_run
from youden.judging.question.questions import iter_keys
from youden.judging.store.answers import open_store_of_folder
from youden.judging.store.permission import check_store_allowed
from youden.judging.store.worker_group import is_in_progress
from youden.pipeline.fitted_run import check_fit
from youden.pipeline.judged_run import get_run_name
from youden.pipeline.ranking import rank
from youden.report.data.answer_blocks import open_trials
from youden.report.data.ranking_tables import RankedAgent, add_report_columns
from youden.report.data.trial_rows import Column, Page, TrialFilter, TrialLine, TrialRows
from youden.text.printable import format_command, printable
from youden.types import MISSING_REASONS, Completion, Plan, Pool, Verdicts
from youden.types.pool import Bools, Floats, Positions


class _SortCounts(NamedTuple):
    """Numbers of matching trials by block and by value of the sort column; three arrays (n_entries,).

    `n[e]` trials of the block `block[e]` have the value `value[e]`.
    """

    block: Positions
    value: Floats
    n: Positions


class TrialsOnDisk:
    """Trials of a run that is too large for memory; one block of rows is in memory at a time.

    Answers are sorted by the two decimals that are displayed. The kind "answers differ" is not available, because it
    needs all rows at once; such trials get the next kind that applies to them.

    Raises RunFolderError if a file is missing or damaged.
    """

    def __init__(self, folder: RunFolder) -> None:
        source = open_trials(folder)
        self.plan, self.judge, self._blocks = source.plan, source.calling_judge, source.blocks
        self._block_ends = np.cumsum([block.n_rows for block in self._blocks])
        self._counts: tuple[object, _SortCounts] | None = None
        self._open_block: tuple[int, TrialRows] | None = None

    def __len__(self) -> int:
        return int(self._block_ends[-1])

    def page(self, chosen: TrialFilter, *, by: Column, descending: bool, start: int, stop: int) -> Page:
        """Return one page of the trials that match a filter, sorted by a column.

        Parameters
        ----------
        chosen : TrialFilter
            Conditions that a trial has to meet together; `TrialFilter()` selects all trials. The kind "answers differ" is not
            supported.
        by : {"row", "item", "first", "second", "trial_type", "answer", "kind"}
            Column to sort by. Items and agents are sorted by their ids, alphabetically. Missing answers come last, and ties stay
            in the order of the run, in both directions. Answers that differ by less than 0.01 may be out of order.
        descending : bool
            Whether the largest value comes first.
        start, stop : int
            The page has the matching trials from position `start` (from 0) to `stop` − 1, in sorted order; `stop` may exceed the
            number of matching trials.

        Returns
        -------
        Page
            `total`, the number of all matching trials, and `lines`, the trials of the page without their texts.

        Raises
        ------
        HTTPException
            400 if the filter selects the kind "answers differ".
        RunFolderError
            If a file of the run is missing or damaged.
        """
        if chosen.kind == "answers differ":
            raise HTTPException(
                400,
                "Trials whose answers differ cannot be selected in a run of more than 4 million comparisons, which is read in "
                "blocks. Select an agent and an item instead.",
            )
        if by == "row" and chosen == TrialFilter():
            rows = range(len(self))[::-1] if descending else range(len(self))
            return Page(len(self), tuple(self.get_line(row) for row in rows[start:stop]))

        # An entry is the set of matching rows of one block that have one sort value. Entries are put in the order of the
        # sorted rows: entry e has the positions from starts[e] to ends[e] − 1 among all sorted rows.
        block_of_entry, sort_value, n_rows = self._count_all_blocks(chosen, by)
        order = np.lexsort((block_of_entry, -sort_value if descending else sort_value))
        block_of_entry, n_rows = block_of_entry[order], n_rows[order]
        ends = np.cumsum(n_rows)
        starts = ends - n_rows
        entries_on_page = np.flatnonzero((ends > start) & (starts < stop))
        blocks_on_page = block_of_entry[entries_on_page]

        lines_by_entry: dict[int, list[TrialLine]] = {}
        for block_number in np.unique(blocks_on_page).tolist():
            block = self._read_block(block_number)
            matching_rows = block.find(chosen, by=by, descending=descending)
            ends_in_block = np.cumsum(np.where(block_of_entry == block_number, n_rows, 0))  # among `matching_rows`
            for entry in entries_on_page[blocks_on_page == block_number].tolist():
                end_in_block = ends_in_block[entry]
                rows_of_entry = matching_rows[end_in_block - n_rows[entry] : end_in_block]
                first_position = int(starts[entry])
                rows_on_page = rows_of_entry[max(start - first_position, 0) : stop - first_position]
                lines_by_entry[entry] = [block.get_line(int(row)) for row in rows_on_page]
        lines = chain.from_iterable(lines_by_entry[entry] for entry in entries_on_page.tolist())
        return Page(int(n_rows.sum()), tuple(lines))

    def get_line(self, row: int) -> TrialLine:
        """Return one trial by its position in the run."""
        return self._read_block(self._find_block(row)).get_line(row)

    def read_request_hashes(self, rows: Sequence[int]) -> list[bytes]:
        """Return the request hash of each trial, as ASCII bytes; empty bytes if the judge makes no calls.

        rows : rows of the trials in the run
        """
        if self.judge is None:
            return [b""] * len(rows)
        hashes = []
        for row in rows:
            block = self._blocks[self._find_block(row)]
            hashes.append(block.read_request_hashes(np.array([row - block.start]))[0])
        return hashes

    def _count_all_blocks(self, chosen: TrialFilter, by: Column) -> _SortCounts:
        """Count the rows of all blocks, or return the counts of the previous call for the same filter and column."""
        if self._counts is None or self._counts[0] != (chosen, by):
            counts_by_block = [self._count_block(number, chosen, by) for number in range(len(self._blocks))]
            columns = zip(*counts_by_block, strict=True)
            counts = _SortCounts(*(np.concatenate(column) for column in columns))
            self._counts = (chosen, by), counts
        return self._counts[1]

    def _count_block(self, block_number: int, row_filter: TrialFilter, sort_column: Column) -> _SortCounts:
        """Count the rows of a block that match a filter, for each value of the sort column.

        A block is a range of rows of the run that are read together. Values are rounded to two decimals, so that few counts are
        kept for answers between 0 and 1.

        block_number : position of the block
        row_filter : filter that selects the rows to count
        sort_column : name of the sort column
        """
        sort_values = self._read_block(block_number).values(row_filter, by=sort_column)
        if sort_column == "row":
            # rows are sorted by their positions in the run, so one count per block is enough
            sort_values = np.full(len(sort_values), float(block_number))
        distinct_values, n_rows = np.unique(sort_values.round(2), return_counts=True)
        block_numbers = np.full(len(distinct_values), block_number)
        return _SortCounts(block_numbers, distinct_values, n_rows)

    def _read_block(self, number: int) -> TrialRows:
        """Return the rows of a block, and release the block that was read before."""
        if self._open_block is None or self._open_block[0] != number:
            if self._open_block is not None:
                self._blocks[self._open_block[0]].clear()
            block = self._blocks[number]
            self._open_block = number, TrialRows(block, self.plan, start=block.start)
        return self._open_block[1]

    def _find_block(self, row: int) -> int:
        """Return the number of the block that contains a row of the run."""
        return int(np.searchsorted(self._block_ends, row, side="right"))


MAX_SEARCH_LENGTH = 200
"""Maximum number of characters of a search."""
MAX_NAMES = 20
"""Maximum number of names that are suggested."""


def match_names(names: Sequence[str], search: str) -> frozenset[int] | None:
    """Return the positions of the names that match a search, ignoring case; None if the search is empty.

    If some names equal the search, only these match; otherwise, all names that contain it. Raises HTTPException 400 if the search
    is too long.

    >>> [sorted(match_names(("a1", "a10", "b"), search)) for search in ("a1", "A", "c")]
    [[0], [0, 1], []]
    """
    text = _normalize_search(search)
    if not text:
        return None
    displayed = [printable(name).lower() for name in names]
    equal = frozenset(position for position, name in enumerate(displayed) if name == text)
    if equal:
        return equal
    return frozenset(position for position, name in enumerate(displayed) if text in name)


def suggest_names(names: Sequence[str], search: str) -> list[str]:
    """Return at most `MAX_NAMES` names that contain a search, ignoring case. Names that begin with the search come first.

    Raises HTTPException 400 if the search is too long.

    >>> suggest_names(("ba", "ab", "b"), "b")
    ['ba', 'b', 'ab']
    """
    text = _normalize_search(search)
    matching = [name for name in map(printable, names) if text in name.lower()]
    return sorted(matching, key=lambda name: not name.lower().startswith(text))[:MAX_NAMES]


def find_cells(plan: Plan, pool: Pool | None, search: str) -> Bools | None:
    """Find the cells (pairs of an agent and an item) whose ids or responses contain a text, ignoring case.

    Parameters
    ----------
    plan : Plan
        Plan with the ids of agents and items, which are searched.
    pool : Pool or None
        Responses, which are searched too; None if they are not available.
    search : str
        Text to find, at most `MAX_SEARCH_LENGTH` (200) characters. Spaces at its ends are ignored.

    Returns
    -------
    bool array (n_agents, n_items), or None
        Whether the agent's id, the item's id or one of the cell's responses contains `search`. None if `search` is empty or
        consists of spaces.

    Raises
    ------
    HTTPException
        400 if the search is too long.
    """
    text = _normalize_search(search)
    if not text:
        return None
    agent_matches = np.array([text in name.lower() for name in plan.agent_ids], dtype=np.bool_)
    item_matches = np.array([text in name.lower() for name in plan.item_ids], dtype=np.bool_)
    cell_matches: Bools = agent_matches[:, None] | item_matches
    if pool is None:
        return cell_matches

    # Each row of `all_texts` has responses of one agent to all items. The rows of all agents are repeated: first their first
    # responses, then their second ones, and so on.
    n_agents = len(plan.agent_ids)
    for row, responses in enumerate(pool.all_texts):
        agent = row % n_agents
        response_matches = [response is not None and text in response.lower() for response in responses]
        cell_matches[agent] |= np.array(response_matches, dtype=np.bool_)
    return cell_matches


def _normalize_search(search: str) -> str:
    """Strip a search and convert it to lower case; raise HTTPException 400 if it is too long."""
    text = search.strip().lower()
    if len(text) > MAX_SEARCH_LENGTH:
        raise HTTPException(400, f"A search is at most {MAX_SEARCH_LENGTH} characters long.")
    return text


State = Literal["fitted", "in progress", "unfinished", "incomplete"]


@dataclass(frozen=True)
class Runs:
    """Runs of the viewer.

    Attributes
    ----------
    root : Path or None
        Folder whose subfolders are runs; it is searched at each request.
    paths : tuple of Path
        Folders of runs that the user named.
    """

    root: Path | None
    paths: tuple[Path, ...] = ()

    def find_all(self) -> dict[str, RunFolder]:
        """Return all runs by name, sorted by name. If two folders have the same name, the second is called "NAME (2)"."""
        paths = list(self.paths)
        if self.root is not None and self.root.is_dir():
            paths += [path for path in self.root.iterdir() if _is_run(path)]

        runs: dict[str, RunFolder] = {}
        for path in sorted(paths, key=lambda path: path.resolve().name):
            folder_name = path.resolve().name
            name = folder_name
            number = 2
            while name in runs:
                name = f"{folder_name} ({number})"
                number += 1
            runs[name] = RunFolder(path)
        return runs


def find_runs(paths: Sequence[Path], *, root: Path) -> Runs:
    """Find the runs that the viewer shows.

    Parameters
    ----------
    paths : sequence of Path
        Folders of runs, or folders that contain them.
    root : Path
        Folder whose subfolders are used if `paths` is empty.

    Returns
    -------
    Runs
        The runs. If `paths` is empty, `root` is searched again at each request, so that new runs appear.

    Raises
    ------
    RunFolderError
        [run-missing]: if a path is neither the folder of a run nor contains one.
    """
    if not paths:
        return Runs(root)
    run_paths: list[Path] = []
    for path in paths:
        run_folders = [path] if _is_run(path) else _find_inside(path)
        if not run_folders:
            problem = f"{path} contains no run folder" if path.is_dir() else f"There is no folder {path}"
            raise RunFolderError(
                f"{problem}. Run `youden run CONFIG` to make a run, or check the path.", slug="run-missing"
            )
        run_paths += run_folders
    return Runs(None, tuple(run_paths))


def _find_inside(folder: Path) -> list[Path]:
    """Return the run folders in a folder, sorted by name; none if it does not exist."""
    return sorted(path for path in folder.iterdir() if _is_run(path)) if folder.is_dir() else []


def get_state(folder: RunFolder) -> State:
    """Return the state of a run, which decides how the viewer shows it.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.

    Returns
    -------
    {"in progress", "fitted", "unfinished", "incomplete"}
        The first state that applies, in this order:

        - "in progress": a process judges the run, and the ranking does not contain all answers yet.
        - "fitted": the run has a ranking of its present answers, even if some planned answers are missing.
        - "unfinished": the folder has a config and a plan.
        - "incomplete": the config or the plan is missing.
    """
    is_planned = folder.has("plan.parquet") and folder.has("config.yaml")
    is_fitted = folder.has("fit.json") and folder.has("ranking.csv") and _has_current_fit(folder)
    if is_planned:
        has_final_ranking = is_fitted and _is_judged(folder)
        if not has_final_ranking and _is_in_progress(folder):
            return "in progress"
    if is_fitted:
        return "fitted"
    if is_planned:
        return "unfinished"
    return "incomplete"


def _has_current_fit(folder: RunFolder) -> bool:
    """Return whether the fit belongs to plan and answers; True if a file is damaged, so that its page shows the error."""
    try:
        check_fit(folder)
    except YoudenError as error:
        return error.slug not in ("fit-stale", "run-other-plan")
    return True


def _is_judged(folder: RunFolder) -> bool:
    """Return whether a run is judged to its end; True if its file is damaged, so that its page shows the error."""
    try:
        return folder.is_judged
    except YoudenError:
        return True


def _is_in_progress(folder: RunFolder) -> bool:
    """Return whether a process judges a run at present, according to the store of the run.

    If the store cannot be read, or if the judge uses none, the result is False.
    """
    try:
        config = folder.read_config()
        name = get_run_name(folder, folder.read_plan_without_trials())
        with open_store_of_folder(config.store_location) as store:
            return is_in_progress(store, name)
    except YoudenError:
        return False


def get_file_times(folder: RunFolder) -> tuple[float, ...]:
    """Return the modification times of the files of a report; 0 for missing files."""
    fit_files = ("fit.json", "ranking.csv", "signature.json", "verdicts.parquet")
    names = (*fit_files, "labels.json", "quality.json", "variance_components.json")
    return tuple(folder.file(name).stat().st_mtime if folder.has(name) else 0.0 for name in names)


def _is_run(path: Path) -> bool:
    """Return whether a path is the folder of a run."""
    return RunFolder(path).has("pool.json")


_ANSWERED = MISSING_REASONS.index("answered")
_PENDING = MISSING_REASONS.index("pending")


@dataclass(frozen=True)
class LiveState:
    """Answers so far of a run in progress, or of an unfinished one.

    Attributes
    ----------
    n_trials, n_answered, n_missing, n_yes : int
        Number of trials in all, with an answer, without an answer after a call, and with the answer yes.
    usd : float or None
        Price of the answers; None if a price is unknown.
    ranking : tuple of RankedAgent
        Ranking by the answers so far; empty if there is none.
    why_no_ranking : str or None
        Reason why the ranking is empty; None if it is not.
    """

    n_trials: int
    n_answered: int
    n_missing: int
    n_yes: int
    usd: float | None
    ranking: tuple[RankedAgent, ...]
    why_no_ranking: str | None


class LiveRun:
    """Follows an unfinished run through its store.

    Parameters
    ----------
    folder : RunFolder

    Raises
    ------
    YoudenError
        If plan, pool or judge cannot be read.
    RunFolderError
        [live-jury], [live-no-store]: if the judge is a jury, or makes no calls.
    """

    def __init__(self, folder: RunFolder) -> None:
        config = folder.read_config()
        judge = load_judge_of_run(config)
        remedy = f"Wait for the run to end or, if no process judges it, run `{folder.format_command()}`."
        if judge.judges:
            fit_command = format_command(["youden", "fit", str(folder.path)])
            raise RunFolderError(
                f"The judge '{judge.name}' is a jury, whose answers are shown only when all its judges have answered all trials. "
                f"{remedy} To rank by the trials that all of them have answered so far, run `{fit_command}`.",
                slug="live-jury",
            )
        if not judge.makes_calls:
            raise RunFolderError(
                f"The judge '{judge.name}' makes no calls, so there is nothing to follow. {remedy}",
                slug="live-no-store",
            )
        check_store_allowed(config.store_location)
        self._judge = judge
        self._questions = judge.questions()
        self._store = config.store_location
        self._plan = folder.read_plan()
        self._pool = folder.read_pool()
        self._rows_by_key: dict[str, list[int]] = {}
        for row, key in iter_keys(self._questions, self._plan):
            self._rows_by_key.setdefault(key, []).append(row)
        n_trials = len(self._plan)
        self._answer, self._hard_answer = np.full(n_trials, np.nan), np.full(n_trials, np.nan)
        self._statuses = np.full(n_trials, _PENDING, dtype=np.int8)
        self._usd = np.zeros(n_trials)
        self._state: LiveState | None = None

    def update(self) -> LiveState:
        """Read new answers from the store, and return the progress and the ranking of the run so far.

        Raises
        ------
        JudgeError
            If the store is damaged.
        """
        # trials that share a request have the same outcome, so the first one is enough
        unanswered = [key for key, rows in self._rows_by_key.items() if self._statuses[rows[0]] != _ANSWERED]
        try:
            with open_store_of_folder(self._store) as store:
                outcomes = store.get_outcomes(unanswered)
        except ConfigError:
            outcomes = {}  # the store is created with the first request

        previous_statuses = self._statuses.copy()
        for key, outcome in outcomes.items():
            self._record_outcome(self._rows_by_key[key], outcome)
        has_changed = not np.array_equal(previous_statuses, self._statuses)
        if self._state is None or has_changed:
            self._state = self._compute_state()
        return self._state

    def _record_outcome(self, rows: list[int], outcome: Completion | Failure) -> None:
        """Record the outcome of one request for all trials that share the request.

        A request is paid once, even if several trials share it. Therefore, only the first of these trials gets the cost.

        rows : positions of these trials in the plan
        outcome : the judge's answer, whose decision is read here; or a failure, which marks the trials as missing
        """
        if not isinstance(outcome, Completion):
            self._statuses[rows] = MISSING_REASONS.index("failed")
            return

        reading = self._questions.read(outcome)
        self._answer[rows] = reading.answer
        self._hard_answer[rows] = reading.hard_answer
        self._statuses[rows] = MISSING_REASONS.index(reading.missing_reason)
        self._usd[rows[0]] = call_cost(self._judge, outcome.tokens_in, outcome.tokens_out)

    def _compute_state(self) -> LiveState:
        """Count the answers so far, sum their cost in USD, and rank the agents by these answers.

        The cost is None if the price of an answer is unknown.
        """
        is_answered = self._statuses == _ANSWERED
        is_pending = self._statuses == _PENDING
        is_missing = ~is_answered & ~is_pending  # a call was made, but gave no valid answer
        is_yes = self._hard_answer == 1
        ranking, reason = self._rank_agents()
        return LiveState(
            n_trials=len(self._plan),
            n_answered=int(is_answered.sum()),
            n_missing=int(is_missing.sum()),
            n_yes=int(is_yes.sum()),
            usd=None if np.isnan(self._usd).any() else float(self._usd.sum()),
            ranking=ranking,
            why_no_ranking=reason,
        )

    def _rank_agents(self) -> tuple[tuple[RankedAgent, ...], str | None]:
        """Rank the agents of an unfinished run by the answers that the store contains so far.

        If there are too few answers for a ranking, this is not an error, because the run is still in progress.

        Returns the ranking with one entry per agent, and None; or an empty ranking, and the reason why there is none.
        """
        if not (self._statuses == _ANSWERED).any():
            return (), "No trial has an answer yet."

        verdicts = Verdicts(
            self._plan,
            self._answer.copy(),
            self._hard_answer.copy(),
            self._statuses.copy(),
            judge={"name": self._judge.name},
        )
        try:
            table = rank(verdicts)
        except YoudenError as error:
            return (), str(error)
        return add_report_columns(to_ranking_rows(table), self._pool), None
