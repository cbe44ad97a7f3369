"""Reads the responses out of one value of a row: a text, a list of texts, a conversation, or the parts of a message.

Tools write one response as a list of one text, and several samples as a list of several. A list of anything else, such as
numbers, is kept as it is.
"""

from __future__ import annotations

from youden.types.pool import Json

TEXT_KEYS = ("text", "generated_text")
"""Keys of an object that holds a text and nothing about who wrote it, as generation libraries write samples."""


def response_values(value: Json) -> list[Json]:
    """List the responses in a value; a value in which none is recognised is returned as the only one.

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
    if all(isinstance(element, dict) for element in value):
        return _responses_in_objects([element for element in value if isinstance(element, dict)])
    if all(element is None or isinstance(element, str | list) for element in value):
        responses = [response for element in value for response in response_values(element)]
        if all(response is None or isinstance(response, str) for response in responses):
            return responses
    return [value]


def _responses_in_objects(objects: list[dict[str, Json]]) -> list[Json]:
    if not objects:
        return []
    if "role" in objects[-1]:
        return response_values(objects[-1].get("content"))
    if all("type" in part for part in objects):
        parts = [part.get("text") for part in objects if str(part["type"]).endswith("text")]
        texts = [part for part in parts if isinstance(part, str)]
        return ["\n".join(texts)] if texts else [None]
    for key in TEXT_KEYS:
        if all(isinstance(sample.get(key), str) for sample in objects):
            return [sample[key] for sample in objects]
    whole: Json = list(objects)
    return [whole]


def prompt_text(value: Json) -> Json:
    """Join the texts of a prompt; return anything else unchanged."""
    parts = response_values(value)
    return "\n\n".join(part for part in parts if isinstance(part, str)) if _are_texts(parts) else value


def single(value: Json) -> Json:
    """Return the id in a list of one id; any other value unchanged."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _are_texts(values: list[Json]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)
