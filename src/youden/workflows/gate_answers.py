"""What a run's answers say of the difference of two agents, and how much surer more calls would be."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.judging.backend_records import JURY, REPLAY
from youden.judging.config.judge_files import load_judge_config
from youden.judging.estimate import cost_by_characters
from youden.pipeline.abilities import Abilities
from youden.pipeline.additive_abilities import answers_of, fitted_abilities
from youden.pipeline.multi_judge import learned
from youden.pipeline.ranking import abilities_of
from youden.protocol.blocks import extensions_of, first_in_slots
from youden.run_keys import Target
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.trial_fit import trial_fit
from youden.stats.base.clusters import Blocks
from youden.stats.trials.noninferiority import QuietDifference, quiet_difference
from youden.stats.trials.trial_errors import ItemContributions, VarianceLeft, item_contributions, variance_left
from youden.study.replaying import usd_per_call
from youden.types import PAIRED, Plan, Scores, Verdicts
from youden.types.pool import Bools, Floats, Positions
from youden.types.results import Rates

BY_TRIALS = "means of trials, residuals summed by item, events not seen yet allowed for, Student t"
BY_FIT = "abilities fitted to trials, residuals summed by item, events not seen yet allowed for, Student t"
UNLINKED = QuietDifference(math.nan, math.nan, 0, math.nan, math.nan)
_STEPS = 4000


class DifferenceForecast(NamedTuple):
    """A difference of abilities now, its variance NaN where nothing says how two agents compare.

    calls: int64[n], calls more, up to all there are; left: what they leave of the items' own part of the variance and of the
    noise; items_then: int64[n].
    """

    now: QuietDifference
    calls: Positions
    left: VarianceLeft
    items_then: Positions


class QualityDifference(NamedTuple):
    """One agent's quality less another's, in the labels' units, with its interval; n_labels: labelled answers of both."""

    value: float
    low: float
    high: float
    n_labels: int


@dataclass(frozen=True, eq=False)
class GateAnswers:
    """A run as a gate sees it. judged: bool[K]; digest: sha256 (hex) of the answers; n_calls: None where it was imported.

    extends: whether its design goes on from where it is, as slots do. quality: of (agent, baseline, level), where labels decide.
    """

    agent_ids: tuple[str, ...]
    n_items: int
    judged: Bools
    outlook: Callable[[int, int], DifferenceForecast]
    method: str
    digest: str
    signature: str
    n_calls: int | None
    extends: bool
    usd_a_call: float | None
    quality: Callable[[str, str, float], QualityDifference] | None = None


def read_answers(folder: RunFolder, *, target: Target = "items-like-these") -> GateAnswers:
    """The answers in `folder`. target: what a difference is about. Raises: RunFolderError where it is not judged and fitted."""
    if not (folder.has("plan.parquet") or folder.has("verdicts.parquet")):
        rates, plan = folder.read_rates(), None
        first, second, digest = rates.first, rates.second, rates.digest
        agent_ids, n_items = rates.agent_ids, rates.n_items
        fitted, outlook = True, _by_fit(rates, None, target)
    else:
        plan = folder.read_plan()
        result = folder.read_verdicts(plan)
        used = (plan.arm == PAIRED) & result.answered
        first, second = plan.first[used], plan.second[used]
        answers = np.ascontiguousarray(result.answer).tobytes()
        digest = hashlib.sha256(plan.digest.encode() + answers).hexdigest()
        agent_ids, n_items = plan.agent_ids, plan.n_items
        found = abilities_of(result, target=target)
        fitted, outlook = found is None, outlooks(result, found, target=target)
    return GateAnswers(
        agent_ids=agent_ids,
        n_items=n_items,
        judged=np.bincount(np.append(first, second), minlength=len(agent_ids)) > 0,
        outlook=outlook,
        method=_method(fitted=fitted, target=target),
        digest=digest,
        signature=folder.read_signature().text,
        n_calls=None if plan is None else len(plan),
        extends=plan is not None and plan.rounds is None and (first_in_slots(plan) or bool(extensions_of(plan).steps)),
        usd_a_call=None if plan is None else _usd_a_call(folder, plan),
    )


def outlooks(
    result: Verdicts, found: Abilities | None, *, target: Target = "items-like-these"
) -> Callable[[int, int], DifferenceForecast]:
    """The outlook on (new, old), positions of two agents. found: what `abilities_of` gives of the same answers."""
    if found is None:
        return _by_fit(result.rates(), result.plan, target)
    outlook = _by_trials(result, found.ability)
    return outlook if target == "items-like-these" else _on_these(found, outlook)


def _method(*, fitted: bool, target: Target) -> str:
    method = BY_FIT if fitted else BY_TRIALS
    return method if target == "items-like-these" else f"{method.split(',')[0]}, errors as in the ranking, Student t"


def _on_these(
    found: Abilities, kind: Callable[[int, int], DifferenceForecast]
) -> Callable[[int, int], DifferenceForecast]:
    """The same outlook, with the variance that the ranking has on these items: more calls on them take it all away.

    It is forecast to go as one over the calls, and does so at least.
    """

    def outlook(new: int, old: int) -> DifferenceForecast:
        than, C = kind(new, old), found.covariance.covariance
        variance = max(float(C[new, new] + C[old, old] - 2 * C[new, old]), 0.0)
        now = than.now._replace(variance=variance, noise=variance, hidden=0.0)
        return DifferenceForecast(now, than.calls, VarianceLeft(than.left.noise, than.left.noise), than.items_then)

    return outlook


