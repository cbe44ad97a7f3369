"""Measures quality from few labels: error, order, the one named best, intervals; beside what else one would do with the labels.

`python benchmarks/quality.py [--draws 200] [--only WORD] [--shared FOLDER] [--out FILE]` prints a table. Labels are drawn as
Bernoulli of expit(1.15 · logit(win rate) + item effect of SD 1), win rates as AlpacaEval and lmsys publish them; ability is the
lexical judge's by the default plan of seed 0. "× labels": the mean squared error of labels alone over that of the method. All
methods of a row see the same labels. The priors of `stats/small_areas.py` are round numbers, none fitted; that any quality is as
likely off the line, the priors of τ and the weight of b = 0 were chosen among a few while looking at the 37, 39 and 5 models and
simulated relations below, on other seeds.

Beside it: labels alone; shrunk to their mean, and to the line through ability (normal Fay–Herriot, EM, variance at the fitted
mean); additive item effects where agents share items; prediction-powered inference with the cells' scores, power-tuned
(Angelopoulos et al. 2023, Science 382; Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453); length in ability's place.
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
from labels import GAMED, SHARED, alpaca_eval, label_table, mt_bench
from youden.stats.base.proportions import proportion
from youden.stats.small_areas import QualityEstimates, quality_from_labels
from youden.text.words import mean_lengths
from youden.workflows.quality import quality_difference

J = 200
LENGTH_AT = (2, 10)
"""Labels an agent at which length takes ability's place too."""
PAIRS = 6
"""Pairs of agents a draw whose difference is looked at, as `gate --by quality` does."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
Draw = tuple[np.ndarray, np.ndarray, np.ndarray]
"""agent, item, label: one row a label."""


@dataclass(frozen=True)
class World:
    """win: float[K], what label draws stand on; gamed: bool[K]; cells: float[K, J] scores, NaN where unseen, or None."""

    name: str
    win: np.ndarray
    ability: np.ndarray
    error: np.ndarray
    gamed: np.ndarray
    length: np.ndarray | None = None
    cells: np.ndarray | None = None

    @property
    def truth(self) -> np.ndarray:
        """A label's mean over items of the kind."""
        found: np.ndarray = expit(1.15 * logit(self.win)[:, None] + _NODES) @ _WEIGHTS / _WEIGHTS.sum()
        return found

    def kept(self, mask: np.ndarray, name: str) -> World:
        names = ("win", "ability", "error", "gamed", "length", "cells")
        return replace(self, name=name, **{n: getattr(self, n)[mask] for n in names if getattr(self, n) is not None})


def real(shared: Path, folder: str) -> World:
    """A pool's published labels beside the lexical judge's ranking."""
    pool = alpaca_eval(shared / folder) if folder == "alpaca-eval" else mt_bench(shared / folder)
    file, column, whole = (
        ("leaderboard.csv", "win_rate", 100) if folder == "alpaca-eval" else ("scores.csv", "mt_bench_score", 10)
    )
    table = label_table(shared / folder / file)
    ids = [agent.id for agent in pool.agents]
    plan = youden.make_plan(pool, design="cyclic", seed=0)
    verdicts = youden.judge(plan, judge="lexical")
    rows = youden.rank(verdicts).set_index("agent").loc[ids]
    scores = verdicts.rates().training_scores()
    return World(
        folder,
        np.array([float(table[agent][column]) for agent in ids]) / whole,
        rows.ability.to_numpy(),
        rows.error.to_numpy(),
        np.array([agent in GAMED for agent in ids]),
        mean_lengths(pool.texts),
        scores.value if scores.value.shape[1] == J else None,
    )


def simulated(relation: str, K: int, rng: np.random.Generator) -> World:
    """K agents of which quality is a line, nothing, an inverted line or a parabola of ability; departures of SD .5 logits."""
    z = rng.normal(size=K)
    on = {"line": 1.2 * z, "useless": rng.normal(size=K), "inverted": -1.2 * z, "curved": 0.8 * (z * z - 1)}[relation]
    win = expit(-0.8 + on + 0.5 * rng.normal(size=K))
    ability = 0.4 + 0.05 * z
    error = np.full(K, 0.01)
    return World(f"{relation}, K = {K}", win, ability + 0.01 * rng.normal(size=K), error, np.zeros(K, dtype=bool))


def draw(world: World, n: np.ndarray | int, rng: np.random.Generator, *, together: bool = False) -> Draw:
    """n labels an agent on random items, the same for all or each its own."""
    K = len(world.win)
    counts, effect, same = np.broadcast_to(n, K), rng.normal(size=J), rng.permutation(J)
    items = [(same if together else rng.permutation(J))[:k] for k in counts]
    agent, item = np.repeat(np.arange(K), counts), np.concatenate(items)
    return agent, item, labelled(world, agent, item, effect, rng)


