"""Calibrate judges on a pool before a run: query them on trials with known answers, and decide which of them can be used.

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
from youden.judging.config.judge_files import JudgeConfig, call_cost, load_judge_config, load_judge_of_run
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.answers import open_store
from youden.pipeline.judged_run import get_cost_account
from youden.pipeline.planned_run import draw_run_plan
from youden.pipeline.precision import PrecisionForecast
from youden.text.printable import redact_location
from youden.text.sentences import format_count
from youden.types import Completion, Finding, Verdicts
from youden.types.pool import Json, convert_to_json, or_none, plain_fields
from youden.workflows.calibration_outcome import RULE, Bill, CalibrationDecision, Measures, compute_measures, decide
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
    """Plan trials with known answers, to test judges before a run uses them.

    Parameters
    ----------
    source : Path
        Config of the run (.yaml or .yml), or the file or folder of a pool; the run of a pool is named like the pool.
    judges : sequence of str, optional
        Judge names or paths of judge YAMLs. Default: the judge of the run; for a pool, `judge` in `changes`, else "lexical".
    calls : int, default 150
        Number of trials per judge, at least 48; fewer are drawn from a small pool.
    changes : mapping, optional
        Config keys and values that replace those of the run's config, for example `seed` or `store`.
    usual_store : str, optional
        Path or URL of the store to use if neither the config nor `changes` names one. Default: the store of the project.

    Returns
    -------
    Calibration
        The trials, and one experiment per judge with its expected cost (`experiments`). All judges get the same trials. No
        request has been sent, and nothing is written.

    Raises
    ------
    ConfigError
        [judge-duplicate] if two judges have the same name; [question-calibrate] if the config asks for preferences;
        [run-config] if a key is unknown or its value is not allowed; other slugs if a judge does not fit.
    PoolError
        If the pool cannot be read.
    PlanError
        [calibrate-small] if the pool or `calls` allows fewer than 10 paired or fewer than 10 independent trials.
    """
    if source.suffix.lower() in _CONFIG_SUFFIXES:
        config = with_default_store(load_run_config(source, changes), usual_store)
    else:
        config = make_pool_config(source, changes or {}, usual_store)
    if config.question == "preference":
        raise ConfigError(
            "A calibration measures true- and false-positive rates: got question: preference in the config. Calibrate the judge "
            "with a config without `question`.",
            slug="question-calibrate",
        )

    judge_configs = _load_judges(config, judges)

    # the number of independent trials of a run depends on whether its judge costs something
    config_of_first_judge = config.model_copy(update={"judge": judges[0]}) if judges else config
    plan = draw_run_plan(config_of_first_judge)
    trials = draw_calibration_trials(plan, calls=calls, seed=config.seed)
    experiments = [
        plan_experiment(judge.name, trials.plan, judge=judge, store=config.store_location) for judge in judge_configs
    ]
    expected = PrecisionForecast(plan, kind=judge_configs[0].answers)
    return Calibration(config, plan.pool_digest, trials, tuple(experiments), expected)


def _load_judges(config: RunConfig, judges: Sequence[str]) -> list[JudgeConfig]:
    """Load the judges to calibrate.

    judges : names of judges, or paths of YAML files; if empty, the judge of the run is calibrated

    Raises ConfigError [judge-duplicate] if two judges have the same name, and another ConfigError if a judge cannot be loaded.
    """
    if not judges:
        return [load_judge_of_run(config)]
    judge_configs = [load_judge_config(judge).with_env_folders(config.directory) for judge in judges]
    names = [judge.name for judge in judge_configs]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ConfigError(
            f"Two judges have the same name: got '{duplicates[0]}' twice. Remove one, or set another `name:` in its config.",
            slug="judge-duplicate",
        )
    return judge_configs


def calibrate(calibration: Calibration, options: JudgingOptions | None = None) -> tuple[CalibratedJudge, ...]:
    """Query every judge on trials with known answers, decide whether it can be used, and store the results.

    Parameters
    ----------
    calibration : Calibration
        Trials and judges, as returned by `plan_calibration`.
    options : JudgingOptions, optional
        Settings of the requests, such as their log file. The cost is booked to the calibration, even if the settings name another
        account.

    Returns
    -------
    tuple of CalibratedJudge
        Error rates, costs and decision of each judge. They are also stored in `calibrations.json`, in the parent folder of
        the run, unless a more precise calibration of the same judge and pool is stored there.

    Raises
    ------
    RunFolderError
        If calibrations.json is damaged.
    ConfigError
        If the cost cap does not fit the judges; raised before any call.
    BudgetError, JudgeError
        If the cap is reached or a judge cannot be used. Answers are stored: call again to resume.
    """
    config = calibration.config
    account = get_cost_account(config, calibration.trials.plan, calibrating=True)
    calibration_options = replace(options or JudgingOptions(), account=account)
    run_experiment = make_experiment_runner(config.max_cost, calibration.experiments, calibration_options)
    calibrated = []
    for experiment in calibration.experiments:
        result = run_experiment(experiment)
        judge = _summarize_judge(calibration.trials, experiment, result)
        record = _make_record(calibration, result.verdicts, judge.measures, judge.decision)
        stored_record = add_calibration(config.folder.parent, record)
        if stored_record is not record:
            calls = format_count(stored_record.n_calls, "call")
            finding = Finding(
                "calibration-kept",
                f"The result of an earlier calibration ({calls}) is kept, because it is more precise.",
            )
            judge = replace(judge, warnings=(*judge.warnings, finding))
        calibrated.append(judge)
    return tuple(calibrated)


def _summarize_judge(trials: CalibrationTrials, experiment: Experiment, result: ExperimentResult) -> CalibratedJudge:
    """Compute the error rates and costs of a judge from its answers to all trials, and decide whether it can be used."""
    verdicts = result.verdicts
    measures = compute_measures(trials, verdicts)
    return CalibratedJudge(
        judge=experiment.name,
        backend=experiment.judge.backend,
        measures=measures,
        bill=_make_bill(experiment, result),
        decision=decide(measures, n_calls=len(verdicts)),
        warnings=verdicts.warnings,
    )


def _make_record(
    calibration: Calibration, verdicts: Verdicts, measures: Measures, decision: CalibrationDecision
) -> CalibrationRecord:
    """Make the record of a judge's calibration. It is stored, and reports of runs by this judge show it."""
    j = measures.j
    return CalibrationRecord(
        judge=cast(dict[str, JsonValue], dict(verdicts.judge)),
        pool=calibration.pool_digest,
        date=datetime.now(UTC).date().isoformat(),
        outcome=decision.outcome,
        j=or_none(j.value),
        j_low=or_none(j.low),
        j_high=or_none(j.high),
        n_calls=len(verdicts),
    )


