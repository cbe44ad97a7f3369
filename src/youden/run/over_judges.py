"""A ranking over several judges: each one's answers, their average with what they differ in, and what they are worth.

The judges of a jury answered the same trials; so did those of several runs of one plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from youden.errors import ConfigError
from youden.nouns import FOLLOW_UP, MISSING_REASONS, PAIRED, PROBE, Finding, Target, Verdicts
from youden.nouns.pool import Bools, Floats
from youden.protocol.independent import same_trials
from youden.run.ability import Abilities, trial_covariance
from youden.stats.base.clusters import CentredCovariance
from youden.stats.judges.judge_spread import JudgeSpread, correlation, judge_spread, votes

JUDGES: Target = "items-and-judges"


def judges_of(result: Verdicts) -> list[Verdicts]:
    """What each judge of a jury answered; of another judge, its own answers alone."""
    if result.votes is None:
        return [result]
    return [_answered(replace(result, votes=None), vote) for vote in result.votes]


def answers_for(result: Verdicts, target: Target) -> Verdicts:
    """What is ranked by: over judges the mean of all their answers, missing where one gave none; else the answers as they are."""
    if target != JUDGES or result.votes is None:
        return result
    return _answered(result, result.votes.mean(axis=0))


def _answered(result: Verdicts, answer: Floats) -> Verdicts:
    none, reason = np.isnan(answer), np.maximum(result.missing, MISSING_REASONS.index("failed"))
    hard = np.where(none, np.nan, answer >= 0.5)
    return replace(result, answer=answer, hard=hard, missing=np.where(none, reason, 0).astype(np.int8))


def over_judges(found: Abilities, result: Verdicts | None) -> Abilities:
    """Abilities about judges like these, with what the judges differ in, in their error; about another target as they are.

    Raises: StatisticsError [judges-few] where one judge answered.
    """
    if found.target != JUDGES or result is None:
        return found
    judges = judges_of(result)
    spread = spread_of(judges, found.covariance)
    return found._replace(
        covariance=spread.covariance,
        method=f"{found.method}; with what {len(judges)} judges differ in, degrees of freedom by judges",
    )


def with_votes(result: Verdicts) -> Verdicts:
    """A jury's answers, with a note of what its judges are worth."""
    if result.votes is None:
        return result
    told = result.votes[:, learned(result) & ~np.isnan(result.votes).any(axis=0)]
    if told.shape[1] < 2 or not told.std(axis=1).all():  # who always says the same has no vote to weigh
        return result
    of, M = correlation(told), len(told)
    said = (
        f"The {M} judges of this jury are worth {votes(M, of):.1f} independent votes: their answers to the same comparisons "
        f"correlate by {of:.2f}."
    )
    note = Finding("votes", said, severity="note", facts={"votes": votes(M, of), "judges": M, "correlation": of})
    return replace(result, warnings=(*result.warnings, note))


def said_of(found: JudgeSpread) -> str:
    """What judges are worth, and whether one can rank by them."""
    M = len(found.by_judge)
    said = (
        f"{M} judges are worth {found.votes:.1f} independent votes. Another judge would place an agent "
        f"{found.variance**0.5:.3f} (SD) from where all judges would on average; agents differ by {found.between**0.5:.3f}."
    )
    if M == 2:
        said += " Two judges say little of what judges differ in, so intervals are wide: judge the plan with a third."
    return said + (" Not rankable by these judges." if found.variance > found.between else "")


def learned(result: Verdicts) -> Bools:
    """Answered paired trials that abilities are made of: bool[N]."""
    plan = result.plan
    train = plan.split.train
    kept = train[plan.first, plan.item] & train[plan.second, plan.item] & ~np.isin(plan.role, (PROBE, FOLLOW_UP))
    return np.asarray(kept & (plan.arm == PAIRED) & result.answered)


def spread_of(results: Sequence[Verdicts], of_mean: CentredCovariance | None = None) -> JudgeSpread:
    """Of judges that answered the same trials, on those that all answered; agents of the first.

    of_mean: what items and calls leave to chance in the ranking; None for that of means of trials, over items like these.

    Raises: ConfigError [variance-other]; StatisticsError.
    """
    mine = results[0]
    rows, answers = learned(mine), [mine.answer]
    for other in results[1:]:
        at = same_trials(mine.plan, other.plan)
        answers.append(np.where(at >= 0, other.answer[at], np.nan))
        rows &= ~np.isnan(answers[-1])
    plan = mine.plan
    first, second, item = plan.first[rows], plan.second[rows], plan.item[rows]
    K, told = plan.n_agents, np.stack(answers)[:, rows]
    n = np.bincount(np.append(first, second), minlength=K)
    if (n < 2).any():
        raise ConfigError(
            f"The judges answered {int(rows.sum())} trials in common, of which an agent has {int(n.min())}. Judge the whole plan "
            "with each: youden rejudge RUN --judge OTHER.",
            slug="variance-other",
        )
    by_judge = np.stack([np.bincount(np.append(first, second), np.tile(one, 2), K) / n for one in told])

    def over_items(answer: Floats, ability: Floats) -> CentredCovariance:
        return trial_covariance(
            first,
            second,
            item,
            np.maximum(plan.slot[rows], 0),
            answer,
            ability=ability,
            weight=np.ones(len(answer)),
            n_items=plan.n_items,
            target="items-like-these",
        ).covariance

    of_mean = over_items(told.mean(axis=0), by_judge.mean(axis=0)) if of_mean is None else of_mean
    M = len(told)
    gaps = [
        np.diag(over_items(one - told.mean(axis=0), own - by_judge.mean(axis=0)).covariance)
        for one, own in zip(told, by_judge, strict=True)
    ]
    return judge_spread(by_judge, of_mean, np.mean(gaps, axis=0) * M / (M - 1), correlation(told))
