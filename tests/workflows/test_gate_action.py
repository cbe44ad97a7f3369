"""Run the steps of the GitHub Actions examples and of the action in a shell."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from jsonschema import Draft7Validator

from commands import Youden, write_config
from small_pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.data.pools.pool_reader import write_pool
from youden.types import Agent

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "github-actions"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
VALUES = {"github.action_path": str(ROOT), "github.event.pull_request.number": "7", "github.token": "t"}
"""Values that the runner sets in addition to the inputs."""

WORKFLOW = yaml.safe_load((EXAMPLE / "gate.yml").read_text(encoding="utf-8"))
JOB = WORKFLOW["jobs"]["gate"]
SCRIPTS = [step["run"] for step in JOB["steps"] if "run" in step]
RECORDED = (
    "gate",
    "runs/release",
    "--agent",
    "new-model",
    "--baseline",
    "old-model",
    "--ledger",
    "cassettes/gates.json",
)


def test_the_workflow_names_no_secret_and_runs_only_youden() -> None:
    assert WORKFLOW[True] == "pull_request"  # YAML reads the key `on` as true
    assert "secrets" not in (EXAMPLE / "gate.yml").read_text(encoding="utf-8")
    assert SCRIPTS[0] == "pip install youden"
    assert [script.split()[:2] for script in SCRIPTS[1:]] == [
        ["youden", "cassette"],
        ["youden", "run"],
        ["youden", "gate"],
    ]


def recorded(youden: Youden, server: WireServer, tmp_path: Path) -> Path:
    """Create a checkout with a pool, a config and a cassette in which new-model (agent 0) is worse."""

    def behave(_n: int, body: Mapping[str, Any]) -> Reply:
        return Reply("NO" if "agent 0 says" in str(body) else same_item(body))

    server.behave = behave
    pool = make_pool(5, 12)
    named = {0: "new-model", 1: "old-model"}
    agents = tuple(Agent(named.get(i, agent.id)) for i, agent in enumerate(pool.agents))
    write_pool(replace(pool, agents=agents), tmp_path / "pool")
    shutil.copy(EXAMPLE / "release.yaml", tmp_path)
    write_config(tmp_path / "judge.yaml", backend="openai", model="m", base_url=server.url, api_key_env=None, price=0)
    assert youden("run", "release.yaml", "--judge", "judge.yaml").code == 0
    assert youden("cassette", "export", "runs/release", "--out", "cassettes/release.jsonl").code == 0
    assert youden(*RECORDED).code == 1
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("pool", "cassettes"):
        shutil.copytree(tmp_path / name, checkout / name)
    shutil.copy(EXAMPLE / "release.yaml", checkout)
    return checkout


def tools(tmp_path: Path) -> dict[str, str]:
    """Create an environment with youden, and a `gh` that records how it is called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    code = f"exec '{sys.executable}' -c 'from youden.cli import main; main()' \"$@\""
    for name, script in {"youden": code, "gh": f'echo "$@" >> "{tmp_path}/gh.txt"'}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    written = {f"GITHUB_{name.upper()}": str(tmp_path / f"{name}.md") for name in ("step_summary", "output")}
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return os.environ | written | {"PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(script: str, *, here: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=here,
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )


def act(here: Path, environment: dict[str, str], **given: str) -> tuple[int, str]:
    """Return exit code and output of the action's steps after installation, run like the runner with these inputs."""
    output = {name: field.get("default", "") for name, field in ACTION["inputs"].items()} | given
    assert not {name for name, field in ACTION["inputs"].items() if field.get("required") and not output[name]}
    out = ""
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] == "Install youden":
            continue
        asked = re.fullmatch(r"inputs\.([\w-]+) != ''", step.get("if", ""))
        if asked and not output[asked[1]]:
            continue
        own = {
            name: re.sub(
                r"\$\{\{ (.*?) \}\}",
                lambda result: VALUES.get(result[1]) or output[result[1].removeprefix("inputs.")],
                text,
            )
            for name, text in step["env"].items()
        }
        ended = run(step["run"], here=here, environment=environment | own)
        out += ended.stdout
        if ended.returncode:
            return ended.returncode, out + ended.stderr
    return 0, out


