"""Finds item ids that start again in each subject, task or file, and the column that makes them unique together with the id.

If an agent has several rows of one id, they are repeats, or different items whose ids restart. Prompts decide, if the table has
any. Without prompts the name of the column decides, and a column whose name says neither is asked about.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

from youden.data.importers.column_names import SUBJECTS, names_agents_surely, role_of_name, words_of
from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, Row, TableColumns, joined
from youden.data.importers.foreign_files import wrong

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
_KINDS = frozenset({"type", "kind", "level", "grade"})
"""Words that name groups of items, or what is known of a response."""
MOST_LONE = 0.25
"""Fraction of rows whose prompt no other agent may have, if prompts tell apart what ids do not."""
MIN_LINED_UP = 0.5
"""Fraction of rows whose item, under a composite key, has to have responses of two agents."""


def with_unique_items(found: Roles, rows: Sequence[Row], *, place: str) -> Roles:
    """Add the column within which item ids restart to the columns that name an item, and find the one that numbers repeats.

    Parameters
    ----------
    found : Roles
        The columns of the table; `found.columns["item"]` is the column with ids.
    rows : sequence of mapping
        All flat rows of the table.
    place : str
        The table, for errors.

    Returns
    -------
    Roles
        `found` itself if no agent has two rows of one id; else with a column of repeats, if one numbers them, with an item of
        several columns, or with prompts in place of ids, if prompts differ and no column tells the ids apart.

    Raises
    ------
    ImportFormatError [import-ids]
        If a column may tell ids apart or number repeats, and neither its name nor a prompt says which.
    """
    table = TableColumns(rows)
    return _with_repeats(_with_unique_items(_without_runs(found, table), table, place=place), table)


def _without_runs(found: Roles, table: TableColumns) -> Roles:
    """Take agents by models alone if they are named by models and numbered runs: 1, 2 or run-1, run-2."""
    runs = {
        name
        for name in found.agents
        if "run" in words_of(name) and len({re.sub(r"\d+$", "#", str(key)) for key in table[name].keys}) == 1
    }
    models = tuple(name for name in found.agents if name not in runs)
    if not runs or not any(names_agents_surely(name) for name in models):
        return found
    return replace(
        found, agents=models, columns={**found.columns, "agent": joined(models)}, unused=(*found.unused, *runs)
    )


def _with_repeats(found: Roles, table: TableColumns) -> Roles:
    """Take the first column that is called as one and tells all responses of an agent to an item apart as numbers of repeats."""
    item = found.columns.get("item", found.columns.get("prompt"))
    names = [name for name in found.unused if NUMBERS & words_of(name)]
    if item is None or not names or "repeat" in found.columns:
        return found
    cells = [*zip(table.keys_of([*found.agents]), table.keys_of([item]), strict=True)]
    for name in names:
        repeats = table.keys_of([name])
        if None not in repeats and len(set(cells)) < len(cells) == len({*zip(cells, repeats, strict=True)}):
            unused = tuple(other for other in found.unused if other != name)
            return replace(found, columns={**found.columns, "repeat": name}, unused=unused)
    return found


def _with_unique_items(found: Roles, table: TableColumns, *, place: str) -> Roles:
    item, prompt = found.columns.get("item"), found.columns.get("prompt")
    if item is None:
        return found
    agents = table.keys_of([*found.agents])
    ids = table.keys_of([item])
    repeat = [found.columns["repeat"]] if "repeat" in found.columns else []
    apart = [name for name in found.unused if REPEATS & words_of(name)]
    repeats = table.keys_of(repeat)
    text = [found.columns["text"]] if "text" in found.columns else []
    texts = [*zip(*(map(str, table[name].values) for name in (*found.wide, *text)), strict=True)]
    kept = [n for n, one in enumerate(ids) if one is not None and any(text != "None" for text in texts[n])]
    cells = defaultdict(set)
    for n in kept:
        cells[agents[n], ids[n], repeats[n]].add(texts[n])
    prompts = [None] * table.n_rows if prompt is None else table.keys_of([prompt])
    by_prompt = {(agents[n], ids[n], prompts[n]) for n in kept if prompts[n] is not None}
    has_prompts = len(by_prompt) > 0
    one_prompt = has_prompts and len(by_prompt) == len({key[:2] for key in by_prompt})
    are_apart = all(len(several) == 1 for several in cells.values()) and not (has_prompts and repeat == [FILE_NUMBER])
    if one_prompt or are_apart:
        return found
    if prompt is not None and _names_groups(prompt, agents, ids, prompts):
        without = {noun: column for noun, column in found.columns.items() if noun != "prompt"}
        return _with_unique_items(replace(found, columns=without, unused=(*found.unused, prompt)), table, place=place)

    def is_unique(names: Sequence[str], repeats: Sequence[str | None]) -> bool:
        groups = table.keys_of(names)
        by_id = {(agents[n], ids[n], groups[n]) for n in kept}
        if any(groups[n] is None for n in kept) or len(by_id) == len({key[:2] for key in by_id}):
            return False
        if has_prompts:
            keys = [(agents[n], groups[n], ids[n]) for n in kept]
            return len(set(keys)) == len({(*key, prompts[n]) for key, n in zip(keys, kept, strict=True)})
        seen: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        return all(
            seen.setdefault((agents[n], groups[n], ids[n], repeats[n]), texts[n]) == texts[n] for n in kept
        ) and _lines_up(agents, groups, ids, kept)

    free = [name for name in found.unused if not REPEATS & words_of(name)]
    places = () if has_prompts else (FOLDER, FILE)  # their names say nothing of what they hold
    named = [name for name in free if GROUPS & words_of(name) and name not in places]
    for told_apart in (repeats, table.keys_of([*repeat, *apart])):
        for names in (*((name,) for name in named), *combinations(named[:4], 2)):
            if is_unique(names, told_apart):
                return _with_item(found, (*names, item))
    unclear = [
        name for name in free if name not in named and (role_of_name(name) != "about" or _KINDS & words_of(name))
    ]
    others = [name for name in unclear if is_unique([name], repeats)]
    if has_prompts:
        if not others and len(lone := _lone(agents, prompts, kept)) > MOST_LONE * len(kept):
            raise wrong(place, _foreign(item, agents[lone[0]], ids[lone[0]]), slug="import-ids")
        return _with_item(found, (others[0], item)) if others else _by_prompt(found)
    if others:
        raise wrong(place, _question(others[0], item, agents, ids, kept), slug="import-ids")
    return found


def _with_item(found: Roles, columns: tuple[str, ...]) -> Roles:
    unused = tuple(name for name in found.unused if name not in columns)
    return replace(found, columns={**found.columns, "item": joined(columns)}, unused=unused)


def _by_prompt(found: Roles) -> Roles:
    places = {noun: column for noun, column in found.columns.items() if noun != "item"}
    return replace(found, columns=places, made=True, unused=(*found.unused, found.columns["item"]))


def _names_groups(
    column: str, agents: Sequence[str | None], ids: Sequence[str | None], values: Sequence[str | None]
) -> bool:
    """Tell whether a column taken for prompts names groups instead, in each of which ids start again."""
    groups = {*values} - {None}
    is_short = not any(" " in str(one) for one in groups)
    n_items = len({pair for pair in zip(values, ids, strict=True) if None not in pair})
    n_repeated = len({*zip(agents, values, ids, strict=True)}) - len({*zip(agents, values, strict=True)})
    return bool(is_short or SUBJECTS & words_of(column)) and n_items >= 2 * len(groups) and n_repeated > 0


def _lone(agents: Sequence[str | None], prompts: Sequence[str | None], kept: Sequence[int]) -> list[int]:
    """The rows whose prompt only one of several agents has."""
    having = defaultdict(set)
    for n in kept:
        having[prompts[n]].add(agents[n])
    return [n for n in kept if len(having[prompts[n]]) == 1] if len({agents[n] for n in kept}) > 1 else []


def _foreign(item: str, agent: str | None, one: str | None) -> str:
    return (
        f"agent {agent!r} has responses to several prompts under {item} {one!r}, and no other agent has these prompts. "
        "Remove rows that are not responses of the agents, such as those of a grader, or name the columns: --column item=NAME."
    )


def _question(
    column: str, item: str, agents: Sequence[str | None], ids: Sequence[str | None], kept: Sequence[int]
) -> str:
    (agent, one), _ = Counter((agents[n], ids[n]) for n in kept).most_common(1)[0]
    whose = "an agent" if not agent else f"agent {agent!r}"
    return (
        f"{whose} has several responses to {item} {one!r}, which differ in the column {column!r}. If these are different items, "
        f"use `youden import table` with --column 'item={column}+{item}'; if they are repeats, with --column 'repeat={column}'."
    )


def _lines_up(
    agents: Sequence[str | None], groups: Sequence[str | None], ids: Sequence[str | None], kept: Sequence[int]
) -> bool:
    """Tell whether enough rows are of items that two agents have, and each group has several ids."""
    n_items = len({(groups[n], ids[n]) for n in kept})
    if n_items < 2 * len({groups[n] for n in kept}):
        return False
    if len({agents[n] for n in kept}) < 2:
        return True
    by_item = defaultdict(set)
    for n in kept:
        by_item[groups[n], ids[n]].add(agents[n])
    return sum(len(by_item[groups[n], ids[n]]) > 1 for n in kept) >= MIN_LINED_UP * len(kept)


def composite_columns(said: str, columns: Collection[str]) -> tuple[str, ...] | None:
    """Split `subject+id` into the columns that name an item together; None if it is one column, or names one that is missing."""
    names = tuple(name.strip() for name in said.split("+"))
    return names if len(names) > 1 and said not in columns and all(name in columns for name in names) else None
