"""Options of `make_plan` for each design, with and without a holdout and pooled trials."""

from __future__ import annotations

from typing import Any

PLAN_OPTIONS: dict[str, dict[str, Any]] = {
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
