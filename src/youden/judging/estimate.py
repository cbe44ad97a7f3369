"""What a plan will cost with a judge, in dollars and minutes, before anything runs, and how that is known.

Time follows from calls in flight, seconds a call, and requests and tokens a minute, as the judge's config has them; it is not
measured. The network is never asked: tokenizers are used where they are on disk.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from youden.errors import YoudenError
from youden.judging.config.judge_files import JudgeConfig, JudgeLike, price, resolve_judge
from youden.judging.question.questions import CHARACTERS_A_TOKEN, Keyed, Keys, keys
from youden.judging.store.answers import Store, open_store_of_folder
from youden.judging.store.plan_answers import CHUNK
from youden.types import Completion, Plan, Pool
from youden.types.planning import Cost
from youden.types.pool import Positions

ASSUMED_SECONDS = 1.0
"""A call of a few hundred tokens with one word for an answer, where the judge's config does not say `seconds_per_call`."""


def expected_duration(config: JudgeConfig, *, n_calls: int, n_tokens: float) -> tuple[float | None, str]:
    """Return the expected minutes, None if unknown, and what they rest on.

    They are the slowest of three: calls in flight, requests per minute, tokens (in and out) per minute, without retries. None for
    a judge that makes no calls, and for a batch, whose provider takes up to a day.
    """
    if not config.makes_calls:
        return None, ""
    if config.batched:
        return None, "a batch comes back within a day"
    seconds = config.seconds_per_call or ASSUMED_SECONDS
    start, most = min(config.start_concurrency, config.concurrency), config.concurrency
    flight = seconds_in_flight(n_calls, seconds=seconds, start=start, most=most)
    at_once = f"{most} at once" if start == most else f"{start} at once and growing to {most}"
    ways = [(flight / 60, f"{seconds:g} s a call{'' if config.seconds_per_call else ' (assumed)'}, {at_once}")]
    if config.requests_per_minute is not None:
        ways.append((n_calls / config.requests_per_minute, f"{config.requests_per_minute:g} requests a minute"))
    if config.tokens_per_minute is not None:
        ways.append((n_tokens / config.tokens_per_minute, f"{config.tokens_per_minute:g} tokens a minute"))
    return max(ways)


def seconds_in_flight(n_calls: int, *, seconds: float, start: int, most: int) -> float:
    """Seconds until `n_calls` are answered, `start` in flight at first and one more after each round, up to `most`.

    r rounds answer start·r + r(r − 1)/2 calls; whoever is last takes a call's time.

    >>> seconds_in_flight(100, seconds=2.0, start=10, most=10)
    20.0
    """
    growing = most - start
    while_growing = growing * (start + most - 1) / 2
    if n_calls > while_growing:
        rounds = growing + (n_calls - while_growing) / most
    else:
        rounds = math.sqrt((start - 0.5) ** 2 + 2 * n_calls) - (start - 0.5)
    return seconds * max(rounds, float(n_calls > 0))


SAMPLE = 200
"""Texts that are really tokenized; the others have as many tokens a character."""

_ENCODINGS = "https://openaipublic.blob.core.windows.net/encodings"


def cost_of(plan: Plan, judge: JudgeLike) -> Cost:
    """Estimate the cost of a whole plan, for `Plan.cost`. A function as a judge costs 0."""
    config = resolve_judge(judge)
    if not isinstance(config, JudgeConfig):
        return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=0, tokens_out=0, usd=0.0)
    return estimate(plan, config)


def cost_by_characters(plan: Plan, config: JudgeConfig) -> Cost:
    """Estimate the cost of a whole plan at four characters per token, which needs no pool."""
    if not config.makes_calls:
        return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=0, tokens_out=0, usd=0.0)
    tokens_in = -(-(plan.characters + config.overhead_characters * len(plan)) // CHARACTERS_A_TOKEN)
    tokens_out = config.answer_tokens * len(plan)
    usd = _usd(config, tokens_in, tokens_out)
    return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)


def _usd(config: JudgeConfig, tokens_in: float, tokens_out: float) -> float | None:
    usd = price(config, tokens_in, tokens_out)
    return None if math.isnan(usd) else usd


