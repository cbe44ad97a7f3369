"""What a reader has to know before believing a number, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from youden.report.data.summary import Summary

MISSING_SHARE = 0.01
LITTLE_R2 = 0.5
HIGH_FPR = 0.05


@dataclass(frozen=True)
class Advice:
    """One warning. todo: what to do, None where the warning itself says it."""

    slug: str
    text: str
    todo: str | None = None


def advise(summary: Summary, notes: Sequence[str], *, additivity: bool = True) -> tuple[Advice, ...]:
    """Warnings the run itself gave, then what its figures call for, then what this report lacks (`notes`).

    additivity: whether so many partners were asked that additivity says anything.
    """
    facts, calls = summary.facts, summary.calls
    found = [Advice("run", warning) for warning in summary.warnings]
    if facts.status != "ok" and facts.message not in summary.warnings:
        found.append(Advice("fit", f"The fit ended with status {facts.status}: {facts.message}"))
    if calls is not None and calls.n_missing > MISSING_SHARE * calls.n_calls:
        found.append(
            Advice(
                "missing",
                f"{calls.n_missing:,} of {calls.n_calls:,} calls have no answer.",
                "Open them below (kind: no answer), correct the judge's prompt or limits, and run the same command again.",
            )
        )
    if facts.n_components > 1:
        found.append(
            Advice(
                "components",
                f"The cells fall into {facts.n_components} parts that share no agent and no item: abilities across parts do not "
                "compare.",
                "Plan more calls, or fewer gaps in the pool.",
            )
        )
    if facts.fpr is not None and facts.fpr > HIGH_FPR:
        found.append(
            Advice(
                "fpr",
                f"The judge's false-positive rate is {facts.fpr:.1%}: its mean answer to pairs from different items.",
                "Look at those trials below (kind: independent yes): are the items too much alike, or is the judge too lenient?",
            )
        )
    r2 = [line.facts.r2 for line in summary.links if (line.scores, line.link) == ("symmetric", "identity")]
    if additivity and r2 and r2[0] is not None and r2[0] < LITTLE_R2:
        found.append(
            Advice(
                "additivity",
                f"Ability − difficulty explains {r2[0]:.0%} of the variance of the scores.",
                "Trust the ranking of means more than predictions of single cells; look at the residuals below.",
            )
        )
    return (*found, *(Advice("report", note) for note in notes))
