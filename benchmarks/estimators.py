"""Compare two estimators of abilities on full block designs: means of trials, and an additive fit with block effects.

Both estimate mean answers to the paired trials of the same cyclic plan, from which the same false-positive rates are subtracted.
An ability is TPR − FPR over all trials; for items like these, the items of a run are resampled.

Data: the judge `lexical` on 39 models of AlpacaEval (every second of 200 prompts) and on the demo's pool, with graded and with
yes/no answers, and the paper's recorded answers D, rounded to yes or no, with simulated false-positive rates (`own_rates.py`).
Independent trials are free for `lexical`, and part of the calls for recorded answers.

For each number of calls and target of inference, the output states the coverage of both estimators and two ratios of the fit to
the means: `width`, of half-widths, and `rmse`, of root mean squared errors. `…_se` are standard errors over draws.

`python benchmarks/estimators.py [--draws 100] [--seed 2] [--only TEXT] [--smoke] [--shared FOLDER] [--out FILE]` prints JSON,
and a table to stderr. `--only` selects the rows whose name contains the text.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from own_rates import (
    PERCENTS,
    TARGETS,
    Draw,
    Figures,
    Population,
    compare_with_truth,
    draw_independent,
    judge_all_pairs,
    make_domain_draw,
    make_lexical_draw,
    read_lexical_answers,
)
from recorded import DOMAINS, SHARED, read_answers
from results import print_results
from youden import read_pool
from youden.protocol.designs.cyclic import Cyclic
from youden.protocol.pooled_trials import count_free_independent, count_independent
from youden.run_keys import Target
from youden.stats import CentredCovariance, PairChunk, trial_means
from youden.stats.additive.trial_fit import fit_additive_trials
from youden.types.pool import Bools, Floats

MEAN_RATE, RATE_SD = 0.01, 0.005
"""Mean and SD of the false-positive rates that are simulated for recorded answers."""
DEMO_CALLS = (300, 1_000)


class Estimate(NamedTuple):
    """Mean answers and their covariance; an additive constant of the mean answers does not matter."""

    mean_answer: Floats
    covariance: CentredCovariance


def average_trials(chunk: PairChunk, n_agents: int, target: Target) -> Estimate:
    """Average the answers of each agent."""
    means = trial_means(lambda: [chunk], n_agents=n_agents, target=target)
    return Estimate(means.ability, means.covariance)


def fit_trials(chunk: PairChunk, n_agents: int, target: Target) -> Estimate:
    """Fit effects of agents and blocks."""
    fit = fit_additive_trials(lambda: [chunk], n_agents=n_agents, n_items=chunk.n_items)
    if fit is None:
        sys.exit("A plan does not link all agents.")
    covariance = fit.covariance
    if target == "these-items":
        covariance = covariance.with_scaled_ability_variances(fit.fpc)
    return Estimate(fit.ability, covariance)


ESTIMATORS: dict[str, Callable[[PairChunk, int, Target], Estimate]] = {"means": average_trials, "fit": fit_trials}


def measure_draw(
    population: Population, n_calls: int, target: Target, rng: np.random.Generator, *, is_free: bool
) -> dict[str, Figures]:
    """Rank one run by each estimator; `is_free` is whether independent trials are not part of the calls."""
    K, J = population.n_agents, population.n_items
    items = rng.integers(0, J, J) if target == "items-like-these" else np.arange(J)
    everywhere: Bools = np.ones((K, J), dtype=np.bool_)
    n_independent = count_free_independent(n_calls, everywhere) if is_free else count_independent(n_calls, K)
    n_paired = n_calls if is_free else n_calls - n_independent

    trials = Cyclic(n_paired).draw(everywhere, rng).trials
    answer = population.answer_paired(items[trials.item], trials.first.astype(np.int64), trials.second.astype(np.int64))
    chunk = PairChunk.from_trials(trials.item, trials.first, trials.second, answer, n_items=J, block=trials.block)

    independent = draw_independent(population, items, n_independent, rng)
    totals = independent.totals(n_independent, n_agents=K, n_items=J)
    rates = totals.estimate_rates(items_vary=target == "items-like-these")

    figures = {}
    for name, estimate in ESTIMATORS.items():
        mean_answer, covariance = estimate(chunk, K, target)
        figures[name] = compare_with_truth(mean_answer - rates.rate, rates.add_errors_to(covariance), population.truth)
    return figures


def summarize(rows: list[dict[str, Figures]], name: str = "fit") -> Figures:
    """Average over draws: coverage of both estimators, and ratios of the estimator `name` to the means."""

    def column(estimator: str, figure: str) -> Floats:
        return np.array([row[estimator][figure] for row in rows])

    n_draws = len(rows)
    summary: Figures = {}
    for estimator in ("means", name):
        covered = column(estimator, "covered")
        summary[f"{estimator}_covered"] = float(covered.mean())
        summary[f"{estimator}_covered_se"] = float(covered.std(ddof=1) / np.sqrt(n_draws))

    # standard error of a ratio of means a/b: SD of a_draw/a − b_draw/b, times the ratio
    for ratio, figure, power in (("width", "half_width", 1.0), ("rmse", "square", 0.5)):
        a, b = column(name, figure), column("means", figure)
        summary[ratio] = float((a.mean() / b.mean()) ** power)
        relative_sd = (a / a.mean() - b / b.mean()).std(ddof=1)
        summary[f"{ratio}_se"] = float(power * summary[ratio] * relative_sd / np.sqrt(n_draws))
    return summary


class Data(NamedTuple):
    """Data of a comparison; `read_draw` returns the function that draws populations."""

    name: str
    read_draw: Callable[[], Draw]
    is_free: bool
    calls: tuple[int, ...] = ()
    """Numbers of calls; percentages of the dense calls if empty."""


def iter_data(shared: Path, *, smoke: bool) -> Iterator[Data]:
    """Yield the data of all comparisons."""
    pool = read_pool("datasets/field-notes")
    by_answers = {"graded": True, "yes/no": False}
    for answers, is_graded in by_answers.items():
        yield Data(
            f"demo, {answers}",
            lambda is_graded=is_graded: make_lexical_draw(judge_all_pairs(pool), is_graded=is_graded),  # type: ignore[misc]
            is_free=True,
            calls=DEMO_CALLS,
        )
    for domain in ["OPUS"] if smoke else list(DOMAINS):
        yield Data(
            domain,
            lambda domain=domain: make_domain_draw(  # type: ignore[misc]
                (read_answers(domain, shared) >= 0.5).astype(np.float64), MEAN_RATE, RATE_SD
            ),
            is_free=False,
        )
    for answers, is_graded in by_answers.items():
        yield Data(
            f"AlpacaEval, {answers}",
            lambda is_graded=is_graded: make_lexical_draw(  # type: ignore[misc]
                read_lexical_answers(shared, 6 if smoke else None), is_graded=is_graded
            ),
            is_free=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--smoke", action="store_true", help="run 3 draws of small data, which takes seconds")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_draws = 3 if arguments.smoke else arguments.draws

    table: dict[str, Figures] = {}
    for data in iter_data(arguments.shared, smoke=arguments.smoke):
        if arguments.only not in data.name:
            continue
        draw = data.read_draw()
        first = draw(np.random.default_rng(0))
        n_dense = 2 * first.n_agents * (first.n_agents - 1) * first.n_items
        calls = {f"{n} calls": n for n in data.calls} or {f"{p:g} %": round(p / 100 * n_dense) for p in PERCENTS}
        for target, (size, n_calls) in product(TARGETS, calls.items()):
            rows = []
            for number in range(n_draws):
                rng = np.random.default_rng([arguments.seed, number, n_calls])
                rows.append(measure_draw(draw(rng), n_calls, target, rng, is_free=data.is_free))
            name = f"{data.name}, {target}, {size}"
            table[name] = summarize(rows)
            print_row(name, table[name])
    print_results({"draws": n_draws, "seed": arguments.seed, "rows": table}, arguments.out)


def print_row(name: str, row: Figures) -> None:
    """Print the figures of a row to stderr."""
    figures = (
        f"coverage {row['means_covered']:.3f} → {row['fit_covered']:.3f} ± {row['fit_covered_se']:.3f}, "
        f"width ×{row['width']:.3f} ± {row['width_se']:.3f}, rmse ×{row['rmse']:.3f} ± {row['rmse_se']:.3f}"
    )
    print(f"{name:46} {figures}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
