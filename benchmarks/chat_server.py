"""Serve chat completions for `engine.py` in a separate process: tests/wire_server.py with a behavior that can be changed.

It prints its URL, then reads commands from standard input: `temper NAME` changes the behavior and resets the counts, `stats`
prints the counts as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import Any

wire: Any = import_module("wire_server")
Reply = wire.Reply

STORM_SECONDS = 10.0
STORM_DELAY = 0.1
BIN = 0.01
FAULTS = ("reset", "stall", "truncated", "malformed", "no_choices", "html")
STATUSES = (408, 429, 500, 503)
ODD_REPLIES = (Reply("Hm."), Reply("", refusal="no"), Reply("The", finish_reason="length"), Reply(status=400))


class Behavior:
    """Behavior of the server.

    - plain: replies at once
    - slow: replies after 0 to 50 ms
    - faulty: slow, and a fifth of the replies have one of many faults
    - storm: HTTP 429 for half of the requests in the first ten seconds

    The usage of a slow reply contains its delay: `completion_tokens` is the delay in units of 10 µs.
    """

    def __init__(self) -> None:
        self.change_to("plain")

    def change_to(self, name: str) -> None:
        """Change the behavior, and reset the counts."""
        self.name = name
        self.dice = random.Random(0)
        self.n = 0
        self.start = 0.0
        self.n_by_bin: Counter[int] = Counter()

    def __call__(self, _n: int, body: Mapping[str, Any]) -> Any:
        now = time.perf_counter()
        self.start = self.start or now
        self.n += 1
        self.n_by_bin[int((now - self.start) / BIN)] += 1
        answer = "YES" if hash(body["messages"][-1]["content"][-400:]) % 2 else "NO"
        if self.name == "plain":
            return Reply(answer)
        if self.name == "storm":
            is_rejected = now - self.start < STORM_SECONDS and self.dice.random() < 0.5
            return Reply(status=429) if is_rejected else Reply(answer, delay=STORM_DELAY)
        delay = self.dice.uniform(0, 0.05)
        usage = {"prompt_tokens": 100, "completion_tokens": round(delay * 1e5)}
        if self.name == "slow" or self.dice.random() >= 0.2:
            return Reply(answer, delay=delay, usage=usage)
        kind = self.dice.randrange(len(FAULTS) + len(STATUSES) + len(ODD_REPLIES))
        if kind < len(FAULTS):
            return Reply(fault=FAULTS[kind], delay=delay)
        if kind < len(FAULTS) + len(STATUSES):
            return Reply(status=STATUSES[kind - len(FAULTS)], delay=delay)
        return ODD_REPLIES[kind - len(FAULTS) - len(STATUSES)]

    def stats(self) -> dict[str, object]:
        """Return `n`, the number of requests, and `arrived`, the number in each hundredth of a second since the first one."""
        bins = [self.n_by_bin[k] for k in range(max(self.n_by_bin, default=-1) + 1)]
        return {"n": self.n, "bin": BIN, "arrived": bins}


async def main() -> None:
    """Serve until standard input ends."""
    behavior = Behavior()
    async with wire.WireServer(behavior, keep=False) as server:
        print(server.url, flush=True)
        lines = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while command := (await lines.readline()).decode().split():
            if command[0] == "temper":
                behavior.change_to(command[1])
                print("ok", flush=True)
            else:
                print(json.dumps(behavior.stats()), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
