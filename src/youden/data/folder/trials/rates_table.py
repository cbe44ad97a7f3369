"""`rates.parquet`: rates of ordered pairs on items as a table that a person can query, written whole or by blocks of items."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.atomic import replacing
from youden.data.folder.tables import Said, measured, named, plain, read_table, with_said
from youden.nouns import IndependentRule, Rates
from youden.nouns.arrays import Positions


class RatesSaid(Said):
    noun: Literal["rates"] = "rates"
    independent: IndependentRule
    agents: tuple[str, ...]
    items: tuple[str, ...]


def write_rates(path: Path, rates: Rates) -> None:
    """Columns item, first, second, tpr, fpr, n_paired, n_independent, n_missing; `detail` stays in the verdicts."""
    write_rates_of_items(path, [(0, rates)], agents=rates.agent_ids, items=rates.item_ids)


def write_rates_of_items(
    path: Path, blocks: Iterable[tuple[int, Rates]], *, agents: tuple[str, ...], items: tuple[str, ...]
) -> None:
    """`write_rates` of blocks of items, each with the item that it begins at; its own items are numbered from 0."""
    writer = None
    with replacing(path) as fresh:
        try:
            for start, rates in blocks:
                table = pa.table(_rates(rates, start, items))
                if writer is None:
                    said = RatesSaid(independent=rates.independent, agents=agents, items=items)
                    writer = pq.ParquetWriter(fresh, with_said(table.schema, said), compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _rates(rates: Rates, start: int, items: tuple[str, ...]) -> dict[str, pa.Array]:
    order = _order(rates)
    return {
        "item": named(rates.item[order] + start, items),
        "first": named(rates.first[order], rates.agent_ids),
        "second": named(rates.second[order], rates.agent_ids),
        "tpr": measured(rates.tpr[order]),
        "fpr": measured(rates.fpr[order]),
        "n_paired": plain(rates.n_paired[order]),
        "n_independent": plain(rates.n_independent[order]),
        "n_missing": plain(rates.n_missing[order]),
    }


def _order(rates: Rates) -> Positions | slice:
    """Rows by item, first and second, as `tally` has them: looking costs a tenth of sorting."""
    row = np.ravel_multi_index((rates.item, rates.first, rates.second), (rates.n_items, rates.n_agents, rates.n_agents))
    return slice(None) if (row[1:] >= row[:-1]).all() else np.argsort(row, kind="stable")


def read_rates(path: Path) -> Rates:
    """The rates with `detail` None: tally the verdicts for the independent arm by other item. Raises: RunFolderError."""
    table = read_table(path, RatesSaid)
    said = table.said
    return Rates(
        item=table.positions("item", said.items),
        first=table.positions("first", said.agents),
        second=table.positions("second", said.agents),
        tpr=table.floats("tpr"),
        fpr=table.floats("fpr"),
        n_paired=table.integers("n_paired"),
        n_independent=table.integers("n_independent"),
        n_missing=table.integers("n_missing"),
        n_agents=len(said.agents),
        n_items=len(said.items),
        independent=said.independent,
        agent_ids=said.agents,
        item_ids=said.items,
    )
