"""The CSV files of a run's folder and `ranking.json`: numbers are not rounded, they read back to the last bit."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

import numpy as np
from pydantic import BaseModel, ConfigDict

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION, damaged, read_bytes
from youden.errors import RunFolderError
from youden.nouns import (
    CurlCurve,
    RankedBy,
    RunFacts,
    ScoreKind,
    ScoreRole,
    Scores,
    Signature,
    Standing,
    StandingName,
    Target,
)
from youden.nouns.pool import Floats

if TYPE_CHECKING:
    import pandas as pd

RANKING = (
    "agent",
    "group",
    "ability",
    "low",
    "high",
    "rank_low",
    "rank_high",
    "n_trials",
    "error",
    "place_low",
    "place_high",
)
TARGET = "target"
"""After those of `RANKING`: what intervals and places speak of, the same in every line. Files of some runs have none."""
STANDING = ("ability", "low", "high", "rank_low", "rank_high", "error", "place_low", "place_high")
STANDINGS: tuple[StandingName, ...] = ("robust", "family", "trusted")
"""Rankings beside the plain one: columns `robust_ability`, … after those of `RANKING`, where the run has them."""
ITEMS = ("item", "difficulty", "n_trials")
CURL = ("link", "sd", "x", "share", "error")

Field = str | int | float | None


@dataclass(frozen=True)
class RankingRow:
    """One line of `ranking.csv`. None: the ability or its interval cannot be given.

    rank_low, rank_high: places that hold for all agents at once; place_low, place_high: for this agent; error: of its distance
    from the average agent. standings: this agent in the rankings beside the plain one.
    """

    agent: str
    group: str | None
    ability: float | None
    low: float | None
    high: float | None
    rank_low: int
    rank_high: int
    n_trials: int
    error: float | None
    place_low: int
    place_high: int
    standings: Mapping[StandingName, Standing] = field(default_factory=dict)


@dataclass(frozen=True)
class ItemRow:
    """One line of `items.csv`. difficulty: None for an item never seen."""

    item: str
    difficulty: float | None
    n_trials: int


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
    return Scores(
        value=value,
        weight=np.where(np.isnan(value), 0.0, 1.0),
        role=role,
        kind=kind,
        agent_ids=tuple(row[0] for row in rows),
        item_ids=tuple(header[1:]),
    )


def write_ranking(path: Path, ranking: pd.DataFrame) -> None:
    """The columns of `RANKING`, in that order, then those that are there of `TARGET` and the standings; None and NaN are empty.

    Raises: RunFolderError where one is missing.
    """
    known = [f"{name}_{column}" for name in STANDINGS for column in STANDING]
    more = [name for name in (TARGET, *known) if name in ranking.columns]
    _write_frame(path, ranking, RANKING, kept=[*RANKING, *more])


def write_items(path: Path, items: pd.DataFrame) -> None:
    """The columns of `ITEMS` and whatever else there is; None and NaN are empty. Raises: RunFolderError where one is missing."""
    _write_frame(path, items, ITEMS, kept=list(items.columns))


def read_ranking(path: Path) -> tuple[RankingRow, ...]:
    """The ranking, best first. Raises: RunFolderError."""
    header, *rows = _read(path)
    there = [name for name in STANDINGS if f"{name}_ability" in header]
    beside = [f"{name}_{column}" for name in there for column in STANDING]
    if tuple(header) not in ((*RANKING, *beside), (*RANKING, TARGET, *beside)):
        raise damaged(path, f"the columns are {', '.join(header)}, not {', '.join(RANKING)}")
    return tuple(_ranked(path, dict(zip(header, row, strict=True))) for row in rows)


def ranking_rows(ranking: pd.DataFrame) -> tuple[RankingRow, ...]:
    """A table with the columns of `RANKING` as lines; NaN becomes None."""
    columns = [[_field(one) for one in ranking[name].tolist()] for name in RANKING]
    return tuple(RankingRow(*row) for row in zip(*columns, strict=True))


def read_items(path: Path) -> tuple[ItemRow, ...]:
    """The items, in the pool's order. Raises: RunFolderError."""
    header, *rows = _read(path)
    if lacking := [name for name in ITEMS if name not in header]:
        raise damaged(path, f"there is no column {', no '.join(lacking)}; it has {', '.join(header)}")
    lines = [dict(zip(header, row, strict=True)) for row in rows]
    return tuple(
        ItemRow(line["item"], _number_or_none(path, line["difficulty"]), _count(path, line["n_trials"]))
        for line in lines
    )


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
    header, *rows = _read(path)
    if tuple(header) != CURL:
        raise damaged(path, f"the columns are {', '.join(header)}, not {', '.join(CURL)}")
    points: dict[str, list[list[float]]] = {}
    for link, *numbers in rows:
        points.setdefault(link, []).append([_number(path, number) for number in numbers])
    curves = []
    for link, table in points.items():
        sd, x, share, error = np.array(table, dtype=np.float64).T.copy()
        curves.append(CurlCurve(link, x, share, error, float(sd[0])))
    return tuple(curves)


