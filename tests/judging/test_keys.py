"""Test that request hashes computed without requests equal those of the requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import youden
from plan_options import SeededPlanOptions
from small_pools import make_pool
from youden.errors import InputError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.prompts import make_fence, parse_prompt
from youden.judging.question.questions import iter_keys
from youden.types import Plan, Pool

JUDGE = {"backend": "wire", "model": 'm"<é', "base_url": "http://made.invalid", "prompt": "same-source", "price": 0}
TEXTS = st.one_of(
    st.text(max_size=30), st.sampled_from(["", "\ud800 half", 'a "quote" \\ and\n\u2028', "plain words", "é" * 9])
)


def plan_of(pool: Pool, **more: Unpack[SeededPlanOptions]) -> Plan:
    options: SeededPlanOptions = {
        "design": "cyclic",
        "calls": 60,
        "independent": "pooled:20",
        "holdout": 0.0,
        "seed": 1,
        **more,
    }
    return youden.make_plan(pool, **options)


@settings(max_examples=10, deadline=None)
@given(texts=st.lists(TEXTS, min_size=30, max_size=30), decision=st.sampled_from(["text", "json"]))
@pytest.mark.parametrize("limits", [{}, {"context_window": 420, "truncate": "middle"}, {"context_window": 300}])
def test_request_hashes_equal_those_of_the_request_bytes(
    texts: list[str], decision: str, limits: dict[str, object]
) -> None:
    pool = replace(make_pool(5, 6), texts=np.array(texts, dtype=object).reshape(5, 6))
    questions = load_judge_config({**JUDGE, **limits, "decision": decision}).questions()
    plan = plan_of(pool)
    assert [tuple(pair) for pair in iter_keys(questions, plan)] == [
        (row, key) for row, key, _ in questions.iter_requests(plan)
    ]


def test_a_replicate_has_another_key_and_the_fence_is_found_anywhere() -> None:
    pool = make_pool(4, 5)
    plan = plan_of(pool)
    again = replace(plan, trials=replace(plan.trials, replicate=np.arange(len(plan), dtype=np.int32) % 3))
    head = '---\nlabels: {"YES": 1, "NO": 0}\nyes_threshold: 1\nparser: label/1\nsystem: decide\n---\n'
    prompt = parse_prompt(head + "{{fence}} {{second}} and {{fence}}{{first}}: {{fence}}", name="p", location="here")
    questions = replace(load_judge_config(JUDGE).questions(), prompt=prompt)
    result = [tuple(pair) for pair in iter_keys(questions, again)]
    assert result == [(row, key) for row, key, _ in questions.iter_requests(again)]
    assert len({key for _, key in result}) == len(result)


def test_a_missing_response_is_an_error_with_its_trial() -> None:
    pool = make_pool(4, 5)
    plan = plan_of(pool)
    texts = pool.texts.copy()
    texts[plan.second[3], plan.item[3]] = None
    gappy = replace(pool, texts=texts)
    with pytest.raises(InputError, match="plan-missing-text"):
        list(iter_keys(load_judge_config(JUDGE).questions(), replace(plan, pool_digest=gappy.digest, source=gappy)))


def test_the_fence_equals_that_of_stored_answers() -> None:
    assert make_fence("a", "b") == "78901c91d9fe6a7d"
