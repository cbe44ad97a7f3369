"""Test the sparsity, baselines, links and paper studies against their parts and the paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from narrowing import not_none
from scripted import Counted
from worlds import dense_world, write_run
from youden import ClippedLinear
from youden.cli import youden
from youden.data.importers.peer_prediction import import_results
from youden.errors import ConfigError, PlanError, StatisticsError
from youden.pipeline.offline import import_peer_prediction
from youden.protocol.plan import draw_split
from youden.run_keys import SplitRule
from youden.stats import compare_links
from youden.streams import standalone_stream
from youden.study.baseline_table import N_RESAMPLES, _compute_item_std_error, describe_baselines, study_baselines
from youden.study.grid import SeedSummary, open_grid
from youden.study.known_groups import Contrast, find_contrast
from youden.study.link_curl import LinksStudy, describe_additivity
from youden.study.paper import CURL, DIFFERENCES, find_domain, group_by_domain, study_paper
from youden.study.replaying import RecordedAnswers, make_recorded_answers
from youden.study.sparsity import PAPER_REGIMES, Regime, describe_sparsity, study_sparsity


@pytest.fixture(scope="module")
def recorded_10_by_24() -> RecordedAnswers:
    return dense_world(10, 24)


@pytest.mark.parametrize("rule", ["strict", "paper"])
def test_the_dense_row_equals_the_fit_on_training_scores_against_held_out_ones(
    recorded_10_by_24: RecordedAnswers, rule: SplitRule
) -> None:
    study = study_sparsity(recorded_10_by_24, regimes=[], n_seeds=1, rule=rule)
    split = draw_split(recorded_10_by_24.pool.present, fraction=0.2, rule=rule, seed=0)
    rates = replace(recorded_10_by_24.rates, split=split)
    fit = ClippedLinear().fit(rates.training_scores(kind="row").value)
    holdout = rates.holdout_scores(kind="row").value
    assert not_none(study.dense.rmse).mean == pytest.approx(np.sqrt(np.nanmean((fit.predict() - holdout) ** 2)))
    assert not_none(study.dense.of_train).mean == 1


@pytest.mark.parametrize("study", [partial(study_sparsity, regimes=[]), study_baselines])
def test_a_holdout_without_a_cell_is_refused_before_any_fit(
    recorded_10_by_24: RecordedAnswers, study: Callable[..., object]
) -> None:
    with pytest.raises(PlanError, match=r"got the holdout 0\..*\[holdout\]"):
        study(recorded_10_by_24, n_seeds=1, holdout=0.0)


def test_more_cells_cost_more_calls_and_rank_better(recorded_10_by_24: RecordedAnswers) -> None:
    regimes = [Regime("nlogn", {"c": c}) for c in (0.7, 1.2, 50.0)]
    study = study_sparsity(recorded_10_by_24, regimes=regimes, n_seeds=4)
    rows = [row for row in study.rows if row.rho and row.calls and row.calls_unordered]
    assert len(rows) == 3
    assert not_none(rows[0].rho).mean < not_none(rows[2].rho).mean == pytest.approx(1.0)
    few, medium, many = (not_none(row.calls).mean for row in rows)
    assert few < medium < many
    assert many == pytest.approx(2 * not_none(rows[2].calls_unordered).mean)


def test_every_regime_of_the_paper_and_the_project_has_a_row_or_a_reason(recorded_10_by_24: RecordedAnswers) -> None:
    groups = Contrast(np.arange(10) < 3, np.arange(10) > 5)
    study = study_sparsity(recorded_10_by_24, n_seeds=2, groups=groups)
    assert [row.label for row in study.rows] == [regime.label for regime in PAPER_REGIMES]
    assert all((row.rmse is None) == (row.infeasible_reason is not None) for row in study.rows)
    assert all(row.auc is not None for row in study.rows if row.infeasible_reason is None)
    assert "A share of the cells is not the same share of the calls" in " ".join(describe_sparsity(study))


def test_a_row_has_its_statistics_at_every_seed_or_a_reason() -> None:
    def late(seed: int) -> list[float]:
        if seed == 2:
            raise PlanError("Seed 2 starves.", slug="d-core")
        return [seed, np.nan]

    with open_grid(3, n_rows=2, what="rows", progress=None) as drawn:
        complete, short = drawn(lambda seed: [seed, 2.0 * seed]), drawn(late)
    assert not isinstance(complete, PlanError)
    assert complete.tolist() == [[0, 0], [1, 2], [2, 4]]
    assert str(short).startswith("Seed 2 starves.")
    assert SeedSummary.from_columns(np.array([[1.0, np.nan], [3.0, 1.0]])) == [
        SeedSummary.from_values(np.array([1.0, 3.0])),
        None,
    ]


def test_the_progress_of_a_study_stops_after_an_error() -> None:
    progress = Counted()
    with pytest.raises(ZeroDivisionError), open_grid(1, n_rows=1, what="rows", progress=progress) as drawn:
        drawn(lambda seed: [1 / seed])
    assert progress.stopped


def test_bad_arguments_are_refused(recorded_10_by_24: RecordedAnswers) -> None:
    with pytest.raises(StatisticsError, match="seeds"):
        study_sparsity(recorded_10_by_24, n_seeds=0)
    with pytest.raises(StatisticsError, match="seeds"):
        study_baselines(recorded_10_by_24, n_seeds=0)
    with pytest.raises(ConfigError, match="no baseline"):
        study_baselines(recorded_10_by_24, names=["best"])
    with pytest.raises(PlanError, match="does not have this option"):
        study_sparsity(recorded_10_by_24, regimes=[Regime("row", {"c": 1})])


def test_baselines_are_compared_on_the_same_cells(recorded_10_by_24: RecordedAnswers) -> None:
    study = study_baselines(recorded_10_by_24, names=["svd", "clipped-linear"], n_seeds=3)
    assert [row.name for row in study.rows] == ["clipped-linear", "svd"]
    assert study.rows[0].rmse_difference.mean == study.rows[0].rmse_difference.sd == 0
    svd = study.rows[1]
    assert svd.rmse_difference.mean == pytest.approx(svd.rmse.mean - study.rows[0].rmse.mean)
    assert "paired over 3 seeds" in describe_baselines(study)[0]


def test_one_seed_supports_no_claim_on_other_holdouts_and_names_its_uncertainty(
    recorded_10_by_24: RecordedAnswers,
) -> None:
    study = study_baselines(recorded_10_by_24, names=["uv-paper"], n_seeds=1, c=0.9)
    assert study.rows[1].se_seeds is None
    assert study.rows[1].se_items > 0
    words = " ".join(describe_baselines(study))
    assert "nothing follows for others" in words
    assert "over items of this kind" in words
    assert "On this one holdout, worse than clipped-linear: uv-paper" in words


def test_compute_item_std_error_equals_the_bootstrap_of_the_mean_difference() -> None:
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 4, (3, 2, 9)).astype(float)
    squares = counts * rng.uniform(0, 0.1, counts.shape)
    drawn = standalone_stream(0).multinomial(9, np.full(9, 1 / 9), size=N_RESAMPLES)
    slow = []
    for weight in drawn:
        items = np.repeat(np.arange(9), weight)
        each = [[np.sqrt(squares[s, m, items].sum() / counts[s, m, items].sum()) for m in range(2)] for s in range(3)]
        slow.append(np.mean([second - study for study, second in each]))
    item_std_error = _compute_item_std_error(squares, counts)
    assert item_std_error[0] == 0
    assert item_std_error[1] == pytest.approx(np.std(slow, ddof=1))


def test_more_seeds_do_not_increase_the_number_of_items(recorded_10_by_24: RecordedAnswers) -> None:
    few, many = (study_baselines(recorded_10_by_24, names=["svd-paper"], n_seeds=n).rows[1] for n in (4, 16))
    assert not_none(many.se_seeds) < 0.8 * not_none(few.se_seeds)
    assert many.se_items > 0.6 * few.se_items


def test_an_order_that_both_errors_support_is_claimed_and_otherwise_open(peer_prediction: Path) -> None:
    rates = import_results(peer_prediction / "eval_results" / "pubmed_200_config_results").rates
    study = study_baselines(make_recorded_answers(rates, difference_only=True), names=["svd", "uv"], n_seeds=10)
    svd, uv = study.rows[1:]
    assert (svd.order, uv.order) == ("better", "open")
    assert -0.006 < svd.rmse_difference.mean < -0.002


def test_the_contrast_is_that_of_the_paper_if_its_groups_exist() -> None:
    plain = dense_world(6, 4)
    assert find_contrast(plain) is None
    contrast = not_none(find_contrast(plain, above=["even"], below=["odd"]))
    assert contrast.positive.tolist() == [True, False] * 3
    with pytest.raises(ConfigError, match="even, odd"):
        find_contrast(plain, above=["good"], below=["odd"])
    with pytest.raises(ConfigError, match="overlap"):
        find_contrast(plain, above=["odd"], below=["odd"])


def test_the_scale_free_rule_does_not_depend_on_scale() -> None:
    scores = np.clip(np.random.default_rng(0).normal(0, 0.3, (12, 30)), -1, 1)
    big, small = (describe_additivity(compare_links(scores * scale)) for scale in (1.0, 0.1))
    assert "fails" in big[0]
    assert "holds" in small[0]
    assert "less than half" in big[1] == small[1]


def test_all_equal_scores_support_no_design() -> None:
    assert "no design" in describe_additivity(compare_links(np.full((4, 5), 0.3)))[0]


def test_the_links_study_includes_its_bootstrap_and_distribution(recorded_10_by_24: RecordedAnswers) -> None:
    scores = recorded_10_by_24.rates.training_scores(kind="row")
    study = LinksStudy(scores, n_draws=30)
    assert [(row.first, row.second) for row in study.differences] == [
        ("identity", "probit"),
        ("identity", "logit"),
        ("probit", "logit"),
    ]
    curve: Any = study.ecdf["identity"]
    assert list(curve["share"]) == sorted(curve["share"])
    assert curve["share"][-1] >= 0.99
    assert LinksStudy(scores).differences == ()


@pytest.mark.slow
def test_study_commands_print_tables_and_json(tmp_path: Path) -> None:
    run = str(write_run(tmp_path / "run", n_agents=9, n_items=16).path)
    groups = ["--top-groups", "even", "--bottom-groups", "odd"]
    for name, arguments in (
        ("sparsity", ["--n-seeds", "1", *groups]),
        ("baselines", ["--n-seeds", "1", "--only", "svd,uv", *groups]),
        ("links", ["--n-resamples", "25"]),
    ):
        output = CliRunner().invoke(youden, ["study", name, run, *arguments, "--json"], catch_exceptions=False)
        assert output.exit_code == 0, output.output
        assert json.loads(output.stdout)[name]
        assert "run" in CliRunner().invoke(youden, ["study", name, run, *arguments], catch_exceptions=False).stdout


@pytest.mark.parametrize(("rule", "dense", "sparse"), [("paper", 0.1132, 0.1178), ("strict", 0.1192, 0.1231)])
def test_pubmed_predicts_held_out_cells_as_the_statistics_page_says(
    peer_prediction: Path, rule: SplitRule, dense: float, sparse: float
) -> None:
    rates = import_results(peer_prediction / "eval_results" / "pubmed_200_config_results").rates
    pubmed = make_recorded_answers(rates, difference_only=True)
    study = study_sparsity(pubmed, regimes=[Regime("nlogn", {"c": 1.6})], n_seeds=3, rule=rule)
    row = study.rows[0]
    assert not_none(study.dense.rmse).mean == pytest.approx(dense, abs=0.005)
    assert not_none(row.rmse).mean == pytest.approx(sparse, abs=0.005)
    assert not_none(row.rho).mean == pytest.approx(0.98, abs=0.012)
    assert not_none(row.of_all).mean == pytest.approx(0.3335)


def test_domains_are_recognized_by_their_source_folder() -> None:
    names = [
        "pubmed_200_config_results",
        "peer_review_results_100",
        "opus_translation_results",
        "samsum_200_config_results",
    ]
    assert [find_domain(name) for name in names] == ["PubMed", "ICLR", "OPUS", None]
    world = dense_world(6, 8)
    assert list(group_by_domain({"/data/pubmed_200": world, "/pubmed/other": world})) == ["PubMed"]
    with pytest.raises(ConfigError, match="Two runs are of the domain PubMed"):
        group_by_domain({"pubmed_1": world, "pubmed_2": world})


def test_an_unknown_domain_of_the_paper_is_an_error() -> None:
    with pytest.raises(ConfigError, match="None of the runs is of a domain of the paper"):
        study_paper({})


def test_every_statistic_of_a_domain_has_its_row_and_missing_ones_are_named() -> None:
    study = study_paper({"ICLR": dense_world(9, 16)}, n_seeds=2, n_draws=25)
    assert {row.table for row in study.rows} == {1, 2, 4}
    output = [row.paper for row in study.rows if row.paper is not None]
    assert len(output) == 6 + 9 + 3  # no groups here, so no AUC
    assert any(line.startswith("PubMed: no run given") and "Tables 3, 5 and 6" in line for line in study.missing)
    assert any("Llama3-70b" in line for line in study.missing)
    assert any("29 agents × 100 items" in line for line in study.disagreements)
    row = next(row for row in study.rows if row.sds is not None and row.paper is not None and row.sd)
    assert row.sds == pytest.approx((row.value - not_none(row.paper)) / not_none(row.sd))


@pytest.mark.slow
def test_runs_in_folders_of_the_same_name_have_separate_results(tmp_path: Path) -> None:
    runs = [str(write_run(tmp_path / parent / "run", n_agents=6, n_items=16).path) for parent in ("one", "two")]
    done = CliRunner().invoke(youden, ["study", "sparsity", *runs, "--n-seeds", "1", "--json"], catch_exceptions=False)
    assert list(json.loads(done.stdout)["sparsity"]) == ["run (1)", "run (2)"]


@pytest.mark.slow
def test_study_paper_runs_on_opus(peer_prediction: Path, tmp_path: Path) -> None:
    import_peer_prediction(peer_prediction / "eval_results" / "opus_translation_results", tmp_path / "opus")
    arguments = ["study", "paper", str(tmp_path / "opus"), "--n-seeds", "2", "--n-resamples", "30"]
    done = CliRunner().invoke(youden, [*arguments, "--json"], catch_exceptions=False)
    paper = json.loads(done.stdout)["paper"]
    assert any("186" in line for line in paper["disagreements"])
    assert (
        "Disagreements between the paper and its data"
        in CliRunner().invoke(youden, arguments, catch_exceptions=False).stdout
    )


@pytest.mark.long
def test_pubmed_reproduces_the_tables_of_the_paper(peer_prediction: Path) -> None:
    rates = import_results(peer_prediction / "eval_results" / "pubmed_200_config_results")
    groups = {agent.id: agent.group for agent in rates.agents}
    study = study_paper(
        {"PubMed": make_recorded_answers(rates.rates, groups=groups, difference_only=True)}, n_seeds=2, n_draws=120
    )
    values = {(row.table, row.row, row.figure): row.value for row in study.rows}
    for link, (median, p95) in CURL["PubMed"].items():
        assert values[1, "PubMed", f"{link} median"] == pytest.approx(median, abs=0.007)
        assert values[1, "PubMed", f"{link} P95"] == pytest.approx(p95, abs=0.03)
    middle, low, high = DIFFERENCES["PubMed"]["identity", "logit"]
    assert values[2, "PubMed", "identity − logit"] == pytest.approx(middle, abs=0.015)
    assert values[2, "PubMed", "identity − logit, low"] == pytest.approx(low, abs=0.015)
    assert values[2, "PubMed", "identity − logit, high"] == pytest.approx(high, abs=0.015)
    assert values[3, "PubMed", "dense RMSE"] == pytest.approx(0.114, abs=0.006)
    assert values[3, "PubMed", "sparse RMSE"] == pytest.approx(0.118, abs=0.006)
    assert values[6, "PubMed, GPT-4o-mini", "logit P95, predictions"] == pytest.approx(0.072, abs=0.004)
