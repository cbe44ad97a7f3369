"""Reads the responses out of one value of a row: a text, a list of texts, a conversation, or the parts of a message.

Tools write one response as a list of one text, and several samples as a list of several. A list of anything else, such as
numbers, stays what it is.
"""

from __future__ import annotations

from youden.nouns import Json

TEXT_KEYS = ("text", "generated_text")
"""Keys of an object that holds a text and nothing about who wrote it, as generation libraries write samples."""


def response_values(value: Json) -> list[Json]:
    """List the responses in a value; a value that holds none that can be told apart is returned as the only one.

    Of a conversation (a list of messages) the response is the content of the last message.

    >>> response_values("a"), response_values(["a"]), response_values([["a", "b"]]), response_values([])
    (['a'], ['a'], ['a', 'b'], [])
    >>> response_values([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    ['a\\nb']
    >>> response_values([{"role": "user", "content": "q"}, {"role": "assistant", "content": ["a"]}])
    ['a']
    >>> response_values([0.1, 0.2])
    [[0.1, 0.2]]
    """
    if isinstance(value, dict) and "role" in value and "content" in value:
        return response_values(value["content"])
    if not isinstance(value, list):
        return [value]
    if all(isinstance(one, dict) for one in value):
        return _of_objects([one for one in value if isinstance(one, dict)])
    if all(one is None or isinstance(one, str | list) for one in value):
        inner = [found for one in value for found in response_values(one)]
        if all(one is None or isinstance(one, str) for one in inner):
            return inner
    return [value]


def _of_objects(objects: list[dict[str, Json]]) -> list[Json]:
    if not objects:
        return []
    if "role" in objects[-1]:
        return response_values(objects[-1].get("content"))
    if all("type" in one for one in objects):
        parts = [one.get("text") for one in objects if str(one["type"]).endswith("text")]
        texts = [part for part in parts if isinstance(part, str)]
        return ["\n".join(texts)] if texts else [None]
    for key in TEXT_KEYS:
        if all(isinstance(one.get(key), str) for one in objects):
            return [one[key] for one in objects]
    whole: Json = list(objects)
    return [whole]


def prompt_text(value: Json) -> Json:
    """Join the texts of a prompt; anything that is no text stays what it is."""
    parts = response_values(value)
    return "\n\n".join(part for part in parts if isinstance(part, str)) if _are_texts(parts) else value


def single(value: Json) -> Json:
    """Unwrap a list of one id."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _are_texts(values: list[Json]) -> bool:
    return bool(values) and all(isinstance(one, str) for one in values)
