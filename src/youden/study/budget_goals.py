"""What a budget study supports, in words: the cheapest design that meets a goal, and what the figures do not carry.

Nothing is recommended that was not tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from youden.errors import ConfigError
from youden.study.budget_curves import BudgetRow, BudgetStudy
from youden.study.link_curl import LITTLE
from youden.text.sentences import counted
from youden.types.pool import Json, or_none

Measure = Literal["rho", "recall", "halfwidth", "regret"]
SMALL = ("halfwidth", "regret")
"""What is to be small."""
FEW_SLOTS = 15
FEW_SEEDS = 20
"""Below it the share of intervals that hold is mostly luck."""
HIGH_FPR = 0.02


@dataclass(frozen=True)
class Goal:
    """Mean ρ or top-k recall at least `value`; or mean half width of the intervals, or mean regret, at most that."""

    measure: Measure
    value: float

    def met(self, row: BudgetRow) -> bool:
        figure = self.figure(row)
        return figure is not None and (figure <= self.value if self.measure in SMALL else figure >= self.value)

    def figure(self, row: BudgetRow) -> float | None:
        return {"rho": row.rho_mean, "recall": row.recall, "halfwidth": row.halfwidth, "regret": row.regret}[
            self.measure
        ]

    def __str__(self) -> str:
        names = {
            "rho": "mean ρ ≥",
            "recall": "mean top-k recall ≥",
            "halfwidth": "mean half width ≤",
            "regret": "mean regret ≤",
        }
        return f"{names[self.measure]} {self.value:g}"


def parse_goal(text: str) -> Goal:
    """`rho=0.97`, `recall=0.8`, `halfwidth=0.03` or `regret=0.01`; a number alone is a ρ.

    Raises: ConfigError [goal].

    >>> parse_goal("0.95")
    Goal(measure='rho', value=0.95)
    """
    name, equals, number = text.rpartition("=")
    measure = name.strip() if equals else "rho"
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    for known in get_args(Measure):
        if measure == known and 0 < value <= 1:
            return Goal(known, value)
    raise ConfigError(
        f"The goal is {text!r}. Give rho=0.97, recall=0.8, halfwidth=0.03 or regret=0.01, a number above 0 and up to 1.",
        slug="goal",
    )


@dataclass(frozen=True)
class BudgetRecommendation:
    """Recommended design and budget row, both None if nothing tried meets the goal; then `best` comes nearest to it."""

    design: str | None
    row: BudgetRow | None
    best: tuple[str, BudgetRow]


def recommend(study: BudgetStudy, goal: Goal) -> BudgetRecommendation:
    """Find the design and the budget with the fewest calls that meet `goal`."""
    drawn = [(design, row) for design, rows in study.designs.items() for row in rows if goal.figure(row) is not None]
    if not drawn:
        raise ConfigError(f"Nothing tried has what the goal '{goal}' asks for. State a goal in rho.", slug="goal")
    sign = -1 if goal.measure in SMALL else 1
    best = max(drawn, key=lambda found: sign * (goal.figure(found[1]) or 0.0))
    meeting = [found for found in drawn if goal.met(found[1])]
    if not meeting:
        return BudgetRecommendation(None, None, best)
    design, row = min(meeting, key=lambda found: found[1].calls or 0.0)
    return BudgetRecommendation(design, row, best)


def budget_words(study: BudgetStudy, goal: Goal) -> tuple[str, ...]:
    """Plain sentences: the recommendation beside the ceiling, then what the figures do not support."""
    return (_recommended(study, goal), *_at_the_top(study, goal), *_doubts(study))


def _recommended(study: BudgetStudy, goal: Goal) -> str:
    found = recommend(study, goal)
    rho = study.halves.rho
    ceiling = f"The run's own ceiling, ρ between the dense rankings of two disjoint halves of its items, is {rho:.3f}."
    if found.row is not None:
        return f"Cheapest tried that reaches {goal}: {_named(found.design, found.row, goal)}. {ceiling}"
    design, row = found.best
    beyond = goal.measure == "rho" and goal.value > rho
    above = (
        " The goal lies above that: more calls on these items repeat their noise, more items are needed."
        if beyond
        else ""
    )
    return f"Short of the goal {goal}: the best tried is {_named(design, row, goal)}. {ceiling}{above}"


def _at_the_top(study: BudgetStudy, goal: Goal) -> Iterator[str]:
    """What the row spoken of finds of the best agents, beside what two halves of the items find of each other's."""
    found = recommend(study, goal)
    row = found.row or found.best[1]
    if row.recalls is not None:
        shares = ", ".join(
            f"{share:.2f} of the top {k} ({study.halves.recalls[k]:.2f})" for k, share in row.recalls.items()
        )
        yield (
            f"It finds {shares}; in brackets, what one half of the items finds of the other's. ρ is over all agents: read these "
            "where the best ones are to be told apart."
        )
    if row.regret is not None:
        yield f"The best agent is better than the one that comes first there by {row.regret:.3f} on average."


