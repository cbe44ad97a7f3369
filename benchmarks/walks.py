"""How many files of src a reader visits on eight walks: those whose functions run in one call, imports not counted.

config: `plan_run` of a config file. judge_run: `judge_run` of such a plan over a local server of chat completions. asked and
stored: `youden.judge` over that server. --max-cost: the same, ended by its cap. cyclic rank and its interval: `youden.rank`.
run: `youden run` with a judge that makes no calls. fit: `fit_run` of such a run's folder. extend: `youden extend` of it, which is
asked, fitted and reported as any other; `beyond run` are the files that only extending takes a reader to.

`python benchmarks/walks.py [--out FILE]` prints JSON: for each walk the number of files, the number of distinct functions that
are called, the number of their calls, the bar for the files, and the files' names. Under `size`: the files of src, its lines of
code (without blank lines, comments and docstrings), statements, public names at the top of a module, classes, classes per 1,000
lines of code, and the share of classes whose body defines no method. `--size` prints the sizes alone.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple, TypeGuard

from click.testing import CliRunner

import youden
from youden.cli import youden as command
from youden.data.folder.run_config import load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.errors import BudgetError
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import PlannedRun, judge_run, plan_run

SOURCE = Path(youden.__file__).parent
POOL = Path(__file__).parents[1] / "datasets" / "field-notes"
BEFORE = {"asked and stored": 23, "cyclic rank and its interval": 29, "--max-cost": 12, "extend": 168}
"""What the issue that asked for this counted in 0.1.0; the bar is half of it."""


class YesServer(BaseHTTPRequestHandler):
    """Says YES to every chat completion."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "YES"}}
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "yes", "choices": [choice]}
        said = json.dumps({**body, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def yes_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), YesServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


class Walk(NamedTuple):
    """The files of src whose functions ran, the number of distinct functions, and how often they were called."""

    files: list[str]
    n_functions: int
    n_calls: int


def trace(walk: Callable[[], object]) -> Walk:
    """Record which functions of src run in a second call of `walk`; the first call imports what it needs."""
    walk()
    n_calls: Counter[CodeType] = Counter()

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            n_calls[frame.f_code] += 1

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = {code: Path(code.co_filename) for code in n_calls}
    ours = {code: path for code, path in paths.items() if path.suffix == ".py" and path.is_relative_to(SOURCE)}
    files = sorted({path.relative_to(SOURCE).as_posix() for path in ours.values()})
    return Walk(files, len(ours), sum(n_calls[code] for code in ours))


NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


METHODS = ast.FunctionDef | ast.AsyncFunctionDef


def size_of(source: Path) -> dict[str, float]:
    """Count the code of a folder."""
    paths = sorted(source.rglob("*.py"))
    counts = {"files": len(paths), "lines of code": 0, "statements": 0, "public names": 0, "classes": 0}
    n_without_methods = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in NO_CODE]
        code = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
        said = {line for node in nodes if is_text(node) for line in range(node.lineno, (node.end_lineno or 0) + 1)}
        counts["lines of code"] += len(code - said)
        counts["statements"] += sum(isinstance(node, ast.stmt) for node in nodes)
        named = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
        counts["public names"] += sum(not node.name.startswith("_") for node in named)
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        counts["classes"] += len(classes)
        n_without_methods += sum(not any(isinstance(part, METHODS) for part in node.body) for node in classes)
    return {
        **counts,
        "classes per 1,000 lines of code": round(1000 * counts["classes"] / counts["lines of code"], 2),
        "share of classes without methods": round(n_without_methods / counts["classes"], 3),
    }


def is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """A docstring, or a text that stands below what it describes."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def write_pool(folder: Path, *, agents: slice) -> Path:
    """Some agents of the pool that is shipped."""
    folder.mkdir()
    kept = (POOL / "agents.jsonl").read_text(encoding="utf-8").splitlines()[agents]
    ids = {json.loads(line)["id"] for line in kept}
    lines = (POOL / "responses.jsonl").read_text(encoding="utf-8").splitlines()
    responses = [line for line in lines if json.loads(line)["agent"] in ids]
    (folder / "items.jsonl").write_bytes((POOL / "items.jsonl").read_bytes())
    (folder / "agents.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
    (folder / "responses.jsonl").write_text("\n".join(responses) + "\n", encoding="utf-8")
    return folder


def run_command(*words: object) -> None:
    CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)


def walks(folder: Path, url: str) -> dict[str, Callable[[], object]]:
    """Each as a call that can be repeated."""
    number = count()
    pool = youden.read_pool(write_pool(folder / "old", agents=slice(8)))
    write_pool(folder / "new", agents=slice(8, 11))
    plan = youden.make_plan(pool, design="cyclic", calls=200, seed=1)
    free = {"backend": "wire", "model": "yes", "base_url": url, "api_key_env": None, "price": 0}
    paid = {name: value for name, value in free.items() if name != "price"} | {"price_in": 1000.0, "price_out": 1000.0}
    result = youden.judge(plan, judge=free, store=folder / "first.sqlite")

    def asked() -> None:
        youden.judge(plan, judge=free, store=folder / f"{next(number)}.sqlite")

    def capped() -> None:
        try:
            youden.judge(plan, judge=paid, store=folder / f"{next(number)}.sqlite", max_cost=10.0)
        except BudgetError:
            return
        raise SystemExit("The cap of 10 USD was not reached.")

    def judged_run(name: str) -> Path:
        config = folder / f"{name}.yaml"
        config.write_text(f"name: {name}\npool: old\njudge: lexical\ndesign: cyclic\n", encoding="utf-8")
        run_command("run", config, "--out", folder / name)
        return folder / name

    def planned_run() -> PlannedRun:
        config = folder / "planned.yaml"
        keys = {"pool": "old", "judge": free, "design": "cyclic", "calls": 200, "out": f"planned-{next(number)}"}
        config.write_text(json.dumps(keys | {"store": f"{next(number)}.sqlite"}), encoding="utf-8")
        return plan_run(load_run_config(config))

    planned = [planned_run(), planned_run()]
    runs = [judged_run("one"), judged_run("other")]

    return {
        "config": planned_run,
        "judge_run": lambda: judge_run(planned.pop()),
        "asked and stored": asked,
        "cyclic rank and its interval": lambda: youden.rank(result),
        "--max-cost": capped,
        "run": lambda: judged_run(f"run-{next(number)}"),
        "fit": lambda: fit_run(RunFolder(runs[0])),
        "extend": lambda: run_command("extend", "agents", runs.pop(), folder / "new"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", action="store_true", help="count the code alone")
    arguments = parser.parse_args()
    found: dict[str, Walk] = {}
    if not arguments.size:
        with tempfile.TemporaryDirectory() as folder, yes_server() as url:
            found = {name: trace(walk) for name, walk in walks(Path(folder), url).items()}
    table: dict[str, dict[str, object]] = {}
    for name, walk in found.items():
        bar = BEFORE[name] // 2 if name in BEFORE else None
        counts = {"files": len(walk.files), "functions": walk.n_functions, "calls": walk.n_calls}
        table[name] = {**counts, "bar": bar, "names": walk.files}
    if found:
        table["extend"]["beyond run"] = [file for file in found["extend"].files if file not in found["run"].files]
    text = json.dumps({"size": size_of(SOURCE), **table}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
