"""How additive a score matrix looks on each link: its curl, raw and scale-free, and the fit's R².

Raw curl compares different units across links (the logit stretches by 3.2 at s = .61), so the three always come
together. Up to `EXACT_DIFFERENCES` differences of rows it is exact over all rectangles; a larger matrix is sampled, and
says so. Pairs of rows are independent draws; rectangles of one pair are not. So errors are taken over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from youden.stats.additive.clipped_linear import explained
from youden.stats.additive.solver import solve_additive
from youden.stats.base.estimator import check_score_matrix, check_scored_cells
from youden.stats.base.links import LINKS
from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles
from youden.stats.curl.rectangles import n_rectangles, no_rectangles, sample_rectangles
from youden.streams import own_stream
from youden.types import Scores
from youden.types.cells import CellIndex
from youden.types.facts import LinkFacts
from youden.types.pool import Floats
from youden.types.results import CurlCurve


class Estimates(NamedTuple):
    """value: float[n]; error: float[n], standard errors."""

    value: Floats
    error: Floats


@dataclass(frozen=True, eq=False)
class SampledCurl:
    """gaps: float[pairs, rectangles], the |Δ| of a sample."""

    gaps: Floats

    @classmethod
    def of(cls, scores: Sequence[Floats], *, link: Callable[[Floats], Floats] = np.asarray) -> SampledCurl:
        """The curl of `link` of the scores at `Corners`."""
        ij, kj, im, km = map(link, scores)
        return cls(np.abs((ij - kj) - (im - km)))

    def quantiles(self, q: Sequence[float]) -> Estimates:
        """Order statistics at ⌈qn⌉ of the sample. Their error is half the way between those at q ± the error of q: 0 where
        both are one step of scores on a lattice.

        Source: Woodruff (1952), J. American Statistical Association 47, over clusters.
        """
        ordered = np.sort(self.gaps, axis=None)

        def at(level: float) -> float:
            return float(ordered[min(len(ordered), max(1, math.ceil(level * len(ordered)))) - 1])

        value = np.array([at(level) for level in q])
        doubt = self.ecdf(value).error.tolist()
        error = np.array([(at(level + off) - at(level - off)) / 2 for level, off in zip(q, doubt, strict=True)])
        return Estimates(value, error)

    def ecdf(self, at: ArrayLike) -> Estimates:
        """Share of |Δ| ≤ x for every x of float[n]."""
        shares = np.array([(self.gaps <= x + _rounding(x)).mean(axis=1) for x in np.asarray(at, dtype=np.float64)])
        shares = shares.reshape(-1, len(self.gaps))
        return Estimates(shares.mean(axis=1), shares.std(axis=1, ddof=1) / math.sqrt(len(self.gaps)))


def _rounding(x: float) -> float:
    return 1e-12 * max(1.0, abs(x))


EXACT_DIFFERENCES = 2**20
"""K(K−1)/2·J of K ≤ J, such as 30 agents × 2,400 items: about a second."""

_EQUAL = 1e-12


class _Curl(Protocol):
    def quantiles(self, q: tuple[float, ...]) -> Estimates: ...
    def ecdf(self, at: Floats) -> Estimates: ...


class _ExactCurl(NamedTuple):
    value: Floats

    def quantiles(self, q: tuple[float, ...]) -> Estimates:
        return _sure(curl_quantiles(self.value, q))

    def ecdf(self, at: Floats) -> Estimates:
        return _sure(curl_ecdf(self.value, at))


class _Measured(NamedTuple):
    """A link's scores of the cells seen, float[N], how far they spread, and their curl."""

    value: Floats
    sd: float
    curl: _Curl
    n_rectangles: int
    n_sampled: int | None


