"""How fast the lexical judge is, against sets, and how its ranking of SAMSum compares with GPT-4o-mini's.

`python benchmarks/lexical.py [--out FILE] [--shared FOLDER]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
from collections import defaultdict
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from youden import make_plan
from youden.data.importers.peer_prediction import import_agents
from youden.judging.backends.lexical import Lexical
from youden.text.words import mean_lengths, split_words
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts

SHARED = Path(__file__).parents[2] / "shared" / "peer-prediction"
TEXTS = "data/agents/summarization_gpt_4o_mini_20250708_235208.json"
VERDICTS = "eval_results/samsum_200_config_results/tvd_mi_individual_examples"
BAR = 500_000
TWIN_TRIALS = 20_000


def synthetic(*, n_agents: int = 30, n_items: int = 200, n_words: int = 67, seed: int = 0) -> Pool:
    """Responses as long as SAMSum's: two thirds common words by Zipf's law, one third words of the item."""
    rng = np.random.default_rng(seed)
    n_own = n_words // 3

    def response(j: int) -> str:
        common = rng.zipf(1.3, n_words - n_own) % 10_000
        return " ".join([*(f"w{w}" for w in common), *(f"i{j}w{w}" for w in rng.integers(0, 40, n_own))])

    texts = np.array([[response(j) for j in range(n_items)] for _ in range(n_agents)], dtype=object)
    agents = tuple(Agent(f"a{i}") for i in range(n_agents))
    return Pool(agents, tuple(Item(f"i{j}", response(j)) for j in range(n_items)), texts, "synthetic")


def set_seconds(pool: Pool, plan: Plan, *, n_trials: int) -> tuple[float, float]:
    """CPU seconds of the similarity alone with Python's sets and one idf: for all texts once, and for each of n_trials."""
    started = process_time()
    held = [[set(split_words(text)) for text in row] for row in pool.texts]
    counts: defaultdict[str, int] = defaultdict(int)
    for j in range(pool.n_items):
        for word in set().union(*(row[j] for row in held)):
            counts[word] += 1
    weight = {word: math.log(pool.n_items / n) for word, n in counts.items()}
    fitted = process_time()
    other = np.where(plan.arm == PAIRED, plan.item, plan.other_item)
    trials = np.random.default_rng(0).choice(len(plan), n_trials, replace=False)
    columns = (column[trials].tolist() for column in (plan.first, plan.item, plan.second, other))
    for first, item, second, other_item in zip(*columns, strict=True):
        sum(weight[word] for word in held[first][item] & held[second][other_item])
    return fitted - started, (process_time() - fitted) / n_trials


def agent_totals(verdicts: Verdicts, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over the paired trials of each agent, whichever side it is on."""
    plan, paired = verdicts.plan, verdicts.plan.arm == PAIRED
    first, second = (np.bincount(agent[paired], values[paired], plan.n_agents) for agent in (plan.first, plan.second))
    return np.asarray(first + second)


def correlations(pool: Pool, verdicts: Verdicts, shared: Path) -> dict[str, float]:
    """Spearman to GPT-4o-mini's dense symmetric ranking of the same agents."""
    files = [shared / VERDICTS / f"tvd_mi_example_{j}.json" for j in range(pool.n_items)]
    theirs = np.mean([json.loads(file.read_text(encoding="utf-8"))["tvd_mi_bidirectional"] for file in files], axis=0)
    ours = {
        "soft": agent_totals(verdicts, verdicts.answer),
        "hard": agent_totals(verdicts, verdicts.hard),
        "length": mean_lengths(pool.texts),
    }
    return {name: float(spearmanr(values, theirs).statistic) for name, values in ours.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED)
    arguments = parser.parse_args()

    real = (arguments.shared / TEXTS).is_file()
    pool = import_agents(arguments.shared / TEXTS) if real else synthetic()
    plan = make_plan(pool, design="dense", holdout=0)
    seconds = []
    for _ in range(3):
        started = process_time()
        verdicts = Lexical().answer_many(plan)
        seconds.append(process_time() - started)
    per_text, per_trial = set_seconds(pool, plan, n_trials=TWIN_TRIALS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    result = {
        "pool": pool.name,
        "trials": len(plan),
        "cpu_seconds": seconds,
        "comparisons_per_cpu_second": [len(plan) / each for each in seconds],
        "bar": BAR,
        "bar_met_by_the_first": len(plan) / seconds[0] >= BAR,
        "times_faster_than_sets": (per_text + per_trial * len(plan)) / float(np.median(seconds)),
        "peak_rss_mib": peak,
        "spearman_to_gpt_4o_mini": correlations(pool, verdicts, arguments.shared) if real else None,
    }
    text = json.dumps(result, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
