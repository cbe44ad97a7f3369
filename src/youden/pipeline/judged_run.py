"""The path, read in one sitting: pool → split → plan → verdicts → rates → scores → fit → ranking, and each into its file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from youden.data.folder.run_config import FitTerms, RunConfig
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.engines.block_sums import call_facts
from youden.errors import ConfigError
from youden.judging.backend_records import REPLAY
from youden.judging.backends.by_function import answer_by
from youden.judging.call.budget import Budget
from youden.judging.config.judge_files import (
    JudgeConfig,
    JudgeLike,
    load_judge_of_run,
    resolve_judge,
)
from youden.judging.engine import judge_plan
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import Asking, Batching, Books, check_cap
from youden.judging.scheduler.progress_log import ProgressLog
from youden.judging.scheduler.shutdown import check_answered, run_until_stopped
from youden.judging.store.answers import open_store
from youden.judging.store.worker_group import SharedBudget, Team, lead_run
from youden.pipeline.alternative_rankings import check_rules, follow_up
from youden.pipeline.planned_run import as_drawn, find_run_plan, refuse_another_run
from youden.pipeline.recovered_answers import with_kept_answers
from youden.pipeline.request_hashes import keep_keys, kept_keys
from youden.pipeline.rounds import run_rounds
from youden.pipeline.run_store import refuse_another_store, run_lock
from youden.protocol.blocks import extensions_of
from youden.types import (
    MAX_MISSING,
    Cost,
    PartnerRules,
    Plan,
    Pool,
    Progress,
    Target,
    Verdicts,
)

if TYPE_CHECKING:
    from youden.pipeline.fit_tables import Analysis


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run up to its plan: nothing has been asked. summary: of its pool, for its folder; None for who writes no files."""

    config: RunConfig
    folder: RunFolder
    plan: Plan
    judge: JudgeConfig
    cost: Cost
    summary: PoolSummary | None = None

    @property
    def pool(self) -> Pool:
        return self.plan.pool


class Answers(Protocol):
    """Gets the answers to a run's plan, and writes nothing but the store."""

    def __call__(self, planned: PlannedRun, asking: Asking | None, *, team: Team | None) -> Verdicts: ...


async def judge_async(
    plan: Plan,
    *,
    judge: JudgeLike = "lexical",
    store: str | Path | None = None,
    max_cost: float | None = None,
    max_missing: float = MAX_MISSING,
    retry_failed: bool = False,
    progress: Progress | None = None,
    log: str | Path | None = None,
    batching: Batching | None = None,
) -> Verdicts:
    """Query a judge on every trial of a plan, inside an event loop.

    Answers that are in the store already are not requested again.

    Parameters
    ----------
    plan : Plan
        Trials to answer; it holds its pool, or gets it by `plan.with_pool(pool)`.
    judge : str, path, mapping, JudgeConfig or callable, default "lexical"
        Name in configs/judges/, path of a .yaml, mapping with a judge's keys, or a function that is given two responses and
        returns whether they have the same source: True, False, or a number from 0 to 1.
    store : str or path, optional
        Store of answers, a path or a URL such as sqlite:///path; needed by every judge that makes calls.
    max_cost : float, optional
        Cost cap in USD; needed by a judge that may cost money (`price: 0` in its config states that it does not).
    max_missing : float in [0, 1], default 0.01
        Maximum fraction of trials without an answer: from 200 trials on, the call fails as soon as it is exceeded, else at
        the end.
    retry_failed : bool, default False
        Whether to send requests again whose answer was refused, cut off or unparsed, or that were rejected.
    progress : Progress, optional
        Receives the progress.
    log : str or path, optional
        File that gets a line of JSON for every call and failure.
    batching : Batching, optional
        Send the plan through the provider's Batch API, at its prices, and wait for it. Repeating the call resumes an
        interrupted one.

    Returns
    -------
    Verdicts
        One row per trial, in plan order: `answer` in [0, 1], 1 for the same source and NaN if missing; `missing`, the reason;
        `tokens_in`, `tokens_out`, `usd` and `seconds` of each.

    Raises
    ------
    PlanError
        [plan-no-pool] if the plan holds no pool; [plan-other-pool] if its run's pool has changed.
    ConfigError
        If judge, store or cap do not fit, before any call.
    BudgetError, TooManyMissingError
        If a cap is exceeded. All answers are kept, so that repeating the call resumes it.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.

    Examples
    --------
    >>> import asyncio, youden
    >>> pool = youden.read_pool("datasets/field-notes")
    >>> plan = youden.make_plan(pool, calls=300)
    >>> asyncio.run(youden.judge_async(plan, judge="lexical")).answer.shape  # in a notebook: await youden.judge_async(…)
    (292,)
    """
    asking = Asking(max_cost, max_missing, retry_failed, progress, None if log is None else Path(log), batching)
    verdicts = await ask(plan, judge=judge, store=store, asking=asking)
    check_answered(verdicts, max_missing=max_missing)
    return verdicts


