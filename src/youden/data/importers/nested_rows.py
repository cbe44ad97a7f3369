"""Flatten nested rows into one column per path, and extract the texts of replies and conversations.

A list of objects stays one value. If a response is found inside its objects, the row becomes one row per object.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from contextlib import suppress

from youden.data.importers.column_names import LAST_ANSWER, NAMES, infer_role
from youden.data.importers.foreign_files import get_nested
from youden.text.json_text import JSONDecodeError, parse_json
from youden.types.pool import Json

MAX_DEPTH = 6
"""Maximum depth of nested objects that become columns; deeper objects stay values."""
_RESPONSE_ROLES = ("assistant", "ai", "model", "bot", "gpt")
"""Roles of a message that is a response."""
_ROLES = (*_RESPONSE_ROLES, "human", "user", "system", "tool")
"""Roles of messages."""
_REPLY_KEYS = ("messages", "choices", "candidates")
_CONTENT_KEYS = ("content", "message.content", "text", "answer", "prompt", "parts", "message")
"""Keys of the text of a message, or of a part of one."""


def flatten(row: Mapping[str, Json], prefix: str = "", depth: int = MAX_DEPTH) -> dict[str, Json]:
    """Map each path in a row to its value; conversations and parts of a message are replaced by their text.

    `prefix` is put before each path, and objects nested deeper than `depth` stay values.

    >>> flatten({"input": {"q": "Why?"}, "output": [{"role": "assistant", "content": "So."}]})
    {'input.q': 'Why?', 'output': 'So.'}
    """
    columns: dict[str, Json] = {}
    for key, original in row.items():
        path = f"{prefix}{key}"
        value = _with_standard_keys(original)
        if isinstance(value, dict) and value and depth:
            columns |= flatten(value, f"{path}.", depth - 1)
        elif get_nested(value, -1, "role") in _RESPONSE_ROLES and infer_role(key) == "prompt":
            columns[path] = _extract_last_question(value)
            columns[f"{path}{LAST_ANSWER}"] = _extract_text(value)
        else:
            columns[path] = resolve(value)
    return columns


def _with_standard_keys(value: Json) -> Json:
    """Rename the keys of messages of ShareGPT (from, value) and Ragas (type, content) to role and content.

    >>> _with_standard_keys([{"from": "human", "value": "Why?"}])
    [{'role': 'human', 'content': 'Why?'}]
    """
    messages = value if isinstance(value, list) else []
    if not messages:
        return value
    for role, content in (("from", "value"), ("type", "content")):
        if all(_is_message(message, role, content) for message in messages):
            return [
                {"role": get_nested(message, role), "content": get_nested(message, content)} for message in messages
            ]
    return value


def _is_message(value: Json, role_key: str, content_key: str) -> bool:
    return isinstance(get_nested(value, content_key), str) and get_nested(value, role_key) in _ROLES


def _extract_last_question(conversation: Json) -> str | None:
    """Return the text of the last message of a user."""
    messages = conversation if isinstance(conversation, list) else []
    for message in reversed(messages):
        if get_nested(message, "role") in ("user", "human"):
            return _extract_text(message)
    return None


def resolve(value: Json) -> Json:
    """Replace a conversation, the parts of a message, or a reply encoded as JSON by its text.

    A list of one text is replaced by the text. Other values are returned unchanged.

    >>> resolve('{"choices": [{"message": {"role": "assistant", "content": "So."}}]}'), resolve(["a"]), resolve(3)
    ('So.', 'a', 3)
    """
    if isinstance(value, str) and value[:1] in ("[", "{"):
        decoded = _decode(value)
        text = _extract_text(decoded) if _is_reply(decoded) or _is_conversation(decoded) else None
        return value if text is None else text
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    text = _extract_text(value) if _is_conversation(value) else None
    return value if text is None else text


def _decode(text: str) -> Json:
    """Parse a text as JSON, or as a list of objects in the notation of Python; None if it is neither."""
    with suppress(JSONDecodeError):
        value: Json = parse_json(text).value
        return value
    if text.startswith("[{'"):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            literal: Json = ast.literal_eval(text)
            return literal
    return None


def _is_reply(value: Json) -> bool:
    """Return whether a value is a reply of a chat API, or a message."""
    if not isinstance(value, dict):
        return False
    return any(isinstance(value.get(key), list) for key in _REPLY_KEYS) or value.keys() >= {"role", "content"}


def _is_conversation(value: Json) -> bool:
    """Return whether a value is a list of objects, of which the last is a message or a part of one."""
    last = get_nested(value, -1)
    if not isinstance(last, dict) or not is_list_of_objects(value):
        return False
    is_message = "role" in last or "message.role" in last
    is_part = last.keys() <= _PART_KEYS and "text" in last
    return is_message or is_part


_PART_KEYS = frozenset(
    {"type", "text", "annotations", "logprobs", "citations", "cache_control", "thought", "thoughtSignature"}
)


def _extract_text(value: Json) -> str | None:
    """Return the text of a reply, of a message, or of the last message of a list; None if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for key in (*_REPLY_KEYS, *_CONTENT_KEYS):
            if (text := _extract_text(value.get(key))) is not None:
                return text
        return None
    if not isinstance(value, list):
        return None

    parts = [part for part in value if isinstance(part, dict) and "role" not in part and "message.role" not in part]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought")]
    if parts and len(parts) == len(value) and texts:
        return "\n".join(map(str, texts))
    return _extract_text(get_nested(value, -1))


