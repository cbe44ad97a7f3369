"""Measure quality estimated from few labels: error, rank correlation, regret and coverage, against other estimates.

Labels are Bernoulli with probability expit(1.15 · logit(win rate) + item effect with SD 1). Win rates are those that AlpacaEval
and lmsys publish; abilities are the lexical judge's by the default plan with seed 0. "× labels" is the mean squared error of the
direct estimate (labels alone) over that of the method. All methods of a row use the same labels. The priors of
`stats/small_areas.py` are round numbers and were not fitted. Three choices (that every quality is an outlier with the same prior
probability, the priors of τ, and the prior probability of a zero slope) were made among a few alternatives with the 37, 39 and 5
models and the simulated relations below, on other seeds.

Methods: labels alone; shrunk to their mean; shrunk to a regression on ability (normal Fay–Herriot, EM, variance at the fitted
mean); additive item effects if agents share items; prediction-powered inference with the cells' scores, power-tuned (Angelopoulos
et al. 2023, Science 382; Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453); a regression on length.

`python benchmarks/quality.py [--draws 200] [--only WORD] [--shared FOLDER] [--out FILE]` prints a table. `--only` selects the
parts whose names contain WORD.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit, logit
from scipy.stats import rankdata

import youden
from labels import GAMED, SHARED, read_alpaca_eval_pool, read_label_table, read_mt_bench_pool
from youden.stats.base.proportions import proportion
from youden.stats.small_areas.quality_estimates import QualityEstimates, quality_from_labels
from youden.text.words import mean_lengths
from youden.workflows.quality import quality_difference

N_ITEMS = 200
LENGTH_AT = (2, 10)
"""Labels per agent at which a regression on length is measured too."""
PAIRS = 6
"""Pairs of agents per draw whose difference is estimated, as `gate --by quality` does."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
Labels = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Agent, item and value of each label, three arrays (n_labels,)."""


@dataclass(frozen=True)
class LabelledPool:
    """Agents with their true win rates, from which labels are drawn, and estimated abilities.

    Attributes
    ----------
    win, ability, std_error, length : float array (n_agents,)
        Win rate in [0, 1], ability, its standard error, and mean length of the responses in words.
    gamed : bool array (n_agents,)
        Whether the agent games judges.
    cells : float array (n_agents, n_items), optional
        Scores, NaN if unobserved.
    """

    name: str
    win: np.ndarray
    ability: np.ndarray
    std_error: np.ndarray
    gamed: np.ndarray
    length: np.ndarray | None = None
    cells: np.ndarray | None = None

    @property
    def truth(self) -> np.ndarray:
        """Expected label (n_agents,) over items of this kind."""
        expected: np.ndarray = expit(1.15 * logit(self.win)[:, None] + _NODES) @ _WEIGHTS / _WEIGHTS.sum()
        return expected

    def select(self, mask: np.ndarray, name: str) -> LabelledPool:
        """Return the pool of the agents in `mask`, under another name."""
        names = ("win", "ability", "std_error", "gamed", "length", "cells")
        return replace(
            self,
            name=name,
            **{
                name_of_array: getattr(self, name_of_array)[mask]
                for name_of_array in names
                if getattr(self, name_of_array) is not None
            },
        )


def load_pool(shared: Path, folder: str) -> LabelledPool:
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
    return LabelledPool(
        folder,
        np.array([float(table[agent][column]) for agent in ids]) / max_label,
        rows.ability.to_numpy(),
        rows.std_error.to_numpy(),
        np.array([agent in GAMED for agent in ids]),
        mean_lengths(pool.texts),
        scores.value if scores.value.shape[1] == N_ITEMS else None,
    )


def simulate_pool(relation: str, n_agents: int, rng: np.random.Generator) -> LabelledPool:
    """Simulate a pool whose quality depends on ability by `relation`, with residuals of SD .5 logits.

    relation : "line", "useless" (no relation), "inverted" (a line with negative slope) or "curved" (a parabola)
    """
    z = rng.normal(size=n_agents)
    signal = {"line": 1.2 * z, "useless": rng.normal(size=n_agents), "inverted": -1.2 * z, "curved": 0.8 * (z * z - 1)}[
        relation
    ]
    win = expit(-0.8 + signal + 0.5 * rng.normal(size=n_agents))
    ability = 0.4 + 0.05 * z
    std_error = np.full(n_agents, 0.01)
    return LabelledPool(
        f"{relation}, K = {n_agents}",
        win,
        ability + 0.01 * rng.normal(size=n_agents),
        std_error,
        np.zeros(n_agents, dtype=bool),
    )


def draw_labels(
    pool: LabelledPool, n: np.ndarray | int, rng: np.random.Generator, *, share_items: bool = False
) -> Labels:
    """Draw n labels per agent on random items; all agents get the same items if `share_items` is true."""
    n_agents = len(pool.win)
    counts = np.broadcast_to(n, n_agents)
    item_effect = rng.normal(size=N_ITEMS)
    shared_order = rng.permutation(N_ITEMS)
    items = [(shared_order if share_items else rng.permutation(N_ITEMS))[:k] for k in counts]
    agent, item = np.repeat(np.arange(n_agents), counts), np.concatenate(items)
    return agent, item, draw_values(pool, agent, item, item_effect, rng)


def draw_values(
    pool: LabelledPool, agent: np.ndarray, item: np.ndarray, item_effect: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the values (n_labels,) of labels from win rates and item effects (n_items,)."""
    p_win = expit(1.15 * logit(pool.win)[agent] + item_effect[item])
    return np.asarray(rng.random(len(agent)) < p_win, dtype=np.float64)


