"""Measure coverage with repeated responses, estimates of variance components, A/A tests, and predictions of another judge.

`coverage`: coverage of abilities whose variance includes the response sampling variance. `parts`: bias of variance components
and coverage of their intervals. `aa-tests`: rate of significant differences between halves of the responses of one agent.
`judges`: coverage if several judges are combined. `repeated-judging`: coverage of the mean answer of a nondeterministic judge on
these items. The judge answers yes with probability .1 + .8D, where D are the paper's recorded answers. It is queried once, or two
or three times as a jury that averages the answers; or its answers are these probabilities.

Other answers are simulated on real plans: m + a_i + a_k + b_j + c_ij + c_kj + l_ijr + l_kjr' + g_ik + e, all normal. No constant
was chosen by these results; the method of the components' intervals was chosen on other seeds.

    python benchmarks/repeats.py [--smoke] [--only coverage,parts,aa-tests,judges,repeated-judging]

exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.special import stdtrit

from recorded import DOMAINS, compute_dense_abilities, read_answers
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
"""Variance of an answer about the effects of agents and items."""


def make_pool(n_agents: int, n_items: int, n_repeats: int) -> Pool:
    texts = np.full((n_agents, n_items), "text", dtype=object)
    agents = tuple(Agent(f"a{k}") for k in range(n_agents))
    return Pool.from_repeats(agents, tuple(Item(f"i{j}") for j in range(n_items)), [texts] * n_repeats, "simulated")


class SimulatedAnswers:
    """Simulated answers to one plan.

    Parameters
    ----------
    plan : Plan
    rng : numpy.random.Generator
    variances : tuple of four floats
        Variances of c (agent × item), l (response), g (pair) and e (residual).
    """

    def __init__(self, plan: Plan, rng: np.random.Generator, variances: tuple[float, float, float, float]) -> None:
        n_agents, n_items = plan.n_agents, plan.n_items
        trials = plan.trials if plan.trials.first_repeat is not None else plan.trials.with_first_repeats()
        columns, self.plan = trials.columns(), plan
        n_repeats = int(max(columns["first_repeat"].max(), columns["second_repeat"].max()))
        cell_effect = rng.normal(0, variances[0] ** 0.5, (n_agents, n_items))
        response_effect = rng.normal(0, variances[1] ** 0.5, (n_repeats, n_agents, n_items))
        pair_effect = np.triu(rng.normal(0, variances[2] ** 0.5, (n_agents, n_agents)), 1)
        self.g = pair_effect + pair_effect.T
        self.a = rng.normal(0, 0.1, n_agents)
        first, second, item = plan.first, plan.second, plan.item
        cell_part = (
            cell_effect[first, item]
            + cell_effect[second, item]
            + response_effect[columns["first_repeat"] - 1, first, item]
            + response_effect[columns["second_repeat"] - 1, second, item]
        )
        self.answer = (
            0.5
            + self.a[first]
            + self.a[second]
            + rng.normal(0, 0.15, n_items)[item]
            + cell_part
            + self.g[first, second]
        )
        self.answer += rng.normal(0, variances[3] ** 0.5, len(plan))
        self.answer[plan.trial_type != PAIRED] = 0.0

    def verdicts(self, shift: Floats | float = 0.0) -> Verdicts:
        """Return the answers as verdicts, with `shift` added to each paired answer."""
        answer = np.where(self.plan.trial_type == PAIRED, self.answer + shift, 0.0)
        return Verdicts(self.plan, answer, answer, np.zeros(len(answer), np.int8), {"name": "simulated"})

    @property
    def truth(self) -> Floats:
        """Centered true abilities (n_agents,), including the mean effect of each agent's pairs."""
        n_agents = len(self.a)
        ability = (self.a * (n_agents - 2) + self.g.sum(axis=1)) / (n_agents - 1)
        return np.asarray(ability - ability.mean())


