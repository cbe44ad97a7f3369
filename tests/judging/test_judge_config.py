"""Test judge files: where they are found, what they may contain, and that they contain no API key."""

from __future__ import annotations

from pathlib import Path

import pytest

from judged import ENVIRONMENT, KEY
from youden.errors import ConfigError, JudgeError
from youden.judging.call.failures import CallError
from youden.judging.config.judge_files import call_cost, load_judge_config
from youden.types.pool import Json

API = {"backend": "openai", "model": "m"}


def test_shipped_judges_load_with_their_prices() -> None:
    paid, local = load_judge_config("gpt-4o-mini"), load_judge_config("local")
    assert (paid.name, paid.model, paid.price_in, paid.price_out) == ("gpt-4o-mini", "gpt-4o-mini", 0.15, 0.6)
    assert (local.price_in, local.price_out, local.api_key_env) == (0, 0, None)
    assert call_cost(paid, 1e6, 1e6) == pytest.approx(0.75)


def test_the_largest_of_several_limits_on_an_answer_counts_towards_the_cost() -> None:
    judge = load_judge_config(API | {"parameters": {"max_completion_tokens": 1000}})
    assert judge.request_parameters["max_tokens"] == 8
    assert judge.answer_limit == 1000


OPENAI = {"backend": "openai", "model": "gpt-4.1-mini"}


@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        ("gpt-4o-mini", "logprobs"),
        ("openai/gpt-4o-2024-11-20", "logprobs"),
        (OPENAI, "logprobs"),
        (OPENAI | {"backend": "wire"}, "logprobs"),
        (OPENAI | {"decision": "text"}, "text"),
        (OPENAI | {"max_tokens": 8}, "logprobs"),
        (OPENAI | {"max_tokens": 300}, "text"),
        (OPENAI | {"parameters": {"logprobs": False}}, "text"),
        (OPENAI | {"base_url": ["https://api.openai.com/v1", "http://127.0.0.1:9/v1"]}, "text"),
        (OPENAI | {"base_url": "http://127.0.0.1:9/v1"}, "text"),
        (OPENAI | {"model": "gpt-4.1-nano"}, "text"),
        ("openai/o4-mini", "text"),
        ("claude-haiku-4.5", "text"),
    ],
)
def test_a_judge_decides_by_log_probabilities_if_its_provider_returns_them(
    keys: str | dict[str, Json], decision: str
) -> None:
    config = load_judge_config(keys)
    assert config.decision == decision
    assert config.answers == ("graded" if decision == "logprobs" else "yes or no")
    assert (config.request_parameters.get("logprobs") is True) == (decision == "logprobs")


def test_a_prompt_with_labels_of_equal_beginnings_is_decided_by_the_text(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text(
        '---\nlabels: {"SAME": 1, "some": 0}\nyes_threshold: 1\nparser: label/1\n---\n{{first}}{{second}}',
        encoding="utf-8",
    )
    (tmp_path / "mine.yaml").write_text("backend: openai\nmodel: gpt-4o\nprompt: p.md\n", encoding="utf-8")
    config = load_judge_config(tmp_path / "mine.yaml")
    assert (config.decision, config.other_decision) == ("text", None)


@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        ({"backend": "litellm", "model": "openai/gpt-4.1-nano"}, "logprobs"),
        ({"backend": "litellm", "model": "openai/o3"}, None),
        (OPENAI | {"max_tokens": 300}, None),
    ],
)
def test_another_decision_is_suggested_if_the_first_token_gives_the_label(
    keys: dict[str, Json], decision: str | None
) -> None:
    assert load_judge_config(keys).other_decision == decision


@pytest.mark.parametrize(("max_tokens", "max_completion_tokens"), [(8, 2048), (2048, 8)])
def test_the_larger_of_two_limits_bounds_the_cost_of_an_answer(max_tokens: int, max_completion_tokens: int) -> None:
    keys = {"backend": "together", "model": "m", "price": 1, "max_tokens": max_tokens}
    judge = load_judge_config({**keys, "parameters": {"max_completion_tokens": max_completion_tokens}})
    assert judge.answer_limit == 2048


def test_the_family_of_a_judge_does_not_affect_its_signature() -> None:
    plain, named = (load_judge_config(API | family) for family in ({}, {"family": "gpt"}))
    assert named.family == "gpt"
    assert named.describe() == plain.describe()
    assert named.public() == plain.public()
    assert named.request_parameters == plain.request_parameters
    assert load_judge_config({"backend": "lexical", "family": "words"}).family == "words"


def test_a_judge_without_calls_needs_no_file_and_accepts_its_own_parameters() -> None:
    assert not load_judge_config("replay").makes_calls
    assert load_judge_config("replay").overhead_characters == 0
    assert load_judge_config({"backend": "lexical", "parameters": {"seed": 3}}).parameters == {"seed": 3}
    with pytest.raises(ConfigError, match="makes no calls"):
        load_judge_config({"backend": "replay", "model": "m"})
    with pytest.raises(ConfigError, match="parameters would have no effect"):
        load_judge_config({"backend": "replay", "parameters": {"top_p": 0.5}})
    assert load_judge_config({"backend": "replay", "replay_of": "gpt-4o-mini"}).replay_of == load_judge_config(
        "gpt-4o-mini"
    )


