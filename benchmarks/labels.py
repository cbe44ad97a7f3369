"""Measure the correlation of the lexical judge's rankings of real models with published labels, and that of length alone.

`python benchmarks/labels.py [--out FILE] [--shared FOLDER]` prints a table and JSON: Spearman's ρ with AlpacaEval's win rates and
with lmsys's MT-Bench scores, with and without the entries that game a judge, and for the models with the highest and the lowest
labels alone. Missing data are skipped and reported.

`--checkout FOLDER` reads a checkout of github.com/tatsu-lab/alpaca_eval instead: all its models, and its own leaderboard.
`--write` draws README's figures, and writes the tables of the pages when-it-works and when-it-fails (`labels_pages.py`).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.stats import spearmanr

import labels_pages
import youden
from labels_pages import count_common_top, select_models, write_pages
from results import print_results
from youden.data.importers.leaderboards import read_alpaca_eval, read_fastchat
from youden.text.words import mean_lengths
from youden.types import Agent, Pool

SHARED = Path(__file__).parents[2] / "shared"
GAMED = labels_pages.GAMED


@dataclass(frozen=True)
class Row:
    """One ranking compared with one label.

    models : models over which ρ is computed
    place_of_null : NullModel's rank; None if it is not in the ranking
    top_5 : how many of the five models with the highest labels are among the five with the highest abilities
    """

    pool: str
    plan: str
    calls: int
    label: str
    models: str
    agents: int
    lexical: float
    length: float
    place_of_null: int | None
    top_5: int
    seconds: float


LEADERBOARD = Path("src/alpaca_eval/leaderboards/data_AlpacaEval_2/weighted_alpaca_eval_gpt4_turbo_leaderboard.csv")
"""Path in a checkout of AlpacaEval."""


def read_alpaca_eval_pool(folder: Path, *, n_items: int | None = None) -> Pool:
    """Read AlpacaEval's pool, with agents named by their folders, as in the leaderboard.

    The items are those of the first model, or the first `n_items` of them.
    """
    files = [(path.parent.name, path) for path in sorted(folder.glob("results/*/model_outputs.json"))]
    pools = {name: read_alpaca_eval([path], columns={}).pool for name, path in files}
    items = next(iter(pools.values())).items[:n_items]
    texts = np.empty((len(pools), len(items)), dtype=object)
    for row, pool in enumerate(pools.values()):
        text_by_prompt = {item.prompt: text for item, text in zip(pool.items, pool.texts[0], strict=True)}
        texts[row] = [text_by_prompt.get(item.prompt) for item in items]
    return Pool(tuple(map(Agent, pools)), items, texts, "AlpacaEval")


def read_checkout_pool(folder: Path) -> Pool:
    """Read the models of a checkout that are in its leaderboard."""
    pool, labels = read_alpaca_eval_pool(folder), read_label_table(folder / LEADERBOARD)
    has_label = np.array([agent.id in labels for agent in pool.agents])
    agents = tuple(agent for agent in pool.agents if agent.id in labels)
    return Pool(agents, pool.items, pool.texts[has_label], pool.name)


def read_label_table(path: Path) -> dict[str, dict[str, str]]:
    """Read the rows of a CSV file of labels by its first column."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row[next(iter(row))]: row for row in csv.DictReader(file)}


def read_mt_bench_pool(folder: Path) -> Pool:
    """Read MT-Bench's pool."""
    return read_fastchat([folder / "model_answer"], columns={}).pool


def compare_with_labels(pool: Pool, labels: Path, names: tuple[str, ...], *, design: str) -> list[Row]:
    """Rank a pool by a design, and correlate with each label, over all agents and without those that game a judge."""
    start = perf_counter()
    plan = youden.make_plan(pool, design=design, seed=0)
    ability = youden.rank(youden.judge(plan, judge="lexical")).set_index("agent").ability
    seconds = perf_counter() - start
    ids = [agent.id for agent in pool.agents]
    table = read_label_table(labels)
    lexical, length = ability[ids].to_numpy(), mean_lengths(pool.texts)
    is_honest = np.array([agent not in GAMED for agent in ids])
    rank_of_null = None if is_honest.all() else int((lexical > lexical[ids.index(GAMED[0])]).sum()) + 1
    rows = []
    for name in names:
        label = np.array([float(table[agent][name]) for agent in ids])
        for models, mask in select_models(label, is_honest).items():
            rho = [float(spearmanr(values[mask], label[mask]).statistic) for values in (lexical, length)]
            null = rank_of_null if models == "all" else None
            top_5 = count_common_top(lexical[mask], label[mask])
            counts = (len(plan), name, models, int(mask.sum()))
            rows.append(Row(pool.name, design, *counts, rho[0], rho[1], null, top_5, seconds))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.write:
        write_pages(arguments.shared)
        return
    if arguments.checkout:
        pool = read_checkout_pool(arguments.checkout)
        print_rows(
            compare_with_labels(
                pool, arguments.checkout / LEADERBOARD, ("win_rate", "length_controlled_winrate"), design="cyclic"
            )
        )
        return
    sources: list[tuple[str, Callable[[Path], Pool], str, tuple[str, ...]]] = [
        ("alpaca-eval", read_alpaca_eval_pool, "leaderboard.csv", ("win_rate", "lc_win_rate")),
        ("mt-bench", read_mt_bench_pool, "scores.csv", ("mt_bench_score",)),
    ]
    rows: list[Row] = []
    skipped: list[str] = []
    for name, read_pool, labels, columns in sources:
        folder = arguments.shared / name
        if not folder.is_dir():
            skipped.append(f"skipped: no folder {folder}")
            continue
        pool = read_pool(folder)
        for design in ("cyclic", "dense"):
            rows += compare_with_labels(pool, folder / labels, columns, design=design)
    print_rows(rows)
    print("\n".join(skipped))
    print_results({"rows": [asdict(row) for row in rows], "skipped": skipped}, arguments.out)


def print_rows(rows: list[Row]) -> None:
    """Print rows as a table."""
    print("| pool | plan | calls | label | models | lexical ρ | length ρ | of the best 5 | NullModel | s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        rank_of_null = "–" if row.place_of_null is None else f"{row.place_of_null} of {row.agents}"
        print(
            f"| {row.pool} | {row.plan} | {row.calls:,} | {row.label} | {row.agents} ({row.models}) | {row.lexical:.2f} "
            f"| {row.length:.2f} | {row.top_5} | {rank_of_null} | {row.seconds:.0f} |"
        )


if __name__ == "__main__":
    main()
