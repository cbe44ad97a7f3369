"""On each item another agent's answer."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target


def _mirror(target: Target) -> dict[str, list[str]]:
    return {"mirror": [" ".join(target.others(j, 1)) for j in target.items]}


MIRROR = Attack("a random other agent's answer, on each item another's", _mirror)
