"""Measure a judge on trials with known answers, and decide whether it is worth its calls.

A judge passes on one pool; nothing follows for other pools. It passes if every confidence interval is on the right side
of its bound, and fails if an estimate is on the wrong side; otherwise the outcome is "not sure". A judge that always
answers no never passes.

The bounds are between the values of useless and of real judges. A constant judge, a coin and a judge by length have J
near 0 (by length at most .07 on SAMSum), and most of them have an FPR of .3 to 1. On SAMSum, GPT-4o-mini's graded
answers have J .39 and an FPR near 0 if only full grades count as yes; at 150 calls, the lower bound of that J has a
median of .21. `lexical` has J .8 to .9 and FPR .04 to .13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from youden.stats.base.metrics import Metric
from youden.stats.base.proportions import Proportion, independent_difference, paired_difference, proportion
from youden.stats.judges.transitivity import OpenPaths, count_open_paths
from youden.types import MISSING_REASONS, Finding, Verdicts
from youden.types.finding import Severity
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.workflows.calibration_trials import GROUPS, KINDS, CalibrationTrials, Kind


@dataclass(frozen=True)
class Measures:
    """Measures of a judge's yes-or-no answers to trials with known answers.

    Intervals are at 95%; values are NaN if no trial was answered.

    Attributes
    ----------
    tpr, fpr : Proportion
        Yes rates on random paired and on random independent trials of the run.
    j : Metric
        Youden's J, TPR − FPR.
    yes : mapping of str to Proportion
        Yes rate by kind of trial.
    copy_yes_rate : Proportion
        Yes rate on responses against themselves or their clones.
    length_j : Metric
        J on trials in which the lengths of the texts suggest the wrong answer.
    order_flips : Proportion
        Share of pairs of texts whose answer changes with their order.
    retest_flips : Proportion
        Share of trials whose answer changes if the same request is sent again.
    position_bias : Metric
        `order_flips` minus `retest_flips`.
    longer_first : Metric
        Yes rate with the longer text first minus yes rate with the shorter text first.
    open_paths : OpenPaths
        Share of open paths, at which the relation "same source" is not transitive.
    missing : mapping of str to mapping of str to int
        Number of missing answers by group of trials and reason.
    no_answer : Proportion
        Share of all trials without an answer.
    """

    tpr: Proportion
    fpr: Proportion
    j: Metric
    yes: Mapping[Kind, Proportion]
    copy_yes_rate: Proportion
    length_j: Metric
    order_flips: Proportion
    retest_flips: Proportion
    position_bias: Metric
    longer_first: Metric
    open_paths: OpenPaths
    missing: Mapping[str, Mapping[str, int]]
    no_answer: Proportion


@dataclass(frozen=True)
class Bill:
    """Time and cost of the calls of a judge.

    Attributes
    ----------
    seconds_median, seconds_p95 : float or None
        Median and 95th percentile of the seconds per call, as measured when it was made; None if no call was timed.
    usd : float or None
        USD spent in this process.
    usd_per_1000 : float or None
        USD per thousand calls; None if a price is unknown.
    """

    seconds_median: float | None
    seconds_p95: float | None
    usd: float | None
    usd_per_1000: float | None


def compute_measures(trials: CalibrationTrials, verdicts: Verdicts) -> Measures:
    """Compute the error rates and biases of a judge from its answers to trials with known answers.

    In each trial, the judge answers whether two texts respond to the same item. The trials are of several kinds, such as
    copies of one text, or the same two texts in the opposite order. Each measure is a rate of yes or of changed answers
    on trials of one kind, or the difference of two of these rates.

    Parameters
    ----------
    trials : CalibrationTrials
        The trials, with the kind of each.
    verdicts : Verdicts
        The judge's answers to `trials.plan`.

    Returns
    -------
    Measures
        TPR, FPR, J = TPR − FPR, yes rates by kind of trial, rates of changed answers, biases and contradictions, with
        95% intervals. A missing answer is counted as missing, and left out of all other measures.
    """
    answer = verdicts.hard_answer  # 1 for yes, 0 for no, NaN if missing
    yes_rates = {kind: _compute_yes_rate(answer[trials.rows(kind)]) for kind in KINDS}
    tpr, fpr = yes_rates["paired"], yes_rates["independent"]
    copy_yes_rate = _compute_yes_rate(answer[trials.rows("identical", "clone")])

    # repeated trials, in the opposite order or by the same request
    reversed_rows = trials.rows("reversed")
    retest_rows = trials.rows("retest")
    order_flips = _compute_flip_rate(answer, trials.original[reversed_rows], reversed_rows)
    retest_flips = _compute_flip_rate(answer, trials.original[retest_rows], retest_rows)

    missing_by_group = {group: _count_reasons(verdicts, trials.rows_in_group(group)) for group in GROUPS}
    n_missing = int((~verdicts.answered).sum())
    return Measures(
        tpr=tpr,
        fpr=fpr,
        j=independent_difference(tpr, fpr),
        yes=yes_rates,
        copy_yes_rate=copy_yes_rate,
        length_j=independent_difference(yes_rates["unbalanced"], yes_rates["balanced"]),
        order_flips=order_flips,
        retest_flips=retest_flips,
        position_bias=independent_difference(order_flips, retest_flips),
        longer_first=_compare_longer_first(trials, answer, reversed_rows),
        open_paths=_count_open_paths(trials, answer),
        missing=missing_by_group,
        no_answer=proportion(n_missing, len(verdicts)),
    )


def _compute_yes_rate(hard: Floats) -> Proportion:
    """Compute the share of yes (1) among answers, float array (n_answers,); missing answers (NaN) are left out."""
    answered = hard[~np.isnan(hard)]
    return proportion(int((answered == 1).sum()), len(answered))


def _compute_flip_rate(hard: Floats, originals: Ids, repeats: Positions) -> Proportion:
    """Compute the share of repeated trials whose answer differs from the answer to the original trial.

    A pair with a missing answer is left out.

    hard : float array (n_trials,), answers 0 and 1, NaN if missing
    originals, repeats : int arrays (n_repeats,), rows of the trials
    """
    is_answered = ~np.isnan(hard[originals]) & ~np.isnan(hard[repeats])
    is_flipped = (hard[originals] != hard[repeats])[is_answered]
    return proportion(int(is_flipped.sum()), int(is_answered.sum()))


def _compare_longer_first(trials: CalibrationTrials, answer: Floats, reversed_rows: Positions) -> Metric:
    """Compute how much the yes rate rises if the longer text comes first.

    The result has a 95% interval. Each pair of texts was judged in both orders. Pairs of texts of equal length, and pairs without
    an answer in one of the orders, are left out.

    answer : float array (n_trials,), answers to all trials: 0 or 1, NaN if missing
    reversed_rows : int array, rows of the trials that repeat another trial in the opposite order
    """
    plan, lengths = trials.plan, trials.pool.lengths
    original_rows = trials.original[reversed_rows]
    item = plan.item[original_rows]
    first_length = lengths[plan.first[original_rows], item]
    second_length = lengths[plan.second[original_rows], item]

    original_answer, reversed_answer = answer[original_rows], answer[reversed_rows]
    has_both_answers = ~np.isnan(original_answer) & ~np.isnan(reversed_answer)
    is_used: Bools = has_both_answers & (first_length != second_length)

    # answers to each pair in its two orders: with the longer text first, and with the shorter text first
    is_first_longer = first_length > second_length
    answer_longer_first = np.where(is_first_longer, original_answer, reversed_answer)[is_used]
    answer_shorter_first = np.where(is_first_longer, reversed_answer, original_answer)[is_used]

    # the difference of the yes rates depends only on the pairs whose two answers differ
    n_yes_only_longer_first = int((answer_longer_first > answer_shorter_first).sum())
    n_yes_only_shorter_first = int((answer_longer_first < answer_shorter_first).sum())
    return paired_difference(n_yes_only_longer_first, n_yes_only_shorter_first, int(is_used.sum()))


def _count_open_paths(trials: CalibrationTrials, answer: Floats) -> OpenPaths:
    """Count the triples of texts on which the answers of the judge are not transitive.

    The answers on a triple form an open path if a ~ b and b ~ c, but not a ~ c. a ~ b means that, by the answer of the judge, a
    and b have the same source. For each triple, a paired trial of the run compares a with b. Two trials of the kind "triple"
    compare a and b with the third text c.

    answer : float array (n_trials,), answers to all trials: 0 or 1, NaN if missing
    """
    rows_with_c = trials.rows("triple").reshape(-1, 2)  # the two trials of a triple are consecutive
    rows_without_c = trials.original[rows_with_c[:, 0]]  # the paired trial (a, b) that the triple extends
    answers_of_triples = np.column_stack([answer[rows_without_c], answer[rows_with_c]])
    return count_open_paths(answers_of_triples)


def _count_reasons(verdicts: Verdicts, rows: Positions) -> dict[str, int]:
    """Count the missing answers among some rows by reason; reasons that do not occur are left out."""
    counts = np.bincount(verdicts.missing_reason[rows], minlength=len(MISSING_REASONS)).tolist()
    return {reason: n for reason, n in zip(MISSING_REASONS[1:], counts[1:], strict=True) if n}


MIN_J = 0.1
MAX_FPR = 0.3
MIN_COPY_YES_RATE = 0.5
MAX_TEMPLATE_YES_RATE = 0.5
MAX_MISSING_RATE = 0.05

RULE = (
    f"go if every 95% interval is entirely on the right side of its bound: J above {MIN_J:g}, FPR below {MAX_FPR:g}, yes rate "
    f"on copies (a response against itself or its clone) above {MIN_COPY_YES_RATE:g}, yes rate on a template below "
    f"{MAX_TEMPLATE_YES_RATE:g}, missing answers below {MAX_MISSING_RATE:g}; and J is not significantly below 0 on trials whose "
    "lengths suggest the wrong answer"
)

MAX_CALLS_FACTOR = 10.0
"""Maximum factor on the number of calls; if more are needed, a rate is too close to its bound to recommend a number."""

_POWER_FACTOR = ((1.9599640 + 0.8416212) / 1.9599640) ** 2
"""((z₀.₉₇₅ + z₀.₈) / z₀.₉₇₅)²: factor from the calls that decide at the measured rates to those with a power of 80%."""

Outcome = Literal["go", "not sure", "no-go"]


_OUTCOMES: dict[Severity, Outcome] = {"failed": "no-go", "warning": "not sure", "ok": "go"}


@dataclass(frozen=True)
class CalibrationDecision:
    """Decision on a judge.

    Attributes
    ----------
    outcome : {"go", "not sure", "no-go"}
        The decision, which follows from the most severe finding.
    rules : tuple of Finding
        Result of each criterion; its severity is "failed", "warning" (undecided) or "ok".
    calls : int or None
        If the outcome is "not sure": the number of calls in all that decides with a power of 80% at the measured
        rates; None if it would be unreasonably large.
    """

    outcome: Outcome
    rules: tuple[Finding, ...]
    calls: int | None = None


@dataclass(frozen=True)
class _Criterion:
    """A criterion for a judge: a measure, and the bound that it must exceed (`is_minimum`) or stay below.

    `estimate_at(calls_factor)` returns the measure with the interval that it would have with `calls_factor` times as many calls
    at the same rates. A factor of 1 means the calls that were made.
    """

    slug: str
    name: str
    bound: float
    is_minimum: bool
    estimate_at: Callable[[float], Metric | Proportion]

    def is_met_by_interval(self, calls_factor: float) -> bool:
        """Return whether the whole interval meets the bound if there are `calls_factor` times as many calls."""
        estimate = self.estimate_at(calls_factor)
        worst_value = estimate.low if self.is_minimum else estimate.high
        return self._meets_bound(worst_value)

    def _meets_bound(self, value: float) -> bool:
        """Return whether a value of the measure is above a minimum, or below a maximum."""
        return value > self.bound if self.is_minimum else value < self.bound

    def find_calls_factor(self) -> float:
        """Find the smallest factor on the calls that meets the criterion; infinity above `MAX_CALLS_FACTOR`."""
        calls_factor = 1.0
        while not self.is_met_by_interval(calls_factor):
            calls_factor *= 1.05
            if calls_factor > MAX_CALLS_FACTOR:
                return math.inf
        return calls_factor

    def evaluate(self) -> Finding:
        """Compare the estimated measure of the judge with its required bound.

        The severity of the finding is

        - "ok" if the whole interval meets the bound;
        - "warning" if only the estimate and a part of the interval meet it;
        - "failed" if the estimate does not meet it, or is unknown.
        """
        calls_factor = 1.0  # for the calls that were made
        estimate = self.estimate_at(calls_factor)
        side = "above" if self.is_minimum else "below"
        target = f"{side} {self.bound:g}"
        if math.isnan(estimate.value):
            message = f"{self.name} is unknown, because no trial was answered (must be {target})"
            return Finding(self.slug, message, severity="failed")

        severity: Severity = "failed"
        if self._meets_bound(estimate.value):
            severity = "ok" if self.is_met_by_interval(calls_factor) else "warning"
        interval = f"[{estimate.low:.2f}, {estimate.high:.2f}]"
        return Finding(
            self.slug,
            f"{self.name} {estimate.value:.2f} {interval} (must be {target})",
            severity=severity,
            facts={"value": estimate.value, "low": estimate.low, "high": estimate.high, "bound": self.bound},
        )


def decide(measures: Measures, *, n_calls: int) -> CalibrationDecision:
    """Decide whether a judge passes the calibration: "go", "not sure" or "no-go".

    Parameters
    ----------
    measures : Measures
        Error rates and biases of the judge.
    n_calls : int
        Number of calls from which they were estimated.

    Returns
    -------
    CalibrationDecision
        The outcome, and the result of each criterion. If the outcome is "not sure", it also has the number of calls that is
        needed to decide every criterion with a power of 80%; None if no number of calls is enough.
    """
    criteria = _list_criteria(measures)
    evaluations = [criterion.evaluate() for criterion in criteria]
    findings = (*evaluations, _evaluate_length(measures.length_j))

    # the most severe finding decides; the keys of `_OUTCOMES` are the severities, the most severe one first
    severities = {finding.severity for finding in findings}
    most_severe = next(severity for severity in _OUTCOMES if severity in severities)
    outcome = _OUTCOMES[most_severe]
    if outcome != "not sure":
        return CalibrationDecision(outcome, findings)

    # This factor decides every criterion if new answers have exactly the measured rates. Because their rates vary at random,
    # a power of 80% needs more calls, by `_POWER_FACTOR`.
    factor_without_variation = max(criterion.find_calls_factor() for criterion in criteria)
    if math.isinf(factor_without_variation):
        return CalibrationDecision(outcome, findings, calls=None)
    required_calls = math.ceil(n_calls * (factor_without_variation * _POWER_FACTOR))
    return CalibrationDecision(outcome, findings, required_calls)


def _list_criteria(measures: Measures) -> list[_Criterion]:
    """List the criteria that a judge must meet.

    They are bounds for J = TPR − FPR and for four proportions of answers. Each criterion has a function `estimate_at`, which
    predicts the interval of the measure after more calls. For example, `estimate_at(2.0)` is the estimate with the interval that
    twice as many calls would give, if all proportions stay the same.
    """

    def estimate_j(calls_factor: float) -> Metric:
        """Estimate J = TPR − FPR with the interval that `calls_factor` times as many calls would give."""
        tpr = _scale_counts(measures.tpr, calls_factor)
        fpr = _scale_counts(measures.fpr, calls_factor)
        return independent_difference(tpr, fpr)

    fpr_at = partial(_scale_counts, measures.fpr)
    copies_at = partial(_scale_counts, measures.copy_yes_rate)
    template_at = partial(_scale_counts, measures.yes["template"])
    missing_at = partial(_scale_counts, measures.no_answer)
    return [
        _Criterion("j", "J", MIN_J, is_minimum=True, estimate_at=estimate_j),
        _Criterion("fpr", "FPR", MAX_FPR, is_minimum=False, estimate_at=fpr_at),
        _Criterion("copy_yes_rate", "yes rate on copies", MIN_COPY_YES_RATE, is_minimum=True, estimate_at=copies_at),
        _Criterion(
            "template", "yes rate on a template", MAX_TEMPLATE_YES_RATE, is_minimum=False, estimate_at=template_at
        ),
        _Criterion("missing", "missing answers", MAX_MISSING_RATE, is_minimum=False, estimate_at=missing_at),
    ]


def _evaluate_length(length_j: Metric) -> Finding:
    """Evaluate J on trials in which the lengths of the texts suggest the wrong answer.

    The criterion fails only if J is significantly below 0. A calibration of 150 calls has 10 trials of each kind. They are
    enough to detect a judge that decides by length, because its J is near −1. They are too few to prove that a judge does
    not decide by length.
    """
    return Finding(
        "length",
        f"J {length_j.value:.2f} [{length_j.low:.2f}, {length_j.high:.2f}] on trials whose lengths suggest the "
        "wrong answer (must not be significantly below 0)",
        severity="failed" if length_j.high < 0 else "ok",
        facts={"value": length_j.value, "low": length_j.low, "high": length_j.high},
    )


def _scale_counts(rate: Proportion, factor: float) -> Proportion:
    """Return the same rate with the narrower interval that `factor` times as many trials would give."""
    return proportion(rate.n_yes * factor, rate.n * factor, level=rate.level)
