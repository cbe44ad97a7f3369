"""`rates.parquet` and `pairs.parquet`: what is known of two agents, on each item and over all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq

from youden.data.atomic import replacing
from youden.data.folder.parquet_tables import Said, encoded, read_table, with_said, write_table
from youden.data.folder.run_files import damaged, read_bytes
from youden.data.folder.table_columns import PAIRS, RATES
from youden.errors import RunFolderError
from youden.nouns import IndependentRule, Pairs, Rates
from youden.nouns.pool import Positions


class RatesSaid(Said):
    noun: Literal["rates"] = "rates"
    independent: IndependentRule
    agents: tuple[str, ...]
    items: tuple[str, ...]


def write_rates(path: Path, rates: Rates) -> None:
    """A row an ordered pair on an item; `detail` stays in the verdicts."""
    write_rates_of_items(path, [(0, rates)], agents=rates.agent_ids, items=rates.item_ids)


def write_rates_of_items(
    path: Path, blocks: Iterable[tuple[int, Rates]], *, agents: tuple[str, ...], items: tuple[str, ...]
) -> None:
    """`write_rates` of blocks of items, each with the item that it begins at; its own items are numbered from 0."""
    writer = None
    with replacing(path) as fresh:
        try:
            for start, rates in blocks:
                values = {column.name: getattr(rates, column.name)[_order(rates)] for column in RATES}
                table = encoded(RATES, values | {"item": values["item"] + start}, {"agents": agents, "items": items})
                if writer is None:
                    said = RatesSaid(independent=rates.independent, agents=agents, items=items)
                    writer = pq.ParquetWriter(fresh, with_said(table.schema, said), compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _order(rates: Rates) -> Positions | slice:
    """Rows by item, first and second, as `tally` has them: looking costs a tenth of sorting."""
    row = np.ravel_multi_index((rates.item, rates.first, rates.second), (rates.n_items, rates.n_agents, rates.n_agents))
    return slice(None) if (row[1:] >= row[:-1]).all() else np.argsort(row, kind="stable")


def read_rates(path: Path) -> Rates:
    """The rates with `detail` None: tally the verdicts for the independent arm by other item. Raises: RunFolderError."""
    table = read_table(path, RatesSaid)
    said = table.said
    return Rates(
        **table.read(RATES, {"agents": said.agents, "items": said.items}),
        n_agents=len(said.agents),
        n_items=len(said.items),
        independent=said.independent,
        agent_ids=said.agents,
        item_ids=said.items,
        detail=None,
    )


_OF_PAIRS = PAIRS[2:]


class PairsSaid(Said):
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
    said = PairsSaid(
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
    table = read_table(path, PairsSaid)
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
