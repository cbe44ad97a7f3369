"""What trials and widths buy: defaults that grow with agents, widths asked for and reached, the top against uniform trials.

`domains`: variances, ρ and top-5 recall of cyclic plans on the paper's judge data, the table in `stats/precision/domains.py`.
`default`: calls and ρ of today's default beside 2 % of the dense calls. `alpaca`: 39 real models, judge `lexical`, against
its own dense ranking. `agents`: calls, half-width and coverage from 10 to 1,000 simulated agents. `large`: 500 × 10,000 from
Parquet, CPU seconds and memory. `width`: runs asked for a width, simulated (true variances known) and replayed with items
drawn anew; `oracle` is what the true variances need, in replays the fewest slots that have the width on average. `top`:
`top: 5` against cyclic slots at the same calls.
Simulated answers are y = a_i + a_k + b_j + c_ij + c_kj + g_ik + noise, drawn anew each time.

`python benchmarks/precision.py [--only NAME,…] [--runs 200] [--smoke] [--shared FOLDER]` prints JSON, one line a row.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from youden.data.importers.alpaca_eval import read_alpaca_eval
from youden.data.importers.peer_prediction import import_results
from youden.judging.backends.lexical import Lexical
from youden.nouns import INDEPENDENT, Agent, Item, Plan, Pool, Trials, Verdicts
from youden.nouns.arrays import Floats
from youden.protocol.budget import Size, default_calls
from youden.protocol.designs.cyclic import Cyclic
from youden.protocol.plan import make_plan
from youden.protocol.rates import tally
from youden.run.estimates.abilities import abilities_of, standing_of
from youden.run.rounds import run_rounds
from youden.stats.base.clusters import CentredCovariance, covariance_over_clusters
from youden.stats.base.metrics import spearman
from youden.stats.precision.domains import TRIALS
from youden.stats.precision.forecast import at_share, slots_for
from youden.stats.precision.parts import Parts, parts_of
from youden.stats.trials.item_contributions import ItemContributions, item_contributions
from youden.study.replay import World, make_world, replay

SHARED = Path(__file__).parents[2] / "shared"
SMOKE_RUNS = 2
WIDTHS = (0.02, 0.03, 0.05)
SHARE = 0.9
SD = {"agents": 0.1, "items": 0.3, "pairs": 0.1, "noise": 0.35}
"""Of the simulated answers; what an agent has of its own on an item differs from agent to agent, .1 to .2."""

DOMAINS = {
    "PubMed": "pubmed_200_config_results",
    "ICLR": "peer_review_results_100",
    "SAMSum": "samsum_200_config_results",
    "OPUS": "opus_translation_results",
}


class Found(NamedTuple):
    """ability: float[K]; kind: of it, for items like these."""

    ability: Floats
    kind: CentredCovariance
    items: ItemContributions


class WidthRun(NamedTuple):
    """One run that was asked for a width: how it ended, and what it had then."""

    narrow: bool
    at_share: float
    slots: int
    ratio: float
    covered: float
    looks: int


def dense(D: Floats) -> Floats:
    """Centred symmetric abilities: float[K]; the diagonal of D is 0."""
    theta = (D.sum(axis=(0, 2)) + D.sum(axis=(0, 1))) / (2 * (D.shape[1] - 1) * len(D))
    return np.asarray(theta - theta.mean())


def found_in(plan: Trials, answer: Floats, *, K: int, J: int) -> Found:
    n = np.bincount(np.append(plan.first, plan.second), minlength=K)
    mean = np.bincount(np.append(plan.first, plan.second), np.tile(answer, 2), minlength=K) / n
    ones = np.ones(len(answer))
    of = item_contributions(
        plan.first, plan.second, plan.item, answer, ability=mean, first_weight=ones, second_weight=ones, n_items=J
    ).matrices()
    return Found(mean, covariance_over_clusters(of.by_item, of.weight, size=1 / n), of)


def found_of(D: Floats, plan: Trials) -> Found:
    J, K, _ = D.shape
    return found_in(plan, D[plan.item, plan.first, plan.second], K=K, J=J)


def row(**figures: object) -> None:
    print(json.dumps(figures), flush=True)


def se(values: Floats) -> float:
    return round(float(np.std(values, ddof=1) / np.sqrt(len(values))), 5) if len(values) > 1 else 0.0


def world_of(name: str, shared: Path) -> World:
    return make_world(
        import_results(shared / "peer-prediction" / "eval_results" / DOMAINS[name]).rates, difference_only=True
    )


def known(world: World) -> Floats:
    return np.nan_to_num(world.paired)


def blank(K: int, J: int) -> Pool:
    texts = np.full((K, J), "", dtype=object)
    return Pool(
        tuple(Agent(f"a{i}") for i in range(K)), tuple(Item(f"i{j}") for j in range(J)), texts, name="simulated"
    )


def answered(plan: Plan, *, paired: Floats) -> Verdicts:
    """paired: float[J, K, K]; an independent answer is 0."""
    answer = np.where(plan.arm == INDEPENDENT, 0.0, paired[plan.item, plan.first, plan.second])
    hard = (answer >= 0.5).astype(np.float64)
    return Verdicts(plan, answer, hard, np.zeros(len(plan), dtype=np.int8), {"name": "simulated"})


def recall(ability: Floats, truth: Floats, top: int = 5) -> float:
    return len(set(np.argsort(-ability)[:top]) & set(np.argsort(-truth)[:top])) / top


def domains(runs: int, shared: Path) -> None:
    for name in DOMAINS:
        D = known(world_of(name, shared))
        truth, (J, K, _) = dense(D), D.shape
        for n in TRIALS:
            figures = []
            for seed in range(runs):
                found = found_of(D, Cyclic(n * K // 2).draw(np.ones((K, J), bool), np.random.default_rng(seed)).trials)
                half, parts = found.kind.half_width(), parts_of(found.items, np.diag(found.kind.covariance))
                rho = spearman(found.ability, truth).value
                of = [parts.own.mean(), parts.noise.mean(), half.mean(), half.max() / half.mean(), rho]
                figures.append([*of, recall(found.ability, truth)])
            own, noise, half, widest, rho, top = np.mean(figures, axis=0).round(4).tolist()
            row(
                of="domains", domain=name, trials=n, own=own, noise=noise, half=half, widest=widest, rho=rho, recall=top
            )


def default(runs: int, shared: Path) -> None:
    for K, J in ((8, 40), (12, 32), (10, 200), (30, 200), (39, 200), (227, 805), (500, 10_000)):
        size, dense_calls = Size(K, J, False, 100), 2 * K * (K - 1) * J
        was = max(int(0.02 * dense_calls), 30 * K + 100)
        row(of="default", agents=K, items=J, planned=default_calls(2.0, size), before=was)
    for name in ("PubMed", "SAMSum", "ICLR"):
        world = world_of(name, shared)
        truth = dense(known(world))
        found: dict[str, list[float]] = {"now": [], "before": []}
        calls = {}
        for seed, (which, percent) in product(range(runs), (("now", None), ("before", 2.0))):
            plan = make_plan(world.pool, percent=percent, seed=seed)
            abilities = abilities_of(replay(plan, world))
            assert abilities is not None
            found[which].append(spearman(abilities.ability, truth).value)
            calls[which] = len(plan)
        apart = np.subtract(found["now"], found["before"])
        means = {which: round(float(np.mean(values)), 4) for which, values in found.items()}
        row(of="default", domain=name, calls=calls, rho=means, difference=round(float(apart.mean()), 5), se=se(apart))


def alpaca(runs: int, shared: Path) -> None:
    files = sorted((shared / "alpaca-eval").glob("results/*/model_outputs.json"))
    pools = [read_alpaca_eval([file], columns={}).pool for file in files]
    names = tuple(Agent(file.parent.name) for file in files)
    pool = Pool(names, pools[0].items, np.vstack([one.texts for one in pools]), "AlpacaEval")
    whole = make_plan(pool, design="dense", independent="pooled", n_independent=100, holdout=0.0)
    rates = tally(Lexical().answer_many(pool, whole))
    world = make_world(rates, difference_only=False)
    truth = dense(known(world))
    rho, covered, half, old = [], [], [], 0
    for seed in range(runs):
        plan = make_plan(pool, seed=seed)
        found = abilities_of(replay(plan, world), target="these-items")
        assert found is not None
        off = found.ability - found.ability.mean() - truth
        rho.append(spearman(found.ability, truth).value)
        covered.append(float((np.abs(off) <= found.covariance.half_width()).mean()))
        half.append(float(found.covariance.half_width().mean()))
        old = len(plan)
    row(
        of="alpaca",
        agents=pool.n_agents,
        calls=old,
        rho=round(float(np.mean(rho)), 4),
        lowest=round(min(rho), 4),
        covered=round(float(np.mean(covered)), 4),
        se=se(np.array(covered)),
        half=round(float(np.mean(half)), 4),
        runs=runs,
    )


def agents(runs: int, shared: Path) -> None:
    J, points = 1000, []
    for K in (10, 30, 100, 300, 1000):
        halves, covered, edge = [], [], []
        calls = default_calls(2.0, Size(K, J, False, 100))
        for seed in range(max(2, min(runs, 2000 // K))):
            rng = np.random.default_rng([seed, K])
            plan = Cyclic(calls - 100).draw(np.ones((K, J), dtype=np.bool_), rng).trials
            a, b = SD["agents"] * rng.standard_normal(K), SD["items"] * rng.standard_normal(J)
            c, g = 0.15 * rng.standard_normal((K, J)), SD["pairs"] * rng.standard_normal((K, K))
            i, k, j = plan.first, plan.second, plan.item
            y = a[i] + a[k] + b[j] + c[i, j] + c[k, j] + g[i, k] + SD["noise"] * rng.standard_normal(len(i))
            found = found_in(plan, y, K=K, J=J)
            mean, half = found.ability, found.kind.half_width()
            np.fill_diagonal(g, 0)
            truth = a * (K - 2) / (K - 1) + (g.sum(axis=0) + g.sum(axis=1)) / (2 * (K - 1))
            off = (mean - mean.mean()) - (truth - truth.mean())
            z = off / half
            halves.append(float(half.mean()))
            covered.append(float((np.abs(z) <= 1).mean()))
            order = i[:K]
            edge.append(float(np.corrcoef(z[order], np.roll(z[order], 1))[0, 1]))
        points.append((K, calls, float(np.mean(halves))))
        figures = {"half": points[-1][2], "covered": float(np.mean(covered)), "neighbours": float(np.mean(edge))}
        rounded = {name: round(value, 4) for name, value in figures.items()}
        row(of="agents", agents=K, items=J, calls=calls, runs=len(halves), se=se(np.array(covered)), **rounded)
    sizes, asked, half = np.array(points).T
    slope = np.polyfit(np.log(sizes), np.log(asked), 1)[0]
    row(
        of="agents",
        exponent=round(float(slope), 4),
        half_plus_minus=round(float((half.max() - half.min()) / (half.max() + half.min())), 4),
    )


LARGE = """
import resource, sys, time
from youden.data.pools.reader import read_pool
pool = read_pool(sys.argv[1])
read = time.process_time()
from youden.protocol.coverage import coverage
from youden.protocol.plan import make_plan
plan = make_plan(pool)
coverage(plan), plan.n_cells, plan.digest
print(len(plan), read, time.process_time() - read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def large(runs: int, shared: Path, *, shape: tuple[int, int] = (500, 10_000)) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    K, J = shape
    with tempfile.TemporaryDirectory() as place:
        agent, item = np.divmod(np.arange(K * J), J)
        columns = {"agent": pa.array(agent).cast(pa.string()), "item": pa.array(item).cast(pa.string())}
        text = pa.array([f"answer {n % 9973} to it" for n in range(K * J)])
        pq.write_table(pa.table({**columns, "text": text}), Path(place, "pool.parquet"))
        ended = subprocess.run(
            [sys.executable, "-c", LARGE, str(Path(place, "pool.parquet"))], capture_output=True, text=True, check=True
        )
    calls, read, planned, gigabytes = map(float, ended.stdout.split())
    row(
        of="large",
        agents=K,
        items=J,
        calls=int(calls),
        read_s=round(read, 2),
        plan_s=round(planned, 2),
        peak_gb=round(gigabytes, 2),
    )


def simulated(seed: int, K: int, J: int) -> tuple[Floats, Floats, Parts]:
    """Answers float[J, K, K], the centred truth for items like these, and the variances."""
    rng = np.random.default_rng(seed)
    a, b = SD["agents"] * rng.standard_normal(K), SD["items"] * rng.standard_normal(J)
    own = rng.permutation(np.linspace(0.1, 0.2, K))
    c, g = own[:, None] * rng.standard_normal((K, J)), SD["pairs"] * rng.standard_normal((K, K))
    np.fill_diagonal(g, 0)
    paired = a[:, None] + a + b[:, None, None] + c.T[:, :, None] + c.T[:, None, :] + g
    paired += SD["noise"] * rng.standard_normal(paired.shape)
    truth = a * (K - 2) / (K - 1) + (g.sum(axis=0) + g.sum(axis=1)) / (2 * (K - 1))
    noise = (own**2).mean() + SD["pairs"] ** 2 + SD["noise"] ** 2
    alone = 1 - 2 / K
    return paired, truth - truth.mean(), Parts(alone * own**2 + (own**2).mean() / K, np.full(K, alone * noise))


def one_width(paired: Floats, truth: Floats, width: float, oracle: int | None, seed: int) -> WidthRun:
    J, K, _ = paired.shape
    plan = make_plan(blank(K, J), design="width", options={"width": width}, seed=seed)
    result = run_rounds(plan, blank(K, J), partial(answered, paired=paired))
    standing = standing_of(result)
    half = student.ppf(0.975, standing.freedom) * standing.error
    off = standing.ability - standing.ability.mean() - truth
    n_slots, rounds = int(result.plan.slot.max()) + 1, result.plan.rounds
    return WidthRun(
        narrow="stopped early" in result.plan.notes[-1],
        at_share=at_share(half, SHARE),
        slots=n_slots,
        ratio=np.nan if oracle is None else n_slots / oracle,
        covered=float((np.abs(off) <= half).mean()),
        looks=0 if rounds is None else len(rounds.starts),
    )


def width(runs: int, shared: Path) -> None:
    tried = list(product(("simulated 30 × 1,000", "PubMed", "ICLR", "SAMSum"), WIDTHS))
    for name, w in tried if runs > SMOKE_RUNS else tried[2:3]:
        found, oracle = [], None
        D = None if name.startswith("simulated") else known(world_of(name, shared))
        if D is not None:
            oracle = needed_by_replay(D, w)
        for seed in range(runs):
            if D is None:
                paired, truth, parts = simulated(seed, 30, 1000)
                oracle = slots_for(parts, w, share=SHARE, n_items=1000, most=29_000)
            else:
                paired = D[np.random.default_rng([seed, 1]).integers(len(D), size=len(D))]
                truth = dense(D)
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
            halves.append(at_share(found_of(paired, plan).kind.half_width(), SHARE))
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
        truth = dense(known(world))
        figures = []
        for seed in range(runs):
            plan = make_plan(world.pool, design="adaptive", options={"top": 5}, seed=seed)
            result = run_rounds(plan, world.pool, partial(replay, world=world))
            ours = standing_of(result).ability
            uniform = abilities_of(replay(make_plan(world.pool, calls=len(result.plan), seed=seed), world))
            assert uniform is not None
            apart = "separated" in result.plan.notes[-1]
            ends = [apart, apart and recall(ours, truth) < 1, len(result.plan)]
            figures.append([recall(ours, truth), recall(uniform.ability, truth), *ends])
        found = np.array(figures, dtype=float)
        names = ("recall", "uniform_recall", "told_apart", "wrong", "calls")
        means = {key: round(float(value), 4) for key, value in zip(names, found.mean(axis=0), strict=True)}
        row(of="top", domain=name, runs=runs, **means, difference_se=se(found[:, 0] - found[:, 1]))


PARTS_OF_IT = {
    "domains": (domains, 30),
    "default": (default, 100),
    "alpaca": (alpaca, 50),
    "agents": (agents, 40),
    "large": (large, 1),
    "width": (width, 200),
    "top": (top, 100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS_OF_IT))
    parser.add_argument("--runs", type=int, help="of every part; by default each has its own number")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--shared", type=Path, default=SHARED)
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        measure, runs = PARTS_OF_IT[name]
        began = time.process_time()
        if arguments.smoke and name == "large":
            large(1, arguments.shared, shape=(50, 1000))
        elif name != "large" or not arguments.smoke:
            measure(arguments.runs or (SMOKE_RUNS if arguments.smoke else runs), arguments.shared)
        print(f"{name}: {time.process_time() - began:.1f} CPU s", file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak {peak:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
