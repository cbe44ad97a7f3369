"""What is public is said in one place, is there, and is all that README, docs and examples use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path

import pytest

import youden

ROOT = Path(__file__).parents[2]
SAID = str(youden.__doc__)
MODULES = {
    name for name in re.findall(r"`(youden(?:\.\w+)*)`", SAID) if name == "youden" or find_spec(name.rpartition(".")[0])
}
PUBLIC = {name for name in MODULES if find_spec(name) is not None}
GROUPS = MODULES - PUBLIC
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.y*ml"))]
PAGES += [*sorted((ROOT / "datasets").rglob("*.md")), *sorted((ROOT / "configs").rglob("*.yaml"))]


def used(code: str) -> Iterator[str]:
    """Every dotted name of the package that Python code imports, or reaches from an import of it."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "youden")
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "youden":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and re.fullmatch(r"youden(\.\w+)+", reached := ast.unparse(node)):
            yield reached


def is_public(name: str) -> bool:
    """Whether `name` is a public module or a name that one offers."""
    if name in PUBLIC or name in GROUPS:
        return True
    module, _, member = name.rpartition(".")
    if module not in PUBLIC:
        return bool(module) and is_public(module)
    here = import_module(module)
    offered = getattr(here, "__all__", [key for key in vars(here) if not key.startswith("_")])
    return member in offered


def test_every_group_that_is_open_to_other_packages_is_said_to_be_and_no_other() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "youden").rglob("*.py"))
    assert set(re.findall(r'Registry(?:\[.*\])?\(\s*"(.+?)"', code)) == GROUPS


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_name_is_there(module: str) -> None:
    here = import_module(module)
    for name in getattr(here, "__all__", []):
        assert getattr(here, name) is not None, f"{module}.{name}"


@pytest.mark.parametrize(("module", "most"), [("youden", 12), ("youden.stats", 25), ("youden.types", 40)])
def test_a_public_module_has_few_names(module: str, most: int) -> None:
    """A new name replaces another one, or becomes a parameter or a method."""
    assert len(import_module(module).__all__) <= most


def test_judge_takes_what_judge_async_takes() -> None:
    assert signature(youden.judge) == signature(youden.judge_async)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_nothing_that_is_not_public(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = {name for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) for name in used(block)}
    names |= {name for name in re.findall(r"\byouden(?:\.[a-z_]\w*)+", text, re.IGNORECASE) if "/" not in name}
    assert {name for name in names if not is_public(name)} == set()


@pytest.mark.parametrize(
    ("code", "public"),
    [
        ("import youden\nyouden.rank(1, 2)", True),
        ("from youden.stats import rmse", True),
        ("from youden.errors import YoudenError", True),
        ("from youden.types import Completion", True),
        ("from youden.types import Connection", True),
        ("from youden.types.results import Rates", False),
        ("import youden\nyouden.pipeline.judged_run", False),
        ("from youden.pipeline.judged_run import judge", False),
        ("from youden.stats.base.metrics import rmse", False),
        ("from youden import cli", False),
    ],
)
def test_use_of_what_is_not_public_is_seen(code: str, public: bool) -> None:
    assert all(map(is_public, used(code))) is public
