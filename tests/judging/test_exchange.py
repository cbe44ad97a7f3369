"""Test that a plan exported to files and answered elsewhere ranks like the directly judged run."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from commands import Ended, Youden, wire_judge, write_config, write_small_run
from judged import NOWHERE, dense_plan, judge_config
from small_pools import make_pool
from toy_engine import answer_parquet, decide, lines_of, result_line, run_batch
from wire_server import Reply, WireServer
from youden import cli
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.judging.call.failures import CallError
from youden.judging.offline.answer_files import find_answer_files, iter_result_rows
from youden.judging.offline.exporting import RequestTable, export_requests, hashes_to_bytes
from youden.judging.offline.lines import parse_outcome
from youden.judging.store.answers import open_store
from youden.types import Completion

TABLES = ("ranking.csv", "scores.csv", "scores_row.csv", "items.csv", "signature.json")
JUDGE = {"backend": "wire", "model": "m", "base_url": NOWHERE, "api_key_env": None, "price_in": 3, "price_out": 3}


@pytest.fixture(scope="module")
def exported_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with c.yaml, its pool and its export x."""
    place = tmp_path_factory.mktemp("exported")
    write_small_run(place, "c", judge=JUDGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert (
            CliRunner().invoke(cli.youden, ["plan", "c.yaml", "--export", "x"], catch_exceptions=False).exit_code == 0
        )
    return place


@pytest.fixture
def exported_folder(exported_once: Path, tmp_path: Path) -> Path:
    """Copy the folder of `exported_once`."""
    shutil.copytree(exported_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


def answer(export: Path, *, decide: Any = decide) -> list[Path]:
    """Write the toy engine's answers to an export next to it."""
    created = []
    for requests in sorted(export.glob("requests-*")):
        results = requests.with_name(requests.name.replace("requests", "answers"))
        if requests.suffix == ".parquet":
            answer_parquet(requests, results)
        else:
            run_batch(requests, results, decide=decide)
        created.append(results)
    return created


def exported(youden: Youden, folder: str, config: str = "c.yaml", *more: str) -> Ended:
    ended = youden("plan", config, "--export", folder, "--json", *more)
    assert ended.code == 0, ended.err
    return ended


def imported(youden: Youden, *files: str | Path, config: str = "c.yaml", code: int = 0, slug: str = "") -> Ended:
    ended = youden("judge", config, "--import", *map(str, files))
    assert ended.code == code, ended.err
    assert ended.err.rstrip().endswith(f"[{slug}]" if slug else ""), ended.err
    return ended


def rewrite(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


def test_an_export_answered_by_any_engine_ranks_like_the_direct_run(
    youden: Youden, exported_folder: Path, server: WireServer
) -> None:
    server.behave = decide
    for name in ("direct", "jsonl", "parquet"):
        write_small_run(exported_folder, name, judge=wire_judge(server.url), store=f"{name}.db")
    assert youden("judge", "direct.yaml").code == 0
    assert youden("fit", "runs/direct").code == 0
    asked, direct = server.n_requests, pq.read_table(exported_folder / "runs/direct/verdicts.parquet")
    for form in ("jsonl", "parquet"):
        export = json.loads(exported(youden, f"in-{form}", f"{form}.yaml", "--format", form, "--shards", "3").out)[
            "export"
        ]
        assert (export["requests"], export["round"]) == (110, None)
        assert [Path(file).name for file in export["files"]] == [f"requests-{n}.{form}" for n in range(3)]
        imported(youden, *answer(exported_folder / f"in-{form}"), config=f"{form}.yaml")
        assert server.n_requests == asked
        assert youden("fit", f"runs/{form}").code == 0
        for table in TABLES:
            assert (exported_folder / "runs/direct" / table).read_bytes() == (
                exported_folder / "runs" / form / table
            ).read_bytes(), table
        there = pq.read_table(exported_folder / "runs" / form / "verdicts.parquet")
        assert there.drop(["usd", "seconds"]).equals(direct.drop(["usd", "seconds"]))
        metadata, metadata_of_direct = (json.loads(table.schema.metadata[b"youden"]) for table in (there, direct))
        assert metadata["paid"]["n_unknown"] == 110
        assert metadata | {"paid": metadata_of_direct["paid"]} == metadata_of_direct
        with open_store(exported_folder / f"{form}.db") as store:
            (judge,) = store.judges()
            assert (judge["model"], store.read_response_models(judge)) == ("m", ["m"])


def test_an_export_writes_all_requests_to_at_least_one_file(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        n_requests, files = export_requests(
            dense_plan(make_pool(3, 4)), config=judge_config(NOWHERE), store=store, folder=tmp_path / "x", shards=0
        )
    assert len(list(lines_of(files))) == n_requests > 0


def test_exported_lines_have_the_batch_format_and_parquet_describes_itself(
    youden: Youden, exported_folder: Path
) -> None:
    exported(youden, "columns", "c.yaml", "--format", "parquet")
    lines = list(lines_of([exported_folder / "x/requests-0.jsonl"]))
    rows = pq.read_table(exported_folder / "columns/requests-0.parquet")
    assert [line["custom_id"] for line in lines] == rows["request_hash"].to_pylist()
    assert [line["body"]["messages"] for line in lines] == rows["messages"].to_pylist()
    assert lines[0]["body"].keys() == {"model", "messages", "temperature", "max_tokens"}
    data = json.loads((exported_folder / "x/export.json").read_text())
    assert (data["version"], data["model"], data["parameters"]) == (2, "m", {"temperature": 0.0, "max_tokens": 8})
    assert data["judge"]["base_url"] == JUDGE["base_url"]
    assert json.loads(rows.schema.metadata[b"youden"]) == data | {"files": ["requests-0.parquet"]}
    assert pq.ParquetFile(exported_folder / "columns/requests-0.parquet").num_row_groups == 1
    imported(youden, "columns/requests-0.parquet", code=2, slug="import-columns")


def test_imported_answers_may_be_reordered_or_repeated_and_missing_ones_are_counted(
    youden: Youden, exported_folder: Path
) -> None:
    exported(youden, "two", "c.yaml", "--shards", "2")
    outcome, b = answer(exported_folder / "two")
    rewrite(outcome, lambda lines: random.Random(1).sample(lines * 2, 2 * len(lines)))
    rewrite(b, lambda lines: [*lines[:30], lines[30][:50]])
    short = imported(youden, b, outcome, code=1)
    assert "141 rows read: 85 answers added, 55 stored already" in short.err
    assert "1 row skipped: cut off" in short.err
    assert "the cost of imported answers is not known" in short.err
    assert "25 of the 110 trials have no answer yet" in short.err
    assert not (exported_folder / "runs/c/verdicts.parquet").exists()
    assert json.loads(exported(youden, "rest").out)["export"]["requests"] == 25
    last = youden("judge", "c.yaml", "--import", "two", *map(str, answer(exported_folder / "rest")), "--json")
    assert last.code == 0, last.err
    assert "25 answers added" in last.err
    assert json.loads(last.out)["calls"]["usd"] is None
    again = imported(youden, "rest")
    assert "0 answers added, 25 stored already" in again.err
    assert "their cost is unknown" in again.err
    assert "every request has an answer" in exported(youden, "none").err
    assert not (exported_folder / "none").exists()
    assert "of its requests have an unknown cost" in again.err
    youden("run", "c.yaml", "--max-cost", "1").well()
    assert "unknown: some were imported, or have no price" in (exported_folder / "runs/c/report.html").read_text()


def test_export_overwrites_no_existing_file(youden: Youden, exported_folder: Path) -> None:
    (answers,) = answer(exported_folder / "x")
    imported(youden, answers)
    before = (exported_folder / "runs/c/verdicts.parquet").read_bytes()
    run_batch(exported_folder / "x/requests-0.jsonl", answers, decide=lambda *_: Reply("NO"))
    assert "0 answers added, 110 stored" in imported(youden, answers).err
    assert (exported_folder / "runs/c/verdicts.parquet").read_bytes() == before
    taken = youden("plan", "c.yaml", "--export", "x")
    assert (taken.code, "[export-not-empty]" in taken.err) == (2, True)


def test_unknown_keys_are_refused_named_and_counted(youden: Youden, exported_folder: Path) -> None:
    (answers,) = answer(exported_folder / "x")
    body = next(lines_of([exported_folder / "x/requests-0.jsonl"]))["body"]
    strange = ["f" * 64, "\x1b[31m" + "0" * 62, "short", ""]
    rewrite(answers, lambda lines: [result_line(key, body, Reply("YES")) for key in strange] + lines)
    ended = imported(youden, answers)
    assert "4 rows skipped: not a request" in ended.err
    assert "f" * 64 in ended.err
    assert "\x1b" not in ended.err
    assert n_kept(exported_folder) == 110


def n_kept(here: Path) -> int:
    with open_store(here / ".youden/answers.db") as store:
        return len(store)


def test_import_refuses_answers_of_another_judge_and_skips_requests_of_another_plan(
    youden: Youden, exported_folder: Path
) -> None:
    (answers,) = answer(exported_folder / "x")
    write_small_run(exported_folder, "d", judge=JUDGE | {"model": "n"})
    assert "Pass the config" in imported(youden, answers, config="d.yaml", code=2, slug="import-other-plan").err
    assert n_kept(exported_folder) == 0
    write_small_run(exported_folder, "e", judge=JUDGE, seed=3)
    ended = youden("judge", "e.yaml", "--import", str(answers))
    assert ended.code == 1
    refused = re.search(r"(\d+) rows? skipped: not a request", ended.err)
    assert refused is not None
    assert n_kept(exported_folder) == 110 - int(refused[1]) > 0


@pytest.mark.parametrize(
    ("name", "content", "slug"),
    [
        ("y/a.parquet", b"PAR1 and no more", "import-unreadable"),
        ("y/a.jsonl", b"no json\n\xff\n", "import-nothing"),
        ("y/a.jsonl", b"", "import-nothing"),
        ("y/requests-0.jsonl", None, "import-nothing"),
        ("y/export.json", b"{}", "import-no-file"),
    ],
)
def test_files_without_answers_are_refused(
    youden: Youden, exported_folder: Path, name: str, content: bytes | None, slug: str
) -> None:
    (exported_folder / "y").mkdir()
    (exported_folder / name).write_bytes(
        (exported_folder / "x/requests-0.jsonl").read_bytes() if content is None else content
    )
    imported(youden, exported_folder / "y" if slug == "import-no-file" else exported_folder / name, code=2, slug=slug)


HOSTILE: list[dict[str, Any]] = [
    {"text": 7},
    {"text": "\ud800".encode("utf-8", "surrogatepass")},
    {"text": ["YES"]},
    {"tokens_in": -5, "tokens_out": 10**15},
    {"tokens_in": 10**9},
    {"model": 3.5, "finish_reason": [1]},
    {"top_logprobs": [{"token": "YES", "logprob": 800.0}]},
    {"top_logprobs": [{"token": "YES", "logprob": float("nan")}]},
    {"top_logprobs": "YES"},
    {"text": None},
    {"text": None, "error": "the engine died\x1b[31m"},
    {"text": "=cmd()</first-1><script>"},
    {"request_hash": 5},
]


@pytest.mark.slow
def test_hostile_rows_are_stored_as_replies_or_counted_as_no_answer(youden: Youden, exported_folder: Path) -> None:
    """Hostile rows are treated like replies, and valid rows between them are stored."""
    exported(youden, "columns", "c.yaml", "--format", "parquet")
    answer_parquet(exported_folder / "columns/requests-0.parquet", exported_folder / "all.parquet")
    good = pq.read_table(exported_folder / "all.parquet")
    for n, hostile in enumerate(HOSTILE):
        bad = {"request_hash": good["request_hash"][n].as_py(), "text": "YES"} | hostile
        arrays = {
            name: pa.array([value], pa.binary()).cast(pa.string(), safe=False)
            if isinstance(value, bytes)
            else pa.array([value])
            for name, value in bad.items()
        }
        pq.write_table(pa.table(arrays), exported_folder / "bad.parquet")
        pq.write_table(good.slice(len(HOSTILE) + n, 1), exported_folder / "good.parquet")
        ended = youden("judge", "c.yaml", "--import", "bad.parquet", "good.parquet", "--max-missing", "1", "--json")
        assert ended.code in (1, 2), (hostile, ended.err)
        assert "Traceback" not in ended.err, hostile
        assert "\x1b" not in ended.err, hostile
        beside = good["request_hash"][len(HOSTILE) + n].as_py()
        with open_store(exported_folder / ".youden/answers.db") as store:
            kept = store.answers([bad["request_hash"]]) if isinstance(bad["request_hash"], str) else {}
            assert ended.code == 2 or store.answers([beside]), hostile
        for outcome in kept.values():
            assert isinstance(outcome.text, str), hostile
            assert 0 <= outcome.tokens_in <= 10_000_000, hostile
            assert all(logprob <= 0 for _, logprob in outcome.top_logprobs), hostile


def test_failures_are_stored_like_those_of_calls_and_resent_if_transient(youden: Youden, exported_folder: Path) -> None:
    odd = {4: Reply(status=400), 5: Reply(status=500), 6: Reply("Hm."), 7: Reply(status=404)}
    (answers,) = answer(exported_folder / "x", decide=lambda n, body: odd.get(n) or decide(n, body))
    short = youden("judge", "c.yaml", "--import", str(answers), "--max-missing", "0.1")
    assert short.code == 1
    assert "1 of the 110 trials has no answer yet" in short.err
    assert re.search(r"2 failures, such as: HTTP [45]00: ", short.err)
    assert "1 row skipped: the engine could not send the request; the first: HTTP 404" in short.err
    repeated = youden("judge", "c.yaml", "--import", str(answers), "--max-missing", "0.1")
    assert "110 rows read: 0 answers added, 108 stored already, 1 failure" in repeated.err
    assert json.loads(exported(youden, "rest").out)["export"]["requests"] == 2
    complete = youden(
        "judge", "c.yaml", "--import", *map(str, answer(exported_folder / "rest")), "--max-missing", "0.1", "--json"
    )
    assert complete.code == 0, complete.err
    calls = json.loads(complete.out)["calls"]
    assert sum(sum(calls[f"missing_{trial_type}"].values()) for trial_type in ("paired", "independent")) == 2


def test_an_engine_that_rejects_everything_is_an_error_that_stores_no_rejection(
    youden: Youden, exported_folder: Path
) -> None:
    imported(
        youden, *answer(exported_folder / "x", decide=lambda *_: Reply(status=400)), code=2, slug="import-rejected"
    )
    assert json.loads(exported(youden, "again").out)["export"]["requests"] == 110


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "c.yaml", "--shards", "2"),
        ("judge", "c.yaml", "x.jsonl"),
        ("judge", "c.yaml", "--import", "x.jsonl", "--mode", "batch"),
        ("judge", "c.yaml", "--import", "x.jsonl", "--retry-failed"),
        ("judge", "c.yaml", "--import", "nowhere"),
    ],
)
def test_options_without_effect_are_refused(youden: Youden, exported_folder: Path, words: tuple[str, ...]) -> None:
    (exported_folder / "x.jsonl").write_text("")
    assert youden(*words, "--out", "new").code == 2
    assert not (exported_folder / "new").exists()


def test_a_judge_without_calls_has_no_requests_to_export(youden: Youden, exported_folder: Path) -> None:
    write_config(exported_folder / "l.yaml", pool="pool", calls=110)
    (exported_folder / "a.jsonl").write_text("{}")
    for words in (("plan", "l.yaml", "--export", "y"), ("judge", "l.yaml", "--import", "a.jsonl")):
        ended = youden(*words)
        assert (ended.code, "[export-no-calls]" in ended.err) == (2, True)


def test_a_jury_is_exported_judge_by_judge(youden: Youden, exported_folder: Path) -> None:
    members = [{"backend": "lexical"}, *(JUDGE | {"name": name, "model": name} for name in "ab")]
    write_small_run(exported_folder, "j", judge={"backend": "jury", "judges": members, "vote": "mean"})
    assert json.loads(exported(youden, "jury", "j.yaml").out)["export"]["requests"] == 220
    created = [*answer(exported_folder / "jury/judge-1"), *answer(exported_folder / "jury/judge-2")]
    imported(youden, created[0], config="j.yaml", code=1)
    assert "110 answers added, 110 stored" in imported(youden, "jury", config="j.yaml").err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_agents", "more"),
    [
        (7, {"calls": 800, "half_width": 0.12}),
        (7, {"calls": 800, "design": "adaptive", "options": {"top": 1}}),
        (14, {"calls": 400, "follow_up_fraction": 0.5}),
    ],
)
def test_plans_in_rounds_are_exported_and_imported_one_round_at_a_time(
    youden: Youden, tmp_path: Path, server: WireServer, n_agents: int, more: dict[str, Any]
) -> None:
    server.behave = decide
    write_pool(make_pool(n_agents, 60), tmp_path / "pool")
    judge = wire_judge(server.url)
    for name in ("direct", "elsewhere"):
        store = f"{name}.db"
        write_config(tmp_path / f"{name}.yaml", pool="pool", independent="pooled:40", judge=judge, store=store, **more)
    assert youden("judge", "direct.yaml").code == 0
    answers: list[str] = []
    asked, ended = server.n_requests, Ended(1, "", "no answer yet")
    while ended.code:
        assert "no answer yet" in ended.err
        folder = f"x{len(answers)}"
        assert f"this is round {len(answers) + 1}:" in exported(youden, folder, "elsewhere.yaml").err
        answers += map(str, answer(tmp_path / folder))
        ended = youden("judge", "elsewhere.yaml", "--import", answers[-1])
    assert "every request has an answer" in exported(youden, "none", "elsewhere.yaml").err
    assert len(answers) > 1
    assert server.n_requests == asked
    outcome, b = (RunFolder(tmp_path / "runs" / name) for name in ("direct", "elsewhere"))
    assert outcome.read_plan().digest == b.read_plan().digest
    np.testing.assert_array_equal(
        outcome.read_verdicts(outcome.read_plan()).answer, b.read_verdicts(b.read_plan()).answer
    )
    shutil.rmtree(tmp_path / "runs/elsewhere")
    (tmp_path / "elsewhere.db").unlink()
    at_once = youden("judge", "elsewhere.yaml", "--import", *reversed(answers), "--json")
    assert at_once.code == 0, at_once.err
    assert f"{asked:,} answers added, 0 stored already" in at_once.err


