"""Abilities where a fit ranks: of trials, or of cells where these do not link all agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.engines.block_sums import symmetric_scores
from youden.engines.trial_blocks import RateBlock, TrialsByItem
from youden.pipeline.abilities import CELLS, FITTED, Abilities, ByItem
from youden.protocol.scores import pooled_fpr, train_differences
from youden.run_keys import Target
from youden.stats.additive.trial_fit import TrialFit, trial_fit
from youden.stats.base.clusters import Blocks, PairBlock
from youden.types import Scores
from youden.types.pool import Ids
from youden.types.results import Rates

if TYPE_CHECKING:
    from youden.stats.additive.clipped_linear import ClippedLinear

AT_ONCE = 2_000_000
"""What a block of answers holds at most, if it holds more than one item: cells of agents × items, and answers on average."""


class Fitted(NamedTuple):
    """Training scores, what was fitted to them, and the abilities that rank."""

    scores: Scores
    model: ClippedLinear
    found: Abilities


def fit_rates(rates: Rates, *, target: Target = "items-like-these") -> Fitted:
    """Of rates in memory, as `fitted_abilities`. Raises: as `Rates.training_scores` and `ClippedLinear.fit`."""
    from youden.stats.additive.clipped_linear import ClippedLinear

    scores = rates.training_scores()
    model, answers = ClippedLinear().fit(scores), answers_of(rates)
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
    level = float(np.nanmean(found.item_level[:n_first]))
    return abilities_of_fit(found, level, fpr or 0.0, target, component=model.component_, with_items=with_items)


def abilities_of_fit(
    found: TrialFit, level: float, fpr: float, target: Target, *, component: Ids, with_items: bool
) -> Abilities:
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
        component,
        ByItem.of(found) if with_items and target == "items-like-these" else None,
    )


def answers_of(rates: Rates, *, drawn: bool | None = None) -> Blocks:
    """Answers less their false-positive rate, of pairs that may be learned from, by items.

    drawn: whether each pair's rate was drawn for it; by default as `rates` has it, where its independent arm is known.
    """
    value = train_differences(rates)
    kept = np.flatnonzero(~np.isnan(value))
    kept = kept[np.argsort(rates.item[kept], kind="stable")]
    first, second, item, value = rates.first[kept], rates.second[kept], rates.item[kept], value[kept]
    weight = rates.n_paired[kept].astype(np.float64)
    if drawn is None:
        drawn = rates.independent == "twin" and rates.detail is not None
    rate = rates.tpr[kept] - value if drawn else np.zeros(len(kept))
    step = max(1, AT_ONCE * rates.n_items // max(rates.n_agents * rates.n_items, len(kept), 1))
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
        for one in answers_of(block.clean, drawn=drawn)():
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
    n, component = n_trials.astype(np.int32), model.component_
    return Abilities(ability, found, n, fpr or 0.0, CELLS, method, target, component, by_item)


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
