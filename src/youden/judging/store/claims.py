"""Who asks what: a key is claimed in the store before its request is sent, so that nobody pays for the same answer twice.

A claim is a row with an owner and an end. It ends when the answer is written, when its owner gives it up, or in time: an owner
that lives renews it. That of a process of this machine that is gone is free at once.
"""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache

from youden.judging.store.places.contract import Place

LEASE = 30.0
"""Seconds that a claim holds unless it is renewed."""
LOOKS_EVERY = 0.25
"""Seconds between two looks whether owners of this machine are gone."""


def new_owner() -> str:
    """A name for one who claims: its machine, its process, and nobody else's."""
    return f"{_machine()} {os.getpid()} {uuid.uuid4().hex}"


class Claims:
    """The claims of one asker on a place, `seconds` long. lock: held while the place is used."""

    def __init__(
        self,
        place: Place,
        lock: AbstractContextManager[object],
        *,
        seconds: float = LEASE,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._place = place
        self._lock = lock
        self._seconds = seconds
        self._now = now
        self._owner = new_owner()
        self._renewed = now()
        self._looked = -LOOKS_EVERY
        self._gone: list[str] = []

    @property
    def doubtful(self) -> bool:
        """Whether this process stood still, or could not reach the place, for so long that others may have taken its claims."""
        return self._now() - self._renewed >= 0.9 * self._seconds

    def take(self, keys: Sequence[str]) -> set[str]:
        """Those of `keys` that are this asker's now; somebody else asks the others."""
        with self._lock:
            if time.monotonic() - self._looked >= LOOKS_EVERY:
                self._gone = [owner for owner in self._place.owners() if owner != self._owner and is_gone(owner)]
                self._looked = time.monotonic()
            return self._place.take(keys, self._owner, seconds=self._seconds, gone=self._gone)

    def renew(self) -> None:
        """Hold what is held for another lease; call it often, it writes every quarter of one."""
        now = self._now()
        if now - self._renewed < self._seconds / 4:
            return
        with self._lock:
            self._place.renew(self._owner, seconds=self._seconds)
        self._renewed = now

    def finish(self, keys: Collection[str] | None = None) -> None:
        """Give up the claims on `keys`, or on all: they were not asked, or their outcome is in the store."""
        with self._lock:
            self._place.release(self._owner, keys)


@cache
def _machine() -> str:
    """This machine, and on Linux the container in it: where a process's number means that process."""
    inside = ""
    with suppress(OSError):
        inside = os.readlink("/proc/self/ns/pid")
    return "/".join(f"{platform.node()}/{inside}".split())


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