def test_an_extended_run_exports_only_new_requests_and_imports_the_first_answers(
    youden: Youden, exported_folder: Path
) -> None:
    first = answer(exported_folder / "x")
    imported(youden, *first)
    write_pool(make_pool(5, 12), exported_folder / "more")
    extended = "extensions: [{items: more, calls: 60}]\n"
    (exported_folder / "c.yaml").write_text((exported_folder / "c.yaml").read_text() + extended)
    assert json.loads(exported(youden, "y").out)["export"]["requests"] > 0
    assert "110 stored already" in imported(youden, *first, *answer(exported_folder / "y")).err


def test_request_summaries_equal_those_parsed_from_the_requests() -> None:
    """Compared with a naive computation, for truncated texts and multi-byte characters."""
    pool = make_pool(4, 10)
    texts = pool.texts.copy()
    texts[1, :] = "agent 1 says žluťoučký kůň 🐎 " * 6
    texts[2, :3] = texts[3, :3]
    pool = replace(pool, texts=texts)
    plan = dense_plan(pool, repeat=2)
    config = judge_config(NOWHERE, context_window=260, truncate="middle", max_tokens=8)
    questions = config.questions()
    assert 0 < questions.truncated_rows(plan).sum() < len(plan)
    asked = RequestTable.from_plan(config, plan)
    slow = {key: request for _, key, request in questions.iter_requests(plan)}
    names = [asked.get_key(at) for at in range(len(asked.request_hashes))]
    assert set(names) == set(slow)
    for at, characters in enumerate(asked.characters.tolist()):
        messages = slow[names[at]].messages
        assert (characters, asked.n_messages) == (sum(len(outcome.content) for outcome in messages), len(messages))
    keys = [bytes.fromhex(key) for _, key, _ in questions.iter_requests(plan)]
    places = asked.find(hashes_to_bytes([keys[5].hex(), "none", "0" * 64, keys[0].hex().upper()])).tolist()
    assert [asked.request_hashes[at] for at in (places[0], places[3])] == [keys[5], keys[0]]
    assert places[1:3] == [-1, -1]
    assert asked.find(hashes_to_bytes([key.hex() for key in keys[:3]])).tolist() == [
        names.index(key.hex()) for key in keys[:3]
    ]


