"""What somebody meets who calls the package from a notebook."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import youden
from commands import Youden, write_config, write_pool
from judged import dense_plan
from pools import make_pool
from youden.errors import ConfigError, JudgeError, PoolError, TooManyMissingError
from youden.inspect import rank_logs


async def test_judge_inside_a_running_loop_names_the_call_that_works() -> None:
    pool = make_pool(3, 10)
    plan = dense_plan(pool)
    with pytest.raises(ConfigError, match=r"await youden\.judge_async\(…\).*\[loop-running\]"):
        youden.judge(plan)
    assert (await youden.judge_async(plan)).answered.all()


def test_judge_outside_a_loop_judges() -> None:
    pool = make_pool(3, 10)
    assert youden.judge(dense_plan(pool)).answered.all()


async def test_rank_logs_inside_a_running_loop_names_the_call_that_works() -> None:
    with pytest.raises(ConfigError, match=r"await youden\.inspect\.rank_logs_async\(…\).*\[loop-running\]"):
        rank_logs("nowhere")


def test_a_pool_and_a_plan_are_shown_in_a_line() -> None:
    pool = make_pool(3, 10)
    assert repr(pool) == f"Pool({pool.name!r}: 3 agents × 10 items, 0 missing)"
    assert repr(youden.make_plan(pool, design="dense", holdout=0, seed=7)).startswith("Plan(dense: ")


def test_a_data_frame_is_a_pool() -> None:
    rows = [(f"a{i}", j, f"text {i} {j}") for i in range(3) for j in range(4)]
    frame = pd.DataFrame(rows, columns=["agent", "item", "text"])
    frame.loc[5, "text"] = None
    pool = youden.read_pool(frame)
    assert (pool.n_agents, [item.id for item in pool.items], pool.n_missing) == (3, ["0", "1", "2", "3"], 1)
    with pytest.raises(PoolError, match=r"DataFrame: no column text.*\[pool-columns\]"):
        youden.read_pool(frame.rename(columns={"text": "answer"}))
    wide = frame.dropna().pivot(index="item", columns="agent", values="text").reset_index()
    with pytest.raises(PoolError, match=r"no column agent, text.*frame\.melt\(id_vars='item'"):
        youden.read_pool(wide)
    molten = wide.melt(id_vars="item", var_name="agent", value_name="text")
    assert youden.read_pool(molten).texts.tolist() == pool.texts.tolist()
    with pytest.raises(PoolError, match=r"ndarray arrived\. Of arrays one is made by `pandas\.DataFrame"):
        youden.read_pool(frame.to_numpy())


def same_words(one: str, other: str) -> float:
    words = set(one.split()), set(other.split())
    return len(words[0] & words[1]) / max(1, len(words[0] | words[1]))


def test_a_function_is_a_judge() -> None:
    pool = make_pool(4, 10)
    plan = youden.make_plan(pool, calls=200, n_independent=40)
    result = youden.judge(plan, judge=same_words)
    assert result.answered.all()
    assert result.judge["name"] == "same_words"
    assert repr(result).startswith(f"Verdicts({len(plan)} of {len(plan)} answered by same_words, ")
    assert len(youden.rank(result)) == 4
    with pytest.raises(TooManyMissingError, match=rf"None of the {len(plan)} trials was answered"):
        youden.judge(plan, judge=lambda one, other: None, max_missing=1.0)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (
            lambda one, other: "yes",
            r"said 'yes' to trial 0\. A function as a judge takes two responses and returns True",
        ),
        (
            lambda one, other: 1 / 0,
            r"failed on trial 0: ZeroDivisionError: division by zero \(.*test_notebook\.py, line \d+\)",
        ),
        (lambda one: True, r"failed on trial 0: TypeError"),
    ],
)
def test_a_function_that_is_no_judge_is_an_error_that_says_so(judge: object, said: str) -> None:
    pool = make_pool(3, 10)
    with pytest.raises(JudgeError, match=said):
        youden.judge(dense_plan(pool), judge=judge)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"got 42\. Pass a judge's name.*\[judge-config\]"):
        youden.judge(dense_plan(pool), judge=42)  # type: ignore[arg-type]


def test_runs_are_read_and_compared_in_python(youden: Youden, tmp_path: Path) -> None:
    from youden import compare, read_run

    write_pool(tmp_path / "mine.csv")
    for seed in (0, 1):
        write_config(tmp_path / f"r{seed}.yaml", pool="mine.csv", seed=seed)
        assert youden("run", f"r{seed}.yaml", "--quiet").code == 0
    run = read_run("runs/r0")
    assert run.ranking.agent.iloc[0] == "a4"
    assert (len(run.result), run.facts.target) == (len(run.plan), "items-like-these")
    assert repr(run).startswith("Run('r0': Plan(cyclic: ")
    study = compare("runs/r0", "runs/r1")
    assert study.runs == ("r0", "r1")
    assert study.words
