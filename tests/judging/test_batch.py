"""Test batches against a real server that rejects, expires, forgets and loses replies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import judged
from batch_server import BatchServer, Fault, Step
from commands import everything_in
from judged import KEY, dense_plan, judge_config, missing, truth
from scripted import Clock
from small_pools import make_pool
from wire_server import Reply, same_item, well_behaved
from youden import judge_async
from youden.errors import BudgetError, ConfigError, IncompleteRunError, JudgeError, TooManyMissingError
from youden.judging.backend_records import BACKENDS
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError
from youden.judging.call.retries import RetryPolicy
from youden.judging.engine import BATCHES, batch_provider
from youden.judging.offline.batch_leases import BatchLeases
from youden.judging.offline.batch_outcomes import find_outcomes
from youden.judging.offline.batch_providers import BatchState
from youden.judging.offline.http_batches import OpenAIBatches
from youden.judging.offline.lines import RequestLine, iter_results, split_lines
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.store.answers import Store, open_store
from youden.judging.store.leases import LEASE_SECONDS, Job, Leases, read_pending_jobs
from youden.types import Completion, Plan, Verdicts

POOL = make_pool(4, 10)
PLAN = dense_plan(POOL)


@pytest.fixture
def any_store(place: str) -> Iterator[Store]:
    """Open a store of either kind."""
    with open_store(place) as opened:
        yield opened


@pytest.fixture(autouse=True)
def short_list_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youden.judging.offline.http_batches.MAX_LIST_LAG_SECONDS", 0.3)


class Killed(BaseException):
    """Simulated end of the process."""


async def ask(
    server: BatchServer,
    store: Store,
    *,
    plan: Plan = PLAN,
    changes: dict[str, Any] | None = None,
    sleep: Any = asyncio.sleep,
    said: list[str] | None = None,
    **terms: Any,
) -> Verdicts:
    batching = Batching(poll=0.0, say=([] if said is None else said).append, sleep=sleep)
    return await judged.ask(
        plan, POOL, server.url, store, options=JudgingOptions(batching=batching, **terms), **(changes or {})
    )


async def killed_while_it_waits(server: BatchServer, store: Store, **more: Any) -> None:
    """Run a process that sends half of the plan."""

    async def die(_: float) -> None:
        raise Killed

    half = replace(PLAN, trials=PLAN.trials.take(slice(120)))
    with pytest.raises(Killed):
        await ask(server, store, plan=half, sleep=die, **more)


async def test_a_plan_is_uploaded_as_one_file_and_results_are_matched_by_key(any_store: Store) -> None:
    messages: list[str] = []
    async with BatchServer(looks_needed=3) as server:
        verdicts = await ask(
            server,
            any_store,
            plan=dense_plan(POOL, repeat=2),
            changes={"price": 2, "batch_discount": 0.5},
            said=messages,
        )
    np.testing.assert_array_equal(verdicts.answer, np.tile(truth(PLAN), 2))
    assert len(server.batches) == 1
    assert len(server.bodies) == len(PLAN)
    assert verdicts.total_usd == pytest.approx(len(PLAN) * 101 * 2 / 1e6 / 2)
    assert verdicts.models == ("m",)
    assert messages == [
        "batch batch_0: 240 requests sent",
        "batch batch_0: in_progress, 0 of 240 done",
        "batch batch_0: completed, 240 of 240 done",
    ]
    repeated = await ask(server, any_store)
    assert repeated.total_usd == 0
    np.testing.assert_array_equal(repeated.answer, truth(PLAN))


async def test_judge_uses_the_batch_api_if_batching_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", judged.KEY)
    store, status = tmp_path / "v.db", list[str]()
    async with BatchServer(looks_needed=2) as server:
        judge = judge_config(server.url, backend="openai", price=2)
        verdicts = await judge_async(
            PLAN, judge=judge, store=store, max_cost=1.0, mode="batch", poll=0.01, on_status=status.append
        )
        assert len(server.batches) == 1
    np.testing.assert_array_equal(verdicts.answer, truth(PLAN))
    assert status[-1] == "batch batch_0: completed, 240 of 240 done"
    with pytest.raises(ConfigError, match=r"got 'batches'.*\[judge-mode\]"):
        await judge_async(PLAN, judge=judge, store=store, mode="batches")  # type: ignore[arg-type]
    for poll in (0, math.inf):
        with pytest.raises(ConfigError, match=rf"got {poll}.*\[judge-poll\]"):
            await judge_async(PLAN, judge=judge, store=store, mode="batch", poll=poll)
    with pytest.raises(ConfigError, match=r"`poll`.*got NoneType.*\[argument-type\]"):
        await judge_async(PLAN, judge=judge, store=store, mode="batch", poll=None)  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), max_size=40),
    most=st.integers(1, 10),
    most_bytes=st.integers(30, 100),
)
def test_batch_files_preserve_order_and_limits_and_are_as_few_as_possible(
    sizes: list[int], most: int, most_bytes: int
) -> None:
    lines = [RequestLine(str(n), b"x" * size, 0.0) for n, size in enumerate(sizes)]
    created = list(split_lines(iter(lines), max_requests=most, max_bytes=most_bytes))
    assert [line for part in created for line in part] == lines
    totals = [sum(len(line.text) for line in part) for part in created]
    assert all(len(part) <= most and total <= most_bytes for part, total in zip(created, totals, strict=True))
    for part, total, after in zip(created, totals, created[1:], strict=False):
        assert len(part) == most or total + len(after[0].text) > most_bytes


async def test_only_failed_lines_are_resent_and_rejected_ones_are_counted(any_store: Store) -> None:
    odd = {
        5: Reply(status=500),
        6: Reply(status=429),
        7: Reply(status=400),
        8: Reply("Hm."),
        9: Reply("", refusal="no"),
    }
    async with BatchServer(lambda n, body: odd.get(n) or well_behaved(n, body)) as server:
        verdicts = await ask(server, any_store, max_missing=0.1)
        assert [len(lines) for lines in server.inputs] == [240, 2]
        counts = {"answered": 237, "failed": 1, "unparsed": 1, "refused": 1}
        assert missing(verdicts) == counts
        assert missing(await ask(server, any_store, max_missing=0.1)) == counts
        mended = await ask(server, any_store, max_missing=0.1, retry_failed=True)
        assert [len(lines) for lines in server.inputs] == [240, 2, 3]
    assert mended.answered.all()


async def test_plans_with_the_same_options_resend_a_line_without_an_answer_once(any_store: Store) -> None:
    async with BatchServer(lambda *_: Reply("Hm.")) as server:
        options = JudgingOptions(batching=Batching(poll=0.001), max_missing=1.0, retry_failed=True)
        for _round in range(3):
            await judged.ask(PLAN, POOL, server.url, any_store, options=options, backend="openai")
        assert [len(lines) for lines in server.inputs] == [240]


async def test_a_line_that_always_fails_is_abandoned_after_max_tries(any_store: Store) -> None:
    def behave(_n: int, body: Any) -> Reply:
        bad = "agent 1 says something of item 3" in str(body) and "agent 2 says something of item 3" in str(body)
        return Reply(status=503) if bad else Reply(same_item(body))

    async with BatchServer(behave) as server:
        verdicts = await ask(server, any_store, changes={"max_tries": 3}, max_missing=0.1)
        assert [len(lines) for lines in server.inputs] == [240, 2, 2]
    assert missing(verdicts) == {"answered": 238, "failed": 2}


async def test_batch_results_without_usage_are_booked_at_their_maximum_cost_and_reported(
    any_store: Store,
) -> None:
    def behave(n: int, body: Any) -> Reply:
        return replace(well_behaved(n, body), usage=None) if n < 5 else well_behaved(n, body)

    async with BatchServer(behave) as server:
        verdicts = await ask(server, any_store, changes={"price": 1}, max_cost=1.0)
    (output,) = [warning for warning in verdicts.warnings if warning.slug == "bill"]
    assert output.message.startswith("5 answers of 'm' reported no credible token usage")
    assert verdicts.total_usd > 235 * 101 / 1e6


async def test_a_refused_batch_ends_the_run_with_the_reason_and_no_cost(any_store: Store) -> None:
    async with BatchServer(fates=["refused"]) as server:
        with pytest.raises(JudgeError, match=r"Enqueued token limit.*\[batch-refused\]"):
            await ask(server, any_store)
        assert (await ask(server, any_store)).answered.all()
    assert len(server.bodies) == 240


async def test_lines_that_invalidate_a_batch_are_rejected_and_the_others_are_resent(any_store: Store) -> None:
    async with BatchServer(fates=["lines refused"], bad_lines=(2, 5)) as server:
        verdicts = await ask(server, any_store)
        assert [len(lines) for lines in server.inputs] == [240, 238]
    assert missing(verdicts) == {"answered": 238, "failed": 2}


async def test_a_cancelled_batch_is_not_sent_again_by_the_same_command(any_store: Store) -> None:
    async with BatchServer(fates=["cancelled"]) as server:
        with pytest.raises(IncompleteRunError, match="120 of its requests have no answer") as caught:
            await ask(server, any_store)
        assert (caught.value.slug, caught.value.exit_code) == ("batch-cancelled", 1)
        assert len(any_store) == 120
        assert (await ask(server, any_store)).answered.all()
        assert [len(lines) for lines in server.inputs] == [240, 120]


@pytest.mark.parametrize("at", ["upload", "create", "look", "fetch", "merge"])
async def test_a_batch_resumes_after_a_stop_at_any_moment_without_paying_twice(
    place: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is interrupted after the provider acted, before its reply is recorded."""
    async with BatchServer(looks_needed=2) as server:
        target = {
            "upload": "youden.judging.offline.batch_leases.BatchLeases.record_file_id",
            "create": "youden.judging.offline.batch_leases.BatchLeases.record_batch_id",
            "look": "youden.judging.offline.in_batches.BatchRunner._store_results",
            "fetch": "youden.judging.offline.batch_outcomes.iter_results",
            "merge": "youden.judging.offline.batch_leases.BatchLeases.replace_record",
        }[at]

        def die(*_: Any, **__: Any) -> None:
            raise Killed

        with monkeypatch.context() as patch, open_store(place) as store:
            patch.setattr(target, die)
            with pytest.raises(Killed):
                await ask(server, store)
        with open_store(place) as store:
            verdicts = await ask(server, store)
    np.testing.assert_array_equal(verdicts.answer, truth(PLAN))
    assert len(server.bodies) == 240
    assert len(server.batches) == 1


