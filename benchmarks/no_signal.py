"""How often a run recommends agents if its judge has no signal, and if it has: simulated judges on three pools at the default
plan, and the paper's recorded judge at 1, 2 and 5 % of the calls.

A result is a recommendation or candidates. The length-only judges are also checked for the warning that names length. A share has
the standard error √(p(1 − p)/n); for a share of 0 or 1 of n runs the 95 % bound is 3/n.
`python benchmarks/no_signal.py [--smoke] [--runs 400] [--seeds 200] [--only PART …] [--shared FOLDER] [--out FILE]` prints
JSON. The parts are `5x30`, `9x40`, `30x200` and `recorded`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cyclic import decoded, empty_pool
from recorded import DOMAINS, SHARED, rates_of
from youden import make_plan
from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import EstimationRequest, agent_differences, summarize_choice
from youden.pipeline.additive_abilities import fit_trials
from youden.pipeline.ranking import estimate_trial_abilities
from youden.pipeline.recommendation import assess_signal, measure_judge_rates, recommend
from youden.pipeline.text_length import MAX_SHARE, follows_length, length_correlation
from youden.stats.judges.length_dependence import length_share
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.types.pool import Agent, Bools, Floats, Item, Positions

POOLS = {"5x30": (5, 30), "9x40": (9, 40), "30x200": (30, 200)}
PERCENTS = (1.0, 2.0, 5.0)


class Simulated:
    """A pool whose texts are known by their lengths, and what judges answer to a plan of it.

    Agents differ in typical length (SD 0.4 of its log), items (0.3) and texts (0.3) too.
    """

    def __init__(self, n_agents: int, n_items: int, seed: int) -> None:
        self.rng = rng = np.random.default_rng([seed, n_agents, n_items])
        log_length = 4 + rng.normal(0, 0.4, (n_agents, 1)) + rng.normal(0, 0.3, (1, n_items))
        self.length = np.exp(log_length + rng.normal(0, 0.3, (n_agents, n_items))).astype(np.int64)
        self.skill, self.ease = rng.normal(0, 0.5, n_agents), rng.normal(0, 0.7, n_items)
        texts = np.full(self.length.shape, "", dtype=object)
        self.pool = Pool(
            tuple(Agent(f"a{k}") for k in range(n_agents)), tuple(Item(f"i{j}") for j in range(n_items)), texts
        )

    def lengths(self, plan: Plan) -> tuple[Positions, Positions, Bools]:
        """Lengths of the first and the second text of each trial, and which trials are paired."""
        paired = plan.arm == PAIRED
        other = np.where(paired, plan.item, plan.other_item)
        return self.length[plan.first, plan.item], self.length[plan.second, other], paired

    def real(self, plan: Plan) -> Floats:
        """A judge with signal: TPR about .7 by both agents' skill and the item's ease, FPR .02."""
        logit = 0.8 + self.skill[plan.first] + self.skill[plan.second] + self.ease[plan.item]
        draw = self.rng.random(len(plan))
        return np.where(plan.arm == PAIRED, draw < 1 / (1 + np.exp(-logit)), draw < 0.02).astype(float)

    def equal(self, plan: Plan) -> Floats:
        """A judge with signal whose agents are all alike: a result is an error of the test of equal abilities."""
        draw = self.rng.random(len(plan))
        yes = draw < 1 / (1 + np.exp(-0.8 - self.ease[plan.item]))
        return np.where(plan.arm == PAIRED, yes, draw < 0.02).astype(float)

    def coin(self, plan: Plan) -> Floats:
        return (self.rng.random(len(plan)) < 0.5).astype(float)

    def noisy(self, plan: Plan) -> Floats:
        """60 % of the answers are a coin's."""
        return np.where(self.rng.random(len(plan)) < 0.6, self.coin(plan), self.real(plan))

    def first_text(self, plan: Plan) -> Floats:
        """Looks at the first text alone, and likes half of them."""
        likes = (self.rng.random(self.length.shape) < 0.5).astype(float)
        return np.asarray(likes[plan.first, plan.item])

    def first_agent(self, plan: Plan) -> Floats:
        """Looks at the first text alone, and likes some agents' style more."""
        likes = self.rng.random(len(self.length))
        return (self.rng.random(len(plan)) < likes[plan.first]).astype(float)

    def both_long(self, plan: Plan) -> Floats:
        first, second, _ = self.lengths(plan)
        return (np.minimum(first, second) > np.median(self.length)).astype(float)

    def alike_in_length(self, plan: Plan) -> Floats:
        first, second, _ = self.lengths(plan)
        return (np.abs(np.log(first / second)) < 0.5).astype(float)

    def by_length(self, plan: Plan, answer: Floats, ability: Floats) -> bool:
        """Whether a run would warn of length."""
        first, second, paired = self.lengths(plan)
        share = length_share(answer, first, second, paired=paired)
        correlation = length_correlation(ability, self.length.mean(axis=1))
        return share >= MAX_SHARE or (correlation is not None and follows_length(*correlation))


