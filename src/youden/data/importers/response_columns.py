"""Reads the responses of a row: from columns, from paths inside columns, or from lists in the layouts of known data sets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from youden.data.importers.column_names import ROLES
from youden.data.importers.foreign_files import inner, wrong
from youden.data.importers.pool_joiner import NO_TEXTS, ItemsByPrompt, Joiner, nested_labels
from youden.data.importers.response_values import prompt_text, response_values, single
from youden.data.importers.restarting_ids import composite_columns
from youden.data.pools.spool import shown
from youden.text.json_text import replace_nonfinite
from youden.text.printable import acts
from youden.types.pool import Json

_STEP = re.compile(r"\[(?P<at>-?\d*)\]|\.?(?P<key>[^.\[\]]+)")


@dataclass(frozen=True)
class ColumnPath:
    """Keys and positions from a row to a value; with `rest`, from each element of the list found there.

    together: further columns, whose values are joined to this one's.
    """

    steps: tuple[str | int, ...]
    rest: tuple[str | int, ...] | None = None
    together: tuple[tuple[str | int, ...], ...] = ()

    @classmethod
    def parse(cls, text: str, present: Collection[str]) -> ColumnPath | None:
        """Return the path that a text spells, a column of that name first; None if it spells none from a column."""
        if text in present:
            return cls((text,))
        if names := composite_columns(text, present):
            return cls((names[0],), together=tuple((name,) for name in names[1:]))
        steps: list[str | int | None] = []
        at = 0
        while found := _STEP.match(text, at):
            key, position = found["key"], found["at"]
            steps.append(key if key is not None else int(position) if position not in ("", "-") else None)
            at = found.end()
        each = [number for number, step in enumerate(steps) if step is None]
        if at < len(text) or not steps or steps[0] not in present or len(each) > 1:
            return None
        known = [step for step in steps if step is not None]
        return cls(tuple(known[: each[0]]), tuple(known[each[0] :])) if each else cls(tuple(known))

    def one(self, row: Mapping[str, Json]) -> Json:
        """Return the value; None if the path, or that of a column in `together`, ends early."""
        fields = row if isinstance(row, dict) else dict(row)  # without a copy per column
        values = [inner(fields, *steps) for steps in (self.steps, *self.together)]
        return values[0] if len(values) == 1 else None if None in values else " / ".join(map(str, values))

    def each(self, row: Mapping[str, Json]) -> list[Json]:
        """Return the value in each element of the list; none if there is no list."""
        found = self.one(row)
        return [inner(element, *(self.rest or ())) for element in found] if isinstance(found, list) else []


PROMPTS = ("prompt", "instruction", "question")
ITEMS = ("item", "prompt_id", "question_id", "id")
_PAIR = ("chosen", "rejected")


def known_columns(row: Mapping[str, Json]) -> dict[str, str]:
    """Return the path of each role, if the columns of a row are those of a known layout; else nothing.

    >>> known_columns({"instruction": "i", "generations": ["a"], "generation_models": ["m"]})
    {'agent': 'generation_models[]', 'text': 'generations[]', 'prompt': 'instruction'}
    >>> known_columns({"prompt": "p", "prompt_id": "x", "chosen": "a", "rejected": "b"})
    {'text': 'chosen,rejected', 'item': 'prompt_id', 'prompt': 'prompt'}
    """
    found = _responses(row)
    if found:
        for role, names in (("item", ITEMS), ("prompt", PROMPTS)):
            if (name := next((name for name in names if name in row), None)) is not None:
                found[role] = name
    return found


def _responses(row: Mapping[str, Json]) -> dict[str, str]:
    for models in ("generation_models", "generation_model"):
        if isinstance(row.get("generations"), list) and isinstance(row.get(models), list):
            return {"agent": f"{models}[]", "text": "generations[]"}
    match row.get("completions"):
        case [{"model": _, "response": _}, *_]:
            return {"agent": "completions[].model", "text": "completions[].response"}
        case {"model": [*_], "response": [*_]}:
            return {"agent": "completions.model[]", "text": "completions.response[]"}
    if all(name in row for name in _PAIR):
        return {"text": ",".join(_PAIR)}
    return {}


SHEET_ERROR = re.compile(r"\s*#(REF!|N/A|VALUE!|NAME\?|DIV/0!|NULL!|NUM!|SPILL!|CALC!|FIELD!|BLOCKED!|GETTING_DATA)\s*")
"""What a spreadsheet shows if a formula failed."""
_YES = ("true", "yes", "y", "x", "1")
_LONG_ID = 100
REPEATS = ("repeat", "sample", "epoch")
"""Columns that number an agent's responses to one item, if no other is named."""
ROW_ORDER = "rows"
"""Named in place of a column: rows of one agent and item are repeats in their order."""


def named_paths(
    file: Path, row: Mapping[str, Json], columns: Mapping[str, str]
) -> tuple[dict[str, ColumnPath], dict[str, ColumnPath]]:
    """Return the path of each role, and of each agent that has a column of its own.

    Roles are those of `columns`, else of columns that are called as the roles are, else of a known layout.

    Raises: ImportFormatError [import-columns] if a role or a column is not known, or text or item has none.
    """
    paths: dict[str, ColumnPath] = {}
    wide: dict[str, ColumnPath] = {}
    for role, text in columns.items():
        several = text.split(",") if role == "text" and text not in row else [text]
        for name in several:
            path = ColumnPath.parse(name, row)
            if path is None:
                raise wrong(
                    file,
                    f"there is no column '{name}'; it has {shown(', '.join(row))}. Correct --column.",
                    slug="import-columns",
                )
            (wide if len(several) > 1 else paths)[name if len(several) > 1 else role] = path
    problem = None
    missing = "item" if not paths.keys() & {"item", "prompt"} else "text" if "text" not in paths and not wide else None
    if missing:
        problem = f"no column {missing}; it has {shown(', '.join(row))}. Say which it is: --column {missing}=NAME."
    elif wide and "agent" in columns:
        problem = "text names an agent a column, and agent a column, too. Leave agent out."
    elif any(path.rest is not None for path in paths.values()) and (wide or paths["text"].rest is None):
        problem = "a path with [] goes through lists, and text has none. Name the text of each element."
    if problem:
        raise wrong(file, problem, slug="import-columns")
    return paths, wide