class LinkCurls(NamedTuple):
    """The curl of one matrix on every link, measured once."""

    measured: dict[str, _Measured]
    at: CellIndex

    def table(self) -> dict[str, LinkFacts]:
        """As `links_table`."""
        return {name: _row(one, self.at) for name, one in self.measured.items()}

    def curves(self, *, n_steps: int = 41) -> tuple[CurlCurve, ...]:
        """The distribution of the curl on every link, at `n_steps` points up to its 99th percentile."""
        curves = []
        for name, (_, sd, curl, _, _) in self.measured.items():
            x = np.linspace(0.0, float(curl.quantiles((0.99,)).value[0]) or 1.0, n_steps)
            share = curl.ecdf(x)
            curves.append(CurlCurve(name, x, share.value, share.error, sd))
        return tuple(curves)


def links_table(matrix: Floats, *, exact_up_to: int = EXACT_DIFFERENCES) -> dict[str, LinkFacts]:
    """Curl and R² of scores float[K, J] in [−1, 1] (NaN missing) on every link, by name.

    R² = 1 − RSS/TSS over observed cells, of the least-squares fit g(s_ij) ≈ θ_i − b_j with g the link. exact_up_to: above so
    many differences the curl is that of a sample, the same each time, with its standard errors.

    Raises: StatisticsError [curl-no-rectangles], and those of `check_score_matrix`.
    """
    return measure_curl(matrix, exact_up_to=exact_up_to).table()


def measure_curl(scores: Scores | Floats, *, exact_up_to: int = EXACT_DIFFERENCES) -> LinkCurls:
    """The curl of scores, or of a matrix float[K, J] of them, on every link. Raises: as `links_table`."""
    at, value = _cells(scores)
    K, J = sorted((at.n_agents, at.n_items))
    if exact_up_to >= K * (K - 1) // 2 * J:
        matrix = at.matrix(value, empty=np.nan)
        n, n_sampled = n_rectangles(at.seen()), None
        if n == 0:
            raise no_rectangles(at.seen())
        curls: dict[str, _Curl] = {name: _ExactCurl(link.forward(matrix)) for name, link in LINKS.items()}
    else:
        corners = sample_rectangles(at.seen(), rng=own_stream(0))
        n, n_sampled = corners.n_all, corners.i.size
        sampled = corners.scores(lambda agent, item: value[at.find(agent, item)])
        curls = {name: SampledCurl.of(sampled, link=link.forward) for name, link in LINKS.items()}
    seen = {name: link.forward(value) for name, link in LINKS.items()}
    return LinkCurls(
        {name: _Measured(seen[name], _sd(seen[name][at.by_agent]), curls[name], n, n_sampled) for name in LINKS}, at
    )


def _cells(scores: Scores | Floats) -> tuple[CellIndex, Floats]:
    if isinstance(scores, Scores):
        return check_scored_cells(scores)[:2]
    value = check_score_matrix(scores)
    at = CellIndex.of(~np.isnan(value))
    return at, value[at.agent, at.item]


def _additive_residuals(at: CellIndex, value: Floats) -> Floats:
    """Return what the best additive fit leaves of each cell: float (n_cells,)."""
    fit = solve_additive(at.agent, at.item, value, n_agents=at.n_agents, n_items=at.n_items, constraint="none")
    return np.asarray(value - fit.ability[at.agent] + fit.difficulty[at.item])


def _row(of: _Measured, at: CellIndex) -> LinkFacts:
    found = of.curl.quantiles((0.5, 0.95))
    (median, p95), (median_error, p95_error) = found.value.tolist(), found.error.tolist()
    varies = of.sd > 0
    return LinkFacts(
        median=median,
        p95=p95,
        sd=of.sd,
        median_scaled=median / of.sd if varies else None,
        p95_scaled=p95 / of.sd if varies else None,
        r2=explained(of.value, _additive_residuals(at, of.value)) if varies else None,
        n_rectangles=of.n_rectangles,
        n_sampled=of.n_sampled,
        median_error=None if of.n_sampled is None else median_error,
        p95_error=None if of.n_sampled is None else p95_error,
    )


def _sd(value: Floats) -> float:
    """0 where values differ by rounding only."""
    return float(value.std()) if float(np.ptp(value)) > _EQUAL else 0.0


def _sure(value: Floats) -> Estimates:
    return Estimates(value, np.zeros(len(value)))
