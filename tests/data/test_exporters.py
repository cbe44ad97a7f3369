"""Test that exports read back with the same content."""

from __future__ import annotations

import json
import shutil
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import yaml

from commands import Youden, write_config
from hostile_pools import make_pool_with_hostile_ids
from narrowing import not_none
from small_pools import make_pool
from youden import read_pool
from youden.data.exporters import EXPORTERS
from youden.data.exporters.every_eval_ever import _describe_judge
from youden.data.exporters.export_files import ExportOptions
from youden.data.exporters.hugging_face import _redirect_paths_to_folder
from youden.data.exporters.plain_tables import pool_to_table, write_tables
from youden.data.folder.extension_steps import ExtensionStep, UnfinishedExtension
from youden.data.folder.run_config import RunConfig, load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError, RunFolderError
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import judge_run, plan_run
from youden.report.pages.writing import write_report
from youden.types.pool import Json


@pytest.mark.parametrize("ending", ["csv", "CSV", "parquet"])
def test_an_exported_pool_reads_back_unchanged(tmp_path: Path, ending: str) -> None:
    pool = make_pool(3, 4)
    (file,) = write_tables(tmp_path / f"p.{ending}", {"responses": pool_to_table(pool)})
    again = read_pool(file)
    assert again.digest == pool.digest
    assert [agent.group for agent in again.agents] == [agent.group for agent in pool.agents]


def test_converting_a_pool_to_a_table_allocates_less_than_100_bytes_per_response() -> None:
    pool = make_pool(200, 100)
    tracemalloc.start()
    try:
        pool_to_table(pool)
        _, max_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max_bytes < 100 * pool.n_responses


def test_an_unknown_file_extension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[export-format\]"):
        write_tables(tmp_path / "p.xlsx", {"responses": pool_to_table(make_pool(2, 2))})


def test_a_runs_ranking_and_trials_open_in_duckdb_and_pandas(youden: Youden, field_notes: Path, mine: Path) -> None:
    assert youden("export", "demo", "all.duckdb").code == 0
    with duckdb.connect(str(mine / "all.duckdb"), read_only=True) as connection:
        assert not_none(connection.execute("SELECT count(*) FROM trials WHERE trial_type = 'paired'").fetchone()) > (0,)
        assert connection.execute("SELECT count(*) FROM ranking").fetchone() == (12,)
        (n_trials,) = connection.execute("SELECT count(*) FROM trials").fetchone() or (0,)
    ended = youden("export", "demo", "all.csv")
    assert ended.out.split() == ["all-ranking.csv", "all-items.csv", "all-trials.csv"]
    assert len(pd.read_csv(mine / "all-trials.csv")) == n_trials
    assert youden("export", "demo", "all.parquet").code == 0
    assert set(pd.read_parquet(mine / "all-trials.parquet")["trial_type"]) == {"paired", "independent"}
    assert youden("export", str(field_notes), "pool.jsonl").code == 0
    assert len(pd.read_json(mine / "pool.jsonl", lines=True)) == 384


def test_a_folder_that_is_neither_a_pool_nor_a_run_is_an_error(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "void").mkdir()
    assert youden("export", "void", "x.csv").refuses("pool-not-found")


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    write_pool(make_pool_with_hostile_ids(), place / "private" / "pool")
    write_config(place / "c.yaml", pool="private/pool", calls=200, independent="pooled:20", out="run")
    planned = plan_run(load_run_config(place / "c.yaml"))
    judge_run(planned)
    fit_run(planned.folder)
    write_report(planned.folder)
    return place


@pytest.fixture
def hostile_run(made_once: Path, tmp_path: Path) -> RunFolder:
    """Copy a run of the hostile pool with its report, which a test may change."""
    for name in ("private", "run"):
        shutil.copytree(made_once / name, tmp_path / name)
    return RunFolder(tmp_path / "run")


def front(readme: Path) -> dict[str, Any]:
    """Return the YAML header of a data card."""
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("---\n")
    metadata: dict[str, Any] = yaml.safe_load(text.split("\n---\n")[0])
    return metadata


