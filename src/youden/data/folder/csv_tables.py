"""The CSV files of a run's folder and `ranking.json`: numbers are not rounded, they read back to the last bit."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

import numpy as np
from pydantic import JsonValue

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION, StrictFile, damaged, read_bytes
from youden.data.folder.table_columns import CURL, ItemRow, ranking_columns
from youden.errors import RunFolderError
from youden.run_keys import Target
from youden.types import Scores
from youden.types.columns import Field, TableColumn, columns_of, fields_of
from youden.types.facts import STANDING, STANDINGS, ChoiceFacts, RankedBy, RankingRow, RunFacts, StandingName
from youden.types.label_facts import QualityRow
from youden.types.pool import Floats
from youden.types.recommendation import Recommendation
from youden.types.results import CurlCurve, ScoreKind, ScoreRole, Signature

if TYPE_CHECKING:
    import pandas as pd


_OF_FACTS = ("ranked_by", "ranking", "interval", "level", "target", "best", "told_apart", "choice", "recommendation")


class RankingFile(StrictFile):
    """`ranking.json` as it stands in the folder. Agents are in the order of `ranking.csv`, by the ranking `ranked_by`.

    ranking, interval: estimator and method behind the numbers; level: of the intervals; target: what they speak of; best: who is
    told apart from everybody; choice, recommendation: as in `fit.json`. agents: the columns of `ranking.csv`;
    standings: in the rankings beside the plain one; chance: that it is the best, from `choice`, null where that is null.
    signature: everything the numbers depend on; digest: of all of it.
    """

    version: int
    run: str
    ranked_by: RankedBy
    ranking: str
    interval: str
    level: float
    target: Target
    best: str | None
    told_apart: int
    choice: ChoiceFacts | None
    recommendation: Recommendation
    agents: list[dict[str, JsonValue]]
    signature: str
    digest: str

    @classmethod
    def of(cls, run: str, rows: Sequence[RankingRow], *, facts: RunFacts, signature: Signature) -> Self:
        """The file of a fitted run."""
        chances = facts.choice.chances if facts.choice else {}
        return cls(
            version=VERSION,
            run=run,
            **{name: getattr(facts, name) for name in _OF_FACTS},
            agents=[{**row.as_json, "chance": chances.get(row.agent)} for row in rows],
            signature=signature.text,
            digest=signature.digest,
        )


def write_scores(path: Path, scores: Scores) -> None:
    """A line for each agent, a column for each item; empty is unseen."""
    at, value, _ = scores.cells
    order = at.by_agent
    item, fields = at.item[order].tolist(), _fields(value[order])
    ends = np.cumsum(np.bincount(at.agent, minlength=at.n_agents)).tolist()
    with _fresh_csv(path) as file:
        csv.writer(file).writerow(["agent", *scores.item_ids])
        for agent, start, end in zip(scores.agent_ids, [0, *ends], ends, strict=False):
            row = [""] * at.n_items
            for j, text in zip(item[start:end], fields[start:end], strict=True):
                row[j] = text
            # numbers are never quoted, and joining them takes a fifth of what the csv module does
            name = io.StringIO(newline="")
            csv.writer(name).writerow([agent, None])
            file.write(name.getvalue().removesuffix("\r\n") + ",".join(row) + "\r\n")


def read_scores(path: Path, *, kind: ScoreKind, role: ScoreRole) -> Scores:
    """The scores; `weight` is 1 where seen, for the file holds no counts of trials. Raises: RunFolderError."""
    header, *rows = _read(path)
    if header[:1] != ["agent"]:
        raise damaged(path, f"the first column is {header[:1]}, not agent")
    values = [[_number(path, field) for field in row[1:]] for row in rows]
    value = np.array(values, dtype=np.float64).reshape(len(rows), len(header) - 1)
    return Scores.from_matrices(
        value=value,
        weight=np.where(np.isnan(value), 0.0, 1.0),
        role=role,
        kind=kind,
        agent_ids=tuple(row[0] for row in rows),
        item_ids=tuple(header[1:]),
    )


def write_ranking(path: Path, ranking: pd.DataFrame) -> None:
    """The columns of a ranking with those of the standings that are there; None and NaN are empty.

    Raises: RunFolderError where one is missing.
    """
    _write_frame(path, ranking, ranking_columns(_standings(ranking.columns)))


def read_ranking(path: Path) -> tuple[RankingRow, ...]:
    """The ranking, best first. Raises: RunFolderError."""
    header, lines = _table(path, lambda header: ranking_columns(_standings(header)))
    return tuple(_ranked(line, _standings(header)) for line in lines)


def ranking_rows(ranking: pd.DataFrame) -> tuple[RankingRow, ...]:
    """A table with the columns of `RankingRow` as lines; NaN becomes None."""
    columns = [[_field(one) for one in ranking[column.name].tolist()] for column in columns_of(RankingRow)]
    return tuple(RankingRow(*row) for row in zip(*columns, strict=True))


def write_items(path: Path, items: pd.DataFrame) -> None:
    """The columns of `ItemRow`; None and NaN are empty. Raises: RunFolderError where one is missing."""
    _write_frame(path, items, columns_of(ItemRow))


def read_items(path: Path) -> tuple[ItemRow, ...]:
    """The items, in the pool's order. Raises: RunFolderError."""
    return tuple(ItemRow(**line) for line in _table(path, lambda _: columns_of(ItemRow))[1])


