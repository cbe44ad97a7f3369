"""Turns nested rows into flat ones, with one column per path, and extracts texts from replies and conversations.

Lists of objects stay values until a response is found inside one; its row then becomes one row per element.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from contextlib import suppress

from youden.data.importers.column_names import LAST_ANSWER, NAMES, role_of_name
from youden.data.importers.foreign_files import inner
from youden.text.json_text import JSONDecodeError, parse_json
from youden.types.pool import Json

MAX_DEPTH = 6
"""Deepest nesting of objects that becomes columns; deeper objects stay values."""
_ANSWERERS = ("assistant", "ai", "model", "bot", "gpt")
"""Roles of a message that is a response."""
_ROLES = (*_ANSWERERS, "human", "user", "system", "tool")
"""Roles of messages."""
_REPLY_KEYS = ("messages", "choices", "candidates")
_CONTENT_KEYS = ("content", "message.content", "text", "answer", "prompt", "parts", "message")
"""Keys under which a message, or a part of one, holds its text."""


def flatten(row: Mapping[str, Json], before: str = "", depth: int = MAX_DEPTH) -> dict[str, Json]:
    """Map each path in a row to its value; conversations and parts of a message become their text.

    >>> flatten({"input": {"q": "Why?"}, "output": [{"role": "assistant", "content": "So."}]})
    {'input.q': 'Why?', 'output': 'So.'}
    """
    columns: dict[str, Json] = {}
    for key, said in row.items():
        value = _with_roles(said)
        if isinstance(value, dict) and value and depth:
            columns |= flatten(value, f"{before}{key}.", depth - 1)
        elif inner(value, -1, "role") in _ANSWERERS and role_of_name(key) == "prompt":
            columns |= {f"{before}{key}": _last_question(value), f"{before}{key}{LAST_ANSWER}": _text(value)}
        else:
            columns[f"{before}{key}"] = resolve(value)
    return columns


def _with_roles(value: Json) -> Json:
    """Spell the messages of ShareGPT (from, value) and Ragas (type, content) as others do (role, content).

    >>> _with_roles([{"from": "human", "value": "Why?"}])
    [{'role': 'human', 'content': 'Why?'}]
    """
    messages = value if isinstance(value, list) else []
    for role, content in (("from", "value"), ("type", "content")):
        if messages and all(isinstance(inner(one, content), str) and inner(one, role) in _ROLES for one in messages):
            return [{"role": inner(one, role), "content": inner(one, content)} for one in messages]
    return value


def _last_question(conversation: Json) -> str | None:
    """Return the text of a user's last message."""
    messages = conversation if isinstance(conversation, list) else []
    return next((_text(one) for one in reversed(messages) if inner(one, "role") in ("user", "human")), None)


def resolve(value: Json) -> Json:
    """Return the text of a conversation, of a message's parts, or of a reply that is spelled as JSON; other values as they are.

    A list of one text is that text.

    >>> resolve('{"choices": [{"message": {"role": "assistant", "content": "So."}}]}'), resolve(["a"]), resolve(3)
    ('So.', 'a', 3)
    """
    if isinstance(value, str) and value[:1] in ("[", "{"):
        decoded = _decode(value)
        is_reply = isinstance(decoded, dict) and (
            any(isinstance(decoded.get(key), list) for key in _REPLY_KEYS) or decoded.keys() >= {"role", "content"}
        )
        text = _text(decoded) if is_reply or _is_conversation(decoded) else None
        return value if text is None else text
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    text = _text(value) if _is_conversation(value) else None
    return value if text is None else text


def _decode(text: str) -> Json:
    """Parse a cell that spells JSON, or a list of objects as Python's `repr` does."""
    with suppress(JSONDecodeError):
        value: Json = parse_json(text).value
        return value
    if text.startswith("[{'"):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            literal: Json = ast.literal_eval(text)
            return literal
    return None


def _is_conversation(value: Json) -> bool:
    """Whether a list consists of objects, of which the last is a message or a part of one."""
    last = inner(value, -1)
    if not isinstance(last, dict) or not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return False
    return any(key in last for key in ("role", "message.role")) or (last.keys() <= _PART_KEYS and "text" in last)


_PART_KEYS = frozenset(
    {"type", "text", "annotations", "logprobs", "citations", "cache_control", "thought", "thoughtSignature"}
)


