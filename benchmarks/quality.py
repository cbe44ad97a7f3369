"""Measure quality estimated from few labels: error, rank correlation, regret and coverage, against other estimates.

Labels of two kinds are used. Real labels are the preferences that AlpacaEval publishes for 13 models on 200 prompts; an agent's
truth is the mean of its preferences. Drawn labels are Bernoulli with probability expit(c · logit(win rate) + item effect), with
c such that the mean over items is about the win rate that AlpacaEval or lmsys publishes. The item effects have SD 2, which gives
the correlation of the real labels on one item (.19 to .24 for the models with preferences, whose real labels have .23 to .31);
the parts "weak" have SD 1. Abilities are the lexical judge's by the default plan with seed 0. Agents are labeled on separate
random items, or all on the same ("common") items.

"× labels" is the mean squared error of the direct estimate (labels alone) over that of the method. All methods of a row use the
same labels. `lower_covered` is the coverage among agents with a truth below the median. The priors of `stats/small_areas/` are
round numbers. Choices among a few alternatives (outliers, the priors of τ, of a zero slope and of the curvature, the usual
correlation of labels on one item) were made with these models and the simulated relations below, on other seeds; the priors of
the curvature and the usual correlation were first chosen on the preferences of 43 other models.

Methods: labels alone; shrunk to their mean; shrunk to a regression on ability (normal Fay–Herriot, EM, variance at the fitted
mean); additive item effects if agents share items; prediction-powered inference with the cells' scores, power-tuned (Angelopoulos
et al. 2023, Science 382; Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453); a regression on length.

`python benchmarks/quality.py [--draws 200] [--only WORD] [--counts 2,5,10,20] [--smoke] [--shared FOLDER] [--out FILE]` prints a
table. `--only` selects the parts whose names contain WORD, `--counts` the numbers of labels per agent.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from labels import SHARED
from quality_methods import (
    Labels,
    compute_label_means,
    compute_prediction_powered_means,
    fit_additive_items,
    fit_normal_fay_herriot,
)
from quality_pools import (
    N_ITEMS,
    WEAK_ITEM_SD,
    LabeledPool,
    draw_labels,
    draw_values,
    load_pool,
    permute_ability,
    read_preferences,
    simulate_pool,
)
from youden.stats.base.proportions import proportion
from youden.stats.small_areas.quality_estimates import QualityEstimates, quality_from_labels
from youden.workflows.quality import quality_difference

LENGTH_AT = (2, 10)
"""Labels per agent at which a regression on length is measured too."""
PAIRS = 6
"""Pairs of agents per draw whose difference is estimated, as `gate --by quality` does."""


def compute_spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Compute Spearman's ρ; 0 if all values of `a` are equal."""
    ranks_a, ranks_b = rankdata(a), rankdata(b)
    return 0.0 if np.ptp(ranks_a) == 0 else float(np.corrcoef(ranks_a, ranks_b)[0, 1])


