"""The way from a plan to verdicts, whatever the judge.

It knows the kinds of judge (asked call by call, answering whole plans, replayed, a jury of others); it refuses to know how
any works.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from youden.errors import ConfigError, InputError
from youden.judging.asking.calling import Caller
from youden.judging.asking.dispatch import Asking, Terms
from youden.judging.asking.sight import EventLog, Sight
from youden.judging.backends.jury import Jury
from youden.judging.backends.replay import Replay
from youden.judging.batches.jobs import Jobs
from youden.judging.batches.registry import batch_provider
from youden.judging.batches.waiting import Batching, InBatches
from youden.judging.call.budget import Budget
from youden.judging.call.retry import RetryPolicy
from youden.judging.cassette.lines import recorded
from youden.judging.cassette.tape import played, playing, plays_only, record
from youden.judging.config.reading import JudgeConfig, load_judge_config
from youden.judging.question.questions import Questions
from youden.judging.registry import JURY, REPLAY, calling_judge, plan_judge
from youden.judging.store.answers import Store
from youden.judging.store.arriving import VerdictColumns
from youden.nouns import Judge, Plan, Pool, Progress, Verdicts


@dataclass(frozen=True, eq=False)
class _Run:
    """What all judges of one run share."""

    plan: Plan
    pool: Pool
    store: Store | None
    budget: Budget
    terms: Terms
    environment: Mapping[str, str]
    batching: Batching | None


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
    log: EventLog | None = None,
    batching: Batching | None = None,
    environment: Mapping[str, str] | None = None,
) -> Verdicts:
    """The judge's answer to every trial of `plan`; what `store` knows is not asked again.

    max_cost: USD this call may spend; None for no cap. max_missing: share of trials without an answer above which the
    run stops, looked at from 200 trials on. retry_failed: ask again what was refused, cut off, unparsed or rejected.
    batching: send the plan through the provider's Batch API, at its prices, instead of calling; a cassette that plays answers
    at once all the same. judge: asked instead of the one that `config` names. environment: where the key is looked up; None
    for the process's.
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
    if batching is not None:
        config = config.at_batch_prices()
    for one in config.judges or (config,):
        check_cap(one, max_cost)
    run = _Run(
        plan,
        pool,
        store,
        Budget(max_cost),
        Terms(max_missing, retry_failed, Sight(progress, log)),
        os.environ if environment is None else environment,
        batching,
    )
    if config.backend == JURY:
        ballots = [await _verdicts(run, one, judge) for one in config.judges]
        return Jury(ballots, vote=config.vote, name=config.name).answer_many(pool, plan)
    return await _verdicts(run, config, judge)


async def _verdicts(run: _Run, config: JudgeConfig, judge: Judge | None) -> Verdicts:
    sight = run.terms.sight
    sight.start(len(run.plan), what=f"judging by {config.name}")
    try:
        if config.backend == REPLAY:
            return _replayed(run, config)
        if judge is None and not config.makes_calls:
            result = plan_judge(config.backend, config.answering.parameters).answer_many(run.pool, run.plan)
            sight.advance(len(run.plan))
            return result
        if judge is None and run.batching is not None and not playing():
            return await _in_batches(run, config, run.batching)
        return await _asked(run, config, judge)
    finally:
        sight.stop()


def _replayed(run: _Run, config: JudgeConfig) -> Verdicts:
    store = _needed(run.store, config)
    asked = config.of or only_judge(store)
    questions = asked.questions()
    advance = partial(run.terms.sight.advance, stored=True)
    result = Replay(questions, store, judge=asked.describe(), advance=advance).answer_many(run.pool, run.plan)
    return replace(result, warnings=(*_about_cuts(questions, run), *result.warnings))


async def _asked(run: _Run, config: JudgeConfig, judge: Judge | None) -> Verdicts:
    store = _needed(run.store, config)
    questions = config.questions()
    asked = judge or played(
        f"the judge '{config.name}'",
        canonical=lambda _key, request: questions.canonical(request, replicate=0),
        make=lambda: calling_judge(config.backend, config.connection(run.environment)),
    )
    paced = config.unpaced() if plays_only() else config
    try:
        store.remember_judge(config.public())
        asking = Asking(
            run.plan,
            run.pool,
            caller=Caller(asked, paced, run.budget),
            config=config,
            questions=questions,
            store=store,
            terms=run.terms,
        )
        await asking.go()
    finally:
        store.flush()
        if judge is None:
            record(recorded(questions, run.plan, run.pool, store), judge=config.public())
            if hasattr(asked, "aclose"):
                await asked.aclose()
    return _finished(run, config, store, asking.columns)


async def _in_batches(run: _Run, config: JudgeConfig, batching: Batching) -> Verdicts:
    store = _needed(run.store, config)
    questions = config.questions()
    policy = RetryPolicy(config.max_tries, config.backoff)
    provider = batch_provider(config.backend, config.connection(run.environment), policy)
    try:
        store.remember_judge(config.public())
        with Jobs(store.path, address=questions.address, model=questions.model) as jobs:
            asking = InBatches(
                run.plan,
                run.pool,
                provider=provider,
                config=config,
                questions=questions,
                store=store,
                jobs=jobs,
                budget=run.budget,
                terms=run.terms,
                batching=batching,
            )
            await asking.go()
    finally:
        store.flush()
        await provider.aclose()
    return _finished(run, config, store, asking.columns)


def _finished(run: _Run, config: JudgeConfig, store: Store, columns: VerdictColumns) -> Verdicts:
    """The verdicts, with what has to be said of who served them and of shortened texts."""
    served, whose = columns.served, config.public()
    drift = served.since(store.served(whose))
    store.remember_served(whose, served.fresh())
    return columns.verdicts(run.plan, config.describe(), warnings=(*drift, *_about_cuts(config.questions(), run)))


def _about_cuts(questions: Questions, run: _Run) -> tuple[str, ...]:
    n = int(questions.cut(run.plan, run.pool).sum())
    if not n:
        return ()
    return (
        f"{n:,} of {len(run.plan):,} trials were judged on shortened texts (truncate: {questions.truncate}; the model's "
        f"context is {questions.context:,} tokens).",
    )


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


def check_cap(config: JudgeConfig, max_cost: float | None) -> None:
    """Whether the cap can be kept. Raises: ConfigError."""
    if max_cost is None:
        return
    if not max_cost >= 0:
        raise ConfigError(f"max_cost is {max_cost}. Give an amount of USD, 0 or more.", slug="max-cost")
    if not config.makes_calls:
        return
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
