"""Runs that look for the best, beside cyclic plans of as many calls: what both lose, and whether what is said at the end holds.

It knows recorded answers and simulated ones; it refuses to know a judge.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from recorded import dense_abilities
from youden import make_plan
from youden.pipeline.abilities import LEVEL, Abilities, select_best_agents
from youden.pipeline.ranking import estimate_abilities
from youden.pipeline.rounds import run_rounds
from youden.stats import pairwise_differences, spearman
from youden.stats.trials.best_selection import Choice, simultaneous_upper_bounds
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.pool import Floats

Draw = Callable[[np.random.Generator], tuple[Floats, Floats]]
GOALS, LOOKS = (0.02, 0.05), 20


def blank(K: int, J: int) -> Pool:
    texts = np.full((K, J), "", dtype=object)
    return Pool(tuple(Agent(f"a{i}") for i in range(K)), tuple(Item(f"i{j}") for j in range(J)), texts)


def answered(plan: Plan, *, paired: Floats) -> Verdicts:
    answer = np.where(plan.arm == PAIRED, paired[plan.item, plan.first, plan.second], 0.0)
    return Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "recorded"})


class Ended(NamedTuple):
    result: Verdicts
    found: Abilities
    said: Choice


def ended(D: Floats, *, design: str, percent: float, seed: int, **options: float) -> Ended:
    """A run at its end."""
    J, K, _ = D.shape
    pool = blank(K, J)
    plan = make_plan(pool, design=design, calls=f"{percent}%", independent="pooled:100", seed=seed, options=options)
    result = run_rounds(plan, partial(answered, paired=D))
    found = estimate_abilities(result)
    said = select_best_agents(found, pairwise_differences(found.ability, found.covariance, level=LEVEL))
    assert said is not None
    return Ended(result, found, said)


def searched(D: Floats, truth: Floats, *, percent: float, seed: int, top: int) -> dict[str, float]:
    """Of one draw: mean regret of those named, by search and cyclic; whether the bound is false; intervals at the end."""
    K, best = len(truth), np.sort(truth)[::-1][:top]
    row: dict[str, float] = {}
    for name, options in (("search", {"top": top}), ("cyclic", {})):
        design = "adaptive" if options else "cyclic"
        result, found, said = ended(D, design=design, percent=percent, seed=seed, **options)
        ability, within = found.ability, said.within
        named = np.argsort(-ability, kind="stable")[:top]
        row |= {
            f"{name}": float(best.mean() - truth[named].mean()),
            f"{name} right": len({*named.tolist()} & {*np.argsort(-truth)[:top].tolist()}) / top,
            f"{name} within": within,
            f"{name} calls": len(result.plan),
        }
        if name == "search" or top == 1:
            row |= {f"{name} false": float(best[-1] - truth[named].min() > within)}
        if name == "search":
            off = ability - ability.mean() - (truth - truth.mean())
            held = np.abs(off) <= found.covariance.half_width()
            row |= {"leader": float(said.low <= ability[named[0]] - off[named[0]] <= said.high)}
            row |= {"covered": held.mean(), "bias": float(off[named].mean() / found.covariance.std_error[named].mean())}
            row |= {f"agent {i}": float(held[i]) for i in range(K)}
            row |= {f"off {i}": off[i] / found.covariance.std_error[i] for i in range(K)}
    return row


def search_figures(draw: Draw, *, percent: float, n_seeds: int, top: int = 1) -> dict[str, float]:
    """Means over seeds; ratio: mean regret over that of cyclic; worse: the paired difference less two of its errors.

    bias: of those named; mean bias: the mean size of agents', of which luck of the draws is a part; true bias: the root of their
    mean square less that of this luck; in standard errors. A cyclic plan bounds the best alone: of a larger top nothing is told.
    """
    rows = []
    for seed in range(n_seeds):
        D, truth = draw(np.random.default_rng([seed, round(10 * percent)]))
        rows.append(searched(D, truth, percent=percent, seed=seed, top=top))
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    least = min(value for name, value in mean.items() if name.startswith("agent "))
    biased = float(np.mean([abs(value) for name, value in mean.items() if name.startswith("off ")]))
    off = np.array([[value for name, value in row.items() if name.startswith("off ")] for row in rows])
    square = float((off.mean(axis=0) ** 2 - off.var(axis=0, ddof=1) / len(off)).mean())
    gap = np.array([row["search"] - row["cyclic"] for row in rows])
    shown = {name: value for name, value in mean.items() if not name.startswith(("agent ", "off "))}
    worse = gap.mean() - 2 * gap.std(ddof=1) / np.sqrt(len(gap))
    ratio = mean["search"] / mean["cyclic"] if mean["cyclic"] else float("nan")
    figures = {
        **shown,
        "least agent": least,
        "mean bias": biased,
        "true bias": max(square, 0.0) ** 0.5,
        "ratio": ratio,
        "worse": worse,
    }
    return {name: round(float(value), 5) for name, value in figures.items()}


def goal_figures(draw: Draw, *, within: float, percent: float, n_seeds: int) -> dict[str, float]:
    """Calls until `within` is said, at most `percent`, by search and by cyclic plans of ever more calls; how often it is false.

    cyclic: at each of 20 sizes by the bound of one look, as if somebody knew when to look. looking: by what holds over the looks
    at all sizes so far, each with a twentieth of the error, as a search's bound does. ratio: calls of a search over those.
    """
    calls: dict[str, list[float]] = {"search": [], "cyclic": [], "looking": []}
    false, said = 0, dict.fromkeys(calls, 0)
    for seed in range(n_seeds):
        D, truth = draw(np.random.default_rng([seed, 7]))
        result, found, name = ended(D, design="adaptive", percent=percent, seed=seed, within=within)
        reached = name.within <= within
        said["search"] += reached
        false += reached and truth.max() - truth[np.argmax(found.ability)] > within
        calls["search"].append(len(result.plan))
        most, open_ = percent / 100 * result.plan.n_dense_calls, ["cyclic", "looking"]
        lowest = np.full((len(truth), len(truth)), np.inf)
        for share in np.linspace(0.05, 1, LOOKS):
            one = ended(D, design="cyclic", percent=share * percent, seed=seed)
            told = pairwise_differences(one.found.ability, one.found.covariance, level=LEVEL)
            lowest = np.minimum(lowest, simultaneous_upper_bounds(told, top=1, alpha_fraction=1 / LOOKS))
            bounds = {"cyclic": one.said.within, "looking": float(lowest[:, one.said.agents[0]].max())}
            for arm in [arm for arm in open_ if bounds[arm] <= within]:
                open_.remove(arm)
                calls[arm].append(share * most)
                said[arm] += 1
            if not open_:
                break
        for arm in open_:
            calls[arm].append(most)
    mean = {name: float(np.mean(values)) for name, values in calls.items()}
    return {
        **{f"{name} calls": round(value) for name, value in mean.items()},
        **{f"{name} said": round(n / n_seeds, 3) for name, n in said.items()},
        **{f"ratio to {name}": round(mean["search"] / mean[name], 3) for name in ("cyclic", "looking")},
        "false": round(false / n_seeds, 4),
    }


def goal_alone(draw: Draw, *, within: float, percent: float, n_seeds: int) -> dict[str, float]:
    """The search of `goal_figures` alone: calls, how often it says `within`, and how often that is false."""
    rows = []
    for seed in range(n_seeds):
        D, truth = draw(np.random.default_rng([seed, 7]))
        result, found, said = ended(D, design="adaptive", percent=percent, seed=seed, within=within)
        lost, reached = truth.max() - truth[np.argmax(found.ability)], said.within <= within
        rows.append((len(result.plan), reached, lost > said.within, lost))
    calls, reached, false, lost = np.mean(rows, axis=0).tolist()
    return {"search calls": round(calls), "search said": reached, "false": false, "regret": lost}


def default_figures(draw: Draw, *, n_agents: int, n_items: int, n_seeds: int) -> dict[str, float]:
    """Plans without a budget of agents and items drawn from a domain's: comparisons an agent, and ρ to what all calls say."""
    rows = []
    for seed in range(n_seeds):
        rng = np.random.default_rng([seed, n_agents])
        D, _ = draw(rng)
        J = min(n_items, len(D))
        agents = rng.choice(D.shape[1], n_agents, replace=False)
        part = D[np.ix_(rng.choice(len(D), J, replace=False), agents, agents)]
        plan = make_plan(blank(n_agents, J), seed=seed)
        found = estimate_abilities(answered(plan, paired=part))
        rows.append((2 * (plan.arm == PAIRED).sum() / n_agents, spearman(found.ability, dense_abilities(part)).value))
    asked, rho = np.mean(rows, axis=0).tolist()
    return {"an agent": asked, "all": 2 * (n_agents - 1) * J, "rho": round(rho, 4)}


def recorded_draw(D: Floats) -> Draw:
    """These items alone."""
    truth = dense_abilities(D)
    return lambda _: (D, truth)