@pytest.mark.parametrize("folder", ["judges", "configs/judges"])
def test_a_judge_file_of_the_user_is_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "local.yaml").write_text("backend: openai\nmodel: mine\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_judge_config("local").model == "mine"


def test_a_judge_is_given_by_path_and_its_prompt_is_found_in_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text(
        '---\nlabels: {"A": 1, "B": 0}\nyes_threshold: 1\nparser: label/1\n---\n{{first}}{{second}}', encoding="utf-8"
    )
    (tmp_path / "mine.yaml").write_text("backend: openai\nmodel: m\nprompt: p.md\n", encoding="utf-8")
    config = load_judge_config(tmp_path / "mine.yaml")
    assert config.name == "mine"
    assert set(config.loaded_prompt.labels) == {"A", "B"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"modle": "x"}, "Did you mean 'model'"),
        ({"zzz": 1}, "Known: api_key_env, backend"),
        ({"temperature": "hot"}, "'temperature' is 'hot'"),
        ({"temperature": 3}, "less than or equal to 2"),
        ({"concurrency": 0}, "greater than or equal to 1"),
        ({"price_in": -1}, "greater than or equal to 0"),
        ({"price_in": float("nan")}, "finite"),
        ({"price": 1, "price_in": 1}, "either price"),
        ({"price_in": 1}, "price_in is set, but price_out is not"),
        ({"price_out": 0}, "price_out is set, but price_in is not"),
        ({"base_url": "localhost:8000"}, "http://"),
        ({"base_url": "http://x:99999999/v1"}, "http://"),
        ({"base_url": "http://x/v1?key=1"}, "without ?"),
        ({"decision": "dice"}, "'text'"),
        ({"model": None}, "has no model"),
        ({"answering": {"model": "m"}}, "unknown key 'answering'"),
        ({"price_source": "mine"}, "unknown key"),
        ({"backend": "opnai"}, "Did you mean 'openai'"),
        ({"prompt": "sam-source"}, "same-source"),
        ({"parameters": {"stream": True}}, "stream"),
        ({"parameters": {"seed": 1}}, "seed"),
        ({"of": "gpt-4o-mini"}, "replay"),
        ({"vote": "mean"}, "`vote` are valid only with `backend: jury`"),
    ],
)
def test_a_typo_or_invalid_value_is_an_error_with_the_allowed_values(data: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_judge_config(API | data)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("backend: openai\nmodel: m\ntimeout: soon\n", ": 'timeout' is 'soon'"),
        *((text, "") for text in ("[", "just words", "", "\t- x")),
    ],
)
def test_the_error_names_the_file_and_the_key(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"mine\.yaml.*{says}"):
        load_judge_config(tmp_path / "mine.yaml")


def test_unknown_names_and_missing_files_are_refused_with_the_available_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'gpt-4o-mini'"):
        load_judge_config("gpt-4o-mni")
    with pytest.raises(ConfigError, match=r"jury, lexical, litellm, llama3-70b, .*local, .*openai, .*replay, .*wire"):
        load_judge_config("nobody-knows")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_judge_config(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    "data",
    [
        {"api_key": KEY},
        {"api_key_env": KEY},
        {"parameters": {"api_key": KEY}},
        {"base_url": f"ftp://me:{KEY}@host/v1"},
        {"base_url": f"http://host/v1?key={KEY}"},
    ],
)
def test_a_literal_key_in_a_config_is_refused_without_being_shown(data: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_judge_config(API | data)
    assert KEY not in str(caught.value)


def test_credentials_of_a_url_are_sent_but_neither_displayed_nor_stored() -> None:
    config = load_judge_config(API | {"base_url": f"https://me:{KEY}@host:1/v1/", "api_key_env": None})
    connection = config.connection({})
    assert connection.authorization is not None
    displayed = [repr(config), repr(connection), str(config.describe()), str(config.public()), config.address]
    assert all(KEY not in text and connection.authorization not in text for text in displayed)
    assert config.address == "https://host:1/v1"
    with pytest.raises(ConfigError, match="only one"):
        load_judge_config(API | {"base_url": f"https://me:{KEY}@host/v1"}).connection(ENVIRONMENT)


@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": "  "}])
def test_a_missing_key_is_an_error_that_names_its_variable(environment: dict[str, str]) -> None:
    with pytest.raises(JudgeError, match=r"OPENAI_API_KEY.*\[judge-no-key\]"):
        load_judge_config(API).connection(environment)
    with pytest.raises(JudgeError, match="needs a key"):
        load_judge_config(API | {"api_key_env": None}).connection(environment)


def test_a_connection_hides_its_key_and_a_local_server_needs_none() -> None:
    local = load_judge_config("local").connection({})
    assert (local.api_key, local.authorization) == (None, None)
    connection = load_judge_config(API).connection(ENVIRONMENT)
    assert connection.api_key == KEY
    assert KEY not in repr(connection)
    assert CallError(f"wrong key {KEY}", kind="fatal").reason == "wrong key ***"


def test_the_signature_depends_only_on_settings_that_change_answers() -> None:
    fetched = {"concurrency": 3, "timeout": 9, "max_tries": 2, "price": 0, "backoff": 1}
    plain = load_judge_config(API).describe()
    assert load_judge_config(API | fetched).describe() == plain
    for change in ({"temperature": 1}, {"seed": 4}, {"prompt": "information-gain"}, {"parameters": {"top_p": 0.5}}):
        assert load_judge_config(API | change).describe() != plain


def test_a_changed_key_is_sent_even_if_the_judge_was_used_before() -> None:
    judge = load_judge_config({"backend": "wire", "model": "m", "base_url": "http://127.0.0.1:9/v1", "price": 0})
    assert (judge.request_parameters["max_tokens"], judge.record.batches, judge.loaded_prompt.name) == (
        8,
        "openai",
        "same-source",
    )
    changed = judge.with_changes({"seed": 8, "max_tokens": 50, "backend": "litellm", "prompt": "information-gain"})
    assert (changed.request_parameters["seed"], changed.request_parameters["max_tokens"]) == (8, 50)
    assert (changed.record.batches, changed.loaded_prompt.name) == (None, "information-gain")
