"""Places workers on a Ray cluster and waits until one of them knows the whole.

Nothing of a run is kept here. Who asks what, what may be spent and what was answered is the store's affair, so a worker or a
whole node may be lost at any time: Ray starts its workers again where there is room, and the others go on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from typing import Any, Generic, TypeVar

from youden import __version__
from youden.data.folder.run_config import RayWorkers
from youden.errors import ConfigError, ShortRunError, YoudenError
from youden.judging.scheduler.shutdown import run_until_stopped

T = TypeVar("T")

RESTARTS = 4
"""So often Ray starts a worker again that died."""

FOR_THE_REST = 2.0
"""Seconds that the others get to end by themselves once one is through: nothing is under way then."""

KNOCK = 10.0
"""Seconds in which the cluster has to take a connection."""

ROOM_AFTER = 15
"""Seconds after which it is said that workers wait for room."""

_NO_PACKAGE = "No module named 'youden"


@dataclass(frozen=True)
class Placing:
    """Where workers go. wanted: how many, and what Ray sets aside for each.

    one_machine: whether they all have to be on this machine, because they share a file. grace: seconds that calls in flight get
    when the run is told to stop. say: told in words what happens. look: called every second.
    """

    wanted: RayWorkers = field(default_factory=RayWorkers)
    one_machine: bool = False
    grace: float = 8.0
    say: Callable[[str], None] = lambda _: None
    look: Callable[[], None] = lambda: None

    @property
    def needs(self) -> str:
        """What a worker needs, in words."""
        each = self.wanted
        own = {"num_cpus": each.num_cpus, "num_gpus": each.num_gpus, **each.resources}
        return ", ".join(f"{name} {amount:g}" for name, amount in own.items() if amount)


def on_ray(work: Callable[[], T], placing: Placing) -> T:
    """What the first worker returns that gets to the end of `work`, on the cluster of RAY_ADDRESS or one of this machine.

    work: can be pickled; each worker calls it.

    Raises: ConfigError [ray-extra], [ray-away], [ray-sqlite], [ray-package] before any worker works; the first YoudenError of a
    worker, once the others have stopped; ShortRunError [ray-workers] where all are lost.
    """
    ray = _library()
    with _connected(ray):
        nodes = [node for node in ray.nodes() if node["Alive"]]
        if placing.one_machine and (len(nodes) > 1 or os.environ.get("RAY_ADDRESS", "").startswith("ray://")):
            raise ConfigError(
                f"The store is a file on this machine, and the Ray cluster has {len(nodes)} nodes, which would each write one of "
                "their own. Give one that all can reach: --store postgresql://….",
                slug="ray-sqlite",
            )
        n = placing.wanted.workers or len(nodes)
        placing.say(
            f"{n:,} workers on a Ray cluster of {len(nodes):,} nodes ({placing.needs or 'nothing set aside'} each)"
        )
        return run_until_stopped(_Crew(ray, placing, ray.put(work), n).result())


class _Bell:
    """Stays with who started the run, and rings when the workers have to stop."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    async def ring(self) -> None:
        self._rung.set()

    async def heard(self) -> None:
        """Returns when it rings."""
        await self._rung.wait()


class _Worker:
    """Lives on a node, in a process of its own."""

    def where(self) -> str:
        """The node."""
        node: str = _library().get_runtime_context().get_node_id()
        return node

    def go(self, work: Callable[[], Any], version: str, bell: Any) -> Any:
        """What `work` returns, or the YoudenError that it raises; the bell stops it as SIGTERM stops any run."""
        if version != __version__:
            return ConfigError(
                f"A node has youden {__version__}, and the run is started by {version}. Install the same on all nodes.",
                slug="ray-package",
            )
        signal.signal(signal.SIGTERM, _stop)
        threading.Thread(target=_listen, args=(bell,), daemon=True).start()
        try:
            return work()
        except YoudenError as error:
            return error


def _listen(bell: Any) -> None:
    ray = _library()
    with suppress(ray.exceptions.RayError):
        ray.get(bell.heard.remote())
        os.kill(os.getpid(), signal.SIGTERM)


def _stop(_number: int, _frame: object) -> None:
    raise ShortRunError("The worker was told to stop. What was answered is kept; run the same again.", slug="stopped")


