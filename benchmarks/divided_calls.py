"""Measure the gain if the variances of a run determine the division of an extension, for judges with a high false-positive rate.

A simulated run has half of the calls. Its extension has the other half, with 7 to 10% independent trials (`default`) or with the
division of `youden extend calls` (`divided`). The false-positive rate of a pair is the sum of one gamma variable per agent, so
that the rates of agents have the mean and the SD that a row states. A paired answer is yes with this rate plus a probability that
depends on the skills of both agents (SD .5) and the ease of the item (SD .7). Intervals are for items like these.

`to_half_width` has the calls with which `youden extend half-width` narrows the intervals of 90% of the agents to three quarters,
by both divisions, and the reached half-width as a multiple of the requested one (mean, standard error and SD over runs with a
divided extension; `default_unreachable` is the number of runs in which no number of calls with the default division is enough).

`rmse` and `half_width` are those of the abilities, `covered` is the coverage of the 95% intervals, and `result` is the share of
runs with a recommendation or candidates. Each value has its standard error over runs.

`python benchmarks/divided_calls.py [--runs 100] [--pool 12x80] [--percents 5 20] [--rates 0.02/0 0.2/0.05] [--smoke]
[--out FILE]` prints JSON. Run number n has seed n.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from no_signal import find_result
from results import print_results
from youden import make_plan
from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import Abilities, EstimationRequest, summarize_rates
from youden.pipeline.call_division import CallDivision, has_dominant_rates
from youden.pipeline.precision import estimate_variance_components
from youden.pipeline.ranking import estimate_or_fit
from youden.protocol.designs.fixed_width import HALF_WIDTH_FRACTION
from youden.protocol.extension import add_calls
from youden.protocol.pooled_trials import count_added_calls
from youden.stats.forecast import find_min_blocks, half_width_quantile, half_widths
from youden.types import INDEPENDENT, PAIRED, Plan, Pool, Verdicts
from youden.types.pool import Agent, Floats, Item, Json
from youden.workflows.extension_width import count_divided_calls

RATES = ("0.02/0", "0.1/0.02", "0.2/0.02", "0.2/0.05", "0.4/0.05")
"""Mean and SD of the false-positive rates of agents."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)


class SimulatedJudge:
    """A judge with a given mean and SD of the false-positive rates of agents."""

    def __init__(self, n_agents: int, n_items: int, mean: float, sd: float, rng: np.random.Generator) -> None:
        self._rng = rng
        part: Floats = np.full(n_agents, mean / 2)
        if sd:
            part = np.asarray(rng.gamma((mean / 2 / sd) ** 2, sd**2 / (mean / 2), n_agents))
        self._pair_rate = np.minimum(part[:, None] + part, 0.9)
        self._signal = 1 - 2 * mean  # the largest possible TPR − FPR
        skill, self._ease = rng.normal(0, 0.5, n_agents), rng.normal(0, 0.7, n_items)
        self._logit = 0.8 + skill[:, None] + skill

        # abilities on the population of items, whose ease is normally distributed
        p_by_ease = self._signal / (1 + np.exp(-self._logit[..., None] - 0.7 * _NODES))
        p = p_by_ease @ (_WEIGHTS / _WEIGHTS.sum())
        ability = (p.sum(axis=1) - np.diag(p)) / (n_agents - 1)
        self.ability = ability - ability.mean()

    def answer(self, plan: Plan, start: int = 0) -> Floats:
        """Answer the trials of a plan from position `start` on."""
        first, second, item = plan.first[start:], plan.second[start:], plan.item[start:]
        is_paired = plan.trial_type[start:] == PAIRED
        signal = self._signal / (1 + np.exp(-self._logit[first, second] - self._ease[item]))
        p_yes = self._pair_rate[first, second] + np.where(is_paired, signal, 0.0)
        return (self._rng.random(len(first)) < p_yes).astype(np.float64)


def make_empty_pool(n_agents: int, n_items: int) -> Pool:
    """Make a pool whose texts are empty."""
    agents, items = (Agent(f"a{k}") for k in range(n_agents)), (Item(f"i{j}") for j in range(n_items))
    return Pool(tuple(agents), tuple(items), np.full((n_agents, n_items), "", dtype=object))


def sum_answers(plan: Plan, answer: Floats) -> TrialsByItem:
    """Sum the answers to a plan by item."""
    reasons = np.zeros(len(plan), dtype=np.int8)
    return TrialsByItem.from_verdicts(Verdicts(plan, answer, np.rint(answer), reasons, {"name": "simulated"}))


def divide(plan: Plan, abilities: Abilities) -> CallDivision | None:
    """Return the division of further calls by the variances of a run; None for the default division."""
    facts = summarize_rates(abilities, plan.agent_ids)
    if facts is None or facts.variance_share is None or facts.calls_to_halve is None:
        return None
    n_paired = int((plan.trial_type == PAIRED).sum())
    division = CallDivision(facts.variance_share, plan.n_agents, n_paired, facts.calls_to_halve / 3)
    is_divided = has_dominant_rates(facts.variance_share, abilities.rates.pooled)
    return division if is_divided else None


