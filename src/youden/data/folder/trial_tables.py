"""`plan.parquet` and `verdicts.parquet`: trials as tables that a person can query, whole or a block of rows at a time; and what
is made of them of two agents: `rates.parquet` on each item, `pairs.parquet` over all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import count, takewhile
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import JsonValue, create_model

from youden.data.atomic import replacing
from youden.data.folder.parquet_tables import (
    ParquetTable,
    TableMetadata,
    encoded,
    read_table,
    read_table_metadata,
    with_table_metadata,
    write_table,
)
from youden.data.folder.run_files import StrictFile, damaged, read_bytes
from youden.data.folder.table_columns import ANSWERS, PAIRS, RATES, REPEATS, TRIALS, VOTE, vote_column
from youden.errors import RunFolderError
from youden.run_keys import SplitRule
from youden.types import Finding, Plan, Rounds, Trials, Verdicts
from youden.types.cells import Pairs
from youden.types.columns import TableColumn
from youden.types.planning import IndependentRule, Split
from youden.types.pool import Bools, Positions
from youden.types.results import Rates

ROWS_PER_GROUP = 1 << 20
"""Maximum number of trials in a row group of a plan or of verdicts."""

_MEASURES = ANSWERS[3:]
"""What not every judge gives."""
_COLUMNS = {column.name: column for column in (*TRIALS, *REPEATS, *ANSWERS)}


class _Split(StrictFile):
    rule: SplitRule
    fraction: float
    seed: int
    train: str
    holdout: str

    @classmethod
    def from_split(cls, split: Split) -> _Split:
        return cls(
            rule=split.rule,
            fraction=split.fraction,
            seed=split.seed,
            train=_packed(split.train),
            holdout=_packed(split.holdout),
        )

    def read(self, path: Path, shape: tuple[int, int]) -> Split:
        """Unpack the split. Raises: RunFolderError if its size does not fit `shape` (agents, items)."""
        train, holdout = (_unpacked(path, packed, shape) for packed in (self.train, self.holdout))
        return Split(train, holdout, rule=self.rule, fraction=self.fraction, seed=self.seed)


class _Turn(StrictFile):
    start: int
    agents: tuple[int, ...]


class _Rounds(StrictFile):
    n_paired: int | None
    turns: tuple[_Turn, ...]


class _PlanMetadata(TableMetadata):
    noun: Literal["plan"] = "plan"
    options: Mapping[str, JsonValue]
    rounds: _Rounds | None
    agents: tuple[str, ...]
    items: tuple[str, ...]
    split: _Split
    digest: str


_IN_OTHER_WORDS = ("trials", "agent_ids", "item_ids", "source")
_AS_IT_IS: dict[str, Any] = {
    name: (hint, ...)
    for name, hint in get_type_hints(Plan).items()
    if name in Plan.__dataclass_fields__ and name not in (*_IN_OTHER_WORDS, *_PlanMetadata.model_fields)
}
PlanMetadata = create_model("PlanMetadata", __base__=_PlanMetadata, **_AS_IT_IS)
"""All of a plan but its trials."""


class VerdictsMetadata(TableMetadata):
    noun: Literal["verdicts"] = "verdicts"
    plan_digest: str
    judge: Mapping[str, JsonValue]
    models: tuple[str, ...]
    warnings: tuple[Finding, ...]
    measured: tuple[str, ...]
    usd_tried: float | None


def write_plan(path: Path, plan: Plan) -> None:
    """A row a trial; everything else of the plan in the metadata."""
    rounds = plan.rounds
    said = PlanMetadata(
        **{name: getattr(plan, name) for name in _AS_IT_IS},
        options=dict(plan.options),
        rounds=None if rounds is None else _Rounds.model_validate(rounds.said, strict=False),
        agents=plan.agent_ids,
        items=plan.item_ids,
        split=_Split.from_split(plan.split),
        digest=plan.digest,
    )
    table = encoded(_asked(plan.trials.columns()), plan.trials.columns(), _names(plan))
    write_table(path, table, said, group_size=ROWS_PER_GROUP)


def read_plan(path: Path) -> Plan:
    """The plan as it was written. Raises: RunFolderError."""
    table = read_table(path, PlanMetadata)
    said = table.said
    return _plan(path, said, Trials(**table.read(_asked(table.names), {"agents": said.agents, "items": said.items})))


def _asked(names: Container[str]) -> Sequence[TableColumn]:
    """The columns of trials: of repeats where they are among `names`."""
    return (*TRIALS, *(column for column in REPEATS if column.name in names))


class PlanAlone(NamedTuple):
    """A plan without its trials, and the digest that it has with them."""

    plan: Plan
    digest: str


def read_plan_alone(path: Path) -> PlanAlone:
    """The plan without its trials. Raises: RunFolderError."""
    said = read_table_metadata(path, PlanMetadata)
    return PlanAlone(_plan(path, said, Trials.concat([])), said.digest)


def _plan(path: Path, said: _PlanMetadata, trials: Trials) -> Plan:
    shape, rounds = (len(said.agents), len(said.items)), said.rounds
    return Plan(
        trials=trials,
        split=said.split.read(path, shape),
        rounds=None
        if rounds is None
        else Rounds.from_said(
            rounds.n_paired, [(turn.start, turn.agents) for turn in rounds.turns], n_agents=len(said.agents)
        ),
        agent_ids=said.agents,
        item_ids=said.items,
        options=said.options,
        **{name: getattr(said, name) for name in _AS_IT_IS},
    )


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """The plan's columns, then what became of each trial."""
    plan = verdicts.plan
    answers = {column.name: getattr(verdicts, column.name) for column in ANSWERS} | {"missing": verdicts.missing - 1}
    said = VerdictsMetadata(
        plan_digest=plan.digest,
        judge=dict(verdicts.judge),
        models=verdicts.models,
        warnings=verdicts.warnings,
        measured=tuple(column.name for column in _MEASURES if answers[column.name] is not None),
        usd_tried=None if isnan(verdicts.usd_tried) else verdicts.usd_tried,
    )
    names = _names(plan) | {"models": verdicts.models}
    votes = {} if verdicts.votes is None else dict(zip(map(vote_column, count(1)), verdicts.votes, strict=False))
    told = plan.trials.columns() | answers | {column.name: vote for column, vote in votes.items()}
    table = encoded((*_asked(plan.trials.columns()), *ANSWERS, *votes), told, names)
    write_table(path, table, said, group_size=ROWS_PER_GROUP)


