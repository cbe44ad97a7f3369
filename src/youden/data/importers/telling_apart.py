"""Names that tell agents apart by where their files lie, and ids that only spaces or case tell apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path


def suffixes(paths: Sequence[Path]) -> list[str]:
    """For each path the shortest end that no other path has, without the part in which all end alike.

    >>> suffixes([Path("plain/m"), Path("new/hot/m"), Path("old/hot/m")])
    ['plain', 'new/hot', 'old/hot']
    >>> suffixes([Path("runs/one"), Path("runs/two"), Path("runs/two")])
    ['one', 'two', 'two']
    """
    parts = [path.resolve().parts for path in paths]
    end = 0
    if len(set(parts)) > 1:
        while end < min(map(len, parts)) - 2 and len({part[-end - 1] for part in parts}) == 1:
            end += 1
    kept = [part[: len(part) - end] for part in parts]
    sharing: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for part in kept:
        for depth in range(1, len(part) + 1):
            sharing.setdefault(part[-depth:], set()).add(part)
    lengths = [next(depth for depth in range(1, len(part) + 1) if len(sharing[part[-depth:]]) == 1) for part in kept]
    return ["/".join(part[-depth:]) for part, depth in zip(kept, lengths, strict=True)]


def apart(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """What has to stand behind each name: the end of its path, or nothing where one path has that name.

    >>> apart(["m", "m", "n"], [Path("a/x"), Path("b/x"), Path("b/y")])
    ['a', 'b', '']
    """
    behind = [""] * len(names)
    places: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        places.setdefault(name, []).append(at)
    for alike in places.values():
        ends = suffixes([paths[at] for at in alike])
        if len(set(ends)) > 1:
            for at, end in zip(alike, ends, strict=True):
                behind[at] = end
    return behind


def distinct(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """A name for each path: as given where no two are alike, else with the end of the path.

    >>> distinct(["m", "m", "n"], [Path("a/x"), Path("b/x"), Path("b/y")])
    ['m (a)', 'm (b)', 'n']
    """
    return [f"{name} ({end})" if end else name for name, end in zip(names, apart(names, paths), strict=True)]


def spelled_alike(names: Iterable[str]) -> list[list[str]]:
    """Groups of names that differ by spaces, case or the way an accent is written, and by nothing else.

    >>> spelled_alike(["GPT 4", "gpt4", "other"])
    [['GPT 4', 'gpt4']]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(unicodedata.normalize("NFC", name).split()).casefold(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]
