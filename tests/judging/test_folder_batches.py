"""Test batches left in a folder and processed by any backend, also incompletely."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import judged
from batch_server import HICCUPS, QUIRKS
from judged import NOWHERE, dense_plan, truth
from small_pools import make_pool
from toy_engine import run_batch
from wire_server import Reply, well_behaved
from youden.errors import IncompleteRunError, JudgeError
from youden.judging.backend_records import BACKENDS
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.store.answers import Store
from youden.types import Verdicts

POOL = make_pool(3, 3)
PLAN = dense_plan(POOL)
LIMIT = 18


def folder_of(store: Store) -> Path:
    return Path(store.name).with_name("batches")


class Worker:
    """Processes the files of the folder at a poll; its output passes through `spoil` for `times` polls.

    `done` is whether it reports that it has ended.
    """

    def __init__(
        self,
        store: Store,
        spoil: Callable[[bytes], bytes | None] = bytes,
        *,
        times: float = 0,
        done: bool = False,
        decide: Callable[[int, Any], Reply] = well_behaved,
    ) -> None:
        self.folder, self.spoil, self.times, self.done, self._decide = folder_of(store), spoil, times, done, decide
        self.worked: Counter[bytes] = Counter()
        self.answers: dict[Path, bytes] = {}

    async def __call__(self, _: float) -> None:
        for requests in sorted(self.folder.glob("requests-*.jsonl")):
            path = self.folder / requests.name.replace("requests", "answers")
            if path not in self.answers:
                run_batch(requests, path, decide=self._counted)
                self.answers[path] = path.read_bytes()
            text = self.spoil(self.answers[path]) if self.times > 0 else self.answers[path]
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_bytes(text)
            if self.done:
                path.with_suffix(".done").touch()
        self.times -= 1

    def _counted(self, n: int, body: Any) -> Reply:
        self.worked[orjson.dumps(body)] += 1
        return self._decide(n, body)


async def ask(store: Store, worker: Any, *, said: list[str] | None = None, **changes: Any) -> Verdicts:
    say = ([] if said is None else said).append
    batching = Batching(poll=0.0, max_requests=LIMIT, sleep=worker, say=say)
    options = JudgingOptions(batching=batching, max_missing=0.5)
    folder = {"batch_provider": "folder"}
    return await judged.ask(PLAN, POOL, NOWHERE, store, options=options, environment={}, **folder, **changes)


async def ask_until_complete(store: Store, worker: Worker) -> Verdicts:
    """Repeat the command until it is complete."""
    for _ in range(9):
        with contextlib.suppress(IncompleteRunError):
            return await ask(store, worker, price=1, max_tries=3)
    raise AssertionError("it comes to no end")


@pytest.mark.parametrize("backend", [name for name, data in BACKENDS.items() if data.makes_calls])
async def test_a_plan_is_judged_from_a_batch_folder_by_any_backend_without_a_key(store: Store, backend: str) -> None:
    worker, output = Worker(store), list[str]()
    verdicts = await ask(store, worker, backend=backend, said=output)
    np.testing.assert_array_equal(verdicts.answer, truth(PLAN))
    assert len(worker.answers) == len(PLAN) / LIMIT
    assert str(worker.folder) in output[0]


async def test_requests_without_a_result_are_sent_in_another_batch(store: Store) -> None:
    worker = Worker(store, lambda text: b"".join(text.splitlines(keepends=True)[:5]), times=1, done=True)
    assert (await ask(store, worker)).answered.all()
    assert len(worker.answers) > len(PLAN) / LIMIT


async def test_failed_lines_are_resent_although_their_file_would_be_identical(store: Store) -> None:
    def fails_once(_n: int, body: Any) -> Reply:
        return Reply(status=500) if worker.worked[orjson.dumps(body)] == 1 else well_behaved(0, body)

    worker = Worker(store, decide=fails_once)
    assert (await ask(store, worker)).answered.all()
    assert len(worker.answers) == 2 * len(PLAN) / LIMIT


async def test_a_restarted_process_resumes_with_the_same_files(store: Store) -> None:
    async def die(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await ask(store, die)
    worker = Worker(store)
    assert (await ask(store, worker)).answered.all()
    assert len(worker.answers) == len(PLAN) / LIMIT


async def test_a_batch_whose_files_were_deleted_is_reported(store: Store) -> None:
    async def lose(_: float) -> None:
        for path in folder_of(store).iterdir():
            path.unlink()

    with pytest.raises(JudgeError, match=r"does not exist.*\[batch-unknown\]"):
        await ask(store, lose)


async def test_an_unusable_folder_is_a_clear_error(store: Store) -> None:
    folder_of(store).write_text("a file")
    with pytest.raises(JudgeError, match="batch-folder"):
        await ask(store, None)


ODD: dict[str, Callable[[bytes], bytes | None]] = {
    "not there yet": lambda _: None,
    **{name: odd["fetch"] for name, odd in {**HICCUPS, **QUIRKS}.items() if "fetch" in odd},
}


@pytest.mark.parametrize("done", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ODD)
async def test_an_incomplete_folder_is_polled_again_without_duplicate_work(store: Store, name: str, done: bool) -> None:
    worker = Worker(store, ODD[name], times=math.inf if name in QUIRKS else 3, done=done)
    verdicts = await ask_until_complete(store, worker)
    assert verdicts.answered.all()
    assert set(worker.worked.values()) == {1}
    assert verdicts.total_usd == pytest.approx(len(PLAN) * 101 / 1e6)


@pytest.mark.parametrize("name", sorted(set(ODD) - set(QUIRKS)))
async def test_a_completed_but_partial_folder_is_abandoned_with_all_requests_recorded(store: Store, name: str) -> None:
    worker = Worker(store, ODD[name], times=math.inf, done=True)
    with pytest.raises(IncompleteRunError, match="stays recorded"):
        await ask(store, worker, price=1, max_tries=3, max_outage=0.05)
    worker.times = 0
    assert (await ask_until_complete(store, worker)).answered.all()
    assert set(worker.worked.values()) == {1}
