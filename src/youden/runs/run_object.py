"""Define `youden.run`, `youden.read_run` and `Run`, whose methods extend, rejudge and stress the run.

They call the same functions as the commands, so that both write the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from youden.data.folder.run_config import read_run_config, run_config_from_keys, with_default_store
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.permission import allow_store, network_stores_allowed
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import PlannedRun, judge_run, plan_run
from youden.pipeline.planned_run import check_no_foreign_files
from youden.progress_bar import progress_bar
from youden.project_store import usual_store
from youden.runs.run_view import RunView
from youden.text.printable import to_file_name
from youden.types.arguments import check_argument

if TYPE_CHECKING:
    import pandas as pd

    from youden.run_keys import Target
    from youden.runs.run_view import PathOrText
    from youden.types import Pool
    from youden.workflows.stress import Stress

    PoolLike = Pool | PathOrText | pd.DataFrame

_JUDGE_REMEDY = "Pass the name of a judge, or the path of its .yaml file."


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
    """Judge a pool and rank its agents, like the command `youden run`.

    Repeating the call resumes a stopped run, and no stored answer is paid for twice. The function can also be called inside a
    running event loop, for example in a notebook.

    Parameters
    ----------
    pool : Pool, str, path or DataFrame
        Responses of agents to items, or the path of a folder, a .csv or a .parquet with them (see `read_pool`). A DataFrame has
        the columns agent, item and text, or one row per item and one column per agent. A pool in memory is written to the
        folder `pools/` in the run.
    judge : str, path or mapping, default "lexical"
        Name in configs/judges/, path of a .yaml file, a model (for example "gpt-4o-mini"), or a mapping with the
        keys of a judge. The default is a free judge that compares words. A function is an error.
    max_cost : float, optional
        Maximum total cost of the run in USD, over all commands that judge it; required for judges that can cost money.
    out : str or path
        Folder of the run; it is created if it does not exist.
    labels : str or path, optional
        Table of labels with which the ranking is compared, as for `Run.fit`; it does not change the ranking.
    retry_failed : bool, default False
        Whether to resend requests whose stored outcome is a refusal, a truncated or unparsed answer, or a rejection.
    log : str or path, optional
        File to which one line of JSON is appended per call and failure.
    progress : bool, default True
        Whether to show a progress bar in a terminal or a notebook.
    **keys
        Other keys of the config of a run (docs/reference/config.md lists all), for example `calls`, `design` (default
        "cyclic"), `seed`, `store`, `target` and `trusted`. Paths are relative to the current directory.

    Returns
    -------
    Run
        The fitted run. All its files, with the report in report.html, are in `out`.

    Raises
    ------
    ConfigError
        [run-config]: if a key is unknown or its value is not allowed; [max-cost-needed]: if the judge can cost money
        and `max_cost` is None; [judge-config]: if `judge` has another type; [run-out]: if `out` is empty; other slugs if the
        judge, the store or the labels do not fit.
    ImportFormatError
        If the table of labels cannot be read.
    PoolError, PlanError
        If the pool is invalid, or the plan is impossible on it.
    RunFolderError
        [run-mismatch]: if the folder contains answers to another plan or of another judge; [run-foreign]: if the folder does
        not belong to a run, but contains files that a run would replace.
    StatisticsError
        If the families or the trusted panel do not fit the agents, or the answers cannot be fitted.
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
    _check_arguments(out, labels, judge)
    folder = Path(out)
    name = to_file_name(folder.resolve().name).lstrip("+-")
    all_keys = {"name": name, "pool": "in memory", "judge": judge, "max_cost": max_cost, "out": folder, **keys}
    plain_keys = {key: _to_plain(value) for key, value in all_keys.items()}
    config = run_config_from_keys(plain_keys, origin="youden.run")  # validate the keys before the pool is written
    config = config.model_copy(update={"pool": _ensure_pool_on_disk(pool, folder)})

    labels_path = None if labels is None else Path(labels)
    with _sending_requests(
        store=config.store, retry_failed=retry_failed, log=log, progress=progress
    ) as judging_options:
        planned = plan_run(with_default_store(config, usual_store()))
        return judge_and_rank(planned, judging_options, labels=labels_path)


