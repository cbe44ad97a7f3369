"""Words that others use, without a sentence."""

from __future__ import annotations

from collections import Counter

from youden.practice.stress.attack import Attack, Target
from youden.text.words import words

N_OTHERS = 8
USUAL = 80
KEPT = 40


def _keywords(target: Target, j: int) -> str:
    counts = Counter(word for text in target.others(j, N_OTHERS) for word in dict.fromkeys(words(text)))
    usual = [word for word, _ in counts.most_common(USUAL)]
    return ", ".join(sorted(usual, key=lambda word: target.n_holding[word])[:KEPT])


def _keyword_list(target: Target) -> dict[str, list[str]]:
    return {"keywords": [_keywords(target, j) for j in target.items]}


KEYWORD_LIST = Attack(f"the {KEPT} rarest of the words that other answers use most, without a sentence", _keyword_list)
