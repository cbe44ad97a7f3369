"""Test the ranking of Inspect logs, given as files or from a real eval_set of its mock model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import youden
from small_pools import make_pool
from youden.data.importers.harness_logs import read_inspect
from youden.errors import ConfigError, ImportFormatError
from youden.inspect import rank_logs, rank_logs_async

TOOLS = Path(__file__).parents[1] / "tools"


class Log:
    """Log object with the location of its file, as EvalLog of Inspect."""

    def __init__(self, location: str) -> None:
        self.location = location


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Write a version 2 log for each agent of a pool, with its response as the answer of a scorer and 'Done.' as output."""
    pool, files = make_pool(4, 12), []
    for agent, row in zip(pool.agents, pool.texts, strict=True):
        samples = [
            {
                "id": item.id,
                "epoch": 1,
                "input": item.id,
                "output": {"choices": [{"message": {"role": "assistant", "content": "Done."}}]},
                "scores": {"includes": {"value": "C", "answer": "no"}, "keep_response": {"value": 1, "answer": text}},
            }
            for item, text in zip(pool.items, row, strict=True)
        ]
        output = {"version": 2, "status": "success", "eval": {"model": agent.id, "task": "t"}, "samples": samples}
        files.append(tmp_path / f"{agent.id}.json")
        files[-1].write_text(json.dumps(output), encoding="utf-8")
    return files


def test_the_response_is_that_of_the_scorer_or_else_the_output(logs: list[Path]) -> None:
    pool = read_inspect(logs, columns={}).pool
    np.testing.assert_array_equal(pool.texts, make_pool(4, 12).texts)
    data = json.loads(logs[0].read_text(encoding="utf-8"))
    for sample in data["samples"]:
        del sample["scores"]["keep_response"]
    logs[0].write_text(json.dumps(data), encoding="utf-8")
    assert set(read_inspect(logs, columns={}).pool.texts[0]) == {"Done."}


def test_logs_are_ranked_like_their_pool_in_every_form(logs: list[Path]) -> None:
    pool = read_inspect(logs, columns={}).pool
    plan = youden.make_plan(pool, seed=3)
    expected = youden.rank(youden.judge(plan))
    for beside in ("eval-set.json", "logs.json"):
        (logs[0].parent / beside).write_text("{}", encoding="utf-8")
    for given in (logs, [Log(str(file)) for file in logs], [Log(file.as_uri()) for file in logs], logs[0].parent):
        pd.testing.assert_frame_equal(rank_logs(given, seed=3), expected)


async def test_logs_are_ranked_inside_a_running_event_loop(logs: list[Path]) -> None:
    pd.testing.assert_frame_equal(await rank_logs_async(logs), rank_logs_elsewhere(logs))


def rank_logs_elsewhere(logs: list[Path]) -> pd.DataFrame:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(rank_logs, logs).result()


def test_a_missing_or_invalid_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[inspect-location\]"):
        rank_logs(Log("s3://bucket/log.eval"))
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ImportFormatError):
        rank_logs(tmp_path / "x.json")


@pytest.mark.slow
def test_a_real_eval_set_is_ranked_in_three_lines(tmp_path: Path) -> None:
    python = os.environ.get("YOUDEN_INSPECT_PYTHON")
    if not python:
        pytest.skip("YOUDEN_INSPECT_PYTHON names no interpreter with inspect-ai and youden")
    ended = subprocess.run(
        [python, TOOLS / "inspect_ranking.py", "logs"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    data = json.loads(ended.stdout.splitlines()[-1])
    assert data["success"] is True
    by_agent = data["abilities"]["logs"]
    order = [name.removeprefix("mockllm/") for name in sorted(by_agent, key=by_agent.get, reverse=True)]
    assert (set(order[:2]), order[2:]) == ({"faithful", "shorter"}, ["vague", "empty"])
    assert data["abilities"]["folder"] == data["abilities"]["awaited"] == by_agent
    pool = read_inspect([tmp_path / "logs"], columns={}).pool
    assert "Done." not in set(pool.texts.ravel())
    assert pool.texts.shape == (4, 13)
