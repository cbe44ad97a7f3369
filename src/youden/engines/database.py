"""A database that reads a run's files in blocks of trials.

A DuckDB database for one fit: how much memory it takes, where it spills to, and what is said when it cannot go on.

A run's trials and answers as tables of positions in a database: read from Parquet once, asked many times.

The trials of a database in blocks of items: as much of a run as fits into memory, with all that its scores need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from youden.data.atomic import workplace
from youden.errors import ConfigError, RunFolderError
from youden.nouns import MISSING_REASONS, Plan, Rates, Split, Trials, Verdicts
from youden.nouns.pool import Bools, Floats, Ids, Positions
from youden.protocol.scores import tally

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"
"""What the database keeps in memory where nobody says otherwise; arrays of agents × items come on top."""
_SIZE = re.compile(r"\d+(\.\d+)?\s*(MB|GB)", re.IGNORECASE)


def installed() -> bool:
    """Whether the extra `duckdb` is there."""
    return find_spec("duckdb") is not None


def check_memory(memory: str) -> None:
    """Raises: ConfigError [engine-memory] unless it is a number and MB or GB."""
    if not _SIZE.fullmatch(memory.strip()):
        raise ConfigError(
            f"'{memory}' is no amount of memory. Write a number and MB or GB, such as 4GB.", slug="engine-memory"
        )


@contextmanager
def database(beside: Path, *, memory: str = MEMORY) -> Iterator[DuckDBPyConnection]:
    """An empty database in a folder of its own inside `beside`, taken away at the end; it spills into the same folder.

    Raises: ConfigError [engine-duckdb] without DuckDB, [engine-memory]; RunFolderError [engine-full] where disk or memory runs
    out; nothing of the run has changed then.
    """
    if not installed():
        raise ConfigError(
            "The engine duckdb needs DuckDB, which is not installed. Install `youden[duckdb]`, or say --engine arrays.",
            slug="engine-duckdb",
        )
    check_memory(memory)
    import duckdb

    try:
        with (
            workplace(beside) as place,
            duckdb.connect(str(place / "fit.duckdb")) as connection,
        ):
            connection.execute(f"SET memory_limit = '{memory.strip()}'")
            connection.execute("SET temp_directory = ?", [str(place / "spilled")])
            yield connection
    except (duckdb.OutOfMemoryException, duckdb.IOException, duckdb.TransactionException, OSError) as error:
        raise RunFolderError(
            f"DuckDB could not go on in {beside}: {error}. Make room on that disk, or raise --memory (now {memory}); "
            "the run is as it was.",
            slug="engine-full",
        ) from error


Columns = dict[str, NDArray[Any]]


def load_trials(database: DuckDBPyConnection, files: Sequence[Path], plan: Plan) -> None:
    """Make `paired` (item, first, second, slot, answer) and `apart` (item, first, second, other, answer, hard, probe), one row a
    trial of either arm: agents and items as positions, answer and hard null where missing; `follow_ups`, as `paired`, of what
    only links read; and the view `source` of the files.

    plan: the run's; its trials are not read. Raises: RunFolderError [run-file-damaged] for an agent or item it does not know.
    """
    from duckdb import ConversionException

    for name, ids in (("agent_id", plan.agent_ids), ("item_id", plan.item_ids)):
        database.execute(f"CREATE TYPE {name} AS ENUM ({', '.join(map(_quoted, ids))})")
    names = ", ".join(_quoted(str(file)) for file in files)
    database.execute(f"CREATE VIEW source AS SELECT * FROM read_parquet([{names}])")
    positions = """enum_code(item::item_id)::INTEGER AS item, enum_code(first::agent_id)::INTEGER AS first,
        enum_code(second::agent_id)::INTEGER AS second, CASE WHEN missing IS NULL THEN answer END AS answer"""
    try:
        for table, role in (("paired", "<>"), ("follow_ups", "=")):
            rows = f"source WHERE arm = 'paired' AND role {role} 'follow-up'"
            database.execute(f"CREATE TABLE {table} AS SELECT {positions}, slot FROM {rows}")
        database.execute(
            f"CREATE TABLE apart AS SELECT {positions}, enum_code(other_item::item_id)::INTEGER AS other, "
            "CASE WHEN missing IS NULL THEN hard END AS hard, role = 'probe' AS probe "
            "FROM source WHERE arm = 'independent'"
        )
    except ConversionException as error:
        raise RunFolderError(
            f"{files[0]} names an agent or item that the plan does not know ({error}). Judge this plan again with "
            "`youden judge CONFIG`; the store keeps what is paid for.",
            slug="run-file-damaged",
        ) from error


def columns(database: DuckDBPyConnection, sql: str) -> Columns:
    """All rows of a query, column by column; null is −1 of a whole number, NaN of another."""
    return {name: _filled(column) for name, column in database.execute(sql).fetchnumpy().items()}


def _filled(column: Any) -> NDArray[Any]:
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    return np.asarray(column.filled(np.nan if column.dtype.kind == "f" else -1))


def _quoted(text: str) -> str:
    """Any text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


CELLS_AT_ONCE, TRIALS_AT_ONCE = 500_000, 2_000_000
"""What a block of items holds at most, if it holds more than one: cells of agents × items, and trials."""
_NOT_ASKED = MISSING_REASONS.index("not_asked")


