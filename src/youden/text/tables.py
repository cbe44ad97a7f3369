"""A table of texts, drawn by whoever shows it: as Markdown here, on a terminal by `cli/output.py`.

Cells are other people's texts too: each drawer makes them safe for its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from youden.text.printable import printable
from youden.text.sentences import quoted

_RULES = {"l": "---", "r": "--:", "c": "---"}


class Table(NamedTuple):
    """sides: a letter a column, where its cells stand: l(eft), r(ight), or c for letters of one width that are never wrapped."""

    title: str
    heads: Sequence[str]
    sides: str
    rows: Iterable[Sequence[str]]


def two_sided(title: str, left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """left, right: heads of its columns, by the side on which their cells stand."""
    return Table(title, [*left, *right], "l" * len(left) + "r" * len(right), rows)


def fixed(value: float | None, digits: int = 3) -> str:
    """A cell: the number with so many digits behind the point, a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def as_markdown(table: Table) -> str:
    """Without its title; cells are shown as they are, whatever they hold.

    >>> print(as_markdown(two_sided("", ["agent"], ["n"], [["a|b", "3"]])))
    | agent | n |
    | --- | --: |
    | a\\|b | 3 |
    """
    lines = [[*map(quoted, table.heads)], [_RULES[side] for side in table.sides]]
    lines += [[_cell(cell, side) for cell, side in zip(row, table.sides, strict=True)] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_html(table: Table) -> str:
    """Format a table as HTML, with all its text escaped.

    >>> as_html(two_sided("T", ["agent"], ["n"], [["<b>", "3"]]))  # doctest: +ELLIPSIS
    '<table><caption>T</caption><thead><tr><th style="text-align: left">agent</th>...&lt;b&gt;...</table>'
    """
    sides = {"l": "left", "r": "right", "c": "left"}

    def row(cells: Sequence[str], tag: str) -> str:
        drawn = (
            f'<{tag} style="text-align: {sides[side]}">{escape(printable(cell))}</{tag}>'
            for cell, side in zip(cells, table.sides, strict=True)
        )
        return f"<tr>{''.join(drawn)}</tr>"

    body = "".join(row(cells, "td") for cells in table.rows)
    caption = escape(printable(table.title))
    return f"<table><caption>{caption}</caption><thead>{row(table.heads, 'th')}</thead><tbody>{body}</tbody></table>"


def _cell(cell: str, side: str) -> str:
    return f"`{cell}`" if side == "c" and cell else quoted(cell)


def bar(low: float, middle: float, high: float, *, cells: int) -> str:
    """An interval in so many letters; low, middle, high: in [0, 100].

    >>> bar(20, 50, 80, cells=11)
    '  ───●───'
    """
    first, dot = round(low / 100 * (cells - 1)), round(middle / 100 * (cells - 1))
    last = max(first, round(high / 100 * (cells - 1)))
    drawn = " " * first + "─" * (last - first + 1)
    return drawn[:dot] + "●" + drawn[dot + 1 :]
