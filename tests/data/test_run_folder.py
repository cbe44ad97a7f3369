"""Test that files of a run read back unchanged for any ids, and that a missing file names its command."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_folders import contents, equal, ids
from small_pools import make_pool
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import COMMAND_BY_FILE
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import ranking_columns
from youden.errors import RunFolderError
from youden.pools.generation.generation import read_generation
from youden.types import Agent, Finding, Scores, Verdicts
from youden.types.columns import columns_of
from youden.types.facts import CallFacts, HoldoutFacts, LinkFacts, RankingRow, RunFacts
from youden.types.results import Signature

numbers = st.floats(-1, 1) | st.just(np.nan)


@st.composite
def matrices(draw: st.DrawFn) -> Scores:
    agents, items = draw(ids), draw(ids)
    value = np.array([[draw(numbers) for _ in items] for _ in agents])
    weight = np.where(np.isnan(value), 0.0, 1.0)
    return Scores.from_matrices(value, weight, role="train", kind="row", agent_ids=tuple(agents), item_ids=tuple(items))


@settings(max_examples=15, deadline=None)
@given(scores=matrices())
def test_scores_read_back_exactly(scores: Scores, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write_scores("row", scores)
    assert equal(scores, folder.read_scores("row"))
    folder.write_holdout(scores)
    assert equal(replace(scores, role="holdout", kind="symmetric"), folder.read_holdout())


@settings(max_examples=15, deadline=None)
@given(scores=matrices())
def test_scores_have_the_format_of_the_csv_module(scores: Scores, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write_scores("row", scores)
    output = io.StringIO(newline="")
    lines = [["" if np.isnan(number) else repr(number) for number in row] for row in scores.value.tolist()]
    names = [["agent", *scores.item_ids], *([agent, *row] for agent, row in zip(scores.agent_ids, lines, strict=True))]
    csv.writer(output).writerows(names)
    assert folder.file("scores_row.csv").read_bytes() == output.getvalue().encode()


@settings(max_examples=15, deadline=None)
@given(agents=ids, values=st.lists(numbers, min_size=4, max_size=4))
def test_a_ranking_reads_back_exactly(
    agents: list[str], values: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    measured = [column.name for column in columns_of(RankingRow) if column.kind == "number"]
    complete: dict[str, Any] = {
        column.name: n for n, column in enumerate(columns_of(RankingRow)) if column.kind == "whole"
    }
    frame = pd.DataFrame({"agent": agents, "group": None, "extra": 1, "target": "these-items", **complete})
    frame[measured] = np.tile(np.array(values[: len(agents)])[:, None], len(measured))
    frame.loc[0, "group"] = "NA"
    folder.write_ranking(frame)
    assert folder.read_ranking() == tuple(
        RankingRow(
            agent=agent,
            group="NA" if n == 0 else None,
            **complete | dict.fromkeys(measured, None if np.isnan(values[n]) else values[n]),
        )
        for n, agent in enumerate(agents)
    )


def test_items_are_written_as_a_plain_table(folder: RunFolder) -> None:
    items = pd.DataFrame({"item": ["x"], "difficulty": [np.nan], "n_agents": [2], "n_trials": [3]})
    folder.write_items(items)
    assert folder.file("items.csv").read_text(encoding="utf-8").split() == [
        "item,difficulty,n_agents,n_trials",
        "x,,2,3",
    ]
    with pytest.raises(RunFolderError, match="no column n_agents, no n_trials"):
        folder.write_items(items[["item", "difficulty"]])


def test_a_pool_summary_reads_back_with_its_notes(folder: RunFolder) -> None:
    pool = make_pool(3, 2)
    agents = (Agent("a", "g", {"strategy": ["x", None]}), *pool.agents[1:])
    text_values = {"mean_words": np.array([2.5, np.nan, 0.1])}
    summary = PoolSummary("p", pool.digest, "p.csv", agents, ("x", "y"), 1, text_values)
    folder.write_pool(summary)
    folder.write_notes(("D only",))
    assert equal(folder.read_pool(), replace(summary, notes=("D only",)))
    assert folder.read_notes() == ("D only",)
    imported = PoolSummary.from_import(agents, ("x",), source="pub med")
    folder.write_pool(imported)
    assert equal(folder.read_pool(), imported)
    assert folder.format_command() == f"youden import peer-prediction 'pub med' --out {folder.path}"


def test_facts_and_signature_read_back(folder: RunFolder) -> None:
    link = LinkFacts(0.1, 0.2, 0.3, None, 0.5, None, 7)
    facts = RunFacts(
        version=2,
        ranking="mean of trials",
        interval="t",
        level=0.95,
        estimator="clipped-linear",
        status="ok",
        message="",
        kkt=1e-17,
        n_components=1,
        r2=None,
        fpr=0.1 + 0.2,
        calls=CallFacts(1, 2, 3, 4, {"refused": 1}, models=("m",)),
        holdout=HoldoutFacts(3, "paper", 0.1, None, 0.3),
        links={"row": {"identity": link}, "symmetric": {}},
        links_missing={"symmetric": "no rectangles"},
        warnings=(Finding("w", "It is so.", agents=("a",), facts={"n": 1, "of": ["x"], "share": 0.5, "none": None}),),
        target="these-items",
        unique_best=None,
        n_significant_pairs=2,
    )
    folder.write_facts(facts)
    assert folder.read_facts() == facts
    signature = Signature({"youden": "0.2.0", "seed": 1, "judge": {"name": "j"}, "models": ["m"]})
    folder.write_signature(signature)
    assert folder.read_signature() == signature
    assert json.loads(folder.file("signature.json").read_bytes())["text"] == signature.text


def test_a_config_reads_back_and_its_command_repeats_the_run(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.path.parent)
    config = RunConfig.model_validate({"name": "run", "pool": "p.csv", "calls": 10, "out": "run"})
    run = RunFolder(config.folder)
    run.write_config(config)
    assert run.read_config() == config
    assert run.format_command() == f"youden run {Path('run/config.yaml')}"


@pytest.mark.parametrize(
    "name", sorted(set(COMMAND_BY_FILE) - {"report.html", "items.csv", "ranking.json", "quality.csv"})
)
def test_a_missing_file_is_an_error_with_the_command_that_writes_it(
    folder: RunFolder, judged_verdicts: Verdicts, name: str
) -> None:
    readers: dict[str, Callable[[], object]] = {
        "config.yaml": folder.read_config,
        "pool.json": folder.read_pool,
        "plan.parquet": folder.read_plan,
        "verdicts.parquet": lambda: folder.read_verdicts(judged_verdicts.plan),
        "rates.parquet": folder.read_rates,
        "pairs.parquet": folder.read_pairs,
        "scores.csv": lambda: folder.read_scores("symmetric"),
        "scores_row.csv": lambda: folder.read_scores("row"),
        "holdout.csv": folder.read_holdout,
        "ranking.csv": folder.read_ranking,
        "curl.csv": folder.read_curl,
        "fit.json": folder.read_facts,
        "signature.json": folder.read_signature,
        "labels.json": folder.read_labels,
        "quality.json": folder.read_quality,
        "variance_components.json": folder.read_variance_components,
        "generation.json": lambda: read_generation(folder.path),
    }
    folder.file(name).unlink(missing_ok=True)
    assert not folder.has(name)
    with pytest.raises(RunFolderError) as caught:
        readers[name]()
    assert f"has no {name}" in str(caught.value)
    command = COMMAND_BY_FILE[name].replace("RUN", str(folder.path))
    assert f"`{command}`" in str(caught.value)


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"no run folder at .*nowhere.*run-missing"):
        RunFolder(tmp_path / "nowhere").read_plan()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ("{}", "version"),
        ('{"version": "1"}', "version '1' of this file"),
        ('{"version": 2}', "text"),
        ('{"version": 1}', r"another version of youden: got version 1 .*reads only version 2.*run-version"),
    ],
)
def test_damaged_json_is_refused_with_the_location(folder: RunFolder, text: str, part: str) -> None:
    folder.write_text("signature.json", text)
    with pytest.raises(RunFolderError, match=part):
        folder.read_signature()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("agent,x\na,0.5\nb\n", "as long as its header"),
        ("agent,x\na,high\n", "'high'"),
        ("item,x\na,1\n", "not agent"),
        ("", "as long as its header"),
    ],
)
def test_damaged_scores_are_refused(folder: RunFolder, text: str, part: str) -> None:
    folder.write_text("scores.csv", text)
    with pytest.raises(RunFolderError, match=part):
        folder.read_scores("symmetric")


def test_a_ranking_with_other_columns_is_refused(folder: RunFolder) -> None:
    folder.write_text("ranking.csv", "agent,ability\na,1\n")
    with pytest.raises(RunFolderError, match=r"the column 'group' is missing\. Run `youden fit"):
        folder.read_ranking()
    line = {column.name: {"whole": "x", "text": "a"}.get(column.kind, "") for column in ranking_columns(())}
    folder.write_text("ranking.csv", f"{','.join(line)}\n{','.join(line.values())}\n")
    with pytest.raises(RunFolderError, match="'x' is not a whole number"):
        folder.read_ranking()


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(folder: RunFolder, judged_verdicts: Verdicts) -> None:
    before = contents(folder.path)
    with pytest.raises(UnicodeEncodeError):
        folder.write_text("fit.json", "\ud800")
    assert contents(folder.path) == before
