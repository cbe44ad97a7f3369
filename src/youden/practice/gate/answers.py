"""What a run's answers say of the difference of two agents, and how much surer more calls would be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.judging.config.reading import load_judge_config
from youden.judging.registry import JURY, REPLAY
from youden.nouns import PAIRED, Plan, Rates, Verdicts
from youden.nouns.arrays import Bools, Floats, Positions
from youden.protocol.extension.blocks import extensions_of, first_in_slots
from youden.protocol.rates import tally
from youden.protocol.scores import train_scores
from youden.run.abilities import abilities_of, learned_from, trial_weights
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.trials.item_contributions import Left, item_contributions, paired_difference, variance_left
from youden.study.replay import usd_per_call

BY_TRIALS = "means of trials, residuals summed by item, Student t"
BY_FIT = "clipped-linear abilities, HC2 covariance, Student t"
_STEPS = 4000


class Outlook(NamedTuple):
    """A difference of abilities now, and what more calls would leave of its variance.

    own + noise: its variance, the items' own part and what more trials on them take away.
    n_items: those that say something about either.
    calls: int64[n], calls more, up to all there are; left: what they leave of either part; items_then: int64[n].
    """

    value: float
    own: float
    noise: float
    n_items: int
    calls: Positions
    left: Left
    items_then: Positions


@dataclass(frozen=True, eq=False)
class GateAnswers:
    """A run as a gate sees it. judged: bool[K]; digest: sha256 (hex) of the answers; n_calls: None where it was imported.

    extends: whether its design goes on from where it is, as slots do.
    """

    agent_ids: tuple[str, ...]
    n_items: int
    judged: Bools
    outlook: Callable[[int, int], Outlook]
    method: str
    digest: str
    signature: str
    n_calls: int | None
    extends: bool
    usd_a_call: float | None


def read_answers(folder: RunFolder) -> GateAnswers:
    """The answers in `folder`. Raises: RunFolderError where it is not judged and fitted."""
    if not (folder.has("plan.parquet") or folder.has("verdicts.parquet")):
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
        method=BY_FIT if abilities_of(result) is None else BY_TRIALS,
        digest=hasher.hexdigest(),
        signature=folder.read_signature().text,
        n_calls=len(plan),
        extends=plan.rounds is None and (first_in_slots(plan) or bool(extensions_of(plan).steps)),
        usd_a_call=_usd_a_call(folder, plan),
    )


def outlooks(result: Verdicts) -> Callable[[int, int], Outlook]:
    """The outlook on (new, old), positions of two agents, by the estimator that ranks the plan."""
    found = abilities_of(result)
    return _by_fit(tally(result), result.plan) if found is None else _by_trials(result, found.ability)


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
        extends=False,
        usd_a_call=None,
    )


def _by_trials(result: Verdicts, ability: Floats) -> Callable[[int, int], Outlook]:
    plan, weight = result.plan, trial_weights(result.plan)
    used = learned_from(result) if extensions_of(plan).steps else (plan.slot >= 0) & result.answered
    found = item_contributions(
        plan.first[used],
        plan.second[used],
        plan.item[used],
        result.answer[used],
        ability=ability,
        first_weight=weight.first[used],
        second_weight=weight.second[used],
        n_items=plan.n_items,
    )
    n_slots = found.n_trials.sum(axis=1) / 2
    ways = 2 if plan.options.get("pairs") == "unordered" else 1
    most = plan.n_items * (extensions_of(plan).anchors - 1) // ways

    def outlook(new: int, old: int) -> Outlook:
        now = max(1, round(float(n_slots[[new, old]].mean())))
        slots = _steps(now, most)
        calls = (slots - now) * calls_a_slot(plan, n_agents=2)
        left = variance_left(slots, now=now, n_items=plan.n_items)
        return Outlook(*paired_difference(found, new, old), calls, left, np.minimum(slots, plan.n_items))

    return outlook


def calls_a_slot(plan: Plan, *, n_agents: int) -> int:
    """Calls of both arms that a slot takes which counts for some agents alone, each once first and once second."""
    return 2 * n_agents * (2 if plan.independent == "twin" else 1)


def _by_fit(rates: Rates, plan: Plan | None) -> Callable[[int, int], Outlook]:
    """Variances go as one over the paired calls: on the two agents alone where the plan has slots, else on everybody."""
    scores = train_scores(rates, None if plan is None else plan.split, kind="symmetric")
    model = ClippedLinear().fit(scores)
    more: Positions = np.empty(0, dtype=np.int64)
    ratio: Floats = np.empty(0)
    if plan is not None and first_in_slots(plan):
        now = max(1, round(int((plan.arm == PAIRED).sum()) / plan.n_agents))
        then = _steps(now, plan.n_items * (plan.n_agents - 1))
        more, ratio = (then - now) * calls_a_slot(plan, n_agents=2), now / then
    elif plan is not None:
        on_item = (plan.split.train | plan.split.holdout).sum(axis=0, dtype=np.int64)
        now = int((plan.arm == PAIRED).sum())
        then = _steps(now, int((on_item * (on_item - 1)).sum()))
        more, ratio = (then - now) * (2 if plan.independent == "twin" else 1), now / then

    def outlook(new: int, old: int) -> Outlook:
        C = model.covariance_
        variance = float(C[new, new] + C[old, old] - 2 * C[new, old])
        value = float(model.ability_[new] - model.ability_[old])
        n_items = int((scores.weight[[new, old]] > 0).any(axis=0).sum())
        return Outlook(value, max(variance, 0.0), 0.0, n_items, more, Left(ratio, ratio), np.full(len(more), n_items))

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
