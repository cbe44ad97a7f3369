"""Measure how often a run recommends agents if its judge has a signal, and if it has none.

Simulated judges answer default plans of three pools; the paper's recorded judge answers plans of 1, 2 and 5 % of the calls. A
result is a recommendation or a list of candidates. For judges of length, the warning that names length is counted too. The
standard error of a share p of n runs is √(p(1 − p)/n); for a share of 0 or 1, the 95 % bound is 3/n.

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

from cyclic import make_difference_matrix, make_empty_pool
from recorded import DOMAINS, SHARED, read_rates
from youden import make_plan
from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import Abilities, EstimationRequest, agent_differences, summarize_choice
from youden.pipeline.ranking import estimate_or_fit
from youden.pipeline.recommendation import assess_signal, measure_judge_rates, recommend
from youden.pipeline.text_length import MAX_SHARE, follows_length, length_correlation
from youden.stats.judges.length_dependence import length_share
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.types.pool import Agent, Bools, Floats, Item, Positions
from youden.types.results import Rates

POOLS = {"5x30": (5, 30), "9x40": (9, 40), "30x200": (30, 200)}
PERCENTS = (1.0, 2.0, 5.0)


class SimulatedPool:
    """A pool of which only the lengths of the texts are known, with methods that answer a plan as different judges do.

    The logarithm of the length varies by agent (SD 0.4), item (SD 0.3) and text (SD 0.3).
    """

    def __init__(self, n_agents: int, n_items: int, seed: int) -> None:
        self.rng = rng = np.random.default_rng([seed, n_agents, n_items])
        log_length = 4 + rng.normal(0, 0.4, (n_agents, 1)) + rng.normal(0, 0.3, (1, n_items))
        self.length = np.exp(log_length + rng.normal(0, 0.3, (n_agents, n_items))).astype(np.int64)
        self.skill = rng.normal(0, 0.5, n_agents)
        self.ease = rng.normal(0, 0.7, n_items)
        texts = np.full(self.length.shape, "", dtype=object)
        self.pool = Pool(
            tuple(Agent(f"a{k}") for k in range(n_agents)), tuple(Item(f"i{j}") for j in range(n_items)), texts
        )

    def get_lengths(self, plan: Plan) -> tuple[Positions, Positions, Bools]:
        """Return the lengths of the first and second texts, and whether each trial is paired, arrays (n_trials,)."""
        is_paired = plan.trial_type == PAIRED
        second_item = np.where(is_paired, plan.item, plan.other_item)
        return self.length[plan.first, plan.item], self.length[plan.second, second_item], is_paired

    def answer_with_signal(self, plan: Plan) -> Floats:
        """Answer with a signal: TPR about .7, depending on both agents' skill and the item's ease; FPR .02."""
        logit = 0.8 + self.skill[plan.first] + self.skill[plan.second] + self.ease[plan.item]
        draw = self.rng.random(len(plan))
        return np.where(plan.trial_type == PAIRED, draw < 1 / (1 + np.exp(-logit)), draw < 0.02).astype(float)

    def answer_equal_agents(self, plan: Plan) -> Floats:
        """Answer with a signal but equal agents: a result is a type I error of the test of equal abilities."""
        draw = self.rng.random(len(plan))
        yes = draw < 1 / (1 + np.exp(-0.8 - self.ease[plan.item]))
        return np.where(plan.trial_type == PAIRED, yes, draw < 0.02).astype(float)

    def answer_by_coin(self, plan: Plan) -> Floats:
        """Answer by a fair coin."""
        return (self.rng.random(len(plan)) < 0.5).astype(float)

    def answer_with_noise(self, plan: Plan) -> Floats:
        """Answer 60 % of the trials by a fair coin, and the others with a signal."""
        return np.where(self.rng.random(len(plan)) < 0.6, self.answer_by_coin(plan), self.answer_with_signal(plan))

    def answer_by_first_text(self, plan: Plan) -> Floats:
        """Answer by the first text alone: yes for a random half of the texts."""
        is_liked = (self.rng.random(self.length.shape) < 0.5).astype(float)
        return np.asarray(is_liked[plan.first, plan.item])

    def answer_by_first_agent(self, plan: Plan) -> Floats:
        """Answer by the first agent alone: yes with a probability that depends on the agent."""
        p_yes = self.rng.random(len(self.length))
        return (self.rng.random(len(plan)) < p_yes[plan.first]).astype(float)

    def answer_both_long(self, plan: Plan) -> Floats:
        """Answer yes if both texts are longer than the median."""
        first, second, _ = self.get_lengths(plan)
        return (np.minimum(first, second) > np.median(self.length)).astype(float)

    def answer_similar_length(self, plan: Plan) -> Floats:
        """Answer yes if the lengths differ by less than a factor of 1.65."""
        first, second, _ = self.get_lengths(plan)
        return (np.abs(np.log(first / second)) < 0.5).astype(float)

    def warns_of_length(self, plan: Plan, answer: Floats, ability: Floats) -> bool:
        """Return whether a run would warn of length."""
        first, second, paired = self.get_lengths(plan)
        share_by_length = length_share(answer, first, second, paired=paired)
        correlation = length_correlation(ability, self.length.mean(axis=1))
        return share_by_length >= MAX_SHARE or (correlation is not None and follows_length(*correlation))


JUDGES: dict[str, Callable[[SimulatedPool, Plan], Floats]] = {
    "always yes": lambda _, plan: np.ones(len(plan)),
    "always no": lambda _, plan: np.zeros(len(plan)),
    "coin": SimulatedPool.answer_by_coin,
    "position only, by text": SimulatedPool.answer_by_first_text,
    "position only, by agent": SimulatedPool.answer_by_first_agent,
    "length only, both long": SimulatedPool.answer_both_long,
    "length only, alike": SimulatedPool.answer_similar_length,
    "60 % noise": SimulatedPool.answer_with_noise,
    "no noise": SimulatedPool.answer_with_signal,
    "no noise, equal agents": SimulatedPool.answer_equal_agents,
}


def find_recommendation(plan: Plan, answer: Floats) -> tuple[str, Floats]:
    """Return the form of the recommendation by `rank`, and the abilities (n_agents,).

    The selection, which takes most of the time, is skipped if the signal alone rules out a recommendation.
    """
    verdicts = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "simulated"})
    trials = TrialsByItem.from_verdicts(verdicts)
    abilities = estimate_or_fit(trials, EstimationRequest())
    return find_result(trials, abilities, plan.agent_ids), abilities.ability


def find_result(trials: TrialsByItem, abilities: Abilities, agent_ids: tuple[str, ...]) -> str:
    """Return the form of the recommendation from summed answers and the abilities that follow from them."""
    signal = assess_signal(measure_judge_rates(trials), abilities)
    if not (signal.discriminates and signal.separates_agents):
        return "none"
    choice = summarize_choice(abilities, agent_ids, differences=agent_differences(abilities))
    return recommend(choice, signal).form


def proportion_with_error(outcomes: list[bool]) -> list[float]:
    """Return a proportion and its standard error."""
    p = float(np.mean(outcomes))
    return [round(p, 4), round(float(np.sqrt(p * (1 - p) / len(outcomes))), 4)]


def measure_simulated_judges(n_agents: int, n_items: int, *, n_runs: int) -> list[dict[str, object]]:
    """Measure each judge's share of runs with a result, and of runs that warn of length."""
    has_result: dict[str, list[bool]] = {name: [] for name in JUDGES}
    has_unique_best: dict[str, list[bool]] = {name: [] for name in JUDGES}
    has_warning: dict[str, list[bool]] = {name: [] for name in JUDGES}
    n_calls = 0
    for seed in range(n_runs):
        simulated = SimulatedPool(n_agents, n_items, seed)
        plan = make_plan(simulated.pool, seed=seed)
        n_calls = len(plan)
        for name, judge in JUDGES.items():
            answer = judge(simulated, plan)
            form, ability = find_recommendation(plan, answer)
            has_result[name].append(form != "none")
            has_unique_best[name].append(form == "recommended")
            has_warning[name].append(simulated.warns_of_length(plan, answer, ability))
    return [
        {
            "pool": f"{n_agents} × {n_items}",
            "calls": n_calls,
            "runs": n_runs,
            "judge": name,
            "result": proportion_with_error(has_result[name]),
            "recommended": proportion_with_error(has_unique_best[name]),
            "length_warning": proportion_with_error(has_warning[name]),
        }
        for name in JUDGES
    ]


