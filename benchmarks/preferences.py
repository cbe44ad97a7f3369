"""Measure intervals, ranks and speed of the preference model on simulated battles.

`coverage`: coverage of the 95 % intervals of abilities and of their differences in cyclic plans of the default budget. A judge
with known abilities from −.15 to .15 answers with an agent × item interaction (uniform, ±.1), a position effect and ties.

`logistic`: mean Spearman correlation with the truth if it follows the Bradley–Terry model, of the preference model and of the
fitted Bradley–Terry model, for cyclic plans and for battles of unequal numbers (`popular`: a few agents have most battles) or
between neighbors in rank only (`neighbors`). `worse` lists the rows in which the identity link is worse by more than .01.

`evalica`, if it is installed: whether its Bradley–Terry ranks equal those of `fit_bradley_terry` on simulated battles of 100
agents (`--battles` of them; 0 omits this part), and CPU seconds from a CSV file of battles to intervals of abilities, against its
fit and bootstrap (100 resamples, percentile intervals).

`gate`: a run of all agents but one is extended by this one, which a gate then compares with another agent; if it is undecided, it
is extended by the calls that the gate recommends. Coverage of the interval after each extension (levels 95 and 97.5 %), and the
share of the second analyses that decide.

`search`: coverage of the selection-adjusted 95 % interval of the selected agent's ability and of the regret bound, after searches
in rounds (`adaptive`), to a maximum regret of .1 (`regret`), and by extensions of a cyclic run on fewer and fewer contenders
(`extended`). The share `best` selects the best agent; `calls` is the mean number of calls.

`python benchmarks/preferences.py [--draws 200] [--seed 1] [--battles 1000000] [--parts coverage,logistic,gate,search] [--smoke]
[--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from results import print_results
from youden import make_plan
from youden.data.importers.battles import read_battles
from youden.pipeline.abilities import agent_differences, select_best_agents
from youden.pipeline.ranking import estimate_abilities, trial_abilities_from_verdicts
from youden.pipeline.rounds import run_rounds
from youden.protocol.designs.adaptive import select_contenders
from youden.protocol.designs.cyclic import Cyclic
from youden.protocol.extension import add_agents, add_calls
from youden.stats import spearman
from youden.stats.trials.comparisons import pairwise_differences
from youden.stats.trials.preferences import fit_bradley_terry, fit_preferences
from youden.types import Agent, Item, Plan, Pool, Verdicts
from youden.types.pool import Floats, Ids, Json
from youden.workflows.gate import GateAnalysis, GateResult, evaluate_agent
from youden.workflows.gate_answers import make_forecaster

POOLS = ((5, 30), (12, 80), (30, 200))
SMALL_POOLS = ((6, 80), (10, 120))
POSITION_EFFECTS = (0.0, 0.1, 0.2)
TIES = (0.0, 0.15, 0.3)
TRIALS_PER_AGENT = 450
BAR = (0.935, 0.97)


class Battles(NamedTuple):
    """Battles as columns: agents whose responses come first and second, and items."""

    first: Ids
    second: Ids
    item: Ids


def draw_cyclic(n_agents: int, n_items: int, rng: np.random.Generator) -> Battles:
    """Draw a cyclic plan of the default budget."""
    n_paired = min(TRIALS_PER_AGENT * n_agents // 2, n_agents * (n_agents - 1) * n_items)
    trials = Cyclic(n_paired).draw(np.ones((n_agents, n_items), dtype=np.bool_), rng).trials
    return Battles(trials.first, trials.second, trials.item)


def draw_popular(n_agents: int, n_items: int, rng: np.random.Generator) -> Battles:
    """Draw random pairs, in which agents occur in proportion to 1/number."""
    share = 1 / np.arange(1, n_agents + 1)
    pairs = np.array([rng.choice(n_agents, 2, replace=False, p=share / share.sum()) for _ in range(20 * n_agents)])
    return _on_random_items(pairs, n_items, rng)


def draw_neighbors(n_agents: int, n_items: int, rng: np.random.Generator) -> Battles:
    """Draw pairs of agents that differ by at most 2 ranks."""
    first = rng.integers(0, n_agents - 2, 20 * n_agents)
    pairs = np.stack([first, first + rng.integers(1, 3, len(first))], axis=1)
    return _on_random_items(pairs, n_items, rng)


def _on_random_items(pairs: Ids, n_items: int, rng: np.random.Generator) -> Battles:
    """Put pairs, int (n, 2), in random orders on random items."""
    ordered = rng.permuted(pairs, axis=1).astype(np.int32)
    return Battles(ordered[:, 0], ordered[:, 1], rng.integers(0, n_items, len(pairs)).astype(np.int32))


def answer(mean: Floats, tie: float, rng: np.random.Generator) -> Floats:
    """Draw answers of mean (1 + `mean`)/2, of which the fraction `tie` are ties."""
    p_first = ((1 - tie) + mean) / 2
    uniform = rng.random(mean.shape)
    return np.where(uniform < p_first, 1.0, np.where(uniform < p_first + tie, 0.5, 0.0))


def measure_coverage(K: int, J: int, *, position: float, tie: float, n_draws: int, seed: int) -> dict[str, float]:
    """Measure the coverage of abilities, differences and the position effect, with standard errors over draws."""
    rng = np.random.default_rng([seed, K, round(100 * position), round(100 * tie)])
    theta = np.linspace(0.15, -0.15, K)
    covered = np.empty((n_draws, 3))
    for draw in range(n_draws):
        battles = draw_cyclic(K, J, rng)
        cell = theta[:, None] + rng.uniform(-0.1, 0.1, (K, J))
        mean = cell[battles.first, battles.item] - cell[battles.second, battles.item] + position
        fit = fit_preferences(*battles, answer(mean, tie, rng), n_agents=K)
        half_width = fit.covariance.half_width()
        differences = pairwise_differences(fit.ability, fit.covariance, level=0.95)
        true_difference = theta[:, None] - theta
        in_interval = np.abs(differences.value - true_difference) <= differences.half_width
        effect = fit.position_effect
        covered[draw] = (
            (np.abs(fit.ability - theta) <= half_width).mean(),
            in_interval[~np.eye(K, dtype=np.bool_)].mean(),
            effect.low <= position <= effect.high,
        )
    std_error = covered.std(axis=0, ddof=1) / np.sqrt(n_draws)
    names = ("ability", "difference", "position_effect")
    row = dict(zip(names, covered.mean(axis=0).tolist(), strict=True))
    return row | {f"{name}_se": error for name, error in zip(names, std_error.tolist(), strict=True)}


def make_pool(n_agents: int, n_items: int) -> Pool:
    """Make a pool of agents and items without content."""
    texts = np.full((n_agents, n_items), "x", dtype=object)
    return Pool(tuple(Agent(f"a{i}") for i in range(n_agents)), tuple(Item(f"i{j}") for j in range(n_items)), texts)


class Judge:
    """A judge of known abilities, with interactions and ties, whose answers to the same trial are the same."""

    def __init__(self, K: int, J: int, *, position: float, tie: float, rng: np.random.Generator) -> None:
        self.ability = rng.permutation(np.linspace(0.15, -0.15, K))
        cell = self.ability[:, None] + rng.uniform(-0.1, 0.1, (K, J))
        self.answers = answer(cell[:, None] - cell + position, tie, rng)

    def __call__(self, plan: Plan) -> Verdicts:
        """Answer a plan."""
        answers = self.answers[plan.first, plan.second, plan.item]
        return Verdicts(plan, answers, np.rint(answers), np.zeros(len(plan), dtype=np.int8), {"name": "simulated"})


def share_of(flags: list[bool], name: str) -> dict[str, float]:
    """Return a share with its standard error and the number of cases."""
    values = np.array(flags, dtype=np.float64)
    return {
        name: float(values.mean()),
        f"{name}_se": float(values.std() / np.sqrt(len(values))),
        f"{name}_n": len(values),
    }


def run_gate(judge: Judge, plan: Plan, new: int, old: int, *, analysis: int) -> tuple[GateResult, bool]:
    """Run analysis number `analysis` of a gate, and return its result and whether its interval covers the true difference."""
    verdicts = judge(plan)
    forecast = make_forecaster(verdicts, trial_abilities_from_verdicts(verdicts))(new, old)
    which = GateAnalysis("new", analysis, 0.0)
    result = evaluate_agent(forecast, which, n_compared=1, n_items=plan.n_items, margin=0.2, usd=None)
    assert result.low is not None
    assert result.high is not None
    return result, bool(result.low <= judge.ability[new] - judge.ability[old] <= result.high)


def measure_gate(K: int, J: int, *, n_draws: int, seed: int) -> dict[str, float]:
    """Measure the coverage of the gate's interval after an agent has joined, and after the recommended calls."""
    pool = make_pool(K, J)
    first_pool = replace(pool, agents=pool.agents[:-1], texts=pool.texts[:-1])
    covered: tuple[list[bool], list[bool]] = [], []
    decided = []
    for draw in range(n_draws):
        judge = Judge(K, J, position=0.1, tie=0.15, rng=np.random.default_rng([seed, K, J, draw]))
        new, old = K - 1, draw % (K - 1)
        plan = add_agents(make_plan(first_pool, calls="100/agent", seed=draw, question="preference"), pool)
        result, is_covered = run_gate(judge, plan, new, old, analysis=1)
        covered[0].append(is_covered)
        if result.required is not None and result.required.calls:
            longer = add_calls(plan, calls=result.required.calls, focus=(new, old))
            result, is_covered = run_gate(judge, longer, new, old, analysis=2)
            covered[1].append(is_covered)
            decided.append(result.outcome != "undecided")
    row = share_of(covered[0], "joined")
    if decided:
        row |= share_of(covered[1], "focused") | share_of(decided, "decided")
    return row


