"""The distinct requests of a plan, a few bytes each: which keys there are, and what a reply's use is held against."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from youden.errors import InputError
from youden.judging.config.reading import JudgeConfig
from youden.judging.question.keys import keys
from youden.judging.question.prompts import sendable
from youden.judging.question.questions import Questions
from youden.nouns import INDEPENDENT, Message, Plan, Pool
from youden.nouns.arrays import Ids, Positions

BYTES = 32
"""Of a key: a sha256."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Each request of `plan` once. key: bytes S32[M], in ascending order; row: the first trial that asks it; n_bytes: of its
    messages in UTF-8; n_messages: of each. digests: sha256 (hex) of the first trials' keys, by how many they are."""

    config: JudgeConfig
    key: np.ndarray
    row: Positions
    n_bytes: Ids
    n_messages: int
    digests: Mapping[int, str]

    @classmethod
    def of(cls, config: JudgeConfig, plan: Plan, pool: Pool, *, lengths: Collection[int] = ()) -> Asked:
        """All that `config` is asked. lengths: of the first trials, whose digests are wanted."""
        questions = config.questions()
        every, digests = _digests(questions, plan, pool, lengths=lengths)
        key, row = np.unique(every, return_index=True)
        around = questions.prompt.messages("", "", hint=questions.hint)
        return cls(config, key, row, _bytes_of(questions, plan, pool, around=around)[row], len(around), digests)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """int64[N]: where each of these keys, bytes S32[N], stands in `key`, −1 for one that is not asked."""
        if not len(self.key):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        found: np.ndarray = np.where(self.key[at] == wanted, at, -1)
        return found

    def name(self, at: int) -> str:
        """The key at this place, in hex."""
        return bytes(self.key[at]).ljust(BYTES, b"\0").hex()  # NumPy leaves out zeros at the end


def asked_judges(config: JudgeConfig) -> list[JudgeConfig]:
    """The judge, or those of a jury, that are asked by calls. Raises: InputError [export-no-calls] where none is."""
    asked = [one for one in config.judges or (config,) if one.makes_calls]
    if not asked:
        raise InputError(
            f"The judge '{config.name}' answers without calls, so there is nothing to export or import. Run `youden judge` "
            "alone, or name a judge that is asked.",
            slug="export-no-calls",
        )
    return asked


def as_bytes(key: object) -> bytes | None:
    """The 32 bytes that a key in hex stands for, None for what is no key."""
    if not isinstance(key, str) or len(key) != 2 * BYTES:
        return None
    try:
        found = bytes.fromhex(key)
    except ValueError:
        return None
    return found if len(found) == BYTES else None


def all_as_bytes(keys: Sequence[object]) -> np.ndarray:
    """bytes S32[N]: as `as_bytes`, empty for what is no key."""
    try:
        texts = cast(Sequence[str], keys)  # join refuses what is none
        whole = bytes.fromhex("".join(texts))
        if len(whole) == BYTES * len(texts) and all(len(text) == 2 * BYTES for text in texts):
            return np.frombuffer(whole, dtype=f"S{BYTES}")
    except (TypeError, ValueError):
        pass
    return np.array([as_bytes(key) or b"" for key in keys], dtype=f"S{BYTES}")


def _digests(
    questions: Questions, plan: Plan, pool: Pool, *, lengths: Collection[int]
) -> tuple[np.ndarray, dict[int, str]]:
    every = np.empty(len(plan), dtype=f"S{BYTES}")
    hasher, digests = hashlib.sha256(), {}
    for row, key in keys(questions, plan, pool):
        if row in lengths:
            digests[row] = hasher.hexdigest()
        every[row] = one = bytes.fromhex(key)
        hasher.update(one)
    if len(plan) in lengths:
        digests[len(plan)] = hasher.hexdigest()
    return every, digests


def _bytes_of(questions: Questions, plan: Plan, pool: Pool, *, around: Sequence[Message]) -> Ids:
    """int32[N]: the bytes of each trial's messages in UTF-8. around: the messages of two empty texts."""
    length = np.array([[len(sendable(text).encode()) if text else 0 for text in row] for row in pool.texts])
    other = np.where(plan.arm == INDEPENDENT, plan.other_item, plan.item)
    both = length[plan.first, plan.item] + length[plan.second, other]
    n_bytes: Ids = (both + sum(len(message.content.encode()) for message in around)).astype(np.int32)
    for row in np.flatnonzero(questions.cut(plan, pool)).tolist():
        n_bytes[row] = sum(len(one.content.encode()) for one in questions.request(plan, pool, row).messages)
    return n_bytes
