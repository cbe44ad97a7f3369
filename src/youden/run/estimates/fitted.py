"""Abilities where trials are not balanced: from a fit of them, or of cells where trials do not link all agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.nouns import Rates, Scores, Split, Target
from youden.nouns.cells import CellIndex
from youden.protocol.scores import pooled_fpr, train_differences, train_scores
from youden.run.estimates.ability import CELLS, FITTED, Abilities
from youden.run.estimates.trial_covariance import ByItem
from youden.stats.additive.trial_fit import Blocks, PairBlock, TrialFit, trial_fit

if TYPE_CHECKING:
    from youden.stats.additive.clipped_linear import ClippedLinear

_AT_ONCE = 2_000_000
"""What a block of answers holds at most, if it holds more than one item: cells of agents × items, and answers on average."""


class Fitted(NamedTuple):
    """Training scores, what was fitted to them, and the abilities that rank."""

    scores: Scores
    model: ClippedLinear
    found: Abilities


def fit_rates(
    rates: Rates, split: Split | None = None, *, target: Target = "items-like-these", with_items: bool = False
) -> Fitted:
    """Of rates in memory, as `fitted_abilities`. Raises: as `train_scores` and `ClippedLinear.fit`."""
    from youden.stats.additive.clipped_linear import (
        ClippedLinear,  # loads as long as a ranking by means of trials takes
    )

    scores = train_scores(rates, split)
    model, answers = ClippedLinear().fit(scores), answers_of(rates, split)
    fpr = pooled_fpr(rates)
    found = fitted_abilities(model, scores, answers, fpr=fpr, target=target, with_items=with_items)
    return Fitted(scores, model, found)


def fitted_abilities(
    model: ClippedLinear,
    scores: Scores,
    answers: Blocks,
    *,
    fpr: float | None,
    target: Target = "items-like-these",
    with_items: bool = False,
) -> Abilities:
    """By `trial_fit` of `answers`, on the level of `model`, fitted to `scores`; by `cell_abilities` where it gives None.

    fpr: the rate that was taken off the answers, None where unknown. with_items: whether `by_item` is made.
    """
    n_agents, n_items = len(scores.agent_ids), len(scores.item_ids)
    found = trial_fit(answers, n_agents=n_agents, n_items=n_items)
    if found is None:
        return cell_abilities(model, scores, fpr=fpr, target=target)
    covariance, method = found.covariance, "additive fit of trials, residuals by item, HC2, shrunk variances, Student t"
    if target == "these-items":
        covariance, method = covariance.scaled_apart(found.left), f"{method}, finite population"
    return Abilities(
        found.ability + float(np.nanmean(model.ability_)),
        covariance,
        found.weight.astype(np.int32),
        fpr or 0.0,
        FITTED,
        method,
        target,
        _by_item(found) if with_items and target == "items-like-these" else None,
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


def _by_item(found: TrialFit) -> ByItem:
    moves = list(found.moves())
    alone, weight = (np.concatenate(table, axis=1) for table in ([m.alone for m in moves], [m.weight for m in moves]))
    cells = CellIndex.of(weight > 0)
    at = cells.agent, cells.item
    return ByItem(cells, alone[at], weight[at] / found.weight[cells.agent])


def cell_abilities(
    model: ClippedLinear, scores: Scores, *, fpr: float | None, target: Target = "items-like-these"
) -> Abilities:
    """Abilities where cells rank, from `model` fitted to `scores`. fpr: the rate that was taken off them, None where unknown.

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
    if target == "items-like-these":
        kept = weight > 0
        share = (weight / np.maximum(n_trials, np.finfo(np.float64).tiny)[at.agent])[kept]
        residual = model.residual_cells_
        by_item = ByItem(residual.at, residual.value * share, share)
    return Abilities(model.ability_, found, n_trials.astype(np.int32), fpr or 0.0, CELLS, method, target, by_item)
