"""Test that no reply, outage or signal breaks a run, exceeds its cap or makes it pay twice.

Fuzzed replies (`twists`, `fuzzing`), stops and outages of a process (`stops`), budgets (`budgets`): a few, and many
as `long`.
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from budgets import Spent, drawn, spend
from commands import wire_judge, write_config
from fuzzing import ASKED_BY, PLAN, Course, check_course, check_whole, judged, undisturbed
from judged import CALLING
from stops import AT_RISK, IN_FLIGHT, PATIENT, Bench, Size, bench, disturbed, outage, sleep, stopped
from twists import HARMLESS, Twist, twists
from unruly_server import Body, Script, Sent, UnrulyServer, healthy, reply_to, sent
from youden.judging.call import learned_rate

EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
STOPS = {how: EXIT_CODES[how.name] for how in signal.Signals if how.name in EXIT_CODES}  # Windows has no SIGHUP
PATIENTLY = ("--grace", str(PATIENT))
"""Grace period in seconds that suffices for all calls in flight on a busy machine."""


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses after many replies with HTTP 429 in a row, of which a fuzzed server sends thousands."""
    for name in ("MIN_PAUSE_SECONDS", "MAX_PAUSE_SECONDS", "MAX_BACKOFF_SECONDS"):
        monkeypatch.setattr(learned_rate, name, 0.01)


def courses(backend: str) -> st.SearchStrategy[Course]:
    """Generate runs over `backend` with any number of faulty replies."""
    return st.builds(
        Course,
        st.just(backend),
        st.lists(st.none() | twists(), min_size=1, max_size=12).map(tuple),
        st.sampled_from(("text", "logprobs")),
        st.none() | st.sampled_from((0.2, 0.5, 0.9)),
    )


def fuzz(backend: str, n_runs: int) -> int:
    """Run and resume many courses; return the number of sent replies."""
    n_sent = 0

    @settings(
        max_examples=n_runs,
        deadline=None,
        database=None,
        derandomize=n_runs < 100,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    @given(courses(backend))
    def run(course: Course) -> None:
        nonlocal n_sent
        n_sent += asyncio.run(check_course(course))

    run()
    return n_sent


@pytest.mark.slow
@pytest.mark.parametrize("backend", ASKED_BY)
def test_arbitrary_replies_do_not_break_a_run_its_resumption_or_its_cap(backend: str) -> None:
    assert fuzz(backend, 2) >= 2 * len(PLAN)


@pytest.mark.parametrize("backend", CALLING)
@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[] if form == "charset" else pytest.mark.slow) for form in HARMLESS]
)
async def test_unusual_but_valid_replies_are_answers(backend: str, form: str) -> None:
    await check_course(Course(backend, (None, Twist("harmless", value=form))))