@pytest.mark.parametrize("key", ["", "f" * 63, "f" * 62 + "  ", " " * 64, "ž" * 64, 5, None, b"f" * 64])
def test_an_invalid_hash_becomes_an_empty_one(key: object) -> None:
    good = "0a" * 32
    assert hashes_to_bytes([good, key, good]).tolist() == [b"\n" * 32, b"", b"\n" * 32]


ODD: list[dict[str, Any]] = [
    {},
    {"prompt_tokens": True},
    {"prompt_tokens": 1.0},
    {"prompt_tokens": 1},
    {"prompt_tokens": None},
    {"completion_tokens": "1"},
    {"content": None},
    {"content": "NO"},
    {"content": ["YES"]},
    {"content": "ž" * 300},
    {"refusal": "no"},
    {"model": None},
    {"finish_reason": "length"},
    {"system_fingerprint": "fp"},
    {"system_fingerprint": 7},
    {"logprobs": {"content": [{"token": "YES", "top_logprobs": [{"token": "YES", "logprob": -0.1}]}]}},
    {"status_code": 500},
    {"status_code": True},
    {"choices": []},
    {"choices": "YES"},
    {"usage": []},
]


def test_a_row_equal_to_an_earlier_one_is_parsed_as_if_alone(tmp_path: Path) -> None:
    """Equal answers are validated once, and similar ones are not treated as equal."""
    dice = random.Random(0)
    results = [odd_result(dice.choice(ODD)) for _ in range(400)]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps({**outcome, "custom_id": str(n)}) + "\n" for n, outcome in enumerate(results)))
    read = [row for rows in iter_result_rows(path) for row in rows]
    assert [row.key for row in read] == [str(n) for n in range(400)]
    assert [comparable(row.outcome) for row in read] == [comparable(parse_outcome(outcome)) for outcome in results]


