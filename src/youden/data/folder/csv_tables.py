"""Write and read the CSV files of a run's folder, and define `ranking.json`.

Numbers are not rounded: reading them gives the same bits.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

import numpy as np
from pydantic import JsonValue

from youden.data.atomic import atomic_write
from youden.data.folder.run_files import VERSION, StrictFile, damaged_file_error, read_bytes
from youden.data.folder.table_columns import CURL, ItemRow, ranking_columns
from youden.errors import RunFolderError
from youden.run_keys import Target
from youden.types import Scores
from youden.types.columns import Field, TableColumn, columns_of, fields_of
from youden.types.facts import (
    ALTERNATIVE_COLUMNS,
    ALTERNATIVE_RANKINGS,
    AlternativeRanking,
    ChoiceFacts,
    PartialFacts,
    RankedBy,
    RankingRow,
    RunFacts,
)
from youden.types.label_facts import QualityRow
from youden.types.pool import Floats
from youden.types.recommendation import Recommendation
from youden.types.results import CurlCurve, ScoreKind, ScoreRole, Signature

if TYPE_CHECKING:
    import pandas as pd


_COPIED_FACTS = (
    "ranked_by",
    "ranking",
    "interval",
    "level",
    "target",
    "unique_best",
    "n_significant_pairs",
    "choice",
    "recommendation",
    "partial",
)
"""Fields of `fit.json` that `ranking.json` repeats."""


class RankingFile(StrictFile):
    """Content of `ranking.json`: the ranking and what is needed to read it."""

    version: int
    run: str
    """Name of the run."""
    ranked_by: RankedBy
    """Ranking by which the agents are ordered, as in `ranking.csv`."""
    ranking: str
    """Estimator of the abilities."""
    interval: str
    """Method of the intervals."""
    level: float
    """Confidence level of the intervals."""
    target: Target
    """What the intervals describe."""
    unique_best: str | None
    """The agent that is significantly better than every other, if there is one."""
    n_significant_pairs: int
    """Number of pairs of agents whose abilities differ significantly."""
    choice: ChoiceFacts | None
    """Selection of the best agents, as in `fit.json`."""
    recommendation: Recommendation
    """Recommendation, as in `fit.json`."""
    agents: list[dict[str, JsonValue]]
    """One object per agent.

    Its keys are the columns of `ranking.csv`; `alternative_rankings`, its rows in the alternative rankings; and
    `p_best`, its probability of being the best (null without a `choice`).
    """
    signature: str
    """Everything that the numbers depend on, as text."""
    digest: str
    """Digest of the signature."""
    partial: PartialFacts | None = None
    """How much of the run is done, if it is unfinished, as in `fit.json`."""

    @classmethod
    def from_rows(cls, run: str, rows: Sequence[RankingRow], *, facts: RunFacts, signature: Signature) -> Self:
        """Make the content of `ranking.json`; no file is written.

        run : name of the run
        rows : ranking, best agent first; `agents` has one object per row, in this order
        facts : content of `fit.json`; the facts about the ranking are copied from it. Its field `choice` has the probabilities of
            being the best. `p_best` is None for an agent without a probability, and for all agents if `choice` is None.
        signature : everything that the numbers depend on, as text, and its digest
        """
        p_best = facts.choice.p_best if facts.choice else {}
        return cls(
            version=VERSION,
            run=run,
            **{name: getattr(facts, name) for name in _COPIED_FACTS},
            agents=[{**row.as_json, "p_best": p_best.get(row.agent)} for row in rows],
            signature=signature.text,
            digest=signature.digest,
        )


def write_scores(path: Path, scores: Scores) -> None:
    """Write scores with one row per agent and one column per item; the field of an unobserved cell is empty."""
    with _open_csv(path) as file:
        csv.writer(file).writerow(["agent", *scores.item_ids])
        for agent, fields in zip(scores.agent_ids, _iter_score_fields(scores), strict=True):
            # numbers are never quoted, and joining them takes a fifth of the csv module's time
            file.write(f"{_quote_field(agent)},{','.join(fields)}\r\n")


def _iter_score_fields(scores: Scores) -> Iterator[list[str]]:
    """Yield the scores of each agent as the fields of one row of a CSV file.

    scores : scores of agents on items, some of which may be missing

    Yields one list per agent, in the order of the agents. It has one text per item: the score, or an empty text if it is
    missing.
    """
    cells, values, _ = scores.cells
    order = cells.by_agent
    item_positions = cells.item[order].tolist()
    number_texts = _format_numbers(values[order])

    # sorted by agent, the cells of an agent are consecutive
    n_cells_per_agent = np.bincount(cells.agent, minlength=cells.n_agents)
    starts = [0, *np.cumsum(n_cells_per_agent).tolist()]

    for start, end in pairwise(starts):
        fields = [""] * cells.n_items
        for item, text in zip(item_positions[start:end], number_texts[start:end], strict=True):
            fields[item] = text
        yield fields


def _quote_field(text: str) -> str:
    """Quote a text as the first of several fields of a CSV row, if necessary."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow([text, None])  # a second field, because a row of one empty field is written as ""
    return buffer.getvalue().removesuffix(",\r\n")


