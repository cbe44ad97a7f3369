"""What a run recommends: one of three forms, and none without a judge that separates the agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from narrowing import not_none
from plan_options import PlanOptions
from report_runs import judged
from small_pools import answer_with, make_pool
from youden import make_plan, rank
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.recommendation import measure_judge_rates, recommend
from youden.report.data.report import ReportData
from youden.report.pages.writing import render_markdown, render_page
from youden.run_keys import Target
from youden.types import PAIRED, Plan
from youden.types.facts import ChoiceFacts
from youden.types.planning import Split
from youden.types.pool import Floats
from youden.types.recommendation import UNKNOWN_SIGNAL, JudgeSignalFacts
from youden.types.results import Rates

SIGNAL = JudgeSignalFacts(0.6, 0.02, 0.58, 0.5, 0.63, 0.95, "m", 0.001, 0.05)
NO_SIGNAL = replace(SIGNAL, j=0.01, j_low=-0.04, j_high=0.05)
OPEN = ChoiceFacts(("a",), 0.0123, 0.95, tuple("bcdef"), 0.7, 0.9, {"a": 0.6, "b": 0.4}, 0.0042)
ALONE = replace(OPEN, regret_bound=0.0, candidates=())
RNG = np.random.default_rng


def test_the_unique_best_is_recommended() -> None:
    found = recommend(ALONE, SIGNAL)
    assert (found.form, found.agents, found.reason) == ("recommended", ("a",), "")
    assert found.text == (
        "Recommended: a. It is better than every other agent (95%). Its ability is 0.700 … 0.900, adjusted for selection."
    )
    several = recommend(replace(ALONE, agents=("a", "b")), SIGNAL)
    assert several.text == "Recommended: a, b. They are better than every other agent (95%)."


def test_agents_that_cannot_be_ruled_out_as_the_best_are_candidates() -> None:
    found = recommend(OPEN, SIGNAL)
    assert (found.form, found.agents) == ("candidates", tuple("abcdef"))
    assert found.text.startswith(
        "Candidates: a, b, c, d, e and 1 more. No other agent is better than a by more than 0.012 (95%). On average it is 0.004"
    )
    two = recommend(replace(OPEN, agents=("a", "b"), candidates=("c",)), SIGNAL)
    assert two.text == (
        "Candidates: a, b, c. None of the selected 2 (a, b) is behind the best 2 by more than 0.012 (95%)."
    )


def test_a_search_that_reached_its_maximum_regret_recommends_its_selection() -> None:
    found = recommend(OPEN, SIGNAL, max_regret=0.0123)
    assert (found.form, found.agents) == ("recommended", ("a",))
    assert found.text.startswith("Recommended: a. No other agent is better than a by more than 0.012 (95%).")
    assert recommend(OPEN, SIGNAL, max_regret=0.012).form == "candidates"


@pytest.mark.parametrize(
    ("signal", "reason"),
    [
        (NO_SIGNAL, "the 95% interval of J = 0.01 [-0.04, 0.05] includes 0"),
        (replace(SIGNAL, j_low=0.0), "includes 0"),
        (replace(SIGNAL, j=-0.3, j_low=-0.4, j_high=-0.2), "J = -0.30 [-0.40, -0.20] lies below 0"),
        (UNKNOWN_SIGNAL, "J is unknown"),
        (replace(SIGNAL, p_equal_abilities=0.2), "the abilities vary by no more than their sampling error (p = 0.2)"),
    ],
)
def test_nothing_is_recommended_without_evidence_that_the_judge_separates_the_agents(
    signal: JudgeSignalFacts, reason: str
) -> None:
    for choice in (ALONE, OPEN):
        found = recommend(choice, signal, max_regret=1.0)
        assert (found.form, found.agents) == ("none", ())
        assert found.text.startswith("No recommendation: ")
        assert reason in found.reason
        assert found.reason in found.text


def test_agents_that_cannot_be_compared_get_no_recommendation() -> None:
    assert recommend(None, SIGNAL).text.startswith("No recommendation: some agents cannot be compared")


PLANS: dict[str, PlanOptions] = {
    "cyclic": {},
    "matched": {"independent": "matched", "calls": 900},
    "holdout": {"holdout": 0.2},
    "holdout as in the paper": {"holdout": 0.2, "holdout_rule": "paper"},
    "dense": {"design": "dense"},
    "row": {"design": "row", "holdout": 0.0},
    "these items": {},
}
Says = Callable[[Plan], Floats]


def real(plan: Plan) -> Floats:
    skill = np.linspace(0.9, 0.3, plan.n_agents)
    yes = RNG(1).random(len(plan)) < (skill[plan.first] + skill[plan.second]) / 2
    return np.where((plan.trial_type == PAIRED) & yes, 1.0, 0.0)


JUDGES: dict[str, tuple[Says, bool]] = {
    "always yes": (lambda plan: np.ones(len(plan)), False),
    "always no": (lambda plan: np.zeros(len(plan)), False),
    "coin": (lambda plan: (RNG(3).random(len(plan)) < 0.5).astype(float), False),
    "first agent": (lambda plan: (RNG(5).random(len(plan)) < np.linspace(0, 1, 6)[plan.first]).astype(float), False),
    "inverted": (lambda plan: 1 - real(plan), False),
    "real": (real, True),
}


@pytest.mark.parametrize("kind", [*PLANS, "gaps"])
@pytest.mark.parametrize("judge", list(JUDGES))
def test_every_kind_of_plan_states_a_result_with_signal_and_none_without(kind: str, judge: str) -> None:
    target: Target = "these-items" if kind == "these items" else "items-like-these"
    present = RNG(0).random((6, 24)) > 0.2 if kind == "gaps" else None
    plan = make_plan(make_pool(6, 24, present=present), seed=0, **PLANS.get(kind, {}))
    says, has_signal = JUDGES[judge]
    table = rank(answer_with(plan, says(plan)), target=target)
    found, signal = table.attrs["recommendation"], table.attrs["signal"]
    assert (found.form != "none") == has_signal, found.text
    assert signal.discriminates == has_signal
    if kind != "row":  # whose trials leave out held-out cells
        assert signal.tpr == pytest.approx(says(plan)[plan.is_training & (plan.trial_type == PAIRED)].mean())


def test_no_answer_about_a_held_out_cell_enters_youdens_j() -> None:
    plan = make_plan(make_pool(8, 20), design="nlogn", holdout=0.2, independent="matched", seed=3)
    held_out = plan.split.holdout
    other_item = np.where(plan.trial_type == PAIRED, plan.item, plan.other_item)
    touches = held_out[plan.first, plan.item] | held_out[plan.second, other_item]
    assert touches[plan.trial_type != PAIRED].any()
    answer = RNG(0).integers(0, 2, len(plan)).astype(np.float64)
    flipped = np.where(touches, 1 - answer, answer)
    rates, rates_flipped = (
        measure_judge_rates(TrialsByItem.from_verdicts(answer_with(plan, values))) for values in (answer, flipped)
    )
    assert rates == rates_flipped


@pytest.mark.parametrize("form", ["fit", "rank"])
def test_a_run_whose_independent_trials_all_failed_recommends_nothing(tmp_path: Path, form: str) -> None:
    if form == "fit":
        run = judged(
            tmp_path / "run",
            pool=make_pool(6, 24),
            answers=real,
            missing=lambda plan: plan.trial_type != PAIRED,
            design="cyclic",
        )
        facts = run.read_facts()
        found = facts.recommendation
    else:
        plan = make_plan(make_pool(6, 24), seed=0)
        found = rank(answer_with(plan, real(plan), missing=plan.trial_type != PAIRED)).attrs["recommendation"]
    assert (found.form, "J is unknown" in found.reason) == ("none", True)


def test_fit_json_ranking_json_and_rank_say_the_same(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(6, 24), answers=real)
    facts, plan = folder.read_facts(), folder.read_plan()
    attrs = rank(folder.read_verdicts(plan)).attrs
    assert facts.signal == attrs["signal"]
    assert facts.recommendation == attrs["recommendation"]
    assert facts.recommendation.text in folder.file("ranking.json").read_text(encoding="utf-8")
    assert facts.signal.j == pytest.approx(not_none(facts.signal.tpr) - not_none(facts.signal.fpr))
    assert not_none(facts.signal.j_low) < not_none(facts.signal.j) < not_none(facts.signal.j_high)


def test_the_report_begins_with_no_recommendation_and_claims_no_passed_check(tmp_path: Path) -> None:
    data = ReportData(judged(tmp_path / "run", pool=make_pool(6, 24), answers=lambda plan: np.zeros(len(plan))))
    text = data.summary.facts.recommendation.text
    assert text.startswith("No recommendation: this judge does not separate these agents")
    page = render_page(data)
    assert page.index('<p class="headline">No recommendation: this judge does not separate') < page.index("<table")
    assert "No check found a problem with this ranking" not in page
    assert "Probability of being the best" not in page
    assert "**No recommendation: this judge does not separate" in render_markdown(data)
    good = ReportData(judged(tmp_path / "good", pool=make_pool(6, 24), answers=real))
    assert [one.slug for one in good.checks.passed if one.slug == "signal"] == ["signal"]


def imported(folder: Path, D: Floats) -> RunFolder:
    """A run of which only D is known: float[J, K, K]."""
    item, first, second = np.nonzero(~np.isnan(D))
    n = np.ones(len(item), dtype=np.int32)
    ids, items = tuple(f"a{k}" for k in range(D.shape[1])), tuple(f"i{j}" for j in range(len(D)))
    rates = Rates(
        item=item.astype(np.int32),
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        tpr=D[item, first, second],
        fpr=np.zeros(len(item)),
        n_paired=n,
        n_independent=n,
        n_missing=0 * n,
        independent="matched",
        agent_ids=ids,
        item_ids=items,
        split=Split.without_holdout((len(ids), len(items))),
    )
    run = RunFolder(folder)
    folder.mkdir()
    run.write_pool(PoolSummary.from_import(tuple(make_pool(len(ids), 1).agents), items, source="test"))
    run.write_rates(rates)
    fit_run(run)
    return run


def test_an_imported_run_has_the_mean_of_d_for_j(tmp_path: Path) -> None:
    rng = RNG(0)
    skill = np.linspace(0.9, 0.3, 6)
    D = (rng.random((24, 6, 6)) < (skill[:, None] + skill) / 2).astype(float)
    D[:, np.arange(6), np.arange(6)] = np.nan
    facts = imported(tmp_path / "real", D).read_facts()
    assert facts.recommendation.form != "none"
    assert (facts.signal.tpr, facts.signal.fpr) == (None, None)
    assert facts.signal.j == pytest.approx(np.nanmean(D))
    for name, none in {"zeros": 0 * D, "coin": D * 0 + rng.integers(-1, 2, D.shape), "inverted": -D}.items():
        found = imported(tmp_path / name, none).read_facts()
        assert found.recommendation.form == "none", name
        assert not found.signal.discriminates


def test_a_file_of_an_earlier_version_recommends_nothing_until_it_is_fitted_again(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(6, 24), answers=real)
    text = folder.file("fit.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    del facts["signal"], facts["recommendation"]
    folder.write_text("fit.json", json.dumps(facts))
    assert folder.read_facts().recommendation.text.startswith("No recommendation: an earlier version fitted this run.")
    fit_run(folder)
    assert folder.read_facts().recommendation.form != "none"


@pytest.mark.parametrize("judge", ["coin", "first agent", "real"])
def test_over_many_runs_a_judge_without_signal_hardly_ever_leads_to_a_result(judge: str) -> None:
    """`benchmarks/no_signal.py` in little: 40 plans of a small pool, answers drawn anew."""
    pool, stated = make_pool(5, 20), 0
    for seed in range(40):
        plan, rng = make_plan(pool, calls=400, seed=seed), np.random.default_rng(seed)
        yes = {
            "coin": 0.5,
            "first agent": rng.random(5)[plan.first],
            "real": (plan.trial_type == PAIRED) * np.linspace(0.95, 0.2, 5)[np.maximum(plan.first, plan.second)],
        }[judge]
        answer = (rng.random(len(plan)) < yes).astype(float)
        stated += rank(answer_with(plan, answer)).attrs["recommendation"].form != "none"
    assert stated >= 36 if judge == "real" else stated <= 4
