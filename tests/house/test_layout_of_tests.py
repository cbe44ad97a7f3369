"""Test that names of tests are short, names of fixtures unique, and that no test module imports another."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MAX_NAME_LENGTH = 80

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_fixture(function: Function) -> bool:
    return any(ast.unparse(decorator).startswith("pytest.fixture") for decorator in function.decorator_list)


def find_imported_modules(nodes: Iterable[ast.AST]) -> set[str]:
    modules: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules


def find_faults(sources: dict[str, str]) -> list[str]:
    """Return one sentence for each broken rule."""
    faults: list[str] = []
    owners: dict[str, str] = {}
    for path, source in sources.items():
        nodes = list(ast.walk(ast.parse(source)))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        names = [Path(path).name, *(function.name for function in functions if function.name.startswith("test_"))]
        faults += [f"{path}: the name {name} is too long" for name in names if len(name) > MAX_NAME_LENGTH]
        for fixture in filter(is_fixture, functions):
            owner = owners.setdefault(fixture.name, path)
            if owner != path:
                faults.append(f"{path}: {owner} also defines the fixture {fixture.name}")
        test_modules = sorted(name for name in find_imported_modules(nodes) if name.startswith("test_"))
        faults += [f"{path}: imports {name}" for name in test_modules]
    return faults


@pytest.mark.slow
def test_tests_have_short_names_and_unique_fixtures_and_import_no_other_tests() -> None:
    sources = {str(path.relative_to(TESTS)): path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py"))}
    assert len(sources) > 200
    assert find_faults(sources) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (f"def test_{'x' * 76}(): ...", "too long"),
        ("@pytest.fixture\ndef store(): ...", "a.py also defines the fixture store"),
        ("@pytest.fixture(scope='module')\nasync def store(): ...", "a.py also defines the fixture store"),
        ("from test_a import helper", "imports test_a"),
        ("def helper():\n    import test_a", "imports test_a"),
    ],
)
def test_a_broken_rule_is_reported(source: str, fault: str) -> None:
    (result,) = find_faults({"a.py": "@pytest.fixture\ndef store(): ...", "b.py": source})
    assert result.startswith("b.py: ")
    assert fault in result
