"""Workers: any process that has a run's config and its store asks with the others, and nobody pays twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from commands import Youden, write_config
from pools import make_pool
from wire_server import WireServer, well_behaved
from youden.data.folder.run_config import load_run_config
from youden.data.pools.writer import write_pool
from youden.run.elsewhere.worker import work


@pytest.fixture
def here(tmp_path: Path, server: WireServer) -> Path:
    write_pool(make_pool(5, 8), tmp_path / "pool")
    judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "price": 1}
    write_config(
        tmp_path / "r.yaml",
        pool="pool",
        calls=110,
        n_independent=20,
        max_cost=1,
        judge={**judge, "concurrency": 4, "max_tokens": 1},
    )
    return tmp_path


def test_two_workers_share_a_plan_and_the_run_finds_every_answer(
    youden: Youden, here: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: replace(well_behaved(n, body), delay=0.01)
    config = load_run_config(here / "r.yaml")
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(work, [config, config]))
    assert [int(one.answered.sum()) for one in found] == [110, 110]
    assert server.n_requests == 110
    assert not (config.folder / "verdicts.parquet").exists()
    assert youden("judge", "r.yaml").code == 0
    assert server.n_requests == 110
    assert (config.folder / "verdicts.parquet").exists()


def test_a_judge_that_makes_no_calls_has_no_workers(here: Path) -> None:
    config = load_run_config(here / "r.yaml", {"judge": "lexical"})
    with pytest.raises(Exception, match="worker-offline"):
        work(config)
