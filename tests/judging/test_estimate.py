"""Test the forecast cost of a plan and the stated basis of the forecast."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from judged import dense_plan
from small_pools import make_pool
from youden import make_plan
from youden.judging.config import price_table as prices
from youden.judging.config.judge_files import load_judge_config
from youden.judging.estimate import estimate, expected_duration, seconds_in_flight
from youden.judging.question.questions import count_characters
from youden.judging.store.answers import Store
from youden.protocol.independent import select_trials
from youden.types import Completion

POOL = make_pool(3, 6)
PLAN = make_plan(POOL, design="dense")
API = {"backend": "openai", "model": "gpt-x", "price_in": 1, "price_out": 2}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a litellm that has only its price table and fails when imported."""
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    expected = {"input_cost_per_token": 2e-6, "output_cost_per_token": 3e-6}
    models = {
        "gpt-x": expected,
        "host/llama": expected,
        "free": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0},
    }
    (package / "model_prices_and_context_window_backup.json").write_text(json.dumps(models), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(prices, "version", lambda _: "1.2")
    prices._load_price_table.cache_clear()
    monkeypatch.setattr(prices, "_load_price_table", prices._load_price_table.__wrapped__)


def tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a tiktoken with one encoding of two characters per token."""

    def name_for(model: str) -> str:
        return {"gpt-x": "pairs"}[model]

    def encode(text: str) -> list[str]:
        return [text[at : at + 2] for at in range(0, len(text), 2)]

    def get(name: str) -> Any:
        return SimpleNamespace(name=name, encode_ordinary=encode)

    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(encoding_name_for_model=name_for, get_encoding=get))


def test_tokens_are_counted_by_a_local_tokenizer_or_as_one_per_four_characters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiktoken(monkeypatch)
    config, environment = load_judge_config(API), {"TIKTOKEN_CACHE_DIR": str(tmp_path)}
    by_four = estimate(PLAN, config, environment=environment)
    characters = PLAN.characters + config.overhead_characters * len(PLAN)
    assert by_four.tokens_in == -(-characters // 4)
    assert (by_four.tokenizer, by_four.prices) == ("characters / 4", "the judge's config")
    assert by_four.usd == pytest.approx((by_four.tokens_in + 2 * by_four.tokens_out) / 1e6)
    url = "https://openaipublic.blob.core.windows.net/encodings/pairs.tiktoken"
    (tmp_path / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).write_bytes(b"")
    cost = estimate(PLAN, config, environment=environment)
    assert cost.tokenizer == "pairs"
    assert cost.tokens_in == pytest.approx(2 * by_four.tokens_in, rel=0.05)
    assert cost.usd == pytest.approx((cost.tokens_in + 2 * cost.tokens_out) / 1e6)
    unknown = estimate(PLAN, load_judge_config(API | {"model": "other"}), environment=environment)
    assert unknown.tokenizer == "characters / 4"


@pytest.mark.parametrize("changes", [{}, {"context_window": 160, "truncate": "middle"}])
def test_the_estimate_counts_the_prompts_of_items_and_only_the_sent_part_of_texts(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    prompt = tmp_path / "with-task.md"
    labels = 'labels: {"YES": 1, "NO": 0}\nyes_threshold: 1\nparser: label/1'
    prompt.write_text(f"---\n{labels}\n---\n{{{{task}}}}\n{{{{first}}}}\n{{{{second}}}}\nYES or NO?", encoding="utf-8")
    config = load_judge_config(API | {"prompt": str(prompt)} | changes)
    n_characters = sum(count_characters(request) for _, _, request in config.questions().iter_requests(PLAN))
    assert estimate(PLAN, config, environment={}).tokens_in == -(-n_characters // 4)
    rows = np.arange(len(PLAN)) % 2 == 0
    half = select_trials(PLAN, rows)  # as for the cost of an extension
    n_characters = sum(count_characters(request) for _, _, request in config.questions().iter_requests(half))
    assert estimate(half, config, environment={}).tokens_in == -(-n_characters // 4)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("keys", "price", "source"),
    [
        ({"backend": "openai", "model": "gpt-x"}, (2, 3), "litellm 1.2's table"),
        ({"backend": "litellm", "model": "host/llama"}, (2, 3), "litellm 1.2's table"),
        (API, (1, 2), "the judge's config"),
        ({"backend": "openai", "model": "gpt-x", "price": 0}, (0, 0), "the judge's config"),
        ({"backend": "openai", "model": "gpt-x", "base_url": "http://mine:1/v1"}, (None, None), ""),
        ({"backend": "openai", "model": "gpt-y"}, (None, None), ""),
        ({"backend": "litellm", "model": "free"}, (None, None), ""),
    ],
)
def test_prices_are_read_from_the_config_or_else_from_the_table_of_litellm(
    keys: dict[str, Any], price: tuple[float | None, float | None], source: str
) -> None:
    config = load_judge_config(keys)
    assert (config.price_in, config.price_out) == price
    assert estimate(dense_plan(POOL), config, environment={}).prices == source


def test_without_litellm_no_price_table_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "_load_price_table", dict)
    assert load_judge_config({"backend": "openai", "model": "gpt-4o-mini"}).price_in is None


@pytest.mark.parametrize("start", [1, 3, 20])
@pytest.mark.parametrize("n_calls", [1, 20, 57, 400, 10_000])
def test_concurrency_growth_by_one_per_answer_agrees_with_a_manual_count(n_calls: int, start: int) -> None:
    left, at_once, rounds = n_calls, start, 0
    while left > 0:
        left, at_once, rounds = left - at_once, min(2 * at_once, 40), rounds + 1
    assert seconds_in_flight(n_calls, seconds=0.5, start=start, limit=40) == pytest.approx(0.5 * rounds, abs=0.5)


@pytest.mark.parametrize(
    ("keys", "minutes", "pace"),
    [
        ({"concurrency": 10}, 1.0, "1 s per call (assumed), 10 at once"),
        ({"concurrency": 10, "seconds_per_call": 3}, 3.0, "3 s per call, 10 at once"),
        ({"concurrency": 10, "requests_per_minute": 100}, 6.0, "100 requests per minute"),
        ({"concurrency": 10, "requests_per_minute": 1000}, 1.0, "1 s per call (assumed), 10 at once"),
        ({"concurrency": 10, "requests_per_minute": 100, "tokens_per_minute": 6000}, 10.0, "6000 tokens per minute"),
    ],
)
def test_minutes_follow_from_the_slowest_limit_and_name_it(keys: dict[str, Any], minutes: float, pace: str) -> None:
    expected = expected_duration(load_judge_config(API | keys), n_calls=600, n_tokens=60_000)
    assert expected[0] == pytest.approx(minutes)
    assert expected[1] == pace


def test_minutes_are_unknown_for_a_batch_and_for_a_judge_without_calls() -> None:
    cost = estimate(PLAN, load_judge_config(API).with_batch_prices(), environment={})
    assert (cost.minutes, cost.pace) == (None, "a batch returns within a day")
    assert estimate(PLAN, load_judge_config("lexical")).minutes is None


def test_the_minutes_of_a_jury_are_the_sum_over_its_judges() -> None:
    members = [API | {"name": name, "seconds_per_call": 2} for name in "ab"]
    estimated = estimate(PLAN, load_judge_config(members[0]), environment={})
    jury = {"backend": "jury", "judges": [*members, {"backend": "lexical"}]}
    both = estimate(PLAN, load_judge_config(jury), environment={})
    assert estimated.minutes is not None
    assert both.minutes == pytest.approx(2 * estimated.minutes)
    assert both.pace == f"{estimated.pace}; then {estimated.pace}"


def test_the_remaining_cost_is_proportional_to_the_remaining_characters(store: Store) -> None:
    config = load_judge_config(API)
    keys = sorted({key for _, key, _ in config.questions().iter_requests(PLAN)})
    for key in keys[::4]:
        store.add(key, Completion("YES", "stop", "m", 1, 1))
    store.flush()
    cost = estimate(PLAN, config, environment={}, store=store.name)
    assert cost.stored == len(keys[::4])
    limited = load_judge_config(API | {"requests_per_minute": 2})
    assert estimate(PLAN, limited, environment={}, store=store.name).minutes == (len(PLAN) - cost.stored) / 2
    assert estimate(PLAN, limited, environment={}).minutes == len(PLAN) / 2
    assert cost.usd_left == pytest.approx((1 - cost.stored / len(PLAN)) * (cost.usd or 0), rel=0.02)


def test_the_estimated_call_duration_does_not_affect_the_signature() -> None:
    assert load_judge_config(API | {"seconds_per_call": 9}).describe() == load_judge_config(API).describe()