async def test_a_pending_batch_is_awaited_while_new_requests_of_the_plan_are_sent(any_store: Store) -> None:
    async with BatchServer(looks_needed=3) as server:
        await killed_while_it_waits(server, any_store)
        messages: list[str] = []
        verdicts = await ask(server, any_store, said=messages)
        assert [len(lines) for lines in server.inputs] == [120, 120]
    assert messages[0] == "batch batch_0: 120 requests were sent earlier"
    assert verdicts.answered.all()


@pytest.mark.parametrize(
    "faults",
    [
        {"upload": ["500", "reset", "lost"]},
        {"create": ["500", "lost"]},
        {"create": ["lost"], "list": ["500"]},
        {"look": ["500", "reset"]},
        {"fetch": ["reset", "500"]},
    ],
)
async def test_every_step_of_a_batch_is_retried_and_no_batch_started_twice(
    any_store: Store, faults: dict[Step, list[Fault | None]]
) -> None:
    async with BatchServer(faults=deepcopy(faults)) as server:
        assert (await ask(server, any_store)).answered.all()
    assert (len(server.batches), len(server.bodies)) == (1, 240)


@pytest.mark.parametrize(
    ("faults", "slug"),
    [
        ({"upload": ["401"]}, "judge-key"),
        ({"upload": ["500"] * 9}, "batch-unreachable"),
        ({"create": ["400"]}, "judge-rejects"),
        ({"create": ["lost", *["500"] * 9], "list": ["500"] * 9}, "batch-unreachable"),
        ({"look": ["401"]}, "judge-key"),
        ({"fetch": ["500"] * 9}, "batch-unreachable"),
    ],
)
async def test_a_failing_provider_ends_the_run_and_the_same_command_resumes(
    any_store: Store, faults: dict[Step, list[Fault | None]], slug: str
) -> None:
    async with BatchServer(faults=deepcopy(faults)) as server:
        with pytest.raises((JudgeError, IncompleteRunError)) as caught:
            await ask(server, any_store, changes={"max_tries": 3, "max_outage": 0})
        assert caught.value.slug == slug
        assert KEY not in str(caught.value)
        server.faults = {}
        assert (await ask(server, any_store)).answered.all()
    assert (len(server.batches), len(server.bodies)) == (1, 240)


