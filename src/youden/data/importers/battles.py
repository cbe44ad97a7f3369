"""Import battles: tables in which each row states which of two responses to an item is better.

Battles of LMArena, `arena_hard_battles.jsonl` of Arena-Hard, and pairwise judgments of MT-Bench are recognized by their columns.
A value that does not clearly name a winner is an error, and never a tie. All cells are read as text, so that the names 1.10 and
1.1 differ.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from youden.data.importers.column_names import infer_role
from youden.data.importers.excel_files import read_excel_sheets
from youden.data.importers.foreign_files import import_error
from youden.data.importers.table_files import EXCEL, read_rows
from youden.errors import ImportFormatError
from youden.text.json_text import check_unique_keys
from youden.text.number_text import parse_number
from youden.text.printable import find_name_fault
from youden.text.sentences import describe_similar_names, format_count, suggest_name
from youden.types import MISSING_REASONS, Finding, Plan, Trials, Verdicts
from youden.types.planning import Split
from youden.types.pool import Floats, Ids

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "model_a": ("model_a", "model_1"),
    "model_b": ("model_b", "model_2"),
    "winner": ("winner", "g1_winner"),
    "item": ("item", "question_id", "prompt_id", "conversation_id"),
    "order": ("order",),
    "judge": ("judge",),
}
"""Role → names of its column; the first name that exists is read. The first three roles are required."""
_SWAPPED_WINNER = "g2_winner"
"""Column of MT-Bench with the winner if the second model is shown first."""

_WINNER_FLAGS: Mapping[str, str] = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
"""Column of LMArena, with 1 if the battle has this result and 0 otherwise → the winner."""
_FLAGS = {"1": 1.0, "1.0": 1.0, "true": 1.0, "0": 0.0, "0.0": 0.0, "false": 0.0, "": 0.0}

_PREFERENCES: Mapping[str, float] = {
    **dict.fromkeys(("model_a", "a", "model_1", "a>b", "a>>b", "[[a]]"), 1.0),
    **dict.fromkeys(("model_b", "b", "model_2", "b>a", "b>>a", "[[b]]"), 0.0),
    **dict.fromkeys(("tie", "tie (bothbad)", "bothbad", "both_bad", "a=b", "[[c]]", "draw"), 0.5),
    **dict.fromkeys(("error", ""), np.nan),
}
"""Value of `winner` in lower case → preference for model_a; NaN if the judge gave no answer."""
_ORDERS: Mapping[str, float] = {
    **dict.fromkeys(("ab", "a", "a_first", "model_a", "a,b"), 0.0),
    **dict.fromkeys(("ba", "b", "b_first", "model_b", "b,a"), 1.0),
}
"""Value of `order` in lower case → whether model_b was shown first."""
_WEIGHTS = {"weight", "weights", "count", "counts", "n_battles"}
"""Names, in lower case, of columns that state how often a battle counts."""
IMPORTED_DESIGN = "imported"
"""Design of a plan whose comparisons another tool has chosen."""


def read_battles(path: Path, *, columns: Mapping[str, str]) -> Verdicts:
    """Read battles (recorded comparisons of two models with a winner) from a CSV, TSV, Excel, JSON, JSONL or Parquet file.

    Parameters
    ----------
    path : Path
        File.
    columns : mapping of str to str
        Name of the column by role: model_a, model_b, winner, item, order or judge. By default, a column has the name of its
        role. The column of items may also be question_id, prompt_id or conversation_id. In MT-Bench's own files, the columns
        are model_1, model_2, g1_winner and g2_winner.

    Returns
    -------
    Verdicts
        One answer per battle, with a plan that asks for preferences and has no pool. Without an `order`, model_a counts as shown
        first. Without an item, each battle is a separate item. The field `warnings` states these assumptions, and counts the
        battles without a winner.

    Raises
    ------
    ImportFormatError
        [import-format], [import-csv]: if the file cannot be read, or if a row of a CSV file has more or fewer fields than
        its header; [battles-columns]: if it lacks a column, or if a role is unknown;
        [battles-value]: if a winner is unknown or ambiguous, if an order is unknown, or if a model or an item has no name;
        [import-agents]: if a name cannot be an id; [import-empty]: if no battle is left.
    """
    _check_roles(path, columns)
    notes: list[str] = []
    table = _clean_battles(path, _read_table(path, columns, notes), notes)
    model_numbers, model_names = _factorize_names(path, pd.concat([table["model_a"], table["model_b"]]))
    item_numbers, item_names = _factorize_names(path, table["item"])
    notes += filter(None, [describe_similar_names(model_names)])

    # the first model of a trial is the one that was shown first, and the answer is the preference for it
    model_a = model_numbers[: len(table)]
    model_b = model_numbers[len(table) :]
    is_b_first = table["order"].to_numpy(dtype=np.float64) == 1
    first = np.where(is_b_first, model_b, model_a)
    second = np.where(is_b_first, model_a, model_b)
    preference_for_a = table["winner"].to_numpy(dtype=np.float64)
    answer = np.where(is_b_first, 1 - preference_for_a, preference_for_a)

    trials = Trials.paired(item_numbers, first, second)
    plan = _make_plan(trials, model_names, item_names)
    return _make_verdicts(plan, answer, table["judge"], notes)


def _check_roles(path: Path, columns: Mapping[str, str]) -> None:
    """Raise ImportFormatError [battles-columns] if the user named a column for a role that is not one of `_COLUMNS`.

    path : file of the battles, for the error message
    columns : columns that the user named, by role, such as {"text": "answer"}
    """
    unknown_roles = sorted(columns.keys() - _COLUMNS.keys())
    if unknown_roles:
        problem = f"a battle has no field {', '.join(unknown_roles)}. Set only {', '.join(_COLUMNS)}."
        raise import_error(path, problem, slug="battles-columns")


def _factorize_names(path: Path, names: pd.Series[str]) -> tuple[Ids, tuple[str, ...]]:
    """Replace the names of models or items by numbers, which count the distinct names in sorted order from 0.

    The trials of a plan refer to agents and items by these numbers.

    path : file of the names, for the error message
    names : text series (n_names,), in which a name may occur several times

    Returns the number of each name, int32 array (n_names,), and the distinct names in the order of their numbers.

    Raises: ImportFormatError [import-agents] if a name cannot be an id.
    """
    numbers, distinct_names = pd.factorize(names, sort=True)
    for name in distinct_names:
        fault = find_name_fault(name)
        if fault:
            raise import_error(path, f"the name {name[:60]!r} {fault}", slug="import-agents")
    return numbers.astype(np.int32), tuple(distinct_names)


def _make_verdicts(plan: Plan, answer: Floats, judges: pd.Series[str], notes: list[str]) -> Verdicts:
    """Make the verdicts of imported battles: a plan, and the answer of a judge to each of its trials.

    plan : plan with one trial per battle
    answer : float array (n_battles,), preference for the model that was shown first, from 0 to 1; NaN if the battle has no
        winner, which counts as a missing answer
    judges : name of the judge of each battle; "" if the file does not name the judge
    notes : remarks on the import, which become warnings; changed in place if battles have no winner

    If the file names one or two judges, the verdicts state their names. If it names none, or more than two, the verdicts
    state "imported".
    """
    is_missing = np.isnan(answer)
    if is_missing.any():
        notes.append(f"{is_missing.sum():,} of {len(answer):,} battles have no winner and count as missing answers")
    reason_if_missing = MISSING_REASONS.index("unparsed")
    missing_reason = np.where(is_missing, reason_if_missing, 0).astype(np.int8)
    binary_answer = np.where(is_missing, np.nan, answer > 0.5)  # 0 or 1; a tie counts as 0

    judge_names = sorted(set(judges) - {""})
    judge_name = ", ".join(judge_names) if 1 <= len(judge_names) <= 2 else "imported"
    findings = tuple(Finding("import", note) for note in notes)
    return Verdicts(plan, answer, binary_answer, missing_reason, {"name": judge_name}, warnings=findings)


def _clean_battles(path: Path, battles: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Remove the battles of a model with itself. If the file names no items, give each battle its own item.

    A battle compares the responses of two models.

    battles : result of `_read_table`
    notes : list to which notes on these changes, and on a missing order of the responses, are added

    Raises: ImportFormatError [import-empty] if no battle of two models is left.
    """
    is_against_itself = battles["model_a"] == battles["model_b"]
    battles = battles[~is_against_itself]
    if is_against_itself.any():
        notes.append(f"{format_count(is_against_itself.sum(), 'battle')} of a model with itself skipped")
    if battles.empty:
        raise import_error(path, "it has no battle of two models. Pass a file with battles.", slug="import-empty")

    if (battles["item"] == "").all():
        notes.append("no column names the items, so that intervals treat battles as independent of each other")
        battles = battles.assign(item=[f"battle-{number}" for number in range(1, len(battles) + 1)])
    if battles["order"].isna().all():
        notes.append(_describe_missing_order(battles))
    return battles


