"""Judged and simulated answers, runs that they answer, and printed rows, as used by the parts of `precision.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recorded import DOMAINS, read_answers
from youden import make_plan, read_pool
from youden.data.importers.leaderboards import read_alpaca_eval
from youden.judging.backends.lexical import Lexical
from youden.stats import CentredCovariance
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.forecast import AgentVariances
from youden.stats.trials.trial_errors import InfluenceTable, compute_item_influence
from youden.types import INDEPENDENT, PAIRED, Agent, Item, Plan, Pool, Trials, Verdicts
from youden.types.judging import AnswerKind
from youden.types.pool import Floats

SD = {"agents": 0.1, "items": 0.3, "pairs": 0.1, "noise": 0.35}
"""SD of effects in simulated answers; the SD of the agent × item effect is between .1 and .2 and depends on the agent."""


class JudgedPool(NamedTuple):
    """All answers of one kind to a pool.

    D : float array (n_items, n_agents, n_agents)
    """

    name: str
    kind: AnswerKind
    D: Floats


def iter_judged_pools(shared: Path) -> Iterator[JudgedPool]:
    """Yield the paper's four domains, graded and cut at ½, and real models and the shipped pool judged by `lexical`."""
    for name in DOMAINS:
        D = read_answers(name, shared)
        yield JudgedPool(name, "graded", D)
        yield JudgedPool(name, "yes or no", (D >= 0.5).astype(np.float64))
    for pool in (read_real_models(shared), read_pool(Path(__file__).parents[1] / "datasets" / "field-notes")):
        verdicts = Lexical().answer_many(make_plan(pool, design="dense", independent="pooled", holdout=0.0))
        D = np.zeros((pool.n_items, pool.n_agents, pool.n_agents))
        plan = verdicts.plan
        is_paired = verdicts.plan.trial_type == PAIRED
        D[plan.item[is_paired], plan.first[is_paired], plan.second[is_paired]] = verdicts.answer[is_paired]
        yield JudgedPool(pool.name, "lexical", D)


def read_real_models(shared: Path) -> Pool:
    """Read the 39 real models of AlpacaEval as a pool."""
    files = sorted((shared / "alpaca-eval").glob("results/*/model_outputs.json"))
    pools = [read_alpaca_eval([file], columns={}).pool for file in files]
    names = tuple(Agent(file.parent.name) for file in files)
    return Pool(names, pools[0].items, np.vstack([pool.texts for pool in pools]), "AlpacaEval")


class Estimates(NamedTuple):
    """Estimates from the answers to a plan.

    Attributes
    ----------
    ability : float array (n_agents,)
    kind : CentredCovariance
        Covariance of the abilities, for items like these.
    items : InfluenceTable
    """

    ability: Floats
    kind: CentredCovariance
    items: InfluenceTable


def estimate_from_trials(trials: Trials, answer: Floats, *, n_agents: int, n_items: int) -> Estimates:
    """Estimate abilities as means of answers (n_trials,), and their covariance."""
    n_trials = np.bincount(np.append(trials.first, trials.second), minlength=n_agents)
    mean = np.bincount(np.append(trials.first, trials.second), np.tile(answer, 2), minlength=n_agents) / n_trials
    ones = np.ones(len(answer))
    influence = compute_item_influence(
        trials.first,
        trials.second,
        trials.item,
        answer,
        ability=mean,
        first_weight=ones,
        second_weight=ones,
        n_items=n_items,
    )
    return Estimates(
        mean, covariance_over_clusters(influence.influence, influence.weight, relative_variance=1 / n_trials), influence
    )


def estimate(D: Floats, trials: Trials) -> Estimates:
    """Estimate abilities from a plan answered by D (n_items, n_agents, n_agents)."""
    J, K, _ = D.shape
    return estimate_from_trials(trials, D[trials.item, trials.first, trials.second], n_agents=K, n_items=J)


def print_row(**figures: object) -> None:
    """Print figures as one line of JSON."""
    print(json.dumps(figures), flush=True)


def std_error(values: Floats) -> float:
    """Compute the standard error of a mean; 0 for a single value."""
    return round(float(np.std(values, ddof=1) / np.sqrt(len(values))), 5) if len(values) > 1 else 0.0


def make_empty_pool(K: int, J: int) -> Pool:
    """Make a pool of the given size with empty texts."""
    texts = np.full((K, J), "", dtype=object)
    return Pool(
        tuple(Agent(f"a{i}") for i in range(K)), tuple(Item(f"i{j}") for j in range(J)), texts, name="simulated"
    )


def answer_plan(plan: Plan, *, paired: Floats) -> Verdicts:
    """Answer a plan; independent trials get 0.

    paired : float array (n_items, n_agents, n_agents)
    """
    answer = np.where(plan.trial_type == INDEPENDENT, 0.0, paired[plan.item, plan.first, plan.second])
    hard_answer = (answer >= 0.5).astype(np.float64)
    return Verdicts(plan, answer, hard_answer, np.zeros(len(plan), dtype=np.int8), {"name": "simulated"})


def compute_recall(ability: Floats, truth: Floats, top: int = 5) -> float:
    """Compute the share of the `top` agents by `truth` that are among the top agents by `ability`."""
    return len(set(np.argsort(-ability)[:top]) & set(np.argsort(-truth)[:top])) / top


def simulate_answers(seed: int, K: int, J: int) -> tuple[Floats, Floats, AgentVariances]:
    """Simulate answers to a pool of K agents and J items.

    Returns the answers (n_items, n_agents, n_agents), the centred true abilities for items like these (n_agents,), and the
    variances.
    """
    rng = np.random.default_rng(seed)
    agent_effect = SD["agents"] * rng.standard_normal(K)
    item_effect = SD["items"] * rng.standard_normal(J)
    cell_sd = rng.permutation(np.linspace(0.1, 0.2, K))
    cell_effect = cell_sd[:, None] * rng.standard_normal((K, J))
    pair_effect = SD["pairs"] * rng.standard_normal((K, K))
    np.fill_diagonal(pair_effect, 0)
    paired = (
        agent_effect[:, None]
        + agent_effect
        + item_effect[:, None, None]
        + cell_effect.T[:, :, None]
        + cell_effect.T[:, None, :]
        + pair_effect
    )
    paired += SD["noise"] * rng.standard_normal(paired.shape)
    true_ability = agent_effect * (K - 2) / (K - 1) + (pair_effect.sum(axis=0) + pair_effect.sum(axis=1)) / (
        2 * (K - 1)
    )
    residual_variance = (cell_sd**2).mean() + SD["pairs"] ** 2 + SD["noise"] ** 2
    factor = 1 - 2 / K
    return (
        paired,
        true_ability - true_ability.mean(),
        AgentVariances(factor * cell_sd**2 + (cell_sd**2).mean() / K, np.full(K, factor * residual_variance)),
    )
