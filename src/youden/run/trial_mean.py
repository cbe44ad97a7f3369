"""Abilities of a plan's agents as means of its answered trials, less the rate of false positives."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.nouns import INDEPENDENT, PAIRED, Plan, Verdicts
from youden.nouns.arrays import Bools
from youden.stats.base.validation import uneven_columns
from youden.stats.trials.own_rates import own_rates
from youden.stats.trials.trial_mean import trial_mean


class TrialMean:
    """Ability as the mean answer over an agent's paired trials, less the false-positive rate.

    θ_i = mean of y over answered paired trials with i on either side − FPR_i, which is the mean answer of answered independent
    trials (0 where there is none: `n_independent_` is 0 then, and `method_` says so), or where they are many an agent's own rate
    with its error added, see `own_rates`. Where a plan holds cells out, trials that
    touch one in either arm are left out, under both rules.

    Learned: ability_, low_, high_: float[K], as `trial_mean` gives them less FPR_i (the interval is for θ_i − θ̄, around θ_i);
    error_, freedom_: float[K], of that interval; n_trials_, n_slots_: int32[K]; n_missing_: paired trials without an answer;
    fpr_: float; n_independent_: int; method_: str.
    """

    def __init__(self, *, level: float = 0.95) -> None:
        self.level = level

    def fit(self, plan: Plan, result: Verdicts) -> TrialMean:
        """Learn from the answers to `plan`.

        Raises: StatisticsError [trial-none] where no paired trial that may be learned from was answered, [trial-columns]
        where plan and verdicts differ in length, [level].
        """
        if len(plan) != len(result):
            raise uneven_columns(f"a plan of {len(plan)} trials and {len(result)} verdicts")
        train = plan.split.train
        other = np.where(plan.arm == PAIRED, plan.item, plan.other_item)
        allowed = train[plan.first, plan.item] & train[plan.second, other]
        paired = allowed & (plan.arm == PAIRED)
        used = paired & result.answered
        independent = allowed & (plan.arm == INDEPENDENT) & result.answered
        if not used.any():
            raise StatisticsError(
                f"Abilities need answered paired trials; of {int(paired.sum())} that may be learned from none was answered. "
                "Run the judge, or look at why its answers are missing.",
                slug="trial-none",
            )
        found = trial_mean(
            plan.first[used],
            plan.second[used],
            plan.slot[used],
            result.answer[used],
            n_agents=plan.n_agents,
            n_population=_n_ordered_pairs(train),
            level=self.level,
        )
        self.n_independent_ = int(independent.sum())
        self.fpr_ = float(result.answer[independent].mean()) if self.n_independent_ else 0.0
        own = own_rates(
            plan.first[independent], plan.second[independent], result.answer[independent], n_agents=plan.n_agents
        )
        self.ability_ = found.mean - own.rate
        self.error_, self.freedom_ = np.sqrt(found.error**2 + np.diag(own.covariance)), found.freedom
        margin = student.ppf((1 + self.level) / 2, self.freedom_) * self.error_
        self.low_, self.high_ = self.ability_ - margin, self.ability_ + margin
        self.n_trials_ = found.n_trials
        self.n_slots_ = found.n_slots
        self.n_missing_ = int(paired.sum() - used.sum())
        self.method_ = found.method + ("" if self.n_independent_ else "; FPR taken as 0: no independent trial answered")
        return self


def _n_ordered_pairs(present: Bools) -> int:
    per_item = present.sum(axis=0, dtype=np.int64)
    return int((per_item * (per_item - 1)).sum())