def test_a_pool_exported_as_a_dataset_reads_back_with_escaped_names(tmp_path: Path) -> None:
    written = EXPORTERS.load("hf")(make_pool_with_hostile_ids(), tmp_path / "out", options=ExportOptions())
    again = read_pool(tmp_path / "out")
    assert again.digest == make_pool_with_hostile_ids().digest
    assert [agent.meta for agent in again.agents] == [agent.meta for agent in make_pool_with_hostile_ids().agents]
    assert written.rows == {"responses": 96, "items": 12, "agents": 8}
    output = front(tmp_path / "out" / "README.md")
    assert output.keys() == {"pretty_name", "tags", "configs", "dataset_info"}
    assert output["pretty_name"] == "pool: *pwned*"
    body = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    for acting in ("<script>", "<b>", "](javascript", "*pwned*\n", "# pwned"):
        assert acting not in body.split("\n---\n", 1)[1]


def test_a_run_exported_as_a_dataset_reads_back_without_local_paths(
    hostile_run: RunFolder, youden: Youden, tmp_path: Path
) -> None:
    assert youden("export", "run", "out", "--format", "hf").code == 0
    assert "private" in (tmp_path / "run" / "pool.json").read_text(encoding="utf-8")
    for file in (tmp_path / "out").rglob("*"):
        assert not file.is_file() or b"private" not in file.read_bytes(), file
    again = RunFolder(tmp_path / "out")
    assert again.read_ranking() == hostile_run.read_ranking()
    assert again.read_verdicts(again.read_plan()).plan.digest == hostile_run.read_plan().digest
    ranked = again.file("ranking.csv").read_bytes()
    assert youden("fit", "out").code == 0
    assert again.file("ranking.csv").read_bytes() == ranked
    assert pd.read_parquet(tmp_path / "out" / "tables" / "ranking.parquet")["agent"].tolist() == [
        row.agent for row in hostile_run.read_ranking()
    ]


def test_an_exported_config_contains_no_local_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members: list[Json] = ["private/m.yaml", {"backend": "openai", "model": "a/b", "prompt": "private/p.md"}]
    config = RunConfig.model_validate(
        {
            "name": "r",
            "pool": "private/pool",
            "judge": {"backend": "jury", "judges": members},
            "extensions": [
                ExtensionStep(agents="private/more"),
                ExtensionStep(calls=10),
                ExtensionStep(repeats="private/again"),
            ],
            "store": "private/store.db",
            "out": "private/run",
            "unfinished": UnfinishedExtension(
                agents="private/next", pool="f" * 64, first=2, number=2, step=ExtensionStep(agents="private/next")
            ),
        }
    )
    RunFolder(tmp_path).write_config(_redirect_paths_to_folder(config, tmp_path))
    output = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    assert "private" not in str(output)
    assert output["judge"]["judges"] == ["m.yaml", {"backend": "openai", "model": "a/b", "prompt": "p.md"}]
    assert [step.get("agents") or step.get("repeats") for step in output["extensions"]] == ["more", None, "again"]
    assert RunFolder(tmp_path).read_config().pool == str(tmp_path / "pool")
    assert _redirect_paths_to_folder(config.model_copy(update={"pool": "datasets/x"}), tmp_path).pool == "datasets/x"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets/x").mkdir(parents=True)
    judge = {"backend": "openai", "model": "a/b", "prompt": "private/p.md"}
    of_user = config.model_copy(update={"pool": "datasets/x", "judge": judge})
    RunFolder(tmp_path).write_config(_redirect_paths_to_folder(of_user, tmp_path))
    output = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    assert (output["pool"], output["judge"]["prompt"]) == ("x", "p.md")


