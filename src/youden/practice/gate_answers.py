"""What a run's answers say of the difference of two agents, and how much surer more calls would be.

It knows which estimator ranks the run and what its design would ask next; it refuses to know margins, levels and verdicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.analysis import ranked_by_trials, trial_weights
from youden.data.run_folder import RunFolder
from youden.judging.judge_config import load_judge_config
from youden.judging.registry import JURY, REPLAY
from youden.protocol.rates import tally
from youden.protocol.scores import train_scores
from youden.stats.clipped_linear import ClippedLinear
from youden.stats.item_contributions import ItemContributions, item_contributions, later_variance, paired_difference
from youden.study.replay import usd_per_call
from youden.types import PAIRED, Plan, Rates, Verdicts
from youden.types.arrays import Bools, Floats, Positions

BY_TRIALS = "means of trials, residuals summed by item, Student t"
BY_FIT = "clipped-linear abilities, HC2 covariance, Student t"
_STEPS = 4000


class Outlook(NamedTuple):
    """A difference of abilities now, and what more calls would make of its variance.

    n_items: that tell of either agent. calls: int64[n], calls more; variance_then, items_then: with them, [n] each, n = 0 where
    nothing can be asked. variance_at_most: with every comparison on these items asked.
    """

    value: float
    variance: float
    n_items: int
    calls: Positions
    variance_then: Floats
    items_then: Positions
    variance_at_most: float


@dataclass(frozen=True, eq=False)
class GateAnswers:
    """A run as a gate sees it. judged: bool[K]; digest: sha256 (hex) of the answers; n_calls: None where it was imported."""

    agent_ids: tuple[str, ...]
    n_items: int
    judged: Bools
    outlook: Callable[[int, int], Outlook]
    method: str
    digest: str
    signature: str
    n_calls: int | None
    usd_a_call: float | None


def read_answers(folder: RunFolder) -> GateAnswers:
    """The answers in `folder`. Raises: RunFolderError where it is not judged and fitted."""
    if not folder.has("plan.parquet"):
        return _imported(folder)
    plan = folder.read_plan()
    result = folder.read_verdicts(plan)
    used = (plan.arm == PAIRED) & result.answered
    judged = np.bincount(np.append(plan.first[used], plan.second[used]), minlength=plan.n_agents) > 0
    hasher = hashlib.sha256(plan.digest.encode())
    hasher.update(np.ascontiguousarray(result.answer).tobytes())
    return GateAnswers(
        agent_ids=plan.agent_ids,
        n_items=plan.n_items,
        judged=judged,
        outlook=outlooks(result),
        method=BY_TRIALS if ranked_by_trials(plan) else BY_FIT,
        digest=hasher.hexdigest(),
        signature=folder.read_signature().text,
        n_calls=len(plan),
        usd_a_call=_usd_a_call(folder, plan),
    )


def outlooks(result: Verdicts) -> Callable[[int, int], Outlook]:
    """The outlook on (new, old), positions of two agents, by the estimator that ranks the plan."""
    plan = result.plan
    return _by_trials(plan, result) if ranked_by_trials(plan) else _by_fit(tally(result), plan)


def _imported(folder: RunFolder) -> GateAnswers:
    rates = folder.read_rates()
    judged = np.bincount(np.append(rates.first, rates.second), minlength=rates.n_agents) > 0
    return GateAnswers(
        agent_ids=rates.agent_ids,
        n_items=rates.n_items,
        judged=judged,
        outlook=_by_fit(rates, None),
        method=BY_FIT,
        digest=rates.digest,
        signature=folder.read_signature().text,
        n_calls=None,
        usd_a_call=None,
    )


def _by_trials(plan: Plan, result: Verdicts) -> Callable[[int, int], Outlook]:
    used = (plan.slot >= 0) & result.answered
    weight = trial_weights(plan)
    found = item_contributions(
        plan.first[used],
        plan.second[used],
        plan.item[used],
        result.answer[used],
        first_weight=weight.first[used],
        second_weight=weight.second[used],
        n_agents=plan.n_agents,
        n_items=plan.n_items,
    )
    most = (plan.n_agents - 1) * (1 if plan.options.get("pairs") == "unordered" else 2)
    now = max(1, round(int((plan.slot >= 0).sum()) / plan.n_agents))
    return partial(_difference_by_trials, found, now=now, most=most)


def _difference_by_trials(found: ItemContributions, new: int, old: int, *, now: int, most: int) -> Outlook:
    n_agents, n_items = found.by_item.shape
    difference = paired_difference(found, new, old, most=most)
    slots = _steps(now, n_items * most // 2)
    then = later_variance(difference, slots, now=now, n_items=n_items, most=most)
    return Outlook(
        difference.value,
        difference.variance,
        difference.n_items,
        (slots - now) * n_agents,
        then,
        np.minimum(slots, n_items),
        float(min(then, default=difference.variance)),
    )


def _by_fit(rates: Rates, plan: Plan | None) -> Callable[[int, int], Outlook]:
    """Variances go as one over the paired calls, up to every pair of cells there is."""
    scores = train_scores(rates, None if plan is None else plan.split, kind="symmetric")
    model = ClippedLinear().fit(scores)
    more: Positions = np.empty(0, dtype=np.int64)
    ratio: Floats = np.empty(0)
    if plan is not None:
        on_item = (plan.split.train | plan.split.holdout).sum(axis=0, dtype=np.int64)
        now = int((plan.arm == PAIRED).sum())
        then = _steps(now, int((on_item * (on_item - 1)).sum()))
        more, ratio = (then - now) * (2 if plan.independent == "twin" else 1), now / then

    def outlook(new: int, old: int) -> Outlook:
        C = model.covariance_
        variance = float(max(C[new, new] + C[old, old] - 2 * C[new, old], 0.0))
        n_items = int((scores.weight[[new, old]] > 0).any(axis=0).sum())
        return Outlook(
            float(model.ability_[new] - model.ability_[old]),
            variance,
            n_items,
            more,
            variance * ratio,
            np.full(len(more), n_items),
            variance * float(min(ratio, default=1.0)),
        )

    return outlook


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
    usd = None if judge.backend in (JURY, REPLAY) else plan.cost(judge).usd
    return None if usd is None else usd / len(plan)