JUDGES: dict[str, Callable[[Simulated, Plan], Floats]] = {
    "always yes": lambda world, plan: np.ones(len(plan)),
    "always no": lambda world, plan: np.zeros(len(plan)),
    "coin": Simulated.coin,
    "position only, by text": Simulated.first_text,
    "position only, by agent": Simulated.first_agent,
    "length only, both long": Simulated.both_long,
    "length only, alike": Simulated.alike_in_length,
    "60 % noise": Simulated.noisy,
    "no noise": Simulated.real,
    "no noise, equal agents": Simulated.equal,
}


def recommended(plan: Plan, answer: Floats) -> tuple[str, Floats]:
    """The form of the recommendation that `rank` makes, and abilities in the order of the plan's agents.

    The selection, which takes most of the time, is left out if the signal alone rules a recommendation out.
    """
    result = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "simulated"})
    trials = TrialsByItem.from_verdicts(result)
    found = estimate_trial_abilities(trials, EstimationRequest()) or fit_trials(trials).abilities
    signal = assess_signal(measure_judge_rates(trials), found)
    if not (signal.discriminates and signal.separates_agents):
        return "none", found.ability
    choice = summarize_choice(found, plan.agent_ids, differences=agent_differences(found))
    return recommend(choice, signal).form, found.ability


def share(found: list[bool]) -> list[float]:
    """A share and its standard error."""
    p = float(np.mean(found))
    return [round(p, 4), round(float(np.sqrt(p * (1 - p) / len(found))), 4)]


def simulated(n_agents: int, n_items: int, *, n_runs: int) -> list[dict[str, object]]:
    """Each judge's share of runs with a result, and of runs that warn of length."""
    stated: dict[str, list[bool]] = {name: [] for name in JUDGES}
    unique: dict[str, list[bool]] = {name: [] for name in JUDGES}
    warned: dict[str, list[bool]] = {name: [] for name in JUDGES}
    n_calls = 0
    for seed in range(n_runs):
        world = Simulated(n_agents, n_items, seed)
        plan = make_plan(world.pool, seed=seed)
        n_calls = len(plan)
        for name, judge in JUDGES.items():
            answer = judge(world, plan)
            form, ability = recommended(plan, answer)
            stated[name].append(form != "none")
            unique[name].append(form == "recommended")
            warned[name].append(world.by_length(plan, answer, ability))
    return [
        {
            "pool": f"{n_agents} × {n_items}",
            "calls": n_calls,
            "runs": n_runs,
            "judge": name,
            "result": share(stated[name]),
            "recommended": share(unique[name]),
            "length_warning": share(warned[name]),
        }
        for name in JUDGES
    ]


def recorded(domain: str, shared: Path, *, n_seeds: int) -> list[dict[str, object]]:
    """The share of plans with a result, by percent of the calls."""
    rates = rates_of(domain, shared)
    paired, independent = decoded(rates)
    pool = empty_pool(rates, gaps=0.0, seed=0)
    found: list[dict[str, object]] = []
    for percent in PERCENTS:
        stated = []
        for seed in range(n_seeds):
            plan = make_plan(pool, calls=f"{percent}%", seed=seed)
            is_paired = plan.arm == PAIRED
            at = plan.item, plan.first, plan.second
            stated.append(recommended(plan, np.where(is_paired, paired[at], independent[at]))[0] != "none")
        found.append({"domain": domain, "percent": percent, "runs": n_seeds, "result": share(stated)})
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--smoke", action="store_true", help="A few runs of one pool.")
    asked.add_argument("--runs", type=int, default=400)
    asked.add_argument("--seeds", type=int, default=200)
    asked.add_argument("--only", nargs="+", choices=[*POOLS, "recorded"], default=[*POOLS, "recorded"])
    asked.add_argument("--shared", type=Path, default=SHARED)
    asked.add_argument("--out", type=Path)
    given = asked.parse_args()
    n_runs, n_seeds, parts = given.runs, given.seeds, given.only
    if given.smoke:
        n_runs, n_seeds, parts = 12, 1, ["5x30", "recorded"]
    started = time.monotonic()
    rows = [row for part in parts if part in POOLS for row in simulated(*POOLS[part], n_runs=n_runs)]
    skipped = ""
    if "recorded" not in parts:
        skipped = "recorded judge: not asked for"
    elif (given.shared / "peer-prediction" / "eval_results").is_dir():
        rows += [row for domain in DOMAINS for row in recorded(domain, given.shared, n_seeds=n_seeds)]
    else:
        skipped = f"recorded judge: no answers in {given.shared}"
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    head = {"seeds": "0 to runs - 1", "skipped": skipped, "seconds": round(time.monotonic() - started)}
    text = f'{json.dumps(head)[:-1]},\n "rows": [\n  {lines}\n ]}}'
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
