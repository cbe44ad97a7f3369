"""Rows of several responses that are known by their columns: lists of generations, completions, pairs of chosen and rejected."""

from __future__ import annotations

from collections.abc import Mapping

from youden.nouns import Json

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
