"""Divide the calls of an extension between paired and independent trials by their contributions to the variance of an ability.

The default is 7 to 10% independent trials, which suits judges with a low false-positive rate. If the false-positive rates account
for most of the variance of an ability, an extension gets more independent trials. The variance of a mean answer and that of a
false-positive rate are each about inversely proportional to the number of their trials. Their sum is smallest if the fraction of
the trials that are independent equals the fraction of the variance that is due to the rates.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import NamedTuple

from youden.protocol.blocks import get_extensions
from youden.protocol.pooled_trials import count_independent, has_default_independent_count, has_free_calls
from youden.types import Plan
from youden.types.facts import RunFacts

MIN_RATE_SHARE = 0.5
"""If the rates cause more than this fraction of the variance of an ability, an extension may have more independent trials."""
MIN_FPR = 0.05
"""Pooled false-positive rate that a run must also exceed. Below it, the fraction can be large by chance in a small run."""
MAX_RATE_SHARE = 0.95
"""Maximum fraction that the division uses. With a larger one, the proposed extension would be many times as large as the run, for
example if the run has all paired trials and its intervals are for exactly its items."""


class CallDivision(NamedTuple):
    """Division of further calls between paired and independent trials, computed from the variances and calls of a run.

    Attributes
    ----------
    rate_share : float in (0, 1]
        Mean fraction of the variance of an ability that is due to its false-positive rate.
    n_agents, n_paired : int
        Number of agents and of paired trials of the run.
    n_independent : float
        Effective number of independent trials of the run: the number of trials that would give the rates the same variance if
        estimated rates were not shrunk to their mean. It is at least the number of trials.
    """

    rate_share: float
    n_agents: int
    n_paired: int
    n_independent: float

    @property
    def best_fraction(self) -> float:
        """Fraction of all trials, including those of the extension, that should be independent."""
        rate_share = min(self.rate_share, MAX_RATE_SHARE)
        rate_part = sqrt(rate_share * self.n_independent)
        paired_part = sqrt((1 - rate_share) * self.n_paired)
        return rate_part / (rate_part + paired_part)

    def count_independent(self, calls: int, *, n_focus: int = 0) -> int:
        """Return how many of the calls that are added to a run should be independent trials.

        The number is a multiple of the number of agents that the calls measure. It makes `best_fraction` of all trials of the run
        independent, as far as at least two calls per measured agent remain for paired trials. It is at least the default of an
        extension: 7 to 10% of the calls, rounded to a multiple that may be 0.

        calls : number of added calls, for paired and independent trials together
        n_focus : number of agents that the calls measure; 0 for all agents
        """
        # a call on agents in focus measures one agent, and any other call measures two
        n_measured = n_focus or self.n_agents
        calls_per_call = self.n_agents / (2 * n_focus) if n_focus else 1.0
        n_total = self.n_paired + self.n_independent + calls_per_call * calls
        n_wanted = (self.best_fraction * n_total - self.n_independent) / calls_per_call

        n_passes = min(n_wanted, calls - 2 * n_measured) // n_measured
        return max(int(n_passes) * n_measured, count_independent(calls, n_measured, is_first=False))

    @property
    def n_calls_to_balance(self) -> int:
        """Number of further calls on all agents after which the fraction `best_fraction` of all trials is independent."""
        n_added = (self.n_paired + 2 * self.n_agents) / (1 - self.best_fraction) - self.n_paired - self.n_independent
        return self.n_agents * max(0, ceil(n_added / self.n_agents))

    def forecast_width_ratio(self, calls: int) -> float:
        """Forecast the ratio of the half-width of an interval after an extension of all agents to the present half-width."""
        n_independent = self.count_independent(calls)
        paired_variance = (1 - self.rate_share) * self.n_paired / (self.n_paired + calls - n_independent)
        rate_variance = self.rate_share * self.n_independent / (self.n_independent + n_independent)
        return sqrt(paired_variance + rate_variance)


def has_dominant_rates(rate_share: float, fpr: float) -> bool:
    """Return whether the false-positive rates cause too much of the variance of an ability for the default division.

    rate_share : mean fraction of the variance of an ability that is due to its false-positive rate
    fpr : pooled false-positive rate
    """
    return rate_share > MIN_RATE_SHARE and fpr > MIN_FPR


def find_call_division(plan: Plan, facts: RunFacts) -> CallDivision | None:
    """Find how to divide further calls of a run between paired and independent trials.

    Independent trials estimate false-positive rates. They get more calls than by default in two cases: the errors of the rates
    dominate the intervals, or an earlier extension had more of them. The default is kept if the plan fixes their number, or if
    calls cost nothing.

    plan : plan of the run, with or without its trials
    facts : facts about its fit

    Returns None for the default division.
    """
    rates = facts.rates
    if facts.calls is None or facts.fpr is None or rates is None:
        return None
    if rates.variance_share is None or rates.calls_to_halve is None:
        return None
    if has_free_calls(plan) or not has_default_independent_count(plan):
        return None

    was_divided = any(step.independent for step in get_extensions(plan).steps)
    if not was_divided and not has_dominant_rates(rates.variance_share, facts.fpr):
        return None
    n_effective = rates.calls_to_halve / 3  # a standard error is halved by three times as many further calls
    return CallDivision(rates.variance_share, plan.n_agents, facts.calls.n_paired, n_effective)
