"""Test that a power cut loses only answers in flight, and that the same command resumes.

A run writes to ext4 on a loop device. While it is stopped (SIGSTOP), the raw image is copied: the copy contains what
reached the device, and nothing that the kernel only kept in memory. The copy is then checked, mounted and resumed.
The kernel itself flushes after 30 s at the earliest (`vm.dirty_expire_centisecs`, `commit=600`), and each case takes
less.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from skip_reasons import NO_LOOP
from stops import AT_RISK, Bench, Size, bench
from unruly_server import UnrulyServer

MEGABYTES = 64
SIZE = Size(calls=600, slowest=0.5)


def command(*words: str | Path) -> None:
    ended = subprocess.run(list(map(str, words)), check=False, capture_output=True, text=True)
    assert ended.returncode == 0, f"{' '.join(map(str, words))}: {ended.stderr}{ended.stdout}"


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir()
    command("mount", "-o", "loop,commit=600", image, at)
    try:
        yield at
    finally:
        command("umount", "--lazy", at)


@contextmanager
def ext4(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Create the image of a new file system, and mount it."""
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(MEGABYTES << 20)
    command("mkfs.ext4", "-q", image)
    with mounted(image, folder / "disk") as disk:
        yield image, disk


@contextmanager
def after_power_cut(image: Path, *, name: str) -> Iterator[Path]:
    """Mount a copy of the current content of the device."""
    copy = image.with_name(f"{name}.img")
    shutil.copyfile(image, copy)
    checked = subprocess.run(["fsck.ext4", "-f", "-y", copy], check=False, capture_output=True, text=True)
    assert checked.returncode in (0, 1), checked.stdout
    with mounted(copy, image.with_name(name)) as disk:
        yield disk


def why_not() -> str:
    """Return why a loop device cannot be mounted here; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return NO_LOOP
    if not all(map(shutil.which, ("mkfs.ext4", "fsck.ext4", "losetup"))):
        return "mkfs.ext4, fsck.ext4 or losetup is not installed"
    free = subprocess.run(["losetup", "--find"], check=False, capture_output=True, text=True)
    return "" if free.returncode == 0 else f"{NO_LOOP}; {free.stderr.strip()}"


pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(why_not()), reason=why_not())]


async def started_bench(disk: Path, server: UnrulyServer) -> Bench:
    run = await bench(disk, server, size=SIZE)
    os.sync()  # the pool and the config are older than the power cut
    return run


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
async def test_a_power_cut_loses_only_calls_in_flight_and_the_same_command_resumes(
    share: float, tmp_path: Path
) -> None:
    async with UnrulyServer() as server:
        with ext4(tmp_path) as (image, disk):
            run = await started_bench(disk, server)
            process = await run.start()
            assert await run.until(round(share * SIZE.calls), process)
            process.send_signal(signal.SIGSTOP)
            await server.quiet()
            n_paid = len(server.bill.paid)
            with after_power_cut(image, name="copy") as copy:
                process.kill()
                await process.wait()
                resumed = replace(run, folder=copy)
                assert n_paid - AT_RISK <= resumed.kept <= n_paid
                ended = await resumed.finish()
                assert ended.code == 0, ended.output
                assert resumed.paid_twice <= AT_RISK
                assert resumed.kept == len(server.bill.paid)


async def test_a_power_cut_after_a_run_loses_none_of_its_files(tmp_path: Path) -> None:
    async with UnrulyServer() as server:
        with ext4(tmp_path) as (image, disk):
            run = await started_bench(disk, server)
            assert (await run.finish()).code == 0
            files = {
                path.relative_to(disk): path.read_bytes()
                for path in (disk / "runs/r").rglob("*")
                if path.is_file() and path.suffix not in (".db", ".db-wal", ".db-shm")
            }
            with after_power_cut(image, name="copy") as copy:
                kept = {path: (copy / path).read_bytes() for path in files if (copy / path).exists()}
                assert kept == files
                n_requests = server.n_requests
                resumed = replace(run, folder=copy)
                ended = await resumed.finish()
                assert ended.code == 0, ended.output
                assert server.n_requests == n_requests


@pytest.mark.parametrize("kind", ["tables", "hf"])
async def test_a_power_cut_after_an_export_loses_none_of_its_files(kind: str, tmp_path: Path) -> None:
    out = "out.csv" if kind == "tables" else "out"
    async with UnrulyServer() as server:
        with ext4(tmp_path) as (image, disk):
            run = await started_bench(disk, server)
            ended = await run.end(await run.start("export", "pool", f"new/{out}", "--format", kind), within=60)
            assert ended.code == 0, ended.output
            written = sorted(path for path in (disk / "new").rglob("*") if path.is_file())
            with after_power_cut(image, name="copy") as copy:
                for path in written:
                    assert (copy / path.relative_to(disk)).read_bytes() == path.read_bytes()