def measure_coverage(n_draws: int) -> Iterator[tuple[str, float, bool]]:
    """Measure the coverage of abilities for items like these, with 12 agents × 60 items and 2,400 calls."""
    for repeats in (1, 2, 5):
        plan = make_plan(make_pool(12, 60, repeats), calls=2400, seed=repeats)
        for response_share, pair_variance in ((0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (0.6, 0.0), (0.3, 0.02)):
            inside = []
            for seed in range(n_draws):
                other_variance = TOTAL * (1 - response_share)
                variances = (
                    other_variance / 3,
                    response_share * TOTAL / 2,
                    pair_variance,
                    other_variance / 3 - pair_variance,
                )
                answers = SimulatedAnswers(plan, np.random.default_rng([seed, 1]), variances)
                abilities = estimate_mean_abilities(answers.verdicts())
                centered = abilities.ability - abilities.ability.mean()
                inside.append(np.abs(centered - answers.truth) <= abilities.covariance.half_width())
            covered = float(np.mean(inside))
            suffix = f", pairs {pair_variance}" if pair_variance else ""
            yield (
                f"coverage, response variance {response_share:.1f} of an answer's{suffix}, {repeats} repeats",
                covered,
                0.93 <= covered <= 0.97,
            )


def measure_components(n_draws: int) -> Iterator[tuple[str, float, bool]]:
    """Measure the mean of each estimated component over its true value, and the coverage of its interval."""
    for calls in (4000, 8000):
        plan = make_plan(make_pool(12, 100, 5), calls=calls, seed=7)
        for largest, variances in {
            "response variance": (0.02, 0.03, 0.004, 0.06),
            "agent × item variance": (0.04, 0.01, 0.004, 0.04),
            "residual variance": (0.01, 0.01, 0.004, 0.12),
        }.items():
            true_values = {
                "agent_item": variances[0],
                "response": variances[1],
                "pair": variances[2],
                "residual": variances[3] + variances[2],
            }
            ratios: dict[str, list[float]] = {component: [] for component in true_values}
            inside: dict[str, list[bool]] = {component: [] for component in true_values}
            for seed in range(n_draws):
                answers = SimulatedAnswers(plan, np.random.default_rng([seed, 2]), variances)
                verdicts = answers.verdicts()
                is_used, columns = is_training_answer(verdicts), plan.trials.columns()
                components = VarianceComponents(
                    columns["first"][is_used],
                    columns["second"][is_used],
                    columns["item"][is_used],
                    verdicts.answer[is_used],
                    ability=estimate_mean_abilities(verdicts).ability,
                    n_items=plan.n_items,
                    first_repeat=columns["first_repeat"][is_used],
                    second_repeat=columns["second_repeat"][is_used],
                )
                for component, value in true_values.items():
                    if (estimate := getattr(components, component)) is not None:
                        ratios[component].append(estimate.value / value)
                        inside[component].append(estimate.low <= value <= estimate.high)
            for component in true_values:
                mean = float(np.mean(ratios[component]))
                covered = float(np.mean(inside[component]))
                yield (
                    f"{component} with mainly {largest}, {calls} calls: mean / true value",
                    mean,
                    0.85 <= mean <= 1.15,
                )
                yield (
                    f"{component} with mainly {largest}, {calls} calls: coverage",
                    covered,
                    covered >= 0.93,
                )


def measure_aa_tests(n_draws: int) -> Iterator[tuple[str, float, bool]]:
    """Measure the rate of significant A/A tests: one split of each of n pools with 12 agents × 5 repeats."""
    plan = make_plan(make_pool(12, 60, 5), calls=2400, seed=3)
    significant_rates, worse_rates = [], []
    for seed in range(n_draws):
        answers = SimulatedAnswers(plan, np.random.default_rng([seed, 3]), (0.03, 0.02, 0.002, 0.05))
        # The halves are ranked by a fit of scores, which must lie in [−1, 1].
        answers.answer[plan.trial_type == PAIRED] *= 0.2
        result = run_aa_test(answers.verdicts(), n_splits=1, seed=seed)
        significant_rates.append(result.significant_rate)
        worse_rates.append(result.gated_worse)
    yield "halves significantly different", float(np.mean(significant_rates)), bool(np.mean(significant_rates) <= 0.05)
    yield "halves worse by the gate", float(np.mean(worse_rates)), bool(np.mean(worse_rates) <= 0.05)


def predict_half_width_of_other_judge(by_judge: Floats) -> Floats:
    """Compute half-widths (n_agents,) of 95 % prediction intervals for the centered abilities by another judge.

    √(1 + 1/M) times the SD between M judges, which includes the sampling of items, times Student's t quantile with M − 1 degrees
    of freedom. by_judge : float array (n_judges, n_agents)
    """
    n_judges = len(by_judge)
    centered = by_judge - by_judge.mean(axis=1, keepdims=True)
    pooled_variance = float(centered.var(axis=0, ddof=1).mean())
    agent_variance = (centered.var(axis=0, ddof=1) * (n_judges - 1) + pooled_variance) / n_judges
    return np.asarray(
        stdtrit(n_judges - 1, 0.975) * np.sqrt(np.maximum(agent_variance, pooled_variance) * (1 + 1 / n_judges))
    )


def measure_combined_judges(n_draws: int) -> Iterator[tuple[str, float, bool]]:
    """Measure the prediction of a third judge by two, and the coverage of combined judges.

    Three judges with common errors are simulated.
    """
    plan = make_plan(make_pool(12, 60, 1), calls=2400, seed=4)
    for judge_sd in (0.0, 0.03, 0.08):
        is_predicted, covered, covered_by_one = [], [], []
        for seed in range(n_draws):
            rng = np.random.default_rng([seed, 4])
            answers = SimulatedAnswers(plan, rng, (0.03, 0.0, 0.0, 0.03))
            judge_effects = rng.normal(0, judge_sd, (3, plan.n_agents))
            verdicts = [
                answers.verdicts(effect[plan.first] + effect[plan.second] + rng.normal(0, 0.1, len(plan)))
                for effect in judge_effects
            ]
            three_judges = measure_judge_spread(verdicts)
            for left_out in range(3):
                two_judges = measure_judge_spread(
                    [single for judge, single in enumerate(verdicts) if judge != left_out]
                )
                other_judge = three_judges.by_judge[left_out]
                mean_ability = two_judges.ability
                difference = (other_judge - other_judge.mean()) - (mean_ability - mean_ability.mean())
                is_predicted.append(np.abs(difference) <= predict_half_width_of_other_judge(two_judges.by_judge))
            error = three_judges.ability - three_judges.ability.mean() - answers.truth
            covered.append(np.abs(error) <= three_judges.covariance.half_width())
            single = estimate_mean_abilities(verdicts[0])
            covered_by_one.append(
                np.abs(single.ability - single.ability.mean() - answers.truth) <= single.covariance.half_width()
            )
        predicted_rate = float(np.mean(is_predicted))
        yield (
            f"third judge in the prediction interval of two, spread {judge_sd}",
            predicted_rate,
            predicted_rate >= 0.90,
        )
        yield (
            f"coverage with variance of items and judges, spread {judge_sd}",
            float(np.mean(covered)),
            bool(np.mean(covered) >= 0.90),
        )
        yield f"(coverage by one judge, spread {judge_sd}: no bar)", float(np.mean(covered_by_one)), True


def measure_repeated_judging(n_draws: int) -> Iterator[tuple[str, float, bool]]:
    """Measure the coverage of the mean answer on these items, at 2 % of the calls and with all comparisons."""
    for domain, is_dense in product(DOMAINS, (False, True)):
        p_yes = 0.1 + 0.8 * read_answers(domain).clip(0, 1)
        n_items, n_agents, _ = p_yes.shape
        pool, truth = make_pool(n_agents, n_items, 1), compute_dense_abilities(p_yes)
        dense_plan = make_plan(pool, calls=f"{2 * (n_agents - 1) * n_items}/agent") if is_dense else None
        inside: dict[str, list[Floats]] = {mode: [] for mode in N_VOTES}
        for seed in range(n_draws):
            plan = dense_plan or make_plan(pool, calls="2%", seed=seed)
            for mode, n_votes in N_VOTES.items():
                verdicts = answer_nondeterministically(plan, p_yes, n_votes, np.random.default_rng([seed, 5]))
                trials = TrialsByItem.from_verdicts(verdicts, votes=True)
                abilities = estimate_trial_abilities(trials, EstimationRequest("these-items"))
                assert abilities is not None
                abilities = with_judge_variance(abilities, trials)
                error = abilities.ability - abilities.ability.mean() - truth
                inside[mode].append(np.abs(error) <= abilities.covariance.half_width() + 1e-12)
        for mode, is_covered in inside.items():
            covered = float(np.mean(is_covered))
            label = f"{domain}, {'all comparisons' if is_dense else '2 % of the calls'}, {mode}"
            is_single = mode == "once"
            yield f"({label}: no bar)" if is_single else label, covered, is_single or covered >= 0.93


N_VOTES = {"once": 1, "twice": 2, "three times": 3, "chances": 0}
"""Votes of the nondeterministic judge per trial; 0: the answers are the probabilities."""


def answer_nondeterministically(plan: Plan, p_yes: Floats, n_votes: int, rng: np.random.Generator) -> Verdicts:
    """Answer a plan by the mean of `n_votes` random votes, or by the probabilities if `n_votes` is 0.

    p_yes : float array (n_items, n_agents, n_agents), probability of a yes
    """
    trial_p_yes = np.where(plan.trial_type == PAIRED, p_yes[plan.item, plan.first, plan.second], 0.0)
    votes = (rng.random((n_votes, len(plan))) < trial_p_yes).astype(np.float64)
    answer = votes.mean(axis=0) if n_votes else trial_p_yes
    verdicts = Verdicts(plan, answer, answer, np.zeros(len(plan), np.int8), {"name": "nondeterministic"})
    return replace(verdicts, votes=votes) if n_votes > 1 else verdicts


SECTIONS: dict[str, tuple[Callable[[int], Iterator[tuple[str, float, bool]]], int, int]] = {
    "coverage": (measure_coverage, 300, 20),
    "parts": (measure_components, 200, 10),
    "aa-tests": (measure_aa_tests, 500, 10),
    "judges": (measure_combined_judges, 200, 10),
    "repeated-judging": (measure_repeated_judging, 40, 1),
}
"""Function, number of draws, and number of draws with `--smoke`, whose bars are not checked."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", default=",".join(SECTIONS))
    arguments = parser.parse_args()
    n_missed = 0
    for name in arguments.only.split(","):
        measure, n_draws, n_smoke_draws = SECTIONS[name]
        print(f"{name}: {n_smoke_draws if arguments.smoke else n_draws} draws")
        for label, value, is_met in measure(n_smoke_draws if arguments.smoke else n_draws):
            n_missed += not is_met
            print(f"  {label:<75} {value:.3f} {'' if is_met or arguments.smoke else 'MISSED'}", flush=True)
    return 1 if n_missed and not arguments.smoke else 0


if __name__ == "__main__":
    sys.exit(main())
