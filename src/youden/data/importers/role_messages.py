"""Describe the roles of columns, for display and for error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, split_names
from youden.data.importers.foreign_files import import_error
from youden.errors import ImportFormatError
from youden.text.printable import format_command

_MAX_LISTED_CHARACTERS = 250
"""Maximum length of the list of column names in an error."""
_LOCATIONS = {FILE: "a table each", FOLDER: "a folder each", FILE_NUMBER: "names of files"}
"""Column with the folder, the file or the number of the file of each row → description of the column for display."""


def unclear_columns_error(
    path: Path, problem: str, columns: Sequence[str], options: Mapping[str, str] | None = None
) -> ImportFormatError:
    """Make the error that the roles of columns are unclear.

    path : file or folder, with which the message begins
    problem : what is unclear, without a full stop
    columns : names of the columns; the message lists the first of them, up to 250 characters
    options : column by role, for example {"text": "answer"}. The message proposes a command `youden init` that sets these
        columns. Default: the message only explains how columns are named.

    Returns the error [import-columns], to be raised by the caller.
    """
    column_list = ", ".join(name for name in columns if name not in (FOLDER, FILE))
    if len(column_list) > _MAX_LISTED_CHARACTERS:
        column_list = f"{column_list[:_MAX_LISTED_CHARACTERS]} …"
    if column_list:
        problem += f": got the columns {column_list}"
    return import_error(path, f"{problem}. {_format_remedy(path, options or {})}", slug="import-columns")


def _format_remedy(path: Path, options: Mapping[str, str]) -> str:
    """Format the sentence of an error message that tells the user how to name the columns of a table.

    path : file or folder, for the command
    options : options of the proposed command: the column for each role, such as {"text": "answer"}; empty if no command is known

    Returns a sentence with a complete command or, if `options` is empty, with the options to be set.
    """
    if not options:
        return (
            "Name the columns: `youden import table` takes --column text=NAME --column item=NAME --column agent=NAME, or "
            "--column text=NAME,NAME if each agent has a column; its --help lists the formats of tools."
        )
    command = ["youden", "init", str(path)]
    for role, column in options.items():
        command += ["--column", f"{role}={column}"]
    return f"Name the columns: `{format_command(command)}`."


def describe_roles(roles: Roles, name: str) -> str:
    """Describe which columns of an imported table contain its agents, items, prompts and responses, for display.

    roles : columns by role, such as "agent", "item" or "text". If the names of folders or files identify the agents or items,
        these names are columns of the table, too.
    name : name of the only agent, which is described if no column contains agents

    Returns one line without a full stop, such as "agents by 'model', items by 'id', prompts in 'question', texts in 'output'".
    """
    agents = " and ".join(map(_describe_column, roles.agents)) or repr(name)
    if roles.agent_columns:
        agents = f"each of {', '.join(map(repr, roles.agent_columns))}"
    parts = [f"agents by {agents}", f"items by {_describe_items(roles)}"]
    if "text" in roles.columns:
        parts.append(f"texts in {roles.columns['text']!r}")
    other_roles = [role for role in ("group", "empty", "repeat") if role in roles.columns]
    parts += [f"{role} in {_describe_column(roles.columns[role])}" for role in other_roles]
    return ", ".join(parts)


def _describe_items(roles: Roles) -> str:
    """Describe how items are identified, and which column holds their prompts.

    Returns "'id', prompts in 'question'" if the column 'id' identifies the items; "'question' (ids made from it)" if the
    prompts do; or "row" if each row is an item.
    """
    prompt = roles.columns.get("prompt")
    if roles.has_generated_ids:
        return "row" if prompt is None else f"{prompt!r} (ids made from it)"

    item_columns = split_names(str(roles.columns.get("item")))
    items = " and ".join(map(repr, item_columns))
    return f"{items}, prompts in {prompt!r}" if prompt else items


def _describe_column(column: str) -> str:
    """Return the name of a column in quotation marks, or the description of a column of folders or files."""
    return _LOCATIONS.get(column, repr(column))
