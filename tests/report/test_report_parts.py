"""Test the parts of a report's first screen and of an agent's page, and the conditions of its warnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import altair as alt
import numpy as np
import pytest

from narrowing import not_none
from report_runs import Answers, by_ability, judged, with_values
from small_pools import answer_with, make_pool, nothing_predicted, source_of
from worlds import analyzed
from youden import make_plan
from youden.pipeline.text_length import length_correlation
from youden.report.charts import vega
from youden.report.charts.figures import draw_figures
from youden.report.data import report
from youden.report.data.answer_blocks import Predictions
from youden.report.data.doubts import PairGrid, RankingChecks, agreeing_fraction, measure_groups
from youden.report.data.evidence import Evidence
from youden.report.data.report import ReportData, iter_agent_findings
from youden.report.data.sections.report_section import ReportSection
from youden.report.data.summary import Summary
from youden.report.data.trial_reading import JudgeQuality, TrialReading
from youden.report.data.trial_rows import TrialRows
from youden.report.data.warnings import first_sentence, group_warnings
from youden.report.pages.embed import format_code
from youden.report.pages.writing import render_markdown, render_page
from youden.stats.partners import PairMeans
from youden.types import INDEPENDENT, PAIRED, Agent, Finding, Plan, Pool, Trials
from youden.types.pool import Floats
from youden.types.trials import FOLLOW_UP, MAIN, POOLED, PROBE

NOBODY = RankingChecks(None, (), ())


def plan_of(*rows: tuple[int, int, int, int, int]) -> Plan:
    """Make a plan of four agents and three items from rows of item, first, second, other item (−1: paired), replicate."""
    item, first, second, other_item, replicate = np.array(rows, dtype=np.int32).T
    trial_type = np.where(other_item < 0, PAIRED, INDEPENDENT).astype(np.int8)
    pool = make_pool(4, 3)
    columns = Trials(item, first, second, trial_type, other_item, replicate, np.full(len(item), -1, dtype=np.int32))
    return replace(make_plan(pool, design="dense", holdout=0.0), trials=columns)


def group_lines(*advice: Finding, doubts: RankingChecks = NOBODY, headline: str = "") -> dict[str, list[str]]:
    return {
        group.title: [line.short for line in group.lines] for group in group_warnings(advice, doubts, headline=headline)
    }


def alarm(one: str) -> Finding:
    return Finding(
        "alarm", f"False-positive alarm: texts of {one} on unrelated items were called the same source 9 of 9 times."
    )


def test_warnings_are_grouped_and_those_of_one_kind_are_one_line() -> None:
    result = group_lines(
        Finding("lexical", "The lexical judge is a similarity baseline: it sees words. Read on."),
        alarm("a"),
        alarm("b"),
        Finding("missing", "32 of 320 trials have no answer (32 refused): missing, not a no."),
        Finding("missing", "32 of 320 calls have no answer.", remedy="Open them below."),
        Finding("leader", "a is best."),
        Finding("report", "The pool cannot be read: gone."),
        headline="x. a is best.",
    )
    assert result == {
        "The judge": ["The lexical judge is a similarity baseline", "32 of 320 calls have no answer"],
        "The pool": ["2 false-positive alarms"],
        "The data": ["The pool cannot be read: gone"],
    }


def test_a_ranking_check_is_merged_with_an_equal_warning_and_a_note_is_omitted() -> None:
    doubts = RankingChecks(
        None,
        (),
        (
            Finding("pairs", "These agents agree more than any honest group on record: a and b."),
            Finding("length", "The ranking correlates with mean length at ρ = 0.10.", severity="note"),
        ),
    )
    warning = Finding(
        "pairs", "a, b agree more than any honest group on record, so they count as one partner in the robust ranking."
    )
    assert group_lines(warning, doubts=doubts) == {"The pool": ["Some agents are too similar to count separately"]}


def test_a_warning_is_a_complete_sentence_and_opens_only_if_it_has_details() -> None:
    assert first_sentence("It was said often (all others: 10.8%). Look on.") == "It was said often (all others: 10.8%)"
    ((short,), (long,)) = (
        group_warnings([Finding("run", text)], NOBODY, headline="")[0].lines
        for text in ("No end", "A first sentence of it. More.")
    )
    assert (short.opens, long.opens) == (False, True)


def test_means_of_graded_answers_are_not_called_fractions_of_yes_answers(tmp_path: Path) -> None:
    def answers(plan: Plan) -> Floats:
        return np.where(plan.trial_type == PAIRED, 0.75, 0.25)

    folder = judged(tmp_path / "run", answers=answers)
    data = ReportData(folder)
    judge = not_none(data.readers).judge
    assert (judge.tpr, judge.fpr, judge.yes) == (0.75, 0.25, (1.0, 0.0))
    page = " ".join(render_page(data).split())
    assert "are 0.750 on average for pairs from one item and 0.250 for pairs from two" in page
    assert "The proportions of yes answers are 100.0% and 0.0%." in page


def test_the_quality_of_a_judge_equals_manual_counts() -> None:
    plan = plan_of(
        *((0, 0, 1, -1, 0), (0, 0, 1, -1, 1), (0, 1, 0, -1, 0)),  # asked twice, and in the other order
        *((1, 2, 3, -1, 0), (1, 0, 2, 2, 0), (1, 1, 2, 2, 0)),
    )
    result = TrialReading(
        source_of(answer_with(plan, np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0]))), nothing_predicted(plan)
    ).readers.judge
    assert (result.tpr, result.fpr, result.j, result.yes) == (0.75, 0.5, 0.25, None)
    assert (not_none(result.retest).n, not_none(result.retest).n_same) == (1, 0)
    assert (not_none(result.swapped).n, not_none(result.swapped).n_same) == (1, 1)


class TokensByAgent(ReportSection):
    """Number of tokens of the answers to trials in which the response of the agent comes first."""

    title = "Tokens by agent"
    note = "Only the agent that is `first` counts."
    text_headings = ("agent",)
    number_headings = ("tokens",)
    place = "cost"

    def __init__(self, run: Summary, evidence: Evidence) -> None:
        super().__init__(run, evidence)
        self._n_tokens = np.zeros(run.n_agents, dtype=np.int64)

    def add(self, rows: TrialRows) -> None:
        if "tokens_out" in self.measured:
            np.add.at(self._n_tokens, rows.columns["first"], rows.columns["tokens_out"])

    def make_rows(self) -> list[list[str]]:
        return [[agent, str(n)] for agent, n in zip(self.evidence.agent_ids, self._n_tokens, strict=True) if n]


def test_a_section_shows_a_table_of_all_trials_and_is_left_out_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vega, "NEEDED", ("no_such_library",))  # without figures, which take long
    monkeypatch.setattr(report, "SECTIONS", (TokensByAgent,))
    folder = judged(tmp_path / "run", measured=lambda plan: {"tokens_out": np.arange(len(plan), dtype=np.int32)})
    plan = folder.read_plan()
    expected = np.bincount(plan.first, np.arange(len(plan))).astype(int).astype(str).tolist()
    data = ReportData(folder)
    assert data.sections[TokensByAgent].rows == [list(row) for row in zip(plan.agent_ids, expected, strict=True)]
    page = render_page(data)
    cost = page[page.index('<h2 id="cost">') : page.index('<h2 id="trials">')]
    assert "<summary><h3>Tokens by agent</h3></summary>" in cost
    assert "Only the agent that is <code>first</code> counts." in cost
    assert ReportData(judged(tmp_path / "unmeasured")).sections == {}


def test_the_rates_of_the_judge_leave_out_follow_ups_and_probes() -> None:
    plan = plan_of((0, 0, 1, -1, 0), (0, 1, 2, -1, 0), (1, 2, 3, -1, 0), (1, 0, 1, 2, 0), (1, 1, 2, 0, 0))
    columns = {
        **plan.trials.columns(),
        "role": np.array([MAIN, MAIN, FOLLOW_UP, POOLED, PROBE]),
        "answer": np.array([1.0, 1.0, 0.0, 0.0, 1.0]),
        "hard_answer": np.array([1.0, 1.0, 0.0, 0.0, 1.0]),
        "missing_reason": np.zeros(5, dtype=np.int8),
    }
    judge = JudgeQuality()
    judge.add(TrialRows(columns, plan))
    assert (judge.tpr, judge.fpr) == (1.0, 0.0)


def test_a_judge_without_replicates_is_not_called_consistent() -> None:
    result = answer_with(plan_of((0, 0, 1, -1, 0), (1, 2, 3, -1, 0)), np.array([1.0, 0.0]))
    actual = TrialReading(source_of(result), nothing_predicted(result.plan)).readers.judge
    assert (actual.retest, actual.swapped, actual.fpr, actual.j) == (None, None, None, None)


def test_compared_partners_are_those_of_compared_cells() -> None:
    # Item 0: a pair, either way round, so two cells met 1 of 3 partners; item 1: three cells met 2, 1 and 1.
    plan = replace(
        plan_of((0, 0, 1, -1, 0), (0, 1, 0, -1, 0), (1, 0, 1, -1, 0), (1, 2, 0, -1, 0)), independent="pooled"
    )
    result = analyzed(answer_with(plan, np.ones(4))).pairs
    assert result.partners_seen == pytest.approx((1 + 1 + 2 + 1 + 1) / 5 / 3)


def test_the_worst_trials_are_those_furthest_below_their_expected_answer() -> None:
    rows = ((0, 0, 1, -1, 0), (0, 1, 0, -1, 0), (0, 0, 2, -1, 0), (1, 0, 3, -1, 0), (1, 0, 2, 2, 0))
    predicted = Predictions(ability=np.array([0.9, 0.8, 0.4, 0.3]), difficulty=np.array([0.0, 0.1, np.nan]))
    answers = np.array([0.2, 0.1, 0.2, 0.0, 0.3])
    result = TrialReading(source_of(answer_with(plan_of(*rows), answers)), predicted).readers.worst.rows
    # Expected on item 0 (mean .6): .9 + .8 − .6 = 1.1 of agents 0 and 1, .7 of 0 and 2; on item 1: .8 + .2 − .5 of 0 and 3.
    # Short by .9 and 1.0 (the same two texts: the worse), .5, .5; a yes of .3 on two items.
    assert result == ((1, 2, 3, 4), (1,), (2, 4), (3,))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    def answers(plan: Plan) -> Floats:
        odd = (plan.item == 2) & ((plan.first == 0) | (plan.second == 0))
        return np.where(odd & (plan.trial_type == PAIRED), 0.0, by_ability(plan))

    return ReportData(
        judged(tmp_path_factory.mktemp("r") / "run", answers=answers, missing=lambda plan: plan.item == 7, holdout=0.0)
    )


def test_an_agent_that_fails_on_an_item_ranks_last_there_and_its_trials_are_saved(data: ReportData) -> None:
    page = data.pages[0]
    assert data.item_ids[page.loses[0][0]] == data.item_ids[2]
    assert page.loses[0][2] < -0.2
    assert page.high[0][1] >= page.low[0][1]
    carried = {line.row: line for line in not_none(data.trials).lines}
    assert {carried[row].item for row in page.worst[:4]} == {2}
    assert all(set(entry.worst) <= set(carried) for entry in data.pages)


def test_the_header_states_judge_date_cost_and_number_of_items(data: ReportData) -> None:
    run = data.summary
    assert run.compared == "7 of 8 items compared"
    assert (run.judge, run.spent) == ("test", "320 calls, $0.00")
    assert len(run.judged_on) == len("2026-11-22")
    dear = [with_values(run, calls=replace(not_none(run.calls), usd=usd)).spent for usd in (None, 0.0042, 1234.5)]
    assert dear == ["320 calls, cost unknown", "320 calls, $0.0042", "320 calls, $1,234.50"]
    assert with_values(run, calls=None).spent == "calls and cost not recorded"


def test_additivity_is_folded_without_a_warning_if_few_partners_were_compared(
    tmp_path: Path, data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vega, "NEEDED", ("no_such_library",))  # the words alone, without waiting for figures
    assert data.can_assess_additivity
    assert '<details class="part" open>' in render_page(data)
    few = ReportData(
        judged(tmp_path / "few", pool=make_pool(12, 8), design="cyclic", calls=60, independent="pooled:12")
    )
    assert not_none(few.partners_seen) < 0.3
    assert not few.can_assess_additivity
    assert '<details class="part"><summary><h3>Additivity</h3> <span>cannot be assessed' in render_page(few)
    assert "additivity" not in {page.slug for page in few.advice}


def test_text_between_backticks_is_code_without_markup() -> None:
    assert format_code("run `a <b>` now") == "run <code>a &lt;b&gt;</code> now"
    assert format_code("one ` alone <i>") == "one ` alone &lt;i&gt;"
    assert format_code("`a` and ` b") == "<code>a</code> and ` b"


def test_the_page_of_an_agent_has_only_findings_about_it(data: ReportData) -> None:
    warnings = (
        Finding("copying", "Agent 'a1' copies its prompts.", agents=("a1",)),
        Finding(
            "alarm", "False-positive alarm: texts of a0 and a3 on unrelated items were called so.", agents=("a0", "a3")
        ),
    )
    summary = with_values(data.summary, warnings=warnings, facts=replace(data.summary.facts, partners=None))
    result = [tuple(iter_agent_findings(agent, summary, NOBODY)) for agent in data.agents.agents]
    copying, alarms = (page.message for page in warnings)
    assert result == [(alarms,), (copying,), (), (alarms,), ()]


def pair_of(mean: Floats) -> PairMeans:
    matrix = mean.copy()
    np.fill_diagonal(matrix, np.nan)
    return PairMeans(matrix, np.full(mean.shape, 0.01), 100.0 * (1 - np.eye(len(mean))))


def test_at_the_stated_fraction_the_group_and_the_coalition_have_equal_scores() -> None:
    groups = ["good"] * 3 + ["bad"] * 3
    mean = np.full((6, 6), 0.4)
    mean[:3, :3], mean[3:, 3:] = 0.8, 0.2
    good, bad = measure_groups(pair_of(mean), groups, tuple("abcdef"))
    assert (good.inside, good.across, good.outside) == pytest.approx((0.8, 0.4, 0.2))
    assert good.min_coalition_share == pytest.approx(0.4)
    assert pytest.approx((1 - 0.4) * 0.4 + 0.4 * 1.0) == (1 - 0.4) * 0.8 + 0.4 * 0.4
    assert bad.min_coalition_share is None


def test_an_agent_falls_without_the_group_that_raises_it() -> None:
    agents = tuple("abcdefgh")
    ability = np.array([0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.3, 0.3])
    mean = ability[:, None] + ability
    mean[5, 6:] = mean[6:, 5] = 1.0
    (line,) = measure_groups(pair_of(mean), [None] * 6 + ["friends"] * 2, agents)
    assert (line.group, line.n_agents, line.most_moved) == ("friends", 2, "f")
    assert line.max_change >= 3
    assert measure_groups(pair_of(mean), ["all"] * 8, agents) == []


def test_lengths_and_their_spread_are_reported() -> None:
    ability = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
    assert length_correlation(ability, 10 * ability) == pytest.approx((1.0, len(ability)))
    assert length_correlation(np.append(ability, np.nan), np.append(ability, 1.0)) == pytest.approx((1.0, len(ability)))
    assert length_correlation(ability, None) is None
    assert length_correlation(ability[:4], ability[:4]) is None
    assert agreeing_fraction(pair_of(np.full((4, 4), 0.9)), min_agreement=0.8) == 1.0


def test_a_large_pool_is_drawn_in_bins_and_a_bin_with_a_flagged_pair_is_outlined() -> None:
    K = 200
    ability = np.linspace(0.4, 0.0, K)
    mean = ability[:, None] + ability
    mean[0, 199] = mean[199, 0] = 0.95
    of = pair_of(mean)
    names = [f"a{k}" for k in range(K)]
    grid = PairGrid(of, [("a0", "a199")], names, names)
    assert grid.agreement.shape == (100, 100)
    assert np.argwhere(grid.flagged).tolist() == [[0, 99], [99, 0]]
    assert grid.groups[0].agents == ("a0", "a199")
    assert grid.groups[0].agreement == pytest.approx(0.95)
    assert grid.groups[0].residual == pytest.approx(0.55, abs=0.01)


def cloned(plan: Plan) -> Floats:
    rng = np.random.default_rng(0)
    paired = rng.random(len(plan)) < 0.85 - (plan.first + plan.second) / 16
    both = np.isin(plan.first, (6, 7)) & np.isin(plan.second, (6, 7))
    return np.where(plan.trial_type == PAIRED, np.where(both, 1.0, paired), 0.0)


def report_of(folder: Path, *, answers: Answers) -> ReportData:
    pool = make_pool(8, 40)
    agents = (*pool.agents[:7], Agent("<b>z</b>", "odd"))
    return ReportData(judged(folder, pool=Pool(agents, pool.items, pool.texts, "p"), answers=answers))


def test_agents_with_similar_texts_are_one_group_in_the_report_and_in_the_warnings(tmp_path: Path) -> None:
    pool = make_pool(8, 8)
    texts = pool.texts.copy()
    texts[1] = texts[0]
    data = ReportData(judged(tmp_path / "run", pool=replace(pool, texts=texts)))
    (pairs,) = (doubt for doubt in data.checks.findings if doubt.slug == "pairs")
    assert pairs.severity == "warning"
    assert pairs.message.startswith(
        "These agents have similar texts, or agree more than any honest group on record: a0, a1 ("
    )
    assert any(
        warning.message.startswith("a0, a1 have similar texts, or agree more than any honest group")
        for warning in data.summary.facts.warnings
    )


def test_a_report_names_and_outlines_flagged_groups_and_opens_the_checks(tmp_path: Path) -> None:
    data = report_of(tmp_path / "run", answers=cloned)
    assert "pairs" in {doubt.slug for doubt in data.checks.warnings}
    assert [set(group.agents) for group in not_none(data.checks.pairs).groups] == [{"a6", "<b>z</b>"}]
    page = render_page(data)
    assert "agree more than any honest group on record: a6, &lt;b&gt;z&lt;/b&gt; (agreement 1.0" in page
    drawn = {figure.slug: figure for figure in draw_figures(data)}
    layers = drawn["pairs"].spec["layer"]
    assert isinstance(layers, list)
    assert len(layers) == 2
    alt.TopLevelSpec.validate(drawn["pairs"].spec)
    assert set(drawn["pairs-beyond"].frame.columns["flagged"]) == {"yes", "no"}


def test_a_report_without_warnings_states_it_and_folds_the_rest(tmp_path: Path) -> None:
    data = report_of(tmp_path / "run", answers=lambda plan: by_ability(plan) * 0.8)
    doubts = replace(data.checks, findings=tuple(replace(doubt, severity="note") for doubt in data.checks.findings))
    page = render_page(with_values(data, checks=doubts))
    assert "No check found a problem with this ranking." in page
    warned = with_values(
        data, checks=doubts, groups=group_warnings([Finding("few", "Few trials.")], doubts, headline="")
    )
    assert "The other checks found no problem, but see the warnings at the top." in render_page(warned)
    assert '<details class="quiet">' in page


def test_self_trials_are_no_percentage_of_a_dense_plan(tmp_path: Path) -> None:
    data = ReportData(judged(tmp_path / "run"))
    calls = replace(not_none(data.summary.calls), n_dense_calls=0)
    summary = with_values(data.summary, calls=calls)
    assert "% of dense" in render_markdown(data)
    assert f"{calls.n_done:,} calls, 0 without an answer." in render_markdown(with_values(data, summary=summary))


def test_a_missing_value_of_the_ranking_is_sorted_last(tmp_path: Path) -> None:
    data = ReportData(judged(tmp_path / "run"))
    first, *remaining = data.summary.ranking
    summary = with_values(data.summary, ranking=(replace(first, length_place=None), *remaining))
    page = render_page(with_values(data, summary=summary))
    assert 'data-value="–">–</td>' in page
    assert 'data-value="None"' not in page


def test_a_pool_of_three_agents_gets_its_matrices_and_no_claim(tmp_path: Path) -> None:
    data = ReportData(judged(tmp_path / "run", pool=make_pool(3, 8)))
    assert "pairs" in {figure.slug for figure in draw_figures(data)}
    assert "pairs" not in {doubt.slug for doubt in data.checks.warnings}
    assert "When not to believe it" in render_page(data)
