"""Test the report of a command whose provider returns implausible token counts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from commands import Youden, wire_judge, write_small_run
from wire_server import Reply, WireServer, same_item

BOOKED = r"answers of 'm' reported no credible token usage"


def times_500(n: int, body: Mapping[str, Any]) -> Reply:
    """Report 500 times the possible usage in every third reply."""
    usage = {"prompt_tokens": 100, "completion_tokens": 1}
    return Reply(same_item(body), usage={k: 500 * v for k, v in usage.items()} if n % 3 == 0 else usage)


@pytest.fixture
def overbilled_folder(tmp_path: Path, server: WireServer) -> Path:
    judge = wire_judge(server.url, name="m", price_in=100, price_out=100)
    write_small_run(tmp_path, judge={key: value for key, value in judge.items() if key != "price"})
    server.behave = times_500
    return tmp_path


@pytest.mark.parametrize("command", ["run", "judge"])
def test_a_run_at_its_cap_reports_how_many_answers_were_booked_at_their_maximum(
    youden: Youden, overbilled_folder: Path, command: str
) -> None:
    ended = youden(command, "r.yaml", "--max-cost", "2")
    assert (ended.code, ended.err.rstrip().endswith("[budget]")) == (1, True), ended.err
    message = ended.err[ended.err.index("error: ") :]
    assert BOOKED in message
    assert "(one of them: it reports 50,000 tokens in and 500 out" in message
    assert re.search(r"The maximum cost, \S+ USD, is booked", message)


def test_a_run_that_stops_for_another_reason_reports_them_too(
    youden: Youden, overbilled_folder: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: times_500(n, body) if n < 50 else Reply("", status=401)
    ended = youden("run", "r.yaml", "--max-cost", "1000")
    assert (ended.code, BOOKED in ended.err[ended.err.index("error: ") :]) == (2, True), ended.err


@pytest.mark.parametrize(
    "words",
    [
        ["run", "r.yaml"],
        ["run", "r.yaml", "--verbose"],
        ["judge", "r.yaml"],
    ],
)
def test_the_last_line_of_a_completed_run_reports_them(
    youden: Youden, overbilled_folder: Path, words: list[str]
) -> None:
    ended = youden(*words, "--max-cost", "1000").well()
    last = ended.err.rstrip().splitlines()[-1]
    assert BOOKED in last
    assert "booked at the maximum cost, $" in last


@pytest.mark.slow
def test_an_extension_and_a_second_judge_report_them(
    youden: Youden, overbilled_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, body: Reply(same_item(body))
    assert BOOKED not in youden("run", "r.yaml", "--max-cost", "1000").well().err
    server.behave = times_500
    ended = youden("extend", "calls", "runs/r", "30", "--max-cost", "1000").well()
    assert BOOKED in ended.err.rstrip().splitlines()[-1]
    second = wire_judge(server.url, name="m", model="other", price_in=100, price_out=100)
    del second["price"]
    (overbilled_folder / "other.yaml").write_text(json.dumps(second))
    ended = youden("rejudge", "runs/r", "--judge", "other.yaml", "--calls", "60", "--max-cost", "1000").well()
    assert BOOKED in ended.err.rstrip().splitlines()[-1]


@pytest.mark.parametrize("cap", ["0.5", "1000"])
def test_pool_generation_reports_them(youden: Youden, overbilled_folder: Path, server: WireServer, cap: str) -> None:
    model = wire_judge(server.url, name="m", price_in=100, price_out=100)
    del model["price"]
    (overbilled_folder / "agents.yaml").write_text(
        json.dumps(
            {"models": {"m": model}, "agents": [{"id": name, "model": "m", "instruction": "i.md"} for name in "ab"]}
        )
    )
    (overbilled_folder / "i.md").write_text("Rewrite {{text}}")
    items = [json.dumps({"id": f"i{n}", "prompt": f"Why {n}?"}) for n in range(6)]
    (overbilled_folder / "items.jsonl").write_text("\n".join(items))
    usage = {"prompt_tokens": 50_000, "completion_tokens": 500}
    server.behave = lambda n, _body: Reply(f"Because {n}.", usage=usage)
    ended = youden("generate", "agents.yaml", "items.jsonl", "--out", "made", "--max-cost", cap)
    assert (ended.code, BOOKED in ended.err) == (1 if cap == "0.5" else 0, True), ended.err


def test_free_calls_are_booked_at_zero_and_not_reported(
    youden: Youden, overbilled_folder: Path, server: WireServer
) -> None:
    write_small_run(overbilled_folder, judge=wire_judge(server.url, name="m"))
    assert "credible" not in youden("run", "r.yaml").well().err
