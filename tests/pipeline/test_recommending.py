"""Test recommendations: one of three forms, and none unless the judge separates the agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from narrowing import not_none
from plan_options import PlanOptions
from report_runs import judged
from small_pools import answer_with, make_pool
from youden import make_plan, rank
from youden.data.folder.calibration_file import CalibrationRecord, add_calibration
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.engines.trial_blocks import TrialsByItem
from youden.errors import StatisticsError
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.recommendation import measure_judge_rates, read_recommendation, recommend, recommend_by_labels
from youden.report.data.report import ReportData
from youden.report.pages.writing import render_markdown, render_page
from youden.run_keys import Target
from youden.runs.run_object import Run
from youden.text.sentences import escape_markdown
from youden.types import PAIRED, Finding, Plan
from youden.types.facts import ChoiceFacts, PartnerRules
from youden.types.label_facts import QualityFacts, QualityRow
from youden.types.planning import Split
from youden.types.pool import Floats
from youden.types.recommendation import UNKNOWN_SIGNAL, JudgeSignalFacts
from youden.types.results import Rates
from youden.workflows.quality import estimate_quality

SIGNAL = JudgeSignalFacts(0.6, 0.02, 0.58, 0.5, 0.63, 0.95, "m", 0.001, 0.05)
NO_SIGNAL = replace(SIGNAL, j=0.01, j_low=-0.04, j_high=0.05)
CHANCES = dict.fromkeys("abcdefgh", 0.125)
OPEN = ChoiceFacts(("a",), 0.0123, 0.95, tuple("bcdef"), 0.7, 0.9, CHANCES, 0.0042, {"a": 0.614, "b": 0.567})
ALONE = replace(OPEN, regret_bound=0.0, candidates=())
RNG = np.random.default_rng


def test_the_unique_best_is_recommended() -> None:
    result = recommend(ALONE, SIGNAL)
    assert (result.form, result.agents, result.reason) == ("recommended", ("a",), "")
    assert result.text == (
        "Recommended: a. The judge recognizes the responses of a in 61 of 100 comparisons beyond chance, those of b in 57; a is "
        "better than every other agent (95%)."
    )
    several = recommend(replace(ALONE, agents=("a", "b"), abilities={"a": 0.6, "b": 0.5, "c": 0.4}), SIGNAL)
    assert several.text == (
        "Recommended: a, b. The judge recognizes the responses of each in at least 50 of 100 comparisons beyond chance, those of "
        "c in 40; they are better than every other agent (95%)."
    )


def test_agents_that_cannot_be_ruled_out_as_the_best_are_candidates() -> None:
    result = recommend(OPEN, SIGNAL)
    assert (result.form, result.agents) == ("candidates", tuple("abcdef"))
    assert result.text == (
        "Candidates: a, b, c, d, e, f. The judge recognizes the responses of a in 61 of 100 comparisons beyond chance, "
        "those of b in 57; no other agent is better than a by more than 1.2 of 100 comparisons (95% confidence)."
    )
    many = recommend(replace(OPEN, candidates=tuple("bcdefghijkl")), SIGNAL)
    assert many.text.startswith("Candidates: a, b, c, d, e, f, g, h, i, j and 2 more. ")
    two = recommend(replace(OPEN, agents=("a", "b"), candidates=("c",)), SIGNAL)
    assert two.text == (
        "Candidates: a, b, c. The judge recognizes the responses of each in at least 57 of 100 comparisons beyond chance; none "
        "of the selected 2 (a, b) is behind the best 2 by more than 1.2 of 100 comparisons (95% confidence)."
    )


def test_a_search_that_reached_its_maximum_regret_recommends_its_selection() -> None:
    result = recommend(OPEN, SIGNAL, max_regret=0.0123)
    assert (result.form, result.agents) == ("recommended", ("a",))
    assert result.text.endswith(
        "; no other agent is better than a by more than 1.2 of 100 comparisons (95% confidence)."
    )
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
        result = recommend(choice, signal, max_regret=1.0)
        assert (result.form, result.agents) == ("none", ())
        assert result.text.startswith("No recommendation: ")
        assert reason in result.reason
        assert result.reason in result.text


LEXICAL = Finding("lexical", "It compares words.")
LENGTH = Finding("length", "It compares lengths.")


def test_the_recommendation_is_limited_by_the_quality_of_the_judge() -> None:
    for choice, names in ((ALONE, "Recommended: a"), (OPEN, "Candidates: a, b, c, d, e, f")):
        result = recommend(choice, SIGNAL, warnings=[LEXICAL])
        assert result.text.startswith(f"{names}, by shared words only; use another judge before you decide. The judge")
        assert result.caution == "by shared words only; use another judge before you decide"
    both = recommend(ALONE, SIGNAL, warnings=[LEXICAL, LENGTH, LENGTH])
    assert both.text.startswith(
        "Recommended: a, by shared words only, and by a result that follows text length; use another judge before you "
        "decide. The judge recognizes"
    )
    for finding in (replace(LENGTH, severity="note"), replace(LEXICAL, facts={"judge": "one of a jury"})):
        assert recommend(ALONE, SIGNAL, warnings=[finding]) == recommend(ALONE, SIGNAL)
    assert recommend(ALONE, NO_SIGNAL, warnings=[LEXICAL]) == recommend(ALONE, NO_SIGNAL)


@pytest.mark.parametrize("n_agents", [3, 7, 8])
def test_with_few_agents_copying_is_undetectable_and_results_hold_for_these_partners(n_agents: int) -> None:
    result = recommend(replace(ALONE, p_best=dict.fromkeys("abcdefgh"[:n_agents], 1 / n_agents)), SIGNAL)
    expected = (
        f" With only {n_agents} agents, copying cannot be distinguished from agreement, and the result holds for these partners "
        "only."
    )
    assert result.text.endswith(expected) == (n_agents < 8)


def test_two_good_agents_of_three_are_not_flagged_as_copies_nor_ranked_below_the_bad(tmp_path: Path) -> None:
    pool = make_pool(3, 15)

    def by_two(plan: Plan) -> Floats:
        """Return answers in which agents 0 and 1 agree on nearly everything, and agent 2 with them on a third of the items."""
        agrees = ((plan.first < 2) & (plan.second < 2)) | (plan.item % 3 == 0)
        return np.where((plan.trial_type == PAIRED) & agrees, 1.0, 0.0)

    folder = judged(tmp_path / "run", pool=pool, answers=by_two)
    fit_run(folder, rules=PartnerRules(clones=(("a0", "a1"),)))
    summary = ReportData(folder).summary
    assert "robust" not in summary.headline
    assert "falls to rank" not in summary.headline
    assert "With only 3 agents, copying cannot be distinguished from agreement" in summary.headline
    output = " ".join(map(str, summary.warnings))
    assert "count as one partner" not in output
    assert "robust" not in output
    page = render_page(ReportData(folder))
    assert "No group of agents agrees more than honest groups" not in page
    with pytest.raises(StatisticsError, match=r"\[robust-few-agents\]"):
        fit_run(folder, rules=PartnerRules("robust"))


def labeled(*agents: tuple[str, float | None, float], n_labels: int = 30) -> QualityFacts:
    """Return qualities and probabilities of being best as estimated from labels."""
    rows = tuple(
        QualityRow(
            agent, 5, quality, quality, quality and quality - 0.1, quality and quality + 0.1, 1.0, n, p, quality, 0
        )
        for n, (agent, quality, p) in enumerate(agents, 1)
    )
    return QualityFacts(1, "", (), "label", (0, 1), 0.95, n_labels, agents[0][0], 0.1, None, 0.1, (), rows)


def test_labels_that_rule_out_the_selected_agents_decide() -> None:
    by_agreement = recommend(ALONE, SIGNAL)
    result = recommend_by_labels(by_agreement, labeled(("b", 0.8, 0.97), ("a", 0.5, 0.03)))
    assert (result.form, result.agents, result.decided_by) == ("recommended", ("b",), "labels")
    assert result.text == (
        "Recommended: b, by labels: b has the highest quality, 0.80 [0.70, 0.90], estimated from 30 labels. Labels decide, "
        f"because they measure quality, which agreement only predicts. By agreement: {by_agreement.text}"
    )
    open_labels = recommend_by_labels(
        recommend(OPEN, SIGNAL), labeled(("b", 0.8, 0.6), ("g", 0.7, 0.38), ("a", 0.1, 0.02))
    )
    assert (open_labels.form, open_labels.agents) == ("candidates", ("b", "g"))
    none = recommend_by_labels(recommend(ALONE, NO_SIGNAL), labeled(("b", 0.8, 0.97), ("a", 0.5, 0.03)))
    assert (none.form, none.decided_by) == ("recommended", "labels")
    assert "By agreement: No recommendation: this judge does not separate" in none.text


def test_limited_agreement_does_not_overrule_labels() -> None:
    limited = recommend(ALONE, SIGNAL, warnings=(Finding("lexical", "", severity="warning"),))
    assert limited.caution
    result = recommend_by_labels(limited, labeled(("b", 0.8, 0.6), ("a", 0.7, 0.4)))
    assert (result.form, result.agents, result.decided_by) == ("candidates", ("b", "a"), "labels")


@pytest.mark.parametrize(
    ("quality", "reason"),
    [
        (labeled(("b", 0.8, 0.6), ("a", 0.7, 0.4)), "the labels do not rule out a as the best"),
        (labeled(("b", 0.8, 1.0), ("a", None, 0.0)), "the quality of 1 agent is unknown"),
    ],
)
def test_agreement_decides_if_labels_cannot(quality: QualityFacts, reason: str) -> None:
    by_agreement = recommend(ALONE, SIGNAL)
    result = recommend_by_labels(by_agreement, quality)
    assert (result.form, result.agents, result.decided_by) == ("recommended", ("a",), "agreement")
    assert result.text == (
        f"{by_agreement.text} By labels, b has the highest quality, 0.80 [0.70, 0.90], estimated from 30 labels. Agreement "
        f"decides, because {reason}."
    )


def test_candidates_whose_ranks_exclude_1_are_named_with_the_reason(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(8, 24), answers=real_of_many)
    first, *_, last = folder.read_ranking()
    assert (first.rank_low, last.rank_low > 1) == (1, True)
    facts = folder.read_facts()
    reason = "exclude 1, because candidates are adjusted for multiple comparisons and ranks are not."
    for candidate, is_stated in ((first, False), (last, True)):
        folder.write_facts(replace(facts, choice=replace(not_none(facts.choice), candidates=(candidate.agent,))))
        text = not_none(ReportData(folder).summary.selection_text)
        assert text.endswith(f" The ranks of {candidate.agent} {reason}") == is_stated


@pytest.mark.slow
def test_after_quality_every_output_states_both_and_which_decides(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(8, 24), answers=real_of_many)
    before = read_recommendation(folder)
    rows = [
        (agent.id, item.id, int(agent.id == "a7")) for agent in folder.read_plan().pool.agents for item in POOL_ITEMS
    ]
    estimate_quality(folder, pd.DataFrame(rows, columns=["agent", "item", "label"]))
    recommendation = read_recommendation(folder)
    assert (recommendation.form, recommendation.agents, recommendation.decided_by) == ("recommended", ("a7",), "labels")
    assert before.text in recommendation.text
    data = ReportData(folder)
    assert data.summary.recommendation == recommendation
    first, others = data.summary.headline_parts
    assert f"{first} {others}" == recommendation.text
    assert f'<p class="headline">{first}</p>\n<p>{others}</p>' in render_page(data)
    assert f"**{escape_markdown(first)}** {escape_markdown(others)}" in render_markdown(data)
    assert (data.summary.selection_text, data.summary.p_best_text) == (None, None)
    assert Run(folder.path).recommendation == recommendation
    assert folder.read_facts().recommendation == before
    fit_run(folder, rules=PartnerRules(families={"a0": "f"}))  # quality.json refers to the previous ranking
    assert folder.find_quality() is None
    assert read_recommendation(folder).decided_by == "agreement"


def test_a_judge_that_failed_its_calibration_limits_the_recommendation(tmp_path: Path) -> None:
    folder = judged(tmp_path / "runs" / "run", pool=make_pool(8, 24), answers=real_of_many)
    pool = not_none(folder.read_pool().digest)
    record = CalibrationRecord(
        judge=dict(folder.read_recorded_judge()),
        pool=pool,
        date="2026-11-20",
        outcome="no-go",
        j=0.1,
        j_low=0,
        j_high=0.2,
        n_calls=9,
    )
    before = read_recommendation(folder)
    add_calibration(folder.path.parent, record)
    first_sentence = read_recommendation(folder).text.split(". ")[0]
    assert first_sentence.endswith(
        ", by a judge that failed its calibration (NO-GO); use another judge before you decide"
    )
    add_calibration(folder.path.parent, record.model_copy(update={"outcome": "go"}))
    assert read_recommendation(folder) == before


def test_agents_that_cannot_be_compared_get_no_recommendation() -> None:
    text = recommend(None, SIGNAL).text
    assert text.startswith("No recommendation: some agents cannot be compared")
    assert text.endswith("Add comparisons on more items, or remove these agents.")


POOL_ITEMS = make_pool(8, 24).items


def real_of_many(plan: Plan) -> Floats:
    skill = np.linspace(0.95, 0.2, plan.n_agents)
    yes = RNG(1).random(len(plan)) < (skill[plan.first] + skill[plan.second]) / 2
    return np.where((plan.trial_type == PAIRED) & yes, 1.0, 0.0)


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
def test_every_design_gives_a_recommendation_with_signal_and_none_without(kind: str, judge: str) -> None:
    target: Target = "these-items" if kind == "these items" else "items-like-these"
    present = RNG(0).random((6, 24)) > 0.2 if kind == "gaps" else None
    plan = make_plan(make_pool(6, 24, present=present), seed=0, **PLANS.get(kind, {}))
    says, has_signal = JUDGES[judge]
    table = rank(answer_with(plan, says(plan)), target=target)
    recommendation, signal = table.attrs["recommendation"], table.attrs["signal"]
    assert (recommendation.form != "none") == has_signal, recommendation.text
    assert signal.discriminates == has_signal
    if kind != "row":  # whose trials leave out held-out cells
        assert signal.tpr == pytest.approx(says(plan)[plan.is_training & (plan.trial_type == PAIRED)].mean())


def test_answers_about_held_out_cells_do_not_enter_youdens_j() -> None:
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
        recommendation = facts.recommendation
    else:
        plan = make_plan(make_pool(6, 24), seed=0)
        recommendation = rank(answer_with(plan, real(plan), missing=plan.trial_type != PAIRED)).attrs["recommendation"]
    assert (recommendation.form, "J is unknown" in recommendation.reason) == ("none", True)


def test_fit_json_ranking_json_and_rank_agree(tmp_path: Path) -> None:
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
    assert [entry.slug for entry in good.checks.passed if entry.slug == "signal"] == ["signal"]


def imported(folder: Path, D: Floats) -> RunFolder:
    """Return a run of which only D is known, float (J, K, K)."""
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


def test_an_imported_run_uses_the_mean_of_d_as_j(tmp_path: Path) -> None:
    rng = RNG(0)
    skill = np.linspace(0.9, 0.3, 6)
    D = (rng.random((24, 6, 6)) < (skill[:, None] + skill) / 2).astype(float)
    D[:, np.arange(6), np.arange(6)] = np.nan
    facts = imported(tmp_path / "real", D).read_facts()
    assert facts.recommendation.form != "none"
    assert (facts.signal.tpr, facts.signal.fpr) == (None, None)
    assert facts.signal.j == pytest.approx(np.nanmean(D))
    for name, none in {"zeros": 0 * D, "coin": D * 0 + rng.integers(-1, 2, D.shape), "inverted": -D}.items():
        result = imported(tmp_path / name, none).read_facts()
        assert result.recommendation.form == "none", name
        assert not result.signal.discriminates


def test_a_file_of_an_earlier_version_recommends_nothing_until_refitted(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(6, 24), answers=real)
    text = folder.file("fit.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    del facts["signal"], facts["recommendation"]
    folder.write_text("fit.json", json.dumps(facts))
    assert folder.read_facts().recommendation.text.startswith("No recommendation: an earlier version fitted this run.")
    fit_run(folder)
    assert folder.read_facts().recommendation.form != "none"


@pytest.mark.slow
@pytest.mark.parametrize("judge", ["coin", "first agent", "real"])
def test_a_judge_without_signal_rarely_gives_a_recommendation_over_many_runs(judge: str) -> None:
    """A small version of `benchmarks/no_signal.py`: 40 plans of a small pool with new answers each."""
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
