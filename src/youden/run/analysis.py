"""Everything that follows from the answers: rates → scores → fit → ranking, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from youden import __version__
from youden.data.folder.run_folder import RunFolder
from youden.engines.tallying import PairSums
from youden.errors import StatisticsError
from youden.nouns import (
    CallFacts,
    CurlCurve,
    ExtensionFacts,
    Finding,
    HoldoutFacts,
    Json,
    LinkFacts,
    Pairs,
    PartnerFacts,
    PartnerRules,
    Plan,
    Rates,
    RunFacts,
    ScoreKind,
    Scores,
    Signature,
    Split,
    StandingFacts,
    StandingName,
    Target,
    Verdicts,
)
from youden.nouns.pool import Positions, or_none
from youden.protocol.blocks import without_follow_ups
from youden.protocol.scores import pooled_fpr, train_scores
from youden.run.ability import Groups, ranking_table
from youden.run.extension import extension_facts
from youden.run.ranking import Estimated, Learned, learn, ranking_warnings
from youden.run.standings import (
    answers_with_follow_ups,
    ordered_by,
    paired_answers,
    standing_findings,
    standings_of,
    with_standings,
)
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import rmse
from youden.stats.curl.link_table import LinkCurls, measure_curl
from youden.stats.trials.comparisons import Differences
from youden.stats.trials.partner_halves import PartnerHalves, partner_halves
from youden.streams import own_stream

FACTS_VERSION = 1
N_DEPENDENT = 3
"""Agents named that depend most on who else was in the pool."""


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a run's folder that follow from its answers, whichever engine made them.

    pairs: what a report is made from.
    """

    learned: Estimated
    row: Scores
    ranking: pd.DataFrame
    items: pd.DataFrame
    curl: tuple[CurlCurve, ...]
    facts: RunFacts
    pairs: Pairs

    @property
    def symmetric(self) -> Scores:
        return self.learned.scores

    @property
    def holdout(self) -> Scores | None:
        return self.learned.holdout

    def write(self, folder: RunFolder, signature: Signature, *, run: str) -> None:
        """All of them into the folder of a fit. run: its name."""
        folder.write_scores("symmetric", self.symmetric)
        folder.write_scores("row", self.row)
        if self.holdout is not None:
            folder.write_holdout(self.holdout)
        folder.write_ranking(self.ranking)
        folder.write_pairs(self.pairs, agents=self.symmetric.agent_ids)
        folder.write_items(self.items)
        folder.write_curl(self.curl)
        folder.write_facts(self.facts)
        folder.write_signature(signature)
        folder.write_ranking_json(run)


@dataclass(frozen=True, eq=False)
class Analysis(Tables):
    """Everything that follows from the answers: the tables of a run's folder, and what they were made from."""

    learned: Learned

    @property
    def rates(self) -> Rates:
        return self.learned.rates


def analyse(
    rates: Rates,
    *,
    split: Split | None = None,
    result: Verdicts | None = None,
    groups: Groups | None = None,
    warnings: tuple[Finding, ...] = (),
    target: Target = "items-like-these",
    rules: PartnerRules | None = None,
) -> Analysis:
    """Scores, fit and ranking from rates; with `result`, the trials themselves rank a cyclic plan.

    groups: agent id → group, shown and never used in a fit. target: what intervals are about. rules: whose word counts in the
    rankings beside the plain one, and which of them heads the run.

    Raises: StatisticsError where the ranking that the rules put at the head cannot be made.
    """
    rules = rules or PartnerRules()
    asked_more = answers_with_follow_ups(result)
    calls = CallFacts.of(result) if result is not None else None
    if result is not None:
        result = without_follow_ups(result)
    learned = learn(rates, split=split, result=result, target=target)
    found = learned.found
    row = train_scores(rates, split, kind="row")
    links = link_facts({"row": row, "symmetric": learned.scores})
    made = standings_of(rates, found, split=split, rules=rules, component=learned.component, asked_more=asked_more)
    head = next((one.apart for one in made if one.name == rules.ranked_by and one.apart is not None), None)
    said = list(warnings)
    if result is not None:
        said += ranking_warnings(result, message=learned.model.message_)
    elif learned.model.message_:
        said.append(Finding("fit", learned.model.message_))
    standings = {one.name: one.facts for one in made}
    said += standing_findings(standings)
    facts = facts_of(
        learned,
        links,
        fpr=pooled_fpr(rates) if rates.detail is not None else None,
        calls=calls,
        warnings=said,
        rules=rules,
        standings=standings,
        head=head,
        growth=extension_facts(result, found) if result is not None else None,
        partners=partner_facts(rates, split),
    )
    ranking = with_standings(
        ranking_table(found, rates.agent_ids, apart=learned.apart, groups=groups), made, rates.agent_ids
    )
    n_trials = np.bincount(rates.item, weights=rates.n_paired, minlength=rates.n_items).astype(int)
    return Analysis(
        learned=learned,
        row=row,
        ranking=ranking if rules.ranked_by == "plain" else ordered_by(ranking, rules.ranked_by),
        items=items_table(learned, n_trials),
        curl=links.curves,
        facts=facts,
        pairs=known_pairs(learned),
    )


def known_pairs(of: Learned) -> Pairs:
    """What is known of every two agents, from rates in memory."""
    rates = of.rates
    sums = PairSums(rates.n_agents, own_rates=rates.independent == "twin")
    learned, seen = rates.n_paired > 0, ~np.isnan(rates.tpr)
    if of.split is not None:
        learned &= of.split.train[rates.first, rates.item] & of.split.train[rates.second, rates.item]
    cells = np.zeros((rates.n_agents, rates.n_items), dtype=np.bool_)
    for agent in (rates.first[seen], rates.second[seen]):
        cells[agent, rates.item[seen]] = True
    sums.add(rates, learned=learned, n_cells=int(cells.sum()))
    return sums.pairs(of.apart, of.model.ability_)


