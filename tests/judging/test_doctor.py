"""Test `youden doctor` on usable and unusable judges."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from commands import Youden
from judged import ENVIRONMENT, KEY, judge_config
from wire_server import Reply, WireServer
from youden.judging.config import price_table
from youden.judging.config.judge_files import load_judge_config
from youden.judging.config.price_table import MAX_AGE_DAYS, PRICES
from youden.judging.doctor import STEPS, Diagnosis, diagnose

ROOT = Path(__file__).parents[2]
ODDS = {"content": [{"token": "YES", "logprob": -0.1, "top_logprobs": [{"token": "YES", "logprob": -0.1}]}]}


def diagnose_server(server: WireServer, environment: dict[str, str] | None = None, **changes: Any) -> Diagnosis:
    (diagnosis,) = diagnose(
        judge_config(server.url, **{"backend": "openai"} | changes),
        environment=ENVIRONMENT if environment is None else environment,
    )
    return diagnosis


def statuses(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.slug: finding.severity for finding in diagnosis.findings}


def message_of(diagnosis: Diagnosis, step: str) -> str:
    return next(finding.message for finding in diagnosis.findings if finding.slug == step)


def test_a_healthy_judge_takes_one_call(server: WireServer) -> None:
    server.behave = lambda _n, body: Reply("YES", logprobs=ODDS, model="m-2026-01-01")
    result = diagnose_server(server, price=10)
    assert statuses(result) == dict.fromkeys(STEPS, "ok")
    assert result.is_usable
    assert server.n_requests == 1
    assert "m-2026-01-01" in message_of(result, "model")
    assert "'YES' reads as 1" in message_of(result, "parse")
    assert "$0.001010" in message_of(result, "price")
    assert server.bodies[0]["logprobs"] is True


def test_a_model_that_rejects_log_probabilities_is_called_once_more_without_them(server: WireServer) -> None:
    server.behave = lambda _n, body: Reply(status=400) if "logprobs" in body else Reply("NO")
    result = diagnose_server(server)
    assert statuses(result) == dict.fromkeys(STEPS, "ok") | {"logprobs": "warning", "price": "warning"}
    assert result.is_usable
    assert server.n_requests == 2


def test_a_judge_that_decides_by_log_probabilities_requires_them(server: WireServer) -> None:
    server.behave = lambda *_: Reply("YES")
    result = diagnose_server(server, decision="logprobs")
    assert statuses(result)["logprobs"] == "failed"
    assert message_of(result, "logprobs") == "the model returns none. Set `decision: text` in the judge's config."
    assert not result.is_usable


def test_another_model_is_a_warning_and_an_unparsable_answer_a_failure(server: WireServer) -> None:
    server.behave = lambda _n, body: Reply("As an assistant I", model="other", finish_reason="length")
    result = diagnose_server(server)
    assert (statuses(result)["model"], statuses(result)["parse"]) == ("warning", "failed")
    assert "requested m, but other answers" in message_of(result, "model")
    assert "truncated" in message_of(result, "parse")
    assert not result.is_usable


@pytest.mark.parametrize(
    ("reply", "failed", "says"),
    [
        (Reply(status=401, error={"message": f"bad key {KEY}"}), "key", "bad key ***"),
        (Reply(status=404, error={"message": "no such model"}), "reach", "no such model"),
        (Reply(status=429, error={"message": "no quota", "code": "insufficient_quota"}), "reach", "Add credit"),
        (Reply(status=503), "reach", "503"),
        (Reply(fault="reset"), "reach", "sent no usable reply"),
        (Reply(fault="stall"), "reach", "No reply within 0.2 s"),
    ],
)
def test_a_failure_is_printed_once_without_secrets_and_later_steps_are_skipped(
    server: WireServer, reply: Reply, failed: str, says: str
) -> None:
    server.behave = lambda *_: reply
    result = diagnose_server(server, timeout=0.2 if reply.fault == "stall" else 60)
    assert says in message_of(result, failed)
    assert KEY not in repr(result)
    assert list(statuses(result)) == list(STEPS)
    after = STEPS[STEPS.index(failed) + 1 :]
    assert [statuses(result)[step] for step in after] == ["skipped"] * len(after)
    assert server.n_requests == 1


def test_without_a_key_no_request_is_sent(server: WireServer) -> None:
    result = diagnose_server(server, {})
    assert statuses(result) == {"key": "failed"} | dict.fromkeys(STEPS[1:], "skipped")
    assert "OPENAI_API_KEY" in message_of(result, "key")
    assert server.n_requests == 0


def test_a_judge_without_calls_passes_and_judges_of_a_jury_are_checked_one_by_one(server: WireServer) -> None:
    (lexical,) = diagnose(load_judge_config("lexical"), environment={})
    assert lexical.is_usable
    server.behave = lambda *_: Reply("YES")
    member = {"backend": "openai", "base_url": server.url, "api_key_env": None}
    jury = load_judge_config(
        {"backend": "jury", "judges": [*({**member, "model": name} for name in ("a", "b")), {"backend": "lexical"}]}
    )
    assert [diagnosis.judge for diagnosis in diagnose(jury, environment={})] == ["a", "b", "lexical"]
    assert server.n_requests == 2


@pytest.mark.parametrize(("reply", "code"), [(Reply("YES"), 0), (Reply(status=401), 2)])
def test_doctor_prints_every_step_and_its_exit_code_states_if_the_judge_is_usable(
    youden: Youden, server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reply: Reply, code: int
) -> None:
    server.behave = lambda *_: reply
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "mine.yaml").write_text(f"backend: openai\nmodel: m\nbase_url: {server.url}\n", encoding="utf-8")
    ended = youden("doctor", "mine.yaml")
    assert ended.code == code, ended.err
    assert [line.split()[1] for line in ended.out.splitlines()[1:]] == list(STEPS)
    as_json = youden("doctor", "mine.yaml", "--json")
    assert json.loads(as_json.out)["judges"][0]["usable"] is (code == 0)
    assert KEY not in ended.out + ended.err + as_json.out + as_json.err


def test_an_unknown_judge_is_an_input_error(youden: Youden) -> None:
    ended = youden("doctor", "gpt-4o-mimi")
    assert ended.code == 2
    assert "Did you mean 'gpt-4o-mini'" in ended.err


def set_price_date(monkeypatch: pytest.MonkeyPatch, *, age_days: int) -> None:
    """Use prices that were shipped with youden `age_days` days ago, as an installation without litellm does."""
    source = {"description": "a table", "date": (datetime.now(UTC) - timedelta(days=age_days)).date().isoformat()}
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "litellm_provider": "openai"}
    monkeypatch.setattr(price_table, "_load_price_table", lambda: {"source": source, "m": prices})


@pytest.mark.parametrize(("age_days", "severity"), [(MAX_AGE_DAYS, "ok"), (MAX_AGE_DAYS + 1, "warning")])
def test_shipped_prices_older_than_the_limit_are_a_warning(
    youden: Youden, monkeypatch: pytest.MonkeyPatch, age_days: int, severity: str
) -> None:
    set_price_date(monkeypatch, age_days=age_days)
    ended = youden("doctor")
    assert ended.code == 0
    assert f"prices: a table\n  {severity:<7}  the shipped prices are {age_days} days old\n" in ended.out
    assert ("Upgrade youden" in ended.out) == (severity == "warning")
    as_json = json.loads(youden("doctor", "--json").out)["prices"]
    assert as_json == {"source": "a table", "status": severity, "age_days": age_days}
    assert f"{MAX_AGE_DAYS} days" in " ".join(youden("doctor", "--help").out.split())


@pytest.mark.parametrize(
    ("keys", "is_from_table"), [({}, True), ({"price": 1}, False)], ids=["shipped price", "price in the config"]
)
def test_an_outdated_price_is_a_warning_for_the_judges_that_use_it(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, *, keys: dict[str, float], is_from_table: bool
) -> None:
    set_price_date(monkeypatch, age_days=MAX_AGE_DAYS + 1)
    server.behave = lambda *_: Reply("YES", logprobs=ODDS)
    config = load_judge_config({"backend": "openai", "model": "m", **keys})
    assert (config.price_source == "a table") == is_from_table
    (result,) = diagnose(config.with_changes({"base_url": server.url}), environment=ENVIRONMENT)
    assert statuses(result)["price"] == ("warning" if is_from_table else "ok")
    assert (f"{MAX_AGE_DAYS + 1} days old. Upgrade youden" in message_of(result, "price")) == is_from_table


def test_both_statements_of_the_date_of_shipped_prices_agree() -> None:
    shipped = json.loads((ROOT / "configs" / PRICES).read_text(encoding="utf-8"))["source"]
    day = date.fromisoformat(shipped["date"])
    assert shipped["description"].endswith(f"seen on {day.day} {day:%B %Y}")
