"""Define the abilities that every estimator returns, and estimate them by means of trials.

Every estimator estimates mean answers to paired trials, from which each agent's own false-positive rate is subtracted.
Abilities carry the covariance of their distances from the average agent. All estimators share the steps that use it:
pairwise differences, the selection of the best agents, and the ranking table.

Complete block designs use means of trials instead of the additive fit with block effects, because the intervals of the means
cover TPR − FPR in .936 to .983 of the draws for these items (those of the fit: .900 to .994), and are 1 to 6% narrower for items
like these, although the errors of the fit are up to 7% smaller in plans of few calls (`python benchmarks/estimators.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from youden.data.folder.pool_summary import TEXT_VALUES, PoolSummary, get_text_value
from youden.engines.agent_counts import AgentCounts
from youden.engines.trial_blocks import TrialsByItem
from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.stats.additive.trial_fit import TrialFit
from youden.stats.base.clusters import CentredCovariance
from youden.stats.base.metrics import Metric
from youden.stats.base.pair_chunks import PairChunk
from youden.stats.trials.agent_rates import AgentRates
from youden.stats.trials.best_selection import Choice, select_best
from youden.stats.trials.comparisons import Differences, agent_components, pairwise_differences, sort_best_first
from youden.stats.trials.trial_errors import TrialMeans, trial_means, unknown_covariance
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.types.cells import CellIndex
from youden.types.columns import columns_of
from youden.types.facts import AgentRate, ChoiceFacts, RankingRow, RateFacts
from youden.types.pool import Bools, Floats, Ids, Positions, or_none
from youden.types.trials import FOLLOW_UP

if TYPE_CHECKING:
    import pandas as pd


class ItemInfluence(NamedTuple):
    """Influence of each item on each ability, by observed cell (agent, item).

    Attributes
    ----------
    cells : CellIndex
        The n_cells observed cells, sorted by item.
    influence : float array (n_cells,)
        Effect of item j on the estimated ability of agent i, for the cell (i, j).
    share : float array (n_cells,)
        Fraction of the trials of agent i that are on item j, for the cell (i, j).
    """

    cells: CellIndex
    influence: Floats
    share: Floats

    def to_matrices(self, items: slice, n_agents: int) -> ItemMatrices:
        """Return the influence of consecutive items, and their shares of the trials, as two matrices.

        Rows are agents and columns are items. The first matrix contains the influence of the item on the ability of the agent.
        The second one contains the fraction of the agent's trials that are on the item.

        items : positions of the items, from `items.start` to before `items.stop`, without a step
        n_agents : number of rows of the matrices

        Returns two float arrays (n_agents, stop − start), `influence` (in units of ability) and `share` (from 0 to 1). They are 0
        if the agent has no answered trial on the item.
        """
        # the cells of consecutive items are consecutive, because cells are sorted by item
        first_cell, end_cell = np.searchsorted(self.cells.item, [items.start, items.stop])
        in_range = slice(first_cell, end_cell)
        item = self.cells.item[in_range] - np.int32(items.start)
        cells = CellIndex(self.cells.agent[in_range], item, n_agents, items.stop - items.start)
        return ItemMatrices(
            cells.to_matrix(self.influence[in_range], empty=0.0),
            cells.to_matrix(self.share[in_range], empty=0.0),
        )

    @classmethod
    def from_fit(cls, fit: TrialFit | TrialMeans) -> ItemInfluence:
        """Collect the influence of each item on the abilities of agents with trials on it.

        The influence of an item is its contribution to the estimation error of the ability, in units of ability. Only the direct
        influence is collected, by the agent's own trials; the effects of the other agents are taken as known. The share of an
        item is the fraction of the agent's trials that are on the item.

        fit : abilities of the agents, with the influence of each item; a weight is a number of trials
        """
        columns_by_chunk = []  # agent, item, influence and number of trials of the observed cells
        n_items = 0
        for chunk in fit.influence_chunks():
            cells = CellIndex.from_mask(chunk.weight > 0)
            item = cells.item + np.int32(n_items)  # a chunk numbers its items from 0
            influence = chunk.direct_influence[cells.agent, cells.item]
            n_trials = chunk.weight[cells.agent, cells.item]
            columns_by_chunk.append((cells.agent, item, influence, n_trials))
            n_items += chunk.weight.shape[1]

        agent, item, influence, n_trials = map(np.concatenate, zip(*columns_by_chunk, strict=True))
        n_trials_by_agent = fit.weight
        cells_of_all_chunks = CellIndex(agent, item, len(n_trials_by_agent), n_items)
        share = n_trials / n_trials_by_agent[agent]
        return cls(cells_of_all_chunks, influence, share)


class ItemMatrices(NamedTuple):
    """`influence` and `share` of an `ItemInfluence` for consecutive items, float arrays (n_agents, n_items)."""

    influence: Floats
    share: Floats


LEVEL = 0.95
"""Confidence level of all intervals."""
TRIAL_MEAN = "mean of trials"
ADDITIVE_FIT = "additive fit of trials"
CELL_FIT = "clipped-linear ability"
FINAL_ALPHA_FRACTION = 0.7
"""Fraction of the remaining alpha that an interim analysis spends if it may be the last one."""


class InterimAnalysis(NamedTuple):
    """One interim analysis of a search for the best agents.

    Attributes
    ----------
    alpha_spent : float
        Fraction of alpha = 1 − level that is spent, this analysis included.
    alpha_fraction : float
        Fraction of alpha that this analysis spends.
    next_alpha_fraction : float
        Fraction of alpha that the next analysis spends.
    upper_bounds : float array (n_agents, n_agents)
        Upper confidence bounds on differences of abilities, θ_k − θ_i: the minimum over all analyses so far.
    bias : float array (n_agents,)
        Expected selection bias of the agents that the round sampled.
    cumulative_bias : float array (n_agents,)
        Mean selection bias that the agents accumulated when they were selected for earlier rounds.
    """

    alpha_spent: float
    alpha_fraction: float
    next_alpha_fraction: float
    upper_bounds: Floats
    bias: Floats
    cumulative_bias: Floats

    @property
    def final_alpha_fraction(self) -> float:
        """Fraction of alpha that the next analysis may spend if it is the last one.

        It decides which agents need more trials.
        """
        return max(self.next_alpha_fraction, FINAL_ALPHA_FRACTION * (1 - self.alpha_spent))


class SearchState(NamedTuple):
    """State of a search for the best agents.

    Attributes
    ----------
    top : int
        Number of agents to select.
    max_regret : float or None
        Maximum regret of the selection; None to require that it is significantly better than all others.
    analyses : tuple of InterimAnalysis
        Interim analyses, from first to last.
    """

    top: int
    max_regret: float | None
    analyses: tuple[InterimAnalysis, ...]


NO_POSITION_EFFECT = Metric(nan, nan, nan, LEVEL, "none: the run asks for information")


class Abilities(NamedTuple):
    """Abilities of the agents of a plan, in units of the answers.

    The table of the ranking takes each column from the attribute or property of the same name, here or in `counts`. The values of
    the texts (`TEXT_VALUES`) come from the pool instead.

    Attributes
    ----------
    ability : float array (n_agents,)
        Estimates θ_i; NaN for agents without one.
    covariance : CentredCovariance
        Of the distances θ_i − θ̄ from the average agent, with the errors of the false-positive rates.
    n_trials : int32 array (n_agents,)
        Answered paired trials of each agent.
    rates : AgentRates
        False-positive rates that were subtracted from the mean answers.
    ranking : str
        Name of the estimator.
    method : str
        Method of the intervals.
    target : {"items-like-these", "these-items", "items-and-judges"}
        Population that the intervals refer to.
    component : int32 array (n_agents,)
        Component of each agent in the graph of compared agents; agents of different components cannot be compared.
    item_influence : ItemInfluence or None
        Influence of the items for the target "items-like-these"; None if it was not requested.
    search : SearchState or None
        State of the search for the best agents; None for other plans, and if partners are weighted.
    reference : bool array (n_agents,) or None
        Agents from whose mean abilities are measured; None for all that can be compared with an agent.
    position_effect : Metric
        Win rate minus loss rate of the first response of two equal agents, for preferences; NaN for other runs.
    limits : (float, float)
        Lowest and highest possible ability, which no interval exceeds.
    counts : AgentCounts or None
        Values that are counted over the trials of each agent; None for imported scores.
    """

    ability: Floats
    covariance: CentredCovariance
    n_trials: Ids
    rates: AgentRates
    ranking: str
    method: str
    target: Target
    component: Ids
    item_influence: ItemInfluence | None = None
    search: SearchState | None = None
    reference: Bools | None = None
    position_effect: Metric = NO_POSITION_EFFECT
    limits: tuple[float, float] = (-1.0, 1.0)
    counts: AgentCounts | None = None

    @property
    def std_error(self) -> Floats:
        """Standard errors of the distances from the average agent, float array (n_agents,)."""
        return self.covariance.std_error

    @property
    def low(self) -> Floats:
        """Lower bounds of 95% intervals around `ability`, float array (n_agents,).

        Their widths are those of intervals for the distance to the average agent, without impossible abilities.
        """
        return self.limit(self.ability - self.covariance.half_width(LEVEL), self.ability)

    @property
    def high(self) -> Floats:
        """Upper bounds of the same intervals, float array (n_agents,)."""
        return self.limit(self.ability + self.covariance.half_width(LEVEL), self.ability)

    def limit(self, bound: Floats, ability: Floats | float) -> Floats:
        """Clip confidence bounds of abilities to the range of possible values, `limits`.

        If an ability is above the range, its bound is not clipped from above; if it is below the range, its bound is not clipped
        from below. The interval therefore always contains the ability. NaN stays NaN.

        bound : float array, lower or upper bounds
        ability : ability to which each bound belongs: float array of the same shape, or one number for all bounds

        Returns a new float array with the shape of `bound`.
        """
        lowest, highest = self.limits
        min_bound = np.where(np.less(ability, lowest), -np.inf, lowest)
        max_bound = np.where(np.greater(ability, highest), np.inf, highest)
        return np.asarray(np.clip(bound, min_bound, max_bound))

    @property
    def mean_answer(self) -> Floats:
        """Mean answers to paired trials, before false-positive rates were subtracted: float array (n_agents,)."""
        return np.asarray(self.ability + self.rates.rate)

    @property
    def rate_variance(self) -> Floats:
        """Part of the variance of each ability that is due to false-positive rates: float array (n_agents,)."""
        return np.diag(self.rates.centred_covariance(self.covariance, reference=self.reference))

    def with_rates_subtracted(self) -> Abilities:
        """Subtract the false-positive rates from abilities that are still mean answers.

        Returns
        -------
        Abilities
            Mean answers minus the false-positive rates `rates`, clipped to [−1, 1]. The covariance includes the sampling errors
            of the mean answers and of the rates.
        """
        covariance = self.rates.add_errors_to(self.covariance, reference=self.reference)
        return self._replace(ability=np.clip(self.ability - self.rates.rate, -1, 1), covariance=covariance)


SELF_RANKING = "self-consistency"
"""Ranking by self-trials: an ability is an agent's mean answer to paired self-trials minus that to independent ones."""


