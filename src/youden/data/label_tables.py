"""Read tables about agents: labels (one column of numbers per label) and families.

Tables come from users, so a column without a single number is ignored, while one bad value among numbers is an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from youden.data.importers.excel_files import read_excel_sheets
from youden.data.importers.foreign_files import import_error
from youden.data.importers.table_files import EXCEL, read_rows
from youden.data.pools.spool import format_excerpt
from youden.errors import ImportFormatError
from youden.text.number_text import is_unit_label, list_spellings, to_number
from youden.text.regular_files import read_regular
from youden.text.replacements import Replacements
from youden.text.sentences import format_count
from youden.types.pool import Floats, ReadOnly

_ID_COLUMNS = ("agent", "item", "alias", "repeat")
_SHEET_COLUMN = re.compile(r"id|shown_agent|prompt|text|other_\d+")
"""Columns of a table of `youden label` that contain no labels."""
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+(\.\d+)*")
"""Names that pandas gives to an index without a name."""


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
    id_by_name : mapping
        Name of an agent in the file → its id in the run, for names that differ from the id.
    unit_labels : mapping
        Name of a label → its first value that only means a number from 0 to 1 (`is_unit_label`), with its location.
    """

    source: str
    digest: str
    agents: tuple[str, ...]
    items: tuple[str, ...] | None
    names: tuple[str, ...]
    value: Floats
    left_out: tuple[str, ...]
    aliases: tuple[str | None, ...]
    id_by_name: Mapping[str, str] = field(default_factory=dict)
    unit_labels: Mapping[str, str] = field(default_factory=dict)


def read_labels(path: Path, *, repeated: bool = False) -> LabelTable:
    """Read a table of labels.

    Parameters
    ----------
    path : Path
        A .csv, .tsv, .xlsx, .jsonl or .parquet with the column agent, optionally item, repeat and alias, and one column per
        label. A label is a number (80% is 0.8, and 0,5 is 0.5) or a word: yes, true, pass and correct are 1, their
        opposites are 0; win, tie and loss are 1, 0.5 and 0. An empty field, null or NaN is not a label (NaN in JSON is an
        error). A table from `youden label` has the columns id and label instead. Its agents and items are read from the
        .json of the same name, or else from all .json files in the folder.
    repeated : bool, default False
        Whether an agent, or an agent on an item, may have several rows.

    Returns
    -------
    LabelTable
        The labels by agent, or by agent and item.

    Raises
    ------
    ImportFormatError
        [labels-columns]: if there is no column `agent` or no column of labels; [labels-value]: if a label is a text among
        numbers, is infinite, or has an ambiguous comma, as in 1,000, or if a column has labels such as 80% or yes and numbers
        above 1; [labels-id]: if an agent or item is not an id; [labels-duplicate]: if a row repeats another; [labels-empty]: if
        there are no rows; [labels-key]: if a table has the columns id and label but no agents, and the .json file with the agents
        of its ids is missing or ambiguous; others, such as [import-not-found], if the file cannot be read. The message names the
        file and the line (Parquet: the row).
    """
    located_rows = []
    for location, row in _read_label_rows(path):
        is_blank_row = all(_is_blank(value) for value in row.values())
        if not is_blank_row:
            located_rows.append((location, row))
    if not located_rows:
        raise import_error(path, "it has no rows. Add one row per agent, or per agent and item.", slug="labels-empty")
    row_ids = _parse_row_ids(located_rows, may_repeat=repeated)

    rows = [row for _, row in located_rows]
    names, left_out = _find_label_columns(path, rows)
    label_values = []
    for name in names:
        label_values.append([parse_label(row.get(name), name, location) for location, row in located_rows])
        _check_one_unit(located_rows, name, label_values[-1])
    has_items = "item" in rows[0]
    aliases = [row.get("alias") for row in rows]
    return LabelTable(
        source=str(path),
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        agents=tuple(agent for agent, *_ in row_ids),
        items=tuple(item for _, item in row_ids) if has_items else None,
        names=names,
        value=np.array(label_values).T,
        left_out=left_out,
        aliases=tuple(None if _is_blank(alias) else str(alias) for alias in aliases),
        unit_labels=_find_unit_labels(located_rows, names),
    )


def _check_one_unit(
    located_rows: Sequence[tuple[str, Mapping[str, object]]], name: str, values: Sequence[float]
) -> None:
    """Check that a column with labels such as 80% or yes, which mean numbers from 0 to 1, has no plain numbers above 1.

    A label that means 0, such as fail, may occur together with any number.

    located_rows : location and fields of each row
    name : name of the column
    values : number of each label, NaN if missing

    Raises: ImportFormatError [labels-value] if a number is above 1.
    """
    rows = [(location, row.get(name), value) for (location, row), value in zip(located_rows, values, strict=True)]
    unit_labels = [label for _, label, value in rows if is_unit_label(label) and value > 0]
    for location, label, value in rows:
        if unit_labels and value > 1 and not is_unit_label(label):
            problem = f"{name} has a number above 1: got {format_excerpt(label)}."
            reason = f"Other labels, such as {format_excerpt(unit_labels[0])}, mean numbers from 0 to 1."
            raise import_error(location, f"{problem} {reason} Write all labels in the same way.", slug="labels-value")


