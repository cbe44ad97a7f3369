"""Estimate the cost and duration of judging a plan, before anything is sent.

The duration is computed from limits in the judge's config (calls in flight, seconds per call, requests and tokens per
minute), not measured. Nothing is downloaded: a tokenizer is used only if its file is on the disk.
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
from youden.judging.call.failures import Failure
from youden.judging.config.judge_files import JudgeConfig, JudgeLike, call_cost, resolve_judge
from youden.judging.question.questions import CHARACTERS_PER_TOKEN, KeySource, RowKey, iter_keys
from youden.judging.store.answers import Store, open_store_of_folder
from youden.judging.store.plan_answers import CHUNK
from youden.types import Completion, Plan, Pool
from youden.types.planning import Cost
from youden.types.pool import Positions

DEFAULT_CALL_SECONDS = 1.0
"""Duration of a call if the judge's config has no `seconds_per_call`: a few hundred tokens, answered with one word."""


def expected_duration(config: JudgeConfig, *, n_calls: int, n_tokens: float) -> tuple[float | None, str]:
    """Estimate the duration of calls without retries, in minutes, and describe the limit that decides it, for display.

    The duration is the longest by the limits on calls in flight, requests per minute and tokens per minute. It is None
    for a judge without calls, and for batches, which take up to a day. n_tokens: tokens of all requests and answers.
    """
    if not config.makes_calls:
        return None, ""
    if config.is_batched:
        return None, "a batch returns within a day"
    seconds = config.seconds_per_call or DEFAULT_CALL_SECONDS
    start, limit = min(config.start_concurrency, config.concurrency), config.concurrency
    total_seconds = seconds_in_flight(n_calls, seconds=seconds, start=start, limit=limit)
    concurrency = f"{limit} at once" if start == limit else f"{start} at once, growing to {limit}"
    assumed = "" if config.seconds_per_call else " (assumed)"

    estimates = [(total_seconds / 60, f"{seconds:g} s per call{assumed}, {concurrency}")]
    if config.requests_per_minute is not None:
        estimates.append((n_calls / config.requests_per_minute, f"{config.requests_per_minute:g} requests per minute"))
    if config.tokens_per_minute is not None:
        estimates.append((n_tokens / config.tokens_per_minute, f"{config.tokens_per_minute:g} tokens per minute"))
    return max(estimates)


def seconds_in_flight(n_calls: int, *, seconds: float, start: int, limit: int) -> float:
    """Return the seconds until all calls are answered, if the number in flight grows by one after each round.

    seconds: duration of a call. start, limit: number of calls in flight in the first round, and at most.

    Notes
    -----
    r rounds answer start·r + r(r − 1)/2 calls while the number grows. The last call takes the full duration.

    Examples
    --------
    >>> seconds_in_flight(100, seconds=2.0, start=10, limit=10)
    20.0
    """
    n_growing_rounds = limit - start
    n_calls_while_growing = n_growing_rounds * (start + limit - 1) / 2
    if n_calls > n_calls_while_growing:
        n_rounds = n_growing_rounds + (n_calls - n_calls_while_growing) / limit
    else:
        # the positive root of start·r + r(r − 1)/2 = n_calls
        n_rounds = math.sqrt((start - 0.5) ** 2 + 2 * n_calls) - (start - 0.5)
    return seconds * max(n_rounds, float(n_calls > 0))


N_TOKENIZED_TEXTS = 200
"""Number of texts that are tokenized; the others are assumed to have the same number of tokens per character."""

_ENCODINGS = "https://openaipublic.blob.core.windows.net/encodings"


def estimate_for_judge(plan: Plan, judge: JudgeLike) -> Cost:
    """Estimate the cost of judging a plan; a judge that is a function costs 0.

    Parameters
    ----------
    plan : Plan
        The plan.
    judge : str, Path, mapping, JudgeConfig or callable
        The judge.

    Returns
    -------
    Cost
        The estimate.
    """
    config = resolve_judge(judge)
    if not isinstance(config, JudgeConfig):
        return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=0, tokens_out=0, usd=0.0)
    return estimate(plan, config)


def estimate_by_characters(plan: Plan, config: JudgeConfig) -> Cost:
    """Estimate the cost of judging a plan at four characters per token, which needs no pool.

    Parameters
    ----------
    plan : Plan
        The plan.
    config : JudgeConfig
        The judge.

    Returns
    -------
    Cost
        The estimate, without minutes.
    """
    if not config.makes_calls:
        return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=0, tokens_out=0, usd=0.0)
    tokens_in = -(-(plan.characters + config.overhead_characters * len(plan)) // CHARACTERS_PER_TOKEN)
    tokens_out = config.answer_tokens * len(plan)
    usd = _usd(config, tokens_in, tokens_out)
    return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)


def _usd(config: JudgeConfig, tokens_in: float, tokens_out: float) -> float | None:
    """Return the price of tokens in USD; None if it is unknown."""
    usd = call_cost(config, tokens_in, tokens_out)
    return None if math.isnan(usd) else usd


