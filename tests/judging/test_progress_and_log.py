"""Test the progress line and the log of a run, and that no secret is written or printed."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from commands import Youden, everything_in, wire_judge, write_config, write_pool_table
from judged import KEY, NOWHERE, each_backend, model_at
from postgres import Cluster
from scripted import Clock
from unruly_server import Body, Sent, UnrulyServer, reply_to, sent
from wire_server import Reply, in_a_thread, running
from youden.errors import ConfigError
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError
from youden.judging.call.reply import validate_completion
from youden.judging.call.secrets import MIN_SECRET_CHARACTERS
from youden.judging.scheduler.progress_log import ProgressLog
from youden.progress_bar import ProgressBar, Tally
from youden.types import Completion

WORD = "pässword-planted"


def test_the_progress_line_has_rate_answers_failures_429s_cost_and_remaining_time() -> None:
    tally = Tally("judging", 1000, 0.0, done=300, cached=100, throttled=7, usd=0.5)
    tally.failed = Counter(refused=2, unparsed=1)
    assert tally.format_line(10.0) == (
        "judging: 300 of 1,000, 20/s, 297 answered, 100 from the store, 3 failed (2 refused, 1 unparsed), 7 × 429, "
        "$0.5000, 0:35 left"
    )
    assert Tally("judging", 10, 0.0).format_line(0.0) == "judging: 0 of 10, 0 answered"


def test_requests_that_are_too_long_do_not_count_as_answered_from_the_store() -> None:
    out = io.StringIO()
    log = ProgressLog(ProgressBar(Console(file=out, width=200), clock=Clock()))
    log.start(9, what="judging")
    log.advance(4, stored=True)
    log.advance(5, outcome="not_asked", stored=True)
    log.stop()
    assert "4 answered, 4 from the store, 5 failed (5 not_asked)" in out.getvalue()


def test_without_a_terminal_plain_lines_are_printed_at_intervals_and_at_the_end() -> None:
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(Console(file=out, width=40), clock=clock)
    bar.start(100, what="judging")
    for n in range(50):
        clock.now = n
        bar.advance(2, usd=0.01, failed=n == 3, reason="refused")
    bar.throttled()
    bar.stop()
    bar.stop()
    lines = out.getvalue().splitlines()
    assert len(lines) == 3, "after 10 s, after 20 s more, and at the end"
    assert "\x1b" not in out.getvalue()
    assert lines[-1] == "judging: 100 of 100, 2/s, 99 answered, 1 failed (1 refused), 1 × 429, $0.5000, in 0:49"


def test_ten_hours_of_progress_are_one_page_of_log_lines() -> None:
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(Console(file=out, force_terminal=True, force_interactive=False), clock=clock)
    bar.start(36_000, what="judging")
    for n in range(36_000):
        clock.now = n
        bar.advance()
    bar.stop()
    assert len(out.getvalue().splitlines()) < 70
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("width", [120, 80, 50, 30])
def test_on_a_terminal_a_one_line_bar_is_shown_and_its_last_line_remains(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(Console(file=out, force_terminal=True, width=width), clock=clock)
    bar.start(1000, what="judging")
    for n in range(1, 1001):
        clock.now = 60.0 * n / 1000
        bar.advance(1, usd=0.001, failed=n % 100 == 0, reason="refused")
    bar.stop()
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "\r", out.getvalue())
    drawn, _, last = text.rpartition("\r")
    assert last == "judging: 1,000 of 1,000, 17/s, 990 answered, 10 failed (10 refused), $1.0000, in 1:00\n"
    assert max(map(len, re.split(r"[\r\n]", drawn))) <= width
    assert width == 30 or "$" in drawn
    assert "\x1b[3" not in out.getvalue(), "no color"


def test_the_log_has_one_object_per_line_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    for n in range(2):
        with ProgressLog(None, path, now=lambda: 12.3456) as log:
            log.write_event("call", n=n)
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [
        {"time": 12.346, "event": "call", "n": n} for n in range(2)
    ]
    with pytest.raises(ConfigError, match="--log"):
        ProgressLog(None, tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has this device, which is always full")
def test_a_log_on_a_full_disk_is_named_and_hides_no_other_error() -> None:
    path = Path("/dev/full")

    def write_and_fail() -> None:
        with ProgressLog(None, path) as log:
            log.write_event("call")
            raise KeyError

    full = r"/dev/full cannot be written \(No space left.*\[log-unwritable\]"
    with pytest.raises(ConfigError, match=full), ProgressLog(None, path) as log:
        log.write_event("call")
    with pytest.raises(KeyError):
        write_and_fail()


def quoting(n: int, body: Any) -> Reply:
    """Return a server that quotes requests in its error messages."""
    output = f"your header was Bearer {KEY} and your password {WORD}"
    if n % 10 == 3:
        return Reply(status=400, error={"message": output, "code": output})
    return Reply(status=503, error={"message": output}) if n % 10 == 7 else Reply("YES")


@pytest.mark.parametrize("way", ["key", pytest.param("url", marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", each_backend("openai"))
def test_no_key_header_or_url_credential_is_in_store_log_run_folder_report_or_output(
    *,
    youden: Youden,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    backend: str,
    way: str,
) -> None:
    if (backend, way) == ("litellm", "url"):
        pytest.skip("litellm sends no credentials of a URL, and says so")
    with in_a_thread(quoting) as server:
        caplog.set_level(logging.DEBUG)
        judge = wire_judge(server.url, backend=backend, model=model_at(backend), price=1, api_key_env="OPENAI_API_KEY")
        if way == "key":
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
        else:
            judge |= {"base_url": server.url.replace("://", "://me:p%C3%A4ssword-planted@"), "api_key_env": None}
            monkeypatch.setenv("SOME_TOKEN", KEY)
        write_pool_table(tmp_path / "mine.csv", n_agents=4, n_items=8)
        write_config(tmp_path / "mine.yaml", pool="mine.csv", judge=judge, max_cost=1.0, max_missing=0.5)
        ended = youden("run", "mine.yaml", "--log", "out/log.jsonl", "--out", "out")
        assert ended.code == 0, ended.err
        assert "failed" in ended.err
        monkeypatch.setattr(server, "behave", lambda n, body: Reply(status=401, error={"message": KEY + WORD}))
        stopped = youden("judge", "mine.yaml", "--retry-failed", "--log", "out/log.jsonl", "--out", "out")
        assert (stopped.code, "judge-key" in stopped.err) == (2, True)
        sent = server.headers[0]["Authorization"]
        assert sent == f"Bearer {KEY}" if way == "key" else sent.startswith("Basic ")
        written = everything_in(tmp_path / "out")
        output = "".join((ended.out, ended.err, stopped.out, stopped.err, caplog.text)).encode() + written
        for secret in (KEY, sent.partition(" ")[2], WORD, "p%C3%A4ssword-planted"):
            assert secret.encode() not in output or (secret == WORD and way == "key"), secret
        lines = (tmp_path / "out" / "log.jsonl").read_text(encoding="utf-8").splitlines()
        assert {json.loads(line)["event"] for line in lines} == {"start", "call", "failure", "first_failure", "stop"}
        assert b"***" in written


def _echo(field: str, secret: str, body: Body) -> Sent:
    """Return a valid answer with a secret in `field`."""
    reply = reply_to(body, said="YES")
    choice, output = reply["choices"][0], f"YES ({secret})"
    match field:
        case "content" | "refusal":
            choice["message"][field] = output
        case "long model":
            reply["model"] = f"{'m' * 195}{secret}"
        case "json":
            choice["message"]["content"] = f"YES {json.dumps(secret)}"
        case "url":
            choice["message"]["content"] = f"YES https://host/?key={quote(secret, safe='')}"
        case "base64":
            choice["message"]["content"] = f"YES {base64.b64encode(f'me:{secret}'.encode()).decode()}"
        case "finish_reason":
            choice[field] = output
        case "token":
            choice["logprobs"]["content"][0]["top_logprobs"][1]["token"] = secret
        case "model" | "system_fingerprint":
            reply[field] = output
        case "header":
            return sent(reply, headers={"X-Quoted": secret, "Set-Cookie": f"a={secret}"})
        case "error":
            return Sent(json.dumps({"error": {"message": f"{output}{'.' * 400}", "code": output}}).encode(), status=400)
        case "inside":
            return Sent(json.dumps({"error": {"message": output, "code": 400, "type": output}}).encode())
    return sent(reply)


ECHOES = (
    *("content", "refusal", "long model", "json", "url", "base64", "finish_reason", "token", "model"),
    *("system_fingerprint", "header", "error", "inside"),
)


SECRETS = (
    'sk-"planted"/+of-the-run',
    "another-planted-token",
    r"back\slash\no\tplanted",
    "pässwörd-plänted",
    "planted with spaces",
    "per%cent%41planted",
    "reg.ex*(planted)[+]?$",
    "${planted}`and`$HOME",
    "秘密の鍵をここに植えました",
    "<b>planted&amp;</b>",
    "01234567890123456789",
)


def _tables(folder: Path) -> str:
    """Return the values in columnar files."""
    return "".join(str(pq.read_table(path).to_pydict()) for path in folder.rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", each_backend("wire"))
def test_secrets_repeated_in_an_answer_are_stored_nowhere(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Cluster, backend: str
) -> None:
    secrets = (*SECRETS, Cluster.PASSWORD)

    def quoting_all(n: int, _key: str, body: Body) -> Sent:
        return _echo(ECHOES[n % len(ECHOES)], secrets[n // len(ECHOES) % len(secrets)], body)

    url = postgres.new()
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS[0])
    for number, secret in enumerate(SECRETS[1:]):
        monkeypatch.setenv(f"SOME_{number}_TOKEN", secret)
    with running(UnrulyServer(quoting_all)) as server:
        judge = wire_judge(
            server.url,
            backend=backend,
            model=model_at(backend),
            price=1,
            api_key_env="OPENAI_API_KEY",
            max_tries=1,
        )
        write_pool_table(tmp_path / "mine.csv", n_agents=4, n_items=12)
        write_config(tmp_path / "mine.yaml", pool="mine.csv", judge=judge, max_cost=1.0, max_missing=0.5)
        words = ("--store", url, "--log", "log.jsonl", "--out", "out")
        ended = [youden("run", "mine.yaml", *words)]
    assert (ended[0].code, server.n_requests >= len(secrets) * len(ECHOES)) == (0, True), ended[0].err
    monkeypatch.setenv("YOUDEN_STORE", url)
    ended += [youden("report", "out"), youden("cassette", "export", "out", "--out", "c.jsonl")]
    ended += [youden("cassette", "export", "out", "--out", "redacted.jsonl", "--redact")]
    ended += [youden("export", "out", "tables.csv"), youden("export", "out", "eee", "--format", "eee")]
    assert [run.code for run in ended] == [0] * len(ended), ended
    with psycopg.connect(url) as connection:
        stored = [connection.execute(f"SELECT * FROM youden.{name}").fetchall() for name in ("answers", "failures")]
    texts = [*(run.out + run.err for run in ended), _tables(tmp_path), str(stored)]
    output = "".join(texts).encode() + everything_in(tmp_path)
    assert b"***" in output
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""), repr(secret)[1:-1]):
            assert form.encode() not in output, form
        for before in (b"", b":", b"me:"):
            assert base64.b64encode(before + secret.encode())[5:17] not in output, secret


COMMANDS: dict[str, tuple[str, ...]] = {
    "a store's URL": ("judge", "r.yaml", "--store", "postgresql://me:{url}@127.0.0.1:9/d"),
    "its parameter": ("judge", "r.yaml", "--store", "postgresql://me@127.0.0.1:9/d?password={url}"),
    "an option in one word": ("judge", "r.yaml", "--store=postgresql://me:{url}@127.0.0.1:9/d"),
    "a word too many": ("judge", "r.yaml", "postgresql://me:{url}@127.0.0.1:9/d"),
    "no command": ("postgresql://me:{url}@127.0.0.1:9/d",),
    "no option": ("judge", "r.yaml", "--no-such=postgresql://me:{url}@127.0.0.1:9/d"),
    "a connection string": ("judge", "r.yaml", "--store", "host=h user=me password='{quoted}' dbname=d"),
    "a copy": ("store", "copy", "postgresql://me:{url}@127.0.0.1:9/d", "here.db"),
    "the environment": ("judge", "r.yaml"),
    "PGPASSWORD": ("judge", "r.yaml", "--store", "postgresql://me@127.0.0.1:9/d"),
    "the config's store": ("judge", "store.yaml"),
    "a judge's URL": ("judge", "judge.yaml", "--store", "here.db", "--log", "log.jsonl"),
}


@pytest.mark.slow
@pytest.mark.parametrize("where", COMMANDS)
def test_no_secret_of_a_command_url_or_environment_is_printed_or_written(
    where: str, youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    write_pool_table(tmp_path / "mine.csv", n_agents=4, n_items=8)
    for number, secret in enumerate((*SECRETS, WORD)):
        output = {"url": quote(secret, safe=""), "quoted": secret.replace("\\", r"\\").replace("'", r"\'")}
        judge = wire_judge(NOWHERE, max_tries=1, max_outage=0)
        address = f"http://me:{output['url']}@127.0.0.1:9/v1"
        place = f"postgresql://me:{output['url']}@127.0.0.1:9/d"
        for name, changes in (
            ("r", {}),
            ("judge", {"judge": judge | {"base_url": address}}),
            ("store", {"store": place}),
        ):
            keys = {"pool": "mine.csv", "judge": judge, "calls": 40, "out": f"runs/{number}", **changes}
            write_config(tmp_path / f"{name}.yaml", **keys)
        if where == "PGPASSWORD":
            monkeypatch.setenv("PGPASSWORD", secret)
        if where == "the environment":
            monkeypatch.setenv("YOUDEN_STORE", place)
        ended = youden(*(word.format(**output) for word in COMMANDS[where]))
        assert ended.code in (1, 2), ended.err
        for config in ("judge.yaml", "store.yaml"):
            (tmp_path / config).unlink()  # in the file in which the user wrote it
        result = (ended.out + ended.err + caplog.text).encode() + everything_in(tmp_path)
        for form in (secret, output["url"], json.dumps(secret)[1:-1], repr(secret)[1:-1]):
            assert form.encode() not in result, (form, ended.err)
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("said", ["YES", "NO. The word is YES", '{"answer": "YES"}', "same source"])
def test_a_password_equal_to_a_word_of_answers_changes_no_answer(said: str) -> None:
    Connection(
        "judge",
        "http://host/v1",
        1.0,
        api_key=said[: MIN_SECRET_CHARACTERS - 1],
        secrets=("YES", "NO", "answer", "source"),
    )
    assert validate_completion(Completion(said, "stop", "m", 1, 1)).text == said


def test_an_error_shows_no_secret_of_another_connection_of_the_process() -> None:
    Connection("judge", "http://host/v1", 1.0, api_key="kept-by-another-one")
    assert CallError(f"{'a' * 290}kept-by-another-one", kind="transient").reason == f"{'a' * 290}***"
