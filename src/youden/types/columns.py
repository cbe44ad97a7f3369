"""Declare the columns of stored tables: name, type, unit and meaning.

Each table declares its columns once. Readers, writers, schemas, exporters, reports and the documentation use
these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Kind = Literal["text", "whole", "number", "share", "bit", "hash"]
"""Type of a column: a text; an integer from 0 on; a number; a fraction in [0, 1]; 0 or 1; a SHA-256 in hexadecimal."""
Field = str | int | float | None
"""Value of one cell of a table; None if it is empty."""


@dataclass(frozen=True)
class TableColumn:
    """Column of a stored table."""

    name: str
    """Name in the header."""
    kind: Kind
    """Type of its values."""
    meaning: str
    """Description for readers."""
    unit: str = ""
    """Unit of its numbers; empty if they have none or `meaning` states it."""
    null: bool = False
    """Whether a value may be missing."""
    words: tuple[str, ...] = ()
    """Allowed texts; empty if any text is allowed."""
    entity: str = ""
    """Entity whose ids it holds: "agents", "items" or "models"; empty if it holds no ids."""
    heading: str = ""
    """Heading in displayed rankings; empty if the column is displayed in another form or not at all."""
    in_terminal: bool = True
    """Whether a column with a heading is shown in the terminal, too, which has 80 columns; otherwise only in the report."""
    alternative: bool = False
    """Whether alternative rankings have this column, too."""

    @property
    def description(self) -> str:
        """Meaning, with the unit if there is one."""
        return f"{self.meaning}, in {self.unit}" if self.unit else self.meaning


@dataclass(frozen=True)
class Meaning:
    """Annotation that makes a dataclass field a `TableColumn`, which gets name, type and nullability from the field."""

    text: str
    """Description of the column."""
    heading: str = ""
    """Heading in displayed rankings; empty if the column is displayed in another form or not at all."""
    in_terminal: bool = True
    """Whether a column with a heading is shown in the terminal, too, which has 80 columns; otherwise only in the report."""
    alternative: bool = False
    """Whether alternative rankings have this column, too."""


_KINDS: Mapping[type, Kind] = {str: "text", int: "whole", float: "number"}


@cache
def columns_of(row: type[Any]) -> tuple[TableColumn, ...]:
    """Return the columns that a row class declares.

    Parameters
    ----------
    row : type
        Dataclass whose fields are annotated with a `Meaning`; other fields are skipped.

    Returns
    -------
    tuple of TableColumn
        One column per annotated field, in the order of the fields. A field that may be None is nullable.

    Examples
    --------
    >>> from youden.types.facts import RankingRow
    >>> [(column.name, column.kind, column.null) for column in columns_of(RankingRow)[:2]]
    [('agent', 'text', False), ('group', 'text', True)]
    """
    columns = []
    for name, hint in get_type_hints(row, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        field_type, *annotations = get_args(hint)
        meaning = next((annotation for annotation in annotations if isinstance(annotation, Meaning)), None)
        if meaning is not None:
            columns.append(_make_column(name, field_type, meaning))
    return tuple(columns)


def _make_column(name: str, field_type: Any, meaning: Meaning) -> TableColumn:
    """Return the column of a dataclass field with the type `field_type`, such as `float | None`."""
    # the members of a union; a single type has no members
    value_types = get_args(field_type) or (field_type,)
    kind = next(_KINDS[value_type] for value_type in value_types if value_type is not NoneType)
    return TableColumn(
        name,
        kind,
        meaning.text,
        null=NoneType in value_types,
        heading=meaning.heading,
        in_terminal=meaning.in_terminal,
        alternative=meaning.alternative,
    )


def fields_of(row: Any) -> dict[str, Field]:
    """Return the values of a row by column name, for the columns that its class declares."""
    row_class: Any = type(row)
    return {column.name: getattr(row, column.name) for column in columns_of(row_class)}