def search_by_extensions(judge: Judge, plan: Plan, n_rounds: int = 5) -> Plan:
    """Extend a plan in rounds by calls on fewer and fewer contenders."""
    n_calls = len(plan) // n_rounds
    for number in range(1, n_rounds + 1):
        ability = estimate_abilities(judge(plan)).ability
        contenders = np.flatnonzero(select_contenders(ability, 1, number / n_rounds))
        plan = add_calls(plan, calls=n_calls, focus=tuple(contenders.tolist()), top=1)
    return plan


def measure_search(K: int, J: int, *, kind: str, n_draws: int, seed: int) -> dict[str, float]:
    """Measure the coverage of the selection-adjusted interval and of the regret bound after a search."""
    pool = make_pool(K, J)
    options: dict[str, Json] = {"max_regret": 0.1} if kind == "regret" else {}
    in_interval, in_bound, is_best, n_calls = [], [], [], []
    for draw in range(n_draws):
        judge = Judge(K, J, position=0.1, tie=0.15, rng=np.random.default_rng([seed, K, J, draw, len(kind)]))
        if kind == "extended":
            plan = make_plan(pool, calls="150/agent", seed=draw, question="preference")
            verdicts = judge(search_by_extensions(judge, plan))
        else:
            plan = make_plan(
                pool, design="adaptive", calls="300/agent", options=options, seed=draw, question="preference"
            )
            verdicts = run_rounds(plan, judge)
        abilities = estimate_abilities(verdicts)
        selection = select_best_agents(abilities, agent_differences(abilities))
        assert selection is not None
        ability = judge.ability[selection.agents[0]]
        in_interval.append(selection.ability_low <= ability <= selection.ability_high)
        in_bound.append(judge.ability.max() - ability <= selection.regret_bound + 1e-12)
        is_best.append(bool(ability == judge.ability.max()))
        n_calls.append(len(verdicts.plan))
    row = share_of(in_interval, "interval") | share_of(in_bound, "regret_bound") | share_of(is_best, "best")
    return row | {"calls": float(np.mean(n_calls))}