def read_scores(path: Path, *, kind: ScoreKind, role: ScoreRole) -> Scores:
    """Read scores from a CSV file with a column `agent` and a column per item; an empty cell becomes NaN.

    path : the file
    kind : trials that the scores were computed from, recorded in the result. "row": only trials in which the agent's response
        comes first; "symmetric": trials in both orders.
    role : "train" or "holdout": whether the scores are for training or held out, recorded in the result

    Returns the scores of all agents on all items (n_agents, n_items), in the order of the rows and columns. Their range is not
    checked. The `weight` is 1 for each score, because the file has no numbers of trials.

    Raises: RunFolderError [run-missing] or [run-file-missing] if the folder or the file does not exist; [run-file-damaged] if it
        is not such a table, or has a value that is not a number.
    """
    header, *rows = _read_rows(path)
    if header[:1] != ["agent"]:
        raise damaged_file_error(path, f"the first column is {header[:1]}, not agent")
    numbers = [[_parse_number(path, field) for field in row[1:]] for row in rows]
    values = np.array(numbers, dtype=np.float64).reshape(len(rows), len(header) - 1)
    return Scores.from_matrices(
        value=values,
        weight=np.where(np.isnan(values), 0.0, 1.0),
        role=role,
        kind=kind,
        agent_ids=tuple(row[0] for row in rows),
        item_ids=tuple(header[1:]),
    )


def write_ranking(path: Path, ranking: pd.DataFrame) -> None:
    """Write a ranking of one row per agent, best first; None and NaN become empty.

    The columns of alternative rankings are optional. Raise RunFolderError [run-columns] if another column is missing.
    """
    _write_frame(path, ranking, _find_columns(ranking.columns))


def read_ranking(path: Path) -> tuple[RankingRow, ...]:
    """Read ranking.csv, best agent first; the columns of alternative rankings become `RankingRow.alternative_rankings`."""
    header, records = _read_records(path, _find_columns)
    alternative_rankings = _find_alternatives(header)
    return tuple(_to_ranking_row(record, alternative_rankings) for record in records)


def read_ranking_frame(path: Path) -> pd.DataFrame:
    """Read ranking.csv as a DataFrame, best agent first; only an empty field is missing, so ids such as 007 and NA stay texts."""
    import pandas as pd

    from youden.data.ranking_frame import RankingFrame

    text_types = {column.name: str for column in ranking_columns() if column.kind == "text"}
    return RankingFrame(pd.read_csv(path, dtype=text_types, keep_default_na=False, na_values=[""]))


def to_ranking_rows(ranking: pd.DataFrame) -> tuple[RankingRow, ...]:
    """Convert a table of the plain ranking to rows.

    Parameters
    ----------
    ranking : DataFrame
        One row per agent, with the columns of `RankingRow`.

    Returns
    -------
    tuple of RankingRow
        In the order of the table; NaN becomes None.
    """
    names = [column.name for column in _find_columns(ranking.columns) if column in columns_of(RankingRow)]
    columns = [ranking[name].tolist() for name in names]
    ranking_rows = []
    for values in zip(*columns, strict=True):
        fields: dict[str, Any] = dict(zip(names, map(_nan_to_none, values), strict=True))
        ranking_rows.append(RankingRow(**fields))
    return tuple(ranking_rows)


def write_items(path: Path, items: pd.DataFrame, extra_columns: Sequence[TableColumn] = ()) -> None:
    """Write a table with one row per item, the columns of `ItemRow` and others; None and NaN become empty.

    Raise RunFolderError [run-columns] if a column is missing.
    """
    _write_frame(path, items, (*columns_of(ItemRow), *extra_columns))


