"""Measure what a ranking of few agents shows: whether its best agent is best with other partners, and whether copies win.

Random agents of the paper's four domains form pools of 3 to 15 agents. Answers are the recorded ones, cut at .5 to yes or no;
items are resampled, and each agent has 450 paired trials (or all). Figures of a pool, as shares of draws:

- recommended: one agent is significantly better than every other
- wrong: another agent of the pool has a higher true ability, with the partners of the pool, than the recommended one
- wrong with other partners: the same, with all agents of the domain as partners
- copies win: after the worst agent of the pool is copied, and both always agree, one of the two has the highest ability
- copies flagged: these two are flagged as one group; always 0 in pools of 3, in which nothing can be flagged
- honest flagged: agents of the pool without a copy are flagged; always 0 in pools of 3

`wrong` and `wrong with other partners` are shares of the draws with a recommended agent; n is the number of these draws.

`python benchmarks/few_agents.py [--draws 200] [--seed 1] [--sizes 3,4,5,6,8,10,12,15] [--shared FOLDER] [--out FILE] [--smoke]`
prints JSON. The standard error of a share p of n draws is √(p(1 − p)/n).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from unittest.mock import patch

import numpy as np

from recorded import DOMAINS, SHARED, compute_dense_abilities, read_answers
from results import print_results
from robust import add_clones, make_dense_chunk
from uncertainty import estimate
from youden.protocol.designs.cyclic import Cyclic
from youden.stats import flagged_groups, pairwise_differences
from youden.stats.partners import PairTotals
from youden.types.pool import Floats

SIZES = (3, 4, 5, 6, 8, 10, 12, 15)
TRIALS_PER_AGENT = 450
MIN_AGENTS_TO_FLAG = 4
"""Flags are computed for pools of this size and larger, in place of the minimum of the program. In smaller pools nothing is
flagged, because the additive model needs more pairs than agents."""


def rank_pool(D: Floats, rng: np.random.Generator) -> tuple[int, bool]:
    """Return the agent with the highest ability in a cyclic plan, and whether it is significantly better than every other.

    D : float array (n_items, n_agents, n_agents)
    """
    n_items, n_agents, _ = D.shape
    n_paired = min(TRIALS_PER_AGENT * n_agents // 2, n_agents * (n_agents - 1) * n_items)
    plan = Cyclic(n_paired).draw(np.ones((n_agents, n_items), dtype=np.bool_), rng).trials
    estimates = estimate(D, plan)
    best = int(np.argmax(estimates.ability))
    return best, pairwise_differences(estimates.ability, estimates.kind).unique_best == best


def measure_draw(answers: Floats, n_agents: int, rng: np.random.Generator) -> dict[str, float]:
    """Draw one pool and measure it; NaN where a figure is not defined."""
    agents = rng.choice(answers.shape[1], n_agents, replace=False)
    pool = answers[:, agents][:, :, agents]
    with_pool = compute_dense_abilities(pool)
    with_all = compute_dense_abilities(answers)[agents]
    items = rng.integers(0, len(answers), len(answers))
    best, is_recommended = rank_pool(pool[items], rng)

    # one agent less, so that the pool with the copy has n_agents
    worst = int(np.argmin(with_pool[:-1]))
    attacked, copies = add_clones(pool[items][:, :-1, :-1], worst, 1, 1.0, rng)
    best_of_attacked, _ = rank_pool(attacked, rng)
    with patch.object(flagged_groups, "MIN_AGENTS_FOR_COPYING", MIN_AGENTS_TO_FLAG):
        flags = flagged_groups.flag_groups(PairTotals.from_chunks([make_dense_chunk(attacked)], n_agents))
        false_flags = flagged_groups.flag_groups(PairTotals.from_chunks([make_dense_chunk(pool[items])], n_agents))
    return {
        "recommended": float(is_recommended),
        "wrong": float(with_pool.argmax() != best) if is_recommended else np.nan,
        "wrong with other partners": float(with_all.argmax() != best) if is_recommended else np.nan,
        "copies win": float(best_of_attacked in copies),
        "copies flagged": float(flags.flagged[copies[0], copies[1]]),
        "honest flagged": float(false_flags.flagged.any()),
    }


def measure(answers: Floats, n_agents: int, *, n_draws: int, seed: int) -> dict[str, float | None]:
    """Average the figures over draws of pools of `n_agents`."""
    rows = [measure_draw(answers, n_agents, np.random.default_rng([seed, n_agents, draw])) for draw in range(n_draws)]
    n_recommended = int(sum(row["recommended"] for row in rows))
    means: dict[str, float | None] = {}
    for name in rows[0]:
        values = [row[name] for row in rows if not np.isnan(row[name])]
        means[name] = round(float(np.mean(values)), 3) if values else None
    return {**means, "n": n_recommended}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="measure one domain and two sizes with few draws")
    arguments = parser.parse_args()

    sizes = [3, 8] if arguments.smoke else [int(size) for size in arguments.sizes.split(",")]
    table: dict[str, dict[str, dict[str, float | None]]] = {}
    for domain in ["SAMSum"] if arguments.smoke else DOMAINS:
        answers = (read_answers(domain, arguments.shared) >= 0.5).astype(np.float64)
        table[domain] = {}
        for n_agents in sizes:
            table[domain][str(n_agents)] = measure(
                answers, n_agents, n_draws=3 if arguments.smoke else arguments.draws, seed=arguments.seed
            )
    print_results(table, arguments.out)


if __name__ == "__main__":
    main()