@pytest.mark.long
@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("backend", ASKED_BY)
def test_twenty_thousand_arbitrary_replies_do_not_break_a_run(backend: str) -> None:
    assert fuzz(backend, 20_000 // len(PLAN) // len(ASKED_BY) + 1) >= 20_000 / len(ASKED_BY)


ONE_BY_ONE = {
    "fingerprint": Twist("field", ("system_fingerprint",), ["a"]),
    "model": Twist("field", ("model",), ["m"]),
    "odds": Twist("field", ("choices", 0, "logprobs", "content", 0, "top_logprobs", 0, "logprob"), 800),
    "odds nan": Twist("field", ("choices", 0, "logprobs", "content", 0, "top_logprobs", 0, "logprob"), "nan"),
    "odds inf": Twist("field", ("choices", 0, "logprobs", "content", 0, "top_logprobs", 0, "logprob"), "inf"),
    "tokens": Twist("field", ("usage", "prompt_tokens"), 10**15),
    "negative": Twist("field", ("usage", "prompt_tokens"), -100_000),
    "bomb": Twist("form", value="bomb"),
    "error inside": Twist("error inside", value="insufficient_quota"),
    "redirect": Twist("status", value=(307, "0")),
    "created": Twist("status", value=(201, "0")),
    "absurd zone": Twist("status", value=(503, "Thu, 01 Jan 1970 00:00:00 +9999999999999999")),
    "nested deep": Twist("error body", value=(500, "deep message")),
}


def quick(backend: str, name: str, decision: str) -> bool:
    """Return whether the case is in the core tests: fields are read by one function, other faults by each client."""
    ways = {"openai": ("redirect", "absurd zone", "nested deep"), "batch": ("fingerprint", "odds nan", "tokens")}
    return decision == "logprobs" and (backend == "wire" or name in ways.get(backend, ()))


@pytest.mark.parametrize(
    ("backend", "name", "decision"),
    [
        pytest.param(*case, marks=[] if quick(*case) else pytest.mark.slow)
        for case in product(ASKED_BY, ONE_BY_ONE, ("text", "logprobs"))
    ],
)
async def test_replies_that_once_broke_a_run_are_handled(
    backend: str, name: str, decision: Literal["text", "logprobs"]
) -> None:
    twist = ONE_BY_ONE[name]
    await check_course(Course(backend, (None, None, None, None, twist), decision, cap=0.5))


async def only(backend: str, script: Script, folder: Path, *, cap: float | None = None) -> tuple[UnrulyServer, str]:
    """Run with `script` from the start, resume with a repaired server, and return the first output."""
    course = Course(backend, (None,))
    async with UnrulyServer(script) as server:
        first = await judged(server.url, course, folder / "v.db", retry_failed=False, cap=cap)
        server.script = healthy
        again = await judged(server.url, course, folder / "v.db", retry_failed=False, cap=None)
        assert again.error is None, again.error
        check_whole(again.verdicts, await undisturbed(course))
    return server, str(first.error)


SERVED = [backend for backend in ASKED_BY if backend != "batch"]


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize("backend", SERVED)
async def test_redirects_are_not_followed_and_their_address_is_reported(
    backend: str, status: int, tmp_path: Path
) -> None:
    async with UnrulyServer() as trap:

        def script(_n: int, _key: str, _body: Body) -> Sent:
            return Sent(b"", status=status, headers={"Location": f"{trap.url[:-3]}/trap/x"}, billed=False)

        _, output = await only(backend, script, tmp_path)
        assert trap.trapped == []
        assert trap.n_requests == 0
    assert "/trap/x" in output


@pytest.mark.parametrize("backend", SERVED)
async def test_early_rejections_and_errors_inside_a_success_end_the_run(backend: str, tmp_path: Path) -> None:
    rejected = sent({"error": {"message": "as told"}}, status=451, billed=False)
    inside = sent({"error": {"code": "insufficient_quota", "message": "Top up, please."}}, billed=False)
    for number, (reply, says, n_most) in enumerate(
        ((rejected, r"as told", 16), (inside, r"Top up, please\..*\[judge-quota\]", 8))
    ):
        (folder := tmp_path / str(number)).mkdir()
        server, output = await only(backend, lambda *_, reply=reply: reply, folder)
        assert re.search(says, output), output
        assert server.n_requests <= len(PLAN) + n_most


@pytest.mark.parametrize("backend", SERVED)
async def test_a_billed_answer_is_stored_for_any_success_status(backend: str, tmp_path: Path) -> None:
    server, _ = await only(backend, lambda _n, _key, body: sent(reply_to(body), status=206), tmp_path)
    assert server.n_requests == len(PLAN)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_a_stop_loses_no_billed_answer(how: signal.Signals, tmp_path: Path) -> None:
    await stop_and_go_on(tmp_path, how, n_stops=1, size=Size(calls=300, slowest=0.5))


@pytest.mark.long
@pytest.mark.parametrize("how", STOPS)
async def test_twenty_stops_lose_no_billed_answer(how: signal.Signals, tmp_path: Path) -> None:
    await stop_and_go_on(tmp_path, how, n_stops=20, size=Size(calls=1500, n_items=60))


async def stop_and_go_on(folder: Path, how: signal.Signals, *, n_stops: int, size: Size) -> None:
    dice = random.Random(int(how))
    async with UnrulyServer() as server:
        run = await bench(folder, server, size=size)
        for _ in range(n_stops):
            before = server.n_requests
            at = before + dice.randint(1, max(2, size.calls // n_stops))
            ended = await stopped(run, how, at=at, words=("run", "r.yaml", *PATIENTLY))
            if ended is None:
                break
            assert ended.code == STOPS[how], ended.output
            assert "Traceback" not in ended.output
            assert (run.lost, run.paid_twice) == (0, 0)
        last = await run.finish()
        assert last.code == 0, last.output
        assert (run.lost, run.paid_twice) == (0, 0)
        await check_equal_to_undisturbed(run)


async def check_equal_to_undisturbed(run: Bench) -> None:
    """Check that the tables equal those of an undisturbed run, which sends every request again."""
    tables = run.tables()
    run.forget()
    assert (await run.finish()).code == 0
    assert run.tables() == tables


def either(_n: int, _key: str, body: Body) -> Sent:
    """Answer any text after a delay."""
    items = re.findall(r"says something of item (\d+)", str(body))
    return replace(sent(reply_to(body, said="YES" if items[:1] == items[1:] else "NO")), delay=0.3)


OTHERS = {
    "calibrate": ("calibrate", "r.yaml", "--calls", "300", "--store", "tried.db"),
    "generate": ("generate", "agents.yaml", "items.csv", "--out", "made", "--max-cost", "100000"),
    "extend": ("extend", "calls", "runs/r", "300", "--max-cost", "100000"),
    "rejudge": ("rejudge", "runs/r", "--judge", "second.yaml", "--calls", "200", "--max-cost", "100000"),
}


@pytest.mark.parametrize(
    ("command", "how"),
    [
        pytest.param(command, how, marks=pytest.mark.slow if (n + by) % 2 and n < 3 else pytest.mark.long)
        for n, command in enumerate(OTHERS)
        for by, how in enumerate((signal.SIGINT, signal.SIGTERM))
    ],
)
async def test_other_stopped_commands_lose_no_billed_answer(command: str, how: signal.Signals, tmp_path: Path) -> None:
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server, size=Size(calls=300, slowest=0.5))
        if command in ("calibrate", "generate"):
            server.script = either
        judge = wire_judge(server.url, model="b", price=1000)
        write_config(tmp_path / "second.yaml", **judge)
        agents = [{"id": name, "model": "m", "instruction": "mine.md"} for name in ("a", "b")]
        write_config(tmp_path / "agents.yaml", models={"m": judge | {"model": "m"}}, agents=agents)
        (tmp_path / "mine.md").write_text("Rewrite {{text}}", encoding="utf-8")
        lines = [f"source,i{n},A text.,Text {n} says something of item {n}." for n in range(150)]
        (tmp_path / "items.csv").write_text("\n".join(["agent,item,text,prompt", *lines]), encoding="utf-8")
        if command in ("extend", "rejudge"):
            assert (await run.finish()).code == 0
        ended = await stopped(run, how, at=server.n_requests + 70, words=(*OTHERS[command], *PATIENTLY))
        assert ended is not None
        assert ended.code == STOPS[how], ended.output
        assert "Traceback" not in ended.output
        last = await run.end(await run.start(*OTHERS[command]), within=300)
        assert last.code in (0, 1), last.output
        assert sum(server.bill.paid.values()) == run.kept


PYTHON = """
import youden
pool = youden.read_pool("pool")
plan = youden.make_plan(pool, design="cyclic", calls=300, holdout=0.0, seed=0)
print(youden.judge(plan, judge="judge.yaml", store="v.db", max_cost=100000).answered.all())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
async def test_a_stopped_judge_call_in_python_loses_no_billed_answer(how: signal.Signals, tmp_path: Path) -> None:
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server, size=Size(slowest=0.5))
        write_config(tmp_path / "judge.yaml", **wire_judge(server.url, price=1000))
        ended = await stopped(run, how, at=70, words=("-c", PYTHON))
        assert ended is not None
        assert ended.code == -how, ended.output
        last = await run.end(await run.start("-c", PYTHON), within=300)
        assert (last.code, last.output.strip().endswith("True")) == (0, True), last.output
        assert run.paid_twice == 0


@pytest.mark.slow
async def test_a_second_signal_ends_the_command_at_once(tmp_path: Path) -> None:
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server, size=Size(slowest=300.0))
        process = await run.start("run", "r.yaml", "--grace", "300")
        assert await run.until(IN_FLIGHT, process)
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        assert process.returncode is None
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 130


async def check_survives(folder: Path, seconds: float, *, asleep: bool, seed: int = 0, within: float = 300) -> None:
    """Check that a run without a server, or suspended, completes by itself afterwards."""
    async with UnrulyServer() as server:
        run = await bench(folder, server, size=Size(calls=400, slowest=0.3))
        at = random.Random(seed).randint(1, 300)
        disturb = sleep(seconds) if asleep else outage(run, seconds)
        ended = await disturbed(run, disturb, at=at, within=seconds + within)
        assert ended.code == 0, ended.output
        assert run.lost == 0
        assert run.paid_twice <= IN_FLIGHT
        await check_equal_to_undisturbed(run)


@pytest.mark.slow
async def test_an_outage_is_survived(tmp_path: Path) -> None:
    await check_survives(tmp_path, 5, asleep=False)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [5, 30, 120])
@pytest.mark.parametrize("seed", [0, 1])
async def test_repeated_outages_are_survived(seconds: float, seed: int, tmp_path: Path) -> None:
    await check_survives(tmp_path, seconds, asleep=False, seed=seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
async def test_a_suspended_machine_is_survived(seed: int, tmp_path: Path) -> None:
    await check_survives(tmp_path, 60, asleep=True, seed=seed)


async def kill_and_go_on(folder: Path, *, n_kills: int, size: Size) -> None:
    dice = random.Random(1)
    async with UnrulyServer() as server:
        run = await bench(folder, server, size=size)
        n_killed = 0
        for _ in range(n_kills):
            at = server.n_requests + dice.randint(1, max(2, size.calls // n_kills))
            if await stopped(run, signal.SIGKILL, at=at) is None:
                break
            n_killed += 1
            assert run.lost <= AT_RISK
        assert (await run.finish()).code == 0
        assert run.lost == 0
        assert run.paid_twice <= n_killed * AT_RISK
        await check_equal_to_undisturbed(run)


@pytest.mark.slow
async def test_a_kill_loses_at_most_the_stated_number_of_calls(tmp_path: Path) -> None:
    await kill_and_go_on(tmp_path, n_kills=1, size=Size(calls=300, slowest=0.3))


@pytest.mark.long
async def test_twenty_five_kills_lose_at_most_the_stated_number_of_calls(tmp_path: Path) -> None:
    await kill_and_go_on(tmp_path, n_kills=25, size=Size(calls=2500, n_items=90, slowest=0.5))


def check_spent(spent: Spent, *, told: bool) -> None:
    """Check the spent amounts; `told` is whether every reply reports its true usage."""
    assert spent.billed <= spent.cap * (1 + 1e-9), spent
    if spent.reported is not None:
        assert spent.reported >= spent.billed * (1 - 1e-5), spent
        if told:
            assert spent.reported <= 1.25 * spent.billed + 1e-9, spent


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_bill_of_the_server_is_within_the_cap(seed: int, tmp_path: Path) -> None:
    budget = drawn(seed)
    check_spent(spend(budget, tmp_path), told=budget.usage == "honest")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 104))
def test_the_bill_of_the_server_is_within_the_cap_in_a_hundred_commands(seed: int, tmp_path: Path) -> None:
    budget = drawn(seed)
    check_spent(spend(budget, tmp_path), told=budget.usage == "honest")
