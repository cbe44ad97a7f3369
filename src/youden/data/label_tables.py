"""Read tables about agents: labels (one column of numbers per label) and families.

Tables come from users, so a column without a single number is ignored, while one bad value among numbers is an error.
"""

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

from youden.data.importers.foreign_files import import_error
from youden.data.importers.table_files import EXCEL, read_excel_sheets, read_rows
from youden.data.pools.spool import format_excerpt
from youden.errors import ImportFormatError
from youden.text.regular_files import read_regular
from youden.text.replacements import Replacements
from youden.types.pool import Floats, ReadOnly

_ID_COLUMNS = ("agent", "item", "alias")
_YES = ("true", "yes", "pass", "passed", "correct", "right", "win")
_NO = ("false", "no", "fail", "failed", "incorrect", "wrong", "loss")
_VALUE_BY_WORD = dict.fromkeys(_YES, 1.0) | dict.fromkeys(_NO, 0.0) | {"tie": 0.5}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True, eq=False)
class LabelTable(ReadOnly):
    """Labels of agents, or of agents on items.

    Attributes
    ----------
    source : str
        Path of the file.
    digest : str
        SHA-256 (hex) of the file.
    agents : tuple of str
        Agent of each row; length n_rows.
    items : tuple of str or None
        Item of each row; None for labels of agents.
    names : tuple of str
        Names of the labels; length n_labels.
    value : float array (n_rows, n_labels)
        NaN if a row has no such label.
    left_out : tuple of str
        Columns that are ignored because they contain no number.
    aliases : tuple of str or None
        Other name of each row's agent, None if the row has none.
    called : mapping
        Name of an agent in the file → its id in the run, for names that differ from the id.
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
    """Read a table of labels.

    Parameters
    ----------
    path : Path
        A .csv, .tsv, .xlsx, .jsonl or .parquet with the column agent, optionally item and alias, and one column per
        label. A label is a number (80% is 0.8, and 0,5 is 0.5) or a word: yes, true, pass and correct are 1, their
        opposites are 0; win, tie and loss are 1, 0.5 and 0. An empty field, null or NaN is not a label (NaN in JSON is an
        error). A table from `youden label` has the columns id and label instead. Its agents and items are read from the
        .json of the same name, or else from the only other .json in the folder that contains all its ids.
    repeated : bool, default False
        Whether an agent, or an agent on an item, may have several rows.

    Returns
    -------
    LabelTable

    Raises
    ------
    ImportFormatError
        [labels-columns]: if the columns do not fit; [labels-value]: if a label is a text among numbers, or infinite;
        [labels-id]: if an agent or item is not an id; [labels-duplicate]: if a row repeats another; [labels-empty]:
        without rows; [labels-key]: if the .json of a table from `youden label` is missing or does not fit. The message
        names the file and the line (Parquet: the row). Also if the file cannot be read.
    """
    location_by_key: dict[tuple[str, ...], str] = {}
    keys: list[tuple[str, ...]] = []
    locations: list[str] = []
    rows: list[Mapping[str, object]] = []
    columns: dict[str, None] = {}
    for location, row in _read_rows(path):
        if all(_is_blank(value) for value in row.values()):
            continue
        if "agent" not in row:
            raise import_error(
                location,
                f"there is no column agent: got the columns {format_excerpt(', '.join(row))}. Name the columns agent, item "
                "(for labels of "
                "agents on items), and one of any name per label.",
                slug="labels-columns",
            )
        if bool(rows) and ("item" in row) != ("item" in rows[0]):
            raise import_error(
                location, "some rows have an item and some have none. Pass them as two files.", slug="labels-columns"
            )
        key = tuple(_parse_id(row[name], name, location) for name in ("agent", "item") if name in row)
        if key in location_by_key and not repeated:
            raise import_error(
                location,
                f"{' on '.join(map(repr, key))} already has labels in {location_by_key[key]}. Remove one of the rows.",
                slug="labels-duplicate",
            )
        location_by_key[key] = location
        keys.append(key)
        locations.append(location)
        rows.append(row)
        columns.update(dict.fromkeys(row))
    if not rows:
        raise import_error(path, "it has no rows. Add one row per agent, or per agent and item.", slug="labels-empty")

    candidates = {name: [row.get(name) for row in rows] for name in columns if name not in _ID_COLUMNS}
    labels = {
        name: values
        for name, values in candidates.items()
        if name.strip() and any(_to_number(value) is not None for value in values)
    }
    if not labels:
        raise import_error(
            path,
            "no column other than agent and item contains numbers, or yes and no: got "
            f"{format_excerpt(', '.join(candidates)) if candidates else 'none'}. Add a column, such as accuracy, or set 1 and "
            "0 in "
            "place of other words.",
            slug="labels-columns",
        )
    numbers = []
    for name, values in labels.items():
        numbers.append([_parse_label(value, name, location) for value, location in zip(values, locations, strict=True)])
    return LabelTable(
        source=str(path),
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        agents=tuple(key[0] for key in keys),
        items=tuple(key[1] for key in keys) if len(keys[0]) > 1 else None,
        names=tuple(labels),
        value=np.array(numbers).T,
        left_out=tuple(name for name in candidates if name not in labels),
        aliases=tuple(None if _is_blank(row.get("alias")) else str(row.get("alias")) for row in rows),
    )


def label_key_path(path: Path) -> Path:
    """Return the path of the .json with the agents and items of a table that `youden label` wrote.

    Parameters
    ----------
    path : Path
        The table.

    Returns
    -------
    Path
    """
    return path.with_suffix(".json")


def _read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the location and the fields of each row.

    In a table from `youden label`, the fields are agent, item and label, and rows without a label are skipped.
    """
    rows: Iterable[tuple[str, Mapping[str, object]]]
    if path.suffix.lower() in EXCEL:
        rows = [row for _, sheet in read_excel_sheets(path, lambda *_: None) for row in sheet]
    else:
        rows = _check_finite(read_rows(path, replaced := Replacements(), exact=True), replaced)
    used_rows = [(location, row) for location, row in rows if not _is_row_to_label(row) or not _is_blank(row["label"])]
    ids = {str(row["id"]).strip() for _, row in used_rows if _is_row_to_label(row)}
    agent_item_by_id = _read_key(path, ids) if ids else {}
    for location, row in used_rows:
        if not _is_row_to_label(row):
            yield location, row
            continue
        agent, item = agent_item_by_id[str(row["id"]).strip()]
        yield location, {"agent": agent, "item": item, "label": row["label"]}


