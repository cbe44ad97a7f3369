"""Measure the coverage of a calibration's intervals, and how often its rule accepts useful and useless judges.

Judges with known TPR, FPR and order bias answer calibrations of 150 calls on field-notes and SAMSum. Each seed draws a new plan,
new trials and new answers. The answers are arrays drawn from the judges' rates, and are evaluated as by `youden calibrate`
(`measure`, `decide`). The judge `lexical` is really queried, and one scripted judge is queried by the engine, to check that both
ways agree. On SAMSum, GPT-4o-mini's public answers, whose rates differ by agent and item, are replayed too. Without the paper's
data next to the checkout, only field-notes is used.

`python benchmarks/calibrate.py [--draws 300] [--calls 150] [--smoke] [--shared FOLDER] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from results import print_results
from youden import make_plan, read_pool
from youden.data.importers.peer_prediction import import_agents, import_results
from youden.judging.backends.lexical import Lexical
from youden.judging.config.judge_files import load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.store.answers import open_store
from youden.types import PAIRED, Completion, Pool, Request, Verdicts
from youden.types.pool import Bools, Floats
from youden.workflows.calibration_outcome import Measures, compute_measures, decide
from youden.workflows.calibration_trials import CalibrationTrials, draw_calibration_trials

HERE = Path(__file__).parents[1]
SHARED = HERE.parent / "shared" / "peer-prediction"
TEXTS = "data/agents/summarization_gpt_4o_mini_20250708_235208.json"
ANSWERS = "eval_results/samsum_200_config_results"

QUANTITIES = ("tpr", "fpr", "j", "longer_first", "order_flips", "retest_flips", "position_bias")


@dataclass(frozen=True)
class KnownJudge:
    """Judge with known rates.

    P(yes) of a paired trial is tpr ± order/2, with + if the longer text is first; of an independent trial, fpr. A share
    `redrawn` of the answers is drawn for each call. The others depend on the pair only, so that they change with the order as
    little as possible.
    """

    tpr: float
    fpr: float
    order: float
    redrawn: float

    def true_values(self) -> dict[str, float]:
        """Expected value of each quantity."""
        p_longer_first = self.tpr + self.order / 2
        p_shorter_first = self.tpr - self.order / 2
        p_same_draw = (1 - self.redrawn) ** 2
        order_flips = p_same_draw * abs(self.order) + (1 - p_same_draw) * (
            p_longer_first * (1 - p_shorter_first) + p_shorter_first * (1 - p_longer_first)
        )
        retest_flips = (1 - p_same_draw) * (
            p_longer_first * (1 - p_longer_first) + p_shorter_first * (1 - p_shorter_first)
        )
        return {
            "tpr": self.tpr,
            "fpr": self.fpr,
            "j": self.tpr - self.fpr,
            "longer_first": self.order,
            "order_flips": order_flips,
            "retest_flips": retest_flips,
            "position_bias": order_flips - retest_flips,
        }

    def answer_trials(self, trials: CalibrationTrials, rng: np.random.Generator) -> Floats:
        """Draw answers 0 or 1 (n_trials,); copies get a yes, templates a no."""
        first_length, second_length = text_lengths(trials)
        p_yes = np.where(
            trials.plan.trial_type == PAIRED,
            self.tpr + np.sign(first_length - second_length) * self.order / 2,
            self.fpr,
        )
        p_yes[trials.rows("identical", "clone")], p_yes[trials.rows("template")] = 1.0, 0.0
        draw = rng.random(len(p_yes))
        draw = np.where(trials.original >= 0, draw[trials.original], draw)
        return np.asarray(
            np.where(rng.random(len(p_yes)) < self.redrawn, rng.random(len(p_yes)), draw) < p_yes, dtype=np.float64
        )


JUDGES = {
    "sharp": KnownJudge(0.9, 0.02, 0.0, 0.3),
    "usual": KnownJudge(0.75, 0.05, 0.1, 0.2),
    "swayed": KnownJudge(0.6, 0.03, 0.3, 0.3),
    "loose": KnownJudge(0.8, 0.15, -0.2, 0.5),
    "strict": KnownJudge(0.5, 0.02, -0.1, 0.1),
}


def text_lengths(trials: CalibrationTrials) -> tuple[Floats, Floats]:
    """Return the lengths of the first and second texts in characters, arrays (n_trials,)."""
    plan = trials.plan
    lengths = np.array([[len(text or "") for text in row] for row in trials.pool.texts], dtype=np.float64)
    second_item = np.where(plan.other_item >= 0, plan.other_item, plan.item)
    return lengths[plan.first, plan.item], lengths[plan.second, second_item]


def make_similar_length_judge(min_ratio: float) -> Callable[[CalibrationTrials, np.random.Generator], Bools]:
    """Make a judge that answers yes if the shorter text has at least `min_ratio` of the longer one's characters."""

    def answer(trials: CalibrationTrials, _: np.random.Generator) -> Bools:
        first_length, second_length = text_lengths(trials)
        return np.asarray(
            np.minimum(first_length, second_length) >= min_ratio * np.maximum(first_length, second_length)
        )

    return answer


