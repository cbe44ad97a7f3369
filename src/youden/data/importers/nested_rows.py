"""Flatten nested rows into one column per path, and extract the texts of replies and conversations.

A list of objects stays one value. If a response is found inside its objects, the row becomes one row per object.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from youden.data.importers.column_names import LAST_ANSWER, NAMES, infer_role
from youden.data.importers.foreign_files import get_nested, import_error
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
_ROLE_KEYS = ("role", "message.role")
"""Keys of the role of a message; a part of a message has none."""


def flatten(row: Mapping[str, Json], prefix: str = "", depth: int = MAX_DEPTH) -> dict[str, Json]:
    """Flatten a row with nested objects into columns named by their paths, and replace conversations by texts.

    A conversation is a list of messages, or a text that contains one as JSON. It is replaced by the text of its last message. A
    list of one text is replaced by this text, and the reply of a chat API, as JSON in a text, by its text (`unwrap_text`). All
    other values stay unchanged.

    Some data sets store a whole conversation in a column with a usual name of prompts, for example "prompt". If the conversation
    ends with a response, it becomes two columns: "prompt" with the last question, and "prompt[-1].content" with the response.

    row : values by column; it is not changed
    prefix : text put before each path, for example "outer."
    depth : number of levels to flatten, by default 6. Objects that are nested more deeply, empty objects and lists remain values.

    Returns a dictionary: path of a value, whose keys are joined by ".", for example "input.q" → the value.

    >>> flatten({"input": {"q": "Why?"}, "output": [{"role": "assistant", "content": "So."}]})
    {'input.q': 'Why?', 'output': 'So.'}
    """
    columns: dict[str, Json] = {}
    for key, original in row.items():
        path = f"{prefix}{key}"
        value = _with_standard_keys(original)
        if isinstance(value, dict) and value and depth > 0:
            columns |= flatten(value, f"{path}.", depth - 1)
        elif _ends_with_response(value) and infer_role(key) == "prompt":
            columns[path] = _extract_last_question(value)
            columns[f"{path}{LAST_ANSWER}"] = _extract_text(value)
        else:
            columns[path] = unwrap_text(value)
    return columns


def _ends_with_response(value: Json) -> bool:
    """Return whether a value is a list whose last element is a message of an agent."""
    return get_nested(value, -1, "role") in _RESPONSE_ROLES


def _with_standard_keys(value: Json) -> Json:
    """Rename the keys of messages of ShareGPT (from, value) and Ragas (type, content) to role and content.

    A value that is not a list of such messages is returned unchanged.

    >>> _with_standard_keys([{"from": "human", "value": "Why?"}])
    [{'role': 'human', 'content': 'Why?'}]
    """
    if not isinstance(value, list):
        return value
    for role_key, content_key in (("from", "value"), ("type", "content")):
        messages: list[Json] = []
        for message in value:
            role, content = get_nested(message, role_key), get_nested(message, content_key)
            if role in _ROLES and isinstance(content, str):
                messages.append({"role": role, "content": content})
        are_all_messages = len(messages) == len(value) > 0
        if are_all_messages:
            return messages
    return value


def _extract_last_question(conversation: Json) -> str | None:
    """Return the text of the last message of a user."""
    messages = conversation if isinstance(conversation, list) else []
    for message in reversed(messages):
        if get_nested(message, "role") in ("user", "human"):
            return _extract_text(message)
    return None


def unwrap_text(value: Json) -> Json:
    """Return the text inside a value of a known structure; any other value is returned unchanged.

    The known structures are:

    - a list of one text;
    - a conversation (a list of messages): the text of its last message;
    - a list of the parts of one message;
    - a text that encodes a conversation, a message, or a reply of a chat API as JSON.

    >>> unwrap_text('{"choices": [{"message": {"role": "assistant", "content": "So."}}]}')
    'So.'
    >>> unwrap_text(["a"]), unwrap_text(3)
    ('a', 3)
    """
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]

    text = None
    if isinstance(value, str) and value[:1] in ("[", "{"):
        parsed_value = _parse_json_or_literal(value)
        if _is_reply(parsed_value) or _is_conversation(parsed_value):
            text = _extract_text(parsed_value)
    elif _is_conversation(value):
        text = _extract_text(value)
    return value if text is None else text


def _parse_json_or_literal(text: str) -> Json:
    """Parse a text as JSON, or as a list of objects in the notation of Python; None if it is neither."""
    with suppress(JSONDecodeError):
        value: Json = parse_json(text, unique_keys=False).value
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
    has_messages = any(isinstance(value.get(key), list) for key in _REPLY_KEYS)
    is_message = value.keys() >= {"role", "content"}
    return has_messages or is_message


def _is_conversation(value: Json) -> bool:
    """Return whether a value is a list of objects whose last element is a message or a part of a message."""
    last = get_nested(value, -1)
    if not isinstance(last, dict) or not is_list_of_objects(value):
        return False
    is_message = not last.keys().isdisjoint(_ROLE_KEYS) or last.keys() == {"parts"}  # Gemini: of a user
    is_part = last.keys() <= _PART_KEYS and "text" in last
    return is_message or is_part


_PART_KEYS = frozenset(
    {"type", "text", "annotations", "logprobs", "citations", "cache_control", "thought", "thoughtSignature"}
)


def _extract_text(value: Json) -> str | None:
    """Return the text of a reply, a message or a conversation; None if it has no text.

    value : text; a list of parts or of messages; or an object with one of these under a key such as "choices"
        or "content", also in nested objects
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _extract_text_from_list(value)
    if isinstance(value, dict):
        for key in (*_REPLY_KEYS, *_CONTENT_KEYS):
            text = _extract_text(value.get(key))
            if text is not None:
                return text
    return None