def _text(value: Json) -> str | None:
    """Return the text of a reply, a message or a list of them (its last); None if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        keys = (*_REPLY_KEYS, *_CONTENT_KEYS)
        return next((text for key in keys if (text := _text(value.get(key))) is not None), None)
    if not isinstance(value, list):
        return None
    parts = [part for part in value if isinstance(part, dict) and "role" not in part and "message.role" not in part]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought")]
    if parts and len(parts) == len(value) and texts:
        return "\n".join(map(str, texts))
    return _text(inner(value, -1))


def explode(row: Mapping[str, Json], column: str) -> list[dict[str, Json]]:
    """Return one flat row per element of the list of objects in a column, or the row as it is if there is no such list.

    >>> explode({"q": "Why?", "answers": [{"model": "a", "text": "So."}, {"model": "b", "text": "No."}]}, "answers")[1]
    {'q': 'Why?', 'answers[].model': 'b', 'answers[].text': 'No.'}
    """
    elements = row.get(column)
    if not isinstance(elements, list) or not is_list_of_objects(elements):
        return [dict(row)]
    others = {name: value for name, value in row.items() if name != column}
    return [others | flatten(element, f"{column}[].") for element in elements if isinstance(element, dict)]


def is_list_of_objects(value: Json) -> bool:
    """Whether a value is a list of objects that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(element, dict) for element in value)


def rows_of_json(value: Json) -> list[dict[str, Json]]:
    """Return the rows in a JSON value: of a list of objects, of columns, of records by id, or of texts by agent and item.

    A list may lie inside objects; an agent's name beside it is a column of all its rows.

    >>> rows_of_json({"model": "m", "cost": 2, "outputs": [{"id": 1, "completion": "a"}]})
    [{'model': 'm', 'id': 1, 'completion': 'a'}]
    >>> rows_of_json({"0": {"prediction": "a"}, "1": {"prediction": "b"}})
    [{'id': '0', 'prediction': 'a'}, {'id': '1', 'prediction': 'b'}]
    """
    if isinstance(value, list):
        return [row for row in value if isinstance(row, dict)]
    if not isinstance(value, dict):
        return []
    return _table_of_columns(value) or _rows_in_lists(value)


def _rows_in_lists(value: Mapping[str, Json]) -> list[dict[str, Json]]:
    lists = {key: held for key, held in value.items() if isinstance(held, list) and held}
    records = {key: rows_of_json(held) for key, held in lists.items() if is_list_of_objects(held)}
    with_text = {key: rows for key, rows in records.items() if _has_text(rows[0])} or records
    if len(with_text) == 1:
        beside = flatten({name: held for name, held in value.items() if isinstance(held, dict | str)})
        agents = {
            name: said for name, said in beside.items() if isinstance(said, str) and role_of_name(name) == "agent"
        }
        return [{**agents, **row} for rows in with_text.values() for row in rows]
    if lists and not with_text:
        longest = max(map(len, lists.values()))
        return [{key: held[at] for key, held in lists.items() if at < len(held)} for at in range(longest)]
    if not lists:
        return _rows_of_objects({key: held for key, held in value.items() if isinstance(held, dict) and held})
    return [{"agent": key, **row} for key, rows in with_text.items() for row in rows]


def _rows_of_objects(objects: Mapping[str, dict[str, Json]]) -> list[dict[str, Json]]:
    nouns = [noun for key in objects if (noun := role_of_name(key)) in NAMES]
    if "text" in nouns or len(nouns) > 1:  # columns, as pandas writes them
        keys = dict.fromkeys(key for held in objects.values() for key in held)
        return [{name: held.get(key) for name, held in objects.items()} for key in keys]
    if all(map(_has_text, objects.values())):
        return [{"id": key, **held} for key, held in objects.items()]
    if all(isinstance(text, str | None) for held in objects.values() for text in held.values()):
        inside = {key for held in objects.values() for key in held}
        is_by_item = len(objects) > len(inside) and _are_numbered(objects.keys()) and not _are_numbered(inside)
        outer, nested = ("item", "agent") if is_by_item else ("agent", "item")
        return [
            {outer: one, nested: other, "text": text} for one, held in objects.items() for other, text in held.items()
        ]
    found = {key: rows for key, held in objects.items() if (rows := rows_of_json(held))}
    return [{**({"agent": key} if len(found) > 1 else {}), **row} for key, rows in found.items() for row in rows]


def _are_numbered(keys: Collection[str]) -> bool:
    """Whether all keys are numbers, or one word with numbers, as ids of items are."""
    return all(re.search(r"\d$", key) for key in keys) and len({re.sub(r"\d+$", "", key) for key in keys}) == 1


def _has_text(row: Mapping[str, Json]) -> bool:
    return any(role_of_name(column) == "text" for column in flatten(row))


def _table_of_columns(value: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Rows of a table of W&B: `columns`, and a list of `data` for each row."""
    names, data = value.get("columns"), value.get("data")
    if not isinstance(names, list) or not isinstance(data, list) or not all(isinstance(row, list) for row in data):
        return []
    return [dict(zip(map(str, names), row, strict=False)) for row in data if isinstance(row, list)]
