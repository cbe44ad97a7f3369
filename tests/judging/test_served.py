"""A served model or build that changes: within a run, and between a run and its store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from judged import dense_plan, judge_config
from pools import make_pool
from scripted import Scripted
from youden.judging.config.judge_files import load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.store.answers import open_store
from youden.nouns import Completion, Plan, Request, Verdicts

POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)


async def judged(path: Path, serve: Callable[[int], tuple[str, str | None]], *, plan: Plan = PLAN) -> Verdicts:
    def script(request: Request) -> Completion:
        model, fingerprint = serve(judge.n_calls)
        return Completion("YES", "stop", model, 1, 1, fingerprint=fingerprint)

    judge = Scripted(script)
    with open_store(path) as store:
        return await judge_plan(plan, POOL, config=judge_config("http://127.0.0.1:9/v1"), store=store, judge=judge)


async def test_one_model_and_one_build_is_no_warning_and_stands_in_the_signature(tmp_path: Path) -> None:
    result = await judged(tmp_path / "v.db", lambda _: ("m-1", "fp_a"))
    assert result.warnings == ()
    assert result.judge["served"] == ["m-1 (fp_a)"]


async def test_a_build_that_changes_within_a_run_is_a_warning_and_another_signature(tmp_path: Path) -> None:
    result = await judged(tmp_path / "v.db", lambda n: ("m-1", "fp_a" if n <= 10 else "fp_b"))
    assert f"m-1 (fp_a) (10 answers), m-1 (fp_b) ({len(PLAN) - 10} answers)" in result.warnings[0].says
    assert result.judge["served"] == ["m-1 (fp_a)", "m-1 (fp_b)"]
    with open_store(tmp_path / "v.db") as store:
        again = await judge_plan(PLAN, POOL, config=load_judge_config("replay"), store=store)
    assert (again.warnings, again.judge) == (result.warnings, result.judge)


async def test_another_model_than_the_stores_is_a_warning(tmp_path: Path) -> None:
    await judged(tmp_path / "v.db", lambda _: ("m-1", None))
    other = replace(PLAN, trials=replace(PLAN.trials, replicate=PLAN.replicate + 1))
    result = await judged(tmp_path / "v.db", lambda _: ("m-2", None), plan=other)
    assert "since the store was last added to: m-1 then, m-2 now" in result.warnings[0].says
    assert result.judge["served"] == ["m-2"]
    assert (await judged(tmp_path / "v.db", lambda _: ("m-2", None), plan=other)).warnings == ()
