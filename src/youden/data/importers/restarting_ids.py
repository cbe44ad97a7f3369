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
"""Words in names of columns that may hold either groups of items or information about a response."""
MAX_LONE_FRACTION = 0.25
"""Maximum fraction of rows whose prompt no other agent has, if items are identified by prompts instead of ids."""
MIN_SHARED_FRACTION = 0.5
"""Minimum fraction of rows whose item, under a composite key, has responses of two agents."""

Keys = Sequence[str | None]
"""One key per row; None if the value is missing."""


def with_unique_items(roles: Roles, rows: Sequence[Row], *, location: str) -> Roles:
    """Return roles whose columns of items identify each item, although ids restart, for example in each subject.

    If ids restart, the item becomes a combination of columns that is unique, such as "subject + id". If there is none,
    and prompts differ, items are identified by their prompts. If a column numbers repeats, it is added to the roles.
    The roles are returned unchanged if no agent has two rows with the same id.

    Parameters
    ----------
    roles : Roles
        Roles of the columns of the table.
    rows : sequence of dict
        All rows of the table; no value is nested.
    location : str
        Name of the table, for error messages.

    Returns
    -------
    Roles
        The given roles with another column for the items, an additional one for repeats, or unchanged.

    Raises
    ------
    ImportFormatError
        [import-ids] if a column may either make ids unique or number repeats, and neither its name nor a prompt
        decides; or if prompts with the same id differ, and too many of them belong to a single agent.
    """
    table = TableColumns(rows)
    roles = _remove_run_columns(roles, table)
    roles = _with_composite_item(roles, table, location=location)
    return _with_repeat_column(roles, table)


def _remove_run_columns(roles: Roles, table: TableColumns) -> Roles:
    """Remove columns of numbered runs (1, 2 or run-1, run-2) from the agents if other columns name models."""
    run_columns = set()
    for name in roles.agents:
        values_without_number = {re.sub(r"\d+$", "#", str(value)) for value in table[name].keys}
        if "run" in split_into_words(name) and len(values_without_number) == 1:
            run_columns.add(name)

    model_columns = tuple(name for name in roles.agents if name not in run_columns)
    if not run_columns or not any(is_agent_name(name) for name in model_columns):
        return roles
    columns = {**roles.columns, "agent": join_names(model_columns)}
    return replace(roles, agents=model_columns, columns=columns, unused=(*roles.unused, *run_columns))


