"""A report of a run too large for arrays: what a fit in blocks wrote and blocks of rows give what arrays give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_in_blocks import PLANS
from test_schemas import content, validator

from pools import answer_with, make_pool, nothing_predicted, source_of
from report_runs import judged
from run_folders import alike
from youden.data.folder import trial_tables
from youden.data.folder.run_folder import RunFolder
from youden.engines import trial_blocks as blocks
from youden.errors import RunFolderError
from youden.pipeline.fitted_run import fit_run
from youden.report.data import answer_blocks as repeats
from youden.report.data import trial_reading as cost
from youden.report.data import trial_reading as worst
from youden.report.data.answer_blocks import TrialSource, trials_on_disk
from youden.report.data.report import build_report
from youden.report.data.trial_reading import Latency, TrialReading
from youden.report.pages.writing import render_page
from youden.types import Plan, Verdicts
from youden.types.pool import Bools, Floats


def answers(plan: Plan) -> Floats:
    """Agents and items differ; one answer in ten of an independent trial is yes."""
    rng = np.random.default_rng(3)
    ability, difficulty = rng.normal(0.6, 0.2, plan.n_agents), rng.normal(0, 0.1, plan.n_items)
    chance = (ability[plan.first] + ability[plan.second]) / 2 - difficulty[plan.item]
    return (rng.random(len(plan)) < np.where(plan.arm == 0, chance, 0.1)).astype(np.float64)


def unanswered(plan: Plan) -> Bools:
    return np.random.default_rng(4).random(len(plan)) < 0.05


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(trial_tables, "ROWS_OF_A_PART", 60)
    monkeypatch.setattr(blocks, "CELLS_AT_ONCE", 12)
    monkeypatch.setattr(repeats, "AT_ONCE", 40)
    monkeypatch.setattr(worst, "AT_ONCE", 16)
    return monkeypatch


def run_of(place: Path, how: str) -> RunFolder:
    return judged(place / "run", pool=make_pool(7, 12), answers=answers, missing=unanswered, **PLANS[how])


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
def test_a_report_read_in_blocks_is_that_of_a_whole_and_pairs_are_the_same(
    tmp_path: Path, how: str, small_parts: pytest.MonkeyPatch
) -> None:
    folder = run_of(tmp_path, how)
    assert len(list(folder.file("verdicts.parquet").glob("*.parquet"))) > 1
    fit_run(folder)
    large = build_report(RunFolder(folder.path))
    assert not list(validator("pairs.parquet").iter_errors(content(folder.file("pairs.parquet"))))
    result, pairs = folder.read_verdicts(folder.read_plan()), folder.read_pairs()
    small_parts.undo()
    folder.write_verdicts(result)
    alike(large, build_report(RunFolder(folder.path)), how)
    fit_run(folder)
    alike(pairs, folder.read_pairs(), how)
    assert (large.judge.turned is None) == (large.trials.n_of_kind["answers differ"] == 0)
    assert sum(large.trials.n_of_kind.values()) == len(folder.read_plan())
    assert "trials:" in render_page(large)


@pytest.fixture
def fitted(tmp_path: Path) -> RunFolder:
    folder = run_of(tmp_path, "cyclic")
    fit_run(folder)
    return folder


def test_pairs_of_another_fit_are_not_believed(fitted: RunFolder) -> None:
    rows = fitted.file("ranking.csv").read_bytes().splitlines(keepends=True)
    fitted.file("ranking.csv").write_bytes(b"".join([rows[0], rows[2], rows[1], *rows[3:]]))
    with pytest.raises(RunFolderError, match=r"Fit the run again: youden fit .*\[pairs-stale\]"):
        build_report(fitted)
    fit_run(fitted)
    build_report(fitted)


def test_a_damaged_table_of_pairs_says_so(fitted: RunFolder) -> None:
    table = pq.read_table(fitted.file("pairs.parquet"))
    pq.write_table(table.slice(3), fitted.file("pairs.parquet"))
    with pytest.raises(RunFolderError, match=r"39 pairs.*7 agents.*\[run-file-damaged\]"):
        build_report(fitted)


def timed(plan: Plan, n: int) -> Verdicts:
    """Every other trial was a call, of a millisecond more each."""
    seconds = np.where(np.arange(n) % 2, np.arange(n) / 1000, 0.0)
    key = np.array([f"{row:064d}" for row in range(n)], dtype="S64")
    return replace(answer_with(plan, answers(plan)), seconds=seconds, key=key)


def latency(source: TrialSource) -> Latency:
    return TrialReading(source, nothing_predicted(source.plan)).latency


@pytest.mark.usefixtures("small_parts")
def test_seconds_and_keys_are_those_of_their_rows_and_a_sample_of_calls_is_called_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_of(tmp_path, "dense")
    plan = folder.read_plan()
    n = len(plan)
    folder.write_verdicts(result := timed(plan, n))
    memory, disk = source_of(result), trials_on_disk(folder)
    assert len(disk.blocks) > 5
    rows = [n - 1, 3, 200, 61, 3]
    for source in (memory, disk):
        assert TrialReading(source, nothing_predicted(source.plan)).keys(rows) == [
            f"{row:064d}".encode() for row in rows
        ]
        whole = latency(source)
        assert (whole.n_calls, whole.n_sampled) == (n // 2, None)
        assert whole.median == pytest.approx(np.median(np.arange(1, n, 2) / 1000))
    monkeypatch.setattr(cost, "MAX_TIMED", 100)
    some = latency(disk)
    step = -(-n // 100)
    assert (some.n_calls, some.n_sampled) == (n // 2, -(-(n // 2) // step))
    assert some.median == pytest.approx(np.median(np.arange(1, n, 2 * step) / 1000))
    assert some == latency(memory)
