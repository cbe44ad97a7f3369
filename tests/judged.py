"""Plans and judges for tests of the engine, built by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.nouns import INDEPENDENT, MISSING_REASONS, PAIRED, Plan, Pool, Split, Trials, Verdicts

KEY = "sk-planted-0123456789"
ENVIRONMENT = {"OPENAI_API_KEY": KEY}


def dense_plan(pool: Pool, *, repeat: int = 1) -> Plan:
    """Every ordered pair on every item, paired and independent, the whole `repeat` times under the same replicate."""
    K, J = pool.n_agents, pool.n_items
    rows = [
        (j, i, k, arm, (j + 1) % J if arm == INDEPENDENT else -1)
        for j in range(J)
        for i in range(K)
        for k in range(K)
        for arm in (PAIRED, INDEPENDENT)
        if i != k
    ] * repeat
    item, first, second, arm, other = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    return Plan(
        trials=Trials(
            item=item,
            first=first,
            second=second,
            arm=arm.astype(np.int8),
            other_item=other,
            replicate=np.zeros(len(rows), dtype=np.int32),
            slot=np.full(len(rows), -1, dtype=np.int32),
        ),
        n_agents=K,
        n_items=J,
        split=Split(pool.present.copy(), np.zeros((K, J), dtype=np.bool_), "shared", 0.0, 0),
        design="dense",
        options={},
        independent="twin",
        seed=0,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
    )


def judge_config(url: str, **changes: Any) -> JudgeConfig:
    """A `wire` judge at `url` that does not wait long before it tries again. (`openai` takes three times the time a call.)"""
    return load_judge_config(
        {"backend": "wire", "model": "m", "base_url": url, "concurrency": 8, "backoff": 0.001, "timeout": 60} | changes
    )


def truth(plan: Plan) -> np.ndarray:
    """What a judge says that is never wrong: 1 where both texts are of one item."""
    return (plan.arm == PAIRED).astype(float)


def missing(verdicts: Verdicts) -> dict[str, int]:
    """How many trials are answered, and how many are missing for each reason."""
    return {MISSING_REASONS[code]: int((verdicts.missing == code).sum()) for code in set(verdicts.missing.tolist())}