def measure_ranks(K: int, J: int, *, battles: str, tie: float, n_draws: int, seed: int) -> dict[str, float]:
    """Measure the mean rank correlations with the truth if it is logistic, and the standard error of their difference."""
    draw_battles = {"cyclic": draw_cyclic, "popular": draw_popular, "neighbors": draw_neighbors}[battles]
    rng = np.random.default_rng([seed, K, len(battles), round(100 * tie)])
    rho = np.empty((n_draws, 2))
    for draw in range(n_draws):
        strength = np.sort(rng.normal(0, 1, K))[::-1]
        drawn = draw_battles(K, J, rng)
        if battles == "popular":  # popularity is unrelated to strength
            strength = rng.permutation(strength)
        p_win = expit(strength[drawn.first] - strength[drawn.second] + 0.2)
        answers = answer((1 - tie) * (2 * p_win - 1), tie, rng)
        fit = fit_preferences(*drawn, answers, n_agents=K)
        bradley_terry = fit_bradley_terry(drawn.first, drawn.second, answers, n_agents=K)
        rho[draw] = [spearman(estimate, strength).value for estimate in (fit.ability, bradley_terry)]
    difference = rho[:, 0] - rho[:, 1]
    return {
        "preference": float(rho[:, 0].mean()),
        "bradley_terry": float(rho[:, 1].mean()),
        "difference": float(difference.mean()),
        "difference_se": float(difference.std(ddof=1) / np.sqrt(n_draws)),
    }


