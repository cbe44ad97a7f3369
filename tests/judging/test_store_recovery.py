"""Test a full disk and the recovery of a damaged file."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from judged import NOWHERE, ask, dense_plan, judge_config
from small_pools import make_pool
from wire_server import WireServer
from youden.errors import YoudenError
from youden.judging.scheduler.loop import max_unsaved_calls
from youden.judging.store.answers import open_store
from youden.types import Completion

HERE = Path(__file__).parents[1]
SHAPE = (5, 20)
POOL = make_pool(*SHAPE)
PLAN = dense_plan(POOL)
CONCURRENCY = 16


async def start(url: str, store: Path, *, files_up_to: int) -> asyncio.subprocess.Process:
    """Judge the plan in a separate process with limited file sizes."""
    words = [str(HERE / "judging_script.py"), url, str(store), *map(str, (*SHAPE, CONCURRENCY, files_up_to))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "src")])}
    return await asyncio.create_subprocess_exec(sys.executable, *words, env=environment, stdout=asyncio.subprocess.PIPE)


async def output(process: asyncio.subprocess.Process) -> str:
    out, _ = await asyncio.wait_for(process.communicate(), 300)
    return out.decode().strip()


@pytest.mark.slow
async def test_a_full_disk_stops_the_run_and_keeps_written_answers(tmp_path: Path) -> None:
    async with WireServer() as server:
        process = await start(server.url, tmp_path / "v.db", files_up_to=500_000)
        assert await output(process) in ("store-full", "store-failed")
        assert process.returncode == 2
        assert CONCURRENCY < server.n_requests < len(PLAN)
        with open_store(tmp_path / "v.db") as store:
            n_kept = len(store)
        assert n_kept > 64
        assert server.n_requests - n_kept <= max_unsaved_calls(judge_config(server.url, concurrency=CONCURRENCY))
        before = server.n_requests
        assert (await ask(PLAN, POOL, server.url, tmp_path / "v.db")).answered.all()
        assert server.n_requests - before == len(PLAN) - n_kept


def answer(n: int) -> Completion:
    return Completion(f"YES {n} ünïcode", "stop", "m", n, 1, 0.5, "fp", None, (("YES", -0.1),))


def filled(path: Path, n: int = 500) -> dict[str, Completion]:
    answers = {f"{k:064x}": answer(k) for k in range(n)}
    with open_store(path) as store:
        store.remember_judge(judge_config(NOWHERE).public())
        for key, entry in answers.items():
            store.add(key, entry)
    return answers


def kept_in(path: Path, keys: list[str]) -> dict[str, Completion]:
    with open_store(path) as store:
        return store.answers(keys)


def documented_recovery() -> str:
    """Return the commands of the reliability page, with `.dump` if this `sqlite3` was built without `.recover`."""
    page = (HERE.parent / "docs" / "reference" / "reliability.md").read_text(encoding="utf-8")
    recover, dump = re.findall(r"```console\n(.*?)```", page[page.index("## A damaged store") :], re.DOTALL)[:2]
    has_recover = not subprocess.run(["sqlite3", ":memory:", "SELECT 1 FROM sqlite_dbpage"], check=False).returncode
    commands: str = recover if has_recover else re.sub(r"^sqlite3 .*\.recover.*\n", dump, recover, flags=re.MULTILINE)
    return commands


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the documented commands need the program sqlite3")
@pytest.mark.posix
# with some seeds, a recovered row has no answer
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_the_documented_commands_recover_a_damaged_store(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    path = tmp_path / ".youden" / "answers.db"
    answers = filled(path)
    content = bytearray(path.read_bytes())
    for at in range(8192, len(content), 40_000):
        content[at : at + 4096] = dice.randbytes(4096)
    path.write_bytes(content)
    with pytest.raises(YoudenError, match=r"\.recover.*Reliability.*\[store-corrupt\]"):
        kept_in(path, list(answers))

    program = f"{sys.executable} -m youden"
    commands = documented_recovery().replace("youden store", f"{program} store")
    subprocess.run(["sh", "-e", "-c", commands], cwd=tmp_path, env={**os.environ, "LC_ALL": "C.UTF-8"}, check=True)

    result = kept_in(path, list(answers))
    assert len(result) > 100
    assert all(answers[key] == entry for key, entry in result.items())
