"""Check whether a pool can be ranked before money is spent, and estimate the cost of judging it.

A check never changes the pool. Plans of a large pool are not drawn; their cost is estimated, or reported as unknown.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from youden.data.folder.joined_pools import read_run_pools
from youden.data.folder.run_config import RunConfig
from youden.data.pools.sampled_texts import SampledTexts
from youden.errors import ConfigError, PlanError, YoudenError
from youden.judging.backend_records import LEXICAL
from youden.judging.backends.lexical import find_few_items
from youden.judging.config.judge_files import JudgeConfig, call_cost, list_judges, load_judge_of_run
from youden.judging.estimate import estimate
from youden.pipeline.clones import find_clones
from youden.pipeline.planned_run import draw_run_plan
from youden.pools.checks.checked import Counts, DesignCost, PoolCheck
from youden.pools.checks.copied import find_judge_addressing, find_prompt_copying, find_text_reuse
from youden.pools.checks.items_alike import MAX_ITEMS, find_similar_items
from youden.pools.checks.languages import Languages, find_languages
from youden.pools.checks.likeness import find_duplicates, find_families, find_rings, find_templates
from youden.pools.checks.plain_facts import find_response_problems, response_lengths
from youden.pools.checks.word_lists import find_word_lists
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.fixed_width import FixedWidth
from youden.protocol.plan import PlanSize, make_plan, note_empty_responses
from youden.stats.forecast import find_min_blocks
from youden.stats.reference_data import mean_prior_components
from youden.text.words import has_unspaced_script
from youden.types import Finding, Pool
from youden.types.pool import Floats, Positions, or_none

MAX_DENSE_CALLS_TO_DRAW = 400_000
"""Number of dense calls above which plans are not drawn, and their cost is estimated."""

PAPER_JUDGES = ("gpt-4o-mini", "llama3-70b")
"""Judges of the paper, whose costs are always estimated."""


DEFAULT_DESIGNS = ("cyclic",)
"""Design of a run whose config sets none."""


def estimate_run_cost(config: RunConfig, pool: Pool | None = None) -> DesignCost:
    """Estimate the cost of judging the plan of a run.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    pool : Pool, optional
        Pool of the run. Default: the pool is read from the path in the config. If there is no file at this path yet, the pool
        must be passed.

    Returns
    -------
    DesignCost
        Calls, tokens and USD of the run's plan; USD is None if a price is unknown.

    Raises
    ------
    PoolError, PlanError, ConfigError
        If the pool cannot be read, the plan cannot be drawn, or the judge cannot be loaded.
    """
    judge = load_judge_of_run(config)
    plan = draw_run_plan(config, pool)
    cost = estimate(plan, judge)
    return DesignCost(plan.design, judge.name, cost.calls, cost.tokens_in, cost.tokens_out, cost.usd)


def _is_available(judge: JudgeConfig) -> bool:
    """Return whether the judge is one of the paper's, has its API key, or needs none."""
    if judge.name in PAPER_JUDGES or judge.find_key(os.environ)[0]:
        return True
    return judge.key_variable is None and judge.backend != "litellm"


def estimate_costs(
    pool: Pool, length: NDArray[np.int64], designs: Sequence[str] | None = None
) -> tuple[tuple[DesignCost, ...], tuple[str, ...]]:
    """Estimate the cost of each design, with its default budget, for each judge that can be used.

    A judge with a config file can be used if it makes calls, and if its API key is in the environment of the process or not
    needed. The judges of the paper are included without a key. No request is sent.

    Parameters
    ----------
    pool : Pool
        Pool to judge.
    length : int array (n_agents, n_items)
        Characters of the first response of each agent to each item, −1 if it is missing. Four characters count as one token.
    designs : sequence of str, optional
        Names of designs. Default: all.

    Returns
    -------
    costs : tuple of DesignCost
        Calls, tokens and USD (None if the price is unknown), one per design and judge.
    notes : tuple of str
        Designs whose cost could not be estimated, with the reasons, for example that the name is unknown. Also the assumptions of
        the estimates.
    """
    judges = [judge for judge in list_judges() if judge.makes_calls and _is_available(judge)]
    costs: list[DesignCost] = []
    notes: list[str] = []
    for name in DESIGNS if designs is None else designs:
        try:
            n_calls, n_characters = _count_calls_and_characters(pool, name, length)
        except YoudenError as error:
            notes.append(f"Cost of design '{name}': {error}")
            continue
        costs += [_to_cost(name, judge, n_calls, n_characters) for judge in judges]

    if any(cost.design == FixedWidth.name for cost in costs):
        notes.append(
            f"The calls of 'fixed-width' are for a half-width of {FixedWidth.half_width:g}, if answers vary as in four "
            "reference data sets. Run `youden plan CONFIG --half-width 0.03` to estimate the calls for another one."
        )
    return tuple(costs), tuple(notes)