@pytest.mark.slow
def test_the_action_and_every_workflow_fit_the_schemas_of_github() -> None:
    schemas = pytest.importorskip("check_jsonschema")
    vendor = Path(schemas.__file__).parent / "builtin_schemas" / "vendor"
    files = {ROOT / "action.yml": "actions"}
    files |= dict.fromkeys([*EXAMPLE.glob("*.yml"), *(ROOT / ".github" / "workflows").glob("*.yml")], "workflows")
    assert len(files) > 3
    for path, kind in files.items():
        schema = json.loads((vendor / f"github-{kind}.json").read_text(encoding="utf-8"))
        typed = yaml.safe_load(path.read_text(encoding="utf-8"))
        if True in typed:  # YAML 1.1 reads the key `on` as true
            typed["on"] = typed.pop(True)
        Draft7Validator(schema).validate(typed)


def test_no_script_of_the_action_interpolates_text_of_a_pull_request() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


GIVEN = {"agent": "new-model", "baseline": "old-model", "config": "release.yaml"}


def recording(tmp_path: Path) -> dict[str, str]:
    """Return the environment of `tools` with a `youden` that records its arguments, one call per line of JSON."""
    environment = tools(tmp_path)
    note = "import json, sys; print(json.dumps(sys.argv[1:]), file=open(sys.argv.pop(1), 'a'))"
    write = "open('gate.md', 'w').write('## passed 100%0A::set-output name=x::y\\n')"
    (tmp_path / "bin" / "youden").write_text(
        f"#!/bin/sh\n'{sys.executable}' -c \"{note}\" '{tmp_path}/calls.jsonl' \"$@\"\n"
        f"'{sys.executable}' -c \"{write}\"\necho '::add-mask::a'\n"
    )
    return environment


def calls(tmp_path: Path) -> list[list[str]]:
    file = tmp_path / "calls.jsonl"
    return [json.loads(line)[1:] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("config", "release.yaml\noutcome=passed"),
        ("config", "release.yaml\n"),
        ("config", "rel\rease.yaml"),
        ("config", "-release.yaml"),
        ("config", "...yaml"),
        ("config", ".yaml"),
        ("config", "release"),
        ("config", "runs/$(touch pwned).yaml"),
        ("agent", " \n "),
        ("baseline", "old\noutcome=passed"),
        ("margin", "0.05 --rule x"),
        ("margin", "$(touch pwned)"),
        ("max-cost", "1; touch pwned"),
        ("judge", "a\nb"),
        ("store", "a\n::add-mask::b"),
        ("ledger", "gates.json\n"),
        ("undecided", "never"),
        ("comment", "yes"),
        ("install", "youden\n--index-url=https://evil.example"),
    ],
)
@pytest.mark.posix
def test_an_input_with_another_effect_is_refused_before_anything_runs(name: str, value: str, tmp_path: Path) -> None:
    code, out = act(tmp_path, recording(tmp_path), **GIVEN | {name: value})
    assert code == 2
    assert re.fullmatch(rf"::error title=youden gate::The input '{name}' [^\n]+\.\n", out), out
    assert calls(tmp_path) == []
    assert not (tmp_path / "output.md").exists()
    assert not (tmp_path / "pwned").exists()


@pytest.mark.slow
@pytest.mark.posix
def test_names_of_any_kind_are_passed_unchanged_to_the_commands(tmp_path: Path) -> None:
    (tmp_path / "here.txt").touch()
    hostile = {
        "agent": "* -x $(touch pwned) `touch pwned` ;touch\nnew-model",
        "baseline": "--agent=other $(touch pwned)",
        "config": "deep/re lease.v2.yaml",
        "judge": "-judge * $HOME",
        "store": "--store *",
        "ledger": "-",
        "cassette": "--help",
        "generate": "-agents *.yaml",
        "pool": "* pool",
        "max-cost": "5",
    }
    code, out = act(tmp_path, recording(tmp_path), **hostile)
    assert code == 0, out
    words = ["*", "-x", "$(touch", "pwned)", "`touch", "pwned`", ";touch", "new-model"]
    assert calls(tmp_path) == [
        ["cassette", "import", "--store=--store *", "--", "--help"],
        ["generate", "--out=* pool", "--store=--store *", "--max-cost=5", "--", "-agents *.yaml"],
        [
            "run",
            "--out=runs/re lease.v2",
            "--store=--store *",
            "--judge=-judge * $HOME",
            "--max-cost=5",
            "--",
            hostile["config"],
        ],
        [
            "gate",
            *(f"--agent={word}" for word in words),
            f"--baseline={hostile['baseline']}",
            "--margin=0.05",
            "--ledger=-",
            *("--junit", "gate.xml", "--markdown", "gate.md"),
            *("--", "runs/re lease.v2"),
        ],
    ]
    assert (tmp_path / "output.md").read_text() == "outcome=passed\nrun=runs/re lease.v2\n"
    assert not (tmp_path / "pwned").exists()
    printed = out.splitlines()
    pause = printed.index(next(line for line in printed if line.startswith("::stop-commands::")))
    assert printed[pause + 1 : pause + 3] == ["::add-mask::a", f"::{printed[pause].rpartition('::')[2]}::"]
    assert printed[-1] == "::notice title=youden gate::passed 100%250A::set-output name=x::y"


