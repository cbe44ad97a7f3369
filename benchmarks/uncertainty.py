"""Whether the doubt about abilities, differences and places is right, on the paper's judge data replayed and on simulated pools.

A paired answer is D, an independent one 0; cyclic plans, 100 calls of each budget set aside for the independent arm. `kind`: the
items of a run are drawn from the domain's with replacement, and the truth is the domain's dense value. `these`: the run has the
domain's items, and the truth is their dense value. `width`: mean half-width over that of 0.1.0 (`first_intervals.py`) on the same
answers. Simulated pools are y = a_i + a_k + b_j + c_ij + c_kj + g_ik + noise,
drawn anew each time. --adaptive: adaptive runs that stop by `top`; --joined: agents that join by `extend`; --cells: designs of
cells; each alone.

`python benchmarks/uncertainty.py [--draws 100] [--adaptive | --joined | --cells] [--smoke] [--shared FOLDER] [--out FILE]`
prints JSON, and a table to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from first_intervals import first_half_widths
from grown_coverage import adaptive_draw, cells_draw, joined_draw, means
from recorded import DOMAINS, SHARED, answers_of, dense_abilities
from youden import ClippedLinear
from youden.protocol.designs.cyclic import Cyclic
from youden.run_keys import Target
from youden.stats import CentredCovariance, PairChunk, pairwise_differences, trial_means
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.base.metrics import rank_ranges
from youden.stats.trials.comparisons import rank_with_ties
from youden.stats.trials.noninferiority import estimate_difference
from youden.stats.trials.trial_errors import InfluenceTable, compute_item_influence, covariance_on_these_items
from youden.types import Trials
from youden.types.pool import Floats

PERCENTS = {"kind": (2, 5, 10, 20), "these": (1, 2, 5, 10, 20)}
N_INDEPENDENT = 100
SHAPES = {
    "8 × 12": (8, 12, 0.1, 1),
    "8 × 1000": (8, 1000, 0.1, 1),
    "20 × 60": (20, 60, 0.1, 1),
    "20 × 60, heavy pairs": (20, 60, 0.5, 1),
    "60 × 100": (60, 100, 0.1, 1),
    "60 × 20, heavy pairs": (60, 20, 0.5, 1),
    "8 × 60, two leaders": (8, 60, 0.0, 2),
    "20 × 60, all alike": (20, 60, 0.0, 20),
}
"""Agents, items, SD of what an ordered pair has of its own, leaders alike. Others: agents .1, items .3, cells .2, noise .35."""
MARGIN, ALPHA = 0.05, 0.025
CELLS = (("nlogn", 5), ("nlogn", 10), ("nlogn", 33), ("dense", None))
TARGETS: tuple[Target, ...] = ("items-like-these", "these-items")

Draw = Callable[[np.random.Generator], tuple[Floats, Floats]]
"""From a generator to D float[J, K, K] and the centred truth float[K]."""
Figures = dict[str, float]
Columns = dict[str, Floats]


class Found(NamedTuple):
    """What one plan's answers say."""

    ability: Floats
    old_half: Floats
    kind: CentredCovariance
    these: CentredCovariance
    items: InfluenceTable


def plan_of(shape: tuple[int, ...], percent: float, rng: np.random.Generator) -> Trials:
    J, K, _ = shape
    n_paired = round(percent / 100 * 2 * K * (K - 1) * J) - N_INDEPENDENT
    return Cyclic(max(n_paired, 3 * K)).draw(np.ones((K, J), dtype=np.bool_), rng).trials


def found_of(D: Floats, plan: Trials) -> Found:
    J, K, _ = D.shape
    answer, ones = D[plan.item, plan.first, plan.second], np.ones(len(plan.item))
    block = PairChunk.from_trials(plan.item, plan.first, plan.second, answer, block=plan.slot, n_items=J)
    mean = trial_means(lambda: [block], n_agents=K, target="these-items").ability
    old_half = first_half_widths(plan, answer, mean, n_population=K * (K - 1) * J)
    items = compute_item_influence(
        plan.first,
        plan.second,
        plan.item,
        answer,
        ability=mean,
        first_weight=ones,
        second_weight=ones,
        n_items=J,
    )
    these = covariance_on_these_items(lambda: [block], ability=mean, n_items=J)
    kind = covariance_over_clusters(items.influence, items.weight, relative_variance=1 / items.n_trials.sum(axis=1))
    return Found(mean, old_half, kind, these, items)