def _check_arguments(out: PathOrText, labels: PathOrText | None, judge: object) -> None:
    """Check the types of the arguments of `youden.run` before anything is read or written.

    out : folder of the run
    labels : table of labels, or None
    judge : name, path or mapping; a function can only be passed to `youden.judge`

    Raises ConfigError [argument-type] if a path has a wrong type, [run-out] if `out` is an empty path, and
    [judge-config] if the judge has another type, such as a function.
    """
    check_argument("out", out, str | PathLike, "Pass the folder of the run.")
    if fspath(out) == "":
        raise ConfigError("The folder of the run is an empty path: got ''. Set `out` to a new folder.", slug="run-out")

    check_argument("labels", labels, str | PathLike | None, "Pass the path of a table of labels.")

    if not isinstance(judge, str | PathLike | Mapping):
        raise ConfigError(
            "`judge` must be a name, a path or a mapping, which the folder of the run can record: got "
            f"{repr(judge)[:60]}. Rank by a function with `youden.rank(youden.judge(plan, judge=function))`, or register it "
            "(docs/how-to/own-judge.md).",
            slug="judge-config",
        )


def judge_and_rank(planned: PlannedRun, options: JudgingOptions, *, labels: Path | None = None) -> Run:
    """Query the judge of a planned run, fit the run and write its report.

    Parameters
    ----------
    planned : PlannedRun
        Run with its plan, returned by `plan_run`. Its config has the cost cap (`max_cost`).
    options : JudgingOptions
        Options for requests, for example `retry_failed`, `log` and `progress`. Their `max_cost` and `max_missing` are ignored:
        both are taken from the config of the run.
    labels : path, optional
        Table of labels with which the ranking is compared; it is read before the first request. The comparison is written to
        labels.json. Default: no comparison.

    Returns
    -------
    Run
        The fitted run. All its files, with the report in report.html, are in its folder.

    Raises
    ------
    ConfigError, ImportFormatError
        If the labels cannot be used; raised before any request.
    BudgetError, TooManyMissingError, JudgeError, ReplayMissError
        If the cost cap is reached, too many answers are missing, requests to the judge fail, for example because of an
        invalid key, or a replay lacks an answer. Answers are stored: repeat the call to resume.
    RunFolderError
        [run-store]: if the store lacks answers that are in the store that the run used before.
    StatisticsError
        If the answers cannot be fitted.
    """
    label_table = None
    if labels is not None:
        from youden.workflows.labels import open_labels, validate

        label_table = open_labels(labels, planned.pool.agents)

    judge_run(planned, options)

    # loaded after the requests, because charts and pandas take a second to load
    from youden.report.pages.writing import write_report

    folder = planned.folder
    fit_run(folder)
    if label_table is not None:
        validate(folder, label_table)
    write_report(folder)
    return Run(folder.path)


def read_run(path: PathOrText) -> Run:
    """Open a run that was made by `youden run`, `youden.run` or an import.

    Parameters
    ----------
    path : str or path
        Folder of the run.

    Returns
    -------
    Run
        The run, whose tables are read when they are used.

    Raises
    ------
    RunFolderError
        If a file is missing or damaged, or the run is not fitted; the message names the command to run.

    Examples
    --------
    >>> import youden
    >>> youden.read_run("runs/first").ranking  # doctest: +SKIP
    """
    run = Run(path)
    _ = run.facts  # raises if the run was never fitted
    return run