async def test_a_batch_unknown_to_the_provider_is_an_error_and_is_not_resent(any_store: Store) -> None:
    async with BatchServer(fates=["vanished"]) as server:
        for _ in range(2):
            with pytest.raises(JudgeError, match=r"batch_0 of 240 requests.*--forget batch_0.*\[batch-unknown\]"):
                await ask(server, any_store)
        assert len(server.batches) == 1
        assert [job.batch for job in read_pending_jobs(any_store.backend)] == ["batch_0"]
        for job in read_pending_jobs(any_store.backend):
            any_store.backend.delete_batch(job.id)
        assert (await ask(server, any_store)).answered.all()


@pytest.mark.parametrize(
    ("n_good", "error", "says"),
    [
        (100, {"status": 429, "code": "insufficient_quota"}, r"no quota.*\[judge-quota\]"),
        (0, {"status": 451, "code": None}, r"no quota.*\[judge-rejects\]"),
    ],
)
async def test_a_failure_common_to_all_lines_ends_the_run_with_answers_stored(
    any_store: Store, n_good: int, error: dict[str, Any], says: str
) -> None:
    """Rejections before the first answer end the run as well."""
    odd = Reply(status=error["status"], error={"message": "no quota", "code": error["code"]})
    async with BatchServer(lambda n, body: well_behaved(n, body) if n < n_good else odd) as server:
        with pytest.raises(JudgeError, match=says):
            await ask(server, any_store)
        assert len(any_store) == n_good
        server.behave = well_behaved
        assert (await ask(server, any_store)).answered.all()
        assert [len(lines) for lines in server.inputs] == [240, 240 - n_good]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_the_cap_applies_to_batch_prices_and_the_same_command_resumes(any_store: Store, seed: int) -> None:
    dice = np.random.default_rng(seed)
    billed: list[float] = []

    def behave(n: int, body: Any) -> Reply:
        used = {"prompt_tokens": int(dice.integers(20, 250)), "completion_tokens": int(dice.integers(1, 8))}
        billed.append((used["prompt_tokens"] * 3 + used["completion_tokens"] * 10) / 2e6)
        return replace(well_behaved(n, body), usage=used)

    changes = {"price_in": 3, "price_out": 10, "batch_discount": 0.5}
    cap, runs = 0.02, 0
    async with BatchServer(behave) as server:
        while len(billed) < len(PLAN):
            before, runs = sum(billed), runs + 1
            with contextlib.suppress(BudgetError):
                verdicts = await ask(server, any_store, changes=changes, max_cost=cap)
            assert sum(billed) - before <= cap
            assert sum(billed) - before > 0.7 * cap or len(billed) == len(PLAN)
    assert runs > 1
    np.testing.assert_array_equal(verdicts.answer, truth(PLAN))


