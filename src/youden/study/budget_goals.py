"""Recommend the cheapest design of a budget study that meets a goal, and describe what the study does not support.

Only designs and budgets that were studied are recommended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from youden.errors import ConfigError
from youden.study.budget_curves import BudgetRow, BudgetStudy
from youden.study.link_curl import MIN_R2
from youden.text.sentences import format_count
from youden.types.pool import Json, or_none

Measure = Literal["rho", "recall", "half_width", "regret"]
MINIMIZED = ("half_width", "regret")
"""Measures for which small values are good."""
MIN_BLOCKS = 15
MIN_SEEDS = 20
"""Number of seeds below which the estimated coverage of intervals is too imprecise to report."""
MIN_COVERAGE, MAX_COVERAGE = 0.93, 0.985


@dataclass(frozen=True)
class Goal:
    """Bound that a design must meet.

    Attributes
    ----------
    measure : {"rho", "recall", "half_width", "regret"}
        Mean over seeds that is bounded.
    value : float
        Minimum of ρ or recall, or maximum of half-width or regret.
    """

    measure: Measure
    value: float

    def is_met(self, row: BudgetRow) -> bool:
        """Return whether the row meets the bound; False if it does not have the measure."""
        value = self.get_value(row)
        if value is None:
            return False
        if self.measure in MINIMIZED:
            return value <= self.value
        return value >= self.value

    def get_value(self, row: BudgetRow) -> float | None:
        """Return the value of the goal's measure in a row, or None if the row does not have this measure."""
        value_by_measure = {
            "rho": row.rho_mean,
            "recall": row.recall,
            "half_width": row.half_width,
            "regret": row.regret,
        }
        return value_by_measure[self.measure]

    def __str__(self) -> str:
        names = {
            "rho": "mean ρ ≥",
            "recall": "mean top-k recall ≥",
            "half_width": "mean half-width ≤",
            "regret": "mean regret ≤",
        }
        return f"{names[self.measure]} {self.value:g}"


def parse_goal(text: str) -> Goal:
    """Parse a goal from text.

    Parameters
    ----------
    text : str
        Measure and bound, such as "rho=0.97", "recall=0.8", "half_width=0.03" or "regret=0.01"; a number alone is a
        bound on ρ.

    Returns
    -------
    Goal
        The measure and its bound.

    Raises
    ------
    ConfigError
        [goal-invalid] if the measure is unknown, or the bound is not a number in (0, 1].

    Examples
    --------
    >>> parse_goal("0.95")
    Goal(measure='rho', value=0.95)
    """
    name, equals, number = text.rpartition("=")
    measure = name.strip() if equals else "rho"
    try:
        value = float(number)
    except ValueError:
        value = -1.0  # outside the valid range
    for known_measure in get_args(Measure):
        if measure == known_measure and 0 < value <= 1:
            return Goal(known_measure, value)
    raise ConfigError(
        f"The goal is not valid: got {text!r}. Set rho=0.97, recall=0.8, half_width=0.03 or regret=0.01, a number in (0, 1].",
        slug="goal-invalid",
    )


@dataclass(frozen=True)
class BudgetRecommendation:
    """Recommended design and budget.

    Attributes
    ----------
    design, row : str, BudgetRow or None
        The recommendation; None if nothing meets the goal.
    best : (str, BudgetRow)
        Design and row with the best value of the goal's measure.
    """

    design: str | None
    row: BudgetRow | None
    best: tuple[str, BudgetRow]


def recommend(study: BudgetStudy, goal: Goal) -> BudgetRecommendation:
    """Find the design and the budget with the fewest calls that meet a goal.

    Parameters
    ----------
    study : BudgetStudy
        The study.
    goal : Goal
        The goal.

    Returns
    -------
    BudgetRecommendation
        `design` and `row` are the design and the row (results at one budget) that meet the goal with the fewest calls. If no
        row meets the goal, both fields are None. `best` is the design and the row with the best value of the goal's measure,
        whether or not this row meets the goal.

    Raises
    ------
    ConfigError
        [goal-invalid] if no row has the measure of the goal.
    """
    candidates = []
    for design, rows in study.designs.items():
        candidates += [(design, row) for row in rows if goal.get_value(row) is not None]
    if not candidates:
        raise ConfigError(
            f"No design that was studied has the measure of the goal '{goal}'. Set a goal in rho.", slug="goal-invalid"
        )

    def get_merit(candidate: tuple[str, BudgetRow]) -> float:
        _, row = candidate
        return _get_merit(row, goal)

    def get_calls(candidate: tuple[str, BudgetRow]) -> float:
        _, row = candidate
        return row.calls or 0.0

    best = max(candidates, key=get_merit)
    sufficient = [(design, row) for design, row in candidates if goal.is_met(row)]
    if not sufficient:
        return BudgetRecommendation(None, None, best)
    cheapest_design, cheapest_row = min(sufficient, key=get_calls)
    return BudgetRecommendation(cheapest_design, cheapest_row, best)