def figures_of(found: Found, of: CentredCovariance, truth: Floats) -> Columns:
    """Shares that hold, and widths, of one draw. gate_width: what rare events not seen add to a gate's, of neighbours."""
    off = found.ability - found.ability.mean() - truth
    half, old_half = of.half_width(), found.old_half
    apart = pairwise_differences(found.ability, of)
    true_difference = truth[:, None] - truth
    place, old_place = rank_with_ties(truth), rank_ranges(found.ability - old_half, found.ability + old_half)
    one, every = apart.marginal_ranks, apart.simultaneous_ranks
    order = np.argsort(-found.ability)
    next_to = [estimate_difference(found.items, int(i), int(k)) for i, k in pairwise(order)]
    plain = [student.ppf(1 - ALPHA, pair.n_items - 1) * pair.variance**0.5 for pair in next_to]
    off_diagonal = ~np.eye(len(truth), dtype=np.bool_)
    figures = {
        "covered": (np.abs(off) <= half).astype(np.float64),
        "old_covered": (np.abs(off) <= old_half).astype(np.float64),
        "half": half.mean(),
        "old_half": old_half.mean(),
        "difference_covered": (np.abs(apart.value - true_difference) <= apart.half_width)[off_diagonal].astype(float),
        "wrong_way": float((apart.significantly_better & (true_difference < 0)).sum() / off_diagonal.sum()),
        "apart": float(apart.significantly_better.sum() / (off_diagonal.sum() / 2)),
        "place": ((one.low <= place) & (place <= one.high)).astype(np.float64),
        "place_width": float((one.high - one.low + 1).mean()),
        "old_place_width": float((old_place.high - old_place.low + 1).mean()),
        "at_once": float(((every.low <= place) & (place <= every.high)).all()),
        "at_once_width": float((every.high - every.low + 1).mean()),
        "named_best": float(apart.unique_best is not None),
        "wrong_best": float(apart.unique_best is not None and (place <= place[apart.unique_best]).sum() > 1),
        "gate_width": float(np.sum([pair.half_width(ALPHA) for pair in next_to]) / np.sum(plain)),
    }
    return {name: np.asarray(figure, dtype=np.float64) for name, figure in figures.items()}


def summary(rows: list[Columns]) -> Figures:
    """Means over draws, the standard error of coverage over draws, and ratios to 0.1.0."""
    means = {name: np.array([float(np.mean(row[name])) for row in rows]) for name in rows[0]}
    found = {name: float(np.nanmean(column)) for name, column in means.items()}
    found["covered_se"] = float(means["covered"].std() / np.sqrt(len(rows)))
    found["worst_agent_covered"] = float(np.mean([row["covered"] for row in rows], axis=0).min())
    found["worst_agent_place"] = float(np.mean([row["place"] for row in rows], axis=0).min())
    if found["old_half"] > 0:
        found["width"] = found["half"] / found["old_half"]
        found["place_ratio"] = found["place_width"] / found["old_place_width"]
    return found


def tried(draw: Draw, *, target: str, percent: float, n_draws: int) -> Figures:
    rows = []
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, round(10 * percent)])
        D, truth = draw(rng)
        found = found_of(D, plan_of(D.shape, percent, rng))
        rows.append(figures_of(found, found.kind if target == "kind" else found.these, truth))
    return summary(rows)


def domain_draw(D: Floats, target: str) -> Draw:
    truth = dense_abilities(D)

    def draw(rng: np.random.Generator) -> tuple[Floats, Floats]:
        return (D[rng.integers(0, len(D), len(D))] if target == "kind" else D), truth

    return draw


def shape_draw(K: int, J: int, pairs: float, leaders: int, target: str) -> Draw:
    fixed = np.random.default_rng([K, J])
    a, g = np.sort(0.1 * fixed.standard_normal(K))[::-1], pairs * fixed.standard_normal((K, K))
    a[:leaders] = a[0]
    own = 0.2 * fixed.uniform(0.5, 1.5, K)
    base = a[:, None] + a + g

    def draw(rng: np.random.Generator) -> tuple[Floats, Floats]:
        c = own * rng.standard_normal((J, K))
        noise = 0.35 * rng.standard_normal((J, K, K)) + 0.3 * rng.standard_normal((J, 1, 1))
        D = base + c[:, :, None] + c[:, None, :] + noise
        return D, dense_abilities(base[None]) if target == "kind" else dense_abilities(D)

    return draw


