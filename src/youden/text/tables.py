"""Represent a table of texts, and format it as Markdown or HTML; `cli/output.py` prints it on a terminal.

Cells may contain untrusted text, so each formatter escapes them for its output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from youden.text.printable import printable
from youden.text.sentences import escape_markdown

_MARKDOWN_RULES = {"l": "---", "r": "--:", "c": "---"}
_CSS_ALIGNMENT = {"l": "left", "r": "right", "c": "left"}


class Table(NamedTuple):
    """A table with a title, column heads and rows of cells."""

    title: str
    """Title; may be empty."""
    heads: Sequence[str]
    """Head of each column."""
    sides: str
    """Alignment of each column, one letter each: l(eft), r(ight), or c for code (monospaced, never wrapped)."""
    rows: Iterable[Sequence[str]]
    """Cells of each row."""


def make_table(
    title: str, text_headings: Sequence[str], number_headings: Sequence[str], rows: Iterable[Sequence[str]]
) -> Table:
    """Make the data of a table whose first columns are aligned left and whose other columns are aligned right.

    Parameters
    ----------
    title : str
        Title of the table; may be empty.
    text_headings, number_headings : sequence of str
        Headings of the left-aligned and of the right-aligned columns.
    rows : iterable of sequence of str
        Cells of each row, as text, one per heading, which is not checked. The cells are not escaped, and `rows` is not copied.

    Returns
    -------
    Table
        Title, headings (`heads`), alignments (`sides`, a string with "l" or "r" per column), and `rows`. `to_markdown`, `to_html`
        and the terminal output format these data.
    """
    sides = "l" * len(text_headings) + "r" * len(number_headings)
    return Table(title, [*text_headings, *number_headings], sides, rows)


def format_decimal(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` digits after the decimal point; None as a dash.

    Examples
    --------
    >>> format_decimal(-0.0004), format_decimal(None)
    ('0.000', '–')
    """
    return "–" if value is None else f"{value:z.{digits}f}"


def to_markdown(table: Table) -> str:
    """Format a table as Markdown, without its title and with its text escaped.

    Examples
    --------
    >>> print(to_markdown(make_table("", ["agent"], ["n"], [["a|b", "3"]])))
    | agent | n |
    | --- | --: |
    | a\\|b | 3 |
    """
    heads = [escape_markdown(head) for head in table.heads]
    rules = [_MARKDOWN_RULES[side] for side in table.sides]
    rows = [_format_cells(row, table.sides) for row in table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))


def to_html(table: Table) -> str:
    """Format a table as HTML, with its text escaped.

    Examples
    --------
    >>> to_html(make_table("T", ["agent"], ["n"], [["<b>", "3"]]))  # doctest: +ELLIPSIS
    '<table><caption>T</caption><thead><tr><th style="text-align: left">agent</th>...&lt;b&gt;...</table>'
    """
    body = "".join(_format_html_row(cells, table.sides, tag="td") for cells in table.rows)
    caption = escape(printable(table.title))
    head = _format_html_row(table.heads, table.sides, tag="th")
    return f"<table><caption>{caption}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"


def _format_html_row(cells: Sequence[str], sides: str, *, tag: str) -> str:
    """Format cells as a row of elements `tag`, "th" or "td", that are aligned to the given sides."""
    elements = []
    for cell, side in zip(cells, sides, strict=True):
        alignment = _CSS_ALIGNMENT[side]
        elements.append(f'<{tag} style="text-align: {alignment}">{escape(printable(cell))}</{tag}>')
    return f"<tr>{''.join(elements)}</tr>"


def _format_cells(row: Sequence[str], sides: str) -> list[str]:
    """Format the cells of a row as Markdown; columns with the side "c" are code."""
    cells = []
    for cell, side in zip(row, sides, strict=True):
        is_code = side == "c" and cell
        cells.append(f"`{cell}`" if is_code else escape_markdown(cell))
    return cells


def draw_interval(low: float, mid: float, high: float, *, cells: int) -> str:
    """Draw an interval and a point in it as a line of characters: spaces, ─ for the interval and ● for the point.

    Parameters
    ----------
    low, mid, high : float in [0, 100]
        Bounds of the interval and the point, in percent of the width, with low ≤ high. The point may be outside the
        interval. The line ends at the larger of `mid` and `high`. Positions are rounded to whole characters, and the
        interval has at least one character.
    cells : int
        Number of characters of the full width, at least 1.

    Examples
    --------
    >>> draw_interval(20, 50, 80, cells=11)
    '  ───●───'
    >>> draw_interval(20, 80, 50, cells=11), draw_interval(40, 20, 60, cells=11)
    ('  ────  ●', '  ● ───')
    """
    first = round(low / 100 * (cells - 1))
    last = max(first, round(high / 100 * (cells - 1)))
    point = round(mid / 100 * (cells - 1))
    line = (" " * first + "─" * (last - first + 1)).ljust(point)
    return line[:point] + "●" + line[point + 1 :]
