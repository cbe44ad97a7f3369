"""A run's plan answered by workers on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from youden.data.folder.run_config import RunConfig
from youden.engines.ray import Placing, on_ray
from youden.errors import ConfigError
from youden.judging.asking.terms import Asking, check_cap
from youden.judging.registry import REPLAY
from youden.judging.store.answers import store_path
from youden.nouns import Verdicts
from youden.run.pipeline import PlannedRun, answers_of


def answers_on_ray(planned: PlannedRun, asking: Asking | None = None, *, placing: Placing) -> Verdicts:
    """As `answers_of`, asked by the workers that `placing` places; this process asks nothing.

    The plan and the pool are sent to the workers, so that nodes need no files. Keys are looked up in the workers' environment.

    Raises: as `answers_of` and `on_ray`; ConfigError [ray-offline] where the judge makes no calls.
    """
    if not planned.judge.needs_store or planned.judge.backend == REPLAY:
        raise ConfigError(
            f"The judge '{planned.judge.name}' makes no calls, so there is nothing to share out. Leave --engine out.",
            slug="ray-offline",
        )
    check_cap([planned.judge], planned.config.max_cost)
    terms = replace(asking or Asking(), progress=None)
    place = planned.config.store_place
    placing = replace(placing, one_machine=is_file(place), grace=terms.grace)
    return on_ray(partial(answers_of, _from_anywhere(planned, place), terms), placing)


def placing_of(config: RunConfig, *, workers: int | None = None, say: Callable[[str], None]) -> Placing:
    """Where the run's config wants workers to go. workers: goes before the config's own."""
    wanted = config.ray
    return Placing(workers or wanted.workers, wanted.num_cpus, wanted.num_gpus, wanted.resources, say=say)


def is_file(place: str) -> bool:
    """Whether a store is a file on this machine."""
    return "://" not in place or place.startswith("sqlite:///")


def _from_anywhere(planned: PlannedRun, place: str) -> PlannedRun:
    """The run with paths that mean the same wherever a worker starts."""
    store = f"sqlite:///{store_path(place).resolve()}" if is_file(place) else place
    changes = {"out": str(planned.config.folder.resolve()), "store": store}
    return replace(planned, config=planned.config.model_copy(update=changes))
