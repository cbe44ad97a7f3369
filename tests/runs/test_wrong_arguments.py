"""Arguments of the wrong type are errors that state the remedy, and numbers of NumPy count as numbers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import youden as package
from narrowing import untyped
from small_pools import make_pool
from youden.data.pools.pool_reader import write_pool
from youden.errors import InputError
from youden.judging.config.judge_files import load_judge_of_run
from youden.runs.run_object import Run
from youden.types import Plan

POOL = make_pool(4, 12)
LABELS = pd.DataFrame({"agent": ["a0", "a1"], "item": ["i0", "i0"], "label": [0, 1]})
API: Any = package
"""The package without types, for arguments of wrong types."""


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Create a run of four agents."""
    here = tmp_path_factory.mktemp("run")
    write_pool(POOL, here / "p")
    return package.run(str(here / "p"), calls=60, out=here / "run")


@pytest.fixture(scope="module")
def small_plan() -> Plan:
    """Create a plan of the same pool."""
    return package.make_plan(POOL, calls=60)


@pytest.mark.parametrize(
    ("seed", "match"),
    [
        ("0", r"got str\. Set.*argument-type"),
        (None, r"got NoneType\. Set.*argument-type"),
        (-1, r"got -1\. Set.*seed-invalid"),
        (1.0, r"got float\. Set.*argument-type"),
    ],
)
def test_a_seed_that_is_not_a_whole_number_is_refused(seed: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        package.make_plan(POOL, calls=60, seed=seed)
    assert API.make_plan(POOL, calls=60, seed=np.int64(1)).digest == package.make_plan(POOL, calls=60, seed=1).digest


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda _: API.make_plan("mine.csv"), r"`pool` .*got str. Pass what youden.read_pool returns"),
        (lambda _: API.make_plan(POOL, design=3), r"`design` .*got int"),
        (lambda _: API.make_plan(POOL, holdout=".2"), r"`holdout` .*got str"),
        (lambda _: API.make_plan(POOL, independent=5), r"`independent` .*got int"),
        (lambda _: API.make_plan(POOL, question="which"), r"got 'which'. Set information or preference"),
        (lambda plan: API.judge(plan, max_missing=5), r"max_missing must be from 0 to 1: got 5"),
        (lambda plan: API.judge(plan, max_missing="1%"), r"`max_missing` .*got str"),
        (lambda _: API.judge(POOL), r"`plan` .*got Pool. Pass what youden.make_plan returns"),
        (API.rank, r"`verdicts` .*got Plan. Pass what youden.judge returns"),
        (lambda plan: API.judge(plan, max_cost="2"), r"`max_cost` .*got str. Set an amount in USD"),
        (lambda plan: API.judge(plan, progress=True), r"`progress` .*got bool. Pass a youden.types.Progress"),
        (lambda _: API.read_run(None), r"`path` .*got NoneType. Pass the folder of a run"),
        (lambda _: API.read_pool(pa.table({"agent": ["a"]})), r"got pyarrow.Table. Convert it by .*`to_pandas\(\)`"),
        (lambda _: API.audit(pa.table({"model": ["a"]})), r"got pyarrow.Table. Convert it by .*`to_pandas\(\)`"),
        (lambda _: API.run(POOL, out=""), "run-out"),
        (lambda _: API.run(POOL, out=None), r"`out` .*got NoneType"),
        (lambda _: API.run(POOL, out="r", labels=3), r"`labels` .*got int"),
        (lambda _: API.run(POOL, out="r", judge=lambda a, b: a == b), r"`judge` .*Rank .*youden.rank\(youden.judge\("),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused(call: Callable[[Any], object], match: str, small_plan: Plan) -> None:
    with pytest.raises(InputError, match=match):
        call(small_plan)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda run: run.gate(["a0"], baseline="a1"), r"`agents` .*got list. Pass the id of each agent as an argument"),
        (lambda run: run.gate("a0", baseline=None), r"`baseline` .*got NoneType"),
        (lambda run: run.gate("a0", baseline="a1", margin="0.05"), r"`margin` .*got str"),
        (lambda run: run.gate("a0", baseline="a1", scale=(1, 5)), "label-options"),
        (lambda run: run.gate("a0", baseline="a1", scale=np.array([1, 5])), "label-options"),
        (lambda run: run.fit(labels=LABELS), r"`labels` .*got DataFrame. Pass the path"),
        (lambda run: run.fit(families=LABELS), r"`families` .*got DataFrame. Pass a mapping"),
        (lambda run: run.fit(trusted=POOL.agents[:2]), r"`trusted` .*got Agent. Pass ids of agents"),
        (lambda run: run.label("5", "l.csv"), r"`n` .*got str"),
        (lambda run: run.label(0, "l.csv"), "label-number"),
        (lambda run: run.label(5, "l.csv", purpose="bset"), r"got 'bset'. Pass 'best' or 'all'.*label-purpose"),
        (lambda run: run.label(5, "l.csv", scale=(1, 5)), "label-options"),
        (lambda run: run.rejudge(lambda a, b: a == b), r"`judge` .*got function"),
        (lambda run: run.extend(calls=60, judge=lambda a, b: a == b), r"`judge` .*got function"),
        (lambda run: run.stress(judge=lambda a, b: a == b), r"`judge` .*got function"),
        (lambda run: run.extend(calls=60, max_cost=-1), r"from 0 on: got -1\. .*max-cost"),
        (lambda run: run.extend(calls=60, max_cost=float("nan")), r"from 0 on: got nan\. .*max-cost"),
        (lambda run: run.extend(calls=60, max_cost="2"), r"`max_cost` .*got str. Set an amount in USD"),
        (lambda run: run.extend(calls=60, focus=5), r"`focus` .*got int. Pass ids of agents"),
        (lambda run: run.stress(attacks="mirror", max_cost="2"), r"`max_cost` .*got str. Set an amount in USD"),
        (lambda run: run.rejudge("lexical", max_missing=7), r"'max_missing' is 7.*Set a fraction.*run-config"),
        (lambda run: API.compare(run, run.ranking), r"`runs` .*got DataFrame\."),
        (lambda run: run.quality([LABELS, LABELS]), r"got DataFrame. .*`pandas.concat` joins several.*quality-column"),
        (lambda run: run.quality(pa.Table.from_pandas(LABELS)), r"got pyarrow.Table. Convert it by .*`to_pandas\(\)`"),
        (
            lambda run: run.extend(top=1, calls=3),
            r"too few for a first round.*got 3. Set at least 30 .*extend-too-few-calls",
        ),
    ],
)
def test_an_argument_of_the_wrong_type_of_a_method_is_refused(
    call: Callable[[Run], object], match: str, small_run: Run
) -> None:
    with pytest.raises(InputError, match=match):
        call(small_run)


