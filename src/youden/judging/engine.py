"""The way from a plan to verdicts, whatever the judge.

It knows the three kinds of judge (asked call by call, answering whole plans, replayed); it refuses to know how any works.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from youden.errors import ConfigError, InputError
from youden.judging.asking import Asking
from youden.judging.backends.replay import Replay
from youden.judging.budget import Budget
from youden.judging.judge_config import JudgeConfig, load_judge_config
from youden.judging.registry import REPLAY, batch_judge, calling_judge
from youden.judging.store import Store
from youden.judging.tape import played
from youden.types import Judge, Plan, Pool, Progress, Verdicts


async def judge_plan(
    plan: Plan,
    pool: Pool,
    *,
    config: JudgeConfig,
    store: Store | None = None,
    judge: Judge | None = None,
    max_cost: float | None = None,
    max_missing: float = 0.01,
    retry_failed: bool = False,
    progress: Progress | None = None,
    environment: Mapping[str, str] | None = None,
) -> Verdicts:
    """The judge's answer to every trial of `plan`; what `store` knows is not asked again.

    max_cost: USD this call may spend; None for no cap. max_missing: share of trials without an answer above which the
    run stops, looked at from 200 trials on. retry_failed: ask again what was refused, cut off, unparsed or rejected.
    judge: asked instead of the one that `config` names. environment: where the key is looked up; None for the process's.
    In the verdicts `usd` is NaN for calls whose price is unknown.

    Raises: ConfigError and JudgeError before any call where something cannot work; later JudgeError, BudgetError,
    TooManyMissingError, with all answers stored, so that the same call goes on from there; ReplayMissError.
    """
    if plan.pool_digest != pool.digest:
        raise InputError(
            f"The plan was made for another pool (digest {plan.pool_digest[:12]}, this one has {pool.digest[:12]}). "
            "Make the plan again from this pool.",
            slug="plan-other-pool",
        )
    if progress is not None:
        progress.start(len(plan), what="judging")
    try:
        if config.backend == REPLAY:
            asked = config.of or only_judge(_needed(store, config))
            replay = Replay(asked.questions(), _needed(store, config), judge=asked.describe(), progress=progress)
            return replay.answer_many(pool, plan)
        if judge is None and not config.makes_calls:
            result = batch_judge(config.backend, config.parameters).answer_many(pool, plan)
            if progress is not None:
                progress.advance(len(plan), failed=len(plan) - int(result.answered.sum()))
            return result
        asking = await _ask(
            plan,
            pool,
            config=config,
            store=_needed(store, config),
            judge=judge,
            max_cost=max_cost,
            max_missing=max_missing,
            retry_failed=retry_failed,
            progress=progress,
            environment=os.environ if environment is None else environment,
        )
        return asking.columns.verdicts(plan, config.describe())
    finally:
        if progress is not None:
            progress.stop()


async def _ask(
    plan: Plan,
    pool: Pool,
    *,
    config: JudgeConfig,
    store: Store,
    judge: Judge | None,
    max_cost: float | None,
    max_missing: float,
    retry_failed: bool,
    progress: Progress | None,
    environment: Mapping[str, str],
) -> Asking:
    _check_cap(config, max_cost)
    questions = config.questions()
    asked = judge or played(
        config,
        plan,
        pool,
        store=store,
        make=lambda: calling_judge(config.backend, config.connection(environment)),
    )
    try:
        store.remember_judge(config.public())
        asking = Asking(
            plan,
            pool,
            judge=asked,
            config=config,
            questions=questions,
            store=store,
            budget=Budget(max_cost),
            max_missing=max_missing,
            retry_failed=retry_failed,
            progress=progress,
        )
        await asking.go()
    finally:
        store.flush()
        if judge is None and hasattr(asked, "aclose"):
            await asked.aclose()
    return asking


def _needed(store: Store | None, config: JudgeConfig) -> Store:
    if store is None:
        raise ConfigError(
            f"The judge '{config.name}' needs a store, for its answers are paid for. Give a path, such as verdicts.db.",
            slug="store-needed",
        )
    return store


def only_judge(store: Store) -> JudgeConfig:
    """The one judge whose answers `store` keeps. Raises: ConfigError [replay-whom]."""
    judges = store.judges()
    if len(judges) != 1:
        names = ", ".join(sorted(str(judge.get("name")) for judge in judges)) or "nobody"
        raise ConfigError(
            f"The store {store.path} holds answers of {names}, so it is not clear whom to replay. "
            "Say it in the judge's config: {backend: replay, of: NAME}.",
            slug="replay-whom",
        )
    return load_judge_config(judges[0])


def _check_cap(config: JudgeConfig, max_cost: float | None) -> None:
    """Whether the cap can be kept. Raises: ConfigError."""
    if max_cost is None:
        return
    if not max_cost >= 0:
        raise ConfigError(f"max_cost is {max_cost}. Give an amount of USD, 0 or more.", slug="max-cost")
    if config.price_in is None or config.price_out is None:
        raise ConfigError(
            f"There is a cap of {max_cost:g} USD, but the price of '{config.name}' is unknown. "
            "Set price_in and price_out (USD per million tokens) in its config; `price: 0` for a server of your own.",
            slug="price-unknown",
        )
    if config.price_out > 0 and config.answer_limit is None:
        raise ConfigError(
            f"There is a cap of {max_cost:g} USD, but nothing bounds the answers of '{config.name}'. "
            "Set max_tokens, or max_completion_tokens under parameters.",
            slug="answer-unbounded",
        )