class EstimationRequest(NamedTuple):
    """Options of an estimator.

    Attributes
    ----------
    target : {"items-like-these", "these-items", "items-and-judges"}, default "items-like-these"
        Population that the intervals refer to.
    previous_search : SearchState, optional
        State of the search after an earlier analysis of the same plan, which is continued.
    with_items : bool, default False
        Whether to compute `Abilities.item_influence`.
    with_rates : bool, default True
        Whether to subtract the agents' false-positive rates. If not, abilities are mean answers to paired trials.
    """

    target: Target = "items-like-these"
    previous_search: SearchState | None = None
    with_items: bool = False
    with_rates: bool = True


def estimate_mean_abilities(verdicts: Verdicts, *, target: Target = "items-like-these") -> Abilities:
    """Estimate each agent's ability as its mean answer to paired trials minus its false-positive rate.

    The false-positive rate of an agent is its mean answer to independent trials, which compare responses to different items.
    Without independent trials, the rate is 0. Held-out responses are not used. Trials that serve another purpose, such as the
    detection of copied answers, are not used either.

    verdicts : answers to the plan, which may have any design
    target : population that the intervals refer to

    A block is a set of trials of one item, in which each agent appears once first and once second. The covariance is NaN if an
    answered paired trial belongs to no block.

    Raises StatisticsError [trial-none] if no paired trial was answered.
    """
    plan = verdicts.plan
    is_paired = plan.is_training & (plan.trial_type == PAIRED)
    is_answered = is_paired & verdicts.answered
    if not is_answered.any():
        raise make_no_answers_error(int(is_paired.sum()))

    trials = TrialsByItem.from_verdicts(verdicts)
    mean_answers = _average_answers(trials, EstimationRequest(target, with_rates=False))

    # the covariance of means can be estimated only from trials in blocks
    all_have_blocks = (plan.block[is_answered] >= 0).all()
    if not all_have_blocks:
        mean_answers = mean_answers._replace(
            covariance=unknown_covariance(plan.n_agents),
            method=describe_method("none: there are trials without a block", mean_answers.rates),
        )
    return mean_answers.with_rates_subtracted()


