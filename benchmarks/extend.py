"""Measure the cost in accuracy of adding agents to a run later instead of judging all at once, on recorded judge answers.

Of 30 agents, 25 random ones are judged by a cyclic plan of 2 % of their dense calls; then 5 join, at 2 % of the dense calls
that they add. The alternative judges all 30 at once with as many calls. Reported are ρ with the dense ranking of the 30 agents,
the coverage of 95 % intervals for these items of the agents that join, on the scale of the first agents, and whether any old
ability or interval changed by a bit.

The public data contain only D: a paired answer is D, an independent one 0. Only the rule for drift, which is not measured here,
was chosen on these data.

`python benchmarks/extend.py [--seeds 50] [--joining 5] [--shared FOLDER] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from recorded import SHARED, read_answers
from results import print_results
from youden import make_plan
from youden.pipeline.abilities import Abilities
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.extension import add_agents
from youden.stats.trials.anchored import effect_scale
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.pool import Floats

PERCENT = 2.0


def make_empty_pool(n_agents: int, n_items: int) -> Pool:
    """Make a pool of the given size with empty texts; no judge reads them."""
    texts = np.full((n_agents, n_items), "", dtype=object)
    return Pool(tuple(Agent(f"a{i}") for i in range(n_agents)), tuple(Item(f"t{j}") for j in range(n_items)), texts)


def estimate_abilities(plan: Plan, D: Floats) -> Abilities:
    """Estimate abilities from a plan answered by D, float array (n_items, n_agents, n_agents)."""
    answer = np.where(plan.trial_type == PAIRED, D[plan.item, plan.first, plan.second], 0.0)
    verdicts = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "D"})
    abilities = trial_abilities_from_verdicts(verdicts, target="these-items")
    if abilities is None:
        raise ValueError("no abilities were estimated: the plan has no trials in blocks")
    return abilities


def measure_draw(D: Floats, *, n_joining: int, seed: int) -> dict[str, float]:
    """Compute the figures of one seed.

    D : float array (n_items, n_agents, n_agents)
    """
    n_items, n_agents = D.shape[:2]
    order = np.random.default_rng([seed, 7]).permutation(n_agents)
    D = D[:, order][:, :, order]
    pair_means = (D + D.transpose(0, 2, 1)).mean(axis=0) / 2
    n_old = n_agents - n_joining
    dense_ability = pair_means.sum(axis=1) / (n_agents - 1)
    old_ability = pair_means[:n_old, :n_old].sum(axis=1) / (n_old - 1)
    new_ability = old_ability.mean() + effect_scale(n_old) * (
        pair_means[n_old:, :n_old].mean(axis=1) - old_ability.mean()
    )

    n_added = 2 * n_items * (n_agents * (n_agents - 1) - n_old * (n_old - 1))
    first_plan = make_plan(make_empty_pool(n_old, n_items), design="cyclic", calls=f"{PERCENT}%", seed=seed)
    extended_plan = add_agents(first_plan, make_empty_pool(n_agents, n_items), calls=round(n_added * PERCENT / 100))
    single_plan = make_plan(make_empty_pool(n_agents, n_items), design="cyclic", calls=len(extended_plan), seed=seed)
    before = estimate_abilities(first_plan, D)
    after = estimate_abilities(extended_plan, D)
    at_once = estimate_abilities(single_plan, D)
    error = (after.ability[n_old:] - after.ability[:n_old].mean()) - (new_ability - old_ability.mean())
    half_width = (after.high - after.low)[n_old:] / 2
    columns = ((before.ability, after.ability), (before.low, after.low), (before.high, after.high))
    unchanged = (np.array_equal(old_column, new_column[:n_old]) for old_column, new_column in columns)
    return {
        "rho_grown": float(spearmanr(after.ability, dense_ability).statistic),
        "rho_at_once": float(spearmanr(at_once.ability, dense_ability).statistic),
        "coverage_joined": float((np.abs(error) <= half_width).mean()),
        "half_width_joined": float(half_width.mean()),
        "half_width_old": float((before.high - before.low).mean() / 2),
        "old_unchanged": float(all(unchanged)),
        "calls_grown": len(extended_plan),
        "calls_at_once": len(single_plan),
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
        answers = read_answers(name, arguments.shared)
        draws = [measure_draw(answers, n_joining=arguments.joining, seed=seed) for seed in range(arguments.seeds)]
        table[name] = {
            name_of_figure: float(np.mean([draw[name_of_figure] for draw in draws])) for name_of_figure in draws[0]
        }
        rho_losses = [draw["rho_at_once"] - draw["rho_grown"] for draw in draws]
        table[name] |= {"rho_lost": float(np.mean(rho_losses)), "rho_lost_sd": float(np.std(rho_losses, ddof=1))}
    document = {"seeds": arguments.seeds, "joining": arguments.joining, "percent": PERCENT, "extend": table}
    print_results(document, arguments.out)


if __name__ == "__main__":
    main()
