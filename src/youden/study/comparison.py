"""Compare judged runs, whatever they ask: the public function `compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.run_keys import Target
from youden.study.agreement import JudgesStudy
from youden.study.instruments import InstrumentsStudy, compare_instruments
from youden.study.judged_runs import AlignedRuns, MatchItems, read_judged_run
from youden.study.preference_judges import PreferenceJudgesStudy, compare_preference_runs
from youden.types.arguments import check_argument, check_unused
from youden.types.results import ScoreKind


def compare(
    *runs: str | PathLike[str],
    scores: ScoreKind = "symmetric",
    match: MatchItems = "id",
    target: Target | None = None,
    families: Mapping[str, str] | None = None,
) -> JudgesStudy | PreferenceJudgesStudy | InstrumentsStudy:
    """Compare the judges of two or more runs.

    Only agents and items that all runs have in common are compared. If one of two runs asks for preferences, the rankings are
    compared; if both do, also their answers to the same trials. In such a comparison, the other parameters must have their
    default values (`target` may also be "items-like-these").

    Parameters
    ----------
    *runs : Run, str or path
        Runs as returned by `read_run` (a `Run` counts as the path of its folder), or paths of folders.
    scores : {"symmetric", "row"}, default "symmetric"
        Scores to compare. A "symmetric" score is the mean of all comparisons of an agent, in both orders of the two
        responses. A "row" score, as in the paper, only uses comparisons that show the response of the agent first.
    match : {"id", "number"}, default "id"
        Match items by id, or by the last number in the id.
    target : {"items-like-these", "these-items"}, optional
        Population for which the intervals hold: more items like those of the runs, or exactly those. Default:
        "these-items" if all runs have this target, otherwise "items-like-these".
    families : mapping of str to str, optional
        Agent family that each judge belongs to. The keys are the names of the run folders, with " (1)", " (2)" and so on
        if several are equal. Default: the families in the judges' configs.

    Returns
    -------
    JudgesStudy, PreferenceJudgesStudy or InstrumentsStudy
        Agreement on agents, items and trials; `summary` describes it in sentences. A PreferenceJudgesStudy if both runs ask for
        preferences, an InstrumentsStudy if one of them does.

    Raises
    ------
    RunFolderError
        If a file of a run is missing or damaged; if a run is not completely judged ([run-unjudged], [run-partial]);
        [compare-preferences] if a run asks for preferences, and there are not exactly two runs with at least 3 common agents.
    ConfigError
        [judges-few], [judges-pools], [judges-agents], [judges-items], [judges-number], [judges-trials] or
        [judge-family] if the runs cannot be compared, for example because they share fewer than 3 agents or 2 items;
        [option-unused] if a parameter would have no effect; [argument-type] if a run is neither a `Run` nor a path.
    StatisticsError
        [scores-empty] if no cell is shared.

    Examples
    --------
    >>> import youden
    >>> youden.compare(youden.read_run("runs/first"), "runs/second").summary  # doctest: +SKIP
    """
    for run in runs:
        check_argument("runs", run, str | PathLike, "Pass the folder of each run, or what youden.run returns.")
    folders = [RunFolder(Path(run)) for run in runs]
    if not any(folder.asks_preference for folder in folders):
        judged_runs = [read_judged_run(folder) for folder in folders]
        aligned_runs = AlignedRuns(judged_runs, kind=scores, match=match, target=target, families=families)
        return JudgesStudy(aligned_runs, kind=scores)

    is_other_target = target not in (None, "items-like-these")
    is_set = {"scores": scores != "symmetric", "match": match != "id", "target": is_other_target, "family": families}
    check_unused("A comparison with preferences", **is_set)
    return _compare_with_preferences(folders)


def _compare_with_preferences(folders: Sequence[RunFolder]) -> PreferenceJudgesStudy | InstrumentsStudy:
    """Compare two runs, at least one of which asks for preferences.

    Raises RunFolderError [compare-preferences] if there are not exactly two runs, or if they have fewer than 3 agents in common.
    """
    if len(folders) != 2:
        raise RunFolderError(
            f"A comparison with preferences needs exactly two runs: got {len(folders)}. Pass one or two runs with `question: "
            "preference`.",
            slug="compare-preferences",
        )
    first, second = folders
    if first.asks_preference and second.asks_preference:
        return compare_preference_runs(first, second)
    return compare_instruments(first, second)
