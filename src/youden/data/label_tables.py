"""Reads tables that somebody has of agents: labels (numbers, one column each) and families."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import numpy as np

from youden.data.importers.foreign_files import wrong
from youden.data.importers.table_files import EXCEL, excel_rows, table_rows
from youden.data.pools.spool import shown
from youden.errors import ImportFormatError
from youden.text.regular_files import read_regular
from youden.text.replacements import Replacements
from youden.types.pool import Floats, ReadOnly

_NOUNS = ("agent", "item", "alias")
_YES = ("true", "yes", "pass", "passed", "correct", "right", "win")
_NO = ("false", "no", "fail", "failed", "incorrect", "wrong", "loss")
_TRUTH = dict.fromkeys(_YES, 1.0) | dict.fromkeys(_NO, 0.0) | {"tie": 0.5}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True, eq=False)
class LabelTable(ReadOnly):
    """One row an agent, or an agent on an item.

    agents: str[N]; items: str[N], None where labels are of agents alone; names: str[L], one a label; value: float[N, L], NaN
    where a row says nothing. left_out: columns without a single number. aliases: str or None [N], the agent's other name. called:
    name in the file → agent of the run, where they differ. digest: sha256 (hex) of the file.
    """

    source: str
    digest: str
    agents: tuple[str, ...]
    items: tuple[str, ...] | None
    names: tuple[str, ...]
    value: Floats
    left_out: tuple[str, ...]
    aliases: tuple[str | None, ...]
    called: Mapping[str, str] = field(default_factory=dict)


def read_labels(path: Path, *, repeated: bool = False) -> LabelTable:
    """Labels from a .csv, .tsv, .xlsx, .jsonl or .parquet with the columns agent, perhaps item and alias, and numbers.

    yes and no, true and false, pass and fail, correct and incorrect are 1 and 0, win, tie and loss 1, 0.5 and 0; 80% is 0.8, and
    0,5 is 0.5; an empty field, null and NaN say nothing. A table that `youden label` wrote has ids and the column label: whose
    answers they are stands in the .json of its name, or in the one beside it that knows all its ids.

    repeated: whether an answer may be labelled more than once.

    Raises: ImportFormatError naming file and line (Parquet: row): [labels-columns], [labels-value] for text among numbers or an
    infinite one, [labels-id], [labels-duplicate], [labels-empty], [labels-key] where that .json is not there or does not fit, and
    what reading the file raises.
    """
    where: dict[tuple[str, ...], str] = {}
    keys: list[tuple[str, ...]] = []
    places: list[str] = []
    rows: list[Mapping[str, object]] = []
    columns: dict[str, None] = {}
    for place, row in _named(path):
        if all(_blank(value) for value in row.values()):
            continue
        if "agent" not in row:
            raise wrong(
                place,
                f"there is no column agent; it has {shown(', '.join(row))}. Name the columns agent, item (for labels of "
                "agents on items) and, for each label, as you like.",
                slug="labels-columns",
            )
        if bool(rows) and ("item" in row) != ("item" in rows[0]):
            raise wrong(place, "some rows have an item and some have none. Give two files.", slug="labels-columns")
        key = tuple(_id(row[noun], noun, place) for noun in ("agent", "item") if noun in row)
        if key in where and not repeated:
            raise wrong(
                place,
                f"{' on '.join(map(repr, key))} is labelled in {where[key]} already. Keep one row.",
                slug="labels-duplicate",
            )
        where[key] = place
        keys.append(key)
        places.append(place)
        rows.append(row)
        columns.update(dict.fromkeys(row))
    if not rows:
        raise wrong(path, "it has no rows. Give one line for each agent, or agent and item.", slug="labels-empty")
    found = {name: [row.get(name) for row in rows] for name in columns if name not in _NOUNS}
    numbers = {
        name: values
        for name, values in found.items()
        if name.strip() and any(_number(value) is not None for value in values)
    }
    if not numbers:
        raise wrong(
            path,
            "no column but agent and item holds numbers, or yes and no; there is "
            f"{shown(', '.join(found)) if found else 'none'}. Add one, such as accuracy, or write 1 and 0 for words of your own.",
            slug="labels-columns",
        )
    return LabelTable(
        source=str(path),
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        agents=tuple(key[0] for key in keys),
        items=tuple(key[1] for key in keys) if len(keys[0]) > 1 else None,
        names=tuple(numbers),
        value=np.array(
            [
                [_value(value, name, place) for value, place in zip(values, places, strict=True)]
                for name, values in numbers.items()
            ]
        ).T,
        left_out=tuple(name for name in found if name not in numbers),
        aliases=tuple(None if _blank(row.get("alias")) else str(row.get("alias")) for row in rows),
    )


def key_file(path: Path) -> Path:
    """Where it stands whose answers a table to label holds."""
    return path.with_suffix(".json")


def _named(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The rows; those of a table to label with agent and item in place of their ids."""
    rows: Iterable[tuple[str, Mapping[str, object]]]
    if path.suffix.lower() in EXCEL:
        rows = [row for _, sheet in excel_rows(path, lambda *_: None) for row in sheet]
    else:
        rows = _checked(table_rows(path, replaced := Replacements(), exact=True), replaced)
    said = [
        (place, row)
        for place, row in rows
        if "agent" in row or not {"id", "label"} <= set(row) or not _blank(row["label"])
    ]
    ids = {str(row["id"]).strip() for _, row in said if "agent" not in row and "id" in row and "label" in row}
    answers = _read_key(path, ids) if ids else {}
    for place, row in said:
        if "agent" in row or not {"id", "label"} <= set(row):
            yield place, row
            continue
        agent, item = answers[str(row["id"]).strip()]
        yield place, {"agent": agent, "item": item, "label": row["label"]}


