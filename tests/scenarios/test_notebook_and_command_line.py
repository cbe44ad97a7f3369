"""A notebook user takes every step in Python; a colleague gets the same numbers on the command line without paying again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import youden as yd
from commands import Youden, wire_judge, write_config
from simulated_judge import PRICE, SimulatedJudge, respond
from unruly_server import UnrulyServer
from wire_server import running

ABILITY = {"amber": -0.2, "blue": 0.0, "coral": 0.1, "denim": 0.2, "ebony": 0.4}
NEW = {"fuchsia": 0.3}
ITEMS = [f"question-{n:02}" for n in range(20)]
EXIT_CODES = {"better": 0, "no worse": 0, "worse": 1, "undecided": 3}


def write_table(path: str, agents: list[str]) -> pd.DataFrame:
    """Write the responses of agents as CSV, and return the table."""
    rows = [(agent, item, respond(agent, item)) for agent in agents for item in ITEMS]
    table = pd.DataFrame(rows, columns=["agent", "item", "text"])
    table.to_csv(path, index=False)
    return table


def assert_equal_tables(result: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Check that the numbers of two tables are equal, whatever their missing values are called."""
    numbers = expected.select_dtypes("number").dropna(axis="columns").columns
    assert {"ability", "low", "high"} <= {*numbers} or {"quality", "low", "high"} <= {*numbers}
    assert result["agent"].tolist() == expected["agent"].tolist()
    pd.testing.assert_frame_equal(result[numbers], expected[numbers], check_dtype=False, rtol=1e-12)


def without_folder(gate: dict[str, Any]) -> Any:
    return json.loads(json.dumps({**gate, "folder": None}))


@pytest.mark.slow
def test_python_and_the_command_line_agree_on_every_number(youden: Youden, tmp_path: Path) -> None:
    with running(UnrulyServer(SimulatedJudge(ABILITY | NEW))) as server:
        write_config(tmp_path / "paid.yaml", **wire_judge(server.url, price=PRICE))
        responses, newcomers = write_table("responses.csv", [*ABILITY]), write_table("new.csv", [*NEW])
        settings: dict[str, Any] = {"calls": 600, "seed": 3}

        # Python, step by step, in a notebook with a running event loop
        plan = yd.make_plan(yd.read_pool(responses), **settings)
        cost = plan.cost("paid.yaml")

        async def execute_cell() -> yd.types.Verdicts:
            return yd.judge(plan, judge="paid.yaml", max_cost=1)

        verdicts = asyncio.run(execute_cell())
        assert server.n_requests == len(plan) == cost.calls
        assert cost.usd is not None
        assert server.bill.usd(PRICE) <= cost.usd
        ranking = yd.rank(verdicts)
        scores = verdicts.rates().training_scores()
        model = yd.ClippedLinear().fit(scores)

        # the same on the command line
        write_config(tmp_path / "cli.yaml", pool="responses.csv", judge="paid.yaml", max_cost=1, **settings)
        youden("run", "cli.yaml").well()
        assert_equal_tables(ranking, pd.read_csv("runs/cli/ranking.csv"))
        table = pd.read_csv("runs/cli/scores.csv", index_col="agent")
        assert [*table.index] == [*ABILITY]
        assert yd.ClippedLinear().fit(table.to_numpy()).ability_ == pytest.approx(model.ability_)

        # the same in one call
        run = yd.run(responses, judge="paid.yaml", max_cost=1, out="runs/notebook", progress=False, **settings)
        assert_equal_tables(run.ranking, pd.read_csv("runs/cli/ranking.csv"))
        assert server.n_requests == len(plan)

        youden("extend", "agents", "runs/cli", "new.csv", "--max-cost", "1").well()
        n_requests = server.n_requests
        run.extend(newcomers, max_cost=1, progress=False)
        assert n_requests == server.n_requests > len(plan)
        assert_equal_tables(run.ranking, pd.read_csv("runs/cli/ranking.csv"))
        assert_equal_tables(yd.read_run("runs/cli").ranking, run.ranking)
    assert (server.bill.n_paid_twice, len(server.bill.paid)) == (0, n_requests)

    # none of the following commands sends a request
    gate = run.gate("fuchsia", baseline="amber")
    printed = youden("gate", "runs/cli", "--agent", "fuchsia", "--baseline", "amber", "--json")
    assert printed.code == EXIT_CODES[gate.outcome]
    assert gate.outcome != "worse"
    assert without_folder(json.loads(printed.out)) == without_folder(gate.to_json())

    labels = pd.DataFrame([(agent, item, k >= 3) for k, agent in enumerate([*ABILITY, *NEW]) for item in ITEMS[:5]])
    labels = labels.set_axis(["agent", "item", "label"], axis="columns").astype({"label": int})
    labels.to_csv("labels.csv", index=False)
    said = youden("quality", "runs/cli", "--labels", "labels.csv", "--json").said
    assert_equal_tables(run.quality(labels), pd.DataFrame(said["agents"]))

    lexical = yd.run(responses, judge="lexical", out="runs/lexical", progress=False)
    study = yd.compare(run, lexical)
    printed = youden("compare", "runs/notebook", "runs/lexical", "--json")
    assert printed.said["judges"]["summary"][: len(study.summary)] == [*study.summary]
    assert printed.said["judges"]["n_agents"] == len(ABILITY)
