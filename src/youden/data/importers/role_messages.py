"""Describe the roles of columns, for display and for error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER
from youden.data.importers.foreign_files import import_error
from youden.errors import ImportFormatError
from youden.text.printable import format_command

_MAX_LISTED = 250
"""Maximum number of characters of column names that an error lists."""


def unclear_columns_error(
    path: Path, problem: str, columns: Sequence[str], options: Mapping[str, str] | None = None
) -> ImportFormatError:
    """Return the error that the roles of columns are unclear.

    Parameters
    ----------
    path : Path
        File or folder.
    problem : str
        What is unclear, without a full stop.
    columns : sequence of str
        Names of the columns; the message lists the first of them.
    options : mapping of str to str, optional
        Column by role that resolves the ambiguity; the message contains the command.

    Returns
    -------
    ImportFormatError
        [import-columns]
    """
    column_names = ", ".join(name for name in columns if name not in (FOLDER, FILE))
    if column_names:
        ellipsis = " …" if len(column_names) > _MAX_LISTED else ""
        problem += f": got the columns {column_names[:_MAX_LISTED]}{ellipsis}"

    remedy = (
        "Name the columns: `youden import table` takes --column text=NAME --column item=NAME --column agent=NAME; its --help "
        "lists the formats of tools."
    )
    if options:
        command = ["youden", "init", str(path)]
        for role, column in options.items():
            command += ["--column", f"{role}={column}"]
        remedy = f"Name the columns: `{format_command(command)}`."
    return import_error(path, f"{problem}. {remedy}", slug="import-columns")


def describe_roles(roles: Roles, name: str) -> str:
    """Describe which column is used for what, for display.

    Parameters
    ----------
    roles : Roles
        Columns by role.
    name : str
        Name of the agent if neither columns nor files name agents.

    Returns
    -------
    str
        Such as "agents by 'model', items by 'id', prompts in 'question', texts in 'output'".
    """
    locations = {FILE: "a table each", FOLDER: "a folder each", FILE_NUMBER: "names of files"}
    if roles.agents:
        agents = " and ".join(locations.get(column, repr(column)) for column in roles.agents)
    elif roles.agent_columns:
        agents = "each of " + ", ".join(map(repr, roles.agent_columns))
    else:
        agents = repr(name)

    prompt = roles.columns.get("prompt")
    if not roles.has_generated_ids:
        item_columns = str(roles.columns.get("item")).split(" + ")
        items = " and ".join(map(repr, item_columns))
        if prompt:
            items += f", prompts in {prompt!r}"
    elif prompt is None:
        items = "row"
    else:
        items = f"{prompt!r} (ids made from it)"

    parts = [f"agents by {agents}", f"items by {items}"]
    if "text" in roles.columns:
        parts.append(f"texts in {roles.columns['text']!r}")
    for role in ("group", "empty", "repeat"):
        column = roles.columns.get(role)
        if column:
            parts.append(f"{role} in {locations.get(column, repr(column))}")
    return ", ".join(parts)
