"""Test the package as it is used in a notebook."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import youden
from judged import dense_plan, judge_config
from narrowing import untyped
from small_pools import make_pool
from wire_server import Reply, in_a_thread, well_behaved
from youden.errors import ConfigError, JudgeError, PoolError, TooManyMissingError
from youden.inspect import rank_logs
from youden.judging.store.answers import open_store


class RecordedProgress:
    """Progress display that records its calls with their context and thread."""

    def __init__(self) -> None:
        self.n_done, self.threads, self.contexts = 0, set[str](), set[str]()

    def start(self, total: int, *, what: str) -> None: ...

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, reason: str = "") -> None:
        self.n_done += n
        self.threads.add(threading.current_thread().name)
        self.contexts.add(REQUEST_ID.get())

    def throttled(self) -> None: ...

    def stop(self) -> None: ...


REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")


async def test_judge_works_inside_a_running_event_loop(tmp_path: Path) -> None:
    plan, progress = dense_plan(make_pool(3, 4)), RecordedProgress()
    REQUEST_ID.set("cell 7")
    with in_a_thread() as server:
        verdicts = youden.judge(
            plan, judge=judge_config(server.url, price=0, api_key_env=None), store=tmp_path / "v.db", progress=progress
        )
        assert server.n_requests == len(plan)
    assert verdicts.answered.all()
    assert (progress.n_done, progress.contexts) == (len(plan), {"cell 7"})
    assert threading.current_thread().name not in progress.threads
    awaited = await youden.judge_async(
        plan, judge=judge_config(server.url, price=0, api_key_env=None), store=tmp_path / "v.db"
    )
    assert awaited.answer.tolist() == verdicts.answer.tolist()


async def test_an_error_in_the_worker_thread_is_raised_by_judge(tmp_path: Path) -> None:
    with in_a_thread(lambda _n, _body: Reply(status=401)) as server, pytest.raises(JudgeError, match="401"):
        youden.judge(
            dense_plan(make_pool(3, 4)),
            judge=judge_config(server.url, price=0, api_key_env=None),
            store=tmp_path / "v.db",
        )


JUDGE_IN_A_LOOP = """
import asyncio, signal, sys
import youden
from judged import dense_plan, judge_config
from small_pools import make_pool
from wire_server import Reply, in_a_thread, well_behaved

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

async def cell():
    youden.judge(dense_plan(make_pool(6, 12)), judge=judge_config(sys.argv[1], price=0, api_key_env=None), store=sys.argv[2])
    print("not stopped")

