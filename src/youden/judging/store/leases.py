"""Who asks what on one store, and which batches are under way at a provider.

A key is claimed in the store before its request is sent, so that nobody pays for the same answer twice. A claim is a row with an
owner and an end. It ends when the answer is written, when its owner gives it up, or in time: an owner that lives renews it, and
who has seen it unchanged for a whole lease, on a clock that nobody sets, may take it. Who could not reach the store begins to
watch anew: the others may not have reached it either. The end itself is compared with no clock: clocks of hosts differ and are
set. The claim of a process of this machine that is gone is free at once.

Batches that were sent and not yet merged are noted in the store, so that any later process of any host can go on. A note holds no
requests, answers or secrets: only which keys went into which file of the provider.
"""

from __future__ import annotations

import math
import os
import platform
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import orjson

from youden.errors import JudgeError
from youden.judging.store.contract import Place, Row, all_rows

LEASE = 30.0
"""Seconds that a claim holds unless it is renewed."""
LOOKS_EVERY = 0.25
"""Seconds between two looks whether owners of this machine are gone."""


def steady() -> float:
    """Seconds on a clock that nobody sets; it goes on while the machine sleeps, where there is one that does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def new_owner() -> str:
    """A name for one who claims: its machine, its process, and nobody else's."""
    return f"{_machine()} {os.getpid()} {uuid.uuid4().hex}"


class Claims:
    """The claims of one asker on a place."""

    def __init__(self, place: Place, *, now: Callable[[], float] = steady) -> None:
        self._place = place
        self._now = now
        self._owner = new_owner()
        self._renewed = now()
        self._looked = -LOOKS_EVERY
        self._seen: dict[str, tuple[float, float]] = {}
        self._free: list[str] = []

    @property
    def doubtful(self) -> bool:
        """Whether this process stood still, or could not reach the place, for so long that others may have taken its claims."""
        return self._now() - self._renewed >= 0.9 * LEASE

    def take(self, keys: Sequence[str]) -> set[str]:
        """Those of `keys` that are this asker's now; somebody else asks the others."""
        now = self._now()
        if now - self._looked >= LOOKS_EVERY:
            self._looked, before = now, {} if self.doubtful else self._seen
            ends = {owner: end for owner, end in self._place.owners().items() if owner != self._owner}
            unchanged = {owner for owner, end in ends.items() if owner in before and before[owner][0] == end}
            self._seen = {owner: before[owner] if owner in unchanged else (end, now) for owner, end in ends.items()}
            self._free = [o for o, (_, since) in self._seen.items() if now - since > LEASE or is_gone(o)]
        return self._place.take(keys, self._owner, seconds=LEASE, gone=self._free)

    def renew(self) -> None:
        """Hold what is held for another lease; call it often, it writes every quarter of one."""
        now = self._now()
        if now - self._renewed < LEASE / 4:
            return
        if self.doubtful:
            self._seen = {}
        self._place.renew(self._owner, seconds=LEASE)
        self._renewed = now

    def finish(self, keys: Collection[str] | None = None) -> None:
        """Give up the claims on `keys`, or on all: they were not asked, or their outcome is in the store."""
        self._place.release(self._owner, keys)


@cache
def _machine() -> str:
    """This machine since it started, and on Linux the container in it: where a process's number means that process.

    Hosts may share a name, and the first container of every Linux has one number: what tells them apart is the machine's start.
    """
    inside = ""
    with suppress(OSError):
        inside = (
            f"{os.readlink('/proc/self/ns/pid')}/{Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii')}"
        )
    return "/".join(f"{platform.node()}/{inside or uuid.getnode()}".split())


def is_gone(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    machine, number, _ = owner.split(" ")
    if machine != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def new_id() -> str:
    """A name for a batch of one's own."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Job:
    """One file of requests under way: a row of `batches`.

    address, model: who is asked. usd: the worst it can cost, NaN where prices are unknown. keys: of the requests, in the order of
    the file's lines. file, batch: the provider's ids, None until it has given them. created: seconds since 1970.
    """

    address: str
    model: str
    usd: float
    keys: tuple[str, ...]
    file: str | None = None
    batch: str | None = None
    id: str = field(default_factory=new_id)
    created: float = field(default_factory=time.time)

    @property
    def claim(self) -> str:
        """What is claimed by whoever waits for it."""
        return f"batch {self.id}"

    @property
    def row(self) -> Row:
        """As the store keeps it."""
        usd, keys = None if math.isnan(self.usd) else self.usd, orjson.dumps(self.keys).decode()
        return self.id, self.address, self.model, usd, self.file, self.batch, keys, self.created


class UnderWay:
    """The keys in the batches of all models, for one who asks call by call."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: tuple[list[str], frozenset[str]] = ([], frozenset())

    def keys(self) -> frozenset[str]:
        """All of them now; read again only where a batch was added or forgotten."""
        of = self._place.batches()
        known, keys = self._known
        if of != known:
            keys = frozenset(key for job in (all_jobs(self._place) if of else ()) for key in job.keys)
            self._known = of, keys
        return keys


def all_jobs(place: Place) -> list[Job]:
    """Every batch under way that `place` knows of, oldest first."""
    jobs = [
        Job(address, model, math.nan if usd is None else usd, tuple(orjson.loads(keys)), file, batch, number, created)
        for number, address, model, usd, file, batch, keys, created in cast(
            list[tuple[Any, ...]], all_rows(place, "batches")
        )
    ]
    return sorted(jobs, key=lambda job: (job.created, job.id))


def lease_lost(place: str) -> JudgeError:
    """What a process learns that stood still while another took over what it was waiting for."""
    return JudgeError(
        f"This process stood still, or could not reach the store {place}, for so long that others may wait for its batches by "
        "now. What was sent is noted and what was answered is kept; run the same again to go on.",
        slug="lease-lost",
    )
