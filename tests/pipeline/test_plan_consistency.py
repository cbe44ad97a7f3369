"""Test that pool, plan, verdicts and rates refer to what they were made from, so that calls cannot mix two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import youden
from commands import Youden
from narrowing import not_none, untyped
from small_pools import answer_with, make_pool
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import PlanError, StatisticsError, YoudenError
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.run_keys import SplitRule
from youden.types import Agent, Plan, Pool, Rounds, Verdicts
from youden.types.planning import Split
from youden.types.pool import Json
from youden.types.results import Rates

K, J = 5, 6


def pool_named(name: str) -> Pool:
    """Make a pool of equal size for all names, with different agent ids."""
    pool = make_pool(K, J)
    agents = tuple(Agent(f"{name}-{agent.id}", group=name) for agent in pool.agents)
    return replace(pool, agents=agents, name=name)


POOLS = {name: pool_named(name) for name in ("one", "two")}


class Case(NamedTuple):
    """A plan of a pool with a holdout, its verdicts and its rates."""

    plan: Plan
    verdicts: Verdicts
    rates: Rates


def case_of(pool: str, seed: int, rule: SplitRule) -> Case:
    plan = youden.make_plan(
        POOLS[pool], design="dense", independent="matched", holdout=0.3, holdout_rule=rule, seed=seed
    )
    verdicts = answer_with(plan, np.random.default_rng(seed).random(len(plan)))
    return Case(plan, verdicts, verdicts.rates())


CASES = st.builds(case_of, st.sampled_from(list(POOLS)), st.integers(0, 50), st.sampled_from(["strict", "paper"]))


def judge_in_a_loop(plan: Plan, pool: Pool) -> None:
    asyncio.run(untyped(youden.judge_async)(plan, pool))


def mixtures(one: Case, other: Case) -> list[Callable[[], Any]]:
    """Return calls of public functions with one part from each of two cases."""
    calls: list[Callable[[], Any]] = []
    for plan, verdicts in ((one.plan, other.verdicts), (other.plan, one.verdicts)):
        calls += [
            partial(untyped(youden.rank), plan, verdicts),
            partial(untyped(youden.rank), verdicts, plan),
            partial(untyped(youden.rank), verdicts, plan=plan),
            partial(untyped(youden.rank), verdicts, groups={"one-a0": "x"}),
            partial(untyped(verdicts.rates), plan),
        ]
    for rates, split in product((one.rates, other.rates), (one.plan.split, other.plan.split, None)):
        for scores in (untyped(rates.training_scores), untyped(rates.holdout_scores)):
            calls += [partial(scores, split), partial(scores, split=split)]
    for case, pool in product((one, other), POOLS.values()):
        calls += [
            partial(untyped(youden.judge), case.plan, pool),
            partial(untyped(youden.judge), case.plan, pool=pool),
            partial(judge_in_a_loop, case.plan, pool),
        ]
        if pool is not case.plan.pool:
            calls += [partial(case.plan.with_pool, pool), partial(replace, case.plan, source=pool)]
    return calls


@given(CASES, CASES)
@settings(max_examples=10, deadline=None)
def test_public_functions_refuse_to_mix_plans_splits_and_pools_of_equal_size(one: Case, other: Case) -> None:
    for call in mixtures(one, other):
        with pytest.raises((YoudenError, TypeError)):
            call()


@given(CASES)
@settings(max_examples=10, deadline=None)
def test_results_refer_to_the_plan_that_was_judged(case: Case) -> None:
    table = youden.rank(case.verdicts)
    assert set(table.agent) == {agent.id for agent in case.plan.pool.agents}
    assert set(table.group) == {case.plan.pool.name}
    holdout = case.plan.split.holdout
    for kind in ("row", "symmetric"):
        train, later = case.rates.training_scores(kind=kind), case.rates.holdout_scores(kind=kind)
        assert np.isnan(train.value[holdout]).all()
        assert np.isnan(later.value[~holdout]).all()
        assert not np.isnan(later.value[holdout]).all()


def test_rates_require_a_split_of_their_own_size() -> None:
    rates = case_of("one", 0, "strict").rates
    for wrong in (None, Split.without_holdout((K, J + 1))):
        with pytest.raises(StatisticsError, match=r"\[split-shape\]"):
            untyped(replace)(rates, split=wrong)
    fields = {name: getattr(rates, name) for name in rates.__dataclass_fields__ if name != "split"}
    with pytest.raises(TypeError, match="split"):
        Rates(**fields)
    complete = replace(rates, split=Split.without_holdout((K, J))).training_scores()
    assert not np.isnan(complete.value).any()


def test_verdicts_require_one_value_per_trial_of_their_plan() -> None:
    verdicts = case_of("one", 0, "strict").verdicts
    with pytest.raises(PlanError, match=r"\[verdicts-length\]"):
        replace(verdicts, hard_answer=verdicts.hard_answer[1:])
    with pytest.raises(PlanError, match=r"votes.*\[verdicts-length\]"):
        replace(verdicts, votes=np.ones((2, 3)))


def test_ranking_refuses_answers_outside_0_to_1() -> None:
    verdicts = case_of("one", 0, "strict").verdicts
    grades = replace(verdicts, answer=verdicts.answer * 4 + 1)
    with pytest.raises(PlanError, match=r"from 0 to 1.*\[verdicts-range\]"):
        youden.rank(grades)


def test_columns_of_verdicts_must_be_numeric_arrays() -> None:
    verdicts = case_of("one", 0, "strict").verdicts
    shuffled = pd.Series(verdicts.answer).sample(frac=1, random_state=0)
    for column in (verdicts.answer.tolist(), shuffled, verdicts.answer[:, None]):
        with pytest.raises(PlanError, match=r"in answer.*\[verdicts-length\]"):
            untyped(replace)(verdicts, answer=column)
    with pytest.raises(PlanError, match=r"type object.*\[verdicts-range\]"):
        untyped(replace)(verdicts, answer=verdicts.answer.astype(object))


def test_a_plan_without_its_pool_is_an_error_only_if_texts_are_needed() -> None:
    plan = replace(youden.make_plan(POOLS["one"], calls=160), source=None)
    assert plan.cost("gpt-4o-mini").calls == len(plan)
    assert youden.rank(answer_with(plan, np.random.default_rng(0).random(len(plan)))).group.isna().all()
    with pytest.raises(PlanError, match=r"plan\.with_pool\(pool\).*\[plan-no-pool\]"):
        youden.judge(plan)
    assert youden.judge(plan.with_pool(POOLS["one"]), judge=lambda a, b: a == b).answered.all()
    assert "agent" not in repr(plan.with_pool(POOLS["one"])).replace("agents", "")


def test_a_plan_from_a_run_folder_reads_the_pool_of_the_run(youden: Youden, tmp_path: Path) -> None:
    pool = make_pool(5, 12)
    write_pool(pool, tmp_path / "pool")
    (tmp_path / "c.yaml").write_text(
        f"name: c\npool: {tmp_path}/pool\njudge: lexical\ncalls: 200\nout: {tmp_path}/run\n"
    )
    assert youden("run", str(tmp_path / "c.yaml")).code == 0
    plan = RunFolder(tmp_path / "run").read_plan()
    assert plan.pool.digest == pool.digest
    write_pool(replace(pool, texts=pool.texts[::-1].copy()), tmp_path / "pool")
    changed = RunFolder(tmp_path / "run").read_plan()
    with pytest.raises(PlanError, match=r"\[plan-other-pool\]"):
        _ = changed.pool


def test_a_plan_is_priced_for_every_kind_of_judge(tmp_path: Path) -> None:
    plan = youden.make_plan(POOLS["one"], calls=160)
    config = load_judge_config("gpt-4o-mini")
    file = tmp_path / "mine.yaml"
    file.write_text("backend: openai\nmodel: gpt-4o-mini\nmax_tokens: 8\nprice_in: 0.15\nprice_out: 0.6\n")
    keys: dict[str, Json] = {
        "backend": "openai",
        "model": "gpt-4o-mini",
        "max_tokens": 8,
        "price_in": 0.15,
        "price_out": 0.6,
    }
    judges: tuple[str | Path | JudgeConfig | dict[str, Json], ...] = ("gpt-4o-mini", config, file, str(file), keys)
    costs = [plan.cost(judge) for judge in judges]
    assert {(cost.calls, cost.tokens_in, cost.usd) for cost in costs} == {(len(plan), costs[0].tokens_in, costs[0].usd)}
    assert not_none(costs[0].usd) > 0
    assert not_none(costs[0].minutes) > 0
    jury = plan.cost({"backend": "jury", "judges": ["gpt-4o-mini", {**keys, "name": "again"}], "vote": "mean"})
    assert jury.usd == pytest.approx(2 * not_none(costs[0].usd))
    for free in ("lexical", {"backend": "lexical"}, lambda a, b: 0.5):
        cost = plan.cost(free)
        assert (cost.calls, cost.cells, cost.usd) == (len(plan), plan.n_cells, 0)
    for wrong in (3, None, "gpt-4o-mimi", tmp_path / "none.yaml"):
        with pytest.raises(YoudenError):
            untyped(plan.cost)(wrong)


def test_contradictory_arguments_are_refused() -> None:
    case, cells = case_of("one", 0, "strict"), np.ones((K, J), dtype=np.bool_)
    plan, verdicts, rates = case
    trials = plan.trials
    every = np.ones((1, K), dtype=np.bool_)
    refused: dict[str, Callable[[], object]] = {
        "plan-shape": lambda: replace(plan, trials=replace(trials, first=trials.first + np.int32(K))),
        "plan-other-pool": lambda: untyped(plan.with_pool)("pool"),
        "split-cells": lambda: Split(cells, cells, "strict", 0.2, 0),
        "holdout-rule": lambda: untyped(replace)(plan.split, rule="none"),
        "verdicts-missing": lambda: replace(verdicts, missing_reason=np.ones(len(plan), dtype=np.int8)),
        "rates-length": lambda: replace(rates, fpr=rates.fpr[1:]),
        "rates-ids": lambda: replace(rates, first=rates.first + np.int32(K)),
        "score-kind": lambda: untyped(rates.training_scores)(kind="rows"),
        "pool-shape": lambda: replace(plan.pool, items=plan.pool.items[1:]),
        "rank-method": lambda: untyped(youden.rank)(verdicts, method="mean"),
    }
    refused["pool-shape "] = lambda: Pool.from_repeats(
        plan.pool.agents, plan.pool.items, [plan.pool.texts, plan.pool.texts[:, 1:], plan.pool.texts], "p"
    )
    refused["pool-shape  "] = lambda: Pool.from_repeats(plan.pool.agents, plan.pool.items, [], "p")
    refused["plan-shape "] = lambda: Rounds(None, (0, 1), every)
    for slug, make in refused.items():
        with pytest.raises(YoudenError) as caught:
            make()
        assert caught.value.slug == slug.strip()
