"""What follows from the answers: rates → scores → fit → ranking, and how far to trust it.

It knows which estimator a design calls for; it refuses to know files, judges and money.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from youden import __version__
from youden.errors import StatisticsError
from youden.nouns import (
    INDEPENDENT,
    MISSING_REASONS,
    PAIRED,
    CallFacts,
    Fit,
    HoldoutFacts,
    Json,
    LinkFacts,
    Rates,
    RunFacts,
    ScoreKind,
    Scores,
    Signature,
    Split,
    Verdicts,
)
from youden.nouns.arrays import Bools
from youden.protocol.scores import holdout_scores, pooled_fpr, train_scores
from youden.run.abilities import CELLS, abilities_of
from youden.run.extension import growth_facts
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import rmse
from youden.stats.base.ranks import rank_ranges
from youden.stats.curl.link_table import links_table
from youden.stats.trials.false_positives import false_positive_alarms

FACTS_VERSION = 1
EVERYTHING_ASKED = (
    "Every comparison there is was asked: the intervals are about this judge on these items, so they have no width, and they "
    "say nothing of other items. Rank on more items to learn how far the ranking carries."
)
SCORE_KINDS: tuple[ScoreKind, ...] = ("row", "symmetric")

Groups = Mapping[str, str | None]


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that follows from the answers: the tables of a run's folder."""

    rates: Rates
    row: Scores
    symmetric: Scores
    holdout: Scores | None
    fit: Fit
    ranking: pd.DataFrame
    items: pd.DataFrame
    facts: RunFacts


def analyse(
    rates: Rates,
    *,
    split: Split | None = None,
    result: Verdicts | None = None,
    groups: Groups | None = None,
    warnings: tuple[str, ...] = (),
) -> Analysis:
    """Scores, fit and ranking from rates; with `result`, the trials themselves rank a cyclic plan.

    groups: agent id → group, shown and never used in a fit.
    """
    row, symmetric = (train_scores(rates, split, kind=kind) for kind in SCORE_KINDS)
    model = ClippedLinear().fit(symmetric)
    fit = model.as_fit()
    held = holdout_scores(rates, split) if split is not None and split.n_holdout else None
    by_trials = abilities_of(result) if result is not None else None
    links, links_missing = _links({"row": row, "symmetric": symmetric})
    said = [*warnings, *(result.warnings if result is not None else ())]
    if result is not None:
        said += _false_positive_words(result)
    if fit.status != "ok":
        said.append(model.message_)
    if by_trials is not None and (by_trials.low == by_trials.high).all():
        said.append(EVERYTHING_ASKED)
    facts = RunFacts(
        version=FACTS_VERSION,
        ranking=by_trials.ranking if by_trials else CELLS,
        interval=by_trials.method if by_trials else fit.method,
        level=fit.level,
        estimator="clipped-linear",
        status=fit.status,
        message=model.message_,
        kkt=fit.kkt,
        n_components=model.n_components_,
        r2=_or_none(model.r2_),
        fpr=pooled_fpr(rates) if rates.detail is not None else None,
        calls=call_facts(result) if result is not None else None,
        holdout=_holdout(model, held, split),
        links=links,
        links_missing=links_missing,
        warnings=tuple(said),
        growth=growth_facts(result, by_trials) if result is not None and by_trials is not None else None,
    )
    ability, low, high = (
        (by_trials.ability, by_trials.low, by_trials.high) if by_trials else (fit.ability, fit.low, fit.high)
    )
    n_trials = by_trials.n_trials if by_trials else symmetric.weight.sum(axis=1).astype(int)
    places = rank_ranges(low, high, component=model.component_)
    ids = list(rates.agent_ids)
    ranking = pd.DataFrame(
        {
            "agent": ids,
            "group": [(groups or {}).get(agent) for agent in ids],
            "ability": ability,
            "low": low,
            "high": high,
            "rank_low": places.low,
            "rank_high": places.high,
            "n_trials": n_trials,
        }
    ).sort_values("ability", ascending=False, kind="stable", na_position="last", ignore_index=True)
    items = pd.DataFrame(
        {
            "item": list(rates.item_ids),
            "difficulty": fit.difficulty,
            "n_agents": (symmetric.weight > 0).sum(axis=0),
            "n_trials": np.bincount(rates.item, weights=rates.n_paired, minlength=rates.n_items).astype(int),
        }
    )
    return Analysis(rates, row, symmetric, held, fit, ranking, items, facts)


