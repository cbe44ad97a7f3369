"""Calibrate judges on a pool before a run: query them on trials with known answers, decide which are worth their calls.

Most of these trials belong to the planned run. Their answers are stored, so that the run does not pay for them again.
"""

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
from youden.data.folder.run_config import RunConfig, load_run_config, with_default_store
from youden.errors import ConfigError
from youden.judging.backend_records import REPLAY
from youden.judging.config.judge_files import call_cost, load_judge_config, load_judge_of_run
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.answers import open_store
from youden.pipeline.judged_run import get_cost_account
from youden.pipeline.planned_run import draw_run_plan
from youden.pipeline.precision import PrecisionForecast
from youden.text.printable import redact_location
from youden.types import Finding, Verdicts
from youden.types.pool import Json, or_none, plain, plain_fields
from youden.workflows.calibration_outcome import RULE, Bill, CalibrationDecision, Measures, decide, measure
from youden.workflows.calibration_trials import KIND_DETAILS, KINDS, CalibrationTrials, draw_calibration_trials
from youden.workflows.experiment import (
    Experiment,
    ExperimentResult,
    make_experiment_runner,
    make_pool_config,
    plan_experiment,
)

CALLS = 150
"""Default number of trials per judge."""

_CONFIG_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibration, before any request is sent.

    Attributes
    ----------
    config : RunConfig
        Config of the run that is planned.
    pool_digest : str
        Digest of the pool without planted texts.
    trials : CalibrationTrials
        The trials.
    experiments : tuple of Experiment
        One per judge; each has all of the trials.
    expected : PrecisionForecast
        Expected precision of the run's own plan.
    """

    config: RunConfig
    pool_digest: str
    trials: CalibrationTrials
    experiments: tuple[Experiment, ...]
    expected: PrecisionForecast


@dataclass(frozen=True)
class CalibratedJudge:
    """Calibration of one judge.

    Attributes
    ----------
    judge, backend : str
        Names of the judge and of its backend.
    measures : Measures
        Its error rates and biases.
    bill : Bill
        Time and cost of its calls.
    decision : CalibrationDecision
        Whether it passes.
    warnings : tuple of Finding
        Warnings about its answers.
    """

    judge: str
    backend: str
    measures: Measures
    bill: Bill
    decision: CalibrationDecision
    warnings: tuple[Finding, ...]


def plan_calibration(
    source: Path,
    *,
    judges: Sequence[str] = (),
    calls: int = CALLS,
    changes: Mapping[str, Json] | None = None,
    usual_store: str | None = None,
) -> Calibration:
    """Plan the calibration of judges for a run.

    Parameters
    ----------
    source : Path
        Config of the run (.yaml), or a pool; the run of a pool is named like it.
    judges : sequence of str, optional
        Judge names or paths of judge YAMLs. Default: the judge of the run.
    calls : int, default 150
        Number of trials per judge.
    changes : mapping, optional
        Config keys that replace those of the run, for example `seed` or `store`.
    usual_store : str, optional
        Store to use if neither the config nor `changes` names one.

    Returns
    -------
    Calibration
        The trials and their expected cost. No request has been sent.

    Raises
    ------
    ConfigError
        [judge-duplicate] if two judges have the same name; other slugs if the config or a judge does not fit.
    PoolError
        If the pool cannot be read.
    PlanError
        [calibrate-small] if the pool is too small.
    """
    if source.suffix.lower() in _CONFIG_SUFFIXES:
        config = with_default_store(load_run_config(source, changes), usual_store)
    else:
        config = make_pool_config(source, changes or {}, usual_store)

    judge_configs = [load_judge_config(judge).with_env_folders(config.directory) for judge in judges] or [
        load_judge_of_run(config)
    ]
    names = [judge.name for judge in judge_configs]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"Two judges have the same name: got '{duplicates[0]}' twice. Remove one, or set another `name:` in its config.",
            slug="judge-duplicate",
        )
    plan = draw_run_plan(config)
    trials = draw_calibration_trials(plan, calls=calls, seed=config.seed)
    experiments = [
        plan_experiment(judge.name, trials.plan, judge=judge, store=config.store_location) for judge in judge_configs
    ]
    expected = PrecisionForecast(plan, kind=judge_configs[0].answers)
    return Calibration(config, plan.pool_digest, trials, tuple(experiments), expected)


def calibrate(calibration: Calibration, asking: JudgingOptions | None = None) -> tuple[CalibratedJudge, ...]:
    """Query every judge, decide on each, and store the results.

    Parameters
    ----------
    calibration : Calibration
        Result of `plan_calibration`.
    asking : JudgingOptions, optional
        Terms of the requests; their cost accounts are replaced by those of the calibration.

    Returns
    -------
    tuple of CalibratedJudge
        One per judge. Each is also stored in `calibrations.json`, in the parent folder of the run.

    Raises
    ------
    RunFolderError
        If calibrations.json is damaged.
    ConfigError
        If the cost cap does not fit the judges; raised before any call.
    BudgetError, JudgeError
        If the cap is reached or a judge cannot be used. Answers are stored: call again to resume.
    """
    config, trials = calibration.config, calibration.trials
    terms = replace(asking or JudgingOptions(), account=get_cost_account(config, calibrating=True))
    run_experiment = make_experiment_runner(config.max_cost, calibration.experiments, terms)
    calibrated = []
    for experiment in calibration.experiments:
        result = run_experiment(experiment)
        verdicts = result.result
        measures, bill = measure(trials, verdicts), _make_bill(experiment, result)
        verdict = decide(measures, n_calls=len(verdicts))
        calibrated.append(
            CalibratedJudge(experiment.name, experiment.judge.backend, measures, bill, verdict, verdicts.warnings)
        )
        add_calibration(config.folder.parent, _make_record(calibration, verdicts, measures, verdict))
    return tuple(calibrated)


def _make_record(
    calibration: Calibration, verdicts: Verdicts, measures: Measures, verdict: CalibrationDecision
) -> CalibrationRecord:
    """Make the record that runs by the same judge show of its calibration."""
    j = measures.j
    return CalibrationRecord(
        judge=cast(dict[str, JsonValue], dict(verdicts.judge)),
        pool=calibration.pool_digest,
        date=datetime.now(UTC).date().isoformat(),
        outcome=verdict.outcome,
        j=or_none(j.value),
        j_low=or_none(j.low),
        j_high=or_none(j.high),
        n_calls=len(verdicts),
    )


def _make_bill(experiment: Experiment, result: ExperimentResult) -> Bill:
    """Summarize the time and cost of the calls behind the answers, also of calls that were made earlier.

    Seconds are those of single requests; the cost per call of a jury is the sum over its judges.
    """
    seconds: list[float] = []
    usd_per_call = 0.0
    for member in experiment.judge.judges or (experiment.judge,):
        if not member.needs_store:
            continue
        if member.makes_calls:
            keys = {key for _, key, _ in member.questions().iter_requests(experiment.plan)}
        else:
            stored_keys = result.result.request_hash
            keys = set() if stored_keys is None else {key.decode() for key in stored_keys.tolist()}
        with open_store(experiment.store, read_only=experiment.judge.backend == REPLAY) as store:
            answers = store.answers(sorted(keys)).values()
        seconds += [completion.seconds for completion in answers if completion.seconds > 0]
        costs = [call_cost(member, completion.tokens_in, completion.tokens_out) for completion in answers]
        usd_per_call += float(np.mean(costs)) if costs else np.nan
    median, p95 = np.quantile(seconds, [0.5, 0.95]).tolist() if seconds else (None, None)
    return Bill(median, p95, or_none(result.usd), or_none(1000 * usd_per_call))


BASELINES = {
    "lexical": "This judge is a free similarity baseline, not a model: it counts shared words, cannot detect contradiction or "
    "paraphrase, and favours long texts. Its rates show only that texts of one item share words here; they show nothing about a "
    "model."
}
"""Note on judges that are not models, by backend; it is shown whether or not they pass."""

_MIN_RETEST_AGREEMENT = 0.9
"""Share of equal answers to the same request below which a note recommends a remedy."""


def describe_requests(calibration: Calibration) -> str:
    """Describe the trials of a planned calibration.

    Parameters
    ----------
    calibration : Calibration
        The planned calibration.

    Returns
    -------
    str
        The number of trials by kind, and how many of them the run has too.
    """
    trials, config = calibration.trials, calibration.config
    kinds = ", ".join(f"{len(trials.rows(kind))} {kind}" for kind in KINDS)
    store = ""
    if any(experiment.judge.needs_store for experiment in calibration.experiments):
        store = f" and finds their answers in {redact_location(config.store_location)}"
    return (
        f"{len(trials.plan):,} trials with known answers per judge ({kinds}); the run '{config.name}' (seed {config.seed}) has "
        f"{int(trials.in_run.sum()):,} of them too{store}"
    )


def find_cheapest(judges: Sequence[CalibratedJudge]) -> CalibratedJudge | None:
    """Find the model judge that passes at the lowest price per call; an unknown price counts as the highest."""
    passing = [judge for judge in judges if judge.decision.outcome == "go" and judge.backend not in BASELINES]
    return min(passing, key=_get_price, default=None)


def _get_price(judge: CalibratedJudge) -> float:
    return math.inf if judge.bill.usd_per_1000 is None else judge.bill.usd_per_1000


def describe_judge(judge: CalibratedJudge, *, max_calls: int) -> list[str]:
    """Describe the decision on a judge with its reasons, then notes for its users.

    `max_calls` is the largest calibration that the run's plan allows.
    """
    verdict, measures = judge.decision, judge.measures
    if verdict.outcome == "go":
        reason = f"{verdict.rules[0].message}, and every criterion is met"
    else:
        severity = "failed" if verdict.outcome == "no-go" else "warning"
        reason = "; ".join(rule.message for rule in verdict.rules if rule.severity == severity)
    lines = [f"{judge.judge}: {verdict.outcome.upper()}. {reason}."]
    if verdict.outcome == "not sure":
        lines.append(_describe_required_calls(verdict.calls, max_calls=max_calls))
    if judge.backend in BASELINES:
        lines.append(BASELINES[judge.backend])

    has_length_bias = measures.longer_first.low > 0 or measures.longer_first.high < 0
    has_position_bias = measures.position_bias.low > 0
    if has_length_bias or has_position_bias:
        lines.append(
            f"It has a position bias: {measures.order_flips.value:.0%} of pairs get another answer in the other order, and "
            "the yes "
            f"rate changes by {measures.longer_first.value:+.2f} if the longer text is first. Both orders and symmetric scores, "
            "the defaults, average this out."
        )
    if measures.retest_flips.value > 1 - _MIN_RETEST_AGREEMENT:
        lines.append(
            f"It is nondeterministic: {measures.retest_flips.value:.0%} of trials get another answer if the same request is "
            "sent again. Set its temperature to 0, or plan more calls per agent."
        )
    return lines


def describe_calibration(calibration: Calibration, judges: Sequence[CalibratedJudge]) -> Iterator[str]:
    """Yield the notes below the table of a calibration, line by line.

    Parameters
    ----------
    calibration : Calibration
        The planned calibration.
    judges : sequence of CalibratedJudge
        Its results.

    Yields
    ------
    str
        Decision and notes for each judge, the rule, and the conclusion. Empty lines separate the judges.
    """
    for judge in judges:
        yield ""
        yield from describe_judge(judge, max_calls=calibration.trials.max_calls)
    yield ""
    yield f"The rule: {RULE}."
    yield describe_conclusion(judges)


def describe_conclusion(judges: Sequence[CalibratedJudge]) -> str:
    """Name the cheapest judge that passes, or say what to do if none does."""
    cheapest = find_cheapest(judges)
    if cheapest is not None:
        usd = cheapest.bill.usd_per_1000
        price_text = "at an unknown price" if usd is None else f"at ${usd:.4f} per 1,000 calls"
        return f"The cheapest judge that passes is {cheapest.judge}, {price_text}."
    outcomes = {judge.decision.outcome for judge in judges}
    if "go" in outcomes:
        return (
            "Only a baseline passes. Try a model before you conclude anything: --judge gpt-4o-mini, or --judge local."
        )
    if "not sure" in outcomes:
        return "No judge passes yet. Run the undecided ones with more calls, or try another."
    return "No judge passes. Do not pay for a run with one of these."


def to_json(calibration: Calibration, judges: Sequence[CalibratedJudge]) -> dict[str, Json]:
    """Convert a calibration and its results to a JSON object.

    Parameters
    ----------
    calibration : Calibration
        The planned calibration.
    judges : sequence of CalibratedJudge
        Its results.

    Returns
    -------
    dict
        The planned calibration, and the keys judges, cheapest, rule and conclusion; NaN becomes null.
    """
    cheapest, max_calls = find_cheapest(judges), calibration.trials.max_calls
    rows = []
    for judge in judges:
        is_passing = judge.decision.outcome == "go"
        rows.append(plain_fields(judge) | {"passes": is_passing, "summary": describe_judge(judge, max_calls=max_calls)})
    return {
        **planned_to_json(calibration),
        "judges": cast(Json, rows),
        "cheapest": None if cheapest is None else cheapest.judge,
        "rule": RULE,
        "conclusion": describe_conclusion(judges),
    }


def planned_to_json(calibration: Calibration) -> dict[str, Json]:
    """Convert a planned calibration to a JSON object.

    Parameters
    ----------
    calibration : Calibration
        The planned calibration.

    Returns
    -------
    dict
        Name, pool, seed and store of the run, number of trials by kind, and expected cost by judge.
    """
    trials, config = calibration.trials, calibration.config
    trials_by_kind: dict[str, Json] = {}
    for kind in KINDS:
        rows = trials.rows(kind)
        trials_by_kind[kind] = {
            "n": len(rows),
            "in_run": int(trials.in_run[rows].sum()),
            "means": KIND_DETAILS[kind].description,
        }
    costs: dict[str, Json] = {experiment.name: plain(experiment.cost) for experiment in calibration.experiments}
    return {
        "run": config.name,
        "pool": config.pool,
        "seed": config.seed,
        "store": redact_location(config.store_location),
        "trials": trials_by_kind,
        "costs": costs,
    }


def _describe_required_calls(calls: int | None, *, max_calls: int) -> str:
    if calls is None:
        return "More calls are unlikely to decide: a rate is too close to its bound."
    if calls > max_calls:
        return f"If the rates stay the same, {calls:,} calls would decide; the plan of this run has trials for {max_calls:,}."
    return f"If the rates stay the same, {calls:,} calls decide with a power of 80 % (--calls {calls}), reusing these answers."
