"""Fit the run in a folder: resolve the settings of the fit once, and write every table that follows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from youden.data.folder.run_config import FitSettings, RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError
from youden.pipeline.alternative_rankings import check_partner_rules
from youden.pipeline.telemetry import trace_step
from youden.run_keys import Target
from youden.text.printable import format_command
from youden.types import Finding
from youden.types.facts import PartnerRules

if TYPE_CHECKING:
    from youden.pipeline.fit_tables import FitResult
    from youden.pipeline.preference_tables import PreferenceResult

RunFit: TypeAlias = "FitResult | PreferenceResult"


@trace_step("fit")
def fit_run(
    folder: RunFolder, *, target: Target | None = None, rules: PartnerRules | None = None, rates: bool = False
) -> RunFit:
    """Fit and rank the answers in a run's folder, and write all tables of the fit, for example ranking.csv and fit.json.

    Earlier tables are replaced. The report is not written again.

    Parameters
    ----------
    folder : RunFolder
        Folder of a judged or imported run.
    target : {"items-like-these", "these-items", "items-and-judges"}, optional
        Population that the intervals refer to; stored in config.yaml. Default: the stored one, else "items-like-these".
    rules : PartnerRules, optional
        Families and trusted panel of the alternative rankings, and which ranking is the main one; stored in config.yaml.
        Default: the stored rules. If the rules name no families, the families of the pool are used. Clones are found again
        if the texts of the pool can be read.
    rates : bool, default False
        Whether to write rates.parquet even if the run has 10,000,000 trials or more. For an imported run, this file is always
        written.

    Returns
    -------
    FitResult or PreferenceResult
        Scores, tables and facts of the fit, as they were written; a PreferenceResult for a run that asks for preferences.

    Raises
    ------
    StatisticsError
        If the rules do not fit the run, before anything is written; if its answers cannot be fitted.
    ConfigError
        [judges-few] if a ranking over judges is requested for a single judge. [question-option], [option-unused] if `target`,
        `rules` or `rates` is set to a value that a run that asks for preferences does not allow.
    RunFolderError
        If the folder has neither verdicts.parquet nor rates.parquet, or a file is damaged.
    """
    from youden.pipeline.clones import find_run_clones
    from youden.pipeline.fit_tables import fit_imported, fit_judged
    from youden.pipeline.preference_tables import check_preference_settings, fit_preference_run

    pool, stored = folder.read_pool(), folder.fit_settings
    settings = FitSettings(target or stored.target, rules or stored.rules)
    is_judged = folder.has("plan.parquet") or folder.has("verdicts.parquet")
    judged = folder.open_judged_files() if is_judged else None

    # check the settings before anything is written
    asks_preference = judged is not None and judged.plan.question == "preference"
    if asks_preference:
        check_preference_settings(settings, rates=rates)
    check_partner_rules(settings.rules, pool.agent_ids)
    judge = {} if judged is None else judged.verdicts.metadata.judge
    check_target(settings.target, judge.get("judges"), str(judge.get("name", "no judge")))

    clones: tuple[Finding, ...] = ()
    if judged is not None:
        clones = find_run_clones(folder, pool.agent_ids, settings.rules.clones)
        clusters = tuple(finding.agents for finding in clones)
        settings = settings._replace(rules=replace(settings.rules, clones=clusters))
    config: RunConfig | None = (
        None  # with new settings; it is written with the tables, so a fit that fails changes nothing
    )
    if settings != stored and folder.has("config.yaml"):
        config = folder.read_config().with_fit_settings(settings)

    if judged is not None and asks_preference:
        return fit_preference_run(folder, pool, judged, clones=clones, config=config)
    if not settings.rules.families:
        settings = settings._replace(rules=replace(settings.rules, families=pool.families))
    if judged is None:
        return fit_imported(folder, pool, settings)
    return fit_judged(folder, pool, judged, settings, clones=clones, rates=rates, config=config)


def check_fit(folder: RunFolder) -> None:
    """Check that the ranking of a run was computed from its present plan and answers.

    A run without a ranking passes the check.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.

    Raises
    ------
    RunFolderError
        [run-other-plan]: if the verdicts belong to another plan than the stored one. [fit-stale]: if the run was planned
        or judged again since it was fitted. Another slug if a file is missing or damaged.
    """
    is_imported = not folder.has("plan.parquet")
    if is_imported or not folder.has("fit.json"):
        return
    verdicts = folder.open_judged_files().verdicts
    n_judged = len(verdicts) - verdicts.metadata.n_pending

    # compare with the plan and the number of judged calls of the fit, which its signature contains
    signature = folder.read_signature().parts
    is_same_plan = verdicts.metadata.plan_digest.startswith(str(signature.get("plan")))
    n_fitted = signature.get("done", signature.get("calls"))  # "done" only for an unfinished run
    if not is_same_plan or n_fitted != n_judged:
        raise RunFolderError(
            f"The ranking in {folder.path} belongs to an earlier plan or to earlier answers. "
            f"Run `{format_command(['youden', 'fit', str(folder.path)])}` to fit the run again.",
            slug="fit-stale",
        )


def check_target(target: Target, judges: object, name: str) -> None:
    """Raise ConfigError [judges-few] if a ranking over judges is requested for the single judge `name`."""
    if target == "items-and-judges" and not judges:
        raise ConfigError(
            f"The target {target} needs several judges: got '{name}'. Set a judge with `backend: jury`, or judge the run again "
            f"(`youden rejudge`) and compare both runs: `youden compare RUN OTHER --target {target}`.",
            slug="judges-few",
        )
