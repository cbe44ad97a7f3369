"""The models that clipped-linear is compared with, by name, each tuned fairly and as the paper set it.

A name loads a function without arguments that makes an unfitted estimator with `fit(scores)`, `predict()` and `ability_`.
Another package adds one by the entry-point group `youden.baselines`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from numpy.typing import ArrayLike

from youden.nouns import Scores
from youden.nouns.arrays import Floats
from youden.registry import Registry


class Baseline(Protocol):
    """Completes a score matrix. ability_: float[K], what it ranks agents by; predict: float[K, J] in [−1, 1]."""

    ability_: Floats

    def fit(self, scores: Scores | ArrayLike) -> Self: ...

    def predict(self) -> Floats: ...


BASELINES: Registry[Callable[[], Baseline]] = Registry(
    "youden.baselines",
    "baseline",
    {
        "clipped-linear": "youden.stats.additive.clipped_linear:ClippedLinear",
        "isotonic": "youden.stats.baselines.isotonic:IsotonicOnTop",
        "rasch-probit": "youden.stats.baselines.links:rasch_probit",
        "rasch-logit": "youden.stats.baselines.links:rasch_logit",
        "rasch-probit-quasi": "youden.stats.baselines.links:rasch_probit_quasi",
        "rasch-logit-quasi": "youden.stats.baselines.links:rasch_logit_quasi",
        "nuclear-norm": "youden.stats.baselines.nuclear_norm:NuclearNorm",
        "nuclear-norm-paper": "youden.stats.baselines.nuclear_norm:paper_nuclear_norm",
        "svd": "youden.stats.baselines.svd:ImputedSVD",
        "svd-paper": "youden.stats.baselines.svd:paper_svd",
        "uv": "youden.stats.baselines.uv:UVFactorisation",
        "uv-paper": "youden.stats.baselines.uv:paper_uv",
    },
)
"""`-paper` is the setting that reproduces the paper's figure; the plain name is the fair one."""