def make_no_answers_error(n_paired: int) -> StatisticsError:
    """Return the error for a plan of which none of the `n_paired` paired training trials was answered."""
    return StatisticsError(
        f"No paired trial that can be used for abilities was answered: got 0 of {n_paired}. Run the judge, or check why its "
        "answers are missing.",
        slug="trial-none",
    )


def estimate_rates(trials: TrialsByItem, target: Target) -> AgentRates:
    """Estimate the agents' false-positive rates for a target of inference from all independent trials."""
    return trials.false_positives.estimate_rates(items_vary=target != "these-items")


def describe_method(method: str, rates: AgentRates) -> str:
    """Add what is assumed about false-positive rates to the method of intervals."""
    return method if rates.n_trials.any() else f"{method}; FPR taken as 0: no independent trial answered"


def _average_answers(trials: TrialsByItem, request: EstimationRequest) -> Abilities:
    """Average the answers to each agent's paired trials, and estimate its false-positive rate.

    The false-positive rate of an agent is its mean answer to independent trials, which compare responses to different items. It
    is subtracted from the mean if `request.with_rates` is True. Trials of held-out responses are left out.

    request : options of the estimate. If `with_items` is True, the influence of each item on the abilities is also computed.
        The target "these-items" needs no such influence, because its items are fixed and cause no error.
    """
    target = request.target
    items_are_fixed = target == "these-items"
    iter_pairs = partial(_iter_answered_pairs, trials, by_block=items_are_fixed)
    means = trial_means(iter_pairs, n_agents=trials.plan.n_agents, target=target)
    item_influence = None
    if request.with_items and not items_are_fixed:
        item_influence = ItemInfluence.from_fit(means)

    rates = estimate_rates(trials, target)
    mean_answers = Abilities(
        ability=means.ability,
        covariance=means.covariance,
        n_trials=means.weight.astype(np.int32),
        rates=rates,
        ranking=TRIAL_MEAN,
        method=describe_method(means.method, rates),
        target=target,
        component=find_components(trials),
        item_influence=item_influence,
    )
    if request.with_rates:
        return mean_answers.with_rates_subtracted()
    return mean_answers