async def test_a_batch_in_progress_counts_against_the_cap_of_the_next_command(any_store: Store) -> None:
    little = {"prompt_tokens": 20, "completion_tokens": 1}
    terms: dict[str, Any] = {"changes": {"price": 1}, "max_cost": 0.2}
    async with BatchServer(lambda n, body: replace(well_behaved(n, body), usage=little), looks_needed=2) as server:
        await killed_while_it_waits(server, any_store, **terms)
        assert (await ask(server, any_store, **terms)).answered.all()


async def test_too_many_missing_answers_stop_the_run_before_the_next_batch(any_store: Store) -> None:
    async with BatchServer(lambda n, body: Reply("Hm.") if n % 20 == 0 else well_behaved(n, body)) as server:
        with pytest.raises(TooManyMissingError, match="unparsed"):
            await ask(server, any_store)
        assert (await ask(server, any_store, max_missing=0.1)).answered.sum() == 228
    assert len(server.batches) == 1


async def briefly(_: float) -> None:
    await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_two_hosts_send_each_request_of_a_plan_in_one_batch_and_both_get_all_answers(place: str) -> None:
    """The second host waits for requests that the first sent, and neither sends them again."""
    async with BatchServer(looks_needed=4) as server:
        with open_store(place) as first, open_store(place) as second:
            results = await asyncio.gather(*(ask(server, each, sleep=briefly) for each in (first, second)))
            assert read_pending_jobs(first.backend) == []
    assert all(verdicts.answered.all() for verdicts in results)
    assert (len(server.batches), len(server.bodies)) == (1, 240)


