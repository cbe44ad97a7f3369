"""Attacks that were not used to choose any threshold of `check`, in addition to those of `youden stress`."""

from __future__ import annotations

from youden.streams import standalone_stream
from youden.text.transforms import Step
from youden.types import Pool
from youden.workflows.attacks import ATTACKS, Attack, AttackContext, plant_agents


def mosaic(target: AttackContext) -> dict[str, list[str]]:
    """Return the first half of one response and the second half of another."""
    results = []
    for j in target.items:
        first, second = (text.split() for text in target.draw_responses(j, 2))
        results.append(" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]]))
    return {"mosaic": results}


def shouted_words(target: AttackContext) -> dict[str, list[str]]:
    """Return the prompt's rare words in capitals and random order, followed by the weak response."""
    return {
        "shouted": [
            f"KEYWORDS: {'; '.join(target.rng.permutation(target.select_rare_words(j, 20))).upper()}.\n{text}"
            for j, text in enumerate(target.base_responses)
        ]
    }


def half_mirror(target: AttackContext) -> dict[str, list[str]]:
    """Return the words of another response, with its sentences reordered and in capitals."""
    steps = (Step("reorder"), Step("case"))
    results = []
    for j in target.items:
        text = target.draw_responses(j, 1)[0]
        for step in steps:
            text = step(text, target.rng)
        results.append(text)
    return {"half-mirror": results}


SHIPPED = {name: ATTACKS.load(name) for name in ATTACKS}

UNSEEN = {
    "mosaic of two answers": Attack("halves of two answers", mosaic),
    "prompt words in capitals": Attack(
        "rare words of the prompt, then the weak answer", shouted_words, needs_prompts=True
    ),
    "mirror, sentences reordered": Attack("another answer, its sentences reordered, in capitals", half_mirror),
}


def planted(pool: Pool, attack: Attack, *, weak: int, seed: int = 0) -> tuple[Pool, set[str]]:
    """Return the pool with the agents of an attack after its own, and their ids."""
    created = plant_agents(pool, attack, base_agent=weak, rng=standalone_stream(seed))
    return created.pool, set(created.ids)
