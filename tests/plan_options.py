"""The options of `make_plan` as a type, and as examples for each design, with and without a holdout and pooled trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from youden.run_keys import SplitRule
from youden.types.pool import Json


class PlanOptions(TypedDict, total=False):
    """Keyword arguments of `make_plan` except the seed."""

    design: str
    calls: int | str | None
    independent: str | None
    holdout: float | None
    holdout_rule: SplitRule
    options: Mapping[str, Json] | None


class SeededPlanOptions(PlanOptions, total=False):
    seed: int


PLAN_OPTIONS: dict[str, PlanOptions] = {
    "cyclic": {"design": "cyclic", "calls": "60%", "independent": "pooled:60"},
    "cyclic twins": {"design": "cyclic", "calls": "60%", "independent": "matched"},
    "cyclic own rates": {"design": "cyclic", "calls": "80%", "independent": "pooled:300"},
    "dense": {"design": "dense", "holdout": 0.0},
    "dense pooled": {"design": "dense", "independent": "pooled:50", "holdout": 0.0},
    "held out": {"design": "dense", "holdout": 0.2, "holdout_rule": "strict"},
    "held out, own": {"design": "dense", "holdout": 0.2, "holdout_rule": "paper"},
    "held out, pooled": {
        "design": "cyclic",
        "calls": "70%",
        "independent": "pooled:60",
        "holdout": 0.2,
        "holdout_rule": "strict",
    },
    "held out, pooled, own": {
        "design": "cyclic",
        "calls": "70%",
        "independent": "pooled:60",
        "holdout": 0.2,
        "holdout_rule": "paper",
    },
    "row": {"design": "row"},
    "nlogn": {"design": "nlogn"},
}
