"""Agents that give the same responses are reported by every ranking, in the words of `youden check`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import wire_judge
from report_runs import judged
from small_pools import answer_with, make_pool
from youden import make_plan, rank
from youden.pipeline import clones
from youden.pipeline.clones import find_pool_clones
from youden.pipeline.fitted_run import fit_run
from youden.pools.checks.check import check_pool
from youden.report.data.report import ReportData
from youden.types import Finding, Pool


@pytest.fixture
def pool_with_copy() -> Pool:
    """Make a pool in which no two agents have a common word, except that a1 copies a0."""
    texts = [[" ".join(f"w{i}-{j}-{k}" for k in range(9)) for j in range(8)] for i in range(5)]
    texts[1] = texts[0]
    return replace(make_pool(5, 8), texts=np.array(texts, dtype=object))


@pytest.fixture
def checked(pool_with_copy: Pool) -> Finding:
    (finding,) = (finding for finding in check_pool(pool_with_copy).findings if finding.slug == "clones")
    assert finding.message == (
        "'a0', 'a1' give the same responses, except for up to a third of the words, on 100% of their items."
    )
    return finding


@pytest.mark.parametrize("question", ["information", "preference"])
def test_rank_reports_clones(pool_with_copy: Pool, checked: Finding, question: str) -> None:
    plan = make_plan(pool_with_copy, question=question)  # type: ignore[arg-type]
    answers = np.random.default_rng(0).random(len(plan)).round()
    assert rank(answer_with(plan, answers)).attrs["warnings"][0] == checked


def test_a_run_and_its_report_show_clones(tmp_path: Path, pool_with_copy: Pool, checked: Finding) -> None:
    folder = judged(tmp_path / "run", pool=pool_with_copy)
    assert folder.read_facts().warnings[0] == checked
    assert folder.fit_settings.rules.clones == (("a0", "a1"),)
    lines = {group.about: [line.short for line in group.lines] for group in ReportData(folder).groups}
    assert checked.message.removesuffix(".") in lines["pool"]


def test_a_run_that_asks_for_preferences_shows_clones(tmp_path: Path, pool_with_copy: Pool, checked: Finding) -> None:
    folder = judged(
        tmp_path / "run",
        pool=pool_with_copy,
        answers=lambda plan: np.arange(len(plan)) % 3 / 2,
        question="preference",
        design="cyclic",
        judge=wire_judge("http://127.0.0.1:9/v1"),
    )
    assert folder.read_facts().warnings[0] == checked


def test_a_fit_without_the_texts_reports_the_clones_of_the_first_fit(tmp_path: Path, pool_with_copy: Pool) -> None:
    folder = judged(tmp_path / "run", pool=pool_with_copy)
    shutil.rmtree(tmp_path / "run-pool")
    fit_run(folder)
    clones = folder.read_facts().warnings[0]
    assert clones.message == (
        "'a0', 'a1' give the same responses, except for up to a third of the words, on at least 50% of their items."
    )
    assert clones.agents == ("a0", "a1")


def test_the_share_of_clones_is_the_mean_over_the_items_that_two_of_them_have(pool_with_copy: Pool) -> None:
    texts = pool_with_copy.texts.copy()
    texts[1, :2] = texts[2, 2:4]  # a1 gives other responses to 2 of its 7 items
    texts[1, 7] = None
    (finding,) = find_pool_clones(replace(pool_with_copy, texts=texts))
    assert finding.facts["share"] == pytest.approx(5 / 7)


def test_pools_of_more_responses_than_a_chunk_have_the_same_clones(
    pool_with_copy: Pool, checked: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clones, "CHUNK_RESPONSES", 2)
    assert find_pool_clones(pool_with_copy) == (checked,)
