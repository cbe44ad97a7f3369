"""Docstrings name only parameters that a function has, and types and slugs that exist: a rename changes both."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "youden"
MODULES = sorted(SOURCE.rglob("*.py"))
OTHER_TYPES = {"BinaryIO", "ChatMessageAssistant", "EvalLog", "NamedTuple", "ObjectRef", "TextIO"}
"""Types of the standard library and of libraries that a docstring names."""
SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.DOTALL | re.MULTILINE)
RESULT = re.compile(r"^(?:Returns|Yields|Raises)\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.DOTALL | re.MULTILINE)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def documented(tree: ast.Module) -> list[tuple[_Function | ast.ClassDef, str]]:
    """Functions and classes with their docstrings."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, _Function | ast.ClassDef)]
    return [(node, docstring) for node in nodes if (docstring := ast.get_docstring(node))]


def parameters(function: _Function) -> set[str]:
    arguments = function.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {argument.arg for argument in listed if argument is not None} - {"self", "cls"}


def parameter_entries(docstring: str) -> list[str]:
    """Parameters in the section Parameters."""
    section = next((match[1] for match in SECTION.finditer(docstring) if match[0].startswith("Parameters")), "")
    heads = [line.split(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def wrong_parameters(tree: ast.Module) -> list[str]:
    result = []
    for node, docstring in documented(tree):
        entries = set(parameter_entries(docstring))
        if isinstance(node, _Function) and entries and entries != parameters(node):
            result.append(f"{node.name}: {sorted(entries ^ parameters(node))}")
    return result


class Definitions(NamedTuple):
    """What the package defines."""

    names: set[str]
    """Names of classes, functions and variables of the package, of what it imports, and of what is built in."""
    slug_pattern: re.Pattern[str]
    """Matches any slug that is passed as an argument; the variable part of an f-string matches any word."""


@cache
def definitions() -> Definitions:
    names = {*dir(builtins), *OTHER_TYPES}
    slugs: set[str] = set()
    for node in chain.from_iterable(ast.walk(parse(path)) for path in MODULES):
        if isinstance(node, _Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).rpartition(".")[2])
        elif isinstance(node, ast.Attribute):  # pd.DataFrame
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.keyword) and (node.arg or "").endswith("slug"):
            texts = re.findall(r"'(.*?)'", ast.unparse(node.value))
            slugs.update(re.sub(r"\\{.*?\\}", r"[a-z-]+", re.escape(text)) for text in texts)
    return Definitions(names, re.compile("|".join(sorted(slugs))))


def types_in(docstring: str) -> set[str]:
    """Names with a capital in the types of parameters and attributes, and at the beginning of what is returned or raised."""
    heads = [
        line.split(" : ")[1]
        for match in SECTION.finditer(docstring)
        for line in match[1].splitlines()
        if line[:1].strip() and " : " in line
    ]
    heads += [
        line.split(" : ")[-1]
        for match in RESULT.finditer(docstring)
        for line in match[1].splitlines()
        if line[:1].strip()
    ]
    plain = [re.sub(r"\{.*?\}|\".*?\"|\(.*?\)|default .*", "", head) for head in heads]
    return {name for head in plain for name in re.findall(r"\b[A-Z][a-z]\w+\b", head)}


def unknown_types(tree: ast.Module) -> set[str]:
    return {name for _, docstring in documented(tree) for name in types_in(docstring)} - definitions().names


def unknown_slugs(tree: ast.Module) -> set[str]:
    slugs = {slug for _, docstring in documented(tree) for slug in re.findall(r"\[([a-z]+(?:-[a-z]+)+)\]", docstring)}
    return {slug for slug in slugs if not definitions().slug_pattern.fullmatch(slug)}


@pytest.mark.parametrize("package", sorted({path.relative_to(SOURCE).parts[0] for path in MODULES}))
def test_docstrings_name_parameters_types_and_slugs_that_exist(package: str) -> None:
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] != package:
            continue
        tree = parse(path)
        assert wrong_parameters(tree) == [], path
        assert unknown_types(tree) == set(), path
        assert unknown_slugs(tree) == set(), path
        tables = [
            line
            for _, docstring in documented(tree)
            for line in docstring.splitlines()
            if re.match(r" *[A-Z]\w+ -{3,} ", line)
        ]
        assert tables == [], path


def test_a_nonexistent_parameter_or_type_is_reported() -> None:
    code = '''
def rank(plan, level):
    """Rank.

    Parameters
    ----------
    plan : Sketch
        Plan.
    width : float
        Width.

    Returns
    -------
    Standings
        Table.
    """
'''
    assert wrong_parameters(ast.parse(code)) == ["rank: ['level', 'width']"]
    assert unknown_types(ast.parse(code)) == {"Sketch", "Standings"}


def test_an_unused_slug_is_reported() -> None:
    code = '''
def read(path):
    """Read a store.

    Raises
    ------
    JudgeError
        [store-damaged]: if it is damaged; [store-corrupt]; [unknown-design].
    """
'''
    assert unknown_slugs(ast.parse(code)) == {"store-damaged"}