def estimate(
    plan: Plan,
    config: JudgeConfig,
    *,
    environment: Mapping[str, str] | None = None,
    store: str | Path | None = None,
    keys: Keys = keys,
) -> Cost:
    """Estimate cells, calls, tokens, USD and minutes of a whole plan; for a jury, of all its judges, one after another.

    Tokens are counted by tiktoken's encoding of the model if that is on disk and the plan has its pool, else as characters / 4.
    environment: variables that locate tiktoken's files; None for those of the process. store: path or URL of the store, which
    need not exist yet. keys: source of the plan's keys.
    """
    if config.judges:
        ballots = [estimate(plan, one, environment=environment, store=store, keys=keys) for one in config.judges]
        return _together(ballots)
    cost = cost_by_characters(plan, config)
    if not config.makes_calls:
        return cost
    tokenizer = "characters / 4"
    encoding = _encoding_on_disk(config.model or "", os.environ if environment is None else environment)
    if encoding is not None and plan.source is not None and (rate := _tokens_a_character(encoding, plan.pool)):
        tokens_in = math.ceil((plan.characters + config.overhead_characters * len(plan)) * rate)
        usd = _usd(config, tokens_in, cost.tokens_out)
        cost, tokenizer = replace(cost, tokens_in=tokens_in, usd=usd), str(encoding.name)
    minutes, pace = expected_duration(config, n_calls=cost.calls, n_tokens=cost.tokens_in + cost.tokens_out)
    if store is not None:
        with suppress(YoudenError), open_store_of_folder(store) as answers:
            questions = config.questions()
            of_trial = questions.characters(plan)
            cost = _net_of(cost, config, answers, keys(questions, plan), of_trial)
    return replace(
        cost,
        tokenizer=tokenizer,
        prices="" if cost.usd is None else config.price_source,
        minutes=minutes,
        pace=pace,
    )


def _net_of(cost: Cost, config: JudgeConfig, store: Store, keys: Iterator[Keyed], characters: Positions) -> Cost:
    """`cost` with what `store` answers of it. What is left is priced by its share of the `characters` of all trials."""
    n_asked, stored, left = 0, 0, 0
    while chunk := list(islice(keys, CHUNK)):
        rows = {key: row for row, key in chunk}
        found = store.known(list(rows))
        settled = {key for key, one in found.items() if isinstance(one, Completion) or one.kind == "rejected"}
        asked = [row for key, row in rows.items() if key not in settled]
        n_asked, left = n_asked + len(asked), left + int(characters[asked].sum())
        stored += sum(key in settled for _, key in chunk)
    usd = None
    if stored:
        usd = _usd(config, cost.tokens_in * left / int(characters.sum()), cost.tokens_out * n_asked / len(characters))
    return replace(cost, stored=stored, usd_left=usd)


def _encoding_on_disk(model: str, environment: Mapping[str, str]) -> Any | None:
    """tiktoken's encoding of `model`; None where tiktoken, the model or the encoding's file is not there."""
    try:
        tiktoken = import_module("tiktoken")
        name = tiktoken.encoding_name_for_model(model)
    except (ImportError, KeyError):
        return None
    kept = environment.get("TIKTOKEN_CACHE_DIR") or environment.get("DATA_GYM_CACHE_DIR")
    folder = Path(kept) if kept else Path(tempfile.gettempdir(), "data-gym-cache")
    file = hashlib.sha1(f"{_ENCODINGS}/{name}.tiktoken".encode(), usedforsecurity=False).hexdigest()
    if not (folder / file).is_file():
        return None
    return tiktoken.get_encoding(name)


def _tokens_a_character(encoding: Any, pool: Pool) -> float:
    texts = [str(text) for text in islice((text for text in pool.texts.flat if text), SAMPLE)]
    n_characters = sum(map(len, texts))
    return sum(len(encoding.encode_ordinary(text)) for text in texts) / n_characters if n_characters else 0.0


def _together(costs: list[Cost]) -> Cost:
    known = [cost.usd for cost in costs if cost.usd is not None]
    timed = [cost for cost in costs if cost.pace]
    minutes = [cost.minutes for cost in timed if cost.minutes is not None]
    return Cost(
        cells=costs[0].cells,
        calls=sum(cost.calls for cost in costs),
        tokens_in=sum(cost.tokens_in for cost in costs),
        tokens_out=sum(cost.tokens_out for cost in costs),
        usd=sum(known) if len(known) == len(costs) else None,
        tokenizer=", ".join(dict.fromkeys(cost.tokenizer for cost in costs)),
        prices=", ".join(dict.fromkeys(cost.prices for cost in costs if cost.prices)),
        minutes=sum(minutes) if minutes and len(minutes) == len(timed) else None,
        pace="; then ".join(cost.pace for cost in timed),
        stored=sum(cost.stored for cost in costs),
        usd_left=_left(costs),
    )


def _left(costs: list[Cost]) -> float | None:
    """What is still to be paid of all, None where nothing is stored or a price is unknown."""
    left = [cost.usd_left if cost.stored else cost.usd for cost in costs]
    known = [usd for usd in left if usd is not None]
    return sum(known) if len(known) == len(left) and any(cost.stored for cost in costs) else None
