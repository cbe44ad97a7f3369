"""Analyze a search for the best agents after each of its rounds, and correct the abilities for adaptive-sampling bias.

Alpha is spent over all interim analyses of a search, so the error rate of the search holds whenever it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import (
    FINAL_ALPHA_FRACTION,
    LEVEL,
    Abilities,
    EstimationRequest,
    InterimAnalysis,
    SearchState,
    describe_method,
)
from youden.pipeline.additive_abilities import MAX_CHUNK_SIZE, convert_fit_to_abilities
from youden.pipeline.multi_judge import with_judge_variance
from youden.protocol.designs.adaptive import get_adaptive_design
from youden.run_keys import Target
from youden.stats.additive.trial_fit import fit_additive_trials
from youden.stats.base.pair_chunks import PairChunk
from youden.stats.trials.best_selection import (
    are_comparable,
    expected_selection_bias,
    next_allocation,
    simultaneous_upper_bounds,
)
from youden.stats.trials.comparisons import Differences, pairwise_differences
from youden.types.pool import Bools, Floats, Positions

EARLY_ALPHA_FRACTION = 0.05
"""Fraction of the remaining alpha that an interim analysis spends if it is unlikely to be the last one."""
MIN_ALPHA_FRACTION = 1e-4
"""Minimum fraction of alpha that an interim analysis spends."""
BIAS_FRACTION = 0.5
"""Fraction of the expected selection bias that is subtracted. On four recorded data sets, subtracting nothing left a
bias of .16 to .36 standard errors; subtracting all of it left as much in the other direction."""
MAX_LOST_LEAD = 0.999
"""Maximum fraction of a selected agent's lead over another agent that the bias correction removes. It is below 1, so that the
agent stays ahead."""
NEARLY_SPENT = 0.999
"""Spent fraction of the budget from which on the budget counts as spent."""


def fit_search(trials: TrialsByItem, request: EstimationRequest) -> Abilities | None:
    """Estimate the abilities of an adaptive plan, and analyze its search after each round.

    To save time, `request` may hold the state of the search after an earlier analysis. The result is None if the trials do not
    link all agents.

    The trials are fitted with one effect per block, and the agents' false-positive rates are subtracted. The mean ability is
    set to the mean answer in the pilot, the first round, because its blocks contain all agents. Each analysis uses the paired
    and independent trials of the rounds so far. A search samples agents again because their estimates are high, so these
    estimates are too high on average. The fraction `BIAS_FRACTION` of the expected bias is subtracted, but never so much that
    another agent would be selected. Statements about the selected agents use the differences between these agents, which later
    rounds estimate again.
    """
    mean_answer = _average_pilot_answers(trials)
    return analyze_rounds(trials, request, partial(_estimate_by_round, trials, request.target, mean_answer))


def _estimate_by_round(trials: TrialsByItem, target: Target, mean_answer: float, last_round: int) -> Abilities | None:
    """Estimate abilities from the answers of a search up to one of its rounds.

    An ability is the effect of the agent, plus `mean_answer`, minus the agent's false-positive rate. The effects have the mean
    0 and are estimated by an additive fit.

    target : population that the intervals refer to
    mean_answer : mean answer over all agents
    last_round : number of the last round whose answers are used, from 0

    Returns None if comparisons do not connect all agents, directly or through other agents.
    """
    plan = trials.plan
    iter_answers = partial(_iter_round_answers, trials, last_round)
    fit = fit_additive_trials(iter_answers, n_agents=plan.n_agents, n_items=plan.n_items)
    if fit is None:
        return None

    independent_totals = trials.false_positives_until(last_round)
    rates = independent_totals.estimate_rates(items_vary=target != "these-items")
    abilities_before_rates = convert_fit_to_abilities(fit, mean_answer, rates, target, with_items=True)
    abilities = abilities_before_rates.with_rates_subtracted()
    return abilities._replace(method=describe_method(abilities.method, rates))


def analyze_rounds(
    trials: TrialsByItem, request: EstimationRequest, estimate: Callable[[int], Abilities | None]
) -> Abilities | None:
    """Analyze the search of an adaptive plan after each of its rounds.

    trials : trials of the run
    request : its `previous_search` has the results of an earlier call; if it is None, all rounds are analyzed. Rounds in these
        results are not analyzed again, except the last round of the plan, because its abilities are returned.
    estimate : function that takes the number of a round, from 0, and returns the abilities by the answers up to this round. It
        returns None if these answers do not link all agents.

    Returns the abilities after the last round with the state of the search (`search`, which has one analysis per round). Returns
    None if `estimate` returned None for an analyzed round. The abilities are corrected for selection bias: the estimates of
    agents that were sampled again because they were high are too high on average. Half (`BIAS_FRACTION`) of the difference
    between an agent's expected bias and the mean bias of all agents is subtracted, so that agents with little bias rise. The
    correction never changes the selection. The abilities are then clipped to [−1, 1].
    """
    plan = trials.plan
    design = get_adaptive_design(plan)
    rounds = _summarize_rounds(trials)
    analyses = [] if request.previous_search is None else list(request.previous_search.analyses)

    # one analysis per round; the last round is always analyzed again, because its abilities are returned
    n_rounds = len(rounds.n_trials)
    first_to_analyze = min(len(analyses), n_rounds - 1)
    for last_round in range(first_to_analyze, n_rounds):
        estimated = estimate(last_round)
        if estimated is None:
            return None

        abilities = estimated
        n_spent = int(rounds.n_trials[: last_round + 1].sum())
        earlier = analyses[:last_round]
        # the caller adds the variance of a jury to the intervals; the bounds must contain it, too
        with_judges = with_judge_variance(abilities, trials, last_step=last_round)
        analysis = _run_analysis(
            _compare_agents(with_judges),
            earlier,
            sampling=_compare_agents(abilities),
            top=design.top,
            max_regret=design.max_regret,
            is_active=rounds.is_active[last_round],
            budget_fraction=min(1.0, n_spent / design.budget(plan.split.train)),
        )
        analyses = [*earlier, analysis]

    bias = _compute_subtracted_bias(abilities.ability, analyses[-1].cumulative_bias, top=design.top)
    method = abilities.method
    if len(analyses) > 1:
        method = f"{method}, corrected for adaptive-sampling bias"
    return abilities._replace(
        search=SearchState(design.top, design.max_regret, tuple(analyses)),
        ability=np.clip(abilities.ability - bias, -1, 1),
        method=method,
    )


def _compare_agents(abilities: Abilities) -> Differences:
    """Return the pairwise differences of abilities."""
    return pairwise_differences(abilities.ability, abilities.covariance, level=LEVEL)


def _average_pilot_answers(trials: TrialsByItem) -> float:
    """Compute the mean answer to the paired trials of the first round of a search (the pilot).

    Only trials in blocks count. Their step is the number of the round, so it is 0 in the pilot. Trials outside blocks have the
    block number −1.
    """
    n_answers, total = 0, 0.0
    for chunk in trials.iter_answered():
        is_of_pilot = (chunk.block >= 0) & (chunk.step == 0)
        answer = chunk.answer[is_of_pilot]
        n_answers += len(answer)
        total += answer.sum()
    return float(total / n_answers)


def _compute_subtracted_bias(ability: Floats, cumulative_bias: Floats, *, top: int) -> Floats:
    """Compute the selection bias that is subtracted from the ability of each agent: float array (n_agents,).

    A search samples agents again because their estimates are high, so these estimates are too high on average. The fraction
    `BIAS_FRACTION` of the difference between an agent's bias and the mean bias is subtracted. The correction must not change
    which agents are the `top` best. If it would, all biases are reduced by a common factor.

    ability : float array (n_agents,), abilities before the correction
    cumulative_bias : float array (n_agents,), expected bias of each agent, added up over the rounds
    top : number of best agents that the search selects
    """
    bias = BIAS_FRACTION * (cumulative_bias - cumulative_bias.mean())
    best_first = np.argsort(-ability, kind="stable")
    best, worse = best_first[:top], best_first[top:]

    # lead of each of the best agents (rows) over each worse agent (columns), and by how much the correction reduces it
    lead = np.subtract.outer(ability[best], ability[worse])
    reduction = np.subtract.outer(bias[best], bias[worse])

    # with the bias multiplied by f, the remaining lead is lead − f · reduction, which is positive for f < lead / reduction
    is_reduced = reduction > 0
    max_factors = lead[is_reduced] / reduction[is_reduced]
    factor = min(1.0, MAX_LOST_LEAD * float(max_factors.min(initial=np.inf)))
    return np.asarray(bias * factor)


class _RoundSummary(NamedTuple):
    """Size of each round of a search, and the agents that it sampled.

    Attributes
    ----------
    n_trials : int64 array (n_rounds,)
        Number of paired trials in blocks.
    is_active : bool array (n_rounds, n_agents)
        Whether the round sampled the agent: at least one of its trials counts for the agent.
    """

    n_trials: Positions
    is_active: Bools


def _summarize_rounds(trials: TrialsByItem) -> _RoundSummary:
    """Count the paired trials of each round of a search, and find the agents that each round samples.

    The search consists of the trials in blocks, and the `step` of such a trial is the number of its round, from 0. Later rounds
    sample only some agents. They compare these with a common partner, and their trials count for the sampled agents only.
    """
    n_rounds = _count_rounds(trials)
    n_trials = np.zeros(n_rounds, dtype=np.int64)
    is_active = np.zeros((n_rounds, trials.plan.n_agents), dtype=np.bool_)
    for chunk in trials.iter_chunks():
        search_trials = chunk.where(chunk.block >= 0)
        n_trials += np.bincount(search_trials.step, minlength=n_rounds)

        # a round samples the agents that its trials count for
        for_first = search_trials.where(search_trials.counts_for_first)
        is_active[for_first.step, for_first.first] = True
        for_second = search_trials.where(search_trials.counts_for_second)
        is_active[for_second.step, for_second.second] = True
    return _RoundSummary(n_trials, is_active)


def _count_rounds(trials: TrialsByItem) -> int:
    """Count the rounds of a search that have paired trials; 0 if no trial is in a block."""
    n_rounds = 0
    for chunk in trials.iter_chunks():
        round_numbers = chunk.step[chunk.block >= 0]
        last_round = int(round_numbers.max(initial=-1))
        n_rounds = max(n_rounds, last_round + 1)
    return n_rounds


def _iter_round_answers(trials: TrialsByItem, last_round: int) -> Iterator[PairChunk]:
    """Yield the answers of the rounds up to `last_round`, with one effect per block."""
    for chunk in trials.iter_answered():
        in_rounds = chunk.where((chunk.block >= 0) & (chunk.step <= last_round))
        n_blocks = int((np.bincount(in_rounds.block) > 0).sum())
        n_pieces = 1 + trials.plan.n_agents * n_blocks // MAX_CHUNK_SIZE
        for piece in in_rounds.split(n_pieces):
            yield piece.to_pairs(by_block=True, weight_by_agent=True)


def _run_analysis(
    differences: Differences,
    previous: Sequence[InterimAnalysis],
    *,
    sampling: Differences,
    top: int,
    max_regret: float | None,
    is_active: Bools,
    budget_fraction: float,
) -> InterimAnalysis:
    """Run one interim analysis after a round, and compute the alpha that the next one spends.

    Alpha is the type I error rate that all analyses of a search share (Lan and DeMets 1983). A search that ends with its
    budget spends alpha in proportion to the budget. A search that ends with a regret bound spends little alpha until the
    next round is expected to reach the bound, and then most of the remaining alpha.

    differences : pairwise differences of the abilities after the round
    previous : earlier analyses, in the order of the rounds
    sampling : the same differences without the variance between judges, from which the selection bias is estimated
    top : number of agents to select
    max_regret : regret bound that ends the search; None if it ends with its budget
    is_active : bool array (n_agents,), agents that the round sampled
    budget_fraction : spent fraction of the budget
    """
    n_agents = len(is_active)
    alpha_spent = 0.0
    fraction = EARLY_ALPHA_FRACTION  # fraction of alpha for this analysis
    bounds = np.full(differences.std_error.shape, np.inf)
    cumulative_bias = np.zeros(n_agents)
    if previous:
        last = previous[-1]
        alpha_spent = last.alpha_spent
        fraction = last.next_alpha_fraction
        bounds = last.upper_bounds
        cumulative_bias = _accumulate_bias(last, is_active)

    if max_regret is None or budget_fraction > NEARLY_SPENT:
        fraction = budget_fraction - alpha_spent
    fraction = max(fraction, MIN_ALPHA_FRACTION)
    if not are_comparable(differences):
        return InterimAnalysis(alpha_spent, fraction, fraction, bounds, np.zeros(n_agents), cumulative_bias)

    new_bounds = simultaneous_upper_bounds(differences, top=top, alpha_fraction=fraction)
    bounds = np.minimum(bounds, new_bounds)

    # alpha of the next analysis, in case it is the last one
    alpha_left = max(1 - alpha_spent - fraction, MIN_ALPHA_FRACTION)
    next_fraction = FINAL_ALPHA_FRACTION * alpha_left
    if max_regret is not None:
        _, _, is_enough = next_allocation(
            differences, bounds, top=top, alpha_fraction=next_fraction, max_regret=max_regret
        )
        if not is_enough:
            next_fraction = EARLY_ALPHA_FRACTION * alpha_left

    bias = expected_selection_bias(sampling, is_active)
    return InterimAnalysis(alpha_spent + fraction, fraction, next_fraction, bounds, bias, cumulative_bias)


def _accumulate_bias(last: InterimAnalysis, is_active: Bools) -> Floats:
    """Add the selection bias of a further round to the cumulative bias of the sampled agents.

    A search samples agents again because their estimates are high, so these estimates are too high on average. Each
    sampled agent gets the mean expected bias of all sampled agents.

    last : last interim analysis before the round
    is_active : bool array (n_agents,), agents that the round sampled

    Returns the cumulative bias of all agents, float array (n_agents,).
    """
    if not is_active.any():
        return last.cumulative_bias

    added_bias = last.bias[is_active].mean()
    return last.cumulative_bias + np.where(is_active, added_bias, 0.0)


def analyze_extended_run(
    abilities: Abilities, *, top: int, max_regret: float | None, previous: Sequence[InterimAnalysis] = ()
) -> InterimAnalysis:
    """Run one interim analysis of a run that is extended by a search, before its first step or after a step.

    Parameters
    ----------
    abilities : Abilities
        Abilities of the run so far, with their covariance.
    top : int
        Number of agents to select, from 1 to n_agents − 1.
    max_regret : float or None
        Maximum regret of the selection, if the search goes on until the regret bound reaches it. This analysis then spends
        the fraction of alpha that the last one in `previous` set aside, or a small first fraction. None if no further
        analysis follows, so that all remaining alpha is spent.
    previous : sequence of InterimAnalysis, default ()
        Earlier analyses of the same search. Default: this analysis is the first.

    Returns
    -------
    InterimAnalysis
        `upper_bounds`: upper confidence bounds on θ_k − θ_i for agents k (rows) and i (columns), float array
        (n_agents, n_agents), as the minimum over all analyses so far; `alpha_spent`: the fraction of alpha = 0.05 spent so far;
        and `next_alpha_fraction`: the fraction set aside for the next analysis. The bias is 0, because it is computed only for
        plans in rounds. If some agents cannot be compared, the bounds and the spent alpha stay as in the last analysis in
        `previous`. Without one, the bounds are infinite and the spent alpha is 0.
    """
    no_agent = np.zeros(len(abilities.ability), dtype=np.bool_)
    differences = _compare_agents(abilities)
    return _run_analysis(
        differences,
        previous,
        sampling=differences,
        top=top,
        max_regret=max_regret,
        is_active=no_agent,
        budget_fraction=1.0 if max_regret is None else 0.0,
    )
