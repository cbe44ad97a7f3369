"""Pools of one or two agents: their plans of self-trials, J with its interval, the report, and the gate between versions."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit

import youden
from commands import Youden, write_config
from narrowing import not_none
from small_pools import answer_with, draw_repeats, make_pool, part_of
from youden import make_plan, read_run
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.engines.trial_blocks import TrialsByItem
from youden.errors import JudgeError, PlanError, StatisticsError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.questions import iter_keys
from youden.pipeline.self_consistency import estimate_from_self_trials
from youden.pools.checks.check import check_pool
from youden.stats import estimate_self_consistency
from youden.types import INDEPENDENT, PAIRED, Pool
from youden.workflows.calibration_trials import draw_calibration_trials


def pool_of(n_agents: int, n_items: int = 12, n_repeats: int = 3, *, gaps: bool = False) -> Pool:
    """Agents whose responses to an item share words: the later the agent, the fewer."""
    agents_and_items = make_pool(n_agents, n_items)
    texts = draw_repeats(n_agents, n_items, n_repeats, words_per_agent=25)
    if gaps:
        texts[-1][0, ::2] = None
        for later in texts[1:]:
            later[0, 1] = None
    return Pool.from_repeats(agents_and_items.agents, agents_and_items.items, texts, "repeats")


def write_table(path: Path, pool: Pool) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "repeat", "response", "prompt"])
        for number, texts in enumerate(pool.texts_by_repeat, 1):
            for agent, row in zip(pool.agents, texts, strict=True):
                for item, text in zip(pool.items, row, strict=True):
                    writer.writerow([agent.id, item.id, number, text, item.prompt])


@pytest.mark.parametrize("gaps", [False, True])
def test_paired_trials_show_every_ordered_pair_of_responses_once_and_items_evenly(gaps: bool) -> None:
    pool = pool_of(1, gaps=gaps)
    trials = make_plan(pool).trials
    columns, is_paired = trials.columns(), trials.trial_type == PAIRED
    shown = set(
        zip(*(columns[name][is_paired].tolist() for name in ("item", "first_repeat", "second_repeat")), strict=True)
    )
    possible = {
        (j, a, b)
        for j, n in enumerate(pool.n_repeats[0].tolist())
        for a in range(1, n + 1)
        for b in range(1, n + 1)
        if a != b
    }
    assert shown == possible
    assert is_paired.sum() == (~is_paired).sum() == len(possible)

    independent = trials.take(~is_paired)
    assert (independent.item != independent.other_item).all()
    for item, repeat in (("item", "first_repeat"), ("other_item", "second_repeat")):
        numbers = independent.columns()
        assert (numbers[repeat] <= pool.n_repeats[0, numbers[item]]).all()
    if not gaps:
        for column in (independent.item, independent.other_item):
            assert set(np.bincount(column, minlength=12)) == {6}


def test_both_orders_are_balanced_and_a_smaller_budget_gives_the_first_trials() -> None:
    pool = pool_of(2, n_items=30, n_repeats=2)
    full, part = make_plan(pool), make_plan(pool, calls="20/agent")
    assert (len(full), len(part)) == (2 * 2 * 60, 2 * 2 * 20)
    assert len(make_plan(pool, calls=80)) == 80
    paired = full.trials.take((full.trial_type == PAIRED) & (full.first == 0))
    columns = paired.columns()
    assert sorted(columns["first_repeat"].tolist()) == [1] * 30 + [2] * 30
    assert len(set(paired.item[:20].tolist())) == 20, "no item twice before each was shown once"
    assert make_plan(pool, calls=2000).notes[0] == (
        "the responses of this pool allow only 240 self-trials: got a budget of 2,000 calls; add responses or items for more"
    )
    assert "got a budget of 3,600 calls" in make_plan(pool, calls="900/agent").notes[0]
    assert "allow only" not in part.notes[0]
    small = part.trials.take((part.trial_type == PAIRED) & (part.first == 0)).columns()
    for name in ("item", "first_repeat", "second_repeat"):
        assert small[name].tolist() == columns[name][:20].tolist()


def test_answers_to_an_agent_are_reused_if_another_version_joins_its_pool() -> None:
    both = pool_of(2)
    alone = Pool.from_repeats(both.agents[:1], both.items, [texts[:1] for texts in both.texts_by_repeat], "one")
    questions = load_judge_config("gpt-4o-mini").questions()
    keys_alone = [key for _, key in iter_keys(questions, make_plan(alone))]
    keys_both = [key for _, key in iter_keys(questions, make_plan(both))]
    assert keys_both[: len(keys_alone)] == keys_alone


def test_settings_without_effect_and_pools_without_repeats_are_refused() -> None:
    pool = pool_of(1)
    for settings in ({"design": "dense"}, {"holdout": 0.2}, {"independent": "pooled:9"}, {"calls": "5%"}):
        with pytest.raises(PlanError, match=next(iter(settings))) as error:
            make_plan(pool, **settings)
        assert error.value.slug == "self-trials"
    with pytest.raises(PlanError, match=r"got half_width: 0\.05"):
        make_plan(pool, design="fixed-width", options={"half_width": 0.05})
    with pytest.raises(PlanError, match="Add agents, or a second response of the agent to each item") as alone:
        make_plan(part_of(make_pool(5, 6), slice(1)))
    assert alone.value.slug == "pool-small"
    with pytest.raises(PlanError, match="at least two responses of each agent") as small:
        make_plan(part_of(make_pool(5, 6), slice(2)))
    assert small.value.slug == "pool-small"
    texts = [of_repeat.copy() for of_repeat in pool_of(2).texts_by_repeat]
    for later in texts[1:]:
        later[1] = None
    once = Pool.from_repeats(pool_of(2).agents, pool.items, texts, "few")
    with pytest.raises(PlanError, match=r"'a1' .* got 0 items with two responses") as few:
        make_plan(once)
    assert few.value.slug == "repeats-few"
    with pytest.raises(PlanError, match=r"per agent: got calls: 1 for 1 agent\. Set calls to 2 or more") as cheap:
        make_plan(pool, calls=1)
    assert cheap.value.slug == "calls-invalid"


def test_ability_is_the_self_consistency_and_differences_count_common_items() -> None:
    plan = make_plan(pool_of(2, n_items=40))
    rng = np.random.default_rng(8)
    item_effect = rng.random(40)
    p = np.where(plan.trial_type == PAIRED, 0.2 + 0.7 * item_effect[plan.item], 0.1)
    answer = (rng.random(len(plan)) < p).astype(float)
    expected = estimate_self_consistency(plan.first, plan.item, plan.other_item, answer, n_agents=2, n_items=40)
    table = youden.rank(answer_with(plan, answer)).set_index("agent").loc[["a0", "a1"]]
    assert table.ability.tolist() == pytest.approx(expected.value.tolist())
    assert table.std_error.tolist() == pytest.approx(expected.covariance.std_error.tolist())
    assert expected.covariance.covariance[0, 1] > 0, "both agents share the effects of items"
    assert (table.low < table.ability).all()
    with pytest.raises(StatisticsError) as error:
        youden.rank(answer_with(plan, answer), target="these-items")
    assert error.value.slug == "self-target"


@pytest.mark.slow
@pytest.mark.parametrize("n_agents", [1, 2])
def test_init_check_run_and_report_work_for_one_and_two_agents(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_agents: int
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "versions.csv", pool_of(n_agents, n_items=20))
    assert "next: youden check versions.yaml" in youden("init", "versions.csv").well().out
    config = (tmp_path / "versions.yaml").read_text(encoding="utf-8")
    size = f"{60 * n_agents} responses to {20 * n_agents} of {20 * n_agents} pairs of an agent and an item"
    assert size in config
    assert "measures the self-consistency of the agents" in config
    assert not any(text in config for text in ("design", "5%", "half_width", "these-items exactly", "`these-items`"))
    offered = next(line for line in config.splitlines() if line.startswith("# calls:"))
    (tmp_path / "fewer.yaml").write_text(f"{config}{offered.removeprefix('# ')}\n", encoding="utf-8")
    youden("plan", "fewer.yaml").well()
    checked = youden("check", "versions.yaml").well()
    assert size in checked.out
    assert "Remove these agents" not in checked.out
    assert "pool-small" not in checked.out
    assert "items-alone" not in checked.out
    youden("plan", "versions.yaml").well()
    first = youden("run", "versions.yaml", "--json").well()
    said = first.said
    assert said["fit"]["ranking"] == "self-consistency"
    assert said["ranking"][0]["agent"] == "a0"
    assert 0 < said["ranking"][0]["low"] < said["ranking"][0]["ability"] < said["ranking"][0]["high"]
    assert said["fit"]["recommendation"]["form"] == "none"
    assert said["fit"]["recommendation"]["decided_by"] == "self_consistency"
    assert "youden gate" in said["fit"]["recommendation"]["text"]
    assert youden("run", "versions.yaml", "--json").well().said["ranking"] == said["ranking"]

    page = (tmp_path / "runs/versions/report.html").read_text(encoding="utf-8")
    assert "How consistent are the agents with themselves?" in page
    assert "not that it is correct" in page
    assert "<dt>Answers to self-trials</dt>" in page
    assert "How good is the judge?" not in page
    assert "number of answered paired trials from which its ability is estimated" in page
    assert "a difference of two mean answers of the judge (0: no, 1: yes)" in page
    assert "average agent" not in page.partition("How made")[0].partition("<main")[2]
    markdown = youden("report", "runs/versions", "--format", "md").well().out
    assert "Self-consistency J is a difference of two mean answers" in markdown
    assert "those of other agents answer the same item" not in markdown


def test_a_warning_about_copied_prompts_refers_to_self_consistency() -> None:
    pool = pool_of(1)
    prompts = [" ".join(f"word{item}of{number}" for number in range(60)) for item in range(pool.n_items)]
    items = tuple(replace(item, prompt=prompt) for item, prompt in zip(pool.items, prompts, strict=True))
    copies = [
        np.array([[" ".join(prompt.split()[start : start + 40]) for prompt in prompts]], dtype=object)
        for start in (0, 20)
    ]
    copying = Pool.from_repeats(pool.agents, items, copies, "copying")
    verdicts = youden.judge(make_plan(copying), judge="lexical")
    (finding,) = (warning for warning in verdicts.warnings if warning.slug == "copying")
    assert "this judge overstates the self-consistency of the agent" in finding.message


def test_another_target_is_refused_before_the_judge_is_paid(youden: Youden, tmp_path: Path) -> None:
    write_pool(pool_of(1), tmp_path / "pool")
    config = tmp_path / "versions.yaml"
    write_config(config, pool="pool", judge="lexical", target="these-items", out=str(tmp_path / "run"))
    assert youden("plan", str(config)).refuses("self-target")
    assert youden("run", str(config)).refuses("self-target")
    assert not (tmp_path / "run" / "trials.parquet").exists()


def test_the_result_of_one_agent_has_no_ranks(youden: Youden, tmp_path: Path) -> None:
    for n_agents in (1, 2):
        write_table(tmp_path / f"{n_agents}.csv", pool_of(n_agents))
        youden("init", f"{n_agents}.csv", "--judge", "lexical").well()
        ended = youden("run", f"{n_agents}.yaml", "--out", str(n_agents)).well()
        page = (tmp_path / str(n_agents) / "report.html").read_text(encoding="utf-8")
        shows_ranks = n_agents > 1
        for words in (">Ranks<", ">By length<", ">Not significantly different"):
            assert (words in page) == shows_ranks
        assert (" by length" in ended.out) == shows_ranks
        assert ("ranks" in ended.out) == shows_ranks


def test_an_alarm_of_self_trials_names_its_agent_once() -> None:
    plan = make_plan(pool_of(2, n_items=40))
    is_false_positive = (plan.trial_type == INDEPENDENT) & (plan.first == 1)
    answer = ((plan.trial_type == PAIRED) | is_false_positive).astype(float)
    alarms = [str(finding) for finding in youden.rank(answer_with(plan, answer)).attrs["warnings"]]
    assert any("two responses of a1 on unrelated items" in alarm for alarm in alarms), alarms


def test_a_gate_compares_two_versions_of_an_agent(youden: Youden, tmp_path: Path) -> None:
    write_pool(pool_of(2, n_items=30), tmp_path / "pool")
    write_config(tmp_path / "versions.yaml", pool="pool", judge="lexical", out=str(tmp_path / "run"))
    youden("run", str(tmp_path / "versions.yaml")).well()
    gate = youden("gate", str(tmp_path / "run"), "--agent", "a1", "--baseline", "a0", "--json")
    assert gate.code == 1
    text = youden("gate", str(tmp_path / "run"), "--agent", "a1", "--baseline", "a0")
    assert "less consistent: the self-consistency of a1 is 0." in text.err
    assert "less consistent" in text.out
    assert "lower than that of a0" in text.err
    assert not any(
        word in text.out + text.err for word in ("recognizes", "worse", "Compare two versions", "100 comparisons")
    )
    row = youden("gate", str(tmp_path / "run"), "--agent", "a0", "--baseline", "a1", "--json").said["agents"][0]
    assert row["outcome"] == "better"
    assert row["n_items"] == 30
    assert row["low"] > 0

    verdicts = read_run(tmp_path / "run").verdicts
    estimate = estimate_from_self_trials(TrialsByItem.from_verdicts(verdicts))
    C = estimate.covariance.covariance
    std_error = np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    half_width = stdtrit(estimate.covariance.df.min(), (1 + row["level"]) / 2) * std_error
    assert (row["high"] - row["low"]) / 2 == pytest.approx(half_width)
    assert youden("extend", "calls", str(tmp_path / "run"), "100").refuses("extend-self-trials")
    assert youden("stress", str(tmp_path / "run")).refuses("self-trials-only")
    for study in ("budget", "aa", "links", "variance"):
        assert youden("study", study, str(tmp_path / "run")).refuses("self-trials-only")
    assert youden("rejudge", str(tmp_path / "run"), "--judge", "lexical").refuses("self-trials-only")


def test_the_next_step_of_similar_versions_is_a_new_run_and_bounds_are_possible(youden: Youden, tmp_path: Path) -> None:
    first = pool_of(1, n_items=10)
    texts = [*draw_repeats(1, 10, 3, words_per_agent=0), *draw_repeats(1, 10, 6, words_per_agent=0)[3:]]
    both = [np.concatenate([texts[k], texts[3 + k]]) for k in range(3)]
    pool = make_pool(2, 10)
    write_table(tmp_path / "p.csv", Pool.from_repeats(pool.agents, first.items, both, "similar"))
    youden("init", "p.csv").well()
    ended = youden("run", "p.yaml", "--out", "run").well()
    assert "youden extend" not in ended.out + ended.err
    assert "run a pool with more items under another name" in ended.out + ended.err
    for row in RunFolder(tmp_path / "run").read_ranking():
        assert -1 <= not_none(row.low) < not_none(row.high) <= 1


@pytest.mark.slow
def test_remedies_for_one_agent_name_responses_and_not_other_agents() -> None:
    prompt = " ".join(f"word{number}" for number in range(60))
    pool = make_pool(1, 12)
    items = tuple(replace(item, prompt=prompt) for item in pool.items)
    same = Pool.from_repeats(pool.agents, items, [np.full((1, 12), prompt, dtype=object)] * 2, "same")
    with pytest.raises(JudgeError, match="Add items with at least two responses of the agent in words") as error:
        youden.judge(make_plan(same), judge="lexical")
    assert error.value.slug == "lexical-nothing-shared"
    (finding,) = (each for each in check_pool(same).findings if each.slug == "source-copying")
    assert "Remove" not in finding.remedy


@pytest.mark.parametrize(("answer", "name"), [(0.0, "no"), (1.0, "yes")])
def test_a_judge_that_always_gives_the_same_answer_is_reported(answer: float, name: str) -> None:
    plan = make_plan(pool_of(1, n_items=20))
    table = youden.rank(answer_with(plan, np.full(len(plan), answer)))
    assert table.ability[0] == 0
    assert table.low[0] < 0 < table.high[0]
    assert f"the judge answers {name} to all self-trials" in table.attrs["recommendation"].text


def test_responses_that_are_left_out_or_blank_are_stated() -> None:
    pool = pool_of(1, gaps=True)
    assert "no second one" not in make_plan(pool_of(1)).notes[0]
    assert "1 response has no second one to compare with" in make_plan(pool).notes[0]
    texts = [*pool.texts_by_repeat[:1], np.full((1, 12), " ", dtype=object)]
    blank = check_pool(Pool.from_repeats(pool.agents, pool.items, texts, "blank"))
    assert blank.counts.n_blank == 12
    assert [finding.facts["share"] for finding in blank.findings if finding.slug == "blank"] == [0.5]
    with pytest.raises(PlanError, match=r"got 1 agent and 1 item\. Add items:"):
        make_plan(pool_of(1, n_items=1))


def test_a_judge_can_be_calibrated_on_one_agent_by_its_self_trials() -> None:
    plan = make_plan(pool_of(1, n_items=40, n_repeats=2), calls="60/agent")
    known = draw_calibration_trials(plan, calls=150, seed=0)
    assert len(known.rows("paired")) == 20
    assert len(known.rows("independent")) == 30
    assert known.in_run[known.rows("paired", "independent")].all()
    assert len(known.rows("triple")) == 0, "there is no third agent"


def test_independent_trials_are_on_two_items_of_the_same_agent() -> None:
    plan = make_plan(pool_of(2))
    assert (plan.first == plan.second).all()
    assert set(np.unique(plan.trial_type)) == {PAIRED, INDEPENDENT}
