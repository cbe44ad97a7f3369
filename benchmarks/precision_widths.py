"""The parts of `precision.py` that ask until something is known: a width, or the top told apart."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precision_runs import answered, blank, found_of, recall, row, se, simulated
from recorded import answers_of, dense_abilities, world_of
from youden import make_plan
from youden.pipeline.ranking import estimate_abilities, trial_abilities_from_verdicts
from youden.pipeline.rounds import run_rounds
from youden.protocol.designs.cyclic import Cyclic
from youden.stats.forecast import find_min_blocks, half_width_quantile
from youden.study.replaying import replay
from youden.types.pool import Floats

SMOKE_RUNS = 2
WIDTHS = (0.02, 0.03, 0.05)
SHARE = 0.9


class WidthRun(NamedTuple):
    """One run that was asked for a width: how it ended, and what it had then."""

    narrow: bool
    at_share: float
    slots: int
    ratio: float
    covered: float
    looks: int


def one_width(paired: Floats, truth: Floats, width: float, oracle: int | None, seed: int) -> WidthRun:
    J, K, _ = paired.shape
    plan = make_plan(blank(K, J), design="width", options={"width": width}, seed=seed)
    result = run_rounds(plan, partial(answered, paired=paired))
    standing = estimate_abilities(result)
    half = standing.covariance.half_width()
    off = standing.ability - standing.ability.mean() - truth
    n_slots, rounds = int(result.plan.slot.max()) + 1, result.plan.rounds
    return WidthRun(
        narrow="stopped early" in result.plan.notes[-1],
        at_share=half_width_quantile(half, SHARE),
        slots=n_slots,
        ratio=np.nan if oracle is None else n_slots / oracle,
        covered=float((np.abs(off) <= half).mean()),
        looks=0 if rounds is None else len(rounds.starts),
    )


def width(runs: int, shared: Path) -> None:
    tried = list(product(("simulated 30 × 1,000", "PubMed", "ICLR", "SAMSum"), WIDTHS))
    for name, w in tried if runs > SMOKE_RUNS else tried[2:3]:
        found, oracle = [], None
        D = None if name.startswith("simulated") else answers_of(name, shared)
        if D is not None:
            oracle = needed_by_replay(D, w)
        for seed in range(runs):
            if D is None:
                paired, truth, parts = simulated(seed, 30, 1000)
                oracle = find_min_blocks(parts, w, fraction=SHARE, n_items=1000, max_blocks=29_000)
            else:
                paired = D[np.random.default_rng([seed, 1]).integers(len(D), size=len(D))]
                truth = dense_abilities(D)
            found.append(one_width(paired, truth, w, oracle, seed))
        narrow = [one for one in found if one.narrow]
        out: dict[str, object] = {
            "of": "width",
            "data": name,
            "width": w,
            "runs": runs,
            "said_out_of_reach": runs - len(narrow),
        }
        if narrow:
            at, ratio, covered, looks = (
                np.array(column, dtype=float)
                for column in zip(*((r.at_share, r.ratio, r.covered, r.looks) for r in narrow), strict=True)
            )
            out |= {
                "reached": round(float((np.abs(at / w - 1) <= 0.1).mean()), 3),
                "at_share": round(float(at.mean()), 4),
                "calls": round(float(np.mean([one.slots for one in narrow])) * paired.shape[1] + 100),
                "oracle_slots": oracle,
                "ratio": None if oracle is None else round(float(ratio.mean()), 3),
                "ratio_se": None if oracle is None else se(ratio),
                "covered": round(float(covered.mean()), 4),
                "covered_se": se(covered),
                "looks": round(float(looks.mean()), 1),
            }
        row(**out)


def needed_by_replay(D: Floats, w: float, *, n_draws: int = 12) -> int | None:
    """The fewest slots at which the width is there on average over runs, items drawn anew."""
    J, K, _ = D.shape

    def wide(n_slots: int) -> bool:
        halves = []
        for seed in range(n_draws):
            rng = np.random.default_rng([seed, 2])
            paired = D[rng.integers(J, size=J)]
            plan = Cyclic(n_slots * K).draw(np.ones((K, J), dtype=np.bool_), rng).trials
            halves.append(half_width_quantile(found_of(paired, plan).kind.half_width(), SHARE))
        return float(np.mean(halves)) > w

    low, high = 4, 16
    while wide(high):
        if high >= (K - 1) * J:
            return None
        low, high = high, min(2 * high, (K - 1) * J)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high


def top(runs: int, shared: Path) -> None:
    for name in ("PubMed", "ICLR", "SAMSum"):
        world = world_of(name, shared)
        truth = dense_abilities(np.nan_to_num(world.paired))
        figures = []
        for seed in range(runs):
            plan = make_plan(world.pool, design="adaptive", options={"top": 5}, seed=seed)
            result = run_rounds(plan, partial(replay, recorded=world))
            ours = estimate_abilities(result).ability
            uniform = trial_abilities_from_verdicts(
                replay(make_plan(world.pool, calls=len(result.plan), seed=seed), world)
            )
            assert uniform is not None
            apart = "separated" in result.plan.notes[-1]
            ends = [apart, apart and recall(ours, truth) < 1, len(result.plan)]
            figures.append([recall(ours, truth), recall(uniform.ability, truth), *ends])
        found = np.array(figures, dtype=float)
        names = ("recall", "uniform_recall", "told_apart", "wrong", "calls")
        means = {key: round(float(value), 4) for key, value in zip(names, found.mean(axis=0), strict=True)}
        row(of="top", domain=name, runs=runs, **means, difference_se=se(found[:, 0] - found[:, 1]))