def _get_merit(row: BudgetRow, goal: Goal) -> float:
    """Return the value of the measure of a goal, with its sign changed if smaller values are better."""
    value = goal.get_value(row) or 0.0
    return -value if goal.measure in MINIMIZED else value


def describe_budget(study: BudgetStudy, goal: Goal) -> tuple[str, ...]:
    """Describe the recommendation of a budget study and its limits.

    The sentences state the recommendation with the ceiling of ρ, then the recall and the regret of the best agents, and then the
    conclusions that the results do not support.
    """
    return (_describe_recommendation(study, goal), *_describe_recall(study, goal), *_describe_limits(study))


def _describe_recommendation(study: BudgetStudy, goal: Goal) -> str:
    """Describe the cheapest design that meets the goal or, if no design meets it, the design that comes closest to it.

    The text also states a ceiling: the split-half reliability, which is the correlation ρ between the rankings by two halves of
    the items. A ranking can exceed it only by reproducing the noise of these items.
    """
    split_half_rho = study.halves.rho
    ceiling = (
        "The ceiling of this run, ρ between the dense rankings of two disjoint halves of its items, is "
        f"{split_half_rho:.3f}."
    )
    recommendation = recommend(study, goal)
    if recommendation.row is not None:
        cheapest = _format_row(recommendation.design, recommendation.row, goal)
        return f"Cheapest design that reaches {goal}: {cheapest}. {ceiling}"

    closest_design, closest_row = recommendation.best
    closest = _format_row(closest_design, closest_row, goal)
    text = f"No design that was studied reaches {goal}: the best is {closest}. {ceiling}"
    is_above_ceiling = goal.measure == "rho" and goal.value > split_half_rho
    if is_above_ceiling:
        text += " The goal is above it: more calls on these items repeat their noise, so more items are needed."
    return text


def _describe_recall(study: BudgetStudy, goal: Goal) -> Iterator[str]:
    """Yield sentences on how many of the best agents the recommended design finds, and on its mean regret.

    If no design meets the goal, the design that comes closest is described. Recall is the share of the k best agents that are in
    the top k of a ranking. Regret is the ability of the best agent minus the ability of the agent that ranks first.
    """
    recommendation = recommend(study, goal)
    _, closest_row = recommendation.best
    row = recommendation.row or closest_row  # results of the design at one budget
    if row.recalls is not None:
        ceilings = study.halves.recalls
        shares = [f"{share:.2f} of the top {k} ({ceilings[k]:.2f})" for k, share in row.recalls.items()]
        subject = "The best design" if recommendation.row is None else "It"
        yield (
            f"{subject} finds {', '.join(shares)}. The ceiling, in parentheses, is the share of the top agents by one half of "
            "the items that are also top agents by the other half. ρ covers all agents; if only the best matter, use these "
            "shares."
        )
    if row.regret is not None:
        yield f"The best agent is better than the first-ranked one by {row.regret:.3f} on average."


def _format_row(design: str | None, row: BudgetRow, goal: Goal) -> str:
    """Format a design with its budget, its cost, and the measure of the goal."""
    trials = "" if row.trials is None else f"{row.trials:,.0f} trials per agent, "
    usd = "" if row.usd is None else f", ${row.usd:,.2f}"
    cost = f"{trials}{row.calls:,.0f} calls{usd}"
    sd = f" ± {row.rho_sd:.3f}" if goal.measure == "rho" and row.rho_sd is not None else ""
    return f"{design} at {row.budget_label} ({cost}) with {goal.get_value(row):.3f}{sd}"