def _describe_missing_order(battles: pd.DataFrame) -> str:
    """State that model_a counts as shown first, and warn the user if no two models occur in both orders."""
    note = "no column states the order of the responses: model_a counts as shown first"
    pairs = set(zip(battles["model_a"], battles["model_b"], strict=True))
    if any((model_b, model_a) in pairs for model_a, model_b in pairs):
        return note
    return (
        f"{note}. No two models occur in both orders. Differences between the models may then look like position bias, "
        "which distorts the abilities. If the responses were shown in random order, exchange model_a and model_b, and the "
        "winner, in a random half of the rows"
    )


def _make_plan(trials: Trials, agent_ids: tuple[str, ...], item_ids: tuple[str, ...]) -> Plan:
    """Make the plan of imported trials.

    No cell (agent and item) is held out: all cells with a trial are training cells. There are no independent trials, because
    a plan of preferences needs none.

    trials : paired trials, which refer to agents and items by their positions in `agent_ids` and `item_ids`
    """
    is_observed = np.zeros((len(agent_ids), len(item_ids)), dtype=np.bool_)
    is_observed[trials.first, trials.item] = True
    is_observed[trials.second, trials.item] = True
    no_holdout = np.zeros_like(is_observed)
    ids = "\n".join((*agent_ids, "", *item_ids))
    return Plan(
        trials=trials.with_replicate_numbers(),
        split=Split(is_observed, no_holdout, rule="strict", fraction=0.0, seed=0),
        design=IMPORTED_DESIGN,
        options={"question": "preference"},
        independent="pooled",  # a required field, which has no effect without independent trials
        seed=0,
        pool_digest=hashlib.sha256(ids.encode()).hexdigest(),
        agent_ids=agent_ids,
        item_ids=item_ids,
        n_independent=0,
    )


