"""A calibration in words and as JSON: go or no-go for each judge, and the cheapest that passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

from youden.nouns import Json
from youden.practice.calibrate.judge_verdict import RULE
from youden.practice.calibrate.known_truth import KINDS, MEANS
from youden.practice.calibrate.trying import Calibration, Tried
from youden.text.places import shown

BASELINES = {
    "lexical": "It is a free similarity baseline and no model: it counts shared words, is blind to contradiction and paraphrase, "
    "and is fond of length. Its rates say that texts of one item share words here, and nothing of what a model would say."
}
"""What has to be said of judges without a model, by backend, whatever they reach."""

_STEADY = 0.9


def asked_in_words(calibration: Calibration) -> str:
    """How many trials, of which kinds, and how many of them the run makes anyway."""
    known, config = calibration.known, calibration.config
    kinds = ", ".join(f"{len(known.rows(kind))} {kind}" for kind in KINDS)
    found = ""
    if any(one.needs_store for one in calibration.judges):
        found = f" and finds their answers in {shown(config.store_place)}"
    return (
        f"{len(known.plan):,} trials of known truth a judge ({kinds}); the run '{config.name}' (seed {config.seed}) makes "
        f"{int(known.in_run.sum()):,} of them as well{found}"
    )


def cheapest(tried: Sequence[Tried]) -> Tried | None:
    """The judge with a model that passes and costs least a call; an unknown price is the highest."""
    passing = [one for one in tried if one.verdict.outcome == "go" and one.backend not in BASELINES]
    return min(
        passing, key=lambda one: math.inf if one.bill.usd_per_1000 is None else one.bill.usd_per_1000, default=None
    )


def judge_in_words(one: Tried, *, most: int) -> list[str]:
    """The verdict with what it rests on, then what a user of this judge has to know. most: calls that the plan has trials for."""
    verdict, measures = one.verdict, one.measures
    against = "; ".join(rule.says for rule in verdict.rules if rule.outcome == verdict.outcome)
    if verdict.outcome == "go":
        against = f"{verdict.rules[0].says}, and nothing speaks against it"
    lines = [f"{one.judge}: {verdict.outcome.upper()}. {against}."]
    if verdict.outcome == "not sure":
        lines.append(_more_calls(verdict.calls, most=most))
    if one.backend in BASELINES:
        lines.append(BASELINES[one.backend])
    if measures.longer_first.low > 0 or measures.longer_first.high < 0 or measures.beyond.low > 0:
        lines.append(
            f"The order matters to it: {measures.changed.value:.0%} of pairs change their answer, and the share of yeses is "
            f"{measures.longer_first.value:+.2f} with the longer text first. Both orders and symmetric scores, the defaults, "
            "average that out."
        )
    if measures.changed_again.value > 1 - _STEADY:
        lines.append(
            f"Asked again, it answered {measures.changed_again.value:.0%} of trials otherwise: set its temperature to 0, or plan "
            "more calls an agent."
        )
    return lines


def conclusion(tried: Sequence[Tried]) -> str:
    """The cheapest judge that passes, or that there is none."""
    best = cheapest(tried)
    if best is not None:
        usd = best.bill.usd_per_1000
        price = "at an unknown price" if usd is None else f"at ${usd:.4f} per 1,000 calls"
        return f"The cheapest judge that passes is {best.judge}, {price}."
    if any(one.verdict.outcome == "go" for one in tried):
        return "Only a baseline passes. Try a model before concluding anything: --judge gpt-4o-mini, or --judge local."
    if any(one.verdict.outcome == "not sure" for one in tried):
        return "No judge passes yet. Ask those that are not sure more, or try another."
    return "No judge passes. Do not spend on a run with one of these."


def to_json(calibration: Calibration, tried: Sequence[Tried]) -> dict[str, Json]:
    """One object; NaN is null."""
    best, known = cheapest(tried), calibration.known
    judges = [
        asdict(one) | {"passes": one.verdict.outcome == "go", "words": judge_in_words(one, most=known.most)}
        for one in tried
    ]
    return {
        **planned_json(calibration),
        "judges": cast(list[Json], [_plain(one) for one in judges]),
        "cheapest": None if best is None else best.judge,
        "rule": RULE,
        "conclusion": conclusion(tried),
    }


def planned_json(calibration: Calibration) -> dict[str, Json]:
    """What would be asked, and what it would cost, as one object."""
    known, config = calibration.known, calibration.config
    trials: dict[str, Json] = {
        kind: {"n": len(known.rows(kind)), "in_run": int(known.in_run[known.rows(kind)].sum()), "means": MEANS[kind]}
        for kind in KINDS
    }
    costs: dict[str, Json] = {
        one.name: cast(Json, asdict(cost)) for one, cost in zip(calibration.judges, calibration.costs, strict=True)
    }
    return {
        "run": config.name,
        "pool": config.pool,
        "seed": config.seed,
        "store": shown(config.store_place),
        "trials": trials,
        "costs": costs,
    }


def _more_calls(calls: int | None, *, most: int) -> str:
    if calls is None:
        return "More calls would hardly settle it: a rate is too near to its bound."
    if calls > most:
        return (
            f"If the rates stay, about {calls:,} calls would settle it; the plan of this run has trials for {most:,}."
        )
    return f"If the rates stay, about {calls:,} calls settle it four times in five (--calls {calls}); the answers so far count."


def _plain(value: object) -> Json:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return cast(Json, value)
