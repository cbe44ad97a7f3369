"""A stress test in words: what was done, what got through, and what each column means."""

from __future__ import annotations

from collections.abc import Iterator

from youden.practice.stress.planned import PlannedStress
from youden.practice.stress.standing import Landing
from youden.practice.stress.stressing import Landed, Stress

GAINED = 3.0
"""An attack got through where its agents stand so many places above the weak agent and nothing names them."""


def asked_in_words(planned: PlannedStress) -> str:
    """Before anything is asked."""
    left_out = [one.name for one in planned.attacks if one.plan is None]
    said = (
        f"{len(planned.attacks) - len(left_out)} attacks on {planned.pool.n_agents} agents × {planned.pool.n_items} items; "
        f"attackers start from the answers of {planned.pool.agents[planned.weak].id} ({planned.because})"
    )
    return said + (f"; left out: {', '.join(left_out)}" if left_out else "")


def conclusion(found: Stress) -> tuple[str, ...]:
    """What got through, attack by attack, the highest first; then what was left out."""
    through = sorted(
        (one for one in found.attacks if one.landings and gained(found, one) >= GAINED),
        key=lambda one: one.landings["plain"].place,
    )
    unseen = [one for one in through if not seen(one)]
    lines = [
        f"Without an attack {found.weak} stands {found.places['plain']} of {found.n_agents}. {len(through)} of "
        f"{sum(bool(one.landings) for one in found.attacks)} attacks rise {GAINED:.0f} places or more in the plain ranking; "
        f"check or an alarm names {len(through) - len(unseen)} of them."
    ]
    lines += [
        f"{one.attack} reaches place {one.landings['plain'].place:g} of {one.landings['plain'].of} and nothing names "
        f"it: {one.what}."
        for one in unseen
    ]
    lines += [f"{one.attack} was left out. {one.why_not}" for one in found.attacks if one.why_not is not None]
    return tuple(lines)


def gained(found: Stress, one: Landed) -> float:
    """How many places the best planted agent stands above the weak agent, in the plain ranking."""
    return (found.places["plain"] or found.n_agents) - one.landings["plain"].place


def seen(one: Landed) -> bool:
    """Whether check or an alarm names a planted agent."""
    return bool(one.named or one.alarms)


NOTES = (
    "place: where the best planted agent stands, 1 is first, the weak agent left out. others move: places that another "
    "agent moves among the others, in the mean (the most). check: what it says of planted agents, and whom it names beside them "
    "that it did not name before; alarm: the judge called their texts on unrelated items the same source. Planted agents name no "
    "family."
)


def columns(found: Stress) -> tuple[str, ...]:
    """The table's heads."""
    ways = tuple(found.places)
    return ("attack", "agents", *ways, *(f"others move ({way})" for way in ways), "check", "alarm", "new calls")


def rows(found: Stress) -> Iterator[tuple[str, ...]]:
    """The table, a row an attack; those that were left out are not in it."""
    for one in found.attacks:
        if not one.landings:
            continue
        landings = [one.landings.get(way) for way in found.places]
        yield (
            one.attack,
            str(len(one.agents)),
            *("–" if landing is None else f"{landing.place:g}" for landing in landings),
            *(_moved(landing) for landing in landings),
            _named(one),
            f"{len(one.alarms)} of {len(one.agents)}" if one.alarms else "–",
            f"{one.n_new:,}",
        )


def _moved(landing: Landing | None) -> str:
    return "–" if landing is None else f"{landing.shift:.2f} ({landing.most})"


def _named(one: Landed) -> str:
    said = [slug if len(caught) == len(one.agents) else f"{slug} ({len(caught)})" for slug, caught in one.named.items()]
    said += [f"beside them {', '.join(one.accused)}"] if one.accused else []
    return ", ".join(said) or "silent"
