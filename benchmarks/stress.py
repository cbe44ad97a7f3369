"""Attacks that `youden stress` does not ship, tried as an adversary would: where they land, and whether anything names them.

    python benchmarks/stress.py POOL [--attacker AGENT]

consensus: of each item, the sentences of others whose words most other answers hold, one an agent, at most three, half of
their words that have synonyms replaced. It borrows what all agree on, from nobody in particular and in nobody's words.
digest: the words that most other answers hold, among function words at random, so that it is no list and no form.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

from youden.practice.attacks import Attack, Target, plant
from youden.practice.planned_stress import PlannedAttack, attacked_plan, plan_stress
from youden.practice.stressing import stress
from youden.streams import own_stream
from youden.text.sentences import sentences
from youden.text.words import words

N_SENTENCES = 3
GLUE = [
    "it",
    "is",
    "about",
    "the",
    "and",
    "there",
    "was",
    "a",
    "with",
    "what",
    "they",
    "had",
    "of",
    "so",
    "that",
    "by",
    "then",
    "for",
    "all",
    "this",
    "to",
    "be",
    "in",
    "on",
    "as",
    "at",
]


def held(target: Target, j: int) -> Counter[str]:
    """How many other answers hold a word that few items have."""
    rare = 0.2 * target.pool.n_items
    texts = target.others(j, target.pool.n_agents)
    return Counter(word for text in texts for word in set(words(text)) if target.n_holding[word] <= rare)


def consensus(target: Target) -> dict[str, list[str]]:
    made = []
    for j in target.items:
        support = held(target, j)
        best = []
        for text in target.others(j, target.pool.n_agents):
            told = [one for one in sentences(text) if len(words(one)) > 5]
            if told:
                best.append(max(told, key=lambda one: sum(support[word] for word in set(words(one))) / len(words(one))))
        best.sort(key=lambda one: -sum(support[word] for word in set(words(one))) / len(words(one)))
        kept: list[str] = []
        for one in best:
            new = set(words(one))
            if all(len(new & set(words(other))) < 0.6 * len(new) for other in kept):
                kept.append(one)
        made.append(" ".join(target.reworded(one, share=0.5) for one in kept[:N_SENTENCES]))
    return {"consensus": made}


def digest(target: Target) -> dict[str, list[str]]:
    made = []
    for j in target.items:
        telling = [word for word, _ in held(target, j).most_common(24)]
        target.rng.shuffle(telling)
        said = [f"{' '.join(target.rng.choice(GLUE, 4))} {' '.join(telling[n * 3 : n * 3 + 3])}" for n in range(8)]
        made.append(", ".join(said).capitalize() + ".")
    return {"digest": made}


OWN = {
    "consensus": Attack("what most others say, a sentence of each, half the words replaced", consensus),
    "digest": Attack("the words that most others use, among function words", digest),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--attacker")
    asked = parser.parse_args()
    base = plan_stress(asked.pool, attacks=["template"], attacker=asked.attacker)
    attacks = []
    for number, (name, attack) in enumerate(OWN.items()):
        rng = own_stream(number)
        planted = plant(base.pool, attack, weak=base.weak, rng=rng)
        attacks.append(PlannedAttack(name, attack, planted, attacked_plan(base.plan, planted, rng=rng), base.cost))
    found = stress(replace(base, attacks=tuple(attacks)))
    print(f"{found.name}, judged by {found.judge}; without an attack {found.weak} stands {found.places['plain']}.")
    for one in found.attacks:
        places = ", ".join(f"{way} {landing.place:g} of {landing.of}" for way, landing in one.landings.items())
        print(f"{one.attack}: {places}; check: {', '.join(one.named) or 'silent'}; alarms: {len(one.alarms)}")


if __name__ == "__main__":
    main()