async def test_the_batch_of_a_dead_host_is_resumed_by_a_waiting_one(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leases expire while the other host waits: it fetches the batch without sending requests again."""
    waits, never, clock = asyncio.Event(), asyncio.Event(), Clock()
    messages: list[str] = []

    async def forever(_: float) -> None:
        waits.set()
        await never.wait()

    async def five_seconds(_: float) -> None:
        assert clock.now > LEASE_SECONDS or messages == []
        clock.now += 5

    async with BatchServer(looks_needed=3) as server:
        with open_store(place) as first, open_store(place) as second:
            monkeypatch.setattr(second, "leases", lambda: Leases(second.backend, now=clock))
            dead = asyncio.create_task(ask(server, first, sleep=forever))
            await waits.wait()
            verdicts = await ask(server, second, sleep=five_seconds, said=messages)
            assert messages[0] == "batch batch_0: 240 requests were sent earlier"
            dead.cancel()
            await asyncio.gather(dead, return_exceptions=True)
    assert verdicts.answered.all()
    assert (len(server.batches), len(server.bodies)) == (1, 240)


async def test_a_host_suspended_between_upload_and_start_starts_no_batch(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host may have taken over the record meanwhile."""
    plain, clock = OpenAIBatches.upload, Clock()

    async def five_seconds(_: float) -> None:
        clock.now += 5

    async with BatchServer() as server:
        with open_store(place) as first, open_store(place) as second, monkeypatch.context() as patch:

            async def suspend_and_start(self: OpenAIBatches, text: bytes) -> str:
                file = await plain(self, text)
                patch.setattr(OpenAIBatches, "upload", plain)
                patch.setattr(second, "leases", lambda: Leases(second.backend, now=clock))
                assert (await ask(server, second, sleep=five_seconds)).answered.all()
                return file

            patch.setattr(OpenAIBatches, "upload", suspend_and_start)
            with pytest.raises(JudgeError, match="lease-lost"):
                await ask(server, first)
            assert (await ask(server, first)).answered.all()
    assert (len(server.batches), len(server.bodies)) == (1, 240)


async def test_requests_of_a_recorded_batch_are_not_resent_when_their_leases_expire(any_store: Store) -> None:
    """The batch was recorded while the leases were held, so that the next holder finds it."""
    config = judge_config("http://127.0.0.1:9/v1")
    questions = config.questions()
    a, b = (BatchLeases(any_store, address=questions.address, model=questions.model) for _ in range(2))
    keys = [key for _, key, _ in questions.iter_requests(PLAN)][:10]
    b.record_batch(0.0, keys[:4])
    assert a.release_requests_sent_by_others(keys) == set(keys[4:])
    assert a.waits_for_other_process


async def test_a_host_suspended_before_its_record_records_no_batch(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have sent these requests meanwhile, and would send those of a recorded batch again."""
    stood_still = 0.0
    monkeypatch.setattr(any_store, "leases", lambda: Leases(any_store.backend, now=lambda: time.time() + stood_still))
    leases = BatchLeases(any_store, address="a", model="m")
    leases.record_batch(0.0, ["a"])
    stood_still = LEASE_SECONDS
    with pytest.raises(JudgeError, match="lease-lost"):
        leases.record_batch(0.0, ["b"])
    assert [len(entry.keys) for entry in read_pending_jobs(any_store.backend)] == [1]


async def test_a_judge_without_batches_or_prices_is_refused_before_any_request(place: str, any_store: Store) -> None:
    async with BatchServer() as server:
        with pytest.raises(ConfigError, match="price"):
            await judge_async(PLAN, judge=judge_config(server.url), store=place, max_cost=1.0, mode="batch")
        with pytest.raises(ConfigError, match="unknown-batch-provider"):
            await ask(server, any_store, changes={"backend": "litellm"})
        assert not server.files


async def test_the_api_key_is_only_in_its_header(tmp_path: Path, any_store: Store) -> None:
    async with BatchServer() as server:
        await ask(server, any_store)
        assert all(headers["Authorization"] == f"Bearer {KEY}" for headers in server.headers)
        assert KEY.encode() not in b"".join(server.files.values())
    assert KEY.encode() not in everything_in(tmp_path)


def test_results_of_other_batches_do_not_complete_the_files_of_a_batch() -> None:
    """An unfinished request would count as one that did not run, and would be paid twice."""
    job = Job("http://localhost", "m", 1.0, ("own", "unfinished"), file="f", batch="b", id="j", created=0.0)
    files = [
        b"\n".join(json.dumps({"custom_id": key, "error": {"message": "x"}}).encode() for key in ("own", "foreign"))
    ]
    state = BatchState("completed", ended=True, n_lines=2)
    outcomes, missing_keys = find_outcomes(job, state, files)
    assert (list(outcomes), missing_keys) == (["own"], ["unfinished"])


def test_result_lines_are_read_in_all_formats() -> None:
    text = b"\n".join(
        (
            b'{"custom_id": "a", "response": {"status_code": 200, "body": {"choices": [{"message": {"content": "YES"}}]}}}',
            b'{"custom_id": "b", "response": {"status_code": 200, "body": {}}, "error": null}',
            b'{"custom_id": "c", "response": null, "error": {"code": "batch_expired", "message": "late"}}',
            b'{"custom_id": "d", "response": {"status_code": 400, "body": {"error": {"message": "long"}}}}',
            b'{"custom_id": "e", "response": {"status_code": 404, "body": "?"}}',
            b'{"custom_id": "f"}',
            b'{"custom_id": 7}',
            b"[]",
            b"torn {",
        )
    )
    results = dict(iter_results(text))
    assert isinstance(results["a"], Completion)
    kinds = {key: entry.kind for key, entry in results.items() if isinstance(entry, CallError)}
    assert kinds == {"b": "transient", "c": "transient", "d": "rejected", "e": "fatal"}


@pytest.mark.parametrize("name", [name for name in BATCHES if name in BACKENDS])
async def test_every_batch_provider_judges_a_plan_and_reveals_no_key(any_store: Store, name: str) -> None:
    provider = batch_provider(name, Connection("test", "http://127.0.0.1:9/v1", 1.0, api_key=KEY), RetryPolicy(1, 0.1))
    assert KEY not in repr(vars(provider))
    await provider.aclose()
    async with BatchServer() as server:
        assert (await ask(server, any_store, changes={"backend": name})).answered.all()
