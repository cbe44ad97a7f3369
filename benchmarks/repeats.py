"""Repeats: do intervals hold the agents' luck, are the parts of the variance found, is an agent told apart from itself?

    python benchmarks/repeats.py [--smoke] [--only coverage,parts,halves,judges,again]

`again`: is the mean answer of a judge that wavers held on these items? It says yes with chance .1 + .8D, D the paper's recorded
answers, and is asked once, or twice or three times as a jury that votes by the mean; or its answers are these chances.
Elsewhere simulated answers: m + a_i + a_k + b_j + c_ij + c_kj + l_ijr + l_kjr' + g_ik + e, all normal, on real plans. Nothing
here was used to choose a constant; how a part's interval is made was chosen on other seeds. Ends with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.special import stdtrit

from recorded import DOMAINS, answers_of, dense_abilities
from youden import make_plan
from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import EstimationRequest, estimate_mean_abilities
from youden.pipeline.multi_judge import is_training_answer, measure_judge_spread, with_judge_variance
from youden.pipeline.ranking import estimate_trial_abilities
from youden.stats.trials.variance_parts import VarianceComponents
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.pool import Floats
from youden.workflows.halves import run_aa_test

TOTAL = 0.12
"""Variance of an answer around agents and items."""


def pool_of(n_agents: int, n_items: int, n_repeats: int) -> Pool:
    texts = np.full((n_agents, n_items), "text", dtype=object)
    agents = tuple(Agent(f"a{k}") for k in range(n_agents))
    return Pool.of_blocks(agents, tuple(Item(f"i{j}") for j in range(n_items)), [texts] * n_repeats, "simulated")


class World:
    """Answers to one plan. of: variances of c, l, g, e."""

    def __init__(self, plan: Plan, rng: np.random.Generator, of: tuple[float, float, float, float]) -> None:
        K, J = plan.n_agents, plan.n_items
        asked = plan.trials if plan.trials.first_repeat is not None else plan.trials.of_first_repeats()
        columns, self.plan = asked.columns(), plan
        R = int(max(columns["first_repeat"].max(), columns["second_repeat"].max()))
        c, luck = rng.normal(0, of[0] ** 0.5, (K, J)), rng.normal(0, of[1] ** 0.5, (R, K, J))
        g = np.triu(rng.normal(0, of[2] ** 0.5, (K, K)), 1)
        self.g = g + g.T
        self.a = rng.normal(0, 0.1, K)
        f, s, j = plan.first, plan.second, plan.item
        own = c[f, j] + c[s, j] + luck[columns["first_repeat"] - 1, f, j] + luck[columns["second_repeat"] - 1, s, j]
        self.answer = 0.5 + self.a[f] + self.a[s] + rng.normal(0, 0.15, J)[j] + own + self.g[f, s]
        self.answer += rng.normal(0, of[3] ** 0.5, len(plan))
        self.answer[plan.arm != PAIRED] = 0.0

    def verdicts(self, more: Floats | float = 0.0) -> Verdicts:
        answer = np.where(self.plan.arm == PAIRED, self.answer + more, 0.0)
        return Verdicts(self.plan, answer, answer, np.zeros(len(answer), np.int8), {"name": "simulated"})

    @property
    def truth(self) -> Floats:
        """Distances of abilities from the average, each agent's mean over its pairs included: float[K]."""
        K = len(self.a)
        ability = (self.a * (K - 2) + self.g.sum(axis=1)) / (K - 1)
        return np.asarray(ability - ability.mean())


