"""Build plans and judges for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pytest

from youden.judging.backend_records import BACKENDS, make_calling_judge
from youden.judging.call.connection import Connection
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.answers import Store, open_store
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Judge, Plan, Pool, Trials, Verdicts
from youden.types.planning import Split
from youden.types.pool import Floats

KEY = "sk-planted-0123456789"
ENVIRONMENT = {"OPENAI_API_KEY": KEY}
NOWHERE = "http://127.0.0.1:9/v1"
"""Address without a server."""


def plan_of(pool: Pool, trials: Iterable[tuple[int, int, int, int]]) -> Plan:
    """Build a plan from trials (item, first, second, other item); the other item of a paired trial is −1."""
    item, first, second, other_item = np.array([*trials], dtype=np.int32).reshape(-1, 4).T.copy()
    return Plan(
        trials=Trials(
            item=item,
            first=first,
            second=second,
            trial_type=np.where(other_item < 0, PAIRED, INDEPENDENT).astype(np.int8),
            other_item=other_item,
            replicate=np.zeros_like(item),
            block=np.full_like(item, -1),
        ),
        split=Split(pool.present.copy(), np.zeros_like(pool.present), "strict", 0.0, 0),
        design="by hand",
        options={},
        independent="matched",
        seed=0,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
        source=pool,
    )


def dense_plan(pool: Pool, *, repeat: int = 1) -> Plan:
    """Plan every ordered pair on every item, paired and independent, `repeat` times under the same replicate."""
    J, pairs = pool.n_items, list(permutations(range(pool.n_agents), 2))
    return plan_of(pool, [(j, i, k, case) for j in range(J) for i, k in pairs for case in (-1, (j + 1) % J)] * repeat)


CALLING = tuple(
    name
    for name, one in BACKENDS.items()
    if one.makes_calls and (find_spec(one.package) if one.package else one.address)
)
"""Every backend that sends requests, and whose library is installed; a backend without an address or a library sends none."""


def each_backend(core: str) -> list[Any]:
    """Return `CALLING` for `parametrize`: `core` in the core tests, the others in the slow ones."""
    return [core, *(pytest.param(name, marks=pytest.mark.slow) for name in CALLING if name != core)]


def model_at(backend: str) -> str:
    """Return the model name for this backend; litellm requires the host before it."""
    return "openai/m" if backend == "litellm" else "m"


class ClosableJudge(Judge, Protocol):
    """Judge with a connection, like those that make calls."""

    async def aclose(self) -> None: ...


def make_closable_judge(backend: str, connection: Connection) -> ClosableJudge:
    judge: Any = make_calling_judge(backend, connection)
    assert hasattr(judge, "aclose")
    return cast(ClosableJudge, judge)


def judge_config(url: str | list[str], **changes: Any) -> JudgeConfig:
    """Return the config of a `wire` judge at `url` with short backoff (`openai` takes three times as long per call)."""
    backend = changes.get("backend", "wire")
    usual = {"backend": backend, "model": model_at(backend), "base_url": url, "concurrency": 8, "backoff": 0.001}
    return load_judge_config({**usual, "timeout": 60, **changes})


async def ask(
    plan: Plan,
    pool: Pool,
    judge: str | list[str] | JudgeConfig | Judge,
    store: Store | str | Path,
    *,
    options: JudgingOptions | None = None,
    environment: Mapping[str, str] = ENVIRONMENT,
    **changes: Any,
) -> Verdicts:
    """Judge the plan by `judge_config` with `changes` if `judge` is an address, or by `judge` itself."""
    url = judge if isinstance(judge, str | list) else NOWHERE
    config = judge if isinstance(judge, JudgeConfig) else judge_config(url, **changes)
    with nullcontext(store) if isinstance(store, Store) else open_store(store) as opened:
        return await judge_plan(
            plan.with_pool(pool),
            config=config,
            store=opened,
            judge=None if isinstance(judge, str | list | JudgeConfig) else judge,
            environment=environment,
            options=options,
        )


def truth(plan: Plan) -> Floats:
    """Return the answers of a judge that is never wrong: 1 if both texts are of one item."""
    return np.where(plan.trial_type == PAIRED, 1.0, 0.0)


def missing(verdicts: Verdicts) -> dict[str, int]:
    """Return the number of answered trials, and of missing ones by reason."""
    return {
        MISSING_REASONS[code]: int((verdicts.missing_reason == code).sum())
        for code in set(verdicts.missing_reason.tolist())
    }
