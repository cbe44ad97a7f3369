"""Test that a killed search or stress test is completed by the same command without paying for a stored answer."""

from __future__ import annotations

import json
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from stops import Bench, Size, bench
from unruly_server import Body, Sent, UnrulyServer, reply_to, sent

CONCURRENCY = 8
MAX_LOST = CONCURRENCY + 64
"""Answers that a killed process may lose: those in flight, and those not yet written to the store."""
COMMANDS = {
    "search": ("extend", "best", "runs/r", "--max-regret", "0.005", "--calls", "500"),
    "stress": ("stress", "runs/r", "--attack", "clones", "--attack", "ring", "--attack", "template"),
}


def answer(_n: int, key: str, body: Body) -> Sent:
    """Answer YES if the two texts name the same item or one names none, after a delay determined by the request."""
    items = re.findall(r"says something of item (\d+)", str(body))
    reply = reply_to(body, said="YES" if len(set(items)) < 2 else "NO")
    return replace(sent(reply), delay=int(key[:2], 16) / 5000)


def put_back(folder: Path) -> None:
    """Restore the run and its store from before the command."""
    for name in ("runs", ".youden"):
        shutil.rmtree(folder / name)
        shutil.copytree(folder / "begun" / name, folder / name)


async def result(run: Bench, *command: str) -> object:
    """Run a command to its end; return its JSON output without the spent amounts."""
    ended = await run.end(await run.start(*command, "--json"), within=300)
    assert ended.code == 0, ended.output
    (printed,) = [json.loads(line) for line in ended.output.splitlines() if line.startswith("{")]
    return {name: value for name, value in printed.items() if name not in ("usd", "cost")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMMANDS)
async def test_a_killed_command_is_completed_by_the_same_command_without_paying_twice(
    kind: str, tmp_path: Path
) -> None:
    command = (*COMMANDS[kind], "--max-cost", "100000")
    async with UnrulyServer() as server:
        run = await bench(
            tmp_path, server, size=Size(calls=300, slowest=0.05), concurrency=CONCURRENCY, start_concurrency=CONCURRENCY
        )
        if kind == "stress":
            server.script = answer
        assert (await run.finish()).code == 0
        n_begun = run.kept
        for name in ("runs", ".youden"):
            shutil.copytree(tmp_path / name, tmp_path / "begun" / name)
        before = server.n_requests
        undisturbed = await result(run, *command)
        n_whole = server.n_requests - before
        assert n_whole > 200

        for share in (0.05, 0.5, 1.0):
            put_back(tmp_path)
            before = server.n_requests
            process = await run.start(*command)
            assert await run.until(before + round(share * n_whole), process)
            process.send_signal(signal.SIGKILL)
            await run.end(process, within=60)
            n_sent, n_stored = server.n_requests - before, run.kept - 2 * n_begun
            assert n_sent - n_stored <= MAX_LOST

            before = server.n_requests
            assert await result(run, *command) == undisturbed
            assert server.n_requests - before == n_whole - n_stored
