"""A run while it is judged: what has come into its store so far, and the ranking that follows from it.

No judge is asked here, and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.data.folder.joining import read_run_pool
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.sheets import ranking_rows
from youden.errors import ConfigError, RunFolderError, YoudenError
from youden.judging.config.reading import load_judge_config, price
from youden.judging.question.keys import keys
from youden.judging.store.answers import open_store
from youden.nouns import MISSING_REASONS, Verdicts
from youden.report.data.ranking import RankedAgent, rank_agents
from youden.run.ranking import rank

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
        judge = load_judge_config(config.judge)
        if not judge.makes_calls:
            raise RunFolderError(
                f"The judge '{judge.name}' makes no calls, so there is nothing to follow. Wait for the run to end.",
                slug="live-no-store",
            )
        self._judge = judge
        self._questions = judge.questions()
        self._store = config.store_place
        self._plan = folder.read_plan()
        self._pool = folder.read_pool()
        self._groups = {agent.id: agent.group for agent in self._pool.agents}
        pool = read_run_pool(config)
        if pool.digest != self._plan.pool_digest:
            raise RunFolderError("The pool has changed since this run was planned. Plan it again.", slug="live-pool")
        self._rows: dict[str, list[int]] = {}
        for row, key in keys(self._questions, self._plan, pool):
            self._rows.setdefault(key, []).append(row)
        n = len(self._plan)
        self._answer, self._hard = np.full(n, np.nan), np.full(n, np.nan)
        self._missing = np.full(n, _CODES["not_asked"], dtype=np.int8)
        self._usd = 0.0
        self._seen = 0
        self._came: set[str] = set()
        self._state: LiveState | None = None

    def look(self) -> LiveState:
        """The run now. Raises: JudgeError where the store is damaged."""
        try:
            with open_store(self._store, read_only=True) as store:
                self._seen, fresh = store.since(self._seen)
                failed = store.failures([key for key in self._rows if key not in self._came])
        except ConfigError:
            fresh, failed = {}, {}  # nothing was asked yet, so there is no store
        mine = {key: completion for key, completion in fresh.items() if key in self._rows}
        for key, completion in mine.items():
            reading = self._questions.read(completion)
            rows = self._rows[key]
            self._answer[rows], self._hard[rows] = reading.answer, reading.hard
            self._missing[rows] = _CODES[reading.missing]
            self._usd += price(self._judge, completion.tokens_in, completion.tokens_out)
        self._came |= mine.keys()
        given_up = [row for key in failed.keys() - mine.keys() for row in self._rows[key]]
        news = bool(mine) or bool((self._missing[given_up] != _CODES["failed"]).any())
        self._missing[given_up] = _CODES["failed"]
        if news or self._state is None:
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
            usd=None if np.isnan(self._usd) else self._usd,
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
            table = rank(self._plan, result, groups=self._groups)
        except YoudenError as error:
            return (), str(error)
        return rank_agents(ranking_rows(table), self._pool), None