def decode_answers(rates: Rates) -> tuple[Floats, Floats]:
    """Decode the paired and the independent answers 1, .25 and 0 from D, arrays (n_items, n_agents, n_agents) each."""
    D = make_difference_matrix(rates)
    paired = np.select([np.isin(D, (1.0, 0.75)), np.isin(D, (0.25, -0.75))], [1.0, 0.25], 0.0)
    return paired, paired - D


def measure_recorded_judge(domain: str, shared: Path, *, n_seeds: int) -> list[dict[str, object]]:
    """Measure the share of plans with a result, by percent of the calls."""
    rates = read_rates(domain, shared)
    paired, independent = decode_answers(rates)
    pool = make_empty_pool(rates, gaps=0.0, seed=0)
    rows: list[dict[str, object]] = []
    for percent in PERCENTS:
        has_result = []
        for seed in range(n_seeds):
            plan = make_plan(pool, calls=f"{percent}%", seed=seed)
            is_paired = plan.trial_type == PAIRED
            index = plan.item, plan.first, plan.second
            has_result.append(
                find_recommendation(plan, np.where(is_paired, paired[index], independent[index]))[0] != "none"
            )
        rows.append(
            {"domain": domain, "percent": percent, "runs": n_seeds, "result": proportion_with_error(has_result)}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="measure a few runs of one pool")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=[*POOLS, "recorded"], default=[*POOLS, "recorded"])
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_runs, n_seeds, sections = arguments.runs, arguments.seeds, arguments.only
    if arguments.smoke:
        n_runs, n_seeds, sections = 12, 1, ["5x30", "recorded"]
    start = time.monotonic()
    rows = [
        row
        for section in sections
        if section in POOLS
        for row in measure_simulated_judges(*POOLS[section], n_runs=n_runs)
    ]
    skipped = ""
    if "recorded" not in sections:
        skipped = "recorded judge: not selected"
    elif (arguments.shared / "peer-prediction" / "eval_results").is_dir():
        rows += [row for domain in DOMAINS for row in measure_recorded_judge(domain, arguments.shared, n_seeds=n_seeds)]
    else:
        skipped = f"recorded judge: no answers in {arguments.shared}"
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    header = {"seeds": "0 to runs - 1", "skipped": skipped, "seconds": round(time.monotonic() - start)}
    text = f'{json.dumps(header)[:-1]},\n "rows": [\n  {lines}\n ]}}'
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
