"""Which estimator ranks a plan: trials in slots, rounds of a search, plans that were extended, fits of trials, or
cells.

Whoever ranks asks here: `rank`, a run's folder, the gate and the budget study.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.engines.block_kinds import RateBlock
from youden.engines.block_sums import symmetric_scores
from youden.engines.trial_blocks import TrialsByItem
from youden.nouns import PAIRED, Plan, Rates, Scores, Split, Target, Verdicts
from youden.nouns.pool import Bools, Positions
from youden.protocol.blocks import complete_part, extensions_of, in_complete_part
from youden.protocol.designs.adaptive import Adaptive, adaptive_of
from youden.protocol.scores import pooled_fpr, train_differences, train_scores
from youden.run.ability import (
    CELLS,
    FITTED,
    LEVEL,
    MOST,
    Abilities,
    ByItem,
    Look,
    Search,
    abilities_of_means,
    none_answered,
)
from youden.run.extended import at_step, extended_abilities
from youden.stats.additive.trial_fit import TrialFit, trial_fit
from youden.stats.base.clusters import Blocks, PairBlock
from youden.stats.trials.choice import comparable, luck, upper_ends, wanting
from youden.stats.trials.comparisons import Differences, differences
from youden.stats.trials.trial_errors import trial_means

if TYPE_CHECKING:
    from youden.stats.additive.clipped_linear import ClippedLinear

_AT_ONCE = 2_000_000
"""What a block of answers holds at most, if it holds more than one item: cells of agents × items, and answers on average."""


class Fitted(NamedTuple):
    """Training scores, what was fitted to them, and the abilities that rank."""

    scores: Scores
    model: ClippedLinear
    found: Abilities


def fit_rates(rates: Rates, split: Split | None = None, *, target: Target = "items-like-these") -> Fitted:
    """Of rates in memory, as `fitted_abilities`. Raises: as `train_scores` and `ClippedLinear.fit`."""
    from youden.stats.additive.clipped_linear import ClippedLinear

    scores = train_scores(rates, split)
    model, answers = ClippedLinear().fit(scores), answers_of(rates, split)
    return Fitted(scores, model, fitted_abilities(model, scores, answers, fpr=pooled_fpr(rates), target=target))


def fitted_abilities(
    model: ClippedLinear,
    scores: Scores,
    answers: Blocks,
    *,
    fpr: float | None,
    target: Target = "items-like-these",
    with_items: bool = False,
    n_first: int | None = None,
) -> Abilities:
    """By `trial_fit` of `answers`; by `cell_abilities` of `model`, fitted to `scores`, where it gives None.

    Their mean is what the average agent scores on the average item, of the first `n_first` items or of all.
    fpr: the rate that was taken off the answers, None where unknown. with_items: whether `by_item` is made.
    """
    n_agents, n_items = len(scores.agent_ids), len(scores.item_ids)
    found = trial_fit(answers, n_agents=n_agents, n_items=n_items)
    if found is None:
        return cell_abilities(model, scores, fpr=fpr, target=target, n_first=n_first)
    return _of_fit(found, float(np.nanmean(found.item_level[:n_first])), fpr or 0.0, target, with_items=with_items)


def _of_fit(found: TrialFit, level: float, fpr: float, target: Target, *, with_items: bool) -> Abilities:
    """level: what the average agent scores."""
    covariance, method = found.covariance, "additive fit of trials, residuals by item, HC2, shrunk variances, Student t"
    if target == "these-items":
        covariance, method = covariance.scaled_apart(found.left), f"{method}, finite population"
    return Abilities(
        np.clip(found.ability + level, -1, 1),
        covariance,
        found.weight.astype(np.int32),
        fpr,
        FITTED,
        method,
        target,
        ByItem.of(found) if with_items and target == "items-like-these" else None,
    )


def answers_of(rates: Rates, split: Split | None = None, *, drawn: bool | None = None) -> Blocks:
    """Answers less their false-positive rate, of pairs that may be learned from, by items.

    drawn: whether each pair's rate was drawn for it; by default as `rates` has it, where its independent arm is known.
    """
    value = train_differences(rates, split)
    kept = np.flatnonzero(~np.isnan(value))
    kept = kept[np.argsort(rates.item[kept], kind="stable")]
    first, second, item, value = rates.first[kept], rates.second[kept], rates.item[kept], value[kept]
    weight = rates.n_paired[kept].astype(np.float64)
    if drawn is None:
        drawn = rates.independent == "twin" and rates.detail is not None
    rate = rates.tpr[kept] - value if drawn else np.zeros(len(kept))
    step = max(1, _AT_ONCE * rates.n_items // max(rates.n_agents * rates.n_items, len(kept), 1))
    starts = range(0, rates.n_items, step)
    cuts = np.searchsorted(item, [*starts, rates.n_items]).tolist()

    def blocks() -> Iterator[PairBlock]:
        for start, low, high in zip(starts, cuts[:-1], cuts[1:], strict=True):
            rows = slice(low, high)
            yield PairBlock(
                first=first[rows],
                second=second[rows],
                item=item[rows] - np.int32(start),
                value=value[rows],
                weight=weight[rows],
                rate=rate[rows],
                n_items=min(step, rates.n_items - start),
            )

    return blocks


def answers_in_blocks(blocks: Callable[[], Iterable[RateBlock]], *, drawn: bool, less: float) -> Iterator[PairBlock]:
    """What `answers_of` gives, block by block. less: the rate that is taken off where pairs have none of their own."""
    for block in blocks():
        for one in answers_of(block.clean, block.split, drawn=drawn)():
            yield replace(one, value=one.value - less) if less else one


def cell_abilities(
    model: ClippedLinear,
    scores: Scores,
    *,
    fpr: float | None,
    target: Target = "items-like-these",
    n_first: int | None = None,
) -> Abilities:
    """Abilities where cells rank, from `model` fitted to `scores`. fpr: the rate that was taken off them, None where unknown.

    The model's abilities may lie beyond ±1, for a prediction may overshoot a score of ±1. Agents that trials link stand around
    the mean of their clipped predictions, on their items among the first `n_first`.
    On these items: the covariance over items × 1 − T_i/(PJ + 1), T_i answered trials of i, P = 2(K−1). That is too wide where
    most cells were asked: what an agent has of its own on an item then falls out.
    """
    at, _, weight = scores.cells
    n_trials = np.bincount(at.agent, weight, at.n_agents)
    found, method = model.centred_covariance, "additive fit, residuals by item, HC2, shrunk variances, Student t"
    if target == "these-items":
        found = found.scaled_apart(np.maximum(0.0, 1 - n_trials / (2 * (at.n_agents - 1) * at.n_items + 1)))
        method += ", finite population"
    by_item = None
    if target != "these-items":
        kept = weight > 0
        share = (weight / np.maximum(n_trials, np.finfo(np.float64).tiny)[at.agent])[kept]
        residual = model.residual_cells_
        by_item = ByItem(residual.at, residual.value * share, share)
    ability, predicted = model.ability_.copy(), model.predict()[:, :n_first]
    for one in range(model.n_components_):
        agents = model.component_ == one
        items = np.isin(np.arange(at.n_items), at.item[agents[at.agent]])[:n_first]
        if items.any():
            ability[agents] += predicted[np.ix_(agents, items)].mean() - ability[agents].mean()
    ability = np.clip(ability, -1, 1)
    return Abilities(ability, found, n_trials.astype(np.int32), fpr or 0.0, CELLS, method, target, by_item)


LITTLE, LEAST_SHARE = 0.05, 1e-4
"""What a look has of the error that is left where it is hardly the last one, and at least."""
LUCK = 0.5
"""The share of the expected luck that is taken off. With none, .16 to .36 standard errors of bias were left on four domains;
with all, as much the other way, for who stands out was not lucky."""
NEARLY = 0.999
"""A search that has spent so much of its budget has spent it."""
MOST_LOST = 0.05
"""Share of an agent's paired trials that may lack an answer where plain means rank."""


