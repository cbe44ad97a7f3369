"""Test that a run folder keeps its plan: another config or file version is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from commands import Youden, write_config
from narrowing import not_none
from run_folders import contents
from small_pools import make_pool, part_of
from youden import streams
from youden.data.folder.run_config import RunConfig, load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import RunFolderError
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import judge_run, plan_run
from youden.pipeline.planned_run import draw_run_plan
from youden.protocol.designs.cyclic import Cyclic
from youden.runs.run_object import run

KEYS = {"pool": "pool", "judge": "lexical"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create pools, a run with all defaults, and an extended run."""
    here = tmp_path_factory.mktemp("ran")
    pool = make_pool(6, 10)
    write_pool(part_of(pool, slice(5)), here / "pool")
    write_pool(pool, here / "more")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        write_config(here / "default.yaml", **KEYS)
        write_config(
            here / "extended.yaml",
            **KEYS,
            calls=120,
            independent="pooled:20",
            extensions=[{"agents": "more", "calls": 44}],
        )
        for name in ("default", "extended"):
            planned = plan_run(load_run_config(f"{name}.yaml"))
            judge_run(planned)
            fit_run(planned.folder)
    return here


@pytest.fixture
def planned_folder(ran: Path, youden: Youden, tmp_path: Path) -> Path:
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["run", "default.yaml"],
        ["fit", "runs/default"],
        ["extend", "calls", "runs/default", "9"],
    ],
    ids=" ".join,
)
def test_a_folder_of_another_version_is_refused_and_unchanged(
    youden: Youden, planned_folder: Path, words: list[str]
) -> None:
    folder = RunFolder(planned_folder / "runs/default")
    file = folder.file("plan.parquet")
    table = pq.read_table(file)
    output = json.loads(table.schema.metadata[b"youden"]) | {"version": 1}
    pq.write_table(table.replace_schema_metadata({"youden": json.dumps(output)}), file)
    before = contents(folder.path)
    assert youden(*words).refuses("run-version")
    assert contents(folder.path) == before


@pytest.mark.parametrize(
    ("run", "key", "value"),
    [
        ("default", "seed", 4),
        ("extended", "seed", 4),
        ("default", "calls", 60),
        ("extended", "calls", 60),
        ("default", "calls", "50%"),
        ("default", "design", "dense"),
        ("default", "holdout", 0.2),
        ("default", "independent", "matched"),
        ("extended", "independent", "pooled:19"),
        ("default", "options", {"pairs": "unordered"}),
    ],
)
def test_a_config_edited_to_another_plan_is_refused_with_the_changed_key(
    youden: Youden, planned_folder: Path, run: str, key: str, value: object
) -> None:
    place = planned_folder / "runs" / run / "config.yaml"
    config = yaml.safe_load(place.read_text())
    place.write_text(yaml.safe_dump(config | {key: value}))
    ended = youden("run", f"runs/{run}/config.yaml")
    assert ended.refuses("run-mismatch")
    assert f"{key} was" in " ".join(ended.err.split()), ended.err


def test_a_line_removed_from_a_config_defines_another_plan(youden: Youden, planned_folder: Path) -> None:
    config = {**KEYS, "calls": 100, "independent": "pooled:20"}
    write_config(planned_folder / "mine.yaml", **config)
    assert youden("run", "mine.yaml").code == 0
    del config["independent"]
    write_config(planned_folder / "mine.yaml", **config)
    ended = youden("run", "mine.yaml")
    assert ended.refuses("run-mismatch")
    assert "independent was pooled:20 and is left out" in " ".join(ended.err.split())