@dataclass(frozen=True, eq=False)
class Block:
    """Trials on the items from `start` up to, but not, `stop`, of a run with `plan`; items are numbered from 0.

    paired: columns item, first, second, answer (NaN is missing). apart: item, first, second, other (numbered as in the
    run) and answer, of a plan of twins; else empty. repeated: whether a paired trial may be another one's replicate.
    """

    start: int
    stop: int
    plan: Plan
    paired: Columns
    apart: Columns
    repeated: bool

    @property
    def items(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def n_items(self) -> int:
        return self.stop - self.start

    @property
    def split(self) -> Split:
        """The run's, of these items."""
        split = self.plan.split
        return replace(split, train=split.train[:, self.items], holdout=split.holdout[:, self.items])

    @cached_property
    def used(self) -> Bools | slice:
        """Which paired trials are answered: bool[T], or all of them."""
        unanswered = np.isnan(self.paired["answer"])
        return ~unanswered if unanswered.any() else slice(None)

    def cells(self, values: Floats | None = None) -> Floats:
        """Sums over answered paired trials by agent, on either side, and item: float[K, B]. values: float[T] of all paired trials
        in the block; None counts them."""
        size = self.plan.n_agents * self.n_items
        own = None if values is None else values[self.used]
        total = sum(np.bincount(cell[self.used], own, size) for cell in self._cell)
        return np.asarray(total, dtype=np.float64).reshape(self.plan.n_agents, self.n_items)

    @property
    def n_cells(self) -> int:
        """Cells that a paired trial touches, answered or not."""
        touched = np.zeros(self.plan.n_agents * self.n_items, dtype=np.bool_)
        for cell in self._cell:
            touched[cell] = True
        return int(touched.sum())

    @cached_property
    def _cell(self) -> tuple[Positions, Positions]:
        first, second = (self.paired[name] * np.int64(self.n_items) for name in ("first", "second"))
        return first + self.paired["item"], second + self.paired["item"]

    def rates(self, *, clean: bool = False) -> Rates:
        """As `tally` gives them, without `detail`: rates of its pairs, from the trials that may be learned from where `clean` is
        said. `train_scores` looks at the first and the second cell itself."""
        apart = self.apart if not clean else _clean(self.apart, self.plan.split, self.items)
        if not (self.repeated or len(apart["answer"])):
            return self._of_single_trials()
        trials = Trials.concat([_paired(self.paired), _independent(apart)])
        answer = np.append(self.paired["answer"], apart["answer"])
        ids = self.plan.item_ids[self.items]
        plan = replace(self.plan, trials=trials, n_items=self.n_items, item_ids=ids)
        missing = np.where(np.isnan(answer), _NOT_ASKED, 0).astype(np.int8)
        return replace(tally(Verdicts(plan, answer, answer, missing, {})), detail=None)

    def _of_single_trials(self) -> Rates:
        """Each paired trial is its pair's only one."""
        answer = self.paired["answer"]
        n = (~np.isnan(answer)).astype(np.int32)
        return Rates(
            item=self.paired["item"],
            first=self.paired["first"],
            second=self.paired["second"],
            tpr=answer,
            fpr=np.full(len(answer), np.nan),
            n_paired=n,
            n_independent=np.zeros(len(n), dtype=np.int32),
            n_missing=1 - n,
            n_agents=self.plan.n_agents,
            n_items=self.n_items,
            independent=self.plan.independent,
            agent_ids=self.plan.agent_ids,
            item_ids=self.plan.item_ids[self.items],
        )


def blocks(database: DuckDBPyConnection, plan: Plan) -> Iterator[Block]:
    """All trials of `load_trials`, block by block, in the order of items."""
    repeated = bool(columns(database, "SELECT max(replicate) > 0 AS more FROM source WHERE arm = 'paired'")["more"][0])
    twins = plan.independent == "twin"
    for start, stop in item_ranges(database, plan, "paired", *(["apart"] if twins else [])):
        within = f"WHERE item >= {start} AND item < {stop}"
        own_item = f"item - {start} AS item, first, second, answer"
        paired = columns(database, f"SELECT {own_item} FROM paired {within}")
        apart = columns(database, f"SELECT {own_item}, other FROM apart {within if twins else 'LIMIT 0'}")
        yield Block(start, stop, plan, paired, apart, repeated)


def item_ranges(database: DuckDBPyConnection, plan: Plan, *tables: str) -> Iterator[tuple[int, int]]:
    """Ranges of items as large as a block may be, by the trials in `tables`."""
    n = np.zeros(plan.n_items, dtype=np.int64)
    for table in tables:
        found = columns(database, f"SELECT item, count(*) AS n FROM {table} GROUP BY item")
        n[found["item"]] += found["n"]
    start, filled = 0, 0.0
    for item, more in enumerate(np.maximum(plan.n_agents / CELLS_AT_ONCE, n / TRIALS_AT_ONCE).tolist()):
        if filled and filled + more > 1:
            yield start, item
            start, filled = item, 0.0
        filled += more
    yield start, plan.n_items


def _paired(of: Columns) -> Trials:
    return Trials.paired(of["item"], of["first"], of["second"])


def _independent(of: Columns) -> Trials:
    """Which other item stands in a trial no longer matters once rates are of pairs."""
    return Trials.independent(of["item"], of["first"], of["second"], np.zeros_like(of["item"]))


def _clean(apart: Columns, split: Split, items: slice) -> Columns:
    kept = clean_independent(split, apart["first"], apart["item"] + items.start, apart["second"], apart["other"])
    return {name: column[kept] for name, column in apart.items()}


def clean_independent(split: Split, first: Ids, item: Ids, second: Ids, other: Ids) -> Bools:
    """Which independent trials a training score may read: bool[T]; under `own`, only the first text's cell matters."""
    held = split.holdout
    return np.asarray(~held[first, item] & ((split.rule == "own") | ~held[second, other]))