def _count_calls_and_characters(pool: Pool, design: str, length: NDArray[np.int64]) -> tuple[int, int]:
    """Count the calls of a design with its default budget, and the characters of the texts in these calls.

    Both numbers are estimated if the pool is large, or if the design adds trials as answers arrive.

    design : name of a registered design
    length : int array (n_agents, n_items), characters of each response, −1 if it is missing

    Returns the number of calls and the number of characters.
    """
    n_dense_calls = 2 * pool.n_agents * (pool.n_agents - 1) * pool.n_items
    if n_dense_calls <= MAX_DENSE_CALLS_TO_DRAW and design != FixedWidth.name:
        plan = make_plan(pool, design=design)
        adds_trials_later = plan.rounds is not None
        if not adds_trials_later:
            return len(plan), plan.characters
    return _estimate_calls(pool, design, length)


def _estimate_calls(pool: Pool, design: str, length: NDArray[np.int64]) -> tuple[int, int]:
    """Estimate the number of calls of a plan, and the number of characters of all texts in these calls.

    The plan itself is not drawn, which saves time in a large pool.

    design : name of a registered design
    length : int array (n_agents, n_items), number of characters of each response, −1 for a missing response

    Raises PlanError [cost-unknown] if the design has no default budget, or if no number of calls on these items gives
    intervals of the default half-width.
    """
    is_present = length >= 0
    n_agents_by_item = is_present.sum(axis=0).astype(np.int64)
    n_ordered_pairs_by_item = n_agents_by_item * (n_agents_by_item - 1)
    n_ordered_pairs = int(n_ordered_pairs_by_item.sum())
    if design == FixedWidth.name:
        # a block has one ordered pair per agent
        n_calls = _estimate_fixed_width_calls(pool, max_blocks=n_ordered_pairs // pool.n_agents)
    else:
        # one paired and one independent trial per ordered pair
        n_calls = _estimate_default_calls(pool, design, n_dense_calls=2 * n_ordered_pairs)

    mean_length = float(length[is_present].mean())
    n_texts = 2 * n_calls
    return n_calls, round(n_texts * mean_length)


def _estimate_fixed_width_calls(pool: Pool, *, max_blocks: int) -> int:
    """Estimate how many calls the design fixed-width needs for intervals of its default half-width.

    The variances of the answers are not known yet; they are taken from reference data sets.

    max_blocks : maximum number of blocks. In a block of trials on one item, each agent appears once first and once second.

    Raises PlanError [cost-unknown] if `max_blocks` blocks are not enough.
    """
    n_blocks = find_min_blocks(
        mean_prior_components(), FixedWidth.half_width, fraction=1.0, n_items=pool.n_items, max_blocks=max_blocks
    )
    if n_blocks is None:
        raise PlanError(
            f"A half-width of {FixedWidth.half_width:g} is not attainable on {pool.n_items:,} items, if answers vary as "
            "in four reference data sets.",
            slug="cost-unknown",
        )
    trials_per_agent = 2 * n_blocks
    plan_size = PlanSize(pool.n_agents, pool.n_items)
    return plan_size.calls(trials_per_agent)


def _estimate_default_calls(pool: Pool, design: str, *, n_dense_calls: int) -> int:
    """Estimate the number of calls of a plan with the default budget of its design.

    A design without a default budget either compares all pairs of agents on all items, or its calls are not known
    before the plan is drawn.

    n_dense_calls : number of calls that compare all pairs of agents on all items; an upper bound

    Raises PlanError [cost-unknown] if the number of calls is not known.
    """
    design_class = DESIGNS.load(design)
    if design_class.default_trials_per_agent is not None:
        plan_size = PlanSize(pool.n_agents, pool.n_items)
        n_default_calls = plan_size.default_calls(design_class.default_trials_per_agent)
        return min(n_dense_calls, n_default_calls)

    compares_all_pairs = design_class.plans_holdout  # other designs plan no held-out trials
    if compares_all_pairs:
        return n_dense_calls
    raise PlanError(
        f"The pool is too large to draw '{design}' here. Set a budget and run `youden plan`.", slug="cost-unknown"
    )


def _to_cost(design: str, judge: JudgeConfig, n_calls: int, n_characters: int) -> DesignCost:
    """Convert numbers of calls and characters to tokens and USD; four characters count as one token, rounded up."""
    n_sent = n_characters + judge.overhead_characters * n_calls
    tokens_in = math.ceil(n_sent / 4)
    tokens_out = judge.answer_tokens * n_calls
    usd = or_none(call_cost(judge, tokens_in, tokens_out))
    return DesignCost(design, judge.name, n_calls, tokens_in, tokens_out, usd)


def check_config(config: RunConfig, *, seed: int = 0, designs: Sequence[str] | None = None) -> PoolCheck:
    """Check the pool of a run for problems that make a ranking wrong, and estimate costs. No request is sent.

    Parameters
    ----------
    config : RunConfig
        Config of the run. Its pool is checked with all extensions.
    seed : int, default 0
        Seed of the sample of items that slow checks use.
    designs : sequence of str, optional
        Names of the designs whose cost is estimated. Default: all. A note states the reason if a cost cannot be estimated.

    Returns
    -------
    PoolCheck
        Sizes of the pool, findings, costs and notes: the result of `check_pool`, with two additions. These are findings about the
        judge of the run, and the cost of the run's plan, which is the first cost. If the judge cannot be loaded, or the cost of
        the plan is unknown, a note states the reason instead.

    Raises
    ------
    PoolError
        If the pool cannot be read, or an extension does not fit it.
    """
    pool = read_run_pools(config)[-1]
    pool_check = check_pool(pool, seed=seed, designs=designs)
    findings, costs, notes = pool_check.findings, pool_check.costs, pool_check.notes
    try:
        judge = load_judge_of_run(config)
        findings = (*find_judge_problems(judge, pool), *findings)
        costs = (estimate_run_cost(config), *costs)
    except YoudenError as error:
        notes = (*notes, f"The cost of this run is unknown: {error}")
    return replace(pool_check, findings=findings, costs=costs, notes=notes)


def find_judge_problems(judge: JudgeConfig, pool: Pool) -> list[Finding]:
    """Find problems that make a judge unsuitable for a pool.

    Parameters
    ----------
    judge : JudgeConfig
        The judge.
    pool : Pool
        The pool.

    Returns
    -------
    list of Finding
        One finding if the judge, or a judge of a jury, is `lexical`, and the pool has too few items for it; otherwise empty.
    """
    is_lexical = any(member.backend == LEXICAL for member in judge.judges or (judge,))
    return find_few_items(pool) if is_lexical else []


def check_pool(pool: Pool, *, seed: int = 0, designs: Sequence[str] | None = None) -> PoolCheck:
    """Check a pool for problems that make its ranking wrong, for example near-copies of agents, and estimate costs.

    Problems of the pool are returned as findings; they raise no error. No request is sent.

    Parameters
    ----------
    pool : Pool
        Pool to check. Slow checks of a large pool use only random items.
    seed : int, default 0
        Seed of the choice of random items.
    designs : sequence of str, optional
        Names of the designs whose cost is estimated, for example "cyclic". Default: all. An unknown name gives a note.

    Returns
    -------
    PoolCheck
        Sizes of the pool, findings, costs, and notes on empty responses and on what could not be checked or estimated. All
        responses are counted, but lengths refer to the first response of an agent to an item. A cost is the number of calls
        and tokens and the USD of one design with one judge. Judges that make calls are included, if their API key is in the
        environment of the process or not needed.
    """
    lengths = response_lengths(pool)
    sample = SampledTexts.from_pool(pool, seed=seed)  # responses and prompts of random items, as words
    notes = _describe_limits(pool, n_sampled_items=len(sample.items))
    empty_note = note_empty_responses(pool)
    if empty_note:
        notes.append(f"{empty_note}.")
    findings = find_agent_problems(sample, lengths)
    findings += find_similar_items(pool, seed=seed)
    try:
        languages = find_languages(sample, seed=seed)
    except ConfigError as error:
        languages = Languages({}, ())
        notes.append(f"Languages were not checked. {error.message}")
    findings += languages.findings
    costs, cost_notes = estimate_costs(pool, lengths, designs)

    n_words = _count_words(sample)
    return PoolCheck(
        name=pool.name,
        counts=_count_responses(pool, lengths, mean_words=_compute_mean_words(n_words)),
        agent_words=_compute_mean_words_by_agent(sample, n_words),
        languages=languages.languages,
        findings=tuple(findings),
        costs=costs,
        notes=(*notes, *cost_notes),
    )


def _count_words(sample: SampledTexts) -> Floats:
    """Count the words of each response, float (n_texts,); NaN if it contains a script that is written without spaces."""
    n_words = sample.n_words[: len(sample)].astype(np.float64)
    responses = sample.pool.texts[sample.agent_of, sample.items[sample.item_of]]
    has_unspaced = np.fromiter(map(has_unspaced_script, responses), dtype=np.bool_, count=len(responses))
    n_words[has_unspaced] = np.nan
    return n_words


def _compute_mean_words(n_words: Floats) -> float | None:
    """Return the mean number of words of the responses whose words were counted; None if these are not most responses."""
    is_counted = ~np.isnan(n_words)
    if 2 * is_counted.sum() <= len(n_words):
        return None
    return float(n_words[is_counted].mean())


def _compute_mean_words_by_agent(sample: SampledTexts, n_words: Floats) -> dict[str, float | None]:
    """Return the result of `_compute_mean_words` for the responses of each agent, by its id."""
    means = {}
    for position, agent in enumerate(sample.pool.agents):
        means[agent.id] = _compute_mean_words(n_words[sample.agent_of == position])
    return means


def _describe_limits(pool: Pool, *, n_sampled_items: int) -> list[str]:
    """Describe which checks used only a sample of the items, or lacked prompts.

    n_sampled_items : number of items that the checks of the texts used
    """
    notes = []
    if n_sampled_items < pool.n_items:
        notes.append(
            "Clones, copies, templates, word lists, rings, families and languages were searched for on "
            f"{n_sampled_items:,} random items of {pool.n_items:,}."
        )
    if pool.n_items > MAX_ITEMS:
        notes.append(f"Items with similar responses were searched for among {MAX_ITEMS:,} random items.")
    n_without_prompt = sum(not item.prompt for item in pool.items)
    if n_without_prompt:
        verb = "has" if n_without_prompt == 1 else "have"
        notes.append(
            f"{n_without_prompt:,} of {pool.n_items:,} items {verb} no prompt. On these items, copies of prompts and lists of "
            "their words are not detected, and words that responses take from the prompt count as shared by the agents."
        )
    return notes


def _count_responses(pool: Pool, length: Positions, *, mean_words: float | None) -> Counts:
    """Count the agents, items and responses of a pool, and summarize the lengths of the first responses of agents to items.

    length : int array (n_agents, n_items), characters of each first response, −1 if there is none
    mean_words : mean number of words of a response; None if it was not measured
    """
    valid_lengths = length[length >= 0]
    has_responses = len(valid_lengths) > 0
    n_blank = sum(text is not None and not text.strip() for texts in pool.all_texts for text in texts)
    n_prompts = sum(bool(item.prompt) for item in pool.items)
    return Counts(
        n_agents=pool.n_agents,
        n_items=pool.n_items,
        n_responses=len(valid_lengths),
        n_all_responses=pool.n_responses,
        n_missing=pool.n_missing,
        n_blank=n_blank,
        n_prompts=n_prompts,
        shortest=int(valid_lengths.min()) if has_responses else 0,
        median=int(np.median(valid_lengths)) if has_responses else 0,
        longest=int(valid_lengths.max()) if has_responses else 0,
        total=int(valid_lengths.sum()),
        mean_words=mean_words,
    )


def find_agent_problems(sample: SampledTexts, length: Positions) -> list[Finding]:
    """Find agents whose responses make a ranking wrong, for example because they are copies.

    Parameters
    ----------
    sample : SampledTexts
        Texts of the pool.
    length : int array (n_agents, n_items)
        Characters of each response, −1 without a response.

    Returns
    -------
    list of Finding
        One finding per problem, with the ids of the agents. An agent with a problem that explains text reuse or duplicates, such
        as a template, is not also reported for these.
    """
    pool = sample.pool
    response_problems = find_response_problems(pool, length)
    clones = list(find_clones(sample))
    clone_ids = _list_agents(clones)
    problems_of_one_agent = [
        *find_templates(sample),
        *find_prompt_copying(sample),
        *find_word_lists(sample),
        *find_judge_addressing(pool),
    ]
    rings = list(find_rings(sample, clones=clone_ids))

    # these problems explain why texts of an agent occur in those of other agents
    unusual_lengths = [finding for finding in response_problems if finding.slug in ("very-long", "very-short")]
    explanations_of_reuse = [*problems_of_one_agent, *rings, *unusual_lengths]
    reuse = list(find_text_reuse(sample, clones=clone_ids, excluded=_list_agents(explanations_of_reuse)))
    explanations_of_duplicates = [*explanations_of_reuse, *clones, *reuse]
    duplicates = list(find_duplicates(pool, excluded=_list_agents(explanations_of_duplicates)))
    families = list(find_families(sample))
    return [*response_problems, *clones, *reuse, *duplicates, *rings, *problems_of_one_agent, *families]


def _list_agents(findings: list[Finding]) -> frozenset[str]:
    """Return the ids of all agents that the findings name."""
    return frozenset(agent for finding in findings for agent in finding.agents)
