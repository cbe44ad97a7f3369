"""Whether a calibration's intervals hold and its rule refuses what it should: judges of known TPR, FPR and order bias on
field-notes and SAMSum, 150 calls each, over seeds that draw a new plan, new trials and new answers.

It knows the judges' rates, for it makes their answers as arrays from them and goes the way of `youden calibrate` from there on
(`measure`, `decide`); `lexical` is really asked, and one scripted judge goes through the engine to show that both ways agree.
On SAMSum GPT-4o-mini's public answers are replayed too, whose rates differ by agent and item. Without the paper's data beside the
checkout, field-notes alone.
`python benchmarks/calibrate.py [--draws 300] [--calls 150] [--smoke] [--shared FOLDER] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from youden import make_plan, read_pool
from youden.data.importers.peer_prediction import import_agents, import_results
from youden.judging.backends.lexical import Lexical
from youden.judging.config.judge_files import load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.store.answers import open_store
from youden.types import PAIRED, Completion, Pool, Request, Verdicts
from youden.types.pool import Bools, Floats
from youden.workflows.calibration_outcome import Measures, decide, measure
from youden.workflows.calibration_trials import CalibrationTrials, draw_calibration_trials

HERE = Path(__file__).parents[1]
SHARED = HERE.parent / "shared" / "peer-prediction"
TEXTS = "data/agents/summarization_gpt_4o_mini_20250708_235208.json"
ANSWERS = "eval_results/samsum_200_config_results"

QUANTITIES = ("tpr", "fpr", "j", "longer_first", "changed", "changed_again", "beyond")


@dataclass(frozen=True)
class KnownJudge:
    """A judge of known rates. P(yes) on a paired trial is tpr ± order/2, + with the longer text first; on an independent one fpr.
    Of its answers a share `fresh` is drawn anew each time it is asked; the others depend on the pair alone, so that they change
    with the order as little as they can."""

    tpr: float
    fpr: float
    order: float
    fresh: float

    def truth(self) -> dict[str, float]:
        """What each quantity is in the long run."""
        one, other, stays = self.tpr + self.order / 2, self.tpr - self.order / 2, (1 - self.fresh) ** 2
        changed = stays * abs(self.order) + (1 - stays) * (one * (1 - other) + other * (1 - one))
        again = (1 - stays) * (one * (1 - one) + other * (1 - other))
        return {
            "tpr": self.tpr,
            "fpr": self.fpr,
            "j": self.tpr - self.fpr,
            "longer_first": self.order,
            "changed": changed,
            "changed_again": again,
            "beyond": changed - again,
        }

    def answers(self, known: CalibrationTrials, rng: np.random.Generator) -> Floats:
        """0 or 1 a trial; copies get a yes, templates a no."""
        one, two = lengths(known)
        p = np.where(known.plan.arm == PAIRED, self.tpr + np.sign(one - two) * self.order / 2, self.fpr)
        p[known.rows("itself", "clone")], p[known.rows("template")] = 1.0, 0.0
        u = rng.random(len(p))
        u = np.where(known.original >= 0, u[known.original], u)
        return np.asarray(np.where(rng.random(len(p)) < self.fresh, rng.random(len(p)), u) < p, dtype=np.float64)


JUDGES = {
    "sharp": KnownJudge(0.9, 0.02, 0.0, 0.3),
    "usual": KnownJudge(0.75, 0.05, 0.1, 0.2),
    "swayed": KnownJudge(0.6, 0.03, 0.3, 0.3),
    "loose": KnownJudge(0.8, 0.15, -0.2, 0.5),
    "strict": KnownJudge(0.5, 0.02, -0.1, 0.1),
}


def lengths(known: CalibrationTrials) -> tuple[Floats, Floats]:
    """Characters of the first and of the second texts."""
    plan = known.plan
    length = np.array([[len(text or "") for text in row] for row in known.pool.texts], dtype=np.float64)
    other = np.where(plan.other_item >= 0, plan.other_item, plan.item)
    return length[plan.first, plan.item], length[plan.second, other]


def alike(share: float) -> Callable[[CalibrationTrials, np.random.Generator], Bools]:
    """Yes where the shorter text has at least this share of the longer one's characters."""

    def answer(known: CalibrationTrials, _: np.random.Generator) -> Bools:
        one, two = lengths(known)
        return np.asarray(np.minimum(one, two) >= share * np.maximum(one, two))

    return answer


