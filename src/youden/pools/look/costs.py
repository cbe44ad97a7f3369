"""What judging a pool would take: as a run's config says, or by each design with each judge there is a config for.

Plans of a large pool are not drawn: what they cost is estimated, or said to be unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from youden.data.folder.run_config import RunConfig
from youden.errors import PlanError, YoudenError
from youden.judging.config.reading import JudgeConfig, known_judges, load_judge_config
from youden.judging.estimate import estimate
from youden.nouns import Pool
from youden.pools.look.findings import DesignCost
from youden.protocol.budget import Size, default_calls
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.width import Width
from youden.protocol.plan import make_plan
from youden.run.plan import draw_run_plan
from youden.stats.precision.domains import mean_parts
from youden.stats.precision.forecast import slots_for

DRAWN_UP_TO = 400_000
"""Up to so many dense calls plans are drawn; above, what they cost is estimated."""

POOLED = 100


USUAL = ("cyclic",)
"""The design that a run takes where its config names none."""


def cost_of_run(config: RunConfig) -> DesignCost:
    """What the run's own plan takes with its own judge. Raises: PoolError, PlanError, ConfigError."""
    judge = load_judge_config(config.judge)
    pool, plan = draw_run_plan(config)
    cost = estimate(plan, pool, judge)
    return DesignCost(plan.design, judge.name, cost.calls, cost.tokens_in, cost.tokens_out, cost.usd)


def estimate_costs(
    pool: Pool, length: NDArray[np.int64], designs: Sequence[str] | None = None
) -> tuple[tuple[DesignCost, ...], tuple[str, ...]]:
    """Costs of each design at its own budget with each judge, and what could not be estimated.

    length: int[K, J], characters, −1 where there is no response. Tokens are characters / 4. designs: None for all.
    """
    judges = [judge for judge in known_judges() if judge.makes_calls]
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
    elif make.percent is not None:
        calls = min(calls, default_calls(make.percent, Size(pool.n_agents, pool.n_items, False, POOLED)))
    elif not make.judges_holdout:
        raise PlanError(
            f"The pool is too large to draw '{design}' here. Name a budget and ask `youden plan`.", slug="cost-unknown"
        )
    return calls, round(2 * calls * float(length[length >= 0].mean()))


def _cost(design: str, judge: JudgeConfig, calls: int, characters: int) -> DesignCost:
    tokens_in = -(-(characters + judge.overhead_characters * calls) // 4)
    tokens_out = judge.answer_tokens * calls
    usd = None
    if judge.price_in is not None and judge.price_out is not None:
        usd = (tokens_in * judge.price_in + tokens_out * judge.price_out) / 1e6
    return DesignCost(design, judge.name, calls, tokens_in, tokens_out, usd)
