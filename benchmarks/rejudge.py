"""Measure how often `youden rejudge` and `youden compare` detect a self-preference that exists, and claim one that does not.

The paper's dense answers are replayed as two judges. Judge A answers a cyclic plan of 2 % of the dense calls, judge B a
balanced subsample of 500 of its trials (`protocol.subsample`), and both are compared by `study.judge_shifts`. A yes is D ≥ ½ of
the public data. Each judge reverses it with a probability of its own ('noise': A's, B's) or, if noise is 'graded', answers yes
with probability D (1, .25, 0). With 'hard steps' and 'mild steps', both judges see the same grade but have different thresholds
for a yes, on recorded and on 'synthetic' grades; with 'laxer steps', B answers yes more often. B's probability of a yes is
changed by a normal effect of each agent (SD 'own_sd') and, if a preference is planted, by c for each agent of the family.
'yes-rate': c is such that the yes rate rises by .1 per agent of the family; 'chance': c = .1 before probabilities are cut at 1,
so that the rise is smaller ('arrives': the rise that remains). 'twins' are two judges with the same probabilities: how often
the interval of ρ excludes 1, and how often it lies below the reported attenuation ceiling.

`python benchmarks/rejudge.py [--twins] [--laxer] [--simulations 40] [--first-seed 0] [--domain NAME] [--smoke] [--shared
FOLDER] [--out FILE]` prints JSON, and to stderr each row with standard errors. Random families of 10, 5 and 3 with one seed are
nested and see the same answers, so that errors of their rows are dependent; 40 simulations do not distinguish .05 from .15.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from recorded import DOMAINS, SHARED, load_recorded_answers
from results import print_results
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
    """One row of the table.

    Attributes
    ----------
    place : str
        Whether the family is "random", or the "strongest" or "weakest" agents.
    """

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
"""Probabilities of a yes for no, little and full gain: A's, then B's."""
BASE = [Case(domain=domain, plant=plant) for domain in ("PubMed", "SAMSum") for plant in ("yes-rate", "none", "chance")]
VARIANTS = [
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


def to_grades(D: Floats) -> Ids:
    """Convert recorded differences to grades: 0, 1 or 2 for no, little or full gain."""
    return np.where(D >= 0.5, 2, np.where(D > 0, 1, 0)).astype(np.int32)


def simulate_differences(shape: tuple[int, ...], *, seed: int = 0) -> Floats:
    """Simulate differences 0, ¼ and 1 of `shape` (n_items, n_agents, n_agents) by an ordered logit in ability and ease."""
    rng = np.random.default_rng([seed, 5])
    ability = 0.8 * rng.standard_normal(shape[1])
    ease = 0.7 * rng.standard_normal(shape[0])
    utility = ability[:, None] + ability + ease[:, None, None] + rng.logistic(size=shape)
    D: Floats = np.where(utility > 0.9, 1.0, np.where(utility > -0.9, 0.25, 0.0))
    D[:, np.eye(shape[1], dtype=np.bool_)] = np.nan
    return D


def answer_plan(plan: Plan, p_yes: Floats, rng: np.random.Generator) -> Verdicts:
    """Answer paired trials yes with probability `p_yes` (n_trials,), and independent trials no."""
    answer = np.where(plan.trial_type == PAIRED, rng.random(len(plan)) < p_yes, 0.0)
    return Verdicts(plan, answer, answer.copy(), np.zeros(len(plan), dtype=np.int8), {"name": "replayed D"})


def make_judged_run(
    name: str, verdicts: Verdicts, *, families: dict[str, str] | None = None, family: str | None = None
) -> JudgedRun:
    """Make the judged run of verdicts, with families of agents and the family of the judge."""
    return JudgedRun(name, verdicts.plan.pool_digest, verdicts.rates(), verdicts, families or {}, family)


def compute_yes_rate_rise(before: Floats, after: Floats, n_family: Floats) -> float:
    """Compute the rise of the yes rate per agent of the family in a trial, by regression."""
    centered_n_family = n_family - n_family.mean()
    return float(
        centered_n_family.ravel() @ (after - before).ravel() / (centered_n_family.ravel() @ centered_n_family.ravel())
    )


@cache
def make_plans(pool: Pool, percent: float, calls: int, seed: int) -> tuple[Plan, Plan]:
    """Make A's plan and B's subsample of it; rows with the same arguments share them."""
    plan = make_plan(pool, design="cyclic", calls=f"{percent}%", seed=seed)
    return plan, subsample(plan, calls=calls, seed=seed)


def simulate(case: Case, recorded: RecordedAnswers, *, seed: int) -> Figures:
    """Simulate judges A and B once, and return the figures of their comparison."""
    rng = np.random.default_rng([seed, 11])
    pool, n_agents = recorded.pool, recorded.pool.n_agents
    differences: Floats = np.nan_to_num(recorded.paired)
    plan, subsample_plan = make_plans(pool, case.percent, case.calls, seed)
    if case.noise == "graded":
        p_yes_a = p_yes_b = differences.clip(0, 1)
    elif case.noise in STEPS:
        p_yes_a, p_yes_b = (np.array(steps)[to_grades(differences)] for steps in STEPS[case.noise])
    else:
        p_yes_a, p_yes_b = (np.abs((differences >= 0.5) - float(p_reversed)) for p_reversed in case.noise.split(","))
    worst_first = np.argsort(differences.mean(axis=(0, 2)) + differences.mean(axis=(0, 1)))
    order = {"random": rng.permutation(n_agents), "strongest": worst_first[::-1], "weakest": worst_first}[case.place]
    is_member: Bools = np.zeros(n_agents, dtype=np.bool_)
    is_member[order[: case.family]] = True
    agent_effect = case.own_sd * rng.standard_normal(n_agents)
    off_diagonal = ~np.eye(n_agents, dtype=np.bool_)
    before = (p_yes_b + agent_effect[:, None] + agent_effect)[:, off_diagonal]
    before_clipped = np.clip(before, 0, 1)
    in_family = is_member.astype(np.float64)
    n_family = np.broadcast_to((in_family[:, None] + in_family)[off_diagonal], before_clipped.shape)
    preference = {"none": 0.0, "chance": 0.1, "yes-rate": 0.1}[case.plant]
    for _ in range(8 if case.plant == "yes-rate" else 0):
        preference *= 0.1 / compute_yes_rate_rise(
            before_clipped, np.clip(before + preference * n_family, 0, 1), n_family
        )
    p_yes_shifted = np.zeros_like(p_yes_b)
    p_yes_shifted[:, off_diagonal] = np.clip(before + preference * n_family, 0, 1)
    remaining_rise = compute_yes_rate_rise(before_clipped, p_yes_shifted[:, off_diagonal], n_family)

    index = plan.item, plan.first, plan.second
    verdicts_a = answer_plan(plan, p_yes_a[index], rng)
    verdicts_b = answer_plan(
        subsample_plan, p_yes_shifted[subsample_plan.item, subsample_plan.first, subsample_plan.second], rng
    )
    families = {
        agent: "own" if is_family_member else "other"
        for agent, is_family_member in zip(recorded.rates.agent_ids, is_member, strict=True)
    }
    aligned = AlignedRuns(
        [make_judged_run("A", verdicts_a, families=families), make_judged_run("B", verdicts_b, family="own")]
    )
    shifts = JudgeShifts(aligned, 0, 1, seed=seed)
    family = next(row for row in shifts.families if row.family == "own")
    is_paired = plan.trial_type == PAIRED
    true_rho = float(
        spearmanr(
            fit_agent_effects(plan, p_yes_shifted[index], is_paired),
            fit_agent_effects(plan, verdicts_a.answer, is_paired),
        ).statistic
    )
    is_answered = ~np.isnan(aligned.hard[1])
    low = -np.inf if family.low is None else family.low
    high = np.inf if family.high is None else family.high
    return {
        "claimed": "B" in family.favoured_by,
        "not_identifiable": not family.identifiable,
        "curve_share": family.curve_share or 0.0,
        "shift": family.shift,
        "arrives": remaining_rise,
        "covers": low <= remaining_rise <= high,
        "an_agent_moves": any(agent.significant for agent in shifts.agents),
        "agents_moving": sum(agent.significant for agent in shifts.agents),
        "same": float((aligned.hard[0] == aligned.hard[1])[is_answered].mean()),
        "kappa": cohen_kappa(aligned.hard[0][is_answered], aligned.hard[1][is_answered]),
        "rho_seen": shifts.rho_seen or 0.0,
        "rho_same": shifts.rho_same or 0.0,
        "rho": shifts.rho.rho if shifts.rho else 0.0,
        "rho_true": true_rho,
        "rho_covers": bool(shifts.rho and shifts.rho.low <= true_rho <= shifts.rho.high),
        "rho_excludes_1": bool(shifts.rho and shifts.rho.high < 0.9995),
        "rho_below_ceiling": bool(shifts.rho and shifts.rho.high < shifts.rho.ceiling),
        "rho_ceiling": shifts.rho.ceiling if shifts.rho else 0.0,
        "rho_width": shifts.rho.high - shifts.rho.low if shifts.rho else 0.0,
    }


def fit_agent_effects(plan: Plan, answer: Floats, mask: Bools) -> Floats:
    """Fit answer ≈ x_first + x_second by least squares, and return x (n_agents,)."""
    design = np.zeros((int(mask.sum()), plan.n_agents))
    rows = np.arange(len(design))
    design[rows, plan.first[mask]] = design[rows, plan.second[mask]] = 1
    return np.asarray(np.linalg.lstsq(design, answer[mask], rcond=None)[0])


def share_std_error(share: float, n: int) -> float:
    """Compute the standard error of a share of n; half an observation is added on either side, so that it is positive."""
    p = (share * n + 0.5) / (n + 1)
    return float(np.sqrt(p * (1 - p) / n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--domain", choices=[*DOMAINS, "synthetic"])
    parser.add_argument("--twins", action="store_true", help="measure only two equal judges")
    parser.add_argument("--laxer", action="store_true", help="measure only the weakest five with a laxer second judge")
    parser.add_argument("--smoke", action="store_true", help="run few simulations of the first rows")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    all_cases = TWINS if arguments.twins else LAXER if arguments.laxer else THRESHOLDS + LAXER + BASE + VARIANTS + TWINS
    cases, n_simulations = (BASE[:1] + THRESHOLDS[:1], 2) if arguments.smoke else (all_cases, arguments.simulations)
    cases = [case for case in cases if arguments.domain in (None, case.domain)]
    recorded_by_domain: dict[str, RecordedAnswers] = {}
    for domain in sorted({"PubMed"} | {case.domain for case in cases} & DOMAINS.keys()):
        recorded_by_domain[domain] = load_recorded_answers(domain, arguments.shared)
    pubmed = recorded_by_domain["PubMed"]
    recorded_by_domain["synthetic"] = replace(pubmed, paired=simulate_differences(pubmed.paired.shape))
    table = []
    for case in cases:
        draws = [
            simulate(case, recorded_by_domain[case.domain], seed=arguments.first_seed + number)
            for number in range(n_simulations)
        ]
        means = {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}
        claimed, agent_moves = (
            f"{means[name]:.3f} (SE {share_std_error(means[name], n_simulations):.3f})"
            for name in ("claimed", "an_agent_moves")
        )
        print(
            f"{case.domain}, {case.noise}, {case.place} {case.family}, own SD {case.own_sd}, {case.calls} calls, {case.plant}: "
            f"claimed {claimed}, an agent shifts {agent_moves}, ρ excludes 1 {means['rho_excludes_1']:.3f}, "
            f"below its ceiling {means['rho_below_ceiling']:.3f}",
            file=sys.stderr,
            flush=True,
        )
        table.append(
            asdict(case)
            | {"simulations": n_simulations, "claimed_se": share_std_error(means["claimed"], n_simulations)}
            | means
            | {"shift_sd": float(np.std([draw["shift"] for draw in draws], ddof=1))}
        )
    document = {
        "seeds": f"{arguments.first_seed} … {arguments.first_seed} + simulations − 1",
        "cpu_seconds": time.process_time(),
        "bar": {"claimed, planted": 0.8, "not claimed, none": 0.93, "an agent moves, own_sd 0 and none": 0.07}
        | {"twins: ρ below its ceiling": 0.07},
    }
    print_results(document | {"rows": table}, arguments.out)


if __name__ == "__main__":
    main()