def test_a_run_stopped_while_judging_resumes_with_the_plan_in_its_folder(
    youden: Youden, planned_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates a later version with other random numbers and another default budget."""
    for number, name in enumerate(streams.KEYS):
        monkeypatch.setitem(streams.KEYS, name, 100 + number)
    monkeypatch.setattr(Cyclic, "default_trials_per_agent", 10)
    folder = RunFolder(planned_folder / "runs/default")
    folder.remove("verdicts.parquet")
    digest = folder.read_plan().digest
    assert youden("run", "default.yaml").code == 0
    assert folder.read_plan().digest == digest


def test_a_config_from_a_run_folder_keeps_its_budget_if_the_default_changed(
    youden: Youden, planned_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(planned_folder / "some.yaml", **KEYS, independent="pooled:9")
    with monkeypatch.context() as patch:
        patch.setattr(Cyclic, "default_trials_per_agent", 10)
        assert youden("plan", "some.yaml").code == 0
    assert youden("plan", "runs/some/config.yaml", "--out", "copy").code == 0
    assert youden("plan", "some.yaml", "--out", "other").code == 0
    first, copy, second = (RunFolder(planned_folder / name).read_plan() for name in ("runs/some", "copy", "other"))
    assert first.digest == copy.digest
    assert len(second) > len(first)
    drawn = yaml.safe_load((planned_folder / "runs/some/config.yaml").read_text())["resolved"]
    assert drawn.keys() == {"pool", "budget", "account"}
    assert len(first) <= drawn["budget"]


@pytest.mark.parametrize("name", ["config.yaml", "scores.csv", "pool.json", "report.html"])
def test_a_run_replaces_no_file_that_no_run_wrote(name: str, youden: Youden, tmp_path: Path) -> None:
    write_pool(make_pool(4, 20), tmp_path / "p")
    (tmp_path / "own.yaml").write_text("pool: p\njudge: lexical\n", encoding="utf-8")
    own_file = tmp_path / "out" / name
    own_file.parent.mkdir()
    own_file.write_text("mine", encoding="utf-8")
    assert youden("run", "own.yaml", "--out", "out").refuses("run-foreign")
    assert own_file.read_text(encoding="utf-8") == "mine"
    with pytest.raises(RunFolderError, match="run-foreign"):
        run(make_pool(4, 20), out=own_file.parent)
    assert [*own_file.parent.iterdir()] == [own_file]


def test_an_unjudged_run_whose_plan_was_removed_is_planned_again(youden: Youden, planned_folder: Path) -> None:
    folder = RunFolder(planned_folder / "new")
    youden("plan", "default.yaml", "--out", "new").well()
    digest = folder.read_plan().digest
    folder.remove("plan.parquet")
    youden("plan", "default.yaml", "--out", "new").well()
    assert folder.read_plan().digest == digest


def test_the_cost_cap_is_the_budget_of_a_search_without_another_one(tmp_path: Path) -> None:
    pool = make_pool(12, 100)
    with_long_prompts = replace(pool, items=tuple(replace(item, prompt="long " * 200) for item in pool.items))
    write_pool(pool, tmp_path / "p")

    def max_plan_length(**output: object) -> int:
        keys = {
            "name": "x",
            "pool": str(tmp_path / "p"),
            "judge": "gpt-4o-mini",
            "top": 1,
            "max_cost": 100.0,
            **output,
        }
        return not_none(not_none(draw_run_plan(RunConfig.model_validate(keys)).rounds).n_paired)

    usual = max_plan_length(judge="lexical")
    assert max_plan_length() > usual > max_plan_length(max_cost=0.05)
    assert max_plan_length(calls=400) < 400
    assert 1.9 < max_plan_length(max_cost=0.1) / max_plan_length(max_cost=0.05) < 2.3
    second = {"backend": "openai", "model": "gpt-4o-mini", "name": "second"}
    jury = {"backend": "jury", "judges": ["gpt-4o-mini", second], "vote": "mean"}
    assert 1.9 < max_plan_length(max_cost=0.1) / max_plan_length(judge=jury, max_cost=0.1) < 2.3
    preference = max_plan_length(question="preference", max_cost=0.05)
    write_pool(with_long_prompts, tmp_path / "p")
    assert max_plan_length(question="preference", max_cost=0.05) < 0.8 * preference
