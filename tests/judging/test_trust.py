"""Test that a key is sent only to hosts of its provider or hosts that the user allowed, for every backend and source."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import youden as package
from batch_server import BatchServer
from commands import Youden, wire_judge, write_config, write_small_run
from small_pools import make_pool
from wire_server import Reply, WireServer, draw, running
from youden.errors import ConfigError
from youden.judging.backend_records import BACKENDS, PROVIDERS, make_calling_judge
from youden.judging.call.connection import Connection
from youden.judging.config.judge_files import load_judge_config
from youden.judging.config.trust import KeyUse, allow_key_uses, find_trusted_file, is_allowed_key_use, is_known_key_use
from youden.resources import find_resource_folders

KEY = "sk-0123456789abcdef"


@dataclass
class Clone:
    """A folder from another user, and a user with keys in the environment and no permissions."""

    path: Path
    server: WireServer

    def judge(self, **keys: object) -> None:
        judge = wire_judge(self.server.url, backend="openai", api_key_env="OPENAI_API_KEY")
        write_config(self.path / "judges" / "mine.yaml", **judge | keys)


@pytest.fixture
def clone(tmp_path: Path, youden: Youden, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, KEY)
    (tmp_path / "judges").mkdir()
    write_small_run(tmp_path, judge="mine")
    return Clone(tmp_path, server)


@pytest.fixture
def other_server(server: WireServer) -> Iterator[WireServer]:
    with running(WireServer()) as started:
        yield started


@pytest.mark.parametrize(
    "keys",
    [
        {},
        pytest.param({"backend": "wire"}, marks=pytest.mark.slow),
        {"backend": "wire", "api_key_env": "GITHUB_TOKEN"},
        pytest.param({"backend": "anthropic", "api_key_env": "ANTHROPIC_API_KEY"}, marks=pytest.mark.slow),
        pytest.param({"backend": "groq", "api_key_env": "OPENAI_API_KEY"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_key_is_sent_only_to_hosts_that_the_user_allowed(
    keys: dict[str, object], clone: Clone, youden: Youden
) -> None:
    clone.judge(**keys)
    variable = str(keys.get("api_key_env", "OPENAI_API_KEY"))
    ended = youden("run", "r.yaml")
    assert ended.refuses("key-not-trusted"), ended.err
    assert clone.server.n_requests == 0
    for named in (variable, "127.0.0.1", "judges/mine.yaml", "youden doctor judges/mine.yaml --trust"):
        assert named in ended.err
    assert youden("doctor", "mine").code == 2
    assert clone.server.n_requests == 0

    allowed = youden("doctor", "judges/mine.yaml", "--trust").well()
    assert f"{variable} may now be sent to 127.0.0.1" in allowed.out
    assert clone.server.n_requests == 0
    kept = clone.path / "user" / "youden" / "trusted.yaml"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert yaml.safe_load(kept.read_text()) == {variable: ["127.0.0.1"]}
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert youden("run", "r.yaml").code == 0
    assert KEY in str(clone.server.headers[0])


def test_a_permission_applies_to_one_variable_and_host_only(clone: Clone, youden: Youden) -> None:
    allow_key_uses([KeyUse("OPENAI_API_KEY", "127.0.0.1")])
    clone.judge(api_key_env="GITHUB_TOKEN")
    assert youden("run", "r.yaml").refuses("key-not-trusted")
    clone.judge(base_url=clone.server.url.replace("127.0.0.1", "localhost"))
    assert youden("run", "r.yaml").refuses("key-not-trusted")
    assert clone.server.n_requests == 0


def test_a_judge_without_a_key_needs_no_permission(clone: Clone, youden: Youden) -> None:
    clone.judge(api_key_env=None)
    youden("run", "r.yaml").well()
    assert "nothing to allow" in youden("doctor", "mine", "--trust").well().out
    assert not (clone.path / "user").exists()


@pytest.mark.slow
def test_judges_inside_a_run_config_or_an_agents_file_need_the_same_permission(clone: Clone, youden: Youden) -> None:
    judge = wire_judge(clone.server.url, api_key_env="OPENAI_API_KEY")
    write_small_run(clone.path, "inline", judge=judge)
    ended = youden("run", "inline.yaml")
    assert ended.refuses("key-not-trusted")
    assert "youden doctor inline.yaml --trust" in ended.err
    (clone.path / "items.jsonl").write_text('{"id": "i1", "prompt": "Why?"}\n')
    agents = [{"id": "lead", "steps": [{"lead": {"n": 1}}]}, {"id": "asked", "model": "m", "instruction": "ask.md"}]
    (clone.path / "ask.md").write_text("Say it anew.\n{{text}}\n")
    write_config(clone.path / "agents.yaml", items="items.jsonl", models={"m": judge}, agents=agents)
    ended = youden("generate", "agents.yaml", "--out", "made", "--max-cost", "1")
    assert ended.refuses("key-not-trusted"), ended.err
    assert "youden doctor agents.yaml --trust" in ended.err
    assert clone.server.n_requests == 0
    youden("doctor", "agents.yaml", "--trust").well()
    youden("run", "inline.yaml").well()
    clone.server.behave = lambda *_: Reply("Said anew.")
    youden("generate", "agents.yaml", "--out", "made", "--max-cost", "1").well()


@pytest.mark.slow
def test_no_judge_of_a_jury_is_called_before_all_are_allowed(clone: Clone, youden: Youden) -> None:
    free = wire_judge(clone.server.url)
    paid = wire_judge(clone.server.url, name="last", api_key_env="GITHUB_TOKEN")
    members = [free | {"name": "first"}, free | {"name": "second", "seed": 1}, paid]
    write_config(clone.path / "judges" / "mine.yaml", backend="jury", judges=members)
    ended = youden("run", "r.yaml")
    assert (ended.refuses("key-not-trusted"), clone.server.n_requests) == (True, 0), ended.err
    youden("doctor", "mine", "--trust").well()
    youden("run", "r.yaml").well()


def test_no_server_of_several_gets_a_key_before_all_are_allowed(clone: Clone, youden: Youden) -> None:
    allow_key_uses([KeyUse("OPENAI_API_KEY", "127.0.0.1")])
    elsewhere = clone.server.url.replace("127.0.0.1", "localhost")
    clone.judge(base_url=[clone.server.url, elsewhere])
    assert youden("run", "r.yaml").refuses("key-not-trusted")
    assert clone.server.n_requests == 0
    youden("doctor", "mine", "--trust").well()
    youden("run", "r.yaml").well()


def test_a_batch_and_a_worker_need_the_same_permission(clone: Clone, youden: Youden, batch_server: BatchServer) -> None:
    clone.judge(base_url=batch_server.url)
    assert youden("judge", "r.yaml", "--mode", "batch", "--poll", "0.01").refuses("key-not-trusted")
    assert youden("judge", "r.yaml", "--worker", "--store", "s.db").refuses("key-not-trusted")
    assert (batch_server.files, batch_server.headers) == ({}, [])


def test_calibration_and_rejudging_need_the_same_permission(clone: Clone, youden: Youden) -> None:
    clone.judge()
    assert youden("calibrate", "r.yaml", "--judge", "judges/mine.yaml").refuses("key-not-trusted")
    youden("run", "r.yaml", "--judge", "lexical", "--out", "judged").well()
    assert youden("rejudge", "judged", "--judge", "judges/mine.yaml", "--calls", "50").refuses("key-not-trusted")
    assert clone.server.n_requests == 0


@pytest.mark.slow
def test_stress_names_the_config_of_the_run_and_finds_the_key_next_to_it(
    clone: Clone, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_run(clone.path, "inline", judge=wire_judge(clone.server.url))
    youden("run", "inline.yaml").well()
    asked, config = clone.server.n_requests, clone.path / "runs" / "inline" / "config.yaml"
    config.write_text(config.read_text().replace("api_key_env: null", "api_key_env: OPENAI_API_KEY"))
    ended = youden("stress", "runs/inline", "--attack", "clones")
    assert ended.refuses("key-not-trusted"), ended.err
    assert "youden doctor runs/inline/config.yaml --trust" in ended.err
    assert clone.server.n_requests == asked
    youden("doctor", "runs/inline/config.yaml", "--trust").well()
    monkeypatch.delenv("OPENAI_API_KEY")
    (config.parent / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    clone.server.behave = lambda _n, body: Reply("YES" if draw(body, 2) else "NO")
    youden("stress", "runs/inline", "--attack", "clones").well()
    assert clone.server.n_requests > asked


def test_a_judge_file_passed_from_python_needs_permission_and_a_mapping_does_not(clone: Clone) -> None:
    clone.judge()
    pool = make_pool(4, 6)
    plan = package.make_plan(pool, calls=40, independent="pooled:10")
    for named in ("judges/mine.yaml", Path("judges/mine.yaml"), "mine"):
        with pytest.raises(ConfigError, match="key-not-trusted"):
            package.judge(plan, judge=named, store="s.db")
    assert clone.server.n_requests == 0
    written = wire_judge(clone.server.url, api_key_env="OPENAI_API_KEY")
    assert package.judge(plan, judge=written, store="s.db").answered.all()


@pytest.mark.parametrize("backend", [pytest.param("openai", marks=pytest.mark.slow), "wire"])
def test_a_base_url_in_the_environment_allows_its_host_for_that_key_only(
    backend: str, clone: Clone, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", clone.server.url + "/")
    write_config(clone.path / "judges" / "mine.yaml", backend=backend, model="m", price=0)
    ended = youden("run", "r.yaml").well()
    assert f"judge: mine at {clone.server.url.split('/')[2]}, key from OPENAI_API_KEY" in ended.err
    n_requests = clone.server.n_requests
    assert n_requests > 0
    write_config(clone.path / "judges" / "mine.yaml", backend=backend, model="m2", price=0, api_key_env="GITHUB_TOKEN")
    assert youden("run", "r.yaml", "--out", "again").refuses("key-not-trusted")
    assert clone.server.n_requests == n_requests


def test_the_address_of_anthropic_in_the_process_environment_is_used(
    clone: Clone, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", clone.server.url.removesuffix("/v1"))
    write_config(clone.path / "judges" / "mine.yaml", backend="anthropic", model="m", price=0)
    youden("run", "r.yaml").well()
    assert clone.server.n_requests > 0


def test_an_address_and_a_proxy_in_a_dot_env_file_are_not_used(
    clone: Clone, youden: Youden, other_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxies = "".join(
        f"{name}={other_server.url}\n" for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy")
    )
    (clone.path / ".env").write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={other_server.url}\n{proxies}")
    monkeypatch.delenv("OPENAI_API_KEY")
    write_config(clone.path / "judges" / "mine.yaml", backend="openai", model="m", price=0)
    ended = youden("run", "r.yaml")
    assert ended.refuses("env-base-url"), ended.err
    allow_key_uses([KeyUse("OPENAI_API_KEY", "127.0.0.1")])
    clone.judge()
    youden("run", "r.yaml").well()
    assert other_server.n_requests == 0
    assert not [name for name in os.environ if name.lower().endswith("_proxy")]


@pytest.mark.parametrize("backend", ["openai", "wire", "anthropic"])
def test_a_key_over_http_to_another_machine_is_refused_even_if_allowed(
    backend: str, clone: Clone, youden: Youden
) -> None:
    clone.judge(backend=backend, base_url="http://gateway.example/v1")
    assert youden("doctor", "mine", "--trust").refuses("key-over-http")
    allow_key_uses([KeyUse("OPENAI_API_KEY", "gateway.example")])
    assert youden("run", "r.yaml").refuses("key-over-http")


def test_credentials_that_the_openai_library_finds_go_to_no_other_host(
    clone: Clone, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "OPENAI_ORG_ID": "org-of-the-user",
        "OPENAI_PROJECT_ID": "project-of-the-user",
        "OPENAI_ADMIN_KEY": "admin-of-the-user",
        "OPENAI_CUSTOM_HEADERS": "X-Private: header-of-the-user",
    }.items():
        monkeypatch.setenv(name, value)
    clone.judge(api_key_env=None)
    youden("run", "r.yaml").well()
    assert clone.server.headers
    assert "of-the-user" not in str(clone.server.headers)
    assert KEY not in str(clone.server.headers)


def test_a_damaged_permissions_file_is_an_error_and_allows_nothing(clone: Clone, youden: Youden) -> None:
    clone.judge()
    for text in ("OPENAI_API_KEY: 127.0.0.1\n", "- OPENAI_API_KEY\n", "{", "OPENAI_API_KEY: [1]\n"):
        find_trusted_file().parent.mkdir(parents=True, exist_ok=True)
        find_trusted_file().write_text(text)
        ended = youden("run", "r.yaml")
        assert ended.refuses("trust-file"), text
        assert str(find_trusted_file()) in ended.err
    assert clone.server.n_requests == 0


def test_the_permissions_file_is_never_read_from_the_project(
    clone: Clone, youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_key_uses([KeyUse("OPENAI_API_KEY", "127.0.0.1")])
    monkeypatch.setenv("XDG_CONFIG_HOME", "user")  # relative: the specification wants it ignored
    monkeypatch.setenv("HOME", str(clone.path / "home"))
    clone.judge()
    assert youden("run", "r.yaml").refuses("key-not-trusted")
    monkeypatch.setenv("HOME", "user")
    assert youden("run", "r.yaml").refuses("trust-file")


def test_every_shipped_judge_and_provider_works_without_permission(clone: Clone) -> None:
    for path in sorted((find_resource_folders("configs", local=False)[0] / "judges").glob("*.yaml")):
        assert all(is_allowed_key_use(use) for use in load_judge_config(path).find_key_uses()), path.name
    for name, record in (BACKENDS | PROVIDERS).items():
        if record.key_variable and record.address:
            judge = load_judge_config({"backend": name, "model": "m"})
            assert judge.find_key_uses()
            assert all(map(is_known_key_use, judge.find_key_uses())), name


@pytest.mark.parametrize(
    ("variable", "url", "known"),
    [
        ("OPENAI_API_KEY", "https://API.openai.com/v1", True),
        ("OPENAI_API_KEY", "https://eu.api.openai.com/v1", True),
        ("OPENAI_API_KEY", "https://api.openai.com.evil.example/v1", False),
        ("OPENAI_API_KEY", "https://api.openai.com@evil.example/v1", False),
        ("OPENAI_API_KEY", "https://api-openai.com/v1", False),
        ("OPENAI_API_KEY", "https://openrouter.ai/api/v1", False),
        ("AZURE_OPENAI_API_KEY", "https://mine.openai.azure.com/openai/v1", True),
        ("AZURE_OPENAI_API_KEY", "https://mine.cognitiveservices.azure.com/openai/v1", True),
        ("AZURE_OPENAI_API_KEY", "https://a.b.openai.azure.com/openai/v1", False),
        ("AWS_BEARER_TOKEN_BEDROCK", "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", True),
        ("AWS_BEARER_TOKEN_BEDROCK", "https://ec2-1-2-3-4.compute-1.amazonaws.com/v1", False),
        ("AWS_BEARER_TOKEN_BEDROCK", "https://x.execute-api.us-east-1.amazonaws.com/v1", False),
        ("GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai", True),
        ("GITHUB_TOKEN", "https://api.openai.com/v1", False),
        ("OPENAI_API_KEY", "https://\u0430pi.openai.com/v1", False),
    ],
)
def test_a_key_is_recognized_only_at_the_hosts_of_its_provider(
    variable: str, url: str, known: bool, clone: Clone
) -> None:
    judge = load_judge_config({"backend": "wire", "model": "m", "base_url": url, "api_key_env": variable})
    assert [is_known_key_use(use) for use in judge.find_key_uses()] == [known]
    assert judge.find_key_uses()[0].host.isascii()
    assert judge.describe_connections()[0].isascii()


@pytest.mark.parametrize(
    ("keys", "uses"),
    [
        ({"model": "groq/m"}, []),
        ({"model": "groq/m", "api_key_env": "GROQ_API_KEY"}, []),
        ({"model": "together_ai/m", "api_key_env": "TOGETHER_API_KEY"}, []),
        ({"model": "groq/m", "api_key_env": "GITHUB_TOKEN"}, [("GITHUB_TOKEN", "litellm/groq")]),
        ({"model": "openai/m", "base_url": "http://127.0.0.1:1/v1", "api_key_env": None}, []),
        ({"model": "ollama/m", "base_url": "http://127.0.0.1:1", "api_key_env": None}, []),
        (
            {"model": "vertex_ai/m", "base_url": "https://evil.example"},
            [("GOOGLE_APPLICATION_CREDENTIALS", "evil.example")],
        ),
        (
            {"model": "bedrock/m", "base_url": "https://evil.example"},
            [("AWS_ACCESS_KEY_ID", "evil.example"), ("AWS_SECRET_ACCESS_KEY", "evil.example")],
        ),
        ({"model": "bedrock/m", "base_url": "https://bedrock-runtime.us-east-1.amazonaws.com"}, []),
    ],
)
def test_litellm_sends_credentials_to_no_address_of_a_judge_file(
    keys: dict[str, object], uses: list[tuple[str, str]], clone: Clone
) -> None:
    judge = load_judge_config({"backend": "litellm", "price": 0, **keys})
    assert [tuple(use) for use in judge.find_key_uses() if not is_allowed_key_use(use)] == uses
    if uses:
        with pytest.raises(ConfigError, match="key-not-trusted"):
            judge.connection(os.environ)


def test_plan_run_and_judge_name_host_and_key(clone: Clone, youden: Youden) -> None:
    host = clone.server.url.split("/")[2]
    clone.judge()
    output = f"judge: mine at {host}, key from OPENAI_API_KEY"
    assert output in youden("plan", "r.yaml").well().err
    assert output in youden("run", "r.yaml").err
    assert output in youden("judge", "r.yaml").err
    clone.judge(api_key_env=None)
    assert f"judge: mine at {host}, no key" in youden("plan", "r.yaml", "--out", "again").well().err
    ended = youden("plan", "r.yaml", "--judge", "gpt-4o-mini", "--out", "shipped").well()
    assert "judge: gpt-4o-mini at api.openai.com, key from OPENAI_API_KEY" in ended.err
    assert "judge:" not in youden("plan", "r.yaml", "--judge", "lexical", "--out", "offline").well().err


# --- files that are read instead of others --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["link", pytest.param("fifo", marks=pytest.mark.slow)])
@pytest.mark.posix
def test_a_dot_env_symlink_out_of_the_project_is_not_read(
    kind: str, clone: Clone, youden: Youden, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    allow_key_uses([KeyUse("OPENAI_API_KEY", "127.0.0.1")])
    clone.judge()
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "keys"
    elsewhere.write_text(f"OPENAI_API_KEY={KEY}\n")
    if kind == "fifo":
        os.mkfifo(clone.path / ".env")
    else:
        (clone.path / ".env").symlink_to(elsewhere)
    ended = youden("run", "r.yaml")
    assert ended.refuses("judge-no-key")
    assert ("links to a file outside" in ended.err) == (kind == "link")
    (clone.path / ".env").unlink()
    (clone.path / "keys").write_text(elsewhere.read_text())
    (clone.path / ".env").symlink_to("keys")
    youden("run", "r.yaml").well()


@pytest.mark.posix
def test_a_prompt_symlink_out_of_the_project_is_not_read(
    clone: Clone, youden: Youden, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "private.md"
    shipped = find_resource_folders("prompts", local=False)[0] / "same-source.md"
    elsewhere.write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    (clone.path / "judges" / "ask.md").symlink_to(elsewhere)
    clone.judge(prompt="ask.md", api_key_env=None)
    assert youden("plan", "r.yaml").refuses("prompt-unreadable")


@pytest.mark.parametrize(
    "keys",
    [
        {"model": "openai/m", "parameters": {"api_base": "https://evil.example"}},
        {"model": "openai/m", "parameters": {"base_url": "https://evil.example"}},
        {"model": "bedrock/m", "parameters": {"aws_bedrock_runtime_endpoint": "https://evil.example"}},
        {"model": "bedrock/m", "parameters": {"aws_region_name": "x@evil.example/"}},
        {"model": "vertex_ai/m", "parameters": {"vertex_location": "evil.example/"}},
        {"model": "openai/m", "parameters": {"fallbacks": ["other/m"]}},
        {"model": "huggingface/https://evil.example/v1"},
        {"model": "bedrock/arn:aws:bedrock:evil.example/:1:inference-profile/m"},
    ],
    ids=str,
)
def test_a_judge_file_does_not_redirect_litellm(keys: dict[str, object], clone: Clone) -> None:
    with pytest.raises(ConfigError, match="judge-config"):
        load_judge_config({"backend": "litellm", "price": 0, **keys})


def test_usual_litellm_settings_are_accepted(clone: Clone) -> None:
    for model, parameters in {
        "bedrock/us-east-1/meta.llama3-70b-instruct-v1:0": {"top_p": 0.9, "aws_region_name": "us-west-2"},
        "bedrock/arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.m-v1:0": {},
        "vertex_ai/claude@20240620": {"vertex_location": "europe-west1", "extra_body": {"anything": 1}},
    }.items():
        config = load_judge_config({"backend": "litellm", "price": 0, "model": model, "parameters": parameters})
        assert (config.model, config.parameters) == (model, parameters)


def test_litellm_loads_no_dot_env_file_of_the_project(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """litellm searches the parent folders of its installation, and environments are often installed in a project."""
    installed = clone.path / ".venv" / "litellm"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text(
        "import os, dotenv\nif os.getenv('LITELLM_MODE', 'DEV') == 'DEV':\n    dotenv.load_dotenv()\n"
    )
    (clone.path / ".env").write_text("HTTPS_PROXY=http://evil.example\nOPENAI_API_BASE=http://evil.example\n")
    monkeypatch.syspath_prepend(str(installed.parent))
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.setenv("LITELLM_MODE", "DEV")
    make_calling_judge("litellm", Connection("judge", "", 1.0))
    sys.modules.pop("litellm")
    assert not {"HTTPS_PROXY", "OPENAI_API_BASE"} & os.environ.keys()
