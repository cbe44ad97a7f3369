"""Study whether the additive model holds, and on which link, as in the paper's Tables 1 and 2 for one run.

The paper's rule of additivity depends on the spread of the scores, so a scale-free rule is reported too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from youden.errors import StatisticsError
from youden.stats.curl.link_table import measure_curl
from youden.stats.curl.quantiles import Coincident, MedianDifference, median_differences
from youden.streams import standalone_stream
from youden.types import Scores
from youden.types.facts import LinkFacts
from youden.types.pool import Json
from youden.types.results import Rates, ScoreKind

PAPER_RULE = 0.2
NO_STRUCTURE = 1.349
"""Median |Δ| in SDs if scores are normal noise without effects of agents or items: 2·Φ⁻¹(3/4)."""
MIN_R2 = 0.5
"""Share of the variance that the additive model must explain for predictions of single cells."""


def describe_additivity(links: dict[str, LinkFacts]) -> tuple[str, ...]:
    """Describe whether scores are additive: the sum of an agent effect and an item effect, as sparse designs assume.

    The curl |Δ| of two agents and two items is the deviation of their four scores from additivity. The paper allows a sparse
    design if the median |Δ| is below .2. This rule depends on the spread of the scores, so the share of the variance that the
    additive model explains is described, too.

    links : curl and R² by link function; only "identity" is used

    Returns a text with both results. A second text states what follows for sparse designs if the model explains little, or if
    the two results disagree.
    """
    identity = links["identity"]
    if identity.median_scaled is None or identity.r2 is None:
        return ("All scores are equal: additivity cannot be measured, and no design can rank these agents.",)

    rule_holds = identity.median < PAPER_RULE
    result = "holds" if rule_holds else "fails"

    # `NO_STRUCTURE` is the median |Δ|, in SDs of the scores, of scores that have no additive structure
    median_in_sds = identity.median_scaled
    relative_median = median_in_sds / NO_STRUCTURE
    sentences = [
        f"The paper's rule (a median |Δ| below {PAPER_RULE:g} allows a sparse design) {result}: the median is "
        f"{identity.median:.3f}. The rule depends on the spread of the scores. In SDs of the scores, the median is "
        f"{median_in_sds:.2f}, {relative_median:.0%} of that of scores without additive structure, and ability − "
        f"difficulty explains {identity.r2:.0%} of the variance."
    ]
    if identity.r2 < MIN_R2:
        sentences.append(
            "Additivity explains less than half: predictions of single cells are not supported, rankings only within their "
            "intervals."
        )
    elif not rule_holds:
        sentences.append("The scale-free figures support a sparse design nevertheless.")
    return tuple(sentences)


MIN_PARTNER_SHARE = 0.5
"""Share of its partners below which a cell's score mostly depends on which partners were drawn."""


def compute_partner_share(rates: Rates, kind: ScoreKind) -> float:
    """Compute the share of all other agents with which an agent was compared on an item, as a median over cells.

    A cell is an agent on an item. Cells without an answer are left out; without any answer, the result is 0.

    kind : kind of the scores. Row scores use the pairs with the agent first, symmetric scores use all pairs with the agent.
    """
    is_answered = rates.n_paired > 0
    item = rates.item[is_answered]
    scored_agents = [rates.first] if kind == "row" else [rates.first, rates.second]

    # number of pairs from which each cell gets its score
    n_pairs = np.zeros((rates.n_agents, rates.n_items), dtype=np.int64)
    for agent in scored_agents:
        np.add.at(n_pairs, (agent[is_answered], item), 1)
    n_pairs_of_observed = n_pairs[n_pairs > 0]
    if not len(n_pairs_of_observed):
        return 0.0
    max_pairs = len(scored_agents) * (rates.n_agents - 1)
    return float(np.median(n_pairs_of_observed)) / max_pairs


