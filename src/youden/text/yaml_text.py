"""YAML, and the front matter of Markdown, read for the whole project; what pydantic found wrong with data, in one sentence.

A key that is given twice is refused: plain PyYAML keeps the last without a word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml
from pydantic import ValidationError

from youden.text.regular_files import read_regular_text

SHOWN = 60
"""Most characters of a wrong value that are shown."""


def misfit(
    error: ValidationError,
    *,
    keys: Iterable[str] = (),
    hidden: Collection[str] = (),
    shown: bool = True,
    whole: str = "the whole",
) -> str:
    """The first thing that does not fit: where it stands, why, what arrived; without a full stop.

    keys: what a key at the top may be called, to help with an unknown one. hidden: keys whose values may be secret. shown:
    whether any value is. whole: a name for the data.
    """
    errors = error.errors(include_url=False, include_context=False)
    first = errors[_deepest([each["loc"] for each in errors])]
    way = [str(part) for part in first["loc"] if not _TYPE.fullmatch(str(part))]
    place, reason = ".".join(way), first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return unknown_key(place, keys if len(way) == 1 else ())
    if first["type"] == "missing":
        return f"{place!r} is missing"
    if first["type"] == "model_type":
        reason = "has no keys; write `key: value`, in JSON an object"
    if not place:
        return reason if first["type"] == "value_error" else f"{whole}: {reason}"
    arrived = f" is {repr(first['input'])[:SHOWN]}" if shown and way[0] not in hidden else ""
    return f"{place!r}{arrived}: {reason}"


def _deepest(places: Sequence[tuple[int | str, ...]]) -> int:
    """Return the index of the first error; if its value may be of several types, that of the deepest error in the value."""
    tag = next((n for n, part in enumerate(places[0]) if _TYPE.fullmatch(str(part))), len(places[0]))
    if tag == len(places[0]):
        return 0
    same_value = [n for n, place in enumerate(places) if place[:tag] == places[0][:tag]]
    return max(same_value, key=lambda n: len(places[n]))


_TYPE = re.compile(
    r"constrained-\w+|(json-or-python|nullable|function-\w+|dict|list|tuple)\[.*|dict|list|str|int|float|bool|none"
)
"""Parts of a pydantic location that are not keys, but name a type that was tried."""


def unknown_key(key: str, known: Iterable[str] = ()) -> str:
    """That there is no such key, with the nearest and all that there are; without a full stop."""
    known = list(known)
    close = get_close_matches(key, known, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"unknown key '{key}'" + (f". {hint}Known: {', '.join(known)}" if known else "")


_MOST_NODES = 100_000
"""Values of a text: a few hundred letters with aliases of aliases could make any number of them."""
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n(.*)\Z", re.DOTALL)
_MERGE = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """What is wrong with a YAML text, in one line, with the number of the line where that is known."""


@dataclass(frozen=True)
class FrontMatter:
    """What stands between two lines `---` at the top of a file, and the text below."""

    head: object
    body: str


def read_yaml(path: Path) -> object:
    """What the UTF-8 file at `path` says. Raises: OSError, UnicodeDecodeError, YamlError."""
    return parse_yaml(read_regular_text(path, encoding="utf-8-sig"))


def parse_yaml(text: str, *, first_line: int = 1) -> object:
    """What `text` says. first_line: the number of its first line in its file, for errors. Raises: YamlError."""
    loader: yaml.SafeLoader | None = None
    try:
        loader = _Loader(text)
        data: object = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        said = " ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        raise YamlError(said + ("" if mark is None else f" (line {mark.line + first_line})")) from None
    except RecursionError:
        raise YamlError("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(" ".join(str(error).split())) from None
    finally:
        if loader is not None:
            loader.dispose()
    return data


def front_matter(text: str) -> FrontMatter | None:
    """The head and body of `text`; None where it does not begin with front matter. Raises: YamlError."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return None
    first_line = text.count("\n", 0, found.start(1)) + 1
    return FrontMatter(parse_yaml(found[1], first_line=first_line), found[2])


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, also in a mapping that is merged into another by `<<`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._checked: set[int] = set()

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and self._size(node, {}) > _MOST_NODES:
            raise yaml.YAMLError(f"its aliases (*name) make more than {_MOST_NODES:,} values of it; write them out")
        return node

    def _size(self, node: yaml.Node, known: dict[int, float]) -> float:
        """Values in `node`, those of aliases counted wherever they stand."""
        if id(node) not in known:
            known[id(node)] = math.inf  # what holds itself has no end
            inner = [one for pair in node.value for one in pair] if isinstance(node, yaml.MappingNode) else node.value
            parts = () if isinstance(node, yaml.ScalarNode) else inner
            known[id(node)] = 1 + sum(self._size(one, known) for one in parts)
        return known[id(node)]

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if id(node) not in self._checked:
            self._checked.add(id(node))  # before keys are merged into it, which its own may override
            self._refuse_twins(node)
        super().flatten_mapping(node)

    def _refuse_twins(self, node: yaml.MappingNode) -> None:
        seen: set[Hashable] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            name = self.construct_object(key)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark)
            seen.add(name)
