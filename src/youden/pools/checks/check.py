"""Check whether a pool can be ranked before money is spent, and estimate the cost of judging it.

A check never changes the pool. Plans of a large pool are not drawn; their cost is estimated, or reported as unknown.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from youden.data.folder.joined_pools import read_run_pool
from youden.data.folder.run_config import RunConfig
from youden.errors import ConfigError, PlanError, YoudenError
from youden.judging.config.judge_files import JudgeConfig, call_cost, list_judges, load_judge_of_run
from youden.judging.estimate import estimate
from youden.pipeline.planned_run import draw_run_plan
from youden.pools.checks.checked import Counts, DesignCost, PoolCheck, SampledTexts
from youden.pools.checks.copied import find_judge_addressing, find_source_copying, find_text_reuse
from youden.pools.checks.items_alike import MAX_ITEMS, find_similar_items
from youden.pools.checks.likeness import find_clones, find_duplicates, find_families, find_rings, find_templates
from youden.pools.checks.plain_facts import (
    Languages,
    find_languages,
    find_response_problems,
    find_word_lists,
    response_lengths,
)
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.fixed_width import FixedWidth
from youden.protocol.plan import PlanSize, make_plan
from youden.stats.forecast import find_min_blocks, mean_prior_components
from youden.types import Finding, Pool
from youden.types.pool import Positions, or_none

MAX_DENSE_CALLS_TO_DRAW = 400_000
"""Number of dense calls above which plans are not drawn, and their cost is estimated."""

N_POOLED = 100
"""Number of pooled independent trials that estimates assume."""

PAPER_JUDGES = ("gpt-4o-mini", "llama3-70b")
"""Judges of the paper, whose costs are always estimated."""


DEFAULT_DESIGNS = ("cyclic",)
"""Design of a run whose config sets none."""


def estimate_run_cost(config: RunConfig, unwritten: Pool | None = None) -> DesignCost:
    """Estimate the cost of a run's plan with its judge.

    `unwritten` is the pool that the config names, if it has not been written yet. Raise PoolError, PlanError or
    ConfigError if the pool cannot be read, the plan cannot be drawn, or the judge cannot be loaded.
    """
    judge = load_judge_of_run(config)
    plan = draw_run_plan(config, unwritten)
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
    """Estimate the cost of designs (default: all), each with its default budget, for each available judge.

    length : int array (n_agents, n_items), characters of each response, −1 without a response; four count as one token.

    Returns the costs, and notes on designs whose cost could not be estimated, with the reasons.
    """
    judges = [judge for judge in list_judges() if judge.makes_calls and _is_available(judge)]
    costs: list[DesignCost] = []
    notes: list[str] = []
    n_dense = 2 * pool.n_agents * (pool.n_agents - 1) * pool.n_items
    for name in DESIGNS if designs is None else designs:
        try:
            size = _draw_size(pool, name) if n_dense <= MAX_DENSE_CALLS_TO_DRAW and name != FixedWidth.name else None
            n_calls, n_characters = size or _estimate_size(pool, name, length)
        except YoudenError as error:
            notes.append(f"Cost of design '{name}': {error}")
            continue
        costs += [_to_cost(name, judge, n_calls, n_characters) for judge in judges]
    if any(cost.design == FixedWidth.name for cost in costs):
        notes.append(
            f"The calls of 'fixed-width' are for a half-width of {FixedWidth.half_width:g}, if answers vary as in four "
            "reference data sets. Run "
            "`youden plan CONFIG --half-width 0.03` to estimate the calls for another one."
        )
    return tuple(costs), tuple(notes)


def _draw_size(pool: Pool, design: str) -> tuple[int, int] | None:
    """Draw a plan, and return its numbers of calls and characters.

    Return None for a design that adds trials as answers arrive.
    """
    plan = make_plan(pool, design=design)
    return None if plan.rounds is not None else (len(plan), plan.characters)


def _estimate_size(pool: Pool, design: str, length: NDArray[np.int64]) -> tuple[int, int]:
    """Estimate the numbers of calls and characters of a plan without drawing it.

    Raise PlanError [cost-unknown] if that is not possible.
    """
    design_class = DESIGNS.load(design)
    n_agents_of_item = (length >= 0).sum(axis=0).astype(np.int64)
    n_calls = int(2 * (n_agents_of_item * (n_agents_of_item - 1)).sum())
    if design == FixedWidth.name:
        max_blocks = n_calls // 2 // pool.n_agents
        n_blocks = find_min_blocks(
            mean_prior_components(), FixedWidth.half_width, fraction=1.0, n_items=pool.n_items, max_blocks=max_blocks
        )
        if n_blocks is None:
            raise PlanError(
                f"A half-width of {FixedWidth.half_width:g} is not attainable on {pool.n_items:,} items, if answers vary as "
                "in four "
                "reference data sets.",
                slug="cost-unknown",
            )
        n_calls = n_blocks * pool.n_agents + N_POOLED
    elif design_class.default_trials_per_agent is not None:
        size = PlanSize(pool.n_agents, pool.n_items, False, N_POOLED)
        n_calls = min(n_calls, size.default_calls(design_class.default_trials_per_agent))
    elif not design_class.plans_holdout:
        raise PlanError(
            f"The pool is too large to draw '{design}' here. Set a budget and run `youden plan`.", slug="cost-unknown"
        )
    mean_length = float(length[length >= 0].mean())
    return n_calls, round(2 * n_calls * mean_length)


def _to_cost(design: str, judge: JudgeConfig, n_calls: int, n_characters: int) -> DesignCost:
    tokens_in = -(-(n_characters + judge.overhead_characters * n_calls) // 4)
    tokens_out = judge.answer_tokens * n_calls
    usd = or_none(call_cost(judge, tokens_in, tokens_out))
    return DesignCost(design, judge.name, n_calls, tokens_in, tokens_out, usd)


def check_config(config: RunConfig, *, seed: int = 0, designs: Sequence[str] | None = None) -> PoolCheck:
    """Check the pool of a run.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    seed : int, default 0
        Seed of the sample of items that slow checks use.
    designs : sequence of str, optional
        Designs whose cost is estimated. Default: all.

    Returns
    -------
    PoolCheck
        The first cost is that of the run's own plan; if it is unknown, a note says why.

    Raises
    ------
    PoolError
        If the pool cannot be read.
    """
    checked = check_pool(read_run_pool(config), seed=seed, designs=designs)
    try:
        return replace(checked, costs=(estimate_run_cost(config), *checked.costs))
    except YoudenError as error:
        return replace(checked, notes=(*checked.notes, f"The cost of this run is unknown: {error}"))


def check_pool(pool: Pool, *, seed: int = 0, designs: Sequence[str] | None = None) -> PoolCheck:
    """Check a pool.

    Parameters
    ----------
    pool : Pool
        Pool to check. Sizes count all responses; slow checks of a large pool use only random items.
    seed : int, default 0
        Seed of the sample.
    designs : sequence of str, optional
        Designs whose cost is estimated. Default: all.

    Returns
    -------
    PoolCheck
    """
    length = response_lengths(pool)
    sample = SampledTexts.from_pool(pool, seed=seed)
    notes = []
    if len(sample.items) < pool.n_items:
        notes.append(
            "Clones, copies, templates, word lists, rings, families and languages were searched for on "
            f"{len(sample.items):,} random items of {pool.n_items:,}."
        )
    if pool.n_items > MAX_ITEMS:
        notes.append(f"Items with similar responses were searched for among {MAX_ITEMS:,} random items.")
    n_prompts = sum(bool(item.prompt) for item in pool.items)
    if n_without := pool.n_items - n_prompts:
        have = "has" if n_without == 1 else "have"
        notes.append(
            f"{n_without:,} of {pool.n_items:,} items {have} no prompt. On these items, copies of prompts and lists of their "
            "words are not detected, and words that responses take from the prompt count as shared by the agents."
        )
    findings_of_agents = find_agent_problems(sample, length)
    try:
        languages = find_languages(sample, seed=seed)
    except ConfigError as error:
        languages = Languages({}, ())
        notes.append(f"Languages were not checked. {error.message}")
    findings = [*findings_of_agents, *find_similar_items(pool, seed=seed), *languages.findings]
    costs, cost_notes = estimate_costs(pool, length, designs)
    n_words = sample.n_words[: len(sample)]
    agent_words = {}
    for k, agent in enumerate(pool.agents):
        n_agent_words = n_words[sample.agent_of == k]
        agent_words[agent.id] = float(n_agent_words.mean()) if len(n_agent_words) else None
    valid_lengths = length[length >= 0]
    return PoolCheck(
        name=pool.name,
        counts=Counts(
            n_agents=pool.n_agents,
            n_items=pool.n_items,
            n_responses=len(valid_lengths),
            n_missing=pool.n_missing,
            n_blank=sum(text is not None and not text.strip() for row in pool.texts for text in row),
            n_prompts=n_prompts,
            shortest=int(valid_lengths.min(initial=valid_lengths.max(initial=0))),
            median=int(np.median(valid_lengths)) if len(valid_lengths) else 0,
            longest=int(valid_lengths.max(initial=0)),
            total=int(valid_lengths.sum()),
            mean_words=float(n_words.mean()) if len(n_words) else None,
        ),
        agent_words=agent_words,
        languages=languages.languages,
        findings=tuple(findings),
        costs=costs,
        notes=(*notes, *cost_notes),
    )


def find_agent_problems(sample: SampledTexts, length: Positions) -> list[Finding]:
    """Find problems of agents that distort a ranking.

    Problems are gaps and unusual lengths, clones, text reuse, duplicates, rings, templates, copied prompts, lists of
    words, texts that address a judge, and families.

    Parameters
    ----------
    sample : SampledTexts
        Texts of the pool.
    length : int array (n_agents, n_items)
        Characters of each response, −1 without a response.

    Returns
    -------
    list of Finding
        An agent with a finding that explains its text reuse or duplicates is not reported for these.
    """
    pool = sample.pool
    plain = find_response_problems(pool, length)
    clones = [*find_clones(sample)]
    single = [
        *find_templates(sample),
        *find_source_copying(sample),
        *find_word_lists(sample),
        *find_judge_addressing(pool),
    ]
    rings = [*find_rings(sample, clones=_agents(clones))]
    unusual_lengths = [finding for finding in plain if finding.slug in ("very-long", "very-short")]
    excluded = _agents([*single, *rings, *unusual_lengths])
    reuse = [*find_text_reuse(sample, clones=_agents(clones), excluded=excluded)]
    return [
        *plain,
        *clones,
        *reuse,
        *find_duplicates(pool, excluded=excluded | _agents([*clones, *reuse])),
        *rings,
        *single,
        *find_families(sample),
    ]


def _agents(findings: list[Finding]) -> frozenset[str]:
    return frozenset(agent for finding in findings for agent in finding.agents)
