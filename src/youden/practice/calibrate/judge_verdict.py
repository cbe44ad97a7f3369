"""Whether a judge is worth its calls: the rule, its bounds, and the words.

A judge passes on this pool, or it does not: nothing is said of other pools, and a judge that agrees with no one never passes.

It passes where every interval lies wholly on the right side of its bound. It fails where an estimate is on the wrong side. In
between it is not sure.
The bounds lie between what useless judges reach and what real ones do. A constant, a coin and a judge by length have J near 0 (by
length at most .07 on SAMSum), most of them with FPR .3 to 1. GPT-4o-mini's graded answers on SAMSum, only full grades as yes,
have J .39, whose interval at 150 calls begins at .21 in the median, and FPR near 0; `lexical` has J .8 to .9, FPR .04 to .13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from youden.practice.calibrate.judge_measures import Measures
from youden.stats.base.metrics import Metric
from youden.stats.base.proportions import Proportion, difference, proportion

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


@dataclass(frozen=True)
class Rule:
    """One part of the rule: what it is about and what came of it."""

    what: str
    outcome: Outcome
    says: str


@dataclass(frozen=True)
class Verdict:
    """outcome: the worst of the rules'. calls: how many in all would settle it four times in five at the measured rates, where
    it is not sure; None where no reasonable number would."""

    outcome: Outcome
    rules: tuple[Rule, ...]
    calls: int | None = None


@dataclass(frozen=True)
class _Bound:
    """A share or difference, the bound, and the interval's end towards it with `times` as many calls at the same rates."""

    what: str
    value: float
    low: float
    high: float
    bound: float
    above: bool
    end: Callable[[float], float]

    def clears(self, times: float = 1.0) -> bool:
        return self._right(self.end(times))

    def _right(self, value: float) -> bool:
        return value > self.bound if self.above else value < self.bound

    def outcome(self) -> Outcome:
        return "no-go" if not self._right(self.value) else "go" if self.clears() else "not sure"

    def times(self) -> float:
        """How many times the calls would clear the bound at the same rates; infinite beyond MOST_TIMES."""
        times = 1.0
        while not self.clears(times):
            times *= 1.05
            if times > MOST_TIMES:
                return math.inf
        return times

    def says(self) -> str:
        asked = f"{'above' if self.above else 'below'} {self.bound:g}"
        if math.isnan(self.value):
            return f"{self.what} is unknown, for nothing was answered (has to be {asked})"
        return f"{self.what} {self.value:.2f} [{self.low:.2f}, {self.high:.2f}] (has to be {asked})"


def decide(measures: Measures, *, n_calls: int) -> Verdict:
    """The rule applied to a judge that was asked `n_calls` times."""
    yes = measures.yes
    bounds = [
        _Bound(
            "J",
            *_interval(measures.j),
            LEAST_J,
            above=True,
            end=lambda times: difference(_times(measures.tpr, times), _times(measures.fpr, times)).low,
        ),
        _below("FPR", measures.fpr, MOST_FPR),
        _Bound(
            "yes to copies",
            *_interval(measures.copies),
            LEAST_COPIES,
            above=True,
            end=lambda times: _times(measures.copies, times).low,
        ),
        _below("yes to a template", yes["template"], MOST_TEMPLATES),
        _below("missing answers", measures.no_answer, MOST_MISSING),
    ]
    rules = [Rule(bound.what, bound.outcome(), bound.says()) for bound in bounds]
    rules.append(_by_length(measures.length_j))
    outcomes = {rule.outcome for rule in rules}
    if "no-go" in outcomes or "not sure" not in outcomes:
        return Verdict("no-go" if "no-go" in outcomes else "go", tuple(rules))
    times = max(bound.times() for bound in bounds) * _POWER
    return Verdict("not sure", tuple(rules), math.ceil(n_calls * times) if times < math.inf else None)


def _below(what: str, share: Proportion, bound: float) -> _Bound:
    return _Bound(what, *_interval(share), bound, above=False, end=lambda times: _times(share, times).high)


def _by_length(found: Metric) -> Rule:
    """One-sided: 10 and 10 trials can show a judge by length, whose J is near −1 there, and not that another is free of it."""
    value, low, high = _interval(found)
    said = f"J {value:.2f} [{low:.2f}, {high:.2f}] where length speaks against the truth (may not lie below 0)"
    return Rule("length", "no-go" if high < 0 else "go", said)


def _interval(found: Metric | Proportion) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def _times(share: Proportion, times: float) -> Proportion:
    return proportion(share.n_yes * times, share.n * times, level=share.level)
