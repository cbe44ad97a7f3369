"""`help(youden.…)` says what a name is for, its shapes and units, what it raises, and shows an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import youden

SRC = Path(youden.__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((SRC / "youden").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
NAMES = [name for name in youden.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_public_explains_itself(name: str) -> None:
    there = getattr(youden, name)
    text = inspect.getdoc(there) or ""
    assert re.match(r"[A-Z`].+[.:]", text), "a first line"
    assert re.search(r"Raises(: |\n-+\n)", text)
    assert ">>> " in text
    if inspect.isfunction(there) and name != "judge_async":  # its parameters are documented once, by `judge`
        for parameter in inspect.signature(there).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                assert re.search(rf"\b{parameter.name}\b", text), f"{parameter.name} is not said"
    if inspect.isfunction(there) or inspect.isclass(there):
        assert re.search(r"\[|`[A-Z]\w+`|seconds|Returns\n-+\n", text), "shapes or units"


@pytest.mark.parametrize("name", NAMES)
def test_its_example_runs_where_nothing_else_is_imported(name: str) -> None:
    there = getattr(youden, name)
    globs = {} if inspect.ismodule(there) else {there.__name__: there}
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(there) or "", globs, name, None, 0)
    ended = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples)
    assert (ended.failed, ended.attempted > 0) == (0, True)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    ended = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert (ended.failed, ended.attempted > 0) == (0, True)