def read_items(path: Path) -> tuple[ItemRow, ...]:
    """Read items.csv, which has one row per item with its difficulty, in the order of the pool."""
    _, records = _read_records(path, lambda _header: columns_of(ItemRow))
    return tuple(ItemRow(**record) for record in records)


def write_quality(path: Path, rows: Sequence[QualityRow]) -> None:
    """Write the estimates of quality from labels as a CSV file with one row per agent; None becomes empty."""
    _write_rows(path, columns_of(QualityRow), (fields_of(row).values() for row in rows))


def write_curl(path: Path, curves: Sequence[CurlCurve]) -> None:
    """Write the distributions of curl to a CSV file, with one row per point of a curve.

    Curl measures how far scores deviate from an additive model, in which a score is an ability plus a term of the item. It is
    computed from the four scores of two agents on two items. Each point of a curve has a value of curl, and the fraction of
    these fours with at most this curl.

    path : the file
    curves : one curve per link function, such as the logit, which transforms the scores before the curl is computed
    """
    rows: list[list[Field]] = []
    for curve in curves:
        points = zip(curve.x.tolist(), curve.share.tolist(), curve.std_error.tolist(), strict=True)
        for x, share, std_error in points:
            rows.append([curve.link, curve.sd, x, share, std_error])
    _write_rows(path, CURL, rows)


def read_curl(path: Path) -> tuple[CurlCurve, ...]:
    """Read the distributions of curl that `write_curl` wrote: one curve per link function, in the order of the file.

    Curl measures how far scores deviate from an additive model of agents and items.

    Raises: RunFolderError if the file is missing or damaged.
    """
    _, records = _read_records(path, lambda _header: CURL)
    records_by_link: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        records_by_link.setdefault(record["link"], []).append(record)

    curves = []
    for link, points in records_by_link.items():
        curve = CurlCurve(
            link=link,
            x=_get_numbers(points, "x"),
            share=_get_numbers(points, "share"),
            std_error=_get_numbers(points, "std_error"),
            sd=float(_get_numbers(points, "sd")[0]),  # equal for all points of a curve
        )
        curves.append(curve)
    return tuple(curves)


def _get_numbers(records: Sequence[Mapping[str, Any]], column: str) -> Floats:
    """Return the values of a column of numbers, as a float array (n_records,) with NaN for None."""
    return np.array([record[column] for record in records], dtype=np.float64)


def _find_columns(header: Iterable[str]) -> tuple[TableColumn, ...]:
    """List the columns of a ranking with this header, which may lack alternative rankings and self-consistency."""
    return ranking_columns(_find_alternatives(header), self_trials="self_consistency" in header)


def _find_alternatives(header: Iterable[str]) -> tuple[AlternativeRanking, ...]:
    """List the alternative rankings that have columns in a header."""
    names = set(header)
    return tuple(ranking for ranking in ALTERNATIVE_RANKINGS if f"{ranking}_ability" in names)


def _to_ranking_row(record: Mapping[str, Any], alternative_rankings: Sequence[AlternativeRanking]) -> RankingRow:
    """Convert a record of ranking.csv to the row of its agent in the main ranking and in the alternative rankings.

    An alternative ranking uses a different rule. For example, the trusted ranking uses only comparisons with a trusted panel.
    The names of its columns begin with its own name, as in `trusted_ability`.

    record : value of each column of ranking.csv, None if the field is empty
    alternative_rankings : names of the alternative rankings in ranking.csv, such as "robust"

    Returns the row of the main ranking. Its field `alternative_rankings` has the rows of the alternative rankings that
    include the agent.
    """
    plain_fields: dict[str, Any] = {column.name: record.get(column.name) for column in columns_of(RankingRow)}
    plain_row = RankingRow(**plain_fields)

    rows_by_ranking = {}
    for ranking in alternative_rankings:
        includes_agent = record[f"{ranking}_rank_low"] is not None
        if includes_agent:
            # the file has no columns for the other fields, which are equal in all rankings
            different_fields = {column: record[f"{ranking}_{column}"] for column in ALTERNATIVE_COLUMNS}
            rows_by_ranking[ranking] = replace(plain_row, **different_fields)
    return replace(plain_row, alternative_rankings=rows_by_ranking)


def _write_frame(path: Path, frame: pd.DataFrame, columns: Sequence[TableColumn]) -> None:
    """Write columns of a data frame to a CSV file; raise RunFolderError [run-columns] if one of them is missing."""
    names = [column.name for column in columns]
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise RunFolderError(
            f"The table for {path.name} has no column {', no '.join(missing)}: got {', '.join(frame.columns)}. "
            f"Pass the columns {', '.join(names)}.",
            slug="run-columns",
        )
    _write_rows(path, columns, frame[names].astype(object).itertuples(index=False))


