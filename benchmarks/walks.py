"""Count the files of src whose functions run in eight typical calls; imports are not counted.

- config: `plan_run` of a config file
- judge_run: `judge_run` of such a plan with a local server of chat completions
- judged and stored: `youden.judge` with that server
- --max-cost: the same, stopped by its cost cap
- cyclic rank and its interval: `youden.rank`
- run: `youden run` with a judge that makes no calls
- fit: `fit_run` of the folder of such a run
- extend: `youden extend` of it; `beyond run` lists the files that `youden run` does not use

`python benchmarks/walks.py [--out FILE]` prints JSON: for each walk the number of files, the number of distinct functions
called, the number of calls, the bar for the files, and their names. `size` contains the number of files of src, its lines of
code (without blank lines, comments and docstrings), statements, public names at the top of modules, classes, classes per 1,000
lines of code, and the share of classes that define no method. `--size` prints the sizes only.
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
from results import print_results
from youden.cli import youden as command
from youden.data.folder.run_config import load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.errors import BudgetError
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import PlannedRun, judge_run, plan_run

SOURCE = Path(youden.__file__).parent
POOL = Path(__file__).parents[1] / "datasets" / "field-notes"
FILES_IN_0_1_0 = {"judged and stored": 23, "cyclic rank and its interval": 29, "--max-cost": 12, "extend": 168}
"""Number of files in version 0.1.0; the bar is half of it."""


class YesServer(BaseHTTPRequestHandler):
    """HTTP server that answers YES to each chat completion."""

    def do_POST(self) -> None:
        """Answer a request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "YES"}}
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "yes", "choices": [choice]}
        reply = json.dumps({**body, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def yes_server() -> Iterator[str]:
    """Run the server in a thread, and yield its URL."""
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

    def count_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            n_calls[frame.f_code] += 1

    threading.setprofile(count_call)
    sys.setprofile(count_call)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = {code: Path(code.co_filename) for code in n_calls}
    own_paths = {code: path for code, path in paths.items() if path.suffix == ".py" and path.is_relative_to(SOURCE)}
    files = sorted({path.relative_to(SOURCE).as_posix() for path in own_paths.values()})
    return Walk(files, len(own_paths), sum(n_calls[code] for code in own_paths))


NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


METHODS = ast.FunctionDef | ast.AsyncFunctionDef


def measure_size(source: Path) -> dict[str, float]:
    """Count the code of a folder."""
    paths = sorted(source.rglob("*.py"))
    counts = {"files": len(paths), "lines of code": 0, "statements": 0, "public names": 0, "classes": 0}
    n_without_methods = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in NO_CODE]
        code_lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
        docstring_lines = {
            line for node in nodes if is_docstring(node) for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        counts["lines of code"] += len(code_lines - docstring_lines)
        counts["statements"] += sum(isinstance(node, ast.stmt) for node in nodes)
        definitions = (
            node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        )
        counts["public names"] += sum(not node.name.startswith("_") for node in definitions)
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        counts["classes"] += len(classes)
        n_without_methods += sum(not any(isinstance(part, METHODS) for part in node.body) for node in classes)
    return {
        **counts,
        "classes per 1,000 lines of code": round(1000 * counts["classes"] / counts["lines of code"], 2),
        "share of classes without methods": round(n_without_methods / counts["classes"], 3),
    }


def is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a node is a docstring, or a string that documents the name before it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def write_pool(folder: Path, *, agents: slice) -> Path:
    """Write a pool with some agents of the shipped pool."""
    folder.mkdir()
    agent_lines = (POOL / "agents.jsonl").read_text(encoding="utf-8").splitlines()[agents]
    ids = {json.loads(line)["id"] for line in agent_lines}
    lines = (POOL / "responses.jsonl").read_text(encoding="utf-8").splitlines()
    responses = [line for line in lines if json.loads(line)["agent"] in ids]
    (folder / "items.jsonl").write_bytes((POOL / "items.jsonl").read_bytes())
    (folder / "agents.jsonl").write_text("\n".join(agent_lines) + "\n", encoding="utf-8")
    (folder / "responses.jsonl").write_text("\n".join(responses) + "\n", encoding="utf-8")
    return folder


def run_command(*arguments: object) -> None:
    """Run a command of youden in this process."""
    CliRunner().invoke(command, [str(word) for word in arguments], catch_exceptions=False, standalone_mode=False)


def make_walks(folder: Path, url: str) -> dict[str, Callable[[], object]]:
    """Make one function per walk, which can be called twice."""
    number = count()
    pool = youden.read_pool(write_pool(folder / "old", agents=slice(8)))
    write_pool(folder / "new", agents=slice(8, 11))
    plan = youden.make_plan(pool, design="cyclic", calls=200, seed=1)
    free_judge = {"backend": "wire", "model": "yes", "base_url": url, "api_key_env": None, "price": 0}
    paid_judge = {name: value for name, value in free_judge.items() if name != "price"} | {
        "price_in": 1000.0,
        "price_out": 1000.0,
    }
    verdicts = youden.judge(plan, judge=free_judge, store=folder / "first.sqlite")

    def judge() -> None:
        youden.judge(plan, judge=free_judge, store=folder / f"{next(number)}.sqlite")

    def judge_with_cap() -> None:
        try:
            youden.judge(plan, judge=paid_judge, store=folder / f"{next(number)}.sqlite", max_cost=10.0)
        except BudgetError:
            return
        raise SystemExit("The cap of 10 USD was not reached.")

    def make_run(name: str) -> Path:
        config = folder / f"{name}.yaml"
        config.write_text(f"name: {name}\npool: old\njudge: lexical\ndesign: cyclic\n", encoding="utf-8")
        run_command("run", config, "--out", folder / name)
        return folder / name

    def make_planned_run() -> PlannedRun:
        config = folder / "planned.yaml"
        keys = {"pool": "old", "judge": free_judge, "design": "cyclic", "calls": 200, "out": f"planned-{next(number)}"}
        config.write_text(json.dumps(keys | {"store": f"{next(number)}.sqlite"}), encoding="utf-8")
        return plan_run(load_run_config(config))

    planned_runs = [make_planned_run(), make_planned_run()]
    runs = [make_run("one"), make_run("other")]

    return {
        "config": make_planned_run,
        "judge_run": lambda: judge_run(planned_runs.pop()),
        "judged and stored": judge,
        "cyclic rank and its interval": lambda: youden.rank(verdicts),
        "--max-cost": judge_with_cap,
        "run": lambda: make_run(f"run-{next(number)}"),
        "fit": lambda: fit_run(RunFolder(runs[0])),
        "extend": lambda: run_command("extend", "agents", runs.pop(), folder / "new"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", action="store_true", help="print only the sizes")
    arguments = parser.parse_args()
    results: dict[str, Walk] = {}
    if not arguments.size:
        with tempfile.TemporaryDirectory() as folder, yes_server() as url:
            results = {name: trace(walk) for name, walk in make_walks(Path(folder), url).items()}
    table: dict[str, dict[str, object]] = {}
    for name, result in results.items():
        bar = FILES_IN_0_1_0[name] // 2 if name in FILES_IN_0_1_0 else None
        counts = {"files": len(result.files), "functions": result.n_functions, "calls": result.n_calls}
        table[name] = {**counts, "bar": bar, "names": result.files}
    if results:
        table["extend"]["beyond run"] = [file for file in results["extend"].files if file not in results["run"].files]
    print_results({"size": measure_size(SOURCE), **table}, arguments.out)


if __name__ == "__main__":
    main()
