"""Test which runs a comparison refuses: unfinished runs, rankings of earlier answers, and runs of other texts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import Youden
from small_pools import answer_with, make_pool
from worlds import verdicts, write_answers, write_run
from youden import compare, make_plan
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError
from youden.pipeline.fitted_run import check_fit, fit_run
from youden.pipeline.multi_judge import measure_judge_spread
from youden.report.data.comparison import Comparison
from youden.report.pages.writing import write_comparison
from youden.study.judged_runs import make_unique_names
from youden.study.preference_judges import compare_preference_runs
from youden.study.replaying import read_recorded_answers
from youden.types import MISSING_REASONS, Pool, Verdicts

Answer = Callable[[Pool], Verdicts]


def other_texts(pool: Pool) -> Pool:
    return replace(pool, texts=pool.texts + " again")


def preferences(pool: Pool) -> Verdicts:
    """Return answers by which agents with a smaller number are preferred, with some exceptions."""
    plan = make_plan(pool, design="dense", question="preference")
    is_exception = np.random.default_rng(0).random(len(plan)) < 0.2
    return answer_with(plan, ((plan.first < plan.second) != is_exception).astype(np.float64))


def without_last_answers(answers: Verdicts) -> Verdicts:
    """Return the answers so far of a run whose last 20 trials are pending."""
    is_pending = np.arange(len(answers)) >= len(answers) - 20
    return replace(
        answers,
        answer=np.where(is_pending, np.nan, answers.answer),
        hard_answer=np.where(is_pending, np.nan, answers.hard_answer),
        missing_reason=np.where(is_pending, MISSING_REASONS.index("pending"), 0).astype(np.int8),
    )


def test_a_preference_ranking_of_earlier_answers_is_recognized(tmp_path: Path) -> None:
    pool = make_pool(4, 8)
    answers = preferences(pool)
    folder = write_answers(tmp_path / "run", pool, without_last_answers(answers))
    fit_run(folder)
    check_fit(folder)
    folder.write_verdicts(answers)
    with pytest.raises(RunFolderError, match=r"\[fit-stale\]"):
        check_fit(folder)


@pytest.mark.parametrize("answer", [verdicts, preferences])
def test_an_unfinished_run_and_an_earlier_ranking_are_refused(answer: Answer, tmp_path: Path) -> None:
    pool = make_pool(4, 8)
    answers = answer(pool)
    first = write_answers(tmp_path / "first", pool, answers)
    fit_run(first)
    second = write_answers(tmp_path / "second", pool, without_last_answers(answers))
    fit_run(second)
    with pytest.raises(RunFolderError, match=r"\[run-partial\]"):
        compare(first.path, second.path)

    second.write_verdicts(answers)
    with pytest.raises(RunFolderError, match=r"\[fit-stale\]"):
        compare(first.path, second.path)
    if answer is verdicts:
        with pytest.raises(RunFolderError, match=r"\[fit-stale\]"):
            read_recorded_answers(second)
    fit_run(second)
    assert compare(first.path, second.path).summary


def test_a_mean_over_judges_refuses_an_unfinished_run(tmp_path: Path, youden: Youden) -> None:
    first = write_run(tmp_path / "first", n_agents=4, n_items=8)
    shutil.copytree(first.path, tmp_path / "second")
    second = RunFolder(tmp_path / "second")
    second.write_verdicts(without_last_answers(second.read_verdicts(second.read_plan())))
    assert youden("compare", "first", "second", "--target", "items-and-judges").refuses("run-partial")


def test_answers_about_other_texts_are_not_compared(tmp_path: Path) -> None:
    pool = make_pool(4, 8)
    pools = {"first": pool, "second": other_texts(pool)}
    first, second = (write_answers(tmp_path / name, texts, preferences(texts)) for name, texts in pools.items())
    for folder in (first, second):
        fit_run(folder)
    with pytest.raises(ConfigError, match=r"\[judges-pools\]"):
        compare_preference_runs(first, second)
    with pytest.raises(ConfigError, match=r"\[judges-pools\]"):
        measure_judge_spread([verdicts(texts) for texts in pools.values()])


def test_names_of_runs_stay_different_if_one_is_named_like_a_numbered_one() -> None:
    assert make_unique_names(["run", "run", "run (2)"]) == ("run (1)", "run (2) (2)", "run (2) (3)")


def test_a_page_of_two_runs_compares_no_answers_about_other_texts(tmp_path: Path) -> None:
    pool = make_pool(4, 8)
    first, second = (
        write_answers(tmp_path / name, texts, verdicts(texts))
        for name, texts in {"first": pool, "second": other_texts(pool)}.items()
    )
    for folder in (first, second):
        fit_run(folder)
    assert Comparison(first, first).answers is not None
    assert Comparison(first, second).answers is None
    page = write_comparison(first, second).read_text(encoding="utf-8")
    assert "with the same texts in the same order" not in page
    assert "the runs judged different texts" in page


def test_a_run_in_the_current_folder_has_the_name_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_run(tmp_path / "first", n_agents=4, n_items=8)
    shutil.copytree(first.path, tmp_path / "second")
    monkeypatch.chdir(first.path)
    assert compare(".", "../second", families={"first": "gpt"}).runs == ("first", "second")
