"""Make small judged runs with given answers, for tests of reports and viewers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from commands import write_config
from small_pools import answer_with, make_pool
from worlds import fit_once
from youden.data.folder.run_config import load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.pipeline.judged_run import plan_run
from youden.types import PAIRED, Plan, Pool
from youden.types.pool import Bools, Floats

Answers = Callable[[Plan], Floats]


def by_ability(plan: Plan) -> Floats:
    """Answer such that agent 0 is best: paired answers fall with the sum of agent numbers; independent ones are 0."""
    paired = 1 - (plan.first + plan.second) / (2.0 * plan.n_agents)
    return np.where(plan.trial_type == PAIRED, np.clip(paired, 0, 1), 0.0)


def judged(
    folder: Path,
    *,
    pool: Pool | None = None,
    answers: Answers = by_ability,
    missing: Callable[[Plan], Bools] | None = None,
    measured: Callable[[Plan], dict[str, Any]] | None = None,
    **keys: object,
) -> RunFolder:
    """Create a fitted run in `folder` with a pool next to it; `answers` replaces the judge.

    `missing` states which trials have no answer, and `measured` has further columns of the verdicts, such as `tokens_out`.
    """
    place = folder.parent / f"{folder.name}-pool"
    write_pool(pool or make_pool(5, 8), place)
    config = folder.parent / f"{folder.name}.yaml"
    write_config(config, **({"pool": str(place), "judge": "lexical", "design": "dense", "out": str(folder)} | keys))
    planned = plan_run(load_run_config(config))
    lost = None if missing is None else missing(planned.plan)
    columns = {} if measured is None else measured(planned.plan)
    planned.folder.write_verdicts(replace(answer_with(planned.plan, answers(planned.plan), missing=lost), **columns))
    fit_once(planned.folder)
    return planned.folder


T = TypeVar("T")


def with_values(data: T, **values: object) -> T:
    """Return a copy of a report's data with other values of these attributes."""
    changed = copy(data)
    vars(changed).update(values)
    return changed
