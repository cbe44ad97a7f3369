"""Test replays: equal verdicts from the store alone, errors for missing answers, and warnings of changed models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judged import ask, dense_plan, judge_config
from narrowing import not_none
from scripted import Scripted
from small_pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.errors import ConfigError, ReplayMissError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.store.answers import Store, open_store
from youden.types import Completion, Plan, Pool, Request, Verdicts

POOL = make_pool(4, 5)
PLAN = dense_plan(POOL)


def some_odd(n: int, body: Any) -> Reply:
    """Answer mostly validly, with a refusal, a truncated reply, one without a label and a rejected request."""
    odd = {
        3: Reply("", refusal="no"),
        7: Reply("Well, the", finish_reason="length"),
        11: Reply("Hm."),
        15: Reply(status=400),
    }
    return odd.get(n, Reply(same_item(body), model="m-dated"))


async def judged(store: Store) -> tuple[Verdicts, dict[str, Any]]:
    async with WireServer(some_odd) as server:
        verdicts = await ask(PLAN, POOL, server.url, store)
    return verdicts, {"backend": "wire", "model": "m", "base_url": server.url}


async def replay(store: Store, plan: Plan = PLAN, pool: Pool = POOL, **of: Any) -> Verdicts:
    config = load_judge_config({"backend": "replay"} | ({"replay_of": of} if of else {}))
    return await judge_plan(plan, config=config, store=store, environment={})


def same(left: Verdicts, right: Verdicts) -> None:
    for column in ("answer", "hard_answer", "missing_reason", "request_hash"):
        np.testing.assert_array_equal(getattr(left, column), getattr(right, column), err_msg=column)
    assert served(left) == served(right)
    assert sorted(left.models) == sorted(right.models)
    assert (left.judge, left.warnings) == (right.judge, right.warnings)


def served(verdicts: Verdicts) -> list[str | None]:
    """Return the model that answered each trial; models are numbered in the order of their first answer."""
    return [None if number < 0 else verdicts.models[number] for number in not_none(verdicts.response_model)]


async def test_replay_equals_the_run_without_a_server_or_key(tmp_path: Path) -> None:
    with open_store(tmp_path / "v.db") as store:
        first, of = await judged(store)
    with open_store(tmp_path / "v.db", read_only=True) as store:
        for again in (await replay(store), await replay(store, **of)):
            same(first, again)
            assert again.total_usd == 0
    assert np.bincount(first.missing_reason).tolist() == [len(PLAN) - 4, 1, 1, 1, 1]


async def test_a_replay_miss_names_the_key_and_the_trial(store: Store) -> None:
    _, of = await judged(store)
    again = np.where(np.arange(len(PLAN)) == 17, 1, 0).astype(np.int32)
    with pytest.raises(ReplayMissError) as caught:
        await replay(store, replace(PLAN, trials=replace(PLAN.trials, replicate=again)))
    i, k = (POOL.agents[agents[17]].id for agents in (PLAN.first, PLAN.second))
    assert f"trial 17: agents '{i}' and '{k}', items 'i0' and 'i1', independent" in caught.value.message
    assert any(len(word) == 64 for word in caught.value.message.split())
    for change in (
        {"model": "n"},
        {"prompt": "information-gain"},
        {"temperature": 1},
        {"base_url": "http://127.0.0.1:1/v1"},
    ):
        with pytest.raises(ReplayMissError):
            await replay(store, **of | change)


async def test_a_changed_text_is_a_replay_miss_and_a_renamed_agent_is_not(store: Store) -> None:
    first, _ = await judged(store)
    texts = POOL.texts.copy()
    texts[0, 0] += "!"
    edited = replace(POOL, texts=texts)
    renamed = replace(POOL, agents=tuple(replace(agent, id=f"new-{agent.id}") for agent in POOL.agents))
    with pytest.raises(ReplayMissError):
        await replay(store, dense_plan(edited), edited)
    same(first, await replay(store, dense_plan(renamed), renamed))


async def test_an_ambiguous_replay_judge_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="needs a store"):
        await judge_plan(PLAN, config=load_judge_config("replay"))
    with pytest.raises(ConfigError, match="no judge"):
        await replay(store)
    for model in ("one", "two"):
        store.remember_judge(judge_config("http://127.0.0.1:1/v1", model=model).public())
    with pytest.raises(ConfigError, match="one, two"):
        await replay(store)


async def answered_by(serve: Callable[[int], tuple[str, str | None]], store: Store, *, plan: Plan = PLAN) -> Verdicts:
    """Judge the plan; `serve` returns the model and the build that give answer number n."""

    def script(_: Request) -> Completion:
        model, fingerprint = serve(judge.n_calls)
        return Completion("YES", "stop", model, 1, 1, fingerprint=fingerprint)

    judge = Scripted(script)
    return await ask(plan, POOL, judge, store)


async def test_one_model_and_build_give_no_warning_and_are_in_the_signature(store: Store) -> None:
    result = await answered_by(lambda _: ("m-1", "fp_a"), store)
    assert (result.warnings, result.judge["response_models"]) == ((), ["m-1 (fp_a)"])


async def test_a_build_that_changes_within_a_run_is_a_warning_and_another_signature(store: Store) -> None:
    result = await answered_by(lambda n: ("m-1", "fp_a" if n <= 10 else "fp_b"), store)
    assert f"m-1 (fp_a) (10 answers), m-1 (fp_b) ({len(PLAN) - 10} answers)" in result.warnings[0].message
    assert "run again with another --out and --store" in result.warnings[0].message
    assert result.judge["response_models"] == ["m-1 (fp_a)", "m-1 (fp_b)"]
    same(result, await replay(store))


async def test_a_model_other_than_that_of_the_store_is_a_warning(store: Store) -> None:
    await answered_by(lambda _: ("m-1", None), store)
    replicated = replace(PLAN, trials=replace(PLAN.trials, replicate=PLAN.replicate + 1))
    result = await answered_by(lambda _: ("m-2", None), store, plan=replicated)
    assert "since the last answers in the store: m-1 then, m-2 now" in result.warnings[0].message
    assert result.judge["response_models"] == ["m-2"]
    assert (await answered_by(lambda _: ("m-2", None), store, plan=replicated)).warnings == ()
