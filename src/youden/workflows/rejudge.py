"""A run judged again, in part, by another judge: the part's plan, and what the two judges say side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from youden.data.folder.run_config import OWN_STORE, RunConfig, with_usual_store
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.judging.backend_records import REPLAY
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.pipeline.judged_run import PlannedRun, plan_run
from youden.protocol.subsample import count_calls
from youden.study.agreement import JudgesStudy
from youden.study.judged_runs import JudgedRun, SideBySide, read_judged


@dataclass(frozen=True, eq=False)
class PlannedRejudge:
    """Part of a judged run, planned for another judge. of: the run's folder; first: what its judge said."""

    of: RunFolder
    first: JudgedRun
    again: PlannedRun


@dataclass(frozen=True)
class Rejudged:
    """Both judges on what both answered. retest: whether they are one and the same judge, asked twice."""

    study: JudgesStudy
    retest: bool
    words: tuple[str, ...]


def plan_rejudge(
    run: RunFolder,
    *,
    judge: str,
    changes: Mapping[str, object],
    usual_store: str | None = None,
) -> PlannedRejudge:
    """Plan a part of the run's own trials for `judge`, in a run's folder of its own: `out`, else RUN-by-JUDGE beside `run`.

    changes: to that run's config, by key: calls, a budget; out, seed, store, max_cost, max_missing. usual_store: where answers
    are stored if `changes` name no store. If `judge` is the run's own, its store is in the new folder, because the run's store
    would return its first answers.

    Raises: RunFolderError [rejudge-import], [run-unjudged], [rejudge-itself]; as `plan_run`, PlanError of `subsample`.
    """
    if not run.has("plan.parquet"):
        run.read_pool()
        raise RunFolderError(
            f"{run.path} was imported and holds no trials, so none can be asked again. Judge a dense or cyclic plan on its pool "
            "with `youden run`, and put both side by side with `youden compare`.",
            slug="rejudge-import",
        )
    run.refuse_unjudged()
    name = re.sub(r"[^\w .+-]+", "-", f"{run.path.resolve().name}-by-{load_judge_config(judge).name}").lstrip("-. +")[
        :100
    ]
    beside = run.path.resolve().parent / name if run.path.name in ("", "..") else run.path.with_name(name)
    folder = Path(str(changes.get("out", beside)))
    if folder.resolve() == run.path.resolve():
        raise RunFolderError(
            f"{run.path} cannot hold another judge's answers beside its own. Give another --out, or leave it out.",
            slug="rejudge-itself",
        )
    first, judged = read_judged(run), run.read_config()
    asked = {
        "name": name,
        "pool": judged.pool,
        "extensions": judged.extensions,
        "judge": judge,
        "trials_of": str(run.path),
    }
    calls = count_calls(run.read_plan(), changes["calls"])
    config = RunConfig.model_validate({**asked, **changes, "calls": calls, "out": str(folder)})
    if config.store is None and _requests_of(load_judge_config(judge)) == _requests_of(load_judge_config(judged.judge)):
        usual_store = str(folder / OWN_STORE)
    return PlannedRejudge(run, first, plan_run(with_usual_store(config, usual_store)))


def _requests_of(judge: JudgeConfig) -> set[str]:
    """Return a digest of everything that determines the requests to a judge, or one per judge of a jury."""
    return {member.questions().digest for member in judge.judges or (judge,) if member.makes_calls}


def compare_rejudged(planned: PlannedRejudge, *, families: Mapping[str, str] | None = None) -> Rejudged:
    """What the judged and fitted second run says beside the first. families: judges' own, by the judges' names.

    Raises: as `SideBySide` and `JudgesStudy`; ConfigError [judge-family].
    """
    again = planned.again
    ours, theirs = again.folder.judged_by(), planned.of.judged_by()
    name = str(ours.get("name")) if again.judge.backend == REPLAY else again.judge.name
    runs = [
        replace(planned.first, name=str(theirs.get("name"))),
        replace(read_judged(again.folder), name=name),
    ]
    study = JudgesStudy(SideBySide(runs, families=families))
    retest = ours == theirs
    words = (
        f"Both runs were judged by {theirs.get('name')}, asked the same way: this is a test and a retest. What differs is "
        "the judge's own noise, and nothing here speaks of another judge.",
    )
    return Rejudged(study, retest, words if retest else ())
