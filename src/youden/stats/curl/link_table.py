"""How additive a score matrix looks on each link: its curl, raw and scale-free, and the fit's R².

Raw curl compares different units across links (the logit stretches by 3.2 at s = .61), so the three always come together.
Up to `EXACT_DIFFERENCES` differences of rows it is exact over all rectangles; a larger matrix is sampled, and says so.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from youden.nouns import CurlCurve, LinkFacts, Scores
from youden.nouns.arrays import Bools, Floats
from youden.nouns.cells import CellIndex
from youden.stats.base.links import LINKS
from youden.stats.base.validation import check_score_matrix, check_scored_cells
from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles, n_rectangles, no_rectangles
from youden.stats.curl.sampled import Estimates, SampledCurl, sample_rectangles
from youden.stats.curl.seen_cells import SeenCells
from youden.streams import own_stream

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
    """A link's scores of the cells seen, float[N], and their curl."""

    value: Floats
    curl: _Curl
    n_rectangles: int
    n_sampled: int | None


class LinkCurls(NamedTuple):
    """The curl of one matrix on every link, measured once."""

    measured: dict[str, _Measured]
    observed: Bools

    def table(self) -> dict[str, LinkFacts]:
        """As `links_table`."""
        cells = SeenCells.of(self.observed)
        return {name: _row(one, cells) for name, one in self.measured.items()}

    def curves(self, *, n_steps: int = 41) -> tuple[CurlCurve, ...]:
        """The distribution of the curl on every link, at `n_steps` points up to its 99th percentile."""
        curves = []
        for name, (value, curl, _, _) in self.measured.items():
            x = np.linspace(0.0, float(curl.quantiles((0.99,)).value[0]) or 1.0, n_steps)
            share = curl.ecdf(x)
            curves.append(CurlCurve(name, x, share.value, share.error, _sd(value)))
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
    observed = at.seen()
    seen = {name: link.forward(value[at.by_agent]) for name, link in LINKS.items()}
    if exact_up_to >= K * (K - 1) // 2 * J:
        matrix = at.matrix(value, empty=np.nan)
        n = n_rectangles(matrix)
        if n == 0:
            raise no_rectangles(observed)
        return LinkCurls(
            {name: _Measured(seen[name], _ExactCurl(link.forward(matrix)), n, None) for name, link in LINKS.items()},
            observed,
        )
    corners = sample_rectangles(observed, rng=own_stream(0))
    sampled = corners.scores(lambda agent, item: value[at.find(agent, item)])
    return LinkCurls(
        {
            name: _Measured(seen[name], SampledCurl.of(sampled, link=link.forward), corners.n_all, corners.i.size)
            for name, link in LINKS.items()
        },
        observed,
    )


def _cells(scores: Scores | Floats) -> tuple[CellIndex, Floats]:
    if isinstance(scores, Scores):
        return check_scored_cells(scores)[:2]
    value = check_score_matrix(scores)
    at = CellIndex.of(~np.isnan(value))
    return at, value[at.agent, at.item]


def _row(of: _Measured, cells: SeenCells) -> LinkFacts:
    found = of.curl.quantiles((0.5, 0.95))
    (median, p95), (median_error, p95_error) = found.value.tolist(), found.error.tolist()
    sd = _sd(of.value)
    varies = sd > 0
    return LinkFacts(
        median=median,
        p95=p95,
        sd=sd,
        median_scaled=median / sd if varies else None,
        p95_scaled=p95 / sd if varies else None,
        r2=cells.r2(of.value) if varies else None,
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
