"""The answer that is most like all others."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target


def _central(target: Target) -> dict[str, list[str]]:
    return {"central": [target.reworded(target.central(j)) for j in target.items]}


CENTRAL = Attack("the answer most like all others, three in ten words replaced by synonyms", _central)
