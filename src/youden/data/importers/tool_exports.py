"""Layouts of the tables that other tools export, each as its own documentation gives it: Langfuse, LangSmith, Braintrust and
W&B. Those of Phoenix, DeepEval and Ragas are read by their columns' names (`guessed_columns.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from youden.data.importers.foreign_files import inner
from youden.nouns import Json


class _Export(NamedTuple):
    """marks: columns that all have to be there. The others: where a noun stands, the first that a row has; with a path inside."""

    marks: tuple[str, ...]
    text: str
    prompt: str
    agent: tuple[str, ...]
    item: tuple[str, ...] = ()


EXPORTS = {
    # Observations, as exported from the table or to blob storage. An item is what was asked.
    "Langfuse": _Export(("traceId", "input", "output"), "output", "input", ("model", "providedModelName")),
    "Langfuse, blob storage": _Export(("trace_id", "input", "output"), "output", "input", ("provided_model_name",)),
    # Runs of experiments; several answer one example of the data set.
    "LangSmith": _Export(
        ("inputs", "outputs", "reference_example_id"),
        "outputs",
        "inputs",
        ("session_name", "session_id", "extra.metadata.ls_model_name"),
        ("reference_example_id",),
    ),
    # An experiment's rows; each has ids of its own, so an item is what was asked.
    "Braintrust": _Export(("root_span_id", "input", "output"), "output", "input", ("metadata.model",)),
}


def tool_columns(row: Mapping[str, Json]) -> dict[str, str]:
    """Noun → path, where the row is one of a tool's export; else nothing.

    >>> tool_columns({"root_span_id": "r", "input": {"question": "q"}, "output": "a", "metadata": {"model": "m"}})
    {'text': 'output', 'prompt': 'input.question', 'agent': 'metadata.model'}
    """
    for export in EXPORTS.values():
        if all(mark in row for mark in export.marks):
            found = {"text": _said(row, export.text), "prompt": _said(row, export.prompt)}
            for noun, paths in (("agent", export.agent), ("item", export.item)):
                if (path := next((path for path in paths if _at(row, path) is not None), None)) is not None:
                    found[noun] = path
            return found
    return {}


def table_of_columns(found: Mapping[str, Json]) -> Sequence[dict[str, Json]] | None:
    """The rows of a W&B table (`NAME.table.json`: `columns`, and a list of `data` for each row); None where it is none."""
    names, data = found.get("columns"), found.get("data")
    if not isinstance(names, list) or not isinstance(data, list) or not all(isinstance(row, list) for row in data):
        return None
    return [dict(zip(map(str, names), row, strict=False)) for row in data if isinstance(row, list)]


def _at(row: Mapping[str, Json], path: str) -> Json:
    return inner(dict(row), *path.split("."))


def _said(row: Mapping[str, Json], column: str) -> str:
    """The path to what a column says: itself, the content of a message, or the only value of an object, such as `answer`."""
    value = row[column]
    while isinstance(value, dict):
        key = "content" if "role" in value else next(iter(value)) if len(value) == 1 else None
        if key is None:
            break
        column, value = f"{column}.{key}", value[key]
    return column
