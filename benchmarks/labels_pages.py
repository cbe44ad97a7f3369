"""Draw README's figures, and write the tables of the pages on a ranking that agrees with labels and one that does not.

All are made by the commands that the pages show, from the files of the runs. No text of the published data is copied.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

import youden
from youden import cli
from youden.report.charts.vega import render_picture
from youden.text.words import mean_lengths
from youden.types import Pool
from youden.types.pool import Json

DOCS = Path(__file__).parents[1] / "docs"
FIGURE = DOCS / "pictures" / "alpaca-eval.svg"
QUALITY = DOCS / "pictures" / "quality.svg"
LABELS_PER_AGENT = 5
WORKS, FAILS = DOCS / "read" / "when-it-works.md", DOCS / "read" / "when-it-fails.md"
BEGIN, END = "<!-- made by benchmarks/labels.py: begin -->", "<!-- end -->"
GAMED = ("NullModel", "gpt4_gamed")
MIN_MODELS_TO_SPLIT = 20
LABELED_AGENTS = {*GAMED, "gpt-4o-2024-05-13", "falcon-7b-instruct"}
"""Agents whose names are printed next to their points."""

Row = dict[str, Any]


def write_pages(shared: Path) -> None:
    """Draw both figures, and replace the tables of both pages."""
    rows = run_alpaca_eval(shared / "alpaca-eval")
    FIGURE.write_bytes(render_picture(make_figure_spec(rows), "svg"))
    QUALITY.write_bytes(draw_quality(shared / "alpaca-eval"))
    for page, table in (
        (WORKS, format_works_table(rows)),
        (FAILS, format_fails_table(run_mt_bench(shared / "mt-bench"))),
    ):
        page.write_text(replace_table(page.read_text(encoding="utf-8"), table), encoding="utf-8")


def replace_table(page: str, table: str) -> str:
    """Return the page with `table` between its markers."""
    head, tail = page.split(BEGIN)
    return f"{head}{BEGIN}\n{table}\n{END}{tail.split(END, 1)[1]}"


def run_alpaca_eval(folder: Path) -> list[Row]:
    """Return one row per model, best first: its row of ranking.csv, published win rates, and mean response length in words."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        pool = _make_alpaca_run(folder)
        rows = _read_table(Path("runs/alpaca/ranking.csv"))
    length = dict(zip((agent.id for agent in pool.agents), mean_lengths(pool.texts).tolist(), strict=True))
    labels = {row["agent"]: row for row in _read_table(folder / "leaderboard.csv")}
    return [{**row, **labels[row["agent"]], "length": length[row["agent"]]} for row in rows]


