"""Judges tried on a pool before the main spend: trials of known truth are asked, measured and decided on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import numpy as np
from pydantic import JsonValue

from youden.data.folder.calibration_file import CalibrationRecord, add_calibration
from youden.data.folder.run_config import RunConfig, load_run_config, with_usual_store
from youden.errors import ConfigError
from youden.judging.backend_records import REPLAY
from youden.judging.config.judge_files import load_judge_config, load_judge_of_run, price
from youden.judging.scheduler.options import Asking
from youden.judging.store.answers import open_store
from youden.pipeline.judged_run import account_of
from youden.pipeline.planned_run import draw_run_plan
from youden.pipeline.precision import Expected
from youden.text.printable import shown
from youden.types import Finding, Verdicts
from youden.types.pool import Json, or_none, plain, plain_fields
from youden.workflows.calibration_outcome import RULE, Bill, Measures, Verdict, decide, measure
from youden.workflows.calibration_trials import KINDS, MEANS, KnownTruth, draw_known_truth
from youden.workflows.experiment import Answered, Experiment, asked_under, config_of_pool, plan_experiment

CALLS = 150
"""Trials a judge is asked where the user names no number."""

_CONFIGS = (".yaml", ".yml")


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibration up to its trials: nothing has been asked. experiments: all of the trials, asked of each judge.

    pool_digest: digest of the pool without planted texts; expected: expected precision of the run's own plan.
    """

    config: RunConfig
    pool_digest: str
    known: KnownTruth
    experiments: tuple[Experiment, ...]
    expected: Expected


@dataclass(frozen=True)
class TriedJudge:
    """What one judge answered, what that took, and whether to go on with it."""

    judge: str
    backend: str
    measures: Measures
    bill: Bill
    verdict: Verdict
    warnings: tuple[Finding, ...]


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
    if source.suffix.lower() in _CONFIGS:
        config = with_usual_store(load_run_config(source, changes), usual_store)
    else:
        config = config_of_pool(source, changes or {}, usual_store)
    configs = tuple(load_judge_config(one).beside(config.beside) for one in judges) or (load_judge_of_run(config),)
    names = [one.name for one in configs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"Two judges are called '{twice[0]}'. Name each once, or give one another `name:` in its config.",
            slug="judge-twice",
        )
    plan = draw_run_plan(config)
    known = draw_known_truth(plan, calls=calls, seed=config.seed)
    experiments = [plan_experiment(one.name, known.plan, judge=one, store=config.store_place) for one in configs]
    return Calibration(config, plan.pool_digest, known, tuple(experiments), Expected(plan, kind=configs[0].answers))


def calibrate(calibration: Calibration, asking: Asking | None = None) -> tuple[TriedJudge, ...]:
    """Query every judge, decide on each, and store the results.

    Parameters
    ----------
    calibration : Calibration
        From `plan_calibration`.
    asking : Asking, optional
        Terms of the requests; their cost accounts are replaced by those of the calibration.

    Returns
    -------
    tuple of TriedJudge
        One per judge. Each is also stored beside the runs, in `calibrations.json`.

    Raises
    ------
    RunFolderError
        If calibrations.json is damaged; other errors as `asked_under`.
    """
    config, known, experiments = calibration.config, calibration.known, calibration.experiments
    terms = replace(asking or Asking(), account=account_of(config, calibrating=True))
    answered = asked_under(config.max_cost, experiments, terms)
    tried = []
    for one in experiments:
        found = answered(one)
        measures, bill = measure(known, found.result), _bill(one, found)
        verdict = decide(measures, n_calls=len(found.result))
        tried.append(TriedJudge(one.name, one.judge.backend, measures, bill, verdict, found.result.warnings))
        add_calibration(config.folder.parent, _record(calibration, found.result, measures, verdict))
    return tuple(tried)


def _record(calibration: Calibration, result: Verdicts, measures: Measures, verdict: Verdict) -> CalibrationRecord:
    """Make the record that runs by the same judge show of its calibration."""
    j = measures.j
    return CalibrationRecord(
        judge=cast(dict[str, JsonValue], dict(result.judge)),
        pool=calibration.pool_digest,
        date=datetime.now(UTC).date().isoformat(),
        outcome=verdict.outcome,
        j=or_none(j.value),
        j_low=or_none(j.low),
        j_high=or_none(j.high),
        n_calls=len(result),
    )


def _bill(one: Experiment, found: Answered) -> Bill:
    """What the calls behind the answers took, whenever they were made; of a jury, a call is one of each judge."""
    seconds: list[float] = []
    usd_a_call = 0.0
    for member in one.judge.judges or (one.judge,):
        if not member.needs_store:
            continue
        if member.makes_calls:
            keys = {key for _, key, _ in member.questions().all(one.plan)}
        else:
            keys = set() if found.result.key is None else {key.decode() for key in found.result.key.tolist()}
        with open_store(one.store, read_only=one.judge.backend == REPLAY) as store:
            answers = store.answers(sorted(keys)).values()
        seconds += [completion.seconds for completion in answers if completion.seconds > 0]
        paid = [price(member, completion.tokens_in, completion.tokens_out) for completion in answers]
        usd_a_call += float(np.mean(paid)) if paid else np.nan
    median, p95 = np.quantile(seconds, [0.5, 0.95]).tolist() if seconds else (None, None)
    return Bill(median, p95, *map(or_none, (found.usd, 1000 * usd_a_call)))