def _make_bill(experiment: Experiment, result: ExperimentResult) -> Bill:
    """Summarize how long the calls of a judge took and what they cost.

    The duration and the cost per call include answers that were stored by earlier commands. The total cost is only what this
    command spent. The cost per call of a jury is the sum over its judges. Durations are None if no call recorded one. Costs
    are None if a price is unknown.
    """
    durations: list[float] = []  # in seconds
    usd_per_call = 0.0
    judges = experiment.judge.judges or (experiment.judge,)  # the judges of a jury, or the single judge
    for judge in judges:
        if judge.needs_store:
            completions = _read_completions(judge, experiment, result)
            durations += [completion.seconds for completion in completions if completion.seconds > 0]
            usd_per_call += _compute_mean_cost(judge, completions)

    median_seconds, p95_seconds = None, None
    if durations:
        median_seconds, p95_seconds = np.quantile(durations, [0.5, 0.95]).tolist()
    return Bill(median_seconds, p95_seconds, usd=or_none(result.usd), usd_per_1000=or_none(1000 * usd_per_call))


def _compute_mean_cost(judge: JudgeConfig, completions: Sequence[Completion]) -> float:
    """Compute the mean cost of a judge's calls in USD.

    A cost is the number of tokens of a call times the prices of the judge.

    Returns NaN if there are no calls, or if a price is unknown.
    """
    if not completions:
        return np.nan
    costs = [call_cost(judge, completion.tokens_in, completion.tokens_out) for completion in completions]
    return float(np.mean(costs))


def _read_completions(judge: JudgeConfig, experiment: Experiment, result: ExperimentResult) -> list[Completion]:
    """Read the answers of a judge, alone or in a jury, to the trials of an experiment from the store."""
    hashes = sorted(_find_request_hashes(judge, experiment, result))
    with open_store(experiment.store, read_only=experiment.judge.backend == REPLAY) as store:
        return list(store.answers(hashes).values())


