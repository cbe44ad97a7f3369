"""What is left on a full disk, and of a damaged file."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from commands import Youden
from judged import NOWHERE, ask, dense_plan, judge_config
from pools import make_pool
from wire_server import WireServer
from youden.errors import ConfigError, YoudenError
from youden.judging.scheduler.loop import at_risk
from youden.judging.store.answers import Store, open_store
from youden.judging.store.copying import salvage
from youden.types import Completion

HERE = Path(__file__).parents[1]
SHAPE = (5, 20)
POOL = make_pool(*SHAPE)
PLAN = dense_plan(POOL)
CONCURRENCY = 16


async def start(url: str, store: Path, *, files_up_to: int) -> asyncio.subprocess.Process:
    """The plan judged in a process of its own, none of whose files may have more bytes."""
    words = [str(HERE / "judging_script.py"), url, str(store), *map(str, (*SHAPE, CONCURRENCY, files_up_to))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "src")])}
    return await asyncio.create_subprocess_exec(sys.executable, *words, env=environment, stdout=asyncio.subprocess.PIPE)


async def output(process: asyncio.subprocess.Process) -> str:
    out, _ = await asyncio.wait_for(process.communicate(), 300)
    return out.decode().strip()


@pytest.mark.slow
async def test_a_disk_that_takes_no_more_stops_the_run_and_what_was_written_stays(tmp_path: Path) -> None:
    async with WireServer() as server:
        process = await start(server.url, tmp_path / "v.db", files_up_to=500_000)
        assert await output(process) in ("store-full", "store-failed")
        assert process.returncode == 2
        assert CONCURRENCY < server.n_requests < len(PLAN)
        with open_store(tmp_path / "v.db") as store:
            n_kept = len(store)
        assert n_kept > 64
        assert server.n_requests - n_kept <= at_risk(judge_config(server.url, concurrency=CONCURRENCY))
        before = server.n_requests
        assert (await ask(PLAN, POOL, server.url, tmp_path / "v.db")).answered.all()
        assert server.n_requests - before == len(PLAN) - n_kept


def answer(n: int) -> Completion:
    return Completion(f"YES {n} ünïcode", "stop", "m", n, 1, 0.5, "fp", None, (("YES", -0.1),))


def filled(path: Path, n: int = 500) -> dict[str, Completion]:
    answers = {f"{k:064x}": answer(k) for k in range(n)}
    with open_store(path) as store:
        store.remember_judge(judge_config(NOWHERE).public())
        for key, one in answers.items():
            store.add(key, one)
    return answers


def kept_in(path: Path, keys: list[str]) -> dict[str, Completion]:
    with open_store(path) as store:
        return store.answers(keys)


@pytest.mark.parametrize(("damage", "n_least"), [("whole", 500), ("no_head", 490), ("torn", 150), ("holes", 300)])
def test_salvage_saves_what_stands_whole(tmp_path: Path, damage: str, n_least: int) -> None:
    path, out = tmp_path / "v.db", tmp_path / "saved.db"
    answers = filled(path)
    content = bytearray(path.read_bytes())
    match damage:
        case "no_head":
            content[:4096] = os.urandom(4096)
        case "torn":
            del content[len(content) // 2 :]
        case "holes":
            for at in range(8192, len(content), 40_000):
                content[at : at + 4096] = os.urandom(4096)
    path.write_bytes(content)
    saved = salvage(path, out)
    found = kept_in(out, list(answers))
    assert all(answers[key] == one for key, one in found.items())
    assert saved.n_answers == len(found)
    assert len(found) >= n_least
    if damage == "whole":
        with open_store(out) as store:
            assert store.judges() == [judge_config(NOWHERE).public()]


def test_salvage_reads_the_log_of_a_process_that_died(tmp_path: Path) -> None:
    store: Store = open_store(tmp_path / "v.db")
    store.add("a" * 64, answer(1))
    store.flush()
    salvage(tmp_path / "v.db", tmp_path / "saved.db")
    assert kept_in(tmp_path / "saved.db", ["a" * 64]) == {"a" * 64: answer(1)}
    store.close()


def test_salvage_says_when_there_is_nothing_to_save_or_something_in_the_way(tmp_path: Path) -> None:
    filled(tmp_path / "v.db")
    (tmp_path / "empty.db").write_bytes(b"")
    for damaged, out in (("none.db", "x.db"), ("empty.db", "x.db"), ("v.db", "empty.db")):
        with pytest.raises(ConfigError, match="salvage-nothing"):
            salvage(tmp_path / damaged, tmp_path / out)


def test_the_way_on_that_a_damaged_store_names_works(tmp_path: Path, youden: Youden) -> None:
    path = tmp_path / "v.db"
    answers = filled(path)
    content = bytearray(path.read_bytes())
    content[20_000:30_000] = os.urandom(10_000)
    content[:30] = os.urandom(30)
    path.write_bytes(content)
    with pytest.raises(YoudenError) as caught:
        open_store(path)
    assert f"youden salvage {path} --out saved.db" in caught.value.message
    ended = youden("salvage", str(path), "--out", "saved.db")
    assert (ended.code, "answers saved" in ended.err) == (0, True)
    path.unlink()
    (tmp_path / "saved.db").rename(path)
    assert len(kept_in(path, list(answers))) > 300
