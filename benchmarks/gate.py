"""How often `youden gate` errs, and whether the calls it asks for decide, on the paper's judge data replayed.

A paired answer is D, cut to [0, 1]. OLD is drawn at random; NEW is OLD's twin: item by item a fair coin swaps OLD's answers with
those of the agent nearest in ability, so that both are equal over items of this kind and no two items alike. A true difference
is put on top by turning a share of NEW's answers to 0 (or 1). Look 1 is a cyclic plan of 1 % of the dense calls; whoever is
undecided goes on by the calls asked for, on the two alone (`youden extend calls --focus`), or, where none are, by as many calls
again. Margin .05.

worse_1: 'worse' at look 1. worse_ever: at either. pass_ever: better or no worse at either. asked: undecided at look 1 with a
number of calls; decided: of these, those that look 2 decides. items: undecided with more items asked for. percent: median of the
calls asked for, of the dense calls. cells: a plan of the design nlogn, one look, the errors of a fit of trials.

`python benchmarks/gate.py [--runs 400] [--smoke] [--shared FOLDER] [--out FILE]` prints JSON; run r has the seed r.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from recorded import SHARED, world_of
from youden import make_plan
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.extension import add_calls
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.types.pool import Floats
from youden.workflows.gate import MARGIN, GateAnalysis, GateResult, evaluate_agent
from youden.workflows.gate_answers import make_forecaster

DIFFERENCES = (0.0, -0.02, -0.05, -0.1, 0.05)
PERCENT = 1.0


def twins(paired: Floats, new: int, old: int, *, difference: float, rng: np.random.Generator) -> Floats:
    """`paired` (float[J, K, K]) with agent `new` as the twin of `old`, on average `difference` better.

    One in K − 1 of the trials changed for that is also one of `old`, so a little more is changed.
    """
    answers = paired.copy()
    order = np.arange(paired.shape[1])
    order[[new, old]] = old, new
    swapped = rng.random(len(paired)) < 0.5
    answers[swapped] = answers[swapped][:, order][:, :, order]
    own = np.stack([answers[:, new], answers[:, :, new]])
    mean = float(np.delete(own, new, axis=2).mean())
    change = abs(difference) * (len(order) - 1) / (len(order) - 2)
    share = change / (mean if difference < 0 else 1 - mean)
    own[rng.random(own.shape) < share] = 0.0 if difference < 0 else 1.0
    answers[:, new], answers[:, :, new] = own
    return answers


def nearest(paired: Floats, old: int) -> int:
    """The agent whose mean answer is nearest to that of `old`."""
    gap = np.abs(paired.sum(axis=(0, 1)) + paired.sum(axis=(0, 2)) - paired[:, old].sum() - paired[:, :, old].sum())
    gap[old] = np.inf
    return int(gap.argmin())


def looked(plan: Plan, answers: Floats, new: int, old: int, *, look: int) -> GateResult:
    """The gate's verdict on `plan` answered by `answers`."""
    answer = np.where(plan.arm == PAIRED, answers[plan.item, plan.first, plan.second], 0.0)
    result = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "replayed D"})
    found = make_forecaster(result, trial_abilities_from_verdicts(result))(new, old)
    return evaluate_agent(
        found, GateAnalysis("new", look, 0.0), n_asked=1, n_items=plan.n_items, margin=MARGIN, usd=None
    )


def draws(paired: Floats, *, difference: float, n_runs: int, seed: int) -> Iterator[tuple[int, int, int, Floats]]:
    """Seed, new, old and answers of every run."""
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        old = int(rng.integers(paired.shape[1]))
        new = nearest(paired, old)
        yield run, new, old, twins(paired, new, old, difference=difference, rng=rng)


def two_looks(pool: Pool, paired: Floats, *, difference: float, n_runs: int, seed: int) -> dict[str, float | None]:
    """Shares over runs; see above."""
    worse_1 = worse = passed = asked = decided = items = 0
    percents = []
    for run, new, old, answers in draws(paired, difference=difference, n_runs=n_runs, seed=seed):
        plan = make_plan(pool, calls=f"{PERCENT}%", seed=run)
        first = looked(plan, answers, new, old, look=1)
        verdicts = [first.verdict]
        if first.needed is not None:
            wanted = first.needed.calls
            grown = add_calls(plan, calls=wanted or len(plan), focus=(new, old) if wanted else ())
            verdicts.append(looked(grown, answers, new, old, look=2).verdict)
            asked += wanted is not None
            items += wanted is None
            if wanted is not None:
                decided += verdicts[-1] != "undecided"
                percents.append(100 * (len(grown) - len(plan)) / plan.n_dense_calls)
        worse_1 += verdicts[0] == "worse"
        worse += "worse" in verdicts
        passed += bool({"better", "no worse"} & set(verdicts))
    return {
        "worse_1": worse_1 / n_runs,
        "worse_ever": worse / n_runs,
        "pass_ever": passed / n_runs,
        "asked": asked / n_runs,
        "decided": decided / asked if asked else None,
        "items": items / n_runs,
        "percent": float(np.median(percents)) if percents else None,
    }


def one_look_at_cells(pool: Pool, paired: Floats, *, n_runs: int, seed: int) -> dict[str, float]:
    """Equal agents, ranked by the fit."""
    verdicts = []
    for run, new, old, answers in draws(paired, difference=0.0, n_runs=n_runs, seed=seed):
        plan = make_plan(pool, design="nlogn", independent="pooled", holdout=0.0, seed=run)
        verdicts.append(looked(plan, answers, new, old, look=1).verdict)
    return {"worse": verdicts.count("worse") / n_runs, "better": verdicts.count("better") / n_runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--smoke", action="store_true", help="8 runs: seconds")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_runs = 8 if arguments.smoke else arguments.runs
    table: dict[str, dict[str, object]] = {}
    for seed, name in enumerate(("PubMed", "SAMSum")):
        world = world_of(name, arguments.shared)
        paired = np.clip(np.nan_to_num(world.paired), 0, 1)
        table[name] = {
            f"{difference:+g}": two_looks(world.pool, paired, difference=difference, n_runs=n_runs, seed=seed)
            for difference in DIFFERENCES
        }
        table[name]["cells, +0"] = one_look_at_cells(world.pool, paired, n_runs=n_runs, seed=seed)
    text = json.dumps({"runs": n_runs, "margin": MARGIN, "look_1_percent": PERCENT, "gate": table}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
