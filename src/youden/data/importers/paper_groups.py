"""The groups of agents that the paper's data are known for, and what matches them to a list of agents.

Names alone are compared; agents of other data get no group.
"""

from __future__ import annotations

from collections.abc import Collection

_SUMMARIES = {
    "faithful": ("Faithful", "Objective", "Comprehensive", "Neutral Tone"),
    "strategic": (
        "Fact Manipulation",
        "Selective Omission",
        "Misleading Emphasis",
        "Sentiment Flip",
        "Conspiracy Theory",
        "Contradictory",
        "Context Removal",
        "False Attribution",
        "Agenda Push",
        "Cherry Pick",
    ),
    "low-effort": ("Low Effort", "Ultra Concise", "Template Response", "Surface Skim", "Minimal Detail"),
}
_REVIEWS = {
    "faithful": ("Reference", "Faithful", "Objective Analysis", "Thorough Evaluation"),
    "strategic": (
        "Method Shift",
        "Question Shift",
        "Contribution Misrepresent",
        "Result Manipulation",
        "Assumption Attack",
        "Dismissive Expert",
        "Agenda Push",
        "Benchmark Obsessed",
    ),
    "low-effort": ("Low Effort", "Generic", "Surface Skim", "Template Fill", "Checklist Review"),
}
_TRANSLATIONS = {
    "faithful": ("Original", "Formal", "Technical", "Academic", "Objective", "Cultural"),
    "strategic": ("All Positive", "All Negative", "Misleading", "Contradictory"),
    "low-effort": ("Low Effort", "Exaggerate", "Understate", "Sarcastic"),
}


def paper_groups(conditions: Collection[str]) -> dict[str, str]:
    """Condition → faithful, strategic or low-effort; style variants are in no group.

    A domain's table (summaries: PubMed, SAMSum; reviews: ICLR; translations: OPUS) applies only where every name in it is
    among `conditions`; where none does, nothing is returned.

    >>> paper_groups(["Faithful", "Poetic"])
    {}

    Source: the groups behind the paper's ranking AUC.
    """
    for domain in (_SUMMARIES, _REVIEWS, _TRANSLATIONS):
        groups = {name: group for group, names in domain.items() for name in names}
        if groups.keys() <= set(conditions):
            return groups
    return {}
