"""Open trials: both texts, the judge's raw answer and its prompt; and the sample of opened trials that a page carries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from youden.judging.store.answers import open_store_of_folder
from youden.report.data.evidence import Sources
from youden.report.data.ranking_tables import clipped, readable
from youden.report.data.trial_reading import TrialReading
from youden.report.data.trial_rows import KINDS, TrialBook, TrialLine
from youden.types import Completion, Pool, Verdicts
from youden.types.pool import Json

Cell = tuple[int, int, int]
MAX_TRIALS = 2_000
MAX_BYTES = 1_100_000
MAX_TEXT = 4_000
"""Number of trials, bytes of text, and characters of one text that a page carries at most."""

Raw = dict[str, Json]
"""A judge's reply as a page shows it. top: alternatives of the first answer token with their probabilities."""


class TrialSample:
    """Trials that a page carries with their texts, surprising ones first.

    `texts` has each text once; `first` and `second` have for each trial its texts' positions there, −1 for none; `raw` has its
    raw answer or None. `n_all` and `n_of_kind` count all trials of the run; `worst` are the trials of the rows `ahead`.
    """

    def __init__(
        self,
        book: TrialBook | TrialReading,
        sources: Sources,
        *,
        rng: np.random.Generator,
        ahead: Sequence[int] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Draw up to `MAX_TRIALS` trials and `max_bytes` bytes of text, `ahead` before others, in half of the room at most."""
        drawn = book.surprising(rng, MAX_TRIALS).tolist()
        rows = [*ahead, *drawn]
        lines = dict(zip(rows, book.lines(rows), strict=True))
        positions: dict[Cell, int] = {}
        self.texts: list[str] = []
        pairs: dict[int, tuple[int, int]] = {}
        left = max_bytes
        for candidates, spare in ((ahead[: MAX_TRIALS // 2], max_bytes // 2), (drawn, 0)):
            for row in candidates:
                if row in pairs or len(pairs) == MAX_TRIALS:
                    continue
                cells = cells_of(lines[row])
                new = {cell: text_of(sources.pool, cell) for cell in cells if cell not in positions}
                shown = {cell: None if text is None else clipped(text, MAX_TEXT) for cell, text in new.items()}
                size = sum(len((text or "").encode()) for text in shown.values()) + 120
                if left - size < spare:
                    break
                left -= size
                for cell, text in shown.items():
                    positions[cell] = -1 if text is None else len(self.texts)
                    self.texts += [] if text is None else [text]
                pairs[row] = (positions[cells[0]], positions[cells[1]])
        rows = sorted(pairs, key=lambda row: KINDS.index(lines[row].kind))
        self.lines = [lines[row] for row in rows]
        self.first, self.second = [pairs[row][0] for row in rows], [pairs[row][1] for row in rows]
        self.raw = raw_answers(book.keys(rows), sources.store)
        self.prompt, self.worst = sources.prompt, [lines[row] for row in ahead]
        self.n_all, self.n_of_kind = len(book), book.n_of_kind


def judge_of_calls(result: Verdicts) -> Mapping[str, Json] | None:
    """Return the judge of these answers; None if it makes no calls, because then its answers are in no store."""
    return None if result.key is None else result.judge


def raw_answers(keys: Sequence[bytes], store: str | None) -> tuple[Raw | None, ...]:
    """The stored answers under these keys; None where there is none. Raises: JudgeError where the store is damaged."""
    if store is None:
        return (None,) * len(keys)
    names = [key.decode() for key in keys]
    with open_store_of_folder(store) as answers:
        found = answers.answers([name for name in names if name])
    return tuple(_raw(found[name]) if name in found else None for name in names)


def cells_of(line: TrialLine) -> tuple[Cell, Cell]:
    """(agent, item, repeat) of the first and of the second text of a trial: positions, and a number from 1."""
    other = line.item if line.other_item is None else line.other_item
    return (line.first, line.item, line.first_repeat or 1), (line.second, other, line.second_repeat or 1)


def text_of(pool: Pool | None, cell: Cell) -> str | None:
    """The text; None where there is none, or no pool."""
    agent, item, repeat = cell
    return None if pool is None else pool.every[agent + (repeat - 1) * pool.n_agents, item]


def _raw(completion: Completion) -> Raw:
    return {
        "text": clipped(completion.text, MAX_TEXT),
        "finish_reason": readable(completion.finish_reason),
        "model": readable(completion.model),
        "tokens_in": completion.tokens_in,
        "tokens_out": completion.tokens_out,
        "seconds": completion.seconds,
        "refusal": None if completion.refusal is None else clipped(completion.refusal, MAX_TEXT),
        "top": [[readable(token), math.exp(value)] for token, value in completion.top_logprobs],
    }