def _write_frame(path: Path, frame: pd.DataFrame, needed: Sequence[str], *, kept: Sequence[str]) -> None:
    lacking = [name for name in needed if name not in frame.columns]
    if lacking:
        raise RunFolderError(
            f"The table for {path.name} has no column {', no '.join(lacking)}; it has {', '.join(frame.columns)}. "
            f"Give it {', '.join(needed)}.",
            slug="run-columns",
        )
    _write(path, kept, frame[list(kept)].astype(object).itertuples(index=False))


def _ranked(path: Path, row: Mapping[str, str]) -> RankingRow:
    ability, low, high = (_number_or_none(path, row[name]) for name in ("ability", "low", "high"))
    rank_low, rank_high, n_trials = (_count(path, row[name]) for name in ("rank_low", "rank_high", "n_trials"))
    return RankingRow(
        row["agent"],
        row["group"] or None,
        ability,
        low,
        high,
        rank_low,
        rank_high,
        n_trials,
        error=_number_or_none(path, row["error"]),
        place_low=_count(path, row["place_low"]),
        place_high=_count(path, row["place_high"]),
        standings={name: _standing(path, row, name) for name in STANDINGS if row.get(f"{name}_place_low")},
    )


def _standing(path: Path, row: Mapping[str, str], name: str) -> Standing:
    ability, low, high, error = (
        _number_or_none(path, row[f"{name}_{column}"]) for column in ("ability", "low", "high", "error")
    )
    places = (_count(path, row[f"{name}_{column}"]) for column in ("rank_low", "rank_high", "place_low", "place_high"))
    rank_low, rank_high, place_low, place_high = places
    return Standing(ability, low, high, rank_low, rank_high, error, place_low, place_high)


def _number(path: Path, field: str) -> float:
    try:
        return float(field) if field else math.nan
    except ValueError as error:
        raise damaged(path, f"{field!r} stands where a number or nothing belongs") from error


def _number_or_none(path: Path, field: str) -> float | None:
    value = _number(path, field)
    return None if math.isnan(value) else value


def _count(path: Path, field: str) -> int:
    try:
        return int(field)
    except ValueError as error:
        raise damaged(path, f"{field!r} stands where a whole number belongs") from error


def _write(path: Path, header: Sequence[str], rows: Iterable[Iterable[Field]]) -> None:
    _write_fields(path, header, ([_field(value) for value in row] for row in rows))


def _write_fields(path: Path, header: Sequence[str], rows: Iterable[Sequence[Field]]) -> None:
    with _fresh_csv(path) as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


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


class RankedAgentLine(BaseModel):
    """One agent, as in `ranking.csv`; standings: in the rankings beside the plain one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    agent: str
    group: str | None
    ability: float | None
    low: float | None
    high: float | None
    rank_low: int
    rank_high: int
    n_trials: int
    error: float | None
    place_low: int
    place_high: int
    standings: dict[StandingName, Standing]


class RankingFile(BaseModel):
    """`ranking.json` as it stands in the folder. Agents are in the order of `ranking.csv`, by the ranking `ranked_by`.

    ranking, interval: estimator and method behind the numbers; level: of the intervals; target: what they speak of, and best: who
    is told apart from everybody, as in `fit.json`. signature: everything the numbers depend on; digest: of all of it.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int
    run: str
    ranked_by: RankedBy
    ranking: str
    interval: str
    level: float
    target: Target
    best: str | None
    told_apart: int
    agents: list[RankedAgentLine]
    signature: str
    digest: str

    @classmethod
    def of(cls, run: str, rows: Sequence[RankingRow], *, facts: RunFacts, signature: Signature) -> Self:
        """The file of a fitted run."""
        return cls(
            version=VERSION,
            run=run,
            ranked_by=facts.ranked_by,
            ranking=facts.ranking,
            interval=facts.interval,
            level=facts.level,
            target=facts.target,
            best=facts.best,
            told_apart=facts.told_apart,
            agents=[RankedAgentLine(**vars(row)) for row in rows],
            signature=signature.text,
            digest=signature.digest,
        )