def coverage(n: int) -> Iterator[tuple[str, float, bool]]:
    """Of an agent's mean over its luck, on items like these; 12 agents × 60 items, 2,400 calls."""
    for repeats in (1, 2, 5):
        plan = make_plan(pool_of(12, 60, repeats), calls=2400, seed=repeats)
        for share, pairs in ((0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (0.6, 0.0), (0.3, 0.02)):
            inside = []
            for seed in range(n):
                rest = TOTAL * (1 - share)
                of = (rest / 3, share * TOTAL / 2, pairs, rest / 3 - pairs)
                world = World(plan, np.random.default_rng([seed, 1]), of)
                found = estimate_mean_abilities(world.verdicts())
                distance = found.ability - found.ability.mean()
                inside.append(np.abs(distance - world.truth) <= found.covariance.half_width())
            covered = float(np.mean(inside))
            beside = f", pairs {pairs}" if pairs else ""
            yield (
                f"coverage, luck {share:.1f} of an answer{beside}, {repeats} repeats",
                covered,
                0.93 <= covered <= 0.97,
            )


def parts(n: int) -> Iterator[tuple[str, float, bool]]:
    """Each part's mean over the true one, and how often its interval holds it."""
    for calls in (4000, 8000):
        plan = make_plan(pool_of(12, 100, 5), calls=calls, seed=7)
        for name, of in {
            "luck": (0.02, 0.03, 0.004, 0.06),
            "items": (0.04, 0.01, 0.004, 0.04),
            "calls": (0.01, 0.01, 0.004, 0.12),
        }.items():
            truth = {"agent_item": of[0], "response": of[1], "pair": of[2], "residual": of[3] + of[2]}
            ratios: dict[str, list[float]] = {part: [] for part in truth}
            inside: dict[str, list[bool]] = {part: [] for part in truth}
            for seed in range(n):
                world = World(plan, np.random.default_rng([seed, 2]), of)
                result = world.verdicts()
                used, asked = is_training_answer(result), plan.trials.columns()
                found = VarianceComponents(
                    asked["first"][used],
                    asked["second"][used],
                    asked["item"][used],
                    result.answer[used],
                    ability=estimate_mean_abilities(result).ability,
                    n_items=plan.n_items,
                    first_repeat=asked["first_repeat"][used],
                    second_repeat=asked["second_repeat"][used],
                )
                for part, value in truth.items():
                    if (one := getattr(found, part)) is not None:
                        ratios[part].append(one.value / value)
                        inside[part].append(one.low <= value <= one.high)
            for part in truth:
                mean, covered = float(np.mean(ratios[part])), float(np.mean(inside[part]))
                yield f"{part} where {name} move most, {calls} calls: mean over true", mean, 0.85 <= mean <= 1.15
                yield f"{part} where {name} move most, {calls} calls: interval holds it", covered, covered >= 0.93


def halves(n: int) -> Iterator[tuple[str, float, bool]]:
    """12 agents × 5 repeats: one split of each of n pools."""
    plan = make_plan(pool_of(12, 60, 5), calls=2400, seed=3)
    apart, worse = [], []
    for seed in range(n):
        world = World(plan, np.random.default_rng([seed, 3]), (0.03, 0.02, 0.002, 0.05))
        world.answer[plan.arm == PAIRED] *= 0.2  # halves are ranked by a fit of scores, which lie in [−1, 1]
        found = run_aa_test(world.verdicts(), n_splits=1, seed=seed)
        apart.append(found.told_apart)
        worse.append(found.gated_worse)
    yield "halves told apart", float(np.mean(apart)), bool(np.mean(apart) <= 0.05)
    yield "halves gated worse", float(np.mean(worse)), bool(np.mean(worse) <= 0.05)


def half_width_of_another(by_judge: Floats) -> Floats:
    """Half of the 95 % prediction interval of another judge's distances, float[K]: √(1 + 1/M) of what judges differ in and what
    items leave to chance in both, with M − 1 degrees of freedom. by_judge: float[M, K]."""
    M = len(by_judge)
    spread = by_judge - by_judge.mean(axis=1, keepdims=True)
    pooled = float(spread.var(axis=0, ddof=1).mean())
    own = (spread.var(axis=0, ddof=1) * (M - 1) + pooled) / M
    return np.asarray(stdtrit(M - 1, 0.975) * np.sqrt(np.maximum(own, pooled) * (1 + 1 / M)))


def judges(n: int) -> Iterator[tuple[str, float, bool]]:
    """Three judges with errors in common: is the third within what two predict, and do intervals hold the judges' mean?"""
    plan = make_plan(pool_of(12, 60, 1), calls=2400, seed=4)
    for spread in (0.0, 0.03, 0.08):
        predicted, covered, plain = [], [], []
        for seed in range(n):
            rng = np.random.default_rng([seed, 4])
            world = World(plan, rng, (0.03, 0.0, 0.0, 0.03))
            of_judge = rng.normal(0, spread, (3, plan.n_agents))
            told = [
                world.verdicts(own[plan.first] + own[plan.second] + rng.normal(0, 0.1, len(plan))) for own in of_judge
            ]
            all_three = measure_judge_spread(told)
            for out in range(3):
                two = measure_judge_spread([one for judge, one in enumerate(told) if judge != out])
                left = all_three.by_judge[out]
                mean = two.ability
                gap = (left - left.mean()) - (mean - mean.mean())
                predicted.append(np.abs(gap) <= half_width_of_another(two.by_judge))
            off = all_three.ability - all_three.ability.mean() - world.truth
            covered.append(np.abs(off) <= all_three.covariance.half_width())
            one = estimate_mean_abilities(told[0])
            plain.append(np.abs(one.ability - one.ability.mean() - world.truth) <= one.covariance.half_width())
        found = float(np.mean(predicted))
        yield f"a third judge within the prediction of two, spread {spread}", found, found >= 0.90
        yield (
            f"interval that holds items and judges, spread {spread}",
            float(np.mean(covered)),
            bool(np.mean(covered) >= 0.90),
        )
        yield f"(one judge's own interval, spread {spread}: no bar)", float(np.mean(plain)), True


def again(n: int) -> Iterator[tuple[str, float, bool]]:
    """Coverage of distances of the mean answer on these items, at 2 % of the calls and with every comparison asked."""
    for domain, every in product(DOMAINS, (False, True)):
        chance = 0.1 + 0.8 * answers_of(domain).clip(0, 1)
        J, K, _ = chance.shape
        pool, truth = pool_of(K, J, 1), dense_abilities(chance)
        whole = make_plan(pool, calls=f"{2 * (K - 1) * J}/agent") if every else None
        inside: dict[str, list[Floats]] = {asked: [] for asked in ASKED}
        for seed in range(n):
            plan = whole or make_plan(pool, calls="2%", seed=seed)
            for asked, n_votes in ASKED.items():
                result = wavering(plan, chance, n_votes, np.random.default_rng([seed, 5]))
                told = TrialsByItem.from_verdicts(result, votes=True)
                found = estimate_trial_abilities(told, EstimationRequest("these-items"))
                assert found is not None
                found = with_judge_variance(found, told)
                off = found.ability - found.ability.mean() - truth
                inside[asked].append(np.abs(off) <= found.covariance.half_width() + 1e-12)
        for asked, of in inside.items():
            covered, what = (
                float(np.mean(of)),
                f"{domain}, {'every comparison' if every else '2 % of the calls'}, {asked}",
            )
            once = asked == "once"
            yield f"({what}: no bar)" if once else what, covered, once or covered >= 0.93


ASKED = {"once": 1, "twice": 2, "three times": 3, "chances": 0}
"""How often a judge that wavers is asked; chances are its answers themselves."""


def wavering(plan: Plan, chance: Floats, n_votes: int, rng: np.random.Generator) -> Verdicts:
    """chance: float[J, K, K], of a yes; n_votes: 0 for the chances themselves."""
    of = np.where(plan.arm == PAIRED, chance[plan.item, plan.first, plan.second], 0.0)
    votes = (rng.random((n_votes, len(plan))) < of).astype(np.float64)
    answer = votes.mean(axis=0) if n_votes else of
    result = Verdicts(plan, answer, answer, np.zeros(len(plan), np.int8), {"name": "wavers"})
    return replace(result, votes=votes) if n_votes > 1 else result


SECTIONS: dict[str, tuple[Callable[[int], Iterator[tuple[str, float, bool]]], int, int]] = {
    "coverage": (coverage, 300, 20),
    "parts": (parts, 200, 10),
    "halves": (halves, 500, 10),
    "judges": (judges, 200, 10),
    "again": (again, 40, 1),
}
"""What runs, how many draws, and how many in a smoke, whose bars are not looked at."""


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--smoke", action="store_true")
    asked.add_argument("--only", default=",".join(SECTIONS))
    said = asked.parse_args()
    missed = 0
    for name in said.only.split(","):
        run, n, few = SECTIONS[name]
        print(f"{name}: {few if said.smoke else n} draws")
        for what, value, holds in run(few if said.smoke else n):
            missed += not holds
            print(f"  {what:<75} {value:.3f} {'' if holds or said.smoke else 'MISSED'}", flush=True)
    return 1 if missed and not said.smoke else 0


if __name__ == "__main__":
    sys.exit(main())
