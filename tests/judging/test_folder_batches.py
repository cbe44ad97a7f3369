"""Batches that are left in a folder, for any backend's judge, and worked off by whoever comes along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judged import dense_plan, judge_config
from pools import make_pool
from toy_engine import run_batch
from wire_server import Reply, well_behaved
from youden.errors import JudgeError
from youden.judging.asking.terms import Asking, Batching, Limits
from youden.judging.backend_records import BACKENDS
from youden.judging.engine import judge_plan
from youden.judging.store.answers import Store
from youden.nouns import PAIRED, Verdicts

POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)
TRUTH = (PLAN.arm == PAIRED).astype(float)


class Worker:
    """Works off one file of the folder a look; `spoil` changes its results, a name at a time."""

    def __init__(self, folder: Path, *, decide: Any = well_behaved) -> None:
        self.folder = folder
        self.decide = decide
        self.cut: list[int] = []
        self.worked: list[str] = []

    async def __call__(self, _: float) -> None:
        for requests in sorted(self.folder.glob("requests-*.jsonl")):
            answers = self.folder / requests.name.replace("requests", "answers")
            whole = answers.exists() and len(answers.read_bytes().splitlines()) == len(
                requests.read_bytes().splitlines()
            )
            if whole or answers.with_suffix(".done").exists():
                continue
            run_batch(requests, answers, decide=self.decide)
            self.worked.append(requests.name)
            if self.cut:
                answers.write_bytes(answers.read_bytes()[: self.cut.pop(0)])
            return


async def ask(
    store: Store, worker: Any, *, limits: Limits | None = None, said: list[str] | None = None, **changes: Any
) -> Verdicts:
    judge = judge_config("http://127.0.0.1:9/v1", batch_provider="folder", **changes)
    batching = Batching(poll=0.0, limits=limits or Limits(), sleep=worker, say=([] if said is None else said).append)
    asking = Asking(batching=batching, max_missing=0.5)
    return await judge_plan(PLAN, POOL, config=judge, store=store, environment={}, asking=asking)


@pytest.mark.parametrize("backend", [name for name, one in BACKENDS.items() if one.makes_calls])
async def test_a_plan_is_worked_off_from_a_folder_for_any_backend_without_a_key(store: Store, backend: str) -> None:
    worker, said = Worker(Path(store.name).with_name("batches")), []
    verdicts = await ask(store, worker, backend=backend, limits=Limits(requests=20), said=said)
    np.testing.assert_array_equal(verdicts.answer, TRUTH)
    assert len(worker.worked) == 3
    assert str(worker.folder) in said[0]


async def test_a_file_that_is_still_being_written_is_waited_for(store: Store) -> None:
    worker = Worker(Path(store.name).with_name("batches"))
    worker.cut = [0, 3000, 7000]
    said: list[str] = []
    verdicts = await ask(store, worker, said=said)
    assert verdicts.answered.all()
    assert len(worker.worked) == 4
    assert sum("waiting" in line for line in said) >= 3


async def test_what_a_batch_left_out_is_asked_again_in_another(store: Store) -> None:
    worker = Worker(Path(store.name).with_name("batches"))
    worker.cut = [3000]

    async def done_short(seconds: float) -> None:
        await worker(seconds)
        if len(worker.worked) == 1:
            (answers,) = worker.folder.glob("answers-*.jsonl")
            answers.write_bytes(answers.read_bytes().rpartition(b"\n")[0] + b"\n")
            answers.with_suffix(".done").touch()

    verdicts = await ask(store, done_short)
    assert verdicts.answered.all()
    assert len(set(worker.worked)) == 2


async def test_failed_lines_are_asked_again_though_their_file_would_be_the_same(store: Store) -> None:
    tries: list[int] = []

    def behave(n: int, body: Any) -> Reply:
        tries.append(n)
        return Reply(status=500) if len(tries) <= len(PLAN) else well_behaved(n, body)

    worker = Worker(Path(store.name).with_name("batches"), decide=behave)
    verdicts = await ask(store, worker)
    assert verdicts.answered.all()
    assert len(set(worker.worked)) == 2


async def test_a_process_that_ends_goes_on_with_the_same_file(store: Store) -> None:
    async def die(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await ask(store, die)
    worker = Worker(Path(store.name).with_name("batches"))
    assert (await ask(store, worker)).answered.all()
    assert len(list(worker.folder.glob("requests-*"))) == 1


async def test_a_batch_whose_files_are_gone_is_said_to_be(store: Store) -> None:
    async def lose(_: float) -> None:
        for path in Path(store.name).with_name("batches").iterdir():
            path.unlink()

    with pytest.raises(JudgeError, match="is not there") as caught:
        await ask(store, lose)
    assert caught.value.slug == "batch-unknown"


async def test_a_folder_that_cannot_be_used_says_so(store: Store) -> None:
    Path(store.name).with_name("batches").write_text("a file")
    with pytest.raises(JudgeError) as caught:
        await ask(store, None)
    assert caught.value.slug == "batch-folder"
