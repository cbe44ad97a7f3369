"""Everything that follows from the answers: rates → scores → fit → ranking, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from youden import __version__
from youden.data.folder.run_folder import RunFolder
from youden.engines.block_sums import PairSums
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
from youden.nouns.pool import Floats, Positions, or_none
from youden.protocol.blocks import without_follow_ups
from youden.protocol.scores import pooled_fpr, train_scores
from youden.run.ability import Groups, choice_of, ranking_table
from youden.run.extension import extension_facts
from youden.run.ranking import Estimated, learn, ranking_warnings
from youden.run.standings import (
    MadeStanding,
    answers_with_follow_ups,
    ordered_by,
    standing_findings,
    standings_of,
    with_standings,
)
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import rmse
from youden.stats.curl.link_table import LinkCurls, measure_curl
from youden.stats.trials.partner_halves import partner_halves
from youden.streams import own_stream

FACTS_VERSION = 1
N_DEPENDENT = 3
"""Agents named that depend most on who else was in the pool."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """The tables of a run's folder that follow from its answers, whichever engine summed them."""

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
    made = standings_of(rates, found, split=split, rules=rules, component=learned.component, asked_more=asked_more)
    if result is not None:
        warnings = (*warnings, *ranking_warnings(result, message=learned.model.message_))
    elif learned.model.message_:
        warnings = (*warnings, Finding("fit", learned.model.message_))
    standings = {one.name: one.facts for one in made}
    return assembled(
        learned,
        row=train_scores(rates, split, kind="row"),
        pairs=pair_sums(rates, split),
        n_trials=np.bincount(rates.item, weights=rates.n_paired, minlength=rates.n_items).astype(int),
        fpr=pooled_fpr(rates) if rates.detail is not None else None,
        calls=calls,
        warnings=(*warnings, *standing_findings(standings)),
        rules=rules,
        standings=standings,
        made=made,
        growth=extension_facts(result, found) if result is not None else None,
        groups=groups,
    )


def pair_sums(rates: Rates, split: Split | None = None) -> PairSums:
    """What is known of every two agents, from rates in memory."""
    sums = PairSums(rates.n_agents, own_rates=rates.independent == "twin")
    learned, seen = rates.n_paired > 0, ~np.isnan(rates.tpr)
    if split is not None:
        learned &= split.train[rates.first, rates.item] & split.train[rates.second, rates.item]
    cells = np.zeros((rates.n_agents, rates.n_items), dtype=np.bool_)
    for agent in (rates.first[seen], rates.second[seen]):
        cells[agent, rates.item[seen]] = True
    sums.add(rates, learned=learned, n_cells=int(cells.sum()))
    return sums


def assembled(
    of: Estimated,
    *,
    row: Scores,
    pairs: PairSums,
    n_trials: Positions,
    fpr: float | None,
    calls: CallFacts | None,
    warnings: Sequence[Finding],
    rules: PartnerRules,
    standings: dict[StandingName, StandingFacts],
    made: Sequence[MadeStanding] = (),
    growth: ExtensionFacts | None = None,
    groups: Groups | None = None,
) -> Analysis:
    """Ranking, items, curl and facts of what was estimated, once for all engines.

    n_trials: int64[J], an item's answered paired trials. standings: what is said of the rankings beside the plain one; made:
    those that there are, one of which `rules` may put at the head.
    """
    ids, model, found = of.scores.agent_ids, of.model, of.found
    links = link_facts({"row": row, "symmetric": of.scores})
    heads = ((one.found, one.apart) for one in made if one.name == rules.ranked_by)
    leading, head = next(((moved, apart) for moved, apart in heads if moved and apart), (found, of.apart))
    ranking = with_standings(ranking_table(found, ids, apart=of.apart, groups=groups), made, ids)
    cells = of.scores.cells
    return Analysis(
        learned=of,
        row=row,
        ranking=ranking if rules.ranked_by == "plain" else ordered_by(ranking, rules.ranked_by),
        items=pd.DataFrame(
            {
                "item": list(of.scores.item_ids),
                "difficulty": model.difficulty_,
                "n_agents": np.bincount(cells.at.item[cells.weight > 0], minlength=cells.at.n_items),
                "n_trials": n_trials,
            }
        ),
        curl=links.curves,
        pairs=pairs.pairs(of.apart, model.ability_),
        facts=RunFacts(
            version=FACTS_VERSION,
            ranking=found.ranking,
            interval=found.method,
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
            partners=partner_facts(*pairs.partners, ids),
            target=found.target,
            best=None if head.best is None else ids[head.best],
            told_apart=int(head.above.sum()),
            choice=choice_of(leading, ids, apart=head),
            ranked_by=rules.ranked_by,
            standings=standings,
            families=dict(rules.families),
            trusted=rules.trusted,
        ),
    )


def partner_facts(total: Floats, times: Floats, agent_ids: tuple[str, ...]) -> PartnerFacts | None:
    """How far two random halves of the partners agree, on what may be learned from; None with fewer than 5 agents, and where
    halves could not be correlated."""
    try:
        found = partner_halves(total, times, rng=own_stream(0))
    except StatisticsError:
        return None
    if np.isnan(found.correlation):
        return None
    order = np.argsort(-np.nan_to_num(found.moved), kind="stable")[:N_DEPENDENT]
    agents = tuple((agent_ids[i], float(found.moved[i])) for i in order if found.moved[i] > 0)
    return PartnerFacts(found.correlation, found.n_splits, agents)


def sign(facts: RunFacts, parts: Mapping[str, Json]) -> Signature:
    """Everything a run's numbers depend on. parts: what they were made from."""
    return Signature(
        {
            "youden": __version__,
            **parts,
            "ranking": facts.ranking,
            "interval": facts.interval,
            "target": facts.target,
        }
    )


def judged_parts(
    plan: Plan, judge: Mapping[str, Json], models: tuple[str, ...], *, digest: str, n_trials: int
) -> dict[str, Json]:
    """Pool, plan and judge of a judged run. digest, n_trials: the plan's, whose trials are not looked at."""
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
