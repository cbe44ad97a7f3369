"""Transform scores to the scales on which they may be additive: identity, probit and logit.

A link is an object of functions, so that models and curl treat all scales in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from youden.types.pool import Floats

CLIP = 0.99
"""Probit and logit clip |s| at this value, because scores reach ±1, at which both are infinite."""


@dataclass(frozen=True)
class Link:
    """A monotone transformation of scores.

    The functions take and return float arrays of any shape, and keep NaN.

    Attributes
    ----------
    name : str
        Name of the link.
    interval : (float, float)
        Scores outside this interval are clipped to it.
    forward : callable
        Transforms scores to the scale of the link.
    inverse : callable
        Transforms values back to scores; ``inverse(forward(s))`` is s, clipped to `interval`.
    inverse_slope : callable
        Derivative of `inverse`.
    """

    name: str
    interval: tuple[float, float]
    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]
    inverse_slope: Callable[[Floats], Floats]


def _probability(score: Floats) -> Floats:
    """Convert a score in [−1, 1] to a probability in (0, 1), after clipping it to ±`CLIP`."""
    clipped: Floats = np.clip(np.asarray(score, dtype=np.float64), -CLIP, CLIP)
    return (clipped + 1) / 2


def _identity(score: Floats) -> Floats:
    """Copy scores."""
    return np.array(score, dtype=np.float64)


def _identity_slope(score: Floats) -> Floats:
    """Return 1 for each score, NaN for NaN."""
    return np.where(np.isnan(score), np.nan, 1.0)


def _probit(score: Floats) -> Floats:
    """Compute Φ⁻¹((s + 1)/2) of clipped scores s."""
    return np.asarray(ndtri(_probability(score)))


def _from_probit(value: Floats) -> Floats:
    """Convert probits v to scores 2Φ(v) − 1."""
    return np.asarray(2 * ndtr(value) - 1)


def _from_probit_slope(value: Floats) -> Floats:
    """Compute the derivative 2φ(v) of the scores by the probits v."""
    return np.asarray(np.exp(-(value**2) / 2) * np.sqrt(2 / np.pi))


def _logit(score: Floats) -> Floats:
    """Compute ln(p/(1 − p)) of clipped scores s, with p = (s + 1)/2."""
    return np.asarray(logit(_probability(score)))


def _from_logit(value: Floats) -> Floats:
    """Convert logits v to scores 2/(1 + exp(−v)) − 1."""
    return np.asarray(2 * expit(value) - 1)


def _from_logit_slope(value: Floats) -> Floats:
    """Compute the derivative 2·expit(v)·expit(−v) of the scores by the logits v."""
    return np.asarray(2 * expit(value) * expit(-value))


IDENTITY = Link("identity", (-np.inf, np.inf), _identity, _identity, _identity_slope)
PROBIT = Link("probit", (-CLIP, CLIP), _probit, _from_probit, _from_probit_slope)
LOGIT = Link("logit", (-CLIP, CLIP), _logit, _from_logit, _from_logit_slope)

LINKS: Mapping[str, Link] = MappingProxyType({link.name: link for link in (IDENTITY, PROBIT, LOGIT)})
"""Links by name. With p = (clip(s, ±.99) + 1)/2, the probit is Φ⁻¹(p) and the logit ln(p/(1 − p)). The identity does
not clip."""