def measure_run(pool: Pool, percent: float, mean: float, sd: float, *, seed: int) -> dict[str, dict[str, float]]:
    """Simulate one run and both extensions of it, and return the results of each."""
    judge = SimulatedJudge(pool.n_agents, pool.n_items, mean, sd, np.random.default_rng(seed))
    n_dense = 2 * pool.n_agents * (pool.n_agents - 1) * pool.n_items
    n_calls = round(percent / 100 * n_dense / 2)
    plan = make_plan(pool, calls=n_calls, seed=seed)
    answer = judge.answer(plan)
    division = divide(plan, estimate_or_fit(sum_answers(plan, answer), EstimationRequest()))
    n_divided = division.count_independent(n_calls) if division else None

    figures = {}
    for name, n_independent in (("default", None), ("divided", n_divided)):
        extended = add_calls(plan, calls=n_calls, independent=n_independent)
        trials = sum_answers(extended, np.append(answer, judge.answer(extended, len(plan))))
        abilities = estimate_or_fit(trials, EstimationRequest())
        error = abilities.ability - abilities.ability.mean() - judge.ability
        half_width = abilities.covariance.half_width()
        figures[name] = {
            "square": float((error**2).mean()),
            "half_width": float(half_width.mean()),
            "covered": float((np.abs(error) <= half_width).mean()),
            "result": float(find_result(trials, abilities, extended.agent_ids) != "none"),
            "independent": float((extended.trial_type == INDEPENDENT).mean()),
        }
    if division:
        figures["to_half_width"] = measure_half_width(plan, answer, division, judge)
    return figures


def measure_half_width(plan: Plan, answer: Floats, division: CallDivision, judge: SimulatedJudge) -> dict[str, float]:
    """Extend a run to three quarters of its half-width, and return the calls by both divisions and the reached half-width."""
    reasons = np.zeros(len(plan), dtype=np.int8)
    verdicts = Verdicts(plan, answer, np.rint(answer), reasons, {"name": "simulated"})
    n_blocks = int(plan.block.max()) + 1
    default_components = estimate_variance_components(verdicts)
    present = half_widths(default_components, n_blocks, plan.n_items)
    requested = 0.75 * half_width_quantile(present, HALF_WIDTH_FRACTION)
    max_blocks = (plan.n_agents - 1) * plan.n_items
    default_blocks = find_min_blocks(
        default_components, requested, fraction=HALF_WIDTH_FRACTION, n_items=plan.n_items, max_blocks=max_blocks
    )
    default_calls = np.nan
    if default_blocks is not None:
        n_paired = (default_blocks - n_blocks) * plan.n_agents
        default_calls = count_added_calls(plan, n_paired, n_scored=plan.n_agents)

    components = estimate_variance_components(verdicts, separate_rates=True)
    n_calls, _ = count_divided_calls(components, division, requested, plan=plan)
    extended = add_calls(plan, calls=n_calls, independent=division.count_independent(n_calls))
    trials = sum_answers(extended, np.append(answer, judge.answer(extended, len(plan))))
    reached = estimate_or_fit(trials, EstimationRequest()).covariance.half_width()
    ratio = half_width_quantile(reached, HALF_WIDTH_FRACTION) / requested
    return {"calls": n_calls, "default_calls": default_calls, "reached": ratio}


def summarize_half_widths(rows: list[dict[str, float]]) -> dict[str, Json]:
    """Summarize extensions to a half-width: means over runs, with standard errors, and the SD of the reached half-width."""
    default_calls = np.array([row["default_calls"] for row in rows])
    is_reachable = ~np.isnan(default_calls)
    reached = np.array([row["reached"] for row in rows])
    calls = np.array([row["calls"] for row in rows])
    return {
        "runs": len(rows),
        "default_unreachable": int((~is_reachable).sum()),
        "calls": [round(float(calls.mean())), round(float(calls.std() / np.sqrt(len(rows))))],
        "default_calls": round(float(default_calls[is_reachable].mean())) if is_reachable.any() else None,
        "reached": [
            round(float(value), 3) for value in (reached.mean(), reached.std() / np.sqrt(len(rows)), reached.std())
        ],
    }


def summarize(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    """Average results over runs: each mean with its standard error."""
    summary = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        summary[name] = [float(values.mean()), float(values.std() / np.sqrt(len(rows)))]

    mean_square, std_error = summary.pop("square")
    rmse = float(np.sqrt(mean_square))
    summary["rmse"] = [rmse, std_error / (2 * rmse)]
    return {name: [round(value, 4) for value in figures] for name, figures in summary.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--pool", default="12x80", help="numbers of agents and of items")
    parser.add_argument("--percents", type=float, nargs="+", default=(5.0, 20.0))
    parser.add_argument("--rates", nargs="+", default=RATES)
    parser.add_argument("--smoke", action="store_true", help="measure two runs of a small pool")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_runs, pool_size, percents, rates = arguments.runs, arguments.pool, arguments.percents, arguments.rates
    if arguments.smoke:
        n_runs, pool_size, percents, rates = 2, "8x40", [20.0], ["0.2/0.05"]

    n_agents, n_items = map(int, pool_size.split("x"))
    pool = make_empty_pool(n_agents, n_items)
    table = []
    for rate in rates:
        mean, sd = map(float, rate.split("/"))
        for percent in percents:
            runs = [measure_run(pool, percent, mean, sd, seed=seed) for seed in range(n_runs)]
            for name in ("default", "divided"):
                row = {"pool": pool_size, "fpr": mean, "sd": sd, "percent": percent, "division": name, "runs": n_runs}
                table.append({**row, **summarize([run[name] for run in runs])})
            if to_half_width := [run["to_half_width"] for run in runs if "to_half_width" in run]:
                table[-1]["to_half_width"] = summarize_half_widths(to_half_width)
    print_results({"seeds": "0 to runs - 1", "rows": table}, arguments.out)


if __name__ == "__main__":
    main()
