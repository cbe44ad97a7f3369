"""Which agent is taken, what that loses, and whether the bound on it and the leader's interval hold after looking.

Cyclic plans of 1, 2, 5 and 10 % of the dense calls (100 of them independent) on the paper's four domains, answers as recorded and
cut at ½ to yes or no, a run's items drawn anew from the domain's; and on simulated pools (normal answers with effects of cells,
items and pairs): all alike, one leader, two, ten, a long slope, heavy pairs, few items, 4 to 300 agents. regret: by how much the
best is better than the agent taken, by the abilities of all items; right: how often it is the best; false: how often another is
better by more than said; within: what is said, on average; wide: over what known variances (those of the draws) would say; plain,
allowed: how often the leader's interval of the ranking, and the one that allows for its having come first, hold its ability;
half, allowed_half: their half-widths; chance, expected: what is told of right and of regret, on average.

search: `top: 1` and `top: 5` beside cyclic plans of as many calls, on the four domains as recorded: regret of those named, and
the bound and the intervals at the end, with items drawn anew; losses: the same of `top: 1` and yes or no at so many trials an
agent as `plan` forecasts regret for. goals: calls until `within: .02` or `.05` is said.

`python benchmarks/best.py [--only bound,search,losses,goals,defaults] [--rows PATTERN] [--seeds 200] [--pools 200]
[--shared FOLDER] [--out FILE] [--smoke]` prints JSON. --rows: the rows whose names match, such as 'yes or no.*anew'.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from best_runs import (
    GOALS,
    Draw,
    default_figures,
    goal_alone,
    goal_figures,
    recorded_draw,
    search_figures,
)
from recorded import DOMAINS, SHARED, answers_of
from uncertainty import domain_draw, found_of, plan_of, shape_draw
from youden.stats import CentredCovariance, pairwise_differences
from youden.stats.forecast import REFERENCE_TRIALS
from youden.stats.trials.best_selection import select_best

SMALL = ((6, 40), (8, 40), (12, 32))
KNOWN = 1e6
"""Degrees of freedom where variances are known."""
POOLS = {
    "30 × 200, all alike": (30, 200, 0.0, 30),
    "30 × 200, a long slope": (30, 200, 0.02, 1),
    "30 × 200, two leaders": (30, 200, 0.02, 2),
    "30 × 200, ten leaders": (30, 200, 0.02, 10),
    "30 × 200, heavy pairs": (30, 200, 0.15, 1),
    "30 × 12, few items": (30, 12, 0.02, 1),
    "4 × 100": (4, 100, 0.02, 1),
    "12 × 40, two leaders": (12, 40, 0.02, 2),
    "100 × 100": (100, 100, 0.02, 1),
}


def figures(draw: Draw, *, percent: float, n_seeds: int) -> dict[str, float]:
    """Means over seeds."""
    rows, abilities, regrets = [], [], []
    for seed in range(n_seeds):
        rng = np.random.default_rng([seed, round(10 * percent)])
        D, truth = draw(rng)
        found = found_of(D, plan_of(D.shape, percent, rng))
        taken = select_best(found.ability, found.kind, pairwise_differences(found.ability, found.kind))
        assert taken is not None
        (named,) = taken.agents
        regret = float(truth.max() - truth[named])
        own, half = truth[named] + found.ability.mean(), found.kind.half_width()[named]
        abilities.append(found.ability - found.ability.mean() - truth)
        regrets.append((found.ability, taken.within))
        rows.append(
            (
                regret,
                regret == 0,
                regret > taken.within,
                taken.within,
                abs(found.ability[named] - own) <= half,
                taken.low <= own <= taken.high,
                half,
                (taken.high - taken.low) / 2,
                taken.chance[named],
                taken.regret,
            )
        )
    names = ("regret", "right", "false", "within", "plain", "allowed", "half", "allowed_half", "chance", "expected")
    made = dict(zip(names, np.mean(rows, axis=0).round(4).tolist(), strict=True))
    C = np.cov(np.array(abilities).T)
    known = CentredCovariance(C, np.full(len(C), KNOWN))
    told = [select_best(a, known, pairwise_differences(a, known)) for a, _ in regrets]
    least = float(np.mean([one.within for one in told if one is not None]))
    return {**made, "wide": round(made["within"] / least, 3) if least else float("nan")}


def of_domains(table: dict[str, dict[str, float]], key: str) -> dict[str, float]:
    """Regret of searches over that of cyclic plans: of the mean of four domains, and the mean of each one's; else empty."""
    rows = [row for name in DOMAINS if (row := table.get(f"{name}, yes or no, {key}"))]
    if len(rows) < len(DOMAINS):
        return {}
    searched, alike = (sum(row[arm] for row in rows) for arm in ("search", "cyclic"))
    return {"ratio of means": searched / alike, "mean ratio": float(np.nanmean([row["ratio"] for row in rows]))}


