"""Test that commands escape the control characters of all texts that they print."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CLI = Path(__file__).parents[2] / "src/youden/cli"
UNESCAPED = {
    "print_json": "JSON escapes control characters itself",
    "main": "the help of click, and a message that is escaped where it is made",
    "completion_command": "a script for a shell",
    "report_command": "a file that is printed unchanged, and a path that is escaped",
    "gate_command": "Markdown, which is escaped where it is made",
}
"""Functions that print a text without escaping it, and the reason."""


def find_unescaped_texts(tree: ast.Module) -> set[str]:
    """Find the functions that pass anything but constants and `printable(…)` to `click.echo`."""
    names = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != "click.echo":
                continue
            if not call.args or isinstance(call.args[0], ast.Constant):
                continue
            if not ast.unparse(call.args[0]).startswith("printable("):
                names.add(function.name)
    return names


def test_commands_print_only_escaped_texts() -> None:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in CLI.glob("*.py")]
    assert set().union(*map(find_unescaped_texts, trees)) == set(UNESCAPED)


@pytest.mark.parametrize(("text", "found"), [("f'{name}'", {"f"}), ("printable(f'{name}')", set()), ("'a'", set())])
def test_texts_with_unescaped_names_are_found(text: str, found: set[str]) -> None:
    assert find_unescaped_texts(ast.parse(f"def f(name):\n    click.echo({text})")) == found
