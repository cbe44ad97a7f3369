"""Which column, or path inside one, of other people's tables is the agent, the item, the text; known layouts among them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

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
    def of(cls, said: str, present: Collection[str]) -> ColumnPath | None:
        """The path that `said` spells, a column of that very name first. None where it is no path, or starts with no column."""
        if said in present:
            return cls((said,))
        if names := composite_columns(said, present):
            return cls((names[0],), together=tuple((name,) for name in names[1:]))
        steps: list[str | int | None] = []
        at = 0
        while found := _STEP.match(said, at):
            key, position = found["key"], found["at"]
            steps.append(key if key is not None else int(position) if position not in ("", "-") else None)
            at = found.end()
        each = [number for number, step in enumerate(steps) if step is None]
        if at < len(said) or not steps or steps[0] not in present or len(each) > 1:
            return None
        known = [step for step in steps if step is not None]
        return cls(tuple(known[: each[0]]), tuple(known[each[0] :])) if each else cls(tuple(known))

    def one(self, row: Mapping[str, Json]) -> Json:
        """Return the value; None if the path, or that of a column in `together`, ends early."""
        fields = row if isinstance(row, dict) else dict(row)  # without a copy per column
        values = [inner(fields, *steps) for steps in (self.steps, *self.together)]
        return values[0] if len(values) == 1 else None if None in values else " / ".join(map(str, values))

    def each(self, row: Mapping[str, Json]) -> list[Json]:
        """The value in each element of the list; none where there is no list."""
        found = self.one(row)
        return [inner(element, *(self.rest or ())) for element in found] if isinstance(found, list) else []


PROMPTS = ("prompt", "instruction", "question")
ITEMS = ("item", "prompt_id", "question_id", "id")
_PAIR = ("chosen", "rejected")


def known_columns(row: Mapping[str, Json]) -> dict[str, str]:
    """Noun → path, where the row's columns are those of a known layout; else nothing.

    >>> known_columns({"instruction": "i", "generations": ["a"], "generation_models": ["m"]})
    {'agent': 'generation_models[]', 'text': 'generations[]', 'prompt': 'instruction'}
    >>> known_columns({"prompt": "p", "prompt_id": "x", "chosen": "a", "rejected": "b"})
    {'text': 'chosen,rejected', 'item': 'prompt_id', 'prompt': 'prompt'}
    """
    found = _responses(row)
    if found:
        for noun, names in (("item", ITEMS), ("prompt", PROMPTS)):
            if (name := next((name for name in names if name in row), None)) is not None:
                found[noun] = name
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


NOUNS = ("agent", "item", "text", "prompt", "group", "empty", "repeat")
SHEET_ERROR = re.compile(r"\s*#(REF!|N/A|VALUE!|NAME\?|DIV/0!|NULL!|NUM!|SPILL!|CALC!|FIELD!|BLOCKED!|GETTING_DATA)\s*")
"""What a spreadsheet shows where a formula failed."""
_YES = ("true", "yes", "y", "x", "1")
_LONG_ID = 100
REPEATS = ("repeat", "sample", "epoch")
"""Columns that tell an agent's responses to one item apart, where no other is named."""
ROWS = "rows"
"""Named in place of a column: rows of one agent and item are repeats in the order in which they stand."""


