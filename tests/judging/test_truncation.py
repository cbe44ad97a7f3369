"""Texts too long for a model: refused, or shortened as stated, counted and signed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judged import dense_plan, judge_config
from pools import make_pool
from scripted import Scripted
from youden.judging.asking.terms import Asking
from youden.judging.engine import judge_plan
from youden.judging.question.parsing import MARK, Truncation, shortened
from youden.judging.question.questions import characters
from youden.judging.store.answers import open_store
from youden.nouns import Request

SHORT = make_pool(3, 4)
texts = SHORT.texts.copy()
texts[0, 0] = "begin " + "x" * 3000 + " end"
POOL = replace(SHORT, texts=texts)
PLAN = dense_plan(POOL)
NOWHERE = "http://127.0.0.1:9/v1"


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, 140), st.sampled_from(["middle", "end"]))
def test_texts_fit_the_room_and_what_fits_is_left_alone(first: str, second: str, room: int, policy: Truncation) -> None:
    one, two = shortened(first, second, room=room, policy=policy)
    assert len(one) + len(two) <= max(room, 2 * len(MARK))
    if len(first) + len(second) <= room:
        assert (one, two) == (first, second)
    if len(first) <= room // 2:
        assert one == first
    if len(second) <= room // 2:
        assert two == second


def test_middle_keeps_both_ends_and_end_keeps_the_beginning() -> None:
    text = "a" * 50 + "b" * 50
    one, _ = shortened(text, "", room=27, policy="middle")
    assert one.startswith("a")
    assert one.endswith("b")
    assert shortened(text, "", room=27, policy="end")[0] == "a" * (27 - len(MARK)) + MARK


@pytest.mark.parametrize("policy", ["middle", "end"])
async def test_long_texts_are_shortened_counted_and_signed(tmp_path: Path, policy: str) -> None:
    asked: list[Request] = []

    def script(request: Request) -> str:
        asked.append(request)
        return "YES"

    config = judge_config(NOWHERE, context=500, truncate=policy)
    with open_store(tmp_path / "v.db") as store:
        result = await judge_plan(PLAN, POOL, config=config, store=store, judge=Scripted(script))
        again = await judge_plan(PLAN, POOL, config=config, store=store, judge=Scripted(script))
    other = np.where(PLAN.arm == 1, PLAN.other_item, PLAN.item)
    n_long = ((PLAN.first == 0) & (PLAN.item == 0) | (PLAN.second == 0) & (other == 0)).sum()
    assert result.answered.all()
    assert f"{n_long} of {len(PLAN)} trials were judged on shortened texts" in result.warnings[0].says
    assert len(asked) == len(PLAN)
    assert max(map(characters, asked)) <= 4 * 500
    assert (result.judge["truncate"], result.judge["context"]) == (policy, 500)
    assert again.warnings == result.warnings


async def test_by_default_a_long_text_is_not_asked_and_counted(tmp_path: Path) -> None:
    with open_store(tmp_path / "v.db") as store:
        result = await judge_plan(
            PLAN,
            POOL,
            config=judge_config(NOWHERE, context=500),
            store=store,
            judge=Scripted(lambda _: "NO"),
            asking=Asking(max_missing=1),
        )
    assert 0 < (~result.answered).sum() < len(PLAN)
    assert "truncate" not in result.judge