def judge(
    plan: Plan,
    *,
    judge: JudgeLike = "lexical",
    store: str | Path | None = None,
    max_cost: float | None = None,
    max_missing: float = MAX_MISSING,
    retry_failed: bool = False,
    progress: Progress | None = None,
    log: str | Path | None = None,
    batching: Batching | None = None,
) -> Verdicts:
    """Query a judge on every trial of a plan, and wait for the answers.

    Answers that are in the store already are not requested again.

    Parameters
    ----------
    plan : Plan
        Trials to answer; it holds its pool, or gets it by `plan.with_pool(pool)`.
    judge : str, path, mapping, JudgeConfig or callable, default "lexical"
        Name in configs/judges/, path of a .yaml, mapping with a judge's keys, or a function that is given two responses and
        returns whether they have the same source: True, False, or a number from 0 to 1.
    store : str or path, optional
        Store of answers, a path or a URL such as sqlite:///path; needed by every judge that makes calls.
    max_cost : float, optional
        Cost cap in USD; needed by a judge that may cost money (`price: 0` in its config states that it does not).
    max_missing : float in [0, 1], default 0.01
        Maximum fraction of trials without an answer: from 200 trials on, the call fails as soon as it is exceeded, else at
        the end.
    retry_failed : bool, default False
        Whether to send requests again whose answer was refused, cut off or unparsed, or that were rejected.
    progress : Progress, optional
        Receives the progress.
    log : str or path, optional
        File that gets a line of JSON for every call and failure.
    batching : Batching, optional
        Send the plan through the provider's Batch API, at its prices, and wait for it. Repeating the call resumes an
        interrupted one.

    Returns
    -------
    Verdicts
        One row per trial, in plan order: `answer` in [0, 1], 1 for the same source and NaN if missing; `missing`, the reason;
        `tokens_in`, `tokens_out`, `usd` and `seconds` of each.

    Raises
    ------
    PlanError
        [plan-no-pool] if the plan holds no pool; [plan-other-pool] if its run's pool has changed.
    ConfigError
        If judge, store or cap do not fit, before any call; [loop-running] inside an event loop (there, use
        `await judge_async(…)`).
    BudgetError, TooManyMissingError
        If a cap is exceeded. All answers are kept, so that repeating the call resumes it.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.

    Examples
    --------
    >>> import youden
    >>> pool = youden.read_pool("datasets/field-notes")
    >>> plan = youden.make_plan(pool, calls=300)
    >>> result = youden.judge(plan, judge="lexical")  # "gpt-4o-mini", store="verdicts.db", max_cost=2.0
    >>> result.answer.shape
    (292,)
    """
    refuse_running_loop("youden.judge", "youden.judge_async")
    return run_until_stopped(
        judge_async(
            plan,
            judge=judge,
            store=store,
            max_cost=max_cost,
            max_missing=max_missing,
            retry_failed=retry_failed,
            progress=progress,
            log=log,
            batching=batching,
        )
    )