@pytest.mark.slow
@pytest.mark.posix
def test_no_module_of_the_checkout_shadows_pip(tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text("open('pwned', 'w')\n")
    step = next(field for field in ACTION["runs"]["steps"] if field.get("name") == "Install youden")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ended = run(step["run"], here=tmp_path, environment=os.environ | {"PATH": path, "INSTALL": "--version", "HERE": ""})
    assert ended.returncode != 0
    assert "--version" in ended.stderr or "No module named pip" in ended.stderr
    assert not (tmp_path / "pwned").exists()


@pytest.mark.slow
def test_the_action_replays_a_cassette_annotates_and_comments(
    youden: Youden, server: WireServer, tmp_path: Path
) -> None:
    checkout = recorded(youden, server, tmp_path)
    n_requests = server.n_requests
    code, out = act(
        checkout,
        tools(tmp_path),
        **{"agent": "new-model", "baseline": "old-model", "cassette": "cassettes/release.jsonl", "comment": "true"},
        ledger="cassettes/gates.json",
    )
    assert (code, server.n_requests) == (1, n_requests), out
    assert "::error title=youden gate::❌ worse: new-model against old-model" in out
    assert "outcome=worse\nrun=runs/release" in (tmp_path / "output.md").read_text()
    assert (tmp_path / "step_summary.md").read_text(encoding="utf-8").startswith("## ❌ worse")
    assert (tmp_path / "gh.txt").read_text() == "pr comment 7 --body-file gate.md --edit-last --create-if-none\n"
    assert ET.parse(checkout / "gate.xml").getroot().get("failures") == "1"


@pytest.mark.slow
def test_the_action_generates_and_judges_and_can_warn_on_an_inconclusive_gate(
    server: WireServer, tmp_path: Path
) -> None:
    def behave(_n: int, body: Mapping[str, Any]) -> Reply:
        numbers = re.findall(r"Town (\d+)", str(body["messages"]))
        return Reply("YES" if len(set(numbers)) == 1 else "NO")

    server.behave = behave
    items = [{"id": f"i{j}", "prompt": f"Town {j} rebuilt. Bread {j} is baked. Rain fell."} for j in range(12)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(field) + "\n" for field in items))
    created = [("new-model", "lead: {n: 1}"), ("old-model", "lead: {n: 2}"), ("third", "lead: {n: 3}")]
    agents = "".join(f"  - {{id: {name}, steps: [{{{step}}}]}}\n" for name, step in created)
    (tmp_path / "agents.yaml").write_text(f"items: items.jsonl\nagents:\n{agents}")
    (tmp_path / "live.yaml").write_text("pool: pool\n")
    write_config(tmp_path / "judge.yaml", backend="openai", model="m", base_url=server.url, api_key_env=None, price=0)
    given = {"agent": "new-model", "baseline": "old-model", "config": "live.yaml", "judge": "judge.yaml"}
    environment = tools(tmp_path)
    code, out = act(tmp_path, environment, **given, generate="agents.yaml", undecided="warning")
    assert (code, server.n_requests > 0) == (0, True), out
    assert "::warning title=youden gate::" in out
    code, out = act(tmp_path, environment, **given)
    assert code == 3
    assert "::error title=youden gate::" in out
    assert not (tmp_path / "gh.txt").exists()


@pytest.mark.slow
def test_the_steps_run_the_gate_on_a_recorded_cassette(youden: Youden, server: WireServer, tmp_path: Path) -> None:
    checkout = recorded(youden, server, tmp_path)
    committed = (tmp_path / "cassettes" / "gates.json").read_bytes()

    n_requests = server.n_requests
    environment = tools(tmp_path) | JOB["env"]
    ended = [run(script, here=checkout, environment=environment) for script in SCRIPTS[1:]]
    assert [field.returncode for field in ended] == [0, 0, 1], [field.stderr for field in ended]
    assert server.n_requests == n_requests
    assert ET.parse(checkout / "gate.xml").getroot().get("failures") == "1"
    summary = (tmp_path / "step_summary.md").read_text(encoding="utf-8")
    assert summary.startswith("## ❌ worse: new-model against old-model")
    assert (checkout / "cassettes" / "gates.json").read_bytes() == committed
    assert (checkout / "runs" / "release" / "report.html").exists()
