"""Abilities of a plan's agents as means of its answered trials, less the rate of false positives."""

from __future__ import annotations

import numpy as np

from youden.errors import StatisticsError
from youden.nouns import INDEPENDENT, PAIRED, Plan, Target, Verdicts
from youden.run.estimates.trial_covariance import trial_covariance
from youden.stats.base.clusters import CentredCovariance
from youden.stats.base.validation import check_level, uneven_columns
from youden.stats.trials.own_rates import own_rates


class TrialMean:
    """Ability as the mean answer over an agent's paired trials, less the false-positive rate.

    θ_i = mean of y over answered paired trials with i on either side − FPR_i, which is the mean answer of answered independent
    trials (0 where there is none: `n_independent_` is 0 then, and `method_` says so), or where they are many an agent's own rate
    with its error added, see `own_rates`. Where a plan holds cells out, trials that
    touch one in either arm are left out, under both rules.

    target: what intervals speak of, more items of this kind or these items alone; see `trial_covariance`.

    Learned: ability_, low_, high_: float[K] (the interval is for θ_i − θ̄, around θ_i); covariance_: CentredCovariance, of the
    θ_i − θ̄; error_: float[K], its standard errors; by_item_: what items contribute, None on these items; n_trials_: int32[K];
    n_missing_: paired trials without an answer; fpr_: float; n_independent_: int; method_: str, how intervals were made, or why
    they are NaN. Abilities and errors are in units of the answers, [−1, 1].

    Raises: StatisticsError, by `fit`.

    >>> import youden
    >>> pool = youden.read_pool("datasets/field-notes")
    >>> plan = youden.make_plan(pool, calls=300)
    >>> model = youden.TrialMean().fit(plan, youden.judge(plan, pool))
    >>> model.ability_.shape, bool((model.low_ < model.high_).all())
    ((12,), True)
    """

    def __init__(self, *, level: float = 0.95, target: Target = "items-like-these") -> None:
        self.level = level
        self.target = target

    def fit(self, plan: Plan, result: Verdicts) -> TrialMean:
        """Learn from the answers to `plan`.

        Raises: StatisticsError [trial-none] where no paired trial that may be learned from was answered, [trial-columns]
        where plan and verdicts differ in length, [level].
        """
        if len(plan) != len(result):
            raise uneven_columns(f"a plan of {len(plan)} trials and {len(result)} verdicts")
        check_level(self.level)
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
        first, second, answer = plan.first[used], plan.second[used], result.answer[used]
        agent = np.append(first, second)
        n_trials = np.bincount(agent, minlength=plan.n_agents)
        mean = np.full(plan.n_agents, np.nan)
        np.divide(np.bincount(agent, np.tile(answer, 2), plan.n_agents), n_trials, out=mean, where=n_trials > 0)
        found = trial_covariance(
            first,
            second,
            plan.item[used],
            plan.slot[used],
            answer,
            ability=mean,
            weight=np.ones(len(answer)),
            n_items=plan.n_items,
            target=self.target,
        )
        self.n_independent_ = int(independent.sum())
        self.fpr_ = float(result.answer[independent].mean()) if self.n_independent_ else 0.0
        own = own_rates(
            plan.first[independent], plan.second[independent], result.answer[independent], n_agents=plan.n_agents
        )
        self.ability_ = mean - own.rate
        self.covariance_ = CentredCovariance(found.covariance.covariance + own.covariance, found.covariance.freedom)
        half = self.covariance_.half_width(self.level)
        self.error_, self.by_item_ = self.covariance_.error, found.by_item
        self.low_, self.high_ = self.ability_ - half, self.ability_ + half
        self.n_trials_ = n_trials.astype(np.int32)
        self.n_missing_ = int(paired.sum() - used.sum())
        self.method_ = found.method + ("" if self.n_independent_ else "; FPR taken as 0: no independent trial answered")
        return self
