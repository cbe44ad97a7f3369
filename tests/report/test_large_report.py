"""Test reports of many agents, items or trials: labeled bins, folds and samples, and tables read in chunks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from browsers import chromium, complaints, drawn
from narrowing import not_none
from plan_options import PLAN_OPTIONS
from report_runs import judged, with_values
from run_folders import assert_nearly_equal
from schema_files import content, validator
from small_pools import answer_with, make_pool, nothing_predicted, source_of
from youden.data.folder import trial_tables
from youden.data.folder.run_folder import RunFolder
from youden.engines import trial_blocks as blocks
from youden.errors import RunFolderError
from youden.pipeline.fitted_run import fit_run
from youden.report.charts.figures import MAX_RANKED, draw_figures
from youden.report.data import answer_blocks as repeats
from youden.report.data import trial_reading as cost
from youden.report.data import trial_reading as worst
from youden.report.data.answer_blocks import TrialSource, open_trials
from youden.report.data.evidence import Evidence
from youden.report.data.grids import MAX_TILES, AgentGrid, CellGrid, average_bins
from youden.report.data.report import ReportData
from youden.report.data.trial_reading import Latency, TrialReading
from youden.report.pages.writing import render_page
from youden.types import Plan, Verdicts
from youden.types.cells import CellIndex
from youden.types.pool import Bools, Floats

K, J = 220, 12


@pytest.fixture(scope="module")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return judged(tmp_path_factory.mktemp("wide") / "run", pool=make_pool(K, J), design="cyclic", calls=3000)


@pytest.fixture(scope="module")
def large_report(large_run: RunFolder) -> ReportData:
    return ReportData(large_run)


def test_many_agents_are_drawn_in_bins_of_means() -> None:
    rng = np.random.default_rng(0)
    value = rng.random((7, 7))
    value[rng.random((7, 7)) < 0.3] = np.nan
    order = rng.permutation(7)
    grid = AgentGrid(tuple("abcdefg"), value, order, order)
    tiles, names, agents_per_tile = grid.average_tiles(order, max_tiles=16)
    assert (tiles.shape, agents_per_tile) == ((4, 4), 2)
    assert names == tuple(
        " … ".join(grid.agents[i] for i in pair if i is not None)
        for pair in (order[:2], order[2:4], order[4:6], order[6:])
    )
    np.testing.assert_allclose(tiles[1, 2], np.nanmean(value[np.ix_(order[2:4], order[4:6])]))
    np.testing.assert_array_equal(grid.average_tiles(order)[0], value[np.ix_(order, order)])


@pytest.mark.slow
def test_figures_of_many_agents_are_limited_and_state_it(large_report: ReportData) -> None:
    drawn_ones = {figure.slug: figure for figure in draw_figures(large_report)}
    for slug in ("agents", "agents-clustered"):
        assert len(drawn_ones[slug].frame.columns["value"]) <= MAX_TILES
        assert "mean over 3 × 3 agents" in drawn_ones[slug].note
    assert len(drawn_ones["ranking"].frame.columns["agent"]) == MAX_RANKED
    assert f"first {MAX_RANKED} of {K} agents" in drawn_ones["ranking"].note


@pytest.mark.slow
def test_of_many_items_every_nth_is_drawn(large_report: ReportData) -> None:
    lines = large_report.items.ordered * 500
    many = with_values(large_report, items=with_values(large_report.items, ordered=lines))
    (figure,) = (figure for figure in draw_figures(many) if figure.slug == "difficulty")
    assert list(figure.frame.columns["position"]) == list(range(1, len(lines) + 1, 3))
    assert "One item in 3" in figure.note


def test_a_page_names_only_agents_of_its_trials_and_the_viewer_page_none(large_report: ReportData) -> None:
    trials = not_none(large_report.trials)
    few = with_values(
        trials, lines=trials.lines[:2], first=trials.first[:2], second=trials.second[:2], raw=trials.raw[:2]
    )
    small = with_values(large_report, trials=few)

    def names_in(page: str) -> dict[str, dict[str, str]]:
        trials: dict[str, dict[str, str]] = json.loads(re.findall(r'id="trial-data">(.*?)</script>', page, re.S)[0])
        return trials

    alone, live = names_in(render_page(small)), names_in(render_page(small, live="/run/x/trials", home="/"))
    spoken = {agent for line in few.lines for agent in (line.first, line.second)}
    assert alone["agents"] == {str(agent): large_report.agents.agents[agent] for agent in sorted(spoken)}
    assert (live["agents"], live["items"]) == ({}, {})


@pytest.mark.slow
def test_a_long_ranking_is_folded_and_opens(large_run: RunFolder, large_report: ReportData) -> None:
    page = large_run.file("report.html")
    page.write_text(render_page(large_report), encoding="utf-8")
    displayed = (
        "return [...document.querySelector('table.sortable').tBodies[0].rows].filter((row) => row.offsetParent).length"
    )
    first = (
        "return [...document.querySelectorAll('table.sortable tbody th')].find((cell) => cell.offsetParent).textContent"
    )
    with chromium() as browser:
        paints = []
        for _ in range(3):
            browser.get(page.as_uri())
            paints.append(browser.execute_script("return performance.getEntriesByType('paint')[0].startTime"))
        assert min(paints) <= 1000, "the first load also starts the browser"
        drawn(browser)
        assert browser.execute_script(displayed) == 100
        best = browser.execute_script(first)
        ability = browser.find_element("css selector", "table.sortable th:nth-child(5) button")
        ability.click()
        assert browser.execute_script(displayed) == 100, "sorted anew, and still folded"
        assert browser.execute_script(first) != best, "over all rows, not only those shown"
        browser.find_element("css selector", "button.unfold").click()
        assert browser.execute_script(displayed) == K
        assert not complaints(browser)


@pytest.mark.parametrize("max_tiles", [MAX_TILES, 120])
def test_tiles_of_cells_equal_the_means_of_their_matrix(large_run: RunFolder, max_tiles: int) -> None:
    evidence = Evidence(large_run)
    ranked = [evidence.scores.agent_ids[i] for i in np.random.default_rng(0).permutation(K)]
    grid = CellGrid(evidence, ranked, max_tiles=max_tiles)
    columns = np.argsort(-np.nanmean(evidence.scores.value, axis=0), kind="stable")
    rows = np.array([evidence.scores.agent_ids.index(agent) for agent in ranked])
    value = evidence.scores.value[np.ix_(rows, columns)]
    per_row, per_column = grid.agents_per_row, grid.items_per_column
    assert grid.score.shape == (-(-K // per_row), -(-J // per_column))
    np.testing.assert_allclose(grid.score, average_bins(value, per_row, per_column), rtol=0, atol=1e-12)
    fitted = evidence.predicted.predict(np.arange(K)[:, None], np.arange(J))
    beyond = evidence.scores.value - fitted
    beyond = beyond[np.ix_(rows, columns)]
    np.testing.assert_allclose(grid.residual, average_bins(beyond, per_row, per_column), rtol=0, atol=1e-12)


def test_a_report_allocates_no_matrix_of_scores(large_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cells: CellIndex, values: Floats, *, empty: float) -> Floats:
        raise AssertionError(f"{len(values)} cells were made a matrix of {cells.n_agents} × {cells.n_items}.")

    monkeypatch.setattr(CellIndex, "to_matrix", refuse)
    assert ReportData(large_run).summary.ranking


def answers(plan: Plan) -> Floats:
    """Return answers by agent and item, with one yes in ten for independent trials."""
    rng = np.random.default_rng(3)
    ability, difficulty = rng.normal(0.6, 0.2, plan.n_agents), rng.normal(0, 0.1, plan.n_items)
    chance = (ability[plan.first] + ability[plan.second]) / 2 - difficulty[plan.item]
    return (rng.random(len(plan)) < np.where(plan.trial_type == 0, chance, 0.1)).astype(np.float64)


def unanswered(plan: Plan) -> Bools:
    return np.random.default_rng(4).random(len(plan)) < 0.05


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(trial_tables, "ROWS_PER_GROUP", 60)
    monkeypatch.setattr(blocks, "MAX_CELLS_PER_CHUNK", 12)
    monkeypatch.setattr(repeats, "TRIALS_PER_SORT", 40)
    monkeypatch.setattr(worst, "TRIALS_PER_CHUNK", 16)
    return monkeypatch


def run_of(place: Path, how: str) -> RunFolder:
    return judged(place / "run", pool=make_pool(7, 12), answers=answers, missing=unanswered, **PLAN_OPTIONS[how])


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        *(
            pytest.param(how, marks=pytest.mark.slow)
            for how in ("cyclic", "cyclic own rates", "cyclic twins", "dense", "held out")
        ),
        "held out, pooled, own",
    ],
)
def test_a_report_read_in_chunks_equals_that_of_a_complete_read(
    tmp_path: Path, how: str, small_parts: pytest.MonkeyPatch
) -> None:
    folder = run_of(tmp_path, how)
    assert len(list(folder.open_judged_files().verdicts.row_groups())) > 1
    fit_run(folder)
    large = ReportData(RunFolder(folder.path))
    assert not list(validator("pairs.parquet").iter_errors(content(folder.file("pairs.parquet"))))
    result, pairs = folder.read_verdicts(folder.read_plan()), folder.read_pairs()
    small_parts.undo()
    folder.write_verdicts(result)
    assert_nearly_equal(large, ReportData(RunFolder(folder.path)), how)
    fit_run(folder)
    assert_nearly_equal(pairs, folder.read_pairs(), how)
    assert (not_none(large.readers).judge.swapped is None) == (not_none(large.trials).n_of_kind["answers differ"] == 0)
    assert sum(not_none(large.trials).n_of_kind.values()) == len(folder.read_plan())
    assert "trials:" in render_page(large)


@pytest.fixture
def fitted(tmp_path: Path) -> RunFolder:
    folder = run_of(tmp_path, "cyclic")
    fit_run(folder)
    return folder


def test_pairs_of_another_fit_are_ignored(fitted: RunFolder) -> None:
    rows = fitted.file("ranking.csv").read_bytes().splitlines(keepends=True)
    fitted.file("ranking.csv").write_bytes(b"".join([rows[0], rows[2], rows[1], *rows[3:]]))
    with pytest.raises(RunFolderError, match=r"Run `youden fit .*` to fit the run again.*\[pairs-stale\]"):
        ReportData(fitted)
    fit_run(fitted)
    ReportData(fitted)


def test_a_damaged_table_of_pairs_is_reported(fitted: RunFolder) -> None:
    table = pq.read_table(fitted.file("pairs.parquet"))
    pq.write_table(table.slice(3), fitted.file("pairs.parquet"))
    with pytest.raises(RunFolderError, match=r"39 pairs.*7 agents.*\[run-file-damaged\]"):
        ReportData(fitted)


def timed(plan: Plan, n: int) -> Verdicts:
    """Make every other trial a call, each a millisecond longer than the previous one."""
    seconds = np.where(np.arange(n) % 2, np.arange(n) / 1000, 0.0)
    key = np.array([f"{row:064d}" for row in range(n)], dtype="S64")
    return replace(answer_with(plan, answers(plan)), seconds=seconds, request_hash=key)


def latency(source: TrialSource) -> Latency:
    return not_none(TrialReading(source, nothing_predicted(source.plan)).readers.durations.latency)


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_seconds_and_hashes_belong_to_their_rows_and_a_sample_of_calls_is_labeled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_of(tmp_path, "dense")
    plan = folder.read_plan()
    n = len(plan)
    folder.write_verdicts(result := timed(plan, n))
    memory, disk = source_of(result), open_trials(folder)
    assert len(disk.blocks) > 5
    rows = [n - 1, 3, 200, 61, 3]
    for source in (memory, disk):
        assert TrialReading(source, nothing_predicted(source.plan)).read_request_hashes(rows) == [
            f"{row:064d}".encode() for row in rows
        ]
        complete = latency(source)
        assert (complete.n_calls, complete.n_sampled) == (n // 2, None)
        assert complete.median == pytest.approx(np.median(np.arange(1, n, 2) / 1000))
    monkeypatch.setattr(cost, "MAX_TIMED_CALLS", 100)
    some = latency(disk)
    step = -(-n // 100)
    assert (some.n_calls, some.n_sampled) == (n // 2, -(-(n // 2) // step))
    assert some.median == pytest.approx(np.median(np.arange(1, n, 2 * step) / 1000))
    assert some == latency(memory)
