"""Judges tried on a pool before the main spend: trials of known truth are asked, measured and decided on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from youden.data.folder.run_config import RunConfig, load_run_config, with_usual_store
from youden.errors import ConfigError
from youden.judging.asking.stopping import run_until_stopped
from youden.judging.asking.terms import Asking, check_cap
from youden.judging.call.budget import Budget
from youden.judging.config.reading import JudgeConfig, load_judge_config, price
from youden.judging.estimate import estimate
from youden.judging.registry import REPLAY
from youden.judging.store.answers import open_store
from youden.nouns import Cost, Json, Progress, Verdicts
from youden.practice.calibrate.judge_measures import Bill, Measures, measure
from youden.practice.calibrate.judge_verdict import Verdict, decide
from youden.practice.calibrate.known_truth import KnownTruth, draw_known_truth
from youden.run.books import books_of_calibration
from youden.run.pipeline import ask
from youden.run.plan import draw_run_plan
from youden.run.precision import Expected, expected_of

CALLS = 150
"""Trials a judge is asked where the user names no number."""

_CONFIGS = (".yaml", ".yml")


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibration up to its trials: nothing has been asked. costs: of asking each of `judges` all of them.

    expected: what the run's own plan will buy.
    """

    config: RunConfig
    known: KnownTruth
    judges: tuple[JudgeConfig, ...]
    costs: tuple[Cost, ...]
    expected: Expected


@dataclass(frozen=True)
class Tried:
    """What one judge answered, what that took, and whether to go on with it."""

    judge: str
    backend: str
    measures: Measures
    bill: Bill
    verdict: Verdict
    warnings: tuple[str, ...]


def plan_calibration(
    source: Path,
    *,
    judges: Sequence[str] = (),
    calls: int = CALLS,
    changes: Mapping[str, Json] | None = None,
    usual_store: str | None = None,
) -> Calibration:
    """Trials for the run of `source`: a run's config (.yaml), or a pool, whose run is called like it.

    judges: as in a run's config, whose own is tried where none is named. changes: to the run's config, by key (seed, store,
    max_cost). usual_store: where answers are kept when neither says it.

    Raises: ConfigError [judge-twice] for two judges of one name, and as configs and judges do; PoolError; PlanError.
    """
    config = with_usual_store(_run_config(source, changes or {}), usual_store)
    configs = tuple(load_judge_config(one) for one in judges or (config.judge,))
    names = [one.name for one in configs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"Two judges are called '{twice[0]}'. Name each once, or give one another `name:` in its config.",
            slug="judge-twice",
        )
    pool, plan = draw_run_plan(config)
    known = draw_known_truth(plan, pool, calls=calls, seed=config.seed)
    place = config.store_place
    costs = tuple(estimate(known.plan, known.pool, one, store=place) for one in configs)
    return Calibration(config, known, configs, costs, expected_of(plan))


def calibrate(
    calibration: Calibration, *, progress: Progress | None = None, grace: float = Asking.grace
) -> tuple[Tried, ...]:
    """Ask every judge every trial that the run's store does not hold, under one cap for all, and decide.

    Missing answers stop nothing here: they are what is looked for. grace: seconds for calls in flight once it is told to stop.

    Raises: ConfigError before any call where a cap does not fit; as `judge_async`; answers that came are kept.
    """
    known = calibration.known
    config = calibration.config
    books = books_of_calibration(config)
    asking = Asking(config.max_cost, max_missing=1.0, progress=progress, grace=grace, books=books)
    check_cap(calibration.judges, asking.max_cost)
    tried, budget = [], Budget(config.max_cost)
    for one in calibration.judges:
        before = budget.spent
        result = run_until_stopped(
            ask(known.plan, known.pool, judge=one, store=config.store_place, asking=asking, budget=budget)
        )
        bill = _bill(calibration, one, result, usd=budget.spent - before)
        measures = measure(known, result)
        verdict = decide(measures, n_calls=len(result))
        tried.append(Tried(one.name, one.backend, measures, bill, verdict, result.warnings))
    return tuple(tried)


def _run_config(source: Path, changes: Mapping[str, Json]) -> RunConfig:
    if source.suffix.lower() in _CONFIGS:
        return load_run_config(source, changes)
    name = re.sub(r"[^\w .+-]", "-", source.resolve().stem).lstrip(" .+-")[:100]
    return RunConfig.model_validate({"name": name or "pool", "pool": str(source), **changes})


def _bill(calibration: Calibration, config: JudgeConfig, result: Verdicts, *, usd: float) -> Bill:
    """What the calls behind the answers took, whenever they were made; of a jury, a call is one of each judge. usd: now."""
    known, place = calibration.known, calibration.config.store_place
    seconds: list[float] = []
    usd_a_call = 0.0
    for member in config.judges or (config,):
        if not member.needs_store:
            continue
        if member.makes_calls:
            keys = {key for _, key, _ in member.questions().all(known.plan, known.pool)}
        else:
            keys = set() if result.key is None else {key.decode() for key in result.key.tolist()}
        with open_store(place, read_only=config.backend == REPLAY) as store:
            found = store.answers(sorted(keys)).values()
        seconds += [completion.seconds for completion in found if completion.seconds > 0]
        paid = [price(member, completion.tokens_in, completion.tokens_out) for completion in found]
        usd_a_call += float(np.mean(paid)) if paid else np.nan
    median, p95 = np.quantile(seconds, [0.5, 0.95]).tolist() if seconds else (None, None)
    return Bill(median, p95, *(None if np.isnan(value) else value for value in (usd, 1000 * usd_a_call)))
