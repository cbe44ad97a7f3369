"""Test cassettes of generated pools: export, import, comparison and replay, also in a test suite of a user."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from commands import Youden, write_config
from wire_server import Reply, WireServer
from youden import read_pool
from youden.errors import ReplayMissError
from youden.judging.offline.cassette_file import read_cassette
from youden.judging.offline.tape import CassetteRecorder, use_cassette
from youden.judging.scheduler.options import JudgingOptions
from youden.pools.generation.agents import load_agents
from youden.pools.generation.generate import GenerationResult, generate
from youden.pools.generation.generation import plan_generation
from youden.pools.generation.item_sources import read_items

AGENTS = """
seed: 3
agents:
  - {id: plain, group: faithful, model: m, instruction: mine.md, temperature: 0.5}
  - {id: twin, model: m, instruction: mine.md, temperature: 0.5}
  - {id: reader, model: m, notes_instruction: mine.md, instruction: noted.md}
  - {id: again, based_on: reader, model: n, instruction: mine.md, steps: [reorder]}
  - {id: loud, based_on: plain, steps: [{case: {to: upper}}]}
"""
N_CALLS = 5 * 4
FAILS = "item 2"
KEY = "sk-secret-of-a-test"


def says(n: int, body: Mapping[str, Any]) -> Reply:
    """Return a new text for each request; requests of the first agent that contain `FAILS` are rejected."""
    content = body["messages"][-1]["content"]
    if FAILS in content and "Notes" in content:
        return Reply(status=400, error={"message": "not this one"})
    (text,) = re.findall(r"<text-\w+>\n(.*?)\n</text", content, re.DOTALL)
    return Reply(f"Answer {n}. It speaks of {text[-40:]}", usage={"prompt_tokens": 100, "completion_tokens": 50})


@pytest.fixture
def cassette_folder(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("YOUDEN_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    server.behave = says
    (tmp_path / "agents.yaml").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "mine.md").write_text("---\nsystem: Be brief.\n---\nRewrite {{text}}", encoding="utf-8")
    (tmp_path / "noted.md").write_text("Rewrite {{text}} Notes: {{notes}}", encoding="utf-8")
    items = [json.dumps({"id": f"i{n}", "prompt": f"First. Then item {n}."}) for n in range(4)]
    (tmp_path / "items.jsonl").write_text("\n".join(items), encoding="utf-8")
    # `wire` takes the credentials in the address, which no file may hold
    url = server.url.replace("http://", f"http://me:{KEY}@")
    for name in ("m", "n"):
        write_config(
            tmp_path / f"{name}.yaml", backend="wire", model=name, base_url=url, price_in=1, price_out=1, backoff=0.001
        )
        with (tmp_path / f"{name}.yaml").open("a", encoding="utf-8") as file:
            file.write("api_key_env: null\n")
    return tmp_path


def words(out: str, *more: str) -> list[str]:
    models = ["--model-map", "m=m.yaml", "--model-map", "n=n.yaml"]
    return ["generate", "agents.yaml", "items.jsonl", "--out", out, "--max-missing", "0.2", *models, *more]


@pytest.fixture
def generated_pool(youden: Youden, cassette_folder: Path) -> Path:
    ended = youden(*words("made", "--max-cost", "1"))
    assert ended.code == 0, ended.err
    return cassette_folder / "made"


def test_an_exported_cassette_generates_the_same_pool_without_server_and_key(
    youden: Youden, generated_pool: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_requests = server.n_requests
    pool = read_pool(generated_pool)
    assert pool.n_missing == 2, "the reader of item 2, and the agent that builds on it"
    data = json.loads(youden("cassette", "export", "made", "--out", "c.jsonl", "--json").out)
    assert data == {"file": "c.jsonl", "n_answers": N_CALLS - 2, "n_failures": 1, "n_unanswered": 0}
    assert youden("cassette", "verify", "c.jsonl", "made").code == 0
    done = json.loads(youden("cassette", "import", "c.jsonl", "--store", "fresh.db", "--json").out)
    assert done["n_added"] == N_CALLS - 1

    monkeypatch.delenv("OPENAI_API_KEY")
    ended = youden(*words("again", "--store", "fresh.db", "--replay", "--json"))
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["asked"] == 0
    assert (generated_pool.parent / "again" / "responses.jsonl").read_bytes() == (
        generated_pool / "responses.jsonl"
    ).read_bytes()
    assert read_pool(generated_pool.parent / "again").digest == pool.digest
    assert server.n_requests == n_requests
    assert youden("cassette", "export", "again", "--out", "d.jsonl").code == 0
    assert (generated_pool.parent / "d.jsonl").read_bytes() == (generated_pool.parent / "c.jsonl").read_bytes()


def test_a_pool_is_regenerated_from_its_store(youden: Youden, cassette_folder: Path, server: WireServer) -> None:
    assert youden(*words("made", "--store", "mine.db", "--max-cost", "1")).code == 0
    n_requests = server.n_requests
    assert youden(*words("made", "--max-cost", "1")).code == 0
    assert (server.n_requests, (cassette_folder / "made/answers.db").exists()) == (n_requests, False)


def test_another_pool_of_equal_texts_is_not_paid_for_again(
    youden: Youden, generated_pool: Path, cassette_folder: Path, server: WireServer
) -> None:
    n_requests = server.n_requests
    assert [path.relative_to(cassette_folder).as_posix() for path in cassette_folder.rglob("*.db")] == [
        ".youden/answers.db"
    ]
    ended = youden(*words("other/deeper", "--max-cost", "1"))
    assert (ended.code, server.n_requests) == (0, n_requests)
    assert "answers are stored in .youden/answers.db" in ended.err
    shutil.move(generated_pool, cassette_folder / "other/made")
    (cassette_folder / "other/made/responses.jsonl").unlink()
    assert youden(*words("other/made", "--max-cost", "1")).code == 0
    assert youden("cassette", "export", "other/made", "--out", "c.jsonl").code == 0
    assert server.n_requests == n_requests


def test_a_pool_of_an_earlier_version_finds_its_answers_in_its_folder(
    youden: Youden, cassette_folder: Path, server: WireServer
) -> None:
    assert youden(*words("made", "--store", "made/answers.db", "--max-cost", "1")).code == 0
    n_requests = server.n_requests
    (cassette_folder / "made/generation.json").unlink()
    assert youden(*words("made", "--max-cost", "1")).code == 0
    assert (server.n_requests, (cassette_folder / ".youden").exists()) == (n_requests, False)


def test_agents_without_a_model_create_no_project_store(youden: Youden, cassette_folder: Path) -> None:
    (cassette_folder / "rule.yaml").write_text("agents: [{id: a, steps: [reorder]}]", encoding="utf-8")
    assert "answers are kept" not in youden("generate", "rule.yaml", "items.jsonl", "--out", "rule").well().err
    assert not (cassette_folder / ".youden").exists()


def test_the_password_is_sent_to_no_server_that_only_a_generated_pool_names(
    youden: Youden, generated_pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "password-of-the-user")
    url = "postgresql://reader@127.0.0.1:9/answers"
    recipe = json.loads((generated_pool / "generation.json").read_text(encoding="utf-8"))
    (generated_pool / "generation.json").write_text(json.dumps(recipe | {"store": url}), encoding="utf-8")
    assert youden(*words("made", "--max-cost", "1")).refuses("store-password")
    assert youden(*words("made", "--replay")).refuses("store-password")
    assert "[store-unreachable]" in youden(*words("made", "--max-cost", "1", "--store", url)).err


def test_no_stored_file_contains_a_secret(youden: Youden, generated_pool: Path) -> None:
    assert youden("cassette", "export", "made", "--out", "c.jsonl").code == 0
    for file in (
        generated_pool / "generation.json",
        generated_pool / "agents.jsonl",
        generated_pool.parent / "c.jsonl",
    ):
        assert KEY not in file.read_text(encoding="utf-8")


def test_a_replay_of_unrecorded_requests_sends_none(youden: Youden, generated_pool: Path, server: WireServer) -> None:
    n_requests = server.n_requests
    items = (generated_pool.parent / "items.jsonl").read_text(encoding="utf-8")
    (generated_pool.parent / "items.jsonl").write_text(items.replace("First.", "Second."), encoding="utf-8")
    for store, slug in ((".youden/answers.db", "replay-miss"), ("none.db", "store-missing")):
        ended = youden(*words("again", "--store", store, "--replay"))
        assert (ended.code, ended.err.split()[-1]) == (2, f"[{slug}]")
    assert not (generated_pool.parent / "none.db").exists()
    both = youden(*words("again", "--store", ".youden/answers.db", "--replay", "--retry-failed"))
    assert (both.code, both.err.split()[-1]) == (2, "[replay-retries]")
    assert server.n_requests == n_requests


def test_a_replay_names_the_flag_that_was_missing(youden: Youden, generated_pool: Path) -> None:
    replay = ["generate", "agents.yaml", "items.jsonl", "--out", "again", "--replay"]
    models = "\nmodels: {m: {backend: wire, model: other, base_url: 'http://127.0.0.1:9/v1', price: 0}, n: n.yaml}\n"
    (generated_pool.parent / "agents.yaml").write_text(AGENTS + models, encoding="utf-8")
    ended = youden(*replay, "--store", ".youden/answers.db")
    assert (ended.code, ended.err.split()[-1]) == (2, "[replay-miss]")
    assert "--model-map m=JUDGE" in ended.err
    shutil.rmtree(generated_pool.parent / ".youden")
    ended = youden(*replay, "--model-map", "m=m.yaml")
    assert (ended.code, ended.err.split()[-1]) == (2, "[replay-store]")
    assert "--store" in ended.err


def test_an_incomplete_cassette_is_reported_by_agent_and_item(youden: Youden, generated_pool: Path) -> None:
    assert youden("cassette", "export", "made", "--out", "c.jsonl").code == 0
    lines = (generated_pool.parent / "c.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    short = [line for line in lines if not ('"asker":"twin"' in line and "item 3" in line)]
    assert len(short) == len(lines) - 1
    (generated_pool.parent / "c.jsonl").write_text("".join(short), encoding="utf-8")
    ended = youden("cassette", "verify", "c.jsonl", "made")
    assert ended.code == 1
    assert "(agent 'twin' on item 'i3')" in ended.out
    assert len(json.loads(youden("cassette", "verify", "c.jsonl", "made", "--json").out)["missing"]) == 1


def test_responses_that_cannot_be_replayed_are_not_written(youden: Youden, generated_pool: Path) -> None:
    ended = youden("cassette", "export", "made", "--out", "c.jsonl", "--redact")
    assert (ended.code, ended.err.split()[-1]) == (2, "[cassette-redact]")
    (generated_pool.parent / "rule.yaml").write_text("agents: [{id: a, steps: [reorder]}]", encoding="utf-8")
    assert youden("generate", "rule.yaml", "items.jsonl", "--out", "rule", "--replay").code == 0
    ended = youden("cassette", "export", "rule", "--out", "c.jsonl")
    assert (ended.code, ended.err.split()[-1]) == (2, "[cassette-no-calls]")
    ended = youden("cassette", "verify", "made/generation.json", "made")
    assert (ended.code, ended.err.split()[-1]) == (2, "[cassette-head]")
    (generated_pool / "generation.json").rename(generated_pool / "elsewhere.json")
    ended = youden("cassette", "export", "made", "--out", "c.jsonl")
    assert (ended.code, ended.err.split()[-1]) == (2, "[cassette-source]")
    (generated_pool / "generation.json").write_text('{"version": 2}', encoding="utf-8")
    ended = youden("cassette", "export", "made", "--out", "c.jsonl")
    assert (ended.code, ended.err.split()[-1]) == (2, "[run-file-damaged]")
    assert not (generated_pool.parent / "c.jsonl").exists()


@pytest.mark.parametrize("change", ['"asker":"twin",', '"generated":1,', "Rewrite"])
def test_a_damaged_line_of_a_generated_pool_is_reported(youden: Youden, generated_pool: Path, change: str) -> None:
    assert youden("cassette", "export", "made", "--out", "c.jsonl").code == 0
    text = (generated_pool.parent / "c.jsonl").read_text(encoding="utf-8")
    (generated_pool.parent / "c.jsonl").write_text(text.replace(change, "", 1), encoding="utf-8")
    ended = youden("cassette", "verify", "c.jsonl")
    assert ended.code == 2
    assert "but that of the request is" in ended.out


def make(folder: Path, store: str, *, max_missing: float = 0.2) -> GenerationResult:
    file = load_agents(folder / "agents.yaml", model_map={"m": str(folder / "m.yaml"), "n": str(folder / "n.yaml")})
    planned = plan_generation(file, read_items(str(folder / "items.jsonl")))
    return generate(planned, store=folder / store, options=JudgingOptions(1, max_missing))


def test_a_cassette_records_a_generation_once_and_replays_it_at_the_same_cost(
    cassette_folder: Path, server: WireServer
) -> None:
    with use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="once")) as tape:
        first = make(cassette_folder, "one.db")
    assert (tape.n_played, tape.n_recorded) == (0, N_CALLS - 1)
    assert KEY not in (cassette_folder / "c.jsonl").read_text(encoding="utf-8")
    n_requests = server.n_requests
    with use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="none")) as tape:
        again = make(cassette_folder, "two.db")
    assert (tape.n_played, tape.n_recorded, server.n_requests) == (N_CALLS - 1, 0, n_requests)
    assert (again.pool.digest, again.usd, again.n_failed) == (first.pool.digest, first.usd, 1)


def test_a_cassette_recorded_from_a_complete_store_is_complete(cassette_folder: Path, server: WireServer) -> None:
    make(cassette_folder, "one.db")
    n_requests = server.n_requests
    with use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="all")):
        make(cassette_folder, "one.db")
    assert (len(read_cassette(cassette_folder / "c.jsonl").entries), server.n_requests) == (N_CALLS - 1, n_requests)


def test_recorded_failures_before_any_answer_do_not_end_the_replay(cassette_folder: Path, server: WireServer) -> None:
    agents = "agents: [{id: a, model: m, instruction: mine.md}, {id: b, model: n, instruction: mine.md}]"
    (cassette_folder / "agents.yaml").write_text(agents, encoding="utf-8")
    server.behave = lambda n, body: Reply(status=400, delay=0.2) if body["model"] == "m" else says(n, body)
    with use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="once")):
        first = make(cassette_folder, "one.db", max_missing=0.5)
    with use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="none")):
        again = make(cassette_folder, "two.db", max_missing=0.5)
    assert first.n_failed == again.n_failed == 4
    assert first.pool.digest == again.pool.digest


def test_an_unknown_request_fails_with_its_difference_from_the_nearest(
    cassette_folder: Path, server: WireServer
) -> None:
    with use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="once")):
        make(cassette_folder, "one.db")
    n_requests = server.n_requests
    (cassette_folder / "mine.md").write_text("---\nsystem: Be brief.\n---\nRewrite, kindly, {{text}}", encoding="utf-8")
    with (
        use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="none")),
        pytest.raises(ReplayMissError) as caught,
    ):
        make(cassette_folder, "two.db")
    for line in ("-Rewrite <text-…>", "+Rewrite, kindly, <text-…>"):
        assert line in str(caught.value)
    assert "the model 'm'" in str(caught.value)
    assert server.n_requests == n_requests
    (cassette_folder / "mine.md").write_text("---\nsystem: Be brief.\n---\nRewrite {{text}}", encoding="utf-8")
    (cassette_folder / "agents.yaml").write_text(
        AGENTS + "  - {id: third, model: m, instruction: mine.md, temperature: 0.5}\n"
    )
    with use_cassette(CassetteRecorder(cassette_folder / "c.jsonl", mode="new")) as tape:
        make(cassette_folder, "three.db")
    assert (tape.n_played, tape.n_recorded, server.n_requests) == (N_CALLS - 1, 4, n_requests + 4)
