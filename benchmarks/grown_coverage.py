"""Measure the coverage of adaptive runs when they stop, of agents that join a run by `extend`, and of designs of cells.

Answers are the paper's judge data. `uncertainty.py` calls these functions and prints the tables.
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


def make_empty_pool(n_agents: int, n_items: int) -> Pool:
    """Make a pool of the given size with empty texts; no judge reads them."""
    texts = np.full((n_agents, n_items), "", dtype=object)
    return Pool(tuple(Agent(f"a{i}") for i in range(n_agents)), tuple(Item(f"t{j}") for j in range(n_items)), texts)


def answer_plan(plan: Plan, D: Floats) -> Verdicts:
    """Answer a plan from D; independent trials get 0.

    D : float array (n_items, n_agents, n_agents)
    """
    answer = np.where(plan.trial_type == PAIRED, D[plan.item, plan.first, plan.second], 0.0)
    return Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "D"})


def estimate_abilities(verdicts: Verdicts, target: Target) -> Abilities:
    """Estimate abilities from trials in blocks."""
    abilities = trial_abilities_from_verdicts(verdicts, target=target)
    if abilities is None:
        raise ValueError("no abilities were estimated: the plan has no trials in blocks")
    return abilities


def measure_adaptive_run(D: Floats, truth: Floats, *, top: int, percent: float, target: Target, seed: int) -> Columns:
    """Run an adaptive plan that stops by `top`, and compute coverage and widths.

    D : float array (n_items, n_agents, n_agents)
    truth : float array (n_agents,), centered
    early : whether the run stopped before its budget was spent
    """
    n_items, n_agents, _ = D.shape
    plan = make_plan(
        make_empty_pool(n_agents, n_items),
        design="adaptive",
        calls=f"{percent}%",
        independent="pooled:100",
        seed=seed,
        options={"top": top},
    )
    verdicts = run_rounds(plan, lambda plan: answer_plan(plan, D), target=target)
    abilities = estimate_abilities(verdicts, target)
    error = abilities.ability - abilities.ability.mean() - truth
    half_width = abilities.covariance.half_width()
    covered = np.abs(error) <= half_width
    top_agents = np.argsort(-truth)[:top]
    selected = np.argsort(-abilities.ability)[:top]
    return {
        "covered": covered.astype(np.float64),
        "most_compared_covered": covered[abilities.n_trials >= np.median(abilities.n_trials)].astype(np.float64),
        "squared_z": (error / abilities.covariance.std_error) ** 2,
        "half": half_width,
        "early": np.array([float(any("near enough" in note for note in verdicts.plan.notes))]),
        "top_right": np.array([float(set(selected.tolist()) == set(top_agents.tolist()))]),
        "calls": np.array([len(verdicts.plan) / verdicts.plan.n_dense_calls]),
    }


def measure_joined_run(
    D: Floats, sample: Floats, *, n_joining: int, percent: float, target: Target, seed: int
) -> Columns:
    """Let agents join a cyclic run, and compute coverage and widths on the scale of the first agents.

    D, sample : float array (n_items, n_agents, n_agents)
        Answers of the domain, and of the run's items.
    """
    n_items, n_agents = sample.shape[:2]
    order = np.random.default_rng([seed, 7]).permutation(n_agents)
    D, sample = (matrix[:, order][:, :, order] for matrix in (D, sample))
    n_old = n_agents - n_joining
    pair_means = (D + D.transpose(0, 2, 1)).mean(axis=0) / 2
    np.fill_diagonal(pair_means, 0)
    old_ability = pair_means[:n_old, :n_old].sum(axis=1) / (n_old - 1)
    new_ability = effect_scale(n_old) * (pair_means[n_old:, :n_old].mean(axis=1) - old_ability.mean())
    first_plan = make_plan(
        make_empty_pool(n_old, n_items), design="cyclic", calls=f"{percent}%", independent="pooled:100", seed=seed
    )
    n_added_calls = 2 * n_items * (n_agents * (n_agents - 1) - n_old * (n_old - 1))
    extended_plan = add_agents(
        first_plan, make_empty_pool(n_agents, n_items), calls=round(n_added_calls * percent / 100)
    )
    abilities = estimate_abilities(answer_plan(extended_plan, sample), target)
    error = abilities.ability[n_old:] - abilities.ability[:n_old].mean() - new_ability
    half_width = abilities.covariance.half_width()
    return {
        "covered": (np.abs(error) <= half_width[n_old:]).astype(np.float64),
        "squared_z": (error / abilities.covariance.std_error[n_old:]) ** 2,
        "half": half_width[n_old:],
        "half_first": half_width[:n_old],
    }


def measure_cell_run(
    D: Floats, sample: Floats, *, design: str, percent: float | None, target: Target, seed: int
) -> Columns:
    """Run a design of cells, and compute coverage and widths.

    D, sample : float array (n_items, n_agents, n_agents)
        Answers of the domain, and of the run's items.
    slope : regression of errors on centered true abilities; negative if abilities are shrunk to their mean
    """
    n_items, n_agents = sample.shape[:2]
    plan = make_plan(
        make_empty_pool(n_agents, n_items), design=design, calls=None if percent is None else f"{percent}%", seed=seed
    )
    rates = answer_plan(plan, sample).rates()
    abilities = fit_rates(rates, target=target)
    truth = D.sum(axis=(0, 1)) + D.sum(axis=(0, 2))
    truth = (truth - truth.mean()) / (2 * (n_agents - 1) * len(D))
    error = abilities.ability - abilities.ability.mean() - truth
    half_width = abilities.covariance.half_width()
    return {
        "covered": (np.abs(error) <= half_width).astype(np.float64),
        "squared_z": (error / abilities.covariance.std_error) ** 2,
        "half": half_width,
        "slope": np.array([error @ truth / (truth @ truth)]),
    }


def average(rows: list[Columns]) -> dict[str, float]:
    """Average each column over draws, and add the standard error of `covered`."""
    averages = {name: float(np.mean([row[name].mean() for row in rows])) for name in rows[0]}
    coverages = [row["covered"].mean() for row in rows]
    return averages | {"covered_se": float(np.std(coverages) / np.sqrt(len(coverages)))}
