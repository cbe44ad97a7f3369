"""Test workers on a local Ray cluster with two nodes, of which one is lost, and early refusals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import Youden, write_config
from postgres import Cluster
from small_pools import make_pool
from wire_server import WireServer, well_behaved
from youden.data.folder.run_config import RayWorkers
from youden.data.pools.pool_reader import write_pool
from youden.engines.ray import RayPlacement, run_on_ray
from youden.errors import ConfigError, IncompleteRunError, JudgeError
from youden.extras import format_install
from youden.judging.store.answers import MAX_PENDING_WRITES

on_a_cluster = pytest.mark.slow
NODE = {"num_cpus": 1}


@pytest.fixture(scope="module")
def library() -> Any:
    """Import Ray or skip with a reason; CI requires it."""
    return pytest.importorskip("ray", reason="Ray is not installed: pip install 'youden[ray]'")


@pytest.fixture(scope="module")
def two_nodes(library: Any) -> Iterator[Any]:
    """Start a cluster with room for one worker per node, in the environment of this process."""
    from ray.cluster_utils import Cluster as RayCluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        started: Any = RayCluster(initialize_head=True, head_node_args=NODE)
        try:
            started.add_node(num_cpus=NODE["num_cpus"])
            started.wait_for_nodes()
            yield started
        finally:
            started.shutdown()


@pytest.fixture
def cluster(two_nodes: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set RAY_ADDRESS to the cluster of `two_nodes`, by the address of this machine."""
    monkeypatch.setattr("youden.engines.ray._check_reachable", lambda _: None)
    monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
    return two_nodes


def node_here(folder: Path, ends: Path) -> str:
    """Write the id of the node to `folder` at once, and return it once `ends` exists."""
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    (folder / node).touch()
    until(ends.exists)
    return node


def refuse() -> None:
    raise JudgeError("The key is wrong. Set another.", slug="judge-key")


def die() -> None:
    os._exit(1)


def work_for_ever(folder: Path) -> None:
    """Work like a run: SIGTERM ends it after answers in flight are stored."""
    (folder / f"began {os.getpid()}").touch()
    try:
        until(lambda: False)
    finally:
        time.sleep(0.5)
        (folder / f"stored {os.getpid()}").touch()


