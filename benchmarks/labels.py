"""Holds the embedded judge's rankings of real models against labels that others published, beside ranking by length alone.

`python benchmarks/labels.py [--out FILE] [--shared FOLDER]` prints a table and JSON: Spearman's ρ with AlpacaEval's win rates and
with lmsys's MT-Bench scores, with and without the entries that game a judge. Data that is absent is skipped, saying so.

`--checkout FOLDER` takes a checkout of github.com/tatsu-lab/alpaca_eval instead: all its models, and its own leaderboard.
`--write` draws README's figures again, and the tables of the book's pages on what works and what does not (`labels_pages.py`).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.stats import spearmanr

import youden
from labels_pages import write_pages
from youden.data.importers.leaderboards import read_alpaca_eval, read_fastchat
from youden.text.words import mean_lengths
from youden.types import Agent, Pool

SHARED = Path(__file__).parents[2] / "shared"
GAMED = ("NullModel", "gpt4_gamed")


@dataclass(frozen=True)
class Row:
    """One ranking against one label. place_of_null: NullModel's place from the top; None where it is not in the ranking."""

    pool: str
    plan: str
    calls: int
    label: str
    agents: int
    lexical: float
    length: float
    place_of_null: int | None
    seconds: float


LEADERBOARD = Path("src/alpaca_eval/leaderboards/data_AlpacaEval_2/weighted_alpaca_eval_gpt4_turbo_leaderboard.csv")
"""In a checkout of AlpacaEval."""


def alpaca_eval(folder: Path) -> Pool:
    """AlpacaEval's pool, its agents named by their folders, as the leaderboard does; items by the first model's prompts."""
    named = [(path.parent.name, path) for path in sorted(folder.glob("results/*/model_outputs.json"))]
    pools = {name: read_alpaca_eval([path], columns={}).pool for name, path in named}
    items = next(iter(pools.values())).items
    texts = np.empty((len(pools), len(items)), dtype=object)
    for row, pool in enumerate(pools.values()):
        own = {item.prompt: text for item, text in zip(pool.items, pool.texts[0], strict=True)}
        texts[row] = [own.get(item.prompt) for item in items]
    return Pool(tuple(map(Agent, pools)), items, texts, "AlpacaEval")


def of_a_checkout(folder: Path) -> Pool:
    """The models of a checkout that its leaderboard knows."""
    pool, known = alpaca_eval(folder), label_table(folder / LEADERBOARD)
    kept = np.array([agent.id in known for agent in pool.agents])
    agents = tuple(agent for agent in pool.agents if agent.id in known)
    return Pool(agents, pool.items, pool.texts[kept], pool.name)


def label_table(path: Path) -> dict[str, dict[str, str]]:
    """The rows of a CSV of labels by its first column."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row[next(iter(row))]: row for row in csv.DictReader(file)}


def mt_bench(folder: Path) -> Pool:
    return read_fastchat([folder / "model_answer"], columns={}).pool


def rows(pool: Pool, labels: Path, names: tuple[str, ...], *, design: str) -> list[Row]:
    """Each label's ρ with the ranking by a design, over all agents, and without those that game a judge where there are any."""
    started = perf_counter()
    plan = youden.make_plan(pool, design=design, seed=0)
    ability = youden.rank(youden.judge(plan, judge="lexical")).set_index("agent").ability
    seconds = perf_counter() - started
    ids = [agent.id for agent in pool.agents]
    table = label_table(labels)
    lexical, length = ability[ids].to_numpy(), mean_lengths(pool.texts)
    found = []
    honest = np.array([agent not in GAMED for agent in ids])
    for kept in [honest] if honest.all() else [np.ones_like(honest), honest]:
        place = int((lexical > lexical[ids.index(GAMED[0])]).sum()) + 1 if kept[~honest].any() else None
        for name in names:
            label = np.array([float(table[agent][name]) for agent in ids])
            rho = [float(spearmanr(values[kept], label[kept]).statistic) for values in (lexical, length)]
            found.append(Row(pool.name, design, len(plan), name, int(kept.sum()), rho[0], rho[1], place, seconds))
    return found


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
        pool = of_a_checkout(arguments.checkout)
        show(rows(pool, arguments.checkout / LEADERBOARD, ("win_rate", "length_controlled_winrate"), design="cyclic"))
        return
    sources: list[tuple[str, Callable[[Path], Pool], str, tuple[str, ...]]] = [
        ("alpaca-eval", alpaca_eval, "leaderboard.csv", ("win_rate", "lc_win_rate")),
        ("mt-bench", mt_bench, "scores.csv", ("mt_bench_score",)),
    ]
    found: list[Row] = []
    skipped: list[str] = []
    for name, read, labels, columns in sources:
        folder = arguments.shared / name
        if not folder.is_dir():
            skipped.append(f"skipped: {folder} is not there")
            continue
        pool = read(folder)
        for design in ("cyclic", "dense"):
            found += rows(pool, folder / labels, columns, design=design)
    show(found)
    print("\n".join(skipped))
    text = json.dumps({"rows": [asdict(row) for row in found], "skipped": skipped}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


def show(found: list[Row]) -> None:
    """The rows as a table."""
    print("| pool | plan | calls | label | agents | lexical ρ | length ρ | NullModel | s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in found:
        place = "–" if row.place_of_null is None else f"{row.place_of_null} of {row.agents}"
        print(
            f"| {row.pool} | {row.plan} | {row.calls:,} | {row.label} | {row.agents} | {row.lexical:.2f} | {row.length:.2f} | "
            f"{place} | {row.seconds:.0f} |"
        )


if __name__ == "__main__":
    main()