asyncio.run(cell())
"""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_stops_judge_in_a_running_event_loop_and_answers_are_stored(
    stop: signal.Signals, tmp_path: Path
) -> None:
    def answer(n: int, body: Mapping[str, Any]) -> Reply:
        if n == 40:
            process.send_signal(stop)
        return replace(well_behaved(n, body), delay=0.02)

    with in_a_thread(answer) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", JUDGE_IN_A_LOOP, server.url, str(tmp_path / "v.db")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
        out, err = process.communicate(timeout=60)
        n_requests = server.n_requests
    assert (process.returncode, out) == (-stop, "")
    assert stop != signal.SIGINT or err.splitlines()[-1].startswith("KeyboardInterrupt")
    with open_store(tmp_path / "v.db") as store:
        assert 40 <= len(store) == n_requests < 6 * 5 * 12 * 2


async def test_rank_logs_works_inside_a_running_event_loop() -> None:
    with pytest.raises(ConfigError, match="inspect-location"):
        rank_logs("nowhere")


def test_pool_and_plan_have_a_one_line_repr() -> None:
    pool = make_pool(3, 10)
    assert repr(pool) == f"Pool({pool.name!r}: 3 agents × 10 items, 0 missing)"
    assert repr(youden.make_plan(pool, design="dense", holdout=0, seed=7)).startswith("Plan(dense: ")


def test_a_data_frame_is_accepted_as_a_pool() -> None:
    rows = [(f"a{i}", j, f"text {i} {j}") for i in range(3) for j in range(4)]
    frame = pd.DataFrame(rows, columns=["agent", "item", "text"])
    frame.loc[5, "text"] = None
    pool = youden.read_pool(frame)
    assert (pool.n_agents, [item.id for item in pool.items], pool.n_empty) == (3, ["0", "1", "2", "3"], 1)
    with pytest.raises(PoolError, match=r"DataFrame: no column text.*\[pool-columns\]"):
        youden.read_pool(frame.rename(columns={"text": "answer"}))
    scores = frame.assign(item=0).drop(columns="text").rename(columns={"agent": "model"})
    with pytest.raises(PoolError, match=r"no column agent, text.*one column per agent\. \[pool-columns\]"):
        youden.read_pool(scores)
    with pytest.raises(PoolError, match=r"got ndarray\. To use arrays, pass `pandas\.DataFrame"):
        untyped(youden.read_pool)(frame.to_numpy())


def test_a_data_frame_with_one_column_per_agent_is_the_same_pool() -> None:
    rows = [(f"a{i}", f"q{j}", f"text {i} {j}", f"question {j}") for i in range(3) for j in range(4)]
    frame = pd.DataFrame(rows, columns=["agent", "item", "text", "prompt"])
    frame.loc[5, "text"] = None
    long = youden.read_pool(frame)
    pivoted = frame.pivot(index="item", columns="agent", values="text")
    with_prompts = pivoted.reset_index().assign(prompt=[f"question {j}" for j in range(4)])
    assert youden.read_pool(with_prompts).digest == long.digest
    for wide in (pivoted, pivoted.reset_index()):
        pool = youden.read_pool(wide)
        assert pool.texts.tolist() == long.texts.tolist()
        assert [item.id for item in pool.items] == [item.id for item in long.items]
    with pytest.raises(PoolError, match=r"row 13: the text is not a string: got 7"):
        youden.read_pool(with_prompts.assign(accuracy=7))


def same_words(one: str, other: str) -> float:
    words = set(one.split()), set(other.split())
    return len(words[0] & words[1]) / max(1, len(words[0] | words[1]))


def test_a_function_is_accepted_as_a_judge() -> None:
    pool = make_pool(4, 10)
    plan = youden.make_plan(pool, calls=200, independent="pooled:40")
    result = youden.judge(plan, judge=same_words)
    assert result.answered.all()
    assert result.judge["name"] == "same_words"
    assert repr(result).startswith(f"Verdicts({len(plan)} of {len(plan)} answered by same_words, ")
    assert len(youden.rank(result)) == 4
    with pytest.raises(TooManyMissingError, match=rf"None of the {len(plan)} trials was answered"):
        youden.judge(plan, judge=lambda a, b: None, max_missing=1.0)
    assert (youden.judge(plan, judge=lambda a, b: 0.5).hard_answer == 1).all()
    texts = iter(range(len(plan)))
    with pytest.raises(
        TooManyMissingError, match=r"returned None for .* no answers were stored\. \[too-many-missing\]"
    ):
        youden.judge(plan, judge=lambda a, b: None if next(texts) % 10 == 0 else True)


@pytest.mark.parametrize("cell", [None, float("nan")])
def test_an_empty_column_of_a_wide_data_frame_is_not_read_as_an_agent(cell: Any) -> None:
    frame = pd.DataFrame(
        {"item": ["i0", "i1"], "a0": ["one", "two"], "a1": ["three", None], "Unnamed: 3": [cell, cell]}
    )
    with pytest.raises(PoolError, match=r"'Unnamed: 3' .*its column is empty\. Remove the column.*\[pool-agent\]"):
        youden.read_pool(frame)


async def wait_for_same_words(one: str, other: str) -> float:
    await asyncio.sleep(0)
    return same_words(one, other)


def test_a_function_as_the_judge_may_call_an_async_function() -> None:
    plan = youden.make_plan(make_pool(4, 10), calls=200, independent="pooled:40")
    result = youden.judge(plan, judge=lambda a, b: asyncio.run(wait_for_same_words(a, b)))
    np.testing.assert_array_equal(result.answer, youden.judge(plan, judge=same_words).answer)


@pytest.mark.filterwarnings("error")
def test_an_async_function_as_the_judge_is_refused_with_the_remedy() -> None:
    plan = youden.make_plan(make_pool(4, 10), calls=200, independent="pooled:40")
    remedy = r"pass a function .* `lambda a, b: asyncio\.run\(wait_for_same_words\(a, b\)\)`\. \[judge-function\]"
    with pytest.raises(JudgeError, match=remedy):
        untyped(youden.judge)(plan, judge=wait_for_same_words)


def test_a_function_as_the_judge_reports_its_progress() -> None:
    plan = youden.make_plan(make_pool(4, 10), calls=200, independent="pooled:40")
    progress = RecordedProgress()
    youden.judge(plan, judge=lambda a, b: None if a == b else True, max_missing=1.0, progress=progress)
    assert progress.n_done == len(plan)


@pytest.mark.parametrize(
    "options", [{"store": "answers.db"}, {"log": "calls.jsonl"}, {"retry_failed": True}, {"mode": "batch"}]
)
def test_a_function_as_the_judge_refuses_options_of_calls(options: dict[str, Any]) -> None:
    plan = youden.make_plan(make_pool(4, 10), calls=200)
    with pytest.raises(ConfigError, match=rf"got {next(iter(options))}\. Remove this argument") as caught:
        youden.judge(plan, judge=same_words, **options)
    assert caught.value.slug == "judge-function-options"


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (
            lambda a, b: "yes",
            r"must return True, False, a number from 0 to 1, or None: got 'yes' for trial 0\. Return 1 for yes",
        ),
        (
            lambda a, b: 1 / 0,
            r"failed on trial 0: ZeroDivisionError: division by zero \(.*test_notebook\.py, line \d+\)",
        ),
        (lambda a: True, r"failed on trial 0: TypeError"),
    ],
)
def test_a_function_with_a_wrong_signature_is_a_clear_error(judge: object, said: str) -> None:
    pool = make_pool(3, 10)
    with pytest.raises(JudgeError, match=said):
        untyped(youden.judge)(dense_plan(pool), judge=judge)
    with pytest.raises(ConfigError, match=r"got 42\. Pass a judge's name.*\[judge-config\]"):
        untyped(youden.judge)(dense_plan(pool), judge=42)
