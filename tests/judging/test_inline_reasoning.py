"""Test that reasoning in the text of a reply is not read as the answer, however the text arrives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from batch_server import BatchServer, ClaudeBatchServer
from commands import Youden, wire_judge, write_small_run
from judged import ask, dense_plan, each_backend, judge_config, missing, truth
from small_pools import make_pool
from toy_engine import run_batch
from wire_server import Reply, WireServer, running, same_item
from youden.judging.config.judge_files import load_judge_config
from youden.judging.doctor import Diagnosis, diagnose
from youden.judging.scheduler.options import Batching, JudgingOptions

POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)
ANY = JudgingOptions(max_missing=1.0)
UNFINISHED = "<think>\nThe label might be NO, they look like YES at first but"


def reasons(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer correctly after reasoning that ends with the opposite."""
    answer = same_item(body)
    opposite = {"YES": "NO", "NO": "YES"}[answer]
    return Reply(f"<think>\n{answer}? Hm, rather {opposite}.\n</think>\n\n{answer.capitalize()}")


def does_not_end(_n: int, _body: Mapping[str, Any]) -> Reply:
    return Reply(UNFINISHED)


@pytest.mark.parametrize("backend", each_backend("wire"))
async def test_live_stored_and_replayed_answers_are_read_without_reasoning(tmp_path: Path, backend: str) -> None:
    async with WireServer(reasons) as server:
        live = await ask(PLAN, POOL, server.url, tmp_path / "v.db", backend=backend)
        n = server.n_requests
        again = await ask(PLAN, POOL, server.url, tmp_path / "v.db", backend=backend)
        replay = await ask(PLAN, POOL, load_judge_config({"backend": "replay"}), tmp_path / "v.db")
        assert server.n_requests == n
    for case in (live, again, replay):
        np.testing.assert_array_equal(case.answer, truth(PLAN))


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_batch_answers_are_read_without_reasoning(tmp_path: Path, provider: str) -> None:
    async with BatchServer(reasons) if provider == "openai" else ClaudeBatchServer(reasons) as server:
        judge = load_judge_config(
            {"backend": provider, "model": "m", "base_url": server.url, "price": 0, "api_key_env": None}
        )
        result = await ask(PLAN, POOL, judge, tmp_path / "v.db", options=JudgingOptions(batching=Batching(poll=0.01)))
    np.testing.assert_array_equal(result.answer, truth(PLAN))


async def test_answers_of_a_jury_are_read_without_reasoning(tmp_path: Path) -> None:
    async with WireServer(reasons) as server:
        judges = [judge_config(server.url, model=name).public() for name in ("a", "b")]
        jury = load_judge_config({"backend": "jury", "judges": judges, "vote": "mean"})
        result = await ask(PLAN, POOL, jury, tmp_path / "v.db", options=ANY)
    np.testing.assert_array_equal(result.answer, truth(PLAN))


async def test_unfinished_reasoning_is_missing_with_its_reason(tmp_path: Path) -> None:
    async with WireServer(does_not_end) as server:
        result = await ask(PLAN, POOL, server.url, tmp_path / "v.db", options=ANY)
    assert missing(result) == {"unfinished_reasoning": len(PLAN)}
    assert f"{len(PLAN)} unfinished_reasoning" in "".join(diagnosis.message for diagnosis in result.warnings)


def test_imported_answers_are_read_without_reasoning_and_the_reason_is_counted(youden: Youden, tmp_path: Path) -> None:
    judge = {"backend": "wire", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None, "price": 0}
    write_small_run(tmp_path, "c", judge=judge)
    assert youden("plan", "c.yaml", "--export", "x").code == 0
    requests = tmp_path / "x" / "requests-0.jsonl"
    n = len(requests.read_text(encoding="utf-8").splitlines())
    run_batch(
        requests, tmp_path / "x" / "answers-0.jsonl", decide=lambda n, body: (reasons if n else does_not_end)(n, body)
    )
    assert youden("judge", "c.yaml", "--import", "x/answers-0.jsonl", "--max-missing", "1").code == 0
    assert youden("fit", "runs/c").code == 0
    facts = json.loads((tmp_path / "runs" / "c" / "fit.json").read_text(encoding="utf-8"))
    assert n > 2
    assert '"unfinished_reasoning": 1' in json.dumps(facts)
    assert '"unparsed"' not in json.dumps(facts)


def test_a_recorded_cassette_is_read_without_reasoning(youden: Youden, tmp_path: Path) -> None:
    with running(WireServer(reasons)) as server:
        write_small_run(tmp_path, "c", judge=wire_judge(server.url))
        assert youden("judge", "c.yaml").code == 0
    assert youden("cassette", "export", "runs/c", "--out", "c.jsonl").code == 0
    assert youden("cassette", "import", "c.jsonl", "--store", "fresh.db").code == 0
    verdicts = tmp_path / "runs" / "c" / "verdicts.parquet"
    first = pq.read_table(verdicts)["answer"]
    assert youden("judge", "c.yaml", "--store", "fresh.db").code == 0
    assert pq.read_table(verdicts)["answer"].equals(first)
    assert first.null_count == 0


def test_a_run_parsed_by_an_earlier_version_is_parsed_again(youden: Youden, tmp_path: Path) -> None:
    with running(WireServer(reasons)) as server:
        write_small_run(tmp_path, "c", judge=wire_judge(server.url))
        assert youden("judge", "c.yaml").code == 0
        n = server.n_requests
        verdicts = tmp_path / "runs" / "c" / "verdicts.parquet"
        table = pq.read_table(verdicts)
        metadata = {name: text.replace(b"label/7", b"label/6") for name, text in table.schema.metadata.items()}
        wrong = table.set_column(table.schema.get_field_index("answer"), "answer", pc.subtract(1.0, table["answer"]))
        pq.write_table(wrong.replace_schema_metadata(metadata), verdicts)
        assert youden("judge", "c.yaml").code == 0
        assert server.n_requests == n
    assert pq.read_table(verdicts)["answer"].equals(table["answer"])
    assert b"label/7" in b"".join(pq.read_schema(verdicts).metadata.values())


def examined(server: WireServer, **changes: Any) -> Diagnosis:
    (diagnosis,) = diagnose(judge_config(server.url, api_key_env=None, price=1, **changes), environment={})
    return diagnosis


def test_doctor_names_the_option_that_disables_reasoning() -> None:
    with running(WireServer(lambda *_: Reply("<think>NO?</think>\n\nYES"))) as server:
        result = {finding.slug: finding for finding in examined(server).findings}["parse"]
        assert result.severity == "warning"
        assert all(part in result.message for part in ("'YES' reads as 1", "--reasoning-parser", "think: false"))
        server.behave = does_not_end
        diagnosis = examined(server)
        result = {finding.slug: finding for finding in diagnosis.findings}["parse"]
        assert (result.severity, diagnosis.is_usable) == ("failed", False)
        assert all(
            part in result.message for part in ("does not end", "--reasoning-parser", "think: false", "max_tokens")
        )
