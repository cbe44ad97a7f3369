"""Test the budget study: its statistics equal those of the drawn plans, and its summary follows from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from commands import Youden
from narrowing import not_none
from small_pools import answer_with, make_pool
from worlds import dense_world, verdicts, write_run
from youden import make_plan
from youden.cli import youden
from youden.data.importers.peer_prediction import import_results
from youden.errors import ConfigError, PlanError, StatisticsError
from youden.pipeline.abilities import estimate_mean_abilities
from youden.stats import spearman
from youden.study.budget_curves import BudgetRow, BudgetStudy, SplitHalf, study_budget, top_recall
from youden.study.budget_goals import budget_to_json, describe_budget, parse_goal, recommend
from youden.study.replaying import (
    RecordedAnswers,
    make_recorded_answers,
    read_dense_answers,
    read_or_simulate_answers,
    read_recorded_answers,
    replay,
    simulate_from_pilot,
)
from youden.types import PAIRED
from youden.types.results import ScoreKind


@pytest.fixture(scope="module")
def recorded_8_by_20() -> RecordedAnswers:
    return dense_world()


def test_a_dense_replay_equals_the_run(recorded_8_by_20: RecordedAnswers) -> None:
    plan = make_plan(recorded_8_by_20.pool, design="dense", holdout=0)
    again = replay(plan, recorded_8_by_20).rates()
    assert again.digest == recorded_8_by_20.rates.digest


def test_unobserved_values_are_missing_and_not_zero() -> None:
    result = verdicts(make_pool(6, 8), design="cyclic", calls="40%")
    pilot = make_recorded_answers(result.rates(), difference_only=False)
    assert 0 < pilot.observed < 0.9
    replayed = replay(make_plan(pilot.pool, design="dense", holdout=0), pilot)
    assert replayed.answered[replayed.plan.trial_type == 0].mean() == pytest.approx(pilot.observed)
    assert np.isnan(replayed.answer[~replayed.answered]).all()


def test_a_row_is_the_mean_over_individually_drawn_plans(recorded_8_by_20: RecordedAnswers) -> None:
    study = study_budget(recorded_8_by_20, designs=["cyclic"], calls=["20%"], n_seeds=3)
    dense = recorded_8_by_20.rates.training_scores().value.mean(axis=1)
    rho, inside, lost = [], [], []
    for seed in range(3):
        plan = make_plan(recorded_8_by_20.pool, design="cyclic", calls="20%", holdout=0, seed=seed)
        means = estimate_mean_abilities(replay(plan, recorded_8_by_20))
        rho.append(spearman(means.ability, dense).value)
        lost.append(dense.max() - dense[means.ability.argmax()])
        shift = means.ability.mean() - dense.mean()
        inside += [((means.low <= dense + shift) & (dense + shift <= means.high)).mean()]
    row = study.designs["cyclic"][0]
    assert row.calls == len(plan)
    assert row.rho_mean == pytest.approx(np.mean(rho))
    assert row.rho_sd == pytest.approx(np.std(rho, ddof=1))
    assert row.coverage == pytest.approx(np.mean(inside))
    assert row.regret == pytest.approx(np.mean(lost), abs=1e-6)


@pytest.mark.parametrize("target", ["row", "symmetric"])
@pytest.mark.parametrize("design", ["dense", "cyclic", "row", "column", "hybrid", "nlogn"])
def test_every_design_gives_the_dense_ranking_with_every_call(
    recorded_8_by_20: RecordedAnswers, design: str, target: ScoreKind
) -> None:
    study = study_budget(recorded_8_by_20, designs=[design], calls=["100%"], n_seeds=2, target=target, top=3)
    row = study.designs[design][0]
    assert row.rho_mean == pytest.approx(1.0, abs=0.03)
    assert row.recall == pytest.approx(1.0, abs=0.2)
    assert row.cells == 160


def test_a_budget_that_no_design_fits_is_an_error_and_one_that_some_fit_has_reasons(
    recorded_8_by_20: RecordedAnswers,
) -> None:
    with pytest.raises(PlanError, match=r"dense design exceeds the budget.*\[budget-none-fits\]"):
        study_budget(recorded_8_by_20, designs=["dense"], calls=["1%"], n_seeds=2)
    with pytest.raises(PlanError, match=r"half_width.*got -1.*\[budget-none-fits\]"):
        study_budget(recorded_8_by_20, designs=["cyclic"], half_widths=[-1], n_seeds=2)
    study = study_budget(recorded_8_by_20, designs=["dense", "cyclic"], calls=["30%"], n_seeds=2)
    assert study.designs["dense"][0].rho_mean is None
    assert "dense design exceeds the budget" in str(study.designs["dense"][0].infeasible_reason)


@pytest.mark.parametrize(
    ("arguments", "slug"), [({"n_seeds": 0}, "study-seeds"), ({"top": 8}, "budget-top"), ({"top": 0}, "budget-top")]
)
def test_bad_arguments_are_refused(recorded_8_by_20: RecordedAnswers, arguments: dict[str, Any], slug: str) -> None:
    with pytest.raises(StatisticsError, match=rf"\[{slug}\]"):
        study_budget(recorded_8_by_20, **arguments)


def made_up(**rows: list[tuple[float, float]]) -> BudgetStudy:
    return BudgetStudy(
        target="symmetric",
        dense_calls=1000,
        halves=SplitHalf(0.96, 0.01, {1: 0.9, 3: 0.8, 5: 0.7}),
        fpr=0.0,
        r2=0.6,
        top=5,
        tops=(1, 3, 5),
        n_seeds=20,
        designs={
            name: tuple(
                BudgetRow(
                    percent=calls / 10,
                    budget_label=f"{calls / 10:g}%",
                    calls=calls,
                    rho_mean=rho,
                    blocks=20,
                    coverage=0.95,
                )
                for calls, rho in result
            )
            for name, result in rows.items()
        },
    )


def test_the_cheapest_design_that_meets_the_goal_is_recommended() -> None:
    study = made_up(cyclic=[(10, 0.9), (50, 0.98)], nlogn=[(40, 0.95), (100, 0.99)])
    assert recommend(study, parse_goal("0.94")).row == study.designs["nlogn"][0]
    assert recommend(study, parse_goal("rho=0.97")).row == study.designs["cyclic"][1]


def test_the_regret_of_the_top_agent_is_reported_and_may_be_the_goal() -> None:
    study = made_up(cyclic=[(10, 0.9), (50, 0.98)])
    rows = tuple(replace(row, regret=lost) for row, lost in zip(study.designs["cyclic"], (0.02, 0.004), strict=True))
    study = replace(study, designs={"cyclic": rows})
    assert recommend(study, parse_goal("regret=0.01")).row == rows[1]
    assert recommend(study, parse_goal("regret=0.03")).row == rows[0]
    assert "first-ranked one by 0.004 on average" in " ".join(describe_budget(study, parse_goal("regret=0.01")))
    short = describe_budget(study, parse_goal("regret=0.001"))[0]
    assert short.startswith("No design that was studied reaches mean regret ≤ 0.001: the best is cyclic at 5%")


def test_a_run_below_its_goal_states_its_ceiling() -> None:
    study = made_up(cyclic=[(10, 0.9), (50, 0.961)])
    words = describe_budget(study, parse_goal("rho=0.97"))
    assert words[0].startswith("No design that was studied reaches mean ρ ≥ 0.97: the best is cyclic at 5%")
    assert "0.960" in words[0]
    assert "more items are needed" in words[0]
    assert budget_to_json(study, parse_goal("rho=0.97"))["recommended"] is None


@pytest.mark.parametrize("text", ["", "rho", "rho=2", "tau=0.9", "0", "rho=nan"])
def test_an_invalid_goal_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"\[goal-invalid\]"):
        parse_goal(text)


def test_a_goal_for_an_unavailable_statistic_is_refused() -> None:
    with pytest.raises(ConfigError, match="Set a goal in rho"):
        recommend(made_up(cyclic=[(10, 0.9)]), parse_goal("half_width=0.1"))


def test_few_blocks_and_irregular_coverage_are_reported() -> None:
    study = made_up(cyclic=[(10, 0.9)])
    row = BudgetRow(percent=1, budget_label="1%", calls=10, rho_mean=0.9, blocks=8, coverage=0.8)
    words = " ".join(describe_budget(BudgetStudy(**{**vars(study), "designs": {"cyclic": (row,)}}), parse_goal("0.5")))
    assert "8 blocks" in words
    doubtful = {**vars(study), "r2": 0.3}
    text = " ".join(describe_budget(BudgetStudy(**doubtful), parse_goal("0.5")))
    assert "explains 30%" in text
    assert "too narrow" in words
    few = {**vars(study), "designs": {"cyclic": (row,)}, "n_seeds": 3}
    output = " ".join(describe_budget(BudgetStudy(**few), parse_goal("0.5")))
    assert "too narrow" not in output
    assert "With 3 seeds, the coverage of intervals is not assessed; that needs 20." in output


def test_a_simulated_population_of_a_pilot_has_shrunken_abilities(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "pilot", n_items=40, design="cyclic", calls="10%")
    with pytest.raises(StatisticsError, match=r"\[replay-pilot\]"):
        read_dense_answers(folder)
    whole = read_or_simulate_answers(folder, seed=0)
    assert whole.observed == 1
    assert any("pilot" in line for line in whole.caveats)
    truth = np.linspace(0.4, -0.4, 8) / 2
    result = whole.scores("symmetric").mean(axis=1)
    assert np.corrcoef(result, truth)[0, 1] > 0.9
    assert 0.5 < result.std() / (truth.std() * 6 / 7 + truth.std() / 7) < 1.5
    assert simulate_from_pilot(read_recorded_answers(folder), seed=0).rates.digest == whole.rates.digest


def test_a_pilot_with_many_false_positives_is_simulated_within_the_score_range() -> None:
    plan = make_plan(make_pool(5, 10), calls="50%", independent="pooled:30", holdout=0, seed=0)
    hard = (plan.first > 0) & (plan.second > 0) & (plan.item > 1)
    answer = np.where(plan.trial_type == PAIRED, hard, np.arange(len(plan)) % 3 == 0).astype(float)
    complete = simulate_from_pilot(
        make_recorded_answers(answer_with(plan, answer).rates(), difference_only=False), seed=0
    )
    assert np.nanmin(complete.paired - complete.independent) >= -1
    study = study_budget(complete, n_seeds=2)
    assert all(row.rho_mean is not None for rows in study.designs.values() for row in rows)


def test_default_budgets_fit_the_pool() -> None:
    world = dense_world(8, 40)
    study = study_budget(world, n_seeds=1)
    percents = {design: tuple(row.percent for row in rows) for design, rows in study.designs.items()}
    assert percents == {"cyclic": (1, 2, 5), "nlogn": (10, 20, 50)}
    assert all(row.infeasible_reason is None for rows in study.designs.values() for row in rows)
    complete = study_budget(dense_world(5, 6), designs=["dense"], n_seeds=1)
    assert [row.percent for row in complete.designs["dense"]] == [100]


def test_recall_equals_a_manually_computed_value() -> None:
    result, dense = np.array([0.9, 0.1, 0.8, 0.7]), np.array([0.9, 0.8, 0.7, np.nan])
    assert [top_recall(result, dense, k) for k in (1, 2, 3)] == [1, 0.5, pytest.approx(2 / 3)]


def test_recall_is_reported_with_the_correlation_of_split_halves(
    recorded_8_by_20: RecordedAnswers,
) -> None:
    study = study_budget(recorded_8_by_20, designs=["cyclic"], calls=["20%"], n_seeds=3)
    row = study.designs["cyclic"][0]
    assert set(row.recalls or {}) == {1, 3, 5}
    assert row.recall == (row.recalls or {})[5]
    words = " ".join(describe_budget(study, parse_goal("0.5")))
    unmet = " ".join(describe_budget(study, parse_goal("1")))
    assert " It finds " in words
    assert " The best design finds " in unmet
    assert f"{not_none(row.recalls)[5]:.2f} of the top 5 ({not_none(study.halves.recalls)[5]:.2f})" in words
    assert study_budget(dense_world(4, 20), designs=["cyclic"], calls=["50%"], n_seeds=1).tops == (1, 3)


def test_study_budget_prints_the_documented_json(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    options = ["--design", "cyclic,nlogn", "--calls", "10%,30%", "--n-seeds", "2", "--json"]
    done = CliRunner().invoke(youden, ["study", "budget", str(folder.path), *options], catch_exceptions=False)
    budget = json.loads(done.stdout)["budget"]
    assert {"target", "dense_calls", "ceiling", "designs"} <= set(budget)
    assert budget["dense_calls"] == 2 * 8 * 7 * 20
    assert set(budget["designs"]) == {"cyclic", "nlogn"}
    for row in budget["designs"]["cyclic"]:
        assert {"percent", "calls", "rho_mean", "rho_sd", "coverage", "half_width", "top5_recall"} <= set(row)
    table = CliRunner().invoke(youden, ["study", "budget", str(folder.path), *options[:-1]], catch_exceptions=False)
    assert "cyclic" in table.stdout
    assert "ceiling" in table.stdout


def test_pubmed_at_two_percent_ranks_as_the_statistics_page_says(peer_prediction: Path) -> None:
    rates = import_results(peer_prediction / "eval_results" / "pubmed_200_config_results").rates
    study = study_budget(
        make_recorded_answers(rates, difference_only=True), designs=["cyclic"], calls=["2%"], n_seeds=6
    )
    row = study.designs["cyclic"][0]
    assert study.halves.rho == pytest.approx(0.976, abs=0.005)
    assert row.calls == 6960
    assert row.rho_mean == pytest.approx(0.973, abs=0.009)
    assert 0.93 <= (row.coverage or 0) <= 0.995


@pytest.mark.slow
def test_budgets_are_given_as_trials_or_half_widths(youden: Youden, tmp_path: Path) -> None:
    write_run(tmp_path / "dense", n_agents=6, n_items=30)
    ended = youden(
        "study", "budget", "dense", "--calls", "40/agent,80/agent", "--half-width", "0.08", "--n-seeds", "3", "--json"
    )
    assert ended.code == 0, ended.err
    designs = json.loads(ended.out)["budget"]["designs"]
    assert [row["budget_label"] for row in designs["cyclic"]] == ["40/agent", "80/agent", "± 0.08"]
    assert [row["trials"] for row in designs["cyclic"][:2]] == [40, 80]
    assert designs["cyclic"][2]["half_width"] < 0.085
    assert "cannot plan for a half-width" in designs["nlogn"][2]["infeasible_reason"]
    displayed = youden("study", "budget", "dense", "--calls", "40/agent", "--design", "cyclic", "--n-seeds", "2")
    assert "cyclic at 40/agent (40 trials per agent, 132 calls" in " ".join(displayed.out.split())
