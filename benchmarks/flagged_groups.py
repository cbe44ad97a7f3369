"""Measure how often honest agents are flagged as one group, and how many members of a collusion ring are.

Per domain, from graded answers and from answers cut at .5 to yes or no:

- record: the largest corrected agreement of honest groups of 2, 3, 4, and 5 or more agents, in dense plans of the pool and of
  random halves of its agents
- false flags: the share of runs without an attack in which agents are flagged, before and after follow-up trials, in cyclic plans
  of the whole pool and of random halves with as many trials per agent. Names with `others` are of bars from the other domains
  (the 98 % quantiles of their halves plus .1).
- power: the share of the members of a ring that are flagged together, and the number of honest agents that are flagged with them.
  The members are the worst agent of the pool, or its median agent, and copies of it.

`python benchmarks/flagged_groups.py [--draws 100] [--power-draws 40] [--halves 150] [--seed 1] [--shared FOLDER] [--out FILE]
[--smoke]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import numpy as np

import youden
from recorded import DOMAINS, SHARED, read_rates
from results import print_results
from robust import add_clones, compute_negative_abilities, make_chunk, make_dense_chunk, make_matrix
from youden.pipeline.follow_ups import allocate_follow_ups, draw_follow_ups
from youden.stats import flagged_groups
from youden.stats.flagged_groups import GROUP_BARS, FlaggedGroups, PairAgreement, flag_groups
from youden.stats.partners import PairTotals, uniform_weights
from youden.types import PAIRED, Agent, Item, Plan, Pool
from youden.types.pool import Floats, Positions

BUDGETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Budgets in percent of the dense calls of the whole pool; a half pool has as many trials per agent."""
FOLLOW_UP_FRACTION = 0.1
"""Follow-up trials, as a fraction of the calls."""
LEAVE_ONE_OUT_MARGIN = 0.1
"""Distance of the bars from the records of the other domains."""
RINGS = (
    ("worst", 2, 1.0, 2.0),
    ("worst", 2, 1.0, 5.0),
    ("worst", 2, 1.0, 20.0),
    ("worst", 2, 0.8, 20.0),
    ("worst", 3, 1.0, 2.0),
    ("worst", 3, 0.8, 20.0),
    ("worst", 5, 1.0, 2.0),
    ("worst", 5, 0.8, 2.0),
    ("worst", 9, 1.0, 2.0),
    ("worst", 9, 0.8, 2.0),
    ("worst", 9, 0.6, 20.0),
    ("median", 3, 1.0, 20.0),
    ("median", 5, 1.0, 20.0),
    ("median", 9, 1.0, 20.0),
)
"""Copied agent, number of members, agreement of two members, and budget in percent."""


def draw_plan(D: Floats, *, percent: float, seed: int) -> Plan:
    """Draw a cyclic plan of the agents and items of D, or the dense plan."""
    J, K, _ = D.shape
    texts = np.full((K, J), "", dtype=object)
    pool = Pool(tuple(Agent(str(i)) for i in range(K)), tuple(Item(str(j)) for j in range(J)), texts)
    if percent >= 100:
        return youden.make_plan(pool, design="dense", independent="pooled:100", seed=seed)
    return youden.make_plan(pool, calls=f"{percent}%", independent="pooled:100", seed=seed)


def flag_recorded(D: Floats, plan: Plan, *, percent: float, seed: int) -> tuple[FlaggedGroups, FlaggedGroups, int]:
    """Flag groups from recorded answers, before and after follow-up trials; also return the number of these trials."""
    paired = plan.trial_type == PAIRED
    item, first, second = plan.item[paired], plan.first[paired], plan.second[paired]
    totals = PairTotals.from_chunks([make_chunk(D, item, first, second)], D.shape[1])
    flags = flag_groups(totals)
    n_trials = allocate_follow_ups(flags, int(FOLLOW_UP_FRACTION * len(plan))) if percent < 100 else {}
    trials = draw_follow_ups(plan, n_trials, np.random.default_rng([seed, 7]))
    if not len(trials):
        return flags, flags, 0
    item, first, second = (
        np.append(column, new_column)
        for column, new_column in ((item, trials.item), (first, trials.first), (second, trials.second))
    )
    totals = PairTotals.from_chunks([make_chunk(D, item, first, second)], D.shape[1])
    return flags, flag_groups(totals), len(trials)


