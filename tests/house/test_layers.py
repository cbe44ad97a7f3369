"""Test that imports go downward only, including lazy imports and registry strings."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "youden"

# Higher may import lower; equal rank means the groups never import each other.
RANK = {
    "__main__": 10,
    "cli": 9,
    "view": 8,
    "runs": 7.5,
    "report": 7,
    "workflows": 6,
    "study": 5,
    "pools": 4,
    "pytest_plugin": 4,
    "inspect": 4,
    "pipeline": 3,
    "engines": 2.5,
    "data": 2,
    "protocol": 2,
    "judging": 2.2,
    "stats": 2,
    "text": 1,
    "types": 0,
    "errors": 0,
    "extras": 0,
    "registry": 0,
    "resources": 0,
    "project_store": 0,
    "run_keys": 0,
    "progress_bar": 2,
    "streams": 0,
    "decompression": 0,
}
FLOOR = {name for name, rank in RANK.items() if rank == 0}
UPWARD = {
    "types/__init__.py": {
        "youden.data.exporters",
        "youden.data.exporters.export_files",
        "youden.data.importers",
        "youden.data.importers.pool_joiner",
        "youden.judging.call.connection",
        "youden.judging.call.failures",
        "youden.judging.call.retries",
        "youden.judging.offline.batch_providers",
        "youden.judging.store.contract",
        "youden.protocol.designs",
        "youden.stats.baselines",
        "youden.text.transforms",
        "youden.workflows.attacks",
    },
    "types/planning.py": {"youden.judging.estimate", "youden.judging.config.judge_files"},
    "types/judging.py": {"youden.protocol.scores"},
    "types/results.py": {"youden.protocol.scores"},
}
"""Modules that import from a higher layer lazily: the types in plugin contracts, of which `youden.types` is the one public
place; and methods: `Plan.cost`, which takes what `judge=` takes; `Verdicts.rates`,
`Rates.training_scores` and `Rates.holdout_scores`, whose rules on held-out cells are in one module."""
FORBIDDEN = {"stats": {"pandas", "pyarrow"}, "types": {"pandas", "pyarrow", "scipy"}, "cli": {"numpy", "scipy"}}


def group_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def exists(module: str) -> bool:
    """Return whether a string names a module; `youden.judges` is only an entry-point group."""
    place = SOURCE.joinpath(*module.split(".")[1:])
    return place.with_suffix(".py").is_file() or place.is_dir()


@cache
def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    result: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            result |= {
                f"{node.module}.{alias.name}" if node.module == "youden" else str(node.module) for alias in node.names
            }
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.fullmatch(r"(youden(?:\.\w+)+)(?::\w+)?", node.value)
            if match and exists(match[1]):
                result.add(match[1])
    return result - UPWARD.get(path.relative_to(SOURCE).as_posix(), set())


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def may_not(here: str, module: str) -> bool:
    if module.partition(".")[0] in FORBIDDEN.get(here, set()):
        return True
    there = group_of(module) if module.startswith("youden") else ""
    if there in ("", here, "__version__") or {here, there} <= FLOOR:
        return False
    return RANK[there] >= RANK[here]


def test_every_layer_has_a_rank() -> None:
    assert {layer_of(path) for path in MODULES} == set(RANK), "give it a layer in ARCHITECTURE.md and here"


@pytest.mark.parametrize("layer", sorted(RANK))
def test_imports_go_downward_only(layer: str) -> None:
    assert [
        f"{path.relative_to(SOURCE)} imports {module}"
        for path in MODULES
        if layer_of(path) == layer
        for module in imports(path)
        if may_not(layer, module)
    ] == []


OF_A_RUN = {"Plan", "Verdicts", "Trials", "Pool", "Split"}


def test_statistics_functions_take_arrays() -> None:
    """Functions that need a record of a run take its arrays."""
    assert [
        f"{path.relative_to(SOURCE)} takes {alias.name}"
        for path in MODULES
        if layer_of(path) == "stats"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in OF_A_RUN
    ] == []


def without_cycles(targets: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail, name))
        if name in done:
            return
        for target in targets.get(name, set()):
            visit(target, (*trail, name))
        done.add(name)

    for name in targets:
        visit(name, ())


NAMES = {
    ".".join(("youden", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): p for p in MODULES
}
LAZY = {"youden.cli", "youden.stats"}
"""Packages whose __init__ imports modules lazily."""


@cache
def graph() -> dict[str, set[str]]:
    return {
        name: set() if name in LAZY else {m for m in imports(path) if m in NAMES and m != name}
        for name, path in NAMES.items()
    }


def test_modules_have_no_import_cycles() -> None:
    without_cycles(graph())


def room_of(module: str) -> str:
    """Return the folder of a module within its layer, or the module itself if it is in no folder."""
    return ".".join(module.split(".")[:3])


def test_packages_form_no_cycle() -> None:
    rooms: dict[str, set[str]] = {}
    for name, targets in graph().items():
        inside = {room_of(t) for t in targets if group_of(t) == group_of(name) and t.count(".") > 1}
        rooms.setdefault(room_of(name), set()).update(inside - {room_of(name)})
    without_cycles(rooms)


@pytest.mark.slow
def test_the_name_of_a_public_class_is_unique() -> None:
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, n in names.items() if n > 1] == []