def everything_asked(D: Floats) -> Figures:
    """Half-widths of a dense fit over those of a cyclic plan of all pairs, same answers; and the least for these items."""
    K = D.shape[1]
    plan = Cyclic(None).draw(np.ones((K, len(D)), dtype=np.bool_), np.random.default_rng(0)).trials
    found = found_of(D, plan)
    model = ClippedLinear().fit((D.sum(axis=2) + D.sum(axis=1)).T / (2 * (K - 1)))
    ratio = model.centred_covariance.half_width() / found.kind.half_width()
    return {
        "least_ratio": float(ratio.min()),
        "largest_ratio": float(ratio.max()),
        "least_width_these": float(found.these.half_width().min()),
    }


def nearly_alike(kind: str, rate: float, K: int, J: int, rng: np.random.Generator) -> Floats:
    """All answers 1, but of agent 0 on whole items, or in single trials, at `rate`; `either`: of 0 or 1 on whole items."""
    D = np.ones((J, K, K))
    if kind == "trials":
        D[:, 0] *= rng.random((J, K)) >= rate
        D[:, :, 0] *= rng.random((J, K)) >= rate
        return D
    bad = rng.random(J) < rate
    whose = rng.integers(0, 2, J) if kind == "either" else np.zeros(J, dtype=np.int64)
    D[bad, whose[bad]] = 0
    D[bad, :, whose[bad]] = 0
    return D


def quiet(kind: str, rate: float, K: int, J: int, *, every_pair: bool, n_draws: int) -> Figures:
    """Coverage of agent 0's difference to 1, and how often a gate passes it, from a slot an item or every pair."""
    truth = 0.0 if kind == "either" else -rate * (K - 2) / (K - 1)
    rows = []
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, K, J, round(1e4 * rate)])
        D = nearly_alike(kind, rate, K, J, rng)
        plan = Cyclic(None if every_pair else K * J).draw(np.ones((K, J), dtype=np.bool_), rng).trials
        one = estimate_difference(found_of(D, plan).items, 0, 1)
        half = one.half_width(ALPHA)
        rows.append((abs(one.value - truth) <= half, one.value - half > -MARGIN))
    covered, passed = np.mean(rows, axis=0)
    return {"covered": float(covered), "passed": float(passed)}


def quiet_table(n_draws: int, *, shapes: tuple[tuple[int, int], ...]) -> dict[str, Figures]:
    table = {}
    for every_pair in (False, True):
        for K, J in shapes:
            at_margin = MARGIN * (K - 1) / (K - 2)
            for kind, rate in (
                *((kind, rate) for kind in ("items", "trials", "either") for rate in (0.0, 0.01, 0.03, 0.05)),
                ("items", at_margin),
                ("trials", at_margin),
            ):
                name = f"{'every pair' if every_pair else 'a slot an item'}, {K} × {J}, {kind} {rate:.3g}"
                table[name] = quiet(kind, rate, K, J, every_pair=every_pair, n_draws=n_draws)
    return table


def adaptive_table(domains: dict[str, Floats], n_draws: int) -> dict[str, Figures]:
    """Runs of at most 20 % of the dense calls that stop where the first `top` are separated: at the two widest gaps."""
    table = {}
    for target in TARGETS:
        for name, D in domains.items():
            for top in tops(dense_abilities(D)):
                rows = [
                    adaptive_draw(drawn, dense_abilities(D), top=top, percent=20, target=target, seed=seed)
                    for seed, drawn in enumerate(item_draws(D, target, n_draws))
                ]
                key = f"adaptive, {target}, {name}, top {top}"
                table[key] = means(rows)
                tell_grown(key, table[key])
    return table