def facts_of(
    of: Estimated,
    links: Links,
    *,
    fpr: float | None,
    calls: CallFacts | None,
    warnings: Sequence[Finding],
    rules: PartnerRules,
    standings: dict[StandingName, StandingFacts],
    head: Differences | None = None,
    growth: ExtensionFacts | None = None,
    partners: PartnerFacts | None,
) -> RunFacts:
    """The facts of a run. head: of the ranking that `rules` put at the head; None for the plain one."""
    model, head = of.model, head or of.apart
    return RunFacts(
        version=FACTS_VERSION,
        ranking=of.found.ranking,
        interval=of.found.method,
        level=of.apart.level,
        estimator="clipped-linear",
        status=model.status_,
        message=model.message_,
        kkt=model.kkt_,
        n_components=model.n_components_,
        r2=or_none(model.r2_),
        fpr=fpr,
        calls=calls,
        holdout=holdout_facts(model, of.holdout, of.split),
        links=links.tables,
        links_missing=links.missing,
        warnings=tuple(warnings),
        growth=growth,
        partners=partners,
        target=of.found.target,
        best=None if head.best is None else of.scores.agent_ids[head.best],
        told_apart=int(head.above.sum()),
        ranked_by=rules.ranked_by,
        standings=standings,
        families=dict(rules.families),
        trusted=rules.trusted,
    )


def items_table(of: Estimated, n_trials: Positions) -> pd.DataFrame:
    """A row an item. n_trials: int64[J], its answered paired trials."""
    cells = of.scores.cells
    return pd.DataFrame(
        {
            "item": list(of.scores.item_ids),
            "difficulty": of.model.difficulty_,
            "n_agents": np.bincount(cells.at.item[cells.weight > 0], minlength=cells.at.n_items),
            "n_trials": n_trials,
        }
    )


def partner_facts(rates: Rates, split: Split | None) -> PartnerFacts | None:
    """How far two random halves of the partners agree, on what may be learned from; None with fewer than 5 agents."""
    of = paired_answers(rates, split)
    try:
        found = partner_halves(
            of.first, of.second, of.item, of.value, weight=of.weight, n_agents=rates.n_agents, rng=own_stream(0)
        )
    except StatisticsError:
        return None
    return dependence(found, rates.agent_ids)


def dependence(found: PartnerHalves, agent_ids: tuple[str, ...]) -> PartnerFacts | None:
    """What a reader is told of two halves; None where they could not be correlated."""
    if np.isnan(found.correlation):
        return None
    order = np.argsort(-np.nan_to_num(found.moved), kind="stable")[:N_DEPENDENT]
    agents = tuple((agent_ids[i], float(found.moved[i])) for i in order if found.moved[i] > 0)
    return PartnerFacts(found.correlation, found.n_splits, agents)


def sign(facts: RunFacts, rates: Rates, *, result: Verdicts | None = None) -> Signature:
    """Everything a run's numbers depend on: pool, plan and judge of a judged run, the rates of an imported one."""
    parts: dict[str, Json] = {"youden": __version__}
    if result is None:
        parts["imported_rates"] = rates.digest[:12]
    else:
        plan = result.plan
        parts |= judged_parts(plan, result.judge, result.models, digest=plan.digest, n_trials=len(plan))
    return Signature(parts | {"ranking": facts.ranking, "interval": facts.interval, "target": facts.target})


def judged_parts(
    plan: Plan, judge: Mapping[str, Json], models: tuple[str, ...], *, digest: str, n_trials: int
) -> dict[str, Json]:
    """What a judged run's numbers depend on. digest, n_trials: the plan's, whose trials are not looked at."""
    return {
        "pool": plan.pool_digest[:12],
        "plan": digest[:12],
        "design": plan.design,
        "calls": n_trials,
        "independent": plan.independent,
        "holdout": plan.split.fraction,
        "rule": plan.split.rule,
        "seed": plan.seed,
        "judge": str(judge.get("name")),
        "judge_detail": dict(judge),
        "options": plan.said,
        "models": list(models),
    }


class Links(NamedTuple):
    """The link table of each kind of scores, or why there is none; curves of the symmetric ones."""

    tables: dict[ScoreKind, dict[str, LinkFacts]]
    missing: dict[ScoreKind, str]
    curves: tuple[CurlCurve, ...]


def link_facts(scores: Mapping[ScoreKind, Scores]) -> Links:
    """The curl of each kind of scores, measured once."""
    found: dict[ScoreKind, LinkCurls] = {}
    missing: dict[ScoreKind, str] = {}
    for kind, of in scores.items():
        try:
            found[kind] = measure_curl(of)
        except StatisticsError as error:
            missing[kind] = str(error)
    tables = {kind: found[kind].table() if kind in found else {} for kind in scores}
    return Links(tables, missing, found["symmetric"].curves() if "symmetric" in found else ())


def holdout_facts(model: ClippedLinear, held: Scores | None, split: Split | None) -> HoldoutFacts | None:
    """RMSE of clipped predictions over held-out cells whose agent and item were both seen in training."""
    if held is None or split is None:
        return None
    at, observed, _ = held.cells
    predicted = model.predict_at(at.agent, at.item)
    known = ~np.isnan(predicted)
    if not known.any():
        return None
    metric = rmse(predicted[known], observed[known])
    return HoldoutFacts(
        n_cells=int(known.sum()),
        rule=split.rule,
        rmse=metric.value,
        low=or_none(metric.low),
        high=or_none(metric.high),
    )
