"""What answers to trials of known truth say of a judge, and whether it is worth its calls: the measures, the rule and
its bounds.

A judge passes on this pool, or it does not: nothing is said of other pools, and a judge that agrees with no one never
passes.

It passes where every interval lies wholly on the right side of its bound. It fails where an estimate is on the wrong
side. In between it is not sure. The bounds lie between what useless judges reach and what real ones do. A constant, a
coin and a judge by length have J near 0 (by length at most .07 on SAMSum), most of them with FPR .3 to 1.
GPT-4o-mini's graded answers on SAMSum, only full grades as yes, have J .39, whose interval at 150 calls begins at .21
in the median, and FPR near 0; `lexical` has J .8 to .9, FPR .04 to .13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from youden.stats.base.metrics import Metric
from youden.stats.base.proportions import Proportion, difference, paired_difference, proportion
from youden.types import MISSING_REASONS, Finding, Verdicts
from youden.types.finding import Severity
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.workflows.calibration_trials import ARMS, KINDS, Kind, KnownTruth


@dataclass(frozen=True)
class Measures:
    """A judge's yes-or-no answers against what is known. Intervals are at 95 %; NaN where nothing was answered.

    tpr, fpr, j: yeses on random paired and independent trials of the run, and their difference, Youden's J.
    yes: share of yeses by kind of trial. length_j: J on the trials in which length speaks against the truth.
    changed: pairs whose answer changed with the order of the texts; changed_again: trials whose answer changed when asked again;
    beyond: the one less the other. longer_first: share of yeses with the longer text first less with the shorter one first.
    missing: arm → reason → how many. no_answer: trials without an answer, of all.
    """

    tpr: Proportion
    fpr: Proportion
    j: Metric
    yes: Mapping[Kind, Proportion]
    copies: Proportion
    length_j: Metric
    changed: Proportion
    changed_again: Proportion
    beyond: Metric
    longer_first: Metric
    missing: Mapping[str, Mapping[str, int]]
    no_answer: Proportion


@dataclass(frozen=True)
class Bill:
    """seconds_median, seconds_p95: of a call, when it was made; None where none was timed. usd: spent now; usd_per_1000: what a
    thousand such calls cost; both None where a price is unknown."""

    seconds_median: float | None
    seconds_p95: float | None
    usd: float | None
    usd_per_1000: float | None


def measure(known: KnownTruth, result: Verdicts) -> Measures:
    """What the answers to `known.plan` say of who gave them."""
    yes = {kind: _share(result.hard[known.rows(kind)]) for kind in KINDS}
    reversed_, again = known.rows("reversed"), known.rows("again")
    changed = _changes(result.hard, known.of[reversed_], reversed_)
    changed_again = _changes(result.hard, known.of[again], again)
    return Measures(
        tpr=yes["paired"],
        fpr=yes["independent"],
        j=difference(yes["paired"], yes["independent"]),
        yes=yes,
        copies=_share(result.hard[known.rows("itself", "clone")]),
        length_j=difference(yes["uneven"], yes["even"]),
        changed=changed,
        changed_again=changed_again,
        beyond=difference(changed, changed_again),
        longer_first=_longer_first(known, result.hard, reversed_),
        missing={arm: _reasons(result, known.rows_of_arm(arm)) for arm in ARMS},
        no_answer=proportion(int((~result.answered).sum()), len(result)),
    )


def _share(hard: Floats) -> Proportion:
    answered = hard[~np.isnan(hard)]
    return proportion(int((answered == 1).sum()), len(answered))


def _changes(hard: Floats, before: Ids, after: Positions) -> Proportion:
    both = ~np.isnan(hard[before]) & ~np.isnan(hard[after])
    return proportion(int((hard[before] != hard[after])[both].sum()), int(both.sum()))


def _longer_first(known: KnownTruth, hard: Floats, after: Positions) -> Metric:
    """Pairs of texts that are equally long say nothing of it and are left out."""
    before, texts, plan = known.of[after], known.pool.texts, known.plan
    one, two = (
        np.array([len(text) for text in texts[agent[before], plan.item[before]]], dtype=np.int64)
        for agent in (plan.first, plan.second)
    )
    longer = np.where(one > two, hard[before], hard[after])
    shorter = np.where(one > two, hard[after], hard[before])
    said: Bools = (one != two) & ~np.isnan(longer) & ~np.isnan(shorter)
    return paired_difference(int((longer > shorter)[said].sum()), int((longer < shorter)[said].sum()), int(said.sum()))


def _reasons(result: Verdicts, rows: Positions) -> dict[str, int]:
    counts = np.bincount(result.missing[rows], minlength=len(MISSING_REASONS)).tolist()
    return {reason: n for reason, n in zip(MISSING_REASONS[1:], counts[1:], strict=True) if n}


LEAST_J = 0.1
MOST_FPR = 0.3
LEAST_COPIES = 0.5
MOST_TEMPLATES = 0.5
MOST_MISSING = 0.05

RULE = (
    f"go where 95 % intervals lie wholly on the right side: J above {LEAST_J:g}, FPR below {MOST_FPR:g}, yes to copies (a "
    f"response against itself or its clone) above {LEAST_COPIES:g}, yes to a template below {MOST_TEMPLATES:g}, missing answers "
    f"below {MOST_MISSING:g}; and J does not lie below 0 where length speaks against the truth"
)

MOST_TIMES = 10.0
"""Where even so many times the calls would settle nothing, a rate is too near to its bound, and no number is named."""

_POWER = ((1.9599640 + 0.8416212) / 1.9599640) ** 2
"""How many times the calls that would settle a rule at the measured rates settle it four times in five."""

Outcome = Literal["go", "not sure", "no-go"]


_OUTCOMES: dict[Severity, Outcome] = {"failed": "no-go", "warning": "not sure", "ok": "go"}


@dataclass(frozen=True)
class Verdict:
    """rules: what each part of the rule found, of the severity failed, warning (it is not sure) or ok. outcome: the worst of
    them. calls: how many in all would settle it four times in five at the measured rates, where it is not sure; None where no
    reasonable number would."""

    outcome: Outcome
    rules: tuple[Finding, ...]
    calls: int | None = None


@dataclass(frozen=True)
class _Bound:
    """A share or difference that has to lie above a bound, or below it. at: with so many times the calls at the same rates."""

    slug: str
    what: str
    bound: float
    above: bool
    at: Callable[[float], Metric | Proportion]

    def clears(self, times: float) -> bool:
        found = self.at(times)
        return found.low > self.bound if self.above else found.high < self.bound

    def times(self) -> float:
        """How many times the calls would clear the bound at the same rates; infinite beyond MOST_TIMES."""
        times = 1.0
        while not self.clears(times):
            times *= 1.05
            if times > MOST_TIMES:
                return math.inf
        return times

    def found(self) -> Finding:
        now, asked = self.at(1.0), f"{'above' if self.above else 'below'} {self.bound:g}"
        if math.isnan(now.value):
            said = f"{self.what} is unknown, for nothing was answered (has to be {asked})"
            return Finding(self.slug, said, severity="failed")
        right = now.value > self.bound if self.above else now.value < self.bound
        return Finding(
            self.slug,
            f"{self.what} {now.value:.2f} [{now.low:.2f}, {now.high:.2f}] (has to be {asked})",
            severity="failed" if not right else "ok" if self.clears(1.0) else "warning",
            facts={"value": now.value, "low": now.low, "high": now.high, "bound": self.bound},
        )


def decide(measures: Measures, *, n_calls: int) -> Verdict:
    """The rule applied to a judge that was asked `n_calls` times."""
    tpr, fpr = measures.tpr, measures.fpr
    shares = (
        ("fpr", "FPR", MOST_FPR, False, fpr),
        ("copies", "yes to copies", LEAST_COPIES, True, measures.copies),
        ("template", "yes to a template", MOST_TEMPLATES, False, measures.yes["template"]),
        ("missing", "missing answers", MOST_MISSING, False, measures.no_answer),
    )
    bounds = [
        _Bound("j", "J", LEAST_J, True, lambda times: difference(_times(tpr, times), _times(fpr, times))),
        *(_Bound(slug, what, bound, above, partial(_times, share)) for slug, what, bound, above, share in shares),
    ]
    rules = (*(bound.found() for bound in bounds), _by_length(measures.length_j))
    outcome = next(_OUTCOMES[worst] for worst in _OUTCOMES if any(rule.severity == worst for rule in rules))
    if outcome != "not sure":
        return Verdict(outcome, rules)
    times = max(bound.times() for bound in bounds) * _POWER
    return Verdict(outcome, rules, math.ceil(n_calls * times) if times < math.inf else None)


def _by_length(found: Metric) -> Finding:
    """One-sided: 10 and 10 trials can show a judge by length, whose J is near −1 there, and not that another is free of it."""
    return Finding(
        "length",
        f"J {found.value:.2f} [{found.low:.2f}, {found.high:.2f}] where length speaks against the truth (may not lie below 0)",
        severity="failed" if found.high < 0 else "ok",
        facts={"value": found.value, "low": found.low, "high": found.high},
    )


def _times(share: Proportion, times: float) -> Proportion:
    return proportion(share.n_yes * times, share.n * times, level=share.level)
