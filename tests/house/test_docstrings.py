"""Public names are documented as numpydoc validates: each has a docstring that states its parameters and what it returns.

numpydoc sees neither the docstring under a dataclass field nor a section Attributes: both describe the parameters of a dataclass.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest

docscrape = pytest.importorskip("numpydoc.docscrape", reason="numpydoc (the dependency group `lint`) is not installed")
validation = pytest.importorskip("numpydoc.validate")

MODULES = ("youden", "youden.stats", "youden.types")
RULES = {
    "GL08": "there is no docstring",
    "PR01": "a parameter is not documented",
    "PR02": "a documented parameter does not exist",
    "RT01": "there is no section Returns",
    "SS03": "the summary does not end with a period",
}


def public_names() -> Iterator[str]:
    """Functions and classes in `__all__`, and the public functions and properties that these classes define."""
    for module in MODULES:
        for name in import_module(module).__all__:
            value = getattr(import_module(module), name)
            if not inspect.isfunction(value) and not inspect.isclass(value):
                continue
            yield f"{module}.{name}"
            members = vars(value) if inspect.isclass(value) else {}
            for member, attribute in members.items():
                is_call = member == "__call__" and is_protocol(value)
                if (is_call or not member.startswith("_")) and is_documentable(attribute):
                    yield f"{module}.{name}.{member}"


def is_documentable(attribute: object) -> bool:
    function = attribute.__func__ if isinstance(attribute, classmethod | staticmethod) else attribute
    return inspect.isfunction(function) or isinstance(function, property)


def is_protocol(value: object) -> bool:
    return bool(getattr(value, "_is_protocol", False))


@cache
def documented_fields(name: str) -> frozenset[str]:
    """Fields of a class with a docstring under them or an entry in the section Attributes, base classes included."""
    names: set[str] = set()
    for base in validation.Validator._load_obj(name).__mro__[:-1]:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError):  # not written in Python
            continue
        definition = tree.body[0]
        assert isinstance(definition, ast.ClassDef)
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            has_docstring = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and has_docstring:
                names.add(ast.unparse(field.target))
        sections = docscrape.NumpyDocString(inspect.cleandoc(base.__doc__ or ""))
        names |= {name.strip() for entry in sections["Attributes"] for name in entry.name.split(",")}
    return frozenset(names)


def problems(name: str) -> list[str]:
    result = [(code, message) for code, message in validation.validate(name)["errors"] if code in RULES]
    value = validation.Validator._load_obj(name)
    if inspect.isclass(value) and is_protocol(value):
        result = [error for error in result if error[0] != "PR01"]  # a protocol has no constructor
    elif inspect.isclass(value):
        parameters = set(inspect.signature(value).parameters)
        described = {
            name.strip() for entry in docscrape.ClassDoc(value)["Parameters"] for name in entry.name.split(",")
        }
        undocumented = parameters - documented_fields(name) - described
        result = [error for error in result if error[0] != "PR01"]
        result += [("PR01", f"{sorted(undocumented)} have neither a docstring nor an entry")] if undocumented else []
    return [f"{code}: {message}" for code, message in result]


@pytest.mark.parametrize("name", sorted(public_names()))
def test_every_public_name_has_a_valid_docstring(name: str) -> None:
    assert problems(name) == []


class Undocumented:
    """A class whose parameter and whose method's parameter and result nothing describes"""

    def __init__(self, width: float) -> None:
        self.width = width

    def scale(self, factor: float) -> float:
        """Scale the width."""
        return self.width * factor


@pytest.mark.parametrize(
    ("name", "codes"), [("Undocumented", {"PR01", "SS03"}), ("Undocumented.scale", {"PR01", "RT01"})]
)
def test_a_missing_docstring_section_is_reported(name: str, codes: set[str]) -> None:
    assert {problem.partition(":")[0] for problem in problems(f"{__name__}.{name}")} == codes
