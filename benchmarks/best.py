"""Measure the regret of selecting the best agent, and the coverage of its regret bound and confidence interval.

`bound`: cyclic plans of 1, 2, 5 and 10 % of the dense calls (100 of them independent) on the paper's four domains. Answers are
as recorded (graded) or cut at ½ to yes or no, and the items of each run are resampled from the domain. The same is measured on
simulated pools of 4 to 300 agents with normal answers and effects of cells, items and pairs. Columns of a row:

- regret: ability of the best agent minus that of the selected one, by the abilities over all items
- right: share of runs that select the best agent
- violated: share of runs whose regret exceeds the regret bound
- regret_bound: mean regret bound
- bound_ratio: mean regret bound over the mean bound with known variances (those of the draws)
- covered, adjusted_covered: coverage of the selected agent's interval in the ranking, and of its selection-adjusted interval
- half_width, adjusted_half_width: half-widths of these two intervals
- p_best, expected_regret: mean reported probability of being best, and mean reported expected regret

`search`: adaptive plans with `top: 1` and `top: 5` against cyclic plans of as many calls on the four domains: regret of the
selected agents, regret bounds and intervals at the end. Rows with "items resampled" resample the items. `losses`: the same for
`top: 1` and yes or no, at the numbers of trials per agent for which `plan` forecasts regret. `goals`: calls until the regret
bound is at most .02 or .05. `defaults`: plans without a budget for small pools.

`python benchmarks/best.py [--only bound,search,losses,goals,defaults] [--rows PATTERN] [--seeds 200] [--pools 200]
[--shared FOLDER] [--out FILE] [--smoke]` prints JSON. `--rows` computes only rows whose names match the regular expression, such
as 'yes or no.*resampled'.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from best_runs import (
    GOALS,
    Draw,
    make_recorded_draw,
    measure_defaults,
    measure_goal,
    measure_goal_of_search,
    measure_search,
)
from recorded import DOMAINS, SHARED, read_answers
from results import print_results
from uncertainty import draw_cyclic_trials, estimate, make_domain_draw, make_simulated_draw
from youden.stats import CentredCovariance, pairwise_differences
from youden.stats.reference_data import REFERENCE_TRIALS
from youden.stats.trials.best_selection import select_best

SMALL = ((6, 40), (8, 40), (12, 32))
KNOWN = 1e6
"""Degrees of freedom that stand for known variances."""
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


def measure_bound(draw: Draw, *, percent: float, n_seeds: int) -> dict[str, float]:
    """Compute the columns of a row of `bound`: means over seeds."""
    rows, errors, regrets = [], [], []
    for seed in range(n_seeds):
        rng = np.random.default_rng([seed, round(10 * percent)])
        answers, true_ability = draw(rng)
        estimates = estimate(answers, draw_cyclic_trials(answers.shape, percent, rng))
        selection = select_best(
            estimates.ability, estimates.kind, pairwise_differences(estimates.ability, estimates.kind)
        )
        assert selection is not None
        (selected,) = selection.agents
        regret = float(true_ability.max() - true_ability[selected])
        true_value = true_ability[selected] + estimates.ability.mean()
        half_width = estimates.kind.half_width()[selected]
        errors.append(estimates.ability - estimates.ability.mean() - true_ability)
        regrets.append((estimates.ability, selection.regret_bound))
        rows.append(
            (
                regret,
                regret == 0,
                regret > selection.regret_bound,
                selection.regret_bound,
                abs(estimates.ability[selected] - true_value) <= half_width,
                selection.ability_low <= true_value <= selection.ability_high,
                half_width,
                (selection.ability_high - selection.ability_low) / 2,
                selection.p_best[selected],
                selection.expected_regret,
            )
        )
    names = (
        "regret",
        "right",
        "violated",
        "regret_bound",
        "covered",
        "adjusted_covered",
        "half_width",
        "adjusted_half_width",
        "p_best",
        "expected_regret",
    )
    means = dict(zip(names, np.mean(rows, axis=0).round(4).tolist(), strict=True))
    covariance = np.cov(np.array(errors).T)
    known_covariance = CentredCovariance(covariance, np.full(len(covariance), KNOWN))
    selections = [
        select_best(ability, known_covariance, pairwise_differences(ability, known_covariance))
        for ability, _ in regrets
    ]
    known_bound = float(np.mean([selection.regret_bound for selection in selections if selection is not None]))
    return {**means, "bound_ratio": round(means["regret_bound"] / known_bound, 3) if known_bound else float("nan")}


def compare_regret_over_domains(table: dict[str, dict[str, float]], key: str) -> dict[str, float]:
    """Compare the regret of searches and cyclic plans over the four domains; empty if a domain is missing."""
    rows = [row for name in DOMAINS if (row := table.get(f"{name}, yes or no, {key}"))]
    if len(rows) < len(DOMAINS):
        return {}
    search_regret, cyclic_regret = (sum(row[design] for row in rows) for design in ("search", "cyclic"))
    return {
        "ratio of means": search_regret / cyclic_regret,
        "mean ratio": float(np.nanmean([row["ratio"] for row in rows])),
    }


def add_pool_rows(add_row: Callable[..., None], sections: list[str], *, n_pools: int, smoke: bool) -> None:
    """Add the rows of the simulated pools."""
    for name, (n_agents, n_items, pair_sd, n_leaders) in list(POOLS.items())[-3:-2] if smoke else POOLS.items():
        percent = min(100.0, 100 * 450 * n_agents / (2 * n_agents * (n_agents - 1) * n_items))
        draw = make_simulated_draw(n_agents, n_items, pair_sd, n_leaders, "kind")
        if "bound" in sections:
            add_row(f"{name}, {percent:.1f} %", measure_bound, draw, percent=round(percent, 1), n_seeds=n_pools)
        if "search" in sections:
            percent = min(percent, 40.0)
            add_row(f"{name}, {percent:.1f} %, top 1", measure_search, draw, percent=percent, n_seeds=n_pools)
        for max_regret in GOALS if "goals" in sections else ():
            add_row(
                f"{name}, max_regret {max_regret:g}",
                measure_goal_of_search,
                draw,
                max_regret=max_regret,
                percent=30.0,
                n_seeds=n_pools,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="bound,search,goals")
    parser.add_argument("--rows", default="", help="regular expression for the names of rows to compute")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--pools", type=int, default=200)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="measure one domain and one pool with few seeds")
    arguments = parser.parse_args()
    sections, table = arguments.only.split(","), {}

    def add_row(name: str, measure: Callable[..., dict[str, float]], *draws: Draw, **options: float) -> None:
        """Compute a row, add it to the table and print it to stderr, if its name matches `--rows`."""
        if not re.search(arguments.rows, name) or not (row := measure(*draws, **options)):
            return
        table[name] = row
        line = ", ".join(f"{key} {value:.4g}" for key, value in row.items())
        print(f"{name}: {line}", file=sys.stderr, flush=True)

    n_seeds, percents = (2, (2.0,)) if arguments.smoke else (arguments.seeds, (1.0, 2.0, 5.0))
    for name in ["SAMSum"] if arguments.smoke else DOMAINS:
        graded = read_answers(name, arguments.shared)
        kinds = {"graded": graded, "yes or no": (graded >= 0.5).astype(np.float64)}
        if arguments.smoke:
            del kinds["graded"]
        for kind, answers in kinds.items():
            resampled_draw = make_domain_draw(answers, "kind")
            for percent in (*percents, 10.0) if "bound" in sections else ():
                add_row(
                    f"{name}, {kind}, {percent:g} %", measure_bound, resampled_draw, percent=percent, n_seeds=n_seeds
                )
            for percent in percents if "search" in sections else ():
                for top in (1, 5):
                    key = f"{name}, {kind}, {percent:g} %, top {top}"
                    add_row(key, measure_search, make_recorded_draw(answers), percent=percent, n_seeds=n_seeds, top=top)
                    add_row(
                        f"{key}, items resampled",
                        measure_search,
                        resampled_draw,
                        percent=percent,
                        n_seeds=n_seeds,
                        top=top,
                    )
            for trials in REFERENCE_TRIALS if "losses" in sections and kind == "yes or no" else ():
                n_items_of_domain, n_agents_of_domain, _ = answers.shape
                percent_of_dense = (
                    100
                    * (trials * n_agents_of_domain / 2 + 100)
                    / (2 * n_agents_of_domain * (n_agents_of_domain - 1) * n_items_of_domain)
                )
                add_row(
                    f"{name}, {trials} trials",
                    measure_search,
                    resampled_draw,
                    percent=percent_of_dense,
                    n_seeds=n_seeds,
                )
            for max_regret in GOALS if "goals" in sections else ():
                n_goal_seeds = max(n_seeds // 5, 2)
                add_row(
                    f"{name}, {kind}, max_regret {max_regret:g}",
                    measure_goal,
                    resampled_draw,
                    max_regret=max_regret,
                    percent=30.0,
                    n_seeds=n_goal_seeds,
                )
            for n_agents, n_items in SMALL if "defaults" in sections else ():
                key = f"{name}, {kind}, {n_agents} × {n_items} by default"
                add_row(
                    key,
                    measure_defaults,
                    make_recorded_draw(answers),
                    n_agents=n_agents,
                    n_items=n_items,
                    n_seeds=n_seeds,
                )
    add_pool_rows(add_row, sections, n_pools=2 if arguments.smoke else arguments.pools, smoke=arguments.smoke)
    for key in [
        f"{percent:g} %, top 1{resampled_draw}" for percent in percents for resampled_draw in ("", ", items resampled")
    ]:
        add_row(f"four domains, yes or no, {key}", lambda key=key: compare_regret_over_domains(table, key))
    print_results(table, arguments.out)


if __name__ == "__main__":
    main()
