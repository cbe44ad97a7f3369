"""Where in a row a value stands: a column, a key inside it, each element of a list.

`text` is a column; `meta.model` a key inside one; `turns[0]` an element (`turns[-1]` the last); `completions[].response` the key
of each element, so that a row holds several responses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from youden.data.importers.reading import inner
from youden.nouns import Json

_STEP = re.compile(r"\[(?P<at>-?\d*)\]|\.?(?P<key>[^.\[\]]+)")


@dataclass(frozen=True)
class ColumnPath:
    """Keys and positions from a row to a value; with `rest`, from each element of the list found there."""

    steps: tuple[str | int, ...]
    rest: tuple[str | int, ...] | None = None

    @classmethod
    def of(cls, said: str, present: Collection[str]) -> ColumnPath | None:
        """The path that `said` spells, a column of that very name first. None where it is no path, or starts with no column."""
        if said in present:
            return cls((said,))
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
        """The value; None where the path ends early."""
        return inner(dict(row), *self.steps)

    def each(self, row: Mapping[str, Json]) -> list[Json]:
        """The value in each element of the list; none where there is no list."""
        found = self.one(row)
        return [inner(element, *(self.rest or ())) for element in found] if isinstance(found, list) else []
