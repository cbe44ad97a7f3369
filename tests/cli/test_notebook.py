"""What somebody meets who calls the package from a notebook."""

from __future__ import annotations

import pytest

import youden
from judged import dense_plan
from pools import make_pool
from youden.errors import ConfigError


async def test_judge_inside_a_running_loop_names_the_call_that_works() -> None:
    pool = make_pool(3, 10)
    plan = dense_plan(pool)
    with pytest.raises(ConfigError, match=r"await youden\.judge_async\(…\).*\[loop-running\]"):
        youden.judge(plan, pool)
    assert (await youden.judge_async(plan, pool)).answered.all()


def test_judge_outside_a_loop_judges() -> None:
    pool = make_pool(3, 10)
    assert youden.judge(dense_plan(pool), pool).answered.all()
