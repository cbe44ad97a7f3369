"""List the messages of all errors that the package raises deliberately, from its source.

An error is a call with the keyword `slug`. Its message is the text that the call is given, with variable parts in ‹ and ›.
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
from making import texts
from making.marks import cell

SOURCE = Path(youden.__file__).parent
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FILLED = {
    "unknown-{kind}": "youden.registry",
    "{field}-unknown": ("trusted",),
    "{noun}-numeric": ("values", "weights"),
}
_REMEDIES = {
    "d-core": "Set a smaller d_core or holdout, or remove the agent or item.",
    "scores-direction": "Leave out the column or its rows, or change the sign of all scores",
}
"""Remedies that come from another module than the message."""


class Message(NamedTuple):
    """A message of an error: slug, text, name of its type or of the function that makes it, and path of its module."""

    slug: str
    text: str
    kind: str
    module: str


def table(prefixes: str) -> str:
    """Tabulate the messages of modules below `prefixes`, separated by spaces; `*` selects those in no other table."""
    wanted = [message for message in messages() if _belongs(message.module, prefixes)]
    first = {message.slug: message for message in reversed(messages())}
    rows = []
    for slug in dict.fromkeys(message.slug for message in wanted):
        texts = dict.fromkeys(cell(message.text) for message in wanted if message.slug == slug)
        place = f'<span id="{slug}"></span>' if first[slug] in wanted else ""
        rows.append(f"| {place}`{slug}` | {'<br>'.join(texts)} |")
    return "\n".join(["| slug | message |", "| --- | --- |", *rows])


def _belongs(module: str, prefixes: str) -> bool:
    if prefixes == "*":
        page = (Path(__file__).parents[1] / "reference" / "errors.md").read_text(encoding="utf-8")
        named = re.findall(r"<!-- made: messages ([^*]*?) -->", page)
        return not any(_belongs(module, prefix) for prefix in named)
    return any(module == prefix or module.startswith(f"{prefix}/") for prefix in prefixes.split())


@cache
def messages() -> tuple[Message, ...]:
    """Return the messages of all modules, sorted by slug."""
    return tuple(sorted({message for path in SOURCE.rglob("*.py") for message in _iter_messages(path)}))


def _iter_messages(path: Path) -> Iterator[Message]:
    name, code = path.relative_to(SOURCE).with_suffix("").as_posix(), path.read_text(encoding="utf-8")
    if "slug=" not in code:
        return
    module = texts.Module(ast.parse(code))
    for call in module.calls:
        for keyword in call.keywords:
            if keyword.arg == "slug":
                for slug in _find_slugs(keyword.value):
                    kind = ast.unparse(call.func).rpartition(".")[2]
                    for text in module.read_message(call):
                        yield Message(slug, text.replace("‹remedy›", _REMEDIES.get(slug, "‹remedy›")), kind, name)


def _find_slugs(value: ast.expr) -> tuple[str, ...]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return (value.value,) if _SLUG.fullmatch(value.value) else ()
    if isinstance(value, ast.IfExp):
        return (*_find_slugs(value.body), *_find_slugs(value.orelse))
    if isinstance(value, ast.JoinedStr):
        pattern = ast.unparse(value)[2:-1]
        names = _FILLED[pattern]
        if isinstance(names, tuple):
            return tuple(re.sub(r"\{.*\}", name, pattern) for name in names)
        return tuple(f"unknown-{kind.replace(' ', '-')}" for kind in _list_registry_kinds())
    return ()  # a name: the calls of the function that takes the slug are listed


@cache
def _list_registry_kinds() -> tuple[str, ...]:
    """Return the kinds of components that the registries of the package contain."""
    registry = import_module("youden.registry").Registry
    names = []
    for path in sorted(SOURCE.rglob("*.py")):
        if "] = Registry(" in path.read_text(encoding="utf-8"):
            module = ".".join(("youden", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
            names += [value.kind for value in vars(import_module(module)).values() if isinstance(value, registry)]
    return tuple(sorted(set(names)))