def draw_quality(folder: Path) -> bytes:
    """Draw quality estimated from a few published preferences of each model that has some, on items drawn with seed 0."""
    rng = np.random.default_rng(0)
    prompts = json.loads((folder / "items.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        item = {pool_item.prompt: pool_item.id for pool_item in _make_alpaca_run(folder).items}
        preferences = _read_table(folder / "preferences.csv")
        with Path("labels.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["agent", "item", "preference"])
            for agent in dict.fromkeys(row["agent"] for row in preferences):
                rows_of_agent = [row for row in preferences if row["agent"] == agent]
                for position in rng.choice(len(rows_of_agent), LABELS_PER_AGENT, replace=False).tolist():
                    table.writerow(
                        [
                            agent,
                            item[prompts[int(rows_of_agent[position]["item_number"])]],
                            rows_of_agent[position]["win"],
                        ]
                    )
        _run_command("quality", "runs/alpaca", "--labels", "labels.csv")
        _run_command("report", "runs/alpaca", "--format", "svg", "--chart", "quality", "--out", "quality.svg")
        return Path("quality.svg").read_bytes()


def _make_alpaca_run(folder: Path) -> Pool:
    """Make the run runs/alpaca in the current folder, and return its pool."""
    _run_command("import", "alpaca-eval", str(folder / "results"), "--out", "alpaca-eval")
    Path("alpaca.yaml").write_text("pool: alpaca-eval\n", encoding="utf-8")
    _run_command("run", "alpaca.yaml")
    return youden.read_pool("alpaca-eval")


def run_mt_bench(folder: Path) -> list[Row]:
    """Return one row per model, best first, by the commands of the page."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        shutil.copy(folder / "scores.csv", "scores.csv")
        _run_command("import", "fastchat", str(folder / "model_answer"), "--out", "mt-bench")
        Path("mt.yaml").write_text("pool: mt-bench\ndesign: dense\nholdout: 0\n", encoding="utf-8")
        _run_command("run", "mt.yaml", "--families", "scores.csv")
        rows = _read_table(Path("runs/mt/ranking.csv"))
        labels = {row["agent"]: row for row in _read_table(Path("scores.csv"))}
    return [{**row, **labels[row["agent"]]} for row in rows]


def format_works_table(rows: Sequence[Row]) -> str:
    """Format ranks by ability and by win rate of every model, and the correlations of both."""
    order = sorted(rows, key=lambda row: -float(row["win_rate"]))
    lines = [
        f"| {format_ranks(row)} | {row['agent']} | {float(row['ability']):.3f} "
        f"| {float(row['low']):.3f} … {float(row['high']):.3f} "
        f"| {order.index(row) + 1} | {float(row['win_rate']):.1f} |"
        for row in rows
    ]
    honest = [row for row in rows if row["agent"] not in GAMED]
    win_rate = np.array([float(row["win_rate"]) for row in honest])
    groups = select_models(win_rate, np.ones(len(honest), dtype=np.bool_))
    rows_by_group = {
        name: [honest[k] for k in np.flatnonzero(mask)] for name, mask in groups.items() if name != "honest"
    }
    n_common = count_common_top(np.array([float(row["ability"]) for row in honest]), win_rate)
    return "\n".join(
        [
            f"| {len(rows)} models | all | without the two that game a judge |",
            "| --- | --- | --- |",
            *(
                f"| {label} | {rho(rows, 'ability', column):.2f} (length alone {rho(rows, 'length', column):.2f}) "
                f"| {rho(honest, 'ability', column):.2f} (length alone {rho(honest, 'length', column):.2f}) |"
                for label, column in (
                    ("ρ with win rates", "win_rate"),
                    ("ρ with length-controlled win rates", "lc_win_rate"),
                )
            ),
            "",
            f"| models, of the {len(honest)} without these two | ρ with win rates | ρ of length alone |",
            "| --- | --- | --- |",
            *(
                f"| {name} by win rate ({len(group)}) | {rho(group, 'ability', 'win_rate'):.2f} "
                f"| {rho(group, 'length', 'win_rate'):.2f} |"
                for name, group in rows_by_group.items()
            ),
            "",
            f"Of the five models with the highest win rates, {n_common} are among the five with the highest abilities.",
            "",
            "| rank | model | ability | 95% | rank by win rate | win rate, % |",
            "| --- | --- | --: | --- | --: | --: |",
            *lines,
        ]
    )


def format_fails_table(rows: Sequence[Row]) -> str:
    """Format each model's published score, ability, and ability by other families' answers."""
    lines = [
        f"| {row['agent']} | {row['family']} | {float(row['mt_bench_score']):.2f} | {float(row['ability']):.3f} "
        f"| {format_ranks(row)} | {_format_number(row['family_ability'])} |"
        for row in sorted(rows, key=lambda row: -float(row["mt_bench_score"]))
    ]
    return "\n".join(
        [
            "| model | family | MT-Bench score | ability | ranks | ability by other families |",
            "| --- | --- | --: | --: | --- | --: |",
            *lines,
            "",
            f"Spearman's ρ with the published score: {rho(rows, 'ability', 'mt_bench_score'):+.2f} by ability, "
            f"{rho(rows, 'family_ability', 'mt_bench_score'):+.2f} by other families' answers.",
        ]
    )


def select_models(label: NDArray[np.float64], is_honest: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Return masks of all models, of those that game no judge, and of parts of the latter by label, bool (n_agents,)."""
    order = np.argsort(-np.where(is_honest, label, -np.inf), kind="stable")
    position = np.empty(len(label), dtype=np.int64)
    position[order] = np.arange(len(label))
    n_honest = int(is_honest.sum())
    masks = {"all": np.ones_like(is_honest)} if n_honest < len(label) else {}
    masks["honest"] = is_honest
    if n_honest >= MIN_MODELS_TO_SPLIT:
        masks["upper half"] = position < n_honest // 2
        masks["lower half"] = is_honest & ~masks["upper half"]
        masks["upper quarter"] = position < n_honest // 4
    return masks


def count_common_top(ability: NDArray[np.float64], label: NDArray[np.float64], *, n: int = 5) -> int:
    """Count the models that are among the first `n` both by ability and by label."""
    return len(set(np.argsort(-ability)[:n].tolist()) & set(np.argsort(-label)[:n].tolist()))


def rho(rows: Sequence[Row], column_a: str, column_b: str) -> float:
    """Compute Spearman's ρ of two columns."""
    return float(spearmanr([float(row[column_a]) for row in rows], [float(row[column_b]) for row in rows]).statistic)


def format_ranks(row: Row) -> str:
    """Format the confidence interval of a rank."""
    low, high = row["rank_low"], row["rank_high"]
    return low if low == high else f"{low}–{high}"


def make_figure_spec(rows: Sequence[Row]) -> dict[str, Json]:
    """Make the figure of win rate against ability with its interval, and against length."""
    honest = [row for row in rows if row["agent"] not in GAMED]
    values = [
        {
            "agent": row["agent"],
            "ability": round(float(row["ability"]), 4),
            "low": round(float(row["low"]), 4),
            "high": round(float(row["high"]), 4),
            "length": round(row["length"], 1),
            "win": round(float(row["win_rate"]), 2),
            "kind": "games a judge" if row["agent"] in GAMED else "model",
            "name": row["agent"] if row["agent"] in LABELED_AGENTS else "",
        }
        for row in rows
    ]
    color = alt.Color(
        "kind:N", scale=alt.Scale(domain=["model", "games a judge"], range=["#2b6cb0", "#c2410c"]), legend=None
    )
    win = alt.Y("win:Q", title="published win rate, %", scale=alt.Scale(domain=[0, 90]))
    base = alt.Chart(alt.InlineData(values=values))
    ability = alt.X("ability:Q", title="ability, with 95% intervals (no labels used)")
    ability_chart = alt.layer(
        base.mark_rule(opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q", y=win, color=color),
        base.mark_circle(size=36, opacity=1).encode(x=ability, y=win, color=color),
        base.mark_text(dy=-9, fontSize=10, color="#24292f").encode(x=ability, y=win, text="name:N"),
    ).properties(
        width=330,
        height=270,
        title=f"by youden, offline: ρ = {rho(honest, 'ability', 'win_rate'):.2f}",
    )
    length = alt.X("length:Q", title="mean length of responses, words")
    length_chart = (
        base.mark_circle(size=36, opacity=1)
        .encode(x=length, y=win, color=color)
        .properties(width=220, height=270, title=f"by length alone: ρ = {rho(honest, 'length', 'win_rate'):.2f}")
    )
    chart = alt.hconcat(ability_chart, length_chart).properties(
        title=alt.Title(
            f"{len(rows)} published models × 200 prompts of AlpacaEval",
            subtitle="orange: two entries that game a judge, not counted in ρ. Source: benchmarks/labels.py",
            anchor="start",
            subtitleColor="#57606a",
        ),
        background="#ffffff",
    )
    spec: dict[str, Json] = chart.to_dict()
    return spec


def _format_number(text: str) -> str:
    return f"{float(text):.3f}" if text and not math.isnan(float(text)) else "–"


def _read_table(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _run_command(*arguments: str) -> None:
    """Run a command of youden in this process; raise RuntimeError if it fails."""
    original_arguments = sys.argv
    sys.argv = ["youden", *arguments]
    try:
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            cli.main()
    except SystemExit as exit_:
        if exit_.code:
            raise RuntimeError(f"youden {' '.join(arguments)}: {out.getvalue()}{err.getvalue()}") from exit_
    finally:
        sys.argv = original_arguments