def _iter_answered_pairs(trials: TrialsByItem, *, by_block: bool) -> Iterator[PairChunk]:
    """Yield the answered paired trials in chunks of items."""
    for chunk in trials.iter_answered():
        yield chunk.to_pairs(by_block=by_block)


MAX_UNANSWERED_FRACTION = 0.05
"""Maximum fraction of an agent's paired trials without an answer for which plain means are used."""


def estimate_block_means(trials: TrialsByItem, request: EstimationRequest) -> Abilities | None:
    """Estimate each agent's ability as the mean answer of its trials in blocks.

    A block is a set of trials of one item, in which each agent appears once as the first and once as the second agent of a pair.
    The means are comparable only if each block contains all agents, so no cell (agent, item) may be held out.

    request : target of the intervals, and whether to subtract false-positive rates and to compute the influence of items

    Returns None if a paired trial belongs to no block, or if too many trials of an agent have no answer (more than the
    fraction `MAX_UNANSWERED_FRACTION`). Raises StatisticsError [trial-none] if no paired trial was answered.
    """
    counts = _count_trials_in_blocks(trials)
    if counts is None or not has_enough_answers(counts.n_planned, counts.n_answered):
        return None
    if not counts.n_answered.any():
        raise make_no_answers_error(counts.n_paired)

    return _average_answers(trials, request)


