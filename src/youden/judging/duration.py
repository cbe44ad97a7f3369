"""How long asking a judge will take: from calls in flight, seconds a call, and requests and tokens a minute.

It is worked out from the judge's config, not measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from youden.judging.config.settings import JudgeConfig

ASSUMED_SECONDS = 1.0
"""A call of a few hundred tokens with one word for an answer, where the judge's config does not say `seconds_per_call`."""


@dataclass(frozen=True)
class Duration:
    """Expected minutes, None where nobody knows, and what they rest on in words."""

    minutes: float | None
    pace: str


def expected_duration(config: JudgeConfig, *, n_calls: int, n_tokens: float) -> Duration:
    """The slowest of three: calls in flight, requests a minute, tokens (in and out) a minute. No retries, no 429s.

    None for a judge that makes no calls, and for a batch, whose provider takes up to a day.
    """
    if not config.makes_calls:
        return Duration(None, "")
    if config.batched:
        return Duration(None, "a batch comes back within a day")
    limits = config.fetching
    seconds = limits.seconds_per_call or ASSUMED_SECONDS
    start, most = min(limits.start_concurrency, limits.concurrency), limits.concurrency
    flight = seconds_in_flight(n_calls, seconds=seconds, start=start, most=most)
    at_once = f"{most} at once" if start == most else f"{start} at once and growing to {most}"
    ways = [(flight / 60, f"{seconds:g} s a call{'' if limits.seconds_per_call else ' (assumed)'}, {at_once}")]
    if limits.requests_per_minute is not None:
        ways.append((n_calls / limits.requests_per_minute, f"{limits.requests_per_minute:g} requests a minute"))
    if limits.tokens_per_minute is not None:
        ways.append((n_tokens / limits.tokens_per_minute, f"{limits.tokens_per_minute:g} tokens a minute"))
    return Duration(*max(ways))


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
