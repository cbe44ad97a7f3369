"""Whether additivity carries a sparse design, in words: the paper's rule beside a scale-free one."""

from __future__ import annotations

from youden.nouns import LinkFacts

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
