"""The server of `benchmarks/engine.py`, in a process of its own: tests/wire_server.py with a temper that can be changed.

It knows how to misbehave and when each request came; it refuses to know who asks. It prints its address, then reads
commands from standard input: `temper NAME` starts counting anew, `stats` prints JSON.
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
ODD = (Reply("Hm."), Reply("", refusal="no"), Reply("The", finish_reason="length"), Reply(status=400))


class Temper:
    """How requests are answered. plain: at once. slow: after 0–50 ms. faulty: slow, and a fifth of them broken in every way
    there is. storm: 429 to half of what comes in the first ten seconds.

    A slow reply says in `usage.completion_tokens` how long it was held back, in units of 10 µs.
    """

    def __init__(self) -> None:
        self.become("plain")

    def become(self, name: str) -> None:
        self.name = name
        self.dice = random.Random(0)
        self.n = 0
        self.began = 0.0
        self.arrived: Counter[int] = Counter()

    def __call__(self, _n: int, body: Mapping[str, Any]) -> Any:
        now = time.perf_counter()
        self.began = self.began or now
        self.n += 1
        self.arrived[int((now - self.began) / BIN)] += 1
        said = "YES" if hash(body["messages"][-1]["content"][-400:]) % 2 else "NO"
        if self.name == "plain":
            return Reply(said)
        if self.name == "storm":
            stormy = now - self.began < STORM_SECONDS and self.dice.random() < 0.5
            return Reply(status=429) if stormy else Reply(said, delay=STORM_DELAY)
        delay = self.dice.uniform(0, 0.05)
        usage = {"prompt_tokens": 100, "completion_tokens": round(delay * 1e5)}
        if self.name == "slow" or self.dice.random() >= 0.2:
            return Reply(said, delay=delay, usage=usage)
        kind = self.dice.randrange(len(FAULTS) + len(STATUSES) + len(ODD))
        if kind < len(FAULTS):
            return Reply(fault=FAULTS[kind], delay=delay)
        if kind < len(FAULTS) + len(STATUSES):
            return Reply(status=STATUSES[kind - len(FAULTS)], delay=delay)
        return ODD[kind - len(FAULTS) - len(STATUSES)]

    def stats(self) -> dict[str, object]:
        """n: requests; arrived: how many came in each hundredth of a second since the first."""
        bins = [self.arrived[k] for k in range(max(self.arrived, default=-1) + 1)]
        return {"n": self.n, "bin": BIN, "arrived": bins}


async def main() -> None:
    """Serve until standard input ends."""
    temper = Temper()
    async with wire.WireServer(temper, keep=False) as server:
        print(server.url, flush=True)
        lines = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while command := (await lines.readline()).decode().split():
            if command[0] == "temper":
                temper.become(command[1])
                print("ok", flush=True)
            else:
                print(json.dumps(temper.stats()), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
