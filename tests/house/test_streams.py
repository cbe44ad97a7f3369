"""Test that each random stream has one name, and that no other code seeds a generator."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from youden import streams

SOURCE = Path(streams.__file__).parent


def starts(seed: int) -> dict[str, list[int]]:
    """Return the first numbers of every stream, for several numbers of a numbered stream."""
    several = {"extension": (0, 1, 2), "slots on new items": (1, 2)}
    return {
        f"{name} {number}": streams.stream(name, seed, *number).integers(2**60, size=2).tolist()
        for name in streams.KEYS
        for number in [(), *((n,) for n in several.get(name, ()))]
        if number or name not in several
    }


@pytest.mark.parametrize("seed", [0, 1, 5, 7, 123456])
def test_random_streams_of_a_seed_differ(seed: int) -> None:
    drawn = list(starts(seed).values())
    assert len({tuple(numbers) for numbers in drawn}) == len(drawn)


def test_every_stream_name_has_a_unique_key() -> None:
    assert set(streams.KEYS) == set(get_args(streams.Stream))
    assert len(set(streams.KEYS.values())) == len(streams.KEYS)


def test_a_standalone_stream_equals_only_the_holdout_stream_of_a_run() -> None:
    own = streams.standalone_stream(3).integers(2**60, size=2).tolist()
    assert [name for name, numbers in starts(3).items() if numbers == own] == ["holdout ()"]


def test_no_other_code_seeds_a_generator() -> None:
    seeding = {"default_rng", "SeedSequence", "RandomState", "seed", "Generator", "Random"}
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path.name != "streams.py"}
    assert [
        (str(path.relative_to(SOURCE)), node.lineno)
        for path, text in texts.items()
        if any(f".{name}(" in text for name in seeding)  # or there is nothing to parse it for
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in seeding
    ] == []