def compute_regret(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Compute the regret of selecting the agent with the largest estimate; the mean over ties."""
    return float(truth.max() - truth[estimate >= estimate.max() - 1e-12].mean())


class FigureTable:
    """Figures per method, averaged over draws."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, method: str, **figures: float) -> None:
        """Add the figures of one draw."""
        for name, figure in figures.items():
            self.figures[method][name].append(figure)

    def add_estimate(self, method: str, estimate: np.ndarray, truth: np.ndarray) -> None:
        """Add error, rank correlation and regret of an estimate."""
        self.add(
            method,
            mse=float(np.mean((estimate - truth) ** 2)),
            rho=compute_spearman(estimate, truth),
            regret=compute_regret(estimate, truth),
        )

    def iter_rows(self, part: str, pool_name: str, n: str) -> Iterator[dict[str, object]]:
        """Yield one row per method."""
        direct_mse = np.mean(self.figures["labels alone"]["mse"])
        for method, figures in self.figures.items():
            mean = {name: float(np.nanmean(values)) for name, values in figures.items() if not np.isnan(values).all()}
            if "covered" in mean:
                mean["covered_se"] = float(np.std(figures["covered"]) / np.sqrt(len(figures["covered"])))
            yield {
                "part": part,
                "world": pool_name,
                "labels": n,
                "method": method,
                "times": direct_mse / mean.pop("mse"),
                **mean,
            }


def add_coverage(table: FigureTable, pool: LabeledPool, estimates: QualityEstimates, labels: Labels) -> None:
    """Add coverage and widths of the quality estimates and of the direct estimates."""
    truth, n_agents = pool.truth, len(pool.win)
    mean, n = compute_label_means(labels, n_agents)
    proportions = [proportion(label_mean * count, count) for label_mean, count in zip(mean, n.tolist(), strict=True)]
    low = np.array([interval.low for interval in proportions])
    high = np.array([interval.high for interval in proportions])
    is_covered = (estimates.low <= truth) & (truth <= estimates.high)
    is_lower = truth < np.median(truth)
    is_covered_by_either = (np.minimum(low, estimates.low) <= truth) & (truth <= np.maximum(high, estimates.high))
    is_far_outlier = pool.gamed & (pool.win > 0.7)
    pairs = [
        (b, (b + 1) % n_agents)
        for b in range(0, n_agents, max(1, n_agents // PAIRS))
        if not np.isnan(estimates.quality[[b, (b + 1) % n_agents]]).any()
    ]
    differences = [(a, b, *quality_difference(estimates, a, b, level=estimates.level)) for a, b in pairs]
    table.add(
        "both",
        covered=float(is_covered.mean()),
        lower_covered=float(is_covered[is_lower].mean()),
        width=float((estimates.high - estimates.low).mean()),
        width_to_alone=float((estimates.high - estimates.low).mean() / (high - low).mean()),
        fair_named=float(estimates.is_outlier[~is_far_outlier].mean()),
        far_named=float(estimates.is_outlier[is_far_outlier].mean()) if is_far_outlier.any() else np.nan,
        far_covered=float(is_covered_by_either[is_far_outlier].mean()) if is_far_outlier.any() else np.nan,
        pairs_covered=float(np.mean([low <= truth[a] - truth[b] <= high for a, b, _, low, high in differences])),
        no_slope=np.nan if estimates.regression is None else estimates.regression.p_zero_slope,
    )
    table.add(
        "labels alone", covered=float(((low <= truth) & (truth <= high)).mean()), width=float((high - low).mean())
    )


def iter_rows(
    part: str,
    make_pool: Callable[[np.random.Generator], LabeledPool],
    n_labels: int,
    n_draws: int,
    *,
    share_items: bool = False,
    all_methods: bool = True,
) -> Iterator[dict[str, object]]:
    """Yield a row per method: averages over `n_draws` draws of `n_labels` labels per agent.

    part : name of the part; its characters and `n_labels` are the seed
    make_pool : callable
        Returns the pool of a draw.
    share_items : bool
        Whether all agents are labeled on the same items.
    all_methods : bool
        Whether the regression on ability, prediction-powered inference and length are measured too.
    """
    table, rng = FigureTable(), np.random.default_rng([*part.encode(), n_labels])
    for _ in range(n_draws):
        pool = make_pool(rng)
        n_agents, truth = len(pool.win), pool.truth
        labels = draw_labels(pool, n_labels, rng, share_items=share_items)
        mean, counts = compute_label_means(labels, n_agents)
        table.add_estimate("labels alone", mean, truth)
        table.add_estimate("shrunk to the mean", fit_normal_fay_herriot(mean, counts), truth)
        if all_methods:
            table.add_estimate("normal line", fit_normal_fay_herriot(mean, counts, pool.ability), truth)
        estimates = quality_from_labels(*labels, ability=pool.ability, std_error=pool.std_error)
        table.add_estimate("both", estimates.quality, truth)
        add_coverage(table, pool, estimates, labels)
        if all_methods and pool.cells is not None:
            table.add_estimate("prediction-powered", compute_prediction_powered_means(labels, pool.cells), truth)
        if all_methods and pool.length is not None and n_labels in LENGTH_AT:
            by_length = quality_from_labels(*labels, ability=np.log(pool.length), std_error=np.zeros(n_agents))
            table.add_estimate("length", by_length.quality, truth)
        if share_items:
            table.add_estimate("additive items", fit_additive_items(labels, n_agents), truth)
    yield from table.iter_rows(part, pool.name, str(n_labels))


def iter_chosen_label_rows(pool: LabeledPool, total: int, n_rounds: int, n_draws: int) -> Iterator[dict[str, object]]:
    """Yield rows that compare `total` labels allocated in rounds to find the best agent with as many at random."""
    table = FigureTable()
    rng = np.random.default_rng([60, n_rounds])
    n_agents = len(pool.win)
    for _ in range(n_draws):
        effect, order = pool.item_sd * rng.normal(size=N_ITEMS), rng.permutation(N_ITEMS)
        cells = np.sort(rng.choice(n_agents * N_ITEMS, total, replace=False))
        labels = (cells // N_ITEMS, cells % N_ITEMS, draw_values(pool, cells // N_ITEMS, cells % N_ITEMS, effect, rng))
        mean, n = compute_label_means(labels, n_agents)
        table.add_estimate("labels alone", np.where(n > 0, mean, mean[n > 0].mean()), pool.truth)
        estimates = quality_from_labels(*labels, ability=pool.ability, std_error=pool.std_error)
        table.add_estimate("both, at random", estimates.quality, pool.truth)
        agent, item, value = np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0)
        for _ in range(n_rounds):
            n = np.bincount(agent, minlength=n_agents)
            current = quality_from_labels(agent, item, value, ability=pool.ability, std_error=pool.std_error)
            allocation = current.allocate_labels(total // n_rounds, N_ITEMS - n, for_best=True)
            new_agent = np.repeat(np.arange(n_agents), allocation)
            new_item = np.concatenate(
                [order[start : start + count] for start, count in zip(n.tolist(), allocation.tolist(), strict=True)]
            )
            agent, item = np.r_[agent, new_agent], np.r_[item, new_item]
            value = np.r_[value, draw_values(pool, new_agent, new_item, effect, rng)]
        estimates = quality_from_labels(agent, item, value, ability=pool.ability, std_error=pool.std_error)
        table.add_estimate("both, chosen", estimates.quality, pool.truth)
    yield from table.iter_rows("best", pool.name, f"{total} in {n_rounds} rounds")


Rows = Iterator[dict[str, object]]
COUNTS = (1, 2, 5, 10, 20, 50)


def make_constant(pool: LabeledPool) -> Callable[[np.random.Generator], LabeledPool]:
    """Make a function that returns `pool` for every draw."""
    return lambda _: pool


def get_alpaca_eval_parts(shared: Path, counts: tuple[int, ...], n_draws: int) -> dict[str, Callable[[], Rows]]:
    """Return a function per part that yields its rows."""
    pool = replace(load_pool(shared, "alpaca-eval"), name="39 as published")
    ids = [path.parent.name for path in sorted((shared / "alpaca-eval").glob("results/*/model_outputs.json"))]
    fair_pool = pool.select(~pool.gamed, "37 fair models")
    win = np.where(pool.gamed, pool.win.max(), pool.win)
    pool_with_two_winners = replace(pool, name="39, both gaming at NullModel's win rate", win=win)
    negated_pool = replace(pool, name="39, ability negated", ability=-pool.ability)
    real_pool = read_preferences(shared, pool, ids)
    real_fair_pool = real_pool.select(~real_pool.gamed, "11 fair models with preferences")
    weak_items_pool = replace(pool, name="39, item effects of SD 1", item_sd=WEAK_ITEM_SD)
    parts: dict[str, Callable[[], Rows]] = {}

    def iter_counts(iter_count: Callable[[int], Rows]) -> Rows:
        return (row for n in counts for row in iter_count(n))

    def add_part(
        part: str, make_pool: Callable[[np.random.Generator], LabeledPool], *, all_methods: bool = True
    ) -> None:
        """Add a part with separate items and one with common items."""
        for name, share_items in ((part, False), (f"{part}-common", True)):
            iter_count = partial(
                iter_rows, name, make_pool, n_draws=n_draws, share_items=share_items, all_methods=all_methods
            )
            parts[name] = partial(iter_counts, iter_count)

    add_part("fair", make_constant(fair_pool))
    add_part("all", make_constant(pool_with_two_winners))
    add_part("published", make_constant(pool))
    add_part("permuted", partial(permute_ability, pool), all_methods=False)
    add_part("negated", make_constant(negated_pool), all_methods=False)
    add_part("weak", make_constant(weak_items_pool), all_methods=False)
    add_part("real", make_constant(real_pool))
    add_part("real-fair", make_constant(real_fair_pool))
    add_part("real-permuted", partial(permute_ability, real_pool), all_methods=False)
    parts["best"] = lambda: (
        row
        for rounds in (2, 3, 6)
        for candidate in (pool_with_two_winners, fair_pool)
        for row in iter_chosen_label_rows(candidate, 60, rounds, n_draws)
    )
    return parts


def iter_simulation_rows(counts: tuple[int, ...], n_draws: int) -> Rows:
    """Yield the rows of simulated pools."""
    for relation in ("line", "useless", "inverted", "convex", "parabola"):
        for n_agents in (5, 8, 12, 39, 100):
            for n in counts:
                yield from iter_rows(
                    "simulated", partial(simulate_pool, relation, n_agents), n, n_draws, all_methods=False
                )


def iter_part_rows(shared: Path, only: str, counts: tuple[int, ...], n_draws: int) -> Rows:
    """Yield the rows of the parts whose names contain `only`; parts without data are skipped."""
    parts: dict[str, Callable[[], Rows]] = {}
    if (shared / "alpaca-eval").is_dir():
        parts |= get_alpaca_eval_parts(shared, counts, n_draws)
    if (shared / "mt-bench").is_dir():
        make_mt_bench = make_constant(load_pool(shared, "mt-bench"))
        parts["mt-bench"] = lambda: (row for n in counts for row in iter_rows("mt-bench", make_mt_bench, n, n_draws))
    parts["simulated"] = lambda: iter_simulation_rows(counts, n_draws)
    for part, iter_part in parts.items():
        if only in part:
            yield from iter_part()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.draws, arguments.counts, arguments.only = 2, "5", arguments.only or "simulated"
    counts = tuple(int(count) for count in arguments.counts.split(","))
    rows = []
    print(
        "| part | world | labels | method | × labels | Spearman | regret | other figures |\n| --- " * 1
        + "| --- " * 7
        + "|"
    )
    for row in iter_part_rows(arguments.shared, arguments.only, counts, arguments.draws):
        rows.append(row)
        columns = ("part", "world", "labels", "method", "times", "rho", "regret")
        other_figures = "; ".join(f"{name} {value:.3f}" for name, value in row.items() if name not in columns)
        print(
            f"| {row['part']} | {row['world']} | {row['labels']} | {row['method']} | {row['times']:.2f} | {row['rho']:.2f} | "
            f"{row['regret']:.3f} | {other_figures} |",
            flush=True,
        )
    if arguments.out:
        arguments.out.write_text(
            json.dumps({"draws": arguments.draws, "rows": rows}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
