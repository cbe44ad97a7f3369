"""Lease requests to one process, so that no stored answer is paid for twice, and record the batches of a provider.

A lease is a row with a holder and an expiry time, acquired before the request is sent. It ends when its outcome is
written or the holder releases it. A process may take over the leases of another holder whose expiry time has not
changed for the duration of a lease. It measures that time on its own monotonic clock, because the clocks of hosts
differ and can be set. A process that could not reach the store restarts the measurement, because the other holders may
not have reached it either. Leases of an ended process of this machine are free at once.

A batch whose results are not stored yet has a row in the store, so that a later process on any host can resume it. The
row contains no requests, answers or secrets: only which request hashes are in which file of the provider.
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
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from youden.errors import JudgeError
from youden.judging.store.contract import Row, StorageBackend, read_all_rows

LEASE_SECONDS = 30.0
"""Time after which a lease expires unless it is renewed."""
LIVENESS_CHECK_SECONDS = 0.25
"""Time between two checks whether other holders are dead."""


_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def monotonic_seconds() -> float:
    """Return the seconds of a clock that cannot be set, and that also runs while the machine sleeps, if it can."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


def new_holder_name() -> str:
    """Make a unique name for a holder of leases, from the machine and the process."""
    return f"{_get_machine_id()} {os.getpid()} {uuid.uuid4().hex}"


class _HolderState(NamedTuple):
    """What is known about another process that holds leases."""

    expiry: float
    """Expiry time of its leases in the store. Each renewal changes it."""
    last_renewal: float
    """Time, by the clock of this process, at which this process first read the expiry time."""


class Leases:
    """The leases of one holder on the requests of a store.

    Parameters
    ----------
    backend : StorageBackend
        Storage backend.
    now : callable, default monotonic_seconds
        Clock in seconds.

    Attributes
    ----------
    n_losses : int
        Number of renewals that came too late: another process may have acquired the leases by then.
    """

    def __init__(self, backend: StorageBackend, *, now: Callable[[], float] = monotonic_seconds) -> None:
        self.n_losses = 0
        self._backend = backend
        self._now = now
        self._holder = new_holder_name()
        self._last_renewal = now()
        self._last_check = -LIVENESS_CHECK_SECONDS
        self._other_holders: dict[str, _HolderState] = {}
        self._dead_holders: list[str] = []

    @property
    def maybe_expired(self) -> bool:
        """Whether the last renewal is so long ago that others may have taken the leases over."""
        return self._now() - self._last_renewal >= 0.9 * LEASE_SECONDS

    def acquire(self, keys: Sequence[str]) -> set[str]:
        """Acquire leases on requests, and return the request hashes for which this succeeded.

        While a running process holds the lease on a request, no other process can acquire it.

        keys : request hashes
        """
        now = self._now()
        if now - self._last_check >= LIVENESS_CHECK_SECONDS:
            self._find_dead_holders(now)
        return self._backend.acquire_leases(keys, self._holder, seconds=LEASE_SECONDS, gone=self._dead_holders)

    def renew(self) -> None:
        """Renew all leases, if a quarter of their duration has passed since the last renewal."""
        now = self._now()
        if now - self._last_renewal < LEASE_SECONDS / 4:
            return
        if self.maybe_expired:
            self.n_losses += 1
            # the other processes may not have reached the store either: forget when they last renewed their leases
            self._other_holders = {}
        self._backend.renew(self._holder, seconds=LEASE_SECONDS)
        self._last_renewal = now

    def release(self, keys: Collection[str] | None = None) -> None:
        """Release the leases on requests, given by their hashes; by default, release all leases of this holder."""
        self._backend.release(self._holder, keys)

    def _find_dead_holders(self, now: float) -> None:
        """Find the other processes whose leases may be taken over, and record their names in `_dead_holders`.

        A process of this machine is dead if it has ended. Any process counts as dead if it has not renewed its leases for more
        than `LEASE_SECONDS`.

        now : time of this process's clock, in seconds
        """
        self._last_check = now
        self._other_holders = self._read_other_holders(now)
        self._dead_holders = []
        for name, state in self._other_holders.items():
            has_expired = now - state.last_renewal > LEASE_SECONDS
            if has_expired or is_dead_process(name):
                self._dead_holders.append(name)

    def _read_other_holders(self, now: float) -> dict[str, _HolderState]:
        """Read from the store which other processes hold leases, and find out when each has last renewed them.

        The clocks of machines differ, so this process cannot compare the expiry times in the store with its own clock. Instead,
        it notes by its own clock when an expiry time has changed. This is the time of the last renewal.

        now : time of this process's clock, in seconds

        Returns the state of each process by its name.
        """
        # if this process could not reach the store, perhaps the others could not either: restart the measurement of their times
        previous_states = {} if self.maybe_expired else self._other_holders

        states: dict[str, _HolderState] = {}
        for name, expiry in self._backend.owners().items():
            if name == self._holder:
                continue
            state = previous_states.get(name)
            if state is None or state.expiry != expiry:
                state = _HolderState(expiry, last_renewal=now)
            states[name] = state
        return states