def abilities_of(
    result: Verdicts, *, target: Target = "items-like-these", before: Search | None = None
) -> Abilities | None:
    """`trial_abilities` of answers in memory."""
    return trial_abilities(TrialsByItem.of(result), target=target, before=before)


def trial_abilities(
    trials: TrialsByItem,
    *,
    target: Target = "items-like-these",
    before: Search | None = None,
    with_items: bool = False,
) -> Abilities | None:
    """Abilities from trials in slots; None where `fitted` ranks: dense and cell designs, gaps, a holdout, missing answers.

    before: the search as the look before found it, whose bounds need not be made again. with_items: whether `by_item` is made.
    """
    plan = trials.plan
    if plan.extensions is not None:
        return _searched_on(trials, anchors_of(trials, target=target))
    if plan.design == Adaptive.name and (found := _searched(trials, before, target=target)) is not None:
        return found
    if trials.slots is None or not plan.split.train.all() or not few_lost(*trials.slots):
        return None
    if not trials.slots[1].any():
        raise none_answered(trials.n_paired)
    these = target == "these-items"
    means = trial_means(
        lambda: (block.pairs(slots=these) for block in trials.answers()),
        n_agents=plan.n_agents,
        n_items=plan.n_items,
        target=target,
    )
    own, no_rate = trials.apart.own_rates, not trials.apart.n_trials
    return abilities_of_means(means, own, target, no_rate=no_rate, with_items=with_items)


