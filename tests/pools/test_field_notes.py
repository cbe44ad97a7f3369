"""Test that the bundled pool agrees with its data card; no model runs here."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import mean

import pytest

Rows = list[dict[str, str]]


def load(field_notes: Path, name: str) -> Rows:
    return [json.loads(line) for line in (field_notes / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = ["".join(filter(str.isalnum, word)).lower() for word in text.split()]
    return set(zip(*(words[i:] for i in range(n)), strict=False))


@pytest.fixture(scope="module")
def rows(field_notes: Path) -> dict[str, Rows]:
    return {name: load(field_notes, name) for name in ("agents", "items", "responses")}


def test_every_agent_responds_to_every_item_once(rows: dict[str, Rows]) -> None:
    cells = {(row["agent"], row["item"]) for row in rows["responses"]}
    assert len(cells) == len(rows["responses"]) == len(rows["agents"]) * len(rows["items"])
    assert len(rows["agents"]) == 12
    assert len(rows["items"]) >= 30


def test_groups_agree_with_the_data_card(rows: dict[str, Rows]) -> None:
    groups = defaultdict(list)
    for agent in rows["agents"]:
        groups[agent["group"]].append(agent["id"])
    assert {name: len(ids) for name, ids in groups.items()} == {
        "faithful": 4,
        "stylistic": 3,
        "strategic": 3,
        "low-effort": 2,
    }


def test_passages_and_responses_have_the_documented_lengths(rows: dict[str, Rows]) -> None:
    assert all(80 <= len(item["prompt"].split()) <= 150 for item in rows["items"])
    assert all(25 <= len(row["text"].split()) <= 70 for row in rows["responses"])


def test_faithful_stylistic_and_strategic_agents_have_similar_lengths(rows: dict[str, Rows]) -> None:
    group = {agent["id"]: agent["group"] for agent in rows["agents"]}
    lengths = defaultdict(list)
    for row in rows["responses"]:
        lengths[group[row["agent"]]].append(len(row["text"].split()))
    full = [mean(lengths[name]) for name in ("faithful", "stylistic", "strategic")]
    assert max(full) - min(full) < 3


def test_only_low_effort_agents_share_eight_consecutive_words_on_an_item(rows: dict[str, Rows]) -> None:
    low_effort = {agent["id"] for agent in rows["agents"] if agent["group"] == "low-effort"}
    by_item = defaultdict(list)
    for row in rows["responses"]:
        if row["agent"] not in low_effort:
            by_item[row["item"]].append(grams(row["text"], 8))
    assert not any(a & b for texts in by_item.values() for a, b in combinations(texts, 2))