def _write_rows(path: Path, columns: Sequence[TableColumn], rows: Iterable[Iterable[Field]]) -> None:
    """Write a CSV file with the names of the columns as header; None and NaN become empty fields."""
    with _open_csv(path) as file:
        writer = csv.writer(file)
        writer.writerow(column.name for column in columns)
        writer.writerows([_nan_to_none(value) for value in row] for row in rows)


def _read_records(
    path: Path, get_expected_columns: Callable[[Sequence[str]], Sequence[TableColumn]]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Read the header of a CSV file, and each row as a mapping of column names to values.

    path : file of a table of a run
    get_expected_columns : function that gets the header, and returns the columns that the table must have, in their order

    Raises: RunFolderError if the file is missing, or [run-file-damaged] if it has other columns or a number is not valid.
    """
    header, *rows = _read_rows(path)
    columns = get_expected_columns(header)
    names = [column.name for column in columns]
    if header != names:
        raise damaged_file_error(path, _describe_difference(header, names))
    records = []
    for row in rows:
        record = {}
        for column, field in zip(columns, row, strict=True):
            record[column.name] = _parse_field(path, column, field)
        records.append(record)
    return header, records


def _describe_difference(header: Sequence[str], names: Sequence[str]) -> str:
    """Describe how the header of a table differs from the expected names of the columns."""
    missing = [name for name in names if name not in header]
    unknown = [name for name in header if name not in names]
    problems = []
    if missing:
        problems.append(f"the column {missing[0]!r} is missing")
    if unknown:
        problems.append(f"the column {unknown[0]!r} is unknown")
    return " and ".join(problems) or f"its columns must be in this order: {', '.join(names)}"


def _parse_field(path: Path, column: TableColumn, field: str) -> Field:
    """Convert a field to the type of its column; an empty field becomes None if the column may have missing values.

    Raises: RunFolderError [run-file-damaged] if a number is not valid.
    """
    is_missing = column.null and field == ""
    match column.kind:
        case "text":
            return None if is_missing else field
        case "whole":
            return None if is_missing else _parse_whole_number(path, field)
        case _:
            number = _parse_number(path, field)
            return None if math.isnan(number) else number


def _parse_whole_number(path: Path, field: str) -> int:
    """Convert a field to a whole number; raise RunFolderError [run-file-damaged] if this is not possible."""
    try:
        return int(field)
    except ValueError as error:
        raise damaged_file_error(path, f"{field!r} is not a whole number") from error


def _parse_number(path: Path, field: str) -> float:
    """Convert a field to a number; an empty field becomes NaN. Raises: RunFolderError [run-file-damaged]."""
    try:
        return float(field) if field else math.nan
    except ValueError as error:
        raise damaged_file_error(path, f"{field!r} is not a number") from error


@contextmanager
def _open_csv(path: Path) -> Iterator[TextIO]:
    """Open a CSV file for writing; it replaces the existing file when the block ends without an error."""
    # RFC 4180's line ends: with "\n" the csv module would not quote an id that contains a carriage return
    with atomic_write(path) as tmp_path, tmp_path.open("w", encoding="utf-8", newline="") as file:
        yield file


def _format_numbers(values: Floats) -> list[str]:
    """Format numbers with all their digits, by `repr`.

    values : float array (n,)
    """
    # each distinct value is formatted once, because formatting is slow; comparing bits finds equal NaNs, too
    distinct_bits, positions = np.unique(values.view(np.int64), return_inverse=True)
    distinct_values = distinct_bits.view(np.float64).tolist()
    distinct_texts = np.array(list(map(repr, distinct_values)), dtype=object)
    texts: list[str] = distinct_texts[positions].tolist()
    return texts


def _nan_to_none(value: Field) -> Field:
    """Return None for NaN, and any other value unchanged."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _read_rows(path: Path) -> list[list[str]]:
    """Read the header and the rows of a CSV file, which must be equally long.

    Raises: RunFolderError if the file is missing or damaged.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise damaged_file_error(path, f"it is not a CSV file in UTF-8 ({error})") from error
    lengths = {len(row) for row in rows}
    if len(lengths) != 1:
        raise damaged_file_error(path, "its rows are not all as long as its header")
    return rows
