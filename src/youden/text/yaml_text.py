"""Parse YAML and the front matter of Markdown for the whole project, and format pydantic's errors as one sentence.

A key that occurs twice in a mapping is an error, whereas plain PyYAML silently uses the last one. So is a number such as
`0100` or `1:30`, which plain PyYAML reads as 64 and 90.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from pathlib import Path

import yaml
from pydantic import ValidationError

from youden.text.regular_files import read_regular_text

MAX_VALUE_CHARACTERS = 60
"""Number of characters of an invalid value that a message shows."""


def format_validation_error(
    error: ValidationError,
    *,
    keys: Iterable[str] = (),
    hidden: Collection[str] = (),
    show_values: bool = True,
    subject: str = "the whole",
) -> str:
    """Format the first error that pydantic found in data.

    If the first invalid value may have one of several types, the error of the type that fits the value best is formatted.

    Parameters
    ----------
    error : pydantic.ValidationError
        The error.
    keys : iterable of str, optional
        Valid keys at the top level. For an unknown top-level key, they are listed and the most similar one is suggested.
        Default: none are listed.
    hidden : collection of str, optional
        Top-level keys whose values may be secret. These values, including nested ones, are not shown.
        Default: all values may be shown.
    show_values : bool, default True
        Whether to show any values.
    subject : str, default "the whole"
        Name of the data, for an error that concerns all of it.

    Returns
    -------
    str
        The location (keys joined by "."), the value, cut to 60 characters, and what is wrong with it, without a full stop at the
        end. For an unknown or a missing key, no value is shown.
    """
    errors = error.errors(include_url=False, include_context=False)
    first = errors[_find_error_to_report([entry["loc"] for entry in errors])]
    path = [str(part) for part in first["loc"] if not _TYPE.fullmatch(str(part))]
    location = ".".join(path)
    reason = first["msg"].removeprefix("Value error, ")

    if first["type"] == "extra_forbidden":
        return format_unknown_key(location, keys if len(path) == 1 else ())
    if first["type"] == "missing":
        return f"{location!r} is missing"
    if first["type"] == "model_type":
        reason = "has no keys; write `key: value`, or an object in JSON"
    if not location:
        return reason if first["type"] == "value_error" else f"{subject}: {reason}"

    is_text_expected = any(entry["type"] == "string_type" and entry["input"] is first["input"] for entry in errors)
    if isinstance(first["input"], bool) and is_text_expected:
        reason = "in YAML, yes, no, on, off, true and false are not text. Put the value in quotes"
    value = ""
    if show_values and path[0] not in hidden:
        value = f" is {repr(first['input'])[:MAX_VALUE_CHARACTERS]}"
    return f"{location!r}{value}: {reason}"


def _find_error_to_report(locations: Sequence[tuple[int | str, ...]]) -> int:
    """Return the position of the one error that a message reports, among all errors that pydantic found.

    This is the first error. If its value may have one of several types, pydantic reports errors for each type, with the name of
    the type in the location. Of these errors, the one with the longest location is used, because its type fits the value best.

    locations : location of each error: a tuple of keys, positions in lists and names of types, from the top level inwards
    """
    first_location = locations[0]
    is_type = [_TYPE.fullmatch(str(part)) is not None for part in first_location]
    if not any(is_type):
        return 0

    # the keys before the name of the type lead to the value
    n_keys = is_type.index(True)
    path_of_value = first_location[:n_keys]
    errors_of_value = [position for position, location in enumerate(locations) if location[:n_keys] == path_of_value]
    return max(errors_of_value, key=lambda position: len(locations[position]))


_TYPE = re.compile(
    r"constrained-\w+|(json-or-python|nullable|function-\w+|dict|list|tuple)\[.*|dict|list|str|int|float|bool|none"
)
"""Parts of a pydantic location that are not keys but names of the types that were tried."""


def format_unknown_key(key: str, choices: Iterable[str] = ()) -> str:
    """Format the error for an unknown key, without a full stop at the end.

    Parameters
    ----------
    key : str
        The unknown key.
    choices : iterable of str, optional
        The valid keys, which are listed; the most similar one is suggested.
    """
    choices = list(choices)
    if not choices:
        return f"unknown key '{key}'"
    similar = get_close_matches(key, choices, n=1)
    hint = f"Did you mean '{similar[0]}'? " if similar else ""
    return f"unknown key '{key}'. {hint}Known: {', '.join(choices)}"


_MAX_NODES = 100_000
"""Largest number of values in a text; with nested aliases, a short text could define any number of values."""
_FRONT_MATTER = re.compile(r"\A---\s*\n(?P<yaml>.*?)\n---\s*\n(?P<body>.*)\Z", re.DOTALL)
_MERGE, _INTEGER, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("merge", "int", "float"))
_MISLEADING_NUMBER = re.compile(r"[-+]?0[0-7_]+|.*:.*")
"""Octal and sexagesimal numbers of YAML 1.1."""


class YamlError(ValueError):
    """A YAML text is invalid; the message is one line, with the line number if it is known."""


@dataclass(frozen=True)
class FrontMatter:
    """The front matter of a file and the text below it."""

    head: object
    """The parsed YAML between two lines `---` at the top of the file."""
    body: str
    """The text below."""


def read_yaml(path: Path) -> object:
    """Read a YAML file in UTF-8.

    Parameters
    ----------
    path : Path
        The file; a byte order mark at its start is ignored.

    Returns
    -------
    object
        The parsed value; None for an empty file.

    Raises
    ------
    OSError, UnicodeDecodeError
        If the file cannot be read, or is not UTF-8.
    YamlError
        If it is not valid YAML, or if a key occurs twice.
    """
    return parse_yaml(read_regular_text(path, encoding="utf-8-sig"))


def parse_yaml(text: str, *, first_line: int = 1) -> object:
    """Parse a YAML text; None for an empty text.

    Parameters
    ----------
    text : str
        The text.
    first_line : int, default 1
        Line of the file at which the text begins, for messages.

    Returns
    -------
    object
        The parsed value.

    Raises
    ------
    YamlError
        If the text is not valid YAML, if a key occurs twice, or if it is nested too deeply.
    """
    try:
        return deepcopy(_load_yaml(text))
    except yaml.MarkedYAMLError as error:
        message = " ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        if mark is not None:
            message += f" (line {mark.line + first_line})"
        raise YamlError(message) from None
    except RecursionError:
        raise YamlError("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(" ".join(str(error).split())) from None


@lru_cache(maxsize=16)
def _load_yaml(text: str) -> object:
    """Parse a YAML text. The value is shared by all calls with the same text, because one command reads a file several times."""
    loader = _Loader(text)
    try:
        data: object = loader.get_single_data()
    finally:
        loader.dispose()
    return data


def split_front_matter(text: str) -> FrontMatter | None:
    """Split a text into its front matter and its body.

    Parameters
    ----------
    text : str
        Text that may begin with front matter: YAML between two lines of three hyphens.

    Returns
    -------
    FrontMatter or None
        The parsed front matter and the text after it; None if the text does not begin with front matter.

    Raises
    ------
    YamlError
        If the front matter is not valid YAML.
    """
    match = _FRONT_MATTER.match(text)
    if match is None:
        return None
    first_yaml_line = text.count("\n", 0, match.start("yaml")) + 1
    head = parse_yaml(match["yaml"], first_line=first_yaml_line)
    return FrontMatter(head, match["body"])


class _Loader(yaml.SafeLoader):
    """A safe loader that rejects duplicate keys, also in a mapping merged by `<<`, and numbers that are not decimal."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._checked: set[int] = set()

    def get_single_node(self) -> yaml.Node | None:
        """Return the root of the document, unless its aliases expand to too many values."""
        node = super().get_single_node()
        if node is not None and self._count_nodes(node, {}) > _MAX_NODES:
            raise yaml.YAMLError(f"its aliases (*name) expand to more than {_MAX_NODES:,} values; write the values out")
        return node

    def _count_nodes(self, node: yaml.Node, counts: dict[int, float]) -> float:
        """Count the values in a node: the node itself and all values inside it.

        An alias refers to another node, whose values are counted once per alias. The count of a node that contains an alias of
        itself is infinite.

        counts : counts of the nodes that have been counted already, by id of the node; the node is added
        """
        if id(node) in counts:
            return counts[id(node)]

        # This value is returned if the node is reached again while its own children are counted. It then contains itself.
        counts[id(node)] = math.inf
        children: Sequence[yaml.Node] = ()
        if isinstance(node, yaml.MappingNode):
            children = list(chain.from_iterable(node.value))  # pairs of a key and a value
        elif not isinstance(node, yaml.ScalarNode):
            children = node.value
        counts[id(node)] = 1 + sum(self._count_nodes(child, counts) for child in children)
        return counts[id(node)]

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings that a mapping names by `<<` into it, after checking its own keys."""
        if id(node) not in self._checked:
            # before keys are merged into the mapping, because its own keys may override those
            self._checked.add(id(node))
            self._check_duplicates(node)
        super().flatten_mapping(node)

    def _check_duplicates(self, node: yaml.MappingNode) -> None:
        """Raise yaml.MarkedYAMLError if a key occurs twice in a mapping."""
        names: set[Hashable] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            name = self.construct_object(key)
            if name in names:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} occurs twice", problem_mark=key.start_mark)
            names.add(name)

    def construct_decimal(self, node: yaml.ScalarNode) -> int | float:
        """Convert a number in a YAML text to an int or a float.

        YAML 1.1 reads a number with a leading zero as octal and a number with a colon as sexagesimal: `0100` is 64, and `1:30` is
        90. Few people know this. Therefore, both raise yaml.MarkedYAMLError.
        """
        if _MISLEADING_NUMBER.fullmatch(node.value):
            problem = (
                f"the number {node.value!r} has a leading zero or a colon, so YAML does not read it as a decimal number. "
                "Write it without the leading zero or colon, or in quotes if it is text"
            )
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if node.tag == _INTEGER:
            return int(self.construct_yaml_int(node))
        return float(self.construct_yaml_float(node))


for _tag in (_INTEGER, _FLOAT):
    _Loader.add_constructor(_tag, _Loader.construct_decimal)
