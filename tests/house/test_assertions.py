"""No test can pass without an assertion: each one asserts, itself or by a helper, and none returns early."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ASSERTING_CALLS = {"raises", "warns", "fail"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def iter_own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from iter_own_nodes(child)


@cache
def find_called_names(function: ast.AST) -> frozenset[str]:
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = {node.id for node in called if isinstance(node, ast.Name)}
    methods = {node.attr for node in called if isinstance(node, ast.Attribute)}
    return frozenset(names | methods)


def asserts_itself(function: ast.AST) -> bool:
    has_statement = any(isinstance(node, ast.Assert) for node in ast.walk(function))
    names = find_called_names(function)
    return has_statement or bool(names & ASSERTING_CALLS) or any(name.startswith("assert_") for name in names)


def find_asserting(functions: Mapping[str, list[Function]]) -> set[str]:
    """Return the names of functions that assert, or that call one which does."""
    asserting = {name for name, same_name in functions.items() if any(map(asserts_itself, same_name))}
    called = {name: set().union(*map(find_called_names, same_name)) for name, same_name in functions.items()}
    while added := {name for name in called if name not in asserting and called[name] & asserting}:
        asserting |= added
    return asserting


def find_vacuous(sources: Mapping[str, str]) -> list[str]:
    """Return `file: test` for each test that does not assert or that returns early."""
    functions: dict[str, list[Function]] = {}
    tests: list[tuple[str, Function]] = []
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.setdefault(node.name, []).append(node)
                if node.name.startswith("test_"):
                    tests.append((path, node))
    asserting = find_asserting(functions)
    return [
        f"{path}: {test.name}"
        for path, test in tests
        if test.name not in asserting or any(isinstance(node, ast.Return) for node in iter_own_nodes(test))
    ]


@pytest.mark.slow
def test_every_test_asserts_and_none_returns_early() -> None:
    sources = {str(path.relative_to(TESTS)): path.read_text("utf8") for path in sorted(TESTS.rglob("*.py"))}
    assert len(sources) > 100
    assert find_vacuous(sources) == []


@pytest.mark.parametrize(
    ("source", "is_vacuous"),
    [
        ("def test_a():\n    call()", True),
        ("def test_a():\n    if not installed:\n        return\n    assert call()", True),
        ("def test_a():\n    assert call()", False),
        ("def test_a():\n    with pytest.raises(ValueError):\n        call()", False),
        ("def check(x):\n    assert x\n\ndef test_a():\n    check(1)", False),
        ("def test_a():\n    def helper():\n        return 1\n    assert helper()", False),
    ],
)
def test_a_test_without_assertion_or_with_an_early_return_is_reported(source: str, is_vacuous: bool) -> None:
    assert find_vacuous({"tests.py": source}) == (["tests.py: test_a"] if is_vacuous else [])
