"""The Rasch models that the paper compares with, and the same by quasi-likelihood."""

from __future__ import annotations

from youden.stats.additive.rasch import Rasch


def rasch_probit() -> Rasch:
    """Least squares on the probit scale: the paper's."""
    return Rasch(link="probit")


def rasch_logit() -> Rasch:
    """Least squares on the logit scale: the paper's."""
    return Rasch(link="logit")


def rasch_probit_quasi() -> Rasch:
    """Quasi-likelihood with a probit mean: no clip, errors counted on the scores' scale."""
    return Rasch(link="probit", method="quasi")


def rasch_logit_quasi() -> Rasch:
    """Quasi-likelihood with a logistic mean: no clip, errors counted on the scores' scale."""
    return Rasch(link="logit", method="quasi")
