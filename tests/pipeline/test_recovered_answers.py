"""Test that a run continues with the answers in its folder if its store has lost them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from commands import Youden, wire_judge, write_config
from small_pools import make_pool
from wire_server import Reply, WireServer, draw, well_behaved
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool


@pytest.mark.slow
def test_a_run_whose_store_is_lost_keeps_its_answers_if_the_other_trials_fail_again(
    youden: Youden, tmp_path: Path, one_server: WireServer
) -> None:
    def refuse_some(n: int, body: Mapping[str, Any]) -> Reply:
        return Reply(None, refusal="no") if draw(body, 10) == 0 else well_behaved(n, body)

    one_server.behave, one_server.n_requests = refuse_some, 0
    write_pool(make_pool(5, 8), tmp_path / "pool")
    write_config(tmp_path / "r.yaml", pool="pool", calls=110, judge=wire_judge(one_server.url), max_missing=0.3)
    youden("judge", "r.yaml", "--store", "answers.db").well()
    folder = RunFolder(tmp_path / "runs/r")
    before = folder.read_verdicts(folder.read_plan())
    n_missing = len(before) - int(before.answered.sum())
    assert n_missing > 0

    (tmp_path / "answers.db").unlink()
    one_server.n_requests = 0
    youden("judge", "runs/r/config.yaml").well()
    after = folder.read_verdicts(folder.read_plan())
    assert one_server.n_requests == n_missing
    assert after.answer.tobytes() == before.answer.tobytes()
