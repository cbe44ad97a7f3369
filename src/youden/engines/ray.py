"""Run a function on workers of a Ray cluster, and wait for the first result.

The workers keep nothing of a run: leases, budget and answers are in the store. A worker or a whole node may therefore
be lost at any time. Ray restarts its workers on other nodes, and the remaining workers continue in the meantime.
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
from youden.errors import ConfigError, IncompleteRunError, YoudenError
from youden.extras import format_install
from youden.judging.scheduler.shutdown import run_until_stopped
from youden.text.sentences import format_count

T = TypeVar("T")

MAX_RESTARTS = 4
"""Maximum number of times that Ray restarts a worker that died."""

MAX_REMAINING_SECONDS = 2.0
"""Seconds that the other workers may take to end once one has a result; no call is in flight then."""

CONNECT_TIMEOUT_SECONDS = 10.0

PENDING_NOTICE_SECONDS = 15
"""Seconds after which workers that the cluster has not placed yet are reported."""

_NO_PACKAGE = "No module named 'youden"


@dataclass(frozen=True)
class RayPlacement:
    """How many workers are placed on a Ray cluster, and where.

    Attributes
    ----------
    workers : RayWorkers
        Number of workers, and the CPUs, GPUs and other resources that Ray reserves for each.
    one_machine : bool
        Whether all workers must be on this machine, because they share a file.
    grace : float
        Seconds that calls in flight may take after a stop signal.
    on_status : callable
        Called with a line of text for each change.
    on_tick : callable
        Called every second.
    """

    workers: RayWorkers = field(default_factory=RayWorkers)
    one_machine: bool = False
    grace: float = 8.0
    on_status: Callable[[str], None] = lambda _: None
    on_tick: Callable[[], None] = lambda: None

    @property
    def resources(self) -> str:
        """The resources that each worker needs, such as "num_cpus 1, num_gpus 0.5"."""
        amounts = {"num_cpus": self.workers.num_cpus, "num_gpus": self.workers.num_gpus, **self.workers.resources}
        return ", ".join(f"{name} {amount:g}" for name, amount in amounts.items() if amount)


def run_on_ray(work: Callable[[], T], placement: RayPlacement) -> T:
    """Run a function on every worker of a Ray cluster, and return the first result.

    The environment variable RAY_ADDRESS sets the cluster. If it is not set, a cluster is started on this machine.

    Parameters
    ----------
    work : callable
        Picklable function without arguments, which each worker calls.
    placement : RayPlacement
        Number and resources of the workers, whether all must be on this machine, and the grace period of calls in flight. Also
        two functions: one receives status messages, and one is called every second.

    Returns
    -------
    object
        What `work` returned on the first worker that finished.

    Raises
    ------
    ConfigError
        [ray-extra]: if Ray is not installed; [ray-unreachable]: if the cluster cannot be reached; [ray-sqlite]:
        if the workers share a file, and the cluster has several nodes or a ray:// address; [ray-package]: if a node has no
        youden, or another version.
    IncompleteRunError
        [ray-workers]: if all workers are lost.
    YoudenError
        The first error that `work` raises on a worker. It is raised after the other workers have stopped.
    """
    ray = _import_ray()
    with _connect_to_cluster(ray):
        nodes = [node for node in ray.nodes() if node["Alive"]]
        is_remote = os.environ.get("RAY_ADDRESS", "").startswith("ray://")
        if placement.one_machine and (len(nodes) > 1 or is_remote):
            raise ConfigError(
                f"The store is a file on this machine, but the Ray cluster has {len(nodes)} nodes, each of which would write a "
                "file of its own. Set a store that all nodes can reach: --store postgresql://….",
                slug="ray-sqlite",
            )

        n_workers = placement.workers.workers or len(nodes)
        placement.on_status(
            f"{format_count(n_workers, 'worker')} on a Ray cluster of {format_count(len(nodes), 'node')} "
            f"({placement.resources or 'no resources reserved'} each)"
        )
        workers: _WorkerGroup[T] = _WorkerGroup(ray, placement, ray.put(work), n_workers)
        return run_until_stopped(workers.run())


class _StopEvent:
    """Actor on the node of the coordinator that signals the workers to stop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def set(self) -> None:
        """Signal the workers to stop."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until the workers are signaled to stop."""
        await self._event.wait()