def write_quality(path: Path, rows: Sequence[QualityRow]) -> None:
    """A line an agent."""
    _write(path, columns_of(QualityRow), ([*fields_of(row).values()] for row in rows))


def write_curl(path: Path, curves: Sequence[CurlCurve]) -> None:
    """A line for each point of each link's curve."""
    rows = (
        [curve.link, curve.sd, *point]
        for curve in curves
        for point in zip(curve.x.tolist(), curve.share.tolist(), curve.error.tolist(), strict=True)
    )
    _write(path, CURL, rows)


def read_curl(path: Path) -> tuple[CurlCurve, ...]:
    """The curves, link by link. Raises: RunFolderError."""
    points: dict[str, list[list[float]]] = {}
    for line in _table(path, lambda _: CURL)[1]:
        link, *numbers = line.values()
        points.setdefault(link, []).append([math.nan if number is None else number for number in numbers])
    curves = []
    for link, table in points.items():
        sd, x, share, error = np.array(table, dtype=np.float64).T.copy()
        curves.append(CurlCurve(link, x, share, error, float(sd[0])))
    return tuple(curves)


def _standings(header: Iterable[str]) -> tuple[StandingName, ...]:
    there = set(header)
    return tuple(name for name in STANDINGS if f"{name}_ability" in there)


def _ranked(line: Mapping[str, Any], standings: Sequence[StandingName]) -> RankingRow:
    plain = {column.name: line[column.name] for column in columns_of(RankingRow)}
    beside = {
        name: plain | {column: line[f"{name}_{column}"] for column in STANDING}
        for name in standings
        if line[f"{name}_place_low"] is not None
    }
    return RankingRow(**plain, standings={name: RankingRow(**values) for name, values in beside.items()})


def _write_frame(path: Path, frame: pd.DataFrame, columns: Sequence[TableColumn]) -> None:
    names = [column.name for column in columns]
    if lacking := [name for name in names if name not in frame.columns]:
        raise RunFolderError(
            f"The table for {path.name} has no column {', no '.join(lacking)}; it has {', '.join(frame.columns)}. "
            f"Give it {', '.join(names)}.",
            slug="run-columns",
        )
    _write(path, columns, frame[names].astype(object).itertuples(index=False))


def _write(path: Path, columns: Sequence[TableColumn], rows: Iterable[Iterable[Field]]) -> None:
    with _fresh_csv(path) as file:
        writer = csv.writer(file)
        writer.writerow(column.name for column in columns)
        writer.writerows([_field(value) for value in row] for row in rows)


def _table(
    path: Path, wanted: Callable[[Sequence[str]], Sequence[TableColumn]]
) -> tuple[list[str], list[dict[str, Any]]]:
    """The header, and each line by column. wanted: the columns there have to be under such a header."""
    header, *rows = _read(path)
    columns = wanted(header)
    if header != [column.name for column in columns]:
        raise damaged(path, f"the columns are {', '.join(header)}, not {', '.join(column.name for column in columns)}")
    return header, [
        {column.name: _parsed(path, column, field) for column, field in zip(columns, row, strict=True)} for row in rows
    ]


def _parsed(path: Path, column: TableColumn, field: str) -> Field:
    if column.kind == "text":
        return None if column.null and not field else field
    if column.kind != "whole":
        value = _number(path, field)
        return None if math.isnan(value) else value
    if column.null and not field:
        return None
    try:
        return int(field)
    except ValueError as error:
        raise damaged(path, f"{field!r} stands where a whole number belongs") from error


def _number(path: Path, field: str) -> float:
    try:
        return float(field) if field else math.nan
    except ValueError as error:
        raise damaged(path, f"{field!r} stands where a number or nothing belongs") from error


@contextmanager
def _fresh_csv(path: Path) -> Iterator[TextIO]:
    # RFC 4180's line ends: with "\n" the csv module would leave a carriage return inside an id unquoted.
    with replacing(path) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        yield file


def _fields(values: Floats) -> list[str]:
    """Each number as Python writes it, written once for all cells that hold it."""
    bits, at = np.unique(values.view(np.int64), return_inverse=True)
    fields: list[str] = np.array([repr(value) for value in bits.view(np.float64).tolist()], dtype=object)[at].tolist()
    return fields


def _field(value: Field) -> Field:
    return None if isinstance(value, float) and math.isnan(value) else value


def _read(path: Path) -> list[list[str]]:
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path).decode("utf-8-sig"), newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise damaged(path, f"it is no CSV in UTF-8 ({error})") from error
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise damaged(path, "its lines are not all as long as its header")
    return rows