def _describe_limits(study: BudgetStudy) -> Iterator[str]:
    """Yield sentences on conclusions that the results of a study do not support.

    They concern a poor fit of the additive model, unreliable designs, a small number of seeds, and comparisons of designs with
    different numbers of independent trials.
    """
    if study.r2 < MIN_R2:
        yield (
            f"Ability − difficulty explains {study.r2:.0%} of the scores: rankings are supported within their intervals, "
            "predictions of single cells are not."
        )
    for design, rows in study.designs.items():
        for row in rows:
            yield from _describe_row_limits(study, row, f"{design} at {row.budget_label}")
    if study.n_seeds < MIN_SEEDS:
        yield f"With {format_count(study.n_seeds, 'seed')}, the coverage of intervals is not assessed; that needs {MIN_SEEDS}."
    if "cyclic" in study.designs and len(study.designs) > 1:
        yield (
            "Designs differ in more than the choice of trials: in cell designs, as in the paper, half of the calls are "
            "independent trials (one for each paired trial); in cyclic, only 7 to 10%. This accounts for half of the gain."
        )


def _describe_row_limits(study: BudgetStudy, row: BudgetRow, label: str) -> Iterator[str]:
    """Yield a sentence for each reason not to rely on a design at one budget.

    The design cannot be planned, has few blocks, or has intervals that cover the abilities of the dense run (the run with all
    answers) too rarely or too often. Coverage is checked only if the study has enough seeds.

    row : results of the design at this budget
    label : design and budget, for display
    """
    if row.infeasible_reason is not None:
        yield f"{label} cannot be planned: {row.infeasible_reason}"
    if row.blocks is not None and row.blocks < MIN_BLOCKS:
        yield f"{label} has {row.blocks:.0f} blocks: with fewer than {MIN_BLOCKS}, its intervals are unreliable."

    if row.coverage is None or study.n_seeds < MIN_SEEDS:
        return
    fault = None
    if row.coverage < MIN_COVERAGE:
        fault = "too narrow"
    elif row.coverage > MAX_COVERAGE:
        fault = "wider than needed for these items alone"
    if fault is not None:
        yield f"{label}: its 95% intervals cover the dense value in {row.coverage:.1%} of cases, so they are {fault}."


def budget_to_json(study: BudgetStudy, goal: Goal) -> dict[str, Json]:
    """Convert a budget study to the `budget` object of `youden study budget --json`.

    A budget study replays a dense run, which has the answers to all pairs of responses, at smaller budgets.

    Parameters
    ----------
    study : BudgetStudy
        The study, with the accuracy of each design at each budget.
    goal : Goal
        The goal, from which the recommended design and budget follow.

    Returns
    -------
    dict of str to object
        The settings, the recommendation, and these results:

        - "dense_calls": calls of a dense run.
        - "ceiling", "ceiling_sd": mean and SD of the correlation between two dense rankings by different halves of the items.
        - "ceiling_recall": share of the top agents that these two rankings have in common, by the number of top agents.
        - "fpr", "r2": false-positive rate of the judge, and share of the variance that the additive model explains.
        - "designs": results at each budget, by design.
        - "summary": conclusions in sentences.
    """
    split_half = study.halves
    designs: dict[str, Json] = {}
    for design, rows in study.designs.items():
        designs[design] = [_row_to_json(row, study.tops) for row in rows]

    return {
        "target": study.target,
        "dense_calls": study.dense_calls,
        "ceiling": split_half.rho,
        "ceiling_sd": split_half.rho_sd,
        "ceiling_recall": {f"top{k}": share for k, share in split_half.recalls.items()},
        "fpr": study.fpr,
        "r2": or_none(study.r2),
        "seeds": study.n_seeds,
        "goal": {"measure": goal.measure, "value": goal.value},
        "recommended": _recommendation_to_json(recommend(study, goal)),
        "designs": designs,
        "summary": list(describe_budget(study, goal)),
    }


def _recommendation_to_json(recommendation: BudgetRecommendation) -> Json:
    """Convert the recommended design and budget to a JSON object; None if no row meets the goal."""
    row = recommendation.row
    if row is None:
        return None
    return {"design": recommendation.design, "percent": row.percent, "trials": row.trials, "calls": row.calls}


def _row_to_json(row: BudgetRow, tops: tuple[int, ...]) -> dict[str, Json]:
    """Convert a row to JSON, with one key topK_recall for each K in `tops` in place of its recalls."""
    fields = {name: value for name, value in asdict(row).items() if name not in ("blocks", "recall", "recalls")}
    recalls: dict[str, Json] = {f"top{k}_recall": None if row.recalls is None else row.recalls[k] for k in tops}
    return fields | {"percent": or_none(row.percent)} | recalls