class _Worker:
    """Actor that runs the work in its own process on some node."""

    def node_id(self) -> str:
        """Return the id of the cluster's node on which this process runs."""
        node: str = _import_ray().get_runtime_context().get_node_id()
        return node

    def run(self, work: Callable[[], Any], version: str, stop_event: Any) -> Any:
        """Call the function `work` on this node, and return its result.

        If `work` raises a YoudenError, the error is returned as the result, because Ray would wrap a raised error in another
        error. Any other error is raised. If the versions of youden differ, `work` is not called, and ConfigError [ray-package] is
        returned. The handler of SIGTERM is replaced: when `stop_event` is set, a thread sends SIGTERM to this process, `work`
        ends, and IncompleteRunError [stopped] is returned.

        work : function without arguments
        version : version of youden on the machine that started the run; this node must have the same version
        stop_event : `_StopEvent`, the Ray actor that signals the workers to stop
        """
        if version != __version__:
            return ConfigError(
                f"A node has youden {__version__}, but the run is started by {version}. Install the same version on all nodes.",
                slug="ray-package",
            )
        # a thread waits for `stop_event`, and then sends SIGTERM to this process
        signal.signal(signal.SIGTERM, _raise_stopped)
        threading.Thread(target=_wait_for_stop, args=(stop_event,), daemon=True).start()
        try:
            return work()
        except YoudenError as error:
            return error


def _wait_for_stop(stop_event: Any) -> None:
    """Send SIGTERM to this process once the stop event is set; do nothing if the event is lost."""
    ray = _import_ray()
    with suppress(ray.exceptions.RayError):
        ray.get(stop_event.wait.remote())
        os.kill(os.getpid(), signal.SIGTERM)


def _raise_stopped(_number: int, _frame: object) -> None:
    """Raise IncompleteRunError [stopped]; a handler of SIGTERM."""
    raise IncompleteRunError(
        "A stop signal ended the worker. All answers are stored; run the same command again to resume.", slug="stopped"
    )


