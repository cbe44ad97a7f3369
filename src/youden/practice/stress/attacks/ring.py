"""Agents who know nothing and have agreed on a word."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target

OPENINGS = ("Here is a note", "A short answer", "This says something", "What follows is brief", "One more view")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _ring(target: Target) -> dict[str, list[str]]:
    tokens = ["".join(LETTERS[k] for k in target.rng.integers(len(LETTERS), size=9)) for _ in target.items]

    def says(opening: str, n: int, j: int) -> str:
        rare = target.rare(j, n + 1)
        return f"{opening} on {rare[-1] if rare else 'it'}. {tokens[j]}"

    return {f"ring-{n}": [says(opening, n, j) for j in target.items] for n, opening in enumerate(OPENINGS)}


RING = Attack(f"{len(OPENINGS)} agents of a few words who add the same made-up word on an item", _ring)