def _is_row_to_label(row: Mapping[str, object]) -> bool:
    return "agent" not in row and {"id", "label"} <= set(row)


def _check_finite(
    rows: Iterable[tuple[str, Mapping[str, object]]], replaced: Replacements
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the rows; raise ImportFormatError [labels-value] if a JSON number is NaN or infinite."""
    for location, row in rows:
        if replaced.n_nonfinite:
            problem = "it contains a number that is NaN or infinite. Set a finite number, or null if there is no label."
            raise import_error(location, problem, slug="labels-value")
        yield location, row


def _read_key(path: Path, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Read the agent and item of each id in a table from `youden label`.

    They are in the .json of the table's name, or else in the only other .json in its folder that contains all `ids`.
    Raise ImportFormatError [labels-key] if there is no such file, or several.
    """
    matches = []
    for file in dict.fromkeys([label_key_path(path), *sorted(path.parent.glob("*.json"))]):
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            answers = json.loads(read_regular(file))["answers"]
            agent_item_by_id = {str(answer["id"]): (str(answer["agent"]), str(answer["item"])) for answer in answers}
            if agent_item_by_id.keys() >= set(ids):
                if file == label_key_path(path):
                    return agent_item_by_id
                matches.append(agent_item_by_id)
    if len(matches) == 1:
        return matches[0]
    raise import_error(
        path,
        f"it has ids in place of agents, and {'several files' if matches else 'no file'} in its folder can tell whose answers "
        f"they are. Add the file that `youden label` wrote with it, as {label_key_path(path).name}.",
        slug="labels-key",
    )


def _parse_label(value: object, name: str, location: str) -> float:
    if _is_blank(value):
        return math.nan
    number = _to_number(value)
    if number is None or math.isinf(number):
        raise import_error(
            location,
            f"{name} is not a finite number: got {format_excerpt(value)}. Set a number, or leave the field empty if there is "
            "no label.",
            slug="labels-value",
        )
    return number


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _to_number(value: object) -> float | None:
    """Convert a field to a number; None if it is not one."""
    if isinstance(value, str):
        if (number := _VALUE_BY_WORD.get(value.strip().lower())) is not None:
            return number
        digits = value.strip()
        if _DECIMAL_COMMA.fullmatch(digits):
            digits = digits.replace(",", ".")
        try:
            return float(digits[:-1]) / 100 if digits.endswith("%") else float(digits)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float | Decimal) else None


def _parse_id(value: object, column: str, location: str) -> str:
    name = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(name, str) or not name.strip():
        raise import_error(
            location,
            f"the {column} is not an id: got {format_excerpt(value)}. Set its id as in the pool.",
            slug="labels-id",
        )
    return name


def read_families(path: Path) -> dict[str, str]:
    """Read a table of families.

    Parameters
    ----------
    path : Path
        A .csv, .tsv, .jsonl or .parquet with the columns agent and family; rows with an empty field are ignored.

    Returns
    -------
    dict
        Id of an agent → its family.

    Raises
    ------
    ImportFormatError
        [families-columns]: if a column is missing; [families-duplicate]: if an agent has two families;
        [families-empty]: if no agent has a family. Also if the file cannot be read.
    """
    families: dict[str, str] = {}
    for location, row in read_rows(path, exact=True):
        if "agent" not in row or "family" not in row:
            raise ImportFormatError(
                f"{location}: a table of families has the columns agent and family: got {', '.join(map(str, row))}. Add the "
                "missing column.",
                slug="families-columns",
            )
        agent, family = (str(row[name] if row[name] is not None else "").strip() for name in ("agent", "family"))
        if not agent or not family:
            continue
        if families.setdefault(agent, family) != family:
            raise ImportFormatError(
                f"{location}: '{agent}' has the family '{family}' here and '{families[agent]}' above. Remove one of the rows.",
                slug="families-duplicate",
            )
    if not families:
        raise ImportFormatError(
            f"{path} contains no agent with a family. Add rows with an agent and a family.", slug="families-empty"
        )
    return families
