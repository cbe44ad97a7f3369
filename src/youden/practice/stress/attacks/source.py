"""The prompt itself."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target


def _copy(target: Target) -> dict[str, list[str]]:
    return {"source": [target.prompt(j) for j in target.items]}


def _reworded(target: Target) -> dict[str, list[str]]:
    return {"source-again": [target.reworded(target.prompt(j)) for j in target.items]}


COPY = Attack("the prompt", _copy, needs_prompts=True)
REWORDED = Attack("the prompt, three in ten words replaced by synonyms", _reworded, needs_prompts=True)
