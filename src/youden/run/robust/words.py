"""What rankings beside the plain one say, in words: who agrees too much, who falls, what could not be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from youden.nouns import StandingFacts, StandingName
from youden.run.robust.standings import MadeStanding
from youden.stats.trials.places import Differences

MOVES_NAMED = 5
TITLES: Mapping[StandingName, str] = {
    "robust": "robust",
    "family": "family-balanced",
    "trusted": "trusted panel's",
}


def standing_words(made: Sequence[MadeStanding], plain: Differences, agent_ids: Sequence[str]) -> list[str]:
    """What a reader of the plain ranking has to know: agents that agree too much, a leader that falls, what could not be made."""
    said = []
    for one in made:
        if one.name == "robust" and one.facts.groups:
            said += [
                f"{', '.join(group)} agree far beyond their abilities, so in the robust ranking they count as one partner and do "
                "not score each other."
                for group in one.facts.groups
            ]
        if one.facts.message:
            said.append(f"No {TITLES[one.name]} ranking: {one.facts.message}")
        if fallen := _fallen(one, plain, agent_ids):
            said.append(fallen)
    return said


def standing_line(name: StandingName, facts: StandingFacts, *, heads: bool) -> str:
    """One ranking beside the plain one in a sentence: who moves, and by how much."""
    title = f"By the {TITLES[name]} ranking{', which heads this one,' if heads else ''}"
    if not facts.moves:
        return f"{title} every agent holds its place."
    named = ", ".join(f"{move.agent} {move.plain} → {move.place}" for move in facts.moves[:MOVES_NAMED])
    rest = len(facts.moves) - MOVES_NAMED
    return f"{title} {len(facts.moves)} agents hold another place: {named}{f' and {rest} more' if rest > 0 else ''}."


def _fallen(one: MadeStanding, plain: Differences, ids: Sequence[str]) -> str:
    """A leader of the plain ranking whom this one puts below somebody, where one of the two tells them apart."""
    if one.apart is None:
        return ""
    ahead = np.nansum(plain.value > 0, axis=1)
    leader = int(np.argmax(ahead))
    above = (one.apart.value[:, leader] > 0) & (plain.above[leader] | one.apart.above[:, leader])
    if not above.any():
        return ""
    move = next((m for m in one.facts.moves if m.agent == ids[leader]), None)
    place = f"from place {move.plain} to {move.place}" if move else "behind others"
    by = ", ".join(ids[k] for k in np.flatnonzero(above)[:3])
    return (
        f"The leader {ids[leader]} falls {place} in the {TITLES[one.name]} ranking, behind {by}: the plain ranking owes its "
        "first place to agents that agree for other reasons than ability."
    )