def estimate(
    plan: Plan,
    config: JudgeConfig,
    *,
    environment: Mapping[str, str] | None = None,
    store: str | Path | None = None,
    keys: KeySource = iter_keys,
) -> Cost:
    """Estimate cells, calls, tokens, USD and minutes of judging a plan.

    Tokens are counted by tiktoken's encoding of the model, or as characters / 4 if it is not on the disk or the plan
    has no pool.

    Parameters
    ----------
    plan : Plan
        The plan.
    config : JudgeConfig
        The judge. The estimate for a jury is the sum over its judges.
    environment : mapping, optional
        Environment variables that locate tiktoken's files. Default: those of the process.
    store : str or Path, optional
        Path or URL of the store, whose answers cost nothing. It need not exist.
    keys : callable, default keys
        Function that computes the request hashes of a plan.

    Returns
    -------
    Cost
        The estimate.
    """
    if config.judges:
        costs = [estimate(plan, judge, environment=environment, store=store, keys=keys) for judge in config.judges]
        return _sum_costs(costs)
    cost = estimate_by_characters(plan, config)
    if not config.makes_calls:
        return cost
    tokenizer = "characters / 4"
    encoding = _find_encoding(config.model or "", os.environ if environment is None else environment)
    if encoding is not None and plan.source is not None and (rate := _tokens_per_character(encoding, plan.pool)):
        tokens_in = math.ceil((plan.characters + config.overhead_characters * len(plan)) * rate)
        usd = _usd(config, tokens_in, cost.tokens_out)
        cost, tokenizer = replace(cost, tokens_in=tokens_in, usd=usd), str(encoding.name)
    minutes, pace = expected_duration(config, n_calls=cost.calls, n_tokens=cost.tokens_in + cost.tokens_out)
    if store is not None:
        with suppress(YoudenError), open_store_of_folder(store) as answers:
            questions = config.questions()
            cost = _subtract_stored(cost, config, answers, keys(questions, plan), questions.count_characters(plan))
    return replace(
        cost,
        tokenizer=tokenizer,
        prices="" if cost.usd is None else config.price_source,
        minutes=minutes,
        pace=pace,
    )


def _subtract_stored(
    cost: Cost, config: JudgeConfig, store: Store, keys: Iterator[RowKey], characters: Positions
) -> Cost:
    """Return the cost with the number of stored answers, and the price of the remaining calls.

    The tokens of the remaining requests are estimated by their share of characters.
    characters : int array (n_trials,), length of each trial's request
    """
    n_remaining, n_stored, remaining_characters = 0, 0, 0
    while chunk := list(islice(keys, CHUNK)):
        rows = {key: row for row, key in chunk}
        outcomes = store.get_outcomes(list(rows))
        settled = {key for key, outcome in outcomes.items() if _is_final(outcome)}
        remaining = [row for key, row in rows.items() if key not in settled]
        n_remaining += len(remaining)
        remaining_characters += int(characters[remaining].sum())
        n_stored += sum(key in settled for _, key in chunk)

    usd = None
    if n_stored:
        tokens_in = cost.tokens_in * remaining_characters / int(characters.sum())
        tokens_out = cost.tokens_out * n_remaining / len(characters)
        usd = _usd(config, tokens_in, tokens_out)
    return replace(cost, stored=n_stored, usd_left=usd)


def _is_final(outcome: Completion | Failure) -> bool:
    """Return whether a stored outcome makes a call unnecessary."""
    return isinstance(outcome, Completion) or outcome.kind == "rejected"


def _find_encoding(model: str, environment: Mapping[str, str]) -> Any | None:
    """Return tiktoken's encoding of a model; None if tiktoken, the model or the encoding's file does not exist here."""
    try:
        tiktoken = import_module("tiktoken")
        name = tiktoken.encoding_name_for_model(model)
    except (ImportError, KeyError):
        return None
    cache = environment.get("TIKTOKEN_CACHE_DIR") or environment.get("DATA_GYM_CACHE_DIR")
    folder = Path(cache) if cache else Path(tempfile.gettempdir(), "data-gym-cache")
    file = hashlib.sha1(f"{_ENCODINGS}/{name}.tiktoken".encode(), usedforsecurity=False).hexdigest()
    if not (folder / file).is_file():
        return None
    return tiktoken.get_encoding(name)


def _tokens_per_character(encoding: Any, pool: Pool) -> float:
    """Measure the tokens per character of the first texts of a pool; 0 if it has none."""
    texts = [str(text) for text in islice((text for text in pool.texts.flat if text), N_TOKENIZED_TEXTS)]
    n_characters = sum(map(len, texts))
    n_tokens = sum(len(encoding.encode_ordinary(text)) for text in texts)
    return n_tokens / n_characters if n_characters else 0.0


def _sum_costs(costs: list[Cost]) -> Cost:
    """Return the costs of several judges that answer one after another."""
    prices = [cost.usd for cost in costs if cost.usd is not None]
    timed = [cost for cost in costs if cost.pace]
    minutes = [cost.minutes for cost in timed if cost.minutes is not None]
    return Cost(
        cells=costs[0].cells,
        calls=sum(cost.calls for cost in costs),
        tokens_in=sum(cost.tokens_in for cost in costs),
        tokens_out=sum(cost.tokens_out for cost in costs),
        usd=sum(prices) if len(prices) == len(costs) else None,
        tokenizer=", ".join(dict.fromkeys(cost.tokenizer for cost in costs)),
        prices=", ".join(dict.fromkeys(cost.prices for cost in costs if cost.prices)),
        minutes=sum(minutes) if minutes and len(minutes) == len(timed) else None,
        pace="; then ".join(cost.pace for cost in timed),
        stored=sum(cost.stored for cost in costs),
        usd_left=_sum_remaining(costs),
    )


def _sum_remaining(costs: list[Cost]) -> float | None:
    """Return the price of all remaining calls in USD; None if nothing is stored, or if a price is unknown."""
    remaining = [cost.usd_left if cost.stored else cost.usd for cost in costs]
    prices = [usd for usd in remaining if usd is not None]
    any_stored = any(cost.stored for cost in costs)
    return sum(prices) if len(prices) == len(remaining) and any_stored else None
