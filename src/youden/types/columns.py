"""What a column of a stored table is: its name, its type, its unit, what it means. Each table declares its columns once.

Writers, readers, JSON, schemas, exporters, the tables of a report and the book go by these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

Kind = Literal["text", "whole", "number", "share", "bit", "key"]
Field = str | int | float | None


@dataclass(frozen=True)
class TableColumn:
    """A column of a file.

    kind: text; whole, a number from 0 on; number; share, a number in [0, 1]; bit, 0 or 1; key, a sha256 in hex. unit: of a
    number, empty where it has none or the meaning says it.
    null: whether it may be empty. words: what a text may say, where it is one of a few. of: whose ids it holds (agents, items,
    models).
    heading: above it in a ranking that is shown, empty where it stands there in another form or not at all.
    standing: whether the rankings beside the plain one have it too.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    null: bool = False
    words: tuple[str, ...] = ()
    of: str = ""
    heading: str = ""
    standing: bool = False

    @property
    def said(self) -> str:
        """Its meaning and its unit in words."""
        return f"{self.meaning}, in {self.unit}" if self.unit else self.meaning


@dataclass(frozen=True)
class Meaning:
    """What a row's field says of its column beside name and type, which are the field's own."""

    text: str
    heading: str = ""
    standing: bool = False


_KINDS: Mapping[type, Kind] = {str: "text", int: "whole", float: "number"}


@cache
def columns_of(row: type[Any]) -> tuple[TableColumn, ...]:
    """The columns that a row's class declares: its fields with a `Meaning`, in their order.

    >>> from youden.types.facts import RankingRow
    >>> [(column.name, column.kind, column.null) for column in columns_of(RankingRow)[:2]]
    [('agent', 'text', False), ('group', 'text', True)]
    """
    found = []
    for name, hint in get_type_hints(row, include_extras=True).items():
        said = next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Meaning)), None)
        if said is not None:
            kinds = [kind for kind in get_args(hint.__origin__) or (hint.__origin__,) if kind is not NoneType]
            null = NoneType in get_args(hint.__origin__)
            found.append(
                TableColumn(name, _KINDS[kinds[0]], said.text, null=null, heading=said.heading, standing=said.standing)
            )
    return tuple(found)


def fields_of(row: Any) -> dict[str, Field]:
    """What a row holds in the columns of its class."""
    kind: Any = type(row)
    return {column.name: getattr(row, column.name) for column in columns_of(kind)}
