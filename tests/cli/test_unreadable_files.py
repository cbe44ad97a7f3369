"""Test files that no command can read (deep nesting, pipes, sockets, devices, non-finite numbers) and stop messages."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Youden
from importer_files import write
from youden import cli

CONFIG = "pool: datasets/field-notes\njudge: lexical\ncalls: 400\nout: run\n"
JUDGE = "backend: openai\nmodel: m\nbase_url: http://127.0.0.1:9/v1\napi_key_env: null\nprice: 0\n"
DEPTHS = [300, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (900, 5_000))]


def deep_json(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.fixture
def run_folder(youden: Youden, tmp_path: Path) -> Path:
    """Create a completed run and files of judges."""
    (tmp_path / "ok.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "j.yaml").write_text(JUDGE, encoding="utf-8")
    youden("run", "ok.yaml").well()
    return tmp_path / "run"


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_nesting_in_any_file_of_a_run_is_an_error_with_its_name(
    youden: Youden, run_folder: Path, depth: int
) -> None:
    for name in ("pool.json", "fit.json", "variance_components.json", "signature.json"):
        file = run_folder / name
        content = file.read_bytes()
        for text in (deep_json(depth), f'{{"version": 1, "name": {deep_json(depth)}}}'):
            file.write_text(text, encoding="utf-8")
            ended = youden("report", "run")
            assert ended.code == 2
            assert name in ended.err
            assert "Traceback" not in ended.err
        file.write_bytes(content)
    youden("report", "run").well()


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_nesting_in_an_argument_file_is_an_error_with_its_name(
    youden: Youden, run_folder: Path, tmp_path: Path, depth: int
) -> None:
    deep, flow = deep_json(depth), "{a: " * depth + "1" + "}" * depth
    (tmp_path / "deep.yaml").write_text(f"{CONFIG}options: {flow}\n", encoding="utf-8")
    (tmp_path / "judge.yaml").write_text(f"{JUDGE}parameters: {flow}\n", encoding="utf-8")
    (tmp_path / "prompt.md").write_text(f"---\nlabels: {deep}\n---\n{{{{first}}}} {{{{second}}}}\n", encoding="utf-8")
    (tmp_path / "by.yaml").write_text(f"{JUDGE}prompt: prompt.md\n", encoding="utf-8")
    (tmp_path / "agents.yaml").write_text(f"agents: {deep}\n", encoding="utf-8")
    (tmp_path / "ledger.json").write_text(f'{{"analyses": {deep}}}', encoding="utf-8")
    (tmp_path / "cassette.jsonl").write_text(f'{{"cassette": 2, "judges": {deep}}}\n', encoding="utf-8")
    (tmp_path / "answers.jsonl").write_text(f"{deep}\n", encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text(f'{{"agent": "a", "item": "b", "text": {deep}}}\n', encoding="utf-8")
    commands = {
        "deep.yaml": ("check", "deep.yaml"),
        "judge.yaml": ("plan", "ok.yaml", "--judge", "judge.yaml"),
        "prompt.md": ("plan", "ok.yaml", "--judge", "by.yaml"),
        "agents.yaml": ("generate", "agents.yaml", "--out", "made"),
        "ledger.json": ("gate", "run", "--agent", "plain", "--baseline", "plain", "--ledger", "ledger.json"),
        "cassette.jsonl": ("cassette", "verify", "cassette.jsonl"),
        "rows.jsonl": ("import", "table", "rows.jsonl", "--out", "imported"),
    }
    for name, command in commands.items():
        ended = youden(*command)
        assert ended.code == 2, (name, ended)
        assert name in ended.err, name
        assert "Traceback" not in ended.err


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound_socket:
        before = Path.cwd()
        os.chdir(path.parent)  # the address of a socket is short
        bound_socket.bind(path.name)
        os.chdir(before)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


SPECIAL: dict[str, Callable[[Path], None]] = {"a named pipe": pipe, "a socket": bound, "a device": device}
COMMANDS = {
    "p.csv": ("check", "p.csv"),
    "p.parquet": ("check", "p.parquet"),
    "c.yaml": ("check", "c.yaml"),
    "i.csv": ("init", "i.csv"),
    "judge.yaml": ("plan", "ok.yaml", "--judge", "judge.yaml"),
    "prompt.md": ("plan", "ok.yaml", "--judge", "by.yaml"),
    "l.csv": ("quality", "run", "--labels", "l.csv"),
    "l.jsonl": ("quality", "run", "--labels", "l.jsonl"),
    "l.xlsx": ("quality", "run", "--labels", "l.xlsx"),
    "l.parquet": ("quality", "run", "--labels", "l.parquet"),
    "agents.yaml": ("generate", "agents.yaml", "--out", "made"),
    "ledger.json": ("gate", "run", "--agent", "plain", "--baseline", "plain", "--ledger", "ledger.json"),
    "cassette.jsonl": ("cassette", "verify", "cassette.jsonl"),
    "answers.jsonl": ("judge", "ok.yaml", "--judge", "j.yaml", "--out", "other", "--import", "answers.jsonl"),
    "t.jsonl": ("import", "table", "t.jsonl", "--out", "imported"),
    "log.eval": ("import", "inspect", "log.eval", "--out", "imported"),
}


@pytest.mark.posix
@pytest.mark.parametrize(
    "kind", ["a named pipe", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("a socket", "a device"))]
)
def test_a_path_that_is_no_regular_file_is_an_error_without_waiting(
    youden: Youden, run_folder: Path, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "by.yaml").write_text(f"{JUDGE}prompt: prompt.md\n", encoding="utf-8")
    for name, command in COMMANDS.items():
        SPECIAL[kind](tmp_path / name)
        ended = youden(*command)
        assert ended.code == 2, (name, ended)
        assert name in ended.err
        assert f"it is {kind}" in ended.err or "[import-no-file]" in ended.err, (name, ended.err)
        (tmp_path / name).unlink()


@pytest.mark.posix
def test_a_symlink_to_a_regular_file_is_read(youden: Youden, tmp_path: Path) -> None:
    rows = [{"agent": agent, "item": str(n), "text": f"{agent} {n}"} for agent in "abc" for n in range(3)]
    write(tmp_path / "real.jsonl", *rows)
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    youden("import", "table", "link.jsonl", "--out", "imported").well()


NUMBERS = {".inf": "inf", "-.inf": "-inf", ".nan": "nan"}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("judge.price_in", "judge: {{backend: openai, model: m, price_in: {0}}}"),
        ("judge.price", "judge: {{backend: openai, model: m, price: {0}}}"),
        ("judge.parameters.top_p", "judge: {{backend: openai, model: m, parameters: {{top_p: {0}}}}}"),
        ("judge.judges.1.timeout", "judge: {{backend: jury, judges: [lexical, {{backend: openai, timeout: {0}}}]}}"),
        ("options.beta", "options: {{beta: {0}}}"),
        ("options.a.b", "options: {{a: {{b: {0}}}}}"),
        ("max_cost", "max_cost: {0}"),
        ("holdout", "holdout: {0}"),
        ("calls", "calls: {0}"),
    ],
)
def test_a_number_that_is_not_finite_is_an_error_with_its_key(
    youden: Youden, tmp_path: Path, number: str, key: str, text: str
) -> None:
    config = f"pool: datasets/field-notes\n{text.format(number)}\nout: run\n"
    (tmp_path / "c.yaml").write_text(config, encoding="utf-8")
    ended = youden("plan", "c.yaml")
    assert ended.code == 2
    assert f"'{key}' is {NUMBERS[number]}" in ended.err
    assert "constrained" not in ended.err
    assert "valid string" not in ended.err


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("key", ["price_in", "price_out", "timeout", "temperature", "max_outage", "batch_discount"])
def test_a_number_that_is_not_finite_in_a_judge_file_is_an_error(
    youden: Youden, tmp_path: Path, number: str, key: str
) -> None:
    (tmp_path / "ok.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "j.yaml").write_text(f"backend: openai\nmodel: m\n{key}: {number}\n", encoding="utf-8")
    ended = youden("plan", "ok.yaml", "--judge", "j.yaml")
    assert ended.code == 2
    assert f"'{key}' is {NUMBERS[number]}: Input should be a finite number" in ended.err


def test_a_judge_that_is_neither_a_name_nor_a_mapping_is_an_error(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("pool: datasets/field-notes\njudge: 3\n", encoding="utf-8")
    assert "'judge' is 3:" in youden("plan", "c.yaml").err


@pytest.mark.parametrize("command", [*cli.COMMANDS, "study aa", "no-such-command", ""])
def test_only_commands_that_send_requests_state_that_they_resume(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(sys, "argv", ["youden", *command.split(), "some.yaml"])
    words = cli._format_stop_message(signal.SIGTERM)
    assert words.startswith("Stopped (SIGTERM).")
    resumes = command in ("demo", "run", "judge", "generate", "calibrate", "stress", "extend", "rejudge")
    assert ("Received answers are stored. To resume, run: youden" in words) == resumes


@pytest.mark.slow
@pytest.mark.posix
def test_a_stopped_viewer_does_not_state_that_it_resumes(run_folder: Path) -> None:
    command = [sys.executable, "-m", "youden", "view", "run", "--no-open"]
    with subprocess.Popen(
        command, cwd=run_folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "http" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert "Stopped (SIGTERM)." in output.splitlines()  # asyncio may add a line if its loop was not complete yet
    assert "same command" not in output