@cache
def _get_machine_id() -> str:
    """Return an id of this machine or container. Within it, each process number belongs to one process.

    On Linux, the id consists of the host name, the namespace of process numbers, and the boot id. The host name does not suffice,
    because two machines may have the same one. The namespace differs between the containers of a machine. The boot id changes at
    each start of a machine. On other systems, the id consists of the host name and the hardware address.
    """
    namespace_and_boot = ""
    with suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        namespace_and_boot = f"{os.readlink('/proc/self/ns/pid')}/{boot_id}"
    machine_id = f"{platform.node()}/{namespace_and_boot or uuid.getnode()}"
    return "/".join(machine_id.split())  # without white space, because `new_holder_name` separates its parts by spaces


def is_dead_process(holder: str) -> bool:
    """Return whether the holder of a lease is a process of this machine that has ended.

    holder : id of a process, which consists of the machine id, the process number and a random part
    """
    machine, process_number, _ = holder.split(" ")
    if machine != _get_machine_id() or os.name != "posix":
        return False
    try:
        os.kill(int(process_number), 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def new_id() -> str:
    """Make an id for a batch."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Job:
    """One file of requests that a provider works on: a row of `batches`."""

    address: str
    """Address of the provider."""
    model: str
    """Model that answers the requests."""
    usd: float
    """The most that it can cost, in USD; NaN if a price is unknown."""
    keys: tuple[str, ...]
    """Request hashes, in the order of the file's lines."""
    account: str | None = None
    """Cost account of the run that sent it; None if it was sent without an account."""
    file: str | None = None
    """The provider's id of the file; None until it has assigned one."""
    batch: str | None = None
    """The provider's id of the batch; None until it has assigned one."""
    id: str = field(default_factory=new_id)
    """Primary key of the row."""
    created: float = field(default_factory=time.time)
    """Seconds since 1970."""

    @property
    def lease_key(self) -> str:
        """Key of the lease of the process that waits for the batch."""
        return f"batch {self.id}"

    @property
    def row(self) -> Row:
        """The row of the store."""
        usd = None if math.isnan(self.usd) else self.usd
        keys = orjson.dumps(self.keys).decode()
        return self.id, self.address, self.model, self.account, usd, self.file, self.batch, keys, self.created


class PendingBatchKeys:
    """Request hashes in the pending batches of all models, for a process that sends single calls."""

    def __init__(self, backend: StorageBackend) -> None:
        self._backend = backend
        self._cached: tuple[list[str], frozenset[str]] = ([], frozenset())  # ids of the batches, and request hashes

    def read_request_hashes(self) -> frozenset[str]:
        """Return the request hashes in all pending batches.

        The records of the batches are read again only if one was added or deleted since the last call.
        """
        job_ids = self._backend.batches()
        cached_ids, request_hashes = self._cached
        if job_ids != cached_ids:
            jobs = read_pending_jobs(self._backend) if job_ids else []
            request_hashes = frozenset(chain.from_iterable(job.keys for job in jobs))
            self._cached = job_ids, request_hashes
        return request_hashes


def read_pending_jobs(backend: StorageBackend) -> list[Job]:
    """Read the records of all pending batches in a store.

    A batch is pending from before its requests are sent until its results are stored.

    Parameters
    ----------
    backend : StorageBackend
        Storage backend of the store.

    Returns
    -------
    list of Job
        One record per batch, of all providers and models, oldest first.
    """
    jobs = []
    for row in cast(list[tuple[Any, ...]], read_all_rows(backend, "batches")):
        job_id, address, model, account, usd, file_id, batch_id, keys_json, created = row
        max_usd = math.nan if usd is None else usd  # NULL: a price is unknown
        keys = tuple(orjson.loads(keys_json))
        jobs.append(
            Job(address, model, max_usd, keys, account, file=file_id, batch=batch_id, id=job_id, created=created)
        )
    return sorted(jobs, key=lambda job: (job.created, job.id))


def lease_lost_error(store_name: str) -> JudgeError:
    """Make the error for a process that was unresponsive for so long that others may have taken over its batches."""
    return JudgeError(
        f"This process was suspended, or could not reach the store {store_name}, for so long that another process may have taken "
        "over its batches. All batches are recorded, and all answers are stored. Run the same command again to resume.",
        slug="lease-lost",
    )