def test_a_parquet_row_equal_to_an_earlier_one_is_parsed_as_if_alone(tmp_path: Path) -> None:
    dice = random.Random(0)
    texts, models, counts = ["YES", "NO", None, "ž" * 300], ["m", "", None], [1, 0, None, -1]
    rows = [
        (dice.choice(texts), dice.choice(models), dice.choice(counts), dice.choice(["", None, "full"]))
        for _ in range(40)
    ]
    names = ("text", "model", "tokens_in", "error")
    columns = {name: [row[n] for row in rows] for n, name in enumerate(names)}
    pq.write_table(pa.table({"request_hash": [str(n) for n in range(len(rows))], **columns}), tmp_path / "all.parquet")
    alone = []
    for n, row in enumerate(rows):
        arrays = [pa.array([value], type) for value, type in zip(row, KINDS, strict=True)]
        pq.write_table(
            pa.table({"request_hash": [str(n)], **dict(zip(names, arrays, strict=True))}), tmp_path / "one.parquet"
        )
        alone += [outcome for many in iter_result_rows(tmp_path / "one.parquet") for outcome in many]
    together = [outcome for many in iter_result_rows(tmp_path / "all.parquet") for outcome in many]
    assert [(row.key, comparable(row.outcome)) for row in together] == [
        (row.key, comparable(row.outcome)) for row in alone
    ]
    answered = [text is not None and error != "full" for text, _, _, error in rows]
    assert [isinstance(row.outcome, Completion) for row in together] == answered


