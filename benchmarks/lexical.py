"""Measure the speed of the lexical judge, and compare its rankings with other rules for long texts and trivial baselines.

- speed: against Python sets, and the correlation of its ranking of SAMSum with GPT-4o-mini's
- labels: Spearman's ρ with AlpacaEval's win rates, for several pools of the shared models
- attacks: rank of the attacks of `youden stress` among 15 models

`python benchmarks/lexical.py [--only PART …] [--draws 20] [--seed 2000] [--smoke] [--out FILE] [--shared FOLDER]` prints JSON.
Labels and attacks need AlpacaEval's responses in the shared folder; with 20 draws, they take about two and seven minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from lexical_rules import measure_attacks, measure_labels
from results import print_results
from youden import make_plan
from youden.data.importers.peer_prediction import import_agents
from youden.judging.backends.lexical import Lexical
from youden.text.words import mean_lengths, split_words
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts

SHARED = Path(__file__).parents[2] / "shared"
TEXTS = "data/agents/summarization_gpt_4o_mini_20250708_235208.json"
VERDICTS = "eval_results/samsum_200_config_results/tvd_mi_individual_examples"
BAR = 500_000
SET_TRIALS = 20_000
SMOKE_ITEMS = 10


def make_synthetic_pool(*, n_agents: int = 30, n_items: int = 200, n_words: int = 67, seed: int = 0) -> Pool:
    """Make a pool of texts as long as SAMSum's: two thirds common words by Zipf's law, one third words of the item."""
    rng = np.random.default_rng(seed)
    n_item_words = n_words // 3

    def response(j: int) -> str:
        common = rng.zipf(1.3, n_words - n_item_words) % 10_000
        return " ".join([*(f"w{w}" for w in common), *(f"i{j}w{w}" for w in rng.integers(0, 40, n_item_words))])

    texts = np.array([[response(j) for j in range(n_items)] for _ in range(n_agents)], dtype=object)
    agents = tuple(Agent(f"a{i}") for i in range(n_agents))
    return Pool(agents, tuple(Item(f"i{j}", response(j)) for j in range(n_items)), texts, "synthetic")


def measure_sets(pool: Pool, plan: Plan, *, n_trials: int) -> tuple[float, float]:
    """Return CPU seconds of the similarity by Python sets: to prepare all texts, and per trial."""
    start = process_time()
    word_sets = [[set(split_words(text)) for text in row] for row in pool.texts]
    counts: defaultdict[str, int] = defaultdict(int)
    for j in range(pool.n_items):
        for word in set().union(*(row[j] for row in word_sets)):
            counts[word] += 1
    weight = {word: math.log(pool.n_items / n) for word, n in counts.items()}
    prepared = process_time()
    second_item = np.where(plan.trial_type == PAIRED, plan.item, plan.other_item)
    trials = np.random.default_rng(0).choice(len(plan), n_trials, replace=False)
    columns = (column[trials].tolist() for column in (plan.first, plan.item, plan.second, second_item))
    for first, item, second, other_item in zip(*columns, strict=True):
        sum(weight[word] for word in word_sets[first][item] & word_sets[second][other_item])
    return prepared - start, (process_time() - prepared) / n_trials


def sum_by_agent(verdicts: Verdicts, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum values over the paired trials of each agent, first or second."""
    plan, paired = verdicts.plan, verdicts.plan.trial_type == PAIRED
    first, second = (np.bincount(agent[paired], values[paired], plan.n_agents) for agent in (plan.first, plan.second))
    return np.asarray(first + second)


def correlate_with_gpt_4o_mini(pool: Pool, verdicts: Verdicts, shared: Path) -> dict[str, float]:
    """Compute Spearman's ρ with GPT-4o-mini's dense symmetric ranking of the same agents."""
    files = [shared / VERDICTS / f"tvd_mi_example_{j}.json" for j in range(pool.n_items)]
    gpt_scores = np.mean(
        [json.loads(file.read_text(encoding="utf-8"))["tvd_mi_bidirectional"] for file in files], axis=0
    )
    lexical_scores = {
        "soft": sum_by_agent(verdicts, verdicts.answer),
        "hard": sum_by_agent(verdicts, verdicts.hard_answer),
        "length": mean_lengths(pool.texts),
    }
    return {name: float(spearmanr(values, gpt_scores).statistic) for name, values in lexical_scores.items()}


def measure_speed(shared: Path, *, n_times: int) -> dict[str, object]:
    """Measure CPU seconds and memory of a dense plan, and the correlation of its ranking with GPT-4o-mini's if there is one."""
    has_data = (shared / TEXTS).is_file()
    pool = import_agents(shared / TEXTS) if has_data else make_synthetic_pool()
    plan = make_plan(pool, design="dense", holdout=0)
    seconds = []
    for _ in range(n_times):
        start = process_time()
        verdicts = Lexical().answer_many(plan)
        seconds.append(process_time() - start)
    per_text, per_trial = measure_sets(pool, plan, n_trials=SET_TRIALS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return {
        "pool": pool.name,
        "trials": len(plan),
        "cpu_seconds": seconds,
        "comparisons_per_cpu_second": [len(plan) / run_seconds for run_seconds in seconds],
        "bar": BAR,
        "bar_met_by_the_first": len(plan) / seconds[0] >= BAR,
        "times_faster_than_sets": (per_text + per_trial * len(plan)) / float(np.median(seconds)),
        "peak_rss_mib": peak,
        "spearman_to_gpt_4o_mini": correlate_with_gpt_4o_mini(pool, verdicts, shared) if has_data else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("speed", "labels", "attacks"), default=["speed"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument(
        "--smoke", action="store_true", help="measure the speed once, and one draw from the first 10 prompts"
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED)
    arguments = parser.parse_args()

    models = arguments.shared / "alpaca-eval"
    n_draws, n_items = (1, SMOKE_ITEMS) if arguments.smoke else (arguments.draws, None)
    parts: dict[str, Callable[[], object]] = {
        "speed": lambda: measure_speed(arguments.shared / "peer-prediction", n_times=1 if arguments.smoke else 3),
        "labels": lambda: measure_labels(models, n_draws=n_draws, seed=arguments.seed, n_items=n_items),
        "attacks": lambda: measure_attacks(models, n_seeds=n_draws, seed=arguments.seed, n_items=n_items),
    }
    result: dict[str, object] = {}
    for part in arguments.only:
        has_data = part == "speed" or models.is_dir()
        result[part] = parts[part]() if has_data else f"skipped: no folder {models}"
    print_results(result, arguments.out)


if __name__ == "__main__":
    main()
