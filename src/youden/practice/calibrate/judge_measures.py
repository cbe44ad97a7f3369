"""What answers to trials of known truth say of a judge: rates, order, repetition, gaps, time and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from youden.nouns import MISSING_REASONS, Verdicts
from youden.nouns.arrays import Bools, Floats, Ids, Positions
from youden.practice.calibrate.known_truth import KINDS, PLANTED, Kind, KnownTruth
from youden.stats.base.metrics import Metric
from youden.stats.base.proportions import Proportion, difference, paired_difference, proportion

ARMS: Mapping[str, tuple[Kind, ...]] = {
    "paired": ("paired", "reversed", "again", "uneven"),
    "independent": ("independent", "even"),
    "planted": PLANTED,
}


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
        missing={arm: _reasons(result, known.rows(*kinds)) for arm, kinds in ARMS.items()},
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