def fitted(
    trials: TrialsByItem,
    *,
    target: Target = "items-like-these",
    with_items: bool = False,
    n_first: int | None = None,
    known: tuple[Scores, ClippedLinear] | None = None,
) -> Fitted:
    """Of trials, as `fitted_abilities`. known: scores and what was fitted to them. Raises: as `ClippedLinear.fit`."""
    from youden.stats.additive.clipped_linear import ClippedLinear

    scores, model = known or (made := symmetric_scores(trials), ClippedLinear().fit(made))
    of, rule = trials.apart, trials.plan.independent
    less = of.clean_rate if rule == "pooled" else 0.0
    answers = partial(answers_in_blocks, trials.blocks, drawn=rule == "twin", less=less)
    found = fitted_abilities(model, scores, answers, fpr=of.rate, target=target, with_items=with_items, n_first=n_first)
    return Fitted(scores, model, found)


def balanced(plan: Plan) -> bool:
    """Whether trials in slots compare every agent on the same items, so that plain means are fair.

    With gaps or a holdout each agent is seen on items of its own, and a mean mixes its ability with their difficulty: the
    slot intervals then cover .79–.93 of the time on the paper's data where the additive fit's cover .945–.97
    (`benchmarks/cyclic.py`), at the same rank correlation.
    """
    slot = plan.slot[plan.arm == PAIRED]
    return bool(len(slot) and (slot >= 0).all() and plan.split.train.all())


def few_lost(asked: Positions, answered: Positions) -> bool:
    """Whether no agent lacks the answers to more than `MOST_LOST` of its paired trials in slots that hold an answer: int[K] each.

    Answers that fail are not spread evenly. Where an agent lacks those on hard items, its mean is too high, and where it lacks
    a tenth of them its slot interval covers .82 of the time; the fit's covers .97.
    """
    return bool((asked - answered <= MOST_LOST * asked).all())


def _searched(trials: TrialsByItem, before: Search | None, *, target: Target) -> Abilities | None:
    """Abilities of an adaptive plan, less the pooled FPR, by `trial_fit` with a level for each slot; None where it gives None.

    What a round asks tells contenders apart on the same item and partner. Against everybody else they are measured by slots
    that all share: pairs of contenders need not answer what abilities add up to. The level is that of the pilot.
    Who was asked more had been lucky in what came before. Against everybody else that luck stays in, so `LUCK` of what is
    expected of it (`luck`) is taken off, but never so much that others are named. What is said of those named is by differences
    among them, which later rounds measure anew.
    """
    plan, design, rate = trials.plan, adaptive_of(trials.plan), trials.apart.rate or 0.0
    looks = [] if before is None else list(before.looks)
    pilot = np.zeros(2)
    for block in trials.answers():
        first = block.answer[(block.slot >= 0) & (block.step == 0)]
        pilot += len(first), first.sum()
    level, n_looks = float(pilot[1] / pilot[0]) - rate, len(trials.n_asked)
    for last in range(min(len(looks), n_looks - 1), n_looks):
        found = trial_fit(partial(_by_slots, trials, last, rate), n_agents=plan.n_agents, n_items=plan.n_items)
        if found is None:
            return None
        made = _of_fit(found, level, rate, target, with_items=True)
        told = differences(made.ability, made.covariance, level=LEVEL)
        come = min(1.0, int(trials.n_asked[: last + 1].sum()) / design.budget(plan.split.train))
        turn = trials.told[last] > 0
        looks[last:] = [_look(told, looks[:last], top=design.top, within=design.within, turn=turn, come=come)]
    search = Search(design.top, design.within, tuple(looks))
    lucky = LUCK * (looks[-1].carried - looks[-1].carried.mean())
    order = np.argsort(-made.ability, kind="stable")
    gap, less = (np.subtract.outer(of[order[: design.top]], of[order[design.top :]]) for of in (made.ability, lucky))
    lucky *= min(1.0, NEARLY * float(np.min(gap / np.where(less > 0, less, 1.0), where=less > 0, initial=np.inf)))
    return made._replace(
        search=search,
        ability=np.clip(made.ability - lucky, -1, 1),
        method=made.method if len(looks) == 1 else f"{made.method}, less the luck of who was asked more",
    )


