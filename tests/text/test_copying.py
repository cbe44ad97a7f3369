from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.text.similarity import Copying, copied_shares, copying_agents

PROMPT = ["the", "old", "mill", "stood", "by", "the", "river", "until", "the", "flood", "of", "1953"]
WORDS = st.lists(st.sampled_from("abc"), max_size=12)


@pytest.mark.parametrize(
    ("response", "share"),
    [
        ("the old mill stood by the river", 1.0),
        ("the old mill stood by a river", 1 / 3),
        ("the mill was old and stood near the river", 0.0),
        ("flood of 1953", 1.0),
        ("flood in 1953", 0.0),
        ("", np.nan),
    ],
)
def test_the_share_copied_counts_runs_of_five_words(response: str, share: float) -> None:
    np.testing.assert_allclose(copied_shares([response.split()], PROMPT), [share])


@given(st.lists(WORDS, max_size=4), WORDS, st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_the_share_copied_equals_the_slow_count(responses: list[list[str]], prompt: list[str], n: int) -> None:
    def slow(response: list[str]) -> float:
        size = min(n, len(response))
        if size == 0:
            return float("nan")
        starts = range(len(response) - size + 1)
        found = [any(response[s : s + size] == prompt[p : p + size] for p in range(len(prompt))) for s in starts]
        return sum(found) / len(found)

    np.testing.assert_allclose(copied_shares(responses, prompt, n=n), [slow(response) for response in responses])


def test_an_agent_copies_if_its_median_response_does() -> None:
    shares = np.array(
        [
            [0.9, 0.8, 0.0],
            [0.9, 0.1, 0.0],
            [0.5, np.nan, np.nan],
            [np.nan, np.nan, np.nan],
        ]
    )
    assert copying_agents(shares) == (Copying(0, 0.8), Copying(2, 0.5))
    assert copying_agents(shares, at_least=0.6) == (Copying(0, 0.8),)
