"""What a label would say of each agent on average, from few labels and ability together; labels overrule where ability misleads.

logit(quality) = a + b·z + u, z the standardised ability. Three doubts are averaged over, never decided: b may be 0, and ability
says nothing; an agent may stand off the line, and any quality is as likely; ability has its own error. Intervals hold all three;
quality itself stands at the median of b, which is 0 until labels show a slope, so that useless ability does not break ties.
All is integrated on grids: no draws, the same labels give the same digits. Labels count by the binomial likelihood.

Source: Fay and Herriot (1979), J. American Statistical Association 74; Ybarra and Lohr (2008), Biometrika 95 (the covariate's
error); Datta and Lahiri (1995), J. Multivariate Analysis 54 (outliers); Hoeting et al. (1999), Statistical Science 14 (averages);
Johnstone and Silverman (2004), Annals of Statistics 32 (the median under a prior with an atom at 0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import expit, log_expit, ndtri

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.stats.base.proportions import proportion
from youden.types.label_facts import QualityLine
from youden.types.pool import Bools, Floats, Positions

FEWEST_AGENTS = 5
"""Labelled agents below which no line is drawn: labels alone speak."""
_OFF = 0.5
"""An agent is named as off the line where this is less likely than not."""
_EDGE, _STEP, _FINE = 7.0, 0.125, 0.05
"""Logits of the grid; its step, and that for more than `_MANY` labels an agent, of which `_MOST` count."""
_MANY, _MOST = 150, 1000
_SCALES = np.exp(np.arange(np.log(0.08), np.log(5.0), 0.2))
_TAUS = np.exp(np.linspace(np.log(0.2), np.log(2.4), 9))
_ALONE = np.exp(-0.5 * (np.log(_TAUS) / 0.6) ** 2)
_BESIDE = _TAUS / (1 + (_TAUS / 0.6) ** 2) ** 1.5
"""Priors of τ, the SD of u: log-normal about 1 where b = 0, for then u is all that agents differ by; else half-t₂."""
_A, _B = 2.0, 1.5
"""Scales of the normal priors of a, and of b where there is a slope, in logits."""
_NO_SLOPE, _FEW, _UP = 0.2, 1.5, 0.8
"""Prior weight of b = 0 is _NO_SLOPE + _FEW ÷ labelled agents; of b > 0 among slopes."""
_OUTSIDE, _OUTSIDE_WEIGHT = np.array([0.02, 0.1]), np.array([0.6, 0.4])
"""Shares of agents that stand off the line, and their prior weights."""
_NO_WEIGHT = 1e-6
_ITEM_PAIRS, _BY_CHANCE = 10.0, 1.65
"""Pairs of labels on one item from which on their likeness is believed by half; errors of it that are put down to chance."""


@dataclass(frozen=True, eq=False)
class SmallAreas:
    """Quality of K agents, in [0, 1].

    quality, low, high: float[K], NaN for an agent without labels where no line is drawn. share: float[K], the weight of an
    agent's labels in it. off: float[K], the probability that it stands off the line; expected: float[K], what ability and the
    other agents let one expect; both NaN without a line. items: how much of a label's variance its item explains.
    density: float[K, G], rows sum to 1, over the qualities `at`.
    """

    quality: Floats
    low: Floats
    high: Floats
    share: Floats
    off: Floats
    expected: Floats
    line: QualityLine | None
    items: float
    density: Floats
    at: Floats
    level: float

    @property
    def off_line(self) -> Bools:
        """bool[K]: named as standing off the line."""
        return np.nan_to_num(self.off) > _OFF

    def best(self) -> Floats:
        """float[K]: the probability that an agent is the best one, agents taken as independent given the line."""
        below = np.cumsum(self.density, axis=1) - self.density / 2
        every = np.log(np.maximum(below, 1e-300)).sum(axis=0)
        found = (self.density * np.exp(every - np.log(np.maximum(below, 1e-300)))).sum(axis=1)
        return np.asarray(found / found.sum())

    def within(self, agent: int) -> float:
        """The smallest δ for which, with probability `level`, no other agent is better than `agent` by more."""
        others = np.delete(np.cumsum(self.density, axis=1), agent, axis=0)
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            above = np.array([np.interp(self.at + middle, self.at, row) for row in others])
            low, high = (low, middle) if self.density[agent] @ above.prod(axis=0) >= self.level else (middle, high)
        return high

    def to_label(self, n: int, left: Positions, *, best: bool) -> Positions:
        """How many of the next n labels each agent gets, int[K], at most `left`, one after the other to whom it helps most.

        best: by what knowing the agent would gain in the one named best, E max(q − m, 0), m the best other estimate, shared among
        the labels it gets (Frazier 2018, arXiv:1807.02811, expected improvement); else by how far a label lowers the variance.
        """
        given = np.zeros(len(left), dtype=np.int64)
        variance = _variance(self.density, self.at)
        q = self.density @ self.at
        top = int(np.argmax(q))
        other = np.where(np.arange(len(q)) == top, np.delete(q, top).max(initial=0.0), q[top])[:, None]
        sign = np.where(np.arange(len(q)) == top, -1, 1)[:, None]
        gain = (self.density * np.maximum(sign * (self.at - other), 0)).sum(axis=1)
        for _ in range(min(n, int(left.sum()))):
            now = variance / (1 + given * variance / (q * (1 - q)))
            worth = gain / (1 + given) if best else now**2 / (now + q * (1 - q))
            given[int(np.argmax(np.where(given < left, worth, -1.0)))] += 1
        return given


def quality_of_labels(
    agent: Positions, item: Positions, value: Floats, *, ability: Floats, error: Floats, level: float = 0.95
) -> SmallAreas:
    """Quality from labels of answers, those of one item being alike.

    Labels of one item share its effect: each is cleared of what the others' residuals on that item predict, with the weight that
    their likeness has earned; what all of them share stays in the interval.

    agent, item: int[N], one row an answer; value: float[N] in [0, 1], an answer's mean label. ability, error: float[K], NaN where
    an agent has none.

    Raises: StatisticsError [labels-range], [level].
    """
    check_level(level)
    if not ((value >= 0) & (value <= 1)).all():
        raise StatisticsError(
            f"Labels from {np.min(value)} to {np.max(value)} arrived. Give numbers of 0 to 1.",
            slug="labels-range",
        )
    K = len(ability)
    n = np.bincount(agent, minlength=K).astype(np.float64)
    mean = np.bincount(agent, weights=value, minlength=K) / np.maximum(n, 1)
    alone = (n > 0).sum() < FEWEST_AGENTS
    _, place = np.unique(item, return_inverse=True)
    m = np.bincount(place)
    labels = _Labels(mean, n, _noise(agent, value, mean))
    found = _alone(labels, level) if alone else _fit(labels, ability, error, level)
    if alone or m.max() < 2:
        return found
    spread = np.sqrt(np.maximum(found.quality * (1 - found.quality), 1e-4))
    r = (value - found.quality[agent]) / spread[agent]
    total = np.bincount(place, weights=r)
    pairs = total**2 - np.bincount(place, weights=r**2)
    n_pairs = float((m * (m - 1)).sum())
    beyond = pairs.sum() - _BY_CHANCE * np.sqrt(2 * n_pairs)
    likeness = float(np.clip(beyond / (n_pairs + 2 * _ITEM_PAIRS), 0, 0.8))
    if likeness == 0:
        return found
    others = m[place] - 1
    weight = likeness / (1 - likeness + likeness * others)
    left = 1 - likeness * weight * others
    cleared = value - spread[agent] * weight * (total[place] - r)
    mean_left = np.where(n > 0, np.bincount(agent, weights=left, minlength=K) / np.maximum(n, 1), 1.0)
    mean = np.clip(np.bincount(agent, weights=cleared, minlength=K) / np.maximum(n, 1), 0, 1)
    labels = _Labels(mean, n, _noise(agent, value, found.quality) * mean_left)
    found = _fit(labels, ability, error, level)
    shared = likeness * n_pairs / m.sum() ** 2
    return _widened(found, ndtri((1 + level) / 2) * np.sqrt(shared * found.quality * (1 - found.quality)), likeness)


@dataclass(frozen=True, eq=False)
class _Labels:
    """mean, n: float[K], label means and counts; noise: float[K], a label's variance as a share of that of 0 and 1."""

    mean: Floats
    n: Floats
    noise: Floats


