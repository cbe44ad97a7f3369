"""Read once everything that a report needs of a run: its answers, rates, scores, fit and texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.store.answers import open_store_of_folder
from youden.report.data.answer_blocks import Predictions, trials_on_disk
from youden.stats.partners import PairMeans
from youden.types import Pool, Verdicts
from youden.types.pool import Bools, Json


class Evidence:
    """Tables of a run's folder, of which agents are positions.

    `agreement` is the mean D of ordered pairs, with an FPR of their own if `own_rates`; `significant`, bool (n_agents, n_agents),
    marks significantly different abilities; agents that are not `is_compared`, bool (n_agents,), have no intervals.
    """

    def __init__(self, folder: RunFolder) -> None:
        pairs = folder.read_pairs()
        difficulty = [np.nan if row.difficulty is None else row.difficulty for row in folder.read_items()]
        self.folder, self.pool = folder, folder.read_pool()
        self.scores = folder.read_scores("symmetric")
        self.holdout = folder.read_holdout() if folder.has("holdout.csv") else None
        self.agent_ids, self.item_ids = self.scores.agent_ids, self.scores.item_ids
        self.agreement, self.own_rates, self.partners_seen = pairs.agreement, pairs.own_rates, pairs.partners_seen
        self.pairs = PairMeans(pairs.mean, pairs.error, pairs.n) if pairs.n.any() else None
        self.predicted = Predictions(pairs.ability, np.array(difficulty))
        self.trials = trials_on_disk(folder) if folder.has("plan.parquet") else None
        self.significant: Bools = np.asarray((pairs.above == 1) | (pairs.above.T == 1))
        self.is_compared: Bools = np.asarray((~np.isnan(pairs.above)).any(axis=1))


def read_result(folder: RunFolder) -> Verdicts | None:
    """Return the answers of a judged run in memory; None if the run was imported."""
    return folder.read_verdicts(folder.read_plan()) if folder.has("plan.parquet") else None


class Sources:
    """What opens a trial: the run's pool, the judge's prompt, and the store of its raw answers; what cannot be opened is None.

    `judge` describes the judge that made the calls, None if there were no calls. `missing` states what is not available, and why.
    """

    def __init__(self, folder: RunFolder, judge: Mapping[str, Json] | None) -> None:
        self.pool: Pool | None = None
        self.prompt: dict[str, Json] | None = None
        self.store: str | None = None
        self.missing: list[str] = []
        self._open_pool(folder)
        if judge is not None:
            self._open_store(folder, str(judge.get("prompt_digest")))

    def _open_pool(self, folder: RunFolder) -> None:
        if not folder.has("config.yaml"):
            self.missing.append("This run was imported without texts.")
            return
        try:
            pool = folder.run_pool()
        except YoudenError as error:
            self.missing.append(f"The pool cannot be read: {error}")
            return
        if pool.digest == folder.read_pool().digest:
            self.pool = pool
        else:
            self.missing.append(
                "The pool has changed since the run was planned, so its texts are not those that were judged."
            )

    def _open_store(self, folder: RunFolder, prompt_digest: str) -> None:
        try:
            config = folder.read_config()
            with open_store_of_folder(config.store_place):
                self.prompt = _prompt(load_judge_of_run(config), prompt_digest)
            self.store = config.store_place
            if self.prompt is None:
                self.missing.append("The judge's prompt has changed since, so it is not shown.")
        except YoudenError as error:
            self.missing.append(f"The judge's raw answers or its prompt cannot be opened: {error}")


def _prompt(config: JudgeConfig, digest: str) -> dict[str, Json] | None:
    prompt = (config.of or config).loaded_prompt
    return {"system": prompt.system, "template": prompt.template} if prompt.digest == digest else None