def _extract_text_from_list(elements: list[Json]) -> str | None:
    """Return the text of the parts of one message, or of the last message of a conversation; None if there is none.

    The texts of parts are joined by line breaks. Parts that contain reasoning of the model are left out. If no text is left, the
    last part is searched for another text.
    """
    are_parts = all(isinstance(element, dict) and element.keys().isdisjoint(_ROLE_KEYS) for element in elements)
    texts = []
    for element in elements:
        text = get_nested(element, "text")
        if isinstance(text, str) and not get_nested(element, "thought"):
            texts.append(text)
    return "\n".join(texts) if are_parts and texts else _extract_text(get_nested(elements, -1))


def split_into_rows(row: Mapping[str, Json], column: str) -> list[dict[str, Json]]:
    """Split a row whose column holds a list of objects into one flat row per object.

    A row without such a list is returned unchanged, as the only row.

    >>> split_into_rows({"q": "Why?", "answers": [{"model": "a", "text": "So."}, {"model": "b", "text": "No."}]}, "answers")[1]
    {'q': 'Why?', 'answers[].model': 'b', 'answers[].text': 'No.'}
    """
    elements = row.get(column)
    if not isinstance(elements, list) or not is_list_of_objects(elements):
        return [dict(row)]
    other_columns = {name: value for name, value in row.items() if name != column}
    objects = [element for element in elements if isinstance(element, dict)]
    return [other_columns | flatten(element, f"{column}[].") for element in objects]


