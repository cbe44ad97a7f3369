"""What an extension of a run changed, in words."""

from __future__ import annotations

from youden.nouns import ExtensionFacts
from youden.text.compared import counted

ALPHA = 0.05
"""Chance that any agent, or the level, is said to have drifted though none has."""
POOL_WIDE = (
    "This judge makes no calls and weighs words by the whole pool, so that all was answered anew: 'before' is what it says today "
    "of what was asked before."
)
_SHOWN = 5


def extension_words(facts: ExtensionFacts) -> tuple[str, ...]:
    """What the last extension changed, a sentence each."""
    said = []
    if facts.joined:
        more = " …" if len(facts.joined) > _SHOWN else ""
        said.append(f"{counted(len(facts.joined), 'agent')} joined: {', '.join(facts.joined[:_SHOWN])}{more}.")
    if facts.joined_items:
        said.append(f"{counted(len(facts.joined_items), 'item')} joined.")
    moved = {
        move.agent: move.after - move.before
        for move in facts.moves
        if move.before is not None and move.after is not None and move.before != move.after
    }
    if moved:
        most = max(moved, key=lambda agent: abs(moved[agent]))
        said.append(f"{len(moved)} of {len(facts.moves)} abilities moved, {most} most, by {moved[most]:+.3f}.")
    else:
        said.append(f"No ability of the {len(facts.moves)} agents that were there moved.")
    what, why = {
        "agents": (
            "with those that joined",
            "they may have a source or a style in common, or its responses or the judge changed",
        ),
        "items": ("on the new items", "they suit it otherwise, or the judge changed"),
        "calls": ("by the new answers", "look at its responses, and whether the judge changed"),
    }[facts.kind]
    drifted = [move for move in facts.moves if move.p is not None and move.p < ALPHA]
    said += [
        f"{move.agent} stands {abs(move.drift or 0):.3f} {'higher' if (move.drift or 0) > 0 else 'lower'} {what} than before "
        f"(p = {move.p:.2g}, corrected for {len(facts.moves)} agents): {why}."
        for move in drifted
    ]
    if not drifted and any(move.p is not None for move in facts.moves):
        said.append(f"No agent that was there stands otherwise {what} beyond chance.")
    if facts.level is not None and facts.level_p is not None and facts.level_p < ALPHA:
        said.append(
            f"The judge says 'same source' {abs(facts.level):.3f} {'more' if facts.level > 0 else 'less'} often of the same "
            f"items than before (p = {facts.level_p:.2g}): the model that is served may have changed."
        )
    if facts.answered_anew:
        said.append(POOL_WIDE)
    return tuple(said)
