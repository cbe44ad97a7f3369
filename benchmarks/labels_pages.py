"""README's figures, and the tables of the book's pages on a ranking that agrees with labels and one that does not.

Both are made by the commands that the pages show, from the files of the runs. No text of the published data is copied.
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
from scipy.stats import spearmanr

import youden
from youden import cli
from youden.report.charts.vega import draw
from youden.text.words import mean_lengths
from youden.types import Pool
from youden.types.pool import Json

DOCS = Path(__file__).parents[1] / "docs"
FIGURE = DOCS / "pictures" / "alpaca-eval.svg"
QUALITY = DOCS / "pictures" / "quality.svg"
LABELS_AN_AGENT = 5
WORKS, FAILS = DOCS / "read" / "when-it-works.md", DOCS / "read" / "when-it-fails.md"
BEGIN, END = "<!-- made by benchmarks/labels.py: begin -->", "<!-- end -->"
GAMED = ("NullModel", "gpt4_gamed")
NAMED = {*GAMED, "gpt-4o-2024-05-13", "falcon-7b-instruct"}
"""Points that have their names beside them."""

Row = dict[str, Any]


def write_pages(shared: Path) -> None:
    """The figure and both pages, where the data are there."""
    works = alpaca_rows(shared / "alpaca-eval")
    FIGURE.write_bytes(draw(figure(works), "svg"))
    QUALITY.write_bytes(quality_picture(shared / "alpaca-eval"))
    for page, table in ((WORKS, works_table(works)), (FAILS, fails_table(mt_bench_rows(shared / "mt-bench")))):
        page.write_text(current(page.read_text(encoding="utf-8"), table), encoding="utf-8")


def current(page: str, table: str) -> str:
    """A page with its table made anew."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}"


