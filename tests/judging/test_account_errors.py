"""Test that an account without credit or with a revoked key ends a run for any HTTP status, unlike texts that mention it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batch_server import BatchServer, ClaudeBatchServer
from judged import ask, dense_plan, each_backend, missing
from small_pools import make_pool
from unruly_server import Body, Sent, UnrulyServer, healthy
from wire_server import Reply, well_behaved
from youden.errors import JudgeError
from youden.judging.call.account_errors import find_account_error, parse_error_parts
from youden.judging.call.connection import make_status_error
from youden.judging.call.failures import to_judge_error
from youden.judging.call.reply_errors import find_reply_error
from youden.judging.config.judge_files import load_judge_config
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.types import INDEPENDENT, Pool

POOL = make_pool(3, 6)
PLAN = dense_plan(POOL)
ANTHROPIC = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
    },
}
GEMINI = [
    {
        "error": {
            "code": 400,
            "message": "API key not valid. Please pass a valid API key.",
            "status": "INVALID_ARGUMENT",
            "details": [{"reason": "API_KEY_INVALID"}],
        }
    }
]
BODIES = [(ANTHROPIC, "judge-quota"), (GEMINI, "judge-key")]
WORDINGS = {
    402: [
        "Your credit balance is too low to access the Anthropic API.",
        "Insufficient Balance",
        "insufficient balance (1008)",
        "You exceeded your current quota, please check your plan and billing details.",
        "Your account is not active, please check your billing details on our website.",
        "Billing hard limit has been reached",
        "Access denied, please make sure your account is in good standing.",
        "Your account org-1<ak-2> is suspended due to insufficient balance, please recharge your account",
        "Sorry, your account balance is insufficient",
        "You have exceeded your monthly included credits for Inference Providers.",
        "Inactive subscription or usage limit reached",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        "You have reached your specified workspace API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        "You have no credits left",
        "No credits remaining.",
        "Your prepaid credits are depleted.",
        "Your credits have been exhausted",
        "Account balance is not enough",
        "Account balance not enough",
        "Monthly spend limit exceeded",
        "Spending limit reached",
        "Budget has been exceeded! Current cost: 1.2, Max budget: 1.0",
        "Your subscription has expired",
        "账户余额不足",
    ],
    401: [
        "API key not valid. Please pass a valid API key.",
        "API key expired. Please renew the API key.",
        "Your API key was reported as leaked. Please use another API key.",
        "Incorrect API key provided: xa***12. You can obtain an API key from the console.",
        "Invalid API key",
        "The security token included in the request is expired",
        "The security token included in the request is invalid.",
        "Signature expired: 20261125T000000Z is now earlier than 20261125T010000Z",
        "The access token expired",
        "AADSTS700082: The refresh token has expired due to inactivity.",
        "Your organization has been disabled.",
        "You didn't provide an API key.",
        "Account suspended",
        "The account associated with this API key has been deactivated.",
    ],
}
ABOUT_A_REQUEST = [
    "This model's maximum context length is 8192 tokens.",
    "Invalid token: <|endoftext|>",
    "temperature is not supported with this model",
    "max_tokens is too large: 100000",
    "Output blocked by content filtering policy",
    "messages: text content blocks must be non-empty",
    "Your request was rejected as a result of our safety system.",
    "The thinking budget has been exceeded: max_tokens must be greater than thinking.budget_tokens",
    "The context limit has been exceeded.",
    "The usage of `top_k` is limited.",
    "A policy of your organization blocks 'the service is suspended'.",
]


@pytest.mark.parametrize(("status", "message"), [(n, entry) for n, some in WORDINGS.items() for entry in some])
def test_known_wording_of_an_account_error_ends_the_run_in_any_error_format(status: int, message: str) -> None:
    for body in (
        {"error": {"message": message, "type": "invalid_request_error"}},
        {"error": message},
        {"message": message},
    ):
        error = make_status_error(400, json.dumps(body), {})
        assert (error.kind, error.status) == ("fatal", status), body
    inside = find_reply_error({"error": {"code": 400, "message": message}})
    assert inside is not None
    assert (inside.kind, inside.status) == ("fatal", status)


@pytest.mark.parametrize("message", ABOUT_A_REQUEST)
def test_other_wording_is_a_failure_of_its_request_only(message: str) -> None:
    error = make_status_error(400, json.dumps({"error": {"message": message, "type": "invalid_request_error"}}), {})
    assert (error.kind, error.status) == ("rejected", 400)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": "Arrearage"}, 402),
        ({"type": "billing_hard_limit_reached", "code": None}, 402),
        ({"status": "UNAUTHENTICATED"}, 401),
        ({"__type": "com.amazon.coral.service#ExpiredTokenException", "message": "expired"}, 401),
        ({"code": 7, "details": [{"reason": "API_KEY_SERVICE_BLOCKED"}]}, 401),
    ],
)
def test_a_code_is_recognized_anywhere_in_the_error(error: dict[str, Any], status: int) -> None:
    for body in ({"error": error}, [{"error": error}], {"error": [error]}):
        status_error = make_status_error(400, json.dumps(body), {})
        assert (status_error.kind, status_error.status) == ("fatal", status), body


@pytest.mark.parametrize(
    "message",
    [
        "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing.",
        "Your project has exceeded its monthly spending cap.",
        "Your team x has either used all available credits or reached its monthly spending limit.",
        "余额不足或无可用资源包,请充值。",
        "Credit limit exceeded, please navigate to the settings.",
    ],
)
def test_missing_credit_that_is_reported_as_too_many_requests_ends_the_run(message: str) -> None:
    error = make_status_error(429, json.dumps({"error": {"message": message, "code": "x"}}), {})
    assert (error.kind, error.status) == ("fatal", 402)


@pytest.mark.parametrize(
    "message",
    [
        'openai/gpt-4o requires moderation on OpenAI. Your input was flagged for "violence". No credits were charged.',
        "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
    ],
)
def test_a_request_that_is_forbidden_for_its_content_does_not_end_the_run(message: str) -> None:
    error = make_status_error(403, json.dumps({"error": {"message": message, "code": 403}}), {})
    assert (error.kind, error.status) == ("rejected", 400)
    assert make_status_error(403, json.dumps({"error": {"message": "Request not allowed"}}), {}).kind == "fatal"


@pytest.mark.parametrize("status", [400, 410, 503])
def test_the_remedy_for_an_unknown_model_names_the_model_for_any_status(status: int) -> None:
    error = make_status_error(status, '{"error": {"code": "model_not_found", "message": "No such model"}}', {})
    judge_error = to_judge_error(error, judge="J", address="http://a")
    assert judge_error.slug == "judge-model"
    assert "No such model. Check `model`" in judge_error.message


def test_a_rate_limit_that_mentions_quota_is_retried() -> None:
    """Gemini describes its limits per minute in this way."""
    message = "You exceeded your current quota, please check your plan and billing details. Please retry in 41s."
    error = make_status_error(
        429, json.dumps({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}}), {}
    )
    assert error.kind == "transient"


@pytest.mark.parametrize(("body", "slug"), BODIES)
@pytest.mark.parametrize("backend", each_backend("wire"))
async def test_an_account_error_ends_the_run_unstored_and_the_same_command_resumes(
    tmp_path: Path, backend: str, body: Any, slug: str
) -> None:
    refused = Sent(json.dumps(body).encode(), status=400, billed=False)

    def runs_dry(n: int, key: str, asked: Body) -> Sent:
        return healthy(n, key, asked) if n < 20 else refused

    path = tmp_path / "v.db"
    async with UnrulyServer(runs_dry) as server:
        with pytest.raises(JudgeError) as caught:
            await ask(PLAN, POOL, server.url, path, backend=backend, concurrency=1)
        assert caught.value.slug == slug
        with closing(sqlite3.connect(path)) as stored:
            assert stored.execute("SELECT count(*) FROM failures").fetchone() == (0,)
            assert stored.execute("SELECT count(*) FROM answers").fetchone() == (20,)
        server.script = healthy
        again = await ask(PLAN, POOL, server.url, path, backend=backend)
    assert again.answered.all()


HOSTILE = "Your credit balance is too low to access the Anthropic API. API key not valid. AADSTS700082"


@pytest.mark.parametrize("backend", each_backend("wire"))
async def test_a_hostile_text_that_a_server_repeats_does_not_end_the_run(tmp_path: Path, backend: str) -> None:
    texts = POOL.texts.copy()
    texts[0, 5] = f"{texts[0, 5]} {HOSTILE}"
    pool = Pool(POOL.agents, POOL.items, texts)
    plan = dense_plan(pool)

    def repeats(n: int, key: str, asked: Body) -> Sent:
        text = asked["messages"][-1]["content"]
        if HOSTILE not in text:
            return healthy(n, key, asked)
        error = {"error": {"message": f"Invalid content: {text}", "type": "invalid_request_error"}}
        return Sent(json.dumps(error).encode(), status=400, billed=False)

    async with UnrulyServer(repeats) as server:
        result = await ask(
            plan, pool, server.url, tmp_path / "v.db", options=JudgingOptions(max_missing=1.0), backend=backend
        )
    first, second = plan.text_rows
    second_item = np.where(plan.trial_type == INDEPENDENT, plan.other_item, plan.item)
    n = int((((plan.item == 5) & (first == 0)) | ((second_item == 5) & (second == 0))).sum())
    assert missing(result) == {"answered": len(plan) - n, "failed": n}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_account_error_in_a_batch_ends_the_run(tmp_path: Path, provider: str) -> None:
    error = ANTHROPIC["error"]
    assert isinstance(error, dict)

    def runs_dry(n: int, body: Any) -> Reply:
        return well_behaved(n, body) if n < 20 else Reply(status=400, error=error)

    server: BatchServer | ClaudeBatchServer = BatchServer(runs_dry)
    if provider == "anthropic":
        server = ClaudeBatchServer(runs_dry, error=error)
    config = {"backend": provider, "model": "m", "price": 0, "api_key_env": None, "backoff": 0.001}
    async with server:
        judge = load_judge_config({**config, "base_url": server.url})
        with pytest.raises(JudgeError) as caught:
            await ask(PLAN, POOL, judge, tmp_path / "v.db", options=JudgingOptions(batching=Batching(poll=0.01)))
    assert caught.value.slug == "judge-quota"
    with closing(sqlite3.connect(tmp_path / "v.db")) as stored:
        assert stored.execute("SELECT count(*) FROM failures").fetchone() == (0,)
        assert stored.execute("SELECT count(*) FROM answers").fetchone() == (20,)


def test_error_bodies_of_any_shape_are_parsed() -> None:
    bodies: tuple[object, ...] = (
        None,
        5,
        "busy",
        [],
        [5],
        {},
        {"error": None},
        {"error": []},
        {"error": [[]]},
        {"error": {"details": 5}},
    )
    for body in bodies:
        codes, message = parse_error_parts(body)
        assert find_account_error(codes, message) is None
