"""Test that public names are listed once, exist, are documented, and are the only ones used in documentation and examples."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path

import pytest

import youden
import youden.stats

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
    """Return every dotted name of the package that code imports, or accesses through an import."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "youden")
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "youden":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and re.fullmatch(r"youden(\.\w+)+", reached := ast.unparse(node)):
            yield reached


def is_public(name: str) -> bool:
    """Return whether `name` is a public module or a name of one."""
    if name in PUBLIC or name in GROUPS:
        return True
    module, _, member = name.rpartition(".")
    if module not in PUBLIC:
        return bool(module) and is_public(module)
    imported = import_module(module)
    offered = getattr(imported, "__all__", [key for key in vars(imported) if not key.startswith("_")])
    return member in offered


def test_every_public_entry_point_group_is_documented_and_no_other() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "youden").rglob("*.py"))
    assert set(re.findall(r'Registry(?:\[.*\])?\(\s*"(.+?)"', code)) == GROUPS


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_name_exists(module: str) -> None:
    imported = import_module(module)
    for name in getattr(imported, "__all__", []):
        assert getattr(imported, name) is not None, f"{module}.{name}"


@pytest.mark.parametrize(("module", "most"), [("youden", 12), ("youden.stats", 25), ("youden.types", 40)])
def test_a_public_module_has_few_names(module: str, most: int) -> None:
    """A new name replaces another one, or becomes a parameter or a method."""
    assert len(import_module(module).__all__) <= most


def test_judge_has_the_parameters_of_judge_async() -> None:
    assert signature(youden.judge) == signature(youden.judge_async)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_only_public_names(page: Path) -> None:
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
def test_use_of_a_private_name_is_reported(code: str, public: bool) -> None:
    assert all(map(is_public, used(code))) is public


SOURCES = Path(youden.__file__).parents[1]
MODULES_WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((SOURCES / "youden").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", youden.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    public_object = getattr(youden, name)
    text = inspect.getdoc(public_object) or ""
    assert re.match(r"[A-Z`].+[.:]", text), "a first line"
    assert re.search(r"Raises(: |\n-+\n)", text)
    assert ">>> " in text
    if inspect.isfunction(public_object) and name != "judge_async":  # its parameters are documented once, by `judge`
        for parameter in inspect.signature(public_object).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                assert re.search(rf"\b{parameter.name}\b", text), f"{parameter.name} is not said"
    if inspect.isfunction(public_object) or inspect.isclass(public_object):
        assert re.search(r"\[|`[A-Z]\w+`|seconds|Returns\n-+\n", text), "shapes or units"


@pytest.mark.parametrize("name", youden.__all__)
def test_the_example_of_a_public_name_runs_without_other_imports(name: str) -> None:
    public_object = getattr(youden, name)
    globs = {} if inspect.ismodule(public_object) else {public_object.__name__: public_object}
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(public_object) or "", globs, name, None, 0)
    ended = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples)
    assert (ended.failed, ended.attempted > 0) == (0, True)


@pytest.mark.parametrize("name", MODULES_WITH_EXAMPLES)
def test_the_examples_of_a_module_run(name: str) -> None:
    ended = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert (ended.failed, ended.attempted > 0) == (0, True)


@pytest.mark.parametrize("name", youden.stats.__all__)
def test_every_name_resolves_and_no_module_hides_it(name: str) -> None:
    assert getattr(youden.stats, name) is not None
    assert not (Path(youden.stats.__file__).parent / f"{name}.py").exists()
    assert name in dir(youden.stats)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'curl_quantile'"):
        _ = youden.stats.curl_quantile


def test_importing_the_package_loads_no_numpy_and_stats_no_scikit_learn() -> None:
    code = (
        "import sys, youden.stats; assert 'numpy' not in sys.modules; "
        "names = [getattr(youden.stats, name) for name in youden.stats.__all__]; "
        "[youden.stats.BASELINES.load(name)() for name in youden.stats.BASELINES]; "
        "assert not {'sklearn', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(youden.__file__).parents[1])})
