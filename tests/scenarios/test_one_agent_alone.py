"""A team with one agent compares today's version with yesterday's, repeats the run from a cassette, and judges it offline."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from commands import Youden, wire_judge, write_config
from simulated_judge import PRICE, SimulatedJudge, read_abilities, read_cost, respond
from toy_engine import USED, run_batch
from unruly_server import Body, UnrulyServer
from wire_server import Reply, running

JUDGE = SimulatedJudge({"yesterday": 0.25, "stable": 0.25, "worse": -0.2, "unclear": 0.22})
N_ITEMS = {"stable": 40, "worse": 30, "unclear": 12}
EXIT_CODES = {"stable": 0, "worse": 1, "unclear": 3}


def write_versions(version: str) -> None:
    """Write a table with three responses to each item, of yesterday's version and of another one."""
    rows = [
        (agent, f"case-{n:02}", repeat, respond(agent, f"case-{n:02}", repeat=repeat))
        for agent in ("yesterday", version)
        for n in range(N_ITEMS[version])
        for repeat in (1, 2, 3)
    ]
    pd.DataFrame(rows, columns=["agent", "item", "repeat", "text"]).to_csv(f"{version}.csv", index=False)


def answer_offline(requests: Path, results: Path) -> int:
    """Answer an exported file as an offline engine does, and return the number of its requests."""

    def decide(_n: int, body: Body) -> Reply:
        return Reply(JUDGE.answer(body), usage=USED)

    run_batch(requests, results, decide=decide)
    return len(requests.read_text(encoding="utf-8").splitlines())


@pytest.mark.slow
def test_a_gate_of_two_versions_has_the_right_exit_code_and_is_repeated_for_free(
    youden: Youden, tmp_path: Path
) -> None:
    with running(UnrulyServer(JUDGE)) as server:
        write_config(tmp_path / "paid.yaml", **wire_judge(server.url, price=PRICE))
        for version, exit_code in EXIT_CODES.items():
            paid_before = server.bill.usd(PRICE)
            write_versions(version)
            youden("init", f"{version}.csv", "--judge", "paid.yaml").well()
            result = youden("run", f"{version}.yaml", "--json").said
            assert result["recommendation"]["form"] == "none"
            assert {row["agent"] for row in result["ranking"]} == {"yesterday", version}
            assert read_cost(f"runs/{version}") == pytest.approx(server.bill.usd(PRICE) - paid_before)
            gate = ("gate", f"runs/{version}", "--agent", version, "--baseline", "yesterday", "--margin", "0.15")
            assert youden(*gate).code == exit_code, version
            assert youden("report", f"runs/{version}").code == 0
        assert server.bill.n_paid_twice == 0
    expected = read_abilities("runs/stable")
    n_requests = server.n_requests

    # A cassette repeats the run without a network.
    youden("cassette", "export", "runs/stable", "--out", "stable.jsonl").well()
    youden("cassette", "verify", "stable.jsonl", "runs/stable").well()
    youden("cassette", "import", "stable.jsonl", "--store", "replay.db").well()
    write_config(tmp_path / "replay.yaml", pool="stable.csv", judge={"backend": "replay"}, store="replay.db")
    youden("run", "replay.yaml").well()
    assert (read_abilities("runs/replay"), read_cost("runs/replay")) == (expected, 0)

    # An offline engine answers the same requests. After the first of two files, the run is incomplete.
    offline = ("stable.yaml", "--out", "runs/offline", "--store", "offline.db")
    youden("plan", *offline, "--export", "export", "--shards", "2").well()
    n_answered = answer_offline(Path("export/requests-0.jsonl"), Path("answers-0.jsonl"))
    assert youden("judge", *offline, "--import", "answers-0.jsonl").code == 1
    n_answered += answer_offline(Path("export/requests-1.jsonl"), Path("answers-1.jsonl"))
    youden("judge", *offline, "--import", "answers-1.jsonl").well()
    youden("fit", "runs/offline").well()
    assert read_abilities("runs/offline") == expected
    calls = json.loads(Path("runs/offline/fit.json").read_text(encoding="utf-8"))["calls"]
    assert (calls["n_paired"] + calls["n_independent"], calls["usd"]) == (n_answered, None)
    assert server.n_requests == n_requests
