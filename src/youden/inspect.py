"""Rank the models in logs of Inspect, and store the responses of models in these logs.

    success, logs = eval_set(tasks, model=models, log_dir="logs", scorer=[includes(), keep_response()])
    table = rank_logs(logs)

Nothing here needs labels: other scorers of a task are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from youden.data.importers.harness_logs import SCORER_NAME, read_inspect
from youden.errors import ConfigError
from youden.judging.config.judge_files import JudgeLike
from youden.pipeline.verdicts import judge as judge_now
from youden.pipeline.verdicts import judge_async
from youden.protocol.plan import make_plan

if TYPE_CHECKING:
    import pandas as pd
    from inspect_ai.scorer import Scorer
    from inspect_ai.solver import TaskState

    from youden.types import Plan, Verdicts

__all__ = ["keep_response", "rank_logs", "rank_logs_async"]


class Log(Protocol):
    """Log that `eval` or `eval_set` of Inspect returns (`EvalLog`); only the location of its file is used."""

    @property
    def location(self) -> str: ...


LogLike = str | PathLike[str] | Log


def rank_logs(
    logs: LogLike | Sequence[LogLike],
    *,
    judge: JudgeLike = "lexical",
    calls: int | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    max_cost: float | None = None,
) -> pd.DataFrame:
    """Rank the models in logs of Inspect.

    The response of a model to a sample is the answer that the scorer `keep_response` stored, or else the output of the sample.
    The call may be made inside a running event loop, which it blocks.

    Parameters
    ----------
    logs : str, path, log, or sequence of these
        Files, folders of files, or logs that `eval_set` returned.
    judge : str, path, mapping, JudgeConfig or callable, default "lexical"
        Judge, in one of the forms that `youden.judge` accepts.
    calls : int, optional
        Number of trials, paired and independent together. Default: the budget of the design "cyclic" (450 paired trials per
        agent).
    seed : int, default 0
        Seed of the plan.
    store : str or path, optional
        Store of answers, a path or a URL. Default, for judges that make calls: YOUDEN_STORE, else the project's
        .youden/answers.db.
    max_cost : float, optional
        Cost cap in USD; required for judges that can cost money.

    Returns
    -------
    DataFrame
        One row per model, best first, with the columns of `youden.rank`, for example `agent`, `ability`, `low`, `high`,
        `rank_low` and `rank_high`. `attrs["notes"]` lists what the import left out.

    Raises
    ------
    ImportFormatError
        [import-format]: if a file is not a log. [import-empty]: if no sample has an output. With other slugs: if there is no log,
        or if the logs have no common sample.
    ConfigError
        [inspect-location]: if a log is not on this machine. Others: if judge, store or cap do not fit.
    PlanError
        If the budget does not fit the logs.
    BudgetError, TooManyMissingError
        If the cap is exceeded, or too many answers are missing.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit, or a signal stopped the call.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.
    """
    plan, notes = _make_plan(logs, calls=calls, seed=seed)
    verdicts = judge_now(plan, judge=judge, store=store, max_cost=max_cost)
    return _rank(verdicts, notes)


async def rank_logs_async(
    logs: LogLike | Sequence[LogLike],
    *,
    judge: JudgeLike = "lexical",
    calls: int | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    max_cost: float | None = None,
) -> pd.DataFrame:
    """Rank the models in logs of Inspect in a running event loop, which stays free while requests are answered.

    The parameters, the result and the errors are those of `rank_logs`. Cancelling the call stops the requests; answers received
    so far are kept. The event loop is blocked while the logs are read, while the ranking is computed, and while a judge without
    requests answers: a function, or for example "lexical".

    Parameters
    ----------
    logs : str, path, log, or sequence of these
        Files, folders of files, or logs that `eval_set` returned, on this machine.
    judge : str, path, mapping, JudgeConfig or callable, default "lexical"
        Judge, in one of the forms that `youden.judge` accepts.
    calls : int, optional
        Number of trials, paired and independent together. Default: the budget of the design "cyclic" (450 paired trials per
        agent).
    seed : int, default 0
        Seed of the plan.
    store : str or path, optional
        Store of answers, a path or a URL. Default, for judges that make calls: YOUDEN_STORE, else the project's
        .youden/answers.db.
    max_cost : float, optional
        Cost cap in USD; required for judges that can cost money.

    Returns
    -------
    DataFrame
        One row per model, best first, with the columns of `youden.rank`. `attrs["notes"]` lists what the import left out.

    Raises
    ------
    ImportFormatError, ConfigError, PlanError
        If a log, an argument or the budget does not fit.
    BudgetError, TooManyMissingError
        If the cap is exceeded, or too many answers are missing.
    IncompleteRunError
        If the server cannot be reached for longer than the outage limit.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.
    """
    plan, notes = _make_plan(logs, calls=calls, seed=seed)
    verdicts = await judge_async(plan, judge=judge, store=store, max_cost=max_cost)
    return _rank(verdicts, notes)


def keep_response(text: Callable[[TaskState], str] | None = None) -> Scorer:
    """Return a scorer of Inspect that stores the response to a sample in the log.

    Use it for tasks whose last output is not the whole response.

    Parameters
    ----------
    text : callable, optional
        Function that takes the final state of a sample, and returns the response. Default: the response is the completion of
        the output.

    Returns
    -------
    Scorer
        Its answer is the response. Its score, 1 if there is a response and 0 if it is empty, is not used in a ranking.
    """
    from inspect_ai.scorer import Score, Target, mean, scorer

    extract_text = text or attrgetter("output.completion")

    def make_scorer() -> Scorer:
        """Make the scorer. The framework Inspect keeps this function in its registry of scorers."""

        async def store_response(state: TaskState, target: Target) -> Score:
            response = extract_text(state)
            has_response = bool(response.strip())
            return Score(value=int(has_response), answer=response)

        return store_response

    register = scorer(metrics=[mean()], name=SCORER_NAME)  # a decorator of functions that make scorers
    make_registered_scorer = register(make_scorer)
    response_scorer: Scorer = make_registered_scorer()
    return response_scorer


def _make_plan(logs: LogLike | Sequence[LogLike], *, calls: int | None, seed: int) -> tuple[Plan, tuple[str, ...]]:
    """Import logs and plan their comparison; return the plan and the notes on the import."""
    is_sequence = isinstance(logs, Sequence) and not isinstance(logs, (str, PathLike))
    log_list = cast(Sequence[LogLike], logs) if is_sequence else [cast(LogLike, logs)]
    imported = read_inspect(sorted(_to_path(log) for log in log_list), columns={})
    plan = make_plan(imported.pool, calls=calls, seed=seed)
    return plan, imported.notes


def _to_path(log: LogLike) -> Path:
    """Return the path of a log; raise ConfigError [inspect-location] if it is not on this machine."""
    location = log if isinstance(log, (str, PathLike)) else log.location
    url = urlsplit(str(location))
    path = Path(url2pathname(url.path)) if url.scheme == "file" else Path(location)
    if not path.exists():
        raise ConfigError(
            f"The log {str(location)!r} is not on this machine. Pass local files or folders, or the logs that eval_set "
            "returned for a local log_dir.",
            slug="inspect-location",
        )
    return path


def _rank(verdicts: Verdicts, notes: tuple[str, ...]) -> pd.DataFrame:
    """Rank the agents of verdicts, with the notes on the import in `attrs["notes"]`."""
    from youden.pipeline.ranking import rank

    table = rank(verdicts)
    table.attrs["notes"] = list(notes)
    return table