class LinksStudy:
    """Curl and R² of scores on each link.

    Attributes
    ----------
    links : dict of str to LinkFacts
        Curl and R² by link.
    differences : tuple of MedianDifference
        Differences of median curl between links, from a bootstrap; empty without one, or if it fails.
    ecdf : dict of str to dict
        By link, the share of rectangles with |Δ| per SD of at most x.
    scores : {"symmetric", "row"}
        Kind of the scores.
    n_agents, n_items, n_compared, n_cells : int
        Numbers of agents and items of the pool, of items with a score, and of scores.
    summary : list of str
        Conclusions in sentences.
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
        """Measure how additive scores are on the scale of each link function.

        Parameters
        ----------
        scores : Scores
            Scores of cells; a cell is one agent on one item.
        partners : float in [0, 1], default 1
            Share of all other agents (partners) with which an agent was compared on an item; the median over cells.
        n_draws : int, default 0
            Number of bootstrap resamples of agents and items.
        coincident : {"drop", "keep"}, default "drop"
            Drop or keep rectangles (two agents, two items) that contain an agent or item twice after resampling.
        seed : int, default 0
            Seed of the bootstrap.

        Raises
        ------
        StatisticsError
            [curl-no-rectangles] if no rectangle is complete.
        """
        measured = measure_curl(scores)
        links = self.links = measured.table()
        self.differences: tuple[MedianDifference, ...] = ()
        self.ecdf: dict[str, Json] = {}
        for curve in measured.curves(n_steps=101):
            if links[curve.link].sd > 0:
                self.ecdf[curve.link] = {"x": (curve.x / curve.sd).tolist(), "share": curve.share.tolist()}
        self.scores = scores.kind
        self.n_agents, self.n_items = scores.value.shape
        is_observed = scores.weight > 0
        self.n_compared = int(is_observed.any(axis=0).sum())
        self.n_cells = int(is_observed.sum())

        self.summary = _summarize_links(links, partners)
        if n_draws:
            try:
                self.differences = median_differences(
                    scores.value, rng=standalone_stream(seed), coincident=coincident, n_draws=n_draws
                )
            except StatisticsError as error:
                self.summary.append(f"No bootstrap: {error.message}")


def _summarize_links(links: dict[str, LinkFacts], partner_share: float) -> list[str]:
    """Describe which link function makes the scores most additive, and how additive they are.

    Scores are additive if each is the sum of an agent effect and an item effect. Their curl measures the deviation from this.

    links : facts about the curl by link function, with an entry for "identity"
    partner_share : median share of the other agents with which an agent was compared on an item. If it is below
        `MIN_PARTNER_SHARE`, nothing is concluded.
    """
    if partner_share < MIN_PARTNER_SHARE:
        texts = [
            f"The median cell was compared with only {partner_share:.0%} of the other agents, so curl and R² mostly depend on "
            "which agents were drawn. They show neither which link to use nor whether scores are additive. Run this study on a "
            "dense run, or on one of a cell design."
        ]
    else:
        text_on_paper_rule, *_ = describe_additivity(links)  # whether the paper allows a sparse design for these scores
        texts = [*_describe_best_link(links), text_on_paper_rule]

    identity = links["identity"]
    if identity.n_sampled is not None:
        texts.append(
            f"Curl is that of a sample of {identity.n_sampled:,} of {identity.n_rectangles:,} rectangles; the standard error "
            f"of the identity link's median is {identity.median_error:.4f}, of its P95 {identity.p95_error:.4f}."
        )
    return texts


def _describe_best_link(links: dict[str, LinkFacts]) -> Iterator[str]:
    """Yield sentences on which link function makes the scores most additive, and on how additive the scores are.

    Curl is the deviation of the transformed scores from additivity. It is compared in standard deviations (SD) of these scores,
    because each link function (identity, probit or logit) changes their scale.

    links : facts about the curl by link function, with an entry for "identity"
    """
    identity = links["identity"]
    if identity.median_scaled is None or identity.r2 is None:
        yield "All scores are equal: no link can be preferred."
        return

    median_by_link = {link: facts.median_scaled for link, facts in links.items() if facts.median_scaled is not None}
    medians = ", ".join(f"{link} {median:.2f}" for link, median in median_by_link.items())
    yield (
        "Raw curl is not comparable across links, which change the scale; per SD of the transformed scores, the medians are "
        f"{medians}."
    )
    yield f"On that scale, {_name_preferred_link(median_by_link)}."

    explained = f"Ability − difficulty explains {identity.r2:.0%} of the variance of the scores (identity link)."
    if identity.r2 < MIN_R2:
        explained += " That is low: do not rely on predictions of single cells."
    yield explained


def _name_preferred_link(median_by_link: Mapping[str, float]) -> str:
    """Name the link function with the smallest median curl, or state that the links hardly differ.

    Curl is the deviation of scores from the additive model. Returns a clause for the end of a sentence.

    median_by_link : median curl by link function, in standard deviations of the transformed scores
    """
    best_link = min(median_by_link, key=lambda link: median_by_link[link])
    smallest, largest = median_by_link[best_link], max(median_by_link.values())
    if largest - smallest < 0.1 * smallest:
        return "the links differ by less than a tenth: the data clearly prefer none of them"
    return f"{best_link} has the smallest curl"