def _both_long(known: CalibrationTrials, _: np.random.Generator) -> Bools:
    one, two = lengths(known)
    return np.asarray(np.minimum(one, two) >= np.median([one, two]))


def _longer_first(known: CalibrationTrials, _: np.random.Generator) -> Bools:
    one, two = lengths(known)
    return np.asarray(one >= two)


@dataclass(frozen=True, eq=False)
class Replayed:
    """GPT-4o-mini's answers: yes where D of the ordered pair on the item is ½ or more; no to all independent trials."""

    yes: Bools
    length: Floats

    @classmethod
    def of(cls, pool: Pool, folder: Path) -> Replayed:
        """yes: bool[J, K, K]; length: float[K, J], characters."""
        rates = import_results(folder).rates
        yes = np.zeros((rates.n_items, rates.n_agents, rates.n_agents), dtype=np.bool_)
        yes[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr >= 0.5
        return cls(yes, np.array([[len(text) for text in row] for row in pool.texts], dtype=np.float64))

    def truth(self) -> dict[str, float]:
        """Over all ordered pairs, and all pairs of unlike length."""
        pairs = ~np.eye(len(self.length), dtype=np.bool_)
        back = self.yes.transpose(0, 2, 1)
        longer = (self.length[:, None] > self.length[None]).transpose(2, 0, 1)
        tpr, changed = float(self.yes[:, pairs].mean()), float((self.yes != back)[:, pairs].mean())
        order = float(self.yes[longer].mean() - back[longer].mean())
        return {"tpr": tpr, "fpr": 0.0, "j": tpr, "longer_first": order} | {
            "changed": changed,
            "changed_again": 0.0,
            "beyond": changed,
        }

    def answers(self, known: CalibrationTrials, _: np.random.Generator) -> Floats:
        plan = known.plan
        answer = np.zeros(len(plan))
        rows = known.rows("paired", "reversed", "again", "uneven")
        answer[rows] = self.yes[plan.item[rows], plan.first[rows], plan.second[rows]]
        answer[known.rows("itself", "clone")] = 1
        return answer


USELESS: dict[str, Callable[[CalibrationTrials, np.random.Generator], Bools]] = {
    "always yes": lambda known, _: np.ones(len(known.plan), dtype=np.bool_),
    "always no": lambda known, _: np.zeros(len(known.plan), dtype=np.bool_),
    "coin": lambda known, rng: rng.random(len(known.plan)) < 0.5,
    "coin, 1 yes in 5": lambda known, rng: rng.random(len(known.plan)) < 0.2,
    "length: alike within a tenth": alike(0.9),
    "length: alike within a third": alike(0.67),
    "length: both long": _both_long,
    "length: longer first": _longer_first,
}


def measured(known: CalibrationTrials, yes: Floats | Bools) -> Measures:
    hard = np.asarray(yes, dtype=np.float64)
    return measure(known, Verdicts(known.plan, hard, hard.copy(), np.zeros(len(hard), dtype=np.int8), {}))


def covered(measures: Measures, truth: dict[str, float]) -> list[bool]:
    found = (getattr(measures, name) for name in QUANTITIES)
    return [one.low - 1e-9 <= truth[name] <= one.high + 1e-9 for one, name in zip(found, QUANTITIES, strict=True)]


def any_judge(rng: np.random.Generator) -> KnownJudge:
    """Rates drawn evenly, so that no interval profits from where its steps fall."""
    return KnownJudge(rng.uniform(0.4, 0.85), rng.uniform(0.01, 0.25), rng.uniform(-0.3, 0.3), rng.uniform(0, 1))


def on_pool(pool: Pool, *, draws: int, calls: int, replayed: Replayed | None) -> dict[str, object]:
    """Shares of draws in which intervals cover, by judge and quantity; outcomes of the rule; rates of lexical."""
    cover: dict[str, list[list[bool]]] = {}
    outcomes: dict[str, list[str]] = {}
    lexical: list[list[float]] = []

    def note(name: str, found: Measures, n_calls: int) -> None:
        outcomes.setdefault(name, []).append(decide(found, n_calls=n_calls).outcome)

    for seed in range(draws):
        known = draw_calibration_trials(make_plan(pool, seed=seed), calls=calls, seed=seed)
        rng = np.random.default_rng([seed, 99])
        judges: dict[str, KnownJudge | Replayed] = {**JUDGES, "any": any_judge(rng)}
        if replayed is not None:
            judges["GPT-4o-mini, replayed"] = replayed
        for name, judge in judges.items():
            found = measured(known, judge.answers(known, rng))
            cover.setdefault(name, []).append(covered(found, judge.truth()))
            note(name, found, len(known.plan))
        for name, answer in USELESS.items():
            note(name, measured(known, answer(known, rng)), len(known.plan))
        if seed < max(1, draws // 10):
            found = measure(known, Lexical().answer_many(known.plan))
            lexical.append([found.tpr.value, found.fpr.value, found.j.value, found.length_j.value])
            note("lexical", found, len(known.plan))
    shares = {name: np.mean(rows, axis=0) for name, rows in cover.items()}
    of_known = np.array([shares[name] for name in (*JUDGES, "any")])
    return {
        "trials": len(known.plan),
        "of_them_in_the_run": int(known.in_run.sum()),
        "coverage": {name: dict(zip(QUANTITIES, share.tolist(), strict=True)) for name, share in shares.items()},
        "coverage_mean_of_known_judges": dict(zip(QUANTITIES, of_known.mean(axis=0).tolist(), strict=True)),
        "share_within_93_97": float(((of_known >= 0.93 - 1e-9) & (of_known <= 0.97 + 1e-9)).mean()),
        "outcomes": {
            name: {kind: said.count(kind) / len(said) for kind in ("go", "not sure", "no-go")}
            for name, said in outcomes.items()
        },
        "lexical_means": dict(zip(("tpr", "fpr", "j", "length_j"), np.mean(lexical, axis=0).tolist(), strict=True)),
    }


def through_the_engine(pool: Pool, *, calls: int) -> bool:
    """Whether a scripted judge, asked as models are, answers what its arrays say: yes where both texts are equally long within a
    tenth."""
    known = draw_calibration_trials(make_plan(pool, seed=0), calls=calls, seed=0)
    config = load_judge_config({"backend": "wire", "model": "scripted", "base_url": "http://127.0.0.1:9", "price": 0})
    questions = config.questions()
    expected = USELESS["length: alike within a tenth"](known, np.random.default_rng(0))
    yes = {questions.request(known.plan, row).messages: said for row, said in enumerate(expected.tolist())}

    class Scripted:
        name = "scripted"

        async def answer(self, request: Request) -> Completion:
            return Completion(
                "YES" if yes[request.messages] else "NO", "stop", request.model, tokens_in=9, tokens_out=1
            )

    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "v.db") as store:
        result = asyncio.run(judge_plan(known.plan, config=config, store=store, judge=Scripted(), environment={}))
    return measure(known, result) == measured(known, expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--calls", type=int, default=150)
    parser.add_argument("--smoke", action="store_true", help="three draws, to see that it runs")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    draws = 3 if arguments.smoke else arguments.draws
    pools: dict[str, tuple[Pool, Replayed | None]] = {
        "field-notes": (read_pool(HERE / "datasets" / "field-notes"), None)
    }
    if (arguments.shared / TEXTS).is_file():
        pool = import_agents(arguments.shared / TEXTS)
        pools["SAMSum"] = pool, Replayed.of(pool, arguments.shared / ANSWERS)
    result = {
        "draws": draws,
        "seeds": [0, draws - 1],
        "calls": arguments.calls,
        "standard_error_of_a_coverage": float(np.sqrt(0.95 * 0.05 / draws)),
        "judges": {name: judge.truth() for name, judge in JUDGES.items()},
        "engine_and_arrays_agree": through_the_engine(pools["field-notes"][0], calls=arguments.calls),
        "pools": {
            name: on_pool(pool, draws=draws, calls=arguments.calls, replayed=replayed)
            for name, (pool, replayed) in pools.items()
        },
    }
    text = json.dumps(result, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
