"""Runs that ask for preferences are gated, extended and searched, by a simulated judge of known abilities."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Youden, everything_in, wire_judge, write_config
from narrowing import not_none
from small_pools import make_pool, part_of
from wire_server import Reply, WireServer
from youden import read_run
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.protocol.blocks import plan_after_extensions
from youden.stats import fit_preferences
from youden.types import PAIRED, Plan, Pool

ABILITY = (-0.5, 0.0, 0.0, 0.1, 0.5, 0.2, -0.2)
K, J = 5, 60
WHOLE = make_pool(len(ABILITY), J + 10)
RATE_WORDS = re.compile(r"TPR|FPR|false.positive|recogni|beyond chance|same source", re.IGNORECASE)


def make_judge(*, position: float = 0.1, tie: float = 0.1) -> Callable[[int, Mapping[str, Any]], Reply]:
    """A judge of known abilities whose answer is a function of the two responses and their order."""

    def behave(_n: int, body: Mapping[str, Any]) -> Reply:
        question = body["messages"][-1]["content"]
        (first, item), (second, _) = re.findall(r"agent (\d+) says something of item (\d+)", question)
        uniform = int(sha256(f"judge {first} {second} {item}".encode()).hexdigest()[:8], 16) / 2**32
        p_first = (1 - tie + ABILITY[int(first)] - ABILITY[int(second)] + position) / 2
        return Reply("FIRST" if uniform < p_first else "TIE" if uniform < p_first + tie else "SECOND")

    return behave


@pytest.fixture
def write_run(tmp_path: Path, server: WireServer, youden: Youden) -> Callable[..., RunFolder]:
    """Judge a run of the first agents and items, and write the pools that extend it."""
    server.behave = make_judge()
    write_pool(part_of(WHOLE, slice(K), slice(J)), tmp_path / "pool")
    write_pool(part_of(WHOLE, slice(K, None), slice(J)), tmp_path / "new")
    write_pool(part_of(WHOLE, slice(K), slice(J, None)), tmp_path / "items")
    first_pool = part_of(WHOLE, slice(K), slice(J))
    again = first_pool.texts + " again"
    write_pool(Pool.from_repeats(first_pool.agents, first_pool.items, [again], "again"), tmp_path / "repeats")

    def write(**keys: object) -> RunFolder:
        config = {"pool": "pool", "judge": wire_judge(server.url), "question": "preference"} | keys
        write_config(tmp_path / "r.yaml", **config)
        youden("run", "r.yaml").well()
        return RunFolder(Path("runs/r"))

    return write


def read_abilities(folder: RunFolder) -> dict[str, float]:
    return {row.agent: not_none(row.ability) for row in folder.read_ranking()}


def check_fit(folder: RunFolder) -> None:
    """The abilities are those of one fit of all trials, however these were added."""
    plan = folder.read_plan()
    verdicts = folder.read_verdicts(plan)
    fit = fit_preferences(plan.first, plan.second, plan.item, verdicts.answer, n_agents=plan.n_agents)
    ranking = {row.agent: row for row in folder.read_ranking()}
    for position, agent in enumerate(plan.agent_ids):
        assert ranking[agent].ability == pytest.approx(fit.ability[position], abs=1e-9)
        assert ranking[agent].std_error == pytest.approx(fit.covariance.std_error[position], rel=1e-6)


def check_balance(plan: Plan, *, steps: range = range(1, 2), tolerance: float = 0.0) -> None:
    """All trials are paired, and each agent that the steps measure comes first and second about equally often."""
    trials = plan.trials.take(np.isin(plan.trials.step, steps))
    assert len(trials)
    assert (trials.trial_type == PAIRED).all()
    n_first = np.bincount(trials.first[trials.weight_first > 0], minlength=plan.n_agents)
    n_second = np.bincount(trials.second[trials.weight_second > 0], minlength=plan.n_agents)
    assert (np.abs(n_first - n_second) <= tolerance * (n_first + n_second)).all(), (n_first, n_second)


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "outcome", "code"), [("a4", "better", 0), ("a0", "worse", 1), ("a2", "no worse", 0)])
def test_a_gate_decides_on_a_better_a_worse_and_an_equal_agent(
    youden: Youden, write_run: Callable[..., RunFolder], agent: str, outcome: str, code: int
) -> None:
    baseline = "a1"
    folder = write_run(design="dense")
    options = ("--agent", agent, "--baseline", baseline, "--margin", "0.3")
    ended = youden("gate", "runs/r", *options, "--json")
    assert ended.code == code
    (row,) = json.loads(ended.out)["agents"]
    assert row["outcome"] == outcome
    true_difference = ABILITY[int(agent[1])] - ABILITY[int(baseline[1])]
    assert row["low"] <= true_difference <= row["high"]
    abilities = read_abilities(folder)
    assert row["difference"] == pytest.approx(abilities[agent] - abilities[baseline], abs=1e-9)
    text = youden("gate", "runs/r", *options).err
    assert "of 100 comparisons with" in text
    assert not RATE_WORDS.search(text), RATE_WORDS.search(text)
    assert read_run("runs/r").gate(agent, baseline=baseline, margin=0.3).outcome == outcome


@pytest.mark.slow
def test_the_calls_that_an_undecided_gate_suggests_extend_the_run(
    youden: Youden, write_run: Callable[..., RunFolder]
) -> None:
    folder = write_run(calls=200)
    undecided = youden("gate", "runs/r", "--agent", "a2", "--baseline", "a1", "--margin", "0.3", "--json")
    assert undecided.code == 3
    required = json.loads(undecided.out)["agents"][0]["required"]["calls"]
    youden("extend", "calls", "runs/r", str(required), "--focus", "a2", "--focus", "a1").well()
    plan = folder.read_plan()
    assert 200 + required - 8 < len(plan) <= 200 + required
    check_balance(plan, tolerance=0.1)
    check_fit(folder)
    again = json.loads(youden("gate", "runs/r", "--agent", "a2", "--baseline", "a1", "--margin", "0.3", "--json").out)
    assert again["agents"][0]["analysis"] == 2


@pytest.mark.slow
def test_equal_agents_of_a_judge_without_preferences_stay_undecided(
    youden: Youden, server: WireServer, write_run: Callable[..., RunFolder]
) -> None:
    server.behave = lambda _n, _body: Reply("FIRST")
    write_run(design="dense")
    ended = youden("gate", "runs/r", "--agent", "a1", "--baseline", "a0", "--margin", "0.3")
    assert ended.code == 3
    assert "may prefer no response to any other" in ended.err


@pytest.mark.slow
def test_calls_add_the_trials_of_a_larger_run(
    youden: Youden, server: WireServer, write_run: Callable[..., RunFolder]
) -> None:
    folder = write_run(calls=200)
    n_requests = server.n_requests
    youden("extend", "calls", "runs/r", "100").well()
    assert server.n_requests == n_requests + 100
    check_balance(folder.read_plan())
    check_fit(folder)
    extended = read_abilities(folder)
    write_config(Path("large.yaml"), pool="pool", judge=wire_judge(server.url), question="preference", calls=300)
    youden("run", "large.yaml").well()
    assert extended == pytest.approx(read_abilities(RunFolder(Path("runs/large"))), abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "pool"),
    [
        ("agents", "new"),
        pytest.param("items", "items", marks=pytest.mark.slow),
        pytest.param("repeats", "repeats", marks=pytest.mark.slow),
    ],
)
def test_agents_items_and_repeats_are_added_to_a_run_of_preferences(
    youden: Youden, server: WireServer, write_run: Callable[..., RunFolder], kind: str, pool: str
) -> None:
    folder = write_run(calls=400)
    before, n_requests = read_abilities(folder), server.n_requests
    youden("extend", kind, "runs/r", pool).well()
    plan = folder.read_plan()
    assert server.n_requests - n_requests == int((plan.trials.step == 1).sum())
    check_balance(plan)
    check_fit(folder)

    facts = not_none(folder.read_facts().extension)
    assert facts.kind == kind
    assert {change.agent: change.before for change in facts.agent_changes} == pytest.approx(before, abs=1e-9)
    page = folder.file("report.html").read_text(encoding="utf-8")
    assert {"agents": "2 agents joined", "items": "10 items joined", "repeats": "What changed?"}[kind] in page
    markdown = youden("report", "runs/r", "--format", "md").out
    for text in (page, markdown):
        assert not RATE_WORDS.search(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL))
    if kind == "agents":
        assert facts.joined == ("a5", "a6")
        abilities = read_abilities(folder)
        assert abilities["a5"] > abilities["a6"]
        assert sum(abilities.values()) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_new_agents_get_the_calls_that_a_half_width_needs(youden: Youden, write_run: Callable[..., RunFolder]) -> None:
    folder = write_run(calls=400)
    youden("extend", "agents", "runs/r", "new", "--half-width", "0.15").well()
    rows = {row.agent: row for row in folder.read_ranking()}
    half_widths = [(not_none(rows[agent].high) - not_none(rows[agent].low)) / 2 for agent in ("a5", "a6")]
    assert 0.1 < min(half_widths) <= max(half_widths) < 1.25 * 0.15


@pytest.mark.slow
def test_a_new_agent_is_added_and_gated_in_python(write_run: Callable[..., RunFolder]) -> None:
    folder = write_run(calls=600)
    run = read_run(folder.path).extend(agents="new", calls=600, progress=False)
    gate = run.gate("a5", "a6", baseline="a0", margin=0.1)
    assert gate.outcome in ("better", "undecided")
    assert [row.difference > 0 for row in gate.agents] == [True, True]
    assert all(0 < not_none(row.high) - not_none(row.low) < 1 for row in gate.agents)


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--calls", "300"), ("--top", "2", "--max-regret", "0.2")])
def test_a_run_is_searched_for_its_best_agents(
    youden: Youden, write_run: Callable[..., RunFolder], options: tuple[str, ...]
) -> None:
    folder = write_run(calls=200)
    ended = json.loads(youden("extend", "best", "runs/r", *options, "--json").well().out)
    assert ended["ended"]
    plan = folder.read_plan()
    n_steps = int(plan.trials.step.max())
    assert n_steps > 1
    check_balance(plan, steps=range(n_steps + 1), tolerance=0.1)
    assert len(plan_after_extensions(plan, 0)) == 200
    check_fit(folder)
    choice = not_none(folder.read_facts().choice)
    assert choice.agents[0] == "a4"
    if "--max-regret" in options:
        assert "the regret bound is met" in ended["ended"]
        assert choice.regret_bound <= 0.2
        assert ended["recommendation"]["form"] == "recommended"


@pytest.mark.slow
@pytest.mark.parametrize("keys", [{"max_regret": 0.3}, {"top": 1, "calls": 700}])
def test_a_run_that_is_a_search_finds_the_best_agent(
    youden: Youden, server: WireServer, write_run: Callable[..., RunFolder], keys: dict[str, object]
) -> None:
    folder = write_run(**keys)
    plan = folder.read_plan()
    rounds = not_none(plan.rounds)
    assert (plan.trial_type == PAIRED).all()
    assert "interim anal" in plan.notes[-1]
    facts = folder.read_facts()
    assert not_none(facts.choice).agents == ("a4",)
    if len(rounds.starts) > 1:
        assert facts.interval.endswith("corrected for adaptive-sampling bias")
    written, n_requests = folder.file("ranking.csv").read_bytes(), server.n_requests
    youden("fit", "runs/r").well()
    assert folder.file("ranking.csv").read_bytes() == written
    assert server.n_requests == n_requests


@pytest.mark.parametrize(
    ("command", "slug"),
    [
        (("extend", "half-width", "runs/r", "0.05"), "extend-width"),
        (("gate", "runs/r", "--agent", "a1", "--baseline", "a0", "--target", "these-items"), "gate-target"),
        (
            ("gate", "runs/r", "--agent", "a1", "--baseline", "a0", "--by", "quality", "--labels", "labels.csv"),
            "run-preference",
        ),
        (("extend", "calls", "runs/r", "20", "--target", "these-items"), "run-config"),
    ],
)
def test_commands_that_do_not_exist_for_preferences_are_refused(
    youden: Youden, server: WireServer, write_run: Callable[..., RunFolder], command: tuple[str, ...], slug: str
) -> None:
    write_run(calls=100)
    Path("labels.csv").write_text("agent,item,correct\na0,i0,1\na1,i1,0\n")
    before, n_requests = everything_in(Path("runs")), server.n_requests
    ended = youden(*command)
    assert ended.refuses(slug), ended.err
    assert server.n_requests == n_requests
    assert everything_in(Path("runs")) == before
