"""Answers from one store into another, and what can be saved of a file that SQLite can no longer read.

A copy moves what was paid for: answers, failures, judges and books. What is there already stays. Saving looks for rows in the
bytes of the file and takes only those that are whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from youden.errors import ConfigError
from youden.judging.call.failures import CallError
from youden.judging.store.answers import completion_from, open_store
from youden.judging.store.contract import KEPT
from youden.types import Completion, Json

AT_ONCE = 1000


@dataclass(frozen=True)
class Copied:
    """n_answers: that were read; n_new: of them, that were not there before."""

    n_answers: int
    n_new: int


def copy_stores(sources: Sequence[str | Path], target: str | Path) -> Copied:
    """Put everything of `sources` into `target`, made where there is none. It can be done again at any time, also after it broke
    off. Of two answers to one request the first stands, of two payments of one payer for one request, too.

    Raises: as `open_store`.
    """
    n_answers = n_new = 0
    with open_store(target) as to:
        for source in sources:
            with open_store(source, read_only=True) as store:
                for kept in KEPT:
                    last = None
                    while rows := store.place.rows(kept, last, n=AT_ONCE):
                        added = to.place.put_rows(kept, rows)
                        last = rows[-1]
                        if kept == "answers":
                            n_answers, n_new = n_answers + len(rows), n_new + added
    return Copied(n_answers, n_new)


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