def _named(design: str | None, row: BudgetRow, goal: Goal) -> str:
    usd = "" if row.usd is None else f", ${row.usd:,.2f}"
    spread = f" ± {row.rho_sd:.3f}" if goal.measure == "rho" and row.rho_sd is not None else ""
    trials = "" if row.trials is None else f"{row.trials:,.0f} trials an agent, "
    return f"{design} at {row.asked} ({trials}{row.calls:,.0f} calls{usd}) with {goal.figure(row):.3f}{spread}"


def _doubts(study: BudgetStudy) -> Iterator[str]:
    if study.fpr > HIGH_FPR:
        yield (
            f"The judge's false-positive rate is {study.fpr:.1%}: designs with one pooled rate (cyclic, adaptive) aim at a "
            "slightly different value than the dense run, which takes off each pair's own, and their intervals miss it at times."
        )
    if study.r2 < LITTLE:
        yield (
            f"Ability − difficulty explains {study.r2:.0%} of the scores: rankings hold as far as their intervals go, "
            "predictions of single cells are not supported."
        )
    for design, rows in study.designs.items():
        for row in rows:
            place = f"{design} at {row.asked}"
            if row.why is not None:
                yield f"{place} cannot be drawn: {row.why}"
            if row.slots is not None and row.slots < FEW_SLOTS:
                yield f"{place} has {row.slots:.0f} slots: under {FEW_SLOTS}, its intervals rest on too few rounds to be trusted."
            if row.coverage is not None and study.n_seeds >= FEW_SEEDS and not 0.93 <= row.coverage <= 0.985:
                kind = "too narrow" if row.coverage < 0.93 else "wider than these items alone need"
                yield f"{place}: its 95 % intervals hold the dense value {row.coverage:.1%} of the time, so they are {kind}."
    if study.n_seeds < FEW_SEEDS:
        yield f"With {counted(study.n_seeds, 'seed')} nothing is said of how often intervals hold; that takes {FEW_SEEDS}."
    if "cyclic" in study.designs and len(study.designs) > 1:
        yield (
            "Designs differ in more than where calls go: cell designs pay an independent twin for every paired call, as the "
            "paper does, cyclic about 100 in all (a tenth of a budget of 20 % or more); half of the gain is that."
        )


def budget_json(study: BudgetStudy, goal: Goal) -> dict[str, Json]:
    """The `budget` object of `youden study budget --json`."""
    found = recommend(study, goal)
    designs: dict[str, Json] = {
        design: [
            {name: value for name, value in asdict(row).items() if name not in ("slots", "recall", "recalls")}
            | {"percent": or_none(row.percent)}
            | {f"top{k}_recall": None if row.recalls is None else row.recalls[k] for k in study.tops}
            for row in rows
        ]
        for design, rows in study.designs.items()
    }
    recommended: Json = None
    if found.row is not None:
        recommended = {
            "design": found.design,
            "percent": found.row.percent,
            "trials": found.row.trials,
            "calls": found.row.calls,
        }
    return {
        "target": study.target,
        "dense_calls": study.dense_calls,
        "ceiling": study.halves.rho,
        "ceiling_sd": study.halves.rho_sd,
        "ceiling_recall": {f"top{k}": share for k, share in study.halves.recalls.items()},
        "fpr": study.fpr,
        "r2": or_none(study.r2),
        "seeds": study.n_seeds,
        "goal": {"measure": goal.measure, "value": goal.value},
        "recommended": recommended,
        "designs": designs,
        "words": list(budget_words(study, goal)),
    }