def _checked(
    rows: Iterable[tuple[str, Mapping[str, object]]], replaced: Replacements
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the rows. Raises: ImportFormatError [labels-value] at the first in whose JSON a number is NaN or infinite."""
    for place, row in rows:
        if replaced.n_nonfinite:
            problem = "it has a number that is NaN or infinite. Write a finite number, or null if there is no label."
            raise wrong(place, problem, slug="labels-value")
        yield place, row


def _read_key(path: Path, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Id → agent, item, of a table to label, from the .json of its name, else from the only one beside it that knows all `ids`.

    Raises: ImportFormatError [labels-key].
    """
    found = []
    for file in dict.fromkeys([key_file(path), *sorted(path.parent.glob("*.json"))]):
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            said = {
                str(one["id"]): (str(one["agent"]), str(one["item"]))
                for one in json.loads(read_regular(file))["answers"]
            }
            if said.keys() >= set(ids):
                if file == key_file(path):
                    return said
                found.append(said)
    if len(found) == 1:
        return found[0]
    raise wrong(
        path,
        f"it has ids in place of agents, and {'several files beside it know' if found else 'no file beside it knows'} whose "
        f"answers they are. Put the one that `youden label` wrote with it beside it as {key_file(path).name}.",
        slug="labels-key",
    )


def _value(value: object, name: str, place: str) -> float:
    if _blank(value):
        return math.nan
    number = _number(value)
    if number is None or math.isinf(number):
        raise wrong(
            place,
            f"{name} is {shown(value)}, no finite number. Write a number, or nothing where there is no label.",
            slug="labels-value",
        )
    return number


def _blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _number(value: object) -> float | None:
    """The number that a field says; None for anything else."""
    if isinstance(value, str):
        if (truth := _TRUTH.get(value.strip().lower())) is not None:
            return truth
        said = value.strip()
        if _DECIMAL_COMMA.fullmatch(said):
            said = said.replace(",", ".")
        try:
            return float(said[:-1]) / 100 if said.endswith("%") else float(said)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float | Decimal) else None


def _id(value: object, noun: str, place: str) -> str:
    name = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(name, str) or not name.strip():
        raise wrong(place, f"the {noun} is {shown(value)}. Write its id as in the pool.", slug="labels-id")
    return name


def read_families(path: Path) -> dict[str, str]:
    """Agent → family, from a .csv, .tsv, .jsonl or .parquet with the columns agent and family; an empty family says nothing.

    Raises: ImportFormatError [families-columns], [families-twice] where an agent has two, [families-empty], and what reading the
    file raises.
    """
    found: dict[str, str] = {}
    for place, row in table_rows(path, exact=True):
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
