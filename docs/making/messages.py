"""Every error that the package raises on purpose, from its source: slug, what it says, the kind of error.

An error is a call with the keyword `slug`; what it says is the call's text, with what is filled in between ‹ and ›.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import youden
from making.marks import cell

SOURCE = Path(youden.__file__).parent
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FILLED = {
    "unknown-{self.kind}": "youden.registry",
    "{what}-unknown": ("trusted",),
    "{noun}-numeric": ("values", "weights"),
}


class Message(NamedTuple):
    """slug; what is said; the name of the error's type, or of the function that makes it; the module's path in the package."""

    slug: str
    said: str
    kind: str
    module: str


def table(prefixes: str) -> str:
    """The messages of the modules below `prefixes` (parted by blanks); `*` for those that no page's table names."""
    wanted = [message for message in messages() if _belongs(message.module, prefixes)]
    first = {message.slug: message for message in reversed(messages())}
    rows = []
    for slug in dict.fromkeys(message.slug for message in wanted):
        texts = dict.fromkeys(cell(message.said) for message in wanted if message.slug == slug)
        place = f'<span id="{slug}"></span>' if first[slug] in wanted else ""
        rows.append(f"| {place}`{slug}` | {'<br>'.join(texts)} |")
    return "\n".join(["| slug | what it says |", "| --- | --- |", *rows])


def _belongs(module: str, prefixes: str) -> bool:
    if prefixes == "*":
        page = (Path(__file__).parents[1] / "reference" / "errors.md").read_text(encoding="utf-8")
        named = re.findall(r"<!-- made: messages ([^*]*?) -->", page)
        return not any(_belongs(module, one) for one in named)
    return any(module == prefix or module.startswith(f"{prefix}/") for prefix in prefixes.split())


@cache
def messages() -> tuple[Message, ...]:
    """All of them, each slug once a module, in alphabetical order."""
    found = {
        (message.slug, message.module): message
        for path in sorted(SOURCE.rglob("*.py"))
        for message in _in(path)
        if "…" not in message.slug
    }
    return tuple(found[key] for key in sorted(found))


def _in(path: Path) -> Iterator[Message]:
    module, code = path.relative_to(SOURCE).with_suffix("").as_posix(), path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(code if "slug=" in code else "")):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "slug":
                    for slug in _slugs(keyword.value):
                        yield Message(slug, _said(node), ast.unparse(node.func).rpartition(".")[2], module)


def _slugs(value: ast.expr) -> tuple[str, ...]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return (value.value,) if _SLUG.fullmatch(value.value) else ()
    if isinstance(value, ast.IfExp):
        return (*_slugs(value.body), *_slugs(value.orelse))
    if isinstance(value, ast.JoinedStr):
        pattern = ast.unparse(value)[2:-1]
        known = _FILLED[pattern]
        if isinstance(known, tuple):
            return tuple(re.sub(r"\{.*\}", name, pattern) for name in known)
        return tuple(f"unknown-{noun}" for noun in _nouns())
    return ()  # a name: the slug stands where the function that takes it is called


@cache
def _nouns() -> tuple[str, ...]:
    """What the registries hold."""
    registry = import_module("youden.registry").Registry
    names = []
    for path in sorted(SOURCE.rglob("*.py")):
        if "] = Registry(" in path.read_text(encoding="utf-8"):
            module = ".".join(("youden", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
            names += [thing.kind for thing in vars(import_module(module)).values() if isinstance(thing, registry)]
    return tuple(sorted(set(names)))


def _said(call: ast.Call) -> str:
    texts = [_text(argument) for argument in call.args]
    return max((text for text in texts if " " in text), key=len, default="See the function that says it.")


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(_text(part) for part in value.values)
    if isinstance(value, ast.FormattedValue):
        return f"‹{_name(value.value)}›"
    if isinstance(value, ast.BinOp):
        return _text(value.left) + _text(value.right)
    return f"‹{_name(value)}›"


def _name(value: ast.expr) -> str:
    """A short word for what is filled in: the last name in it."""
    parts = [part for part in ast.walk(value) if isinstance(part, ast.Attribute | ast.Name)]
    names = [part.attr if isinstance(part, ast.Attribute) else part.id for part in parts]
    return names[0].strip("_") if names else "…"