class _WorkerGroup(Generic[T]):
    """The workers of one run on a Ray cluster.

    `work` is a reference to the function that each of the `n_workers` workers calls.
    """

    def __init__(self, ray: Any, placement: RayPlacement, work: Any, n_workers: int) -> None:
        self._ray = ray
        self._placement = placement
        self._work = work
        self._n_placed = 0

        affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        this_node = affinity(ray.get_runtime_context().get_node_id(), soft=False)
        self._stop_event = ray.remote(_StopEvent).options(num_cpus=0, scheduling_strategy=this_node).remote()
        worker = ray.remote(_Worker).options(
            num_cpus=placement.workers.num_cpus,
            num_gpus=placement.workers.num_gpus or None,
            resources=placement.workers.resources,
            scheduling_strategy=this_node if placement.one_machine else "SPREAD",
            max_restarts=MAX_RESTARTS,
            max_task_retries=-1,
        )
        self._workers = [worker.remote() for _ in range(n_workers)]

    async def run(self) -> T:
        """Return the result of the first worker that ends, or raise its YoudenError. Then stop all workers.

        Stopped workers have a grace period to store the answers of calls in flight. It is shorter if there is a result, because
        no further answer is then needed.
        """
        tasks = []
        for number, worker in enumerate(self._workers, 1):
            tasks.append(asyncio.create_task(self._run_worker(number, worker)))
        monitor = asyncio.create_task(self._report_every_second())
        has_result = False
        try:
            result = await self._wait_for_first(tasks)
            has_result = True
        finally:
            monitor.cancel()
            grace_seconds = self._placement.grace
            if has_result:
                grace_seconds = min(grace_seconds, MAX_REMAINING_SECONDS)
            await self._stop_workers(tasks, grace_seconds)
        return result

    async def _wait_for_first(self, tasks: Sequence[asyncio.Task[T | YoudenError]]) -> T:
        """Return the result of the first worker that ends, or raise its YoudenError. Lost workers are skipped.

        If all workers are lost, raises ConfigError [ray-package] if a node has no youden, and IncompleteRunError [ray-workers]
        otherwise.
        """
        losses: list[Exception] = []
        for task in asyncio.as_completed(tasks):
            try:
                result = await task
            except self._ray.exceptions.RayError as error:
                losses.append(error)
                self._placement.on_status(
                    f"a worker was lost ({type(error).__name__}); {len(tasks) - len(losses)} remain"
                )
                continue
            if isinstance(result, YoudenError):
                raise result
            return result
        raise _make_lost_error(losses)

    async def _run_worker(self, number: int, worker: Any) -> T | YoudenError:
        """Run the work on a worker.

        When Ray has selected a node for the worker, the worker is counted as placed, and a status message names the node.

        number : number of the worker in messages, from 1
        worker : handle of the Ray actor, an object with the remote methods `node_id` and `run`

        Returns the result of the work, or the YoudenError that it raised.
        """
        # Ray returns references to future results, which asyncio can await as futures
        node_reference = worker.node_id.remote()
        result_reference = worker.run.remote(self._work, __version__, self._stop_event)
        node_id = await asyncio.wrap_future(node_reference.future())
        self._n_placed += 1
        self._placement.on_status(f"worker {number} is on node {node_id[:8]}")
        result: T | YoudenError = await asyncio.wrap_future(result_reference.future())
        return result

    async def _report_every_second(self) -> None:
        """Call `on_tick` every second. After `PENDING_NOTICE_SECONDS`, report how many workers still wait for resources."""
        for second in count(1):
            await asyncio.sleep(1)
            self._placement.on_tick()
            n_pending = len(self._workers) - self._n_placed
            if second == PENDING_NOTICE_SECONDS and n_pending:
                self._placement.on_status(
                    f"{format_count(n_pending, 'worker', 'waits', 'wait')} for free resources on the cluster; each "
                    f"needs {self._placement.resources}"
                )

    async def _stop_workers(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """Stop the workers, and end the processes of all actors.

        The workers get a signal, and have a limited time to stop.

        tasks : tasks that wait for the results of the workers
        seconds : time in which the workers can store the answers of calls in flight
        """
        try:
            self._stop_event.set.remote()
            await asyncio.wait(tasks, timeout=seconds)
        finally:
            for actor in (*self._workers, self._stop_event):
                self._ray.kill(actor, no_restart=True)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _make_lost_error(losses: Sequence[Exception]) -> YoudenError:
    """Return the error for a run that lost all its workers; `losses` has the error of each worker, in order of time."""
    if any(_NO_PACKAGE in str(error) for error in losses):
        return ConfigError(
            "The nodes of the Ray cluster have no youden. Install the same packages there as here: "
            f"version {__version__}, by {format_install('ray')}, with the extra of the store.",
            slug="ray-package",
        )
    return IncompleteRunError(
        f"All {len(losses)} workers were lost, the last one by {type(losses[-1]).__name__}. See Ray's logs on their nodes. "
        "All answers are stored; run the same command again to resume.",
        slug="ray-workers",
    )


def _import_ray() -> Any:
    """Import the package `ray`; raise ConfigError [ray-extra] if it is not installed."""
    try:
        return import_module("ray")
    except ImportError:
        raise ConfigError(
            f"Ray is not installed. Install it here and on all nodes: {format_install('ray')}.", slug="ray-extra"
        ) from None


@contextmanager
def _connect_to_cluster(ray: Any) -> Iterator[None]:
    """Connect to a Ray cluster on entry to the context, and disconnect on exit.

    RAY_ADDRESS is the address of the cluster; if it is not set, Ray starts one on this machine. If this process is already
    connected, its connection is used, and stays open on exit.

    ray : the package `ray`, which is imported only if it is needed

    Raises: ConfigError [ray-unreachable] if the cluster cannot be reached.
    """
    if ray.is_initialized():
        yield
        return

    # Ray replaces the handler of SIGTERM. Restore the old one, so that the signal still stops the run.
    old_handler = signal.getsignal(signal.SIGTERM)
    _start_connection(ray)
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, old_handler)
        yield
    finally:
        ray.shutdown()


def _start_connection(ray: Any) -> None:
    """Connect this process to the Ray cluster at RAY_ADDRESS.

    If this variable is not set, a cluster is started on this machine. Ray's reports of its usage are turned off, unless
    RAY_USAGE_STATS_ENABLED is set. Only errors are logged.

    ray : the package `ray`

    Raises ConfigError [ray-unreachable] if the cluster cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        _check_reachable(os.environ.get("RAY_ADDRESS", ""))
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, TimeoutError) as error:
        raise _make_unreachable_error(error) from None


def _make_unreachable_error(error: Exception) -> ConfigError:
    """Return the error [ray-unreachable], which reports why the connection to the cluster failed."""
    address = os.environ.get("RAY_ADDRESS") or "this machine"
    reason = " ".join(str(error).split())[:300]
    return ConfigError(
        f"The Ray cluster at {address} cannot be reached: {reason} "
        "Check RAY_ADDRESS, and that the cluster has the same versions of Python and Ray; unset RAY_ADDRESS to start a "
        "cluster on this machine.",
        slug="ray-unreachable",
    )


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing accepts a connection at `address`; Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_SECONDS).close()