def _with_repeat_column(roles: Roles, table: TableColumns) -> Roles:
    """Add the first column whose name and values number the responses of an agent to an item, if there is one."""
    item = roles.columns.get("item", roles.columns.get("prompt"))
    candidates = [name for name in roles.unused if NUMBERS & split_into_words(name)]
    if item is None or not candidates or "repeat" in roles.columns:
        return roles

    agents = table.join_columns([*roles.agents])
    cells = list(zip(agents, table.join_columns([item]), strict=True))
    has_repeats = len(set(cells)) < len(cells)
    if not has_repeats:
        return roles

    for candidate in candidates:
        repeats = table.join_columns([candidate])
        are_distinct = len(set(zip(cells, repeats, strict=True))) == len(cells)
        if None not in repeats and are_distinct:
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
        """Read the agents, ids, prompts, repeats and texts of all rows.

        All rows are kept. `answered` contains the positions of the rows with an id and at least one text; a row has several
        texts if each agent has a column of its own.
        """
        columns = roles.columns
        text_columns = [*roles.agent_columns]
        if "text" in columns:
            text_columns.append(columns["text"])
        values_by_column = [map(str, table[name].values) for name in text_columns]
        texts = list(zip(*values_by_column, strict=True))

        ids = table.join_columns([columns["item"]])
        prompts: Keys = [None] * table.n_rows
        if columns.get("prompt") is not None:
            prompts = table.join_columns([columns["prompt"]])
        repeat_columns = [columns["repeat"]] if "repeat" in columns else []

        answered = []
        for row, id_ in enumerate(ids):
            if id_ is not None and any(text != "None" for text in texts[row]):
                answered.append(row)
        return cls(
            agents=table.join_columns([*roles.agents]),
            ids=ids,
            prompts=prompts,
            repeats=table.join_columns(repeat_columns),
            texts=texts,
            answered=answered,
        )

    @cached_property
    def prompts_by_cell(self) -> set[tuple[str | None, ...]]:
        """Triples of agent, id and prompt of the rows that have a prompt."""
        triples = {(self.agents[row], self.ids[row], self.prompts[row]) for row in self.answered}
        return {(agent, id_, prompt) for agent, id_, prompt in triples if prompt is not None}

    @property
    def has_prompts(self) -> bool:
        """Whether at least one row has a prompt."""
        return bool(self.prompts_by_cell)

    @property
    def has_one_prompt_per_cell(self) -> bool:
        """Whether there are prompts, and no agent has two prompts with the same id."""
        cells = {(agent, id_) for agent, id_, _ in self.prompts_by_cell}
        return self.has_prompts and len(cells) == len(self.prompts_by_cell)

    @property
    def has_one_text_per_cell(self) -> bool:
        """Whether no agent has different responses with the same id and the same number of the repeat."""
        first_texts: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        for row in self.answered:
            key = (self.agents[row], self.ids[row], self.repeats[row])
            if first_texts.setdefault(key, self.texts[row]) != self.texts[row]:
                return False
        return True

    def has_unique_ids(self, groups: Keys, repeats: Keys) -> bool:
        """Return whether group and id together identify an item, while the id alone does not.

        An agent must have the same id in two groups, and every row with a response needs a group. If there are prompts,
        an agent, group and id must have a single prompt. Otherwise, an agent, group, id and repeat must have a single
        response, and the agents must seem to share items (see `has_shared_items`).

        groups : keys (n_rows,) of groups of items, such as subjects or files
        repeats : keys (n_rows,) that distinguish repeats
        """
        if any(groups[row] is None for row in self.answered):
            return False
        cells = {(self.agents[row], groups[row], self.ids[row]) for row in self.answered}
        cells_without_group = {(agent, id_) for agent, _, id_ in cells}
        if len(cells) == len(cells_without_group):
            return False

        if self.has_prompts:
            cells_with_prompt = set()
            for row in self.answered:
                cells_with_prompt.add((self.agents[row], groups[row], self.ids[row], self.prompts[row]))
            return len(cells) == len(cells_with_prompt)

        first_texts: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        for row in self.answered:
            key = (self.agents[row], groups[row], self.ids[row], repeats[row])
            if first_texts.setdefault(key, self.texts[row]) != self.texts[row]:
                return False
        return self.has_shared_items(groups)

    def has_shared_items(self, groups: Keys) -> bool:
        """Return whether agents seem to share the items that group and id identify.

        Groups must have at least two items on average. If there are several agents, at least half of the rows must
        belong to items with responses of two agents.

        groups : keys (n_rows,) of groups of items
        """
        agents_by_item = defaultdict(set)
        for row in self.answered:
            agents_by_item[groups[row], self.ids[row]].add(self.agents[row])

        n_groups = len({groups[row] for row in self.answered})
        if len(agents_by_item) < 2 * n_groups:
            return False
        n_agents = len({self.agents[row] for row in self.answered})
        if n_agents < 2:
            return True

        n_shared = 0
        for row in self.answered:
            agents = agents_by_item[groups[row], self.ids[row]]
            n_shared += len(agents) > 1
        return n_shared >= MIN_SHARED_FRACTION * len(self.answered)

    def find_lone_prompts(self) -> list[int]:
        """Return the positions of rows whose prompt only one agent has; empty if there is only one agent."""
        agents_by_prompt = defaultdict(set)
        for row in self.answered:
            agents_by_prompt[self.prompts[row]].add(self.agents[row])
        if len({self.agents[row] for row in self.answered}) < 2:
            return []
        return [row for row in self.answered if len(agents_by_prompt[self.prompts[row]]) == 1]


def _with_composite_item(roles: Roles, table: TableColumns, *, location: str) -> Roles:
    """Identify items by their ids and the columns within which ids restart, or by their prompts.

    roles : columns by role
    location : path of the table, for errors

    Raises: ImportFormatError [import-ids] if it is unclear whether rows with the same id are repeats.
    """
    item = roles.columns.get("item")
    prompt = roles.columns.get("prompt")
    if item is None:
        return roles

    responses = _Responses.from_table(roles, table)
    if responses.has_one_prompt_per_cell:
        return roles
    is_numbered_by_file = responses.has_prompts and roles.columns.get("repeat") == FILE_NUMBER
    if responses.has_one_text_per_cell and not is_numbered_by_file:
        return roles

    # the column of prompts may hold groups of items instead; try again without prompts
    if prompt is not None and _has_groups(prompt, responses):
        other_columns = {role: column for role, column in roles.columns.items() if role != "prompt"}
        without_prompts = replace(roles, columns=other_columns, unused=(*roles.unused, prompt))
        return _with_composite_item(without_prompts, table, location=location)

    group_columns = _find_group_columns(roles, table, responses)
    if group_columns:
        return _with_item_columns(roles, (*group_columns, item))
    return _with_unclear_groups(roles, table, responses, location=location)


def _find_named_groups(roles: Roles, responses: _Responses) -> tuple[list[str], list[str]]:
    """Return the unused columns that may separate items with the same id: those named like groups of items, and others.

    roles : columns by role
    responses : rows of the table, with their ids
    """
    # The names of the columns for folders and files do not depend on their values, so only prompts can confirm them.
    unreliable = () if responses.has_prompts else (FOLDER, FILE)
    groups = []
    others = []
    for name in roles.unused:
        words = split_into_words(name)
        if words & REPEATS:
            continue
        if words & GROUPS and name not in unreliable:
            groups.append(name)
        else:
            others.append(name)
    return groups, others