KINDS = (pa.string(), pa.string(), pa.int64(), pa.string())


def odd_result(changes: dict[str, Any]) -> dict[str, Any]:
    def changed_fields(**usual: Any) -> dict[str, Any]:
        return {name: changes.get(name, value) for name, value in usual.items()}

    message = changed_fields(content="YES", refusal=None)
    choice = {"message": message, **changed_fields(finish_reason="stop", logprobs=None)}
    usage = changes.get("usage", changed_fields(prompt_tokens=1, completion_tokens=1))
    body = {**changed_fields(choices=[choice], model="m", system_fingerprint=None), "usage": usage}
    return {"response": {**changed_fields(status_code=200), "body": body}}


def comparable(outcome: Completion | CallError | None) -> object:
    return (outcome.kind, outcome.reason, outcome.status) if isinstance(outcome, CallError) else outcome


def test_an_endless_line_does_not_fill_memory(
    youden: Youden, exported_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (answers,) = answer(exported_folder / "x")
    monkeypatch.setattr("youden.judging.offline.answer_files.MAX_REPLY_BYTES", 1000)
    rewrite(answers, lambda lines: ["x" * 2000 + result_line("f" * 64, {"model": "m"}, Reply("YES")), *lines])
    ended = imported(youden, answers)
    assert "1 row skipped: cut off" in ended.err
    assert "refused" not in ended.err


def test_a_byte_order_mark_is_not_part_of_the_first_line(youden: Youden, exported_folder: Path) -> None:
    (answers,) = answer(exported_folder / "x")
    answers.write_bytes(b"\xef\xbb\xbf" + answers.read_bytes())
    assert "110 answers added" in imported(youden, answers).err


def test_files_of_answers_with_a_suffix_in_upper_case_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.JSONL").touch()
    assert find_answer_files([tmp_path]) == [tmp_path / "a.JSONL"]
