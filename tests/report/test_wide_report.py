"""A report of many agents and items stays small: bins, folds and samples that say so."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from browsers import chromium, complaints, drawn
from commands import write_config
from pools import answer_with, make_pool
from report_runs import by_ability
from youden.data.folder.run_config import load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import plan_run
from youden.report.charts.figures import MAX_RANKED, figures
from youden.report.data.evidence import gather
from youden.report.data.grids import MAX_TILES, AgentGrid, binned, cell_grid
from youden.report.data.report import ReportData, build_report
from youden.report.pages.writing import render_page
from youden.types.cells import CellIndex
from youden.types.pool import Floats

K, J = 220, 12


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp("wide")
    write_pool(make_pool(K, J), place / "pool")
    write_config(place / "run.yaml", pool="pool", judge="lexical", design="cyclic", calls=3000, out="run")
    planned = plan_run(load_run_config(place / "run.yaml"))
    planned.folder.write_verdicts(answer_with(planned.plan, by_ability(planned.plan)))
    fit_run(planned.folder)
    return planned.folder


@pytest.fixture(scope="module")
def data(run: RunFolder) -> ReportData:
    return build_report(run)


def test_many_agents_are_drawn_in_bins_of_means() -> None:
    rng = np.random.default_rng(0)
    value = rng.random((7, 7))
    value[rng.random((7, 7)) < 0.3] = np.nan
    order = rng.permutation(7)
    grid = AgentGrid(tuple("abcdefg"), value, order, order)
    tiles = grid.tiles(order, max_tiles=16)
    assert (tiles.value.shape, tiles.agents_per_tile) == ((4, 4), 2)
    assert tiles.names == tuple(
        " … ".join(grid.agents[i] for i in pair if i is not None)
        for pair in (order[:2], order[2:4], order[4:6], order[6:])
    )
    np.testing.assert_allclose(tiles.value[1, 2], np.nanmean(value[np.ix_(order[2:4], order[4:6])]))
    np.testing.assert_array_equal(grid.tiles(order).value, value[np.ix_(order, order)])


def test_figures_of_many_agents_are_bounded_and_say_so(data: ReportData) -> None:
    drawn_ones = {figure.slug: figure for figure in figures(data)}
    for slug in ("agents", "agents-clustered"):
        assert len(drawn_ones[slug].frame.columns["value"]) <= MAX_TILES
        assert "mean over 3 × 3 agents" in drawn_ones[slug].note
    assert len(drawn_ones["ranking"].frame.columns["agent"]) == MAX_RANKED
    assert f"first {MAX_RANKED} of {K} agents" in drawn_ones["ranking"].note


def test_of_many_items_every_so_manieth_is_drawn(data: ReportData) -> None:
    lines = data.items.ordered * 500
    many = replace(data, items=replace(data.items, ordered=lines))
    (figure,) = (figure for figure in figures(many) if figure.slug == "difficulty")
    assert list(figure.frame.columns["place"]) == list(range(1, len(lines) + 1, 3))
    assert "One item in 3" in figure.note


def test_a_page_names_only_those_its_trials_speak_of_and_the_viewers_page_nobody(data: ReportData) -> None:
    few = replace(
        data.trials.sample,
        lines=data.trials.sample.lines[:2],
        first=data.trials.sample.first[:2],
        second=data.trials.sample.second[:2],
        raw=data.trials.sample.raw[:2],
    )
    small = replace(data, trials=replace(data.trials, sample=few))

    def named(page: str) -> dict[str, dict[str, str]]:
        return json.loads(re.findall(r'id="trial-data">(.*?)</script>', page, re.S)[0])

    alone, live = named(render_page(small)), named(render_page(small, live="/run/x/trials", home="/"))
    spoken = {agent for line in few.lines for agent in (line.first, line.second)}
    assert alone["agents"] == {str(agent): data.agents.agents[agent] for agent in sorted(spoken)}
    assert (live["agents"], live["items"]) == ({}, {})


@pytest.mark.slow
def test_a_long_ranking_is_folded_and_opens(run: RunFolder, data: ReportData) -> None:
    page = run.file("report.html")
    page.write_text(render_page(data), encoding="utf-8")
    shown = "return [...document.querySelectorAll('table.sortable tbody tr')].filter((row) => row.offsetParent).length"
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
        assert browser.execute_script(shown) == 100
        best = browser.execute_script(first)
        ability = browser.find_element("css selector", "table.sortable th:nth-child(5) button")
        ability.click()
        assert browser.execute_script(shown) == 100, "sorted anew, and still folded"
        assert browser.execute_script(first) != best, "over all rows, not only those shown"
        browser.find_element("css selector", "button.unfold").click()
        assert browser.execute_script(shown) == K
        assert not complaints(browser)


@pytest.mark.parametrize("max_tiles", [MAX_TILES, 120])
def test_tiles_of_cells_are_the_means_of_their_matrix(run: RunFolder, max_tiles: int) -> None:
    evidence = gather(run)
    ranked = [evidence.scores.agent_ids[i] for i in np.random.default_rng(0).permutation(K)]
    grid = cell_grid(evidence, ranked, max_tiles=max_tiles)
    columns = np.argsort(-np.nanmean(evidence.scores.value, axis=0), kind="stable")
    value = evidence.scores.value[np.ix_([evidence.scores.agent_ids.index(agent) for agent in ranked], columns)]
    per_row, per_column = grid.agents_per_row, grid.items_per_column
    assert grid.score.shape == (-(-K // per_row), -(-J // per_column))
    np.testing.assert_allclose(grid.score, binned(value, per_row, per_column), rtol=0, atol=1e-12)
    fitted = evidence.predicted.at(np.arange(K)[:, None], np.arange(J))
    beyond = evidence.scores.value - fitted
    beyond = beyond[np.ix_([evidence.scores.agent_ids.index(agent) for agent in ranked], columns)]
    np.testing.assert_allclose(grid.residual, binned(beyond, per_row, per_column), rtol=0, atol=1e-12)


def test_a_report_makes_no_matrix_of_scores(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cells: CellIndex, values: Floats, *, empty: float) -> Floats:
        raise AssertionError(f"{len(values)} cells were made a matrix of {cells.n_agents} × {cells.n_items}.")

    monkeypatch.setattr(CellIndex, "matrix", refuse)
    build_report(run)