def _false_positive_words(result: Verdicts) -> list[str]:
    """One sentence for each agent or pair that the judge mistakes for the same source on unrelated texts."""
    plan = result.plan
    apart = (plan.arm == INDEPENDENT) & result.answered
    alarms = false_positive_alarms(
        plan.first[apart], plan.second[apart], result.hard[apart] >= 0.5, n_agents=plan.n_agents
    )
    return [
        f"False-positive alarm: texts of {' and '.join(plan.agent_ids[i] for i in alarm.agents)} on unrelated items were "
        f"called the same source {alarm.n_yes} of {alarm.n} times (all others: {alarm.rate:.1%}). Look for templates or clones"
        + (
            "."
            if plan.independent == "twin"
            else "; one pooled rate ranks them too high (independent: twin gives each its own)."
        )
        for alarm in alarms
    ]


def sign(facts: RunFacts, rates: Rates, *, result: Verdicts | None = None) -> Signature:
    """Everything a run's numbers depend on: pool, plan and judge of a judged run, the rates of an imported one."""
    parts: dict[str, Json] = {"youden": __version__}
    if result is None:
        parts["imported_rates"] = rates.digest[:12]
    else:
        plan = result.plan
        parts |= {
            "pool": plan.pool_digest[:12],
            "plan": plan.digest[:12],
            "design": plan.design,
            "calls": len(plan),
            "independent": plan.independent,
            "holdout": plan.split.fraction,
            "rule": plan.split.rule,
            "seed": plan.seed,
            "judge": str(result.judge.get("name")),
            "judge_detail": dict(result.judge),
            "options": plan.said,
            "models": list(result.models),
        }
    return Signature(parts | {"ranking": facts.ranking, "interval": facts.interval})


def _links(scores: Mapping[ScoreKind, Scores]) -> tuple[dict[ScoreKind, dict[str, LinkFacts]], dict[ScoreKind, str]]:
    """The link table of each kind, or why there is none."""
    links: dict[ScoreKind, dict[str, LinkFacts]] = {}
    missing: dict[ScoreKind, str] = {}
    for kind, matrix in scores.items():
        try:
            links[kind] = links_table(matrix.value)
        except StatisticsError as error:
            links[kind], missing[kind] = {}, str(error)
    return links, missing


def call_facts(result: Verdicts) -> CallFacts:
    """What was asked, what came back, and what it took."""
    plan = result.plan
    paired = plan.arm == PAIRED
    asked = result.tokens_in is not None and result.tokens_out is not None
    timed = result.seconds[result.seconds > 0] if result.seconds is not None else np.empty(0)
    return CallFacts(
        n_paired=int(paired.sum()),
        n_independent=int((~paired).sum()),
        n_dense_calls=plan.n_dense_calls,
        n_cells=plan.n_cells,
        missing_paired=_reasons(result, paired),
        missing_independent=_reasons(result, ~paired),
        tokens_in=int(result.tokens_in.sum()) if asked and result.tokens_in is not None else 0,
        tokens_out=int(result.tokens_out.sum()) if asked and result.tokens_out is not None else 0,
        usd=_or_none(result.total_usd),
        seconds_mean=float(timed.mean()) if len(timed) else None,
        models=result.models,
    )


def _reasons(result: Verdicts, arm: Bools) -> dict[str, int]:
    counts = np.bincount(result.missing[arm], minlength=len(MISSING_REASONS))
    return {name: int(n) for name, n in zip(MISSING_REASONS[1:], counts[1:], strict=True) if n}


def _holdout(model: ClippedLinear, held: Scores | None, split: Split | None) -> HoldoutFacts | None:
    """RMSE of clipped predictions over held-out cells whose agent and item were both seen in training."""
    if held is None or split is None:
        return None
    predicted = model.predict()
    observed = np.where(np.isnan(predicted), np.nan, held.value)
    if np.isnan(observed).all():
        return None
    metric = rmse(predicted, observed)
    return HoldoutFacts(
        n_cells=int((~np.isnan(observed)).sum()),
        rule=split.rule,
        rmse=metric.value,
        low=_or_none(metric.low),
        high=_or_none(metric.high),
    )


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