def _find_column(path: Path, rows: pd.DataFrame, role: str, columns: Mapping[str, str]) -> str | None:
    """Find the column of a role in a file of battles; None if an optional role has no column.

    columns : columns that the user named, by role, such as {"text": "answer"}

    Raises: ImportFormatError [battles-columns] if a required column is missing.
    """
    possible_names = (columns[role],) if role in columns else _COLUMNS[role]
    for name in possible_names:
        if name in rows:
            return name
    is_required = role in columns or role in ("model_a", "model_b", "winner")
    if not is_required:
        return None
    suggestion = suggest_name(possible_names[0], [str(column) for column in rows.columns], max_shown=20)
    problem = f"it has no column {possible_names[0]}. {suggestion} Set --column {role}=COLUMN."
    raise import_error(path, problem, slug="battles-columns")


def _read_table(path: Path, columns: Mapping[str, str], notes: list[str]) -> pd.DataFrame:
    """Read the battles of a file as a table with one column per role of `_COLUMNS`.

    columns : columns that the user named, by role, such as {"text": "answer"}
    notes : receives notes on what was assumed or left out

    - `winner` is the preference for model_a, from 0 to 1. It is NaN without a winner.
    - `order` is 0 if model_a was shown first, and 1 if model_b was. It is NaN in all rows if the file has no order.
    - Models, items and judges are texts. Items and judges are "" if the file does not name them.

    Raises: ImportFormatError; see `read_battles`.
    """
    rows = _combine_winner_flags(path, _read_rows(path, notes).reset_index(drop=True), columns)
    table = _select_columns(path, rows, columns, notes)

    # each row of MT-Bench is two battles of the same models: model_a is shown first in one, and model_b in the other
    has_other_winner = "winner" in rows or "winner" in columns
    if _SWAPPED_WINNER in rows and not has_other_winner:
        battles_with_a_first = table.assign(order=0.0)
        battles_with_b_first = table.assign(order=1.0, winner=_convert_cells_to_text(rows[_SWAPPED_WINNER]))
        table = pd.concat([battles_with_a_first, battles_with_b_first])

    n_repeated = int(rows.map(str).duplicated().sum()) if (table["item"] != "").any() else 0
    if n_repeated:
        repeated = format_count(n_repeated, "row", "repeats", "repeat")
        notes.append(
            f"{repeated} an earlier row in all columns: each counts as a battle; remove rows that were copied by mistake"
        )
    weights = [str(name) for name in rows if str(name).casefold() in _WEIGHTS and name not in columns.values()]
    if weights:
        notes.append(f"the column {weights[0]} is not used: each battle counts once")
    table["winner"] = _compute_preferences(path, table, notes)
    return table


