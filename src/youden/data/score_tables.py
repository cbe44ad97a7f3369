"""Read tables of scores of models on items, in long or wide form.

What a table does not state is inferred and noted. If the roles of its columns are ambiguous, the error names the option
that sets them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from youden.data.importers.table_files import find_tables, read_plain_frame, read_rows, read_tables
from youden.data.importers.table_header import Row
from youden.data.pools.spool import format_excerpt
from youden.data.score_columns import CONVERSIONS, ScoreColumn, is_percentage, make_id
from youden.errors import ConfigError
from youden.text.printable import find_name_fault
from youden.text.replacements import Replacements
from youden.text.sentences import format_count, suggest_name
from youden.types.pool import Floats, Positions, ReadOnly

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("model", "item", "score", "ignore")
"""Roles that `--column` accepts. A column of the role "ignore" is not used."""
_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0))
"""Ranges of scores. The first that contains all scores is assumed."""
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_SCORE_NAMES = {"score", "scores", "value", "main_score"}
_TOTAL = re.compile(r"all|(mean|sum)(_.*)?|(.*_)?(average|avg|overall|total)(_.*)?")
_NO_SCORE = re.compile(
    r"rank(ing)?(_.*)?|no|#|(.*_)?(stderr|stddev|std|std_error|se|ci)|(number_of_|num_|n_|#_?)?param(eter)?s?(_.)?|(model_)?size(_.*)?"
    r"|memory(_usage)?(_.*)?|max_tokens|embedding_dim.*|context_(length|window)|(release_)?(date|year)|(.*_)?(price|cost|usd|latency)"
    r"|votes|n|count|num_.*|n_(samples|items)|co[2₂].*|(hub_)?likes|hub|seed|version|zero_shot|repeat|epoch|trial|attempt"
)
"""Normalized names of columns of numbers that are no scores."""
_MAX_SCORE = 1e100
_MAX_METRICS = 100
"""A table with more items has scores of single items instead of metrics."""
_MAX_NAMES = 10
"""Number of names that a message lists."""
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
        unknown_role = f"The role of a column is unknown: got {unknown[0]!r}. Set one of: {', '.join(ROLES)}."
        raise ConfigError(unknown_role, slug="scores-role")

    if score_range is not None and not -inf < score_range[0] < score_range[1] < inf:
        low, high = score_range
        problem = (
            f"The range of scores is not a finite LOW below HIGH: got {low:g} and {high:g}. Set, for example, 1 and 5."
        )
        raise ConfigError(problem, slug="scores-range")

    notes: list[str] = []
    if isinstance(table, str | Path | Sequence):
        paths = [Path(path) for path in ([table] if isinstance(table, str | Path) else table)]
        source, located = ", ".join(path.name for path in paths), _read_files(paths, notes)
    else:
        frame = table if table.index.name is None and table.index.dtype.kind == "i" else table.reset_index()
        source, located = "table", LocatedFrame(frame.rename(columns=str), lambda row: f"table, row {row + 1}")
    return _TableReader(source, located, given, notes).read(score_range)


def _read_files(paths: Sequence[Path], notes: list[str]) -> LocatedFrame:
    """Read the rows of all files, with a column `model` for the file if there are several without one."""
    import pandas as pd  # takes long to load

    rows = read_result_rows(paths, notes)
    replaced = Replacements()
    files = [] if rows else find_tables(paths)
    if not rows and not files:
        problem = "there is no table in this folder: got no CSV, TSV, Excel, JSON or Parquet file. Pass a file or another folder."
        raise import_error(paths[0], problem, slug="import-empty")
    plain = read_plain_frame(files[0], lambda text, _: notes.append(text)) if len(files) == 1 else None
    if plain is not None:
        return LocatedFrame(plain, lambda row: next(islice(read_rows(files[0]), row, None))[0])
    for file in files:
        for name, table in read_tables(file, lambda text, _: notes.append(text), replaced):
            if not table:
                problem = "the table is empty: got 0 rows. Pass a table with a header and at least one row."
                raise import_error(file, problem, slug="import-empty")
            lacks_models = not any(map(_is_model_name, table[0][1]))
            extra: Row = {"model": name} if len(paths) > 1 and lacks_models else {}
            rows += [(location, extra | row) for location, row in table]
    notes.extend(filter(None, [replaced.describe()]))
    frame = pd.DataFrame([row for _, row in rows], dtype=object)
    return LocatedFrame(frame, lambda number: rows[number][0])


def _is_model_name(name: str) -> bool:
    """Return whether the name of a column refers to models."""
    return is_agent_name(name) or (infer_role(name) == "agent" and normalize_name(name) != "name")


class LocatedFrame(NamedTuple):
    """Rows of a table, and a function that returns the location of a row by its position, for messages."""

    frame: pd.DataFrame
    locate: Callable[[int], str]


class _TableReader:
    """Finds the roles of the columns of a table, and collects its scores.

    `given` has the column of each role that the user set; `notes` receives what was assumed or left out.
    """

    def __init__(self, source: str, located: LocatedFrame, given: Mapping[str, str], notes: list[str]) -> None:
        self.source, self.located, self.given, self.notes = source, located, given, notes
        self.n_rows = len(located.frame)
        self.values = {str(name): ScoreColumn.from_values(values) for name, values in located.frame.items()}
        for name in set(self.get_names("ignore")):
            del self.values[name]
        self.numbers = {name: column.to_numbers() for name, column in self.values.items()}

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
                suggestion = suggest_name(name, list(self.values))
                problem = f"there is no column {name!r}. {suggestion} Set --column {role}=NAME."
                raise import_error(self.source, problem, slug="scores-columns")
        return names

    def read(self, score_range: tuple[float, float] | None) -> ScoreTable:
        """Return the scores, of which `score_range` is the range if it is known."""
        models, items, scores = map(self.get_names, ROLES[:3])
        others = [name for name in self.values if name not in (*models, *items, *scores)]
        labels = [name for name in others if name not in self.numeric]
        models = models or self.choose_model_columns([name for name in labels if _is_model_name(name)])
        items = items or [name for name in others if self.may_be_item(name)][: None if models else 1]
        if not models and not items:
            label = (labels or others or ["NAME"])[0]
            problem = f"its columns do not state whether a row is a model or an item: got {_format_names(self.values)}."
            remedy = f"Set --column {quote(f'model={label}')} or --column {quote(f'item={label}')}."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")

        is_long = bool(models and items)
        scores = scores or self.choose_score_columns([*models, *items], is_long=is_long)
        for name in scores:
            self.check_numbers(name)
        self.note_conversions(scores)
        if is_long:
            return self.read_long(models, items, scores, score_range)
        return self.read_wide(models, items, scores, score_range)

    def read_long(
        self, models: list[str], items: list[str], scores: list[str], score_range: tuple[float, float] | None
    ) -> ScoreTable:
        """Return the scores of a long table, which has one row per model and item; the first score of a row counts."""
        self.notes.append(f"models: {models[0]}; items: {' + '.join(items)}; scores: {', '.join(scores)}")
        values = np.full(self.n_rows, np.nan)
        for name in scores:
            values = np.where(np.isnan(values), self.numbers[name], values)
        return self.average_cells(self.get_keys(models), self.get_keys(items), values, score_range)

    def read_wide(
        self, models: list[str], items: list[str], scores: list[str], score_range: tuple[float, float] | None
    ) -> ScoreTable:
        """Return the scores of a wide table, whose rows are models and whose columns are items, or the reverse.

        Raises: ImportFormatError [scores-scale] if a column has words such as yes, and another one scores above 1.
        """
        self.notes.append(f"rows are {'models' if models else 'items'} ({' + '.join(models or items)})")
        row_keys = np.repeat(self.get_keys(models or items), len(scores))
        column_keys = np.tile(np.array([make_id(name) for name in scores], dtype=object), self.n_rows)
        values = np.column_stack([self.numbers[name] for name in scores]).ravel()
        words = [name for name in scores if self.values[name].has_only_words]
        highest = float(np.nanmax(values))
        if words and highest > 1 and score_range is None:
            got = _format_names(map(str, self.values[words[0]].converted))
            mixed = f"{words[0]!r} has words instead of numbers, and other columns have scores up to {highest:g}: got {got}."
            not_numbers = f"{mixed} Set --column ignore={words[0]}."
            raise import_error(self.source, not_numbers, slug="scores-scale")
        model_keys, item_keys = (row_keys, column_keys) if models else (column_keys, row_keys)
        return self.average_cells(model_keys, item_keys, values, score_range)

    def choose_model_columns(self, candidates: list[str]) -> list[str]:
        """Choose the column of models by its name; [scores-columns] if several names are as reliable."""
        priority = {name: get_name_priority(name, "agent") for name in candidates}
        best = [name for name in candidates if priority[name] == min(priority.values())]
        if len(best) > 1:
            unclear = f"several columns may contain the models: got {_format_names(best)}. Set --column model=NAME."
            raise import_error(self.source, unclear, slug="scores-columns")
        return best

    def may_be_item(self, name: str) -> bool:
        """Return whether a column may identify items: by its name, and by values that are texts or whole numbers."""
        has_name = infer_role(name) in ("item", "prompt") or not SUBJECTS.isdisjoint(split_into_words(name))
        numbers = self.numbers[name][np.isfinite(self.numbers[name])]
        return has_name and not (numbers % 1).any() and not _NO_SCORE.fullmatch(normalize_name(name))

    def choose_score_columns(self, labels: Sequence[str], *, is_long: bool) -> list[str]:
        """Choose the columns of scores: one of a long table, and two or more of a wide one."""
        candidates = [name for name in self.numeric if name not in labels]
        scores = [name for name in candidates if not self.holds_no_scores(name)]
        usual = [name for name in scores if normalize_name(name) in _SCORE_NAMES]
        if is_long and len(usual) == 1 and not np.isnan(self.numbers[usual[0]]).any():
            scores = usual
        left_out = [name for name in self.values if name not in scores and name not in labels]
        if left_out:
            self.notes.append(f"columns not used: {', '.join(left_out)}")
        has_models = any(map(_is_model_name, labels)) or "model" in self.given
        if len(scores) == 1 and not is_long and not has_models:
            problem = (
                f"it has the scores of one model: got one column of scores, {scores[0]!r}, and no column of models."
            )
            remedy = "Pass one file per model, at least two, or add a column `model` with at least two models."
            raise import_error(self.source, f"{problem} {remedy}", slug="scores-columns")
        is_clear = len(scores) == 1 if is_long else len(scores) >= 2 and not usual
        if not is_clear:
            columns = "score=NAME" if is_long else "model=NAME, item=NAME or score=NAME,NAME"
            received = f"got {_format_names(scores)}" if scores else f"got none except {_format_names(self.values)}"
            unclear = f"its columns of scores are not clear: {received}. Set --column {columns}."
            raise import_error(self.source, unclear, slug="scores-columns")
        if is_long:
            self.check_single_metric(labels)
        return scores

    def check_single_metric(self, labels: Sequence[str]) -> None:
        """Raise ImportFormatError [scores-columns] if a column names the metric of each score, and there are several.

        labels : columns that name models and items; the column of models is the first
        """
        for name in self.values:
            if name in labels or normalize_name(name) not in _METRICS or len(self.values[name].unique) <= 1:
                continue
            metrics = _format_names(map(str, self.values[name].unique))
            items = "+".join([*labels[1:], name])
            mixed = f"{name!r} has several metrics: got {metrics}. Keep one, or set --column item={items}."
            raise import_error(self.source, mixed, slug="scores-columns")

    def holds_no_scores(self, name: str) -> bool:
        """Return whether a column holds ranks, averages, row numbers, or other numbers that are no scores."""
        numbers, normalized = self.numbers[name], normalize_name(name)
        counts_rows = len(numbers) > 2 and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())
        return counts_rows or bool(_TOTAL.fullmatch(normalized) or _NO_SCORE.fullmatch(normalized))

    def check_numbers(self, name: str) -> None:
        """Raise ImportFormatError if a score is no finite number [scores-value], or only some have "%" [scores-percent]."""
        column = self.values[name]
        for position in np.flatnonzero(column.is_converted).tolist():
            value = column.unique[position]
            if isinstance(value, str) and _THOUSANDS.fullmatch(value.strip()):
                plain, decimal = value.strip().replace(",", ""), value.strip().replace(",", ".")
                unclear = f"{name} has an ambiguous comma: got {value!r}. Write {plain} or {decimal}."
                raise import_error(self.locate(column, position), unclear, slug="scores-value")
        for position in np.flatnonzero(np.isinf(column.number)).tolist():
            excerpt = format_excerpt(column.unique[position])
            invalid = f"{name} is not a finite number: got {excerpt}. Set a number, or leave the cell empty."
            raise import_error(self.locate(column, position), invalid, slug="scores-value")
        if any(map(is_percentage, column.converted)):
            others = [
                k for k in np.flatnonzero(~np.isnan(column.number)).tolist() if not is_percentage(column.unique[k])
            ]
            if others:
                location, excerpt = self.locate(column, others[0]), format_excerpt(column.unique[others[0]])
                mixed = f"{name} has scores with and without a percent sign: got {excerpt}. Write all of them in the same way."
                raise import_error(location, mixed, slug="scores-percent")

    def locate(self, column: ScoreColumn, position: int) -> str:
        """Return the location of the first row with a value, the one at `position` of the unique values of a column."""
        return self.located.locate(int((column.code == position).argmax()))

    def note_conversions(self, names: Sequence[str]) -> None:
        """Add a note for each way in which values of columns were converted to numbers."""
        for conversion, is_converted in CONVERSIONS.items():
            converted = [name for name in names if any(map(is_converted, self.values[name].converted))]
            if converted:
                columns = _format_names(converted) if len(converted) < len(names) else "all columns of scores"
                self.notes.append(f"{conversion}: {columns}")

    def get_keys(self, names: Sequence[str]) -> NDArray[np.object_]:
        """Return the id of each row, which joins the values of several columns; empty if one is blank."""
        parts = [self.values[name].to_ids() for name in names]
        keys = parts[0]
        for part in parts[1:]:
            keys = np.where((keys == "") | (part == ""), "", keys + " / " + part)
        return keys

    def average_cells(
        self,
        models: NDArray[np.object_],
        items: NDArray[np.object_],
        values: Floats,
        score_range: tuple[float, float] | None,
    ) -> ScoreTable:
        """Average the scores of each cell without totals, and check names, size and range."""
        import pandas as pd  # takes long to load

        ids = {*pd.unique(models), *pd.unique(items)}.difference(self.get_names("score"))
        totals = sorted(name for name in ids if _TOTAL.fullmatch(normalize_name(name)))
        is_used = ~np.isnan(values)
        if totals:
            self.notes.append(f"averages or totals not used: {', '.join(totals)}")
            is_used &= ~(pd.Series(models).isin(totals) | pd.Series(items).isin(totals)).to_numpy()
        model, model_ids = pd.factorize(models[is_used])
        item, item_ids = pd.factorize(items[is_used])
        values = values[is_used]
        shape = len(model_ids), len(item_ids)
        if min(shape) < 2:
            got = f"got {format_count(shape[0], 'model')} and {format_count(shape[1], 'item')}"
            problem = f"it has scores of fewer than 2 models or on fewer than 2 items: {got}. "
            raise import_error(self.source, f"{problem}Add scores, or set --column ROLE=NAME.", slug="scores-size")
        for name in (*model_ids, *item_ids):
            fault = find_name_fault(name) if name else "of a model or item is blank. Fill in the cell."
            if fault:
                raise import_error(self.source, f"the name {format_excerpt(name)} {fault}", slug="scores-id")

        lowest, highest = float(values.min()), float(values.max())
        ranges = [(low, high) for low, high in _RANGES if low <= lowest and highest <= high]
        low, high = score_range or [*ranges, (lowest, highest)][0]
        if low == high:
            constant = f"all scores are equal, so their range is unknown: got {low:g}. Set it by --range LOW,HIGH."
            raise import_error(self.source, constant, slug="scores-bounds")
        if max(abs(low), abs(high)) > _MAX_SCORE:
            too_large = (
                f"scores are too large to be squared: got a range of {low:g} to {high:g}. Rescale or correct them."
            )
            raise import_error(self.source, too_large, slug="scores-bounds")
        if not low <= lowest <= highest <= high:
            too_far = f"some scores are outside of the range {low:g} to {high:g}: got {lowest:g} to {highest:g}."
            outside = f"{too_far} Correct them, or set --range LOW,HIGH."
            raise import_error(self.source, outside, slug="scores-bounds")

        cell = model * shape[1] + item
        n_scores = np.bincount(cell, minlength=shape[0] * shape[1])
        total = np.bincount(cell, values, minlength=len(n_scores))
        mean = np.divide(total, n_scores, out=np.full(len(total), np.nan), where=n_scores > 0).reshape(shape)
        if n_scores.max() > 1:
            n_repeated = format_count(int((n_scores > 1).sum()), "cell", "has", "have")
            self.notes.append(f"{n_repeated} several scores (up to {n_scores.max()}), which are averaged")
        if score_range is None:
            self.check_units(mean, item_ids.tolist())
            self.notes.append(f"range of scores assumed: {low:g} to {high:g} (--range sets it)")
        names = tuple(model_ids), tuple(item_ids)
        return ScoreTable(self.source, *names, mean, n_scores.reshape(shape), low, high, tuple(self.notes))

    def check_units(self, score: Floats, item_ids: Sequence[str]) -> None:
        """Raise ImportFormatError [scores-scale] if items have scores of different units, such as Elo ratings and fractions.

        score : float array (n_models, n_items)
        """
        lowest, highest = np.nanmin(score, axis=0), np.nanmax(score, axis=0)
        has_fraction = (np.nan_to_num(score) % 1 > 0).any(axis=0)
        for bound in (1, 10, 100):
            is_small = (highest <= bound) & (has_fraction | (bound == 100))
            is_large = (lowest > bound) | (highest > 10 * bound)
            if is_small.any() and is_large.any() and (len(item_ids) <= _MAX_METRICS or bound == 100):
                examples = is_small.argmax(), is_large.argmax()
                ranges = " and ".join(f"{lowest[j]:g} to {highest[j]:g} for {item_ids[j]!r}" for j in examples)
                problem = f"its scores seem to have different units: got {ranges}."
                remedy = "Keep scores of one unit, for example by --column score=NAME,NAME or ignore=NAME"
                unless = "or set --range LOW,HIGH if all scores have this range."
                raise import_error(self.source, f"{problem} {remedy}, {unless}", slug="scores-scale")


def _format_names(names: Iterable[str]) -> str:
    """Format the first `_MAX_NAMES` names for a message, each once."""
    distinct = list(dict.fromkeys(names))
    ellipsis = ", …" if len(distinct) > _MAX_NAMES else ""
    return ", ".join(map(format_excerpt, distinct[:_MAX_NAMES])) + ellipsis if distinct else "none"
