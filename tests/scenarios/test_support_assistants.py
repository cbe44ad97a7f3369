"""An evaluation engineer chooses one of nine support assistants from a spreadsheet, and gates the next versions in CI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from commands import Youden, wire_judge, write_config
from simulated_judge import PRICE, SimulatedJudge, read_abilities, read_cost, respond
from unruly_server import UnrulyServer
from wire_server import running

ABILITY = {
    "aster": -0.3,
    "birch": -0.2,
    "cedar": -0.1,
    "dahlia": 0.0,
    "elder": 0.05,
    "fern": 0.1,
    "ginkgo": 0.1,
    "hazel": 0.15,
    "iris": 0.45,
}
NEW_VERSIONS = {"iris-2": 0.46, "iris-3": 0.0}
TICKETS = [f"T-{n:03}" for n in range(30)]


def write_sheet(assistants: Sequence[str]) -> int:
    """Write one row per ticket and one column per assistant, and return the number of empty cells."""
    sheet = pd.DataFrame({"ticket": TICKETS})
    sheet["channel"] = [["mail", "chat"][n % 2] for n in range(len(TICKETS))]
    sheet["language"] = [["de", "en", "fr"][n % 3] for n in range(len(TICKETS))]
    sheet["priority"] = [n % 4 for n in range(len(TICKETS))]
    sheet["question"] = [f"What can I do about problem {n} of my order?" for n in range(len(TICKETS))]
    for k, assistant in enumerate(assistants):
        sheet[assistant] = [respond(assistant, ticket) for ticket in TICKETS]
        if assistant in ABILITY:
            sheet.loc[(sheet.index * 7 + k * 5) % 43 == 0, assistant] = None
    sheet.to_excel("tickets.xlsx", index=False)
    return int(sheet[[*assistants]].isna().sum().sum())


@pytest.mark.slow
def test_an_engineer_chooses_an_assistant_and_gates_its_next_versions(youden: Youden, tmp_path: Path) -> None:
    with running(UnrulyServer(SimulatedJudge(ABILITY | NEW_VERSIONS))) as server:
        write_config(tmp_path / "paid.yaml", **wire_judge(server.url, price=PRICE))
        n_empty = write_sheet([*ABILITY])
        started = youden("init", "tickets.xlsx", "--judge", "paid.yaml").well()
        assert f"\n{n_empty} empty responses" in started.out + started.err

        plan = youden("plan", "tickets.yaml", "--calls", "200/agent", "--max-cost", "0.2", "--json").said
        assert (plan["coverage"]["cells"], server.n_requests) == (len(ABILITY) * len(TICKETS), 0)

        # The first command stops at its cap. The second one completes the run, and pays for no request again.
        budget = ("run", "tickets.yaml", "--calls", "200/agent", "--json")
        assert youden(*budget, "--max-cost", "0.2").code == 1
        assert 0.15 < server.bill.usd(PRICE) <= 0.2
        assert plan["calls_within_max_cost"] == pytest.approx(server.n_requests, rel=0.1)
        result = youden(*budget).said
        assert (result["recommendation"]["form"], result["recommendation"]["agents"]) == ("recommended", ["iris"])
        assert read_cost("runs/tickets") == pytest.approx(server.bill.usd(PRICE))
        assert server.bill.usd(PRICE) <= plan["cost"]["usd"]
        n_requests = server.n_requests
        assert youden(*budget).said == result
        assert server.n_requests == n_requests

        # The new versions are two more columns of the spreadsheet.
        before, paid_before = read_abilities("runs/tickets"), server.bill.usd(PRICE)
        write_sheet([*ABILITY, *NEW_VERSIONS])
        assert "youden extend agents runs/tickets pools/tickets-2" in youden("init", "tickets.xlsx").well().out
        extend = ("extend", "agents", "runs/tickets", "pools/tickets-2", "--max-cost", "0.5", "--json")
        stated = youden(*extend, "--dry-run").said["cost"]["usd"]
        assert youden(*extend).said["extension"]["joined"] == [*NEW_VERSIONS]
        assert server.bill.usd(PRICE) - paid_before <= stated <= 0.5
        after = read_abilities("runs/tickets")
        assert after.keys() == before.keys() | NEW_VERSIONS.keys()
        assert {agent: after[agent] for agent in before} == before

        # CI accepts the equal version or asks for more calls, and rejects the worse one.
        gate = ("gate", "runs/tickets", "--baseline", "iris", "--agent")
        equal, worse = youden(*gate, "iris-2", "--json"), youden(*gate, "iris-3", "--junit", "gate.xml")
        assert equal.code in (0, 3)
        assert worse.code == 1
        assert len(ElementTree.parse("gate.xml").findall(".//failure")) == 1
        assert youden(*gate, "iris-2", "--json") == equal

        youden("report", "runs/tickets").well()
        assert (tmp_path / "runs/tickets/report.html").stat().st_size > 10_000
    assert read_cost("runs/tickets") == pytest.approx(server.bill.usd(PRICE))
    assert (server.bill.n_paid_twice, len(server.bill.paid)) == (0, server.n_requests)
