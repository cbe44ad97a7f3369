"""A researcher ranks published outputs by shared words, then by a language model, and checks the result with labels."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import youden as yd
from commands import Youden, wire_judge, write_config
from simulated_judge import PRICE, SimulatedJudge, count_wrong_signs, read_cost, respond
from unruly_server import UnrulyServer
from wire_server import running

MODELS = [f"model-{n}" for n in range(8)]
"""Models, worst first."""
ABILITY = {model: -0.35 + 0.1 * n for n, model in enumerate(MODELS)}
INSTRUCTIONS = [f"task-{n:02}" for n in range(24)]


def make_outputs() -> pd.DataFrame:
    """Return one row per output, with the columns of AlpacaEval; better models name more facts."""
    rows = [
        (f"Please solve {task}.", respond(model, task, n_facts=2 + n), model)
        for n, model in enumerate(MODELS)
        for task in INSTRUCTIONS
    ]
    return pd.DataFrame(rows, columns=["instruction", "output", "generator"])


def fill_in_labels(path: str) -> None:
    """Label the responses in a table of `youden label`: 1 if a response names at least five facts, else 0."""
    table = pd.read_csv(path)
    assert not {"agent", "generator", *MODELS} & {*table.columns}
    table["label"] = [int(text.count("fact") >= 5) for text in table["text"]]
    table.to_csv(path, index=False)


@pytest.mark.slow
def test_a_researcher_checks_a_ranking_with_a_second_judge_and_labels(youden: Youden, tmp_path: Path) -> None:
    make_outputs().to_csv("outputs.csv", index=False)
    youden("init", "outputs.csv").well()
    youden("run", "outputs.yaml", "--calls", "120/agent").well()
    free = yd.read_run("runs/outputs")
    assert set(free.ranking["agent"]) == {*MODELS}
    assert count_wrong_signs(free.differences, ABILITY) == 0

    with running(UnrulyServer(SimulatedJudge(ABILITY))) as server:
        write_config(tmp_path / "paid.yaml", **wire_judge(server.url, price=PRICE))
        youden("rejudge", "runs/outputs", "--judge", "paid.yaml", "--calls", "60/agent", "--max-cost", "0.3").well()
    paid = yd.read_run("runs/outputs-by-paid")
    assert read_cost(paid) == pytest.approx(server.bill.usd(PRICE))
    assert server.bill.usd(PRICE) <= 0.3
    assert (server.bill.n_paid_twice, server.n_requests) == (0, len(paid.plan))
    assert count_wrong_signs(paid.differences, ABILITY) == 0
    (pair,) = youden("compare", "runs/outputs", "runs/outputs-by-paid", "--json").said["judges"]["pairs"]
    assert (pair["n_units"], pair["orders"]["n_reversed"]) == (len(paid.plan), 0)

    budgets = ("--calls", "20/agent,60/agent", "--design", "cyclic", "--n-seeds", "2")
    small, large = youden("study", "budget", "runs/outputs", *budgets, "--json").said["budget"]["designs"]["cyclic"]
    assert small["calls"] < large["calls"]
    assert small["half_width"] > large["half_width"]

    youden("label", "runs/outputs", "--next", "40", "--out", "to-label.csv").well()
    fill_in_labels("to-label.csv")
    quality = youden("quality", "runs/outputs", "--labels", "to-label.csv", "--json").said
    assert quality["n_labels"] == 40
    assert MODELS[-1] in quality["recommendation"]["agents"]
    assert MODELS[0] not in quality["recommendation"]["agents"]
    for run, chart in (("runs/outputs", "quality"), ("runs/outputs-by-paid", "ranking")):
        youden("report", run, "--format", "svg", "--chart", chart, "--out", f"{chart}.svg").well()
        assert all(model in (tmp_path / f"{chart}.svg").read_text(encoding="utf-8") for model in MODELS)


@pytest.mark.slow
def test_five_seeds_give_no_significant_difference_of_the_wrong_sign(youden: Youden) -> None:
    columns = {"generator": "agent", "instruction": "item", "output": "text"}
    responses = make_outputs().rename(columns=columns)
    n_significant = 0
    with running(UnrulyServer()) as server:
        for seed in range(5):
            server.script = SimulatedJudge(ABILITY, seed=seed)
            judge = wire_judge(server.url, price=PRICE, model=f"judge-{seed}")
            out = f"runs/{seed}"
            run = yd.run(responses, judge=judge, max_cost=1, calls=500, seed=seed, out=out, progress=False)
            assert count_wrong_signs(run.differences, ABILITY) == 0
            assert MODELS[-1] in run.recommendation.agents or run.recommendation.form == "none"
            n_significant += int(run.differences["significantly_better"].sum())
    assert n_significant > 0