def of_pools(tell: Callable[..., None], parts: list[str], *, n_pools: int, smoke: bool) -> None:
    """The rows of simulated pools."""
    for name, (K, J, pairs, leaders) in list(POOLS.items())[-3:-2] if smoke else POOLS.items():
        percent, draw = min(100.0, 100 * 450 * K / (2 * K * (K - 1) * J)), shape_draw(K, J, pairs, leaders, "kind")
        if "bound" in parts:
            tell(f"{name}, {percent:.1f} %", figures, draw, percent=round(percent, 1), n_seeds=n_pools)
        if "search" in parts:
            percent = min(percent, 40.0)
            tell(f"{name}, {percent:.1f} %, top 1", search_figures, draw, percent=percent, n_seeds=n_pools)
        for within in GOALS if "goals" in parts else ():
            tell(f"{name}, within {within:g}", goal_alone, draw, within=within, percent=30.0, n_seeds=n_pools)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="bound,search,goals")
    parser.add_argument("--rows", default="")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--pools", type=int, default=200)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="One domain, one pool, few seeds.")
    said = parser.parse_args()
    parts, table = said.only.split(","), {}

    def tell(name: str, make: Callable[..., dict[str, float]], *of: Draw, **how: float) -> None:
        if not re.search(said.rows, name) or not (found := make(*of, **how)):
            return
        table[name] = found
        line = ", ".join(f"{key} {value:.4g}" for key, value in found.items())
        print(f"{name}: {line}", file=sys.stderr, flush=True)

    n_seeds, percents = (3, (2.0,)) if said.smoke else (said.seeds, (1.0, 2.0, 5.0))
    for name in ["SAMSum"] if said.smoke else DOMAINS:
        graded = answers_of(name, said.shared)
        for kind, D in (("graded", graded), ("yes or no", (graded >= 0.5).astype(np.float64))):
            anew = domain_draw(D, "kind")
            for percent in (*percents, 10.0) if "bound" in parts else ():
                tell(f"{name}, {kind}, {percent:g} %", figures, anew, percent=percent, n_seeds=n_seeds)
            for percent in percents if "search" in parts else ():
                for top in (1, 5):
                    key = f"{name}, {kind}, {percent:g} %, top {top}"
                    tell(key, search_figures, recorded_draw(D), percent=percent, n_seeds=n_seeds, top=top)
                    tell(f"{key}, items anew", search_figures, anew, percent=percent, n_seeds=n_seeds, top=top)
            for trials in REFERENCE_TRIALS if "losses" in parts and kind == "yes or no" else ():
                J, K, _ = D.shape
                share = 100 * (trials * K / 2 + 100) / (2 * K * (K - 1) * J)
                tell(f"{name}, {trials} trials", search_figures, anew, percent=share, n_seeds=n_seeds)
            for within in GOALS if "goals" in parts else ():
                few = max(n_seeds // 5, 2)
                tell(f"{name}, {kind}, within {within:g}", goal_figures, anew, within=within, percent=30.0, n_seeds=few)
            for n_agents, n_items in SMALL if "defaults" in parts else ():
                key = f"{name}, {kind}, {n_agents} × {n_items} by default"
                tell(key, default_figures, recorded_draw(D), n_agents=n_agents, n_items=n_items, n_seeds=n_seeds)
    of_pools(tell, parts, n_pools=3 if said.smoke else said.pools, smoke=said.smoke)
    for key in [f"{percent:g} %, top 1{anew}" for percent in percents for anew in ("", ", items anew")]:
        tell(f"four domains, yes or no, {key}", lambda key=key: of_domains(table, key))
    text = json.dumps(table, indent=1)
    print(text)
    if said.out is not None:
        said.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
