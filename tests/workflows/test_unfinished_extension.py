"""Test that an extension stopped anywhere is completed by the same command without paying for a call twice."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from commands import Youden, wire_judge, write_config
from small_pools import make_pool, part_of
from stops import Size, bench
from unruly_server import UnrulyServer
from wire_server import Reply, WireServer, same_item, well_behaved
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool

K, J, CALLS = 5, 8, 110
WHOLE = make_pool(K + 2, J + 2)
EXTENSIONS = {
    "calls": ["calls", "runs/r", "30"],
    "focus": ["calls", "runs/r", "20", "--focus", "a1", "--focus", "a2"],
    "agents": ["agents", "runs/r", "new", "--calls", "60"],
    "items": ["items", "runs/r", "items"],
    "width": ["agents", "runs/r", "new", "--half-width", "0.4"],
    "search": ["best", "runs/r", "--calls", "120"],
}


Stop = Callable[..., int]
"""Stops an extension at some of its writes and returns how often that was."""


@pytest.fixture
def unfinished_folder(tmp_path: Path, reset_server: WireServer, youden: Youden, begun: Path) -> Path:
    """Create the folder of a judged run `runs/r`, with pools of new agents and items next to it."""
    if begun.exists():
        shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
        return tmp_path
    write_pool(part_of(WHOLE, slice(K), slice(J)), tmp_path / "old")
    write_pool(part_of(WHOLE, slice(K, K + 2), slice(J)), tmp_path / "new")
    write_pool(part_of(WHOLE, slice(K + 2), slice(J, J + 2)), tmp_path / "items")
    write_config(
        tmp_path / "r.yaml", pool="old", calls=CALLS, independent="pooled:20", judge=wire_judge(reset_server.url)
    )
    assert youden("run", "r.yaml").code == 0
    shutil.copytree(tmp_path, begun)
    reset_server.n_requests = 0
    return tmp_path


def write_number(n: int, *, fails: BaseException) -> Callable[..., None]:
    """Return an `os.replace` whose nth and later calls raise; every file of a run is written by it."""
    done, replace = [0], os.replace

    def replacing(*paths: os.PathLike[str]) -> None:
        done[0] += 1
        if done[0] >= n:
            raise fails
        replace(*paths)

    return replacing


@pytest.fixture
def stopped_at_writes(youden: Youden, unfinished_folder: Path, reset_server: WireServer, begun: Path) -> Stop:
    return partial(stop_at_writes, youden, unfinished_folder, reset_server, begun)


def put_back(here: Path, begun: Path) -> None:
    """Restore the run and the answers of `begun`."""
    for name in ("runs", ".youden"):
        shutil.rmtree(here / name)
        shutil.copytree(begun / name, here / name)


def stop_at_writes(youden: Youden, here: Path, server: WireServer, begun: Path, kind: str, *, every: int) -> int:
    """Stop the extension at a series of its writes, complete it, and return how often it was stopped."""
    command = ("extend", *EXTENSIONS[kind])
    assert youden(*command).code == 0
    whole, ranking = server.n_requests, (here / "runs/r/ranking.csv").read_bytes()
    steps = yaml.safe_load((here / "runs/r/config.yaml").read_text())["extensions"]
    n, n_stopped, full = 1 - every, -1, True
    while full:
        n, n_stopped = n + every, n_stopped + 1
        put_back(here, begun)
        server.n_requests = 0
        with pytest.MonkeyPatch.context() as patch:
            fault = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if n_stopped % 2 else KeyboardInterrupt()
            patch.setattr(os, "replace", write_number(n, fails=fault))
            full = youden(*command).code != 0
        asked = server.n_requests
        ended = youden(*command)
        if full:
            assert ended.code == 0, (n, ended.err)
            assert server.n_requests == whole, f"stopped at write {n}, {asked} requests before"
            assert (here / "runs/r/ranking.csv").read_bytes() == ranking, n
            config = yaml.safe_load((here / "runs/r/config.yaml").read_text())
            assert config["extensions"] == steps, n
            assert "unfinished" not in config, n
    return n_stopped


@pytest.mark.slow
def test_an_extension_by_calls_stopped_at_any_write_pays_once(stopped_at_writes: Stop) -> None:
    assert stopped_at_writes("calls", every=2) > 6


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "every"), [("focus", 7), ("agents", 3), ("items", 5), ("width", 3), ("search", 17)])
def test_every_extension_stopped_at_any_write_pays_once(stopped_at_writes: Stop, kind: str, every: int) -> None:
    assert stopped_at_writes(kind, every=every) > 2


@pytest.mark.slow
def test_the_same_command_after_the_report_is_a_further_extension(
    youden: Youden, unfinished_folder: Path, reset_server: WireServer
) -> None:
    for n in (1, 2):
        assert youden("extend", "calls", "runs/r", "30").code == 0
        assert reset_server.n_requests == 30 * n
    assert len(yaml.safe_load((unfinished_folder / "runs/r/config.yaml").read_text())["extensions"]) == 2


def stop_after(server: WireServer, n: int) -> None:
    server.behave = lambda number, body: Reply(same_item(body)) if number < n else Reply("", status=401)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["asking", "fit"])
def test_another_extension_is_refused_until_the_first_one_is_completed(
    youden: Youden, unfinished_folder: Path, reset_server: WireServer, when: str
) -> None:
    first = ("extend", "agents", "runs/r", "new", "--calls", "60", "--max-cost", "2")
    with pytest.MonkeyPatch.context() as patch:
        if when == "asking":
            stop_after(reset_server, 25)
        else:
            patch.setattr("youden.workflows.extend.fit_run", write_number(1, fails=KeyboardInterrupt()))
        assert youden(*first).code != 0
    reset_server.behave, asked = well_behaved, reset_server.n_requests
    for kind, *words in (("calls", "30"), ("agents", "new"), ("items", "items"), ("best", "--calls", "60")):
        ended = youden("extend", kind, "runs/r", *words)
        assert ended.refuses("extend-unfinished"), ended.err
        assert "`youden extend agents runs/r new --calls 60 --max-cost 2.0`" in ended.err
        assert ("remove `unfinished`" in ended.err) == (when == "asking")
    if when == "asking":
        ended = youden("gate", "runs/r", "--agent", "a5", "--baseline", "a0")
        assert ended.refuses("gate-agent"), ended.err
        assert "which was stopped: `youden extend agents runs/r new --calls 60 --max-cost 2.0`" in ended.err
    assert reset_server.n_requests == asked
    command = ended.err.split("`")[1].split()
    shutil.copytree(unfinished_folder / "new", unfinished_folder / "moved")
    ended = youden(*["moved" if word == "new" else word for word in command[1:-1]], "0.5").well()
    assert "resume: finishing the stopped extension, step 1 of runs/r" in ended.err
    assert reset_server.n_requests == (asked if when == "fit" else 60 + asked - 25)
    assert youden("extend", "calls", "runs/r", "30").code == 0


@pytest.mark.slow
def test_a_pool_that_changed_meanwhile_does_not_finish_the_extension(
    youden: Youden, unfinished_folder: Path, reset_server: WireServer
) -> None:
    stop_after(reset_server, 25)
    assert youden("extend", "agents", "runs/r", "new", "--calls", "60").code == 2
    write_pool(part_of(WHOLE, slice(K, K + 1), slice(J)), unfinished_folder / "new")
    ended = youden("extend", "agents", "runs/r", "new", "--calls", "60")
    assert (ended.refuses("extend-unfinished"), "other contents" in ended.err) == (True, True), ended.err
    assert "remove `unfinished` from runs/r/config.yaml" in ended.err
    config = unfinished_folder / "runs/r/config.yaml"
    config.write_text(
        yaml.safe_dump({k: v for k, v in yaml.safe_load(config.read_text()).items() if k != "unfinished"})
    )
    reset_server.behave = well_behaved
    assert youden("extend", "agents", "runs/r", "new", "--calls", "60").code == 0


@pytest.mark.slow
def test_an_extension_without_new_answers_is_discarded(
    youden: Youden, unfinished_folder: Path, reset_server: WireServer
) -> None:
    before = yaml.safe_load((unfinished_folder / "runs/r/config.yaml").read_text())
    stop_after(reset_server, 0)
    assert youden("extend", "agents", "runs/r", "new", "--calls", "60").code == 2
    assert yaml.safe_load((unfinished_folder / "runs/r/config.yaml").read_text()) == before
    reset_server.behave = well_behaved
    assert youden("extend", "calls", "runs/r", "30").code == 0


@pytest.mark.slow
def test_the_first_config_of_a_run_keeps_an_unfinished_extension(
    youden: Youden, unfinished_folder: Path, reset_server: WireServer
) -> None:
    stop_after(reset_server, 25)
    command = ("extend", "agents", "runs/r", "new", "--calls", "60")
    assert youden(*command).code == 2
    reset_server.behave = well_behaved
    assert (
        f"next: finish the extension that was stopped: `youden {' '.join(command)}`"
        in youden("run", "r.yaml").well().err
    )
    assert youden("extend", "calls", "runs/r", "30").refuses("extend-unfinished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "write_verdicts", write_number(1, fails=KeyboardInterrupt()))
        assert youden(*command).code == 130
    ended = youden("run", "r.yaml")
    assert (ended.refuses("run-extended"), "`youden extend agents runs/r new --calls 60`" in ended.err) == (True, True)
    asked = reset_server.n_requests
    assert "finish the extension" not in youden(*command).well().err.splitlines()[-1]
    assert reset_server.n_requests == asked


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("words", [["calls", "runs/r", "300"], ["best", "runs/r", "--top", "2", "--calls", "200"]])
async def test_a_process_stopped_after_its_last_answer_paid_once(tmp_path: Path, name: str, words: list[str]) -> None:
    how = signal.Signals[name]
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server, size=Size(calls=300, slowest=0.02))
        assert (await run.finish()).code == 0
        for folder in ("runs", ".youden"):
            shutil.copytree(tmp_path / folder, tmp_path / "begun" / folder)
        before, command = server.n_requests, ("extend", *words, "--max-cost", "100000")
        assert (await run.end(await run.start(*command), within=300)).code == 0
        asked = server.n_requests - before
        for seconds in (0.0, 0.4, 1.5):
            put_back(tmp_path, tmp_path / "begun")
            before = server.n_requests
            process = await run.start(*command)
            await run.until(before + asked, process)
            await asyncio.sleep(seconds)
            if process.returncode is None:
                process.send_signal(how)
            ended = await run.end(process, within=300)
            is_unfinished = "unfinished" in yaml.safe_load((tmp_path / "runs/r/config.yaml").read_text())
            again = await run.end(await run.start(*command), within=300)
            assert again.code == 0, again.output
            if is_unfinished:
                lost = asked if how is signal.SIGKILL and not seconds else 0  # answers that were not on disk yet
                assert asked <= server.n_requests - before <= asked + lost, (seconds, ended.output, again.output)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["run", "r.yaml", "--out", "runs/s", "--seed", "7"],
        ["run", "w.yaml"],
        ["rejudge", "runs/r", "--judge", "b.yaml", "--calls", "60"],
        ["rejudge", "runs/r", "--judge", "r-judge.yaml", "--calls", "60"],
    ],
    ids=["run", "width", "rejudge", "retest"],
)
def test_other_commands_stopped_at_any_write_pay_once(
    youden: Youden, unfinished_folder: Path, reset_server: WireServer, begun: Path, words: list[str]
) -> None:
    config = yaml.safe_load((unfinished_folder / "r.yaml").read_text())
    write_config(unfinished_folder / "w.yaml", **config | {"half_width": 0.2, "calls": 160, "seed": 5})
    write_config(unfinished_folder / "b.yaml", **wire_judge(reset_server.url, model="b", name="b"))
    write_config(unfinished_folder / "r-judge.yaml", **wire_judge(reset_server.url))
    reset_server.n_requests = 0
    assert youden(*words).code == 0
    whole, n, n_stopped = reset_server.n_requests, 1, 0
    assert whole > 0
    while True:
        put_back(unfinished_folder, begun)
        reset_server.n_requests = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", write_number(n, fails=KeyboardInterrupt()))
            if youden(*words).code == 0:
                break
        n, n_stopped = n + 3, n_stopped + 1
        assert youden(*words).code == 0
        assert reset_server.n_requests == whole
    assert n_stopped > 2
