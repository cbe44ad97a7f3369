"""Does the additive model hold, and on which link? The paper's Tables 1 and 2 for one run, and its rule beside a scale-
free one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from youden.errors import StatisticsError
from youden.stats.curl.link_table import measure_curl
from youden.stats.curl.quantiles import Coincident, MedianDifference, median_differences
from youden.streams import own_stream
from youden.types import Scores
from youden.types.facts import LinkFacts
from youden.types.pool import Json
from youden.types.results import Rates, ScoreKind

PAPER_RULE = 0.2
NO_STRUCTURE = 1.349
"""Median |Δ| in SDs where scores are normal noise without agents or items: 2 · Φ⁻¹(¾)."""
LITTLE = 0.5


def additivity_words(links: dict[str, LinkFacts]) -> tuple[str, ...]:
    """The paper's rule (median |Δ| < .2 before going sparse), then the scale-free rule: half the variance or more is additive.

    The paper's rule depends on the scores' spread: shrink all scores to a tenth and it always holds.
    """
    identity = links["identity"]
    if identity.median_scaled is None or identity.r2 is None:
        return ("All scores are equal: nothing varies that could be additive, and no design can rank these agents.",)
    holds = identity.median < PAPER_RULE
    share = identity.median_scaled / NO_STRUCTURE
    said = [
        f"The paper's rule (median |Δ| < {PAPER_RULE:g} before going sparse) {'holds' if holds else 'fails'}: "
        f"{identity.median:.3f}. The rule depends on how far scores spread; free of scale, the median is "
        f"{identity.median_scaled:.2f} SDs, {share:.0%} of what scores without any additive structure show, and ability − "
        f"difficulty explains {identity.r2:.0%} of the variance."
    ]
    if identity.r2 < LITTLE:
        said.append(
            "Additivity explains less than half: predictions of single cells are not supported, rankings only as far as "
            "their intervals go."
        )
    elif not holds:
        said.append("The scale-free figures support a sparse design all the same.")
    return tuple(said)


THIN = 0.5
"""Below this share of its partners a cell's score is mostly the luck of which were asked."""


def partners_share(rates: Rates, kind: ScoreKind) -> float:
    """Ordered pairs that answered behind the median seen cell, as a share of the K − 1 (row) or 2(K − 1) a dense design asks."""
    sides = [rates.first] if kind == "row" else [rates.first, rates.second]
    seen = rates.n_paired > 0
    cells = np.concatenate([side[seen].astype(np.int64) * rates.n_items + rates.item[seen] for side in sides])
    counts = np.unique(cells, return_counts=True)[1]
    return float(np.median(counts)) / (len(sides) * (rates.n_agents - 1)) if len(counts) else 0.0


class LinksStudy:
    """Curl and R² of scores on each link, differences of median curl between links, and what follows.

    `ecdf` has for each link the share of rectangles with |Δ| per SD of at most x; `n_compared` counts items with a score,
    `n_cells` scores. Without `n_draws`, or if they fail, there are no `differences`.
    """

    def __init__(
        self,
        scores: Scores,
        *,
        partners: float = 1.0,
        n_draws: int = 0,
        coincident: Coincident = "drop",
        seed: int = 0,
    ) -> None:
        """Study scores. partners: as `partners_share` gives it; n_draws: bootstrap resamples of agents and items.

        Raises
        ------
        StatisticsError
            [curl-no-rectangles] if no rectangle is complete.
        """
        measured = measure_curl(scores)
        links = self.links = measured.table()
        self.differences: tuple[MedianDifference, ...] = ()
        curves = measured.curves(n_steps=101)
        self.ecdf: dict[str, Json] = {
            curve.link: {"x": (curve.x / curve.sd).tolist(), "share": curve.share.tolist()}
            for curve in curves
            if links[curve.link].sd > 0
        }
        self.scores, (self.n_agents, self.n_items) = scores.kind, scores.value.shape
        seen = scores.weight > 0
        self.n_compared, self.n_cells = int(seen.any(axis=0).sum()), int(seen.sum())
        self.words = [*_words(links), additivity_words(links)[0]]
        if partners < THIN:
            self.words = [
                f"The median cell was compared with {partners:.0%} of its partners only: curl and R² of such scores are mostly "
                "the luck of which were asked. They say nothing for or against a link or additivity; ask it of a dense run, or "
                "one of a cell design."
            ]
        identity = links["identity"]
        if identity.n_sampled is not None:
            self.words.append(
                f"Sampled: curl is that of {identity.n_sampled:,} of {identity.n_rectangles:,} rectangles; the standard error of "
                f"the identity link's median is {identity.median_error:.4f}, of its P95 {identity.p95_error:.4f}."
            )
        if n_draws:
            try:
                self.differences = median_differences(
                    scores.value, rng=own_stream(seed), coincident=coincident, n_draws=n_draws
                )
            except StatisticsError as error:
                self.words.append(f"No bootstrap: {error.message}")


def _words(links: dict[str, LinkFacts]) -> Iterator[str]:
    """What the table supports, judged on the scale-free figures: raw curl compares different units across links."""
    identity = links["identity"]
    if identity.median_scaled is None or identity.r2 is None:
        yield "All scores are equal: nothing varies that a link could distort, so no link can be preferred."
        return
    scaled = {name: row.median_scaled for name, row in links.items() if row.median_scaled is not None}
    yield (
        "Raw curl is not comparable across links (they stretch the scale); per SD of the transformed scores the medians are "
        f"{', '.join(f'{name} {median:.2f}' for name, median in scaled.items())}."
    )
    best = min(scaled, key=lambda name: scaled[name])
    if max(scaled.values()) - scaled[best] < 0.1 * scaled[best]:
        yield "On that scale the links differ by less than a tenth: the data prefer none of them clearly."
    else:
        yield f"On that scale {best} bends these scores least."
    little = " That is little: read single-cell predictions with caution." if identity.r2 < LITTLE else ""
    yield f"Ability − difficulty explains {identity.r2:.0%} of the variance of the scores (identity link).{little}"