class Run(RunView):
    """A fitted run, with the commands of the command line as methods.

    A `Run` is an `os.PathLike`, so that it can be passed instead of the path of its folder. Methods that send requests
    have a parameter `max_cost` in USD. Repeating a stopped call resumes it, and no stored answer is paid for
    twice.

    Attributes
    ----------
    path : Path
        Folder of the run.

    Raises
    ------
    RunFolderError
        If an attribute or a method reads a file that is missing or damaged.

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
    >>> run.gate("lead-first", baseline="template").outcome
    'better'
    >>> larger = run.extend(calls=600, progress=False)
    >>> len(larger.verdicts)
    7980
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
        focus: str | Sequence[str] = (),
        half_width: float | None = None,
        top: int | None = None,
        max_regret: float | None = None,
        judge: str | None = None,
        max_cost: float | None = None,
        max_missing: float | None = None,
        target: Target | None = None,
        retry_failed: bool = False,
        log: PathOrText | None = None,
        progress: bool = True,
    ) -> Run:
        """Extend the run by agents, items, repeats or calls, like the command `youden extend`.

        Set one of these combinations:

        - one pool (`agents`, `items` or `repeats`), alone or with `calls`
        - `calls`, alone or with `focus`
        - `half_width`, alone or with `agents`
        - for a search: `top` and `calls`; or `max_regret`, alone or with `top`, `calls` or both

        Afterwards, the files and report.html in the folder of the run describe the extended run.

        Parameters
        ----------
        agents : Pool, str, path or DataFrame, optional
            Pool with the new agents, or its path, as for `youden.run`. Agents that are already in the run are ignored. A pool in
            memory is written to the folder `pools/` in the run.
        items : Pool, str, path or DataFrame, optional
            Pool with the new items, with responses of all agents of the run.
        repeats : Pool, str, path or DataFrame, optional
            Pool with further responses of the agents of the run.
        calls : int or str, optional
            Number of calls to add, of both trial types; for a search, the maximum. Without a pool and `focus`, it may also be a
            percentage of the dense calls ("1%") or trials per agent ("50/agent"). Default with a pool: as many per new
            agent, item or repeat as the run has per agent, item or repeat.
        focus : str or sequence of str, optional
            Ids of agents; only trials that compare them are added. Default: all agents.
        half_width : float above 0, optional
            Half-width of the 95% intervals to reach, in units of ability: with `agents`, of the new agents; otherwise, of
            nine in ten agents of the run. The number of calls is computed from it.
        top : int, optional
            Number of best agents to search for. Default: 1 if `max_regret` is given, otherwise no search. Without
            `max_regret`, `calls` is required.
        max_regret : float in (0, 2), optional
            Maximum regret, in units of ability; the search ends when it is reached, or when `calls` are spent.
        judge : str, optional
            The judge of the run, or a replay of it. Default: the judge of the run.
        max_cost : float, optional
            Maximum cost of the extension in USD, in addition to what the run has paid before. The cost cap of the run is
            raised accordingly. Default: the amount that remains of the cost cap of the run.
        max_missing : float in [0, 1], optional
            Maximum fraction of trials without an answer. Default: that of the run.
        target : {"items-like-these", "these-items", "items-and-judges"}, optional
            Population that the intervals refer to; the run keeps it for later fits. Default: that of the run.
        retry_failed, progress : bool, default False, True
            Whether to resend requests whose stored outcome is not an answer, and whether to show a progress bar.
        log : str or path, optional
            File to which one line of JSON is appended per call and failure.

        Returns
        -------
        Run
            Itself. A search whose goal is already reached changes nothing.

        Raises
        ------
        ConfigError
            [extend-options]: if nothing, or more than one kind, is added, or options contradict each other;
            [calls-invalid]: if `calls` is a text and a pool or `focus` is given; [extend-width]: if no number of calls attains
            the half-width, or the run has it already; [extend-search]: if the search is for all agents, or some agents
            cannot be compared; [extend-part]: if the run has only part of the trials of another run.
        PlanError
            [calls-invalid]: if `calls` is a text, but not a budget; [extend-too-few-calls]: if `calls` are too few for a search.
            Also if the calls cannot be planned.
        PoolError
            If a pool does not fit the run.
        RunFolderError
            [extend-unfinished]: if an earlier extension must be finished first; [extend-imported]: if the run was imported;
            [run-unjudged], [run-partial]: if the run has no answers or is unfinished; [run-mismatch]: if `judge` is another judge
            than that of the run.
        BudgetError, TooManyMissingError, JudgeError
            If `max_cost` is reached, too many answers are missing, or the judge cannot be used. Answers are stored: repeat the
            call to resume.
        """
        check_argument("judge", judge, str | PathLike | None, _JUDGE_REMEDY)
        check_argument("focus", focus, Iterable, "Pass ids of agents.")
        self.folder.check_not_imported()
        self.folder.check_judged()
        limits = {"calls": calls, "half_width": half_width, "top": top, "max_regret": max_regret}
        options: dict[str, Any] = {name: _to_plain(limit) for name, limit in limits.items()}
        for kind, pool in (("agents", agents), ("items", items), ("repeats", repeats)):
            options[kind] = None if pool is None else _ensure_pool_on_disk(pool, self.path)
        options["focus"] = [focus] if isinstance(focus, str) else list(focus)

        overrides = {"judge": judge, "max_missing": max_missing, "target": target}
        changes = {key: _to_plain(value) for key, value in overrides.items() if value is not None}
        from youden.report.pages.writing import write_report
        from youden.workflows.extend import extend_run, finish_extension, plan_extension

        with _sending_requests(retry_failed=retry_failed, log=log, progress=progress) as judging_options:
            config = with_default_store(read_run_config(self.folder.file("config.yaml"), changes), usual_store())
            planned = plan_extension(config, max_cost=_to_plain(max_cost), **options)
            if not isinstance(planned, str):
                extend_run(planned, judging_options)
                write_report(self.folder)
                finish_extension(self.folder)
        return self

    def rejudge(
        self,
        judge: PathOrText,
        *,
        calls: int | str | None = None,
        out: PathOrText | None = None,
        store: PathOrText | None = None,
        seed: int = 0,
        max_cost: float | None = None,
        max_missing: float | None = None,
        retry_failed: bool = False,
        log: PathOrText | None = None,
        progress: bool = True,
    ) -> Run:
        """Query a second judge on part of the trials of the run, like the command `youden rejudge`.

        The answers and their fit are a new run in a folder of its own. To compare both runs, pass them to `youden.compare`.

        Parameters
        ----------
        judge : str or path
            Second judge: a name, or the path of a .yaml file. If it is the judge of the run, each trial is answered again.
        calls : int or str, optional
            Budget: a number of calls (4000), a percentage of the dense calls ("1%"), or the mean number of paired
            trials per agent ("50/agent"). Default: "50/agent", or the calls of an earlier run in `out` if these are more.
        out : str or path, optional
            Folder of the second run. Default: the folder RUN-by-JUDGE next to that of the run.
        store : str or path, optional
            Store of answers. Default: that of an earlier run in `out`, else YOUDEN_STORE, else the store of the project.
            If the judge is that of the run: verdicts.db in `out`, because any other store may return its first answers again.
        seed : int, default 0
            Seed of the selection of trials.
        max_cost : float, optional
            Maximum cost of the second run in USD, over all commands; required for judges that can cost money.
        max_missing : float in [0, 1], optional
            Maximum fraction of trials without an answer. Default: 0.01.
        retry_failed, progress : bool, default False, True
            Whether to resend requests whose stored outcome is not an answer, and whether to show a progress bar.
        log : str or path, optional
            File to which one line of JSON is appended per call and failure.

        Returns
        -------
        Run
            The second run, which is fitted. No report is written.

        Raises
        ------
        PlanError
            [calls-invalid]: if `calls` is not a budget; [subsample-calls], [subsample-few]: if it is too large or
            too small.
        RunFolderError
            [rejudge-import]: if the run has no trials; [rejudge-itself]: if `out` is the folder of the run itself;
            [run-unjudged], [run-partial]: if the run has no answers or is unfinished; [run-preference]: if it asks for
            preferences; [run-mismatch]: if `out` has answers to another plan or of another judge.
        ConfigError
            [max-cost-needed]: if the judge can cost money and `max_cost` is None; other slugs if the judge, the store or the
            cap does not fit.
        BudgetError, TooManyMissingError, JudgeError
            If `max_cost` is reached, too many answers are missing, or the judge cannot be used. Answers are stored: repeat the
            call to resume.
        """
        from youden.workflows.rejudge import plan_rejudge

        check_argument("judge", judge, str | PathLike, _JUDGE_REMEDY)
        overrides = {"calls": calls, "store": store, "seed": seed, "max_cost": max_cost, "max_missing": max_missing}
        changes = {key: _to_plain(value) for key, value in overrides.items() if value is not None}
        if out is not None:
            changes["out"] = fspath(out)
        with _sending_requests(store=store, retry_failed=retry_failed, log=log, progress=progress) as judging_options:
            planned = plan_rejudge(self.folder, judge=fspath(judge), changes=changes, usual_store=usual_store())
            judge_run(planned.again, judging_options)
        second_folder = planned.again.folder
        fit_run(second_folder)
        return Run(second_folder.path)

    def stress(
        self,
        *,
        attacks: str | Sequence[str] = (),
        base_agent: str | None = None,
        judge: str | None = None,
        max_cost: float | None = None,
        store: str | None = None,
        seed: int = 0,
        out: PathOrText | None = None,
        progress: bool = True,
    ) -> Stress:
        """Add attacks to the pool of the run and measure their ranks, like the command `youden stress`.

        An attack adds one or more agents that are built to rank high, to a copy of the pool. Their responses may be made from
        those of an agent of the run, the base agent. Each attack is judged and ranked alone. The run does not change.

        Parameters
        ----------
        attacks : str or sequence of str, optional
            Registered names of attacks, for example "clones" or "mirror". Default: all that are possible on this pool.
        base_agent : str, optional
            Id of the base agent. Default: the last agent of the ranking. If `judge` is another judge that makes calls, the
            default is the agent with the fewest words.
        judge, store : str, optional
            Judge (name or .yaml) and store of answers. Default: those of the run.
        max_cost : float, optional
            Maximum cost in USD of all attacks together; required for judges that can cost money.
        seed : int, default 0
            Seed of all draws.
        out : str or path, optional
            Folder for stress.md, stress.json and, if vl-convert is installed, stress.svg; it is created if it does not exist,
            and existing files are replaced. Default: no files.
        progress : bool, default True
            Whether to show a progress bar.

        Returns
        -------
        Stress
            `attacks` is a tuple with one `AttackResult` per attack: the rank of its best agent by ranking method, the rank
            changes of the other agents, and which checks detect it. `usd` is the cost.

        Raises
        ------
        ConfigError
            [unknown-attack]: if an attack is unknown; [attack-prompts]: if one of `attacks` cannot be added to this pool;
            [stress-attacker]: if the base agent is unknown; [stress-cost]: if the expected cost exceeds `max_cost`; other slugs
            if the judge, the store or the cap does not fit.
        BudgetError, JudgeError
            If `max_cost` is reached, or the judge cannot be used. Answers are stored: repeat the call to resume.
        RunFolderError
            [stress-import]: if the run was imported and has no texts; [run-preference]: if it asks for preferences.
        PoolError, PlanError
            If the pool of the run cannot be read; [self-trials-only]: if the agents are compared only with themselves.
        """
        from youden.report.pages.writing import write_stress
        from youden.workflows.planned_stress import plan_stress
        from youden.workflows.stress import stress

        check_argument("judge", judge, str | PathLike | None, _JUDGE_REMEDY)
        with _sending_requests(store=store, progress=progress) as judging_options:
            planned = plan_stress(
                self.path,
                attacks=[attacks] if isinstance(attacks, str) else list(attacks),
                base_agent=base_agent,
                judge=_to_plain(judge),
                max_cost=max_cost,
                store=store,
                seed=seed,
                usual_store=usual_store(),
            )
            result = stress(planned, judging_options)
        if out is not None:
            write_stress(result, Path(out))
        return result


@contextmanager
def _sending_requests(
    *,
    store: PathOrText | None = None,
    retry_failed: bool = False,
    log: PathOrText | None = None,
    progress: bool,
) -> Iterator[JudgingOptions]:
    """Yield options for requests to judges, and show a progress bar within the `with` block if `progress` is True.

    Within the block, a run may use an answer store on a server. If only the config of the run names the server, the user may not
    have confirmed the address, so no password is sent to it.

    store : answer store that the caller named, which may get the password; None if the caller named none
    retry_failed : whether to repeat the requests whose stored outcome is a failure
    log : file that gets one line per call; None for no log
    """
    if store is not None:
        allow_store(fspath(store))
    log_path = None if log is None else Path(log)
    bar_context = progress_bar(plain=False) if progress else nullcontext()
    with network_stores_allowed(password=False), bar_context as bar:
        yield JudgingOptions(retry_failed=retry_failed, log=log_path, progress=bar)


def _to_plain(value: Any) -> Any:
    """Convert a path to a text, and a number of NumPy to one of Python; return any other value unchanged."""
    if isinstance(value, PathLike):
        return fspath(value)
    return value.item() if isinstance(value, np.generic) else value


def _ensure_pool_on_disk(pool: PoolLike, folder: Path) -> str:
    """Write a pool that is in memory to pools/NAME-DIGEST in the folder of a run, and return the path of the pool.

    The path of a pool that is on disk already is returned as it is.

    folder : folder of a run, which need not exist

    Raises: RunFolderError [run-foreign] if a pool in memory must be written, but the folder does not belong to a run.
    """
    if isinstance(pool, str | PathLike):
        return fspath(pool)

    check_no_foreign_files(RunFolder(folder))
    from youden.data.pools.pool_reader import read_pool, write_pool
    from youden.types import Pool

    if not isinstance(pool, Pool):
        pool = read_pool(pool)  # from a table in memory
    path = folder / "pools" / f"{to_file_name(pool.name)[:60]}-{pool.digest[:12]}"
    write_pool(pool, path)
    return str(path)
