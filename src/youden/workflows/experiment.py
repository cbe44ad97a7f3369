"""Plan and run experiments: trials for a judge outside a run folder, with a cost cap that several experiments share.

Calibration and stress tests make different plans and measure different things; they share how the judge is queried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_config import RunConfig, run_config_from_keys, with_default_store
from youden.judging.call.budget import Budget
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.estimate import estimate
from youden.judging.question.questions import iter_keys
from youden.judging.scheduler.options import JudgingOptions, check_cap
from youden.judging.scheduler.shutdown import run_until_stopped
from youden.pipeline.verdicts import query_judge
from youden.protocol.independent import select_trials
from youden.types import Plan, Pool, Verdicts
from youden.types.planning import Cost
from youden.types.pool import Json, Positions


@dataclass(frozen=True, eq=False)
class Experiment:
    """Trials for a judge, before any request is sent.

    Attributes
    ----------
    name : str
        Name for display.
    plan : Plan
        The trials.
    judge : JudgeConfig
        The judge.
    store : str
        Store of the answers (path or database URL).
    cost : Cost
        Expected cost of the trials that no other experiment needs; in a stress test, of the requests that no earlier trial
        needs.
    """

    name: str
    plan: Plan
    judge: JudgeConfig
    store: str
    cost: Cost

    @property
    def pool(self) -> Pool:
        """Pool of the plan."""
        return self.plan.pool

    @property
    def n_new(self) -> int:
        """Number of calls whose answers are not stored yet."""
        return self.cost.calls - self.cost.stored

    @property
    def usd_new(self) -> float | None:
        """Expected cost of these calls in USD; None if a price is unknown."""
        return self.cost.usd if self.cost.usd_left is None else self.cost.usd_left


def plan_experiment(
    name: str, plan: Plan, *, judge: JudgeConfig, store: str, n_shared: int = 0, known_hashes: set[str] | None = None
) -> Experiment:
    """Make an experiment, a plan whose trials one judge will answer, and estimate its cost. No request is sent.

    Parameters
    ----------
    name : str
        Name for display.
    plan : Plan
        The trials.
    judge : JudgeConfig
        The judge.
    store : str
        Store of the answers (path or database URL). It need not exist. `cost.stored` counts the trials whose answers it has.
        `cost.usd_left` is the cost of the others in USD; None if the store has none of the answers, or if a price is unknown.
    n_shared : int, default 0
        Number of trials at the beginning of the plan that an earlier experiment also has. The cost excludes them.
    known_hashes : set of str, optional
        Request hashes of earlier experiments. The cost excludes trials with one of these requests, or with the same request as
        an earlier trial of the plan. The hashes of the other trials are added to the set. Default: no trial is excluded, but
        `cost.usd` counts a request that trials share once.

    Returns
    -------
    Experiment
        The whole plan, judge and store, with the expected cost of the trials that are not excluded (`cost`).
    """
    new_trials = plan
    if n_shared:
        new_trials = select_trials(plan, np.arange(n_shared, len(plan)))
    if known_hashes is not None and judge.makes_calls:
        new_trials = select_trials(new_trials, _find_new_requests(new_trials, judge, known_hashes))
    cost = estimate(new_trials, judge, store=store)
    return Experiment(name, plan, judge, store, cost)


def _find_new_requests(plan: Plan, judge: JudgeConfig, known_hashes: set[str]) -> Positions:
    """Find the trials with new requests, and add the hashes of the requests to `known_hashes`.

    A request is new if its hash is not in `known_hashes`, and if no earlier trial of the plan has the same request.

    Returns the positions of the trials in the plan: int64 array (n_new,).
    """
    first_judge = judge.judges[0] if judge.judges else judge  # all judges of a jury receive the same texts
    rows = []
    for row, request_hash in iter_keys(first_judge.questions(), plan):
        if request_hash not in known_hashes:
            known_hashes.add(request_hash)
            rows.append(row)
    return np.array(rows, dtype=np.int64)


def make_pool_config(source: Path, changes: Mapping[str, Json], usual_store: str | None) -> RunConfig:
    """Make the config of a run of a pool. The pool is not read, and nothing is written.

    The name of the run is that of the pool's file or folder without its suffix. Unusual characters become hyphens, and the name
    is cut to 100 characters.

    Parameters
    ----------
    source : Path
        File or folder of the pool.
    changes : mapping
        Config keys and their values. They may replace the name of the run and the path of the pool.
    usual_store : str or None
        Store of the answers (path or URL) to use if `changes` and the folder of the run name none; None for the store of the
        project.

    Returns
    -------
    RunConfig
        The config, with the default of each key that is not in `changes`.

    Raises
    ------
    ConfigError
        [run-config] if a key is unknown, or its value is not allowed; [store-url] if a store is a connection string of PostgreSQL
        instead of a URL.
    """
    name = re.sub(r"[^\w .+-]", "-", source.resolve().stem).lstrip(" .+-")[:100] or "pool"
    config = run_config_from_keys({"name": name, "pool": str(source), **changes}, origin=f"Config of {source}")
    return with_default_store(config, usual_store)


class ExperimentResult(NamedTuple):
    """Answers to an experiment, and the USD booked for it in this process."""

    verdicts: Verdicts
    usd: float


def make_experiment_runner(
    max_cost: float | None, experiments: Sequence[Experiment], options: JudgingOptions | None = None
) -> Callable[[Experiment], ExperimentResult]:
    """Return a function that queries the judge of an experiment and returns its answers with their cost.

    Parameters
    ----------
    max_cost : float or None
        Maximum cost of all experiments together in USD. None, for no cap, is allowed only if no judge can cost money.
    experiments : sequence of Experiment
        The experiments that will be run. Their judges are checked, and all experiments share the cost cap.
    options : JudgingOptions, optional
        Options of the requests; their `max_cost` and `max_missing` are ignored. Missing answers never stop an experiment,
        because their number is a result.

    Returns
    -------
    callable
        Function that takes one of `experiments`, and returns an `ExperimentResult`: `verdicts`, the answers to all trials, and
        `usd`, the cost of its new calls. It requests only answers that are not stored yet. It raises BudgetError if the cap is
        reached, JudgeError if the judge cannot be used, and ReplayMissError if a replay lacks an answer; answers received
        before an error are stored.

    Raises
    ------
    ConfigError
        Before any call. [max-cost], [argument-type]: if the cap is negative, NaN or no number; [max-cost-needed]: if calls can
        cost money and there is no cap; [price-unknown], [answer-unbounded]: if the cap cannot be enforced, because a price is
        unknown, or the length of answers has no limit.
    """
    check_cap([experiment.judge for experiment in experiments], max_cost)
    shared_options = replace(options or JudgingOptions(), max_cost=max_cost, max_missing=1.0)
    budget = Budget(max_cost)

    def run_experiment(experiment: Experiment) -> ExperimentResult:
        booked_before = budget.booked
        request = query_judge(
            experiment.plan, judge=experiment.judge, store=experiment.store, options=shared_options, budget=budget
        )
        verdicts = run_until_stopped(request)
        return ExperimentResult(verdicts, budget.booked - booked_before)

    return run_experiment
