"""Checks whether a pool can be ranked at all, before money is spent, and says what judging it would take.

The pool is only looked at. Plans of a large pool are not drawn: what they cost is estimated, or said to be unknown.
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
from youden.judging.config.judge_files import JudgeConfig, known_judges, load_judge_of_run, price
from youden.judging.estimate import estimate
from youden.pipeline.planned_run import draw_run_plan
from youden.pools.checks.checked import Checked, Counts, DesignCost, SampledTexts
from youden.pools.checks.copied import find_addressing, find_borrowing, find_copies
from youden.pools.checks.items_alike import MOST_ITEMS, find_items_alike
from youden.pools.checks.likeness import find_clones, find_duplicates, find_families, find_rings, find_templates
from youden.pools.checks.plain_facts import Languages, find_languages, find_word_lists, lengths, plain_findings
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.adaptive import Width
from youden.protocol.plan import PlanSize, make_plan
from youden.stats.forecast import mean_parts, slots_for
from youden.types import Finding, Pool
from youden.types.pool import Positions, or_none

DRAWN_UP_TO = 400_000
"""Up to so many dense calls plans are drawn; above, what they cost is estimated."""

POOLED = 100

PAPER = ("gpt-4o-mini", "llama3-70b")
"""The paper's judges, whose costs are always shown."""


USUAL = ("cyclic",)
"""The design that a run takes where its config names none."""


def cost_of_run(config: RunConfig, unwritten: Pool | None = None) -> DesignCost:
    """Estimate the cost of a run's plan with its judge. unwritten: the pool that the config names, if it is not on disk yet.

    Raises: PoolError, PlanError, ConfigError.
    """
    judge = load_judge_of_run(config)
    plan = draw_run_plan(config, unwritten)
    cost = estimate(plan, judge)
    return DesignCost(plan.design, judge.name, cost.calls, cost.tokens_in, cost.tokens_out, cost.usd)


def _may_be_asked(judge: JudgeConfig) -> bool:
    """Whether it needs no key, its key is there, or it is one of the paper's two."""
    if judge.name in PAPER or judge.key_found(os.environ)[0]:
        return True
    return judge.key_variable is None and judge.backend != "litellm"


def estimate_costs(
    pool: Pool, length: NDArray[np.int64], designs: Sequence[str] | None = None
) -> tuple[tuple[DesignCost, ...], tuple[str, ...]]:
    """Costs of each design at its own budget with each judge, and what could not be estimated.

    length: int[K, J], characters, −1 where there is no response. Tokens are characters / 4. designs: None for all.
    """
    judges = [judge for judge in known_judges() if judge.makes_calls and _may_be_asked(judge)]
    costs: list[DesignCost] = []
    notes: list[str] = []
    n_dense = 2 * pool.n_agents * (pool.n_agents - 1) * pool.n_items
    for name in DESIGNS if designs is None else designs:
        try:
            drawn = _drawn(pool, name) if n_dense <= DRAWN_UP_TO and name != Width.name else None
            calls, characters = drawn or _estimated(pool, name, length)
        except YoudenError as error:
            notes.append(f"Cost of design '{name}': {error}")
            continue
        costs += [_cost(name, judge, calls, characters) for judge in judges]
    if any(cost.design == Width.name for cost in costs):
        notes.append(
            f"The calls of 'width' are for ± {Width.width:g}, were answers to vary as in four judged domains; `youden plan` says "
            "what other widths take, as in `youden plan CONFIG --width 0.03`."
        )
    return tuple(costs), tuple(notes)


def _drawn(pool: Pool, design: str) -> tuple[int, int] | None:
    """Calls and characters of the plan; None for a design that plans on as answers come."""
    plan = make_plan(pool, design=design)
    return None if plan.rounds is not None else (len(plan), plan.characters)


def _estimated(pool: Pool, design: str, length: NDArray[np.int64]) -> tuple[int, int]:
    make = DESIGNS.load(design)
    here = (length >= 0).sum(axis=0).astype(np.int64)
    calls = int(2 * (here * (here - 1)).sum())
    if design == Width.name:
        n_slots = slots_for(
            mean_parts(), Width.width, share=1.0, n_items=pool.n_items, most=calls // 2 // pool.n_agents
        )
        if n_slots is None:
            raise PlanError(
                f"± {Width.width:g} cannot be had on {pool.n_items:,} items, were answers like those of four judged domains.",
                slug="cost-unknown",
            )
        calls = n_slots * pool.n_agents + POOLED
    elif make.default_trials_per_agent is not None:
        size = PlanSize(pool.n_agents, pool.n_items, False, POOLED)
        calls = min(calls, size.default_calls(make.default_trials_per_agent))
    elif not make.judges_holdout:
        raise PlanError(
            f"The pool is too large to draw '{design}' here. Name a budget and ask `youden plan`.", slug="cost-unknown"
        )
    return calls, round(2 * calls * float(length[length >= 0].mean()))


