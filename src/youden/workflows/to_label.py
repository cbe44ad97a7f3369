"""Which answers of a run to label next: a table for whoever labels, without agents' names, and beside it what was chosen and why.

How many labels an agent gets is decided by what is known of it; which of its items, by chance alone, so that label means stay
unbiased. Looking for the best, all agents go through the items in one random order, so that contenders share items; else each
goes through its own.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION
from youden.data.folder.run_folder import RunFolder
from youden.data.label_tables import key_file
from youden.errors import ConfigError
from youden.streams import stream
from youden.text.spreadsheet_cells import guard
from youden.types.pool import Positions
from youden.workflows.quality import LabelledAnswers, quality_of_run

LabelsFor = Literal["best", "all"]
_WHY: dict[LabelsFor, str] = {
    "best": "each label went to the agent of which knowing more promises most for the one named best, all in one order of items",
    "all": "each label went to the agent whose quality it makes surest, each agent in its own order of items",
}
_FIRST_NAME, _NAMES = 1000, 9000


@dataclass(frozen=True)
class ToLabel:
    """What was written. given: labels by agent; n_known: labels that were there."""

    table: Path
    key: Path
    given: dict[str, int]
    n_known: int


class _Chosen(NamedTuple):
    """An answer's name in the table; its agent and item by position."""

    name: str
    agent: int
    item: int


def choose_to_label(
    folder: RunFolder,
    n: int,
    out: Path,
    *,
    purpose: LabelsFor = "all",
    known: LabelledAnswers | None = None,
    show_agents: bool = False,
    seed: int = 0,
) -> ToLabel:
    """Write the next n answers to label to `out`, and whose they are beside it.

    known: labels that are there already; their answers are not chosen again. Columns: id, prompt, text, other agents' texts on
    the item, shown_agent with `show_agents`, and label, empty. A text that a spreadsheet would run begins with an apostrophe.

    Raises: ConfigError [label-out], [label-none]; as the pool's reader.
    """
    if out.suffix.lower() != ".csv":
        raise ConfigError(f"{out} is no .csv. Give a name such as to-label.csv.", slug="label-out")
    if there := [file for file in (out, key_file(out)) if file.exists()]:
        raise ConfigError(
            f"{there[0]} is there already, and may belong to labels. Give another --out, and that one as --labels.",
            slug="label-out",
        )
    pool, ids = folder.run_pool(), [row.agent for row in folder.read_ranking()]
    at = {agent.id: k for k, agent in enumerate(pool.agents)}
    text = pool.texts[[at[agent] for agent in ids]]
    free = np.array([[bool(one) for one in row] for row in text], dtype=np.bool_)
    nothing: Positions = np.zeros(0, dtype=np.int64)
    answers = known or LabelledAnswers(nothing, nothing, np.zeros(0), "label", (0.0, 1.0), ())
    item_at = {item.id: j for j, item in enumerate(pool.items)}
    for k, item in zip(answers.agent.tolist(), answers.item_ids, strict=True):
        if item in item_at:
            free[k, item_at[item]] = False
    left = free.sum(axis=1)
    given = quality_of_run(folder, answers).to_label(n, left, best=purpose == "best")
    if not given.any():
        raise ConfigError("Every answer of this run has a label. There is nothing left to label.", slug="label-none")
    rng = stream("answers to label", seed)
    together, places = rng.permutation(len(pool.items)), []
    for k, count in enumerate(given.tolist()):
        order = together if purpose == "best" else rng.permutation(len(pool.items))
        places += [(k, j) for j in order[free[k, order]][:count].tolist()]
    names = rng.permutation(max(_NAMES, len(places)))[: len(places)] + _FIRST_NAME
    shuffled = rng.permutation(len(places)).tolist()
    chosen = [_Chosen(str(name), *places[one]) for name, one in zip(names.tolist(), shuffled, strict=True)]
    said = {
        "version": VERSION,
        "run": folder.path.resolve().name,
        "signature": folder.read_signature().text,
        "for": purpose,
        "why": _WHY[purpose],
        "seed": seed,
        "n_known": len(answers.value),
        "answers": [
            {"id": name, "agent": ids[k], "item": pool.items[j].id, "probability": float(given[k] / left[k])}
            for name, k, j in chosen
        ],
    }
    with replacing(key_file(out)) as fresh:
        fresh.write_text(json.dumps(said, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    rows = [
        [
            name,
            *([ids[k]] if show_agents else []),
            pool.items[j].prompt or "",
            str(text[k, j]),
            *(str(text[i, j]) for i in rng.permutation(len(ids)).tolist() if i != k and text[i, j]),
        ]
        for name, k, j in chosen
    ]
    shown = ["shown_agent"] if show_agents else []
    _write_table(out, ["id", *shown, "prompt", "text", *(f"other_{i + 1}" for i in range(len(ids) - 1)), "label"], rows)
    by_agent = {ids[k]: count for k, count in enumerate(given.tolist()) if count}
    return ToLabel(out, key_file(out), by_agent, len(answers.value))


def _write_table(out: Path, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write rows, filled with empty fields, under `heads`. A text that a spreadsheet would run begins with an apostrophe."""
    with replacing(out) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        for name, *texts in rows:
            writer.writerow([name, *map(plain, texts), *[""] * (len(heads) - len(texts) - 1)])


def plain(text: str) -> str:
    """Return a text that no spreadsheet runs as a formula, without NUL characters, which no spreadsheet can hold."""
    return guard(text.replace("\x00", ""))