def compute_label_means(labels: Labels, n_agents: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean and the number of labels per agent, arrays (n_agents,)."""
    agent, _, value = labels
    n = np.bincount(agent, minlength=n_agents)
    return np.bincount(agent, weights=value, minlength=n_agents) / np.maximum(n, 1), n


def fit_normal_fay_herriot(mean: np.ndarray, n: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
    """Fit the Fay–Herriot model with normal effects by EM, and return the estimates (n_agents,).

    mean, n : float and int array (n_agents,)
        Label means and counts, all positive.
    x : float array (n_agents,), optional
        Covariate.
    """
    n_agents = len(mean)
    X = np.ones((n_agents, 1)) if x is None else np.c_[np.ones(n_agents), (x - x.mean()) / x.std()]
    pooled_variance = max(mean.mean() * (1 - mean.mean()), 0.02)
    sampling_variance, effect_variance, estimate = pooled_variance / n, 0.02, mean
    for _ in range(50):
        weight = 1 / (effect_variance + sampling_variance)
        fitted = X @ np.linalg.lstsq((X.T * weight) @ X, (X.T * weight) @ mean, rcond=None)[0]
        shrinkage = effect_variance / (effect_variance + sampling_variance)
        effect = shrinkage * (mean - fitted)
        effect_variance = max(float(np.mean(effect**2 + shrinkage * sampling_variance)), 1e-5)
        estimate = fitted + effect
        p_win = np.clip(estimate, 0.01, 0.99)
        sampling_variance = p_win * (1 - p_win) / n
    return estimate


def compute_prediction_powered_means(labels: Labels, cells: np.ndarray) -> np.ndarray:
    """Compute power-tuned prediction-powered means (n_agents,).

    λ·(mean of all scores − mean of the labelled scores) + mean label, with λ = cov(y, f) / ((1 + n/N)·var f).
    cells : float array (n_agents, n_items), NaN if unobserved
    """
    agent, item, value = labels
    estimates = np.zeros(len(cells))
    for row_number, scores in enumerate(cells):
        is_own = agent == row_number
        labels_of_agent, scores_of_agent = value[is_own], scores[item[is_own]]
        is_observed = ~np.isnan(scores_of_agent)
        y_mean = labels_of_agent.mean()
        observed_scores = scores[~np.isnan(scores)]
        if is_observed.sum() > 2 and (score_variance := observed_scores.var()) > 0:
            weight = np.cov(labels_of_agent[is_observed], scores_of_agent[is_observed])[0, 1] / (
                (1 + is_observed.sum() / len(observed_scores)) * score_variance
            )
            y_mean += np.clip(weight, 0, 1) * (observed_scores.mean() - scores_of_agent[is_observed].mean())
        estimates[row_number] = y_mean
    return estimates


def fit_additive_items(labels: Labels, n_agents: int) -> np.ndarray:
    """Estimate agents' means net of item effects (n_agents,) by least squares with a small ridge, on the scale of label means."""
    agent, item, value = labels
    _, item_index = np.unique(item, return_inverse=True)
    design = np.zeros((len(value), n_agents + item_index.max() + 1))
    design[np.arange(len(value)), agent] = 1
    design[np.arange(len(value)), n_agents + item_index] = 1
    ridge = np.r_[np.full(n_agents, 1e-6), np.full(item_index.max() + 1, 1e-3)]
    return np.linalg.solve(design.T @ design + np.diag(ridge), design.T @ value)[:n_agents]


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
            yield {
                "part": part,
                "world": pool_name,
                "labels": n,
                "method": method,
                "times": direct_mse / mean.pop("mse"),
                **mean,
            }


def add_coverage(table: FigureTable, pool: LabelledPool, estimates: QualityEstimates, labels: Labels) -> None:
    """Add coverage and widths of the quality estimates and of the direct estimates."""
    truth, n_agents = pool.truth, len(pool.win)
    mean, n = compute_label_means(labels, n_agents)
    proportions = [proportion(label_mean * count, count) for label_mean, count in zip(mean, n.tolist(), strict=True)]
    low = np.array([interval.low for interval in proportions])
    high = np.array([interval.high for interval in proportions])
    is_covered = (estimates.low <= truth) & (truth <= estimates.high)
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
    make_pool: Callable[[np.random.Generator], LabelledPool],
    n_labels: int,
    n_draws: int,
    *,
    share_items: bool = False,
    all_methods: bool = True,
) -> Iterator[dict[str, object]]:
    """Yield a row per method: averages over `n_draws` draws of `n_labels` labels per agent.

    make_pool : callable
        Returns the pool of a draw.
    share_items : bool
        Whether all agents are labelled on the same items.
    all_methods : bool
        Whether the regression on ability, prediction-powered inference and length are measured too.
    """
    table, rng = FigureTable(), np.random.default_rng([len(part), n_labels])
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


