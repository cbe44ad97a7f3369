"""Estimate abilities of an extended run on the scale of its first agents, the anchors.

The anchors are ranked by the complete blocks that compare them with each other, so an extension does not change their
ranks. Agents that joined are linked to the anchors by linking trials, which compare them with anchors. The linking
error is part of their intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile

import numpy as np

from youden.engines.trial_blocks import ItemChunk, TrialsByItem
from youden.pipeline.abilities import (
    TRIAL_MEAN,
    Abilities,
    InterimAnalysis,
    ItemInfluence,
    ItemMatrices,
    SearchState,
    find_components,
)
from youden.pipeline.interim_analyses import analyze_extended_run
from youden.pipeline.multi_judge import with_judge_variance
from youden.protocol.blocks import get_extensions, is_in_complete_block, plan_after_extensions, restrict_to_anchors
from youden.stats.base.clusters import PRIOR_CLUSTERS, CentredCovariance, covariance_of_chunks
from youden.stats.base.pair_chunks import ChunkSource, PairChunk
from youden.stats.trials.anchored import (
    AnchorScale,
    LinkedEffects,
    LinkingChunk,
    LinkingChunkSource,
    compute_linked_influence,
    effect_scale,
)
from youden.types.plan_steps import Extension
from youden.types.pool import Bools, Floats, Positions
from youden.types.trials import ANCHOR, MAIN


def select_first_plan(trials: TrialsByItem) -> TrialsByItem:
    """Select the trials that rank the anchors, the agents of the first plan: comparisons of two anchors in complete blocks."""
    n_anchors = get_extensions(trials.plan).anchors
    return trials.select(restrict_to_anchors(trials.plan), lambda columns: is_in_complete_block(columns, n_anchors))


def shift_to_mean_on_first_items(abilities: Abilities, trials: TrialsByItem, n_items: int) -> Abilities:
    """Shift all abilities by a constant, so that their mean is the mean of all answers on the items of the first plan.

    The mean ability then does not change when items are added to the run.

    abilities : abilities of the agents that the trials compare
    trials : trials of the run, of which those with an answer are used
    n_items : number of items of the first plan; they come before the added items

    Returns a copy with unchanged standard errors; `abilities` itself if no items were added, or no first item has an answer.
    """
    if trials.plan.n_items == n_items:
        return abilities

    n_answers, answer_sum = 0, 0.0
    for chunk in trials.iter_answered():
        item = chunk.start + chunk.item  # a chunk numbers its items from 0
        first_items_answers = chunk.answer[item < n_items]
        n_answers += len(first_items_answers)
        answer_sum += float(first_items_answers.sum())
    if n_answers == 0:
        return abilities

    shift = answer_sum / n_answers - float(np.nanmean(abilities.ability))
    return abilities._replace(ability=abilities.ability + shift)


def estimate_extended_abilities(trials: TrialsByItem, anchors: Abilities) -> Abilities:
    """Estimate the abilities of all agents of an extended run.

    An anchor (an agent of the first plan) keeps its ability unless the run was extended by calls on this anchor. The abilities
    of all other agents combine complete blocks, which compare anchors with each other, and linking trials, which compare an
    agent with an anchor. Both are weighted by their numbers of trials. The false-positive rate of an agent is estimated from
    its own independent trials.

    anchors : mean answers of the anchors in their complete blocks; false-positive rates are not subtracted yet
    """
    plan = trials.plan
    if plan.extensions is None:
        return anchors.with_rates_subtracted()

    n_anchors = get_extensions(plan).anchors
    n_joined = plan.n_agents - n_anchors
    scale = fit_scale(trials, anchors)
    linked = link_agents(trials, anchors, scale)
    ability_per_effect = effect_scale(n_anchors)

    # numbers of trials of each agent, float arrays (n_agents,)
    has_ability = ~np.isnan(anchors.ability + anchors.covariance.std_error)
    n_block = _append_zeros(np.where(has_ability, anchors.n_trials, 0.0), n_joined)
    n_linked = linked.n_trials.astype(np.float64)
    n_total = n_block + n_linked

    # effect_i = (n_block · effect_block + n_linked · effect_linked) / (n_block + n_linked)
    block_effect = _append_zeros((anchors.ability - scale.center) / ability_per_effect, n_joined)
    linked_part = np.where(n_linked > 0, n_linked * linked.effect, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = (n_block * block_effect + linked_part) / n_total
    ability = scale.center + ability_per_effect * effect
    covariance = _estimate_extended_covariance(trials, anchors, linked, scale, n_block=n_block)

    # `focused` are the anchors that the run was extended on
    is_anchor = np.arange(plan.n_agents) < n_anchors
    focused = np.flatnonzero(is_anchor & (n_linked > 0))
    n_trials = np.where(n_linked > 0, n_total, _append_zeros(anchors.n_trials.astype(np.float64), n_joined))
    link_rates = partial(
        trials.false_positives.link_rates,
        trials.false_positives_of_anchors,
        anchors.rates,
        items_vary=anchors.target != "these-items",
    )
    abilities = Abilities(
        ability=ability,
        covariance=covariance,
        n_trials=n_trials.astype(np.int32),
        rates=link_rates(np.flatnonzero(~is_anchor)),
        ranking=anchors.ranking,
        method=f"{anchors.method}; added trials: mean on the scale of the first {n_anchors} agents, linking error included",
        target=anchors.target,
        component=find_components(trials),
        reference=is_anchor,
    )
    result = abilities.with_rates_subtracted()
    if len(focused):
        # further calls on some anchors must not change the intervals of other agents
        joined_or_focused = np.flatnonzero(~is_anchor | (n_linked > 0))
        with_focused = abilities._replace(rates=link_rates(joined_or_focused)).with_rates_subtracted()
        covariance = _with_rows_from(result.covariance, with_focused.covariance, focused)
        result = with_focused._replace(covariance=covariance)

    # anchors without linking trials keep their abilities exactly
    not_focused = np.flatnonzero(is_anchor & (n_linked == 0))
    return _restore_anchors(result, anchors, not_focused)


def _estimate_extended_covariance(
    trials: TrialsByItem, anchors: Abilities, linked: LinkedEffects, scale: AnchorScale, *, n_block: Floats
) -> CentredCovariance:
    """Estimate the covariance of the abilities of all agents, without the variance of false-positive rates.

    anchors : mean answers of the anchors in complete blocks
    linked : effects of all agents by linking trials, which compare an agent with an anchor
    scale : effects of the anchors and of the items, from which `linked` was estimated
    n_block : float array (n_agents,), number of each agent's trials in complete blocks
    """
    n_anchors = len(scale.effect)
    n_linked = linked.n_trials.astype(np.float64)
    n_total = n_block + n_linked
    with np.errstate(divide="ignore", invalid="ignore"):
        block_weight, linked_weight = n_block / n_total, n_linked / n_total
    anchor_influence = anchors.item_influence
    if anchor_influence is None:
        ability_per_effect = effect_scale(n_anchors)
        return _combine_variances(
            anchors.covariance, linked, block_weight, linked_weight, ability_per_effect=ability_per_effect
        )

    def get_anchor_influence(items: slice) -> Floats:
        return anchor_influence.to_matrices(items, n_anchors).influence

    iter_linked_influence = compute_linked_influence(
        make_linking_answer_source(trials), linked, scale=scale, anchors=get_anchor_influence
    )
    iter_influence = partial(
        _iter_item_influence,
        iter_linked_influence,
        anchor_influence,
        n_anchors=n_anchors,
        block_weight=np.nan_to_num(block_weight),
        linking_weight=np.nan_to_num(linked_weight),
    )
    covariance = _estimate_covariance(partial(iter_influence, anchors_by_blocks_only=False), n_total, n_anchors)
    focused = np.flatnonzero(n_linked[:n_anchors] > 0)
    if not len(focused):
        return covariance

    # further calls on some anchors must not change the standard errors of other agents
    n_without_further_calls = np.append(n_block[:n_anchors], n_total[n_anchors:])
    without_further_calls = _estimate_covariance(
        partial(iter_influence, anchors_by_blocks_only=True), n_without_further_calls, n_anchors
    )
    return _with_rows_from(without_further_calls, covariance, focused)


def _restore_anchors(abilities: Abilities, anchors: Abilities, unchanged: Positions) -> Abilities:
    """Restore the first estimates of agents that an extension does not measure again.

    These are agents of the first plan (anchors). Their abilities, the covariances among them, and their degrees of freedom are
    restored exactly.

    abilities : abilities of all agents after the extension; the anchors come first
    anchors : mean answers of the anchors in the first plan, from which false-positive rates are not subtracted
    unchanged : int array, positions of the anchors that keep their estimates

    Returns a copy of `abilities` with the restored estimates.
    """
    in_first_plan = anchors.with_rates_subtracted()

    ability = abilities.ability.copy()
    ability[unchanged] = in_first_plan.ability[unchanged]
    df = abilities.covariance.df.copy()
    df[unchanged] = in_first_plan.covariance.df[unchanged]

    # covariances of two unchanged anchors
    covariance = abilities.covariance.covariance.copy()
    unchanged_pairs = np.ix_(unchanged, unchanged)
    covariance[unchanged_pairs] = in_first_plan.covariance.covariance[unchanged_pairs]
    return abilities._replace(ability=ability, covariance=CentredCovariance(covariance, df))


def _iter_item_influence(
    iter_linked_influence: Callable[[], Iterator[tuple[slice, Floats, Floats]]],
    anchor_influence: ItemInfluence,
    *,
    n_anchors: int,
    block_weight: Floats,
    linking_weight: Floats,
    anchors_by_blocks_only: bool,
) -> Iterator[ItemMatrices]:
    """Yield the influence of each item on all abilities, and its share of each agent's trials, in chunks of items.

    The influence of an item is its contribution to the estimation error of an ability. There are two kinds of trials:

    - Complete blocks compare the agents of the first plan (anchors) with each other.
    - Linking trials compare an agent with an anchor.

    The result is the weighted mean over the two kinds.

    iter_linked_influence : function that yields the positions of the items of each chunk, and two float arrays (n_agents,
        n_items): influence and shares by linking trials
    anchor_influence : influence and shares of the items by complete blocks
    n_anchors : number of anchors, which are the first agents
    block_weight, linking_weight : float arrays (n_agents,), weights of the two kinds of trials
    anchors_by_blocks_only : whether the abilities of the anchors are estimated without their linking trials
    """
    n_agents = len(block_weight)
    if anchors_by_blocks_only:
        is_anchor = np.arange(n_agents) < n_anchors
        block_weight = np.where(is_anchor, 1.0, block_weight)
        linking_weight = np.where(is_anchor, 0.0, linking_weight)

    # one weight per row of the matrices
    block_factor, linking_factor = block_weight[:, np.newaxis], linking_weight[:, np.newaxis]
    for items, linking_influence, linking_share in iter_linked_influence():
        by_blocks = anchor_influence.to_matrices(items, n_agents)  # 0 for agents that are not anchors
        influence = block_factor * by_blocks.influence + linking_factor * linking_influence
        share = block_factor * by_blocks.share + linking_factor * linking_share
        yield ItemMatrices(influence, share)


def analyze_extended_search(trials: TrialsByItem, estimate: Callable[[TrialsByItem], Abilities]) -> Abilities:
    """Estimate the abilities of an extended run, and analyze its search for the best agents, if it has one.

    A run is extended in steps. The last step is a search if it sets `top`, the number of best agents to find.

    - A search without a maximum regret has one step, and is analyzed after it.
    - A search with a maximum regret may have several steps. It is analyzed before its first step and after each step. For
      example, if it consists of the last two of three steps, it is analyzed after the steps 1, 2 and 3.

    trials : all trials of the run
    estimate : function that estimates abilities from the trials of the run, or from its trials after an earlier step

    Returns the abilities by all trials. Their attribute `search` is the state of the search, None if there is no search.
    """
    abilities = estimate(trials)
    steps = get_extensions(trials.plan).steps
    top = steps[-1].top if steps else None
    if top is None:
        return abilities

    # analyze the answers before each step of the search
    analyses: list[InterimAnalysis] = []
    n_steps_before_search = len(steps) - _count_search_steps(steps)
    search_steps = steps[n_steps_before_search:]
    for n_steps_done, next_step in enumerate(search_steps, start=n_steps_before_search):
        abilities_so_far = estimate(select_trials_after_steps(trials, n_steps_done))
        abilities_so_far = with_judge_variance(abilities_so_far, trials, last_step=n_steps_done)
        analysis = analyze_extended_run(abilities_so_far, top=top, max_regret=next_step.max_regret, previous=analyses)
        analyses.append(analysis)

    # analyze all answers
    max_regret = steps[-1].max_regret
    with_judges = with_judge_variance(abilities, trials)
    analyses.append(analyze_extended_run(with_judges, top=top, max_regret=max_regret, previous=analyses))
    return abilities._replace(search=SearchState(top, max_regret, tuple(analyses)))


def _count_search_steps(steps: Sequence[Extension]) -> int:
    """Count the last steps of an extended run that form one search for the best agents with a maximum regret.

    These are the consecutive last steps that have a maximum regret and the same number of best agents to find. A search without
    a maximum regret spends all of its calls in any case, so its step is not counted.

    steps : extensions of the run, in order; at least one
    """
    top = steps[-1].top
    search_steps = takewhile(lambda step: step.top == top and step.max_regret, reversed(steps))
    return len(list(search_steps))


def _estimate_covariance(
    iter_influence: Callable[[], Iterator[ItemMatrices]], n_trials: Floats, n_anchors: int
) -> CentredCovariance:
    """Estimate the covariance of abilities by the sandwich estimator, with items as clusters.

    The covariance of two abilities is the sum over items of the product of the item's influences on them. Two corrections
    follow:

    - Items with a large share of an agent's trials are corrected for this share.
    - The variance of an agent with few items is shrunk towards a value that its number of trials predicts.

    Abilities are measured from the mean of the anchors, which are the agents of the first plan.

    iter_influence : function that yields two float arrays (n_agents, n_items) for each chunk of items: the influence of each
        item on each ability, and the fraction of the agent's trials that are on the item
    n_trials : float array (n_agents,), number of trials of each agent
    n_anchors : number of anchors, which are the first agents
    """
    n_agents = len(n_trials)
    n_items_by_agent = np.zeros(n_agents, dtype=np.int64)
    sum_of_squared_shares = np.zeros(n_agents)
    for _, share in iter_influence():
        n_items_by_agent += (share > 0).sum(axis=1)
        sum_of_squared_shares += (share**2).sum(axis=1)

    expected_variance = 1 / np.maximum(n_trials, 1)  # up to a factor: the variance of a mean is proportional to 1/n
    return covariance_of_chunks(
        iter_influence(),
        n_clusters=n_items_by_agent,
        share_squares=sum_of_squared_shares,
        relative_variance=expected_variance,
        anchors=np.arange(n_agents) < n_anchors,
    )


def _with_rows_from(base: CentredCovariance, source: CentredCovariance, agents: Positions) -> CentredCovariance:
    """Return a copy of `base` in which the covariances of some agents are those of `source`.

    Their degrees of freedom are also taken from `source`.

    base, source : covariances of the same agents
    agents : int array, positions of the agents whose rows and columns are taken from `source`
    """
    covariance, df = base.covariance.copy(), base.df.copy()
    covariance[agents] = source.covariance[agents]
    covariance[:, agents] = source.covariance[:, agents]
    df[agents] = source.df[agents]
    return CentredCovariance(covariance, df)


def _combine_variances(
    anchor_covariance: CentredCovariance,
    linked: LinkedEffects,
    block_weight: Floats,
    linked_weight: Floats,
    *,
    ability_per_effect: float,
) -> CentredCovariance:
    """Combine the variances of abilities from complete blocks and from linking trials, which are taken as independent.

    Complete blocks compare anchors, the agents of the first plan, with each other. Linking trials compare an agent with an
    anchor. The ability of an agent is the mean of the estimates from both, weighted by the numbers of its trials.

    anchor_covariance : covariance of the anchors by complete blocks
    linked : effects of all agents by linking trials, their variances, and their numbers of trials and blocks
    block_weight, linked_weight : float arrays (n_agents,), fractions of an agent's trials that are in complete blocks, and
        that are linking trials
    ability_per_effect : difference in ability that corresponds to a difference of 1 in the effects of `linked`

    Returns the covariance of all agents, and their degrees of freedom. Both are NaN for an agent whose variance from linking
    trials is unknown, because its linking trials are in fewer than 2 blocks.
    """
    n_anchors = len(anchor_covariance.df)
    n_agents = len(block_weight)

    # complete blocks: w_i · w_k · C_ik for anchors i and k, with w the weight of complete blocks
    anchor_weight = block_weight[:n_anchors]
    covariance = np.zeros((n_agents, n_agents))
    covariance[:n_anchors, :n_anchors] = (
        np.nan_to_num(anchor_covariance.covariance) * anchor_weight[:, None] * anchor_weight
    )

    # linking trials: variances only
    linked_variance = np.where(linked.n_trials > 0, linked.variance, 0.0)
    covariance[np.diag_indices(n_agents)] += ability_per_effect**2 * linked_weight**2 * linked_variance

    # degrees of freedom by the data: number of blocks − 1; an anchor has those of complete blocks, and its linking blocks
    df_of_data = linked.n_blocks.astype(np.float64) - 1
    n_linked_blocks = np.where(linked_weight[:n_anchors] > 0, linked.n_blocks[:n_anchors], 0)
    df_of_complete_blocks = np.nan_to_num(anchor_covariance.df - PRIOR_CLUSTERS)
    df_of_data[:n_anchors] = n_linked_blocks + df_of_complete_blocks

    # variances are shrunk towards a prior, which adds PRIOR_CLUSTERS degrees of freedom
    df = df_of_data + PRIOR_CLUSTERS

    is_unknown = np.isnan(np.diag(covariance))
    covariance[is_unknown] = covariance[:, is_unknown] = np.nan
    df[is_unknown] = np.nan
    return CentredCovariance(covariance, df)


def _append_zeros(column: Floats, n: int) -> Floats:
    """Replace NaN by 0 in an array (n_anchors,), and append `n` zeros for the agents that joined."""
    padded: Floats = np.zeros(len(column) + n)
    padded[: len(column)] = np.nan_to_num(column, posinf=np.inf)
    return padded


def select_trials_after_steps(trials: TrialsByItem, n: int) -> TrialsByItem:
    """Return the trials of a run as it was after its first `n` extensions."""
    return trials.select(plan_after_extensions(trials.plan, n), lambda columns: columns["step"] <= n)


ChunkFilter = Callable[[ItemChunk], Bools]
"""Returns which trials of a chunk are used: bool array (n_trials,)."""


def fit_scale(trials: TrialsByItem, anchors: Abilities, *, select: ChunkFilter | None = None) -> AnchorScale:
    """Compute the effects of the anchors from their abilities, and fit the effects of the items to the anchors' answers.

    The anchors are the agents of the first plan. The fit uses only those answered trials of two anchors that the plan's design
    has drawn (role "main"). The answer to a trial of agents i and k on item j is modeled as center + effect_i + effect_k +
    item_effect_j. The effect of an item without such trials is 0.

    trials : all trials of the run
    anchors : abilities of the anchors
    select : function that takes a chunk of trials and returns which of them may be used, bool array (n_trials,); all by
        default

    Returns the mean ability of the anchors (`center`), the effects of the anchors (`effect`, float array (n_anchors,)) and those
    of the items (`item_effect`, float array (n_items,)). It also has their variances.
    """
    return AnchorScale(
        make_anchor_answer_source(trials, select=select),
        ability=anchors.ability,
        std_error=anchors.covariance.std_error,
        n_items=trials.plan.n_items,
    )


def link_agents(
    trials: TrialsByItem, anchors: Abilities, scale: AnchorScale, *, select: ChunkFilter | None = None
) -> LinkedEffects:
    """Estimate effects of agents on the anchors' scale by linking trials, which extensions of the run have added.

    Linking trials compare new agents, and anchors that received further calls, with anchors.

    trials : all trials of the run, of which only linking trials are used
    anchors : abilities of the anchors, the agents of the first plan
    scale : effects of the anchors and items, as returned by `fit_scale`
    select : function that takes a chunk of trials and returns which of them may be used, bool array (n_trials,); all by
        default

    Returns the effects of all agents (`effect`) with their variances (`variance`), float arrays (n_agents,). An effect is the
    mean over linking trials of the answer minus `scale.center` and the effects of anchor and item; NaN without an answered
    linking trial. A variance includes the errors of the scale; NaN if the answered linking trials are in fewer than 2 blocks.
    """
    return LinkedEffects(
        make_linking_answer_source(trials, select=select),
        scale=scale,
        n_agents=trials.plan.n_agents,
        finite=anchors.ranking == TRIAL_MEAN,
    )


def make_anchor_answer_source(trials: TrialsByItem, *, select: ChunkFilter | None = None) -> ChunkSource:
    """Return a function that yields the answers to comparisons of two anchors, the agents of the first plan.

    Only trials that the design of the plan has drawn (role "main") are used. Each call of the function yields all answers
    again, in chunks of items.

    select : function that takes a chunk of trials and returns which of them may be used, bool array (n_trials,); all by default
    """
    n_anchors = get_extensions(trials.plan).anchors

    def iter_chunks() -> Iterator[PairChunk]:
        """Yield, for each chunk of items, the answered trials that compare an anchor with another one."""
        for chunk in trials.iter_answered():
            is_used = (chunk.role == MAIN) & (chunk.first < n_anchors) & (chunk.second < n_anchors)
            if select is not None:
                is_used &= select(chunk)
            answers = chunk.where(is_used)
            all_have_blocks = bool((answers.block >= 0).all())
            yield answers.to_pairs(by_block=all_have_blocks)

    return iter_chunks


def make_linking_answer_source(trials: TrialsByItem, *, select: ChunkFilter | None = None) -> LinkingChunkSource:
    """Return a function that yields the answers to linking trials.

    Extensions of the run have added these trials. A linking trial compares an agent with an anchor (an agent of the first
    plan), and counts for the ability of this agent. A trial of two anchors may count for both of them, and its answer is then
    listed twice. Each call of the function yields all answers again, in chunks of items.

    select : function that takes a chunk of trials and returns which of them may be used, bool array (n_trials,); all by default
    """
    n_anchors = get_extensions(trials.plan).anchors

    def iter_chunks() -> Iterator[LinkingChunk]:
        """Yield the answers to the linking trials in chunks of items, with the measured agent and its partner."""
        for chunk in trials.iter_answered():
            is_used = chunk.role == ANCHOR
            if select is not None:
                is_used &= select(chunk)
            yield _list_measured_agents(chunk.where(is_used), n_anchors)

    return iter_chunks


def _list_measured_agents(trials: ItemChunk, n_anchors: int) -> LinkingChunk:
    """List the answers to linking trials with the measured agent and its partner.

    A linking trial compares an agent with an anchor, an agent of the first plan. It measures the agent, and the anchor is the
    partner. Trials that measure their first agent come first, then trials that measure their second agent. A trial that
    measures both agents is listed twice.

    trials : answered linking trials of a chunk of items
    n_anchors : number of anchors, which are the first agents
    """
    # a trial measures an agent if its answer counts for the agent's ability, and if the partner is an anchor
    measures_first = trials.counts_for_first & (trials.second < n_anchors)
    measures_second = trials.counts_for_second & (trials.first < n_anchors)
    for_first = trials.where(measures_first)
    for_second = trials.where(measures_second)
    return LinkingChunk(
        item=np.append(for_first.item, for_second.item),
        agent=np.append(for_first.first, for_second.second),
        partner=np.append(for_first.second, for_second.first),
        block=np.append(for_first.block, for_second.block),
        answer=np.append(for_first.answer, for_second.answer),
        n_items=trials.n_items,
    )