def check_roles(place: Path, columns: Mapping[str, str]) -> None:
    """Raises: ImportFormatError [import-columns] if `columns` names a role that there is not."""
    for role in columns:
        if role not in ROLES:
            raise wrong(place, f"'{role}' is none of {', '.join(ROLES)}. Correct --column.", slug="import-columns")


@dataclass
class ResponseReader:
    """Adds the responses of rows to a pool.

    Attributes
    ----------
    paths : mapping
        Role to path, for the roles that the rows have.
    wide : mapping
        Agent to path, for agents that have a column each.
    agent : str
        Agent of rows that name none.
    joiner : Joiner
    items : ItemsByPrompt
        Makes the ids of items that have none.
    is_made : bool
        Whether ids of items are made from their prompts.
    is_exact : bool
        Whether values are taken as they are. Else ids lose spaces around them, numbers become texts, and an empty cell or an
        error of a spreadsheet is no response, unless the column `empty` says that an empty response was given.
    by_rows : bool
        Whether rows of one agent and item are repeats.
    """

    paths: Mapping[str, ColumnPath]
    wide: Mapping[str, ColumnPath]
    agent: str
    joiner: Joiner
    items: ItemsByPrompt = field(default_factory=ItemsByPrompt)
    is_made: bool = False
    is_exact: bool = True
    by_rows: bool = False
    _n_rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    _known: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Json], place: str) -> None:
        """Add the responses of one row to the pool."""
        whole = {role: path.one(row) for role, path in self.paths.items() if path.rest is None}
        if self.wide:
            for name, path in self.wide.items():
                self._add_cell({**whole, "agent": name, "text": path.one(row)}, place)
            return
        lists = {role: path.each(row) for role, path in self.paths.items() if path.rest is not None}
        lengths = {len(values) for values in lists.values()}
        if lengths == {0}:
            self.joiner.leave_out("a row without responses", place)
        elif len(lengths) > 1:
            n = len(lists.get("text", ())) or max(lengths)
            self.joiner.drop(self.agent, "the lists of a row have different lengths", place, n=n)
        elif not lists:
            self._add_cell(whole, place)
        else:
            for values in zip(*lists.values(), strict=True):
                self._add_cell({**whole, **dict(zip(lists, values, strict=True))}, place)

    def _add_cell(self, values: Mapping[str, Json], place: str) -> None:
        if all(value is None or (isinstance(value, str) and not value.strip()) for value in values.values()):
            self.joiner.leave_out("an empty row", place)
            return
        texts = response_values(values.get("text"))
        if not texts:
            self.joiner.leave_out(NO_TEXTS, place)
        for text, label in zip(texts, nested_labels(values.get("repeat"), len(texts)), strict=True):
            self._add_response({**values, "text": text, "repeat": label}, place, is_listed=len(texts) > 1)

    def _add_response(self, values: Mapping[str, Json], place: str, *, is_listed: bool) -> None:
        agent = single(values.get("agent")) if "agent" in self.paths or self.wide else self.agent
        item, prompt = single(values.get("item")), prompt_text(values.get("prompt"))
        repeat = values.get("repeat")
        if self.by_rows:
            cell = str(agent), str(prompt if "item" not in self.paths else item)
            self._n_rows[cell] += 1
            repeat = self._n_rows[cell]
        text = replace_nonfinite(values.get("text"))
        if text is None and str(values.get("empty")).casefold() in _YES:
            text = ""
        if self.is_exact:
            if "item" not in self.paths and isinstance(prompt, str) and prompt.strip():
                item = self.items.item(str(agent), prompt, text, repeat=repeat)
            self.joiner.add(agent, item, text, prompt=prompt, group=values.get("group"), place=place, repeat=repeat)
            return
        if text is None:
            self.joiner.leave_out("an empty cell in place of a text", place)
            return
        text = text if isinstance(text, str) else orjson.dumps(text, default=str).decode()
        if SHEET_ERROR.fullmatch(text):
            self.joiner.leave_out("an error of the spreadsheet (such as #REF!) in place of a text", place)
            return
        agent, item, prompt = (
            " ".join(value.split()) if isinstance(value, str) else value for value in (agent, item, prompt)
        )
        if "repeat" not in self.paths:  # a different response is a repeat, the same once more is none
            known = self._known.setdefault((str(agent), str(item or prompt or place)), {})
            repeat = known.setdefault(f"{repeat}: {text}" if is_listed else text, len(known) + 1)
        if self.is_made or (isinstance(item, str) and (len(item) > _LONG_ID or acts(item))):
            key = item or prompt or place
            prompt = prompt_text(values.get("prompt") or values.get("item"))
            item = self.items.item(str(agent), str(key), text, repeat=repeat)
        self.joiner.add(agent, item, text, prompt=prompt, group=values.get("group"), place=place, repeat=repeat)
