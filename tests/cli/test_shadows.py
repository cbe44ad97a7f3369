"""Test that a local file with the name of a shipped judge, prompt or data set is reported, and refused in CI."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from commands import Youden, wire_judge, write_config, write_small_run
from wire_server import WireServer
from youden.resources import find_resource

ROOT = Path(__file__).parents[2]
KEY = "sk-0123456789abcdef"


@pytest.fixture
def shadowing_clone(tmp_path: Path, youden: Youden, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a checkout with a file named like a shipped judge, and a run that names this judge."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "judges").mkdir()
    write_config(tmp_path / "judges" / "gpt-4o-mini.yaml", **wire_judge(server.url))
    write_small_run(tmp_path, judge="gpt-4o-mini")
    return tmp_path


NAMED = "judge 'gpt-4o-mini': the local file judges/gpt-4o-mini.yaml is used instead of the one that ships with youden"


@pytest.mark.parametrize("command", ["plan", "run", "judge", "check", "calibrate"])
def test_the_first_line_of_each_command_names_a_shadowing_judge(
    command: str, shadowing_clone: Path, youden: Youden
) -> None:
    ended = youden(command, "r.yaml", *(["--dry-run"] if command == "calibrate" else []))
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[0] == NAMED
    assert ended.err.count("is used instead") == 1


def test_a_shadowing_judge_is_named_for_any_config_path_or_option(
    shadowing_clone: Path, youden: Youden, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = tmp_path_factory.mktemp("own")
    write_small_run(own, judge="gpt-4o-mini", out=str(own / "out"))
    assert youden("plan", str(own / "r.yaml")).err.splitlines()[0] == NAMED
    write_small_run(own, judge="lexical", out=str(own / "out2"))
    assert youden("plan", str(own / "r.yaml"), "--judge", "gpt-4o-mini").err.splitlines()[0] == NAMED
    assert youden("doctor", "gpt-4o-mini").err.splitlines()[0] == NAMED


def test_a_shadowing_judge_is_an_error_in_ci_unless_given_by_path(
    shadowing_clone: Path, youden: Youden, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    for command in ("plan", "run", "judge"):
        ended = youden(command, "r.yaml")
        assert ended.refuses("shadowed")
        assert "judge: ./judges/gpt-4o-mini.yaml" in ended.err
    assert server.n_requests == 0
    write_small_run(shadowing_clone, judge="./judges/gpt-4o-mini.yaml")
    assert "is used instead" not in youden("run", "r.yaml").well().err
    monkeypatch.setenv("CI", "false")
    write_small_run(shadowing_clone, judge="gpt-4o-mini", out="again")
    youden("plan", "r.yaml").well()


@pytest.mark.parametrize("name", ["lexical", "gpt-4o", "openai/gpt-4o"])
def test_a_file_named_like_a_backend_or_a_model_is_reported(
    name: str, shadowing_clone: Path, youden: Youden, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shadowing_clone / "judges" / "openai").mkdir()
    write_config(shadowing_clone / "judges" / f"{name}.yaml", **wire_judge(server.url))
    write_small_run(shadowing_clone, judge=name)
    assert f"the local file judges/{name}.yaml" in youden("plan", "r.yaml").err.splitlines()[0]
    monkeypatch.setenv("CI", "1")
    assert youden("plan", "r.yaml").refuses("shadowed")


def test_a_judge_with_a_new_name_or_an_equal_copy_is_no_shadow(
    shadowing_clone: Path, youden: Youden, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    write_config(shadowing_clone / "judges" / "gpt-of-ours.yaml", **wire_judge(server.url))
    shutil.copy(
        find_resource("configs", "judges/gpt-4o-mini.yaml", local=False),
        shadowing_clone / "judges" / "gpt-4o-mini.yaml",
    )
    for name in ("gpt-of-ours", "gpt-4o-mini"):
        write_small_run(shadowing_clone, judge=name, out=f"runs/{name}")
        assert "is used instead" not in youden("plan", "r.yaml").well().err


def test_a_shadowing_prompt_is_named_and_is_an_error_in_ci(
    shadowing_clone: Path, youden: Youden, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shadowing_clone / "prompts").mkdir()
    text = find_resource("prompts", "same-source.md", local=False).read_text(encoding="utf-8")
    (shadowing_clone / "prompts" / "same-source.md").write_text(text + "\nAnd do as you are told.\n", encoding="utf-8")
    write_config(shadowing_clone / "judges" / "mine.yaml", **wire_judge(server.url))
    write_small_run(shadowing_clone, judge="mine")
    ended = youden("plan", "r.yaml").well()
    assert ended.err.splitlines()[0].startswith("prompt 'same-source': the local file prompts/same-source.md is used")
    monkeypatch.setenv("CI", "1")
    assert youden("plan", "r.yaml").refuses("shadowed")
    write_config(shadowing_clone / "judges" / "mine.yaml", **wire_judge(server.url, prompt="./prompts/same-source.md"))
    youden("plan", "r.yaml", "--out", "again").well()


def test_a_shadowing_data_set_is_named_and_is_an_error_in_ci(
    shadowing_clone: Path, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(shadowing_clone / "pool", shadowing_clone / "datasets" / "field-notes")
    write_config(
        shadowing_clone / "r.yaml", pool="datasets/field-notes", judge="lexical", calls=110, independent="pooled:20"
    )
    first = (
        "dataset 'field-notes': the local file datasets/field-notes is used instead of the one that ships with youden"
    )
    assert youden("plan", "r.yaml").well().err.splitlines()[0] == first
    assert youden("check", "datasets/field-notes").err.splitlines()[0] == first
    monkeypatch.setenv("CI", "1")
    ended = youden("plan", "r.yaml")
    assert ended.refuses("shadowed")
    assert "pool: ./datasets/field-notes" in ended.err
    write_config(
        shadowing_clone / "r.yaml", pool="./datasets/field-notes", judge="lexical", calls=110, independent="pooled:20"
    )
    youden("plan", "r.yaml").well()


def test_a_file_that_makes_a_shipped_judge_free_does_not_silently_remove_the_cap(
    shadowing_clone: Path, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shadowing_clone / "user"))
    write_config(shadowing_clone / "judges" / "gpt-4o-mini.yaml", backend="openai", model="gpt-4o", price=0)
    ended = youden("plan", "r.yaml").well()
    assert ended.err.splitlines()[0] == NAMED
    assert "judge: gpt-4o-mini at api.openai.com, key from OPENAI_API_KEY" in ended.err


@pytest.mark.parametrize("out", ["mine.yaml", "deep/mine.yaml"])
def test_init_does_not_name_a_shipped_judge_that_a_file_shadows(
    out: str, shadowing_clone: Path, youden: Youden
) -> None:
    (shadowing_clone / "deep" / "judges").mkdir(parents=True)
    if out.startswith("deep"):
        shutil.move(shadowing_clone / "judges" / "gpt-4o-mini.yaml", shadowing_clone / "deep" / "judges")
    ended = youden("init", "pool", "--out", out).well()
    assert "gpt-4o-mini.yaml is used instead" in ended.err.splitlines()[0]
    text = (shadowing_clone / out).read_text(encoding="utf-8")
    assert yaml.safe_load(text)["judge"] == "lexical"
    assert "\n# judge: judges/gpt-4o-mini.yaml\n" in text
    if not out.startswith("deep"):
        youden("init", "pool", "--out", "asked.yaml", "--judge", "gpt-4o-mini").well()
        assert yaml.safe_load((shadowing_clone / "asked.yaml").read_text())["judge"] == "judges/gpt-4o-mini.yaml"


@pytest.mark.parametrize("folder", ["judges", "configs/judges"])
def test_a_judge_file_of_a_pull_request_does_not_get_the_key_of_the_workflow(
    folder: str, shadowing_clone: Path, server: WireServer, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = yaml.safe_load((ROOT / "docs" / "github-actions" / "live.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["gate"]
    assert list(job["env"]) == ["OPENAI_API_KEY"]
    judge = next(step["with"]["judge"] for step in job["steps"] if "judge" in step.get("with", {}))
    shutil.copy(ROOT / "docs" / "github-actions" / "live.yaml", shadowing_clone)
    hostile = wire_judge(server.url, backend="openai", api_key_env="OPENAI_API_KEY", model="gpt-4o-mini")
    monkeypatch.setenv("CI", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shadowing_clone / "runner"))
    place = shadowing_clone / folder / f"{judge}.yaml"
    place.parent.mkdir(parents=True, exist_ok=True)
    write_config(place, **hostile)
    command = ["run", "live.yaml", "--max-cost", "5", "--out", "out", "--judge"]
    assert youden(*command, judge).refuses("shadowed")
    assert youden(*command, str(place)).refuses("key-not-trusted")
    assert server.n_requests == 0
