"""One form for all items."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target
from youden.text.transforms import Extension


def _template(target: Target) -> dict[str, list[str]]:
    return {"template": [Extension("template")(text, target.rng) for text in target.own]}


TEMPLATE = Attack("one form for all items", _template)
