"""A run's plan answered by workers on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from youden.data.folder.run_config import RunConfig
from youden.engines.ray import Placing, on_ray
from youden.errors import ConfigError
from youden.judging.asking.sight import Sight
from youden.judging.asking.terms import Asking, check_cap
from youden.judging.registry import REPLAY
from youden.judging.store.places.urls import VARIABLE
from youden.judging.store.team import Team
from youden.nouns import Verdicts
from youden.run.elsewhere.worker import work_on
from youden.run.pipeline import PlannedRun
from youden.text.places import is_file


def answers_on_ray(planned: PlannedRun, asking: Asking | None, *, team: Team | None, placing: Placing) -> Verdicts:
    """As `answers_of`, asked by the workers that `placing` places; this process leads the run and asks nothing.

    The plan and the pool are sent to the workers, so that nodes need no files. Keys are looked up in the workers' environment.

    Raises: as `answers_of` and `on_ray`; ConfigError [ray-offline] where the judge makes no calls.
    """
    if team is None or not planned.judge.needs_store or planned.judge.backend == REPLAY:
        raise ConfigError(
            f"The judge '{planned.judge.name}' makes no calls, so there is nothing to share out. Leave --engine out.",
            slug="ray-offline",
        )
    check_cap([planned.judge], planned.config.max_cost)
    team.asks = False
    team.sync()
    terms = asking or Asking()
    shown, sight = 0, Sight(terms.progress)

    def look() -> None:
        nonlocal shown
        shown, before = team.others.answered, shown
        sight.advance(max(0, shown - before))

    place = planned.config.store_place
    work = partial(_work, _from_anywhere(planned, place), replace(terms, progress=None), os.environ.get(VARIABLE))
    sight.start(len(planned.plan), what=f"judging by {planned.judge.name}, on Ray")
    try:
        result = on_ray(work, replace(placing, one_machine=is_file(place), grace=terms.grace, look=look))
    finally:
        sight.stop()
    if team.lost is not None:
        raise team.lost
    return result


def placing_of(config: RunConfig, *, workers: int | None = None, say: Callable[[str], None]) -> Placing:
    """Where the run's config wants workers to go. workers: goes before the config's own."""
    wanted = config.ray
    return Placing(workers or wanted.workers, wanted.num_cpus, wanted.num_gpus, wanted.resources, say=say)


def _work(planned: PlannedRun, asking: Asking, store: str | None) -> Verdicts:
    """On a node. store: what the variable says that a store's password comes from, where the node itself says nothing."""
    if store is not None:
        os.environ.setdefault(VARIABLE, store)
    return work_on(planned, asking)


def _from_anywhere(planned: PlannedRun, place: str) -> PlannedRun:
    """The run with paths that mean the same wherever a worker starts."""
    store = os.path.abspath(place.removeprefix("sqlite:///")) if is_file(place) else place
    changes = {"out": os.path.abspath(planned.config.folder), "store": store}
    return replace(planned, config=planned.config.model_copy(update=changes))
