"""Length without content."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target
from youden.text.transforms import Extension

SHARE = 5.0


def _padding(target: Target) -> dict[str, list[str]]:
    return {"padded": [Extension("pad", {"share": SHARE})(target.central(j), target.rng) for j in target.items]}


PADDING = Attack(f"a usual answer drowned in stock sentences ({SHARE:.0f} times its length)", _padding)