def _by_slots(trials: TrialsByItem, last: int, rate: float) -> Iterator[PairBlock]:
    """Answers of the rounds until `last`, less a rate, with a level for each slot."""
    for block in trials.answers():
        part = block.where((block.slot >= 0) & (block.step <= last))
        n_slots = int((np.bincount(part.slot) > 0).sum())
        for few in part.cut(1 + trials.plan.n_agents * n_slots // _AT_ONCE):
            yield few.pairs(less=rate, slots=True, told=True)


def _look(
    told: Differences, before: Sequence[Look], *, top: int, within: float | None, turn: Bools, come: float
) -> Look:
    """A look after a round, and how much of the error that all looks may have together the next one has.

    In a search until its budget is spent, what the share of that has grown by (Lan and DeMets (1983), Biometrika 70); in one
    until a bound is there, most of what is left where the next round is expected to bring it, little of it before.
    turn: bool[K], whose turn the round was; come: the share of the budget that is spent.
    """
    carried = before[-1].carried if before else np.zeros(len(turn))
    if before and turn.any():
        carried = carried + np.where(turn, before[-1].luck[turn].mean(), 0.0)
    spent, lowest = (before[-1].spent, before[-1].end) if before else (0.0, np.full(told.error.shape, np.inf))
    share = before[-1].next_share if before else LITTLE
    if within is None or come > NEARLY:
        share = come - spent
    share = max(share, LEAST_SHARE)
    if not comparable(told):
        return Look(spent, share, share, lowest, np.zeros(len(turn)), carried)
    lowest = np.minimum(lowest, upper_ends(told, top=top, share=share))
    spent, left = spent + share, max(1 - spent - share, LEAST_SHARE)
    next_share = MOST * left
    if within is not None and not wanting(told, lowest, top=top, share=next_share, goal=within).ends:
        next_share = LITTLE * left
    return Look(spent, share, next_share, lowest, luck(told, turn), carried)


def _searched_on(trials: TrialsByItem, anchors: Abilities) -> Abilities:
    """Abilities of an extended run, with the looks of the search that its last steps are.

    Without a bound that is asked for there is one look, at the end; else one before the first step of the search, and one after
    each. Steps go on with a search as long as they look for as many.
    """
    found, steps = extended_abilities(trials, anchors), extensions_of(trials.plan).steps
    if (top := steps[-1].top) is None:
        return found
    goals = [step.within for step in takewhile(lambda step: step.top == top and step.within, reversed(steps))]
    looks: list[Look] = []
    for within, n in zip((*goals[::-1], steps[-1].within), range(len(steps) - len(goals), len(steps) + 1), strict=True):
        one = found
        if n < len(steps):
            one = anchors if n == 0 else extended_abilities(at_step(trials, n), anchors)
        looks.append(first_look(one, top=top, within=within, before=looks))
    return found._replace(search=Search(top, steps[-1].within, tuple(looks)))


def first_look(found: Abilities, *, top: int, within: float | None, before: Sequence[Look] = ()) -> Look:
    """The look at an extended run with which a search for the `top` best begins, or after those `before`."""
    told = differences(found.ability, found.covariance, level=LEVEL)
    nobody = np.zeros(len(found.ability), dtype=np.bool_)
    return _look(told, before, top=top, within=within, turn=nobody, come=0.0 if within else 1.0)


def standing_of(result: Verdicts, *, target: Target = "items-like-these", before: Search | None = None) -> Abilities:
    """Abilities of a plan in slots after a look. before: as `trial_abilities`. Raises: as `fitted`."""
    trials = TrialsByItem.of(result)
    return trial_abilities(trials, target=target, before=before) or fitted(trials, target=target).found


def anchors_of(trials: TrialsByItem, *, target: Target = "items-like-these") -> Abilities:
    """Abilities of the first plan's agents: from complete slots, or from the fit where cells rank.

    They are on the level of the first plan's items: items that joined later do not move it.
    """
    of = extensions_of(trials.plan)
    part = trials.part(complete_part(trials.plan), lambda some: in_complete_part(some, of.anchors))
    found = trial_abilities(part, target=target, with_items=True)
    if found is None:
        return fitted(part, target=target, with_items=True, n_first=of.items).found
    if part.plan.n_items == of.items:
        return found
    n, total = 0, 0.0
    for block in part.answers():
        first = block.answer[block.start + block.item < of.items]
        n, total = n + len(first), total + float(first.sum())
    shift = total / n - found.fpr - float(np.nanmean(found.ability)) if n else 0.0
    return found._replace(ability=found.ability + shift)
