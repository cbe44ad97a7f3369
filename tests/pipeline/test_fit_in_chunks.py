"""Test that a fit in chunks of items equals that of all answers at once."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from narrowing import not_none
from plan_options import PLAN_OPTIONS
from run_folders import assert_nearly_equal, contents
from small_pools import answer_with, make_pool, part_of
from worlds import write_answers
from youden import ClippedLinear, make_plan, rank
from youden.cli import youden
from youden.data.atomic import scratch_directory
from youden.data.folder import trial_tables
from youden.data.folder.run_folder import RunFolder
from youden.engines import trial_blocks as blocks
from youden.engines.block_sums import count_calls
from youden.errors import PlanError, RunFolderError
from youden.pipeline import fit_tables
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.rounds import run_rounds
from youden.protocol.extension import add_agents, add_calls, add_items
from youden.protocol.independent import with_added_trials
from youden.protocol.scores import pooled_fpr
from youden.run_keys import Target
from youden.types import Plan, Pool, Trials, Verdicts
from youden.types.trials import FOLLOW_UP

duckdb = pytest.importorskip("duckdb")

RATES = ("item", "first", "second", "tpr", "fpr", "n_paired", "n_independent", "n_missing")


def judged(pool: Pool, how: str, *, seed: int, missing: float, soft: bool, replicates: bool) -> Verdicts:
    """Return random answers to a plan of `pool`; agents and items differ."""
    try:
        plan = make_plan(pool, seed=seed, **PLAN_OPTIONS[how])
    except PlanError:
        reject()
    if replicates:
        trials = (
            type(plan.trials).concat([plan.trials, plan.trials.take(slice(0, len(plan), 3))]).with_replicate_numbers()
        )
        plan = replace(plan, trials=trials)
    rng = np.random.default_rng(seed)
    level = (
        0.2
        + 0.5 * rng.random(plan.n_agents)[plan.first] * (plan.trial_type == 0)
        + 0.2 * rng.random(plan.n_items)[plan.item]
    )
    answer = rng.beta(4 * level, 4 * (1 - level)) if soft else (rng.random(len(plan)) < level).astype(np.float64)
    return answer_with(plan, answer, missing=rng.random(len(plan)) < missing)


def same_as_at_once(run: RunFolder, result: Verdicts, *, target: Target) -> None:
    """Return whether the tables of a fitted run equal those computed from all its answers at once."""
    plan, rates = result.plan, result.rates()
    for kind in ("symmetric", "row"):
        scores = rates.training_scores(kind=kind)
        assert_nearly_equal(scores.value.tolist(), run.read_scores(kind).value.tolist(), at=kind)
    assert run.has("holdout.csv") == bool(plan.split.n_holdout)
    if plan.split.n_holdout:
        assert_nearly_equal(rates.holdout_scores().value.tolist(), run.read_holdout().value.tolist(), at="holdout")
    table = rank(result, target=target)
    # rounding decides the order of two equal abilities
    a, extended_run = (
        of.sort_values("agent", ignore_index=True) for of in (table, pd.read_csv(run.file("ranking.csv")))
    )
    extended_run["group"] = extended_run["group"].astype(object).where(extended_run["group"].notna(), None)
    pd.testing.assert_frame_equal(a, extended_run, rtol=0, atol=1e-12, check_dtype=False)
    assert_nearly_equal(
        np.bincount(rates.item, rates.n_paired, plan.n_items).tolist(),
        [float(row.n_trials) for row in run.read_items()],
    )
    facts, model = run.read_facts(), ClippedLinear().fit(rates.training_scores())
    assert_nearly_equal(
        [facts.fpr, facts.kkt, facts.n_components], [pooled_fpr(rates), model.kkt_, model.n_components_]
    )
    assert_nearly_equal([asdict(a) for a in facts.warnings], [asdict(a) for a in table.attrs["warnings"]])
    assert_nearly_equal(
        asdict(table.attrs["choice"]) if table.attrs["choice"] else None, asdict(facts.choice) if facts.choice else None
    )
    written_rates = run.read_rates()
    assert_nearly_equal(
        [getattr(rates, name).tolist() for name in RATES], [getattr(written_rates, name).tolist() for name in RATES]
    )


@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    how=st.sampled_from(sorted(PLAN_OPTIONS)),
    seed=st.integers(0, 10_000),
    missing=st.sampled_from([0.0, 0.02, 0.15]),
    soft=st.booleans(),
    gaps=st.booleans(),
    replicates=st.booleans(),
    small=st.booleans(),
    these=st.booleans(),
)
def test_a_fit_in_chunks_equals_that_of_all_answers_at_once(
    *, how: str, seed: int, missing: float, soft: bool, gaps: bool, replicates: bool, small: bool, these: bool
) -> None:
    pool = make_pool(6, 9)
    if gaps:
        texts = pool.texts.copy()
        texts[0, :3] = texts[2, 5] = None
        pool = replace(pool, texts=texts)
    result = judged(pool, how, seed=seed, missing=missing, soft=soft, replicates=replicates)
    target: Target = "these-items" if these else "items-like-these"
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        if small:
            patched.setattr(trial_tables, "ROWS_PER_GROUP", 50)
            patched.setattr(blocks, "MAX_CELLS_PER_CHUNK", 12)
            patched.setattr(blocks, "MAX_TRIALS_PER_CHUNK", 60)
        run = write_answers(Path(place, "r"), pool, result)
        fit_run(run, target=target)
        same_as_at_once(run, result, target=target)


def extended(seed: int) -> tuple[Pool, Verdicts]:
    """Extend by agents, calls, items, and focused calls for two agents."""
    pool = make_pool(8, 12)
    pools = {(K, J): part_of(pool, slice(K), slice(J)) for K, J in ((6, 9), (8, 9), (8, 12))}
    plan = add_agents(make_plan(pools[6, 9], calls="60%", independent="pooled:60", seed=seed), pools[8, 9], calls=90)
    plan = add_items(add_calls(plan, calls=40), pool, calls=60)
    plan = add_calls(plan, calls=40, focus=(1, 7))
    return pool, answer_with(plan, np.random.default_rng(seed).random(len(plan)))


def searched(seed: int) -> tuple[Pool, Verdicts]:
    """Search for the best of eight agents."""
    pool = make_pool(8, 20)
    plan = make_plan(pool, design="adaptive", calls="50%", independent="pooled:40", seed=seed, options={"top": 2})

    def ask(plan: Plan) -> Verdicts:
        drawn = np.random.default_rng(seed).random((pool.n_items, 8, 8))
        level = 0.4 + 0.03 * (plan.first + plan.second)
        return answer_with(plan, (drawn[plan.item, plan.first, plan.second] < level).astype(np.float64))

    return pool, run_rounds(plan, ask)


def of_a_jury(seed: int) -> tuple[Pool, Verdicts]:
    """Judge by three judges, each of whom misses some trials."""
    pool, result = extended(seed)
    rng = np.random.default_rng(seed)
    votes = np.clip(result.answer + rng.normal(0, 0.2, (3, len(result))), 0, 1)
    votes[rng.random(votes.shape) < 0.01] = np.nan
    return pool, replace(result, votes=votes, judge={"name": "jury", "judges": ["a", "b", "c"]})


def of_an_average(seed: int) -> tuple[Pool, Verdicts]:
    """Average two judges without missing answers."""
    pool, result = extended(seed)
    votes = np.random.default_rng(seed).random((2, len(result)))
    return pool, replace(answer_with(result.plan, votes.mean(axis=0)), votes=votes)


@pytest.mark.parametrize(
    ("grown", "target"),
    [
        (extended, "items-like-these"),
        pytest.param(extended, "these-items", marks=pytest.mark.slow),
        pytest.param(searched, "items-like-these", marks=pytest.mark.slow),
        pytest.param(of_a_jury, "items-and-judges", marks=pytest.mark.slow),
        pytest.param(of_an_average, "these-items", marks=pytest.mark.slow),
        *(pytest.param(grown, "these-items", marks=pytest.mark.slow) for grown in (searched, of_a_jury)),
    ],
)
def test_an_extended_run_is_fitted_in_chunks_and_never_read_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grown: Callable[[int], tuple[Pool, Verdicts]], target: Target
) -> None:
    pool, result = grown(3)
    expected = rank(result, target=target).set_index("agent").sort_index()
    monkeypatch.setattr(trial_tables, "ROWS_PER_GROUP", 50)
    monkeypatch.setattr(blocks, "MAX_CELLS_PER_CHUNK", 16)
    monkeypatch.setattr(blocks, "MAX_TRIALS_PER_CHUNK", 60)
    monkeypatch.setattr(fit_tables, "can_decompose_variance", lambda *_: False)
    monkeypatch.setattr(RunFolder, "read_verdicts", lambda *_: pytest.fail("all trials were read at once"))
    run = write_answers(tmp_path / "r", pool, result)
    fit_run(run, target=target)
    actual = pd.read_csv(run.file("ranking.csv")).set_index("agent").sort_index()
    numbers = [name for name in expected.columns if name not in ("group", "target")]
    np.testing.assert_allclose(actual[numbers], expected[numbers].astype(np.float64), rtol=0, atol=1e-12)


def test_follow_ups_change_only_the_tables_of_links_and_calls() -> None:
    pool, rng = make_pool(6, 9), np.random.default_rng(0)
    result = judged(pool, "cyclic", seed=0, missing=0.1, soft=False, replicates=False)
    item, first, second = rng.permuted(np.tile(np.arange(6, dtype=np.int32), (12, 1)), axis=1).T[:3]
    more = Trials.paired(item, first, second).with_role(FOLLOW_UP, first=0.0, second=0.0)
    answer, missing = np.append(result.answer, np.ones(12)), np.append(~result.answered, np.zeros(12, dtype=np.bool_))
    longer = answer_with(with_added_trials(result.plan, more), answer, missing=missing)
    with TemporaryDirectory() as place:
        plain, extended_run = (
            write_answers(Path(place, name), pool, of) for name, of in {"a": result, "b": longer}.items()
        )
        fit_run(plain)
        fit_run(extended_run)
        same_as_at_once(extended_run, longer, target="items-like-these")
        a, b = (pd.read_csv(run.file("ranking.csv")).filter(regex="^(?!robust)") for run in (plain, extended_run))
        pd.testing.assert_frame_equal(a, b)


@pytest.mark.slow
def test_calls_per_row_group_add_up_to_the_total_including_answers_of_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_tables, "ROWS_PER_GROUP", 50)
    pool, rng = make_pool(6, 9), np.random.default_rng(0)
    result = judged(pool, "cyclic", seed=0, missing=0.1, soft=False, replicates=True)
    n = len(result)
    seconds, usd = (np.where(rng.random(n) < 0.5, 0.0, rng.random(n)) for _ in range(2))
    keys = np.array([b"%064x" % number for number in rng.integers(n // 2, size=n)], dtype="S64")
    has_tokens = rng.random(n) < 0.5
    tokens_in, tokens_out = (has_tokens * rng.integers(1, 99, n, dtype=np.int32) for _ in range(2))
    result = replace(
        result,
        request_hash=keys,
        seconds=seconds,
        usd=usd,
        usd_calibration=0.25,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )
    folder = write_answers(tmp_path / "r", pool, result)
    fit_run(folder)
    counted = not_none(folder.read_facts().calls)
    assert counted.n_reused == int(result.reused.sum()) > 0
    assert not (result.reused & has_tokens).any(), "a free call of a batch has no duration and no cost"
    assert_nearly_equal(asdict(count_calls(result)), asdict(counted))


@pytest.fixture
def chunked_run(tmp_path: Path) -> RunFolder:
    pool = make_pool(6, 9)
    return write_answers(
        tmp_path / "r", pool, judged(pool, "cyclic", seed=0, missing=0.1, soft=False, replicates=False)
    )


@pytest.fixture
def parted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(trial_tables, "ROWS_PER_GROUP", 50)
    pool = make_pool(6, 9)
    return write_answers(
        tmp_path / "r", pool, judged(pool, "cyclic", seed=0, missing=0.1, soft=False, replicates=False)
    )


def test_a_large_run_gets_a_table_of_rates_only_on_request(
    chunked_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_run(chunked_run)
    assert chunked_run.has("rates.parquet")
    monkeypatch.setattr(fit_tables, "MAX_TRIALS_WITH_RATES", 100)
    assert CliRunner().invoke(youden, ["fit", str(chunked_run.path)]).exit_code == 0
    assert not chunked_run.has("rates.parquet")
    assert CliRunner().invoke(youden, ["fit", str(chunked_run.path), "--rates"]).exit_code == 0
    assert chunked_run.has("rates.parquet")


def test_a_table_of_many_row_groups_is_one_file_and_reads_back_unchanged(parted: RunFolder) -> None:
    plan = parted.read_plan()
    file = parted.file("verdicts.parquet")
    assert pq.ParquetFile(file).num_row_groups > 2
    assert len(pd.read_parquet(file)) == len(plan) == len(parted.open_judged_files().verdicts)
    assert duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall()[0] == (len(plan),)
    again = RunFolder(parted.path).read_plan()
    assert again.digest == plan.digest
    assert again.trials.columns().keys() == plan.trials.columns().keys()


@pytest.mark.parametrize("name", ["plan.parquet", "verdicts.parquet"])
@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(file.read_bytes()[:-7]),
        lambda file: file.write_bytes(bytes(len(file.read_bytes()))),
    ],
    ids=["removed", "cut off", "zeros"],
)
def test_a_damaged_file_is_never_read_as_complete(parted: RunFolder, name: str, harm: Callable[[Path], object]) -> None:
    harm(parted.file(name))
    folder = RunFolder(parted.path)
    with pytest.raises(RunFolderError, match=rf"{name}.*\[run-file-(missing|damaged)\]"):
        folder.read_verdicts(folder.read_plan())
    if name == "verdicts.parquet":
        with pytest.raises(RunFolderError, match=name):
            fit_run(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Create a disk of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(place: Path, *, leave: int) -> None:
    """Fill the disk except for `leave` bytes."""
    (place / "filler").write_bytes(bytes(shutil.disk_usage(place).free - leave))


def test_a_full_disk_while_a_table_is_written_keeps_the_old_one(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_tables, "ROWS_PER_GROUP", 50)
    pool = make_pool(6, 9)
    result = judged(pool, "cyclic", seed=0, missing=0.1, soft=False, replicates=False)
    folder = write_answers(small_disk / "r", pool, result)
    fill(small_disk, leave=10_000)
    writers: tuple[Callable[[], None], ...] = (
        lambda: folder.write_verdicts(replace(result, judge={"name": "other"})),
        lambda: folder.write_plan(replace(result.plan, notes=("other",))),
    )
    for write in writers:
        with pytest.raises(OSError, match="No space"):
            write()
    again = RunFolder(folder.path)
    plan = again.read_plan()
    assert plan.digest == result.plan.digest
    assert plan.notes == result.plan.notes
    assert again.read_verdicts(plan).judge == result.judge
    assert {file.name for file in folder.path.iterdir()} == {"pool.json", "plan.parquet", "verdicts.parquet"}


def test_a_full_disk_while_chunks_are_written_leaves_the_run_unchanged(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MAX_TRIALS_PER_CHUNK", 10_000)
    pool = make_pool(60, 40)
    result = judged(pool, "dense pooled", seed=0, missing=0.1, soft=True, replicates=False)
    folder = write_answers(small_disk / "r", pool, result)
    folder.write_text("ranking.csv", "the old one")
    before = contents(folder.path)
    fill(small_disk, leave=100_000)
    with pytest.raises(RunFolderError, match=r"Free space on that disk.*\[disk-full\]"):
        fit_run(folder)
    assert contents(folder.path) == before


def test_an_error_without_a_number_is_not_reported_as_a_full_disk(tmp_path: Path) -> None:
    plan = make_plan(make_pool(4, 6))
    with pytest.raises(OSError, match="the disk is fine"), blocks.open_trials_by_item(list, plan, tmp_path):
        raise OSError("the disk is fine")


@pytest.mark.slow
def test_a_full_disk_while_a_fit_is_written_leaves_no_files_of_two_fits(small_disk: Path) -> None:
    pool = make_pool(20, 40)
    folder = write_answers(
        small_disk / "r", pool, judged(pool, "cyclic", seed=0, missing=0.1, soft=False, replicates=False)
    )
    fit_run(folder)
    result = judged(pool, "cyclic", seed=0, missing=0.3, soft=True, replicates=False)
    folder.write_verdicts(result)
    before = contents(folder.path)
    refused = 0
    room = shutil.disk_usage(small_disk).free
    for leave in (8_192, 32_768, 65_536, room):
        fill(small_disk, leave=leave)
        try:
            fit_run(RunFolder(folder.path))
        except (OSError, RunFolderError):
            refused += 1
            assert contents(folder.path) == before
        (small_disk / "filler").unlink()
    assert 0 < refused < 4
    after = contents(folder.path)
    assert after.keys() == before.keys()
    assert all(after[name] != before[name] for name in ("ranking.csv", "scores.csv", "scores_row.csv", "fit.json"))


KILLED = """
import os, signal, sys
from pathlib import Path
from youden.data.folder.run_folder import RunFolder
from youden.pipeline import fit_tables
from youden.pipeline.fitted_run import fit_run
fit_tables.ChunkSums = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
fit_run(RunFolder(Path(sys.argv[1])))
"""
IN_ITS_WORKPLACE = """
import os, signal, sys
from pathlib import Path
from youden.data.atomic import scratch_directory
with scratch_directory(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    "script",
    [pytest.param(KILLED, id="while fitting", marks=pytest.mark.slow), pytest.param(IN_ITS_WORKPLACE, id="before")],
)
@pytest.mark.posix
def test_a_fit_deletes_files_of_a_killed_fit_and_keeps_those_of_a_running_one(
    chunked_run: RunFolder, script: str
) -> None:
    killed = subprocess.run([sys.executable, "-c", script, str(chunked_run.path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list(chunked_run.path.glob(".fit-*")), "the folder that the killed fit left"
    assert not chunked_run.has("ranking.csv")
    with scratch_directory(chunked_run.path) as living:
        fit_run(chunked_run)
        assert [place.name for place in chunked_run.path.glob(".*")] == [living.name]
    assert not list(chunked_run.path.glob(".*"))


def test_answers_to_another_plan_are_not_fitted(chunked_run: RunFolder) -> None:
    plan = chunked_run.read_plan()
    chunked_run.write_plan(replace(plan, trials=plan.trials.take(slice(0, len(plan) - 1))))
    with pytest.raises(RunFolderError, match=r"answers to another plan.*\[run-other-plan\]"):
        fit_run(RunFolder(chunked_run.path))