class _Crew(Generic[T]):
    """The workers of one run."""

    def __init__(self, ray: Any, placing: Placing, work: Any, n: int) -> None:
        self._ray = ray
        self._placing = placing
        self._work = work
        self._n_placed = 0
        affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        here = affinity(ray.get_runtime_context().get_node_id(), soft=False)
        self._bell = ray.remote(_Bell).options(num_cpus=0, scheduling_strategy=here).remote()
        worker = ray.remote(_Worker).options(
            num_cpus=placing.wanted.num_cpus,
            num_gpus=placing.wanted.num_gpus or None,
            resources=placing.wanted.resources,
            scheduling_strategy=here if placing.one_machine else "SPREAD",
            max_restarts=RESTARTS,
            max_task_retries=-1,
        )
        self._workers = [worker.remote() for _ in range(n)]

    async def result(self) -> T:
        """See `on_ray`."""
        tasks = [asyncio.create_task(self._one(number, worker)) for number, worker in enumerate(self._workers, 1)]
        watching = asyncio.create_task(self._watch())
        patience = self._placing.grace
        try:
            found = await self._first(tasks)
            patience = min(patience, FOR_THE_REST)
        finally:
            watching.cancel()
            await self._end(tasks, patience)
        return found

    async def _first(self, tasks: Sequence[asyncio.Task[T | YoudenError]]) -> T:
        """What the first that is not lost returns. Raises: the YoudenError that it raised, or [ray-workers]."""
        lost: list[Exception] = []
        for ending in asyncio.as_completed(tasks):
            try:
                found = await ending
            except self._ray.exceptions.RayError as error:
                lost.append(error)
                self._placing.say(f"a worker was lost ({type(error).__name__}); {len(tasks) - len(lost)} are left")
                continue
            if isinstance(found, YoudenError):
                raise found
            return found
        if any(_NO_PACKAGE in str(error) for error in lost):
            raise ConfigError(
                "The nodes of the Ray cluster have no youden. Install there what is installed here: "
                f"pip install 'youden[ray]=={__version__}', with the extra of the store.",
                slug="ray-package",
            )
        raise ShortRunError(
            f"All {len(lost)} workers were lost, the last one by {type(lost[-1]).__name__}: Ray's logs on their nodes say more. "
            "What was answered is kept; run the same again.",
            slug="ray-workers",
        )

    async def _one(self, number: int, worker: Any) -> T | YoudenError:
        where, going = worker.where.remote(), worker.go.remote(self._work, __version__, self._bell)
        node = await asyncio.wrap_future(where.future())
        self._n_placed += 1
        self._placing.say(f"worker {number} is on node {node[:8]}")
        found: T | YoudenError = await asyncio.wrap_future(going.future())
        return found

    async def _watch(self) -> None:
        for second in count(1):
            await asyncio.sleep(1)
            self._placing.look()
            if second == ROOM_AFTER and (n := len(self._workers) - self._n_placed):
                self._placing.say(f"{n} workers wait for room on the cluster; each needs {self._placing.needs}")

    async def _end(self, tasks: Sequence[asyncio.Task[Any]], patience: float) -> None:
        """Let the workers store what is under way, then let them go."""
        try:
            self._bell.ring.remote()
            await asyncio.wait(tasks, timeout=patience)
        finally:
            for worker in (*self._workers, self._bell):
                self._ray.kill(worker, no_restart=True)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _library() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise ConfigError(
            "Ray is not installed. Install it here and on all nodes: pip install 'youden[ray]'.", slug="ray-extra"
        ) from None


@contextmanager
def _connected(ray: Any) -> Iterator[None]:
    """A connection to the cluster; the one that there is already is left open."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = signal.getsignal(signal.SIGTERM)
    try:
        _knock(os.environ.get("RAY_ADDRESS", ""))
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, TimeoutError) as error:
        where = os.environ.get("RAY_ADDRESS") or "this machine"
        raise ConfigError(
            f"There is no way to the Ray cluster at {where}: {' '.join(str(error).split())[:300]} "
            "Check RAY_ADDRESS, and that Python and Ray are of the same versions there; without RAY_ADDRESS one of this machine "
            "is started.",
            slug="ray-away",
        ) from None
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Ray itself waits for minutes where nobody answers. Raises: OSError."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=KNOCK).close()
