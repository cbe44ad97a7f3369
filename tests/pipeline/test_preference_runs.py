"""A run that asks which of two responses is better: planned, judged, fitted, reported, and refused where it must be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Youden, everything_in, wire_judge, write_config
from narrowing import not_none
from small_pools import make_pool
from wire_server import Reply, WireServer
from youden import judge, rank, read_run
from youden.data.folder.run_config import run_config_from_keys
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError, StatisticsError
from youden.judging.config.judge_files import load_judge_config, with_question
from youden.judging.question.questions import count_characters, iter_keys
from youden.protocol.plan import make_plan
from youden.types import PAIRED

WRONG_WORDS = re.compile(r"TPR|FPR|false.positive|Youden's J|\bJ =|recogni|beyond chance|same item", re.IGNORECASE)


def agents_in(body: Mapping[str, Any]) -> list[int]:
    return [int(agent) for agent in re.findall(r"agent (\d+) says", body["messages"][-1]["content"])]


def prefer_higher(_n: int, body: Mapping[str, Any]) -> Reply:
    """Prefer the agent of the higher number, and answer a tie if the numbers differ by 1."""
    first, second = agents_in(body)
    if abs(first - second) == 1:
        return Reply("TIE")
    return Reply("FIRST" if first > second else "SECOND")


def prefer_first(_n: int, _body: Mapping[str, Any]) -> Reply:
    return Reply("FIRST")


def write_preference_run(folder: Path, url: str, **keys: object) -> None:
    write_pool(make_pool(5, 8), folder / "pool")
    write_config(folder / "r.yaml", **{"pool": "pool", "judge": wire_judge(url), "question": "preference"} | keys)


def test_a_run_ranks_by_preference_and_never_mentions_rates(youden: Youden, server: WireServer, tmp_path: Path) -> None:
    server.behave = prefer_higher
    write_preference_run(tmp_path, server.url)
    ended = youden("run", "r.yaml", "--verbose")
    assert ended.code == 0, ended.err

    folder = RunFolder(Path("runs/r"))
    assert [row.agent for row in folder.read_ranking()] == ["a4", "a3", "a2", "a1", "a0"]
    plan = folder.read_plan()
    assert (plan.trial_type == PAIRED).all()
    np.testing.assert_array_equal(np.bincount(plan.first), np.bincount(plan.second))
    facts = folder.read_facts()
    assert facts.preference is not None
    assert facts.preference.position_effect == pytest.approx(0, abs=1e-9)
    assert facts.preference.tie_fraction == pytest.approx(0.4)
    assert facts.signal.question == "preference"
    assert facts.signal.j is None
    assert facts.recommendation.decided_by == "preference"

    page = folder.file("report.html").read_text(encoding="utf-8")
    markdown = youden("report", "runs/r", "--format", "md").out
    for text in (ended.out, ended.err, markdown, re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)):
        assert not WRONG_WORDS.search(text), WRONG_WORDS.search(text)
    assert "Position bias" in page
    assert "40% of the 160 answers are ties" in markdown


def test_a_run_by_preference_is_compared_with_labels_of_agents_and_of_responses(
    youden: Youden, server: WireServer, tmp_path: Path
) -> None:
    server.behave = prefer_higher
    write_preference_run(tmp_path, server.url)
    youden("run", "r.yaml").well()
    (tmp_path / "agents.csv").write_text("agent,grade\n" + "".join(f"a{k},{k}\n" for k in range(5)))
    rows = [f"a{agent},i{item},{agent + item % 2}\n" for agent in range(5) for item in range(8)]
    (tmp_path / "responses.csv").write_text("agent,item,grade\n" + "".join(rows))
    for table in ("agents.csv", "responses.csv"):
        assert "ρ = 1.00" in youden("fit", "runs/r", "--labels", table).well().out
        youden("report", "runs/r").well()
        assert "Agreement with labels" in Path("runs/r/report.html").read_text(encoding="utf-8")
        assert "Agreement of the ranking with" in youden("report", "runs/r", "--format", "md").out


def test_the_judge_sees_the_task_and_both_responses(youden: Youden, server: WireServer, tmp_path: Path) -> None:
    server.behave = prefer_higher
    write_preference_run(tmp_path, server.url, calls=20)
    assert youden("run", "r.yaml").code == 0
    system, question = (message["content"] for message in server.bodies[0]["messages"])
    assert "FIRST, SECOND or TIE" in system
    (item,) = {*re.findall(r"something of item (\d+)", question)}
    assert f"\nitem {item}\n</task-" in question


@pytest.mark.slow
def test_a_judge_that_always_prefers_the_first_response_gets_no_recommendation(
    youden: Youden, server: WireServer, tmp_path: Path
) -> None:
    server.behave = prefer_first
    write_preference_run(tmp_path, server.url)
    ended = youden("run", "r.yaml", "--json")
    result = json.loads(ended.out)
    assert result["recommendation"]["form"] == "none"
    assert "the answers follow the position of the responses, whichever agents are" in result["recommendation"]["text"]
    assert result["recommendation"]["decided_by"] == "preference"
    assert result["fit"]["preference"]["position_effect"] == pytest.approx(1)
    assert [warning["slug"] for warning in result["fit"]["warnings"]] == ["position-bias"]
    again = youden("run", "r.yaml", "--out", "runs/again").well()
    assert (
        "next: use another judge or prompt, because the answers follow the position of the responses"
        in again.err + again.out
    )
    assert (
        "Position bias: in 100 comparisons of equal agents, the wins minus losses of the first response are 100.0"
        in again.err
    )
    assert "might not separate them" not in again.err + again.out


def test_a_judge_that_prefers_longer_responses_is_reported(youden: Youden, server: WireServer, tmp_path: Path) -> None:
    pool = make_pool(5, 8)
    texts = pool.texts.copy()
    for agent in range(5):
        texts[agent] = [text + " more" * agent for text in texts[agent]]
    write_pool(replace(pool, texts=texts), tmp_path / "long")
    server.behave = prefer_higher
    write_config(tmp_path / "r.yaml", pool="long", judge=wire_judge(server.url), question="preference")
    ended = youden("run", "r.yaml", "--json")
    fit = json.loads(ended.out)["fit"]
    assert fit["preference"]["length_correlation"] > 0.8
    assert "length" in [warning["slug"] for warning in fit["warnings"]]


def test_a_second_run_sends_no_request(youden: Youden, server: WireServer, tmp_path: Path) -> None:
    server.behave = prefer_higher
    write_preference_run(tmp_path, server.url)
    assert youden("run", "r.yaml").code == 0
    n_requests = server.n_requests
    assert youden("run", "r.yaml", "--out", "runs/again").code == 0
    assert server.n_requests == n_requests


@pytest.mark.parametrize(
    ("command", "slug"),
    [
        (("rejudge", "runs/r", "--judge", "lexical"), "run-preference"),
        (("stress", "runs/r"), "run-preference"),
        (("study", "budget", "runs/r"), "run-preference"),
        (("study", "links", "runs/r"), "run-preference"),
        (("study", "variance", "runs/r"), "run-preference"),
        (("export", "runs/r", "out", "--format", "hf"), "run-preference"),
        (("calibrate", "r.yaml"), "question-calibrate"),
        (("quality", "runs/r", "--labels", "labels.csv"), "run-preference"),
        (("label", "runs/r", "--next", "5", "--out", "out.csv"), "run-preference"),
        (("fit", "runs/r", "--trusted", "a0,a1"), "question-option"),
        (("fit", "runs/r", "--target", "these-items"), "question-option"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value[:2]),
)
def test_commands_that_need_rates_are_refused_before_a_request(
    youden: Youden, server: WireServer, tmp_path: Path, command: tuple[str, ...], slug: str
) -> None:
    server.behave = prefer_higher
    write_preference_run(tmp_path, server.url, calls=40)
    (tmp_path / "labels.csv").write_text("agent,item,correct\na0,i0,1\na1,i1,0\n")
    assert youden("run", "r.yaml").code == 0
    before, n_requests = everything_in(tmp_path / "runs"), server.n_requests
    ended = youden(*command)
    assert ended.refuses(slug), ended.err
    assert server.n_requests == n_requests
    assert everything_in(tmp_path / "runs") == before


def test_percentages_refer_to_the_dense_design_without_independent_trials() -> None:
    pool = make_pool(6, 10)
    dense = make_plan(pool, design="dense", question="preference")
    assert len(dense) == dense.n_dense_calls == 6 * 5 * 10
    tenth = make_plan(pool, calls="10%", question="preference")
    assert len(tenth) == dense.n_dense_calls / 10


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"independent": "matched"}, "got independent; remove independent."),
        ({"half_width": 0.1}, "got half_width; remove half_width."),
        ({"robust": True, "self_trials": 9}, "got robust, self_trials; remove robust, self_trials."),
        ({"design": "row"}, "question: preference requires one of the designs cyclic, dense, adaptive: got row."),
        ({"target": "these-items"}, "question: preference requires the target items-like-these: got these-items."),
    ],
)
def test_only_the_keys_that_do_not_exist_for_preferences_are_named(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=f"{re.escape(reason)} \\[run-config\\]$") as refused:
        run_config_from_keys({"name": "r", "pool": "p", "question": "preference", **keys}, origin="test")
    assert "cyclic" not in refused.value.message or "design" in keys


def test_a_judge_that_cannot_answer_the_question_is_refused() -> None:
    lexical, model = load_judge_config("lexical"), load_judge_config("gpt-4o-mini")
    with pytest.raises(ConfigError, match="answers `question: information`, but the run has `question: preference`"):
        with_question(lexical, "preference")
    asked = with_question(model, "preference")
    assert asked.loaded_prompt.name == "which-is-better"
    assert with_question(asked, "preference") == asked
    with pytest.raises(ConfigError, match="answers `question: preference`, but the run has `question: information`"):
        with_question(asked, "information")


def test_a_replay_of_preferences_needs_the_name_of_the_replayed_judge() -> None:
    with pytest.raises(
        ConfigError, match=r"Set `replay_of` to the judge whose answers the store contains\. \[question-judge\]"
    ):
        with_question(load_judge_config({"backend": "replay"}), "preference")
    replay = with_question(load_judge_config({"backend": "replay", "replay_of": "gpt-4o-mini"}), "preference")
    assert replay.replay_of is not None
    assert replay.replay_of.loaded_prompt.name == "which-is-better"


def test_answers_in_memory_are_ranked_as_by_a_fit_of_the_run(
    youden: Youden, server: WireServer, tmp_path: Path
) -> None:
    server.behave = prefer_higher
    write_preference_run(tmp_path, server.url)
    youden("run", "r.yaml").well()
    folder = RunFolder(Path("runs/r"))
    table = rank(folder.read_verdicts(folder.read_plan()))
    stored = folder.read_ranking()
    for name in ("agent", "ability", "low", "high", "std_error", "rank_low", "simultaneous_rank_high", "n_trials"):
        assert table[name].tolist() == [getattr(row, name) for row in stored]
    facts = folder.read_facts()
    differences = read_run("runs/r").differences
    assert differences.significantly_better.sum() == facts.n_significant_pairs
    assert set(differences.significantly_better) == {0, 1}
    assert table.attrs["recommendation"] == facts.recommendation
    assert table.attrs["choice"] == facts.choice
    assert table.attrs["unique_best"] == facts.unique_best
    preference = table.attrs["preference"]
    assert preference == replace(not_none(facts.preference), length_correlation=preference.length_correlation)
    assert table.attrs["signal"].j is None


def test_preferences_have_one_target_and_one_method() -> None:
    plan = make_plan(make_pool(5, 8), question="preference")
    result = judge(plan, judge=lambda first, second: first > second)
    with pytest.raises(StatisticsError, match="got target 'these-items' and method 'auto'"):
        rank(result, target="these-items")
    with pytest.raises(StatisticsError, match="method 'trial-mean'"):
        rank(result, method="trial-mean")


def test_plans_and_request_hashes_for_information_are_those_without_a_question() -> None:
    pool = make_pool(5, 8)
    plan = make_plan(pool, calls=60)
    assert "question" not in plan.options
    assert plan.digest == make_plan(pool, calls=60, question="information").digest
    questions = load_judge_config("gpt-4o-mini").questions()
    keys = [key for _, key in iter_keys(questions, plan)]
    assert keys == [key for _, key, _ in questions.iter_requests(plan)]


def test_keys_of_preferences_are_those_of_their_requests() -> None:
    plan = make_plan(make_pool(5, 8), calls=40, question="preference")
    questions = with_question(load_judge_config("gpt-4o-mini"), "preference").questions()
    assert [*iter_keys(questions, plan)] == [(row, key) for row, key, _ in questions.iter_requests(plan)]
    n_characters = [count_characters(request) for _, _, request in questions.iter_requests(plan)]
    assert questions.count_characters(plan).tolist() == n_characters
