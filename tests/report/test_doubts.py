"""When not to believe a ranking: what is planted is said, what is not there is folded away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import altair as alt
import numpy as np
import pytest

from pools import make_pool
from report_runs import by_ability, judged
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.text_length import length_correlation
from youden.report.charts.figures import figures
from youden.report.data.doubts import agreeing_share, group_lines, pair_grid
from youden.report.data.report import ReportData, build_report
from youden.report.data.warnings import grouped
from youden.report.pages.writing import render_page
from youden.stats.partners import PairMeans, linked_pairs
from youden.types import PAIRED, Agent, Finding, Plan, Pool
from youden.types.facts import PartnerRules
from youden.types.pool import Floats


def pair_of(mean: Floats) -> PairMeans:
    matrix = mean.copy()
    np.fill_diagonal(matrix, np.nan)
    return PairMeans(matrix, np.full(mean.shape, 0.01), 100.0 * (1 - np.eye(len(mean))))


def test_at_the_share_that_is_said_the_group_and_the_coalition_score_alike() -> None:
    groups = ["good"] * 3 + ["bad"] * 3
    mean = np.full((6, 6), 0.4)
    mean[:3, :3], mean[3:, 3:] = 0.8, 0.2
    good, bad = group_lines(pair_of(mean), groups, tuple("abcdef"))
    assert (good.inside, good.across, good.others) == pytest.approx((0.8, 0.4, 0.2))
    assert good.share == pytest.approx(0.4)
    assert pytest.approx((1 - 0.4) * 0.4 + 0.4 * 1.0) == (1 - 0.4) * 0.8 + 0.4 * 0.4
    assert bad.share is None


def test_without_the_group_that_lifts_one_agent_that_agent_falls() -> None:
    agents = tuple("abcdefgh")
    ability = np.array([0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.3, 0.3])
    mean = ability[:, None] + ability
    mean[5, 6:] = mean[6:, 5] = 1.0
    (line,) = group_lines(pair_of(mean), [None] * 6 + ["friends"] * 2, agents)
    assert (line.group, line.n_agents, line.moved) == ("friends", 2, "f")
    assert line.most >= 3
    assert group_lines(pair_of(mean), ["all"] * 8, agents) == ()


def test_lengths_and_spread() -> None:
    ability = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
    assert length_correlation(ability, 10 * ability) == (pytest.approx(1.0), len(ability))
    assert length_correlation(np.append(ability, np.nan), np.append(ability, 1.0)) == (pytest.approx(1.0), len(ability))
    assert length_correlation(ability, None) is None
    assert length_correlation(ability[:4], ability[:4]) is None
    assert agreeing_share(pair_of(np.full((4, 4), 0.9)), least=0.8) == 1.0


def test_a_large_pool_is_drawn_in_bins_and_a_bin_with_a_linked_pair_is_outlined() -> None:
    K = 200
    ability = np.linspace(0.4, 0.0, K)
    mean = ability[:, None] + ability
    mean[0, 199] = mean[199, 0] = 0.95
    of = pair_of(mean)
    names = [f"a{k}" for k in range(K)]
    grid = pair_grid(of, linked_pairs(of), names, names)
    assert grid.agreement.shape == (100, 100)
    assert np.argwhere(grid.linked).tolist() == [[0, 99], [99, 0]]
    assert grid.clusters == (("a0", "a199"),)
    assert grid.beyond[0].residual == pytest.approx(0.55, abs=0.01)


def cloned(plan: Plan) -> Floats:
    rng = np.random.default_rng(0)
    paired = rng.random(len(plan)) < 0.85 - (plan.first + plan.second) / 16
    both = np.isin(plan.first, (6, 7)) & np.isin(plan.second, (6, 7))
    return np.where(plan.arm == PAIRED, np.where(both, 1.0, paired), 0.0)


def report_of(folder: Path, **keys: object) -> ReportData:
    pool = make_pool(8, 40)
    agents = (*pool.agents[:7], Agent("<b>z</b>", "odd"))
    return build_report(judged(folder, pool=Pool(agents, pool.items, pool.texts, "p"), **keys))  # type: ignore[arg-type]


def test_agents_that_only_their_texts_link_are_not_said_to_agree_and_not_passed_over(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", answers=by_ability)
    fit_run(folder, rules=PartnerRules(clones=(("a0", "a1"),)))
    data = build_report(folder)
    (pairs,) = (doubt for doubt in data.doubts.doubts if doubt.slug == "pairs")
    assert pairs.severity == "warning"
    assert pairs.says.startswith("The robust ranking counts as one partner, for their texts are alike: a0, a1.")
    assert any(
        warning.says.startswith("a0, a1 are alike in their texts, or agree far")
        for warning in data.summary.facts.warnings
    )


def test_a_report_names_linked_pairs_outlines_them_and_opens_what_speaks_against_the_ranking(tmp_path: Path) -> None:
    data = report_of(tmp_path / "run", answers=cloned)
    assert "pairs" in {doubt.slug for doubt in data.doubts.against}
    assert {data.doubts.pairs.beyond[0].first, data.doubts.pairs.beyond[0].second} == {"a6", "<b>z</b>"}  # type: ignore[union-attr]
    page = render_page(data)
    assert "Pairs that agree far beyond their abilities: a6 and &lt;b&gt;z&lt;/b&gt;" in page
    drawn = {figure.slug: figure for figure in figures(data)}
    assert len(drawn["pairs"].spec["layer"]) == 2  # type: ignore[arg-type]
    alt.TopLevelSpec.validate(drawn["pairs"].spec)
    assert set(drawn["pairs-beyond"].frame.columns["linked"]) == {"yes", "no"}


def test_where_nothing_speaks_against_it_the_report_says_so_and_folds_the_rest(tmp_path: Path) -> None:
    data = report_of(tmp_path / "run", answers=lambda plan: by_ability(plan) * 0.8)
    doubts = replace(data.doubts, doubts=tuple(replace(doubt, severity="note") for doubt in data.doubts.doubts))
    page = render_page(replace(data, doubts=doubts))
    assert "Nothing that was looked at speaks against this ranking." in page
    warned = replace(data, doubts=doubts, groups=grouped([Finding("few", "Few trials.")], doubts, headline=""))
    assert "Nothing else that was looked at speaks against this ranking; the warnings" in render_page(warned)
    assert '<details class="quiet">' in page


def test_a_pool_of_three_gets_its_matrices_and_no_claim(tmp_path: Path) -> None:
    data = build_report(judged(tmp_path / "run", pool=make_pool(3, 8)))
    assert "pairs" in {figure.slug for figure in figures(data)}
    assert "pairs" not in {doubt.slug for doubt in data.doubts.against}
    assert "When not to believe it" in render_page(data)
