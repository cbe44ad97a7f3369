"""Test that every backend uses the proxy of the process environment unless NO_PROXY lists the host of the judge.

An HTTP proxy gets the complete URL, with the host of the judge in a header, so that a test server can replace it.
"""

from __future__ import annotations

import base64
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from batch_server import BatchServer, ClaudeBatchServer
from judged import ask, dense_plan, judge_config, model_at
from small_pools import make_pool
from wire_server import Reply, WireServer, running
from youden.errors import ConfigError, JudgeError
from youden.judging.call.proxies import find_proxy
from youden.judging.config.judge_files import load_judge_config
from youden.judging.doctor import diagnose
from youden.judging.scheduler.options import Batching, JudgingOptions

HOST = "judge.example.internal"
URL = f"http://{HOST}/v1"
POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)
BACKENDS = ["wire", "openai", "anthropic", *(["litellm"] if find_spec("litellm") else [])]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
@pytest.mark.parametrize("backend", BACKENDS)
async def test_calls_go_through_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, variable: str
) -> None:
    async with WireServer() as proxy:
        ours = backend in (
            "wire",
            "anthropic",
        )  # of the libraries, aiohttp's warning about credentials is an error here
        monkeypatch.setenv(variable, f"http://{'user:pass@' if ours else ''}127.0.0.1:{proxy.port}")
        judge = load_judge_config(
            {"backend": backend, "model": model_at(backend), "base_url": URL, "price": 0, "api_key_env": None}
        )
        result = await ask(PLAN, POOL, judge, tmp_path / "v.db")
    assert result.answered.all()
    assert {header["Host"] for header in proxy.headers} == {HOST}
    if ours:
        expected = "Basic " + base64.b64encode(b"user:pass").decode()
        assert {header["Proxy-Authorization"] for header in proxy.headers} == {expected}


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_host_in_no_proxy_is_reached_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    async with WireServer() as server:
        judge = load_judge_config(
            {"backend": backend, "model": model_at(backend), "base_url": server.url, "price": 0, "api_key_env": None}
        )
        assert (await ask(PLAN, POOL, judge, tmp_path / "v.db")).answered.all()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_batches_go_through_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    async with BatchServer() if provider == "openai" else ClaudeBatchServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        judge = load_judge_config({"backend": provider, "model": "m", "base_url": URL, "price": 0, "api_key_env": None})
        result = await ask(PLAN, POOL, judge, tmp_path / "v.db", options=JudgingOptions(batching=Batching(poll=0.01)))
    assert result.answered.all()
    assert {header["Host"] for header in proxy.headers} == {HOST}


def test_doctor_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(WireServer(lambda *_: Reply("YES"))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        (diagnosis,) = diagnose(judge_config(URL, api_key_env=None), environment={})
        assert diagnosis.is_usable
        assert {header["Host"] for header in proxy.headers} == {HOST}


async def test_a_proxy_that_requires_a_password_ends_the_run_without_repeating_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> Reply:
        return Reply(status=407, error={"message": "wrong password s3cret-proxy-word"})

    async with WireServer(refuses) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://user:s3cret-proxy-word@127.0.0.1:{proxy.port}")
        with pytest.raises(JudgeError) as caught:
            await ask(PLAN, POOL, URL, tmp_path / "v.db", api_key_env=None)
    assert caught.value.slug == "judge-proxy"
    assert "s3cret" not in str(caught.value)


def test_an_invalid_proxy_url_is_an_error_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://user:s3cret@[proxy:port")
    with pytest.raises(ConfigError, match=r"unset HTTP_PROXY.*\[judge-proxy\]") as caught:
        find_proxy(URL)
    assert "s3cret" not in str(caught.value)


def test_a_socks_proxy_is_refused_in_http_proxy_and_ignored_in_all_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(ConfigError, match=r"HTTP proxy.*NO_PROXY"):
        find_proxy(URL)
    monkeypatch.delenv("HTTP_PROXY")
    for proxy, expected in (("http://127.0.0.1:9", "http://127.0.0.1:9"), ("socks5://127.0.0.1:1080", None)):
        monkeypatch.setenv("ALL_PROXY", proxy)
        assert find_proxy(URL) == expected
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:port")
    with pytest.raises(ConfigError, match="unset ALL_PROXY"):
        find_proxy(URL)


@pytest.mark.parametrize("backend", ["wire", "openai"])
async def test_an_unreachable_proxy_is_named_as_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(JudgeError, match=r"The proxy .* cannot be reached"):
        await ask(PLAN, POOL, judge_config(URL, backend=backend, max_tries=1, api_key_env=None), tmp_path / "v.db")


async def test_a_proxy_that_opens_no_tunnel_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with WireServer() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(JudgeError, match="The proxy answered with HTTP 40") as caught:
            await ask(PLAN, POOL, f"https://{HOST}/v1", tmp_path / "v.db", api_key_env=None)
    assert (caught.value.slug, proxy.n_requests) == ("judge-proxy", 0)


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("http://a.test/v1", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.test/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://a.test/v1", {"https_proxy": "p:1"}, "http://p:1"),
        ("http://a.test/v1", {"http_proxy": "http://low:1", "HTTP_PROXY": "http://up:1"}, "http://low:1"),
        ("http://a.test/v1", {"HTTP_PROXY": ""}, None),
        ("http://a.test/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("http://sub.a.test/v1", {"HTTP_PROXY": "http://p:1", "no_proxy": ".a.test"}, None),
        ("http://a.test:8000/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.test:8000"}, None),
        ("http://a.test:8001/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.test:8000"}, "http://p:1"),
        ("http://[::1]:8000/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "::1"}, None),
    ],
)
def test_proxy_variables_are_read_in_both_cases(
    monkeypatch: pytest.MonkeyPatch, url: str, environment: dict[str, str], proxy: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert find_proxy(url) == proxy
