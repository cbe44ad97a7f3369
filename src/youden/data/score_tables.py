"""Read tables of scores of models on items, in long or wide form.

What a table does not state is inferred and noted. If the roles of its columns are ambiguous, the error names the option
that sets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from youden.data.importers.column_names import (
    SUBJECTS,
    get_name_priority,
    infer_role,
    is_agent_name,
    normalize_name,
    split_into_words,
)
from youden.data.importers.foreign_files import import_error
from youden.data.importers.score_results import read_result_rows
from youden.data.importers.table_files import find_tables, read_tables
from youden.data.importers.table_header import Row, Rows
from youden.data.label_tables import to_number
from youden.data.pools.spool import format_excerpt
from youden.errors import ConfigError
from youden.text.printable import find_name_fault
from youden.text.replacements import Replacements
from youden.text.sentences import format_count
from youden.types.columns import Field
from youden.types.pool import Floats, Json, Positions, ReadOnly

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("model", "item", "score", "ignore")
"""Roles that `--column` accepts. A column of the role "ignore" is not used."""
_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0))
"""Ranges of scores. The first that contains all scores is assumed."""
_BLANKS = {"", "-", "–", "—", "?", "n/a", "na", "nan", "none", "null", "missing", "<na>", "nat"}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_SCORE_NAMES = {"score", "scores", "value", "main_score"}
_TOTAL = re.compile(r"all|(mean|sum)(_.*)?|(.*_)?(average|avg|overall|total)(_.*)?")
_NO_SCORE = re.compile(
    r"rank(ing)?(_.*)?|no|#|(.*_)?(stderr|stddev|std|std_error|se|ci)|(number_of_|num_|n_|#_?)?param(eter)?s?(_.)?|(model_)?size(_.*)?"
    r"|memory(_usage)?(_.*)?|max_tokens|embedding_dim.*|context_(length|window)|(release_)?(date|year)|(.*_)?(price|cost|usd|latency)"
    r"|votes|n|count|num_.*|n_(samples|items)|co[2₂].*|(hub_)?likes|hub|seed|version|zero_shot|repeat|epoch|trial|attempt"
)
"""Normalized names of columns of numbers that are no scores."""
_CACHE_SIZE = 2**17
"""Number of values whose number or id is cached: those of a long table recur."""
_METRICS = {"metric", "metric_name", "measure", "filter"}


@dataclass(frozen=True, eq=False)
class ScoreTable(ReadOnly):
    """Scores of models on items.

    Attributes
    ----------
    source : str
        Name of the table, for display.
    model_ids, item_ids : tuple of str
        Ids, by position.
    score : float array (n_models, n_items)
        Mean score of each cell, in the unit of the table; NaN if the cell is missing.
    n_scores : int array (n_models, n_items)
        Number of scores of each cell.
    low, high : float
        Range of the scores.
    notes : tuple of str
        What was assumed or left out when the table was read.
    """

    source: str
    model_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    score: Floats
    n_scores: Positions
    low: float
    high: float
    notes: tuple[str, ...]


def read_scores(
    table: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    score_range: tuple[float, float] | None = None,
) -> ScoreTable:
    """Read a table of scores.

    Parameters
    ----------
    table : path, sequence of paths or DataFrame
        Tables (CSV, TSV, Excel, JSON, JSON Lines or Parquet), or results of lm-eval, HELM, MTEB or SWE-bench. Several
        files without a column of models are one model each, named by the file.
    columns : mapping of str to str, optional
        Column by role: "model", "item", "score" or "ignore". Several names are separated by commas; columns that
        together identify an item by "+". Default: inferred.
    score_range : tuple of (float, float), optional
        Lowest and highest possible score. Default: the first of 0 to 1, −1 to 1, 0 to 10 and 0 to 100 that contains all
        scores, or else the range of the scores.

    Returns
    -------
    ScoreTable

    Raises
    ------
    ImportFormatError
        [scores-columns], [scores-value], [scores-percent], [scores-scale], [scores-bounds], [scores-id], [scores-size]:
        if the table cannot be used, or the roles of its columns are ambiguous; others if a file cannot be read.
    ConfigError
        [scores-role]: if `columns` has another role; [scores-range]: if `score_range` is not two finite numbers in
        ascending order.
    """
    given = dict(columns or {})
    unknown = [role for role in given if role not in ROLES]
    if unknown:
        problem = f"The role of a column is unknown: got {unknown[0]!r}. Set one of: {', '.join(ROLES)}."
        raise ConfigError(problem, slug="scores-role")

    if score_range is not None and not -inf < score_range[0] < score_range[1] < inf:
        low, high = score_range
        problem = (
            f"The range of scores is not a finite LOW below HIGH: got {low:g} and {high:g}. Set, for example, 1 and 5."
        )
        raise ConfigError(problem, slug="scores-range")

    notes: list[str] = []
    if isinstance(table, str | Path | Sequence):
        paths = [Path(path) for path in ([table] if isinstance(table, str | Path) else table)]
        source, rows = ", ".join(path.name for path in paths), _read_rows(paths, notes)
    else:
        frame = table if table.index.name is None and table.index.dtype.kind == "i" else table.reset_index()
        records: list[Any] = frame.rename(columns=str).to_dict("records")
        source, rows = "table", [(f"table, row {number}", row) for number, row in enumerate(records, 1)]
    return _TableReader(source, rows, given, notes).read(score_range)


def _read_rows(paths: Sequence[Path], notes: list[str]) -> Rows:
    """Read the rows of all files, with a column `model` for the file if there are several without one."""
    rows = read_result_rows(paths, notes)
    if rows:
        return rows
    for file in find_tables(paths):
        for name, table in read_tables(file, lambda text, _: notes.append(text), Replacements()):
            if not table:
                raise import_error(
                    file, "it has no rows. Pass a table with a header and at least one row.", slug="import-empty"
                )
            lacks_models = not any(map(_is_model_name, table[0][1]))
            extra: Row = {"model": name} if len(paths) > 1 and lacks_models else {}
            rows += [(location, extra | row) for location, row in table]
    return rows


def _is_model_name(name: str) -> bool:
    """Return whether the name of a column refers to models."""
    return is_agent_name(name) or (infer_role(name) == "agent" and normalize_name(name) != "name")


class _TableReader:
    """Finds the roles of the columns of a table, and collects its scores.

    `given` has the column of each role that the user set; `notes` receives what was assumed or left out.
    """

    def __init__(self, source: str, rows: Rows, given: Mapping[str, str], notes: list[str]) -> None:
        self.source, self.rows, self.given, self.notes = source, rows, given, notes
        names = dict.fromkeys(name for _, row in rows for name in row)
        self.values = {name: [_simplify(row.get(name)) for _, row in rows] for name in names}
        for name in set(self.get_names("ignore")):
            del self.values[name]
        self.numbers = {name: np.array([_parse(value) for value in values]) for name, values in self.values.items()}

        # at least one number, and no more texts than numbers
        n_numbers = {name: np.isfinite(numbers).sum() for name, numbers in self.numbers.items()}
        self.numeric = [name for name, n in n_numbers.items() if n and n >= np.isinf(self.numbers[name]).sum()]

    def get_names(self, role: str) -> list[str]:
        """Return the columns that the user named for a role; [scores-columns] if one does not exist."""
        text = self.given.get(role, "")
        parts = [text] if text in self.values else text.split("+" if role == "item" else ",")
        names = [part.strip() for part in parts if part.strip()]
        for name in names:
            if name not in self.values:
                problem = f"there is no column {name!r}: got {_list(self.values)}. Set --column {role}=NAME."
                raise import_error(self.source, problem, slug="scores-columns")
        return names

    def read(self, score_range: tuple[float, float] | None) -> ScoreTable:
        """Return the scores, of which `score_range` is the range if it is known."""
        models, items, scores = map(self.get_names, ROLES[:3])
        others = [name for name in self.values if name not in (*models, *items, *scores)]
        labels = [name for name in others if name not in self.numeric]
        models = models or self.choose_models([name for name in labels if _is_model_name(name)])
        items = items or [name for name in others if self.may_be_item(name)][: None if models else 1]
        if not models and not items:
            label = (labels or others or ["NAME"])[0]
            problem = f"its columns do not state whether a row is a model or an item: got {_list(self.values)}."
            remedy = f"Set --column model={label} or --column item={label}."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

        is_long = bool(models and items)
        scores = scores or self.choose_scores([*models, *items], is_long=is_long)
        for name in scores:
            self.check_numbers(name)
        keys = self.get_keys(models or items)
        if is_long:
            self.notes.append(f"models: {models[0]}; items: {' + '.join(items)}; scores: {', '.join(scores)}")
            values = np.full(len(keys), np.nan)
            for name in scores:
                values = np.where(np.isnan(values), self.numbers[name], values)
            return self.average_cells(keys, self.get_keys(items), values, score_range)

        self.notes.append(f"rows are {'models' if models else 'items'} ({' + '.join(models or items)})")
        if score_range is None:
            self.check_scale(scores)
        row_keys = [key for key in keys for _ in scores]
        column_keys = [_make_id(name) for name in scores] * len(keys)
        values = np.column_stack([self.numbers[name] for name in scores]).ravel()
        model_keys, item_keys = (row_keys, column_keys) if models else (column_keys, row_keys)
        return self.average_cells(model_keys, item_keys, values, score_range)

    def choose_models(self, candidates: list[str]) -> list[str]:
        """Choose the column of models by its name; [scores-columns] if several names are as reliable."""
        priority = {name: get_name_priority(name, "agent") for name in candidates}
        best = [name for name in candidates if priority[name] == min(priority.values())]
        if len(best) > 1:
            unclear = f"several columns may contain the models: got {_list(best)}. Set --column model=NAME."
            raise import_error(self.source, unclear, slug="scores-columns")
        return best

    def may_be_item(self, name: str) -> bool:
        """Return whether a column may identify items: by its name, and by values that are texts or whole numbers."""
        has_name = infer_role(name) in ("item", "prompt") or not SUBJECTS.isdisjoint(split_into_words(name))
        numbers = self.numbers[name][np.isfinite(self.numbers[name])]
        return has_name and not (numbers % 1).any() and not _NO_SCORE.fullmatch(normalize_name(name))

    def choose_scores(self, labels: Sequence[str], *, is_long: bool) -> list[str]:
        """Choose the columns of scores: one of a long table, and two or more of a wide one."""
        candidates = [name for name in self.numeric if name not in labels]
        scores = [name for name in candidates if not self.is_no_score(name)]
        usual = [name for name in scores if normalize_name(name) in _SCORE_NAMES]
        if is_long and len(usual) == 1 and not np.isnan(self.numbers[usual[0]]).any():
            scores = usual
        left_out = [name for name in self.values if name not in scores and name not in labels]
        if left_out:
            self.notes.append(f"columns not used: {', '.join(left_out)}")
        if (len(scores) != 1) if is_long else (len(scores) < 2 or usual):
            columns = "score=NAME" if is_long else "model=NAME, item=NAME or score=NAME,NAME"
            unclear = f"its columns of scores are not clear: got {_list(scores)}. Set --column {columns}."
            raise import_error(self.source, unclear, slug="scores-columns")
        for name in self.values if is_long else ():
            if normalize_name(name) in _METRICS and name not in labels and len(set(map(str, self.values[name]))) > 1:
                metrics, items = _list(map(str, self.values[name])), "+".join([*labels[1:], name])
                mixed = f"{name!r} has several metrics: got {metrics}. Keep one, or set --column item={items}."
                raise import_error(self.source, mixed, slug="scores-columns")
        return scores

    def is_no_score(self, name: str) -> bool:
        """Return whether a column holds ranks, averages, row numbers, or other numbers that are no scores."""
        numbers, normalized = self.numbers[name], normalize_name(name)
        counts_rows = len(numbers) > 2 and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())
        return counts_rows or bool(_TOTAL.fullmatch(normalized) or _NO_SCORE.fullmatch(normalized))

    def check_numbers(self, name: str) -> None:
        """Raise ImportFormatError if a score is no finite number [scores-value], or only some have "%" [scores-percent]."""
        for (location, _), number in zip(self.rows, self.values[name], strict=True):
            if isinstance(number, str) and _THOUSANDS.fullmatch(number.strip()):
                plain, decimal = number.strip().replace(",", ""), number.strip().replace(",", ".")
                unclear = f"{name} has an ambiguous comma: got {number!r}. Write {plain} or {decimal}."
                raise import_error(location, unclear, slug="scores-value")
        for row in np.flatnonzero(np.isinf(self.numbers[name])):
            value = format_excerpt(self.values[name][row])
            invalid = f"{name} is not a finite number: got {value}. Set a number, or leave the cell empty."
            raise import_error(self.rows[row][0], invalid, slug="scores-value")
        is_percent = {str(value).rstrip().endswith("%") for value in set(self.values[name]) if not _is_blank(value)}
        if len(is_percent) > 1:
            mixed = f"{name} has scores with and without a percent sign. Write all of them in the same way."
            raise import_error(self.source, mixed, slug="scores-percent")

    def check_scale(self, names: Sequence[str]) -> None:
        """Raise ImportFormatError [scores-scale] if some columns are fractions and others exceed 10."""
        highest = {name: np.nanmax(np.abs(self.numbers[name])) for name in names}
        words = [name for name in names if all(_is_blank(value) or _is_word(value) for value in self.values[name])]
        if words and max(highest.values()) > 1:
            mixed = f"{words[0]!r} has only yes and no, and other columns have scores above 1. Set --column ignore={words[0]}."
            raise import_error(self.source, mixed, slug="scores-scale")
        fractions = [name for name in names if highest[name] <= 1 and np.nansum(self.numbers[name] % 1) > 0]
        if fractions and max(highest.values()) > 10:
            problem = (
                f"its columns have different scales: got at most {highest[fractions[0]]:g} in {fractions[0]!r} and "
            )
            remedy = "Set --range LOW,HIGH if all scores have this range, or --column ignore=NAME."
            text = f"{problem}{max(highest.values()):g} in another. {remedy}"
            raise import_error(self.source, text, slug="scores-scale")

    def get_keys(self, names: Sequence[str]) -> list[str]:
        """Return the id of each row, which joins the values of several columns; empty if one is blank."""
        columns = [[_make_id(value) for value in self.values[name]] for name in names]
        return [" / ".join(parts) if all(parts) else "" for parts in zip(*columns, strict=True)]

    def average_cells(
        self, models: list[str], items: list[str], values: Floats, score_range: tuple[float, float] | None
    ) -> ScoreTable:
        """Average the scores of each cell without totals, and check names, size and range."""
        import pandas as pd  # takes long to load

        ids = {*models, *items}.difference(self.get_names("score"))
        totals = {name for name in ids if _TOTAL.fullmatch(normalize_name(name))}
        rows = np.flatnonzero(~np.isnan(values)).tolist()
        if totals:
            self.notes.append(f"averages or totals not used: {', '.join(sorted(totals))}")
            rows = [row for row in rows if models[row] not in totals and items[row] not in totals]
        model, model_ids = pd.factorize(np.array(models, dtype=object)[rows])
        item, item_ids = pd.factorize(np.array(items, dtype=object)[rows])
        values = values[rows]
        shape = len(model_ids), len(item_ids)
        if min(shape) < 2:
            problem = (
                f"it needs scores of 2 models on 2 items: got {shape[0]} × {shape[1]}. Set roles by --column ROLE=NAME."
            )
            raise import_error(self.source, problem, slug="scores-size")
        for name in (*model_ids, *item_ids):
            fault = find_name_fault(name) if name else "of a model or item is blank. Fill in the cell."
            if fault:
                raise import_error(self.source, f"the name {format_excerpt(name)} {fault}", slug="scores-id")

        lowest, highest = float(values.min()), float(values.max())
        ranges = [(low, high) for low, high in _RANGES if low <= lowest and highest <= high]
        low, high = score_range or [*ranges, (lowest, highest)][0]
        if low == high:
            constant = f"all scores are {low:g}, so their range is unknown. Set --range LOW,HIGH."
            raise import_error(self.source, constant, slug="scores-bounds")
        if not low <= lowest <= highest <= high:
            outside = f"scores must be from {low:g} to {high:g}: got {lowest:g} to {highest:g}. Set --range LOW,HIGH."
            raise import_error(self.source, outside, slug="scores-bounds")
        if score_range is None:
            self.notes.append(f"range of scores assumed: {low:g} to {high:g} (--range sets it)")

        cell = model * shape[1] + item
        n_scores = np.bincount(cell, minlength=shape[0] * shape[1])
        total = np.bincount(cell, values, minlength=len(n_scores))
        mean = np.divide(total, n_scores, out=np.full(len(total), np.nan), where=n_scores > 0).reshape(shape)
        if n_scores.max() > 1:
            n_repeated = format_count(int((n_scores > 1).sum()), "cell", "has", "have")
            self.notes.append(f"{n_repeated} several scores (up to {n_scores.max()}), which are averaged")
        names = tuple(model_ids), tuple(item_ids)
        return ScoreTable(self.source, *names, mean, n_scores.reshape(shape), low, high, tuple(self.notes))


def _list(names: Iterable[str]) -> str:
    """Format names for a message, each once."""
    return format_excerpt(", ".join(dict.fromkeys(names)) or "none")


def _simplify(value: Json) -> Field:
    """Convert a list or an object to text, so that the functions below can cache their results by value."""
    return str(value) if isinstance(value, list | dict) else value


def _is_blank(value: Field) -> bool:
    """Return whether a value counts as missing."""
    return str(value).strip().casefold() in _BLANKS


def _is_word(value: Field) -> bool:
    """Return whether a value is a truth value or a word such as yes, instead of a number."""
    return isinstance(value, bool | np.bool_) or (isinstance(value, str) and value.strip().isalpha())


@lru_cache(_CACHE_SIZE, typed=True)
def _parse(value: Field) -> float:
    """Convert a number, or a text such as 0.5, 45.2% or 45.2 ± 1.1; NaN if it is blank, infinite if it is no number."""
    if _is_blank(value):
        return nan
    number = to_number(value.partition("±")[0] if isinstance(value, str) else value)
    return inf if number is None else number


@lru_cache(_CACHE_SIZE, typed=True)
def _make_id(value: Field) -> str:
    """Convert a value to an id: white space is normalized, and of a Markdown link only the text is kept.

    >>> _make_id(" [a/b](https://example.org) "), _make_id(3.0), _make_id(None)
    ('a/b', '3', '')
    """
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    text = "" if number is None or str(number) == "nan" else " ".join(str(number).split())
    link = re.fullmatch(r"\[(.+)\]\(\S*\)", text)
    return link[1] if link else text
