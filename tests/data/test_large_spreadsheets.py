"""Test spreadsheets whose size exceeds their content: a stray cell, cells merged over all rows, many columns.

An algorithm that is quadratic in rows or columns would take hours here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest

from commands import Youden
from narrowing import untyped
from youden.data.importers.column_roles import find_roles
from youden.data.importers.excel_files import read_excel_sheets
from youden.data.importers.table_header import Rows
from youden.data.pools.pool_reader import read_pool
from youden.errors import ImportFormatError, InputError

HEADER = ("model", "question", "answer")
ROWS = [(f"m{i}", f"question {j}", f"answer {i} to {j}") for i in range(2) for j in range(10)]


def workbook(path: Path, *, above: int = 0, merged: tuple[str, ...] = (), **cells: object) -> Path:
    """Write a table below `above` blank rows, with further cells by their address and merged ranges."""
    book = openpyxl.Workbook()
    sheet = book.active
    for n, row in enumerate((HEADER, *ROWS), above + 1):
        for column, value in enumerate(row, 1):
            sheet.cell(n, column, value)
    for address, content in cells.items():
        sheet[address] = content
    for area in merged:
        sheet.merged_cells.add(area)
    book.save(path)
    return path


def rows_of(path: Path) -> Rows:
    ((_, rows),) = read_excel_sheets(path, lambda *_: None)
    return rows


def table(rows: Rows) -> list[tuple[object, ...]]:
    return [tuple(row.get(name) for name in HEADER) for _, row in rows]


@pytest.mark.parametrize("column", ["A", *(pytest.param(name, marks=pytest.mark.slow) for name in ("C", "D", "XFD"))])
@pytest.mark.parametrize(
    "stray", ["x", pytest.param(" ", marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow)]
)
def test_a_stray_cell_in_the_last_row_adds_at_most_its_row_and_its_column(
    column: str, stray: object, tmp_path: Path
) -> None:
    cells: dict[str, Any] = {f"{column}1048576": stray}
    rows = rows_of(workbook(tmp_path / "t.xlsx", **cells))
    assert table(rows[: len(ROWS)]) == ROWS
    assert len(rows) == len(ROWS) + (stray != " ")
    assert len(rows[0][1]) == len(HEADER) + (stray != " " and column in ("D", "XFD"))
    if stray != " ":
        place, row = rows[-1]
        assert place == "t.xlsx, sheet Sheet, line 1048576"
        assert [cell for cell in row.values() if cell is not None] == [stray]
    if len(rows[0][1]) > len(HEADER):
        assert list(rows[0][1])[-1] == f"column {4 if column == 'D' else 16384}"


def test_blank_rows_above_between_and_below_are_dropped(tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx", above=1000, B5="A title", C2000="  ")
    notes: list[str] = []
    ((_, rows),) = read_excel_sheets(file, lambda text, *_: notes.append(text))
    assert table(rows) == ROWS
    assert rows[0][0] == "t.xlsx, sheet Sheet, line 1002"
    assert notes == ["1 line above the header not read"]


def test_vertically_merged_cells_have_the_top_value_and_add_no_rows(tmp_path: Path) -> None:
    cells: dict[str, Any] = {f"A{n}": None for n in range(2, 22) if n != 2}
    rows = rows_of(workbook(tmp_path / "t.xlsx", merged=("A2:A1048576", "B3:C3", "A1:XFD1"), **cells))
    assert table(rows) == [("m0", question, answer) for _, question, answer in ROWS]


def test_the_unpacked_size_of_a_small_excel_file_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = workbook(tmp_path / "t.xlsx")
    monkeypatch.setenv("YOUDEN_MAX_UNPACKED_GB", "0.000001")
    with pytest.raises(InputError, match="unpacked"):
        rows_of(file)


@pytest.mark.parametrize("damaged", [b"", b"no archive", b"cut"])
def test_a_damaged_excel_file_is_an_error_with_its_name(damaged: bytes, tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx")
    file.write_bytes(file.read_bytes()[:-300] if damaged == b"cut" else damaged)
    with pytest.raises(ImportFormatError, match=r"t\.xlsx.*Save it again"):
        rows_of(file)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["each column an agent", "columns that say nothing"])
def test_a_table_of_ten_thousand_columns_is_read(layout: str, youden: Youden, tmp_path: Path) -> None:
    n = 10_000
    if layout == "each column an agent":
        header = ["question", *(f"model {i}" for i in range(n))]
        lines = [[f"question {j}", *(f"an answer {i} to {j}" for i in range(n))] for j in range(2)]
    else:
        header = [*HEADER, *(f"extra {i}" for i in range(n))]
        lines = [[*row, *["1"] * n] for row in ROWS]
    (tmp_path / "t.csv").write_text("\n".join(map(",".join, [header, *lines])), encoding="utf-8")
    youden("import", "table", "t.csv", "--out", "pool").well()
    assert read_pool(tmp_path / "pool").n_agents == (n if layout == "each column an agent" else 2)


def test_columns_with_equal_names_are_renamed_uniquely(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (("a (3)", "a", "a", None, "column 4"), (1, 2, 3, 4, 5)):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    ((_, cells),) = rows_of(tmp_path / "t.xlsx")
    assert cells == {"a (3)": 1, "a": 2, "a (3) (3)": 3, "column 4": 4, "column 4 (5)": 5}


class CountedRow(dict[str, object]):
    """Row that counts how often it is read."""

    n = 0

    def get(self, key: str, default: object = None) -> object:
        CountedRow.n += 1
        return super().get(key, default)


@pytest.mark.slow
@pytest.mark.parametrize("grown", ["rows", "columns"])
def test_column_inference_reads_each_row_at_most_once_per_column(grown: str) -> None:
    def n_looks(n: int) -> int:
        n_rows, n_columns = (n, 200) if grown == "rows" else (40, n)
        blank = {f"blank {i}": None for i in range(5)}
        extra = {f"extra {i}": "a b"[: i % 3] for i in range(n_columns)}
        own = ({"model": f"m{j % 4}", "id": f"q{j // 4}", "answer": f"answer {j}"} for j in range(n_rows))
        rows = [CountedRow({**row, **blank, **extra}) for row in own]
        CountedRow.n = 0
        untyped(find_roles)(rows)
        return CountedRow.n

    assert n_looks(1600) <= 2.5 * n_looks(800)
