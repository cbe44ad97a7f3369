"""Open trials: read both texts and the raw answer of the judge, and select the trials that a page contains.

A page contains a sample within limits of number and size, so that one file stays usable for a run of any size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from youden.judging.store.answers import open_store_of_folder
from youden.report.data.evidence import Sources
from youden.report.data.ranking_tables import escape_controls, truncate
from youden.report.data.trial_reading import TrialReading
from youden.report.data.trial_rows import KINDS, TrialBook, TrialLine
from youden.types import Completion, Pool, Verdicts
from youden.types.pool import Json

Cell = tuple[int, int, int]
"""Text of a pool: position of the agent, position of the item, and number of the response, from 1."""
MAX_TRIALS = 2_000
"""Maximum number of trials in a page."""
MAX_BYTES = 1_100_000
"""Maximum size of the texts in a page, in bytes."""
MAX_TEXT = 4_000
"""Maximum length of one text in a page, in characters."""
_BYTES_PER_TRIAL = 120
"""Approximate size of a trial in a page, without its texts."""

Raw = dict[str, Json]
"""Raw answer as a page shows it; "top" has the alternatives of the first token with their probabilities."""


class TrialSample:
    """Trials in a page, with their texts, most surprising kinds first.

    Attributes
    ----------
    lines : list of TrialLine
        The trials.
    texts : list of str
        Each text of the trials once.
    first, second : list of int
        Positions in `texts` of the first and of the second text of each trial; −1 if a text is missing.
    raw : tuple of (dict or None)
        Raw answer to each trial; None if it is not stored.
    prompt : dict or None
        Prompt of the judge.
    worst : list of TrialLine
        The trials of the rows `preferred`, with or without their texts.
    n_all : int
        Number of trials of the run.
    n_of_kind : dict of str to int
        Number of trials of each kind in the run.
    """

    def __init__(
        self,
        book: TrialBook | TrialReading,
        sources: Sources,
        *,
        rng: np.random.Generator,
        preferred: Sequence[int] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Sample trials and read their texts.

        Parameters
        ----------
        book : TrialBook or TrialReading
            Trials of the run.
        sources : Sources
            Texts and raw answers.
        rng : Generator
            Random generator.
        preferred : sequence of int, optional
            Rows of trials that are selected before all others. They fill at most half of the sample, by number and by size.
        max_bytes : int, default 1,100,000
            Maximum size of all texts together.

        Raises
        ------
        JudgeError
            [store-corrupt] if the store is damaged.
        """
        sampled = book.sample_surprising(rng, MAX_TRIALS).tolist()
        rows = [*preferred, *sampled]
        lines = dict(zip(rows, book.lines(rows), strict=True))

        # positions: cell → position of its text in `texts`; pairs: row → positions of both texts
        positions: dict[Cell, int] = {}
        pairs: dict[int, tuple[int, int]] = {}
        self.texts: list[str] = []
        remaining_bytes = max_bytes
        for candidates, reserved_bytes in ((preferred[: MAX_TRIALS // 2], max_bytes // 2), (sampled, 0)):
            for row in candidates:
                if row in pairs or len(pairs) == MAX_TRIALS:
                    continue
                first_cell, second_cell = cells_of(lines[row])
                cells = (first_cell, second_cell)
                texts = {cell: _excerpt(sources.pool, cell) for cell in cells if cell not in positions}
                size = sum(len(text.encode()) for text in texts.values() if text) + _BYTES_PER_TRIAL
                if remaining_bytes - size < reserved_bytes:
                    break
                remaining_bytes -= size
                for cell, text in texts.items():
                    positions[cell] = -1 if text is None else len(self.texts)
                    if text is not None:
                        self.texts.append(text)
                pairs[row] = (positions[first_cell], positions[second_cell])

        rows = sorted(pairs, key=lambda row: KINDS.index(lines[row].kind))
        self.lines = [lines[row] for row in rows]
        self.first = [pairs[row][0] for row in rows]
        self.second = [pairs[row][1] for row in rows]
        self.raw = read_raw_answers(book.read_request_hashes(rows), sources.store)
        self.prompt = sources.prompt
        self.worst = [lines[row] for row in preferred]
        self.n_all = len(book)
        self.n_of_kind = book.n_of_kind


def find_calling_judge(result: Verdicts) -> Mapping[str, Json] | None:
    """Return the settings of the judge that gave these answers; None if it makes no calls, so that no store has its answers."""
    return None if result.request_hash is None else result.judge


def read_raw_answers(request_hashes: Sequence[bytes], store: str | None) -> tuple[Raw | None, ...]:
    """Read the raw answers of a judge to requests from the store of answers.

    Parameters
    ----------
    request_hashes : sequence of bytes
        Hash of the request of each trial, as ASCII; an empty value for a trial without a request.
    store : str or None
        Address of the store; None if it cannot be opened.

    Returns
    -------
    tuple of (dict or None)
        Text of the answer to each request with its metadata, as JSON; None if it is not stored.

    Raises
    ------
    JudgeError
        [store-corrupt]: if the store is damaged.
    """
    if store is None:
        return (None,) * len(request_hashes)

    keys = [request_hash.decode() for request_hash in request_hashes]
    with open_store_of_folder(store) as opened_store:
        completion_by_key = opened_store.answers([key for key in keys if key])
    raw_answer_by_key = {key: _to_raw(completion) for key, completion in completion_by_key.items()}
    return tuple(raw_answer_by_key.get(key) for key in keys)


def cells_of(line: TrialLine) -> tuple[Cell, Cell]:
    """Return the cell (agent, item and number of the response, from 1) of the first and of the second text of a trial."""
    second_item = line.item if line.other_item is None else line.other_item
    first_cell = (line.first, line.item, line.first_repeat or 1)
    second_cell = (line.second, second_item, line.second_repeat or 1)
    return first_cell, second_cell


def text_of(pool: Pool | None, cell: Cell) -> str | None:
    """Return a text of a pool; None if it is missing, or if `pool` is None."""
    if pool is None:
        return None
    agent, item, repeat = cell
    row = agent + (repeat - 1) * pool.n_agents
    text: str | None = pool.all_texts[row, item]
    return text


def _excerpt(pool: Pool | None, cell: Cell) -> str | None:
    """Return the beginning of a text of a pool; None if it is missing, or if `pool` is None."""
    text = text_of(pool, cell)
    return None if text is None else truncate(text, MAX_TEXT)


def _to_raw(completion: Completion) -> Raw:
    """Convert a stored answer to JSON. Control characters are escaped, and the alternatives to the first token are included."""
    return {
        "text": truncate(completion.text, MAX_TEXT),
        "finish_reason": escape_controls(completion.finish_reason),
        "model": escape_controls(completion.model),
        "tokens_in": completion.tokens_in,
        "tokens_out": completion.tokens_out,
        "seconds": completion.seconds,
        "refusal": None if completion.refusal is None else truncate(completion.refusal, MAX_TEXT),
        "top": [[escape_controls(token), math.exp(value)] for token, value in completion.top_logprobs],
    }