def is_list_of_objects(value: Json) -> bool:
    """Return whether a value is a list of objects that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(element, dict) for element in value)


def extract_rows(value: Json, location: Path | str = "") -> list[dict[str, Json]]:
    """Extract the rows of a table from a JSON value. The result is empty for a value without rows.

    The value has one of these forms:

    - a list of objects, each of which is a row;
    - an object of columns: each key is the name of a column, and its value is a list, or an object with row labels as keys;
    - an object of records: each row is an object, and its key identifies the item;
    - an object of texts by agent and item, such as {agent: {item: text}};
    - a single row: an object without lists and other objects, with a response and an id or a prompt;
    - an object that contains one of these. If another key of the object names an agent, such as "model", it becomes a column
      of all rows.

    >>> extract_rows({"model": "m", "cost": 2, "outputs": [{"id": 1, "completion": "a"}]})
    [{'model': 'm', 'id': 1, 'completion': 'a'}]
    >>> extract_rows({"0": {"prediction": "a"}, "1": {"prediction": "b"}})
    [{'id': '0', 'prediction': 'a'}, {'id': '1', 'prediction': 'b'}]
    """
    if isinstance(value, list):
        return [row for row in value if isinstance(row, dict)]
    if not isinstance(value, dict):
        return []

    # a table of Weights & Biases has the names of its columns, and a list per row
    column_names = value.get("columns")
    data = value.get("data")
    if isinstance(column_names, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        return [dict(zip(map(str, column_names), row, strict=False)) for row in data if isinstance(row, list)]
    return _extract_rows_of_object(value, location)


def _extract_rows_of_object(content: Mapping[str, Json], location: Path | str) -> list[dict[str, Json]]:
    """Extract the rows from the values of a JSON object.

    The first of these rules that applies decides:

    1. No value is a list: the rows come from the inner objects (`_extract_rows_of_objects`). Without inner objects, the object
       itself is a row if it has a response, and an id or a prompt.
    2. No list contains objects: the lists are the columns of one table.
    3. Otherwise, each list of objects is a table (`_choose_tables`).

    location : file, for error messages
    """
    lists = {key: value for key, value in content.items() if isinstance(value, list) and value}
    if not lists:
        objects = {key: value for key, value in content.items() if isinstance(value, dict) and value}
        if not objects and _has_text(content) and any(infer_role(key) in ("item", "prompt") for key in content):
            return [dict(content)]
        return _extract_rows_of_objects(objects, location)

    tables = {key: extract_rows(value) for key, value in lists.items() if is_list_of_objects(value)}
    return _choose_tables(tables, content) if tables else _extract_rows_of_columns(lists, location)


def _choose_tables(tables: Mapping[str, list[dict[str, Json]]], content: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the rows of the tables that have responses, or of all tables if none has.

    If there are several tables, the key of a table is the name of its agent. The agent of a single table may be named by another
    value of the JSON object, such as "model".

    tables : rows of each table by its key in the JSON object
    content : the JSON object that contains the tables
    """
    tables_with_text = {key: rows for key, rows in tables.items() if _has_text(rows[0])}
    used_tables = tables_with_text or tables
    if len(used_tables) > 1:
        return _join_tables(used_tables)

    (rows,) = used_tables.values()
    without_lists = {key: value for key, value in content.items() if isinstance(value, dict | str)}
    texts = {path: value for path, value in flatten(without_lists).items() if isinstance(value, str)}
    agent_names = {path: text for path, text in texts.items() if infer_role(path) == "agent"}
    return [{**agent_names, **row} for row in rows]


def _join_tables(tables: Mapping[str, list[dict[str, Json]]]) -> list[dict[str, Json]]:
    """Return the rows of several tables, with the name of the table in the column `agent` unless a row has this column."""
    return [{"agent": name, **row} for name, rows in tables.items() for row in rows]


