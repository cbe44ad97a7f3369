"""Checks whether a pool can be ranked at all, before money is spent.

The pool is only looked at, never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from youden.data.folder.joining import read_run_pool
from youden.data.folder.run_config import RunConfig
from youden.errors import ConfigError, YoudenError
from youden.nouns import Pool
from youden.nouns.arrays import Positions
from youden.pools.look.addressing import find_addressing
from youden.pools.look.borrowing import find_borrowing
from youden.pools.look.circles import find_families, find_rings
from youden.pools.look.clones import find_clones, find_duplicates
from youden.pools.look.costs import cost_of_run, estimate_costs
from youden.pools.look.findings import Checked, Counts, Finding
from youden.pools.look.items_alike import find_items_alike
from youden.pools.look.languages import Languages, find_languages
from youden.pools.look.looked_at import LookedAt
from youden.pools.look.plain_facts import lengths, plain_findings
from youden.pools.look.sources import find_copies
from youden.pools.look.templates import find_templates
from youden.pools.look.word_lists import find_word_lists


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
    looked = LookedAt.of(pool, seed=seed)
    notes = []
    if len(looked.items) < pool.n_items:
        notes.append(
            "Clones, copies, templates, word lists, rings, families and languages were looked for on "
            f"{len(looked.items):,} random items of {pool.n_items:,}."
        )
    n_prompts = sum(bool(item.prompt) for item in pool.items)
    if n_prompts < pool.n_items:
        notes.append(
            f"{pool.n_items - n_prompts:,} of {pool.n_items:,} items have no prompt: who copies them or lists their words was "
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


def agent_findings(looked: LookedAt, length: Positions) -> list[Finding]:
    """What a check says of agents: gaps and lengths, then who copies, forms rings, lists words, addresses a judge or is family.

    length: int64[K, J], characters of each response, −1 where there is none.
    """
    pool = looked.pool
    plain = plain_findings(pool, length)
    clones = find_clones(looked)
    alone = [
        *find_templates(looked),
        *find_copies(looked),
        *find_word_lists(looked),
        *find_addressing(pool),
    ]
    rings = find_rings(looked, cloned=_agents(clones))
    known = _agents([*alone, *rings, *(one for one in plain if one.slug in ("long-winded", "curt"))])
    borrowing = find_borrowing(looked, cloned=_agents(clones), known=known)
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
