"""Self-trials of pools of three agents or more: their place in the plan, the columns of the ranking, and later steps."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import youden
from commands import Youden, wire_judge, write_config
from small_pools import answer_with, draw_repeats, make_pool, starts_with
from wire_server import Reply, WireServer
from youden import make_plan
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import PlanError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.questions import iter_keys
from youden.protocol.subsample import subsample
from youden.stats import estimate_self_consistency
from youden.types import Plan, Pool, Verdicts
from youden.types.pool import Floats
from youden.types.trials import ROLES, SELF, SELF_TRIAL

COLUMNS = ["self_consistency", "self_consistency_low", "self_consistency_high"]


def pool_of(n_agents: int = 4, n_items: int = 24, n_repeats: int = 3, *, without: tuple[int, ...] = ()) -> Pool:
    """Agents whose responses to an item share words: the later the agent, the fewer; some have one response."""
    agents_and_items = make_pool(n_agents, n_items)
    texts = draw_repeats(n_agents, n_items, n_repeats, words_per_agent=15)
    for agent in without:
        for later in texts[1:]:
            later[agent] = None
    return Pool.from_repeats(agents_and_items.agents, agents_and_items.items, texts, "repeats")


def answers_of(plan: Plan, p: Floats) -> Verdicts:
    return answer_with(plan, (np.random.default_rng(2).random(len(plan)) < p).astype(float))


def read_ranking(folder: Path) -> list[dict[str, str]]:
    with (folder / "ranking.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_self_trials_follow_the_trials_of_the_plan_without_changing_them() -> None:
    pool = pool_of()
    plain, plan = make_plan(pool, calls=300), make_plan(pool, calls=300, self_trials=40)
    assert starts_with(plan.trials, plain.trials)
    added = plan.trials.take(slice(len(plain), None))
    assert len(added) == plan.n_self_trials == 4 * 2 * 40
    assert (added.first == added.second).all()
    assert set(added.role) == {SELF}
    assert ROLES[SELF] == "self"
    assert ((added.item == added.other_item).sum(), added.weight_first.sum()) == (160, 0)
    assert not plan.is_training[len(plain) :].any()
    assert any("320 self-trials in addition to the budget" in note for note in plan.notes)
    assert make_plan(pool, calls=300, self_trials=0).digest == plain.digest
    assert "self_trials" not in plain.settings


def test_answers_to_self_trials_are_those_of_a_run_of_one_agent() -> None:
    pool = pool_of()
    alone = Pool.from_repeats(pool.agents[1:2], pool.items, [texts[1:2] for texts in pool.texts_by_repeat], "one")
    questions = load_judge_config("gpt-4o-mini").questions()
    of_one = {key for _, key in iter_keys(questions, make_plan(alone, calls="40/agent"))}
    plan = make_plan(pool, calls=300, self_trials=40)
    keys = [key for _, key in iter_keys(questions, plan)]
    assert of_one == {keys[row] for row in np.flatnonzero((plan.trial_type == SELF_TRIAL) & (plan.first == 1))}
    assert keys == [questions.key(questions.request(plan, row)) for row in range(len(plan))]


@pytest.mark.parametrize("independent", ["pooled", "matched"])
def test_abilities_and_rates_do_not_depend_on_self_trials(independent: str) -> None:
    pool = pool_of(5)
    plain = make_plan(pool, calls=400, independent=independent, seed=3)
    plan = make_plan(pool, calls=400, independent=independent, seed=3, self_trials=30)
    p = np.where(plan.trial_type == 0, 0.6, np.where(plan.trial_type == 1, 0.2, 1.0))
    verdicts = answers_of(plan, p)
    without = youden.rank(answers_of(plain, p[: len(plain)]))
    table = youden.rank(verdicts)
    assert table.drop(columns=COLUMNS).equals(without)
    assert list(without.columns) == [name for name in table.columns if name not in COLUMNS]
    assert verdicts.rates().digest == answers_of(plain, p[: len(plain)]).rates().digest


def test_columns_hold_the_estimate_of_each_agent_and_are_empty_without_repeats() -> None:
    pool = pool_of(5, without=(2,))
    plan = make_plan(pool, calls=400, self_trials=50)
    assert any("without self-trials: a2" in note for note in plan.notes)
    verdicts = answers_of(plan, np.where(plan.other_item == plan.item, 0.7, 0.2))
    rows = plan.trial_type == SELF_TRIAL
    item, other_item = plan.item[rows], plan.other_item[rows]
    expected = estimate_self_consistency(
        plan.first[rows],
        item,
        np.where(item == other_item, -1, other_item),
        verdicts.answer[rows],
        n_agents=5,
        n_items=plan.n_items,
    )
    table = youden.rank(verdicts).set_index("agent").loc[list(plan.agent_ids)]
    assert table.self_consistency.to_numpy() == pytest.approx(expected.value, nan_ok=True)
    half_width = expected.covariance.half_width()
    assert table.self_consistency_low.to_numpy() == pytest.approx(expected.value - half_width, nan_ok=True)
    assert table.self_consistency.isna().tolist() == [False, False, True, False, False]


def test_findings_name_agents_that_peers_do_not_corroborate_and_unstable_ones() -> None:
    plan = make_plan(pool_of(6, n_items=60), calls="200/agent", self_trials=150)
    involves_stranger = (plan.first == 5) | (plan.second == 5)
    is_unstable = (plan.first == 1) & (plan.trial_type == SELF_TRIAL)
    is_same = (plan.trial_type == 0) | (plan.item == plan.other_item)
    of_pairs = np.where(involves_stranger & (plan.trial_type == 0), 0.1, np.where(is_unstable, 0.3, 0.8))
    findings = youden.rank(answers_of(plan, np.where(is_same, of_pairs, 0.05))).attrs["warnings"]
    agents = {finding.slug: finding.agents for finding in findings}
    assert agents["not-corroborated"] == ("a5",)
    assert agents["low-self-consistency"] == ("a1",)


def test_plans_that_cannot_have_self_trials_are_refused() -> None:
    with pytest.raises(PlanError, match="No agent of 'repeats' can be compared with itself: got self_trials: 9") as few:
        make_plan(pool_of(n_repeats=1), self_trials=9)
    assert few.value.slug == "repeats-few"
    half_width = {"design": "fixed-width", "options": {"half_width": 0.1}}
    for settings in ({"design": "adaptive"}, half_width, {"question": "preference"}):
        with pytest.raises(PlanError, match=r"got self_trials: 9, design: .*, question: .*Remove self_trials") as other:
            make_plan(pool_of(), self_trials=9, **settings)
        assert other.value.slug == "self-trials"
    with pytest.raises(PlanError, match="got self_trials: 9") as one:
        make_plan(pool_of(1), self_trials=9)
    assert one.value.slug == "self-trials"


def test_forecasts_do_not_count_self_trials(youden: Youden, tmp_path: Path) -> None:
    write_pool(pool_of(6, 30), tmp_path / "pool")
    write_config(tmp_path / "c.yaml", pool="pool", judge="lexical", out=str(tmp_path / "run"))
    plain, planned = (youden("plan", str(tmp_path / "c.yaml"), "--self-trials", n).well().err for n in ("0", "20"))
    forecasts = [line for line in plain.splitlines() if "of dense" not in line]
    lines = {line for line in forecasts if "independent calls" in line or "95% interval" in line}
    assert len(lines) == 3
    assert lines <= set(planned.splitlines())


def test_a_sample_of_a_run_leaves_self_trials_out_and_states_it() -> None:
    plan = make_plan(pool_of(), calls=300, self_trials=40)
    part = subsample(plan)
    assert len(part) == 300
    assert not part.n_self_trials
    assert "320 self-trials are left out" in part.notes[0]


@pytest.fixture
def run_with_self_trials(tmp_path: Path, youden: Youden) -> Path:
    """A judged run with self-trials."""
    write_pool(pool_of(6, 30), tmp_path / "pool")
    write_config(
        tmp_path / "c.yaml", pool="pool", judge="lexical", calls="80/agent", self_trials=60, out=str(tmp_path / "run")
    )
    planned = youden("plan", str(tmp_path / "c.yaml")).well().err
    assert "and 720 self-trials" in planned
    youden("run", str(tmp_path / "c.yaml")).well()
    return tmp_path / "run"


@pytest.mark.slow
def test_run_writes_columns_and_report_and_refuses_another_number(run_with_self_trials: Path, youden: Youden) -> None:
    run = run_with_self_trials
    rows = read_ranking(run)
    assert all(float(row[COLUMNS[1]]) < float(row[COLUMNS[0]]) < float(row[COLUMNS[2]]) for row in rows)
    written = json.loads((run / "ranking.json").read_text(encoding="utf-8"))["agents"]
    assert [agent["self_consistency"] for agent in written] == [float(row["self_consistency"]) for row in rows]
    facts = RunFolder(run).read_facts()
    assert facts.calls is not None
    assert facts.calls.n_self == 720
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Self low" in page
    assert "720 self-trials" in page
    assert youden("run", str(run.parent / "c.yaml"), "--self-trials", "50").refuses("run-mismatch")
    resumed = youden("run", str(run.parent / "c.yaml")).well()
    assert read_ranking(run) == rows, resumed.out


@pytest.mark.slow
def test_ranking_is_that_of_the_run_without_self_trials(run_with_self_trials: Path, youden: Youden) -> None:
    run = run_with_self_trials
    youden("run", str(run.parent / "c.yaml"), "--self-trials", "0", "--out", str(run.parent / "plain")).well()
    without = read_ranking(run.parent / "plain")
    assert not any(name in without[0] for name in COLUMNS)
    assert [{name: row[name] for name in without[0]} for row in read_ranking(run)] == without
    for name in ("scores.csv", "pairs.parquet", "items.csv"):
        if (run / name).exists() and name.endswith("csv"):
            assert (run / name).read_bytes() == (run.parent / "plain" / name).read_bytes()


@pytest.mark.slow
def test_extend_keeps_self_trials_and_rejudge_leaves_them_out(run_with_self_trials: Path, youden: Youden) -> None:
    run = run_with_self_trials
    before = {row["agent"]: row["self_consistency"] for row in read_ranking(run)}
    write_pool(pool_of(7, 30), run.parent / "more")
    added = pool_of(7, 30)
    new = Pool.from_repeats(added.agents[6:], added.items, [texts[6:] for texts in added.texts_by_repeat], "new")
    write_pool(new, run.parent / "new")
    extended = youden("extend", "agents", str(run), str(run.parent / "new")).well()
    rows = {row["agent"]: row["self_consistency"] for row in read_ranking(run)}
    assert {agent: rows[agent] for agent in before} == before
    assert rows["a6"] == ""
    assert any("without self-trials" in note for note in RunFolder(run).read_plan().notes), extended.out
    youden("extend", "calls", str(run), "100").well()
    assert {row["agent"]: row["self_consistency"] for row in read_ranking(run)} == rows

    youden("rejudge", str(run), "--judge", "lexical", "--calls", "200", "--out", str(run.parent / "second")).well()
    part = RunFolder(run.parent / "second").read_plan()
    assert not part.n_self_trials
    assert any("self-trials are left out" in note for note in part.notes)


def test_a_config_cannot_combine_self_trials_with_trials_of_another_run(tmp_path: Path, youden: Youden) -> None:
    write_config(tmp_path / "c.yaml", pool="pool", trials_from="run", self_trials=5)
    refused = youden("plan", str(tmp_path / "c.yaml"))
    assert refused.refuses("run-config")
    assert "cannot be combined with self_trials" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize(("n_agents", "settings"), [(1, {}), (4, {"calls": 160, "self_trials": 40})])
def test_a_run_that_ends_at_its_cap_is_resumed_with_the_same_self_trials(
    youden: Youden, tmp_path: Path, server: WireServer, n_agents: int, settings: dict[str, int]
) -> None:
    server.behave = lambda _n, body: Reply(text="YES" if len(str(body)) % 3 else "NO")
    write_pool(pool_of(n_agents, 12), tmp_path / "pool")
    judge = wire_judge(server.url, price=100, max_tokens=1, concurrency=4)
    config = str(tmp_path / "c.yaml")
    out = tmp_path / "run"
    write_config(tmp_path / "c.yaml", pool="pool", judge=judge, max_cost=1, out=str(out), **settings)
    stopped = youden("run", config)
    assert stopped.code == 1
    assert "the same command with a higher cap resumes it" in stopped.err
    n_sent = server.n_requests
    planned = youden("plan", config, "--json").said
    assert planned["cost"]["stored"] == n_sent
    if settings:
        youden("fit", str(out)).well()
        assert "self_consistency" in read_ranking(out)[0]
    finished = youden("run", config, "--max-cost", "100", "--json").well().said
    assert finished["partial"] is None
    assert server.n_requests <= planned["cost"]["calls"]
    assert youden("run", config, "--json").said["ranking"] == finished["ranking"]
