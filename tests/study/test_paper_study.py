"""The paper's tables again: every printed figure has a row, what cannot be made is said, real data give what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from worlds import dense_world
from youden.cli import youden
from youden.data.importers.peer_prediction import import_results
from youden.errors import ConfigError
from youden.pipeline.offline import import_peer_prediction
from youden.study.paper import CURL, DIFFERENCES, by_domain, domain_of, study_paper
from youden.study.replaying import make_world


def test_domains_are_recognised_by_the_folder_they_came_from() -> None:
    names = [
        "pubmed_200_config_results",
        "peer_review_results_100",
        "opus_translation_results",
        "samsum_200_config_results",
    ]
    assert [domain_of(name) for name in names] == ["PubMed", "ICLR", "OPUS", None]
    world = dense_world(6, 8)
    assert list(by_domain({"/data/pubmed_200": world, "/pubmed/other": world})) == ["PubMed"]
    with pytest.raises(ConfigError, match="Two of the runs are PubMed"):
        by_domain({"pubmed_1": world, "pubmed_2": world})


def test_no_domain_of_the_paper_is_an_error() -> None:
    with pytest.raises(ConfigError, match="None of the runs is a domain of the paper"):
        study_paper({})


def test_every_figure_of_a_domain_has_its_row_and_the_rest_is_said_to_be_missing() -> None:
    study = study_paper({"ICLR": dense_world(9, 16)}, n_seeds=2, n_draws=25)
    assert {row.table for row in study.rows} == {1, 2, 4}
    said = [row.paper for row in study.rows if row.paper is not None]
    assert len(said) == 6 + 9 + 3  # no groups here, so no AUC
    assert any(line.startswith("PubMed: no run given") and "Tables 3, 5 and 6" in line for line in study.missing)
    assert any("Llama3-70b" in line for line in study.missing)
    assert any("29 agents × 100 items" in line for line in study.disagreements)
    row = next(row for row in study.rows if row.sds is not None and row.paper is not None and row.sd)
    assert row.sds == pytest.approx((row.ours - row.paper) / row.sd)


@pytest.mark.slow
def test_the_command_on_opus(peer_prediction: Path, tmp_path: Path) -> None:
    import_peer_prediction(peer_prediction / "eval_results" / "opus_translation_results", tmp_path / "opus")
    arguments = ["study", "paper", str(tmp_path / "opus"), "--seeds", "2", "--draws", "30"]
    done = CliRunner().invoke(youden, [*arguments, "--json"], catch_exceptions=False)
    paper = json.loads(done.stdout)["paper"]
    assert any("186" in line for line in paper["disagreements"])
    assert (
        "Where the paper and its data disagree" in CliRunner().invoke(youden, arguments, catch_exceptions=False).stdout
    )


@pytest.mark.long
def test_pubmed_gives_the_papers_tables(peer_prediction: Path) -> None:
    rates = import_results(peer_prediction / "eval_results" / "pubmed_200_config_results")
    groups = {agent.id: agent.group for agent in rates.agents}
    study = study_paper(
        {"PubMed": make_world(rates.rates, groups=groups, difference_only=True)}, n_seeds=2, n_draws=120
    )
    ours = {(row.table, row.row, row.figure): row.ours for row in study.rows}
    for link, (median, p95) in CURL["PubMed"].items():
        assert ours[1, "PubMed", f"{link} median"] == pytest.approx(median, abs=0.007)
        assert ours[1, "PubMed", f"{link} P95"] == pytest.approx(p95, abs=0.03)
    middle, low, high = DIFFERENCES["PubMed"]["identity", "logit"]
    assert ours[2, "PubMed", "identity − logit"] == pytest.approx(middle, abs=0.015)
    assert ours[2, "PubMed", "identity − logit, low"] == pytest.approx(low, abs=0.015)
    assert ours[2, "PubMed", "identity − logit, high"] == pytest.approx(high, abs=0.015)
    assert ours[3, "PubMed", "dense RMSE"] == pytest.approx(0.114, abs=0.006)
    assert ours[3, "PubMed", "sparse RMSE"] == pytest.approx(0.118, abs=0.006)
    assert ours[6, "PubMed, GPT-4o-mini", "logit P95, predictions"] == pytest.approx(0.072, abs=0.004)
