"""Replay: the same verdicts from the store alone, and an error where it holds none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judged import ENVIRONMENT, dense_plan, judge_config
from pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.errors import ConfigError, ReplayMissError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.store.answers import open_store
from youden.nouns import Plan, Verdicts

POOL = make_pool(4, 5)
PLAN = dense_plan(POOL)


def some_odd(n: int, body: Any) -> Reply:
    """Mostly good answers, with a refusal, a cut-off one, one that says nothing, and a rejected request among them."""
    odd = {
        3: Reply("", refusal="no"),
        7: Reply("Well, the", finish_reason="length"),
        11: Reply("Hm."),
        15: Reply(status=400),
    }
    return odd.get(n, Reply(same_item(body), model="m-dated"))


async def judged(tmp_path: Path, plan: Plan = PLAN) -> tuple[Verdicts, dict[str, Any]]:
    async with WireServer(some_odd) as server:
        config = judge_config(server.url)
        with open_store(tmp_path / "v.db") as store:
            verdicts = await judge_plan(plan, POOL, config=config, store=store, environment=ENVIRONMENT)
    return verdicts, {"backend": "wire", "model": "m", "base_url": server.url}


def same(left: Verdicts, right: Verdicts) -> None:
    for column in ("answer", "hard", "missing", "key"):
        np.testing.assert_array_equal(getattr(left, column), getattr(right, column), err_msg=column)
    assert served(left) == served(right)
    assert sorted(left.models) == sorted(right.models)
    assert (left.judge, left.warnings) == (right.judge, right.warnings)


def served(verdicts: Verdicts) -> list[str | None]:
    """The model that answered each trial, by name: models are numbered in the order in which they first answered."""
    return [None if number < 0 else verdicts.models[number] for number in verdicts.served]


@pytest.mark.parametrize("named", [True, False])
async def test_replay_equals_the_run_with_no_server_and_no_key(tmp_path: Path, named: bool) -> None:
    first, of = await judged(tmp_path)
    config = load_judge_config({"backend": "replay"} | ({"of": of} if named else {}))
    with open_store(tmp_path / "v.db", read_only=True) as store:
        again = await judge_plan(PLAN, POOL, config=config, store=store, environment={})
    same(first, again)
    assert again.total_usd == 0
    assert np.bincount(first.missing).tolist() == [len(PLAN) - 4, 1, 1, 1, 1]


async def test_a_miss_names_the_key_and_the_trial(tmp_path: Path) -> None:
    await judged(tmp_path)
    again = np.where(np.arange(len(PLAN)) == 17, 1, 0).astype(np.int32)
    other = replace(PLAN, trials=replace(PLAN.trials, replicate=again))
    with open_store(tmp_path / "v.db") as store, pytest.raises(ReplayMissError) as caught:
        await judge_plan(other, POOL, config=load_judge_config("replay"), store=store)
    assert "trial 17: agents 'a2' and 'a3', items 'i0' and 'i1', independent" in caught.value.message
    assert any(len(word) == 64 for word in caught.value.message.split())


async def test_another_model_prompt_or_parameter_is_a_miss(tmp_path: Path) -> None:
    _, of = await judged(tmp_path)
    for change in (
        {"model": "n"},
        {"prompt": "information-gain"},
        {"temperature": 1},
        {"base_url": "http://127.0.0.1:1/v1"},
    ):
        config = load_judge_config({"backend": "replay", "of": of | change})
        with open_store(tmp_path / "v.db") as store, pytest.raises(ReplayMissError):
            await judge_plan(PLAN, POOL, config=config, store=store)


async def test_a_changed_text_is_a_miss_and_a_renamed_agent_is_none(tmp_path: Path) -> None:
    first, _ = await judged(tmp_path)
    texts = POOL.texts.copy()
    texts[0, 0] += "!"
    edited = replace(POOL, texts=texts)
    renamed = replace(POOL, agents=tuple(replace(agent, id=f"new-{agent.id}") for agent in POOL.agents))
    with open_store(tmp_path / "v.db") as store:
        with pytest.raises(ReplayMissError):
            await judge_plan(dense_plan(edited), edited, config=load_judge_config("replay"), store=store)
        again = await judge_plan(dense_plan(renamed), renamed, config=load_judge_config("replay"), store=store)
    same(first, again)


async def test_whom_to_replay_must_be_clear(tmp_path: Path) -> None:
    with open_store(tmp_path / "v.db") as store:
        with pytest.raises(ConfigError, match="nobody"):
            await judge_plan(PLAN, POOL, config=load_judge_config("replay"), store=store)
        for model in ("one", "two"):
            store.remember_judge(judge_config("http://127.0.0.1:1/v1", model=model).public())
        with pytest.raises(ConfigError, match="one, two"):
            await judge_plan(PLAN, POOL, config=load_judge_config("replay"), store=store)


async def test_replay_needs_a_store() -> None:
    with pytest.raises(ConfigError, match="needs a store"):
        await judge_plan(PLAN, POOL, config=load_judge_config("replay"))
