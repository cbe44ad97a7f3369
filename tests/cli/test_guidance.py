"""Test the guidance of commands: grouped help, suggestions for typos, completion and a first config."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from commands import Youden, write_config, write_pool_table
from report_runs import judged
from youden import cli, read_pool
from youden.cli.results import CHARTS
from youden.cli.study import STUDIES
from youden.data.folder.run_config import load_run_config
from youden.data.pools.pool_reader import write_pool
from youden.extras import EXTRAS, format_install
from youden.report.charts.figures import draw_figures
from youden.report.data.report import ReportData
from youden.types import Agent

SOURCE = Path(cli.__file__).parents[1]
ROOT = Path(__file__).parents[2]
DEVELOPERS = {"test", "lint", "docs"}


def commands(group: click.Command = cli.youden, path: str = "") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield f"{path}{name}", command
        yield from commands(command, f"{path}{name} ")


@pytest.mark.parametrize("words", [[], ["study"], ["cassette"]], ids=" ".join)
def test_the_first_help_line_of_every_command_fits_80_columns(youden: Youden, words: list[str]) -> None:
    ended = youden(*words, "--help")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "..." not in ended.out.replace("[ARGS]...", "")


def test_help_lists_every_command_in_a_group(youden: Youden) -> None:
    listed = youden("--help").out
    at = [listed.index(f"\n{heading}:\n") for heading in cli.HEADINGS]
    assert at == sorted(at)
    for name in cli.COMMANDS:
        assert re.search(rf"^  {name} ", listed, re.MULTILINE), name


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["rnu"], "'run'"), (["chek"], "'check'"), (["study", "lnks"], "'links'"), (["cassette", "exprot"], "'export'")],
    ids=" ".join,
)
def test_a_mistyped_command_gets_a_suggestion(youden: Youden, words: list[str], meant: str) -> None:
    ended = youden(*words)
    assert ended.code == 2
    assert f"Did you mean {meant}" in ended.err


def test_an_unknown_command_without_a_similar_one_gets_the_list(youden: Youden) -> None:
    assert f"Available commands: {', '.join(STUDIES)}." in " ".join(youden("study", "zzzz").err.split())


def test_every_fraction_option_has_the_metavar_fraction() -> None:
    for name, command in commands():
        for option in command.params:
            if isinstance(option.type, click.FloatRange) and option.type.max == 1 and option.name != "half_width":
                assert option.metavar == "FRACTION", f"{name} {option.opts}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(youden: Youden, shell: str) -> None:
    assert "_YOUDEN_COMPLETE" in youden("completion", shell).out


def test_completion_script_queries_are_answered() -> None:
    asked = {"_YOUDEN_COMPLETE": "bash_complete", "COMP_WORDS": "youden ca", "COMP_CWORD": "1"}
    script = "import sys\nsys.argv = ['youden']\nfrom youden import cli\ncli.main()"
    ended = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == ["plain,calibrate", "plain,cassette"]


def test_chart_lists_every_figure(youden: Youden, tmp_path: Path) -> None:
    drawn = {figure.slug for figure in draw_figures(ReportData(judged(tmp_path / "run", holdout=0.2)))}
    code = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "report" / "charts").glob("*.py"))
    assert drawn <= set(CHARTS)
    assert all(f'"{chart}"' in code for chart in CHARTS)
    assert all(chart in youden("report", "--help").out for chart in CHARTS)
    assert "'ranking'" in youden("report", "run", "--chart", "rankng").err


def test_init_writes_a_valid_config_and_prints_the_next_step(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    ended = youden("init")
    assert ended.code == 0
    assert ended.out.splitlines()[1].startswith("next: youden check mine.yaml")
    text = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    assert "5 agents × 12 items: 60 responses, 0 missing" in text
    assert "# The maximum cost of the run over all commands, in USD." in text
    assert youden("run", "mine.yaml").code == 0
    again = youden("init", "mine.csv")
    assert again.code == 0
    assert "mine.yaml exists and is unchanged; mine.csv: nothing new" in again.out
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == text
    write_pool_table(tmp_path / "other.csv")
    for words in (("mine.csv", "--judge", "lexical"), ("other.csv", "--out", "mine.yaml")):
        refused = youden("init", *words)
        assert refused.code == 2
        assert "[init-exists]" in refused.err


def test_init_adds_a_pool_to_the_imported_pool_of_a_config(youden: Youden, tmp_path: Path) -> None:
    rows = [f"{model},q{item},{model} says {item}" for model in "abc" for item in range(8)]
    (tmp_path / "raw.csv").write_text("\n".join(["model,question_id,response", *rows]), encoding="utf-8")
    youden("init", "raw.csv").well()
    pool = read_pool(tmp_path / "pools" / "raw")
    new_agent = pool.with_agents([Agent("d")], [pool.texts[:1]])
    write_pool(new_agent, tmp_path / "more")
    assert "1 new agent" in youden("init", "more", "--out", "raw.yaml").well().out
    assert [agent.id for agent in read_pool(tmp_path / "pools" / "raw").agents] == ["a", "b", "c", "d"]


def test_init_sets_a_cap_for_a_jury_that_makes_calls(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "panel.yaml", backend="jury", judges=["gpt-4o-mini", "claude-haiku-4.5", "lexical"])
    youden("init", "mine.csv", "--judge", "panel.yaml").well()
    text = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    assert "\nmax_cost: " in text
    assert "with panel." in text


def test_settings_that_comments_of_init_suggest_are_valid(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    youden("init", "mine.csv")
    lines = (tmp_path / "mine.yaml").read_text(encoding="utf-8").splitlines()
    offered = [line for line in lines if re.match(r"# [a-z_]+: ", line) and isinstance(yaml.safe_load(line[2:]), dict)]
    assert len(offered) == 4
    for line in offered:
        key = line[2:].split(":")[0]
        kept = [entry for entry in lines if not entry.startswith(f"{key}:")]
        (tmp_path / "one.yaml").write_text("\n".join([*kept, line[2:]]), encoding="utf-8")
        assert getattr(load_run_config(tmp_path / "one.yaml"), key) is not None


@pytest.mark.parametrize("key", ["", "sk-test"])
def test_init_selects_the_judge_with_an_available_key_and_sets_a_cap(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    write_pool_table(tmp_path / "mine.csv")
    data = json.loads(youden("init", "mine.csv", "--out", "sub/c.yaml", "--json").out)
    config = load_run_config(tmp_path / "sub" / "c.yaml")
    assert config.judge == data["judge"] == ("gpt-4o-mini" if key else "lexical")
    assert (config.max_cost is not None) == bool(key)
    assert Path(config.pool).samefile(tmp_path / "mine.csv")
    assert youden("plan", "sub/c.yaml").code == 0


def test_init_without_agents_states_what_to_do(youden: Youden, tmp_path: Path) -> None:
    rows = [f"q{item},{text}" for item, text in enumerate(["a b", "c d", "e f"])]
    (tmp_path / "raw.csv").write_text("\n".join(["question_id,response", *rows]), encoding="utf-8")
    ended = youden("init", "raw.csv")
    assert ended.code == 2
    assert "That gives 1 agent, and a ranking needs 3." in ended.err
    assert "--column agent=NAME" in ended.err
    assert ended.err.endswith("[init-columns]\n")
    assert not (tmp_path / "pools").exists()


def test_a_table_with_empty_responses_states_them_in_a_column(youden: Youden, tmp_path: Path) -> None:
    rows = [
        f"m{agent},q{item},{'' if agent == item else 'said'},{'yes' if agent == 1 else ''}"
        for agent in range(4)
        for item in range(3)
    ]
    (tmp_path / "raw.csv").write_text("\n".join(["model,question_id,response,empty", *rows]), encoding="utf-8")
    data = json.loads(youden("init", "raw.csv", "--json").out)
    assert data["left_out"] == {"an empty cell in place of a text": 2}
    assert (data["pool"], data["missing"]) == ("pools/raw", 2)
    assert (tmp_path / ".youden" / "config.schema.json").is_file()
    first = (tmp_path / "raw.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=.youden/config.schema.json"


def test_init_without_arguments_lists_the_candidate_pools(youden: Youden, tmp_path: Path) -> None:
    assert "[init-none]" in youden("init").err
    for name in ("one", "other"):
        write_pool_table(tmp_path / f"{name}.csv")
    (tmp_path / "labels.csv").write_text("agent,quality\na0,1\n", encoding="utf-8")
    assert "2 pools here: one.csv, other.csv." in youden("init").err


def test_doctor_lists_every_extra_and_the_commands_that_need_missing_ones(
    youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr("youden.extras.find_spec", lambda name: None if name == "duckdb" else object())
    ended = youden("doctor")
    assert ended.code == 0
    assert "missing  duckdb" in ended.out
    assert "youden export SOURCE FILE.duckdb" in ended.out
    assert format_install("duckdb") in ended.out
    assert "gpt-4o-mini: OPENAI_API_KEY is set" in ended.out
    assert "sk-secret" not in ended.out
    data = json.loads(youden("doctor", "--json").out)
    assert [name for name, extra in data["extras"].items() if extra["missing"]] == ["duckdb"]


def test_the_table_of_extras_equals_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {name: needs for name, needs in project["optional-dependencies"].items() if name not in DEVELOPERS}
    assert set(EXTRAS) == set(declared)
    for name, needs in declared.items():
        packages = {
            re.split(r"[\[<>=]", need)[0]
            .replace("-", "_")
            .removesuffix("_python")
            .removesuffix("_skinny")
            .removesuffix("_api")
            .replace("scikit_learn", "sklearn")
            for need in needs
        }
        assert set(EXTRAS[name].modules) | {"openai"} >= packages, name