@dataclass(frozen=True)
class Columns:
    """The place of each noun in one file's rows; those that have none are not in it.

    wide: columns that are an agent each. agent: whom the rows belong to where nothing in them says so. made: items get an id that
    is made from their text. loosely: of files that people made by hand: ids without spaces around them, numbers as texts, empty
    cells and errors of a spreadsheet as no response, unless the column `empty` says that an empty answer was given.
    by_rows: whether rows of one agent and item are repeats; seen: how many there were of each; texts: loosely,
    which there were, with their number.
    """

    places: Mapping[str, ColumnPath]
    wide: Mapping[str, ColumnPath]
    agent: str
    items: ItemsByPrompt = field(default_factory=ItemsByPrompt)
    made: bool = False
    loosely: bool = False
    by_rows: bool = False
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    texts: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, file: Path, row: Mapping[str, Json], *, columns: Mapping[str, str], agent: str, joiner: Joiner
    ) -> Columns:
        """What `columns` says, else columns called as the nouns are, else a known layout. Others are ignored, with a note.

        row: the file's first. Without an item, items are prompts.

        Raises: ImportFormatError [import-columns] where text, or both item and prompt, has none, or a named one is not there.
        """
        named = {noun: noun for noun in NOUNS if noun in row} | dict(columns)
        if "text" not in named:
            named = known_columns(row) | named
        used_already = {*named.values()}
        if "repeat" not in named and (found := [n for n in REPEATS if n in row and n not in used_already]):
            named["repeat"] = found[0]
            joiner.note(f"{file}: the column {found[0]} tells repeats apart")
        by_rows = named.get("repeat") == ROWS and ROWS not in row
        if by_rows:
            del named["repeat"]
        places: dict[str, ColumnPath] = {}
        wide: dict[str, ColumnPath] = {}
        for noun, said in named.items():
            if noun not in NOUNS:
                raise wrong(file, f"'{noun}' is none of {', '.join(NOUNS)}. Correct --column.", slug="import-columns")
            several = said.split(",") if noun == "text" and said not in row else [said]
            for name in several:
                path = ColumnPath.of(name, row)
                if path is None:
                    raise wrong(
                        file,
                        f"there is no column '{name}'; it has {shown(', '.join(row))}. Correct --column.",
                        slug="import-columns",
                    )
                (wide if len(several) > 1 else places)[name if len(several) > 1 else noun] = path
        missing = next((noun for noun in ("item", "text") if noun not in places), None)
        if (missing == "item" and "prompt" not in places) or (missing == "text" and not wide):
            raise wrong(
                file,
                f"no column {missing}; it has {shown(', '.join(row))}. Say which it is: --column {missing}=NAME.",
                slug="import-columns",
            )
        if wide and "agent" in columns:
            raise wrong(
                file, "text names an agent a column, and agent a column, too. Leave agent out.", slug="import-columns"
            )
        if any(path.rest is not None for path in places.values()) and (wide or places["text"].rest is None):
            raise wrong(
                file,
                "a path with [] goes through lists, and text has none. Name the text of each element.",
                slug="import-columns",
            )
        used = {steps[0] for path in (*places.values(), *wide.values()) for steps in (path.steps, *path.together)}
        if unused := [name for name in row if name not in used]:
            joiner.note(f"{file}: columns not used: {', '.join(unused)}")
        return cls(places, wide, agent, by_rows=by_rows)

    def add(self, row: Mapping[str, Json], joiner: Joiner, *, place: str) -> None:
        """The responses of one row."""
        whole = {noun: path.one(row) for noun, path in self.places.items() if path.rest is None}
        if self.wide:
            for name, path in self.wide.items():
                self._one({**whole, "agent": name, "text": path.one(row)}, joiner, place)
            return
        lists = {noun: path.each(row) for noun, path in self.places.items() if path.rest is not None}
        lengths = {len(values) for values in lists.values()}
        if lengths == {0}:
            joiner.leave_out("a row without responses", place)
            return
        if len(lengths) > 1:
            n = len(lists.get("text", ())) or max(lengths)
            joiner.drop(self.agent, "the lists of a row have different lengths", place, n=n)
            return
        for at in range(*lengths) if lists else (None,):
            self._one(
                whole if at is None else {**whole, **{noun: said[at] for noun, said in lists.items()}}, joiner, place
            )

    def _one(self, values: Mapping[str, Json], joiner: Joiner, place: str) -> None:
        if all(value is None or (isinstance(value, str) and not value.strip()) for value in values.values()):
            joiner.leave_out("an empty row", place)
            return
        texts = response_values(values.get("text"))
        if not texts:
            joiner.leave_out(NO_TEXTS, place)
        for text, label in zip(texts, nested_labels(values.get("repeat"), len(texts)), strict=True):
            self._response({**values, "text": text, "repeat": label}, joiner, place, is_listed=len(texts) > 1)

    def _response(self, values: Mapping[str, Json], joiner: Joiner, place: str, *, is_listed: bool) -> None:
        agent = single(values.get("agent")) if "agent" in self.places or self.wide else self.agent
        item, prompt = single(values.get("item")), prompt_text(values.get("prompt"))
        repeat = values.get("repeat")
        if self.by_rows:
            asked = str(agent), str(prompt if "item" not in self.places else item)
            self.seen[asked] += 1
            repeat = self.seen[asked]
        text = replace_nonfinite(values.get("text"))
        if text is None and str(values.get("empty")).casefold() in _YES:
            text = ""
        if self.loosely:
            if text is None:
                joiner.leave_out("an empty cell in place of a text", place)
                return
            text = text if isinstance(text, str) else orjson.dumps(text, default=str).decode()
            if SHEET_ERROR.fullmatch(text):
                joiner.leave_out("an error of the spreadsheet (such as #REF!) in place of a text", place)
                return
            agent, item, prompt = (_tidy(said) for said in (agent, item, prompt))
            if "repeat" not in self.places:  # what differs is a repeat, what is the same once more is none
                known = self.texts.setdefault((str(agent), str(item or prompt or place)), {})
                repeat = known.setdefault(f"{repeat}: {text}" if is_listed else text, len(known) + 1)
            if self.made or (isinstance(item, str) and (len(item) > _LONG_ID or acts(item))):
                said = item or prompt or place
                prompt = prompt_text(values.get("prompt") or values.get("item"))
                item = self.items.item(str(agent), str(said), text, repeat=repeat)
        elif "item" not in self.places and isinstance(prompt, str) and prompt.strip():
            item = self.items.item(str(agent), prompt, text, repeat=repeat)
        joiner.add(agent, item, text, prompt=prompt, group=values.get("group"), place=place, repeat=repeat)


def _tidy(said: Json) -> Json:
    """Without spaces around it, and with one in place of line ends and runs of them."""
    return " ".join(said.split()) if isinstance(said, str) else said
