"""What it costs to let agents join a run instead of judging all of them at once, on the paper's judge data, replayed.

Of 30 agents a random 25 (seed by seed others) are judged by a cyclic plan of 2 % of their dense calls; then 5 join at 2 % of the
dense calls that they add. Beside it: all 30 at once at as many calls. Spearman to the dense ranking of 30; of those that
join, how often the 95 % interval for these items covers the dense value on the first agents' scale; whether any old ability or
interval moved by a bit.
It knows that the public data hold D only: a paired answer is D, an independent one 0. It refuses to call that a judge.
`python benchmarks/extend.py [--seeds 50] [--joining 5] [--shared FOLDER] [--out FILE]` prints JSON. Nothing was tuned on it but
the rule for drift (not measured here).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from recorded import SHARED, answers_of
from youden import make_plan
from youden.pipeline.abilities import Abilities
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.extension import add_agents
from youden.stats.trials.anchored import effect_scale
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.pool import Floats

PERCENT = 2.0


def empty_pool(n_agents: int, n_items: int) -> Pool:
    """A pool of the right shape: plans are drawn from shapes, and no judge reads these texts."""
    texts = np.full((n_agents, n_items), "", dtype=object)
    return Pool(tuple(Agent(f"a{i}") for i in range(n_agents)), tuple(Item(f"t{j}") for j in range(n_items)), texts)


def ranked(plan: Plan, D: Floats) -> Abilities:
    """Abilities from the answers D: float[J, K, K]."""
    answer = np.where(plan.arm == PAIRED, D[plan.item, plan.first, plan.second], 0.0)
    result = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "D"})
    found = trial_abilities_from_verdicts(result, target="these-items")
    if found is None:
        raise ValueError("a cyclic plan is ranked by its trials")
    return found


def one_draw(D: Floats, *, n_joining: int, seed: int) -> dict[str, float]:
    """The figures of one seed."""
    n_items, n_agents = D.shape[:2]
    order = np.random.default_rng([seed, 7]).permutation(n_agents)
    D = D[:, order][:, :, order]
    pairs = (D + D.transpose(0, 2, 1)).mean(axis=0) / 2
    n_old = n_agents - n_joining
    dense = pairs.sum(axis=1) / (n_agents - 1)
    old = pairs[:n_old, :n_old].sum(axis=1) / (n_old - 1)
    new = old.mean() + effect_scale(n_old) * (pairs[n_old:, :n_old].mean(axis=1) - old.mean())

    n_added = 2 * n_items * (n_agents * (n_agents - 1) - n_old * (n_old - 1))
    first = make_plan(empty_pool(n_old, n_items), design="cyclic", calls=f"{PERCENT}%", seed=seed)
    grown = add_agents(first, empty_pool(n_agents, n_items), calls=round(n_added * PERCENT / 100))
    at_once = make_plan(empty_pool(n_agents, n_items), design="cyclic", calls=len(grown), seed=seed)
    before, after, whole = ranked(first, D), ranked(grown, D), ranked(at_once, D)
    error = (after.ability[n_old:] - after.ability[:n_old].mean()) - (new - old.mean())
    half = (after.high - after.low)[n_old:] / 2
    columns = ((before.ability, after.ability), (before.low, after.low), (before.high, after.high))
    same = (np.array_equal(column, later[:n_old]) for column, later in columns)
    return {
        "rho_grown": float(spearmanr(after.ability, dense).statistic),
        "rho_at_once": float(spearmanr(whole.ability, dense).statistic),
        "coverage_joined": float((np.abs(error) <= half).mean()),
        "half_width_joined": float(half.mean()),
        "half_width_old": float((before.high - before.low).mean() / 2),
        "old_unchanged": float(all(same)),
        "calls_grown": len(grown),
        "calls_at_once": len(at_once),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--joining", type=int, default=5)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    for name in ("PubMed", "ICLR", "SAMSum"):
        D = answers_of(name, arguments.shared)
        draws = [one_draw(D, n_joining=arguments.joining, seed=seed) for seed in range(arguments.seeds)]
        table[name] = {key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]}
        gap = [draw["rho_at_once"] - draw["rho_grown"] for draw in draws]
        table[name] |= {"rho_lost": float(np.mean(gap)), "rho_lost_sd": float(np.std(gap, ddof=1))}
    said = {"seeds": arguments.seeds, "joining": arguments.joining, "percent": PERCENT, "extend": table}
    text = json.dumps(said, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