def refuse_running_loop(called: str, instead: str) -> None:
    """Raises: ConfigError [loop-running] inside an event loop, naming what to await there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError(
        f"{called} was called where an event loop runs already, as in a Jupyter notebook. "
        f"Write `await {instead}(…)` there, with the same arguments.",
        slug="loop-running",
    )


async def ask(
    plan: Plan,
    *,
    judge: JudgeLike,
    store: str | Path | None,
    asking: Asking,
    budget: Budget | None = None,
) -> Verdicts:
    """As `judge_async`, on terms that were made before. budget: of several plans that share the cap."""
    config = resolve_judge(judge)
    if not isinstance(config, JudgeConfig):
        return answer_by(config, plan)
    if not asking.stored_only:
        check_cap([config], asking.max_cost)
    with ExitStack() as stack:
        answers = None
        if store is not None and config.needs_store:
            answers = stack.enter_context(open_store(store, read_only=config.backend == REPLAY))
        result = await judge_plan(plan, config=config, asking=asking, store=answers, budget=budget)
    if result.votes is None:
        return result
    from youden.pipeline.multi_judge import with_votes

    return with_votes(result)


def _telemetry(part: str) -> Any:
    """`opentelemetry.trace` or `.metrics` where a variable `OTEL_…` asks for them and the API is installed; else None.

    What is told goes nowhere until an SDK is set up, as `opentelemetry-instrument youden run …` does. Names of runs and judges
    and numbers are told, never texts, prompts or keys.
    """
    if any(name.startswith("OTEL_") for name in os.environ):
        with suppress(ImportError):
            return import_module(f"opentelemetry.{part}")
    return None


@contextmanager
def _step(name: str, **facts: str | int) -> Iterator[None]:
    """A span `youden.NAME` around the block; an error that ends the block is its status."""
    trace = _telemetry("trace")
    if trace is None:
        yield
        return
    with trace.get_tracer("youden").start_as_current_span(f"youden.{name}", attributes=facts):
        yield


@_step("plan")
def plan_run(config: RunConfig, *, batched: bool = False) -> PlannedRun:
    """Read the pool, load the judge, find or draw the plan, and write plan.parquet, pool.json and config.yaml; where the folder
    holds answers to an earlier state of the plan, it stays as it is until `judge_run` writes the new answers.

    batched: at the prices of the provider's Batch API.

    Raises: PoolError, ConfigError, PlanError; RunFolderError [run-other] where the folder holds answers to another plan.
    """
    judge = load_judge_of_run(config)
    if batched:
        judge = judge.at_batch_prices()
    _check_judges(config.target, judge.judges, judge.name)
    folder = RunFolder(config.folder)
    found = find_run_plan(config, folder)
    refuse_another_run(folder, found, judge)
    plan = found.plan
    check_rules(config.terms.rules, plan.agent_ids)
    if judge.asks:
        config = config.model_copy(update={"store": config.store_place})
    refuse_another_store(config, plan, judge)
    folder.remember(plan.pool, config)
    cost = estimate(plan, judge, store=config.store_place, keys=kept_keys(folder))
    summary = PoolSummary.of(plan.pool, source=str(config.pool))
    planned = PlannedRun(as_drawn(config, plan), folder, plan, judge, cost, summary)
    if not (folder.has("verdicts.parquet") and folder.judged_plan() != plan.digest):
        if plan is not found.kept:
            folder.write_plan(plan)
        _write_config(planned)
    return planned


def _write_config(planned: PlannedRun) -> None:
    """Write pool.json and config.yaml, which keeps its record of an unfinished extension."""
    if planned.summary is not None:
        planned.folder.write_pool(planned.summary)
    recorded = planned.folder.recorded_config()
    unfinished = None if recorded is None else recorded.unfinished
    planned.folder.write_config(planned.config.model_copy(update={"unfinished": unfinished}))


def judge_run(
    planned: PlannedRun,
    asking: Asking | None = None,
    *,
    by: Answers | None = None,
    begin: Callable[[], None] = lambda: None,
) -> Verdicts:
    """Query the judge for answers that the store lacks, and write verdicts.parquet.

    verdicts.parquet counts the cost of all invocations of this run, interrupted ones included. An adaptive plan is judged round
    by round, and plan.parquet is written with it. The keys of a large plan's requests are written before it is judged.

    Parameters
    ----------
    planned : PlannedRun
        From `plan_run`.
    asking : Asking, optional
        Terms of the requests. The cost cap, which holds for this invocation alone, and the maximum fraction of missing answers
        are those of the run's config.
    by : Answers, optional
        Gets the answers. Default: this process, by `answers_of`.
    begin : callable, optional
        Called before the first request, once no other process can judge the run.

    Returns
    -------
    Verdicts
        As they are written.

    Raises
    ------
    JudgeError
        [run-busy] if another process judges the run.
    TooManyMissingError
        [too-many-missing], before any file is written. Other errors as `judge_async`. Received answers stay in the store.
    """
    folder, config = planned.folder, planned.config
    books = _books(planned)
    lock = run_lock(config, planned.plan, planned.judge)
    with lock, nullcontext() if books is None else lead_run(config.store_place, run=run_name(planned)) as team:
        begin()
        log = ProgressLog(None if asking is None else asking.progress)
        keep_keys(folder, planned.plan, planned.judge, say=partial(log.say, "keys"))
        facts: dict[str, str | int] = {
            "run": folder.path.name,
            "judge": planned.judge.name,
            "agents": planned.plan.n_agents,
        }
        with _step("judge", **facts, calls=len(planned.plan)):
            result = (by or answers_of)(planned, asking, team=team)
        _count(result, facts)
        check_answered(result, max_missing=config.max_missing)
        folder.write_plan(result.plan)
        folder.write_verdicts(result)
        _write_config(planned)
    return result


def _count(result: Verdicts, facts: Mapping[str, str | int]) -> None:
    """What came and what it cost, added to the counters `youden.NAME`, each with `facts` for its attributes."""
    metrics = _telemetry("metrics")
    if metrics is None:
        return
    told, answered, meter = call_facts(result), int(result.answered.sum()), metrics.get_meter("youden")
    amounts = {
        "answers": answered,
        "missing": len(result) - answered,
        "tokens_in": told.tokens_in,
        "tokens_out": told.tokens_out,
        "usd": told.usd or 0.0,
    }
    for name, amount in amounts.items():
        meter.create_counter(f"youden.{name}").add(amount, dict(facts))


def run_name(planned: PlannedRun) -> str:
    """Return the name of a run in its store: the name of its folder, and the pool that it began with.

    Workers in other directories and on other hosts find the run by this name, so it contains no path.
    """
    return f"{planned.folder.path.resolve().name} {extensions_of(planned.plan).pool[:12]}"


def answers_of(planned: PlannedRun, asking: Asking | None = None, *, team: Team | None) -> Verdicts:
    """As `judge_run`, and nothing is written but the store. team: who asks this run, and spends under its cap, together; each
    learns the whole of it."""
    config = planned.config
    terms = replace(
        asking or Asking(),
        max_cost=config.max_cost,
        max_missing=config.max_missing,
        books=_books(planned),
        team=team,
        keys=kept_keys(planned.folder),
    )
    budget = Budget(config.max_cost)
    if team is not None and config.max_cost is not None:
        budget = SharedBudget(config.max_cost, team)

    def answered(plan: Plan) -> Verdicts:
        asked = ask(plan, judge=planned.judge, store=config.store_place, asking=terms, budget=budget)
        verdicts = run_until_stopped(asked)
        check_answered(verdicts, max_missing=1.0)  # the next round cannot be planned without any answer
        return verdicts

    answer_plan: Callable[[Plan], Verdicts] = answered
    if not terms.stored_only:
        answer_plan = with_kept_answers(answered, planned.folder, config.store_place, planned.judge)
    result = run_rounds(planned.plan, answer_plan, target=config.target)
    if config.suspected:
        result = follow_up(result, answer_plan, share=config.suspected)
    return result


def _books(planned: PlannedRun) -> Books | None:
    return books_of(planned.config) if planned.judge.asks else None


def books_of(config: RunConfig, *, calibrating: bool = False) -> Books:
    """A run is known by where its folder lies beside its store, so that both can be moved together; in a store on a server by the
    folder's name, so that it is the same run on every host. A calibration pays under a name of its own, which the run of the same
    config looks up."""
    payer = _beside(config)
    tries = f"{payer} (calibration)"
    return Books(tries) if calibrating else Books(payer, tried_by=tries)


def _beside(config: RunConfig) -> str:
    folder, store = config.folder.resolve(), config.store_file
    if store is None:
        return folder.name
    try:
        return Path(os.path.relpath(folder, store.resolve().parent)).as_posix()
    except ValueError:  # two drives
        return folder.as_posix()


@_step("fit")
def fit_run(
    folder: RunFolder, *, target: Target | None = None, rules: PartnerRules | None = None, rates: bool = False
) -> Analysis:
    """Tally, score, fit and rank what a run's folder holds, and write every table that follows.

    target: what intervals are about, remembered in config.yaml; None for what the folder says, and else items like these.
    rules: whose word counts in the rankings beside the plain one, remembered likewise; None for what the folder says.
    rates: write rates.parquet however large the run is.

    Raises: StatisticsError where the rules cannot be kept, before anything is written;
    RunFolderError where neither verdicts.parquet nor rates.parquet is there.
    """
    from youden.pipeline.fit_tables import fit_imported, fit_judged

    pool, kept = folder.read_pool(), folder.terms
    terms = FitTerms(target or kept.target, rules or kept.rules)
    check_rules(terms.rules, pool.agent_ids)
    judged = folder.judged_files() if folder.has("plan.parquet") or folder.has("verdicts.parquet") else None
    judge = {} if judged is None else judged.verdicts.said.judge
    _check_judges(terms.target, judge.get("judges"), str(judge.get("name", "nobody")))
    if terms != kept and folder.has("config.yaml"):
        folder.write_config(folder.read_config().fitted_by(terms))
    if not terms.rules.families:
        terms = terms._replace(rules=replace(terms.rules, families=pool.families))
    if judged is None:
        return fit_imported(folder, pool, terms)
    return fit_judged(folder, pool, judged, terms, rates=rates)


def _check_judges(target: Target, judges: object, name: str) -> None:
    """Raises: ConfigError [judges-few] where a ranking over judges is wanted of one."""
    if target == "items-and-judges" and not judges:
        raise ConfigError(
            f"target: {target} is for a jury, and '{name}' is one judge. Give a judge with `backend: jury`; or judge the run "
            f"again (`youden rejudge`) and put both side by side: `youden compare RUN OTHER --target {target}`.",
            slug="judges-few",
        )
