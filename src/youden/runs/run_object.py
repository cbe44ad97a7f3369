"""`youden.run` and `Run`: a run's folder as an object, with what the command line does to it by requests to judges.

The calls use the functions that the commands use, so that both write the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youden.data.folder.run_config import config_at, config_of_keys, with_usual_store
from youden.judging.scheduler.options import Asking
from youden.judging.store.permission import allow_store, network_stores_allowed
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import PlannedRun, judge_run, plan_run
from youden.progress_bar import progress_bar
from youden.project_store import usual_store
from youden.runs.run_view import RunView
from youden.text.printable import path_part

if TYPE_CHECKING:
    import pandas as pd

    from youden.run_keys import Target
    from youden.runs.run_view import PathOrText
    from youden.types import Pool
    from youden.workflows.stress import Stress

    PoolLike = Pool | PathOrText | pd.DataFrame


def run(
    pool: PoolLike,
    *,
    judge: PathOrText | Mapping[str, Any] = "lexical",
    max_cost: float | None = None,
    out: PathOrText,
    labels: PathOrText | None = None,
    retry_failed: bool = False,
    log: PathOrText | None = None,
    progress: bool = True,
    **keys: Any,
) -> Run:
    """Judge a pool and rank its agents, as `youden run` does.

    Repeating the call resumes a stopped run; no answer is paid for twice. It also works inside a running event loop
    (notebook).

    Parameters
    ----------
    pool : Pool, str, path or DataFrame
        Responses of K agents to J items, or where they are. Anything but a path is written into `pools/` of the run's folder.
    judge : str, path or mapping, default "lexical"
        Name in configs/judges/, path of a .yaml, a model such as "gpt-4o-mini", or a mapping with a judge's keys.
    max_cost : float, optional
        Maximum cost in USD of all requests of this invocation; required for judges that can cost money.
    out : str or path
        The run's folder.
    labels : str or path, optional
        Table of labels that the ranking is compared with; it changes no ranking.
    retry_failed : bool, default False
        Whether to repeat requests whose answer was refused, cut off, unparsed or rejected.
    log : str or path, optional
        File that gets one line of JSON per call and failure.
    progress : bool, default True
        Whether to show a progress bar, if there is a terminal or a notebook.
    **keys
        Any other key of a run's config, such as `calls`, `design`, `seed`, `store`, `target` or `trusted`. Paths are relative to
        the current directory.

    Returns
    -------
    Run
        The run, fitted, with its report.

    Raises
    ------
    ConfigError
        [run-config] if a key is unknown or its value is not allowed; [max-cost-needed] if the judge can cost money and
        `max_cost` is None; other errors as `youden.judge`.
    PoolError, PlanError
        If pool or plan do not fit.
    RunFolderError
        [run-other] if the folder holds answers to another plan, or of another judge.
    BudgetError, TooManyMissingError
        If `max_cost` is reached, or more answers are missing than `max_missing` allows. Answers are stored: repeat the
        call to resume.
    JudgeError, ReplayMissError
        If the judge cannot be used; if a replay lacks an answer.

    Examples
    --------
    >>> import tempfile, youden
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = youden.run("datasets/field-notes", calls=300, out=f"{folder}/first", progress=False)
    ...     run.ranking.shape[0], run.recommendation.form
    (12, 'candidates')
    """
    folder = Path(out)
    name = path_part(folder.resolve().name).lstrip("+-")
    given = {"name": name, "pool": "in memory", "judge": judge, "max_cost": max_cost, "out": folder, **keys}
    plain = {key: fspath(value) if isinstance(value, PathLike) else value for key, value in given.items()}
    config = config_of_keys(plain, origin="youden.run")  # before the pool is written
    config = config.model_copy(update={"pool": _pool_path(pool, folder)})
    if config.store is not None:
        allow_store(config.store)
    with _sending_requests(retry_failed=retry_failed, log=log, progress=progress) as asking:
        planned = plan_run(with_usual_store(config, usual_store()))
        return judge_and_rank(planned, asking, labels=None if labels is None else Path(labels))


def judge_and_rank(planned: PlannedRun, asking: Asking, *, labels: Path | None = None) -> Run:
    """Query the judge of a planned run, fit the run and write its report.

    Parameters
    ----------
    planned : PlannedRun
        From `plan_run`.
    asking : Asking
        Terms of the requests.
    labels : path, optional
        Table of labels that the ranking is compared with; read before the first request.

    Returns
    -------
    Run
    """
    table = None
    if labels is not None:
        from youden.workflows.labels import open_labels, validate

        table = open_labels(labels, planned.pool.agents)
    judge_run(planned, asking)
    from youden.pools.checks.likeness import clones_of
    from youden.report.pages.writing import write_report  # after the requests: charts and pandas take a second to load

    folder = planned.folder
    fit_run(folder, rules=replace(folder.terms.rules, clones=clones_of(planned.pool)))
    if table is not None:
        validate(folder, table)
    write_report(folder)
    return Run(folder.path)


def read_run(path: PathOrText) -> Run:
    """Open a run that `youden run`, `youden.run` or an import made, as a `Run`.

    Parameters
    ----------
    path : str or path
        The run's folder.

    Returns
    -------
    Run

    Raises
    ------
    RunFolderError
        If a file is missing or damaged, or the run was never fitted; the message names the command to run.

    Examples
    --------
    >>> import youden
    >>> youden.read_run("runs/first").ranking  # doctest: +SKIP
    """
    opened = Run(path)
    _ = opened.facts
    return opened


class Run(RunView):
    """A fitted run: a view of its folder, with what the command line does to it as methods.

    A `Run` is an `os.PathLike`: every function that takes a run's folder takes a `Run`. Methods that send requests have
    a parameter `max_cost` in USD; repeating a stopped call resumes it, and no answer is paid for twice.

    Attributes
    ----------
    path : Path
        The run's folder.

    Raises
    ------
    RunFolderError
        When an attribute or method needs a file that is missing or damaged.

    Examples
    --------
    >>> import tempfile, youden
    >>> temporary = tempfile.TemporaryDirectory()
    >>> out = temporary.name
    >>> run = youden.run("datasets/field-notes", calls=1000, out=f"{out}/first", progress=False)
    >>> [*run.ranking.columns[:5]]
    ['agent', 'group', 'ability', 'low', 'high']
    >>> run.report(f"{out}/ranking.md").name
    'ranking.md'
    >>> run.gate("lead-first", baseline="template").verdict
    'better'
    >>> larger = run.extend(calls=600, progress=False)
    >>> len(larger.verdicts)
    1600
    >>> sorted(run.export(f"{out}/tables.csv").rows)
    ['items', 'ranking', 'trials']
    >>> temporary.cleanup()
    """

    def extend(
        self,
        agents: PoolLike | None = None,
        *,
        items: PoolLike | None = None,
        repeats: PoolLike | None = None,
        calls: int | str | None = None,
        focus: Sequence[str] = (),
        width: float | None = None,
        top: int | None = None,
        within: float | None = None,
        judge: str | None = None,
        max_cost: float | None = None,
        max_missing: float | None = None,
        target: Target | None = None,
        retry_failed: bool = False,
        log: PathOrText | None = None,
        progress: bool = True,
    ) -> Run:
        """Extend the run by agents, items, repeats or calls, as `youden extend` does.

        Parameters
        ----------
        agents : Pool, str, path or DataFrame, optional
            Pool with the new agents; those already in the run are left out.
        items : Pool, str, path or DataFrame, optional
            Pool with the new items, with responses of all agents of the run.
        repeats : Pool, str, path or DataFrame, optional
            Pool with further responses of the run's agents.
        calls : int or str, optional
            Number of calls of both trial types; of a search, the maximum. If neither a pool nor `focus` is given, also
            a percentage of the dense calls ("1%") or trials per agent ("50/agent"). Default with a pool: as many for
            each new agent, item or repeat as the run has per agent, item or repeat.
        focus : sequence of str, optional
            Agents that alone get the `calls`.
        width : float, optional
            Target half-width of the intervals of the new agents; without a pool, of nine in ten agents of the run.
        top : int, optional
            Search for this many of the best agents. Default: 1 if `within` is given, else no search. Without `within`,
            it needs `calls`.
        within : float in (0, 2), optional
            Maximum regret, in units of ability; the search ends when it is reached, or when `calls` are spent.
        judge, max_cost, max_missing, target : optional
            As in `youden.run`; `judge` has to be the run's own, or a replay of it.
        retry_failed, log, progress : optional
            As in `youden.run`.

        Returns
        -------
        Run
            Itself. A search that has nothing left to ask changes nothing.

        Raises
        ------
        ConfigError
            [extend-options] if nothing, or more than one kind, is added, or options do not go together; [calls-invalid]
            if `calls` is no budget; [extend-width] if no number of calls gives the half-width, or the run has it
            already; [extend-search] if the search is for all agents, or some cannot be compared.
        PoolError
            If the pools do not fit.
        RunFolderError
            [extend-unfinished] if an earlier extension has to be finished first.
        BudgetError, TooManyMissingError
            As `youden.run`.
        """
        pools = {"agents": agents, "items": items, "repeats": repeats}
        options: dict[str, Any] = {
            kind: None if pool is None else _pool_path(pool, self.path) for kind, pool in pools.items()
        }
        options |= {"calls": calls, "focus": list(focus), "width": width, "top": top, "within": within}
        said = {"judge": judge, "max_cost": max_cost, "max_missing": max_missing, "target": target}
        changes = {key: value for key, value in said.items() if value is not None}
        from youden.report.pages.writing import write_report
        from youden.workflows.extend import extend_run, finish_extension, plan_extension

        with _sending_requests(retry_failed=retry_failed, log=log, progress=progress) as asking:
            config = with_usual_store(config_at(self.folder.file("config.yaml"), changes), usual_store())
            planned = plan_extension(config, **options)
            if not isinstance(planned, str):
                extend_run(planned, asking)
                write_report(self.folder)
                finish_extension(self.folder)
        return self

    def rejudge(
        self,
        judge: str,
        *,
        calls: int | str,
        out: PathOrText | None = None,
        store: str | None = None,
        seed: int = 0,
        max_cost: float | None = None,
        max_missing: float | None = None,
        retry_failed: bool = False,
        log: PathOrText | None = None,
        progress: bool = True,
    ) -> Run:
        """Query a second judge on part of the run's trials, as `youden rejudge` does; `youden.compare` compares both runs.

        Parameters
        ----------
        judge : str
            The second judge: a name, or a path that ends in .yaml.
        calls : int or str
            Budget: a number of the run's calls (4000), a percentage of the dense calls ("1%"), or the mean number of
            paired trials per agent ("50/agent").
        out : str or path, optional
            Folder of the second run. Default: RUN-by-JUDGE.
        store, seed, max_cost, max_missing, retry_failed, log, progress : optional
            As in `youden.run`.

        Returns
        -------
        Run
            The second run, fitted.

        Raises
        ------
        PlanError
            [calls-invalid], [subsample-calls], [subsample-few] if `calls` is no budget, or too large or too small.
        RunFolderError
            [rejudge-import] if the run holds no trials; [rejudge-itself] if `out` is the run's own folder.
        ConfigError, BudgetError, TooManyMissingError
            As `youden.run`.
        """
        from youden.workflows.rejudge import plan_rejudge

        given = {"calls": calls, "store": store, "seed": seed, "max_cost": max_cost, "max_missing": max_missing}
        changes: dict[str, object] = {key: value for key, value in given.items() if value is not None}
        if out is not None:
            changes["out"] = fspath(out)
        with _sending_requests(retry_failed=retry_failed, log=log, progress=progress) as asking:
            planned = plan_rejudge(self.folder, judge=judge, changes=changes, usual_store=usual_store())
            judge_run(planned.again, asking)
        fit_run(planned.again.folder)
        return Run(planned.again.folder.path)

    def stress(
        self,
        *,
        attacks: Sequence[str] = (),
        attacker: str | None = None,
        judge: str | None = None,
        max_cost: float | None = None,
        store: str | None = None,
        seed: int = 0,
        out: PathOrText | None = None,
        progress: bool = True,
    ) -> Stress:
        """Plant attacks in the run's pool and report how they rank, as `youden stress` does.

        Parameters
        ----------
        attacks : sequence of str, optional
            Names of attacks. Default: all.
        attacker : str, optional
            Agent whose answers the attackers start from. Default: the last of the ranking.
        judge, max_cost, store, seed, progress : optional
            As in `youden.run`; the cap holds for all attacks together.
        out : str or path, optional
            Folder for stress.md, stress.json and stress.svg.

        Returns
        -------
        Stress
            Where each attack ranks, and how it moves the other agents.

        Raises
        ------
        ConfigError, BudgetError, TooManyMissingError
            As `youden.run`.
        """
        from youden.report.pages.writing import write_stress
        from youden.workflows.planned_stress import plan_stress
        from youden.workflows.stress import stress

        with _sending_requests(progress=progress) as asking:
            planned = plan_stress(
                self.path,
                attacks=attacks,
                attacker=attacker,
                judge=judge,
                max_cost=max_cost,
                store=store,
                seed=seed,
                usual_store=usual_store(),
            )
            found = stress(planned, asking)
        if out is not None:
            write_stress(found, Path(out))
        return found


@contextmanager
def _sending_requests(*, retry_failed: bool = False, log: PathOrText | None = None, progress: bool) -> Iterator[Asking]:
    """Make the terms of requests, with a progress bar. The store that a run's config names may be opened, as by a command."""
    with network_stores_allowed(password=False), progress_bar(plain=False) if progress else nullcontext() as bar:
        yield Asking(retry_failed=retry_failed, log=None if log is None else Path(log), progress=bar)


def _pool_path(pool: PoolLike, folder: Path) -> str:
    """Return the path of a pool; one that is in memory is written into the run's folder, under the digest of its contents."""
    if isinstance(pool, str | PathLike):
        return fspath(pool)
    from youden.data.pools.pool_reader import read_pool, write_pool
    from youden.types import Pool

    read = pool if isinstance(pool, Pool) else read_pool(pool)
    place = folder / "pools" / f"{path_part(read.name)[:60]}-{read.digest[:12]}"
    write_pool(read, place)
    return str(place)
