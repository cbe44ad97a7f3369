"""Fits a run's folder: reads what it holds, settles the terms of the fit, and writes every table that follows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from youden.data.folder.run_config import FitTerms
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.pipeline.alternative_rankings import check_rules
from youden.pipeline.telemetry import trace_step
from youden.run_keys import Target
from youden.types.facts import PartnerRules

if TYPE_CHECKING:
    from youden.pipeline.fit_tables import Analysis


@trace_step("fit")
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
    check_judges(terms.target, judge.get("judges"), str(judge.get("name", "nobody")))
    if terms != kept and folder.has("config.yaml"):
        folder.write_config(folder.read_config().fitted_by(terms))
    if not terms.rules.families:
        terms = terms._replace(rules=replace(terms.rules, families=pool.families))
    if judged is None:
        return fit_imported(folder, pool, terms)
    return fit_judged(folder, pool, judged, terms, rates=rates)


def check_judges(target: Target, judges: object, name: str) -> None:
    """Raises: ConfigError [judges-few] where a ranking over judges is wanted of one."""
    if target == "items-and-judges" and not judges:
        raise ConfigError(
            f"target: {target} is for a jury, and '{name}' is one judge. Give a judge with `backend: jury`; or judge the run "
            f"again (`youden rejudge`) and put both side by side: `youden compare RUN OTHER --target {target}`.",
            slug="judges-few",
        )