class _BlockCounts(NamedTuple):
    """Numbers of the paired trials of a run whose paired trials are all in blocks.

    Attributes
    ----------
    n_paired : int
        Number of all paired trials, at least 1.
    n_planned : int64 array (n_agents,)
        Number of each agent's trials in blocks that have at least one answer.
    n_answered : int64 array (n_agents,)
        Number of each agent's trials that were answered.
    """

    n_paired: int
    n_planned: Positions
    n_answered: Positions


def _count_trials_in_blocks(trials: TrialsByItem) -> _BlockCounts | None:
    """Count the planned and the answered paired trials of each agent.

    A block is a set of trials of one item, in which each agent appears once first and once second. The planned trials of a
    block without any answer are not counted, because all agents lack them equally.

    Returns None if there is no paired trial, or if a paired trial belongs to no block.
    """
    n_agents = trials.plan.n_agents
    n_paired = 0
    n_planned = np.zeros(n_agents, dtype=np.int64)
    n_answered = np.zeros(n_agents, dtype=np.int64)
    for chunk in trials.iter_chunks():
        is_outside_blocks = chunk.block < 0
        if is_outside_blocks.any():
            return None

        n_paired += len(chunk.block)
        answered_trials = chunk.where(chunk.answered)
        n_answered += answered_trials.count_by_agent(n_agents)

        is_in_answered_block = np.isin(chunk.block, answered_trials.block)
        trials_in_answered_blocks = chunk.where(is_in_answered_block)
        n_planned += trials_in_answered_blocks.count_by_agent(n_agents)

    if n_paired == 0:
        return None
    return _BlockCounts(n_paired, n_planned, n_answered)


def find_components(trials: TrialsByItem) -> Ids:
    """Divide the agents into groups within which abilities can be compared.

    Two agents are in the same group if answered trials on common items connect them. The connection may lead through other
    agents.

    Returns an int32 array (n_agents,): number of each agent's group from 0, −1 for an agent without an answer.
    """
    plan = trials.plan
    observed = np.zeros((plan.n_agents, plan.n_items), dtype=np.bool_)
    for chunk in trials.iter_answered():
        item = chunk.start + chunk.item
        observed[chunk.first, item] = observed[chunk.second, item] = True
    return agent_components(*np.nonzero(observed), n_agents=plan.n_agents, n_items=plan.n_items)


def is_balanced(plan: Plan) -> bool:
    """Return whether all paired trials are in blocks and all cells are training cells, so that plain means are fair.

    Follow-ups are ignored, because no ability is estimated from them.

    With missing or held-out cells (agent, item), agents are compared on different items. A mean then mixes the ability of an
    agent with the difficulty of its items. On the paper's data (`benchmarks/cyclic.py`), the coverage of the intervals is then
    .79 to .93 for means of blocks, and .945 to .97 for the additive fit. The rank correlation is the same.
    """
    block = plan.block[(plan.trial_type == PAIRED) & (plan.role != FOLLOW_UP)]
    return bool(len(block) and (block >= 0).all() and plan.split.train.all())


def has_enough_answers(n_planned: Positions, n_answered: Positions) -> bool:
    """Return whether each agent lacks answers to at most the fraction `MAX_UNANSWERED_FRACTION` of its trials.

    Missing answers are not spread evenly. If an agent lacks answers on hard items, its mean is too high. If an agent lacks a
    tenth of its answers, the coverage of its interval is .82 for means of blocks, and .97 for the additive fit.

    n_planned, n_answered : int arrays (n_agents,), numbers of planned and of answered trials of each agent in answered blocks
    """
    return bool((n_planned - n_answered <= MAX_UNANSWERED_FRACTION * n_planned).all())


