"""Test cassettes: answers of a run exported to a verifiable file, and imported into a store."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import Youden, wire_judge, write_small_run
from judged import KEY, dense_plan, judge_config
from small_pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.data.folder.run_config import load_run_config
from youden.data.pools.pool_reader import write_pool
from youden.errors import InputError
from youden.judging.call.failures import Failure
from youden.judging.offline.cassette_file import (
    Cassette,
    Entry,
    check_cassette,
    make_entry,
    read_cassette,
    redact,
    write_cassette,
)
from youden.judging.question.parsing import PARSERS, Decision, Reading, read_answer
from youden.judging.question.prompts import load_prompt
from youden.judging.question.questions import canonical_request
from youden.judging.store.answers import open_store
from youden.pipeline.judged_run import judge_run, plan_run
from youden.pools.run_cassettes import import_cassette
from youden.types import Completion

POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)
JUDGE = judge_config("http://me:hidden-word@127.0.0.1:9/v1")
PROMPT = load_prompt("same-source")


def an_entry(n: int = 0, said: str = "YES") -> Entry:
    questions = JUDGE.questions()
    request = questions.request(PLAN, n)
    outcome = Completion(said, "stop", "m-dated", 100, 1, seconds=0.1 * n, top_logprobs=(("YES", -0.5),))
    return make_entry(questions.key(request), canonical_request(request, address=questions.address), outcome)


@pytest.fixture
def recorded_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: WireServer) -> Path:
    """Create a judged run in runs/mine with some irregular answers."""
    odd = {3: Reply("", refusal="I will not"), 7: Reply("Well, the", finish_reason="length"), 15: Reply(status=400)}
    server.behave = lambda n, body: odd.get(n, Reply(f"It is a {same_item(body)}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_small_run(tmp_path, "mine", judge=wire_judge(server.url, api_key_env="OPENAI_API_KEY"), max_missing=0.1)
    judge_run(plan_run(load_run_config("mine.yaml")))
    return tmp_path / "runs" / "mine"


@pytest.mark.parametrize("flags", [pytest.param((), marks=pytest.mark.slow), ("--redact",)])
def test_an_exported_run_imported_into_an_empty_store_replays_alike(
    youden: Youden, recorded_run: Path, flags: tuple[str, ...], tmp_path: Path
) -> None:
    data = json.loads(youden("cassette", "export", "runs/mine", "--out", "c.jsonl", "--json", *flags).out)
    assert data == {"file": "c.jsonl", "n_answers": 109, "n_failures": 1, "n_unanswered": 0}
    assert youden("cassette", "verify", "c.jsonl", "runs/mine").code == 0
    for n_added in (110, 0):
        done = json.loads(youden("cassette", "import", "c.jsonl", "--store", "fresh.db", "--json").out)
        assert done == {"store": "fresh.db", "n_added": n_added, "n_kept": 110 - n_added}
    write_small_run(tmp_path, "replay", store="fresh.db", judge={"backend": "replay"}, max_missing=0.1)
    assert youden("judge", "replay.yaml").code == 0
    for name in ("replay", "mine"):
        assert youden("fit", f"runs/{name}").code == 0
    for table in ("ranking.csv", "scores.csv", "signature.json"):
        assert (recorded_run / table).read_bytes() == (tmp_path / "runs/replay" / table).read_bytes()


def test_a_cassette_is_sorted_reproducible_and_free_of_secrets(
    youden: Youden, recorded_run: Path, tmp_path: Path
) -> None:
    for name in ("one.jsonl", "two.jsonl"):
        assert youden("cassette", "export", "runs/mine", "--out", name).code == 0
    text = (tmp_path / "one.jsonl").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.jsonl").read_text(encoding="utf-8")
    keys = [json.loads(line)["request_hash"] for line in text.splitlines()[1:]]
    assert keys == sorted(set(keys))
    assert KEY not in text
    assert "seconds" not in text
    words = ("says something", "It is a", "I will not", "as told", "content")
    assert all(word in text for word in words)
    assert youden("cassette", "export", "runs/mine", "--out", "c.jsonl", "--redact").code == 0
    redacted = (tmp_path / "c.jsonl").read_text(encoding="utf-8")
    assert not any(word in redacted for word in words)
    assert '"text":"YES"' in redacted


def test_requests_missing_from_a_cassette_are_listed_with_exit_code_1(
    youden: Youden, recorded_run: Path, tmp_path: Path
) -> None:
    assert youden("cassette", "export", "runs/mine", "--out", "c.jsonl").code == 0
    lines = (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "c.jsonl").write_text("".join(lines[:-2]), encoding="utf-8")
    ended = youden("cassette", "verify", "c.jsonl", "runs/mine", "--json")
    assert ended.code == 1
    assert sorted(json.loads(ended.out)["missing"]) == [json.loads(line)["request_hash"] for line in lines[-2:]]


def test_a_run_without_calls_is_refused(youden: Youden, tmp_path: Path) -> None:
    write_small_run(tmp_path, "words")
    assert youden("judge", "words.yaml").code == 0
    ended = youden("cassette", "export", "runs/words", "--out", "c.jsonl")
    assert (ended.code, ended.err.rstrip()[-19:]) == (2, "[cassette-no-calls]")
    assert not (tmp_path / "c.jsonl").exists()


def test_a_changed_pool_is_refused(youden: Youden, recorded_run: Path, tmp_path: Path) -> None:
    write_pool(make_pool(4, 9), tmp_path / "pool")
    ended = youden("cassette", "export", "runs/mine", "--out", "c.jsonl")
    assert ended.code == 2
    assert ended.err.rstrip().endswith("[plan-other-pool]")


def test_a_cassette_reads_back_unchanged_except_for_seconds(tmp_path: Path) -> None:
    entries = {entry.request_hash: entry for entry in map(an_entry, range(5))}
    failed = replace(an_entry(6), outcome=Failure("rejected", 400, "too long"))
    cassette = Cassette((JUDGE.public(),), entries | {failed.request_hash: failed})
    write_cassette(tmp_path / "c.jsonl", cassette)
    assert read_cassette(tmp_path / "c.jsonl") == cassette
    assert (cassette.n_answers, cassette.n_redacted) == (5, 0)
    assert "hidden-word" not in (tmp_path / "c.jsonl").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda line: line.replace("says something", "said nothing", 1), "but that of the request is"),
        (lambda line: line.replace('"temperature":0.0', '"temperature":1.0'), "but that of the request is"),
        (lambda line: line[:-20] + "\n", "Invalid JSON"),
        (lambda line: line.replace('"request_hash":"', '"request_hash":"0', 1), "'request_hash': String should match"),
        (lambda line: line.replace('"answer"', '"reply"'), "unknown key 'reply'"),
        (lambda line: line.replace('"text"', '"txt"'), "'answer.text' is missing"),
        (lambda line: line.replace('"content"', '"words"', 1), "request.messages.0"),
        (lambda line: line.replace('"answer":', '"failure":null,"x":'), "unknown key 'x'"),
        (lambda line: line + line, "occurs twice"),
        (lambda line: line.replace('["YES",-0.5]', '["YES",0.5]'), "a log-probability is 0.5"),
    ],
)
def test_a_damaged_cassette_is_an_error_with_its_line(tmp_path: Path, damage: Callable[[str], str], says: str) -> None:
    path = tmp_path / "c.jsonl"
    write_cassette(path, Cassette((), {case.request_hash: case for case in (an_entry(0), an_entry(1))}))
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([lines[0], damage(lines[1]), lines[2]]), encoding="utf-8")
    cassette, (problem, *_) = check_cassette(path)
    assert says in problem
    assert problem.startswith(("line 2", "line 3"))
    assert lines[2].split('"request_hash":"')[1][:64] in cassette.entries
    with pytest.raises(InputError, match=r"line [23]"):
        read_cassette(path)


def test_a_cassette_with_a_byte_order_mark_a_blank_line_and_a_lone_surrogate_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    write_cassette(path, Cassette((), {entry.request_hash: entry for entry in (an_entry(0), an_entry(1))}))
    head, line, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(BOM_UTF8 + head + b"\n" + line.replace(b'"text":"', b'"text":"\\uD83D', 1) + last)
    text, _ = (
        entry.outcome.text for entry in read_cassette(path).entries.values() if isinstance(entry.outcome, Completion)
    )
    assert text.startswith("\ufffd")


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("", "cassette-head"),
        ("{}\n", "cassette-head"),
        ("\x00", "cassette-head"),
        ('{"cassette":9,"judges":[]}', "cassette-version"),
    ],
)
def test_a_file_that_is_no_cassette_is_refused(tmp_path: Path, text: str, slug: str) -> None:
    (tmp_path / "c.jsonl").write_text(text, encoding="utf-8")
    for path, expected in ((tmp_path / "c.jsonl", slug), (tmp_path / "none.jsonl", "cassette-unreadable")):
        with pytest.raises(InputError, match=rf"\[{expected}\]"):
            check_cassette(path)


@settings(max_examples=50, deadline=None)
@given(
    said=st.one_of(
        st.sampled_from(
            ["YES", "no.", "The same, so YES", "Yes and no", "", '{"answer": "NO"}', '{"answer": "MAYBE so"}']
        ),
        st.text(max_size=30),
    ),
    finish=st.sampled_from(["stop", "length", "content_filter"]),
    refusal=st.sampled_from([None, "", "I had rather not"]),
    odds=st.sampled_from([(), (("YES", -0.5), ("NO", -1.0)), (("Hm", -0.1),)]),
    decision=st.sampled_from(list(PARSERS)),
)
def test_a_redacted_answer_parses_as_the_original(
    said: str, finish: str, refusal: str | None, odds: tuple[tuple[str, float], ...], decision: Decision
) -> None:
    def read(completion: Completion) -> Reading:
        return read_answer(completion, PROMPT, decision=decision)

    outcome = Completion(said, finish, "m", 1, 1, refusal=refusal, top_logprobs=odds)
    hidden = redact(replace(an_entry(), outcome=outcome), read=read, labels=PROMPT.labels)
    assert isinstance(hidden.outcome, Completion)
    assert repr(read(hidden.outcome)) == repr(read(outcome))
    assert hidden.redacted
    allowed = [*PROMPT.labels, *(f'{{"answer":"{label}"}}' for label in PROMPT.labels)]
    assert hidden.outcome.text in allowed or re.fullmatch("sha256:[0-9a-f]{64}", hidden.outcome.text)


def test_an_answer_in_the_store_is_not_replaced(tmp_path: Path) -> None:
    output, stored, new = an_entry(0, "NO"), an_entry(0), an_entry(1)
    write_cassette(tmp_path / "c.jsonl", Cassette((), {output.request_hash: output, new.request_hash: new}))
    with open_store(tmp_path / "v.db") as store:
        store.add(stored.request_hash, stored.outcome)
    done = import_cassette(tmp_path / "c.jsonl", tmp_path / "v.db")
    assert (done.n_added, done.n_kept) == (1, 1)
    with open_store(tmp_path / "v.db") as store:
        assert store.answers([stored.request_hash])[stored.request_hash].text == "YES"
