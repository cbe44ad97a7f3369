"""Write small tables of three agents and five questions, and check that they were read completely."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import openpyxl

from youden.types import Pool

AGENTS = ("gpt", "llama", "claude")
THINGS = ("cats sleep by day", "bread rises", "rivers flood in spring", "bees dance", "trains are late in winter")
QUESTIONS = [f"Why do you think that {thing}?" for thing in THINGS]


def response(agent: str, item: int) -> str:
    return f"I, {agent}, believe that {THINGS[item]} because it has always been so."


def write(path: Path, lines: Sequence[Sequence[object]]) -> Path:
    """Write lines of cells as the format of the suffix; None is an empty cell."""
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for line in lines:
            book.active.append([*line])
        book.save(path)
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".txt" else ",").writerows(lines)
    return path


def wide_lines() -> list[list[object]]:
    return [[question, *(response(name, item) for name in AGENTS)] for item, question in enumerate(QUESTIONS)]


def check_is_complete(pool: Pool, agents: Sequence[str]) -> None:
    assert [agent.id for agent in pool.agents] == [*agents]
    assert [item.prompt for item in pool.items] == QUESTIONS
    assert pool.texts.tolist() == [[response(name, item) for item in range(len(THINGS))] for name in AGENTS]