def explode(row: Mapping[str, Json], column: str) -> list[dict[str, Json]]:
    """Return one flat row per element of the list of objects in a column; without such a list, the row itself.

    >>> explode({"q": "Why?", "answers": [{"model": "a", "text": "So."}, {"model": "b", "text": "No."}]}, "answers")[1]
    {'q': 'Why?', 'answers[].model': 'b', 'answers[].text': 'No.'}
    """
    elements = row.get(column)
    if not isinstance(elements, list) or not is_list_of_objects(elements):
        return [dict(row)]
    others = {name: value for name, value in row.items() if name != column}
    return [others | flatten(element, f"{column}[].") for element in elements if isinstance(element, dict)]


def is_list_of_objects(value: Json) -> bool:
    """Return whether a value is a list of objects that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(element, dict) for element in value)


def extract_rows(value: Json) -> list[dict[str, Json]]:
    """Extract the rows from a JSON value.

    The value may be a list of objects, an object of columns, an object of records by id, or an object of texts by agent
    and item. A list may be nested in objects; if the name of an agent is next to it, it becomes a column of all rows of
    the list.

    >>> extract_rows({"model": "m", "cost": 2, "outputs": [{"id": 1, "completion": "a"}]})
    [{'model': 'm', 'id': 1, 'completion': 'a'}]
    >>> extract_rows({"0": {"prediction": "a"}, "1": {"prediction": "b"}})
    [{'id': '0', 'prediction': 'a'}, {'id': '1', 'prediction': 'b'}]
    """
    if isinstance(value, list):
        return [row for row in value if isinstance(row, dict)]
    if not isinstance(value, dict):
        return []
    return _extract_table(value) or _extract_from_object(value)


def _extract_from_object(value: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Extract the rows from the lists of an object; if it has no lists, from the objects in it."""
    lists = {key: element for key, element in value.items() if isinstance(element, list) and element}
    if not lists:
        objects = {key: element for key, element in value.items() if isinstance(element, dict) and element}
        return _extract_from_objects(objects)

    records = {key: extract_rows(element) for key, element in lists.items() if is_list_of_objects(element)}
    with_text = {key: rows for key, rows in records.items() if _has_text(rows[0])} or records
    if not with_text:  # lists of values, which are columns
        n_rows = max(map(len, lists.values()))
        return [{key: values[n] for key, values in lists.items() if n < len(values)} for n in range(n_rows)]
    if len(with_text) > 1:
        return [{"agent": key, **row} for key, rows in with_text.items() for row in rows]

    fields = flatten({name: field for name, field in value.items() if isinstance(field, dict | str)})
    agents = {name: text for name, text in fields.items() if isinstance(text, str) and infer_role(name) == "agent"}
    return [{**agents, **row} for rows in with_text.values() for row in rows]


def _extract_from_objects(objects: Mapping[str, dict[str, Json]]) -> list[dict[str, Json]]:
    """Extract the rows from objects by name, which may be columns, records, texts by agent and item, or tables."""
    roles = [role for key in objects if (role := infer_role(key)) in NAMES]
    if "text" in roles or len(roles) > 1:  # columns, as pandas writes them
        row_keys = dict.fromkeys(key for column in objects.values() for key in column)
        return [{name: column.get(key) for name, column in objects.items()} for key in row_keys]
    if all(map(_has_text, objects.values())):
        return [{"id": key, **record} for key, record in objects.items()]
    if all(isinstance(text, str | None) for texts in objects.values() for text in texts.values()):
        return _extract_from_texts(objects)

    tables = {key: rows for key, table in objects.items() if (rows := extract_rows(table))}
    if len(tables) > 1:
        return [{"agent": key, **row} for key, rows in tables.items() for row in rows]
    return [dict(row) for rows in tables.values() for row in rows]


def _extract_from_texts(texts: Mapping[str, dict[str, Json]]) -> list[dict[str, Json]]:
    """Extract the rows from texts by agent and item, or by item and agent."""
    inner_keys = {key for inner in texts.values() for key in inner}
    is_by_item = len(texts) > len(inner_keys) and _are_numbered(texts.keys()) and not _are_numbered(inner_keys)
    outer_role, inner_role = ("item", "agent") if is_by_item else ("agent", "item")
    return [
        {outer_role: outer_key, inner_role: inner_key, "text": text}
        for outer_key, inner in texts.items()
        for inner_key, text in inner.items()
    ]


def _are_numbered(keys: Collection[str]) -> bool:
    """Return whether all keys are numbers, or one word with different numbers, as ids of items are."""
    stems = {re.sub(r"\d+$", "", key) for key in keys}
    return all(re.search(r"\d$", key) for key in keys) and len(stems) == 1


def _has_text(row: Mapping[str, Json]) -> bool:
    """Return whether the name of a column proposes responses."""
    return any(infer_role(column) == "text" for column in flatten(row))


def _extract_table(value: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Extract the rows of a W&B table, in which `columns` are names and `data` has one list per row; else none."""
    names, data = value.get("columns"), value.get("data")
    if not isinstance(names, list) or not isinstance(data, list) or not all(isinstance(row, list) for row in data):
        return []
    return [dict(zip(map(str, names), row, strict=False)) for row in data if isinstance(row, list)]