def permute_ability(pool: LabelledPool, rng: np.random.Generator) -> LabelledPool:
    """Permute abilities over agents, so that they are unrelated to quality."""
    order = rng.permutation(len(pool.win))
    return replace(pool, name="39, ability permuted", ability=pool.ability[order], std_error=pool.std_error[order])


def iter_chosen_label_rows(pool: LabelledPool, total: int, n_rounds: int, n_draws: int) -> Iterator[dict[str, object]]:
    """Yield rows that compare `total` labels allocated in rounds to find the best agent with as many at random."""
    table = FigureTable()
    rng = np.random.default_rng([60, n_rounds])
    n_agents = len(pool.win)
    for _ in range(n_draws):
        effect, order = rng.normal(size=N_ITEMS), rng.permutation(N_ITEMS)
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


def iter_preference_rows(
    pool: LabelledPool, shared: Path, ids: list[str], n: int, n_draws: int
) -> Iterator[dict[str, object]]:
    """Yield rows for the 13 models with 200 public preferences each: labels are n of them, and their mean is the truth."""
    records = np.genfromtxt(
        shared / "alpaca-eval" / "preferences.csv", delimiter=",", skip_header=1, dtype=None, encoding="utf-8"
    )
    preferences_by_agent: dict[str, np.ndarray] = defaultdict(lambda: np.full(N_ITEMS, np.nan))
    for agent, item, value in records:
        preferences_by_agent[agent][item] = value
    positions = np.array([ids.index(agent) for agent in preferences_by_agent])
    preferences = np.array(list(preferences_by_agent.values()))
    table = FigureTable()
    rng = np.random.default_rng([13, n])
    truth, n_agents = np.nanmean(preferences, axis=1), len(positions)
    assert pool.cells is not None
    for _ in range(n_draws):
        item = np.concatenate([rng.permutation(np.flatnonzero(~np.isnan(row)))[:n] for row in preferences])
        agent = np.repeat(np.arange(n_agents), n)
        labels = (agent, item, preferences[agent, item])
        mean, counts = compute_label_means(labels, n_agents)
        table.add_estimate("labels alone", mean, truth)
        table.add_estimate("shrunk to the mean", fit_normal_fay_herriot(mean, counts), truth)
        table.add_estimate("prediction-powered", compute_prediction_powered_means(labels, pool.cells[positions]), truth)
        estimates = quality_from_labels(*labels, ability=pool.ability[positions], std_error=pool.std_error[positions])
        table.add_estimate("both", estimates.quality, truth)
        table.add("both", covered=float(((estimates.low <= truth) & (truth <= estimates.high)).mean()))
    yield from table.iter_rows("preferences", "13 models, their own preferences", str(n))


