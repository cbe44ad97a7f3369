"""`pairs.parquet`: what a fit knows of every two agents, a row an ordered pair."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from youden.data.folder.run_files import damaged
from youden.data.folder.tables import Said, measured, named, read_table, write_table
from youden.nouns import Pairs
from youden.nouns.arrays import Floats


class PairsSaid(Said):
    """ability: of the additive fit, by agent; ranking_digest: sha256 (hex) of the ranking.csv that the same fit wrote."""

    noun: Literal["pairs"] = "pairs"
    agents: tuple[str, ...]
    ability: tuple[float | None, ...]
    partners_seen: float | None
    ranking_digest: str


def write_pairs(path: Path, pairs: Pairs, *, agents: tuple[str, ...], ranking_digest: str) -> None:
    """Columns first, second, agreement, mean, error, n, above (0 or 1, null where two are not compared)."""
    first, second = np.nonzero(~np.eye(len(agents), dtype=np.bool_))
    said = PairsSaid(
        agents=agents,
        ability=tuple(None if np.isnan(value) else value for value in pairs.ability.tolist()),
        partners_seen=pairs.partners_seen,
        ranking_digest=ranking_digest,
    )
    columns = {
        "first": named(first, agents),
        "second": named(second, agents),
        **{name: measured(getattr(pairs, name)[first, second]) for name in ("agreement", "mean", "error", "n")},
        "above": measured(pairs.above[first, second]).cast(pa.int8()),
    }
    write_table(path, columns, said)


class WrittenPairs(NamedTuple):
    """ranking_digest: as in `PairsSaid`."""

    pairs: Pairs
    ranking_digest: str


def read_pairs(path: Path) -> WrittenPairs:
    """The pairs, and which ranking they belong to. Raises: RunFolderError."""
    table = read_table(path, PairsSaid)
    said, K = table.said, len(table.said.agents)
    if len(said.ability) != K or len(table) != K * (K - 1):
        raise damaged(path, f"it holds {len(table)} pairs and {len(said.ability)} abilities of {K} agents")
    first, second = (table.positions(name, said.agents) for name in ("first", "second"))

    def square(name: str) -> Floats:
        value = np.full((K, K), np.nan)
        value[first, second] = table.floats(name)
        return value

    pairs = Pairs(
        agreement=square("agreement"),
        mean=square("mean"),
        error=square("error"),
        n=np.nan_to_num(square("n")),
        above=square("above"),
        ability=np.array([np.nan if value is None else value for value in said.ability]),
        partners_seen=said.partners_seen,
    )
    return WrittenPairs(pairs, said.ranking_digest)