def _answer_both_long(trials: CalibrationTrials, _: np.random.Generator) -> Bools:
    first_length, second_length = text_lengths(trials)
    return np.asarray(np.minimum(first_length, second_length) >= np.median([first_length, second_length]))


def _answer_longer_first(trials: CalibrationTrials, _: np.random.Generator) -> Bools:
    first_length, second_length = text_lengths(trials)
    return np.asarray(first_length >= second_length)


@dataclass(frozen=True, eq=False)
class ReplayedJudge:
    """GPT-4o-mini's answers: yes if D of the ordered pair on the item is at least ½; no to independent trials.

    Attributes
    ----------
    yes : bool array (n_items, n_agents, n_agents)
    length : float array (n_agents, n_items)
        Characters of each text.
    """

    yes: Bools
    length: Floats

    @classmethod
    def from_files(cls, pool: Pool, folder: Path) -> ReplayedJudge:
        """Read the recorded answers in `folder` and the texts of the pool."""
        rates = import_results(folder).rates
        yes = np.zeros((rates.n_items, rates.n_agents, rates.n_agents), dtype=np.bool_)
        yes[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr >= 0.5
        return cls(yes, np.array([[len(text) for text in row] for row in pool.texts], dtype=np.float64))

    def true_values(self) -> dict[str, float]:
        """Value of each quantity over all ordered pairs; longer_first over pairs of different length."""
        off_diagonal = ~np.eye(len(self.length), dtype=np.bool_)
        reversed_yes = self.yes.transpose(0, 2, 1)
        is_first_longer = (self.length[:, None] > self.length[None]).transpose(2, 0, 1)
        tpr = float(self.yes[:, off_diagonal].mean())
        order_flips = float((self.yes != reversed_yes)[:, off_diagonal].mean())
        longer_first = float(self.yes[is_first_longer].mean() - reversed_yes[is_first_longer].mean())
        return {"tpr": tpr, "fpr": 0.0, "j": tpr, "longer_first": longer_first} | {
            "order_flips": order_flips,
            "retest_flips": 0.0,
            "position_bias": order_flips,
        }

    def answer_trials(self, trials: CalibrationTrials, _: np.random.Generator) -> Floats:
        """Return answers 0 or 1 (n_trials,); copies get a yes."""
        plan = trials.plan
        answer = np.zeros(len(plan))
        rows = trials.rows("paired", "reversed", "retest", "triple", "unbalanced")
        answer[rows] = self.yes[plan.item[rows], plan.first[rows], plan.second[rows]]
        answer[trials.rows("identical", "clone")] = 1
        return answer


USELESS: dict[str, Callable[[CalibrationTrials, np.random.Generator], Bools]] = {
    "always yes": lambda trials, _: np.ones(len(trials.plan), dtype=np.bool_),
    "always no": lambda trials, _: np.zeros(len(trials.plan), dtype=np.bool_),
    "coin": lambda trials, rng: rng.random(len(trials.plan)) < 0.5,
    "coin, 1 yes in 5": lambda trials, rng: rng.random(len(trials.plan)) < 0.2,
    "length: alike within a tenth": make_similar_length_judge(0.9),
    "length: alike within a third": make_similar_length_judge(0.67),
    "length: both long": _answer_both_long,
    "length: longer first": _answer_longer_first,
}


def measure_answers(trials: CalibrationTrials, yes: Floats | Bools) -> Measures:
    """Evaluate a calibration by answers (n_trials,)."""
    answer = np.asarray(yes, dtype=np.float64)
    return compute_measures(
        trials, Verdicts(trials.plan, answer, answer.copy(), np.zeros(len(answer), dtype=np.int8), {})
    )


def is_covered(measures: Measures, truth: dict[str, float]) -> list[bool]:
    """Return for each of `QUANTITIES` whether its interval contains the true value."""
    intervals = (getattr(measures, name) for name in QUANTITIES)
    return [
        interval.low - 1e-9 <= truth[name] <= interval.high + 1e-9
        for interval, name in zip(intervals, QUANTITIES, strict=True)
    ]


def draw_judge(rng: np.random.Generator) -> KnownJudge:
    """Draw a judge with uniform rates, so that coverage does not depend on the discreteness at particular rates."""
    return KnownJudge(rng.uniform(0.4, 0.85), rng.uniform(0.01, 0.25), rng.uniform(-0.3, 0.3), rng.uniform(0, 1))


def measure_pool(pool: Pool, *, n_draws: int, n_calls: int, replayed: ReplayedJudge | None) -> dict[str, object]:
    """Measure a pool: coverage by judge and quantity, outcomes of the rule, and mean rates of the judge `lexical`."""
    coverage: dict[str, list[list[bool]]] = {}
    outcomes: dict[str, list[str]] = {}
    lexical_rates: list[list[float]] = []

    def add_outcome(name: str, measures: Measures, n_calls: int) -> None:
        outcomes.setdefault(name, []).append(decide(measures, n_calls=n_calls).outcome)

    for seed in range(n_draws):
        trials = draw_calibration_trials(make_plan(pool, seed=seed), calls=n_calls, seed=seed)
        rng = np.random.default_rng([seed, 99])
        judges: dict[str, KnownJudge | ReplayedJudge] = {**JUDGES, "any": draw_judge(rng)}
        if replayed is not None:
            judges["GPT-4o-mini, replayed"] = replayed
        for name, judge in judges.items():
            measures = measure_answers(trials, judge.answer_trials(trials, rng))
            coverage.setdefault(name, []).append(is_covered(measures, judge.true_values()))
            add_outcome(name, measures, len(trials.plan))
        for name, answer in USELESS.items():
            add_outcome(name, measure_answers(trials, answer(trials, rng)), len(trials.plan))
        if seed < max(1, n_draws // 10):
            measures = compute_measures(trials, Lexical().answer_many(trials.plan))
            lexical_rates.append([measures.tpr.value, measures.fpr.value, measures.j.value, measures.length_j.value])
            add_outcome("lexical", measures, len(trials.plan))
    coverage_rates = {name: np.mean(rows, axis=0) for name, rows in coverage.items()}
    rates_of_known_judges = np.array([coverage_rates[name] for name in (*JUDGES, "any")])
    return {
        "trials": len(trials.plan),
        "of_them_in_the_run": int(trials.in_run.sum()),
        "coverage": {
            name: dict(zip(QUANTITIES, rates.tolist(), strict=True)) for name, rates in coverage_rates.items()
        },
        "coverage_mean_of_known_judges": dict(
            zip(QUANTITIES, rates_of_known_judges.mean(axis=0).tolist(), strict=True)
        ),
        "share_within_93_97": float(
            ((rates_of_known_judges >= 0.93 - 1e-9) & (rates_of_known_judges <= 0.97 + 1e-9)).mean()
        ),
        "outcomes": {
            name: {outcome: values.count(outcome) / len(values) for outcome in ("go", "not sure", "no-go")}
            for name, values in outcomes.items()
        },
        "lexical_means": dict(
            zip(("tpr", "fpr", "j", "length_j"), np.mean(lexical_rates, axis=0).tolist(), strict=True)
        ),
    }


def is_engine_consistent(pool: Pool, *, n_calls: int) -> bool:
    """Return whether the engine and the arrays give equal measures.

    A scripted judge answers yes if both texts have the same length within a tenth.
    """
    trials = draw_calibration_trials(make_plan(pool, seed=0), calls=n_calls, seed=0)
    config = load_judge_config({"backend": "wire", "model": "scripted", "base_url": "http://127.0.0.1:9", "price": 0})
    questions = config.questions()
    expected = USELESS["length: alike within a tenth"](trials, np.random.default_rng(0))
    expected_by_messages = {
        questions.request(trials.plan, row).messages: answer for row, answer in enumerate(expected.tolist())
    }

    class Scripted:
        name = "scripted"

        async def answer(self, request: Request) -> Completion:
            return Completion(
                "YES" if expected_by_messages[request.messages] else "NO",
                "stop",
                request.model,
                tokens_in=9,
                tokens_out=1,
            )

    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "v.db") as store:
        verdicts = asyncio.run(judge_plan(trials.plan, config=config, store=store, judge=Scripted(), environment={}))
    return compute_measures(trials, verdicts) == measure_answers(trials, expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--calls", type=int, default=150)
    parser.add_argument("--smoke", action="store_true", help="run three draws, to check that the benchmark works")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    draws = 3 if arguments.smoke else arguments.draws
    pools: dict[str, tuple[Pool, ReplayedJudge | None]] = {
        "field-notes": (read_pool(HERE / "datasets" / "field-notes"), None)
    }
    if (arguments.shared / TEXTS).is_file():
        pool = import_agents(arguments.shared / TEXTS)
        pools["SAMSum"] = pool, ReplayedJudge.from_files(pool, arguments.shared / ANSWERS)
    result = {
        "draws": draws,
        "seeds": [0, draws - 1],
        "calls": arguments.calls,
        "standard_error_of_a_coverage": float(np.sqrt(0.95 * 0.05 / draws)),
        "judges": {name: judge.true_values() for name, judge in JUDGES.items()},
        "engine_and_arrays_agree": is_engine_consistent(pools["field-notes"][0], n_calls=arguments.calls),
        "pools": {
            name: measure_pool(pool, n_draws=draws, n_calls=arguments.calls, replayed=replayed)
            for name, (pool, replayed) in pools.items()
        },
    }
    print_results(result, arguments.out)


if __name__ == "__main__":
    main()
