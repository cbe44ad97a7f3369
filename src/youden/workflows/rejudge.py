"""Judge part of a run again with another judge, and compare the two judges.

The trials of the new run are a part of the trials of the first run, so that both judges answer the same trials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from youden.data.folder.run_config import OWN_STORE, RunConfig, run_config_from_keys, with_default_store
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.judging.backend_records import REPLAY
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.pipeline.judged_run import PlannedRun, plan_run
from youden.pipeline.planned_run import is_part_of
from youden.protocol.self_trials import check_compares_agents
from youden.protocol.subsample import count_calls
from youden.study.agreement import JudgesStudy
from youden.study.judged_runs import (
    AlignedRuns,
    JudgedRun,
    check_judge_names,
    make_unique_names,
    read_judged_run,
)

DEFAULT_BUDGET = "50/agent"
"""Default budget of the second judge: paired trials per agent."""


@dataclass(frozen=True, eq=False)
class PlannedRejudge:
    """Part of a judged run, planned for another judge.

    Attributes
    ----------
    source : RunFolder
        Folder of the first run.
    first : JudgedRun
        Answers of the first judge.
    again : PlannedRun
        The new run.
    """

    source: RunFolder
    first: JudgedRun
    again: PlannedRun


@dataclass(frozen=True)
class RejudgeResult:
    """Comparison of two judges on the trials that both answered.

    Attributes
    ----------
    study : JudgesStudy
        The comparison.
    retest : bool
        Whether both runs were judged by the same judge.
    summary : tuple of str
        Notes on the comparison.
    """

    study: JudgesStudy
    retest: bool
    summary: tuple[str, ...]


def plan_rejudge(
    run: RunFolder,
    *,
    judge: str,
    changes: Mapping[str, object],
    usual_store: str | None = None,
    families: Mapping[str, str] | None = None,
) -> PlannedRejudge:
    """Plan a new run in which a judge answers part of the trials of an existing run.

    Parameters
    ----------
    run : RunFolder
        A judged run.
    judge : str
        Judge name or path of a judge YAML. If it is the judge of the run, the store of the run would return the first answers.
        The new folder then gets a separate store, unless `changes` names one.
    changes : mapping of str to object
        Config keys of the new run: `calls`, a budget; `out`, its folder; `seed`, `store`, `max_cost`, `max_missing`.
        Default of `out`: the folder RUN-by-JUDGE next to `run`. Default of `calls`: "50/agent" (`DEFAULT_BUDGET`). If the folder
        already has an earlier plan with more calls, the default is the number of these calls. Stored answers are reused, even
        if `run` was extended since.
    usual_store : str, optional
        Store to use if neither `changes` nor the new folder names one. Default: the store of the project. Ignored if the judge
        is that of the run.
    families : mapping of str to str, optional
        Agent families by judge name that `compare_rejudged` will get. Only the names are checked, so that no request is sent
        if one is wrong. For a replay, they are not checked, because the name of the replayed judge is not known yet.

    Returns
    -------
    PlannedRejudge
        The planned run (`again`) and all answers of the first judge (`first`), also to trials that are not in the new plan. The
        plan and the config were written to the folder of the new run, unless it holds answers to an earlier plan. No request has
        been sent.

    Raises
    ------
    RunFolderError
        [rejudge-import] if the run was imported and has no trials; [run-unjudged] if it has no answers; [run-partial] if it is
        unfinished; [run-preference] if it asks for preferences; [rejudge-itself] if `out` is the folder of the run;
        [run-mismatch] if `out` holds answers to another plan or of another judge.
    ConfigError
        If the judge or `changes` do not fit; [run-config] if a key in `changes` is unknown; [judge-family] if `families`
        names another judge.
    PlanError
        [calls-invalid] if `calls` is not a budget; [subsample-calls] if the run has fewer trials; [subsample-few] if agents get
        fewer than 4 paired trials; [self-trials-only] if the run compares agents only with themselves.
    """
    _check_has_trials(run)
    second_judge = load_judge_config(judge)
    name = _make_name(run, second_judge)
    parent = run.path.resolve().parent if run.path.name in ("", "..") else run.path.parent
    folder = Path(str(changes.get("out", parent / name)))
    if folder.resolve() == run.path.resolve():
        raise RunFolderError(
            f"The new run cannot be written to the folder of the first: got {run.path}. Set another `out`, or remove it.",
            slug="rejudge-itself",
        )

    if second_judge.backend != REPLAY:
        first_name = str(run.read_recorded_judge().get("name"))
        check_judge_names(families or {}, make_unique_names([first_name, second_judge.name]))

    first_judged = read_judged_run(run)
    first_config = run.read_config()
    recorded = _find_config_of_earlier_part(RunFolder(folder), run)
    n_recorded = None if recorded is None else recorded.calls
    n_calls = count_calls(run.read_plan(), changes.get("calls", DEFAULT_BUDGET))
    if "calls" not in changes and isinstance(n_recorded, int):
        n_calls = max(n_calls, n_recorded)
    options = {
        "name": name,
        "pool": first_config.pool,
        "empty": first_config.empty,
        "extensions": first_config.extensions,
        "judge": judge,
        "trials_from": str(run.path),
        **changes,
        "calls": n_calls,
        "out": str(folder),
    }
    if recorded is not None and n_recorded == n_calls:
        # without more calls, the part stays as it was before extensions of the run
        options["extensions"] = recorded.extensions
    config = run_config_from_keys(options, origin="rejudge")

    # a store with the answers of the same judge would return these, so the new run gets its own
    if config.store is None and _sends_same_requests(second_judge, load_judge_config(first_config.judge)):
        usual_store = str(folder / OWN_STORE)
    planned_run = plan_run(with_default_store(config, usual_store))
    return PlannedRejudge(run, first_judged, planned_run)


def _check_has_trials(run: RunFolder) -> None:
    """Check that a run has answered trials, which another judge can then answer.

    Raises RunFolderError [rejudge-import] if the run was imported without trials, [run-unjudged] if it has no answers, and
    other errors if the run asks for preferences or does not compare agents.
    """
    if not run.has("plan.parquet"):
        run.read_pool()  # raises a more specific error if the folder is not a run
        raise RunFolderError(
            f"{run.path} was imported and has no trials to judge again. Run a dense or cyclic plan on its pool with "
            "`youden run`, and compare both runs with `youden compare`.",
            slug="rejudge-import",
        )
    run.check_information()
    run.check_judged()
    check_compares_agents(run.read_plan_without_trials(), "rejudge")


def _make_name(run: RunFolder, judge: JudgeConfig) -> str:
    """Make the default name of a run and of its folder, RUN-by-JUDGE, without characters that a name must not have."""
    run_name = run.path.resolve().name
    return re.sub(r"[^\w .+-]+", "-", f"{run_name}-by-{judge.name}").lstrip("-. +")[:100]


def _find_config_of_earlier_part(folder: RunFolder, run: RunFolder) -> RunConfig | None:
    """Return the config of a folder if it has a part of the trials of `run`, else None."""
    config = folder.find_config()
    if config is None or not folder.has("plan.parquet") or not is_part_of(folder.read_plan(), run):
        return None
    return config


def _sends_same_requests(a: JudgeConfig, b: JudgeConfig) -> bool:
    """Return whether two judges send the same requests for a trial, so that a store has the answers of both."""
    return _get_request_digests(a) == _get_request_digests(b)


def _get_request_digests(judge: JudgeConfig) -> set[str]:
    """Return a digest of everything that determines the requests to a judge; for a jury, one digest per member."""
    members = judge.judges or (judge,)
    return {member.questions().digest for member in members if member.makes_calls}


def compare_rejudged(planned: PlannedRejudge, *, families: Mapping[str, str] | None = None) -> RejudgeResult:
    """Compare two judges of the same trials; the new run must be judged and fitted.

    Parameters
    ----------
    planned : PlannedRejudge
        The first run and the new one, from `plan_rejudge`.
    families : mapping of str to str, optional
        Agent family of each judge, by judge name, to find judges that favor their own family. Default: `family` in the
        judges' configs.

    Returns
    -------
    RejudgeResult
        Comparison on the trials that both judges answered. Its `summary` has a sentence if both are the same judge,
        else it is empty.

    Raises
    ------
    ConfigError
        [judge-family] if `families` names another judge; [judges-agents], [judges-items], [judges-trials] if too little
        is shared.
    RunFolderError
        If the new run is not judged.
    StatisticsError
        [scores-empty] if no cell is shared.
    """
    new_run = planned.again
    first_judge = planned.source.read_recorded_judge()
    new_judge = new_run.folder.read_recorded_judge()

    # name each run after its judge; a replay has the name of the judge whose answers it replays
    new_name = new_run.judge.name
    if new_run.judge.backend == REPLAY:
        new_name = str(new_judge.get("name"))
    first_judged = replace(planned.first, name=str(first_judge.get("name")))
    new_judged = replace(read_judged_run(new_run.folder), name=new_name)
    study = JudgesStudy(AlignedRuns([first_judged, new_judged], families=families))

    is_same_judge = new_judge == first_judge
    if not is_same_judge:
        return RejudgeResult(study, is_same_judge, ())
    summary = (
        f"Both runs were judged by {first_judge.get('name')} with the same requests, so this comparison measures test–retest "
        "reliability: differences are the judge's own noise, and nothing follows for another judge.",
    )
    return RejudgeResult(study, is_same_judge, summary)