def _find_unit_labels(located_rows: Sequence[tuple[str, Mapping[str, object]]], names: Iterable[str]) -> dict[str, str]:
    """Find the first label of each column that is written as a percentage or a word, such as 80% or yes.

    Such a label means a number from 0 to 1. It contradicts any other scale that the user has set, and an error message shows
    it.

    located_rows : location and fields of each row
    names : names of the columns of labels

    Returns a dictionary: name of the column → its first such label and the location, as in "'yes' (line 3)". Columns without
    such a label are left out.
    """
    unit_labels = {}
    for name in names:
        for location, row in located_rows:
            if is_unit_label(row.get(name)):
                unit_labels[name] = f"{format_excerpt(row[name])} ({location})"
                break
    return unit_labels


def _find_label_columns(path: Path, rows: Sequence[Mapping[str, object]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the columns of a table that contain labels, which are all named columns with at least one number.

    The index of a table saved by pandas counts as a column without a name.

    path : file of the table, for the error message
    rows : rows of the table, by name of the column

    Returns the names of the columns with labels, and the names of the columns that are left out. Columns with ids of
    agents or items, aliases, or numbers of repeats are in neither.

    Raises ImportFormatError [labels-columns] if no column contains labels.
    """
    columns = dict.fromkeys(chain.from_iterable(rows))
    candidates = [name for name in columns if name not in _ID_COLUMNS]
    named_columns = [name for name in candidates if name.strip() and not _PANDAS_INDEX.fullmatch(name)]
    labels = tuple(name for name in named_columns if _has_number(row.get(name) for row in rows))
    if not labels:
        listed = format_excerpt(", ".join(candidates)) if candidates else "none"
        raise import_error(
            path,
            f"no column other than agent and item contains numbers, or yes and no: got {listed}. Add a column, such as "
            "accuracy, or set 1 and 0 in place of other words.",
            slug="labels-columns",
        )

    left_out = tuple(name for name in candidates if name not in labels)
    return labels, left_out


def _parse_row_ids(
    located_rows: Sequence[tuple[str, Mapping[str, object]]], *, may_repeat: bool
) -> list[tuple[str, ...]]:
    """Return the ids in each row: (agent,) or, if the table has items, (agent, item).

    located_rows : location and fields of each row
    may_repeat : whether several rows may have the same ids

    Raises: ImportFormatError [labels-columns] if a row has no agent, or if only some have an item; [labels-id] if an agent or
        item is not an id; [labels-duplicate] if a row has the same ids as another one, unless `may_repeat` is True.
    """
    _, first_row = located_rows[0]
    row_ids: list[tuple[str, ...]] = []
    first_locations: dict[tuple[str, ...], str] = {}
    for location, row in located_rows:
        _check_id_columns(row, location, has_items="item" in first_row)
        ids = tuple(parse_id(row[name], name, location) for name in ("agent", "item") if name in row)
        if ids in first_locations and not may_repeat:
            raise import_error(
                location,
                f"{' on '.join(map(repr, ids))} already has labels in {first_locations[ids]}. Remove one of the rows.",
                slug="labels-duplicate",
            )
        first_locations[ids] = location
        row_ids.append(ids)
    return row_ids


def _check_id_columns(row: Mapping[str, object], location: str, *, has_items: bool) -> None:
    """Check that a row has a column `agent`, and that either all rows or no rows have a column `item`.

    Rows of a JSON file may have different columns. In other files, all rows have the same.

    row : fields of the row by column
    location : file and line, for the error message
    has_items : whether the first row of the table has a column `item`

    Raises: ImportFormatError [labels-columns] if the column `agent` is missing, or if only some rows have a column `item`.
    """
    if "agent" not in row:
        raise import_error(
            location,
            f"there is no column agent: got the columns {format_excerpt(', '.join(row))}. Name the columns agent, item "
            "(for labels of agents on items), and one of any name per label.",
            slug="labels-columns",
        )
    if ("item" in row) != has_items:
        raise import_error(
            location, "some rows have an item and some have none. Pass them as two files.", slug="labels-columns"
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
        The path of the table with the suffix .json.
    """
    return path.with_suffix(".json")


def _read_labeled_rows(path: Path) -> list[tuple[str, Mapping[str, object], str | None]]:
    """Return the location, the fields and the hidden id of each row that may have a label.

    In a table that `youden label` wrote, an id hides the agent and the item of each row. Rows of such a table are left out if
    their label has not been filled in. In other tables, no row is left out, and the hidden id is None.

    Raises: ImportFormatError [labels-empty] if the table has rows, and none is left.
    """
    n_rows = 0
    labeled_rows: list[tuple[str, Mapping[str, object], str | None]] = []
    for location, row in _read_finite_rows(path):
        n_rows += 1
        hidden_id = _get_hidden_id(row)
        is_unlabeled = hidden_id is not None and not _has_label(row)
        if not is_unlabeled:
            labeled_rows.append((location, row, hidden_id))
    if n_rows > 0 and not labeled_rows:
        raise _make_no_label_error(path, n_rows)
    return labeled_rows


def _has_label(row: Mapping[str, object]) -> bool:
    """Return whether a row of a table of `youden label` has a value in `label`, or a number in a column that a user added."""
    return not _is_blank(row["label"]) or _has_number(_get_added_fields(row).values())


def _get_added_fields(row: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a row that `youden label` did not write, such as the labels of a second annotator."""
    return {name: value for name, value in row.items() if name != "label" and not _SHEET_COLUMN.fullmatch(name)}


def _make_no_label_error(path: Path, n_rows: int) -> ImportFormatError:
    """Make the error [labels-empty] for a table that `youden label` wrote, and in which no label was filled in.

    path : file of the table
    n_rows : number of its rows
    """
    rows = format_count(n_rows, "row")  # such as "3 rows"
    problem = f"no row has a label: got {rows} with an empty column `label`."
    remedy = "Fill in the column: 0 or 1, grades, or win, tie and loss."
    return import_error(path, f"{problem} {remedy}", slug="labels-empty")


def _iter_table_rows(path: Path, replaced: Replacements | None = None) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the location and the fields of each row of a table, or of all sheets of an Excel file.

    replaced : counts the values that are replaced, such as NaN in a JSON file
    """
    if path.suffix.lower() not in EXCEL:
        yield from read_rows(path, replaced, strict=True)
        return
    for _, sheet_rows in read_excel_sheets(path, lambda *_: None):
        yield from sheet_rows


def _read_label_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the location and the fields of each row of a table of labels.

    The rows of most tables are yielded unchanged. A table that `youden label` wrote is different, because it has an id in
    place of the agent and the item:

    - In rows with a label, the agent and the item replace the id. Columns that a user added are kept.
    - Rows without a label are skipped.

    Raises: ImportFormatError [labels-empty] if no row of a table of `youden label` has a label; [labels-key] if no file names
        the agent of an id; [labels-value] if a JSON number is not finite; others if the file cannot be read.
    """
    labeled_rows = _read_labeled_rows(path)
    hidden_ids = {hidden_id for _, _, hidden_id in labeled_rows if hidden_id is not None}
    agent_and_item_by_id = _read_agents_and_items(path, hidden_ids) if hidden_ids else {}
    for location, row, hidden_id in labeled_rows:
        if hidden_id is None:
            yield location, row
        else:
            agent, item = agent_and_item_by_id[hidden_id]
            yield location, {**_get_added_fields(row), "agent": agent, "item": item, "label": row["label"]}


def _get_hidden_id(row: Mapping[str, object]) -> str | None:
    """Return the id that hides the agent and the item of a row from a table of `youden label`; None for other rows."""
    if "agent" in row or not row.keys() >= {"id", "label"}:
        return None
    return str(row["id"]).strip()


def _read_finite_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the location and the fields of each row of a table; refuse NaN and Infinity in JSON files.

    `read_rows` would replace such a number by None, which counts as a missing label.

    Raises: ImportFormatError [labels-value] if a number in a JSON file is NaN or infinite.
    """
    replaced = Replacements()
    for location, row in _iter_table_rows(path, replaced):
        if replaced.n_nonfinite:
            problem = "it contains a number that is NaN or infinite. Set a finite number, or null if there is no label."
            raise import_error(location, problem, slug="labels-value")
        yield location, row


def _read_agents_and_items(path: Path, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Read the agent and the item of each id in a table that `youden label` wrote.

    They are in a .json file with the name of the table. If this file lacks an id, all .json files in the folder are read.
    This happens if the table was renamed or joined with others.

    path : the table
    ids : ids in the table

    Returns a dictionary: id → (agent, item). It may have more ids than the table.

    Raises: ImportFormatError [labels-key] if an id is in none of the files, or has several meanings.
    """
    usual_key_file = label_key_path(path)
    usual_key = _parse_label_key(usual_key_file)
    if usual_key.keys() >= set(ids):
        return usual_key

    agents_and_items = dict(usual_key)
    for file in sorted(path.parent.glob("*.json")):
        for id_, agent_and_item in _parse_label_key(file).items():
            first_meaning = agents_and_items.setdefault(id_, agent_and_item)
            if id_ in ids and first_meaning != agent_and_item:
                raise _make_key_error(path, id_, "several files in its folder name different agents for it")
    unknown_ids = [id_ for id_ in ids if id_ not in agents_and_items]
    if unknown_ids:
        raise _make_key_error(path, min(unknown_ids), "no file in its folder names its agent")
    return agents_and_items


def _make_key_error(path: Path, id_: str, problem: str) -> ImportFormatError:
    """Make the error [labels-key] for a table without the column `agent`, in which the agent of an id is unknown.

    problem : what is wrong, as the end of a sentence
    """
    return import_error(
        path,
        f"it has the columns id and label, but no column agent, and {problem}: got the id {format_excerpt(id_)}. Name the "
        "columns of your own table agent and item. Next to a table of `youden label`, put the file that the command wrote with "
        f"it, as {label_key_path(path).name}, or the files of all tables from which it has rows.",
        slug="labels-key",
    )


def _parse_label_key(file: Path) -> dict[str, tuple[str, str]]:
    """Read a .json file of `youden label` as a dictionary: id → (agent, item). It is empty if the file is another one."""
    agents_and_items = {}
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        for answer in json.loads(read_regular(file))["answers"]:
            agents_and_items[str(answer["id"])] = str(answer["agent"]), str(answer["item"])
        return agents_and_items
    return {}


def _has_number(values: Iterable[object]) -> bool:
    """Return whether at least one of the values is a number."""
    return any(to_number(value) is not None for value in values)


def parse_label(value: object, name: str, location: str) -> float:
    """Convert a label to a number.

    Parameters
    ----------
    value : object
        A number, a bool, or a text: a number with a decimal point or comma, a percentage (80% is 0.8), or a word such as yes,
        pass or correct (1), no, fail or incorrect (0), or tie (0.5), in upper or lower case.
    name : str
        Name of the label, for errors.
    location : str
        File and line, for errors.

    Returns
    -------
    float
        The number; NaN if the value is None, NaN or blank.

    Raises
    ------
    ImportFormatError
        [labels-value]: if the value is not a finite number, or if a comma may separate thousands or decimals, as in 1,234.
    """
    if _is_blank(value):
        return math.nan
    spellings = list_spellings(str(value))
    if spellings:
        problem = f"{name} has an ambiguous comma: got {format_excerpt(value)}. Write {' or '.join(spellings)}."
        raise import_error(location, problem, slug="labels-value")
    number = to_number(value)
    if number is None or math.isinf(number):
        raise import_error(
            location,
            f"{name} is not a finite number: got {format_excerpt(value)}. Set a number, or leave the field empty if there is "
            "no label.",
            slug="labels-value",
        )
    return number


def _is_blank(value: object) -> bool:
    """Return whether a value is None, or a text of white space only."""
    return value is None or (isinstance(value, str) and not value.strip())


def parse_id(value: object, column: str, location: str) -> str:
    """Check the id of an agent or an item in a table of labels, and return it as a text.

    Parameters
    ----------
    value : object
        Value of the field. A text is returned unchanged, with the spaces around it, and an integer is converted. A float is
        refused, even 3.0, and so is a bool.
    column : str
        Name of the column, for errors.
    location : str
        File and line, for errors.

    Returns
    -------
    str
        The id.

    Raises
    ------
    ImportFormatError
        [labels-id]: if the value is missing or blank, or neither a text nor an integer.
    """
    is_whole_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_whole_number:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise import_error(
            location,
            f"the {column} is not an id: got {format_excerpt(value)}. Set its id as in the pool.",
            slug="labels-id",
        )
    return value


def read_families(path: Path) -> dict[str, str]:
    """Read a table of families.

    Parameters
    ----------
    path : Path
        A .csv, .tsv, .xlsx, .jsonl or .parquet with the columns agent and family; rows with an empty field are ignored.

    Returns
    -------
    dict
        Id of an agent → its family.

    Raises
    ------
    ImportFormatError
        [families-columns]: if a column is missing; [families-duplicate]: if an agent has two families;
        [families-empty]: if no agent has a family; another slug if the file cannot be read.
    """
    families: dict[str, str] = {}
    for location, row in _iter_table_rows(path):
        if "agent" not in row or "family" not in row:
            raise ImportFormatError(
                f"{location}: a table of families has the columns agent and family: got {', '.join(map(str, row))}. Add the "
                "missing column.",
                slug="families-columns",
            )
        agent = "" if row["agent"] is None else str(row["agent"]).strip()
        family = "" if row["family"] is None else str(row["family"]).strip()
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
