"""Test the engine against a real faulty server and scripted judges."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import judged
import youden
from judged import ENVIRONMENT, KEY, NOWHERE, dense_plan, judge_config, missing, truth
from scripted import Counted, Scripted
from small_pools import make_pool
from store_connections import connection_of
from wire_server import Fault, Reply, WireServer, running, same_item, well_behaved
from youden import judge_async
from youden.errors import BudgetError, ConfigError, InputError, JudgeError, TooManyMissingError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError
from youden.judging.config.judge_files import call_cost
from youden.judging.engine import judge_plan
from youden.judging.scheduler.calling import max_call_cost
from youden.judging.scheduler.loop import MIN_ALLOCATIONS_PER_COLLECTION, GarbageCollection
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.scheduler.shutdown import check_answered, exceeds_max_missing
from youden.judging.store.answers import Store, open_store
from youden.types import PAIRED, Completion, Plan, Request, Verdicts

POOL = make_pool(4, 5)
PLAN = dense_plan(POOL)


def say(request: Request) -> str:
    return same_item({"messages": [{"content": request.messages[-1].content}]})


async def ask(
    judge: WireServer | Scripted,
    store: Store,
    *,
    plan: Plan = PLAN,
    changes: dict[str, Any] | None = None,
    **terms: Any,
) -> Verdicts:
    who = judge.url if isinstance(judge, WireServer) else judge
    return await judged.ask(plan, POOL, who, store, options=JudgingOptions(**terms), **(changes or {}))


async def test_every_trial_is_sent_once_with_texts_in_planned_order(store: Store) -> None:
    progress = Counted()
    async with WireServer() as server:
        verdicts = await ask(server, store, progress=progress, changes={"price_in": 1, "price_out": 2})
    np.testing.assert_array_equal(verdicts.answer, truth(PLAN))
    np.testing.assert_array_equal(verdicts.hard_answer, truth(PLAN))
    assert server.n_requests == len(PLAN) == progress.total == progress.done
    assert server.most_open <= 8
    assert verdicts.total_usd == pytest.approx(len(PLAN) * 102 / 1e6) == pytest.approx(progress.usd)
    assert (verdicts.models, progress.failed, progress.stopped) == (("m",), 0, True)
    output = r"(agent \d+ says something of item \d+)"
    sent = [re.search(f"<first-.*?{output}.*<second-.*?{output}", str(body["messages"][1])) for body in server.bodies]
    other_item = np.where(PLAN.trial_type == PAIRED, PLAN.item, PLAN.other_item)
    wanted = zip(POOL.texts[PLAN.first, PLAN.item], POOL.texts[PLAN.second, other_item], strict=True)
    assert sorted(match.groups() for match in sent if match) == sorted(wanted)
    again = await ask(server, store)
    np.testing.assert_array_equal(again.answer, truth(PLAN))
    assert (server.n_requests, again.total_usd) == (len(PLAN), 0)


async def test_every_network_fault_is_survived(store: Store) -> None:
    dice = random.Random(1)
    faults: list[Fault] = ["reset", "truncated", "malformed", "no_choices", "html"]
    replies = [Reply(fault=fault) for fault in faults] + [Reply(status=status) for status in (500, 503, 408, 429)]
    replies.append(Reply(status=429, headers={"Retry-After": "0.01"}))

    def behave(n: int, body: Any) -> Reply:
        return dice.choice(replies) if dice.random() < 0.3 else well_behaved(n, body)

    plan, progress = replace(PLAN, trials=PLAN.trials.take(slice(80))), Counted()
    changes = {"backend": "openai", "max_tries": 30}
    async with WireServer(behave) as server:
        verdicts = await ask(server, store, plan=plan, changes=changes, progress=progress)
    assert progress.n_throttled > 0
    np.testing.assert_array_equal(verdicts.answer, truth(plan))
    assert server.n_requests > len(plan) + 2 * len(replies)


async def test_a_stalled_call_reaches_its_deadline_and_is_retried(store: Store) -> None:
    plan = replace(PLAN, trials=PLAN.trials.take(slice(8)))
    async with WireServer(lambda n, body: Reply(fault="stall") if n == 0 else well_behaved(n, body)) as server:
        assert (await ask(server, store, plan=plan, changes={"timeout": 0.2})).answered.all()


async def test_a_retry_after_that_is_too_long_is_a_counted_failure(store: Store) -> None:
    def behave(n: int, body: Any) -> Reply:
        return Reply(status=429, headers={"Retry-After": "3600"}) if n == 40 else well_behaved(n, body)

    async with WireServer(behave) as server:
        verdicts = await ask(server, store)
    assert missing(verdicts) == {"answered": len(PLAN) - 1, "failed": 1}


async def test_identical_trials_share_one_call_and_one_cost(store: Store) -> None:
    plan = dense_plan(POOL, repeat=6)
    async with WireServer(lambda n, body: replace(well_behaved(n, body), delay=0.002)) as server:
        verdicts = await ask(server, store, plan=plan, changes={"price": 1})
    assert server.n_requests == len(PLAN)
    np.testing.assert_array_equal(verdicts.answer, truth(plan))
    assert verdicts.total_usd == pytest.approx(len(PLAN) * 101 / 1e6)


async def test_invalid_answers_are_missing_with_their_reason_and_resent_only_on_request(store: Store) -> None:
    odd = {50: Reply("Hm."), 60: Reply("", refusal="no"), 80: Reply(status=400)}
    odd[70] = Reply("The", finish_reason="length")
    async with WireServer(lambda n, body: odd.get(n) or well_behaved(n, body)) as server:
        verdicts = await ask(server, store, max_missing=0.1)
        counts = {"answered": len(PLAN) - 4, "unparsed": 1, "refused": 1, "truncated": 1, "failed": 1}
        assert missing(verdicts) == counts
        assert np.isnan(verdicts.answer).sum() == 4
        assert "1 refused" in verdicts.warnings[0].message
        again = await ask(server, store, max_missing=0.1)
        assert (missing(again), server.n_requests) == (counts, len(PLAN))
        mended = await ask(server, store, max_missing=0.1, retry_failed=True)
    assert mended.answered.all()
    assert server.n_requests == len(PLAN) + 4


async def test_a_command_repeats_a_request_without_an_answer_once(store: Store) -> None:
    """The plan has each request six times, and a search judges its plan again in each round."""
    plan = dense_plan(POOL, repeat=6)
    async with WireServer(lambda *_: Reply("Hm.")) as server:
        await ask(server, store, plan=plan, max_missing=1.0)
        options = JudgingOptions(max_missing=1.0, retry_failed=True)
        for _round in range(2):
            verdicts = await judged.ask(plan, POOL, server.url, store, options=options)
        assert missing(verdicts) == {"unparsed": len(plan)}
        assert server.n_requests == 2 * len(PLAN)
        with pytest.raises(BudgetError, match=f"0 of {len(PLAN)} trials are done and {len(PLAN)} remain"):
            await ask(server, store, max_missing=1.0, retry_failed=True, max_cost=1e-9, changes={"price": 1})


async def test_an_abandoned_call_is_retried_by_the_next_run(store: Store) -> None:
    async with WireServer(lambda n, body: Reply(status=500) if n == 30 else well_behaved(n, body)) as server:
        first = await ask(server, store, changes={"max_tries": 1})
        again = await ask(server, store)
    assert missing(first) == {"answered": len(PLAN) - 1, "failed": 1}
    assert again.answered.all()
    assert server.n_requests == len(PLAN) + 1


async def test_too_many_missing_answers_stop_the_run_and_are_named(store: Store) -> None:
    pool = make_pool(4, 10)
    plan = dense_plan(pool)
    async with WireServer(lambda n, body: Reply("Hm.") if n % 20 == 0 else well_behaved(n, body)) as server:
        with pytest.raises(TooManyMissingError, match="unparsed") as caught:
            await judged.ask(plan, pool, server.url, store)
        assert 200 <= server.n_requests < len(plan)
        assert caught.value.exit_code == 1
        assert "After a change of the requests, for example by max_tokens, all calls are sent" in caught.value.message
        more = await judged.ask(plan, pool, server.url, store, options=JudgingOptions(max_missing=0.1))
    assert more.answered.sum() == len(plan) - 12
    assert server.n_requests == len(plan)


async def test_stored_failures_below_the_limit_do_not_stop_a_resumed_run(store: Store) -> None:
    """All failures are among the first trials, as if another worker had begun elsewhere in the plan."""
    pool = make_pool(4, 20)
    plan = dense_plan(pool)
    async with WireServer(lambda n, body: Reply("Hm.") if n < 4 else well_behaved(n, body)) as server:
        await judged.ask(plan, pool, server.url, store, options=JudgingOptions(max_missing=1))
        resumed = await judged.ask(plan, pool, server.url, store, options=JudgingOptions(max_missing=0.01))
    assert resumed.answered.sum() == len(plan) - 4
    assert server.n_requests == len(plan)


async def test_stored_failures_above_the_limit_stop_a_run_before_it_pays(store: Store) -> None:
    """The failures exceed the limit of 1% by less than three standard errors, but answers to all other trials cannot meet it."""
    pool = make_pool(4, 20)
    plan = dense_plan(pool)
    half = replace(plan, trials=plan.trials.take(slice(len(plan) // 2)))
    n_failures = len(plan) // 100 + 1
    async with WireServer(lambda n, body: Reply("Hm.") if n < n_failures else well_behaved(n, body)) as server:
        await judged.ask(half, pool, server.url, store, options=JudgingOptions(max_missing=1))
        with pytest.raises(TooManyMissingError, match=rf"^{n_failures} of {len(half)} trials"):
            await judged.ask(plan, pool, server.url, store, options=JudgingOptions(max_missing=0.01))
    assert server.n_requests == len(half)


async def test_a_run_that_stopped_for_missing_answers_is_resumed_and_can_still_succeed(
    store: Store,
) -> None:
    pool = make_pool(4, 20)
    plan = dense_plan(pool)
    options = JudgingOptions(max_missing=0.1)
    async with WireServer(lambda n, body: Reply("Hm.") if n < 45 else well_behaved(n, body)) as server:
        with pytest.raises(TooManyMissingError, match=r"^45 of 2\d\d trials"):
            await judged.ask(plan, pool, server.url, store, options=options)
        resumed = await judged.ask(plan, pool, server.url, store, options=options)
    assert missing(resumed) == {"answered": len(plan) - 45, "unparsed": 45}


async def test_an_error_on_missing_answers_states_counts_that_exceed_the_limit(store: Store) -> None:
    """Calls in flight are answered after the run has to stop."""
    pool = make_pool(4, 20)
    plan = dense_plan(pool)

    def reply(n: int, body: Any) -> Reply:
        return Reply("Hm.") if n < 6 or n == 203 else replace(well_behaved(n, body), delay=0.2 if n > 200 else 0)

    async with WireServer(reply) as server:
        with pytest.raises(TooManyMissingError) as caught:
            await judged.ask(plan, pool, server.url, store, concurrency=120, start_concurrency=120)
    n_missing, n_done = map(int, re.findall(r"^(\d+) of (\d+) trials", caught.value.message)[0])
    assert exceeds_max_missing(n_missing, n_done, max_missing=0.01)


def test_a_fraction_of_missing_answers_that_equals_the_limit_is_allowed() -> None:
    """As floats, .29 · 100 is less than 29, and .29 · 200 is less than 58."""
    assert not exceeds_max_missing(58, 200, max_missing=0.29, is_certain=True)
    answers = iter([None] * 29 + [True] * 71)
    plan = replace(PLAN, trials=PLAN.trials.take(slice(100)))
    verdicts = youden.judge(plan, judge=lambda _first, _second: next(answers), max_missing=0.29)
    check_answered(verdicts, max_missing=0.29)
    with pytest.raises(TooManyMissingError):
        check_answered(verdicts, max_missing=0.289)


async def test_missing_answers_that_exceed_the_limit_only_by_chance_do_not_stop_a_run(store: Store) -> None:
    pool = make_pool(4, 20)
    plan = dense_plan(pool)
    async with WireServer(lambda n, body: Reply("Hm.") if n % 60 == 0 and n < 200 else well_behaved(n, body)) as server:
        verdicts = await judged.ask(plan, pool, server.url, store)
    assert missing(verdicts) == {"answered": len(plan) - 4, "unparsed": 4}


@pytest.mark.parametrize(
    ("reply", "slug"),
    [
        (Reply(status=401, error={"message": f"Incorrect API key provided: {KEY}"}), "judge-key"),
        (Reply(status=403), "judge-key"),
        (Reply(status=404, error={"message": "no such model", "code": "model_not_found"}), "judge-model"),
        (Reply(status=429, error={"message": "quota", "code": "insufficient_quota"}), "judge-quota"),
        (Reply(status=400, error={"message": "unknown parameter top_q"}), "judge-rejects"),
        (Reply(status=500), "judge-rejects"),
        (Reply(fault="reset"), "judge-unreachable"),
    ],
)
async def test_a_failure_common_to_all_calls_stops_the_run_at_once(store: Store, reply: Reply, slug: str) -> None:
    async with WireServer(lambda *_: reply) as server:
        with pytest.raises(JudgeError, match=rf"\[{slug}\]") as caught:
            await ask(server, store, changes={"max_tries": 2})
    assert server.n_requests <= 2 * 3 * 8
    assert server.url in caught.value.message
    assert KEY not in str(caught.value)


async def test_a_judge_whose_first_replies_lack_log_probabilities_stops_early(store: Store) -> None:
    alternatives = [{"token": "YES", "logprob": -0.5}, {"token": "NO", "logprob": -1.0}]
    logprobs = {"content": [{"token": "YES", "logprob": -0.5, "top_logprobs": alternatives}]}
    changes = {"decision": "logprobs", "concurrency": 1}
    async with WireServer(lambda *_: Reply("YES")) as server:
        with pytest.raises(JudgeError, match=r"Set `decision: text`.*\[judge-logprobs\]"):
            await ask(server, store, changes=changes)
        assert server.n_requests <= 4
        server.behave = lambda *_: Reply("YES", logprobs=logprobs)
        verdicts = await ask(server, store, changes=changes, retry_failed=True)
    assert verdicts.answer == pytest.approx(np.full(len(PLAN), np.exp(-0.5) / (np.exp(-0.5) + np.exp(-1))))


async def test_answers_before_a_stop_are_stored(store: Store) -> None:
    async with WireServer(lambda n, body: well_behaved(n, body) if n < 100 else Reply(status=401)) as server:
        with pytest.raises(JudgeError):
            await ask(server, store)
        assert len(store) >= 100
        server.behave = well_behaved
        before = server.n_requests
        assert (await ask(server, store)).answered.all()
        assert server.n_requests - before == len(PLAN) - 100


async def test_no_request_is_sent_without_a_key_or_at_an_unknown_price(store: Store) -> None:
    async with WireServer() as server:
        config = judge_config(server.url)
        with pytest.raises(JudgeError, match="OPENAI_API_KEY"):
            await judge_plan(PLAN, config=config, store=store, environment={})
        for slug, max_cost, changes in (
            ("price-unknown", 1.0, {}),
            ("answer-unbounded", 1.0, {"price_in": 1, "price_out": 1, "max_tokens": None}),
            ("max-cost", float("nan"), {"price": 1}),
            ("max-cost-needed", None, {"price": 1}),
        ):
            changed = judge_config(server.url, **changes)
            with pytest.raises(ConfigError, match=rf"\[{slug}\]"):
                await judge_async(PLAN, judge=changed, store=store.name, max_cost=max_cost)
        with pytest.raises(ConfigError, match="store"):
            await judge_plan(PLAN, config=config, environment=ENVIRONMENT)
    assert server.n_requests == 0


async def test_a_price_of_zero_fits_any_cap(store: Store) -> None:
    assert (await ask(Scripted(say), store, max_cost=0.0, changes={"price": 0})).answered.all()


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.long] if n > 2 else []) for n in range(20)])
async def test_the_cap_is_never_exceeded_and_the_same_call_resumes(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    billed: list[float] = []

    def script(request: Request) -> Completion:
        if dice.random() < 0.1:
            raise CallError("busy", kind="transient", status=503)
        tokens_in, tokens_out = dice.randint(20, 250), dice.randint(1, 8)
        billed.append((tokens_in * 3 + tokens_out * 10) / 1e6)
        return Completion(say(request), "stop", "m", tokens_in, tokens_out)

    changes = {"price_in": 3, "price_out": 10, "max_tries": 50}
    cap, runs, judge = 0.02, 0, Scripted(script)
    while len(billed) < len(PLAN):
        before, runs = sum(billed), runs + 1
        with contextlib.suppress(BudgetError):
            verdicts = await ask(judge, store, changes=changes, max_cost=cap)
        assert sum(billed) - before <= cap
        assert sum(billed) - before > 0.7 * cap or len(billed) == len(PLAN)
    assert runs > 2
    np.testing.assert_array_equal(verdicts.answer, truth(PLAN))
    assert len(billed) == len(PLAN)


async def test_a_cap_below_one_call_does_not_advise_to_repeat_the_command(store: Store) -> None:
    changes = {"price_in": 3, "price_out": 10}
    with pytest.raises(BudgetError, match=r"0 USD were spent.*Set a higher max_cost, because this cap allows no call;"):
        await ask(Scripted(say), store, changes=changes, max_cost=1e-7)
    with pytest.raises(BudgetError, match="run the same command again, which may spend the same amount again"):
        await ask(Scripted(say), store, changes=changes, max_cost=0.02)


@pytest.mark.parametrize("status", [504, None])
async def test_calls_that_time_out_at_a_gateway_count_against_the_cap(store: Store, status: int | None) -> None:
    """The server behind the gateway processes and bills all of them; None: the connection was closed after sending."""
    dice, billed = random.Random(0), list[float]()

    def script(request: Request) -> Completion:
        tokens_in, tokens_out = dice.randint(20, 250), dice.randint(1, 8)
        billed.append((tokens_in * 3 + tokens_out * 10) / 1e6)
        if dice.random() < 2 / 3:
            raise CallError("gateway timeout", kind="transient", status=status)
        return Completion(say(request), "stop", "m", tokens_in, tokens_out)

    changes, cap = {"price_in": 3, "price_out": 10, "max_tries": 50, "max_outage": 0}, 0.02
    with pytest.raises(BudgetError):
        await ask(Scripted(script), store, changes=changes, max_cost=cap)
    assert 0.1 * cap < sum(billed) <= cap


async def test_a_finding_states_the_booked_and_maximum_cost_of_calls_without_a_reply(store: Store) -> None:
    def script(request: Request) -> Completion:
        if judge.n_calls <= 3:
            raise CallError("gateway timeout", kind="transient", status=504)
        return Completion(say(request), "stop", "m", 100, 1)

    judge = Scripted(script)
    verdicts = await ask(judge, store, changes={"price_in": 3, "price_out": 10, "max_tries": 50})
    assert verdicts.answered.all()
    (output,) = [warning for warning in verdicts.warnings if warning.slug == "bill"]
    assert output.facts["n"] == 3
    facts: Mapping[str, Any] = output.facts
    assert 0 < facts["usd"] <= facts["most"]
    assert "3 attempts to send a request failed and may be billed" in str(output)


async def test_an_error_that_ends_a_run_states_the_cost_of_calls_without_a_reply(store: Store) -> None:
    def script(_request: Request) -> Completion:
        raise CallError("The reply is not valid JSON.", kind="transient")

    judge = Scripted(script)
    with pytest.raises(JudgeError) as caught:
        await ask(judge, store, changes={"price_in": 3, "price_out": 10, "max_tries": 2})
    assert f"{judge.n_calls} attempts to send a request failed and may be billed" in caught.value.message


async def test_the_reason_of_the_first_failed_call_is_shown(store: Store) -> None:
    def script(request: Request) -> Completion:
        if judge.n_calls % 20 == 0:
            raise CallError(f"HTTP 400: Refused, number {judge.n_calls}.", kind="rejected", status=400)
        return Completion(say(request), "stop", "m", 100, 1)

    judge, progress = Scripted(script), Counted()
    await ask(judge, store, progress=progress, max_missing=1)
    (message,) = [text for _, text in progress.said if "failed" in text]
    assert re.fullmatch(r"first failed call of '.+': HTTP 400: Refused, number 20\.", message)


async def test_an_exhausted_budget_is_an_error_with_spent_and_remaining_amounts(store: Store) -> None:
    with pytest.raises(BudgetError, match=r"of 120 trials are done and \d+ remain") as caught:
        await ask(Scripted(say), store, changes={"price": 3}, max_cost=0.02)
    assert caught.value.exit_code == 1


async def test_a_budget_error_counts_the_answers_of_other_processes_to_later_trials(store: Store) -> None:
    pool = make_pool(4, 20)
    last_trials = [(19, i, k, case) for i in range(4) for k in range(4) if i != k for case in (-1, 0)]
    await judged.ask(judged.plan_of(pool, last_trials), pool, Scripted(say), store, price=3)
    with pytest.raises(BudgetError, match="24 of 480 trials are done and 456 remain"):
        await judged.ask(dense_plan(pool), pool, Scripted(say), store, price=3, options=JudgingOptions(max_cost=1e-6))


async def test_a_call_of_unknown_cost_counts_at_its_maximum(store: Store) -> None:
    """A reply without usage, or a broken connection, may have cost as much as was reserved."""
    judge = Scripted(lambda request: Completion(say(request), "stop", "m", 0, 0))
    with pytest.raises(BudgetError):
        await ask(judge, store, changes={"price": 10}, max_cost=0.1)
    characters = len(judge_config(NOWHERE).loaded_prompt.messages("x", "y")[1].content)
    assert judge.n_calls <= 0.1 / (10 * characters / 1e6)


def test_one_budget_serves_several_event_loops_in_sequence(tmp_path: Path) -> None:
    """Each interim analysis of a search has its own loop. Eight calls wait under a cap for about three."""
    pool = make_pool(3, 3)
    plan = dense_plan(pool)
    with running(
        WireServer(lambda *_: Reply("YES", delay=0.001, usage={"prompt_tokens": 20, "completion_tokens": 1}))
    ) as server:
        config = judge_config(server.url, backend="wire", price=1000, max_tokens=1, concurrency=8, start_concurrency=8)
        dearest = max(max_call_cost(config, config.questions().request(plan, row)) for row in range(len(plan)))
        budget = Budget(3 * dearest + 2 * len(plan) * call_cost(config, 20, 1))
        for name in ("one.db", "two.db"):
            assert not budget.can_reserve(8 * dearest)
            with open_store(tmp_path / name) as store:
                asked = judge_plan(plan, config=config, store=store, environment=ENVIRONMENT, budget=budget)
                assert asyncio.run(asked).answered.all()


@pytest.mark.parametrize(("grace", "delay"), [(60.0, 0.5), (0.1, 60.0)])
async def test_a_cancelled_run_stores_in_flight_answers_within_its_grace_period(
    store: Store, grace: float, delay: float
) -> None:
    all_there = asyncio.Event()

    def behave(n: int, body: Any) -> Reply:
        if n == 7:
            all_there.set()
        return replace(well_behaved(n, body), delay=delay)

    async with WireServer(behave) as server:
        run = asyncio.create_task(ask(server, store, grace=grace))
        await all_there.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (server.n_requests, len(store)) == (8, 8 if delay < grace else 0)


async def test_calls_waiting_for_the_rate_limit_do_not_delay_a_stop(store: Store) -> None:
    asked = asyncio.Event()

    def behave(n: int, body: Any) -> Reply:
        asked.set()
        return well_behaved(n, body)

    async with WireServer(behave) as server:
        run = asyncio.create_task(ask(server, store, changes={"requests_per_minute": 0.5}))
        await asked.wait()
        began = asyncio.get_running_loop().time()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert asyncio.get_running_loop().time() - began < 60
        assert server.n_requests == len(store)


async def test_an_exception_in_a_judge_neither_hangs_nor_loses_answers(store: Store) -> None:
    def script(request: Request) -> str:
        if judge.n_calls == 120:
            raise ZeroDivisionError
        return say(request)

    judge = Scripted(script)
    with pytest.raises(ZeroDivisionError):
        await ask(judge, store)
    assert len(store) == judge.n_calls - 1


async def test_a_failing_store_stops_the_run(store: Store) -> None:
    connection_of(store).execute("PRAGMA query_only = 1")
    judge = Scripted(say)
    with pytest.raises(JudgeError, match="cannot be opened or written"):
        await ask(judge, store)
    connection_of(store).execute("PRAGMA query_only = 0")
    assert judge.n_calls < len(PLAN)


async def test_a_plan_for_another_pool_or_a_missing_response_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="plan-other-pool"):
        await ask(Scripted(say), store, plan=replace(PLAN, pool_digest="0" * 64))
    texts = POOL.texts.copy()
    texts[1, 2] = None
    gappy = replace(POOL, texts=texts)
    with pytest.raises(InputError, match=r"'i1' and 'i2', independent.*\[plan-missing-text\]"):
        await judged.ask(dense_plan(gappy), gappy, Scripted(say), store)


@pytest.mark.parametrize("threshold", [0, 700, 10**6])
async def test_the_garbage_collector_runs_rarely_while_calls_are_sent(store: Store, threshold: int) -> None:
    during: set[int] = set()

    def answer(request: Request) -> str:
        during.add(gc.get_threshold()[0])
        return say(request)

    before = gc.get_threshold()
    gc.set_threshold(threshold, *before[1:])
    try:
        await ask(Scripted(answer), store)
        assert gc.get_threshold()[0] == threshold
    finally:
        gc.set_threshold(*before)
    assert during == {0 if threshold == 0 else max(threshold, MIN_ALLOCATIONS_PER_COLLECTION)}


def test_overlapping_runs_restore_the_garbage_collector() -> None:
    before = gc.get_threshold()
    collection = GarbageCollection()
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(collection)
    second.enter_context(collection)
    first.close()
    assert gc.get_threshold()[0] >= MIN_ALLOCATIONS_PER_COLLECTION
    second.close()
    assert gc.get_threshold() == before


async def test_the_number_of_tasks_does_not_grow_with_the_plan(store: Store) -> None:
    maximum = 0

    def script(request: Request) -> str:
        nonlocal maximum
        maximum = max(maximum, len(asyncio.all_tasks()))
        return say(request)

    await ask(Scripted(script), store, changes={"concurrency": 4})
    assert maximum <= 4 + 5
