"""Pools of agents with true labels, from which `quality.py` draws labels."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

import youden
from labels import GAMED, read_alpaca_eval_pool, read_label_table, read_mt_bench_pool
from quality_methods import Labels
from youden.text.words import mean_lengths

N_ITEMS = 200
ITEM_SD, WEAK_ITEM_SD = 2.0, 1.0
"""SDs of item effects in logits."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True)
class LabeledPool:
    """Agents with their true win rates, from which labels are drawn, and estimated abilities.

    Attributes
    ----------
    win, ability, std_error, length : float array (n_agents,)
        Win rate in [0, 1], ability, its standard error, and mean length of the responses in words.
    gamed : bool array (n_agents,)
        Whether the agent games judges.
    cells : float array (n_agents, n_items), optional
        Scores, NaN if unobserved.
    preferences : float array (n_agents, n_items), optional
        Real labels in [0, 1], used instead of drawn labels.
    item_sd : float
        SD of the item effects of drawn labels, in logits.
    """

    name: str
    win: np.ndarray
    ability: np.ndarray
    std_error: np.ndarray
    gamed: np.ndarray
    length: np.ndarray | None = None
    cells: np.ndarray | None = None
    preferences: np.ndarray | None = None
    item_sd: float = ITEM_SD

    @property
    def logits(self) -> np.ndarray:
        """Logit of the expected label (n_agents,) on an item without an effect."""
        # slope with which the mean of expit over normal effects is about the win rate
        slope: float = np.sqrt(1 + 0.346 * self.item_sd**2)
        logits: np.ndarray = slope * logit(self.win)
        return logits

    @property
    def truth(self) -> np.ndarray:
        """Expected label (n_agents,) over items of this kind."""
        if self.preferences is not None:
            means: np.ndarray = self.preferences.mean(axis=1)
            return means
        expected: np.ndarray = expit(self.logits[:, None] + self.item_sd * _NODES) @ _WEIGHTS / _WEIGHTS.sum()
        return expected

    def select(self, agents: np.ndarray, name: str) -> LabeledPool:
        """Return the pool of these agents (a mask or positions), under another name."""
        names = ("win", "ability", "std_error", "gamed", "length", "cells", "preferences")
        return replace(
            self,
            name=name,
            **{
                name_of_array: getattr(self, name_of_array)[agents]
                for name_of_array in names
                if getattr(self, name_of_array) is not None
            },
        )


def load_pool(shared: Path, folder: str) -> LabeledPool:
    """Load a pool's published labels and its ranking by the lexical judge."""
    pool = read_alpaca_eval_pool(shared / folder) if folder == "alpaca-eval" else read_mt_bench_pool(shared / folder)
    file_name, column, max_label = (
        ("leaderboard.csv", "win_rate", 100) if folder == "alpaca-eval" else ("scores.csv", "mt_bench_score", 10)
    )
    table = read_label_table(shared / folder / file_name)
    ids = [agent.id for agent in pool.agents]
    plan = youden.make_plan(pool, design="cyclic", seed=0)
    verdicts = youden.judge(plan, judge="lexical")
    rows = youden.rank(verdicts).set_index("agent").loc[ids]
    scores = verdicts.rates().training_scores()
    return LabeledPool(
        folder,
        np.array([float(table[agent][column]) for agent in ids]) / max_label,
        rows.ability.to_numpy(),
        rows.std_error.to_numpy(),
        np.array([agent in GAMED for agent in ids]),
        mean_lengths(pool.texts),
        scores.value if scores.value.shape[1] == N_ITEMS else None,
    )


def simulate_pool(relation: str, n_agents: int, rng: np.random.Generator) -> LabeledPool:
    """Simulate a pool whose quality depends on ability by `relation`, with residuals of SD .5 logits.

    relation : "line", "useless" (no relation), "inverted" (a line with negative slope), "convex" (flat among weak agents and
        steep among strong ones) or "parabola"
    """
    z = rng.normal(size=n_agents)
    signals = {
        "line": 1.2 * z,
        "useless": rng.normal(size=n_agents),
        "inverted": -1.2 * z,
        "convex": 1.2 * np.log1p(np.exp(2 * z)) - 1.2,
        "parabola": 0.8 * (z * z - 1),
    }
    signal = signals[relation]
    win = expit(-0.8 + signal + 0.5 * rng.normal(size=n_agents))
    ability = 0.4 + 0.05 * z
    std_error = np.full(n_agents, 0.01)
    return LabeledPool(
        f"{relation}, K = {n_agents}",
        win,
        ability + 0.01 * rng.normal(size=n_agents),
        std_error,
        np.zeros(n_agents, dtype=bool),
    )


def draw_labels(
    pool: LabeledPool, n: np.ndarray | int, rng: np.random.Generator, *, share_items: bool = False
) -> Labels:
    """Draw n labels per agent on random items; all agents get the same items if `share_items` is true."""
    n_agents = len(pool.win)
    counts = np.broadcast_to(n, n_agents)
    item_effect = pool.item_sd * rng.normal(size=N_ITEMS)
    shared_order = rng.permutation(N_ITEMS)
    items = [(shared_order if share_items else rng.permutation(N_ITEMS))[:k] for k in counts]
    agent, item = np.repeat(np.arange(n_agents), counts), np.concatenate(items)
    return agent, item, draw_values(pool, agent, item, item_effect, rng)


def draw_values(
    pool: LabeledPool, agent: np.ndarray, item: np.ndarray, item_effect: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the values (n_labels,) of real labels, or draw them from win rates and item effects (n_items,)."""
    if pool.preferences is not None:
        return np.asarray(pool.preferences[agent, item])
    p_win = expit(pool.logits[agent] + item_effect[item])
    return np.asarray(rng.random(len(agent)) < p_win, dtype=np.float64)


def read_preferences(shared: Path, pool: LabeledPool, ids: list[str]) -> LabeledPool:
    """Return the pool of the 13 models with 200 public preferences each, with these preferences as labels."""
    records = np.genfromtxt(
        shared / "alpaca-eval" / "preferences.csv", delimiter=",", skip_header=1, dtype=None, encoding="utf-8"
    )
    preferences_by_agent: dict[str, np.ndarray] = defaultdict(lambda: np.full(N_ITEMS, np.nan))
    for agent, item, value in records:
        preferences_by_agent[agent][item] = value
    positions = np.array([ids.index(agent) for agent in preferences_by_agent])
    preferences = np.array(list(preferences_by_agent.values()))
    return replace(pool.select(positions, "13 with preferences"), preferences=preferences)


def permute_ability(pool: LabeledPool, rng: np.random.Generator) -> LabeledPool:
    """Permute abilities over agents, so that they are unrelated to quality."""
    order = rng.permutation(len(pool.win))
    return replace(
        pool, name=f"{pool.name}, ability permuted", ability=pool.ability[order], std_error=pool.std_error[order]
    )
