"""Describe the keys of YAML files and of `fit.json`, and the columns of tables, from the types that read them.

The description of a key is from the `Key` of its type, from `words.yaml`, or else from the docstring of its model:
`top, max_regret: options of…`.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from making.marks import cell
from youden.data.folder.run_config import RunConfig  # its default name is the name of the file
from youden.data.folder.table_columns import COLUMNS
from youden.judging.backend_records import PROVIDERS
from youden.run_keys import Key
from youden.types.facts import ALTERNATIVE_RANKINGS

_HOMES = {
    "RunConfig": "youden.data.folder.run_config",
    "ExtensionStep": "youden.data.folder.extension_steps",
    "AnswerSettings": "youden.judging.config.answering",
    "RequestSettings": "youden.judging.config.answering",
    "JudgeConfig": "youden.judging.config.settings",
    "RunFacts": "youden.types.facts",
}


def table(name: str) -> str:
    """Tabulate the keys of the pydantic model called `name`, without the keys of its base classes."""
    model: type[BaseModel] = _found(name)
    written = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
    providers = ", ".join(f"`{provider}`" for provider in PROVIDERS)
    notes = [(name, note) for name, field in model.model_fields.items() for note in field.metadata]
    words = {name: note.text for name, note in notes if isinstance(note, Key)}
    if not words:
        words = describe_names(inspect.getdoc(model) or "", list(model.model_fields)) | written.get(model.__name__, {})
    rows = [
        f"| `{name}` | {cell(_type(field.annotation))}{_bounds(field.metadata)} | {_default(field)} | {description} |"
        for name, field in model.model_fields.items()
        if model is RunConfig or name in model.__annotations__
        for description in [cell(words.get(name, "").replace("{providers}", providers))]
    ]
    return "\n".join(["| key | type | default | description |", "| --- | --- | --- | --- |", *rows])


def facts(name: str) -> str:
    """Tabulate the fields of the dataclass called `name` with the docstrings that follow them in its source."""
    rows = [f"| `{field}` | {cell(text)} |" for field, text in _field_docstrings(_found(name)).items()]
    return "\n".join(["| key | meaning |", "| --- | --- |", *rows])


def _field_docstrings(kind: type) -> dict[str, str]:
    """Read the docstring of each field from the source of a class."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    if not isinstance(definition, ast.ClassDef):
        raise TypeError(f"{kind} is not a class.")
    texts: dict[str, str] = {}
    for field, statement in pairwise(definition.body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            texts[field.target.id] = str(statement.value.value)
    return texts


def columns(file: str) -> str:
    """Tabulate the columns of a file of a run, without the columns of alternative rankings."""
    alternative = tuple(f"{name}_" for name in ALTERNATIVE_RANKINGS)
    rows = [
        f"| `{column.name}` | {cell(f'{column.description}{words}')} |"
        for column in COLUMNS[file]
        for words in [": " + ", ".join(f"`{word}`" for word in column.words) if column.words else ""]
        if not column.name.startswith(alternative)
    ]
    return "\n".join(["| column | meaning |", "| --- | --- |", *rows])


def describe_names(docstring: str, names: list[str]) -> dict[str, str]:
    """Find the description of each name in a docstring: from `name: ` or `name, name: ` to the next of these."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    several = rf"(?:{known})`?(?:(?:, | and )`?(?:{known})`?)*"
    start = re.compile(rf"(?:(?<=[.;] )|(?<=\n)|^)`?({several})(?::| is| are| says) ", re.MULTILINE)
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", docstring)
    found = list(start.finditer(text))
    ends = [*(mark.start() for mark in found), len(text)] * bool(found)
    words = {}
    for mark, end in zip(found, ends, strict=True):
        rest = text[mark.end() : end].split("\n\n")[0].strip()
        for name in re.findall(known, mark[1]):
            words[name] = words.get(name, "") + (" " if name in words else "") + rest.rstrip(";")
    return words


def _found(name: str) -> Any:
    return getattr(import_module(_HOMES[name]), name)


_WORDS = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "JsonValue": "any value"}


def _type(annotation: Any) -> str:
    """Describe a type: `int | None` is 'whole number', because every key is optional."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return ", ".join(map(str, parts))
    if origin in (Union, UnionType):
        return " or ".join(_type(part) for part in parts)
    if origin in (list, tuple):
        return f"list of {_type(parts[0])}"
    if origin is dict:
        return "mapping"
    name = getattr(annotation, "__name__", str(annotation))
    return _WORDS.get(name, "mapping")


def _bounds(metadata: list[Any]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [f"{sign} {getattr(one, name)}" for one in metadata for name, sign in signs.items() if hasattr(one, name)]
    return f" {', '.join(found)}" if found else ""


def _default(field: Any) -> str:
    if field.is_required():
        return "" if field is RunConfig.model_fields["name"] else "required"
    value = field.get_default(call_default_factory=True)
    return "" if value in (None, PydanticUndefined, "", (), [], {}) else f"`{value}`"
