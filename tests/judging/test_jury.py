"""Test juries: votes, missing votes and stored answers of each judge."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import Youden, write_config
from judged import NOWHERE, ask, dense_plan, truth
from narrowing import not_none
from small_pools import answer_with, make_pool
from wire_server import Reply, WireServer, same_item
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import BudgetError, ConfigError, JudgeError
from youden.judging.backends.several import Jury
from youden.judging.config.judge_files import load_judge_config
from youden.judging.estimate import estimate
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.answers import Store, open_store
from youden.types import MISSING_REASONS

POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)
N = len(PLAN)


def by_model(_n: int, body: Any) -> Reply:
    """Answer by model: `always` answers YES, `mute` gives no clear answer, others are correct."""
    return Reply({"always": "YES", "mute": "Hm."}.get(body["model"], same_item(body)))


def jury(url: str, *models: str, **keys: Any) -> dict[str, Any]:
    members = [{"backend": "wire", "model": model, "base_url": url, "price": 1} for model in models]
    return {"backend": "jury", "name": "three", "judges": members} | keys


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=3, max_size=3))
def test_a_missing_answer_of_a_judge_is_not_replaced_by_a_vote(votes: list[float | None]) -> None:
    ballots = [answer_with(PLAN, np.full(N, vote or 0.0), missing=np.full(N, vote is None)) for vote in votes]
    majority = Jury(ballots, vote="majority").answer_many(PLAN)
    mean = Jury(ballots, vote="mean").answer_many(PLAN)
    n_yes = sum(vote is not None and vote >= 0.5 for vote in votes)
    n_no = sum(vote is not None and vote < 0.5 for vote in votes)
    expected = 1.0 if n_yes >= 2 else 0.0 if n_no >= 2 else np.nan
    np.testing.assert_array_equal(majority.answer, np.full(N, expected))
    full = [vote for vote in votes if vote is not None]
    np.testing.assert_allclose(mean.answer, np.full(N, np.mean(full) if len(full) == 3 else np.nan))
    for result in (majority, mean):
        np.testing.assert_array_equal(result.answered, ~np.isnan(result.answer))
        np.testing.assert_array_equal(np.isnan(result.hard_answer), np.isnan(result.answer))


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([0.5, 0.5, 1], 0.5),
        ([0, 0.5, 1], 0.5),
        ([0.9, 1, 0], 1),
        ([0.5, 0, 0], 0),
        ([0.5, 0.5, None], 0.5),
        ([0.5, 1, None], np.nan),
    ],
)
def test_a_jury_may_call_a_preference_a_tie(votes: list[float | None], expected: float) -> None:
    plan = replace(PLAN, options={**PLAN.options, "question": "preference"})
    ballots = [answer_with(plan, np.full(N, vote or 0.0), missing=np.full(N, vote is None)) for vote in votes]
    result = Jury(ballots, vote="majority").answer_many(plan)
    np.testing.assert_array_equal(result.answer, np.full(N, expected))
    np.testing.assert_array_equal(result.answered, ~np.isnan(result.answer))


async def test_a_majority_of_three_outvotes_a_judge_that_always_answers_yes(tmp_path: Path) -> None:
    terms, yes = JudgingOptions(1.0), truth(PLAN)
    async with WireServer(by_model) as server:
        config = load_judge_config(jury(server.url, "a", "b", "always"))
        with open_store(tmp_path / "v.db") as store:
            result = await ask(PLAN, POOL, config, store, options=terms)
            again = await ask(PLAN, POOL, config, store, options=terms)
            alone = load_judge_config({"backend": "replay", "replay_of": config.judges[2].public()})
            always = await ask(PLAN, POOL, alone, store)
        assert server.n_requests == 3 * N
        config = load_judge_config(jury(server.url, "a", "always", vote="mean"))
        mean = await ask(PLAN, POOL, config, tmp_path / "mean.db", options=terms)
    np.testing.assert_array_equal(result.answer, yes)
    np.testing.assert_array_equal(again.answer, yes)
    np.testing.assert_array_equal(always.answer, np.ones(N))
    np.testing.assert_array_equal(mean.answer, np.where(yes == 1, 1, 0.5))
    np.testing.assert_array_equal(mean.hard_answer, np.ones(N))
    assert result.judge["vote"] == "majority"
    judges: Any = result.judge["judges"]
    assert [judge["model"] for judge in judges] == ["a", "b", "always"]
    assert result.total_usd == pytest.approx(3 * N * 101 / 1e6)
    assert again.total_usd == 0
    assert result.models == ("a", "b", "always")


async def test_a_tied_vote_is_missing_for_the_first_reason(store: Store) -> None:
    async with WireServer(by_model) as server:
        config = load_judge_config(jury(server.url, "a", "always", "mute"))
        result = await ask(PLAN, POOL, config, store, options=JudgingOptions(1.0, max_missing=1.0))
    independent = PLAN.trial_type == 1
    assert set(result.missing_reason[independent]) == {MISSING_REASONS.index("unparsed")}
    assert result.answered[~independent].all()


async def test_a_jury_whose_lexical_judge_fails_sends_no_request(store: Store) -> None:
    async with WireServer(by_model) as server:
        keys = jury(server.url, "a", "b")
        config = load_judge_config({**keys, "judges": [*keys["judges"], "lexical"]})
        with pytest.raises(JudgeError, match="lexical-few-items"):
            await ask(PLAN, POOL, config, store, options=JudgingOptions(1.0))
        assert server.n_requests == 0


async def test_one_cap_applies_to_all_judges_together(store: Store) -> None:
    async with WireServer(by_model) as server:
        config = load_judge_config(jury(server.url, "a", "b", "c"))
        said = rf"cap of 0.011 USD: 0.0\d+ USD were spent .* \d+ of {3 * N} answers of the 3 judges are done"
        with pytest.raises(BudgetError, match=said) as caught:
            await ask(PLAN, POOL, config, store, options=JudgingOptions(0.011))
    n_done = int(caught.value.message.split(f" of {3 * N} answers")[0].split()[-1])
    assert N < n_done == server.n_requests
    assert server.n_requests * 101 / 1e6 <= 0.011


def test_the_cost_of_a_jury_is_the_sum_over_its_judges() -> None:
    config = load_judge_config(jury(NOWHERE, "a", "b", "c"))
    estimated, all_of_them = estimate(PLAN, config.judges[0]), estimate(PLAN, config)
    assert all_of_them.calls == 3 * estimated.calls
    assert all_of_them.usd == pytest.approx(3 * not_none(estimated.usd))
    assert config.can_cost_money
    assert config.needs_store
    assert not load_judge_config("lexical").can_cost_money


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"judges": []}, "two"),
        ({"judges": ["lexical"]}, "two"),
        ({"judges": ["local", "gpt-4o-mini"]}, "odd number"),
        ({"judges": ["local", "local", "gpt-4o-mini"]}, "different names"),
        ({"judges": ["local", "nobody", "gpt-4o-mini"]}, "no judge called 'nobody'"),
        ({"judges": ["local", "lexical", "gpt-4o-mini"], "vote": "loudest"}, "'majority' or 'mean'"),
        ({"judges": ["local", "lexical", "gpt-4o-mini"], "model": "m"}, "no effect"),
    ],
)
def test_a_jury_that_cannot_vote_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_judge_config({"backend": "jury"} | keys)
    assert says in caught.value.message


def test_judges_are_found_by_name_and_in_the_folder_of_the_jury_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("backend: wire\nmodel: m\n", encoding="utf-8")
    (tmp_path / "jury.yaml").write_text("backend: jury\njudges: [mine.yaml, local, gpt-4o-mini]\n", encoding="utf-8")
    config = load_judge_config(tmp_path / "jury.yaml")
    assert [judge.name for judge in config.judges] == ["mine", "local", "gpt-4o-mini"]


def test_the_suffixes_of_judges_and_prompts_may_be_in_upper_case(tmp_path: Path) -> None:
    prompt = Path("prompts/same-source.md").read_text(encoding="utf-8")
    (tmp_path / "OWN.MD").write_text(prompt, encoding="utf-8")
    (tmp_path / "MINE.YAML").write_text("backend: openai\nmodel: m\nprice: 1\nprompt: OWN.MD\n", encoding="utf-8")
    (tmp_path / "JURY.YML").write_text("backend: jury\njudges: [MINE.YAML, local, gpt-4o-mini]\n", encoding="utf-8")
    config = load_judge_config(str(tmp_path / "JURY.YML"))
    assert config.judges[0].loaded_prompt.template in prompt


def leaning(_n: int, body: Any) -> Reply:
    """Answer wrongly in three comparisons of ten, which depend on the model and on both texts, but not on the prompt."""
    texts = re.findall(r"<(?:first|second)-\w+>\n(.*?)\n</", body["messages"][-1]["content"], re.DOTALL)
    taste = zlib.crc32(f"{body['model']}{texts}".encode()) % 10
    return Reply(same_item(body) if taste < 7 else "YES" if same_item(body) == "NO" else "NO")


@pytest.mark.slow
@pytest.mark.parametrize("vote", ["mean", pytest.param("majority", marks=pytest.mark.slow)])
def test_a_jury_ranks_by_the_average_of_its_judges_with_their_variance(
    youden: Youden, tmp_path: Path, one_server: WireServer, monkeypatch: pytest.MonkeyPatch, vote: str
) -> None:
    one_server.behave = leaning
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    write_pool(make_pool(4, 8), tmp_path / "pool")
    models = ("a", "b", "c")
    write_config(
        tmp_path / "r.yaml", pool="pool", judge=jury(one_server.url, *models, vote=vote), max_cost=1.0, out="run"
    )
    ran = youden("run", "r.yaml", "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)["fit"]
    (output,) = (estimated for estimated in facts["warnings"] if estimated["slug"] == "votes")
    folder, plan = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run").read_plan()
    result = folder.read_verdicts(plan)
    assert result.votes is not None
    assert result.votes.shape == (3, len(plan))
    votes = result.votes[:, plan.trial_type == 0]
    of = np.asarray(np.corrcoef(votes))[np.triu_indices(3, 1)].mean()
    assert output["facts"]["votes"] == pytest.approx(3 / (1 + 2 * max(of, 0)))
    assert f"worth {output['facts']['votes']:.1f} independent votes" in (tmp_path / "run/report.html").read_text(
        "utf-8"
    )
    plain = {row.agent: row for row in folder.read_ranking()}
    n_requests = one_server.n_requests

    assert youden("fit", "run", "--target", "items-and-judges").code == 0
    assert one_server.n_requests == n_requests
    over = {row.agent: row for row in folder.read_ranking()}
    assert folder.fit_settings.target == folder.read_facts().target == "items-and-judges"
    mean = {
        agent: votes.mean(axis=0)[
            (plan.first[plan.trial_type == 0] == k) | (plan.second[plan.trial_type == 0] == k)
        ].mean()
        for k, agent in enumerate(plan.agent_ids)
    }
    rates = {each.agent: each.rate for each in not_none(folder.read_facts().rates).agents}
    gaps = [(over[agent].ability or 0) - value + rates[agent] for agent, value in mean.items()]
    assert max(np.abs(gaps)) < 1e-9, "an ability is the mean over judges, less the agent's rate"
    if vote == "mean":
        assert all(over[agent].ability == pytest.approx(row.ability) for agent, row in plain.items())
        added = [(over[agent].std_error or 0) - (row.std_error or 0) for agent, row in plain.items()]
        assert min(added) >= -1e-12
        assert max(added) > 0, "what judges differ in is in the error"
    assert youden("report", "run").code == 0
    assert "by more judges like these" in (tmp_path / "run/report.html").read_text("utf-8")
    assert youden("fit", "run", "--target", "items-like-these").code == 0
    assert {row.agent: row for row in folder.read_ranking()} == plain
    again = youden("run", "r.yaml", "--target", "items-and-judges", "--out", "again", "--store", ".youden/answers.db")
    assert again.code == 0, again.err
    assert {row.agent: row for row in RunFolder(tmp_path / "again").read_ranking()} == over
    assert one_server.n_requests == n_requests


@pytest.mark.slow
def test_a_jury_is_fitted_even_if_one_judge_never_answers_about_an_agent(
    youden: Youden, tmp_path: Path, one_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(4, 8)

    def silent(n: int, body: Any) -> Reply:
        about = body["messages"][-1]["content"]
        return Reply("Hm.") if body["model"] == "c" and pool.texts[0, 0][:12] in about else leaning(n, body)

    one_server.behave = silent
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    write_pool(pool, tmp_path / "pool")
    judges = jury(one_server.url, "a", "b", "c")
    write_config(tmp_path / "r.yaml", pool="pool", judge=judges, max_cost=1.0, max_missing=0.9, out="run")
    ran = youden("run", "r.yaml")
    assert ran.code == 0, ran.err
    result = RunFolder(tmp_path / "run").read_verdicts(RunFolder(tmp_path / "run").read_plan())
    assert result.votes is not None
    assert np.isnan(result.votes[2]).any()


@pytest.mark.slow
def test_a_target_over_judges_is_refused_for_one_judge_before_any_request(youden: Youden, tmp_path: Path) -> None:
    write_config(tmp_path / "r.yaml", pool="datasets/field-notes", calls=300, judge="lexical", out="run")
    refused = youden("run", "r.yaml", "--target", "items-and-judges")
    assert (refused.code, "[judges-few]" in refused.err) == (2, True), refused.err
    assert youden("run", "r.yaml").code == 0
    config = (tmp_path / "run/config.yaml").read_bytes()
    refused = youden("fit", "run", "--robust", "--target", "items-and-judges")
    assert (refused.code, "[judges-few]" in refused.err) == (2, True), refused.err
    assert (tmp_path / "run/config.yaml").read_bytes() == config