def test_numbers_of_numpy_and_a_single_agent_to_focus_on_are_accepted(tmp_path: Path) -> None:
    write_pool(POOL, tmp_path / "p")
    run: Any = package.run(
        str(tmp_path / "p"), calls=60, seed=np.int64(3), holdout=np.float32(0.25), out=tmp_path / "run"
    )
    assert run.folder.read_plan().split.fraction == 0.25
    n_trials = len(run.folder.read_plan())
    run.extend(calls=np.int64(10), focus="a1")
    assert len(run.folder.read_plan()) > n_trials
    with pytest.raises(InputError, match=r"got 'nobody'.*focus-invalid"):
        run.extend(calls=10, focus="nobody")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_copies_of_pools_and_verdicts_are_read_only(copied: Callable[[Any], Any], small_plan: Plan) -> None:
    digest = POOL.digest
    verdicts = copied(package.judge(small_plan, judge=lambda a, b: a == b))
    for array in (copied(POOL).texts, verdicts.answer, verdicts.plan.trial_type, verdicts.rates().tpr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    changed = replace(copied(POOL), texts=POOL.texts[::-1].copy())
    assert changed.digest != digest == copied(POOL).digest


def test_the_judge_of_a_rejudge_may_be_a_path(small_run: Run, tmp_path: Path) -> None:
    judge = tmp_path / "own.yaml"
    judge.write_text("name: own\nbackend: lexical\n", encoding="utf-8")
    second = small_run.rejudge(judge, out=tmp_path / "second")
    assert load_judge_of_run(second.folder.read_config()).name == "own"


def test_rejudge_accepts_numbers_of_numpy_and_the_path_of_a_store(small_run: Run, tmp_path: Path) -> None:
    second = untyped(small_run.rejudge)(
        "lexical", calls=np.int64(30), seed=np.int64(2), store=tmp_path / "s.db", out=tmp_path / "second"
    )
    assert second.plan.seed == 2
