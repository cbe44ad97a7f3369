"""Query a judge on the trials of a plan and return verdicts, without a run folder.

A run in a folder uses the same function for its requests, so both handle stores, budgets and juries in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from numbers import Real
from pathlib import Path

from youden.errors import ConfigError, TooManyMissingError
from youden.judging.backend_records import REPLAY
from youden.judging.backends.by_function import SameSource, judge_by_function
from youden.judging.call.budget import Budget
from youden.judging.config.judge_files import JudgeConfig, JudgeLike, resolve_judge, with_question
from youden.judging.engine import judge_plan
from youden.judging.scheduler.options import POLL_SECONDS, Batching, JudgingOptions, Mode, check_cap, make_batch_options
from youden.judging.scheduler.shutdown import check_answered, run_until_stopped
from youden.judging.store.answers import open_store
from youden.project_store import project_store, usual_store
from youden.run_keys import MAX_MISSING
from youden.types import Plan, Progress, Verdicts
from youden.types.arguments import check_argument


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
    mode: Mode = "calls",
    poll: float = POLL_SECONDS,
    on_status: Callable[[str], None] | None = None,
    batch_folder: str | Path | None = None,
) -> Verdicts:
    """Query a judge on every trial of a plan, and wait for the answers.

    Answers that are in the store already are not requested again. Inside a running event loop, as in a notebook, the
    requests are sent from a worker thread, and the call waits for them. Ctrl-C or a stop signal ends the call; all
    answers received so far are kept.

    Parameters
    ----------
    plan : Plan
        Trials to answer; it holds its pool, or gets it by `plan.with_pool(pool)`.
    judge : str, path, mapping, JudgeConfig or callable, default "lexical"
        Name in configs/judges/, path of a .yaml, mapping with a judge's keys, or a function. A function takes the texts of two
        responses and returns whether they have the same source: True, False, a number from 0 to 1, or None for no answer. An
        async function is not accepted; in a script, call it in a function by `asyncio.run`. A function makes no calls, and its
        answers are not stored, so it cannot be combined with `store`, `retry_failed`, `log` or a mode other than "calls".
    store : str or path, optional
        Store of answers, a path or a URL such as sqlite:///path. Default, for judges that make calls: YOUDEN_STORE,
        else the project's .youden/answers.db.
    max_cost : float, optional
        Cost cap in USD; needed by a judge that may cost money (`price: 0` in its config states that it does not).
    max_missing : float in [0, 1], default 0.01
        Maximum fraction of trials without an answer; the call fails above it. From 200 requested trials on, it stops early
        if the fraction is exceeded by more than three standard errors.
    retry_failed : bool, default False
        Whether to resend requests whose stored outcome is a refusal, a truncated or unparsed answer, or a rejection.
    progress : Progress, optional
        Receives the progress. Default: no progress is shown.
    log : str or path, optional
        File to which a line of JSON is appended for every call and failure.
    mode : {"calls", "batch"}, default "calls"
        "calls": send single requests. "batch": send the plan through the provider's Batch API, at its prices, and wait for it.
        Repeating the call resumes an interrupted one. The parameters below have an effect in the mode "batch" only.
    poll : float, default 30.0
        Seconds between two requests for the status of the batches.
    on_status : callable, optional
        Called with a line of text for each change of a batch, for example `print`.
    batch_folder : str or path, optional
        Folder for the files of a judge with `batch_provider: folder`. Default: `batches` next to the store; needed if
        the store is not a file.

    Returns
    -------
    Verdicts
        One row per trial, in plan order. An `answer` of 1 means the same source or, for preferences, that the first response is
        better. It is in [0, 1], and NaN if it is missing, for the reason in `missing_reason`. `tokens_in`, `tokens_out`, `usd`
        and `seconds` are None for a function and for judges without calls, such as "lexical".

    Raises
    ------
    PlanError
        [plan-no-pool] if the plan holds no pool; [plan-other-pool] if its run's pool has changed.
    ConfigError
        If judge, store or cap do not fit, before any call; [judge-function-options]: if a function is combined with an
        option of calls; [argument-type], [max-missing]: if `plan` or `max_missing` is invalid.
    BudgetError, TooManyMissingError
        If `max_cost` is reached; if more answers are missing than `max_missing` allows, or all of them. All answers are kept:
        repeat the call to resume.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit, or the state of a batch is unknown.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.

    Examples
    --------
    >>> import youden
    >>> pool = youden.read_pool("datasets/field-notes")
    >>> plan = youden.make_plan(pool, calls=300)
    >>> result = youden.judge(plan, judge="lexical")  # "gpt-4o-mini", max_cost=2.0
    >>> result.answer.shape
    (300,)
    """
    options = _check_options(
        plan,
        judge=judge,
        store=store,
        max_cost=max_cost,
        max_missing=max_missing,
        retry_failed=retry_failed,
        progress=progress,
        log=log,
        batching=make_batch_options(mode, poll=poll, on_status=on_status, folder=batch_folder),
    )
    if callable(judge):  # without an event loop, so that the function may run its own
        return _judge_by_function(judge, plan, options)
    return run_until_stopped(_query_and_check(plan, judge, store, options))


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
    mode: Mode = "calls",
    poll: float = POLL_SECONDS,
    on_status: Callable[[str], None] | None = None,
    batch_folder: str | Path | None = None,
) -> Verdicts:
    """Query a judge on every trial of a plan in the running event loop.

    Cancelling the task stops the requests in flight; all answers received so far are kept. Without a running event
    loop, use `judge`.

    Parameters
    ----------
    plan : Plan
        Trials to answer; it holds its pool, or gets it by `plan.with_pool(pool)`.
    judge : str, path, mapping, JudgeConfig or callable, default "lexical"
        Name in configs/judges/, path of a .yaml, mapping with a judge's keys, or a function. A function takes the texts of two
        responses and returns whether they have the same source: True, False, a number from 0 to 1, or None for no answer. It
        blocks the event loop until all trials are answered. It must not be async, and cannot be combined with `store`,
        `retry_failed`, `log` or a mode other than "calls".
    store : str or path, optional
        Store of answers, a path or a URL. Default: YOUDEN_STORE, else the project's .youden/answers.db.
    max_cost : float, optional
        Cost cap in USD; needed by a judge that may cost money.
    max_missing : float in [0, 1], default 0.01
        Maximum fraction of trials without an answer; the call fails above it. From 200 requested trials on, it stops early
        if the fraction is exceeded by more than three standard errors.
    retry_failed : bool, default False
        Whether to resend requests whose stored outcome is a refusal, a truncated or unparsed answer, or a rejection.
    progress, log : Progress, str or path, optional
        Receiver of the progress; file to which a line of JSON is appended for every call and failure.
    mode : {"calls", "batch"}, default "calls"
        Whether to send single requests, or the plan through the provider's Batch API, at its prices.
    poll, on_status, batch_folder : float, callable, str or path, optional
        Only for the mode "batch". `poll` is the number of seconds between two requests for the status, default 30.0. `on_status`
        is called with a line of text for each change of a batch. `batch_folder` is the folder for the files of a judge with
        `batch_provider: folder`, by default `batches` next to the store.

    Returns
    -------
    Verdicts
        One row per trial, in plan order. An `answer` of 1 means the same source or, for preferences, that the first response is
        better. It is in [0, 1], and NaN if it is missing, for the reason in `missing_reason`. `tokens_in`, `tokens_out`, `usd`
        and `seconds` are None for a function and for judges without calls, such as "lexical".

    Raises
    ------
    PlanError
        [plan-no-pool] if the plan holds no pool; [plan-other-pool] if its run's pool has changed.
    ConfigError
        If judge, store or cap do not fit, before any call; [judge-function-options]: if a function is combined with an
        option of calls; [argument-type], [max-missing]: if `plan` or `max_missing` is invalid.
    BudgetError, TooManyMissingError
        If `max_cost` is reached; if more answers are missing than `max_missing` allows, or all of them.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit, or the state of a batch is unknown.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.

    Examples
    --------
    >>> import asyncio, youden
    >>> plan = youden.make_plan(youden.read_pool("datasets/field-notes"), calls=300)
    >>> asyncio.run(youden.judge_async(plan, judge="lexical")).answer.shape
    (300,)
    """
    options = _check_options(
        plan,
        judge=judge,
        store=store,
        max_cost=max_cost,
        max_missing=max_missing,
        retry_failed=retry_failed,
        progress=progress,
        log=log,
        batching=make_batch_options(mode, poll=poll, on_status=on_status, folder=batch_folder),
    )
    if callable(judge):
        return _judge_by_function(judge, plan, options)
    return await _query_and_check(plan, judge, store, options)


def _check_options(
    plan: Plan,
    *,
    judge: JudgeLike,
    store: str | Path | None,
    max_cost: float | None,
    max_missing: float,
    retry_failed: bool,
    progress: Progress | None,
    log: str | Path | None,
    batching: Batching | None,
) -> JudgingOptions:
    """Check the arguments of `judge` and return those that are options of the requests."""
    check_argument("plan", plan, Plan, "Pass what youden.make_plan returns.")
    check_argument("max_missing", max_missing, Real, "Set a fraction, such as 0.01.")
    if not 0 <= max_missing <= 1:
        problem = f"max_missing must be from 0 to 1: got {max_missing}. Set a fraction, such as 0.01."
        raise ConfigError(problem, slug="max-missing")
    check_argument(
        "progress", progress, Progress | None, "Pass a youden.types.Progress; youden.run shows a progress bar."
    )
    log_file = None if log is None else Path(log)
    options = JudgingOptions(max_cost, max_missing, retry_failed, progress, log_file, batching)
    if callable(judge):
        _check_function_options(options, store)
    return options


def _judge_by_function(function: SameSource, plan: Plan, options: JudgingOptions) -> Verdicts:
    """Call a function for every trial of a plan, and check how many answers are missing."""
    verdicts = judge_by_function(function, plan, options.progress)
    _check_function_answers(verdicts, options.max_missing)
    return verdicts


async def _query_and_check(plan: Plan, judge: JudgeLike, store: str | Path | None, options: JudgingOptions) -> Verdicts:
    """Query a judge on a plan, with the default store if `store` is None, and check how many answers are missing."""
    store = store or usual_store() or project_store()
    verdicts = await query_judge(plan, judge=judge, store=store, options=options)
    check_answered(verdicts, max_missing=options.max_missing)
    return verdicts


def _check_function_options(options: JudgingOptions, store: str | Path | None) -> None:
    """Check that no option of requests is set, because a judge that is a function sends no requests.

    options : options of the judging; its `batching` is set if the user requested batches
    store : store of the answers; None if the caller has set none

    Raises ConfigError [judge-function-options] with the names of the options that are set.
    """
    is_set = {
        "store": store is not None,
        "retry_failed": options.retry_failed,
        "log": options.log is not None,
        "mode": options.batching is not None,
    }
    names = [name for name, value in is_set.items() if value]
    if names:
        arguments = "this argument" if len(names) == 1 else "these arguments"
        raise ConfigError(
            f"With a function as the judge, youden sends no requests and stores no answers: got {', '.join(names)}. Remove "
            f"{arguments}, or pass a judge that makes calls.",
            slug="judge-function-options",
        )


def _check_function_answers(verdicts: Verdicts, max_missing: float) -> None:
    """Raise TooManyMissingError [too-many-missing] if the function that is the judge returned None for too many trials."""
    n_trials = len(verdicts)
    n_missing = n_trials - int(verdicts.answered.sum())
    if 0 < n_trials == n_missing:
        problem = f"None of the {n_trials:,} trials was answered: the function returned None. Correct the function."
    elif n_trials and n_missing / n_trials > max_missing:
        problem = (
            f"The function returned None for {n_missing:,} of {n_trials:,} trials, which is more than max_missing = "
            f"{max_missing:g} allows. Correct the function, or pass a larger max_missing; no answers were stored."
        )
    else:
        return
    raise TooManyMissingError(problem, slug="too-many-missing")


async def query_judge(
    plan: Plan,
    *,
    judge: JudgeLike,
    store: str | Path | None,
    options: JudgingOptions,
    budget: Budget | None = None,
) -> Verdicts:
    """Query a judge on the trials of a plan, within a cost cap that several plans may share.

    Parameters
    ----------
    plan : Plan
        Trials to answer, with their pool.
    judge : str, path, mapping, JudgeConfig or callable
        Judge by its name, file or config, or a function of the texts of two responses that returns True, False, a number
        from 0 to 1, or None for no answer. With a function, only `options.progress` has an effect.
    store : str, path or None
        Store of answers, a path or a URL; it is created if it does not exist. Stored answers are not requested again. None for a
        judge that needs none.
    options : JudgingOptions
        Options of the requests. If `options.batching` is set, they are sent through the provider's Batch API.
    budget : Budget, optional
        Cost cap that several plans share. Default: a cap of this plan alone, `options.max_cost`. For a judge that costs money,
        `options.max_cost` must be set even if `budget` is passed.

    Returns
    -------
    Verdicts
        One row per trial, in plan order. The verdicts of a jury have a finding with the effective number of its judges.

    Raises
    ------
    ConfigError
        If judge, store or cap do not fit, before any call.
    BudgetError, TooManyMissingError
        If the cap is reached; if, after 200 trials or more, significantly more answers are missing than `options.max_missing`.
        Missing answers are not checked again at the end.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit, or the state of a batch is unknown; with
        `options.stored_only`, if the store lacks an answer.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.
    """
    config = resolve_judge(judge)
    if not isinstance(config, JudgeConfig):
        return judge_by_function(config, plan, options.progress)
    config = with_question(config, plan.question)
    if not options.stored_only:
        check_cap([config], options.max_cost)
    with ExitStack() as stack:
        answers = None
        if store is not None and config.needs_store:
            is_read_only = config.backend == REPLAY or options.read_only
            answers = stack.enter_context(open_store(store, read_only=is_read_only))
        result = await judge_plan(plan, config=config, options=options, store=answers, budget=budget)
    if result.votes is None:
        return result
    from youden.pipeline.multi_judge import with_jury_finding

    return with_jury_finding(result)
