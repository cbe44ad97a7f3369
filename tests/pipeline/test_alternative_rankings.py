"""Test alternative rankings of a run: computed from its answers, saved, and refused if nothing could be scored."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import youden
from commands import Youden, write_config, write_pool_table
from narrowing import not_none
from small_pools import answer_with, starts_with
from worlds import analyzed, write_answers
from youden.data.folder.run_config import run_config_from_keys
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import ranking_columns
from youden.data.label_tables import read_families
from youden.engines.trial_blocks import select_paired_answers
from youden.errors import StatisticsError
from youden.pipeline.alternative_rankings import check_partner_rules
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.follow_ups import allocate_follow_ups, judge_follow_ups
from youden.pipeline.precision import read_variance_components
from youden.protocol.subsample import subsample
from youden.stats.flagged_groups import FlaggedGroups
from youden.types import INDEPENDENT, Agent, Item, Plan, Pool, Verdicts
from youden.types.facts import PartnerRules
from youden.workflows.gate_answers import make_forecaster

K, J = 12, 30
RING = (0, 1, 2, 3)
BIG = (3, 4, 5, 6, 7)


def planned(design: str, *, calls: str | None = None) -> tuple[Pool, Plan]:
    texts = np.full((K, J), "x", dtype=object)
    pool = Pool(tuple(Agent(f"a{i}") for i in range(K)), tuple(Item(f"i{j}") for j in range(J)), texts)
    return pool, youden.make_plan(pool, design=design, calls=calls, seed=0)


def answered(plan: Plan, together: tuple[int, ...]) -> Verdicts:
    """Answer a_i + a_k, but yes within a group; equal trials have equal answers."""
    ability = np.linspace(0.05, 0.45, K)
    chance = ability[plan.first] + ability[plan.second]
    chance[np.isin(plan.first, together) & np.isin(plan.second, together)] = 1.0
    chance[plan.trial_type == 1] = 0.0
    noise = np.random.default_rng(0).random((K, K, J))[plan.first, plan.second, plan.item]
    answer = (noise < chance).astype(np.float64)
    return Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "made up"})


def judged(design: str = "cyclic", *, together: tuple[int, ...] = RING, calls: str | None = None) -> Verdicts:
    return answered(planned(design, calls=calls)[1], together)


@pytest.mark.parametrize("design", ["cyclic", "dense", "nlogn"])
def test_a_ring_falls_in_the_robust_ranking_of_any_design(design: str) -> None:
    result = analyzed(judged(design, calls="40%" if design == "cyclic" else None))
    assert result.facts.alternative_rankings["robust"].groups == (("a0", "a1", "a2", "a3"),)
    order = result.ranking.sort_values("robust_ability", ascending=False)["agent"].tolist()
    assert set(order[-4:]) == {"a0", "a1", "a2", "a3"}
    assert set(result.ranking["agent"].tolist()[-4:]) != {"a0", "a1", "a2", "a3"}
    assert any("agree more than any honest group on record" in line.message for line in result.facts.warnings)


def test_pairs_whose_independent_trials_are_unanswered_are_left_out() -> None:
    plan = planned("dense")[1]
    is_independent = plan.trial_type == INDEPENDENT
    is_lost = is_independent & (plan.first == 2)
    rates = answer_with(plan, np.where(is_independent, 0.25, 0.75), missing=is_lost).rates()
    answers = select_paired_answers(rates)
    assert set(answers.first.tolist()) == set(range(K)) - {2}
    assert set(answers.value) == {0.5}


def test_without_flagged_pairs_the_robust_ranking_equals_the_plain_one() -> None:
    table = analyzed(judged(together=())).ranking
    for column in ("ability", "low", "high", "std_error", "rank_low", "rank_high"):
        assert (table[column] == table[f"robust_{column}"]).all(), column


def test_the_robust_ranking_is_the_main_one_if_configured() -> None:
    result = analyzed(judged("dense"), PartnerRules("robust"))
    assert result.ranking["robust_ability"].is_monotonic_decreasing
    assert result.facts.ranked_by == "robust"


def test_a_family_that_agrees_loses_its_lead_with_a_warning() -> None:
    families = {f"a{i}": "big" if i in BIG else f"f{i % 3}" for i in range(K)}
    result = analyzed(judged("dense", together=BIG), PartnerRules(families=families))
    assert int(result.ranking["agent"][0][1:]) in BIG
    facts = result.facts.alternative_rankings["family"]
    assert "falls to rank" in facts.leader_change
    (finding,) = [finding for finding in result.facts.warnings if finding.message == facts.leader_change]
    assert finding.agents[0] == result.ranking["agent"][0]
    matches = re.findall(r"\ba\d+\b", finding.message)
    assert sorted(finding.agents) == sorted(matches)
    assert result.ranking.sort_values("family_ability")["agent"].tolist()[-1] in ("a10", "a11")


def test_a_panel_scores_every_agent_with_wider_intervals() -> None:
    result = analyzed(judged("dense"), PartnerRules("trusted", ("a9", "a10", "a11")))
    assert {"a0", "a1", "a2", "a3"} < set(result.ranking["agent"][-5:])
    assert result.ranking["trusted_std_error"].mean() > result.ranking["std_error"].mean()


def test_an_impossible_alternative_ranking_states_the_reason_or_is_refused() -> None:
    all_agents = (tuple(f"a{i}" for i in range(K)),)
    result = analyzed(judged(), PartnerRules(clones=all_agents))
    assert "[all-agents-flagged]" in result.facts.alternative_rankings["robust"].message
    assert result.ranking["robust_ability"].isna().all()
    assert result.ranking["ability"].notna().all()
    with pytest.raises(StatisticsError, match=r"\[all-agents-flagged\]"):
        analyzed(judged(), PartnerRules("robust", clones=all_agents))


def test_a_fit_that_fails_changes_no_setting_of_the_run(tmp_path: Path) -> None:
    result = judged()
    folder = write_answers(tmp_path / "run", result.plan.pool, result)
    folder.write_config(run_config_from_keys({"name": "run", "pool": "none", "out": str(folder.path)}, origin="test"))
    before = folder.file("config.yaml").read_bytes()
    clones = (tuple(f"a{i}" for i in range(K)),)
    with pytest.raises(StatisticsError, match=r"\[all-agents-flagged\]"):
        fit_run(folder, rules=PartnerRules("robust", clones=clones))
    assert folder.file("config.yaml").read_bytes() == before
    fit_run(folder, rules=PartnerRules("trusted", ("a9", "a10", "a11")))
    assert folder.fit_settings.rules.trusted == ("a9", "a10", "a11")


@pytest.mark.slow
def test_options_for_families_and_panel_are_saved_with_the_run(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=8)
    write_config(tmp_path / "mine.yaml", pool="mine.csv", design="dense")
    assert youden("run", "mine.yaml").code == 0
    folder = RunFolder(tmp_path / "runs" / "mine")
    ids = folder.read_pool().agent_ids
    lines = [["agent", "family"], *([agent, f"f{n % 2}"] for n, agent in enumerate(ids))]
    with (tmp_path / "families.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    assert youden("fit", "runs/mine", "--families", "families.csv").code == 0
    panel = ",".join(ids[:3])
    output = youden("fit", "runs/mine", "--trusted", panel, "--json").said
    assert set(output["ranking"][0]["alternative_rankings"]) == {"robust", "family", "trusted"}
    assert output["fit"]["ranked_by"] == "trusted"
    row = folder.read_ranking()[0]
    assert output["ranking"][0]["ability"] == row.alternative_rankings["trusted"].ability
    again = json.loads(youden("fit", "runs/mine", "--json").out)
    assert again["ranking"] == output["ranking"]
    assert json.loads(youden("fit", "runs/mine", "--no-robust", "--json").out)["fit"]["ranked_by"] == "plain"
    assert youden("report", "runs/mine").code == 0


def test_families_are_read_from_excel_files(tmp_path: Path) -> None:
    families = {"a0": "f", "a1": "g"}
    pd.DataFrame(families.items(), columns=["agent", "family"]).to_excel(tmp_path / "f.xlsx", index=False)
    assert read_families(tmp_path / "f.xlsx") == families


@pytest.mark.parametrize(
    ("table", "words", "slug"),
    [
        ("agent,family\nnobody,f\n", (), "families-unknown"),
        ("agent,family\na0,f\na0,g\n", (), "families-duplicate"),
        ("agent,kind\na0,f\n", (), "families-columns"),
        ("agent,family\n,\n", (), "families-empty"),
        (None, ("--trusted", "a0"), "panel-small"),
        (None, ("--robust",), "robust-few-agents"),
        (None, ("--trusted", "a0,nobody"), "trusted-unknown"),
    ],
)
def test_panels_and_families_that_leave_no_partner_are_refused(
    youden: Youden, tmp_path: Path, table: str | None, words: tuple[str, ...], slug: str
) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv")
    if table is not None:
        (tmp_path / "families.csv").write_text(table)
        words = ("--families", "families.csv")
    assert youden("run", "mine.yaml", *words).refuses(slug)


def test_a_single_family_is_refused() -> None:
    with pytest.raises(StatisticsError, match=r"\[one-family\]"):
        check_partner_rules(PartnerRules(families=dict.fromkeys(("a0", "a1"), "f")), ("a0", "a1"))


class TestUndecidedGroups:
    def judge_counted(self, plan: Plan) -> Verdicts:
        return answered(plan, (0, 1, 2))

    def test_follow_ups_are_judged_after_the_plan_flagged_and_change_no_plain_ability(self) -> None:
        _pool, plan = planned("cyclic", calls="4%")
        first = self.judge_counted(plan)
        result = judge_follow_ups(first, self.judge_counted, share=0.5)
        assert 0 < result.plan.n_follow_ups <= 0.5 * len(plan)
        assert starts_with(result.plan.trials, plan.trials)
        assert judge_follow_ups(result, self.judge_counted, share=0.5).plan.digest == result.plan.digest
        assert result.rates().digest == first.rates().digest
        before, after = analyzed(first), analyzed(result)
        assert before.facts.alternative_rankings["robust"].groups == ()
        assert after.facts.alternative_rankings["robust"].groups == (("a0", "a1", "a2"),)
        for column in [column.name for column in ranking_columns(())][2:]:
            assert before.ranking[column].equals(after.ranking[column]), column

    def test_a_gate_a_rejudged_part_and_forecasts_ignore_follow_ups(self, tmp_path: Path) -> None:
        pool, plan = planned("cyclic", calls="4%")
        first = self.judge_counted(plan)
        result = judge_follow_ups(first, self.judge_counted, share=0.5)
        parts = [subsample(of_run.plan, calls=200).trials for of_run in (first, result)]
        for name, column in parts[0].columns().items():
            np.testing.assert_array_equal(column, parts[1].columns()[name], err_msg=name)
        components = [
            not_none(read_variance_components(write_answers(tmp_path / name, pool, of_run)))
            for name, of_run in (("first", first), ("result", result))
        ]
        np.testing.assert_allclose(components[0].residual, components[1].residual)

        with_holdout = youden.make_plan(pool, calls="8%", holdout=0.2)
        first = self.judge_counted(with_holdout)
        result = judge_follow_ups(first, self.judge_counted, share=0.5)
        assert result.plan.n_follow_ups > 0
        before, after = (make_forecaster(of_run, None)(0, 5).difference.value for of_run in (first, result))
        assert before == pytest.approx(after)

    def test_follow_ups_respect_the_budget_and_give_all_pairs_of_a_group_equal_numbers(self) -> None:
        cluster = np.arange(K, dtype=np.int32)
        cluster[5] = 4
        flags = FlaggedGroups(np.zeros((K, K), dtype=np.bool_), cluster, ((0, 1, 2), (1, 2, 3), (4, 5), (6, 7, 8)))
        first = dict.fromkeys([(0, 1), (0, 2), (1, 2)], 40)
        assert allocate_follow_ups(flags, 120) == first
        assert allocate_follow_ups(flags, 140) == {**first, (1, 3): 10, (2, 3): 10}
        assert allocate_follow_ups(flags, 7) == {}
        assert (4, 5) not in allocate_follow_ups(flags, 10_000)

    @pytest.mark.slow
    def test_follow_ups_of_a_run_are_in_its_folder_and_sent_once(self, youden: Youden, tmp_path: Path) -> None:
        pool = planned("cyclic")[0]
        rng = np.random.default_rng(0)
        texts = [[" ".join(f"w{j}x{k}" for k in rng.choice(30, 5, replace=False)) for j in range(J)] for _ in range(K)]
        texts[1] = texts[0]
        with (tmp_path / "mine.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["agent", "item", "text"])
            writer.writerows(
                (a.id, t.id, texts[i][j]) for i, a in enumerate(pool.agents) for j, t in enumerate(pool.items)
            )
        write_config(tmp_path / "mine.yaml", pool="mine.csv", calls="4%", follow_up_fraction=0.5)
        assert youden("run", "mine.yaml").code == 0
        folder = RunFolder(tmp_path / "runs" / "mine")
        plan, rows = folder.read_plan(), folder.read_ranking()
        assert plan.n_follow_ups > 0
        assert youden("run", "runs/mine/config.yaml").code == 0
        assert folder.read_plan().digest == plan.digest
        assert folder.read_ranking() == rows