Rows = Iterator[dict[str, object]]
COUNTS = (1, 2, 5, 10, 20, 50)


def make_constant(pool: LabelledPool) -> Callable[[np.random.Generator], LabelledPool]:
    """Make a function that returns `pool` for every draw."""
    return lambda _: pool


def get_alpaca_eval_parts(shared: Path, n_draws: int) -> dict[str, Callable[[], Rows]]:
    """Return a function per part that yields its rows."""
    pool = load_pool(shared, "alpaca-eval")
    ids = [path.parent.name for path in sorted((shared / "alpaca-eval").glob("results/*/model_outputs.json"))]
    fair_pool = pool.select(~pool.gamed, "37 fair models")
    win = np.where(pool.gamed, pool.win.max(), pool.win)
    pool_with_two_winners = replace(pool, name="39, both gaming at NullModel's win rate", win=win)
    negated_pool = replace(pool, name="39, ability negated", ability=-pool.ability)
    options = {"all_methods": False}

    def iter_counts(
        part: str, make_pool: Callable[[np.random.Generator], LabelledPool], **options_of_part: bool
    ) -> Rows:
        for n in COUNTS:
            yield from iter_rows(part, make_pool, n, n_draws, **options_of_part)

    return {
        "fair": lambda: iter_counts("fair", make_constant(fair_pool)),
        "all": lambda: iter_counts("all", make_constant(pool_with_two_winners)),
        "published": lambda: iter_counts("published", make_constant(replace(pool, name="39 as published"))),
        "permuted": lambda: iter_counts("permuted", lambda rng: permute_ability(pool, rng), **options),
        "negated": lambda: iter_counts("negated", make_constant(negated_pool), **options),
        "shared": lambda: iter_counts(
            "shared", make_constant(replace(pool, name="39, one set of items")), share_items=True
        ),
        "preferences": lambda: (row for n in COUNTS for row in iter_preference_rows(pool, shared, ids, n, n_draws)),
        "best": lambda: (
            row
            for rounds in (2, 3, 6)
            for candidate in (pool_with_two_winners, fair_pool)
            for row in iter_chosen_label_rows(candidate, 60, rounds, n_draws)
        ),
    }


def iter_simulation_rows(n_draws: int) -> Rows:
    """Yield the rows of simulated pools."""
    for relation in ("line", "useless", "inverted", "curved"):
        for n_agents in (5, 8, 12, 39, 100):
            for n in COUNTS:
                yield from iter_rows(
                    "simulated", partial(simulate_pool, relation, n_agents), n, n_draws, all_methods=False
                )


def iter_part_rows(shared: Path, only: str, n_draws: int) -> Rows:
    """Yield the rows of the parts whose names contain `only`; parts without data are skipped."""
    parts: dict[str, Callable[[], Rows]] = {}
    if (shared / "alpaca-eval").is_dir():
        parts |= get_alpaca_eval_parts(shared, n_draws)
    if (shared / "mt-bench").is_dir():
        make_mt_bench = make_constant(load_pool(shared, "mt-bench"))
        parts["mt-bench"] = lambda: (row for n in COUNTS for row in iter_rows("mt-bench", make_mt_bench, n, n_draws))
    parts["simulated"] = lambda: iter_simulation_rows(n_draws)
    for part, iter_part in parts.items():
        if only in part:
            yield from iter_part()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    print(
        "| part | world | labels | method | × labels | Spearman | regret | other figures |\n| --- " * 1
        + "| --- " * 7
        + "|"
    )
    for row in iter_part_rows(arguments.shared, arguments.only, arguments.draws):
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
