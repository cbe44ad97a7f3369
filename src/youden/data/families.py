"""Reads a table of agents and the family each is of, such as the company or the base model behind it."""

from __future__ import annotations

from pathlib import Path

from youden.data.importers.tables.loose_table import table_rows
from youden.errors import ImportFormatError


def read_families(path: Path) -> dict[str, str]:
    """Agent → family, from a .csv, .tsv, .jsonl or .parquet with the columns agent and family; an empty family says nothing.

    Raises: ImportFormatError [families-columns], [families-twice] where an agent has two, [families-empty], and what reading the
    file raises.
    """
    found: dict[str, str] = {}
    for place, row in table_rows(path):
        if "agent" not in row or "family" not in row:
            raise ImportFormatError(
                f"{place}: the columns are {', '.join(map(str, row))}. A table of families has the columns agent and family.",
                slug="families-columns",
            )
        agent, family = (str(row[name] if row[name] is not None else "").strip() for name in ("agent", "family"))
        if not agent or not family:
            continue
        if found.setdefault(agent, family) != family:
            raise ImportFormatError(
                f"{place}: '{agent}' is of the family '{family}' here and of '{found[agent]}' before. Keep one line an agent.",
                slug="families-twice",
            )
    if not found:
        raise ImportFormatError(
            f"{path} names no agent with a family. Give lines of agent and family.", slug="families-empty"
        )
    return found
