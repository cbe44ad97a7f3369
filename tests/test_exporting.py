"""What is exported opens elsewhere and says the same."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest

from commands import Youden, write_config
from pools import make_pool
from youden.data.exporting import pool_table, write_tables
from youden.data.pools.reader import read_pool
from youden.errors import ConfigError


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_exported_pool_is_the_same_pool(tmp_path: Path, ending: str) -> None:
    pool = make_pool(3, 4)
    (file,) = write_tables(tmp_path / f"p.{ending}", {"responses": pool_table(pool)})
    again = read_pool(file)
    assert again.digest == pool.digest
    assert [agent.group for agent in again.agents] == [agent.group for agent in pool.agents]


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        write_tables(tmp_path / "p.xlsx", {"responses": pool_table(make_pool(2, 2))})
    assert caught.value.slug == "export-format"


def test_a_runs_ranking_and_trials_open_in_duckdb_and_pandas(youden: Youden, field_notes: Path, tmp_path: Path) -> None:
    write_config(tmp_path / "c.yaml", pool=str(field_notes), calls=300, n_independent=30, out="run")
    assert youden("run", "c.yaml").code == 0
    assert youden("export", "run", "all.duckdb").code == 0
    with duckdb.connect(str(tmp_path / "all.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM trials WHERE arm = 'independent'").fetchone() == (30,)
        assert connection.execute("SELECT count(*) FROM ranking").fetchone() == (12,)
        (n_trials,) = connection.execute("SELECT count(*) FROM trials").fetchone() or (0,)
    ended = youden("export", "run", "all.csv")
    assert ended.out.split() == ["all-ranking.csv", "all-items.csv", "all-trials.csv"]
    assert len(pd.read_csv(tmp_path / "all-trials.csv")) == n_trials
    assert youden("export", "run", "all.parquet").code == 0
    assert set(pd.read_parquet(tmp_path / "all-trials.parquet")["arm"]) == {"paired", "independent"}
    assert youden("export", str(field_notes), "pool.jsonl").code == 0
    assert len(pd.read_json(tmp_path / "pool.jsonl", lines=True)) == 384


def test_a_folder_that_is_neither_is_an_error(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "void").mkdir()
    ended = youden("export", "void", "x.csv")
    assert ended.code == 2
    assert "[pool-not-found]" in ended.err
