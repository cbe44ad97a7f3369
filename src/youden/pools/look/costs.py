"""What judging a pool would take, by every design with every judge there is a config for.

Plans of a large pool are not drawn: what they cost is estimated, or said to be unknown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from youden.errors import PlanError, YoudenError
from youden.judging.config.reading import JudgeConfig, load_judge_config
from youden.nouns import Pool
from youden.pools.look.findings import DesignCost
from youden.protocol.budget import Size, default_calls
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.width import Width
from youden.protocol.plan import make_plan
from youden.resources import roots
from youden.stats.precision.domains import mean_parts
from youden.stats.precision.forecast import slots_for

DRAWN_UP_TO = 400_000
"""Up to so many dense calls plans are drawn; above, what they cost is estimated."""

POOLED = 100


def estimate_costs(pool: Pool, length: NDArray[np.int64]) -> tuple[tuple[DesignCost, ...], tuple[str, ...]]:
    """Costs of each design at its own budget with each judge, and what could not be estimated.

    length: int[K, J], characters, −1 where there is no response. Tokens are characters / 4.
    """
    judges = [judge for judge in _judges() if judge.makes_calls]
    costs: list[DesignCost] = []
    notes: list[str] = []
    n_dense = 2 * pool.n_agents * (pool.n_agents - 1) * pool.n_items
    for name in DESIGNS:
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


def _judges() -> list[JudgeConfig]:
    names = sorted({path.stem for root in roots("configs") for path in (root / "judges").glob("*.yaml")})
    found = []
    for name in names:
        try:
            found.append(load_judge_config(name))
        except YoudenError:
            continue
    return found


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
