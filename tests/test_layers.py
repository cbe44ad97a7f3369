"""Imports go down only, lazy imports and registry strings included."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "youden"

# Higher may import lower; equal rank means the groups never import each other.
RANK = {
    "cli": 10,
    "view": 9,
    "report": 8,
    "practice": 7.5,
    "study": 7,
    "cassettes": 6.5,
    "pytest_plugin": 6,
    "pools": 6,
    "pipeline": 5,
    "rounds": 4.5,
    "run_plan": 4.5,
    "analysis": 4,
    "growth": 3.7,
    "abilities": 3.5,
    "data": 3,
    "protocol": 3,
    "judging": 3,
    "stats": 3,
    "text": 2,
    "types": 1,
    "errors": 1,
    "registry": 1,
    "resources": 1,
}
FLOOR = {"types", "errors", "registry", "resources"}
FORBIDDEN = {"stats": {"pandas", "pyarrow"}, "types": {"pandas", "pyarrow", "scipy"}, "cli": {"numpy", "scipy"}}


def group_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def exists(module: str) -> bool:
    """Whether a string names a module, to be imported when its time comes; `youden.judges` is only an entry-point group."""
    place = SOURCE.joinpath(*module.split(".")[1:])
    return place.with_suffix(".py").is_file() or place.is_dir()


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            found |= {
                f"{node.module}.{alias.name}" if node.module == "youden" else str(node.module) for alias in node.names
            }
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.fullmatch(r"(youden(?:\.\w+)+)(?::\w+)?", node.value)
            if named and exists(named[1]):
                found.add(named[1])
    return found


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert here in RANK, f"{here} has no layer: give it one in ARCHITECTURE.md and here"
    for module in imports(path):
        assert module.split(".")[0] not in FORBIDDEN.get(here, set()), f"{here} may not import {module}"
        if not module.startswith("youden"):
            continue
        there = group_of(module)
        if there in ("", here, "__version__"):
            continue
        if here in FLOOR and there in FLOOR:
            continue
        assert RANK[there] < RANK[here], f"{here} imports {there} ({module}): imports go down only"


def test_no_import_cycles() -> None:
    names = {
        ".".join(("youden", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): p for p in MODULES
    }
    lazy = {"youden.cli", "youden.stats"}  # their __init__ names modules that are loaded when asked for
    graph = {
        name: set() if name in lazy else {m for m in imports(path) if m in names and m != name}
        for name, path in names.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail, name))
        if name in done:
            return
        for target in graph[name]:
            visit(target, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())
