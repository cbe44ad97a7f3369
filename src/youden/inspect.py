"""From the logs of Inspect to a ranking of its models, and a scorer that keeps what each of them said.

    success, logs = eval_set(tasks, model=models, log_dir="logs", scorer=[includes(), keep_response()])
    table = rank_logs(logs)

Nothing here needs a label: a scorer of Inspect's own may stand beside, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from youden.data.importers.harness_logs import KEPT, read_inspect
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
    """What `eval` and `eval_set` return of each model: Inspect's `EvalLog`, of which only the place of its file is used."""

    @property
    def location(self) -> str: ...


Place = str | PathLike[str] | Log


def rank_logs(
    logs: Place | Sequence[Place],
    *,
    judge: JudgeLike = "lexical",
    calls: int | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    max_cost: float | None = None,
) -> pd.DataFrame:
    """Rank the models of `logs`: files, folders of files, or what `eval_set` returned. Columns as of `youden.rank`.

    A model's response to a sample is what `keep_response` kept, else its output. judge, store, max_cost: as of `youden.judge`;
    calls, seed: as of `youden.make_plan`. `attrs["notes"]` says what of the logs was left out.

    Raises: ImportFormatError for a file that is no log; ConfigError [inspect-location] for a log that is not on this machine; as
    `youden.make_plan` and `youden.judge`.
    """
    plan, notes = _planned(logs, calls=calls, seed=seed)
    return _ranked(judge_now(plan, judge=judge, store=store, max_cost=max_cost), notes)


async def rank_logs_async(
    logs: Place | Sequence[Place],
    *,
    judge: JudgeLike = "lexical",
    calls: int | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    max_cost: float | None = None,
) -> pd.DataFrame:
    """Rank the models of `logs` in the running event loop. Parameters, table and errors are those of `rank_logs`."""
    plan, notes = _planned(logs, calls=calls, seed=seed)
    return _ranked(await judge_async(plan, judge=judge, store=store, max_cost=max_cost), notes)


def keep_response(text: Callable[[TaskState], str] | None = None) -> Scorer:
    """A scorer of Inspect that keeps a sample's response in its log, for tasks whose last output is not all that was said.

    text: the response, from the state of a sample that ended; None for the output's completion. Its score is 1 where there is a
    response and 0 where it is empty, and takes no part in a ranking.
    """
    from inspect_ai.scorer import Score, Target, mean, scorer

    def kept() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            said = state.output.completion if text is None else text(state)
            return Score(value=1 if said.strip() else 0, answer=said)

        return score

    made: Scorer = scorer(metrics=[mean()], name=KEPT)(kept)()
    return made


def _planned(logs: Place | Sequence[Place], *, calls: int | None, seed: int) -> tuple[Plan, tuple[str, ...]]:
    given = [logs] if isinstance(logs, (str, PathLike)) or not isinstance(logs, Sequence) else logs
    imported = read_inspect(sorted(_path(place) for place in given), columns={})
    return make_plan(imported.pool, calls=calls, seed=seed), imported.notes


def _path(place: Place) -> Path:
    said = place if isinstance(place, (str, PathLike)) else place.location
    parts = urlsplit(str(said))
    path = Path(url2pathname(parts.path)) if parts.scheme == "file" else Path(said)
    if not path.exists():
        raise ConfigError(
            f"The log {str(said)!r} is not on this machine. Give files or folders that are, or what eval_set returned for a "
            "log_dir that is.",
            slug="inspect-location",
        )
    return path


def _ranked(result: Verdicts, notes: tuple[str, ...]) -> pd.DataFrame:
    from youden.pipeline.ranking import rank

    table = rank(result)
    table.attrs["notes"] = list(notes)
    return table