def tops(truth: Floats) -> list[int]:
    """After which two of the first half's agents the gap is widest."""
    gap = -np.diff(np.sort(truth)[::-1])[: len(truth) // 2]
    return sorted((1 + np.argsort(-gap)[:2]).tolist())


def joined_table(domains: dict[str, Floats], n_draws: int) -> dict[str, Figures]:
    """Five agents join a run of the others."""
    table = {}
    for target in TARGETS:
        for name, D in domains.items():
            for percent in (2, 5, 10):
                rows = [
                    joined_draw(D, drawn, n_joining=5, percent=percent, target=target, seed=seed)
                    for seed, drawn in enumerate(item_draws(D, target, n_draws))
                ]
                key = f"joined, {target}, {name}, {percent} %"
                table[key] = means(rows)
                tell_grown(key, table[key])
    return table


def cells_table(domains: dict[str, Floats], n_draws: int) -> dict[str, Figures]:
    """Cells by chance, and every pair but those of a fifth of the cells, held out as both designs do."""
    table = {}
    for target in TARGETS:
        for name, D in domains.items():
            for design, percent in CELLS:
                rows = [
                    cells_draw(D, drawn, design=design, percent=percent, target=target, seed=seed)
                    for seed, drawn in enumerate(item_draws(D, target, n_draws))
                ]
                key = f"{design}, {target}, {name}" + (f", {percent} %" if percent else "")
                table[key] = means(rows)
                tell_grown(key, table[key])
    return table


def item_draws(D: Floats, target: Target, n_draws: int) -> Iterator[Floats]:
    """The items of each run: a sample of the domain's, or these themselves."""
    for seed in range(n_draws):
        at = np.random.default_rng([seed, 11]).integers(0, len(D), len(D))
        yield D if target == "these-items" else D[at]


def tell_grown(key: str, found: Figures) -> None:
    figures = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
    print(f"{key:48} {figures}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--smoke", action="store_true", help="3 draws, few shapes: seconds")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--adaptive", action="store_true", help="adaptive runs at a stop by top, alone")
    parser.add_argument("--joined", action="store_true", help="agents that join a run, alone")
    parser.add_argument("--cells", action="store_true", help="designs of cells, alone")
    arguments = parser.parse_args()
    n_draws = 3 if arguments.smoke else arguments.draws
    domains = {}
    if (arguments.shared / "peer-prediction").is_dir():
        wanted = ["OPUS"] if arguments.smoke else list(DOMAINS)
        for name in wanted:
            domains[name] = answers_of(name, arguments.shared)
    if arguments.adaptive or arguments.joined or arguments.cells:
        grown = {
            **(adaptive_table(domains, n_draws) if arguments.adaptive else {}),
            **(joined_table(domains, n_draws) if arguments.joined else {}),
            **(cells_table(domains, n_draws) if arguments.cells else {}),
        }
        write({"draws": n_draws, "grown": grown}, arguments.out)
        return
    table: dict[str, Figures] = {}
    for target, percents in PERCENTS.items():
        for name, D in domains.items():
            for percent in percents:
                key = f"{target}, {name}, {percent} %"
                table[key] = tried(domain_draw(D, target), target=target, percent=percent, n_draws=n_draws)
                tell(key, table[key])
        for name, (K, J, pairs, leaders) in list(SHAPES.items())[: 1 if arguments.smoke else None]:
            for percent in (5, 20):
                key = f"{target}, simulated {name}, {percent} %"
                draw = shape_draw(K, J, pairs, leaders, target)
                table[key] = tried(draw, target=target, percent=percent, n_draws=n_draws)
                tell(key, table[key])
    shapes = ((5, 12),) if arguments.smoke else ((5, 8), (5, 12), (5, 30), (5, 60), (8, 12), (8, 60))
    document = {
        "draws": n_draws,
        "intervals": table,
        "everything_asked": {name: everything_asked(D) for name, D in domains.items()},
        "nearly_alike": quiet_table(n_draws if arguments.smoke else 3 * n_draws, shapes=shapes),
    }
    write(document, arguments.out)


def write(document: dict[str, object], out: Path | None) -> None:
    text = json.dumps(document, indent=2)
    if out:
        out.write_text(text + "\n", encoding="utf-8")
    print(text)


def tell(key: str, found: Figures) -> None:
    print(
        f"{key:40} covered {found['covered']:.3f} ± {found['covered_se']:.3f} (0.1.0 {found['old_covered']:.3f}), "
        f"width ×{found.get('width', float('nan')):.3f}, differences {found['difference_covered']:.3f}, "
        f"places {found['place']:.3f} ×{found.get('place_ratio', float('nan')):.2f} ({found['place_width']:.1f}), "
        f"worst agent's {found['worst_agent_place']:.2f}, all at once {found['at_once']:.2f} ({found['at_once_width']:.1f}), "
        f"best named {found['named_best']:.2f}, wrongly {found['wrong_best']:.2f}, gate ×{found['gate_width']:.2f}",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    main()