def find_largest_corrected(D: Floats) -> list[float]:
    """Find the largest corrected agreement of groups of 2, 3, 4 and 5 agents, all of whose pairs are candidates; 0 without one.

    A group of more than 5 agents contains one of 5 whose corrected agreement is at least as large.
    """
    pairs = PairAgreement.from_totals(PairTotals.from_chunks([make_dense_chunk(D)], D.shape[1]))
    groups: list[tuple[int, ...]] = [(i, k) for i, k in np.argwhere(np.triu(pairs.is_candidate)).tolist()]
    largest = []
    for _ in GROUP_BARS:
        corrected = [0.0]
        for group in groups:
            first, second = np.array(list(combinations(group, 2))).T
            corrected.append(pairs.excess[first, second].sum() / pairs.max_excess[first, second].sum())
        largest.append(round(float(max(corrected)), 3))
        groups = [
            (*group, newcomer)
            for group in groups
            for newcomer in range(group[-1] + 1, len(pairs.n))
            if pairs.is_candidate[list(group), newcomer].all()
        ]
    return largest


def draw_half(n_agents: int, *, seed: int) -> Positions:
    """Draw a random half of the agents."""
    return np.random.default_rng([seed, 5]).permutation(n_agents)[: n_agents // 2]


def select_agents(D: Floats, agents: Positions) -> Floats:
    """Select the answers between some agents."""
    return D[:, agents][:, :, agents]


def measure_record(D: Floats, *, n_halves: int, seed: int) -> dict[str, list[float]]:
    """Measure the largest corrected agreement by group size in the pool and in random halves of it."""
    halves = [
        find_largest_corrected(select_agents(D, draw_half(D.shape[1], seed=seed * 10_000 + n))) for n in range(n_halves)
    ]
    return {
        "whole": find_largest_corrected(D),
        "half, 98 % quantile": np.quantile(halves, 0.98, axis=0).round(3).tolist(),
        "half, largest": np.max(halves, axis=0).tolist(),
    }


def measure_false_flags(
    D: Floats, other_bars: Sequence[float], *, n_draws: int, seed: int
) -> dict[str, dict[str, float]]:
    """Measure the share of runs that flag an honest agent, by pool and budget, with the bars and with `other_bars`."""
    figures = {}
    for part in ("whole", "half"):
        for percent in BUDGETS:
            rows = []
            is_dense = part == "whole" and percent == 100
            for number in range(1 if is_dense else n_draws):  # the dense plan of a pool is always the same
                seed_of_draw = seed * 10_000 + number
                answers = D if part == "whole" else select_agents(D, draw_half(D.shape[1], seed=seed_of_draw))
                percent_of_pool = percent if part == "whole" else min(2 * percent, 100.0)
                plan = draw_plan(answers, percent=percent_of_pool, seed=seed_of_draw)
                row: list[float] = []
                for bars in (GROUP_BARS, other_bars):
                    with patch.object(flagged_groups, "GROUP_BARS", bars):
                        before, after, n = flag_recorded(answers, plan, percent=percent_of_pool, seed=seed_of_draw)
                    row += [bool(before.clusters), bool(after.clusters), n / len(plan)]
                rows.append(row)
            names = ("before", "after", "follow_ups", "others_before", "others_after", "others_follow_ups")
            figures[f"{part}, {percent:g} %"] = dict(zip(names, np.mean(rows, axis=0).round(4).tolist(), strict=True))
    return figures


def measure_power(D: Floats, *, n_draws: int, seed: int) -> dict[str, dict[str, float]]:
    """Measure the flagged share of the members of rings, and the number of honest agents that are flagged."""
    worst_first = np.argsort(-compute_negative_abilities(make_dense_chunk(D), uniform_weights(D.shape[1]))).tolist()
    copied = {"worst": worst_first[0], "median": worst_first[len(worst_first) // 2]}
    figures = {}
    for agent, size, agreement, percent in RINGS:
        rows = []
        for number in range(n_draws):
            seed_of_draw = seed * 10_000 + number
            answers, members = add_clones(
                D, copied[agent], size - 1, agreement, np.random.default_rng([seed_of_draw, 3])
            )
            plan = draw_plan(answers, percent=percent, seed=seed_of_draw)
            before, after, _ = flag_recorded(answers, plan, percent=percent, seed=seed_of_draw)
            rows.append((*_count_flagged(before, members), *_count_flagged(after, members)))
        names = ("before", "honest_before", "after", "honest_after")
        figures[f"{agent} × {size}, agreement {agreement:g}, {percent:g} %"] = dict(
            zip(names, np.mean(rows, axis=0).round(3).tolist(), strict=True)
        )
    return figures


def _count_flagged(flags: FlaggedGroups, members: list[int]) -> tuple[float, int]:
    """Return the share of the members in their largest common cluster, and the number of flagged honest agents."""
    largest_size = int(np.bincount(flags.cluster[members]).max())
    is_honest = ~np.isin(np.arange(len(flags.cluster)), members)
    share = largest_size / len(members) if largest_size > 1 else 0.0
    return share, int((flags.flagged.any(axis=1) & is_honest).sum())


def iter_domains(names: list[str], shared: Path, *, n_items: int | None) -> Iterator[tuple[str, str, Floats]]:
    """Yield the domain, the kind of answers and the answers to the first `n_items`, or to all items."""
    for name in names:
        D = make_matrix(read_rates(name, shared))[:n_items]
        yield name, "graded", D
        yield name, "yes or no", np.where(np.isnan(D), np.nan, D >= 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100, help="runs per cell of the false flags")
    parser.add_argument("--power-draws", type=int, default=40, help="runs per cell of the power")
    parser.add_argument("--halves", type=int, default=150, help="random halves per record")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="measure few items of one domain with few draws")
    arguments = parser.parse_args()
    n_draws, n_power_draws, n_halves = arguments.draws, arguments.power_draws, arguments.halves
    if arguments.smoke:
        n_draws, n_power_draws, n_halves = 1, 1, 2
    names, n_items = (["OPUS"], 20) if arguments.smoke else (list(DOMAINS), None)
    domains = list(iter_domains(names, arguments.shared, n_items=n_items))

    records = {}
    for name, kind, D in domains:
        records[name, kind] = measure_record(D, n_halves=n_halves, seed=arguments.seed)
        print(name, kind, records[name, kind], file=sys.stderr, flush=True)
    table: dict[str, object] = {"settings": {**vars(arguments), "shared": None, "out": None}, "bars": GROUP_BARS}
    for name, kind, D in domains:
        figures: dict[str, object] = {"record": records[name, kind]}
        others = [record["half, 98 % quantile"] for (alternative, _), record in records.items() if alternative != name]
        bars = (np.max(others or [[0.0] * 4], axis=0) + LEAVE_ONE_OUT_MARGIN).round(3).tolist()
        figures["bars of the other domains"] = bars
        figures["false flags"] = measure_false_flags(D, bars, n_draws=n_draws, seed=arguments.seed)
        figures["power"] = measure_power(D, n_draws=n_power_draws, seed=arguments.seed)
        table[f"{name}, {kind}"] = figures
        print(json.dumps({f"{name}, {kind}": figures}), file=sys.stderr, flush=True)
    print_results(table, arguments.out)


if __name__ == "__main__":
    main()