def _by_trials(result: Verdicts, ability: Floats) -> Callable[[int, int], DifferenceForecast]:
    plan = result.plan
    used = learned(result) if extensions_of(plan).steps else (plan.slot >= 0) & result.answered
    found = item_contributions(
        plan.first[used],
        plan.second[used],
        plan.item[used],
        result.answer[used],
        ability=ability,
        first_weight=plan.trials.weight_first[used],
        second_weight=plan.trials.weight_second[used],
        n_items=plan.n_items,
    )
    n_slots = found.n_trials.sum(axis=1) / 2
    ways = 2 if plan.options.get("pairs") == "unordered" else 1
    most = plan.n_items * (extensions_of(plan).anchors - 1) // ways

    def outlook(new: int, old: int) -> DifferenceForecast:
        now = max(1, round(float(n_slots[[new, old]].mean())))
        slots = _steps(now, most)
        calls = (slots - now) * calls_a_slot(plan, n_agents=2)
        left = variance_left(slots, now=now, n_items=plan.n_items)
        return DifferenceForecast(quiet_difference(found, new, old), calls, left, np.minimum(slots, plan.n_items))

    return outlook


def calls_a_slot(plan: Plan, *, n_agents: int) -> int:
    """Calls of both arms that a slot takes which counts for some agents alone, each once first and once second."""
    return 2 * n_agents * (2 if plan.independent == "twin" else 1)


def _by_fit(rates: Rates, plan: Plan | None, target: Target) -> Callable[[int, int], DifferenceForecast]:
    """Variances go as one over the paired calls: on the two agents alone where the plan has slots, else on everybody."""
    scores = rates.training_scores(kind="symmetric")
    model = ClippedLinear().fit(scores)
    more: Positions = np.empty(0, dtype=np.int64)
    ratio: Floats = np.empty(0)
    if plan is not None:
        now, each = int((plan.arm == PAIRED).sum()), 2 if plan.independent == "twin" else 1
        on_item = (plan.split.train | plan.split.holdout).sum(axis=0, dtype=np.int64)
        most = int((on_item * (on_item - 1)).sum())
        if first_in_slots(plan):
            now, each = max(1, round(now / plan.n_agents)), calls_a_slot(plan, n_agents=2)
            most = plan.n_items * (plan.n_agents - 1)
        then = _steps(now, most)
        more, ratio = (then - now) * each, now / then
    answers = answers_of(rates)
    groups = contributions_of_fit(answers, n_agents=rates.n_agents, n_items=rates.n_items) or cell_contributions(
        model, scores
    )

    def outlook(new: int, old: int) -> DifferenceForecast:
        both = (of for of in groups if not np.isnan(of.ability[[new, old]]).any())
        of = next(both, None)
        now = UNLINKED if of is None else quiet_difference(of, new, old)
        return DifferenceForecast(now, more, VarianceLeft(ratio, ratio), np.full(len(more), now.n_items))

    if target == "these-items":
        return _on_these(fitted_abilities(model, scores, answers, fpr=None, target=target), outlook)
    return outlook


def contributions_of_fit(answers: Blocks, *, n_agents: int, n_items: int) -> tuple[ItemContributions, ...]:
    """What items contribute to abilities that were fitted to trials; empty where trials do not link all agents."""
    found = trial_fit(answers, n_agents=n_agents, n_items=n_items)
    if found is None:
        return ()
    by_item, _, weight = (np.concatenate(table, axis=1) for table in zip(*found.moves(), strict=True))
    share = weight / np.maximum(found.weight, np.finfo(np.float64).tiny)[:, None]
    return (ItemContributions(found.ability, by_item, share, weight, np.full(n_agents, np.nan)),)


def cell_contributions(model: ClippedLinear, scores: Scores) -> tuple[ItemContributions, ...]:
    """What items contribute to fitted abilities, once for each set of agents that more than one cell links."""
    shape = len(scores.agent_ids), len(scores.item_ids)
    found = []
    for moves in model.item_moves():
        ability: Floats = np.full(shape[0], np.nan)
        ability[moves.agents] = model.ability_[moves.agents]
        by_item, share, n_trials = np.zeros((3, *shape))
        by_item[moves.agents], share[moves.agents] = moves.by_item, moves.share
        n_trials[moves.agents] = np.where(moves.share > 0, scores.weight[moves.agents], 0.0)
        found.append(ItemContributions(ability, by_item, share, n_trials, np.full(shape[0], np.nan)))
    return tuple(found)


def _steps(now: int, most: int) -> Positions:
    """Numbers above `now` up to `most`, all of them or some thousands: int64[n]."""
    if most <= now:
        return np.empty(0, dtype=np.int64)
    return np.unique(np.geomspace(now + 1, most, _STEPS).round().astype(np.int64))


def _usd_a_call(folder: RunFolder, plan: Plan) -> float | None:
    """What a call of the run cost, or else would cost by its judge's prices; None where neither is known."""
    paid = usd_per_call(folder)
    if paid is not None or not folder.has("config.yaml"):
        return paid
    judge = load_judge_config(folder.read_config().judge)
    usd = None if judge.backend in (JURY, REPLAY) else cost_by_characters(plan, judge).usd
    return None if usd is None else usd / len(plan)
