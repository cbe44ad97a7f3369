"""Write small synthetic files in the layouts of other tools."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MODELS = ("acme/alpha-7b", "beta-large", "gamma")
QUESTIONS = tuple(f"What does rule {n} of the {topic} say?" for n, topic in enumerate(("house", "road", "pool") * 3, 1))
TASKS = ("gsm8k", "ifeval")
Row = dict[str, Any]


def answer(model: str, n: int) -> str:
    """Return the text of one response; it names its question, so that a test sees whether items line up."""
    own = ("briefly", "in detail", "with an example")[MODELS.index(model)]
    return f"Rule {n + 1} says {own} that page {n + 3} of topic{n} holds, according to {model}."


@dataclass(frozen=True)
class Layout:
    """A written layout and its expected content.

    Attributes
    ----------
    path : str
        What a user passes to `youden init` or `youden import`.
    format : str
        Import format.
    agents : tuple of str
        Expected agents.
    n_items, n_prompts : int
        Expected numbers of items, and of items with a prompt.
    n_repeats : int
        Expected number of responses of each agent to each item.
    """

    path: str
    format: str = "table"
    agents: tuple[str, ...] = MODELS
    n_items: int = len(QUESTIONS)
    n_prompts: int = len(QUESTIONS)
    n_repeats: int = 1


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    write(path, json.dumps(content, indent=1))


def write_lines(path: Path, rows: Sequence[Row]) -> None:
    write(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write rows; lists and objects as their JSON."""
    buffer = io.StringIO(newline="")
    table = csv.DictWriter(buffer, list(rows[0]))
    table.writeheader()
    for row in rows:
        table.writerow({name: json.dumps(v) if isinstance(v, list | dict) else v for name, v in row.items()})
    write(path, buffer.getvalue())


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


def calls() -> Iterator[tuple[str, int, str, str]]:
    """Yield model, number of the question, question and answer."""
    for model in MODELS:
        for n, question in enumerate(QUESTIONS):
            yield model, n, question, answer(model, n)


def per_model(row: Callable[[str, int, str, str], Row]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for model, n, question, text in calls():
        rows.setdefault(model, []).append(row(model, n, question, text))
    return rows


def file_name(model: str) -> str:
    return model.replace("/", "__")


FILE_NAMES = tuple(map(file_name, MODELS))