def _noise(agent: Positions, value: Floats, mean: Floats) -> Floats:
    """A label's variance as a share of that of labels of 0 and 1 with the same means: float[K], one figure."""
    if np.isin(value, (0.0, 1.0)).all():
        return np.ones(len(mean))
    binary = (mean * (1 - mean))[agent].sum() + 0.25
    n = np.bincount(agent, minlength=len(mean))
    free = len(value) / max(len(value) - (n > 0).sum(), 1)
    return np.full(len(mean), np.clip((free * ((value - mean[agent]) ** 2).sum() + 0.25) / binary, 0.02, 1.0))


def _alone(labels: _Labels, level: float) -> SmallAreas:
    """Label means with Wilson's intervals; densities as under no prior knowledge."""
    mean, n = labels.mean, labels.n
    at, lik = _grid(_STEP), _likelihood(mean, n, _STEP)
    density = lik * (expit(at) * expit(-at))
    ends = np.array(
        [(p.low, p.high) for p in (proportion(y * k, k, level=level) for y, k in zip(mean, n, strict=True))]
    )
    nothing = np.full(len(mean), np.nan)
    return SmallAreas(
        quality=np.where(n > 0, mean, np.nan),
        low=ends[:, 0],
        high=ends[:, 1],
        share=np.where(n > 0, 1.0, 0.0),
        off=nothing,
        expected=nothing,
        line=None,
        items=0.0,
        density=density / density.sum(axis=1, keepdims=True),
        at=expit(at),
        level=level,
    )


