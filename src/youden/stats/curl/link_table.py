"""How additive a score matrix looks on each link: its curl, raw and scale-free, and the fit's R².

Raw curl compares different units across links (the logit stretches by 3.2 at s = .61), so the three always come together.
"""

from __future__ import annotations

import numpy as np

from youden.nouns import LinkFacts
from youden.nouns.arrays import Floats
from youden.stats.base.links import LINKS
from youden.stats.base.validation import check_score_matrix
from youden.stats.curl.additivity import additive_r2
from youden.stats.curl.quantiles import curl_quantiles, n_rectangles

_EQUAL = 1e-12


def links_table(matrix: Floats) -> dict[str, LinkFacts]:
    """Curl and R² of scores float[K, J] in [−1, 1] (NaN missing) on every link, by name.

    R² = 1 − RSS/TSS over observed cells, of the least-squares fit g(s_ij) ≈ θ_i − b_j with g the link.

    Raises: StatisticsError [curl-no-rectangles], [curl-too-large], and those of `check_score_matrix`.
    """
    scores = check_score_matrix(matrix)
    return {name: _row(link.forward(scores)) for name, link in LINKS.items()}


def _row(value: Floats) -> LinkFacts:
    median, p95 = curl_quantiles(value).tolist()
    observed = value[~np.isnan(value)]
    varies = float(np.ptp(observed)) > _EQUAL
    sd = float(observed.std()) if varies else 0.0
    return LinkFacts(
        median=median,
        p95=p95,
        sd=sd,
        median_scaled=median / sd if varies else None,
        p95_scaled=p95 / sd if varies else None,
        r2=additive_r2(value) if varies else None,
        n_rectangles=n_rectangles(value),
    )