def test_every_eval_ever_export_has_abilities_intervals_judge_and_signature(
    hostile_run: RunFolder, tmp_path: Path
) -> None:
    EXPORTERS.load("eee")(hostile_run, tmp_path / "eee", options=ExportOptions(organization="a lab"))
    logs = [json.loads(file.read_text(encoding="utf-8")) for file in (tmp_path / "eee").rglob("*.json")]
    by_agent = {log["model_info"]["name"]: log for log in logs}
    for row in hostile_run.read_ranking():
        log = by_agent[row.agent]
        assert log["eval_library"]["additional_details"]["signature"] == hostile_run.read_signature().text
        assert log["eval_library"]["additional_details"]["design"] == "cyclic"
        assert log["eval_library"]["additional_details"]["judge"] == "lexical"
        assert log["source_metadata"]["source_organization_name"] == "a lab"
        score = log["evaluation_results"][0]["score_details"]
        interval = score["uncertainty"]["confidence_interval"]
        assert (score["score"], interval["lower"], interval["upper"]) == (row.ability, row.low, row.high)
        assert interval["confidence_level"] == hostile_run.read_facts().level
    inside = (tmp_path / "eee").resolve()
    assert all(file.resolve().is_relative_to(inside) for file in inside.rglob("*"))
    again = EXPORTERS.load("eee")(hostile_run, tmp_path / "again", options=ExportOptions())
    names = [{file.relative_to(top) for file in top.rglob("*.json")} for top in (inside, again.files[0])]
    assert names[0] == names[1]


def test_a_model_judge_is_exported_as_the_scorer() -> None:
    model: dict[str, Json] = {"name": "j", "model": "m-1", "prompt": "same-source", "prompt_digest": "d"}
    scoring = not_none(
        _describe_judge({"judge_detail": {"name": "jury", "vote": "mean", "judges": [model, model | {"model": "m-2"}]}})
    )
    judges: Any = scoring["judges"]
    assert [judge["model_info"]["id"] for judge in judges] == ["m-1", "m-2"]
    assert "same-source (digest d)" in str(scoring["input_prompt"])
    assert _describe_judge({"judge_detail": {"name": "lexical"}}) is None


def test_exporting_a_ranking_of_a_pool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[export-source\]"):
        EXPORTERS.load("eee")(make_pool(2, 2), tmp_path / "out", options=ExportOptions())
    assert not (tmp_path / "out").exists()


def test_export_replaces_files_only_with_overwrite_and_never_a_folder(youden: Youden, tmp_path: Path) -> None:
    write_pool(make_pool(2, 3), tmp_path / "pool")
    (tmp_path / "p.csv").write_text("mine", encoding="utf-8")
    assert youden("export", "pool", "p.csv").refuses("export-exists")
    assert (tmp_path / "p.csv").read_text(encoding="utf-8") == "mine"
    assert youden("export", "pool", "p.csv", "--overwrite").code == 0
    assert read_pool(tmp_path / "p.csv").digest == make_pool(2, 3).digest
    (tmp_path / "out").mkdir()
    assert youden("export", "pool", "out", "--format", "hf").code == 0
    kept = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert youden("export", "pool", "out", "--format", "hf", "--overwrite").refuses("export-exists")
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == kept


def test_a_push_is_refused_before_anything_is_written(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pool(make_pool(2, 3), tmp_path / "pool")
    assert youden("export", "pool", "p.csv", "--push", "me/p").refuses("export-push")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert youden("export", "pool", "out", "--format", "hf", "--push", "me/p").refuses("hub-missing")
    assert {path.name for path in tmp_path.iterdir()} == {"pool"}


def test_an_unknown_format_is_an_error_with_the_available_ones(youden: Youden, tmp_path: Path) -> None:
    write_pool(make_pool(2, 3), tmp_path / "pool")
    assert youden("export", "pool", "out", "--format", "parqet").refuses("unknown-format")


@pytest.mark.parametrize("format_", [name for name in EXPORTERS if name != "tables"])
def test_a_damaged_run_leaves_no_output(hostile_run: RunFolder, tmp_path: Path, format_: str) -> None:
    if format_ in ("eee", "hf"):
        hostile_run.file("ranking.csv").write_text("agent,what\n", encoding="utf-8")
    else:
        (tmp_path / "out").write_text("mine", encoding="utf-8")
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises((ConfigError, RunFolderError)):
        EXPORTERS.load(format_)(hostile_run, tmp_path / "out", options=ExportOptions(overwrite=True))
    assert {path.name for path in tmp_path.iterdir()} == before
