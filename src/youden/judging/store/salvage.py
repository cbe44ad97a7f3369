"""Gets answers out of a store's file that SQLite can no longer read.

It looks for rows in the bytes of the file and takes only those that are whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from youden.errors import ConfigError
from youden.judging.call.failures import CallError
from youden.judging.store.answers import completion_from, open_store
from youden.nouns import Completion, Json

_ANSWER = re.compile(rb"([0-9a-f]{64})(\{\"text\":)")
_JUDGE = re.compile(rb"\{\"backend\":\"")
_LONGEST = 1 << 16


@dataclass(frozen=True)
class Salvaged:
    """What was saved."""

    n_answers: int
    n_judges: int


def salvage(damaged: Path, out: Path) -> Salvaged:
    """Write every answer that stands whole in the file `damaged`, or in its log beside it, into the store `out`.

    An answer of more than some 4,000 bytes may lie in several pieces and be lost. Nothing is changed in `damaged`.

    Raises: ConfigError [salvage-nothing] where there is no file or no answer in it; as `open_store` for `out`.
    """
    answers: dict[str, Completion] = {}
    judges: dict[str, dict[str, Json]] = {}
    for path in (damaged, damaged.with_name(damaged.name + "-wal")):
        content = path.read_bytes() if path.is_file() else b""
        answers |= dict(_answers(content))
        judges |= {json.dumps(judge): judge for judge in _judges(content)}
    if not answers or out.exists():
        why = f"{out} is there already" if answers else "no answer stands whole in it"
        raise ConfigError(
            f"Nothing was saved from {damaged}: {why}. Give the damaged store's path, and a new one for what is saved.",
            slug="salvage-nothing",
        )
    with open_store(out) as store:
        for judge in judges.values():
            store.remember_judge(judge)
        for key, completion in answers.items():
            store.add(key, completion)
    return Salvaged(len(answers), len(judges))


def _answers(content: bytes) -> Iterator[tuple[str, Completion]]:
    for match in _ANSWER.finditer(content):
        fields = _object(content, match.start(2))
        if fields is not None:
            try:
                yield match[1].decode(), completion_from(fields)
            except (TypeError, KeyError, ValueError, CallError):
                continue


def _judges(content: bytes) -> Iterator[dict[str, Json]]:
    for match in _JUDGE.finditer(content):
        fields = _object(content, match.start())
        if fields is not None and {"model", "prompt", "parameters"} <= fields.keys():
            yield fields


def _object(content: bytes, start: int) -> dict[str, Json] | None:
    """The JSON object that begins at `start`, None where it is torn."""
    text = content[start : start + _LONGEST].decode("utf-8", "replace")
    try:
        found: dict[str, Json] = json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return None
    return None if "�" in json.dumps(found, ensure_ascii=False) else found