def read_verdicts(path: Path, plan: Plan) -> Verdicts:
    """The verdicts on `plan`. Raises: RunFolderError, also where the file answers another plan."""
    table = read_verdict_table(path, of=plan.digest)
    said = table.said
    there = [column for column in ANSWERS if column not in _MEASURES or column.name in said.measured]
    answers = table.read(there, {"models": said.models})
    jury = [*takewhile(lambda column: column.name in table.names, map(vote_column, count(1)))]
    return Verdicts(
        plan=plan,
        **answers | {"missing": answers["missing"] + 1},
        judge=said.judge,
        models=said.models,
        warnings=said.warnings,
        usd_tried=nan if said.usd_tried is None else said.usd_tried,
        votes=np.stack([*table.read(jury, {}).values()]) if jury else None,
    )


def read_verdict_table(path: Path, *, of: str) -> ParquetTable[VerdictsMetadata]:
    """The verdicts on the plan with the digest `of`, no row of which is read yet. Raises: RunFolderError, as `read_verdicts`."""
    table = read_table(path, VerdictsMetadata)
    if table.said.plan_digest != of:
        raise RunFolderError(
            f"{path} answers another plan, {table.said.plan_digest[:12]}, than plan.parquet holds, {of[:12]}. Judge this plan "
            "with `youden judge CONFIG`; the store keeps what is paid for.",
            slug="run-other-plan",
        )
    return table


def read_verdicts_metadata(path: Path) -> VerdictsMetadata:
    """What the verdicts say beside their rows. Raises: RunFolderError."""
    return read_table_metadata(path, VerdictsMetadata)


