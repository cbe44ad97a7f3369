"""Test every study on every kind of run: a result or a named refusal."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from commands import write_config, write_pool_table
from peer_results import write_results
from youden.cli import youden

pytestmark = pytest.mark.slow

STUDIES = {
    "budget": ["--n-seeds", "2"],
    "baselines": ["--n-seeds", "1", "--only", "svd,uv"],
    "sparsity": ["--n-seeds", "1"],
    "links": ["--n-resamples", "25"],
    "paper": ["--n-seeds", "2", "--n-resamples", "20"],
}
NEEDS_DENSE = ("baselines", "sparsity", "paper")
DENSE, SPARSE = "dense", "sparse"
RUNS = {
    "dense": DENSE,
    "cyclic": SPARSE,
    "adaptive": SPARSE,
    "nlogn": SPARSE,
    "held": SPARSE,
    "gaps": SPARSE,
    "dense gaps": DENSE,
    "joined": SPARSE,
    "joined dense": SPARSE,
    "items": SPARSE,
    "focus": SPARSE,
    "rejudged": SPARSE,
    "imported": DENSE,
}


def done(*words: object) -> Result:
    ended = CliRunner().invoke(youden, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output + str(ended.exception)
    return ended


@pytest.fixture(scope="module")
def studied_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create folders of runs by the names in RUNS, judged by the lexical judge."""
    here = tmp_path_factory.mktemp("runs")
    write_pool_table(here / "all.csv", n_agents=8, n_items=12)
    with (here / "all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    gap = np.random.default_rng(0).random(len(rows)) < 0.2

    def part(name: str, kept: Callable[[int, int, int], bool]) -> Path:
        with (here / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row for n, row in enumerate(rows) if kept(int(row["agent"][1:]), int(row["item"][1:]), n))
        return here / name

    old = part("old.csv", lambda i, j, _: i < 6 and j < 10)
    new = part("new.csv", lambda i, j, _: i >= 6 and j < 10)
    items = part("items.csv", lambda i, j, _: i < 6 and j >= 10)
    gaps = part("gaps.csv", lambda _i, _j, n: not gap[n])

    def run(name: str, pool: Path = old, **keys: object) -> Path:
        config = here / f"{name}.yaml"
        write_config(config, pool=str(pool), judge="lexical", out=str(here / name), **keys)
        done("run", config)
        return here / name

    pooled: dict[str, Any] = {"independent": "pooled:20"}
    run("dense", design="dense")
    run("cyclic", calls="30%", **pooled)
    run("adaptive", design="adaptive", calls="60%", **pooled)
    run("nlogn", design="nlogn")
    run("held", calls="60%", holdout=0.2, **pooled)
    run("gaps", gaps, calls="30%", **pooled)
    run("dense gaps", gaps, design="dense")
    done("extend", "agents", run("joined", calls="30%", **pooled), new)
    done("extend", "agents", run("joined dense", design="dense"), new)
    done("extend", "items", run("items", calls="30%", **pooled), items)
    done("extend", "calls", run("focus", calls="30%", **pooled), 40, "--focus", "a0")
    done("rejudge", here / "joined", "--judge", "lexical", "--calls", 80, "--out", here / "rejudged")
    write_results(here / "results", {f"example_{n}": example(n) for n in range(10)})
    done("import", "peer-prediction", here / "results", "--out", here / "imported")
    return here


def example(n: int, n_agents: int = 6) -> dict[str, object]:
    matrix = np.random.default_rng(n).integers(-1, 5, (n_agents, n_agents)).clip(None, 4) / 4
    np.fill_diagonal(matrix, 0)
    n_pairs = n_agents * (n_agents - 1)
    return {
        "condition_keys": [f"agent {i}" for i in range(n_agents)],
        "tvd_mi_matrix": matrix.tolist(),
        "tvd_mi_scores": (matrix.sum(axis=1) / (n_agents - 1)).tolist(),
        "tvd_mi_bidirectional": [0] * n_agents,
        "metadata": {"num_p_comparisons": n_pairs, "num_q_comparisons": n_pairs, "cached_count": 0},
    }


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("name", RUNS)
def test_every_study_returns_a_result_or_a_named_error(studied_runs: Path, name: str, study: str) -> None:
    ended = CliRunner().invoke(youden, ["study", study, str(studied_runs / name), *STUDIES[study], "--json"])
    expected = None
    if study in NEEDS_DENSE and RUNS[name] == SPARSE:
        expected = "replay-pilot"
    elif study == "paper":
        expected = "paper-none"
    if expected is None:
        assert ended.exit_code == 0, repr(ended.exception)
        assert json.loads(ended.stdout)[study]
    else:
        assert getattr(ended.exception, "slug", None) == expected, repr(ended.exception)


@pytest.mark.parametrize("name", ["joined", "imported"])
def test_judges_are_compared_if_a_run_was_rejudged_and_otherwise_refused(studied_runs: Path, name: str) -> None:
    ended = CliRunner().invoke(
        youden, ["study", "judges", str(studied_runs / name), str(studied_runs / "rejudged"), "--json"]
    )
    if name == "joined":
        assert ended.exit_code == 0, repr(ended.exception)
    else:
        assert getattr(ended.exception, "slug", None), repr(ended.exception)


def test_by_default_every_design_of_a_small_run_has_budgets_that_can_be_drawn(studied_runs: Path) -> None:
    budget = json.loads(done("study", "budget", studied_runs / "dense", "--n-seeds", 2, "--json").stdout)["budget"]
    for rows in budget["designs"].values():
        assert [row["infeasible_reason"] for row in rows] == [None] * len(rows)
        assert all({"top1_recall", "top3_recall", "top5_recall"} <= set(row) for row in rows)
    assert set(budget["ceiling_recall"]) == {"top1", "top3", "top5"}
