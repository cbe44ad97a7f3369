"""Test the comparison of judges: trials matched by id, common trials compared, refusals without common trials."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from narrowing import not_none
from small_pools import answer_with, make_pool
from worlds import verdicts, write_run
from youden import make_plan
from youden.cli import youden
from youden.errors import ConfigError, StatisticsError
from youden.pipeline.fitted_run import fit_run
from youden.report.data.comparison import Comparison
from youden.report.pages.writing import render_comparison
from youden.stats import CentredCovariance, pairwise_differences
from youden.stats.judges.cell_agreement import cohen_kappa, krippendorff_alpha
from youden.stats.judges.judge_shift import JudgeShift
from youden.stats.judges.rank_agreement import estimate_rank_agreement
from youden.stats.trials.best_selection import predict_rank_correlation
from youden.study.agreement import JudgesStudy
from youden.study.judged_runs import AlignedRuns, JudgedRun, read_judged_run
from youden.types import PAIRED, Verdicts
from youden.types.pool import Floats
from youden.types.recommendation import NOT_MADE, Recommendation, RecommendationForm
from youden.types.results import Rates


def judged(result: Verdicts, *, name: str = "run", trials: bool = True) -> JudgedRun:
    return JudgedRun(name, result.plan.pool_digest, result.rates(), result if trials else None)


def renamed(rates: Rates, **ids: Any) -> Rates:
    return replace(rates, **ids)


def test_kappa_equals_manually_computed_values() -> None:
    a, reversed_order = np.array([1.0, 1, 0, 0, 1]), np.array([1.0, 0, 0, 0, 1])
    assert cohen_kappa(a, reversed_order) == pytest.approx((0.8 - 0.48) / 0.52)


def test_alpha_equals_the_published_example_with_missing_values() -> None:
    """Krippendorff (2011), four observers, interval: .849."""
    x = np.nan
    answers = np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, x, x, x],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, x, 3],
            [x, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, x],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, x],
        ]
    )
    assert krippendorff_alpha(answers) == pytest.approx(0.849, abs=5e-4)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_alpha_equals_its_naive_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    answers = rng.integers(0, 3, (3, 8)).astype(float)
    answers[rng.random((3, 8)) < 0.2] = np.nan
    units = [column[~np.isnan(column)] for column in answers.T]
    units = [unit for unit in units if len(unit) > 1]
    given_ = np.concatenate(units)
    n = len(given_)
    observed = sum(((u[:, None] - u) ** 2).sum() / (len(u) - 1) for u in units) / n
    expected = ((given_[:, None] - given_) ** 2).sum() / (n * (n - 1))
    result = krippendorff_alpha(answers)
    assert result == pytest.approx(1 - observed / expected) if expected else np.isnan(result)


def test_unknown_agreement_is_nan_and_wrong_shapes_are_refused() -> None:
    assert np.isnan(cohen_kappa(np.ones(3), np.ones(3)))
    assert np.isnan(krippendorff_alpha(np.ones((2, 3))))
    with pytest.raises(StatisticsError):
        cohen_kappa(np.ones(3), np.ones(2))
    with pytest.raises(StatisticsError):
        krippendorff_alpha(np.ones(3))


def test_a_judge_agrees_with_itself() -> None:
    result = verdicts(make_pool(6, 10))
    study = JudgesStudy(AlignedRuns([judged(result, name="a"), judged(result, name="b")]))
    pair = study.pairs[0]
    assert (pair.agreement, pair.cohen_kappa, pair.krippendorff_alpha, pair.krippendorff_alpha_graded) == (1, 1, 1, 1)
    assert pair.n_units == len(result.plan)
    assert not_none(pair.ranking).value == pytest.approx(1)
    assert study.krippendorff_alpha == 1
    assert all(len(set(row["places"])) == 1 for row in study.agents)


def test_agents_that_differ_only_by_rounding_share_a_rank_under_every_judge() -> None:
    pool = make_pool(6, 9)
    plans = [make_plan(pool, design="nlogn", holdout=0.1, seed=seed) for seed in (1, 2)]
    alike = [answer_with(plan, np.where(plan.trial_type == PAIRED, 0.7, 0.1)) for plan in plans]
    study = JudgesStudy(AlignedRuns([judged(result, name=name) for result, name in zip(alike, "ab", strict=True)]))
    assert [row["places"] for row in study.agents] == [[1, 1]] * len(study.agents)


def test_reversed_rankings_differ_significantly_under_either_target() -> None:
    plan = make_plan(make_pool(6, 30), design="dense", holdout=0)
    rng, strength = np.random.default_rng(0), np.linspace(0.95, 0.15, 6)

    def run(strength: np.ndarray, name: str) -> JudgedRun:
        chance = (strength[plan.first] + strength[plan.second]) / 2 * (plan.trial_type == PAIRED)
        return judged(answer_with(plan, (rng.random(len(plan)) < chance).astype(float)), name=name)

    same, turned = [run(strength, "a"), run(strength, "b")], [run(strength, "a"), run(strength[::-1], "b")]
    study = JudgesStudy(AlignedRuns(same))
    assert (study.target, study.pairs[0].orders.n_reversed, study.pairs[0].orders.n_pairs) == (
        "items-like-these",
        0,
        15,
    )
    assert any("on more items like these (95% per pair)" in line for line in study.summary)
    kind, these = (JudgesStudy(AlignedRuns(turned, target=t)) for t in ("items-like-these", "these-items"))
    result = kind.pairs[0].orders
    assert result.n_reversed == result.n_significant_both > 0
    assert any("of them in opposite orders: a ranks a0 above" in line for line in kind.summary)
    assert result.n_significant_a <= these.pairs[0].orders.n_significant_a
    assert kind.target == "items-like-these"
    assert any("these items alone" in line for line in these.summary)


@pytest.mark.slow
def test_two_runs_with_target_these_items_are_compared_on_these_items_by_default(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / name, n_items=10, design="cyclic", calls=500) for name in ("one", "two"))
    fit_run(first, target="these-items")
    assert AlignedRuns([read_judged_run(first), read_judged_run(second)]).target == "items-like-these"
    fit_run(second, target="these-items")
    runs = [read_judged_run(first), read_judged_run(second)]
    assert AlignedRuns(runs).target == "these-items"
    assert AlignedRuns(runs, target="items-like-these").target == "items-like-these"


def test_trials_are_matched_by_comparison_and_not_by_row() -> None:
    pool = make_pool(6, 10)
    plan = make_plan(pool, calls="40%", seed=1)
    results = [judged(answer_with(plan, (plan.first % 2).astype(float)), name="a")]
    reversed_order = make_plan(pool, design="dense", holdout=0)
    results.append(judged(answer_with(reversed_order, (reversed_order.first % 2).astype(float)), name="b"))
    pair = JudgesStudy(AlignedRuns(results)).pairs[0]
    assert pair.agreement == 1
    assert (plan.trial_type == 0).sum() <= pair.n_units <= len(plan)


def test_three_judges_make_three_pairs_and_one_alpha() -> None:
    runs = [judged(verdicts(make_pool(6, 8), seed=seed), name="j") for seed in range(3)]
    runs = [replace(run, result=replace(not_none(run.result), plan=not_none(runs[0].result).plan)) for run in runs]
    study = JudgesStudy(AlignedRuns(runs))
    assert study.runs == ("j (1)", "j (2)", "j (3)")
    assert len(study.pairs) == 3
    assert 0 < not_none(study.krippendorff_alpha) < 1


def test_an_imported_run_is_compared_by_ordered_pairs_and_item_numbers() -> None:
    result = verdicts(make_pool(6, 8))
    import_ = judged(result, name="import", trials=False)
    form = tuple(f"example-{number:03}" for number in range(8))
    import_ = replace(import_, digest=None, rates=renamed(import_.rates, item_ids=form))
    own = judged(result, name="own")
    with pytest.raises(ConfigError, match=r"\[judges-items\]"):
        AlignedRuns([import_, own])
    runs = AlignedRuns([import_, own], match="number")
    assert runs.units == "ordered pairs"
    assert runs.item_ids == form
    assert JudgesStudy(runs).pairs[0].n_units == 6 * 5 * 8


def test_incomparable_runs_are_refused_with_what_to_change() -> None:
    result = verdicts(make_pool(6, 8))
    run = judged(result)
    of_another_pool = judged(verdicts(make_pool(6, 9)))
    others = {
        "judges-few": [run],
        "judges-pools": [run, of_another_pool],
        "judges-agents": [run, replace(run, rates=renamed(run.rates, agent_ids=tuple("uvwxyz")))],
        "judges-items": [run, replace(run, rates=renamed(run.rates, item_ids=tuple("stuvwxyz")))],
    }
    for slug, runs in others.items():
        with pytest.raises(ConfigError, match=rf"\[{slug}\]"):
            AlignedRuns(runs)
    with pytest.raises(ConfigError, match="cannot be matched by number"):
        AlignedRuns([run, replace(run, rates=renamed(run.rates, item_ids=tuple("stuvwxyz")))], match="number")
    plan = result.plan
    half = np.arange(len(plan)) % 2 == 0
    answer = np.full(len(plan), 0.5)
    apart = [judged(answer_with(plan, answer, missing=side), name=str(side[0])) for side in (half, ~half)]
    with pytest.raises(ConfigError, match=r"\[judges-trials\]"):
        AlignedRuns(apart)


@pytest.mark.slow
def test_the_command_has_two_names_and_a_perfect_rank_correlation_no_interval(
    tmp_path: Path,
) -> None:
    runs = [str(write_run(tmp_path / name).path) for name in ("one", "two")]
    for words, target in ((["compare"], "items-like-these"), (["study", "judges"], "these-items")):
        done = CliRunner().invoke(youden, [*words, *runs, "--target", target, "--json"], catch_exceptions=False)
        judges = json.loads(done.stdout)["judges"]
        (pair,) = judges["pairs"]
        assert (pair["cohen_kappa"], judges["target"]) == (1, target)
        assert pair["ranking"]["value"] == pytest.approx(1)
        assert (pair["ranking"]["low"], pair["ranking"]["high"]) == (None, None)


@pytest.mark.slow
def test_compare_states_the_selection_of_each_run_and_if_they_agree(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name) for name in ("one", "two")]
    runs = [str(folder.path) for folder in folders]
    facts = folders[0].read_facts()
    first, second, third = (row.agent for row in folders[0].read_ranking()[:3])

    def compare_lines(entry: Recommendation, *extended: str) -> list[str]:
        folders[1].write_facts(replace(facts, recommendation=entry))
        words = ["compare", *runs, *extended]
        return CliRunner().invoke(youden, words, catch_exceptions=False).stdout.splitlines()

    def recommended(*agents: str) -> Recommendation:
        form: RecommendationForm = "recommended" if len(agents) == 1 else "candidates"
        return Recommendation(form, agents, f"{form.capitalize()}: {', '.join(agents)}.")

    folders[0].write_facts(replace(facts, recommendation=recommended(first)))
    same = compare_lines(recommended(first))
    assert f"By one: Recommended: {first}." in same
    assert same[0] == f"The runs agree: {first}."
    folders[0].write_facts(replace(facts, recommendation=recommended(first, second)))
    assert compare_lines(recommended(second, first))[0] == f"The runs agree on the candidates: {first}, {second}."
    folders[0].write_facts(replace(facts, recommendation=recommended(first)))
    reversed_order = compare_lines(recommended(second, first, third))
    assert (
        reversed_order[0] == f"The runs differ, but each recommends these agents or lists them as candidates: {first}."
    )
    apart = compare_lines(recommended(third))
    assert apart[0] == "The runs differ: they have no recommended agent or candidate in common."
    none = compare_lines(NOT_MADE)
    assert f"By two: {NOT_MADE.text}" in none
    assert none[0] == "No common recommendation: two recommends no agent."
    page = render_comparison(Comparison(*folders))
    assert page.index(f'<p class="headline">{none[0]}') < page.index("Do the rankings agree?")
    kept = json.loads("\n".join(compare_lines(NOT_MADE, "--json")))["judges"]["recommendations"]
    assert (kept[0]["agents"], kept[0]["form"], kept[1]["form"]) == ([first], "recommended", "none")


@pytest.mark.slow
def test_a_perfect_rank_correlation_has_no_interval_in_text_and_report(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / name) for name in ("one", "two"))
    runs = [str(first.path), str(second.path)]
    output = CliRunner().invoke(youden, ["compare", *runs], catch_exceptions=False).stdout
    reason = "(no interval: a perfect rank correlation gives none)"
    assert f"The rankings of one and two correlate with ρ = 1.00 {reason}, for agents like these; on" in output
    assert "Largest differences" in output
    assert "1.00 [1.00" not in output
    assert "1.000 [1.000" not in output

    assert f"Spearman 1.00 {reason} between" in render_comparison(Comparison(first, second))


def test_draws_with_equal_rankings_give_no_interval() -> None:
    result = verdicts(make_pool(8, 60), noise=0.0)
    paired = result.plan.trial_type == PAIRED
    first, second, answer = result.plan.first[paired], result.plan.second[paired], result.answer[paired]
    rank_agreement = estimate_rank_agreement(
        JudgeShift(first, second, answer, answer, n_agents=8), rng=np.random.default_rng(0)
    )
    assert rank_agreement.rho == pytest.approx(1)
    assert np.isnan([rank_agreement.low, rank_agreement.high]).all()


def test_the_summary_states_first_that_judges_with_equal_answers_do_not_differ() -> None:
    pool = make_pool(8, 30)
    agreeing = [verdicts(pool, noise=0.0) for _ in range(2)]
    for judge, meaning in (("x", "they have the same judge and may share its stored answers"), ("y", "nothing shows")):
        results = [replace(agreeing[0], judge={"name": "x"}), replace(agreeing[1], judge={"name": judge})]
        study = JudgesStudy(
            AlignedRuns([judged(result, name=name) for result, name in zip(results, "ab", strict=True)])
        )
        assert study.summary[0].startswith("a and b gave the same yes or no on all")
        assert meaning in study.summary[0]
        (pair,) = study.pairs
        assert not_none(pair.max_rho) > 0.8


def test_a_ranking_without_reliable_differences_cannot_show_that_judges_differ() -> None:
    first = verdicts(make_pool(8, 30), noise=0.0)
    random_answers = answer_with(first.plan, np.random.default_rng(0).random(len(first.plan)))
    study = JudgesStudy(AlignedRuns([judged(first, name="a"), judged(random_answers, name="b")]))
    (pair,) = study.pairs
    assert pair.max_rho == 0
    assert any("so ρ cannot show that the judges differ" in line for line in study.summary)
    assert not any("only a ρ clearly below" in line for line in study.summary)


def test_the_predicted_rank_correlation_allows_for_a_ranking_without_errors() -> None:
    ability = np.array([0.3, 0.1, -0.1, -0.3])
    exact, inexact = (
        pairwise_differences(ability, CentredCovariance(variance * (np.eye(4) - 1 / 4), np.full(4, 60.0)))
        for variance in (0.0, 0.03)
    )
    assert predict_rank_correlation(exact, exact) == pytest.approx(1)
    assert 0.5 < predict_rank_correlation(exact, inexact) < 0.95
    assert 0.3 < predict_rank_correlation(inexact, exact) < 0.95


@pytest.mark.parametrize(
    "truth",
    [np.append(0.03 * np.sin(np.arange(11.0)), -0.75), 0.1 * np.sin(np.arange(12.0))],
    ids=["one agent far below all others", "no such agent"],
)
def test_the_predicted_rank_correlation_is_that_of_two_runs_of_one_judge(truth: Floats) -> None:
    rng, K, std_error = np.random.default_rng(0), len(truth), 0.025
    covariance = CentredCovariance(std_error**2 * (np.eye(K) - 1 / K), np.full(K, 60.0))
    observed = []
    for _ in range(30):
        a, b = truth + std_error * rng.standard_normal((2, K))
        first, second = pairwise_differences(a, covariance), pairwise_differences(b, covariance)
        observed.append((predict_rank_correlation(first, second), spearmanr(a, b)[0]))
    predicted, result = np.mean(observed, axis=0)
    assert predicted == pytest.approx(result, abs=0.1)