def alpaca_rows(folder: Path) -> list[Row]:
    """A row a model, best first: ranking.csv, published win rates, mean length of the responses in words."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        pool = _alpaca_run(folder)
        rows = _table(Path("runs/alpaca/ranking.csv"))
    length = dict(zip((agent.id for agent in pool.agents), mean_lengths(pool.texts).tolist(), strict=True))
    labels = {row["agent"]: row for row in _table(folder / "leaderboard.csv")}
    return [{**row, **labels[row["agent"]], "length": length[row["agent"]]} for row in rows]


def quality_picture(folder: Path) -> bytes:
    """The report's figure of quality by a few published preferences of each model that has some, on items drawn by seed 0."""
    rng = np.random.default_rng(0)
    prompts = json.loads((folder / "items.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        item = {one.prompt: one.id for one in _alpaca_run(folder).items}
        said = _table(folder / "preferences.csv")
        with Path("labels.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["agent", "item", "preference"])
            for agent in dict.fromkeys(row["agent"] for row in said):
                own = [row for row in said if row["agent"] == agent]
                for at in rng.choice(len(own), LABELS_AN_AGENT, replace=False).tolist():
                    table.writerow([agent, item[prompts[int(own[at]["item_number"])]], own[at]["win"]])
        _youden("quality", "runs/alpaca", "--labels", "labels.csv")
        _youden("report", "runs/alpaca", "--format", "svg", "--chart", "quality", "--out", "quality.svg")
        return Path("quality.svg").read_bytes()


def _alpaca_run(folder: Path) -> Pool:
    """runs/alpaca where one stands, and its pool."""
    _youden("import", "alpaca-eval", str(folder / "results"), "--out", "alpaca-eval")
    Path("alpaca.yaml").write_text("pool: alpaca-eval\n", encoding="utf-8")
    _youden("run", "alpaca.yaml")
    return youden.read_pool("alpaca-eval")


def mt_bench_rows(folder: Path) -> list[Row]:
    """A row a model, best first, by the commands of the page."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        shutil.copy(folder / "scores.csv", "scores.csv")
        _youden("import", "fastchat", str(folder / "model_answer"), "--out", "mt-bench")
        Path("mt.yaml").write_text("pool: mt-bench\ndesign: dense\nholdout: 0\n", encoding="utf-8")
        _youden("run", "mt.yaml", "--families", "scores.csv")
        rows = _table(Path("runs/mt/ranking.csv"))
        labels = {row["agent"]: row for row in _table(Path("scores.csv"))}
    return [{**row, **labels[row["agent"]]} for row in rows]


def works_table(rows: Sequence[Row]) -> str:
    """Every model with its place by ability and by win rate, and what the two have to do with each other."""
    order = sorted(rows, key=lambda row: -float(row["win_rate"]))
    lines = [
        f"| {place(row)} | {row['agent']} | {float(row['ability']):.3f} | {float(row['low']):.3f} … {float(row['high']):.3f} "
        f"| {order.index(row) + 1} | {float(row['win_rate']):.1f} |"
        for row in rows
    ]
    honest = [row for row in rows if row["agent"] not in GAMED]
    return "\n".join(
        [
            f"| {len(rows)} models | all | without the two that game a judge |",
            "| --- | --- | --- |",
            *(
                f"| {what} | {rho(rows, 'ability', key):.2f} (length alone {rho(rows, 'length', key):.2f}) "
                f"| {rho(honest, 'ability', key):.2f} (length alone {rho(honest, 'length', key):.2f}) |"
                for what, key in (
                    ("ρ with win rates", "win_rate"),
                    ("ρ with length-controlled win rates", "lc_win_rate"),
                )
            ),
            "",
            "| place | model | ability | 95 % | place by win rate | win rate, % |",
            "| --- | --- | --: | --- | --: | --: |",
            *lines,
        ]
    )


def fails_table(rows: Sequence[Row]) -> str:
    """Every model with its published score, its ability, and the ability that other families' answers give it."""
    lines = [
        f"| {row['agent']} | {row['family']} | {float(row['mt_bench_score']):.2f} | {float(row['ability']):.3f} | {place(row)} "
        f"| {_number(row['family_ability'])} |"
        for row in sorted(rows, key=lambda row: -float(row["mt_bench_score"]))
    ]
    return "\n".join(
        [
            "| model | family | MT-Bench score | ability | places | ability by other families |",
            "| --- | --- | --: | --: | --- | --: |",
            *lines,
            "",
            f"Spearman's ρ with the published score: {rho(rows, 'ability', 'mt_bench_score'):+.2f} by ability, "
            f"{rho(rows, 'family_ability', 'mt_bench_score'):+.2f} by other families' answers.",
        ]
    )


def rho(rows: Sequence[Row], one: str, other: str) -> float:
    """Spearman's ρ of two columns."""
    return float(spearmanr([float(row[one]) for row in rows], [float(row[other]) for row in rows]).statistic)


def place(row: Row) -> str:
    """The places an agent can hold."""
    low, high = row["place_low"], row["place_high"]
    return low if low == high else f"{low}–{high}"


def figure(rows: Sequence[Row]) -> dict[str, Json]:
    """Win rate against ability with its interval, and beside it against length."""
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
            "name": row["agent"] if row["agent"] in NAMED else "",
        }
        for row in rows
    ]
    colour = alt.Color(
        "kind:N", scale=alt.Scale(domain=["model", "games a judge"], range=["#2b6cb0", "#c2410c"]), legend=None
    )
    win = alt.Y("win:Q", title="published win rate, %", scale=alt.Scale(domain=[0, 90]))
    base = alt.Chart(alt.InlineData(values=values))
    ability = alt.X("ability:Q", title="ability, with 95 % intervals (no labels used)")
    left = alt.layer(
        base.mark_rule(opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q", y=win, color=colour),
        base.mark_circle(size=36, opacity=1).encode(x=ability, y=win, color=colour),
        base.mark_text(dy=-9, fontSize=10, color="#24292f").encode(x=ability, y=win, text="name:N"),
    ).properties(
        width=330,
        height=270,
        title=f"by youden, offline: ρ = {rho(honest, 'ability', 'win_rate'):.2f}",
    )
    length = alt.X("length:Q", title="mean length of responses, words")
    right = (
        base.mark_circle(size=36, opacity=1)
        .encode(x=length, y=win, color=colour)
        .properties(width=220, height=270, title=f"by length alone: ρ = {rho(honest, 'length', 'win_rate'):.2f}")
    )
    chart = alt.hconcat(left, right).properties(
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


def _number(text: str) -> str:
    return f"{float(text):.3f}" if text and not math.isnan(float(text)) else "–"


def _table(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _youden(*words: str) -> None:
    before = sys.argv
    sys.argv = ["youden", *words]
    try:
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            cli.main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"youden {' '.join(words)}: {out.getvalue()}{err.getvalue()}") from ended
    finally:
        sys.argv = before
