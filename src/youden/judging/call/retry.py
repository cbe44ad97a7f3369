"""The one retry policy: what is asked again, when, and how often.

It only counts and says how long to wait. Who asks does the waiting, so that a call can sleep without a worker.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from youden.judging.call.failures import CallError

LONGEST_BACKOFF = 30.0
LONGEST_WAIT = 300.0
"""Seconds: a call that has to wait longer than this because of 429s has, for this run, failed its trial."""

TOO_MANY = 429


@dataclass
class Tries:
    """What one call went through: its failures, 429s apart, and the seconds it waited because of those.

    suspect: whether it failed in an outage, which is no try.
    """

    n_failed: int = 0
    n_throttled: int = 0
    throttled_for: float = 0.0
    suspect: bool = False


@dataclass(frozen=True)
class RetryPolicy:
    """Full jitter: a random share of `backoff`·2ⁿ seconds, after Retry-After where the server gave one.

    A 429 says nothing of the call, so it is no try: calls are bounded by `max_tries` otherwise, by `LONGEST_WAIT` under 429s.
    """

    max_tries: int
    backoff: float
    share: Callable[[], float] = field(default=random.random, repr=False)

    def wait(self, tries: Tries, error: CallError) -> float | None:
        """Seconds to wait before the call is sent again, None to give up; counted in `tries`."""
        if error.kind != "retry":
            return None
        if error.status != TOO_MANY:
            tries.n_failed += 1
            if tries.n_failed >= self.max_tries or (error.retry_after or 0) > LONGEST_WAIT:
                return None
            return self._jitter(tries.n_failed) + (error.retry_after or 0)
        tries.n_throttled += 1
        seconds = self._jitter(tries.n_throttled) + (error.retry_after or 0)
        tries.throttled_for += seconds
        return seconds if tries.throttled_for <= LONGEST_WAIT else None

    def _jitter(self, n: int) -> float:
        longest = max(self.backoff, LONGEST_BACKOFF)
        doublings = min(n - 1, 60)
        return self.share() * min(longest, self.backoff * 2.0**doublings)
