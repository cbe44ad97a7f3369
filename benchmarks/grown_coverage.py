"""Coverage of other runs than cyclic ones: adaptive ones at their stop, agents that joined by `extend`, and designs of cells.

Answers are the paper's judge data, replayed as in `uncertainty.py`, which prints these tables.
"""

from __future__ import annotations

import numpy as np

from youden import make_plan
from youden.pipeline.abilities import Abilities
from youden.pipeline.additive_abilities import fit_rates
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.pipeline.rounds import run_rounds
from youden.protocol.extension import add_agents
from youden.run_keys import Target
from youden.stats.trials.anchored import effect_scale
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.pool import Floats

Columns = dict[str, Floats]


def empty_pool(n_agents: int, n_items: int) -> Pool:
    """A pool of the right shape: plans are drawn from shapes, and no judge reads these texts."""
    texts = np.full((n_agents, n_items), "", dtype=object)
    return Pool(tuple(Agent(f"a{i}") for i in range(n_agents)), tuple(Item(f"t{j}") for j in range(n_items)), texts)


def answered(plan: Plan, D: Floats) -> Verdicts:
    """The answers that D, float[J, K, K], gives."""
    answer = np.where(plan.arm == PAIRED, D[plan.item, plan.first, plan.second], 0.0)
    return Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "D"})


def ranked(result: Verdicts, target: Target) -> Abilities:
    found = trial_abilities_from_verdicts(result, target=target)
    if found is None:
        raise ValueError("trials in slots are ranked by their means")
    return found


def adaptive_draw(D: Floats, truth: Floats, *, top: int, percent: float, target: Target, seed: int) -> Columns:
    """One run with a stop by `top`. early: whether it stopped before its calls were spent."""
    J, K, _ = D.shape
    plan = make_plan(
        empty_pool(K, J),
        design="adaptive",
        calls=f"{percent}%",
        independent="pooled:100",
        seed=seed,
        options={"top": top},
    )
    result = run_rounds(plan, lambda plan: answered(plan, D), target=target)
    found = ranked(result, target)
    off = found.ability - found.ability.mean() - truth
    half = found.covariance.half_width()
    covered = np.abs(off) <= half
    first = np.argsort(-truth)[:top]
    chosen = np.argsort(-found.ability)[:top]
    return {
        "covered": covered.astype(np.float64),
        "most_asked_covered": covered[found.n_trials >= np.median(found.n_trials)].astype(np.float64),
        "squared_z": (off / found.covariance.std_error) ** 2,
        "half": half,
        "early": np.array([float(any("near enough" in note for note in result.plan.notes))]),
        "top_right": np.array([float(set(chosen.tolist()) == set(first.tolist()))]),
        "calls": np.array([len(result.plan) / result.plan.n_dense_calls]),
    }


def joined_draw(D: Floats, drawn: Floats, *, n_joining: int, percent: float, target: Target, seed: int) -> Columns:
    """Agents that join a cyclic run of the others, each against its value on the first agents' scale. drawn: the run's items."""
    n_items, n_agents = drawn.shape[:2]
    order = np.random.default_rng([seed, 7]).permutation(n_agents)
    D, drawn = (of[:, order][:, :, order] for of in (D, drawn))
    n_old = n_agents - n_joining
    pairs = (D + D.transpose(0, 2, 1)).mean(axis=0) / 2
    np.fill_diagonal(pairs, 0)
    old = pairs[:n_old, :n_old].sum(axis=1) / (n_old - 1)
    new = effect_scale(n_old) * (pairs[n_old:, :n_old].mean(axis=1) - old.mean())
    first = make_plan(
        empty_pool(n_old, n_items), design="cyclic", calls=f"{percent}%", independent="pooled:100", seed=seed
    )
    added = 2 * n_items * (n_agents * (n_agents - 1) - n_old * (n_old - 1))
    grown = add_agents(first, empty_pool(n_agents, n_items), calls=round(added * percent / 100))
    found = ranked(answered(grown, drawn), target)
    off = found.ability[n_old:] - found.ability[:n_old].mean() - new
    half = found.covariance.half_width()
    return {
        "covered": (np.abs(off) <= half[n_old:]).astype(np.float64),
        "squared_z": (off / found.covariance.std_error[n_old:]) ** 2,
        "half": half[n_old:],
        "half_first": half[:n_old],
    }


def cells_draw(D: Floats, drawn: Floats, *, design: str, percent: float | None, target: Target, seed: int) -> Columns:
    """A design of cells. slope: of errors on true distances; below 0 agents are drawn together. drawn: the run's items."""
    n_items, n_agents = drawn.shape[:2]
    plan = make_plan(
        empty_pool(n_agents, n_items), design=design, calls=None if percent is None else f"{percent}%", seed=seed
    )
    rates = answered(plan, drawn).rates()
    found = fit_rates(rates, target=target).abilities
    truth = D.sum(axis=(0, 1)) + D.sum(axis=(0, 2))
    truth = (truth - truth.mean()) / (2 * (n_agents - 1) * len(D))
    off = found.ability - found.ability.mean() - truth
    half = found.covariance.half_width()
    return {
        "covered": (np.abs(off) <= half).astype(np.float64),
        "squared_z": (off / found.covariance.std_error) ** 2,
        "half": half,
        "slope": np.array([off @ truth / (truth @ truth)]),
    }


def means(rows: list[Columns]) -> dict[str, float]:
    """Over draws, and the standard error of `covered`."""
    found = {name: float(np.mean([row[name].mean() for row in rows])) for name in rows[0]}
    each = [row["covered"].mean() for row in rows]
    return found | {"covered_se": float(np.std(each) / np.sqrt(len(each)))}
