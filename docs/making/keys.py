"""Tabulate the keys of YAML files and of `fit.json`, and the columns of tables, from the types that read them.

The description of a key is the `Key` of its type, an entry of `words.yaml`, or a passage of its model's docstring
(`top, max_regret: options of…`).
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from making.marks import cell
from youden.data.folder.run_config import RunConfig  # the default of its key `name` is the name of the file
from youden.data.folder.table_columns import COLUMNS
from youden.judging.backend_records import BACKENDS, PROVIDERS
from youden.run_keys import Key
from youden.types.facts import ALTERNATIVE_RANKINGS

_MODULES = {
    "RunConfig": "youden.data.folder.run_config",
    "ExtensionStep": "youden.data.folder.extension_steps",
    "AnswerSettings": "youden.judging.config.answering",
    "RequestSettings": "youden.judging.config.answering",
    "JudgeConfig": "youden.judging.config.settings",
    "RunFacts": "youden.types.facts",
}


def table(name: str) -> str:
    """Tabulate the keys of the pydantic model called `name`, without the keys of its base classes."""
    model: type[BaseModel] = _import_type(name)
    descriptions = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
    names = {"{backends}": BACKENDS, "{providers}": PROVIDERS}
    notes = [(name, note) for name, field in model.model_fields.items() for note in field.metadata]
    texts = {name: note.text for name, note in notes if isinstance(note, Key)}
    if not texts:
        texts = find_descriptions(inspect.getdoc(model) or "", list(model.model_fields)) | descriptions.get(
            model.__name__, {}
        )
    rows = [
        f"| `{name}` | {cell(_describe_type(field.annotation))}{_describe_bounds(field.metadata)} "
        f"| {_describe_default(field)} | {text} |"
        for name, field in model.model_fields.items()
        if model is RunConfig or name in model.__annotations__
        for text in [cell(_list_names(texts.get(name, ""), names))]
    ]
    return "\n".join(["| key | type | default | description |", "| --- | --- | --- | --- |", *rows])


def _list_names(text: str, names: Mapping[str, Iterable[str]]) -> str:
    """Replace each placeholder of a text by the names that it stands for, as code and in alphabetical order."""
    for placeholder, listed in names.items():
        text = text.replace(placeholder, ", ".join(f"`{name}`" for name in sorted(listed)))
    return text


def facts(name: str) -> str:
    """Tabulate the fields of the dataclass called `name` with the docstrings that follow them in its source."""
    rows = [f"| `{field}` | {cell(text)} |" for field, text in _field_docstrings(_import_type(name)).items()]
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
    """Tabulate the columns of a run's file, without those of alternative rankings."""
    alternatives = tuple(f"{name}_" for name in ALTERNATIVE_RANKINGS)
    rows = [
        f"| `{column.name}` | {cell(f'{column.description}{words}')} |"
        for column in COLUMNS[file]
        for words in [": " + ", ".join(f"`{word}`" for word in column.words) if column.words else ""]
        if not column.name.startswith(alternatives)
    ]
    return "\n".join(["| column | meaning |", "| --- | --- |", *rows])


def find_descriptions(docstring: str, names: list[str]) -> dict[str, str]:
    """Return the passage of a docstring on each name: the text after `name: ` or `name, name: ` up to the next such mark."""
    any_name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    several = rf"(?:{any_name})`?(?:(?:, | and )`?(?:{any_name})`?)*"
    start = re.compile(rf"(?:(?<=[.;] )|(?<=\n)|^)`?({several})(?::| is| are| says) ", re.MULTILINE)
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", docstring)
    marks = list(start.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    passages: dict[str, list[str]] = {}
    for mark, end in zip(marks, ends, strict=False):
        passage = text[mark.end() : end].split("\n\n")[0].strip().rstrip(";")
        for name in re.findall(any_name, mark[1]):
            passages.setdefault(name, []).append(passage)
    return {name: " ".join(parts) for name, parts in passages.items()}


def _import_type(name: str) -> Any:
    return getattr(import_module(_MODULES[name]), name)


_WORDS = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "JsonValue": "any value"}


def _describe_type(annotation: Any) -> str:
    """Describe a type: `int | None` is "whole number", because every key may be omitted."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    origin = get_origin(annotation)
    if origin is Annotated:
        return _describe_type(parts[0])
    if origin is Literal:
        return ", ".join(map(str, parts))
    if origin in (Union, UnionType):
        return " or ".join(_describe_type(part) for part in parts)
    if origin in (list, tuple):
        return f"list of {_describe_type(parts[0])}"
    if origin is dict:
        return "mapping"
    name = getattr(annotation, "__name__", str(annotation))
    return _WORDS.get(name, "mapping")


def _describe_bounds(metadata: list[Any]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [
        f"{sign} {getattr(bound, name)}" for bound in metadata for name, sign in signs.items() if hasattr(bound, name)
    ]
    return f" {', '.join(bounds)}" if bounds else ""


def _describe_default(field: Any) -> str:
    if field.is_required():
        return "" if field is RunConfig.model_fields["name"] else "required"
    value = field.get_default(call_default_factory=True)
    if value in (None, PydanticUndefined, "", (), [], {}):
        return ""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_none=True)
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False).removesuffix("...\n").strip()
    return f"`{text}`"
