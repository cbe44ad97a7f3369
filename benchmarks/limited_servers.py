"""Servers that reject requests with HTTP 429, for `workers.py`: a token bucket, a fixed window, and a limit in flight."""

from __future__ import annotations

import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

wire: Any = import_module("wire_server")

PER_SECOND = 80
LATENCY = {"bucket": 0.1, "window": 0.1, "in flight": 0.5}
"""Mean time of an answer in seconds."""
MAX_IN_FLIGHT = 40


@dataclass
class LimitedServer:
    """Server behavior that records when requests were answered and rejected.

    - bucket: 80 requests per second, and up to 80 at once
    - window: 80 requests per second on average, counted in fixed windows of `period` seconds
    - in flight: 40 requests at the same time, each of which takes 0.5 s on average

    A rejection has the headers in `headers`: none, Retry-After, or those of OpenAI.
    """

    limit: str
    headers: str = "none"
    period: float = 20.0
    """Length in seconds of the measurement, of the time before it, and of a window."""
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    start: float | None = None
    answered: list[float] = field(default_factory=list)
    rejected: list[float] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    """Prompts that were rejected and not yet answered."""
    _tokens: float = float(PER_SECOND)
    _last_request: float = 0.0
    _ends: list[float] = field(default_factory=list)

    def __call__(self, _n: int, body: Mapping[str, Any]) -> Any:
        if self.start is None:
            self.start = time.monotonic()
        now = time.monotonic() - self.start
        prompt = body["messages"][-1]["content"]
        delay = LATENCY[self.limit] * self.dice.lognormvariate(-0.045, 0.3)  # the factor has the mean 1
        if not self._admits(now, delay):
            self.rejected.append(now)
            self.waiting.add(prompt)
            return wire.Reply(status=429, headers=self._make_headers(now))
        self.answered.append(now)
        self.waiting.discard(prompt)
        return wire.Reply(wire.same_item(body), delay=delay)

    def _admits(self, now: float, delay: float) -> bool:
        if self.limit == "bucket":
            self._tokens = min(PER_SECOND, self._tokens + (now - self._last_request) * PER_SECOND)
            self._last_request = now
            is_admitted = self._tokens >= 1
            self._tokens -= is_admitted
            return is_admitted
        if self.limit == "window":
            window_start = now - now % self.period
            return count_between(self.answered, window_start, now) < PER_SECOND * self.period
        self._ends = [end for end in self._ends if end > now]
        if len(self._ends) >= MAX_IN_FLIGHT:
            return False
        self._ends.append(now + delay)
        return True

    def _make_headers(self, now: float) -> dict[str, str]:
        seconds = self.period - now % self.period if self.limit == "window" else 1.0
        if self.headers == "none":
            return {}
        if self.headers == "Retry-After":
            return {"Retry-After": f"{seconds:.0f}"}
        return {
            "retry-after-ms": f"{1000 * seconds:.0f}",
            "x-ratelimit-limit-requests": str(60 * PER_SECOND),
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": f"{seconds:.3f}s",
        }

    def measure_steady_state(self) -> dict[str, float]:
        """Measure the second period: the rate of answers divided by the highest possible rate, and the rejections per answer."""
        n_answered, n_rejected = (
            count_between(times, self.period, 2 * self.period) for times in (self.answered, self.rejected)
        )
        return {
            "of_max_rate": n_answered / self.period / PER_SECOND,
            "rejected_per_answer": n_rejected / max(1, n_answered),
            "rejected_in_all": len(self.rejected),
            "answered_in_all": len(self.answered),
            "lost": len(self.waiting),
        }


def count_between(times: list[float], start: float, end: float) -> int:
    """Return how many of the sorted times are in [start, end]."""
    return bisect_right(times, end) - bisect_left(times, start)