def _combine_winner_flags(path: Path, rows: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Add the column `winner` to a file with one column of flags per result, for example `winner_model_a` (`_WINNER_FLAGS`).

    A battle with 0 in all of these columns has no winner. Other files are returned unchanged.

    columns : columns that the user named, by role, such as {"text": "answer"}

    Raises: ImportFormatError [battles-columns] if the user named one of these columns as the winner; [battles-value] if a value
        is not 0 or 1, or if a battle has several results.
    """
    flag_columns = [name for name in _WINNER_FLAGS if name in rows]
    if not {"winner_model_a", "winner_model_b"}.issubset(flag_columns) or "winner" in rows:
        return rows
    named_column = columns.get("winner")
    if named_column in flag_columns:
        problem = f"the column {named_column} states only one of the results: got --column winner={named_column}."
        remedy = f"Leave out this option; {', '.join(flag_columns)} are read together."
        raise import_error(path, f"{problem} {remedy}", slug="battles-columns")
    if named_column is not None:
        return rows

    winner = pd.Series("", index=rows.index, dtype=object)
    for name in flag_columns:
        is_set = _convert_words(path, _convert_cells_to_text(rows[name]), _FLAGS, role=name, choices="1 and 0") == 1
        has_two_results = is_set & (winner != "")
        if has_two_results.any():
            row = int(np.flatnonzero(has_two_results)[0]) + 1
            problem = f"row {row} has several results: got 1 in more than one of {', '.join(flag_columns)}. Keep one."
            raise import_error(path, problem, slug="battles-value")
        winner = winner.mask(is_set, _WINNER_FLAGS[name])
    return rows.assign(winner=winner)


def _select_columns(path: Path, rows: pd.DataFrame, columns: Mapping[str, str], notes: list[str]) -> pd.DataFrame:
    """Select the column of each role, such as "model_a" or "winner", from the rows of a file of battles.

    path : file of the battles, for error messages
    rows : rows of the file, with the column names of the file
    columns : columns that the user named, by role, such as {"text": "answer"}
    notes : receives a remark if several columns may identify the items

    Returns a table with the same rows and one column per role of `_COLUMNS`. The order is a number: 0 if model_a was shown
    first, 1 if model_b was, and NaN if the file has no order. All other values are texts, "" if the file has no such column.

    Raises: ImportFormatError [battles-columns] if a required column is missing; [battles-value] if a model or an item has
        no name, or if an order is unknown.
    """
    table = pd.DataFrame("", index=rows.index, columns=list(_COLUMNS), dtype=object)
    for role in _COLUMNS:
        column = _find_column(path, rows, role, columns)
        if column is not None:
            table[role] = _convert_cells_to_text(rows[column])
            _check_filled(path, table[role], role, column)

    if (table["item"] == "").all():
        notes += _describe_possible_items(rows)
    item_columns = [name for name in _COLUMNS["item"] if name in rows]
    if "item" not in columns and len(item_columns) > 1:
        identification = f"items are identified by {item_columns[0]}, not {item_columns[1]}"
        notes.append(f"{identification}; set --column item=COLUMN to use another column")

    has_order = bool((table["order"] != "").any())
    table["order"] = _convert_words(path, table["order"], _ORDERS, role="order") if has_order else np.nan
    return table


def _describe_possible_items(rows: pd.DataFrame) -> list[str]:
    """Describe the columns that may identify the items, for notes.

    These columns have a usual name of items or prompts, and at least one value in several rows.
    """
    notes = []
    for name in map(str, rows):
        is_named_like_items = infer_role(name) in ("item", "prompt") and name in rows
        if is_named_like_items and _convert_cells_to_text(rows[name]).duplicated().any():
            notes.append(f"the column {name} may identify the items; if it does, set --column item={name}")
    return notes


def _convert_cells_to_text(values: pd.Series) -> pd.Series[str]:
    """Convert the cells of a column to texts without blanks around them; an empty cell becomes "".

    A list, such as the judge of a battle in MT-Bench, is replaced by its first element.
    """
    elements = []
    for value in values:
        is_filled_list = isinstance(value, (list, np.ndarray)) and len(value) > 0
        elements.append(value[0] if is_filled_list else value)
    cells = pd.Series(elements, index=values.index, dtype=object)
    return cells.mask(cells.isna(), "").map(str).str.strip()


def _check_filled(path: Path, texts: pd.Series[str], role: str, column: str) -> None:
    """Raise ImportFormatError [battles-value] if a model has no name, or if only some of the items have a name.

    texts : values of the column called `column`, whose role is one of `_COLUMNS`
    """
    empty_rows = np.flatnonzero(texts == "")
    if len(empty_rows) == 0:
        return
    is_model = role in ("model_a", "model_b")
    is_partly_filled_item = role == "item" and len(empty_rows) < len(texts)
    if is_model or is_partly_filled_item:
        entity = "an item" if role == "item" else "a model"
        cells = format_count(len(empty_rows), "empty cell")
        problem = f"row {empty_rows[0] + 1} has no name of {entity} in {column}: got {cells} in this column."
        raise import_error(path, f"{problem} Fill in each empty cell, or remove its row.", slug="battles-value")


def _read_rows(path: Path, notes: list[str]) -> pd.DataFrame:
    """Read all rows of a file; its suffix states the format.

    notes : receives what was assumed about the sheets of an Excel file

    Raises: ImportFormatError [import-format] if it cannot be read; see `read_rows` for the errors of CSV files.
    """
    suffix = path.suffix.casefold()
    try:
        if suffix == ".parquet":
            return pd.read_parquet(path)
        if suffix == ".json":
            return pd.DataFrame(_parse_json(path.read_text(encoding="utf-8-sig")))
        if suffix in (".jsonl", ".ndjson"):
            lines = path.read_text(encoding="utf-8-sig").split("\n")
            return pd.DataFrame([_parse_json(line) for line in lines if line.strip()])
    except (OSError, ValueError, RecursionError) as error:
        raise _make_unreadable_error(path, str(error)) from error

    if suffix in EXCEL:
        sheets = read_excel_sheets(path, lambda text, location: notes.append(f"{text} ({location})"))
        rows = [row for _, sheet_rows in sheets for _, row in sheet_rows]
    elif suffix in (".csv", ".tsv", ".tab"):
        rows = [row for _, row in read_rows(path, strict=True)]
    else:
        raise _make_unreadable_error(path, f"its suffix is {path.suffix!r}")
    frame = pd.DataFrame(rows, dtype=object).dropna(how="all")  # without blank lines
    if frame.empty:
        raise import_error(path, "it has no rows. Pass a file with battles.", slug="import-empty")
    return frame


def _make_unreadable_error(path: Path, reason: str) -> ImportFormatError:
    """Make the error [import-format] for a file that cannot be read as a table of battles."""
    problem = f"it cannot be read as a table ({reason}). Pass CSV, TSV, Excel, JSON, JSONL or Parquet with one battle per row."
    return import_error(path, problem, slug="import-format")


def _parse_json(text: str) -> Any:
    """Parse JSON with numbers as texts, in the spelling of the file; raise ValueError for other texts and repeated keys."""
    check_unique_keys(text)
    return json.loads(text, parse_int=str, parse_float=str)


def _compute_preferences(path: Path, table: pd.DataFrame, notes: list[str]) -> pd.Series[float]:
    """Convert the winner of each battle to the preference for model_a: 1 if model_a wins, 0 if model_b wins, 0.5 for a tie.

    The winner may be the name of a model, a word such as "tie", or a number such as 0.7 or 70%. If all winners are numbers,
    they are the preferences, unless the models have numbers as names.

    table : battles, with the columns model_a, model_b and winner as texts
    notes : receives a note on the meaning of the numbers if all winners are 0 or 1

    Returns a float series (n_battles,), NaN for an empty cell.

    Raises: ImportFormatError [battles-value] if a winner is unknown or ambiguous, or if a number is not from 0 to 1.
    """
    winner = table["winner"]
    is_a = winner == table["model_a"]
    is_b = winner == table["model_b"]
    is_empty = winner == ""
    number = winner.map({text: _parse_preference(text) for text in winner.unique()}).astype(np.float64)
    are_all_numbers = (number.notna() | is_empty).all()
    are_all_names = (is_a | is_b | is_empty).all()
    if are_all_numbers and not are_all_names:
        _check_percent_signs(path, winner[~is_empty])
        _check_preference_range(path, number)
        if number.dropna().isin([0, 1]).all():
            notes.append("numbers in `winner` are preferences for model_a: 1 counts as its win, and 0 as its loss")
        return number

    _check_ambiguous_winners(path, table, number)
    winner_or_letter = winner.mask(is_b, "b").mask(is_a, "a")  # the letter in place of the name of a model
    words = ", ".join(filter(None, _PREFERENCES))
    choices = f"one of: {words}; the name of one of the two models; or numbers from 0 to 1 (or 0% to 100%) in all rows"
    return _convert_words(path, winner_or_letter, _PREFERENCES, role="winner", choices=choices)


def _parse_preference(text: str) -> float:
    """Convert a text such as "0.7", "0,7" or "70%" to a number; NaN for a word."""
    if not any(character.isdigit() for character in text):  # such as "nan"
        return np.nan
    number = parse_number(text)
    return np.nan if number is None else number


def _check_percent_signs(path: Path, winner: pd.Series[str]) -> None:
    """Raise ImportFormatError [battles-value] if some preferences, but not all, have a percent sign."""
    has_sign = winner.str.endswith("%")
    if has_sign.any() and not has_sign.all():
        value = winner[~has_sign].iloc[0]
        problem = f"preferences in `winner` are written with and without a percent sign: got {value!r}."
        raise import_error(path, f"{problem} Write all of them in the same way.", slug="battles-value")


def _check_preference_range(path: Path, preference: pd.Series[float]) -> None:
    """Check that the numbers in the column of winners, which are preferences for model_a, are from 0 to 1.

    path : file of the battles, for the error message
    preference : float series (n_battles,), preference for model_a; NaN if the battle has no winner, which is accepted

    Raises: ImportFormatError [battles-value] if a preference is outside this range.
    """
    lowest, highest = preference.min(), preference.max()
    if lowest < 0 or highest > 1:
        problem = (
            f"preferences in `winner` are not from 0 to 1: got {lowest:g} to {highest:g}. Rescale them to 0 "
            "(model_b wins) to 1 (model_a wins)."
        )
        raise import_error(path, problem, slug="battles-value")


def _check_ambiguous_winners(path: Path, table: pd.DataFrame, number: pd.Series[float]) -> None:
    """Raise ImportFormatError [battles-value] if a winner may be the name of a model or a word for a different result.

    For example, the winner "A" usually means model_a. If model_b is called "A", it may also mean model_b. There are two
    cases:

    - No winner is certainly a name. Then any ambiguous winner is an error.
    - Some winners are certainly names. Then "A" is read as a name, too. Only a winner that may also mean a tie is an error,
      because files with names need a word for ties.

    path : file of the battles, for the error message
    table : battles, with the columns model_a, model_b and winner as texts
    number : float series (n_battles,), winner as a number; NaN if the winner is not a number
    """
    winner = table["winner"]
    is_model_a = winner == table["model_a"]
    is_name = is_model_a | (winner == table["model_b"])

    # preference for model_a that a winner states as a number or a word; NaN for other winners
    preference_of_word = winner.str.casefold().map(dict(_PREFERENCES))
    stated_preference = number.where(number.between(0, 1), preference_of_word)

    # as a name, model_a means a preference of 1, and model_b a preference of 0
    preference_of_name = is_model_a.astype(np.float64)
    may_be_word = stated_preference.notna()
    is_ambiguous = is_name & may_be_word & (stated_preference != preference_of_name)
    may_all_be_words = (may_be_word | (winner == "")).all()
    has_ambiguous_tie = (is_ambiguous & (stated_preference == 0.5)).any()
    if is_ambiguous.any() and (may_all_be_words or has_ambiguous_tie):
        value = winner[is_ambiguous].iloc[0]
        problem = f"a value of `winner` is the name of a model, and may also state another result: got {value!r}."
        raise import_error(path, f"{problem} Use model_a, model_b and tie.", slug="battles-value")


def _convert_words(
    path: Path, cells: pd.Series[str], numbers: Mapping[str, float], *, role: str, choices: str = ""
) -> pd.Series[float]:
    """Convert each word in a column to a number; raise ImportFormatError [battles-value] if a word is unknown.

    cells : one word per row, in upper or lower case
    numbers : number of each word, in lower case
    role : role of the column, for the error message
    choices : description of the allowed values, for the error message; default: the keys of `numbers`
    """
    words = cells.str.strip().str.casefold()
    is_unknown = ~words.isin(numbers.keys())
    if is_unknown.any():
        counts = Counter(words[is_unknown])
        excerpts = [f"{repr(word[:60]) if word else 'an empty cell'} ({n:,})" for word, n in counts.most_common(5)]
        ellipsis = f" and {len(counts) - 5:,} others" if len(counts) > 5 else ""
        rows = format_count(is_unknown.sum(), "row")
        first_row = is_unknown.argmax() + 1
        problem = (
            f"values of `{role}` are unknown in {rows}, first in row {first_row}: got {', '.join(excerpts)}{ellipsis}"
        )
        choices = choices or f"one of: {', '.join(filter(None, numbers))}"
        raise import_error(path, f"{problem}. Use {choices}.", slug="battles-value")
    return words.map(dict(numbers)).astype(np.float64)