BASELINES = {
    "lexical": "It is a free similarity baseline and no model: it counts shared words, is blind to contradiction and paraphrase, "
    "and is fond of length. Its rates say that texts of one item share words here, and nothing of what a model would say."
}
"""What has to be said of judges without a model, by backend, whatever they reach."""

_STEADY = 0.9


def asked_in_words(calibration: Calibration) -> str:
    """How many trials, of which kinds, and how many of them the run makes anyway."""
    known, config = calibration.known, calibration.config
    kinds = ", ".join(f"{len(known.rows(kind))} {kind}" for kind in KINDS)
    found = ""
    if any(one.judge.needs_store for one in calibration.experiments):
        found = f" and finds their answers in {shown(config.store_place)}"
    return (
        f"{len(known.plan):,} trials of known truth a judge ({kinds}); the run '{config.name}' (seed {config.seed}) makes "
        f"{int(known.in_run.sum()):,} of them as well{found}"
    )


def cheapest(tried: Sequence[TriedJudge]) -> TriedJudge | None:
    """The judge with a model that passes and costs least a call; an unknown price is the highest."""
    passing = [one for one in tried if one.verdict.outcome == "go" and one.backend not in BASELINES]
    return min(
        passing, key=lambda one: math.inf if one.bill.usd_per_1000 is None else one.bill.usd_per_1000, default=None
    )


def judge_in_words(one: TriedJudge, *, most: int) -> list[str]:
    """The verdict with what it rests on, then what a user of this judge has to know. most: calls that the plan has trials for."""
    verdict, measures = one.verdict, one.measures
    worst = "failed" if verdict.outcome == "no-go" else "warning"
    against = "; ".join(rule.says for rule in verdict.rules if rule.severity == worst)
    if verdict.outcome == "go":
        against = f"{verdict.rules[0].says}, and nothing speaks against it"
    lines = [f"{one.judge}: {verdict.outcome.upper()}. {against}."]
    if verdict.outcome == "not sure":
        lines.append(_more_calls(verdict.calls, most=most))
    if one.backend in BASELINES:
        lines.append(BASELINES[one.backend])
    if measures.longer_first.low > 0 or measures.longer_first.high < 0 or measures.beyond.low > 0:
        lines.append(
            f"The order matters to it: {measures.changed.value:.0%} of pairs change their answer, and the share of yeses is "
            f"{measures.longer_first.value:+.2f} with the longer text first. Both orders and symmetric scores, the defaults, "
            "average that out."
        )
    if measures.changed_again.value > 1 - _STEADY:
        lines.append(
            f"Asked again, it answered {measures.changed_again.value:.0%} of trials otherwise: set its temperature to 0, or plan "
            "more calls an agent."
        )
    return lines


def calibration_words(calibration: Calibration, tried: Sequence[TriedJudge]) -> Iterator[str]:
    """All there is to say beside the table, a line each."""
    for one in tried:
        yield ""
        yield from judge_in_words(one, most=calibration.known.most)
    yield ""
    yield f"The rule: {RULE}."
    yield conclusion(tried)


def conclusion(tried: Sequence[TriedJudge]) -> str:
    """The cheapest judge that passes, or that there is none."""
    best = cheapest(tried)
    if best is not None:
        usd = best.bill.usd_per_1000
        price = "at an unknown price" if usd is None else f"at ${usd:.4f} per 1,000 calls"
        return f"The cheapest judge that passes is {best.judge}, {price}."
    if any(one.verdict.outcome == "go" for one in tried):
        return "Only a baseline passes. Try a model before concluding anything: --judge gpt-4o-mini, or --judge local."
    if any(one.verdict.outcome == "not sure" for one in tried):
        return "No judge passes yet. Ask those that are not sure more, or try another."
    return "No judge passes. Do not spend on a run with one of these."


def to_json(calibration: Calibration, tried: Sequence[TriedJudge]) -> dict[str, Json]:
    """One object; NaN is null."""
    best, known = cheapest(tried), calibration.known
    judges = [
        plain_fields(one) | {"passes": one.verdict.outcome == "go", "words": judge_in_words(one, most=known.most)}
        for one in tried
    ]
    return {
        **planned_json(calibration),
        "judges": cast(Json, judges),
        "cheapest": None if best is None else best.judge,
        "rule": RULE,
        "conclusion": conclusion(tried),
    }


def planned_json(calibration: Calibration) -> dict[str, Json]:
    """What would be asked, and what it would cost, as one object."""
    known, config = calibration.known, calibration.config
    trials: dict[str, Json] = {
        kind: {
            "n": len(known.rows(kind)),
            "in_run": int(known.in_run[known.rows(kind)].sum()),
            "means": MEANS[kind].says,
        }
        for kind in KINDS
    }
    costs: dict[str, Json] = {one.name: plain(one.cost) for one in calibration.experiments}
    return {
        "run": config.name,
        "pool": config.pool,
        "seed": config.seed,
        "store": shown(config.store_place),
        "trials": trials,
        "costs": costs,
    }


def _more_calls(calls: int | None, *, most: int) -> str:
    if calls is None:
        return "More calls would hardly settle it: a rate is too near to its bound."
    if calls > most:
        return (
            f"If the rates stay, about {calls:,} calls would settle it; the plan of this run has trials for {most:,}."
        )
    return f"If the rates stay, about {calls:,} calls settle it four times in five (--calls {calls}); the answers so far count."
