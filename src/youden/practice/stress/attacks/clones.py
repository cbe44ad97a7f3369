"""The weak agent, several times."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target

N_EXACT = 3
N_REWORDED = 2


def _exact(target: Target) -> dict[str, list[str]]:
    return {f"clone-{n}": target.own for n in range(N_EXACT)}


def _reworded(target: Target) -> dict[str, list[str]]:
    return {f"reworded-{n}": [target.reworded(text) for text in target.own] for n in range(N_REWORDED)}


EXACT = Attack(f"the weak agent {N_EXACT} times more, word for word", _exact)
REWORDED = Attack(f"the weak agent {N_REWORDED} times more, three in ten words replaced by synonyms", _reworded)