def agent_differences(abilities: Abilities) -> Differences:
    """Return the pairwise differences of abilities, NaN between agents of different components."""
    is_comparable = abilities.component[:, None] == abilities.component
    covariance = np.where(is_comparable, abilities.covariance.covariance, np.nan)
    centered = CentredCovariance(covariance, abilities.covariance.df)
    return pairwise_differences(abilities.ability, centered, level=LEVEL)


def select_best_agents(abilities: Abilities, differences: Differences) -> Choice | None:
    """Select the best agents, and bound their regret.

    The regret is the ability of the best agent minus that of the selected one.

    Parameters
    ----------
    abilities : Abilities
        Abilities of a ranking. If `abilities.search` is set, it determines how many agents are selected. Their regret
        bound then holds over all interim analyses of the search, which share the type I error rate alpha. Otherwise,
        one agent is selected, and the bound uses all of alpha.
    differences : Differences
        Pairwise differences of `abilities`.

    Returns
    -------
    Choice or None
        Selected agents, their regret bound, and the other candidates. None if some agents cannot be compared.
    """
    search = abilities.search
    if search is None:
        return select_best(abilities.ability, abilities.covariance, differences)

    last = search.analyses[-1]
    return select_best(
        abilities.ability,
        abilities.covariance,
        differences,
        top=search.top,
        alpha_fraction=last.alpha_fraction,
        upper_bounds=last.upper_bounds,
    )


def summarize_choice(abilities: Abilities, agent_ids: Sequence[str], *, differences: Differences) -> ChoiceFacts | None:
    """Select the best agents, and describe the selection by their ids.

    One agent is selected. In a search for the `top` best agents, `top` agents are selected.

    abilities : abilities of all agents; its `search`, if there is any, has `top`
    agent_ids : ids of the agents, in the order of `abilities`
    differences : pairwise differences of `abilities`

    Returns the selected `agents`, their regret bound (in units of ability), the other candidates for the best, the interval of
    the first agent, and the probabilities of being the best. Returns None if an ability is NaN or some agents cannot be compared.
    """
    selection = select_best_agents(abilities, differences)
    if selection is None:
        return None

    # remove impossible abilities from the interval of the first selected agent
    ability_of_first = abilities.ability[selection.agents[0]]
    bounds = np.array([selection.ability_low, selection.ability_high])
    low, high = abilities.limit(bounds, ability_of_first).tolist()
    selection = replace(selection, ability_low=low, ability_high=high)
    return describe_selection(selection, abilities.ability, agent_ids)


def describe_selection(selection: Choice, ability: Floats, agent_ids: Sequence[str]) -> ChoiceFacts:
    """Describe a selection of the best agents by their ids instead of their positions.

    selection : selected agents with their regret bound and the probabilities of being the best
    ability : float array (n_agents,), abilities of all agents, without NaN
    agent_ids : ids of all agents, in the order of `ability`

    Returns the selection. Its `p_best` maps the id of each agent to the probability that it is the single best agent, also if
    several are selected; largest first. Its `abilities` maps the ids of the selected agents, and of the next best one if there is
    any, to their abilities.
    """
    by_probability = np.argsort(-selection.p_best, kind="stable").tolist()
    p_best = {agent_ids[agent]: float(selection.p_best[agent]) for agent in by_probability}

    by_ability = sort_best_first(ability).tolist()
    not_selected = [agent for agent in by_ability if agent not in selection.agents]
    described_agents = (*selection.agents, *not_selected[:1])
    abilities = {agent_ids[agent]: float(ability[agent]) for agent in described_agents}

    return ChoiceFacts(
        agents=tuple(agent_ids[agent] for agent in selection.agents),
        regret_bound=selection.regret_bound,
        level=selection.level,
        candidates=tuple(agent_ids[agent] for agent in selection.candidates),
        ability_low=selection.ability_low,
        ability_high=selection.ability_high,
        p_best=p_best,
        expected_regret=selection.expected_regret,
        abilities=abilities,
    )


