"""Is a self-preference found that is there, and none claimed that is not? The paper's dense answers replayed as two judges.

Judge A answers a cyclic plan of 2 % of the dense calls, judge B a balanced 500 of its trials (`protocol.subsample`), and both
go through what `youden rejudge` and `youden compare` print (`study.judge_shifts`). A yes is D ≥ ½ of the public data; each
judge turns it round with a chance of its own ('noise': A's, B's), or, where noise is 'graded', says yes with chance D (1,
.25, 0); 'hard steps' and 'mild steps' are two judges who see one grade and draw the line for a yes elsewhere, on recorded
grades and on 'synthetic' ones; with 'laxer steps' the second one says yes more often. B's yes-chance for a trial is moved by
a difference of each of its agents' own (normal, 'own_sd') and, where a preference is planted, by c for each agent of the
family. 'yes-rate': c is such that the yes-rate rises by .1 with each agent of the family; 'chance': c = .1 before chances are
cut at 1, so that less arrives ('arrives': the rise in yes-rate that is left). 'twins' are two judges who say yes with the
same chances: how often ρ's interval leaves out 1, and how often all of it lies below the ceiling told beside it.
`python benchmarks/rejudge.py [--twins] [--laxer] [--simulations 40] [--first-seed 0] [--domain NAME] [--smoke] [--shared
FOLDER] [--out FILE]` prints JSON, and each row with its standard errors on the way; `--domain` asks that domain's rows alone.
Random families of 10, 5 and 3 of one seed lie in each other and see the same answers, so their rows err together: 40
simulations do not tell .05 from .15. The smoke asks a few simulations of a few rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from recorded import DOMAINS, SHARED, world_of
from youden import make_plan
from youden.protocol.subsample import subsample
from youden.stats.judges.cell_agreement import cohen_kappa
from youden.study.judge_shifts import JudgeShifts
from youden.study.judged_runs import AlignedRuns, JudgedRun
from youden.study.replaying import RecordedAnswers
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.types.pool import Bools, Floats, Ids

Figures = dict[str, float]


@dataclass(frozen=True)
class Case:
    """One row of the table. place: whether the family is drawn at random or is the strongest or weakest agents."""

    domain: str = "PubMed"
    plant: str = "yes-rate"
    family: int = 10
    own_sd: float = 0.05
    noise: str = "0.05, 0.1"
    place: str = "random"
    calls: int = 500
    percent: float = 2.0


STEPS = {
    "hard steps": ((0.15, 0.75, 0.95), (0.02, 0.05, 0.95)),
    "mild steps": ((0.08, 0.45, 0.95), (0.03, 0.15, 0.95)),
    "laxer steps": ((0.02, 0.05, 0.95), (0.15, 0.75, 0.95)),
}
"""Chances of a yes to no, little and full gain: A's, B's. Both see the same grades and draw the line for a yes elsewhere."""
BASE = [Case(domain=domain, plant=plant) for domain in ("PubMed", "SAMSum") for plant in ("yes-rate", "none", "chance")]
OTHERS = [
    replace(Case(), plant=plant, **changes)
    for changes in (
        {"own_sd": 0.0},
        {"family": 5},
        {"family": 3},
        {"noise": "0, 0.05"},
        {"noise": "0.1, 0.2"},
        {"noise": "graded"},
        {"place": "strongest"},
        {"calls": 1000},
    )
    for plant in ("yes-rate", "none")
]

THRESHOLDS = [
    Case(domain=domain, plant=plant, family=family, own_sd=0.0, noise=noise, place=place)
    for domain in (*DOMAINS, "synthetic")
    for noise in ("hard steps", "mild steps")
    for plant, family, place in (
        ("none", 10, "strongest"),
        ("none", 4, "weakest"),
        ("none", 10, "random"),
        ("none", 5, "random"),
        ("none", 3, "random"),
        ("yes-rate", 10, "random"),
        ("yes-rate", 10, "strongest"),
    )
]

LAXER = [
    Case(domain=domain, plant="none", family=5, own_sd=0.0, noise="laxer steps", place="weakest") for domain in DOMAINS
]
TWINS = [
    Case(domain=domain, plant="none", own_sd=0.0, noise=noise)
    for domain in DOMAINS
    for noise in ("graded", "0.1, 0.1", "0.3, 0.3")
]


def grades(D: Floats) -> Ids:
    """0, 1, 2: no, little and full gain of a recorded difference."""
    return np.where(D >= 0.5, 2, np.where(D > 0, 1, 0)).astype(np.int32)


def synthetic(shape: tuple[int, ...], *, seed: int = 0) -> Floats:
    """Graded differences float[J, K, K] of 0, ¼ and 1 by an ordered logit in two agents' abilities and an item's ease."""
    rng = np.random.default_rng([seed, 5])
    ability, ease = 0.8 * rng.standard_normal(shape[1]), 0.7 * rng.standard_normal(shape[0])
    strength = ability[:, None] + ability + ease[:, None, None] + rng.logistic(size=shape)
    D: Floats = np.where(strength > 0.9, 1.0, np.where(strength > -0.9, 0.25, 0.0))
    D[:, np.eye(shape[1], dtype=np.bool_)] = np.nan
    return D


def said_yes(plan: Plan, chance: Floats, rng: np.random.Generator) -> Verdicts:
    """A judge that says yes with `chance` to each paired trial, and no to every independent one."""
    answer = np.where(plan.arm == PAIRED, rng.random(len(plan)) < chance, 0.0)
    return Verdicts(plan, answer, answer.copy(), np.zeros(len(plan), dtype=np.int8), {"name": "replayed D"})


def named(
    name: str, result: Verdicts, *, families: dict[str, str] | None = None, family: str | None = None
) -> JudgedRun:
    """The judged run, and who is of which family."""
    return JudgedRun(name, result.plan.pool_digest, result.rates(), result, families or {}, family)


def rise(before: Floats, after: Floats, n_family: Floats) -> float:
    """By how much the yes-rate rises with each agent of the family in a trial."""
    x = n_family - n_family.mean()
    return float(x.ravel() @ (after - before).ravel() / (x.ravel() @ x.ravel()))


@cache
def planned(pool: Pool, percent: float, calls: int, seed: int) -> tuple[Plan, Plan]:
    """A's trials, and B's part of them: the same for every row with these numbers."""
    plan = make_plan(pool, design="cyclic", calls=f"{percent}%", seed=seed)
    return plan, subsample(plan, calls=calls, seed=seed)


def simulate(case: Case, world: RecordedAnswers, *, seed: int) -> Figures:
    """One A, one B, one comparison."""
    rng = np.random.default_rng([seed, 11])
    pool, K = world.pool, world.pool.n_agents
    D: Floats = np.nan_to_num(world.paired)
    plan, part = planned(pool, case.percent, case.calls, seed)
    if case.noise == "graded":
        a = b = D.clip(0, 1)
    elif case.noise in STEPS:
        a, b = (np.array(steps)[grades(D)] for steps in STEPS[case.noise])
    else:
        a, b = (np.abs((D >= 0.5) - float(turned)) for turned in case.noise.split(","))
    worst = np.argsort(D.mean(axis=(0, 2)) + D.mean(axis=(0, 1)))
    order = {"random": rng.permutation(K), "strongest": worst[::-1], "weakest": worst}[case.place]
    member: Bools = np.zeros(K, dtype=np.bool_)
    member[order[: case.family]] = True
    own = case.own_sd * rng.standard_normal(K)
    ordered = ~np.eye(K, dtype=np.bool_)
    before = (b + own[:, None] + own)[:, ordered]
    flat = np.clip(before, 0, 1)
    in_family = member.astype(np.float64)
    each = np.broadcast_to((in_family[:, None] + in_family)[ordered], flat.shape)
    c = {"none": 0.0, "chance": 0.1, "yes-rate": 0.1}[case.plant]
    for _ in range(8 if case.plant == "yes-rate" else 0):
        c *= 0.1 / rise(flat, np.clip(before + c * each, 0, 1), each)
    moved = np.zeros_like(b)
    moved[:, ordered] = np.clip(before + c * each, 0, 1)
    arrives = rise(flat, moved[:, ordered], each)

    trials = plan.item, plan.first, plan.second
    one = said_yes(plan, a[trials], rng)
    other = said_yes(part, moved[part.item, part.first, part.second], rng)
    families = {
        agent: "own" if is_own else "other" for agent, is_own in zip(world.rates.agent_ids, member, strict=True)
    }
    both = AlignedRuns([named("A", one, families=families), named("B", other, family="own")])
    found = JudgeShifts(both, 0, 1, seed=seed)
    family = next(row for row in found.families if row.family == "own")
    used = plan.arm == PAIRED
    true = float(spearmanr(effects(plan, moved[trials], used), effects(plan, one.answer, used)).statistic)
    answered = ~np.isnan(both.hard[1])
    low, high = (-np.inf if family.low is None else family.low), (np.inf if family.high is None else family.high)
    return {
        "claimed": "B" in family.favoured_by,
        "not_told_apart": not family.told_apart,
        "curve_share": family.curve_share or 0.0,
        "shift": family.shift,
        "arrives": arrives,
        "covers": low <= arrives <= high,
        "an_agent_moves": any(agent.moves for agent in found.agents),
        "agents_moving": sum(agent.moves for agent in found.agents),
        "same": float((both.hard[0] == both.hard[1])[answered].mean()),
        "kappa": cohen_kappa(both.hard[0][answered], both.hard[1][answered]),
        "rho_seen": found.rho_seen or 0.0,
        "rho_same": found.rho_same or 0.0,
        "rho": found.rho.rho if found.rho else 0.0,
        "rho_true": true,
        "rho_covers": bool(found.rho and found.rho.low <= true <= found.rho.high),
        "rho_leaves_out_1": bool(found.rho and found.rho.high < 0.9995),
        "rho_below_ceiling": bool(found.rho and found.rho.high < found.rho.ceiling),
        "rho_ceiling": found.rho.ceiling if found.rho else 0.0,
        "rho_width": found.rho.high - found.rho.low if found.rho else 0.0,
    }


def effects(plan: Plan, answer: Floats, used: Bools) -> Floats:
    """Least squares answer ≈ x_first + x_second."""
    X = np.zeros((int(used.sum()), plan.n_agents))
    rows = np.arange(len(X))
    X[rows, plan.first[used]] = X[rows, plan.second[used]] = 1
    return np.asarray(np.linalg.lstsq(X, answer[used], rcond=None)[0])


def error(share: float, n: int) -> float:
    """Standard error of a share of n, with a half of one more on either side, so that 0 of n has one too."""
    p = (share * n + 0.5) / (n + 1)
    return float(np.sqrt(p * (1 - p) / n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--domain", choices=[*DOMAINS, "synthetic"])
    parser.add_argument("--twins", action="store_true", help="two judges that are one, alone")
    parser.add_argument("--laxer", action="store_true", help="the weakest five before a laxer second judge, alone")
    parser.add_argument("--smoke", action="store_true", help="a few simulations of the first rows")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    every = TWINS if arguments.twins else LAXER if arguments.laxer else THRESHOLDS + LAXER + BASE + OTHERS + TWINS
    cases, n = (BASE[:2] + THRESHOLDS[:1], 4) if arguments.smoke else (every, arguments.simulations)
    cases = [case for case in cases if arguments.domain in (None, case.domain)]
    worlds: dict[str, RecordedAnswers] = {}
    for domain in sorted({"PubMed"} | {case.domain for case in cases} & DOMAINS.keys()):
        worlds[domain] = world_of(domain, arguments.shared)
    known = worlds["PubMed"]
    worlds["synthetic"] = replace(known, paired=synthetic(known.paired.shape))
    table = []
    for case in cases:
        draws = [simulate(case, worlds[case.domain], seed=arguments.first_seed + number) for number in range(n)]
        means = {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}
        claimed, moves = (
            f"{means[name]:.3f} (SE {error(means[name], n):.3f})" for name in ("claimed", "an_agent_moves")
        )
        print(
            f"{case.domain}, {case.noise}, {case.place} {case.family}, own {case.own_sd}, {case.calls} calls, {case.plant}: "
            f"claimed {claimed}, an agent moves {moves}, ρ without 1 {means['rho_leaves_out_1']:.3f}, "
            f"below its ceiling {means['rho_below_ceiling']:.3f}",
            file=sys.stderr,
            flush=True,
        )
        table.append(
            asdict(case)
            | {"simulations": n, "claimed_se": error(means["claimed"], n)}
            | means
            | {"shift_sd": float(np.std([draw["shift"] for draw in draws], ddof=1))}
        )
    said = {
        "seeds": f"{arguments.first_seed} … {arguments.first_seed} + simulations − 1",
        "cpu_seconds": time.process_time(),
        "bar": {"claimed, planted": 0.8, "not claimed, none": 0.93, "an agent moves, own_sd 0 and none": 0.07}
        | {"twins: ρ below its ceiling": 0.07},
    }
    text = json.dumps(said | {"rows": table}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