def until(there: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


@on_a_cluster
def test_an_error_of_a_worker_ends_the_run_like_a_local_one(cluster: Any) -> None:
    messages: list[str] = []
    with pytest.raises(JudgeError) as caught:
        run_on_ray(refuse, RayPlacement(RayWorkers(workers=2), on_status=messages.append))
    assert (caught.value.slug, caught.value.message) == ("judge-key", "The key is wrong. Set another.")
    assert messages[0] == "2 workers on a Ray cluster of 2 nodes (num_cpus 1 each)"


@on_a_cluster
def test_a_file_store_is_refused_for_several_nodes(cluster: Any) -> None:
    with pytest.raises(ConfigError, match=r"has 2 nodes.*--store postgresql://.*\[ray-sqlite\]"):
        run_on_ray(die, RayPlacement(one_machine=True))


@on_a_cluster
def test_nodes_of_different_versions_are_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youden.engines.ray.__version__", "99.0")
    with pytest.raises(ConfigError, match=r"started by 99\.0\. Install the same.*\[ray-package\]"):
        run_on_ray(die, RayPlacement())


@on_a_cluster
def test_the_loss_of_all_workers_is_reported(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youden.engines.ray.MAX_RESTARTS", 0)
    with pytest.raises(IncompleteRunError, match="All 2 workers were lost") as caught:
        run_on_ray(die, RayPlacement())
    assert (caught.value.slug, caught.value.exit_code) == ("ray-workers", 1)


@on_a_cluster
def test_a_stopped_run_lets_its_workers_store_calls_in_flight(cluster: Any, tmp_path: Path) -> None:
    code = (
        "import sys; from functools import partial; from pathlib import Path; from test_ray import *; "
        "run_on_ray(partial(work_for_ever, Path(sys.argv[1])), RayPlacement())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        until(lambda: len(list(tmp_path.glob("began *"))) == 2)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == -signal.SIGTERM
    finally:
        running.kill()
    began, stored = ({path.name.split()[1] for path in tmp_path.glob(f"{what} *")} for what in ("began", "stored"))
    assert stored == began


@on_a_cluster
def test_the_remaining_workers_continue_after_the_loss_of_a_node(cluster: Any, tmp_path: Path) -> None:
    third = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    marker, end, output = tmp_path / "seen", tmp_path / "end", list[str]()
    marker.mkdir()

    def lose_a_node() -> None:
        until(lambda: len(list(marker.iterdir())) == 3)
        cluster.remove_node(third, allow_graceful=False)
        end.touch()

    with ThreadPoolExecutor(1) as beside:
        losing = beside.submit(lose_a_node)
        node = run_on_ray(partial(node_here, marker, end), RayPlacement(on_status=output.append))
        losing.result()
    assert node in {path.name for path in marker.iterdir()} - {third.node_id}
    assert sum("is on node" in line for line in output) == 3


def test_a_missing_cluster_and_a_missing_library_are_clear_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=rf"{re.escape(format_install('ray'))}.*\[ray-extra\]"):
        run_on_ray(die, RayPlacement())


@on_a_cluster
def test_an_unresponsive_cluster_is_a_clear_error(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"Ray cluster at 127\.0\.0\.1:9 cannot be reached.*\[ray-unreachable\]"):
        run_on_ray(die, RayPlacement())


@pytest.mark.parametrize("also", [["--mode", "batch"], ["--log", "x.jsonl"]])
def test_settings_incompatible_with_workers_are_refused(youden: Youden, also: list[str]) -> None:
    assert "--engine ray cannot be combined with" in youden("judge", "r.yaml", "--engine", "ray", *also).err
    assert "--workers requires --engine ray" in youden("judge", "r.yaml", "--workers", "2").err


def test_options_without_effect_are_refused(youden: Youden) -> None:
    assert "--poll requires --mode batch" in youden("judge", "r.yaml", "--poll", "5").err


def test_a_judge_without_calls_needs_no_cluster(youden: Youden, tmp_path: Path) -> None:
    write_pool(make_pool(5, 8), tmp_path / "pool")
    write_config(
        tmp_path / "r.yaml", pool="pool", calls=110, independent="pooled:20", ray={"num_gpus": 1, "workers": 3}
    )
    assert "[judge-offline]" in youden("judge", "r.yaml", "--engine", "ray").err
    assert "num_gpus: 1" in (tmp_path / "runs/r/config.yaml").read_text(encoding="utf-8")
    write_config(tmp_path / "r.yaml", pool="pool", calls=110, independent="pooled:20", ray={"num_gpu": 1})
    assert "'ray.num_gpu'" in youden("judge", "r.yaml", "--engine", "ray").err


def run_of(folder: Path, server: WireServer, **keys: Any) -> list[str]:
    """Configure a run of 400 calls of 80 ms with 4 in flight, and return the command that judges it on Ray."""
    server.behave = lambda n, body: replace(well_behaved(n, body), delay=0.08)
    write_pool(make_pool(6, 20), folder / "pool")
    judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "price": 1, "concurrency": 4}
    judge |= {"max_tokens": 1}
    write_config(folder / "r.yaml", pool="pool", calls=400, independent="pooled:80", max_cost=1, judge=judge, **keys)
    return [sys.executable, "-m", "youden", "judge", "r.yaml", "--engine", "ray", "--json"]


def same_tables(youden: Youden, folder: Path) -> bool:
    """Return whether the tables of the run equal those of a single process with its own store."""
    lines = (folder / "r.yaml").read_text(encoding="utf-8").splitlines()
    alone = "\n".join(line for line in lines if not line.startswith(("store:", "ray:")))
    (folder / "alone.yaml").write_text(alone, encoding="utf-8")
    assert youden("judge", "alone.yaml", "--store", "alone.db").code == 0
    for run in ("runs/r", "runs/alone"):
        assert youden("fit", run).code == 0
    tables = ("ranking.csv", "items.csv", "scores.csv")
    return all(
        (folder / "runs/r" / table).read_bytes() == (folder / "runs/alone" / table).read_bytes() for table in tables
    )


@on_a_cluster
def test_local_ray_workers_share_a_file_and_write_the_tables_of_one_process(
    library: Any, youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    command = run_of(tmp_path, server, ray={"workers": 2, "num_cpus": 0.5})
    environment = {**os.environ, "RAY_ADDRESS": "local", "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["judge"] == "m"
    assert "2 workers on a Ray cluster of 1 node (num_cpus 0.5 each)" in ended.stderr
    n_asked = server.n_requests
    assert same_tables(youden, tmp_path)
    assert server.n_requests == 2 * n_asked


@on_a_cluster
def test_a_run_on_two_nodes_completes_with_the_same_tables_if_one_node_is_killed(
    cluster: Any, postgres: Cluster, youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    """Each node has room for one worker; the rows of the workers count their answered calls."""
    store = postgres.new()
    command = run_of(tmp_path, server, store=store)
    lost = list(cluster.worker_nodes)[-1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
    )
    try:
        with postgres.admin(store.rpartition("/")[2]) as connection:
            until(lambda: running.poll() is not None or len(workers_that_answered(connection)) == 2, seconds=240)
            who_asks = connection.execute("SELECT leads, asks FROM youden.workers WHERE expires > 0").fetchall()
            cluster.remove_node(lost, allow_graceful=False)
            n_then = server.n_requests
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0, err
    n_asked = server.n_requests
    assert sorted(who_asks) == [(False, True), (False, True), (True, False)]
    assert n_then < 380
    assert "worker 1 is on node" in err
    assert "worker 2 is on node" in err
    assert Cluster.PASSWORD not in out + err + (tmp_path / "runs/r/config.yaml").read_text(encoding="utf-8")
    assert same_tables(youden, tmp_path)
    n_twice = n_asked - (server.n_requests - n_asked)
    assert 0 <= n_twice <= 4 + MAX_PENDING_WRITES


def workers_that_answered(connection: Any) -> list[tuple[str, int]]:
    """Return the workers with at least five answered calls, once the tables exist."""
    from psycopg.errors import Error

    try:
        return list(
            connection.execute("SELECT name, answered FROM youden.workers WHERE NOT leads AND answered >= 5").fetchall()
        )
    except Error:
        return []