def _names(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {"agents": plan.agent_ids, "items": plan.item_ids}


def _packed(cells: Bools) -> str:
    return base64.b64encode(np.packbits(cells).tobytes()).decode()


def _unpacked(path: Path, packed: str, shape: tuple[int, int]) -> Bools:
    try:
        bits = np.frombuffer(base64.b64decode(packed, validate=True), dtype=np.uint8)
        return np.unpackbits(bits, count=shape[0] * shape[1]).astype(np.bool_).reshape(shape)
    except ValueError as error:
        raise damaged(path, f"the split is not one bit a cell ({error})") from error


class TrialBlock(dict[str, NDArray[Any]]):
    """Columns of verdicts by name, read when first asked for, as `Verdicts` and `Trials` have them.

    start: the first row's position in the run; n_rows: how many there are. Raises: RunFolderError where a column does not fit.
    """

    def __init__(self, table: ParquetTable[VerdictsMetadata], plan: Plan, start: int) -> None:
        super().__init__()
        self._table, self._plan, self.start = table, plan, start
        self.n_rows = len(table)

    def __contains__(self, name: object) -> bool:
        """Whether the table has the column, read or not."""
        return super().__contains__(name) or name in self._table.names

    def again(self) -> TrialBlock:
        """The same rows, with nothing read yet: what is read of them goes with them."""
        return TrialBlock(self._table, self._plan, self.start)

    def keys_of(self, rows: Positions) -> list[bytes]:
        """The keys of some, by their place in the block."""
        found: list[bytes] = self._table.ascii("key", rows).tolist()
        return found

    def __missing__(self, name: str) -> NDArray[Any]:
        self[name] = self._read(name)
        return self[name]

    def _read(self, name: str) -> NDArray[Any]:
        column = _COLUMNS.get(name) or vote_column(int(name.removeprefix(VOTE)))
        (found,) = self._table.read([column], _names(self._plan)).values()
        return found + 1 if name == "missing" else found


def verdict_blocks(table: ParquetTable[VerdictsMetadata], plan: Plan) -> Sequence[TrialBlock]:
    """The verdicts of a table in the order of their rows; nothing of them is read yet.

    plan: the run's; its trials are not looked at. Raises: RunFolderError.
    """
    found: list[TrialBlock] = []
    for block in table.blocks():
        found.append(TrialBlock(block, plan, found[-1].start + found[-1].n_rows if found else 0))
    return found


class RatesMetadata(TableMetadata):
    noun: Literal["rates"] = "rates"
    independent: IndependentRule
    agents: tuple[str, ...]
    items: tuple[str, ...]
    split: _Split


def write_rates(path: Path, blocks: Iterable[tuple[int, Rates]], of: Plan | Rates) -> None:
    """Write one row per ordered pair and item, from chunks of items.

    blocks: each chunk with its first item; the items inside a chunk are numbered from 0. of: has the agents, items and split of
    the rates. `detail` stays in the verdicts.
    """
    writer, agents, items = None, of.agent_ids, of.item_ids
    with replacing(path) as fresh:
        try:
            for start, rates in blocks:
                order = _order(rates)
                values = {column.name: getattr(rates, column.name)[order] for column in RATES}
                table = encoded(RATES, values | {"item": values["item"] + start}, {"agents": agents, "items": items})
                if writer is None:
                    split = _Split.from_split(of.split)
                    said = RatesMetadata(independent=of.independent, agents=agents, items=items, split=split)
                    writer = pq.ParquetWriter(fresh, with_table_metadata(table.schema, said), compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _order(rates: Rates) -> Positions | slice:
    """Rows by item, first and second, as `Verdicts.rates` sorts them: looking costs a tenth of sorting."""
    row = np.ravel_multi_index((rates.item, rates.first, rates.second), (rates.n_items, rates.n_agents, rates.n_agents))
    return slice(None) if (row[1:] >= row[:-1]).all() else np.argsort(row, kind="stable")


def read_rates(path: Path) -> Rates:
    """Read the rates; `detail` is None: use the verdicts for independent trials by their other item. Raises: RunFolderError."""
    table = read_table(path, RatesMetadata)
    said = table.said
    shape = len(said.agents), len(said.items)
    return Rates(
        **table.read(RATES, {"agents": said.agents, "items": said.items}),
        split=said.split.read(path, shape),
        independent=said.independent,
        agent_ids=said.agents,
        item_ids=said.items,
        detail=None,
    )


_OF_PAIRS = PAIRS[2:]


class PairsMetadata(TableMetadata):
    """ability: of the additive fit, by agent; ranking_digest: sha256 (hex) of the ranking.csv that the same fit wrote."""

    noun: Literal["pairs"] = "pairs"
    agents: tuple[str, ...]
    ability: tuple[float | None, ...]
    partners_seen: float | None
    own_rates: bool
    ranking_digest: str


def write_pairs(path: Path, pairs: Pairs, *, agents: tuple[str, ...], ranking_digest: str) -> None:
    """A row an ordered pair of agents; `above` is null where two are not compared."""
    first, second = np.nonzero(~np.eye(len(agents), dtype=np.bool_))
    said = PairsMetadata(
        agents=agents,
        ability=tuple(None if np.isnan(value) else value for value in pairs.ability.tolist()),
        partners_seen=pairs.partners_seen,
        own_rates=pairs.own_rates,
        ranking_digest=ranking_digest,
    )
    measured = {column.name: getattr(pairs, column.name)[first, second] for column in _OF_PAIRS}
    write_table(path, encoded(PAIRS, {"first": first, "second": second} | measured, {"agents": agents}), said)


def read_pairs(path: Path, *, ranking: Path) -> Pairs:
    """The pairs of the fit that wrote this ranking.csv. Raises: RunFolderError; [pairs-stale] for those of another fit."""
    table = read_table(path, PairsMetadata)
    said, K = table.said, len(table.said.agents)
    if said.ranking_digest != hashlib.sha256(read_bytes(ranking)).hexdigest():
        raise RunFolderError(
            f"{path} belongs to another ranking than ranking.csv. Fit the run again: youden fit {path.parent}",
            slug="pairs-stale",
        )
    if len(said.ability) != K or len(table) != K * (K - 1):
        raise damaged(path, f"it holds {len(table)} pairs and {len(said.ability)} abilities of {K} agents")
    columns = table.read(PAIRS, {"agents": said.agents})
    first, second = columns.pop("first"), columns.pop("second")
    squares = {name: np.full((K, K), np.nan) for name in columns}
    for name, column in columns.items():
        squares[name][first, second] = column
    return Pairs(
        **squares | {"n": np.nan_to_num(squares["n"])},
        ability=np.array([np.nan if value is None else value for value in said.ability]),
        partners_seen=said.partners_seen,
        own_rates=said.own_rates,
    )
