"""Read the tables of a run, and open the texts and answers of its trials.

A report reads each file once, and describes what it cannot open instead of failing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.store.answers import open_store_of_folder
from youden.report.data.answer_blocks import Predictions, open_trials
from youden.stats.partners import PairMeans
from youden.types import Pool, Verdicts
from youden.types.pool import Bools, Json


class Evidence:
    """Tables of a run, with agents and items as positions.

    Attributes
    ----------
    folder : RunFolder
        Folder of the run.
    pool : PoolSummary
        Agents and items, without texts.
    scores, holdout : Scores, Scores or None
        Symmetric training scores, and those of held-out cells.
    agent_ids, item_ids : tuple of str
        Ids, by position.
    agreement : float array (n_agents, n_agents)
        Mean TPR of ordered pairs over items, minus the FPR of the pair if `own_rates` is True.
    partners_seen : float or None
        Mean fraction of its possible partners with which a cell was compared.
    pairs : PairMeans or None
        Mean answer to each pair; None if no two agents were compared.
    predicted : Predictions
        Scores that the fit predicts.
    trials : TrialSource or None
        Trials with their answers; None for an imported run.
    significant : bool array (n_agents, n_agents)
        Whether two abilities are significantly different.
    is_compared : bool array (n_agents,)
        Whether an agent has an interval.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Read the tables of a fitted run; RunFolderError if one is missing or damaged."""
        self.folder = folder
        self.pool = folder.read_pool()
        self.scores = folder.read_scores("symmetric")
        self.holdout = folder.read_holdout() if folder.has("holdout.csv") else None
        self.agent_ids = self.scores.agent_ids
        self.item_ids = self.scores.item_ids
        self.trials = open_trials(folder) if folder.has("plan.parquet") else None

        pairs = folder.read_pairs()
        self.agreement = pairs.agreement
        self.own_rates = pairs.own_rates
        self.partners_seen = pairs.partners_seen
        self.pairs = PairMeans(pairs.mean, pairs.std_error, pairs.n) if pairs.n.any() else None
        difficulty = [np.nan if row.difficulty is None else row.difficulty for row in folder.read_items()]
        self.predicted = Predictions(pairs.ability, np.array(difficulty))
        self.significant: Bools = np.asarray((pairs.significantly_better == 1) | (pairs.significantly_better.T == 1))
        self.is_compared: Bools = np.asarray((~np.isnan(pairs.significantly_better)).any(axis=1))


def read_result(folder: RunFolder) -> Verdicts | None:
    """Read all answers of a run into memory.

    Parameters
    ----------
    folder : RunFolder
        Folder of a run.

    Returns
    -------
    Verdicts or None
        None if the run was imported.

    Raises
    ------
    RunFolderError
        If a file is missing or damaged.
    """
    if not folder.has("plan.parquet"):
        return None
    return folder.read_verdicts(folder.read_plan())


class Sources:
    """Sources of the texts and answers of trials; a source that cannot be opened is None.

    Attributes
    ----------
    pool : Pool or None
        Pool of the run.
    prompt : dict or None
        Prompt of the judge, with the keys "system" and "template".
    store : str or None
        Address of the store of raw answers.
    missing : list of str
        Sentences that state which source cannot be opened, and why.
    """

    def __init__(self, folder: RunFolder, judge: Mapping[str, Json] | None) -> None:
        """Open the sources of a run. `judge` has the settings of the judge; it is None if the judge made no calls."""
        self.pool: Pool | None = None
        self.prompt: dict[str, Json] | None = None
        self.store: str | None = None
        self.missing: list[str] = []
        self._open_pool(folder)
        if judge is not None:
            self._set_prompt_and_store(folder, str(judge.get("prompt_digest")))

    def _open_pool(self, folder: RunFolder) -> None:
        """Read the responses of a run into the attribute `pool`.

        If the responses are not available, or have changed since the run was planned, a sentence is added to `missing` instead.
        """
        if not folder.has("config.yaml"):
            self.missing.append("This run was imported without texts.")
            return
        try:
            pool = folder.read_judged_pool()
        except YoudenError as error:
            self.missing.append(f"The pool cannot be read: {error}")
            return
        if pool.digest == folder.read_pool().digest:
            self.pool = pool
        else:
            self.missing.append(
                "The pool has changed since the run was planned, so its texts are not those that were judged."
            )

    def _set_prompt_and_store(self, folder: RunFolder, prompt_digest: str) -> None:
        """Set the attributes `prompt`, the prompt of the judge, and `store`, the address of its answer store.

        If the store or the prompt cannot be read, both stay None. If the prompt has changed since the run, `prompt` stays None.
        In both cases, a sentence is added to `missing`.

        prompt_digest : digest of the prompt with which the run was judged
        """
        try:
            config = folder.read_config()
            with open_store_of_folder(config.store_location):  # raises an error if the store cannot be read
                prompt = _load_prompt(load_judge_of_run(config), prompt_digest)
        except YoudenError as error:
            self.missing.append(f"The raw answers of the judge or its prompt cannot be read: {error}")
            return

        self.prompt = prompt
        self.store = config.store_location
        if prompt is None:
            self.missing.append("The prompt of the judge has changed since the run, so it is not shown.")


def _load_prompt(config: JudgeConfig, digest: str) -> dict[str, Json] | None:
    """Load the prompt of a judge; None if it is no longer the one with this digest."""
    prompt = (config.replay_of or config).loaded_prompt
    if prompt.digest != digest:
        return None
    return {"system": prompt.system, "template": prompt.template}
