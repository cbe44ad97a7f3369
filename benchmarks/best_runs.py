"""Measure adaptive searches for the best agents against cyclic plans of as many calls.

Answers are recorded or simulated arrays. No judge is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from recorded import compute_dense_abilities
from youden import make_plan
from youden.pipeline.abilities import LEVEL, Abilities, select_best_agents
from youden.pipeline.ranking import estimate_abilities
from youden.pipeline.rounds import run_rounds
from youden.stats import pairwise_differences, spearman
from youden.stats.trials.best_selection import Choice, simultaneous_upper_bounds
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.pool import Floats

Draw = Callable[[np.random.Generator], tuple[Floats, Floats]]
GOALS, N_ANALYSES = (0.02, 0.05), 20


def make_empty_pool(K: int, J: int) -> Pool:
    """Make a pool of the given size with empty texts."""
    texts = np.full((K, J), "", dtype=object)
    return Pool(tuple(Agent(f"a{i}") for i in range(K)), tuple(Item(f"i{j}") for j in range(J)), texts)


def answer_plan(plan: Plan, *, paired: Floats) -> Verdicts:
    """Answer a plan from the recorded answers; independent trials get 0.

    paired : float array (n_items, n_agents, n_agents)
    """
    answer = np.where(plan.trial_type == PAIRED, paired[plan.item, plan.first, plan.second], 0.0)
    return Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "recorded"})


class FinishedRun(NamedTuple):
    """A finished run: its verdicts, abilities and selection of the best agents."""

    verdicts: Verdicts
    abilities: Abilities
    selection: Choice


def run_design(D: Floats, *, design: str, percent: float, seed: int, **options: float) -> FinishedRun:
    """Run a design on recorded answers until it stops.

    D : float array (n_items, n_agents, n_agents)
    """
    n_items, n_agents, _ = D.shape
    pool = make_empty_pool(n_agents, n_items)
    plan = make_plan(pool, design=design, calls=f"{percent}%", seed=seed, options=options)
    verdicts = run_rounds(plan, partial(answer_plan, paired=D))
    abilities = estimate_abilities(verdicts)
    selection = select_best_agents(
        abilities, pairwise_differences(abilities.ability, abilities.covariance, level=LEVEL)
    )
    assert selection is not None
    return FinishedRun(verdicts, abilities, selection)


def compare_designs(D: Floats, truth: Floats, *, percent: float, seed: int, top: int) -> dict[str, float]:
    """Run one search and one cyclic plan; return their regret, whether the bounds hold, and the coverage of the intervals.

    D : float array (n_items, n_agents, n_agents)
    truth : float array (n_agents,)
    """
    n_agents, best_abilities = len(truth), np.sort(truth)[::-1][:top]
    row: dict[str, float] = {}
    for name, options in (("search", {"top": top}), ("cyclic", {})):
        design = "adaptive" if options else "cyclic"
        verdicts, abilities, selection = run_design(D, design=design, percent=percent, seed=seed, **options)
        ability, regret_bound = abilities.ability, selection.regret_bound
        selected = np.argsort(-ability, kind="stable")[:top]
        row |= {
            f"{name}": float(best_abilities.mean() - truth[selected].mean()),
            f"{name} right": len({*selected.tolist()} & {*np.argsort(-truth)[:top].tolist()}) / top,
            f"{name} bound": regret_bound,
            f"{name} calls": len(verdicts.plan),
        }
        if name == "search" or top == 1:
            row |= {f"{name} violated": float(best_abilities[-1] - truth[selected].min() > regret_bound)}
        if name == "search":
            error = ability - ability.mean() - (truth - truth.mean())
            covered = np.abs(error) <= abilities.covariance.half_width()
            row |= {
                "leader": float(
                    selection.ability_low <= ability[selected[0]] - error[selected[0]] <= selection.ability_high
                )
            }
            row |= {
                "covered": covered.mean(),
                "bias": float(error[selected].mean() / abilities.covariance.std_error[selected].mean()),
            }
            row |= {f"agent {i}": float(covered[i]) for i in range(n_agents)}
            row |= {f"off {i}": error[i] / abilities.covariance.std_error[i] for i in range(n_agents)}
    return row


def measure_search(draw: Draw, *, percent: float, n_seeds: int, top: int = 1) -> dict[str, float]:
    """Compare searches with cyclic plans: means over seeds of the figures of a draw, and figures over all draws.

    - ratio: mean regret of the search over that of the cyclic plan
    - difference low: lower bound of the difference in regret, its mean minus two standard errors
    - bias: mean error of the selected agents, in standard errors
    - mean bias: mean absolute bias of all agents; it includes the sampling error of the mean over draws
    - true bias: root mean square of the bias, corrected for that sampling error
    - lowest coverage: lowest coverage of an agent's interval

    For `top` > 1, a cyclic plan has no regret bound, so only its regret is reported.
    """
    rows = []
    for seed in range(n_seeds):
        answers, truth = draw(np.random.default_rng([seed, round(10 * percent)]))
        rows.append(compare_designs(answers, truth, percent=percent, seed=seed, top=top))
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    lowest_coverage = min(value for name, value in mean.items() if name.startswith("agent "))
    mean_bias = float(np.mean([abs(value) for name, value in mean.items() if name.startswith("off ")]))
    errors = np.array([[value for name, value in row.items() if name.startswith("off ")] for row in rows])
    squared_bias = float((errors.mean(axis=0) ** 2 - errors.var(axis=0, ddof=1) / len(errors)).mean())
    differences = np.array([row["search"] - row["cyclic"] for row in rows])
    reported = {name: value for name, value in mean.items() if not name.startswith(("agent ", "off "))}
    lower_bound = differences.mean() - 2 * differences.std(ddof=1) / np.sqrt(len(differences))
    ratio = mean["search"] / mean["cyclic"] if mean["cyclic"] else float("nan")
    figures = {
        **reported,
        "lowest coverage": lowest_coverage,
        "mean bias": mean_bias,
        "true bias": max(squared_bias, 0.0) ** 0.5,
        "ratio": ratio,
        "difference low": lower_bound,
    }
    return {name: round(float(value), 5) for name, value in figures.items()}


def measure_goal(draw: Draw, *, max_regret: float, percent: float, n_seeds: int) -> dict[str, float]:
    """Count the calls until the regret bound is at most `max_regret`, by a search and by cyclic plans of increasing size.

    The budget is `percent` of the dense calls.

    - cyclic: each of 20 sizes is judged by the bound of a single analysis, as if the right size were known
    - sequential: the bound is valid over the interim analyses at all sizes so far, each with a twentieth of alpha, as in a search
    - ratio: calls of a search over those of a cyclic plan
    - reached: share of runs that reach the goal
    - violated: share of runs whose search reaches the goal with a larger regret
    """
    calls: dict[str, list[float]] = {"search": [], "cyclic": [], "sequential": []}
    n_false, n_reached = 0, dict.fromkeys(calls, 0)
    for seed in range(n_seeds):
        answers, truth = draw(np.random.default_rng([seed, 7]))
        verdicts, abilities, selection = run_design(
            answers, design="adaptive", percent=percent, seed=seed, max_regret=max_regret
        )
        is_reached = selection.regret_bound <= max_regret
        n_reached["search"] += is_reached
        n_false += is_reached and truth.max() - truth[np.argmax(abilities.ability)] > max_regret
        calls["search"].append(len(verdicts.plan))
        max_calls = percent / 100 * verdicts.plan.n_dense_calls
        unfinished = ["cyclic", "sequential"]
        upper_bounds = np.full((len(truth), len(truth)), np.inf)
        for budget_fraction in np.linspace(0.05, 1, N_ANALYSES):
            cyclic_run = run_design(answers, design="cyclic", percent=budget_fraction * percent, seed=seed)
            differences = pairwise_differences(
                cyclic_run.abilities.ability, cyclic_run.abilities.covariance, level=LEVEL
            )
            upper_bounds = np.minimum(
                upper_bounds, simultaneous_upper_bounds(differences, top=1, alpha_fraction=1 / N_ANALYSES)
            )
            bounds = {
                "cyclic": cyclic_run.selection.regret_bound,
                "sequential": float(upper_bounds[:, cyclic_run.selection.agents[0]].max()),
            }
            for design in [design for design in unfinished if bounds[design] <= max_regret]:
                unfinished.remove(design)
                calls[design].append(budget_fraction * max_calls)
                n_reached[design] += 1
            if not unfinished:
                break
        for design in unfinished:
            calls[design].append(max_calls)
    mean_calls = {name: float(np.mean(values)) for name, values in calls.items()}
    return {
        **{f"{name} calls": round(value) for name, value in mean_calls.items()},
        **{f"{name} reached": round(n / n_seeds, 3) for name, n in n_reached.items()},
        **{f"ratio to {name}": round(mean_calls["search"] / mean_calls[name], 3) for name in ("cyclic", "sequential")},
        "violated": round(n_false / n_seeds, 4),
    }


def measure_goal_of_search(draw: Draw, *, max_regret: float, percent: float, n_seeds: int) -> dict[str, float]:
    """Run searches alone: calls, share that reaches `max_regret`, share whose bound is exceeded, and mean regret."""
    rows = []
    for seed in range(n_seeds):
        answers, truth = draw(np.random.default_rng([seed, 7]))
        verdicts, abilities, selection = run_design(
            answers, design="adaptive", percent=percent, seed=seed, max_regret=max_regret
        )
        regret = truth.max() - truth[np.argmax(abilities.ability)]
        is_reached = selection.regret_bound <= max_regret
        rows.append((len(verdicts.plan), is_reached, regret > selection.regret_bound, regret))
    calls, reached_rate, false_rate, regret = np.mean(rows, axis=0).tolist()
    return {"search calls": round(calls), "search reached": reached_rate, "violated": false_rate, "regret": regret}


def measure_defaults(draw: Draw, *, n_agents: int, n_items: int, n_seeds: int) -> dict[str, float]:
    """Measure trials per agent and ρ with the dense ranking, for plans without a budget of sampled agents and items."""
    rows = []
    for seed in range(n_seeds):
        rng = np.random.default_rng([seed, n_agents])
        answers, _ = draw(rng)
        n_used_items = min(n_items, len(answers))
        agents = rng.choice(answers.shape[1], n_agents, replace=False)
        sampled = answers[np.ix_(rng.choice(len(answers), n_used_items, replace=False), agents, agents)]
        plan = make_plan(make_empty_pool(n_agents, n_used_items), seed=seed)
        abilities = estimate_abilities(answer_plan(plan, paired=sampled))
        rows.append(
            (
                2 * (plan.trial_type == PAIRED).sum() / n_agents,
                spearman(abilities.ability, compute_dense_abilities(sampled)).value,
            )
        )
    trials_per_agent, rho = np.mean(rows, axis=0).tolist()
    return {"an agent": trials_per_agent, "all": 2 * (n_agents - 1) * n_used_items, "rho": round(rho, 4)}


def make_recorded_draw(D: Floats) -> Draw:
    """Make a draw that always returns the recorded answers, with the abilities over all items as the truth."""
    truth = compute_dense_abilities(D)
    return lambda _: (D, truth)
