"""Find item ids that restart in each subject, task or file, and the column that makes them unique.

If an agent has several rows with one id, they are either repeats, or different items whose ids restart. Prompts decide
if the table has any. Otherwise the name of a column decides; if it does not, the error asks the user.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from youden.data.importers.column_names import SUBJECTS, infer_role, is_agent_name, split_into_words
from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, Row, TableColumns, join_names
from youden.data.importers.foreign_files import import_error

GROUPS = SUBJECTS | frozenset(
    name
    for names in (
        "task subtask file filename section part test module unit track turn document passage book folder directory path",
    )
    for name in names.split()
)
"""Words for groups of items within which ids may restart."""
NUMBERS = frozenset(
    name
    for names in ("repeat repetition replicate rep sample epoch seed run trial attempt iteration iter try draw",)
    for name in names.split()
)
"""Words for the number of a repeat."""
REPEATS = NUMBERS | frozenset(
    name
    for names in (
        "round generation n k pass",
        "temperature top_p date day time timestamp created version batch rater annotator judge worker user session order",
    )
    for name in names.split()
)
"""Words for columns whose values may differ between responses to one item, so that they do not separate items."""
_KINDS = frozenset({"type", "kind", "level", "grade"})
"""Words for either groups of items or information about a response."""
MAX_LONE_FRACTION = 0.25
"""Maximum fraction of rows whose prompt no other agent has, if items are identified by prompts instead of ids."""
MIN_SHARED_FRACTION = 0.5
"""Minimum fraction of rows whose item, under a composite key, has responses of two agents."""

Keys = Sequence[str | None]
"""One key per row; None if the value is missing."""


def with_unique_items(roles: Roles, rows: Sequence[Row], *, location: str) -> Roles:
    """Return roles in which items are unique if their ids restart, with a column of repeats if one numbers them.

    If no agent has two rows with one id, `roles` are returned unchanged. If ids restart, the item becomes several
    columns that together are unique or, if none are and the prompts differ, the prompt.

    rows : all flat rows of the table
    location : the table, for messages

    Raises: ImportFormatError [import-ids] if a column may either make ids unique or number repeats, and neither its
        name nor a prompt decides; or if prompts under one id differ, and too many of them belong to a single agent.
    """
    table = TableColumns(rows)
    roles = _with_models_as_agents(roles, table)
    roles = _with_composite_item(roles, table, location=location)
    return _with_repeat_column(roles, table)


def _with_models_as_agents(roles: Roles, table: TableColumns) -> Roles:
    """Remove columns of numbered runs (1, 2 or run-1, run-2) from the agents if other columns name models."""
    runs = {
        name
        for name in roles.agents
        if "run" in split_into_words(name) and len({re.sub(r"\d+$", "#", str(key)) for key in table[name].keys}) == 1
    }
    models = tuple(name for name in roles.agents if name not in runs)
    if not runs or not any(is_agent_name(name) for name in models):
        return roles
    columns = {**roles.columns, "agent": join_names(models)}
    return replace(roles, agents=models, columns=columns, unused=(*roles.unused, *runs))


def _with_repeat_column(roles: Roles, table: TableColumns) -> Roles:
    """Add the first column that, by its name and its values, numbers the responses of an agent to an item."""
    item = roles.columns.get("item", roles.columns.get("prompt"))
    candidates = [name for name in roles.unused if NUMBERS & split_into_words(name)]
    if item is None or not candidates or "repeat" in roles.columns:
        return roles

    cells = [*zip(table.get_keys([*roles.agents]), table.get_keys([item]), strict=True)]
    for candidate in candidates:
        repeats = table.get_keys([candidate])
        has_repeated_cells = len(set(cells)) < len(cells)
        are_distinct = len({*zip(cells, repeats, strict=True)}) == len(cells)
        if None not in repeats and has_repeated_cells and are_distinct:
            unused = tuple(name for name in roles.unused if name != candidate)
            return replace(roles, columns={**roles.columns, "repeat": candidate}, unused=unused)
    return roles


@dataclass(frozen=True)
class _Responses:
    """Keys of all rows of a table, and the positions of the rows that have an id and a response."""

    agents: Keys
    ids: Keys
    prompts: Keys
    repeats: Keys
    texts: Sequence[tuple[str, ...]]
    answered: Sequence[int]

    @classmethod
    def from_table(cls, roles: Roles, table: TableColumns) -> _Responses:
        ids = table.get_keys([roles.columns["item"]])
        prompt = roles.columns.get("prompt")
        repeat = [roles.columns["repeat"]] if "repeat" in roles.columns else []
        text = [roles.columns["text"]] if "text" in roles.columns else []
        text_columns = [map(str, table[name].values) for name in (*roles.agent_columns, *text)]
        texts = [*zip(*text_columns, strict=True)]
        return cls(
            agents=table.get_keys([*roles.agents]),
            ids=ids,
            prompts=[None] * table.n_rows if prompt is None else table.get_keys([prompt]),
            repeats=table.get_keys(repeat),
            texts=texts,
            answered=[n for n, id_ in enumerate(ids) if id_ is not None and any(text != "None" for text in texts[n])],
        )

    @cached_property
    def prompts_by_cell(self) -> set[tuple[str | None, ...]]:
        """Triples of agent, id and prompt of the rows that have a prompt."""
        rows = ((self.agents[n], self.ids[n], self.prompts[n]) for n in self.answered)
        return {row for row in rows if row[2] is not None}

    @property
    def has_prompts(self) -> bool:
        return bool(self.prompts_by_cell)

    @property
    def has_one_prompt_per_cell(self) -> bool:
        """Whether there are prompts, and no agent has two prompts under one id."""
        prompts = self.prompts_by_cell
        return self.has_prompts and len(prompts) == len({row[:2] for row in prompts})

    @property
    def has_one_text_per_cell(self) -> bool:
        """Whether no agent has different responses with the same id and the same number of the repeat."""
        texts = defaultdict(set)
        for n in self.answered:
            texts[self.agents[n], self.ids[n], self.repeats[n]].add(self.texts[n])
        return all(len(distinct) == 1 for distinct in texts.values())

    def has_unique_ids(self, groups: Keys, repeats: Keys) -> bool:
        """Return whether id and group together identify an item, while the id alone does not.

        groups : keys (n_rows,) of the groups of items
        repeats : keys (n_rows,) that distinguish repeats
        """
        rows = {(self.agents[n], self.ids[n], groups[n]) for n in self.answered}
        separates_no_ids = len(rows) == len({row[:2] for row in rows})
        if any(groups[n] is None for n in self.answered) or separates_no_ids:
            return False

        if self.has_prompts:
            keys = [(self.agents[n], groups[n], self.ids[n]) for n in self.answered]
            with_prompts = {(*key, self.prompts[n]) for key, n in zip(keys, self.answered, strict=True)}
            return len(set(keys)) == len(with_prompts)

        first_texts: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        for n in self.answered:
            key = (self.agents[n], groups[n], self.ids[n], repeats[n])
            if first_texts.setdefault(key, self.texts[n]) != self.texts[n]:
                return False
        return self.has_shared_items(groups)

    def has_shared_items(self, groups: Keys) -> bool:
        """Return whether at least half of the rows are of items of two agents, and a group has two items on average."""
        items = {(groups[n], self.ids[n]) for n in self.answered}
        if len(items) < 2 * len({groups[n] for n in self.answered}):
            return False
        if len({self.agents[n] for n in self.answered}) < 2:
            return True

        agents_by_item = defaultdict(set)
        for n in self.answered:
            agents_by_item[groups[n], self.ids[n]].add(self.agents[n])
        n_shared = sum(len(agents_by_item[groups[n], self.ids[n]]) > 1 for n in self.answered)
        return n_shared >= MIN_SHARED_FRACTION * len(self.answered)

    def find_lone_prompts(self) -> list[int]:
        """Return the positions of rows whose prompt only one agent has; empty if there is only one agent."""
        agents_by_prompt = defaultdict(set)
        for n in self.answered:
            agents_by_prompt[self.prompts[n]].add(self.agents[n])
        if len({self.agents[n] for n in self.answered}) < 2:
            return []
        return [n for n in self.answered if len(agents_by_prompt[self.prompts[n]]) == 1]


def _with_composite_item(roles: Roles, table: TableColumns, *, location: str) -> Roles:
    """Make the item a combination of the id and the columns within which ids restart, or of the prompts.

    Raises: ImportFormatError [import-ids].
    """
    item, prompt = roles.columns.get("item"), roles.columns.get("prompt")
    if item is None:
        return roles

    responses = _Responses.from_table(roles, table)
    is_numbered_by_file = responses.has_prompts and roles.columns.get("repeat") == FILE_NUMBER
    if responses.has_one_prompt_per_cell or (responses.has_one_text_per_cell and not is_numbered_by_file):
        return roles
    if prompt is not None and _has_groups(prompt, responses):
        columns = {role: column for role, column in roles.columns.items() if role != "prompt"}
        without_prompts = replace(roles, columns=columns, unused=(*roles.unused, prompt))
        return _with_composite_item(without_prompts, table, location=location)

    groups = _find_group_columns(roles, table, responses)
    if groups:
        return _with_item_columns(roles, (*groups, item))
    return _with_unclear_groups(roles, table, responses, location=location)


def _find_named_groups(roles: Roles, responses: _Responses) -> tuple[list[str], list[str]]:
    """Return the unused columns that may separate items: those named like groups of items, and the others."""
    candidates = [name for name in roles.unused if not REPEATS & split_into_words(name)]
    ignored = (
        () if responses.has_prompts else (FOLDER, FILE)
    )  # the names of these two columns say nothing of their values
    by_name = [name for name in candidates if GROUPS & split_into_words(name) and name not in ignored]
    return by_name, [name for name in candidates if name not in by_name]


def _find_group_columns(roles: Roles, table: TableColumns, responses: _Responses) -> tuple[str, ...]:
    """Return the columns, one or two named like groups of items, that make ids unique; empty if none do."""
    by_name, _ = _find_named_groups(roles, responses)
    repeat = [roles.columns["repeat"]] if "repeat" in roles.columns else []
    repeat_candidates = [name for name in roles.unused if REPEATS & split_into_words(name)]
    choices = [*((name,) for name in by_name), *combinations(by_name[:4], 2)]
    for repeats in (responses.repeats, table.get_keys([*repeat, *repeat_candidates])):
        for names in choices:
            if responses.has_unique_ids(table.get_keys(names), repeats):
                return names
    return ()


def _with_unclear_groups(roles: Roles, table: TableColumns, responses: _Responses, *, location: str) -> Roles:
    """Identify items by prompts, or by a column whose name does not tell that it separates items.

    Raises: ImportFormatError [import-ids] if there are no prompts that decide.
    """
    item = roles.columns["item"]
    _, others = _find_named_groups(roles, responses)
    unclear = [name for name in others if infer_role(name) != "about" or _KINDS & split_into_words(name)]
    separating = [name for name in unclear if responses.has_unique_ids(table.get_keys([name]), responses.repeats)]
    if not responses.has_prompts:
        if separating:
            raise import_error(location, _describe_ambiguity(separating[0], item, responses), slug="import-ids")
        return roles

    if separating:
        return _with_item_columns(roles, (separating[0], item))
    lone = responses.find_lone_prompts()
    if len(lone) > MAX_LONE_FRACTION * len(responses.answered):
        problem = _describe_lone_prompt(item, responses.agents[lone[0]], responses.ids[lone[0]])
        raise import_error(location, problem, slug="import-ids")
    return _with_items_by_prompt(roles)


def _with_item_columns(roles: Roles, columns: tuple[str, ...]) -> Roles:
    unused = tuple(name for name in roles.unused if name not in columns)
    return replace(roles, columns={**roles.columns, "item": join_names(columns)}, unused=unused)


def _with_items_by_prompt(roles: Roles) -> Roles:
    columns = {role: column for role, column in roles.columns.items() if role != "item"}
    return replace(roles, columns=columns, has_generated_ids=True, unused=(*roles.unused, roles.columns["item"]))


def _has_groups(column: str, responses: _Responses) -> bool:
    """Return whether a supposed column of prompts holds groups of items, within which ids restart."""
    agents, ids, values = responses.agents, responses.ids, responses.prompts
    groups = {*values} - {None}
    has_spaces = any(" " in str(group) for group in groups)
    n_items = len({pair for pair in zip(values, ids, strict=True) if None not in pair})
    n_repeated = len({*zip(agents, values, ids, strict=True)}) - len({*zip(agents, values, strict=True)})
    may_be_group = not has_spaces or bool(SUBJECTS & split_into_words(column))
    return may_be_group and n_items >= 2 * len(groups) and n_repeated > 0


def _describe_lone_prompt(item: str, agent: str | None, id_: str | None) -> str:
    return (
        f"agent {agent!r} has responses to several prompts under {item} {id_!r}, and no other agent has these prompts. "
        "Remove rows that are not responses of the agents, such as those of a grader, or name the columns: --column item=NAME."
    )


def _describe_ambiguity(column: str, item: str, responses: _Responses) -> str:
    counts = Counter((responses.agents[n], responses.ids[n]) for n in responses.answered)
    (agent, id_), _ = counts.most_common(1)[0]
    subject = "an agent" if not agent else f"agent {agent!r}"
    return (
        f"{subject} has several responses to {item} {id_!r}, which differ in the column {column!r}. If these are different "
        f"items, use `youden import table` with --column 'item={column}+{item}'; if they are repeats, with --column "
        f"'repeat={column}'."
    )


def split_composite(text: str, columns: Collection[str]) -> tuple[str, ...] | None:
    """Split `subject+id` into the columns that together name an item.

    Returns None if the text names a single column, or a column that is missing.
    """
    names = tuple(name.strip() for name in text.split("+"))
    is_composite = len(names) > 1 and text not in columns and all(name in columns for name in names)
    return names if is_composite else None
