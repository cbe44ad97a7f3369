"""The prompt's telling words without a thought."""

from __future__ import annotations

from youden.practice.stress.attack import Attack, Target

N_WORDS = 25


def _prompt_words(target: Target) -> dict[str, list[str]]:
    return {"prompted": [f"{text} {' '.join(target.rare(j, N_WORDS))}" for j, text in enumerate(target.own)]}


PROMPT_WORDS = Attack(f"the weak answer and the prompt's {N_WORDS} rarest words", _prompt_words, needs_prompts=True)
