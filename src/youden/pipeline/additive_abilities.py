"""Estimate abilities by additive fits: of trials, or of cells if the trials do not link all agents.

A cell is one agent on one item. A fit of trials uses which agents were compared with each other, so it is preferred. A
fit of cells needs no such links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from youden.engines.block_sums import compute_symmetric_scores
from youden.engines.trial_blocks import RateChunk, TrialsByItem
from youden.pipeline.abilities import (
    ADDITIVE_FIT,
    CELL_FIT,
    Abilities,
    EstimationRequest,
    ItemInfluence,
    describe_method,
    estimate_rates,
)
from youden.protocol.scores import compute_training_differences
from youden.run_keys import Target
from youden.stats.additive.trial_fit import TrialFit, fit_additive_trials
from youden.stats.base.pair_chunks import ChunkSource, PairChunk
from youden.stats.trials.agent_rates import AgentRates
from youden.types import Scores
from youden.types.results import Rates

if TYPE_CHECKING:
    from youden.stats.additive.clipped_linear import ClippedLinear

MAX_CHUNK_SIZE = 2_000_000
"""Maximum size of a chunk of answers with more than one item: cells (agents × items), and answers on average."""


CellFit = Callable[[], tuple[Scores, "ClippedLinear"]]
"""Returns training scores, and the model fitted to them."""


def fit_cells(scores: Scores) -> tuple[Scores, ClippedLinear]:
    """Fit the clipped-linear model to training scores, and return both.

    Raises StatisticsError if the scores cannot be fitted, for example [scores-empty].
    """
    from youden.stats.additive.clipped_linear import ClippedLinear

    return scores, ClippedLinear().fit(scores)


def fit_rates(rates: Rates, *, target: Target = "items-like-these", agent_rates: AgentRates | None = None) -> Abilities:
    """Fit abilities to rates in memory, by the difference TPR − FPR of each pair.

    rates : TPR and FPR of the ordered pairs of agents on the items
    target : population that the intervals refer to, "items-like-these" or "these-items"
    agent_rates : false-positive rates of the agents. They are stored in the result, but not subtracted. None if they are
        unknown.

    Returns the abilities of all agents, clipped to [−1, 1]. Before clipping, their mean is the mean score. They are NaN for an
    agent without a pair. If the compared pairs do not link all agents, the abilities come from a fit to the training scores.
    Raises StatisticsError if the training scores cannot be fitted, for example [scores-empty].
    """
    return fit_abilities(
        pair_answers(rates),
        lambda: fit_cells(rates.training_scores()),
        n_items=rates.n_items,
        rates=agent_rates or AgentRates.unknown(rates.n_agents),
        target=target,
    )


def fit_abilities(
    answers: ChunkSource,
    cell_fit: CellFit,
    *,
    n_items: int,
    rates: AgentRates,
    score_offset: float = 0.0,
    target: Target = "items-like-these",
    with_items: bool = False,
    n_first: int | None = None,
) -> Abilities:
    """Fit abilities to answers, or to scores of cells if the answers do not link all agents.

    A cell is one agent on one item. The false-positive rates are stored, but not subtracted.

    Parameters
    ----------
    answers : callable
        Returns all answers in chunks of items (`PairChunk`), each time it is called.
    cell_fit : callable
        Returns training scores of the same answers and the model fitted to them, which are used if the fit of the
        answers fails. Called only then; its errors are passed on.
    n_items : int
        Number of items.
    rates : AgentRates
        False-positive rates of the agents.
    score_offset : float, default 0
        False-positive rate that was subtracted from the scores of `cell_fit`, but not from the answers. It is added back to
        abilities that come from `cell_fit`.
    target : {"items-like-these", "these-items"}, default "items-like-these"
        Population that the intervals refer to.
    with_items : bool, default False
        Whether to compute the influence of the items from the answers; only for the target "items-like-these".
    n_first : int, optional
        The mean of the abilities is the mean score on the first `n_first` items, by position; on all items if None. An
        extended run sets the number of items of its first plan, so that later items do not shift the abilities.

    Returns
    -------
    Abilities
        Abilities, NaN for an agent without answers. They are shifted so that their mean is the mean score of the average agent on
        these items, and then clipped to [−1, 1]. `score_offset` is added last, if they come from `cell_fit`.

    Raises
    ------
    StatisticsError
        If `cell_fit` raises it.
    """
    fit = fit_additive_trials(answers, n_agents=len(rates.rate), n_items=n_items)
    if fit is None:
        scores, model = cell_fit()
        abilities = estimate_cell_abilities(model, scores, rates=rates, target=target, n_first=n_first)
        return abilities._replace(ability=abilities.ability + score_offset)
    mean_score = float(np.nanmean(fit.item_mean[:n_first]))
    return convert_fit_to_abilities(fit, mean_score, rates, target, with_items=with_items)


def convert_fit_to_abilities(
    fit: TrialFit, mean_score: float, rates: AgentRates, target: Target, *, with_items: bool
) -> Abilities:
    """Convert an additive fit of trials to abilities.

    An ability is the centered ability of the fit plus `mean_score`, clipped to [−1, 1]. It is NaN for an agent without trials.
    Comparisons must connect all agents that have trials, directly or through other agents; this is not checked.

    fit : centered abilities (their mean is 0) with their covariance
    mean_score : mean score of the average agent
    rates : false-positive rates of the agents. They are not subtracted, but stored in the result for the caller.
    target : population that the intervals refer to, "items-like-these" or "these-items"
    with_items : whether to compute the influence of each item on the abilities; it is None for the target "these-items"

    Returns the abilities in the order of the agents, with their covariance. For the target "these-items", the variances are
    smaller by a finite population correction.
    """
    covariance = fit.covariance
    method = "additive fit of trials, residuals by item, HC2, shrunk variances, Student t"
    if target == "these-items":
        # intervals for all possible trials on these items are narrower, because part of these trials was answered
        finite_population_factor = fit.fpc
        covariance = covariance.with_scaled_ability_variances(finite_population_factor)
        method = f"{method}, finite population"

    item_influence = None
    if with_items and target == "items-like-these":
        item_influence = ItemInfluence.from_fit(fit)

    # agents with trials can all be compared: they form component 0; −1 marks an agent without trials
    n_trials = fit.weight.astype(np.int32)  # each trial has the weight 1
    component = np.zeros(len(fit.weight), dtype=np.int32)
    component[fit.weight == 0] = -1
    return Abilities(
        ability=np.clip(fit.ability + mean_score, -1, 1),
        covariance=covariance,
        n_trials=n_trials,
        rates=rates,
        ranking=ADDITIVE_FIT,
        method=method,
        target=target,
        component=component,
        item_influence=item_influence,
    )


def pair_answers(rates: Rates, *, has_own_rates: bool | None = None) -> ChunkSource:
    """Prepare the training answers of pairs, minus their false-positive rate, for a fit.

    Parameters
    ----------
    rates : Rates
        Rates of pairs of agents on items.
    has_own_rates : bool, optional
        Whether each pair's FPR was estimated from independent trials of this pair. By default, it is taken from `rates`.

    Returns
    -------
    callable
        Returns the answers in chunks of items (`PairChunk`), each time it is called. `value` is D = TPR − FPR, `weight`
        the number of paired trials, and `rate` the FPR of the pair, 0 if pairs have no rates of their own.
    """
    # rows with a training answer, sorted by item
    difference = compute_training_differences(rates)
    rows = np.flatnonzero(~np.isnan(difference))
    by_item = np.argsort(rates.item[rows], kind="stable")
    rows = rows[by_item]
    first, second, item = rates.first[rows], rates.second[rows], rates.item[rows]
    value = difference[rows]
    weight = rates.n_paired[rows].astype(np.float64)

    # FPR = TPR − D
    if has_own_rates is None:
        has_own_rates = rates.independent == "matched" and rates.detail is not None
    fpr = rates.tpr[rows] - value if has_own_rates else np.zeros(len(rows))

    # all chunks but the last have the same number of items
    n_largest = max(rates.n_agents * rates.n_items, len(rows), 1)
    items_per_chunk = max(1, MAX_CHUNK_SIZE * rates.n_items // n_largest)
    first_items = range(0, rates.n_items, items_per_chunk)
    row_bounds = np.searchsorted(item, [*first_items, rates.n_items]).tolist()

    def iter_chunks() -> Iterator[PairChunk]:
        """Yield the answers on consecutive items, which are numbered from 0 in each chunk."""
        for first_item, row_start, row_stop in zip(first_items, row_bounds[:-1], row_bounds[1:], strict=True):
            chunk = slice(row_start, row_stop)
            yield PairChunk(
                first=first[chunk],
                second=second[chunk],
                item=item[chunk] - np.int32(first_item),
                value=value[chunk],
                weight=weight[chunk],
                rate=fpr[chunk],
                n_items=min(items_per_chunk, rates.n_items - first_item),
            )

    return iter_chunks


def iter_pair_answers(blocks: Callable[[], Iterable[RateChunk]], *, has_own_rates: bool) -> Iterator[PairChunk]:
    """Yield the training answers of pairs, chunk by chunk, minus the FPR of each pair if it has its own trials."""
    for chunk in blocks():
        yield from pair_answers(chunk.training_rates, has_own_rates=has_own_rates)()


def estimate_cell_abilities(
    model: ClippedLinear,
    scores: Scores,
    *,
    rates: AgentRates,
    target: Target = "items-like-these",
    n_first: int | None = None,
) -> Abilities:
    """Estimate abilities from a fit of cells, where a cell is one agent on one item.

    The model's own abilities may lie beyond ±1. Therefore, the abilities of each component (a group of agents that common items
    link) are shifted. Their mean becomes the mean of the clipped predictions for these agents on their items. The shifted
    abilities are clipped to [−1, 1].

    model : clipped-linear model that was fitted to `scores`
    scores : training scores; the abilities are on their scale
    rates : false-positive rates of the agents, which are stored in the result, but not subtracted from the scores
    target : population that the intervals refer to, "items-like-these" or "these-items"
    n_first : the mean predictions use only the first `n_first` items of `scores`, so that items which were added later do
        not shift the abilities; all items if None

    Returns the abilities, NaN for an agent without a score. If the model did not converge, their `method` states it. They have
    the influence of the items (`item_influence`), except for the target "these-items".

    For the target "these-items", with K agents and J items, the variance of agent i is multiplied by 1 − T_i/(PJ + 1),
    with T_i the answered trials of the agent and P = 2(K − 1) its ordered pairs. The intervals are conservative if most
    cells are complete, because the agent × item variance then vanishes.
    """
    cells, _, weight = scores.cells
    n_agents, n_items = cells.n_agents, cells.n_items
    n_trials = np.bincount(cells.agent, weight, n_agents)
    covariance = model.centred_covariance
    method = "additive fit, residuals by item, HC2, shrunk variances, Student t"
    if model.status_ == "not_converged":
        method += ", not converged"

    item_influence = None
    if target == "these-items":
        fpc = np.maximum(0.0, 1 - n_trials / (2 * (n_agents - 1) * n_items + 1))
        covariance = covariance.with_scaled_ability_variances(fpc)
        method += ", finite population"
    else:
        # share of a cell in the trials of its agent; `tiny` avoids a division by 0
        n_trials_of_agent = np.maximum(n_trials, np.finfo(np.float64).tiny)[cells.agent]
        share = (weight / n_trials_of_agent)[weight > 0]
        residual = model.residual_cells_
        item_influence = ItemInfluence(residual.cell_index, residual.value * share, share)

    # shift each component of linked agents to the mean of its predictions for its items
    ability = model.ability_.copy()
    predicted = model.predict()[:, :n_first]
    for number in range(model.n_components_):
        is_member = model.component_ == number
        item_of_members = cells.item[is_member[cells.agent]]
        has_item = np.isin(np.arange(n_items), item_of_members)[:n_first]
        if has_item.any():
            mean_prediction = predicted[np.ix_(is_member, has_item)].mean()
            ability[is_member] += mean_prediction - ability[is_member].mean()

    return Abilities(
        ability=np.clip(ability, -1, 1),
        covariance=covariance,
        n_trials=n_trials.astype(np.int32),
        rates=rates,
        ranking=CELL_FIT,
        method=method,
        target=target,
        component=model.component_,
        item_influence=item_influence,
    )


def fit_trials(
    trials: TrialsByItem,
    request: EstimationRequest,
    *,
    n_first: int | None = None,
    cell_fit: CellFit | None = None,
) -> Abilities:
    """Fit abilities to the trials of a run.

    Parameters
    ----------
    trials : TrialsByItem
        Trials of the run.
    request : EstimationRequest
        Target of the intervals (`target`), whether to subtract false-positive rates (`with_rates`), and whether to compute the
        influence of the items (`with_items`).
    n_first : int, optional
        The mean of the abilities is the mean score on the first `n_first` items, by position; on all items if None.
    cell_fit : callable, optional
        Function without arguments that returns the training scores (the mean score of each cell that is not held out) and
        the clipped-linear model fitted to them. It is called only if the answers do not link all agents. Default: both are
        computed from `trials`.

    Returns
    -------
    Abilities
        Abilities of all agents of the plan, NaN for an agent without answers. The false-positive rates of the agents are
        subtracted, unless `request.with_rates` is False.

    Raises
    ------
    StatisticsError
        If the training scores cannot be fitted, for example [scores-empty].
    """
    target = request.target
    rates = estimate_rates(trials, target)
    is_matched = trials.plan.independent == "matched"
    score_offset = rates.pooled  # the scores of cells are minus the pooled FPR
    if is_matched:
        # the FPR of each pair is subtracted from its answers, and its uncertainty is part of the residuals
        score_offset = 0.0
        rates = rates.without_uncertainty()

    abilities = fit_abilities(
        partial(iter_pair_answers, trials.iter_rates, has_own_rates=is_matched),
        cell_fit or (lambda: fit_cells(compute_symmetric_scores(trials))),
        n_items=trials.plan.n_items,
        rates=rates,
        score_offset=score_offset,
        target=target,
        with_items=request.with_items,
        n_first=n_first,
    )
    if is_matched:
        return abilities if request.with_rates else abilities._replace(ability=abilities.ability + rates.rate)
    abilities = abilities._replace(method=describe_method(abilities.method, rates))
    return abilities.with_rates_subtracted() if request.with_rates else abilities
