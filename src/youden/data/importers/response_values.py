"""Extract the responses from a value: a text, a list of texts, a conversation, or parts of a message.

Tools write one response as a list of one text, and several responses (samples) as a list of several texts. Other lists,
for example of numbers, are returned unchanged.
"""

from __future__ import annotations

from itertools import chain

from youden.types.pool import Json

TEXT_KEYS = ("text", "generated_text")
"""Keys of the text in objects that generation libraries write for samples, without the name of the agent."""


def extract_responses(value: Json) -> list[Json]:
    """Return the responses that a JSON value from a file of responses contains.

    - A text is one response. A list of texts or of lists has the responses of all its elements, as in [["a", "b"], "c"]; they
      must all be texts.
    - A message (an object with `role` and `content`) has the responses in its content.
    - A conversation (a list of messages) has the responses of its last message.
    - A list of the parts of a message (objects with `type`) is one response: the texts of the parts, joined by line
      breaks.
    - A list of samples (objects with a text) has one response per sample.
    - A value of any other form is returned unchanged as the only response.

    >>> extract_responses("a"), extract_responses(["a"]), extract_responses([["a", "b"]]), extract_responses([])
    (['a'], ['a'], ['a', 'b'], [])
    >>> extract_responses([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    ['a\\nb']
    >>> extract_responses([{"role": "user", "content": "q"}, {"role": "assistant", "content": ["a"]}])
    ['a']
    >>> extract_responses([0.1, 0.2])
    [[0.1, 0.2]]
    """
    if isinstance(value, dict) and "role" in value and "content" in value:
        return extract_responses(value["content"])
    if not isinstance(value, list):
        return [value]
    objects = [element for element in value if isinstance(element, dict)]
    if len(objects) == len(value):
        return _extract_from_objects(objects)

    may_hold_texts = all(element is None or isinstance(element, str | list) for element in value)
    if not may_hold_texts:
        return [value]
    responses = list(chain.from_iterable(map(extract_responses, value)))
    are_texts = all(response is None or isinstance(response, str) for response in responses)
    return responses if are_texts else [value]


def _extract_from_objects(objects: list[dict[str, Json]]) -> list[Json]:
    """Extract the responses from a list of objects.

    - Messages of a conversation: the response is the content of the last message.
    - Parts of a message: the response is the text of all parts whose type ends with "text", joined by line breaks. It is None
      without such a part.
    - Samples, which have a text: each sample has a response.
    - Other objects: the list is the only response.
    """
    if not objects:
        return []

    if "role" in objects[-1]:
        return extract_responses(objects[-1].get("content"))
    if all("type" in part for part in objects):
        part_texts = [part.get("text") for part in objects if str(part["type"]).endswith("text")]
        texts = [text for text in part_texts if isinstance(text, str)]
        return ["\n".join(texts) if texts else None]

    for key in TEXT_KEYS:
        if all(isinstance(sample.get(key), str) for sample in objects):
            return [sample[key] for sample in objects]
    other_objects: Json = list(objects)
    return [other_objects]


def join_prompt(value: Json) -> Json:
    """Join the texts of a prompt by blank lines; any other value is returned unchanged."""
    parts = extract_responses(value)
    texts = [part for part in parts if isinstance(part, str)]
    return "\n\n".join(texts) if texts and len(texts) == len(parts) else value


def unwrap_single(value: Json) -> Json:
    """Return the element of a list with one element; any other value is returned unchanged."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
