"""A trial opened: both texts, the judge's raw answer, the prompt; and the sample of opened trials that a page carries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.store.answers import open_store_of_folder
from youden.report.data.evidence import ReportTexts
from youden.report.data.ranking_tables import clipped, readable
from youden.report.data.trial_reading import TrialReading
from youden.report.data.trial_rows import KINDS, TrialBook, TrialLine
from youden.types import Completion, Pool, Verdicts
from youden.types.pool import Json

Cell = tuple[int, int, int]
MAX_TRIALS = 2_000
MAX_BYTES = 1_100_000
MAX_TEXT = 4_000
"""Most trials, bytes of text and characters of one text that a page carries."""


Raw = dict[str, Json]
"""What the judge sent back, as a page shows it. top: first answer token's alternatives with their probabilities."""


@dataclass(frozen=True)
class AskedPrompt:
    """How the judge is asked: the system message and the template in which both texts stand."""

    system: str | None
    template: str


@dataclass(frozen=True)
class Sources:
    """Where opened trials come from, and what is not there to be shown, in words."""

    texts: ReportTexts
    prompt: AskedPrompt | None
    store: str | None
    missing: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Sample:
    """The trials a page carries.

    texts: each text once; first, second: for each trial its texts' positions there, −1 where there is none.
    raw: each trial's raw answer, None where it is not kept. n_all: trials of the run.
    """

    lines: tuple[TrialLine, ...]
    texts: tuple[str, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    raw: tuple[Raw | None, ...]
    n_all: int


def judge_of_calls(result: Verdicts) -> Mapping[str, Json] | None:
    """The judge that gave these answers; None for one that makes no calls, whose answers lie in no store."""
    return None if result.key is None else result.judge


def find_sources(folder: RunFolder, texts: ReportTexts, judge: Mapping[str, Json] | None) -> Sources:
    """What of a run's texts, prompt and answers can still be opened. judge: as `judge_of_calls` gives it."""
    missing = [] if texts.why_not is None else [texts.why_not]
    prompt: AskedPrompt | None = None
    store: str | None = None
    if judge is not None:
        try:
            config = folder.read_config()
            store = config.store_place
            with open_store_of_folder(store):
                prompt = _prompt(load_judge_of_run(config), str(judge.get("prompt_digest")))
            if prompt is None:
                missing.append("The judge's prompt has changed since, so it is not shown.")
        except YoudenError as error:
            missing.append(f"The judge's raw answers or its prompt cannot be opened: {error}")
            store = None if prompt is None else store
    return Sources(texts, prompt, store, tuple(missing))


def sample_trials(
    book: TrialBook | TrialReading,
    sources: Sources,
    *,
    rng: np.random.Generator,
    ahead: Sequence[int] = (),
    max_bytes: int = MAX_BYTES,
) -> Sample:
    """Every surprising trial before ordinary ones, until the page is full. Half of it at most is kept for the rows `ahead`."""
    drawn = book.surprising(rng, MAX_TRIALS).tolist()
    lines = dict(zip(rows := [*ahead, *drawn], book.lines(rows), strict=True))
    texts: dict[Cell, int] = {}
    shown: list[str] = []
    pairs: dict[int, tuple[int, int]] = {}
    left = max_bytes
    for candidates, spare in ((ahead[: MAX_TRIALS // 2], max_bytes // 2), (drawn, 0)):
        for row in candidates:
            if row in pairs or len(pairs) == MAX_TRIALS:
                continue
            cells = cells_of(lines[row])
            fresh = {cell: _text(sources, cell) for cell in cells if cell not in texts}
            size = sum(len((text or "").encode()) for text in fresh.values()) + 120
            if left - size < spare:
                break
            left -= size
            for cell, text in fresh.items():
                texts[cell] = -1 if text is None else len(shown)
                shown += [] if text is None else [text]
            pairs[row] = (texts[cells[0]], texts[cells[1]])
    rows = sorted(pairs, key=lambda row: KINDS.index(lines[row].kind))
    return Sample(
        lines=tuple(lines[row] for row in rows),
        texts=tuple(shown),
        first=tuple(pairs[row][0] for row in rows),
        second=tuple(pairs[row][1] for row in rows),
        raw=raw_answers(book.keys(rows), sources.store),
        n_all=len(book),
    )


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


def _text(sources: Sources, cell: Cell) -> str | None:
    text = text_of(sources.texts.pool, cell)
    return None if text is None else clipped(text, MAX_TEXT)


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


def _prompt(config: JudgeConfig, digest: str) -> AskedPrompt | None:
    prompt = (config.of or config).loaded_prompt
    return AskedPrompt(prompt.system, prompt.template) if prompt.digest == digest else None