def _cost(design: str, judge: JudgeConfig, calls: int, characters: int) -> DesignCost:
    tokens_in = -(-(characters + judge.overhead_characters * calls) // 4)
    tokens_out = judge.answer_tokens * calls
    usd = or_none(price(judge, tokens_in, tokens_out))
    return DesignCost(design, judge.name, calls, tokens_in, tokens_out, usd)


def check_config(config: RunConfig, *, seed: int = 0, designs: Sequence[str] | None = None) -> Checked:
    """The check of a run's pool, with what its own plan takes before the costs of `designs`. Raises: PoolError."""
    checked = check_pool(read_run_pool(config), seed=seed, designs=designs)
    try:
        return replace(checked, costs=(cost_of_run(config), *checked.costs))
    except YoudenError as error:
        return replace(checked, notes=(*checked.notes, f"What this run would take: {error}"))


def check_pool(pool: Pool, *, seed: int = 0, designs: Sequence[str] | None = None) -> Checked:
    """Counts, findings and costs of a pool. Counts are of all texts; other measures look at random items of a large pool.

    designs: whose costs are wanted; None for all.
    """
    length = lengths(pool)
    looked = SampledTexts.of(pool, seed=seed)
    notes = []
    if len(looked.items) < pool.n_items:
        notes.append(
            "Clones, copies, templates, word lists, rings, families and languages were looked for on "
            f"{len(looked.items):,} random items of {pool.n_items:,}."
        )
    if pool.n_items > MOST_ITEMS:
        notes.append(f"Items with similar responses were searched for among {MOST_ITEMS:,} random items.")
    n_prompts = sum(bool(item.prompt) for item in pool.items)
    if n_bare := pool.n_items - n_prompts:
        have = "has" if n_bare == 1 else "have"
        notes.append(
            f"{n_bare:,} of {pool.n_items:,} items {have} no prompt: who copies them or lists their words was "
            "not looked at, and what answers share because the prompt says it cannot be told from what they take from each other."
        )
    about_agents = agent_findings(looked, length)
    try:
        languages = find_languages(looked, seed=seed)
    except ConfigError as error:
        languages = Languages({}, ())
        notes.append(f"Languages were not looked at. {error.message}")
    findings = [*about_agents, *find_items_alike(pool, seed=seed), *languages.findings]
    costs, uncosted = estimate_costs(pool, length, designs)
    n_words = looked.n_words[: len(looked)]
    means = [n_words[looked.agent_of == k] for k in range(pool.n_agents)]
    there = length[length >= 0]
    return Checked(
        name=pool.name,
        counts=Counts(
            n_agents=pool.n_agents,
            n_items=pool.n_items,
            n_responses=len(there),
            n_missing=pool.n_missing,
            n_blank=sum(text is not None and not text.strip() for row in pool.texts for text in row),
            n_prompts=n_prompts,
            shortest=int(there.min(initial=there.max(initial=0))),
            median=int(np.median(there)) if len(there) else 0,
            longest=int(there.max(initial=0)),
            total=int(there.sum()),
            mean_words=float(n_words.mean()) if len(n_words) else None,
        ),
        agent_words={
            agent.id: float(own.mean()) if len(own) else None for agent, own in zip(pool.agents, means, strict=True)
        },
        languages=languages.languages,
        findings=tuple(findings),
        costs=costs,
        notes=(*notes, *uncosted),
    )


def agent_findings(looked: SampledTexts, length: Positions) -> list[Finding]:
    """What a check says of agents: gaps and lengths, then who copies, forms rings, lists words, addresses a judge or is family.

    length: int64[K, J], characters of each response, −1 where there is none.
    """
    pool = looked.pool
    plain = plain_findings(pool, length)
    clones = [*find_clones(looked)]
    alone = [
        *find_templates(looked),
        *find_copies(looked),
        *find_word_lists(looked),
        *find_addressing(pool),
    ]
    rings = [*find_rings(looked, cloned=_agents(clones))]
    known = _agents([*alone, *rings, *(one for one in plain if one.slug in ("long-winded", "curt"))])
    borrowing = [*find_borrowing(looked, cloned=_agents(clones), known=known)]
    return [
        *plain,
        *clones,
        *borrowing,
        *find_duplicates(pool, named=known | _agents([*clones, *borrowing])),
        *rings,
        *alone,
        *find_families(looked),
    ]


def _agents(findings: list[Finding]) -> frozenset[str]:
    return frozenset(agent for finding in findings for agent in finding.agents)
