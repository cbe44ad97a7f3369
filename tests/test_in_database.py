"""What DuckDB makes of a run is what arrays make of it, to the last digits."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pools import answer_with, make_pool
from youden.data.folder import trial_tables
from youden.data.folder.run_folder import RunFolder
from youden.engines import blocks
from youden.errors import ConfigError, RunFolderError
from youden.nouns import Pool, Verdicts
from youden.protocol.plan import make_plan
from youden.run.in_database import fit_in_database
from youden.run.pipeline import fit_run, summarise

duckdb = pytest.importorskip("duckdb")

PLANS = {
    "cyclic": {"design": "cyclic", "percent": 60, "n_independent": 60},
    "cyclic twins": {"design": "cyclic", "percent": 60, "independent": "twin"},
    "cyclic own rates": {"design": "cyclic", "percent": 80, "n_independent": 300},
    "dense": {"design": "dense", "holdout": 0.0},
    "dense pooled": {"design": "dense", "independent": "pooled", "n_independent": 50, "holdout": 0.0},
    "held out": {"design": "dense", "holdout": 0.2, "rule": "shared"},
    "held out, own": {"design": "dense", "holdout": 0.2, "rule": "own"},
    "held out, pooled": {"design": "cyclic", "percent": 70, "n_independent": 60, "holdout": 0.2, "rule": "shared"},
    "held out, pooled, own": {"design": "cyclic", "percent": 70, "n_independent": 60, "holdout": 0.2, "rule": "own"},
    "row": {"design": "row"},
    "nlogn": {"design": "nlogn"},
}


def judged(pool: Pool, how: str, *, seed: int, missing: float, soft: bool, replicates: bool) -> Verdicts:
    """A plan of `pool` answered at random: agents differ, and so do items."""
    plan = make_plan(pool, seed=seed, **PLANS[how])
    if replicates:
        trials = type(plan.trials).concat([plan.trials, plan.trials.take(slice(0, len(plan), 3))]).counted()
        plan = replace(plan, trials=trials)
    rng = np.random.default_rng(seed)
    level = (
        0.2 + 0.5 * rng.random(plan.n_agents)[plan.first] * (plan.arm == 0) + 0.2 * rng.random(plan.n_items)[plan.item]
    )
    answer = rng.beta(4 * level, 4 * (1 - level)) if soft else (rng.random(len(plan)) < level).astype(np.float64)
    return answer_with(plan, answer, missing=rng.random(len(plan)) < missing)


def written(path: Path, pool: Pool, result: Verdicts) -> RunFolder:
    folder = RunFolder(path)
    folder.write_pool(summarise(pool, source="here"))
    folder.write_plan(result.plan)
    folder.write_verdicts(result)
    return folder


def same(one: object, other: object, *, at: str = "") -> None:
    """Two trees of JSON, numbers to 1e-12; partners are ranked, where rounding may part a tie."""
    if at.endswith("partners"):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), at
        for key in one:
            same(one[key], other[key], at=f"{at}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        assert len(one) == len(other), at
        for a, b in zip(one, other, strict=True):
            same(a, b, at=at)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-12, rel=1e-12, nan_ok=True), at
    else:
        assert one == other, at


def same_tables(arrays: RunFolder, other: RunFolder) -> None:
    for kind in ("symmetric", "row"):
        same(arrays.read_scores(kind).value.tolist(), other.read_scores(kind).value.tolist(), at=kind)
    assert arrays.has("holdout.csv") == other.has("holdout.csv")
    if arrays.has("holdout.csv"):
        same(arrays.read_holdout().value.tolist(), other.read_holdout().value.tolist(), at="holdout")
    for read in (RunFolder.read_ranking, RunFolder.read_items):
        same([asdict(row) for row in read(arrays)], [asdict(row) for row in read(other)], at=read.__name__)
    facts = [json.loads(folder.file("fit.json").read_text()) for folder in (arrays, other)]
    same(*facts)
    assert arrays.read_signature() == other.read_signature()


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    how=st.sampled_from(sorted(PLANS)),
    seed=st.integers(0, 10_000),
    missing=st.sampled_from([0.0, 0.15]),
    soft=st.booleans(),
    gaps=st.booleans(),
    replicates=st.booleans(),
    small=st.booleans(),
)
def test_a_database_gives_the_tables_of_arrays(
    how: str, seed: int, missing: float, soft: bool, gaps: bool, replicates: bool, small: bool
) -> None:
    pool = make_pool(6, 9)
    if gaps:
        texts = pool.texts.copy()
        texts[0, :3] = texts[2, 5] = None
        pool = replace(pool, texts=texts)
    result = judged(pool, how, seed=seed, missing=missing, soft=soft, replicates=replicates)
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        if small:
            patched.setattr(trial_tables, "ROWS_OF_A_PART", 50)
            patched.setattr(blocks, "CELLS_AT_ONCE", 12)
        arrays, other = (written(Path(place, name), pool, result) for name in ("arrays", "other"))
        fit_run(arrays)
        fit_in_database(other, target="items-like-these")
        same_tables(arrays, other)
