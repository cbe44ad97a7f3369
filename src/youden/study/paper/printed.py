"""The figures printed in the paper's tables.

Source: 'Identity-Link IRT for Label-Free LLM Evaluation', Tables 1 to 6.
"""

from __future__ import annotations

from typing import Literal

Domain = Literal["PubMed", "OPUS", "ICLR"]
DOMAINS: dict[Domain, tuple[str, ...]] = {
    "PubMed": ("pubmed",),
    "OPUS": ("opus",),
    "ICLR": ("peer_review", "iclr"),
}
"""What the name of a results folder holds."""

COVERAGE = 0.3335
"""33 %: what C = 1.6 covers of 30 × 200 cells."""

CURL: dict[Domain, dict[str, tuple[float, float]]] = {
    "PubMed": {"identity": (0.129, 0.474), "probit": (0.245, 0.825), "logit": (0.438, 1.454)},
    "OPUS": {"identity": (0.150, 0.492), "probit": (0.268, 0.862), "logit": (0.479, 1.547)},
    "ICLR": {"identity": (0.080, 0.580), "probit": (0.286, 1.188), "logit": (0.588, 2.252)},
}
"""Table 1: median and P95 of |Δ|."""

DIFFERENCES: dict[Domain, dict[tuple[str, str], tuple[float, float, float]]] = {
    "PubMed": {
        ("identity", "probit"): (-0.112, -0.122, -0.097),
        ("identity", "logit"): (-0.298, -0.326, -0.256),
        ("probit", "logit"): (-0.185, -0.204, -0.159),
    },
    "OPUS": {
        ("identity", "probit"): (-0.117, -0.128, -0.101),
        ("identity", "logit"): (-0.322, -0.346, -0.278),
        ("probit", "logit"): (-0.204, -0.219, -0.176),
    },
    "ICLR": {
        ("identity", "probit"): (-0.213, -0.228, -0.172),
        ("identity", "logit"): (-0.528, -0.560, -0.426),
        ("probit", "logit"): (-0.315, -0.335, -0.250),
    },
}
"""Table 2: difference of medians, and its interval."""

FIDELITY = {"dense rmse": 0.111, "rmse": 0.117, "rho": 0.972, "tau": 0.890, "dense auc": 0.983, "auc": 0.967}
"""Table 3, PubMed."""

DOMAIN_FIDELITY: dict[Domain, dict[str, float]] = {
    "PubMed": {"dense rmse": 0.111, "rmse": 0.117, "rho": 0.972, "auc": 0.967},
    "OPUS": {"dense rmse": 0.123, "rmse": 0.126, "rho": 0.983, "auc": 0.938},
    "ICLR": {"dense rmse": 0.129, "rmse": 0.135, "rho": 0.950, "auc": 0.646},
}
"""Table 4."""

BASELINES: dict[str, tuple[float, float, float, float]] = {
    "clipped-linear": (0.121, 0.971, 0.894, 0.967),
    "isotonic": (0.122, 0.971, 0.894, 0.967),
    "rasch-probit": (0.122, 0.965, 0.876, 0.983),
    "rasch-logit": (0.123, 0.964, 0.871, 0.983),
    "nuclear-norm-paper": (0.126, 0.974, 0.894, 0.950),
    "svd-paper": (0.172, 0.923, 0.807, 0.967),
    "uv-paper": (0.196, 0.983, 0.913, 0.967),
}
"""Table 5, PubMed: RMSE, ρ, τ, AUC."""

JUDGE_CURL: dict[str, tuple[float, float, float, float]] = {
    "identity": (0.129, 0.466, 0.000, 0.000),
    "logit": (0.438, 1.433, 0.009, 0.072),
}
"""Table 6, GPT-4o-mini on PubMed: median and P95 on raw data, then on predictions."""

SHAPES: dict[Domain, tuple[int, int]] = {"PubMed": (30, 200), "OPUS": (31, 186), "ICLR": (29, 100)}
MEAN_SD = (0.18, 0.31)
SATURATED = (0.02, 0.03)
EARLIER_RMSE, LATER_RMSE = 0.117, 0.121
"""Clipped-linear at 33 % on PubMed in Table 3 and in Table 5."""


def domain_of(source: str) -> Domain | None:
    """The paper's domain of a results folder's name; None for one that the paper does not have."""
    name = source.lower()
    return next((domain for domain, marks in DOMAINS.items() if any(mark in name for mark in marks)), None)