def summarize_rates(abilities: Abilities, agent_ids: Sequence[str]) -> RateFacts | None:
    """List the false-positive rates of the agents, highest first.

    The rates are estimated from independent trials, which compare responses to different items. The result also contains two
    numbers:

    - the share of the variance of the abilities that is due to errors of the rates;
    - the number of further independent calls that halve the standard errors of the rates.

    Both are None if the variances of the abilities are unknown, or if the rates do not add to them.

    Returns None if no agent has an independent trial.
    """
    rates = abilities.rates
    if not rates.n_trials.any():
        return None

    by_rate = np.argsort(-rates.rate, kind="stable").tolist()
    agents = tuple(
        AgentRate(
            agent=agent_ids[agent],
            rate=float(rates.rate[agent]),
            low=or_none(rates.low[agent]),
            high=or_none(rates.high[agent]),
            n_trials=int(rates.n_trials[agent]),
        )
        for agent in by_rate
    )

    share = _compute_rate_share(abilities)
    if share is None:
        return RateFacts(agents, variance_share=None, calls_to_halve=None)

    # Rates are shrunk to their mean, so they are as precise as rates from n calls without shrinkage. n is at least the number of
    # calls. A standard error is proportional to 1/√n, so 4n calls, which are 3n more, halve it.
    n_calls = float(rates.n_trials.sum()) / 2  # a call is a trial of two agents
    binomial_variance = rates.pooled * (1 - rates.pooled) / float(rates.n_trials.mean())
    shrinkage = max(1.0, binomial_variance / float(abilities.rate_variance.mean()))
    return RateFacts(agents, variance_share=share, calls_to_halve=round(3 * n_calls * shrinkage))


def _compute_rate_share(abilities: Abilities) -> float | None:
    """Return the mean fraction of the variance of an ability that is due to its false-positive rate; None if unknown."""
    variance = np.diag(abilities.covariance.covariance)
    rate_variance = abilities.rate_variance
    has_share = (variance > 0) & (rate_variance > 0)
    if not has_share.any():
        return None
    return float((rate_variance[has_share] / variance[has_share]).mean())


def build_ranking_table(
    abilities: Abilities, agent_ids: Sequence[str], *, differences: Differences, pool: Pool | PoolSummary | None = None
) -> pd.DataFrame:
    """Build the table of abilities, intervals and ranks, one row per agent, best first.

    The columns are the fields of `RankingRow`, such as `agent`, `group`, `ability` and the bounds `low` and `high` of its 95%
    interval, but without the self-consistency; and `target`, the population that the intervals refer to. Columns that are counted
    over trials contain None for imported scores. Agents without an ability (NaN) come last, and may have any rank. Agents of
    equal ability stay in the order of `agent_ids`.

    abilities : abilities of the agents, with their intervals
    agent_ids : ids of the agents, in the order of `abilities`
    differences : pairwise differences of `abilities`, which determine the ranks
    pool : pool of the agents, for the column `group`; None leaves this column empty

    Returns a DataFrame with the index 0 to n_agents − 1.
    """
    import pandas as pd  # takes long to load, and a plan needs this module without its tables

    marginal_ranks = differences.marginal_ranks
    simultaneous_ranks = differences.simultaneous_ranks
    group_by_agent = {} if pool is None else {agent.id: agent.group for agent in pool.agents}
    computed_columns = {
        "agent": list(agent_ids),
        "group": [group_by_agent.get(agent) for agent in agent_ids],
        "simultaneous_rank_low": simultaneous_ranks.low,
        "simultaneous_rank_high": simultaneous_ranks.high,
        "rank_low": marginal_ranks.low,
        "rank_high": marginal_ranks.high,
    }

    names = [column.name for column in columns_of(RankingRow) if not column.name.startswith("self_consistency")]
    columns = {}
    for name in names:
        if name in computed_columns:
            columns[name] = computed_columns[name]
        elif name in TEXT_VALUES:
            columns[name] = get_text_value(pool, name)
        elif hasattr(abilities, name):
            columns[name] = getattr(abilities, name)
        elif abilities.counts is None:  # imported scores have no counts of trials
            columns[name] = None
        else:
            columns[name] = getattr(abilities.counts, name)

    table = pd.DataFrame({**columns, "target": abilities.target})
    return table.iloc[sort_best_first(abilities.ability)].reset_index(drop=True)
