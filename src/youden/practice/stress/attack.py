"""What an attack is: agents made to game a ranking by agreement, from what an attacker can see of a pool.

An attack is blind to how `check` and the alarms look for it: it takes other agents' answers, a pool's prompts and a weak agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from youden.nouns import Agent, Pool
from youden.nouns.arrays import Objects
from youden.text.transforms import Extension
from youden.text.words import words

__all__ = ["Attack", "Target"]


@dataclass(frozen=True, eq=False)
class Target:
    """The pool that is attacked. weak: position of the agent whose answers an attacker starts from."""

    pool: Pool
    weak: int
    rng: np.random.Generator

    @property
    def items(self) -> range:
        """Positions of the items."""
        return range(self.pool.n_items)

    @property
    def own(self) -> list[str]:
        """The weak agent's answers, empty where it has none."""
        return [text or "" for text in self.pool.texts[self.weak]]

    def prompt(self, j: int) -> str:
        """Item j's prompt, empty where it has none."""
        return self.pool.items[j].prompt or ""

    def others(self, j: int, n: int) -> list[str]:
        """At most n other agents' answers to item j, drawn anew for each item."""
        there = [text for k, text in enumerate(self.pool.texts[:, j]) if k != self.weak and text and text.strip()]
        return [there[k] for k in self.rng.permutation(len(there))[:n]]

    @cached_property
    def n_holding(self) -> dict[str, int]:
        """On how many items a word stands in a prompt or an answer."""
        held: dict[str, int] = {}
        for item, column in zip(self.pool.items, self.pool.texts.T, strict=True):
            for word in set(words(" ".join([item.prompt or "", *(text or "" for text in column)]))):
                held[word] = held.get(word, 0) + 1
        return held

    def rare(self, j: int, n: int) -> list[str]:
        """The n rarest words of item j's prompt; of its answers where it has none."""
        said = self.prompt(j) or " ".join(self.others(j, self.pool.n_agents))
        return sorted(dict.fromkeys(words(said)), key=lambda word: self.n_holding[word])[:n]

    def central(self, j: int) -> str:
        """The answer to item j that shares the largest part of its words with the others; empty where there is none."""
        there = [text for text in self.pool.texts[:, j] if text and len(words(text)) > 2]
        held = [set(words(text)) for text in there]
        means = [np.mean([len(one & two) / len(one | two) for two in held]) for one in held]
        return str(there[int(np.argmax(means))]) if there else ""

    def reworded(self, text: str, *, share: float = 0.3) -> str:
        """The text with a share of the words that have synonyms replaced. Raises: ConfigError [synonyms-missing]."""
        return Extension("synonyms", {"share": share})(text, self.rng)


@dataclass(frozen=True)
class Attack:
    """One way to game a ranking.

    what: in a few words, for a table. texts: the texts of the agents to plant, one an item, by their ids.
    needs_prompts: whether it takes the items' prompts.
    """

    what: str
    texts: Callable[[Target], Mapping[str, Sequence[str]]]
    needs_prompts: bool = False


@dataclass(frozen=True, eq=False)
class Planted:
    """A pool with an attack's agents behind its own. agents: their positions."""

    pool: Pool
    agents: tuple[int, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.pool.agents[k].id for k in self.agents)


def plant(pool: Pool, attack: Attack, *, weak: int, rng: np.random.Generator) -> Planted:
    """The pool with an attack's agents, of no family and no group. An id that is taken gets a number behind it.

    Raises: ConfigError [synonyms-missing], [transform-option].
    """
    made = attack.texts(Target(pool, weak, rng))
    taken = {agent.id for agent in pool.agents}
    agents = []
    for name in made:
        free = next(one for one in (name, *(f"{name} {n}" for n in range(2, len(taken) + 3))) if one not in taken)
        taken.add(free)
        agents.append(Agent(free))
    rows: Objects = np.array([list(texts) for texts in made.values()], dtype=object).reshape(len(made), pool.n_items)
    grown = Pool((*pool.agents, *agents), pool.items, np.vstack([pool.texts, rows]), pool.name)
    return Planted(grown, tuple(range(pool.n_agents, grown.n_agents)))
