"""Other answers, one after the other."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target

N_OTHERS = 3


def _concatenation(target: Target) -> dict[str, list[str]]:
    return {"concatenation": [" ".join(target.others(j, N_OTHERS)) for j in target.items]}


CONCATENATION = Attack(f"{N_OTHERS} random answers of others, one after the other", _concatenation)
