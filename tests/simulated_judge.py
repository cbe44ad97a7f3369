"""Simulate responses of agents with known abilities, and a judge, so that the right decision of a user is known.

A response names its agent and its item, and the judge answers with a known probability. An answer depends only on the two texts
and the seed, so that the order of the requests does not matter.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from unruly_server import Body, Sent, reply_to, sent

PRICE = 2.0
"""Price of the judge in USD per million tokens, for input and output."""
FALSE_POSITIVE_RATE = 0.05


class Response(NamedTuple):
    agent: str
    item: str
    text: str


def respond(agent: str, item: str, *, repeat: int = 1, n_facts: int = 6) -> str:
    """Return a response that names some of the ten facts of its item."""
    facts = random.Random(f"{agent} {item} {repeat}").sample(range(10), n_facts)
    return f"Answer {repeat} of {agent} to {item}: " + ", ".join(f"{item}fact{n}" for n in facts)


def read_responses(body: Body) -> list[Response]:
    """Return the responses in a request to the judge, without the empty ones."""
    prompt = body["messages"][-1]["content"]
    texts = [text for _, text in re.findall(r"<(first|second)-[0-9a-f]+>\n(.*?)\n</\1-", prompt, re.DOTALL)]
    names = [re.match(r"Answer \d+ of (\S+) to (\S+):", text) for text in texts]
    return [Response(name[1], name[2], text) for name, text in zip(names, texts, strict=True) if name]


@dataclass(frozen=True)
class SimulatedJudge:
    """Script of an `UnrulyServer` that recognizes responses, and decides which of two responses is better.

    It recognizes two responses to one item with probability .5 + (a + b)/2, where a and b are the abilities of their agents. It
    prefers the first response with probability .5 + (c − d)/2 + `position_bias`, where c and d are the merits of the agents.
    """

    ability: Mapping[str, float]
    merit: Mapping[str, float] | None = None
    position_bias: float = 0.0
    seed: int = 0

    def __call__(self, _n: int, _key: str, body: Body) -> Sent:
        return sent(reply_to(body, said=self.answer(body)))

    def answer(self, body: Body) -> str:
        """Return the answer to a request: YES or NO, or FIRST or SECOND."""
        responses = read_responses(body)
        if "Which response is better?" in body["messages"][-1]["content"]:
            assert self.merit is not None
            first, second = (self.merit[response.agent] for response in responses)
            p_first = 0.5 + (first - second) / 2 + self.position_bias
            return "FIRST" if self._draw(responses) < p_first else "SECOND"
        return "YES" if self._draw(responses) < self._p_yes(responses) else "NO"

    def _p_yes(self, responses: list[Response]) -> float:
        if len(responses) < 2 or responses[0].item != responses[1].item:
            return FALSE_POSITIVE_RATE
        return 0.5 + sum(self.ability[response.agent] for response in responses) / 2

    def _draw(self, responses: list[Response]) -> float:
        """Return a number in [0, 1)."""
        return random.Random(f"{self.seed} {[response.text for response in responses]}").random()


def read_cost(run: str | PathLike[str]) -> float:
    """Return the cost in USD that a fitted run states."""
    calls = json.loads((Path(run) / "fit.json").read_text(encoding="utf-8"))["calls"]
    return float(calls["usd"])


def read_abilities(run: str | PathLike[str]) -> dict[str, float]:
    """Return the ability of each agent of a fitted run, best first."""
    ranking = pd.read_csv(Path(run) / "ranking.csv")
    return dict(zip(ranking["agent"], ranking["ability"], strict=True))


def count_wrong_signs(differences: pd.DataFrame, truth: Mapping[str, float]) -> int:
    """Return the number of significant differences of a run (`Run.differences`) whose sign contradicts the truth."""
    better = differences[differences["significantly_better"] == 1]
    return sum(truth[first] <= truth[second] for first, second in zip(better["first"], better["second"], strict=True))
