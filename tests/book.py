"""Read the code blocks of the documentation pages and README, and run them in a prepared folder."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pandas as pd

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


class Block(NamedTuple):
    """A block of code; `line` is the line of the page at which its code begins."""

    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text[: match.start(2)].count("\n") + 1)
        for match in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]


def pages() -> list[Path]:
    """Return README and every page of the documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def making(name: str) -> ModuleType:
    """Import a module of `docs/making`, which builds generated pages."""
    return program(f"making.{name}")


def program(name: str) -> ModuleType:
    """Import a module below `docs`."""
    sys.path.append(str(DOCS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


def fake_judge() -> ModuleType:
    """Import `examples/fake_judge.py`."""
    spec = importlib.util.spec_from_file_location("fake_judge", ROOT / "examples" / "fake_judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def judging() -> Iterator[int]:
    """Run the fake judge of the tutorial on a free port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), fake_judge().FakeJudge) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()


def furnish(folder: Path, port: int) -> None:
    """Create what a page assumes: a pool, one with two more agents, and judge names that select the fake judge."""
    pool = pd.read_json(ROOT / "datasets" / "field-notes" / "responses.jsonl", lines=True)
    items = pd.read_json(ROOT / "datasets" / "field-notes" / "items.jsonl", lines=True)
    table = pool.merge(items.rename(columns={"id": "item"})[["item", "prompt"]], on="item")
    table = table[["agent", "item", "text", "prompt"]]
    late = table.agent.isin(["newcomer", "chatty"])
    table[~late].to_csv(folder / "mine.csv", index=False)
    table[late].to_csv(folder / "new.csv", index=False)
    (folder / "configs" / "judges").mkdir(parents=True)
    for name in ("gpt-4o-mini", "llama3-70b"):
        (folder / "configs" / "judges" / f"{name}.yaml").write_text(
            f"backend: wire\nmodel: {name}\nbase_url: http://127.0.0.1:{port}/v1\napi_key_env: null\n"
            "price_in: 0.15\nprice_out: 0.6\nbatch_discount: 0.5\ncontext_window: 128000\nmax_tokens: 8\n",
            encoding="utf-8",
        )
    (folder / "mine.yaml").write_text("pool: mine.csv\njudge: gpt-4o-mini\nmax_cost: 2.00\n", encoding="utf-8")


def run_page(page: Path, folder: Path, command: Callable[[list[str]], int]) -> None:
    """Run the blocks of Python and sh of a page in order.

    A config is written to the file that its first line names. `command` runs one `youden …` in this process and
    returns its exit code.
    """
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.language == "yaml" and (match := re.match(r"# (\S+\.ya?ml)\n", block.code)):
            (folder / match[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / match[1]).write_text(block.code, encoding="utf-8")
        elif block.language == "python" and "def test_" not in block.code:  # those run under pytest: test_readme.py
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)  # noqa: S102
        elif block.language == "sh":
            for line in lines(block.code):
                run_line(line, folder, command, where=f"{page.name}:{block.line}")


def lines(code: str) -> Iterator[str]:
    """Return the commands of a block of sh; continued lines are joined."""
    for line in code.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def run_line(line: str, folder: Path, command: Callable[[list[str]], int], *, where: str) -> None:
    """Run one command; `# exit 1 or 3` at its end lists the expected exit codes."""
    allowed = {0, *map(int, re.findall(r"\d", line.partition("# exit")[2]))}
    bare = re.sub(r"\s+#.*$", "", line)
    if re.fullmatch(r"youden [^|&;><$]*", bare):
        import shlex

        code = command(shlex.split(bare)[1:])
    else:
        tools = folder / ".tools"
        tools.mkdir(exist_ok=True)
        for name, words in {"youden": "-m youden", "python3": ""}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            (tools / name).chmod(0o755)
        path = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
        environment = {name: value for name, value in os.environ.items() if name != "CI"} | path
        code = subprocess.run(["bash", "-c", bare], cwd=folder, env=environment, check=False).returncode
    assert code in allowed, f"{where}: {line} ended with {code}"


def copied(template: Path, folder: Path) -> None:
    """Copy the folder `template` for one page."""
    shutil.copytree(template, folder, dirs_exist_ok=True)
