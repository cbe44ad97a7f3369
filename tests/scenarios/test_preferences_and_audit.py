"""An analyst ranks models by battles of an arena and a score table, and finds one that is preferred for a constant response."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest

import youden as yd
from commands import Youden, wire_judge, write_config
from simulated_judge import PRICE, SimulatedJudge, count_wrong_signs, read_cost, respond
from unruly_server import UnrulyServer
from wire_server import running

MERIT = {"fig": 0.4, "elm": 0.25, "dogwood": 0.1, "cherry": -0.1, "beech": -0.25, "alder": -0.4}
"""Models, best first."""
QUESTIONS = [f"q{n:02}" for n in range(40)]


def write_battles(*, n_battles: int, position_bias: float, seed: int) -> int:
    """Write battles with the columns of LMArena, in which model_a was shown first, and return the number of ties."""
    rng = random.Random(seed)
    rows = []
    for n in range(n_battles):
        model_a, model_b = rng.sample([*MERIT], 2)
        p_a = 0.5 + (MERIT[model_a] - MERIT[model_b]) / 2 + position_bias
        winner = "model_a" if rng.random() < p_a else "model_b"
        if rng.random() < 0.2:
            winner = rng.choice(["tie", "tie (bothbad)"])
        rows.append((rng.choice(QUESTIONS), model_a, model_b, winner, "arena_user", 1, "English", 1_600_000_000 + n))
    columns = ["question_id", "model_a", "model_b", "winner", "judge", "turn", "language", "tstamp"]
    battles = pd.DataFrame(rows, columns=columns)
    battles.to_csv("battles.csv", index=False)
    return int(battles["winner"].str.startswith("tie").sum())


def write_scores(*, seed: int) -> None:
    """Write one row per question and one column of scores per model."""
    rng = random.Random(seed)
    easiness = [rng.uniform(-0.2, 0.2) for _ in QUESTIONS]
    scores = {
        model: [0.5 + merit / 2 + easy + rng.gauss(0, 0.1) for easy in easiness] for model, merit in MERIT.items()
    }
    table = pd.DataFrame(scores).clip(0, 1).round(3)
    table.insert(0, "question_id", QUESTIONS)
    table.to_csv("scores.csv", index=False)


def write_pool() -> None:
    """Write the responses of the models, and of one that gives the same response to every question."""
    asked = [(question, f"Please answer {question}.") for question in QUESTIONS[:24]]
    rows = [(model, question, prompt, respond(model, question)) for model in MERIT for question, prompt in asked]
    rows += [("flatterer", question, prompt, respond("flatterer", "everything")) for question, prompt in asked]
    pd.DataFrame(rows, columns=["agent", "item", "prompt", "text"]).to_csv("pool.csv", index=False)


@pytest.mark.slow
def test_battles_and_scores_rank_models_in_their_true_order(youden: Youden) -> None:
    n_ties = write_battles(n_battles=900, position_bias=0.15, seed=0)
    imported = youden("import", "battles", "battles.csv", "--out", "runs/arena", "--json").said
    arena = yd.read_run("runs/arena")
    assert imported["recommendation"]["agents"] == [*arena.recommendation.agents]
    assert "fig" in arena.recommendation.agents
    assert count_wrong_signs(arena.differences, MERIT) == 0
    assert arena.ranking["n_trials"].sum() == 2 * 900
    facts = arena.facts.preference
    assert facts is not None
    assert facts.n_answers == 900
    assert facts.tie_fraction == pytest.approx(n_ties / 900)
    assert facts.position_low is not None
    assert facts.position_low > 0

    write_scores(seed=1)
    printed = youden("audit", "scores.csv", "--out", "audit", "--json").said
    audit = yd.audit("scores.csv")
    assert printed["recommendation"]["agents"] == [*audit.recommendation.agents] == ["fig"]
    assert [row["agent"] for row in printed["ranking"]] == audit.ranking["agent"].tolist() == [*MERIT]
    assert pd.read_csv("audit/ranking.csv")["ability"].tolist() == pytest.approx(audit.ranking["ability"].tolist())


@pytest.mark.slow
def test_comparing_both_questions_flags_a_model_with_a_constant_response(youden: Youden, tmp_path: Path) -> None:
    write_pool()
    merit = {**MERIT, "flatterer": 0.45}
    ability = {model: merit / 2 for model, merit in MERIT.items()} | {"flatterer": -1.0}
    truth = {"information": ability, "preference": merit}
    with running(UnrulyServer(SimulatedJudge(ability, merit, position_bias=0.1))) as server:
        judge = wire_judge(server.url, price=PRICE)
        for question, value in truth.items():
            paid_before = server.bill.usd(PRICE)
            config = {"pool": "pool.csv", "judge": judge, "question": question, "max_cost": 1, "calls": 700}
            write_config(tmp_path / f"{question}.yaml", **config)
            youden("run", f"{question}.yaml").well()
            run = yd.read_run(f"runs/{question}")
            assert read_cost(run) == pytest.approx(server.bill.usd(PRICE) - paid_before)
            assert count_wrong_signs(run.differences, value) == 0
            assert max(value, key=value.__getitem__) in run.recommendation.agents
    assert server.bill.n_paid_twice == 0

    study = youden("compare", "runs/information", "runs/preference", "--json").said["instruments"]
    flags = {agent: row["flag"] for agent, row in study["agents"].items()}
    assert flags.keys() == merit.keys()
    assert flags.pop("flatterer") == "preferred only"
    assert "preferred only" not in flags.values()