def labelled(
    world: World, agent: np.ndarray, item: np.ndarray, effect: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    chance = expit(1.15 * logit(world.win)[agent] + effect[item])
    return np.asarray(rng.random(len(agent)) < chance, dtype=np.float64)


def means(labels: Draw, K: int) -> tuple[np.ndarray, np.ndarray]:
    agent, _, value = labels
    n = np.bincount(agent, minlength=K)
    return np.bincount(agent, weights=value, minlength=K) / np.maximum(n, 1), n


def normal_line(mean: np.ndarray, n: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
    """Fay and Herriot's estimate, u normal, by EM; n is 0 for nobody."""
    K = len(mean)
    X = np.ones((K, 1)) if x is None else np.c_[np.ones(K), (x - x.mean()) / x.std()]
    pooled = max(mean.mean() * (1 - mean.mean()), 0.02)
    noise, between, estimate = pooled / n, 0.02, mean
    for _ in range(50):
        weight = 1 / (between + noise)
        fitted = X @ np.linalg.lstsq((X.T * weight) @ X, (X.T * weight) @ mean, rcond=None)[0]
        gain = between / (between + noise)
        u = gain * (mean - fitted)
        between = max(float(np.mean(u**2 + gain * noise)), 1e-5)
        estimate = fitted + u
        p = np.clip(estimate, 0.01, 0.99)
        noise = p * (1 - p) / n
    return estimate


def powered(labels: Draw, cells: np.ndarray) -> np.ndarray:
    """Prediction-powered means: λ·(mean of all scores − mean of labelled ones) + label mean, λ = cov(y, f)/((1 + n/N)·var f)."""
    agent, item, value = labels
    found = np.zeros(len(cells))
    for k, row in enumerate(cells):
        mine = agent == k
        y, f = value[mine], row[item[mine]]
        seen = ~np.isnan(f)
        y_mean = y.mean()
        rest = row[~np.isnan(row)]
        if seen.sum() > 2 and (spread := rest.var()) > 0:
            tuned = np.cov(y[seen], f[seen])[0, 1] / ((1 + seen.sum() / len(rest)) * spread)
            y_mean += np.clip(tuned, 0, 1) * (rest.mean() - f[seen].mean())
        found[k] = y_mean
    return found


def additive(labels: Draw, K: int) -> np.ndarray:
    """Agents' means after item effects, by least squares with a touch of ridge, on the scale of label means."""
    agent, item, value = labels
    _, place = np.unique(item, return_inverse=True)
    X = np.zeros((len(value), K + place.max() + 1))
    X[np.arange(len(value)), agent] = 1
    X[np.arange(len(value)), K + place] = 1
    ridge = np.r_[np.full(K, 1e-6), np.full(place.max() + 1, 1e-3)]
    return np.linalg.solve(X.T @ X + np.diag(ridge), X.T @ value)[:K]


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    one, other = rankdata(a), rankdata(b)
    return 0.0 if np.ptp(one) == 0 else float(np.corrcoef(one, other)[0, 1])


def regret(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Of the one named best; of ties the mean."""
    return float(truth.max() - truth[estimate >= estimate.max() - 1e-12].mean())


class Table:
    """Figures a method, averaged over draws."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, method: str, **figures: float) -> None:
        for name, figure in figures.items():
            self.of[method][name].append(figure)

    def estimate(self, method: str, estimate: np.ndarray, truth: np.ndarray) -> None:
        self.add(
            method,
            mse=float(np.mean((estimate - truth) ** 2)),
            rho=spearman(estimate, truth),
            regret=regret(estimate, truth),
        )

    def rows(self, part: str, world: str, n: str) -> Iterator[dict[str, object]]:
        base = np.mean(self.of["labels alone"]["mse"])
        for method, figures in self.of.items():
            mean = {name: float(np.nanmean(found)) for name, found in figures.items() if not np.isnan(found).all()}
            yield {"part": part, "world": world, "labels": n, "method": method, "times": base / mean.pop("mse"), **mean}


def intervals(table: Table, world: World, found: QualityEstimates, labels: Draw) -> None:
    truth, K = world.truth, len(world.win)
    mean, n = means(labels, K)
    own = [proportion(y * k, k) for y, k in zip(mean, n.tolist(), strict=True)]
    low, high = np.array([p.low for p in own]), np.array([p.high for p in own])
    inside = (found.low <= truth) & (truth <= found.high)
    joined = (np.minimum(low, found.low) <= truth) & (truth <= np.maximum(high, found.high))
    far = world.gamed & (world.win > 0.7)
    known = [
        (k, (k + 1) % K) for k in range(0, K, max(1, K // PAIRS)) if not np.isnan(found.quality[[k, (k + 1) % K]]).any()
    ]
    apart = [(i, k, *quality_difference(found, i, k, level=found.level)) for i, k in known]
    table.add(
        "both",
        covered=float(inside.mean()),
        width=float((found.high - found.low).mean()),
        width_to_alone=float((found.high - found.low).mean() / (high - low).mean()),
        fair_named=float(found.is_outlier[~far].mean()),
        far_named=float(found.is_outlier[far].mean()) if far.any() else np.nan,
        far_covered=float(joined[far].mean()) if far.any() else np.nan,
        pairs_covered=float(np.mean([low <= truth[i] - truth[k] <= high for i, k, _, low, high in apart])),
        no_slope=np.nan if found.regression is None else found.regression.no_slope,
    )
    table.add(
        "labels alone", covered=float(((low <= truth) & (truth <= high)).mean()), width=float((high - low).mean())
    )


def measured(
    part: str,
    make: Callable[[np.random.Generator], World],
    n: int,
    draws: int,
    *,
    together: bool = False,
    more: bool = True,
) -> Iterator[dict[str, object]]:
    """One row: `draws` draws of n labels an agent. make: the world of a draw."""
    table, rng = Table(), np.random.default_rng([len(part), n])
    for _ in range(draws):
        world = make(rng)
        K, truth = len(world.win), world.truth
        labels = draw(world, n, rng, together=together)
        mean, counts = means(labels, K)
        table.estimate("labels alone", mean, truth)
        table.estimate("shrunk to the mean", normal_line(mean, counts), truth)
        if more:
            table.estimate("normal line", normal_line(mean, counts, world.ability), truth)
        found = quality_from_labels(*labels, ability=world.ability, std_error=world.error)
        table.estimate("both", found.quality, truth)
        intervals(table, world, found, labels)
        if more and world.cells is not None:
            table.estimate("prediction-powered", powered(labels, world.cells), truth)
        if more and world.length is not None and n in LENGTH_AT:
            by_length = quality_from_labels(*labels, ability=np.log(world.length), std_error=np.zeros(K))
            table.estimate("length", by_length.quality, truth)
        if together:
            table.estimate("additive items", additive(labels, K), truth)
    yield from table.rows(part, world.name, str(n))


def permuted(world: World, rng: np.random.Generator) -> World:
    order = rng.permutation(len(world.win))
    return replace(world, name="39, ability permuted", ability=world.ability[order], error=world.error[order])


def chosen(world: World, total: int, rounds: int, draws: int) -> Iterator[dict[str, object]]:
    """`total` labels for the best one: chosen in rounds, and given at random."""
    table, rng, K = Table(), np.random.default_rng([60, rounds]), len(world.win)
    for _ in range(draws):
        effect, order = rng.normal(size=J), rng.permutation(J)
        at = np.sort(rng.choice(K * J, total, replace=False))
        labels = (at // J, at % J, labelled(world, at // J, at % J, effect, rng))
        mean, n = means(labels, K)
        table.estimate("labels alone", np.where(n > 0, mean, mean[n > 0].mean()), world.truth)
        found = quality_from_labels(*labels, ability=world.ability, std_error=world.error)
        table.estimate("both, at random", found.quality, world.truth)
        agent, item, value = np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0)
        for _ in range(rounds):
            n = np.bincount(agent, minlength=K)
            known = quality_from_labels(agent, item, value, ability=world.ability, std_error=world.error)
            given = known.allocate_labels(total // rounds, J - n, for_best=True)
            new = np.repeat(np.arange(K), given)
            where = np.concatenate([order[k : k + m] for k, m in zip(n.tolist(), given.tolist(), strict=True)])
            agent, item = np.r_[agent, new], np.r_[item, where]
            value = np.r_[value, labelled(world, new, where, effect, rng)]
        found = quality_from_labels(agent, item, value, ability=world.ability, std_error=world.error)
        table.estimate("both, chosen", found.quality, world.truth)
    yield from table.rows("best", world.name, f"{total} in {rounds} rounds")


def preferences(world: World, shared: Path, ids: list[str], n: int, draws: int) -> Iterator[dict[str, object]]:
    """The 13 models whose 200 preferences are public: labels are n of them, truth is their mean."""
    table = np.genfromtxt(
        shared / "alpaca-eval" / "preferences.csv", delimiter=",", skip_header=1, dtype=None, encoding="utf-8"
    )
    win: dict[str, np.ndarray] = defaultdict(lambda: np.full(J, np.nan))
    for agent, item, value in table:
        win[agent][item] = value
    at = np.array([ids.index(agent) for agent in win])
    all_of, found, rng = np.array(list(win.values())), Table(), np.random.default_rng([13, n])
    truth, K = np.nanmean(all_of, axis=1), len(at)
    assert world.cells is not None
    for _ in range(draws):
        item = np.concatenate([rng.permutation(np.flatnonzero(~np.isnan(row)))[:n] for row in all_of])
        agent = np.repeat(np.arange(K), n)
        labels = (agent, item, all_of[agent, item])
        mean, counts = means(labels, K)
        found.estimate("labels alone", mean, truth)
        found.estimate("shrunk to the mean", normal_line(mean, counts), truth)
        found.estimate("prediction-powered", powered(labels, world.cells[at]), truth)
        known = quality_from_labels(*labels, ability=world.ability[at], std_error=world.error[at])
        found.estimate("both", known.quality, truth)
        found.add("both", covered=float(((known.low <= truth) & (truth <= known.high)).mean()))
    yield from found.rows("preferences", "13 models, their own preferences", str(n))


Rows = Iterator[dict[str, object]]
COUNTS = (1, 2, 5, 10, 20, 50)


def always(world: World) -> Callable[[np.random.Generator], World]:
    return lambda _: world


def of_alpaca_eval(shared: Path, draws: int) -> dict[str, Callable[[], Rows]]:
    """Part → its rows."""
    world = real(shared, "alpaca-eval")
    ids = [path.parent.name for path in sorted((shared / "alpaca-eval").glob("results/*/model_outputs.json"))]
    fair = world.kept(~world.gamed, "37 fair models")
    win = np.where(world.gamed, world.win.max(), world.win)
    two = replace(world, name="39, both gaming at NullModel's win rate", win=win)
    upside = replace(world, name="39, ability negated", ability=-world.ability)
    wrong = {"more": False}

    def each(part: str, make: Callable[[np.random.Generator], World], **more: bool) -> Rows:
        for n in COUNTS:
            yield from measured(part, make, n, draws, **more)

    return {
        "fair": lambda: each("fair", always(fair)),
        "all": lambda: each("all", always(two)),
        "published": lambda: each("published", always(replace(world, name="39 as published"))),
        "permuted": lambda: each("permuted", lambda rng: permuted(world, rng), **wrong),
        "negated": lambda: each("negated", always(upside), **wrong),
        "shared": lambda: each("shared", always(replace(world, name="39, one set of items")), together=True),
        "preferences": lambda: (row for n in COUNTS for row in preferences(world, shared, ids, n, draws)),
        "best": lambda: (row for rounds in (2, 3, 6) for one in (two, fair) for row in chosen(one, 60, rounds, draws)),
    }


def of_simulations(draws: int) -> Rows:
    for relation in ("line", "useless", "inverted", "curved"):
        for K in (5, 8, 12, 39, 100):
            for n in COUNTS:
                yield from measured("simulated", partial(simulated, relation, K), n, draws, more=False)


def parts(shared: Path, only: str, draws: int) -> Rows:
    found: dict[str, Callable[[], Rows]] = {}
    if (shared / "alpaca-eval").is_dir():
        found |= of_alpaca_eval(shared, draws)
    if (shared / "mt-bench").is_dir():
        five = always(real(shared, "mt-bench"))
        found["mt-bench"] = lambda: (row for n in COUNTS for row in measured("mt-bench", five, n, draws))
    found["simulated"] = lambda: of_simulations(draws)
    for part, rows in found.items():
        if only in part:
            yield from rows()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    print(
        "| part | world | labels | method | × labels | Spearman | regret | the rest |\n| --- " * 1 + "| --- " * 7 + "|"
    )
    for row in parts(arguments.shared, arguments.only, arguments.draws):
        found.append(row)
        first = ("part", "world", "labels", "method", "times", "rho", "regret")
        rest = "; ".join(f"{name} {value:.3f}" for name, value in row.items() if name not in first)
        print(
            f"| {row['part']} | {row['world']} | {row['labels']} | {row['method']} | {row['times']:.2f} | {row['rho']:.2f} | "
            f"{row['regret']:.3f} | {rest} |",
            flush=True,
        )
    if arguments.out:
        arguments.out.write_text(
            json.dumps({"draws": arguments.draws, "rows": found}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