def _extract_rows_of_columns(columns: Mapping[str, list[Json]], location: Path | str) -> list[dict[str, Json]]:
    """Convert the columns of a table, which are lists of values, to rows.

    location : file, for error messages

    Raises: ImportFormatError [import-json] if the lists have different lengths, so that it is unclear which values belong
        together.
    """
    longest = max(columns, key=lambda name: len(columns[name]))
    shortest = min(columns, key=lambda name: len(columns[name]))
    if len(columns[shortest]) < len(columns[longest]):
        problem = (
            f"its lists have different lengths: got {len(columns[longest])} values in {longest!r} and "
            f"{len(columns[shortest])} in {shortest!r}. Write a null for each missing value, so that all lists are equally long."
        )
        raise import_error(location, problem, slug="import-json")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _extract_rows_of_objects(objects: Mapping[str, dict[str, Json]], location: Path | str) -> list[dict[str, Json]]:
    """Extract the rows from a JSON object whose values are objects.

    The inner objects may be of four kinds, which are tried in this order:

    - Columns have one value per row label, as in {"id": {"0": "q1"}, "answer": {"0": "So."}}, which pandas writes. Their names
      suggest responses or several roles.
    - Records are rows, as in {"q1": {"answer": "So."}}. Each has a response or a question, and its key becomes the column `id`.
    - Texts by agent and item, as in {"gpt": {"q1": "So."}}, have only texts or None as values.
    - Tables contain the rows. If there are several tables, the key of a table is the name of its agent.

    objects : inner objects by key
    location : file, for error messages
    """
    roles = {role for role in map(infer_role, objects) if role in NAMES}
    are_columns = "text" in roles or len(roles) > 1
    if are_columns:
        row_labels = dict.fromkeys(chain.from_iterable(objects.values()))  # an ordered set
        return [{name: column.get(label) for name, column in objects.items()} for label in row_labels]

    are_tables = all(map(_is_table_of_records, objects.values()))
    if not are_tables and _are_records(objects):
        return [{"id": key, **record} for key, record in objects.items()]
    values = chain.from_iterable(inner.values() for inner in objects.values())
    if all(isinstance(value, str | None) for value in values):
        return _extract_rows_of_texts(objects)

    tables = {name: extract_rows(table, location) for name, table in objects.items()}
    filled_tables = {name: rows for name, rows in tables.items() if rows}
    if len(filled_tables) > 1:
        return _join_tables(filled_tables)
    return list(chain.from_iterable(filled_tables.values()))


def _are_records(objects: Mapping[str, dict[str, Json]]) -> bool:
    """Return whether each of several JSON objects is a record, which becomes one row of a table.

    The objects are records in two cases:

    - Each object has a key whose name suggests a response, such as "answer".
    - Each object has a text under a key whose name suggests a question, such as "question". No object contains a list of
      objects, because that would be a separate table.

    objects : objects by their keys in the file, such as the ids of items
    """
    records = objects.values()
    if all(map(_has_text, records)):
        return True
    shared_keys = set.intersection(*map(set, records))
    question_keys = [key for key in shared_keys if infer_role(key) == "prompt"]
    for record in records:
        has_table = any(map(is_list_of_objects, record.values()))
        has_texts = all(isinstance(record[key], str) for key in question_keys)
        if has_table or not has_texts:
            return False
    return bool(question_keys)


def _is_table_of_records(table: Mapping[str, Json]) -> bool:
    """Return whether an object holds at least two objects, each with a response, and nothing else."""
    return len(table) > 1 and all(isinstance(value, dict) and _has_text(value) for value in table.values())


def _extract_rows_of_texts(texts: Mapping[str, dict[str, Json]]) -> list[dict[str, Json]]:
    """Extract one row per text, with the columns `agent`, `item` and `text`.

    texts : {agent: {item: text}} or {item: {agent: text}}

    Usually, the outer keys are the agents. The inner keys are the agents if there are fewer of them, and if they are not
    numbered.
    """
    inner_keys = set(chain.from_iterable(texts.values()))
    outer_role, inner_role = "agent", "item"
    if len(inner_keys) < len(texts) and not _are_numbered(inner_keys):
        outer_role, inner_role = "item", "agent"

    rows: list[dict[str, Json]] = []
    for outer_key, inner in texts.items():
        for inner_key, text in inner.items():
            rows.append({outer_role: outer_key, inner_role: inner_key, "text": text})
    return rows


def _are_numbered(keys: Collection[str]) -> bool:
    """Return whether all keys are numbers, or one word with different numbers, as ids of items are."""
    words = {re.sub(r"\d+$", "#", key) for key in keys}
    return len(words) == 1 and all(word.endswith("#") for word in words)


def _has_text(row: Mapping[str, Json]) -> bool:
    """Return whether the name of a column proposes responses."""
    return any(infer_role(column) == "text" for column in flatten(row))
