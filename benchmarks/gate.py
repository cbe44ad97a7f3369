"""Measure the error rates of `youden gate`, and how often the calls that it recommends decide, on recorded judge answers.

A paired answer is D, cut to [0, 1]. OLD is a random agent. NEW is made from OLD: on each item, a fair coin swaps OLD's answers
with those of the agent of nearest ability, so that both are equal over items of this kind and differ on single items. A true
difference is added by setting a share of NEW's answers to 0 (or 1). The first analysis uses a cyclic plan of 1 % of the dense
calls. If it is undecided, the run is extended by the recommended calls on these two agents (`youden extend calls --focus`) or,
if none are recommended, by as many calls as before, and analyzed again. The margin is .05.

- worse_1, worse_ever: share of runs that are 'worse' at the first analysis, and at either
- pass_ever: share that are 'better' or 'no worse' at either analysis
- recommended: share undecided at first with a number of recommended calls; decided: share of these that the second analysis
  decides
- items: share undecided for which more items are recommended
- percent: median of the recommended calls, in percent of the dense calls
- cells: error rates of one analysis of a plan of the design nlogn, ranked by the additive fit

`python benchmarks/gate.py [--runs 400] [--smoke] [--shared FOLDER] [--out FILE]` prints JSON; run r has seed r.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from recorded import SHARED, load_recorded_answers
from results import print_results
from youden import make_plan
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.extension import add_calls
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.types.pool import Floats
from youden.workflows.gate import MARGIN, GateAnalysis, GateResult, evaluate_agent
from youden.workflows.gate_answers import make_forecaster

DIFFERENCES = (0.0, -0.02, -0.05, -0.1, 0.05)
PERCENT = 1.0


def make_new_agent_answers(
    paired: Floats, new: int, old: int, *, difference: float, rng: np.random.Generator
) -> Floats:
    """Return a copy of `paired` in which agent `new` is made from `old` and is better by `difference` on average.

    Since one in K − 1 of the changed trials also belongs to `old`, slightly more answers are changed.
    paired : float array (n_items, n_agents, n_agents)
    """
    answers = paired.copy()
    order = np.arange(paired.shape[1])
    order[[new, old]] = old, new
    swapped = rng.random(len(paired)) < 0.5
    answers[swapped] = answers[swapped][:, order][:, :, order]
    answers_of_new = np.stack([answers[:, new], answers[:, :, new]])
    mean = float(np.delete(answers_of_new, new, axis=2).mean())
    mean_change = abs(difference) * (len(order) - 1) / (len(order) - 2)
    share = mean_change / (mean if difference < 0 else 1 - mean)
    answers_of_new[rng.random(answers_of_new.shape) < share] = 0.0 if difference < 0 else 1.0
    answers[:, new], answers[:, :, new] = answers_of_new
    return answers


def find_nearest_agent(paired: Floats, old: int) -> int:
    """Return the agent whose mean answer is nearest to that of `old`."""
    gap = np.abs(paired.sum(axis=(0, 1)) + paired.sum(axis=(0, 2)) - paired[:, old].sum() - paired[:, :, old].sum())
    gap[old] = np.inf
    return int(gap.argmin())


def run_gate(plan: Plan, answers: Floats, new: int, old: int, *, analysis: int) -> GateResult:
    """Answer the plan, and run analysis number `analysis` of the gate."""
    answer = np.where(plan.trial_type == PAIRED, answers[plan.item, plan.first, plan.second], 0.0)
    verdicts = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "replayed D"})
    forecaster = make_forecaster(verdicts, trial_abilities_from_verdicts(verdicts))(new, old)
    return evaluate_agent(
        forecaster, GateAnalysis("new", analysis, 0.0), n_compared=1, n_items=plan.n_items, margin=MARGIN, usd=None
    )


def iter_runs(paired: Floats, *, difference: float, n_runs: int, seed: int) -> Iterator[tuple[int, int, int, Floats]]:
    """Yield seed, new agent, old agent and answers of each run."""
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        old = int(rng.integers(paired.shape[1]))
        new = find_nearest_agent(paired, old)
        yield run, new, old, make_new_agent_answers(paired, new, old, difference=difference, rng=rng)


def measure_two_analyses(
    pool: Pool, paired: Floats, *, difference: float, n_runs: int, seed: int
) -> dict[str, float | None]:
    """Compute the figures of a true difference, as shares of runs."""
    n_worse_first = n_worse = n_passed = n_recommended = n_decided = n_items_recommended = 0
    percents = []
    for run, new, old, answers in iter_runs(paired, difference=difference, n_runs=n_runs, seed=seed):
        plan = make_plan(pool, calls=f"{PERCENT}%", seed=run)
        first = run_gate(plan, answers, new, old, analysis=1)
        outcomes = [first.outcome]
        if first.required is not None:
            n_calls = first.required.calls
            extended_plan = add_calls(plan, calls=n_calls or len(plan), focus=(new, old) if n_calls else ())
            outcomes.append(run_gate(extended_plan, answers, new, old, analysis=2).outcome)
            n_recommended += n_calls is not None
            n_items_recommended += n_calls is None
            if n_calls is not None:
                n_decided += outcomes[-1] != "undecided"
                percents.append(100 * (len(extended_plan) - len(plan)) / plan.n_dense_calls)
        n_worse_first += outcomes[0] == "worse"
        n_worse += "worse" in outcomes
        n_passed += bool({"better", "no worse"} & set(outcomes))
    return {
        "worse_1": n_worse_first / n_runs,
        "worse_ever": n_worse / n_runs,
        "pass_ever": n_passed / n_runs,
        "recommended": n_recommended / n_runs,
        "decided": n_decided / n_recommended if n_recommended else None,
        "items": n_items_recommended / n_runs,
        "percent": float(np.median(percents)) if percents else None,
    }


def measure_cell_design(pool: Pool, paired: Floats, *, n_runs: int, seed: int) -> dict[str, float]:
    """Compute the error rates for equal agents that are ranked by the additive fit."""
    outcomes = []
    for run, new, old, answers in iter_runs(paired, difference=0.0, n_runs=n_runs, seed=seed):
        plan = make_plan(pool, design="nlogn", independent="pooled", holdout=0.0, seed=run)
        outcomes.append(run_gate(plan, answers, new, old, analysis=1).outcome)
    return {"worse": outcomes.count("worse") / n_runs, "better": outcomes.count("better") / n_runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--smoke", action="store_true", help="measure 8 runs, which takes seconds")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_runs = 8 if arguments.smoke else arguments.runs
    table: dict[str, dict[str, object]] = {}
    for seed, name in enumerate(("PubMed", "SAMSum")):
        recorded = load_recorded_answers(name, arguments.shared)
        paired = np.clip(np.nan_to_num(recorded.paired), 0, 1)
        table[name] = {
            f"{difference:+g}": measure_two_analyses(
                recorded.pool, paired, difference=difference, n_runs=n_runs, seed=seed
            )
            for difference in DIFFERENCES
        }
        table[name]["cells, +0"] = measure_cell_design(recorded.pool, paired, n_runs=n_runs, seed=seed)
    print_results({"runs": n_runs, "margin": MARGIN, "look_1_percent": PERCENT, "gate": table}, arguments.out)


if __name__ == "__main__":
    main()
