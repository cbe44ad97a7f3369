"""Write and read the rates and the pairs of a run as Parquet tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from youden.data.atomic import atomic_write
from youden.data.folder.parquet_tables import (
    ParquetTable,
    TableMetadata,
    encode_table,
    read_table,
    with_table_metadata,
    write_table,
)
from youden.data.folder.run_files import damaged_file_error, read_bytes
from youden.data.folder.table_columns import PAIRS, RATES
from youden.data.folder.trial_tables import SplitFields
from youden.errors import RunFolderError
from youden.text.printable import format_command
from youden.types import Plan
from youden.types.cells import Pairs
from youden.types.planning import IndependentRule
from youden.types.pool import Floats, Positions
from youden.types.results import Rates


class RatesMetadata(TableMetadata):
    """Metadata of rates.parquet."""

    type: Literal["rates"] = "rates"
    independent: IndependentRule
    agents: tuple[str, ...]
    items: tuple[str, ...]
    split: SplitFields


def write_rates(path: Path, chunks: Iterable[tuple[int, Rates]], template: Plan | Rates) -> None:
    """Write true- and false-positive rates to a Parquet file, with one row for each item and ordered pair of agents.

    The rates are written in chunks of consecutive items, so that only one chunk is in memory at a time. The rows of a chunk are
    sorted by item, first and second agent. A rate without an answered trial (NaN) becomes null. The field `detail` of the rates,
    with sums of the answers to independent trials, is not written.

    path : file to write; an existing one is replaced atomically, and a missing folder is created
    chunks : for each chunk, the position of its first item among all items, and the rates on its items. In each chunk, the
        items are numbered from 0. There is at least one chunk, and the chunks are in the order of the items.
    template : object with the agents, the items, the rule of independent trials, and the split (training and held-out cells) of
        the whole run, which are stored as metadata
    """
    ids_by_entity = {"agents": template.agent_ids, "items": template.item_ids}
    metadata = RatesMetadata(
        independent=template.independent,
        agents=template.agent_ids,
        items=template.item_ids,
        split=SplitFields.from_split(template.split),
    )
    writer = None
    with atomic_write(path) as tmp_path, ExitStack() as open_files:
        for first_item, rates in chunks:
            columns = _get_rate_columns(rates, first_item)
            table = encode_table(RATES, columns, ids_by_entity)
            if writer is None:  # a writer needs the schema, which is that of the first table
                schema = with_table_metadata(table.schema, metadata)
                writer = open_files.enter_context(pq.ParquetWriter(tmp_path, schema, compression="zstd"))
            writer.write_table(table)


def _get_rate_columns(rates: Rates, first_item: int) -> dict[str, NDArray[Any]]:
    """Return the columns of rates in the order of their rows, with `first_item` added to the positions of items."""
    order = _find_row_order(rates)
    values = {column.name: getattr(rates, column.name)[order] for column in RATES}
    values["item"] = values["item"] + first_item
    return values


def _find_row_order(rates: Rates) -> Positions | slice:
    """Return the positions that sort the rows by item, first and second agent; a slice if they are sorted."""
    shape = (rates.n_items, rates.n_agents, rates.n_agents)
    sort_key = np.ravel_multi_index((rates.item, rates.first, rates.second), shape)
    # rows are usually sorted already, and checking takes a tenth of the time of sorting
    is_sorted = (sort_key[1:] >= sort_key[:-1]).all()
    if is_sorted:
        return slice(None)
    return np.argsort(sort_key, kind="stable")


def read_rates(path: Path) -> Rates:
    """Read the true- and false-positive rates of a run, with one row for each item and ordered pair of agents.

    The field `detail` of the result is None, because the file does not contain its sums of answers.

    Raises: RunFolderError if the file is missing, damaged or of another version.
    """
    table = read_table(path, RatesMetadata)
    metadata = table.metadata
    shape = (len(metadata.agents), len(metadata.items))
    ids_by_entity = {"agents": metadata.agents, "items": metadata.items}
    columns = table.read(RATES, ids_by_entity)  # the columns have the names of fields of `Rates`
    return Rates(
        **columns,
        split=metadata.split.to_split(path, shape),
        independent=metadata.independent,
        agent_ids=metadata.agents,
        item_ids=metadata.items,
        detail=None,
    )


_PAIR_MEASURES = PAIRS[2:]
"""Columns of pairs.parquet other than the two agents."""


class PairsMetadata(TableMetadata):
    """Metadata of pairs.parquet.

    `ability` is the ability of each agent in the additive fit. `ranking_digest` is the SHA-256 (hex) of the ranking.csv
    of the same fit.
    """

    type: Literal["pairs"] = "pairs"
    agents: tuple[str, ...]
    ability: tuple[float | None, ...]
    partners_seen: float | None
    own_rates: bool
    ranking_digest: str


def write_pairs(path: Path, pairs: Pairs, *, agents: tuple[str, ...], ranking_digest: str) -> None:
    """Write pairs of agents to a Parquet file, one row per ordered pair of different agents; NaN becomes null.

    path : file to write; an existing one is replaced atomically, and a missing folder is created
    pairs : measures of all pairs, arrays (n_agents, n_agents), and the abilities. The abilities and the digest are stored as
        metadata.
    agents : ids of the agents, by position in the pairs
    ranking_digest : SHA-256 (hex) of the file ranking.csv of the same fit, with which `read_pairs` compares the ranking
    """
    first, second = np.nonzero(~np.eye(len(agents), dtype=np.bool_))
    abilities = [None if np.isnan(ability) else ability for ability in pairs.ability.tolist()]
    metadata = PairsMetadata(
        agents=agents,
        ability=tuple(abilities),
        partners_seen=pairs.partners_seen,
        own_rates=pairs.own_rates,
        ranking_digest=ranking_digest,
    )
    values = {"first": first, "second": second}
    for column in _PAIR_MEASURES:
        values[column.name] = getattr(pairs, column.name)[first, second]
    table = encode_table(PAIRS, values, {"agents": agents})
    write_table(path, table, metadata)


def read_pairs(path: Path, *, ranking: Path) -> Pairs:
    """Read the measures of pairs of agents that a fit wrote together with its ranking.

    path : file of the pairs
    ranking : file ranking.csv of the run

    Returns the measures of all pairs, and two facts about the run:

    - `partners_seen`: on an item, the mean fraction of the other agents with which an agent was compared
    - `own_rates`: whether each pair has its own false-positive rate

    Raises: RunFolderError [pairs-stale] if another fit wrote the ranking; the errors of `read_table` if a file cannot be read.
    """
    table = read_table(path, PairsMetadata)
    metadata = table.metadata
    ranking_digest = hashlib.sha256(read_bytes(ranking)).hexdigest()
    if metadata.ranking_digest != ranking_digest:
        command = format_command(["youden", "fit", str(path.parent)])
        raise RunFolderError(
            f"{path} belongs to another ranking than ranking.csv. Run `{command}` to fit the run again.",
            slug="pairs-stale",
        )

    n_pairs, n_abilities, n_agents = len(table), len(metadata.ability), len(metadata.agents)
    n_expected_pairs = n_agents * (n_agents - 1)
    if n_abilities != n_agents or n_pairs != n_expected_pairs:
        problem = f"it contains {n_pairs} pairs and {n_abilities} abilities for {n_agents} agents"
        raise damaged_file_error(path, problem)

    matrices = _read_pair_matrices(table)  # the measures have the names of fields of `Pairs`
    return Pairs(
        **matrices,
        ability=np.array(metadata.ability, dtype=np.float64),
        partners_seen=metadata.partners_seen,
        own_rates=metadata.own_rates,
    )


def _read_pair_matrices(table: ParquetTable[PairsMetadata]) -> dict[str, Floats]:
    """Read the measures of ordered pairs of agents from their table, and arrange each measure as a matrix.

    table : table with one row per ordered pair of agents, and its metadata, which contain the ids of the agents

    Returns the measures by name, arrays (n_agents, n_agents) with the first agent as the row. If a pair has no row in the
    table, its number of trials (`n`) is 0, and its other measures are NaN.
    """
    agents = table.metadata.agents
    columns = table.read(PAIRS, {"agents": agents})
    first = columns.pop("first")
    second = columns.pop("second")

    matrices = {}
    for name, column in columns.items():
        matrices[name] = np.full((len(agents), len(agents)), np.nan)
        matrices[name][first, second] = column
    matrices["n"] = np.nan_to_num(matrices["n"])
    return matrices
