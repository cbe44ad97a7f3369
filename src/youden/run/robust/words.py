"""What rankings beside the plain one say, in words: who agrees too much, who falls, what could not be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from youden.nouns import StandingFacts, StandingName
from youden.stats.trials.places import Differences

MOVES_NAMED = 5
FAR = 2
"""Places that a leader falls and that are said, though no two rankings tell those before it apart."""
TITLES: Mapping[StandingName, str] = {
    "robust": "robust",
    "family": "family-balanced",
    "trusted": "trusted panel's",
}


def standing_words(made: Mapping[StandingName, StandingFacts]) -> list[str]:
    """What a reader of the plain ranking has to know: agents that agree too much, a leader that falls, what could not be made."""
    said = []
    for name, facts in made.items():
        if name == "robust":
            said += [
                f"{', '.join(group)} are alike in their texts, or agree far beyond their abilities, so in the robust ranking "
                "they count as one partner and do not score each other."
                for group in facts.groups
            ]
        if facts.message:
            said.append(f"No {TITLES[name]} ranking: {facts.message}")
        if facts.leader:
            said.append(facts.leader)
    return said


def standing_line(name: StandingName, facts: StandingFacts, *, heads: bool) -> str:
    """One ranking beside the plain one in a sentence: who moves, and by how much."""
    title = f"By the {TITLES[name]} ranking{', which heads this one,' if heads else ''}"
    if not facts.moves:
        return f"{title} every agent holds its place."
    named = ", ".join(f"{move.agent} {move.plain} → {move.place}" for move in facts.moves[:MOVES_NAMED])
    rest = len(facts.moves) - MOVES_NAMED
    return f"{title} {len(facts.moves)} agents hold another place: {named}{f' and {rest} more' if rest > 0 else ''}."


def leader_words(name: StandingName, plain: Differences, other: Differences, ids: Sequence[str]) -> str:
    """That the leader of the plain ranking falls in another; empty where it holds.

    It falls where the other puts somebody above it and one of the two tells them apart, or puts it `FAR` places down, or no
    longer tells it apart from everybody.
    """
    leader = int(np.argmax(np.nansum(plain.value > 0, axis=1)))
    ahead = other.value[:, leader] > 0
    if (ahead & (plain.above[leader] | other.above[:, leader])).any() or ahead.sum() >= FAR:
        behind = ", ".join(ids[k] for k in np.flatnonzero(ahead)[:MOVES_NAMED].tolist())
        return (
            f"The leader {ids[leader]} falls to place {int(ahead.sum()) + 1} in the {TITLES[name]} ranking, behind {behind}: "
            "it owes its first place to who else is in the pool."
        )
    if plain.best == leader and other.best != leader:
        return (
            f"The leader {ids[leader]} is told apart from everybody in the plain ranking, and no longer in the {TITLES[name]} "
            "one: part of its lead it owes to who else is in the pool."
        )
    return ""