def _find_request_hashes(judge: JudgeConfig, experiment: Experiment, result: ExperimentResult) -> set[str]:
    """Return the hashes of the requests to one judge of an experiment; for a replay, they are read from its result."""
    if judge.makes_calls:
        return {key for _, key, _ in judge.questions().iter_requests(experiment.plan)}
    stored_hashes = result.verdicts.request_hash
    if stored_hashes is None:
        return set()
    return {key.decode() for key in stored_hashes.tolist()}


BASELINES = {
    "lexical": "This judge is a free similarity baseline, not a model: it counts shared words, cannot detect contradiction or "
    "paraphrase, and favors long texts. Its rates show only that texts of one item share words here; they show nothing about a "
    "model."
}
"""Note on judges that are not models, by backend; it is shown whether or not they pass."""

_MIN_RETEST_AGREEMENT = 0.9
"""Share of equal answers to the same request below which a note recommends a remedy."""

MAX_OPEN_PATHS = 0.1
"""Share of open paths above which a note states that the relation is not transitive, if the interval lies above it."""


def describe_trials(calibration: Calibration) -> str:
    """Describe the trials of a planned calibration, whose correct answers are known.

    Parameters
    ----------
    calibration : Calibration
        The planned calibration.

    Returns
    -------
    str
        A clause without a full stop. It states how many trials there are of each kind, such as "paired", "reversed" or
        "independent" (`KIND_DETAILS` describes all kinds), and how many trials are also in the plan of the run.
    """
    trials = calibration.trials
    config = calibration.config
    counts_by_kind = ", ".join(f"{len(trials.rows(kind))} {kind}" for kind in KINDS)
    n_shared = int(trials.in_run.sum())
    text = (
        f"{len(trials.plan):,} trials with known answers per judge ({counts_by_kind}); the run '{config.name}' (seed "
        f"{config.seed}) has {n_shared:,} of them too"
    )
    if any(experiment.judge.needs_store for experiment in calibration.experiments):
        text += f" and finds their answers in {redact_location(config.store_location)}"
    return text


def find_cheapest(judges: Sequence[CalibratedJudge]) -> CalibratedJudge | None:
    """Find the model judge that passes at the lowest price per call; None if none passes.

    A judge without a known price is selected only if no other judge passes.
    """
    passing = [judge for judge in judges if judge.decision.outcome == "go" and judge.backend not in BASELINES]
    return min(passing, key=_get_price, default=None)


def _get_price(judge: CalibratedJudge) -> float:
    """Return the price of 1,000 calls of a judge in USD; infinity if it is unknown."""
    return math.inf if judge.bill.usd_per_1000 is None else judge.bill.usd_per_1000


def describe_judge(judge: CalibratedJudge, *, max_calls: int) -> list[str]:
    """Describe the decision on a judge with its reasons, then its faults: position bias, intransitivity, nondeterminism.

    judge : results of the calibration of one judge
    max_calls : largest number of calls for which the plan of the run has enough trials

    Returns one string per sentence or paragraph.
    """
    decision = judge.decision
    lines = [f"{judge.judge}: {decision.outcome.upper()}. {_describe_reason(decision)}."]
    if decision.outcome == "not sure":
        lines.append(_describe_required_calls(decision.calls, max_calls=max_calls))
    if judge.backend in BASELINES:
        lines.append(BASELINES[judge.backend])
    return lines + _describe_faults(judge.measures)


