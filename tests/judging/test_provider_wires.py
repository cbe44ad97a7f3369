"""Test every known provider: its judge file against a server of its wire format, its batches, and keys in a .env file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from batch_server import ClaudeBatchServer
from commands import Youden, wire_judge, write_config
from judged import KEY, ask, dense_plan
from narrowing import not_none
from small_pools import make_pool
from twists import ODD, Twist, text_of
from twists import Path as Place
from wire_server import FORMS, Form, Reply, WireServer, well_behaved
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError, IncompleteRunError, YoudenError
from youden.judging.backend_records import JUDGES, PROVIDERS, get_backend_record, infer_judge_keys
from youden.judging.backends.wire import WireJudge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError
from youden.judging.config.judge_files import JudgeConfig, list_judges, load_judge_config
from youden.judging.connecting import connect
from youden.judging.doctor import diagnose
from youden.judging.providers.anthropic import AnthropicJudge
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.store.answers import Store
from youden.judging.store.leases import read_pending_jobs
from youden.types import Completion, Request, Verdicts

POOL = make_pool(3, 6)
PLAN = dense_plan(POOL)
HOSTED = [judge for judge in list_judges() if judge.backend in PROVIDERS]
ONE_A_CLASS = list({PROVIDERS[judge.backend].class_path: judge for judge in HOSTED}.values())
OWN_FORMAT = [judge for judge in ONE_A_CLASS if WireJudge in JUDGES.load(judge.backend).__bases__]
"""Providers whose replies youden parses itself; the fuzzed `BACKENDS` only use the OpenAI chat format."""
REPLIES: dict[str, Form] = {**FORMS}
"""Formats of replies by the end of the requested path. Add the format of a new provider here; `claude_message` is an example."""


def with_address(judge: JudgeConfig, url: str) -> JudgeConfig:
    return judge.with_changes({"base_url": url, "requests_per_minute": None, "tokens_per_minute": None})


async def answer_with_reply(judge: JudgeConfig, reply: Reply) -> tuple[Completion | CallError, WireServer, Request]:
    """Return the result of one question to a judge of a shipped file at another address."""
    request = judge.questions().request_for_texts("one", "two")
    async with WireServer(lambda *_: reply, forms=REPLIES) as server:
        backend = connect(with_address(judge, server.url), {judge.key_variable or "": KEY})
        try:
            return await backend.open().answer(request), server, request
        except CallError as error:
            return error, server, request
        finally:
            await backend.aclose()


MONTH = re.compile(
    r"\b(January|February|March|April|May|June|July|August|September|October|November|December) 20\d\d\b"
)


@pytest.fixture(params=HOSTED, ids=lambda judge: judge.name)
def judge(request: pytest.FixtureRequest) -> JudgeConfig:
    result: JudgeConfig = request.param
    return result


def test_every_provider_has_a_file_with_prices_and_their_date() -> None:
    assert {judge.backend for judge in HOSTED} == set(PROVIDERS)
    hosts = {str(judge.model).partition("/")[0] for judge in list_judges() if judge.backend == "litellm"}
    assert hosts == set(get_backend_record("litellm").hosts)
    for judge in HOSTED:
        text = (Path(__file__).parents[2] / "configs" / "judges" / f"{judge.name}.yaml").read_text(encoding="utf-8")
        assert MONTH.search(text), "a judge file states the month of its prices"
        assert str(judge.key_variable) in text
        assert judge.price_in


async def test_provider_answers_and_usage_are_read_and_the_key_is_only_in_the_header(judge: JudgeConfig) -> None:
    got, server, request = await answer_with_reply(
        judge, Reply("YES", model="m-dated", usage={"prompt_tokens": 90, "completion_tokens": 2})
    )
    assert isinstance(got, Completion)
    assert (got.text, got.finish_reason, got.tokens_in, got.tokens_out) == ("YES", "stop", 90, 2)
    assert got.model in (("m-dated", "") if judge in OWN_FORMAT else ("m-dated",))  # some formats do not name the model
    (body,), (headers,) = server.bodies, server.headers
    assert KEY in [value.removeprefix("Bearer ") for value in headers.values()]
    assert KEY not in str(body) + server.paths[0]
    values = [value for _, value in fields(body)] + server.paths[0].split(
        "/"
    )  # some formats name the model in the path
    assert {judge.model, judge.answer_limit} <= {value for value in values if isinstance(value, str | int)}
    texts = [message.content for message in request.messages]
    assert sorted(value for value in values if value in texts) == sorted(texts)


@pytest.mark.parametrize("judge", ONE_A_CLASS, ids=lambda judge: judge.name)
async def test_a_refusal_is_no_answer(judge: JudgeConfig) -> None:
    got, *_ = await answer_with_reply(judge, Reply("", refusal="I cannot."))
    assert isinstance(got, Completion)
    assert judge.questions().read(got).missing_reason == "refused"


@pytest.mark.parametrize("judge", ONE_A_CLASS, ids=lambda judge: judge.name)
async def test_errors_and_invalid_replies_are_classified(judge: JudgeConfig) -> None:
    for status, code, kind in (
        (429, "rate_limit_error", "transient"),
        (529, "overloaded_error", "transient"),
        (503, None, "transient"),
        (401, "authentication_error", "fatal"),
        (400, "invalid_request_error", "rejected"),
    ):
        error = {"message": f"no, {KEY}", "type": code}
        got, server, _ = await answer_with_reply(judge, Reply(status=status, headers={"Retry-After": "7"}, error=error))
        assert isinstance(got, CallError)
        assert (got.kind, got.status, got.retry_after, server.n_requests) == (kind, status, 7, 1)
        assert KEY not in repr(got)
    for fault in ("malformed", "no_choices", "html"):
        got, *_ = await answer_with_reply(judge, Reply(fault=fault))
        assert isinstance(got, CallError)
        assert (got.kind, got.status) == ("transient", None)


def fields(content: object, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Return the paths and values of all fields of a body of a request or reply."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(content, dict):
        inner = content.items()
    if isinstance(content, list):
        inner = enumerate(content)
    for name, value in inner:
        yield (*path, name), value
        yield from fields(value, (*path, name))


@pytest.mark.parametrize("judge", OWN_FORMAT, ids=lambda judge: judge.name)
def test_a_malformed_reply_of_any_wire_format_is_an_answer_or_a_failed_call(judge: JudgeConfig) -> None:
    reader: WireJudge = JUDGES.load(judge.backend)(Connection("tested", "http://127.0.0.1:9/v1", 1.0))
    path = reader.path.format(model=judge.model)
    form = next((form for end, form in REPLIES.items() if f"/v1/{path}".endswith(end)), None)
    assert form is not None, f"Add an example reply of {path} to `REPLIES`."
    well = form(Reply("YES"), model="m")
    assert reader.decode(json.dumps(well).encode(), seconds=1.0).text == "YES"
    twists = [Twist("no field", place) for place, _ in fields(well)]
    twists += [Twist(kind, place, odd) for place, _ in fields(well) for odd in ODD for kind in ("field", "twice")]
    for body, odd in [(text_of(well, twist), twist.value) for twist in twists] + [
        (json.dumps(odd), odd) for odd in ODD
    ]:
        try:
            got = reader.decode(body.encode("utf-8", "surrogatepass"), seconds=1.0)
        except CallError:
            continue
        assert got.text in ("YES", "") or isinstance(odd, str)
        assert isinstance(got.text, str)
        assert all(type(n) is int and n >= 0 for n in (got.tokens_in, got.tokens_out))


class ModelInPath(AnthropicJudge):
    path = "infer/{model}"


async def test_the_path_of_a_provider_may_contain_the_model() -> None:
    request = load_judge_config("claude-haiku-4.5").questions().request_for_texts("one", "two")
    forms = {f"/infer/{request.model}": FORMS["/messages"]}
    async with WireServer(lambda *_: Reply("YES"), forms=forms) as server:
        backend = ModelInPath(Connection("tested", server.url, 5.0))
        assert (await backend.answer(request)).text == "YES"
        await backend.aclose()


# --- Bedrock and Vertex, by litellm ------------------------------------------------------------------------------------------


@pytest.fixture(params=["llama3.3-70b-bedrock", "gemini-3.5-flash-lite-vertex"])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JudgeConfig:
    """Configure a judge at a cloud provider with credentials in the environment."""
    _needs("litellm", "boto3" if "bedrock" in request.param else "google.auth")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-PLANTED")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    monkeypatch.setenv("VERTEXAI_PROJECT", "p")
    monkeypatch.setenv("VERTEXAI_LOCATION", "us-central1")
    return load_judge_config(request.param)


def _needs(*modules: str) -> None:
    for name in modules:
        if find_spec(name.partition(".")[0]) is None:
            pytest.skip(f"{name} is not installed")


async def asked_by_litellm(
    judge: JudgeConfig, reply: Reply, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Completion | CallError, WireServer]:
    async with WireServer(lambda *_: reply) as server:
        if "vertex" in judge.name:
            account = tmp_path / "account.json"
            account.write_text(_account(server.url.removesuffix("/v1") + "/token"))
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        backend = connect(with_address(judge, server.url), os.environ)
        try:
            return await backend.open().answer(judge.questions().request_for_texts("one", "two")), server
        except CallError as error:
            return error, server
        finally:
            await backend.aclose()


def _account(token_uri: str) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key = rsa.generate_private_key(65537, 2048).private_bytes(serialization.Encoding.PEM, *form).decode()
    output = {"type": "service_account", "project_id": "p", "private_key_id": "x", "private_key": key}
    return json.dumps(output | {"client_email": "a@p.iam", "client_id": "1", "token_uri": token_uri})


@pytest.mark.filterwarnings("ignore")  # a library that litellm imports for its first cloud request
async def test_the_answer_usage_and_refusal_of_a_cloud_provider_are_read(
    cloud: JudgeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reply = Reply("YES", usage={"prompt_tokens": 90, "completion_tokens": 2})
    got, server = await asked_by_litellm(cloud, reply, monkeypatch, tmp_path)
    assert isinstance(got, Completion), got
    assert (got.text, got.finish_reason, got.tokens_in, got.tokens_out) == ("YES", "stop", 90, 2)
    assert server.n_requests == 1
    got, _ = await asked_by_litellm(cloud, Reply("", refusal="no"), monkeypatch, tmp_path)
    assert isinstance(got, Completion), got
    assert cloud.questions().read(got).missing_reason == "refused"


@pytest.mark.filterwarnings("ignore")  # a library that litellm imports for its first cloud request
async def test_errors_of_a_cloud_provider_are_classified(
    cloud: JudgeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for status, kind in ((429, "transient"), (503, "transient"), (403, "fatal"), (401, "fatal")):
        reply = Reply(status=status, error={"message": f"no, {KEY}", "code": status})
        got, server = await asked_by_litellm(cloud, reply, monkeypatch, tmp_path)
        assert isinstance(got, CallError)
        assert (got.kind, server.n_requests) == (kind, 1), got
        assert KEY not in repr(got)


@pytest.mark.filterwarnings("ignore")  # a library that litellm imports for its first cloud request
async def test_missing_credentials_end_the_run_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _needs("litellm", "google.auth")
    monkeypatch.setenv("VERTEXAI_PROJECT", "nobody")  # litellm remembers credentials by their project
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    judge = load_judge_config("gemini-3.5-flash-lite-vertex")
    async with WireServer() as server:
        backend = connect(with_address(judge, server.url), os.environ)
        with pytest.raises(CallError) as caught:
            await backend.open().answer(judge.questions().request_for_texts("one", "two"))
        await backend.aclose()
    assert (caught.value.kind, caught.value.status, server.n_requests) == ("fatal", 401, 0)


def test_settings_that_a_provider_rejects_are_an_error_before_any_request() -> None:
    for name, record in PROVIDERS.items():
        own = {"backend": name, "model": "m", "base_url": "http://127.0.0.1:9/v1"}
        assert load_judge_config(own).key_variable == record.key_variable
        for refused, instead in record.unsupported.items():
            others: dict[str, Any] = {"parameters": {refused: {}}}
            keys: dict[str, dict[str, Any]] = {"seed": {"seed": 1}, "logprobs": {"decision": "logprobs"}}
            with pytest.raises(ConfigError, match="rejects") as caught:
                load_judge_config(own | keys.get(refused, others))
            assert instead in str(caught.value)
    with pytest.raises(ConfigError, match="Set base_url to your address"):
        load_judge_config({"backend": "azure", "model": "m"})


def test_a_price_is_found_by_model_and_provider_only() -> None:
    for name, backend, model in [
        ("gpt-4o", "openai", "gpt-4o"),
        ("openai/gpt-4o", "openai", "gpt-4o"),
        ("claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        ("anthropic/claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        ("gemini/gemini-2.5-flash-lite", "gemini", "gemini-2.5-flash-lite"),
        ("groq/openai/gpt-oss-20b", "groq", "openai/gpt-oss-20b"),
        ("together/openai/gpt-oss-120b", "together", "openai/gpt-oss-120b"),
        ("deepseek/deepseek-v4-flash", "deepseek", "deepseek-v4-flash"),
        ("mistral/mistral-small-2603", "mistral", "mistral-small-2603"),
    ]:
        judge = load_judge_config(name)
        assert (judge.backend, judge.model) == (backend, model)
        assert judge.price_in
        assert "litellm" in judge.price_source
    assert load_judge_config("groq/gpt-4o").price_in is None
    assert load_judge_config("bedrock/some.model-v1:0").backend == "litellm"
    assert load_judge_config("openai/o4-mini").request_parameters == {"max_completion_tokens": 2048}
    assert "temperature" not in load_judge_config("claude-opus-5").request_parameters
    with pytest.raises(ConfigError, match=r"openai/gpt-4o.*\[unknown-judge\]"):
        load_judge_config("gpt-4o-mimi")
    assert infer_judge_keys("nobody/m") is None


# --- a file of keys ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def provider_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: WireServer) -> Path:
    write_pool(POOL, tmp_path / "in" / "pool")
    judge = wire_judge(server.url, backend="openai", api_key_env="OPENAI_API_KEY")
    write_config(tmp_path / "in" / "r.yaml", pool="pool", calls=20, independent="pooled:5", judge=judge)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("where", [".env", "in/.env"])
def test_a_key_in_a_dot_env_file_is_used_and_written_nowhere(
    where: str, youden: Youden, provider_folder: Path, server: WireServer
) -> None:
    (provider_folder / where).write_text(
        f"OTHER=x\nOPENAI_API_KEY='{KEY}'\nYOUDEN_STORE=elsewhere.db\nOPENAI_BASE_URL=http://127.0.0.1:9\n"
    )
    ended = youden("judge", "in/r.yaml")
    assert ended.code == 0, ended.err
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert not (provider_folder / "elsewhere.db").exists()
    kept = [path for path in provider_folder.rglob("*") if path.is_file() and path.name != ".env"]
    assert not any(KEY.encode() in path.read_bytes() for path in kept)
    assert KEY not in ended.out + ended.err


@pytest.mark.parametrize(
    ("given", "sent"),
    [(("one", None), "one"), (("one", "two"), "one"), ((None, "two"), "two"), (("", "two"), "two")],
)
def test_the_environment_takes_precedence_over_the_file(
    given: tuple[str | None, str | None],
    sent: str,
    provider_folder: Path,
    server: WireServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment, file = given
    if environment is not None:
        monkeypatch.setenv("OPENAI_API_KEY", environment)
    if file is not None:
        (provider_folder / ".env").write_text(f"OPENAI_API_KEY={file}\n")
    server.behave = lambda *_: Reply("YES")
    judge = load_judge_config({"backend": "openai", "model": "m", "base_url": server.url, "price": 0})
    (result,) = diagnose(judge, environment=os.environ)
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {sent}"}
    assert result.findings[0].message == f"OPENAI_API_KEY is set in {'the environment' if environment else '.env'}"


@pytest.mark.parametrize("text", [None, "OPENAI_API_KEY=\n", "not a file of keys"])
def test_a_missing_key_is_an_error_and_no_request_is_sent(
    text: str | None, provider_folder: Path, server: WireServer, youden: Youden
) -> None:
    if text is not None:
        (provider_folder / ".env").write_text(text)
    ended = youden("run", "in/r.yaml")
    assert (ended.code, server.n_requests) == (2, 0)
    assert "no .env file next to the config or in the working directory contains it" in ended.err
    assert "[judge-no-key]" in ended.err


def test_init_selects_a_judge_whose_key_is_in_a_file(provider_folder: Path, youden: Youden) -> None:
    for key, judge in ((None, "lexical"), (KEY, "gpt-4o-mini")):
        if key is not None:
            (provider_folder / ".env").write_text(f"OPENAI_API_KEY={key}\n")
        assert youden("init", "in/pool", "--out", f"{judge}.yaml").code == 0
        text = (provider_folder / f"{judge}.yaml").read_text(encoding="utf-8")
        assert f"\njudge: {judge}\n" in text
        assert KEY not in text


def test_an_unreadable_file_of_keys_is_an_error_with_its_name(provider_folder: Path, youden: Youden) -> None:
    (provider_folder / ".env").write_bytes(b"OPENAI_API_KEY=\xff\xfe\x00")
    ended = youden("run", "in/r.yaml")
    assert "[judge-env-file]" in ended.err
    assert ".env cannot be read" in ended.err


# --- Anthropic's batches ----------------------------------------------------------------------------------------------------

JUDGE = {"backend": "anthropic", "model": "m", "price": 1, "backoff": 0.001}


async def in_batches(server: ClaudeBatchServer, store: Store, *, max_tries: int = 3) -> Verdicts:
    judge = load_judge_config({**JUDGE, "base_url": server.url, "max_tries": max_tries})
    options = JudgingOptions(batching=Batching(poll=0.01))
    return await ask(PLAN, POOL, judge, store, options=options, environment={"ANTHROPIC_API_KEY": KEY})


async def test_a_plan_is_sent_to_anthropic_in_one_batch_and_matched_by_key(store: Store) -> None:
    async with ClaudeBatchServer(looks_needed=3) as server:
        result = await in_batches(server, store)
        assert result.answered.all()
        assert (server.n_begun, len(server.bodies)) == (1, len(PLAN))
        assert server.bodies[0]["max_tokens"] == 8
        assert server.headers[0]["x-api-key"] == KEY
        assert not_none(result.usd).sum() == pytest.approx(len(PLAN) * 101e-6)
        again = await in_batches(server, store)
        assert again.answered.all()
        assert server.n_begun == 1


async def test_only_expired_requests_are_resent_and_rejected_ones_are_missing(store: Store) -> None:
    def behave(n: int, body: Any) -> Reply:
        return Reply(status=400) if server.n_begun == 0 and n == 4 else well_behaved(n, body)

    async with ClaudeBatchServer(behave, fates=["expired"]) as server:
        result = await in_batches(server, store)
        assert result.answered.sum() == len(PLAN) - 1
        assert (server.n_begun, len(server.bodies)) == (2, len(PLAN) - 1)


async def test_a_cancelled_batch_ends_the_run_and_its_results_are_stored(store: Store) -> None:
    async with ClaudeBatchServer(fates=["cancelled"]) as server:
        with pytest.raises(IncompleteRunError, match="cancelled"):
            await in_batches(server, store)
        assert (await in_batches(server, store)).answered.all()
        assert len(server.bodies) == len(PLAN)


@pytest.mark.parametrize(("faults", "begun"), [(["500"], 1), (["lost"], 1), (["500", "lost"], 1), (["400"], 0)])
async def test_a_batch_with_a_lost_reply_is_found_again_and_never_started_twice(
    store: Store, faults: list[Any], begun: int
) -> None:
    async with ClaudeBatchServer(faults=faults) as server:
        if begun:
            assert (await in_batches(server, store)).answered.all()
        else:
            with pytest.raises(YoudenError, match="as told"):
                await in_batches(server, store)
            assert read_pending_jobs(store.backend) == []
        assert server.n_begun == begun
        assert len(server.bodies) == begun * len(PLAN)


async def test_no_request_is_resent_while_a_possibly_lost_batch_is_in_progress(store: Store) -> None:
    async with ClaudeBatchServer(faults=["lost"], looks_needed=6) as server:
        with pytest.raises(IncompleteRunError, match=r"still in progress.*\[batch-unreachable\]"):
            await in_batches(server, store, max_tries=2)
        assert server.n_begun == 1
        for _ in range(4):  # the same command, again and again
            try:
                result = await in_batches(server, store, max_tries=2)
                break
            except IncompleteRunError:
                continue
        assert result.answered.all()
        assert (server.n_begun, len(server.bodies)) == (1, len(PLAN))
