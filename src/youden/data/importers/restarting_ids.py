"""Finds item ids that restart in each subject, task or file, and the column that makes them unique.

Several rows of an agent with one id are either repeats, or different items whose ids restart. Prompts decide, if the table has
any. Without prompts the name of the column decides; if it is neither a name of groups nor of repeats, an error asks the user.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

from youden.data.importers.foreign_files import wrong
from youden.data.importers.guessed_columns import SUBJECTS, Guess, Row, joined, noun_of, value, words_of
from youden.nouns import Json

GROUPS = SUBJECTS | frozenset(
    name
    for names in (
        "task subtask file filename section part test module unit track turn document passage book folder directory path",
    )
    for name in names.split()
)
"""Words that name a group of items within which ids may restart."""
NUMBERS = frozenset(
    name
    for names in ("repeat repetition replicate rep sample epoch seed run trial attempt iteration iter try draw",)
    for name in names.split()
)
"""Words that name the number of a repeat."""
REPEATS = NUMBERS | frozenset(
    name
    for names in (
        "round generation n k pass",
        "temperature top_p date day time timestamp created version batch rater annotator judge worker user session order",
    )
    for name in names.split()
)
"""Words that name what differs between responses to one item."""
MIN_LINED_UP = 0.5
"""Minimum fraction of rows whose item, under a composite key, has responses of two agents."""


def with_unique_items(guessed: Guess, rows: Sequence[Row], *, place: str) -> Guess:
    """Add the column within which item ids restart to the columns that name an item, and find the one that numbers repeats.

    Parameters
    ----------
    guessed : Guess
        The columns of the table; `guessed.places["item"]` is the column with ids.
    rows : sequence of mapping
        All flat rows of the table.
    place : str
        The table, for errors.

    Returns
    -------
    Guess
        `guessed` itself if no agent has two rows of one id; else with a column of repeats, if one numbers them, with an item of
        several columns, or with prompts in place of ids, if prompts differ and no column distinguishes items of one id.

    Raises
    ------
    ImportFormatError
        [import-ids]: if a column may distinguish items or repeats, and neither its name nor a prompt shows which.
    """
    return _with_repeats(_with_unique_items(guessed, rows, place=place), rows)


def _with_repeats(guessed: Guess, rows: Sequence[Row]) -> Guess:
    """Number repeats by the first column that is named like that and distinguishes all responses of an agent to an item."""
    item = guessed.places.get("item", guessed.places.get("prompt"))
    names = [name for name in guessed.unused if NUMBERS & words_of(name)]
    if item is None or not names or "repeat" in guessed.places:
        return guessed
    cells = [*zip(_column(rows, [*guessed.agents]), _column(rows, [item]), strict=True)]
    for name in names:
        repeats = _column(rows, [name])
        if None not in repeats and len(set(cells)) < len(cells) == len({*zip(cells, repeats, strict=True)}):
            unused = tuple(column for column in guessed.unused if column != name)
            return replace(guessed, places={**guessed.places, "repeat": name}, unused=unused)
    return guessed


def _with_unique_items(guessed: Guess, rows: Sequence[Row], *, place: str) -> Guess:
    item, prompt = guessed.places.get("item"), guessed.places.get("prompt")
    if item is None:
        return guessed
    agents = _column(rows, [*guessed.agents])
    ids = _column(rows, [item])
    repeat = [guessed.places["repeat"]] if "repeat" in guessed.places else []
    repeat_like = [name for name in guessed.unused if REPEATS & words_of(name)]
    repeats = _column(rows, repeat)
    texts = [
        tuple(str(row.get(name)) for name in (*guessed.wide, *filter(None, [guessed.places.get("text")])))
        for row in rows
    ]
    kept = [n for n, id_ in enumerate(ids) if id_ is not None and any(text != "None" for text in texts[n])]
    cells = defaultdict(set)
    for n in kept:
        cells[agents[n], ids[n], repeats[n]].add(texts[n])
    if all(len(several) == 1 for several in cells.values()):
        return guessed
    prompts = [None] * len(rows) if prompt is None else _column(rows, [prompt])
    by_prompt = {(agents[n], ids[n], prompts[n]) for n in kept if prompts[n] is not None}
    has_prompts = len(by_prompt) > 0
    if has_prompts and len(by_prompt) == len({key[:2] for key in by_prompt}):
        return guessed

    def is_unique(names: Sequence[str], repeats: Sequence[Json]) -> bool:
        groups = _column(rows, names)
        by_id = {(agents[n], ids[n], groups[n]) for n in kept}
        if any(groups[n] is None for n in kept) or len(by_id) == len({key[:2] for key in by_id}):
            return False
        if has_prompts:
            keys = [(agents[n], groups[n], ids[n]) for n in kept]
            return len(set(keys)) == len({(*key, prompts[n]) for key, n in zip(keys, kept, strict=True)})
        seen: dict[tuple[Json, ...], tuple[str, ...]] = {}
        return all(
            seen.setdefault((agents[n], groups[n], ids[n], repeats[n]), texts[n]) == texts[n] for n in kept
        ) and _lines_up(agents, groups, ids, kept)

    free = [name for name in guessed.unused if not REPEATS & words_of(name)]
    named = [name for name in free if GROUPS & words_of(name)]
    for labels in (repeats, _column(rows, [*repeat, *repeat_like])):
        for names in (*((name,) for name in named), *combinations(named[:4], 2)):
            if is_unique(names, labels):
                return _with_item(guessed, (*names, item))
    unclear = [name for name in free if name not in named and noun_of(name) != "about"]
    possible = [name for name in unclear if is_unique([name], repeats)]
    if has_prompts:
        return _with_item(guessed, (possible[0], item)) if possible else _by_prompt(guessed)
    if possible:
        raise wrong(place, _question(possible[0], item, agents, ids, kept), slug="import-ids")
    return guessed


def _with_item(guessed: Guess, columns: tuple[str, ...]) -> Guess:
    unused = tuple(name for name in guessed.unused if name not in columns)
    return replace(guessed, places={**guessed.places, "item": joined(columns)}, unused=unused)


def _by_prompt(guessed: Guess) -> Guess:
    places = {noun: column for noun, column in guessed.places.items() if noun != "item"}
    return replace(guessed, places=places, made=True, unused=(*guessed.unused, guessed.places["item"]))


def _question(column: str, item: str, agents: Sequence[Json], ids: Sequence[Json], kept: Sequence[int]) -> str:
    (agent, id_), _ = Counter((agents[n], ids[n]) for n in kept).most_common(1)[0]
    whose = "an agent" if agent is None else f"agent {agent!r}"
    return (
        f"{whose} has several responses to {item} {id_!r}, which differ in the column {column!r}. If these are different items, "
        f"use `youden import table` with --column 'item={column}+{item}'; if they are repeats, with --column 'repeat={column}'."
    )


def _column(rows: Sequence[Row], names: Sequence[str]) -> list[Json]:
    """Return one key per row, of these columns together; None if a part is missing, or if there are no columns."""
    return [_key(row, names) for row in rows]


def _key(row: Row, names: Sequence[str]) -> Json:
    parts = [value(row, name) for name in names]
    return None if not parts or None in parts else " / ".join(" ".join(str(part).split()) for part in parts)


def _lines_up(agents: Sequence[Json], groups: Sequence[Json], ids: Sequence[Json], kept: Sequence[int]) -> bool:
    """Return whether enough rows are of items with responses of two agents, and groups have two ids or more on average."""
    n_items = len({(groups[n], ids[n]) for n in kept})
    if n_items < 2 * len({groups[n] for n in kept}):
        return False
    if len({agents[n] for n in kept}) < 2:
        return True
    by_item = defaultdict(set)
    for n in kept:
        by_item[groups[n], ids[n]].add(agents[n])
    return sum(len(by_item[groups[n], ids[n]]) > 1 for n in kept) >= MIN_LINED_UP * len(kept)


def composite_columns(columns_together: str, columns: Collection[str]) -> tuple[str, ...] | None:
    """Split `subject+id` into the columns that name an item together; None if it is one column, or names one that is missing."""
    names = tuple(name.strip() for name in columns_together.split("+"))
    return (
        names if len(names) > 1 and columns_together not in columns and all(name in columns for name in names) else None
    )