def _describe_faults(measures: Measures) -> list[str]:
    """Describe the faults of a judge that a calibration detects: position bias, intransitivity and nondeterminism.

    A judge has a position bias if its answer depends on which text comes first. It is intransitive if it often answers a ~ b and
    b ~ c, but not a ~ c, where a ~ b means that a and b have the same source. These answers are called an open path. It is
    nondeterministic if it often changes its answer to the same request.

    measures : measures of the answers of the judge, with their intervals

    Returns one paragraph per fault, which states its size, its consequences and a remedy. The list is empty if no
    fault is detected.
    """
    faults = []
    longer_first = measures.longer_first  # change of the yes rate if the longer text comes first
    depends_on_longer_first = longer_first.low > 0 or longer_first.high < 0
    if depends_on_longer_first or measures.position_bias.low > 0:
        fault = (
            f"It has a position bias: {measures.order_flips.value:.0%} of pairs get another answer in the other order"
        )
        if not math.isnan(longer_first.value):  # NaN if the two texts of each pair have the same length
            fault += f", and the yes rate changes by {longer_first.value:+.2f} if the longer text is first"
        faults.append(f"{fault}. Both orders and symmetric scores, the defaults, average this out.")

    open_paths = measures.open_paths
    if open_paths.low > MAX_OPEN_PATHS:
        faults.append(
            f"Its relation is not an equivalence: of {open_paths.n_paths} paths a ~ b ~ c, {open_paths.share:.0%} are open (a "
            f"and c are not the same source), against {open_paths.expected:.0%} if its answers were independent. The "
            "abilities do not depend on this. But do not group responses by individual answers of this judge."
        )

    if measures.retest_flips.value > 1 - _MIN_RETEST_AGREEMENT:
        faults.append(
            f"It is nondeterministic: {measures.retest_flips.value:.0%} of trials get another answer if the same request is "
            "sent again. Set its temperature to 0. If it is 0 already, the server is nondeterministic: plan more calls per agent."
        )
    return faults


def _describe_reason(decision: CalibrationDecision) -> str:
    """Describe the rules that led to a decision, as a clause."""
    if decision.outcome == "go":
        return f"{decision.rules[0].message}, and every criterion is met"
    deciding_severity = "failed" if decision.outcome == "no-go" else "warning"
    messages = [rule.message for rule in decision.rules if rule.severity == deciding_severity]
    return "; ".join(messages)


def describe_calibration(calibration: Calibration, judges: Sequence[CalibratedJudge]) -> Iterator[str]:
    """Yield the conclusions about calibrated judges, one line each.

    Parameters
    ----------
    calibration : Calibration
        The planned calibration.
    judges : sequence of CalibratedJudge
        Results of the judges, from `calibrate`.

    Yields
    ------
    str
        An empty line, the decision and notes for each judge; then the rule by which a judge passes, and the conclusion.
    """
    for judge in judges:
        yield ""
        yield from describe_judge(judge, max_calls=calibration.trials.max_calls)
    yield ""
    yield f"The rule: {RULE}."
    yield describe_conclusion(judges)


def describe_conclusion(judges: Sequence[CalibratedJudge]) -> str:
    """Name the cheapest judge that passes its calibration, or advise what to do if none does."""
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
    dict of str to object
        The keys of `planned_to_json`; `judges`, the results by judge; `cheapest`, the name of the cheapest judge that
        passes, or None; `rule` and `conclusion`, sentences. NaN becomes None.
    """
    cheapest = find_cheapest(judges)
    max_calls = calibration.trials.max_calls
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
    """Convert a planned calibration to a JSON object, before any request is sent.

    Parameters
    ----------
    calibration : Calibration
        The planned calibration.

    Returns
    -------
    dict of str to object
        Keys: `run`, the name of the run; `pool`, `seed` and `store`, settings of the run; `trials`, the number and a
        description of the trials by kind; `costs`, the expected cost by judge.
    """
    trials, config = calibration.trials, calibration.config
    trials_by_kind: dict[str, Json] = {}
    for kind in KINDS:
        rows = trials.rows(kind)
        n_in_run = int(trials.in_run[rows].sum())
        trials_by_kind[kind] = {"n": len(rows), "in_run": n_in_run, "means": KIND_DETAILS[kind].description}
    costs: dict[str, Json] = {
        experiment.name: convert_to_json(experiment.cost) for experiment in calibration.experiments
    }
    return {
        "run": config.name,
        "pool": config.pool,
        "seed": config.seed,
        "store": redact_location(config.store_location),
        "trials": trials_by_kind,
        "costs": costs,
    }


def _describe_required_calls(calls: int | None, *, max_calls: int) -> str:
    """Describe how many calls an undecided calibration needs to decide whether the judge passes it.

    calls : total number of calls, including the calls already made. With this number, the calibration decides with a
        probability of .8 (the power), if the true rates equal the measured ones. None if the number is unreasonably large.
    max_calls : number of calls of the largest calibration that the trials of the run allow
    """
    if calls is None:
        return "More calls are unlikely to decide: a rate is too close to its bound."
    if calls > max_calls:
        return f"If the rates stay the same, {calls:,} calls would decide; the plan of this run has trials for {max_calls:,}."
    return f"If the rates stay the same, {calls:,} calls decide with a power of 80% (--calls {calls}), reusing these answers."
