"""Three scales on which scores may be additive: identity, probit, logit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from youden.types.pool import Floats

CLIP = 0.99
"""Largest |s| that probit and logit tell apart: the judge's lattice reaches ±1, where both are infinite."""


@dataclass(frozen=True)
class Link:
    """A monotone scale for scores.

    interval: the scores it tells apart; those outside count as its nearest end.
    forward: s ↦ its value on this scale; inverse: back to s; inverse_slope: d inverse / d value. All take and give float arrays
    of any shape and pass NaN through. `inverse(forward(s))` is s, clipped to `interval`.
    """

    name: str
    interval: tuple[float, float]
    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]
    inverse_slope: Callable[[Floats], Floats]


def _probability(score: Floats) -> Floats:
    clipped: Floats = np.clip(np.asarray(score, dtype=np.float64), -CLIP, CLIP)
    return (clipped + 1) / 2


def _same(score: Floats) -> Floats:
    return np.array(score, dtype=np.float64)


def _one(score: Floats) -> Floats:
    return np.where(np.isnan(score), np.nan, 1.0)


def _probit(score: Floats) -> Floats:
    return np.asarray(ndtri(_probability(score)))


def _from_probit(value: Floats) -> Floats:
    return np.asarray(2 * ndtr(value) - 1)


def _from_probit_slope(value: Floats) -> Floats:
    return np.asarray(np.exp(-(value**2) / 2) * np.sqrt(2 / np.pi))


def _logit(score: Floats) -> Floats:
    return np.asarray(logit(_probability(score)))


def _from_logit(value: Floats) -> Floats:
    return np.asarray(2 * expit(value) - 1)


def _from_logit_slope(value: Floats) -> Floats:
    return np.asarray(2 * expit(value) * expit(-value))


IDENTITY = Link("identity", (-np.inf, np.inf), _same, _same, _one)
PROBIT = Link("probit", (-CLIP, CLIP), _probit, _from_probit, _from_probit_slope)
LOGIT = Link("logit", (-CLIP, CLIP), _logit, _from_logit, _from_logit_slope)

LINKS: Mapping[str, Link] = MappingProxyType({link.name: link for link in (IDENTITY, PROBIT, LOGIT)})
"""By name. p = (clip(s, ±.99) + 1)/2; probit = Φ⁻¹(p), logit = ln(p/(1−p)); the identity is not clipped.

Source: the paper's section on links; the clip is its own.
"""