def measure_against_evalica(n: int, seed: int) -> dict[str, object]:
    """Compare ranks and seconds with evalica on `n` battles of 100 agents."""
    import evalica

    rng = np.random.default_rng([seed, n])
    strength = rng.normal(0, 1, 100)
    first = rng.integers(0, 100, n)
    second = (first + rng.integers(1, 100, n)) % 100
    wins = rng.random(n) < expit(strength[first] - strength[second])
    names = np.array([f"m{k:02}" for k in range(100)])
    winner = np.where(wins, "model_a", "model_b")
    table = pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "battles.csv"
        table.to_csv(file, index=False)
        start = process_time()
        result = read_battles(file, columns={})
        plan = result.plan
        fit = fit_preferences(plan.first, plan.second, plan.item, result.answer, n_agents=100)
        seconds = process_time() - start
    assert (fit.covariance.std_error > 0).all()

    ours = fit_bradley_terry(plan.first, plan.second, result.answer, n_agents=100, position_effect=False)
    columns = table["model_a"], table["model_b"], [evalica.Winner.X if won else evalica.Winner.Y for won in wins]
    start = process_time()
    scores = evalica.bradley_terry(*columns).scores
    evalica.bootstrap(
        evalica.bradley_terry, *columns, n_resamples=100, bootstrap_method="percentile", random_state=seed
    )
    evalica_seconds = process_time() - start
    return {
        "battles": n,
        "same_ranks": names[np.argsort(-ours)].tolist() == scores.sort_values(ascending=False).index.tolist(),
        "seconds": seconds,
        "evalica_seconds": evalica_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--battles", type=int, default=1_000_000)
    parser.add_argument("--parts", default="coverage,logistic,gate,search", help="parts to run, separated by commas")
    parser.add_argument("--smoke", action="store_true", help="run few simulations")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_draws = 4 if arguments.smoke else arguments.draws
    pools = POOLS[:2] if arguments.smoke else POOLS

    parts = arguments.parts.split(",")
    coverage = {}
    for (K, J), position, tie in product(pools if "coverage" in parts else (), POSITION_EFFECTS, TIES):
        row = measure_coverage(K, J, position=position, tie=tie, n_draws=n_draws, seed=arguments.seed)
        coverage[f"{K}×{J}, position {position:g}, ties {tie:.0%}"] = row
    logistic = {}
    for (K, J), battles, tie in product(
        pools if "logistic" in parts else (), ("cyclic", "popular", "neighbors"), (0.0, 0.3)
    ):
        row = measure_ranks(K, J, battles=battles, tie=tie, n_draws=n_draws, seed=arguments.seed)
        logistic[f"{K}×{J}, {battles}, ties {tie:.0%}"] = row

    gate, search = {}, {}
    for K, J in SMALL_POOLS[:1] if arguments.smoke else SMALL_POOLS:
        if "gate" in parts:
            gate[f"{K}×{J}"] = measure_gate(K, J, n_draws=n_draws, seed=arguments.seed)
        for kind in ("adaptive", "regret", "extended") if "search" in parts else ():
            search[f"{K}×{J}, {kind}"] = measure_search(K, J, kind=kind, n_draws=n_draws, seed=arguments.seed)

    covers = [BAR[0] <= row[name] <= BAR[1] for row in coverage.values() for name in ("ability", "difference")]
    results: dict[str, object] = {
        "draws": n_draws,
        "seed": arguments.seed,
        "bar": BAR,
        "meets_bar": all(covers),
        "worse": [name for name, row in logistic.items() if row["difference"] < -0.01],
        "coverage": coverage,
        "logistic": logistic,
        "gate": gate,
        "search": search,
    }
    if find_spec("evalica") is not None and arguments.battles:
        n_battles = 10_000 if arguments.smoke else arguments.battles
        results["evalica"] = measure_against_evalica(n_battles, arguments.seed)
    print_results(results, arguments.out)


if __name__ == "__main__":
    main()
