"""Test the saved request hashes of a large run: written once next to its plan, and validated when read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import youden
from commands import Youden, write_config
from small_pools import make_pool
from wire_server import WireServer
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import RunFolderError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.questions import iter_keys
from youden.pipeline import request_hashes as run_keys
from youden.pipeline.request_hashes import KeysMetadata, open_hashes, write_hashes

JUDGE = {"backend": "wire", "model": "m", "api_key_env": None, "price": 0, "concurrency": 1}
SAID = KeysMetadata(plan_digest="1" * 64, judge_digest="2" * 64)
HEX = [f"{n:064x}" for n in range(150_000)]


@pytest.fixture
def configured_folder(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_keys, "MIN_TRIALS", 100)
    write_pool(make_pool(5, 8), tmp_path / "pool")
    configure(tmp_path, server)
    return tmp_path


def configure(here: Path, server: WireServer, *, n: int = 110, seed: int = 0, **judge: object) -> None:
    output = {"pool": "pool", "calls": n, "independent": "pooled:20", "seed": seed}
    write_config(here / "c.yaml", **output, judge=JUDGE | {"base_url": server.url} | judge)


def kept(here: Path) -> list[Path]:
    return sorted((here / "runs/c").glob("request-hashes-*.parquet"))


def in_file(path: Path) -> list[str]:
    return [key.hex() for key in pq.read_table(path).column("request_hash").to_pylist()]


def test_request_hashes_are_written_once_and_equal_those_of_the_requests(
    youden: Youden, configured_folder: Path, server: WireServer
) -> None:
    assert youden("judge", "c.yaml").code == 0
    (file,) = kept(configured_folder)
    run = RunFolder(configured_folder / "runs/c")
    plan = run.read_plan()
    questions = load_judge_config(run.read_config().judge).questions()
    assert in_file(file) == [key for _, key, _ in questions.iter_requests(plan)]
    assert in_file(file) == [key.decode() for key in np.asarray(run.read_verdicts(plan).request_hash).tolist()]
    written, asked = file.stat().st_mtime_ns, server.n_requests
    assert youden("judge", "c.yaml").code == 0
    assert (file.stat().st_mtime_ns, server.n_requests) == (written, asked)


def test_a_small_run_has_no_file_of_request_hashes(youden: Youden, configured_folder: Path, server: WireServer) -> None:
    configure(configured_folder, server, n=90)
    assert youden("judge", "c.yaml").code == 0
    assert kept(configured_folder) == []


@pytest.mark.slow
def test_another_judge_has_another_file_and_another_plan_the_same_one(
    youden: Youden, configured_folder: Path, server: WireServer
) -> None:
    assert youden("judge", "c.yaml").code == 0
    (first,) = kept(configured_folder)
    before = in_file(first)
    (configured_folder / "runs/c/verdicts.parquet").unlink()
    configure(configured_folder, server, seed=1)
    ended = youden("judge", "c.yaml").well()
    assert f"{first.name} is written again" in ended.err
    assert kept(configured_folder) == [first]
    assert in_file(first) != before
    (configured_folder / "runs/c/verdicts.parquet").unlink()
    configure(configured_folder, server, seed=1, temperature=0.5)
    assert youden("judge", "c.yaml").code == 0
    assert len(kept(configured_folder)) == 2


def changed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)


def foreign(file: Path) -> None:
    pq.write_table(pa.table({"request_hash": ["a"]}), file)


@pytest.mark.parametrize("spoil", [changed, foreign])
def test_an_incomplete_file_is_rewritten_with_a_note(
    youden: Youden, configured_folder: Path, server: WireServer, spoil: Callable[[Path], None]
) -> None:
    assert youden("judge", "c.yaml").code == 0
    (file,) = kept(configured_folder)
    before, asked = in_file(file), server.n_requests
    spoil(file)
    ended = youden("judge", "c.yaml").well()
    assert f"{file.name} is written again" in ended.err
    assert (in_file(file), server.n_requests) == (before, asked)


def test_a_folder_at_the_path_of_the_file_is_kept(youden: Youden, configured_folder: Path, server: WireServer) -> None:
    assert youden("judge", "c.yaml").code == 0
    (file,) = kept(configured_folder)
    file.unlink()
    file.mkdir()
    (file / "notes.txt").write_text("mine", encoding="utf-8")
    n_requests = server.n_requests
    ended = youden("judge", "c.yaml")
    assert (ended.code, server.n_requests) == (2, n_requests)
    assert "It is a folder, and a file does not replace it." in ended.err
    assert (file / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_no_answer_is_paid_for_under_the_hash_of_another_request(
    youden: Youden, configured_folder: Path, server: WireServer
) -> None:
    assert youden("judge", "c.yaml").code == 0
    (file,) = kept(configured_folder)
    table = pq.read_table(file)
    pq.write_table(table.take(list(reversed(range(len(table))))), file)
    (configured_folder / ".youden/answers.db").unlink()
    (configured_folder / "runs/c/verdicts.parquet").unlink()
    n_requests = server.n_requests
    ended = youden("judge", "c.yaml")
    assert ended.err.rstrip().endswith("[request-hash-mismatch]")
    assert server.n_requests == n_requests


def test_request_hashes_are_read_from_any_row(tmp_path: Path) -> None:
    write_hashes(tmp_path / "k", HEX, SAID)
    file = open_hashes(tmp_path / "k", SAID, n=len(HEX))
    for start in (0, 1, 65_535, 65_536, 70_000, 149_999):
        assert [key for chunk in file.chunks(start) for key in chunk] == HEX[start:], start


def test_foreign_or_too_few_request_hashes_are_refused(tmp_path: Path) -> None:
    write_hashes(tmp_path / "k", HEX[:10], SAID)
    other_hash = SAID.model_copy(update={"judge_digest": "3" * 64})
    with pytest.raises(RunFolderError, match="another plan, pool or judge"):
        open_hashes(tmp_path / "k", other_hash, n=10)
    with pytest.raises(RunFolderError, match="11 request hashes"):
        open_hashes(tmp_path / "k", SAID, n=11)


def test_computing_request_hashes_starts_at_any_row() -> None:
    pool = make_pool(4, 5)
    plan = youden.make_plan(pool, design="cyclic", calls=60, independent="pooled:20", holdout=0.0, seed=1)
    questions = load_judge_config(JUDGE | {"base_url": "http://made.invalid"}).questions()
    assert list(iter_keys(questions, plan, start=7)) == list(iter_keys(questions, plan))[7:]
