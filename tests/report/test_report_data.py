"""Test the data of reports with cases small enough to check by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrowing import not_none, untyped
from report_runs import by_ability, judged
from small_pools import answer_with, make_pool, nothing_predicted, source_of
from youden import make_plan
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError, StatisticsError
from youden.pipeline.fitted_run import fit_run
from youden.protocol.independent import match_trials
from youden.report.charts.figures import draw_figures
from youden.report.charts.marks import Frame
from youden.report.data.comparison import Comparison, _test_changes, match_answers
from youden.report.data.evidence import Sources, read_result
from youden.report.data.grids import average_bins, choose_bin_sizes, order_by_similarity
from youden.report.data.opened_trials import TrialSample, find_calling_judge
from youden.report.data.ranking_tables import add_report_columns, escape_controls, truncate
from youden.report.data.report import ReportData
from youden.report.data.trial_reading import TrialReading
from youden.report.data.trial_rows import KINDS, TrialBook, TrialFilter
from youden.report.pages.writing import render_comparison, render_markdown, render_page
from youden.study.agreement import JudgesStudy
from youden.study.judged_runs import AlignedRuns, read_judged_run
from youden.types import INDEPENDENT, PAIRED, Agent, Plan, Trials
from youden.types.columns import columns_of
from youden.types.facts import RankingRow
from youden.types.pool import Bools, Floats


def row(agent: str, ability: float | None, rank_low: int, rank_high: int, **more: Any) -> RankingRow:
    """Return a ranking row with bounds at ±0.1; unused fields are 0."""
    cells: dict[str, Any] = dict.fromkeys((column.name for column in columns_of(RankingRow)), 0)
    cells |= {"agent": agent, "group": None, "ability": ability, "rank_low": rank_low, "rank_high": rank_high}
    cells |= {"low": None, "high": None} if ability is None else {"low": ability - 0.1, "high": ability + 0.1}
    return RankingRow(**cells | more)


ROWS = (
    row("a", 0.8, 1, 2, group="g"),
    row("b", 0.7, 1, 2, group="g"),
    row("c", 0.2, 3, 3),
    row("d", None, 1, 4),
)
POOL = PoolSummary.from_import(tuple(Agent(name) for name in "abcd"), ("i",), source="x")


def test_ranks_and_bars_equal_those_of_the_ranking() -> None:
    ranking = add_report_columns(ROWS, POOL)
    assert [agent.ranks for agent in ranking] == ["1–2", "1–2", "3", "1–4"]
    assert [agent.bar and (round(agent.bar.low, 1), round(agent.bar.width, 1)) for agent in ranking] == [
        (75.0, 25.0),
        (62.5, 25.0),
        (0.0, 25.0),
        None,
    ]


def test_significantly_different_agents_with_overlapping_intervals_are_marked(tmp_path: Path) -> None:
    def answers(plan: Plan) -> Floats:
        rng = np.random.default_rng(0)
        ability = 0.5 + np.array([0.05, 0.0, -0.15, -0.2, -0.25])
        chance = (ability[plan.first] + ability[plan.second]) / 2
        return np.where(plan.trial_type == PAIRED, (rng.random(len(plan)) < chance).astype(float), 0.0)

    apart_though_overlapping = 0
    data = ReportData(judged(tmp_path / "run", pool=make_pool(5, 60), answers=answers, holdout=0.0))
    lines = data.summary.ranking
    for line in lines:
        tied = not_none(data.tied[line.agent])
        assert line.agent not in tied
        assert line.rank_interval[1] - line.rank_interval[0] >= len(tied)
        assert (
            line.simultaneous_rank_low <= line.rank_interval[0] <= line.rank_interval[1] <= line.simultaneous_rank_high
        )
        apart_though_overlapping += sum(
            not_none(other_line.low) <= not_none(line.high) and not_none(line.low) <= not_none(other_line.high)
            for other_line in lines
            if other_line.agent not in (line.agent, *tied)
        )
    assert apart_though_overlapping > 0


def test_means_that_differ_only_by_rounding_are_ties_without_a_unique_best(tmp_path: Path) -> None:
    def answers(plan: Plan) -> Floats:
        return np.where(plan.trial_type == PAIRED, 0.7 + 1e-16 * (plan.first == 3), 0.0)

    data = ReportData(judged(tmp_path / "run", answers=answers))
    assert data.summary.facts.unique_best is None
    assert len(not_none(data.summary.facts.choice).candidates) == 4
    for line in data.summary.ranking:
        assert line.ranks == line.simultaneous_ranks == "1–5"
        assert not_none(line.low) < not_none(line.high)
        assert len(data.tied[line.agent] or ()) == 4


def test_a_report_states_the_number_of_compared_items_and_defines_ability(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(5, 12), missing=lambda plan: plan.item >= 9, holdout=0.0)
    data = ReportData(folder)
    assert data.summary.items == "12 items, of which 9 were compared"
    assert "9 of 12 items compared" in render_page(data)
    assert "12 items, of which 9 were compared" in render_markdown(data).replace("\\", "")
    for text in (render_page(data), render_markdown(data).replace("\\", "")):
        assert "obscure or bureaucratic styles rank high, terse references low" in text
        assert "does not prove correctness" in text
        assert "Intervals and ranks describe how these agents would perform on more items like these." in text
        assert "Rankings by two random halves of the partners correlate at ρ = " in text


def test_alternative_rankings_of_the_terminal_are_in_the_report_and_its_summary(tmp_path: Path) -> None:
    data = ReportData(judged(tmp_path / "run", pool=make_pool(8, 12), holdout=0.0))
    assert len(data.summary.standings) > 0
    for line in data.summary.standings:
        assert line in render_page(data)
        assert line in render_markdown(data).replace("\\", "")


def test_banner_and_chart_flag_the_same_agents(tmp_path: Path) -> None:
    def answers(plan: Plan) -> Floats:
        template = (plan.first == 2) | (plan.second == 2)
        by_chance = (template & (np.arange(len(plan)) % 2 == 0)).astype(float)
        return np.where(plan.trial_type == PAIRED, by_ability(plan), by_chance)

    data = ReportData(judged(tmp_path / "run", pool=make_pool(6, 20), answers=answers, holdout=0.0))
    (banner,) = (advice.message for advice in data.advice if advice.slug == "alarm")
    assert [line.agent for line in data.alarms if line.alarmed] == ["a2"]
    assert "texts of a2 on unrelated items" in banner
    (chart,) = (figure for figure in draw_figures(data) if figure.slug == "alarms")
    drawn = zip(chart.frame.columns["agent"], chart.frame.columns["alarm"], strict=True)
    assert [agent for agent, alarm in drawn if alarm == "alarm"] == ["a2"]


def test_intervals_of_differences_are_drawn_on_an_axis_of_differences(tmp_path: Path) -> None:
    (chart,) = (
        figure
        for figure in draw_figures(ReportData(judged(tmp_path / "run", pool=make_pool(5, 60))))
        if figure.slug == "ranking"
    )
    columns = chart.frame.columns
    low, distance, high = (np.array(columns[name], dtype=np.float64) for name in ("low", "distance", "high"))
    assert distance.sum() == pytest.approx(0, abs=1e-4)
    assert (low + high) / 2 == pytest.approx(distance, abs=2e-5)
    assert "minus the average agent's" in json.dumps(chart.spec)


def small_plan(**columns: list[int]) -> Plan:
    """Make a plan of two agents on two items with the given columns."""
    plan = make_plan(make_pool(3, 3), design="dense", holdout=0.0, seed=0)
    n = len(columns["item"])
    filled = {"replicate": [0] * n, "block": [-1] * n} | columns
    arrays: dict[str, Any] = {
        name: np.array(column, dtype=np.int8 if name == "trial_type" else np.int32) for name, column in filled.items()
    }
    return replace(plan, trials=Trials(**arrays))


PLAN = small_plan(
    item=[0, 0, 0, 1, 1],
    first=[0, 1, 0, 0, 1],
    second=[1, 0, 1, 1, 0],
    trial_type=[PAIRED, PAIRED, INDEPENDENT, INDEPENDENT, PAIRED],
    other_item=[-1, -1, 1, 2, -1],
)


def test_each_trial_has_the_first_kind_that_fits() -> None:
    book = TrialBook(
        answer_with(PLAN, np.array([1.0, 0.0, 1.0, 0.0, 0.0]), missing=np.array([False] * 4 + [True])),
    )
    assert [KINDS[kind] for kind in book.kind] == [
        "answers differ",
        "answers differ",
        "independent yes",
        "ordinary",
        "no answer",
    ]
    assert book.n_of_kind == {
        "independent yes": 1,
        "judges differ": 0,
        "answers differ": 2,
        "no answer": 1,
        "paired no": 0,
        "ordinary": 1,
    }


def test_surprising_trials_come_before_ordinary_ones() -> None:
    plan = make_plan(make_pool(6, 9), design="dense", holdout=0.0, seed=0)
    rng = np.random.default_rng(1)
    book = TrialBook(answer_with(plan, rng.random(len(plan)), missing=rng.random(len(plan)) < 0.1))
    order = book.kind[book.sample_surprising(np.random.default_rng(0), 50)]
    assert len(order) == 50
    assert (np.diff(order) >= 0).all()
    assert (np.sort(book.sample_surprising(rng, len(plan))) == np.arange(len(plan))).all()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_reversed_answers_equal_those_of_a_loop_over_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 30
    trial_type = rng.integers(0, 2, n)
    plan = small_plan(
        item=rng.integers(0, 3, n).tolist(),
        first=(first := rng.integers(0, 3, n)).tolist(),
        second=((first + rng.integers(1, 3, n)) % 3).tolist(),
        trial_type=trial_type.tolist(),
        other_item=np.where(trial_type == INDEPENDENT, rng.integers(0, 3, n), -1).tolist(),
    )
    result = answer_with(plan, rng.random(n), missing=rng.random(n) < 0.2)

    def texts(row: int) -> frozenset[tuple[int, int]]:
        other_item = plan.other_item[row] if plan.trial_type[row] == INDEPENDENT else plan.item[row]
        return frozenset({(int(plan.first[row]), int(plan.item[row])), (int(plan.second[row]), int(other_item))})

    expected = [
        any(texts(a) == texts(b) and result.hard_answer[a] + result.hard_answer[b] == 1 for b in range(n))
        for a in range(n)
    ]
    assert TrialBook(result).differ.tolist() == expected


def test_trials_are_found_by_agent_item_trial_type_kind_and_answer() -> None:
    book = TrialBook(answer_with(PLAN, np.array([1.0, 1.0, 0.0, 1.0, 0.3])))
    assert book.find(TrialFilter(items=frozenset({2}))).tolist() == [3]
    assert book.find(TrialFilter(trial_type="paired"), by="answer").tolist() == [4, 0, 1]
    assert book.find(TrialFilter(trial_type="paired"), by="answer", descending=True).tolist() == [0, 1, 4]
    assert book.find(TrialFilter(kind="independent yes")).tolist() == [3]
    assert book.find(TrialFilter(answer="no"), by="row").tolist() == [2, 4]
    assert book.find(TrialFilter(agents=frozenset({2}))).tolist() == []
    line = book.get_line(3)
    assert (line.item, line.other_item, line.hard_answer, line.kind, line.missing_reason) == (
        1,
        2,
        True,
        "independent yes",
        None,
    )


def test_trials_of_two_plans_are_matched_by_their_comparison() -> None:
    swapped = replace(PLAN, agent_ids=(PLAN.agent_ids[1], PLAN.agent_ids[0], "other"), source=None)
    assert match_trials(PLAN, PLAN).tolist() == [0, 1, 2, 3, 4]
    assert match_trials(PLAN, swapped).tolist() == [1, 0, -1, -1, -1]
    mine, theirs = (answer_with(PLAN, np.array(answers)) for answers in ([1.0] * 5, [0.0, 1.0, 0.0, 1.0, 1.0]))
    against = match_answers(mine, theirs)
    assert against.tolist() == [0, 1, 0, 1, 1]
    assert TrialBook(mine, against).n_of_kind["judges differ"] == 1


def test_false_positives_count_both_sides_and_outliers_are_named() -> None:
    n = 200
    plan = small_plan(
        item=[0] * n,
        first=[0] * (n // 2) + [1] * (n // 2),
        second=[2] * n,
        trial_type=[INDEPENDENT] * n,
        other_item=[1] * n,
    )
    reading = TrialReading(source_of(answer_with(plan, np.array([1.0] * 100 + [0.0] * 100))), nothing_predicted(plan))
    lines = {line.agent: line for line in reading.alarms}
    assert (lines["a0"].n, lines["a0"].n_yes, lines["a0"].alarmed) == (100, 100, True)
    assert (lines["a1"].n, lines["a1"].n_yes, lines["a1"].alarmed) == (100, 0, False)
    assert (lines["a2"].n, lines["a2"].n_yes, lines["a2"].alarmed) == (200, 100, False)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(1, 11), st.integers(1, 30), st.integers(0, 99))
def test_bins_are_means_of_observed_values(K: int, J: int, tiles: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = np.where(rng.random((K, J)) < 0.3, np.nan, rng.random((K, J)))
    rows, columns = choose_bin_sizes((K, J), tiles)
    drawn = average_bins(value, rows, columns)
    for i in range(drawn.shape[0]):
        for j in range(drawn.shape[1]):
            block = value[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            observed = block[~np.isnan(block)]
            assert drawn[i, j] == pytest.approx(observed.mean()) if len(observed) else np.isnan(drawn[i, j])


def test_similarity_order_separates_two_groups() -> None:
    camp = np.arange(6) % 2
    value = np.where(camp[:, None] == camp[None, :], 0.9, 0.1)
    value[0, 2] = np.nan
    order = camp[order_by_similarity(value)].tolist()
    assert order in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_a_frame_reads_back_from_its_packed_form() -> None:
    frame = Frame.from_columns(agent=["a", "a", "a", "b"], value=np.array([0.1234567, np.nan, 1, 2]))
    packed = frame.packed()
    assert packed["agent"] == {"levels": ["a", "b"], "codes": [0, 0, 0, 1]}
    assert packed["value"] == [0.12346, None, 1.0, 2.0]
    assert frame.rows()[3] == {"agent": "b", "value": 2.0}


def test_readable_text_escapes_deceptive_characters_and_keeps_lines() -> None:
    assert escape_controls("a\r\nb\tc\x00\u202ed\ud800") == "a\nb\tc\\x00\\u202ed\\ud800"
    assert escape_controls("👩‍👩‍👧 é") == "👩‍👩‍👧 é"
    assert truncate("x" * 10, 10) == "x" * 10


def test_a_complete_report_contains_the_contents_of_the_run(tmp_path: Path) -> None:
    def some(plan: Plan) -> Bools:
        return np.equal(np.arange(len(plan)) % 10, 3)

    folder = judged(tmp_path / "run", missing=some, holdout=0.2)
    data = ReportData(folder)
    assert [agent.agent for agent in data.summary.ranking] == ["a0", "a1", "a2", "a3", "a4"]
    assert data.plan is not None
    assert sum(n for reason, n in data.summary.missing_reasons if reason.endswith("refused")) == 32
    assert not_none(data.summary.calls).n_calls - not_none(data.summary.calls).n_missing == 288
    sample = not_none(data.trials)
    texts = sample.texts
    assert sum(sample.n_of_kind.values()) == sample.n_all == 320
    assert sample.n_of_kind["no answer"] == 32
    assert len(texts) == 40
    for line, first, second in zip(sample.lines, sample.first, sample.second, strict=True):
        other_item = line.item if line.other_item is None else line.other_item
        assert texts[first] == f"agent {line.first} says something of item {line.item}"
        assert texts[second] == f"agent {line.second} says something of item {other_item}"
    assert {advice.slug for advice in data.advice} >= {"missing"}
    assert not_none(data.holdout).n_cells <= 8
    np.testing.assert_array_equal(data.agents.by_rank, np.arange(5))
    grid = data.agents.agreement
    assert grid[0, 1] == pytest.approx(0.9, abs=1e-9)
    assert np.isnan(np.diag(grid)).all()
    assert len(data.items.ordered) == 8
    assert not_none(data.items.hardest[0].text).startswith("item ")


def find_different_agents(
    *lines: tuple[float, float], error: float | None, places: Sequence[tuple[int, int]] = ((1, 4),)
) -> list[bool]:
    """Compare agents with these abilities in two runs; `places` are the ranks in one run or in both."""
    a, b = (SimpleNamespace(rank_interval=of, std_error=error) for of in (places[0], places[-1]))
    return untyped(_test_changes)([(a, b)] * len(lines), np.array(lines).T)


def test_agents_of_two_runs_differ_by_standardized_difference_beyond_its_error() -> None:
    turned = ((0.0, 80.0), (10.0, 70.0), (20.0, 60.0), (30.0, 50.0))
    assert find_different_agents(*turned, error=4.0) == [True, False, False, True]
    assert find_different_agents((0.0, 5.0), (1.0, 7.0), error=0.0, places=((1, 1), (2, 2))) == [False, False]


@pytest.mark.parametrize(
    ("places", "expected"),
    [(((1, 1), (2, 3)), True), (((3, 3), (1, 2)), True), (((1, 2), (2, 3)), False), (((2, 3), (1, 2)), False)],
)
def test_without_standard_errors_agents_of_two_runs_are_compared_by_rank(
    places: Sequence[tuple[int, int]], expected: bool
) -> None:
    assert find_different_agents((0.0, 0.0), (1.0, 1.0), error=None, places=places) == [expected, expected]
    assert find_different_agents((1.0, 0.0), (1.0, 1.0), error=0.1, places=places) == [expected, expected]
    assert find_different_agents((1.0, 1.0), error=0.1, places=places) == [expected]


def test_a_page_contains_at_most_the_allowed_amount_of_text(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run")
    result = not_none(read_result(folder))
    sources = Sources(folder, find_calling_judge(result))
    little = TrialSample(TrialBook(result), sources, rng=np.random.default_rng(0), max_bytes=2_000)
    assert 0 < len(little.lines) < 20
    assert sum(map(len, little.texts)) < 2_000


def test_a_run_without_its_texts_is_reported_with_a_note(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run")
    shutil.rmtree(tmp_path / "run-pool")
    data = ReportData(folder)
    assert any(advice.message.startswith("The pool cannot be read") for advice in data.advice)
    sample = not_none(data.trials)
    assert sample.texts == []
    assert set(sample.first) == {-1}


def test_a_changed_pool_is_not_shown_as_the_judged_one(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run")
    responses = tmp_path / "run-pool" / "responses.jsonl"
    responses.write_text(responses.read_text(encoding="utf-8").replace("agent 0", "agent X"), encoding="utf-8")
    data = ReportData(folder)
    assert any("has changed" in advice.message for advice in data.advice)


def test_a_run_without_answers_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StatisticsError, match=r"Check that the judge answered.*\[scores-empty\]"):
        judged(tmp_path / "run", missing=lambda plan: np.ones(len(plan), dtype=np.bool_))
    with pytest.raises(RunFolderError, match=r"has no fit.json. Run `youden fit .*run` to write it"):
        ReportData(RunFolder(tmp_path / "run"))


@pytest.mark.parametrize(
    "name", ["fit.json", "ranking.csv", "verdicts.parquet", "items.csv", "pairs.parquet", "signature.json"]
)
def test_an_incomplete_run_names_the_missing_file_and_its_command(tmp_path: Path, name: str) -> None:
    folder = judged(tmp_path / "run")
    folder.file(name).unlink()
    with pytest.raises(RunFolderError, match=rf"has no {name}. Run `youden \w+"):
        ReportData(folder)


def test_two_runs_are_compared_by_agent_and_trial(tmp_path: Path) -> None:
    def nearly(plan: Plan) -> Floats:
        noise = 0.004 * np.random.default_rng(0).random(len(plan))
        return by_ability(plan) + np.where(plan.trial_type == PAIRED, noise, 0.0)

    first = judged(tmp_path / "one", answers=nearly)
    second = judged(
        tmp_path / "two", answers=lambda plan: np.where(plan.trial_type == PAIRED, 0.99 - nearly(plan), 0.0)
    )
    data = Comparison(first, second)
    assert not_none(data.correlation).value == pytest.approx(-1)
    pair = JudgesStudy(AlignedRuns([read_judged_run(first), read_judged_run(second)])).pairs[0]
    assert repr(pair.ranking) == repr(data.correlation)  # its ends are NaN, which equals nothing
    assert any(line.startswith("The rankings of one and two correlate with ρ = -1.00") for line in data.summary)
    assert [data.lines[place].differs for place in (0, 2, 4)] == [True, False, True]
    assert [(line.first.agent, line.first_rank, line.second_rank) for line in data.lines] == [
        ("a0", 1, 5),
        ("a1", 2, 4),
        ("a2", 3, 3),
        ("a3", 4, 2),
        ("a4", 5, 1),
    ]
    (_, n, yes_yes, *_, no_no, differ), independent = not_none(data.answers).rows
    assert (n, yes_yes, no_no, differ) == ("160", "0", "0", "100.0")
    assert independent == ["independent", "160", "0", "0", "0", "160", "0.0"]
    assert not_none(data.trials).n_of_kind["judges differ"] == 160


def test_runs_without_a_common_agent_cannot_be_compared(tmp_path: Path) -> None:
    first, second = judged(tmp_path / "one"), judged(tmp_path / "two")
    ranking = second.file("ranking.csv")
    ranking.write_text(ranking.read_text(encoding="utf-8").replace("\na", "\nz"), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"\[compare-nothing\]"):
        Comparison(first, second)


def test_an_imported_run_has_no_trials_and_no_cost(tmp_path: Path) -> None:
    judged_run = judged(tmp_path / "run")
    rates = judged_run.read_rates()
    folder = RunFolder(tmp_path / "imported")
    folder.write_pool(PoolSummary.from_import(tuple(map(Agent, rates.agent_ids)), rates.item_ids, source="there"))
    folder.write_rates(rates)
    fit_run(folder)
    data = ReportData(folder)
    assert data.trials is None
    assert data.plan is None
    assert [agent.agent for agent in data.summary.ranking] == list(rates.agent_ids)
    compared = Comparison(folder, folder)
    study = JudgesStudy(AlignedRuns([read_judged_run(folder), read_judged_run(folder)]))
    assert [*compared.answer, *compared.summary] == study.summary
    page = render_comparison(compared)
    assert "are significantly different by" in page
    assert "Significant change" in page
    assert "a change that is significant here need not be significant there" in page
    assert any("On the 160 ordered pairs that both answered" in line for line in compared.summary)
