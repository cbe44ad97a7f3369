"""What the parts of `precision.py` share: judged and simulated answers, runs that they answer, and rows of figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recorded import DOMAINS, answers_of
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
"""Of the simulated answers; what an agent has of its own on an item differs from agent to agent, .1 to .2."""


class Judged(NamedTuple):
    """D: float[J, K, K], every answer of one kind about a pool."""

    name: str
    kind: AnswerKind
    D: Floats


def judged(shared: Path) -> Iterator[Judged]:
    """The paper's four domains, graded and cut at ½, and by `lexical` real models and the shipped pool."""
    for name in DOMAINS:
        D = answers_of(name, shared)
        yield Judged(name, "graded", D)
        yield Judged(name, "yes or no", (D >= 0.5).astype(np.float64))
    for pool in (real_models(shared), read_pool(Path(__file__).parents[1] / "datasets" / "field-notes")):
        result = Lexical().answer_many(make_plan(pool, design="dense", independent="pooled", holdout=0.0))
        D, plan, asked = np.zeros((pool.n_items, pool.n_agents, pool.n_agents)), result.plan, result.plan.arm == PAIRED
        D[plan.item[asked], plan.first[asked], plan.second[asked]] = result.answer[asked]
        yield Judged(pool.name, "lexical", D)


def real_models(shared: Path) -> Pool:
    files = sorted((shared / "alpaca-eval").glob("results/*/model_outputs.json"))
    pools = [read_alpaca_eval([file], columns={}).pool for file in files]
    names = tuple(Agent(file.parent.name) for file in files)
    return Pool(names, pools[0].items, np.vstack([one.texts for one in pools]), "AlpacaEval")


class Found(NamedTuple):
    """ability: float[K]; kind: of it, for items like these."""

    ability: Floats
    kind: CentredCovariance
    items: InfluenceTable


def found_in(plan: Trials, answer: Floats, *, K: int, J: int) -> Found:
    n = np.bincount(np.append(plan.first, plan.second), minlength=K)
    mean = np.bincount(np.append(plan.first, plan.second), np.tile(answer, 2), minlength=K) / n
    ones = np.ones(len(answer))
    of = compute_item_influence(
        plan.first, plan.second, plan.item, answer, ability=mean, first_weight=ones, second_weight=ones, n_items=J
    )
    return Found(mean, covariance_over_clusters(of.influence, of.weight, relative_variance=1 / n), of)


def found_of(D: Floats, plan: Trials) -> Found:
    J, K, _ = D.shape
    return found_in(plan, D[plan.item, plan.first, plan.second], K=K, J=J)


def row(**figures: object) -> None:
    print(json.dumps(figures), flush=True)


def se(values: Floats) -> float:
    return round(float(np.std(values, ddof=1) / np.sqrt(len(values))), 5) if len(values) > 1 else 0.0


def blank(K: int, J: int) -> Pool:
    texts = np.full((K, J), "", dtype=object)
    return Pool(
        tuple(Agent(f"a{i}") for i in range(K)), tuple(Item(f"i{j}") for j in range(J)), texts, name="simulated"
    )


def answered(plan: Plan, *, paired: Floats) -> Verdicts:
    """paired: float[J, K, K]; an independent answer is 0."""
    answer = np.where(plan.arm == INDEPENDENT, 0.0, paired[plan.item, plan.first, plan.second])
    hard = (answer >= 0.5).astype(np.float64)
    return Verdicts(plan, answer, hard, np.zeros(len(plan), dtype=np.int8), {"name": "simulated"})


def recall(ability: Floats, truth: Floats, top: int = 5) -> float:
    return len(set(np.argsort(-ability)[:top]) & set(np.argsort(-truth)[:top])) / top


def simulated(seed: int, K: int, J: int) -> tuple[Floats, Floats, AgentVariances]:
    """Answers float[J, K, K], the centred truth for items like these, and the variances."""
    rng = np.random.default_rng(seed)
    a, b = SD["agents"] * rng.standard_normal(K), SD["items"] * rng.standard_normal(J)
    own = rng.permutation(np.linspace(0.1, 0.2, K))
    c, g = own[:, None] * rng.standard_normal((K, J)), SD["pairs"] * rng.standard_normal((K, K))
    np.fill_diagonal(g, 0)
    paired = a[:, None] + a + b[:, None, None] + c.T[:, :, None] + c.T[:, None, :] + g
    paired += SD["noise"] * rng.standard_normal(paired.shape)
    truth = a * (K - 2) / (K - 1) + (g.sum(axis=0) + g.sum(axis=1)) / (2 * (K - 1))
    noise = (own**2).mean() + SD["pairs"] ** 2 + SD["noise"] ** 2
    alone = 1 - 2 / K
    return paired, truth - truth.mean(), AgentVariances(alone * own**2 + (own**2).mean() / K, np.full(K, alone * noise))