def _find_group_columns(roles: Roles, table: TableColumns, responses: _Responses) -> tuple[str, ...]:
    """Return the one or two columns named like groups of items that make ids unique; empty if none do.

    roles : columns by role
    responses : rows of the table, with their ids
    """
    group_columns, _ = _find_named_groups(roles, responses)
    single_columns = [(name,) for name in group_columns]
    pairs_of_columns = list(combinations(group_columns[:4], 2))

    repeat_columns = [name for name in roles.unused if REPEATS & split_into_words(name)]
    if "repeat" in roles.columns:
        repeat_columns.insert(0, roles.columns["repeat"])

    for repeats in (responses.repeats, table.join_columns(repeat_columns)):
        for columns in (*single_columns, *pairs_of_columns):
            if responses.has_unique_ids(table.join_columns(columns), repeats):
                return columns
    return ()


def _with_unclear_groups(roles: Roles, table: TableColumns, responses: _Responses, *, location: str) -> Roles:
    """Identify items by an unused column whose name does not show that it separates items, or else by prompts.

    roles : columns by role
    responses : rows of the table, with their ids
    location : path of the table, for errors

    Raises: ImportFormatError [import-ids] if there is such a column and no prompt confirms it, or if too many rows have
        a prompt that no other agent has.
    """
    item = roles.columns["item"]
    _, other_columns = _find_named_groups(roles, responses)
    separating_column = None
    for name in other_columns:
        may_separate = infer_role(name) != "about" or _KINDS & split_into_words(name)
        if may_separate and responses.has_unique_ids(table.join_columns([name]), responses.repeats):
            separating_column = name
            break

    if not responses.has_prompts:
        if separating_column is None:
            return roles
        raise import_error(location, _describe_ambiguity(separating_column, item, responses), slug="import-ids")

    if separating_column is not None:
        return _with_item_columns(roles, (separating_column, item))
    lone_rows = responses.find_lone_prompts()
    if len(lone_rows) > MAX_LONE_FRACTION * len(responses.answered):
        row = lone_rows[0]
        problem = _describe_lone_prompt(item, responses.agents[row], responses.ids[row])
        raise import_error(location, problem, slug="import-ids")
    return _with_items_by_prompt(roles)


def _with_item_columns(roles: Roles, columns: tuple[str, ...]) -> Roles:
    """Return roles in which `columns` together identify an item."""
    unused = tuple(name for name in roles.unused if name not in columns)
    return replace(roles, columns={**roles.columns, "item": join_names(columns)}, unused=unused)


def _with_items_by_prompt(roles: Roles) -> Roles:
    """Return roles in which the prompt identifies an item, and the former column of ids is unused."""
    columns = {role: column for role, column in roles.columns.items() if role != "item"}
    return replace(roles, columns=columns, has_generated_ids=True, unused=(*roles.unused, roles.columns["item"]))


def _has_groups(column: str, responses: _Responses) -> bool:
    """Return whether a supposed column of prompts holds groups of items, within which ids restart."""
    agents, ids, groups = responses.agents, responses.ids, responses.prompts
    distinct_groups = set(groups) - {None}
    has_spaces = any(" " in str(group) for group in distinct_groups)
    if has_spaces and not SUBJECTS & split_into_words(column):
        return False

    items = {(group, id_) for group, id_ in zip(groups, ids, strict=True) if None not in (group, id_)}
    has_several_items_per_group = len(items) >= 2 * len(distinct_groups)
    n_cells = len(set(zip(agents, groups, ids, strict=True)))
    n_agent_groups = len(set(zip(agents, groups, strict=True)))
    has_several_ids_in_a_group = n_cells > n_agent_groups
    return has_several_items_per_group and has_several_ids_in_a_group


def _describe_lone_prompt(item: str, agent: str | None, id_: str | None) -> str:
    """Describe that prompts of one id differ, with an example: the column of ids, an agent and an id."""
    return (
        f"agent {agent!r} has responses to several prompts under {item} {id_!r}, and no other agent has these prompts. "
        "Remove rows that are not responses of the agents, such as those of a grader, or name the columns: --column item=NAME."
    )


def _describe_ambiguity(column: str, item: str, responses: _Responses) -> str:
    """Return the sentences that say that a column may separate items or number repeats, and how to decide.

    column : the ambiguous column
    item : column of the ids of items
    responses : rows of the table, with their ids
    """
    counts = Counter((responses.agents[row], responses.ids[row]) for row in responses.answered)
    (agent, id_), _ = counts.most_common(1)[0]
    subject = "an agent" if not agent else f"agent {agent!r}"
    return (
        f"{subject} has several responses to {item} {id_!r}, which differ in the column {column!r}. If these are different "
        f"items, use `youden import table` with --column 'item={column}+{item}'; if they are repeats, with --column "
        f"'repeat={column}'."
    )


def split_composite(text: str, columns: Collection[str]) -> tuple[str, ...] | None:
    """Split a text such as `subject+id` into the names of the columns that it joins.

    Returns None if the text is the name of a single column, or if one of the columns does not exist.
    """
    names = tuple(name.strip() for name in text.split("+"))
    is_composite = len(names) > 1 and text not in columns and all(name in columns for name in names)
    return names if is_composite else None