def _widened(found: SmallAreas, by: Floats, items: float) -> SmallAreas:
    """With what all label means have in common: how hard the labelled items happen to be."""
    low = np.maximum(found.quality - np.hypot(found.quality - found.low, by), 0)
    high = np.minimum(found.quality + np.hypot(found.high - found.quality, by), 1)
    return replace(found, low=low, high=high, items=items)


def _grid(step: float) -> Floats:
    return np.arange(-_EDGE, _EDGE + step / 2, step)


def _likelihood(mean: Floats, n: Floats, step: float) -> Floats:
    """Of quasi-binomial counts: float[K, G], 1 at the most likely point."""
    at = _grid(step)
    log = n[:, None] * (mean[:, None] * log_expit(at) + (1 - mean[:, None]) * log_expit(-at))
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


@lru_cache(2)
def _kernels(step: float) -> Floats:
    """Normal densities of θ around each point for each scale: float[S, G, G], rows sum to 1."""
    at = _grid(step)
    kernel = np.exp(-0.5 * ((at[:, None] - at) / _SCALES[:, None, None]) ** 2)
    return np.asarray(kernel / kernel.sum(axis=2, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Line:
    """What the grid of a, b, τ and the share off the line is read from."""

    z: Floats
    error: Floats
    on: Floats
    off: Floats
    step: float
    no_slope: float

    def chances(self, a: Floats, b: Floats, tau: float) -> tuple[Floats, Positions, Floats]:
        """Of each agent's labels on the line, float[A, B, K]; where it was read: index into [S·G·K], and a fraction."""
        S, G, K = self.on.shape
        scale = np.hypot(tau, b[:, None] * self.error)
        s = np.clip(np.rint(np.log(scale / _SCALES[0]) / np.log(_SCALES[1] / _SCALES[0])).astype(np.int64), 0, S - 1)
        where = np.clip((a[:, None, None] + b[:, None] * self.z + _EDGE) / self.step, 0, G - 1.001)
        g = where.astype(np.int64)
        part = where - g
        flat = (s * G + g) * K + np.arange(K)
        table = self.on.reshape(-1)
        low = table[flat]
        return low + (table[flat + K] - low) * part, flat, part

    def log_weights(self, a: Floats, b: Floats, *, sloped: bool) -> Floats:
        """Of the grid's points after the labels, float[T, P, A, B]."""
        out = np.empty((len(_TAUS), len(_OUTSIDE), len(a), len(b)))
        for t, tau in enumerate(_TAUS):
            on = self.chances(a, b, tau)[0]
            for p, share in enumerate(_OUTSIDE):
                out[t, p] = np.log((1 - share) * on + share * self.off).sum(axis=2)
        out += np.log(_OUTSIDE_WEIGHT)[:, None, None] - 0.5 * (a[:, None] / _A) ** 2 + np.log(a[1] - a[0])
        spread = _BESIDE if sloped else _ALONE
        out += np.log(spread / spread.sum())[:, None, None, None]
        if not sloped:
            return np.asarray(out + np.log(self.no_slope))
        sign = np.where(b > 0, _UP, np.where(b < 0, 1 - _UP, 0.5)) * (1 - self.no_slope)
        return np.asarray(out + np.log(2 * sign * (b[1] - b[0]) / _B / np.sqrt(2 * np.pi)) - 0.5 * (b / _B) ** 2)


def _around(at: Floats, weight: Floats, n: int) -> Floats:
    """A grid of n points where the weight is."""
    middle = float(weight @ at)
    wide = 3.5 * max(float(np.sqrt(weight @ (at - middle) ** 2)), 0.6 * (at[1] - at[0]))
    return np.linspace(middle - wide, middle + wide, n)


@dataclass(frozen=True, eq=False)
class _Weighted:
    """A grid of a and b with its points' posterior weights, float[T, P, A, B]."""

    a: Floats
    b: Floats
    weight: Floats


def _weighted(line: _Line) -> list[_Weighted]:
    """The grids without and with a slope, their weights summing to 1 together: a coarse look, then a finer one."""
    grids = []
    for sloped in (False, True):
        a, b = np.linspace(-5, 5, 17), np.linspace(-3.2, 3.2, 13) if sloped else np.zeros(1)
        first = line.log_weights(a, b, sloped=sloped)
        first = np.exp(first - first.max())
        first /= first.sum()
        a = _around(a, first.sum(axis=(0, 1, 3)), 13)
        b = _around(b, first.sum(axis=(0, 1, 2)), 13) if sloped else b
        grids.append(_Weighted(a, b, line.log_weights(a, b, sloped=sloped)))
    top = max(float(grid.weight.max()) for grid in grids)
    whole = sum(float(np.exp(grid.weight - top).sum()) for grid in grids)
    return [replace(grid, weight=np.exp(grid.weight - top) / whole) for grid in grids]


def _expected(line: _Line, grids: list[_Weighted], kernels: Floats) -> tuple[Floats, Floats]:
    """What ability and the other agents say of each: density on the line, float[K, G], and off it, float[K].

    A point of the grid counts by its weight over the chance of the agent's own labels, which takes these out again exactly.
    """
    on, off = np.zeros(line.on.size), np.zeros(line.on.shape[2])
    for grid in grids:
        for t, tau in enumerate(_TAUS):
            if grid.weight[t].sum() < _NO_WEIGHT:
                continue
            chance, flat, part = line.chances(grid.a, grid.b, tau)
            r = np.zeros_like(chance)
            for p, share in enumerate(_OUTSIDE):
                without = grid.weight[t, p][:, :, None] / ((1 - share) * chance + share * line.off)
                r += (1 - share) * without
                off += share * without.sum(axis=(0, 1))
            on += np.bincount(flat.ravel(), weights=(r * (1 - part)).ravel(), minlength=on.size)
            on += np.bincount(flat.ravel() + line.on.shape[2], weights=(r * part).ravel(), minlength=on.size)
    by_scale = on.reshape(line.on.shape)
    used = by_scale.any(axis=(1, 2))
    core = np.einsum("sgk,sgh->kh", by_scale[used], kernels[used], optimize=True)
    total = core.sum(axis=1) + off
    return core / total[:, None], off / total


def _fit(labels: _Labels, ability: Floats, error: Floats, level: float) -> SmallAreas:
    mean, n, noise = labels.mean, labels.n, labels.noise
    counts = np.minimum(n / noise, _MOST)
    known = np.isfinite(ability)
    middle, sd = (float(ability[known].mean()), float(ability[known].std())) if known.any() else (0.0, 0.0)
    sd = sd or 1.0
    z = np.where(known, (ability - middle) / sd, 0.0)
    step = _FINE if counts.max() > _MANY else _STEP
    at, kernels, lik = _grid(step), _kernels(step), _likelihood(mean, counts, step)
    q, anywhere = expit(at), expit(at) * expit(-at)
    anywhere /= anywhere.sum()
    no_slope = _NO_SLOPE + _FEW / (n > 0).sum().clip(FEWEST_AGENTS)
    line = _Line(z, np.where(known, np.nan_to_num(error) / sd, 1.0), kernels @ lik.T, lik @ anywhere, step, no_slope)
    grids = _weighted(line)
    slope, at_median = _slope(grids, level)
    core, away = _expected(line, grids, kernels)
    outside = away[:, None] * anywhere
    before, density = core + outside, (core + outside) * lik
    off = (outside * lik).sum(axis=1) / density.sum(axis=1)
    density /= density.sum(axis=1, keepdims=True)
    low, high = (_quantiles(density, at, p) for p in ((1 - level) / 2, (1 + level) / 2))
    for k in np.flatnonzero((off > _OFF) & (n > 0)):
        own = proportion(mean[k] * n[k], n[k], level=level)
        low[k], high[k] = min(low[k], own.low), max(high[k], own.high)
    middle_core, middle_away = _expected(line, [at_median], kernels)
    middling = (middle_core + middle_away[:, None] * anywhere) * lik
    quality, variance, seen = (middling @ q) / middling.sum(axis=1), _variance(density, q), n > 0
    low, high = np.minimum(low, quality), np.maximum(high, quality)
    alone = (quality * (1 - quality) * noise)[seen] / n[seen]
    explained = sum(
        float((grid.weight.sum(axis=(1, 2)) * grid.b**2 / (grid.b**2 + _TAUS[:, None] ** 2)).sum()) for grid in grids
    )
    intercept = sum(float(grid.weight.sum(axis=(0, 1, 3)) @ grid.a) for grid in grids)
    labels_alone = round(float(alone.sum() / variance[seen].sum()) * float(n.sum()))
    return SmallAreas(
        quality=quality,
        low=low,
        high=high,
        share=counts / (counts + _worth(before, q)),
        off=off,
        expected=(core @ q) / core.sum(axis=1),
        line=QualityLine(*slope, float(grids[0].weight.sum()), explained, labels_alone, intercept),
        items=0.0,
        density=density,
        at=q,
        level=level,
    )


def _slope(grids: list[_Weighted], level: float) -> tuple[tuple[float, float, float], _Weighted]:
    """b's median and ends; and the grid at the median, between two of its points, weights summing to 1."""
    alone, b, weight = float(grids[0].weight.sum()), grids[1].b, grids[1].weight
    of_b = weight.sum(axis=(0, 1, 2))
    below = np.cumsum(of_b) - of_b / 2
    up_to_0 = float(np.interp(0, b, below))

    def quantile(p: float) -> float:
        return 0.0 if up_to_0 < p <= up_to_0 + alone else float(np.interp(p if p <= up_to_0 else p - alone, below, b))

    ends = (quantile(0.5), quantile((1 - level) / 2), quantile((1 + level) / 2))
    if ends[0] == 0:
        return ends, replace(grids[0], weight=grids[0].weight / alone)
    k = int(np.clip(np.searchsorted(b, ends[0]) - 1, 0, len(b) - 2))
    part = (ends[0] - b[k]) / (b[k + 1] - b[k])
    two = weight[..., k : k + 2] / np.maximum(of_b[k : k + 2], 1e-300) * np.array([1 - part, part])
    return ends, _Weighted(grids[1].a, b[k : k + 2], two / two.sum())


def _worth(density: Floats, q: Floats) -> Floats:
    """As how many labels it counts: m for which a beta distribution of its mean and variance has a + b = m, float[K]."""
    mean = density @ q
    return np.asarray(np.maximum(mean * (1 - mean) / _variance(density, q) - 1, 1e-9))


def _variance(density: Floats, at: Floats) -> Floats:
    return np.asarray(density @ at**2 - (density @ at) ** 2)


def _quantiles(density: Floats, at: Floats, p: float) -> Floats:
    below = np.cumsum(density, axis=1) - density / 2
    return np.asarray(expit([np.interp(p, row, at) for row in below]))
