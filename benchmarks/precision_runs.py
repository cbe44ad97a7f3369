"""Judged and simulated answers, runs that they answer, and printed rows, as used by the parts of `precision.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from labels import GAMED, read_alpaca_eval_pool, read_label_table, read_mt_bench_pool
from lexical_rules import take_agents
from recorded import DOMAINS, read_answers
from youden import make_plan, read_pool
from youden.data.importers.peer_prediction import import_agents
from youden.judging.backends.lexical import Lexical
from youden.stats import CentredCovariance
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.forecast import AgentVariances
from youden.stats.trials.trial_errors import InfluenceTable, compute_item_influence
from youden.text.words import mean_lengths
from youden.types import INDEPENDENT, Agent, Item, Plan, Pool, Trials, Verdicts
from youden.types.judging import AnswerKind
from youden.types.pool import Floats

SMOKE_RUNS = 2
"""Runs of each part in a smoke run, which also has fewer pools and sizes."""
SD = {"agents": 0.1, "items": 0.3, "pairs": 0.1, "noise": 0.35}
"""SD of effects in simulated answers; the SD of the agent × item effect is between .1 and .2 and depends on the agent."""

SUMMARIES = "data/agents/summarization_gpt_4o_mini_20250708_235208.json"
"""Texts of SAMSum, in the folder peer-prediction."""


class JudgedPool(NamedTuple):
    """All answers of one kind to a pool.

    D : float array (n_items, n_agents, n_agents)
    """

    name: str
    kind: AnswerKind
    D: Floats


def iter_judged_pools(shared: Path) -> Iterator[JudgedPool]:
    """Yield the pools of the reference data: the paper's four domains, graded and cut at ½, and pools judged by `lexical`."""
    for name in DOMAINS:
        D = read_answers(name, shared)
        yield JudgedPool(name, "graded", D)
        yield JudgedPool(name, "yes or no", (D >= 0.5).astype(np.float64))
    models = read_alpaca_eval_pool(shared / "alpaca-eval")
    by_length = sort_by_length(models)
    yield judge_by_words("AlpacaEval 39", models)
    yield judge_by_words("AlpacaEval 20", take_agents(models, by_length[8:28]))
    yield judge_by_words("SAMSum 30", import_agents(shared / "peer-prediction" / SUMMARIES))
    yield judge_by_words("field-notes", read_pool(Path(__file__).parents[1] / "datasets" / "field-notes"))


def iter_further_pools(shared: Path, *, seed: int = 0) -> Iterator[JudgedPool]:
    """Yield pools judged by `lexical` that are no reference data: further models of AlpacaEval, and MT-Bench."""
    models = read_alpaca_eval_pool(shared / "alpaca-eval")
    table = read_label_table(shared / "alpaca-eval" / "leaderboard.csv")
    by_length = sort_by_length(models)
    strongest = sorted(by_length, key=lambda name: float(table[name]["win_rate"]))[-4:]
    groups = {
        "20 shortest": by_length[:20],
        "20 longest": by_length[-20:],
        "12 shortest and 4 strongest": list(dict.fromkeys([*by_length[:12], *strongest])),
    }
    for draw in range(3):
        rng = np.random.default_rng([seed, draw])
        groups[f"16 at random, draw {draw}"] = rng.choice(by_length, 16, replace=False).tolist()
    for name, agents in groups.items():
        yield judge_by_words(f"AlpacaEval, {name}", take_agents(models, agents))
    yield judge_by_words("MT-Bench", read_mt_bench_pool(shared / "mt-bench"))


def sort_by_length(models: Pool) -> list[str]:
    """Sort the models that do not game a judge by the mean length of their responses, the shortest first."""
    length = dict(zip((agent.id for agent in models.agents), mean_lengths(models.texts), strict=True))
    return sorted(length.keys() - set(GAMED), key=length.__getitem__)


def judge_by_words(name: str, pool: Pool) -> JudgedPool:
    """Answer all pairs of a pool by the judge `lexical`."""
    verdicts = Lexical().answer_many(make_plan(pool, design="dense", independent="pooled:0", holdout=0.0))
    plan = verdicts.plan
    D = np.zeros((pool.n_items, pool.n_agents, pool.n_agents))
    D[plan.item, plan.first, plan.second] = verdicts.answer
    return JudgedPool(name, "lexical", D)


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

    Returns the answers (n_items, n_agents, n_agents), the centered true abilities for items like these (n_agents,), and the
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
