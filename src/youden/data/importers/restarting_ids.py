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

from youden.data.importers.column_names import SUBJECTS, infer_role, is_agent_name, make_word_set, split_into_words
from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import FILE, FILE_NUMBER, FOLDER, Row, TableColumns, join_names
from youden.data.importers.foreign_files import import_error

_GROUP_WORDS = SUBJECTS | make_word_set(
    "task subtask file filename section part test module unit track turn document passage book folder directory path"
)
"""Words for groups of items within which ids may restart."""
_NUMBER_WORDS = make_word_set(
    "repeat repetition replicate rep sample epoch seed run trial attempt iteration iter try draw"
)
"""Words for the number of a repeat."""
_REPEAT_WORDS = _NUMBER_WORDS | make_word_set(
    "round generation n k pass",
    "temperature top_p date day time timestamp created version batch rater annotator judge worker user session order",
)
"""Words for columns whose values may differ between responses to one item, so that they do not separate items."""
_KINDS = frozenset({"type", "kind", "level", "grade"})
"""Words in names of columns that may hold either groups of items or information about a response."""
_MAX_LONE_FRACTION = 0.25
"""Maximum fraction of rows whose prompt no other agent has, if items are identified by prompts instead of ids."""
_MIN_SHARED_FRACTION = 0.5
"""Minimum fraction of rows whose item, under a composite key, has responses of two agents."""

Keys = Sequence[str | None]
"""One key per row; None if the value is missing."""


def with_unique_items(roles: Roles, rows: Sequence[Row], *, location: str) -> Roles:
    """Return roles in which different items have different ids.

    Ids restart if different items have the same id, for example the id 1 in each subject. Then the items are identified by
    several columns together, such as "subject + id". If no such columns make the ids unique, the items are identified by their
    prompts. If each agent has at most one row per id, the item is not changed. If there are neither such columns nor prompts, the
    ids still identify the items, and rows with the same id count as repeats.

    Two further changes concern repeats, which are several responses of an agent to an item. If a column numbers the repeats,
    it gets the role `repeat`. If agents are named by a model and the number of a run, the number is removed from the name.

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
        The changed roles, or the given roles if nothing needs to be changed.

    Raises
    ------
    ImportFormatError
        [import-ids]: if a column may either make ids unique or number repeats, and neither its name nor a prompt shows
        which; or if only prompts can identify the items, but more than a quarter of the rows have a prompt that only one
        agent has.
    """
    table = TableColumns(rows)
    roles = _remove_run_columns(roles, table)
    roles = _with_composite_item(roles, table, location=location)
    return _with_repeat_column(roles, table)


def _remove_run_columns(roles: Roles, table: TableColumns) -> Roles:
    """Remove columns that number runs from the columns that name agents, so that all runs of a model are one agent.

    A column numbers runs if its name has the word "run", and its values differ only in a number at the end, such as 1 and 2
    or run-1 and run-2. The roles are returned unchanged if none of the remaining columns has a name that suggests models.
    """
    run_columns = set()
    for name in roles.agents:
        values_without_number = {re.sub(r"\d+$", "#", str(value)) for value in table[name].value_texts}
        if "run" in split_into_words(name) and len(values_without_number) == 1:
            run_columns.add(name)

    model_columns = tuple(name for name in roles.agents if name not in run_columns)
    if not run_columns or not any(is_agent_name(name) for name in model_columns):
        return roles
    columns = {**roles.columns, "agent": join_names(model_columns)}
    return replace(roles, agents=model_columns, columns=columns, unused=(*roles.unused, *run_columns))


def _with_repeat_column(roles: Roles, table: TableColumns) -> Roles:
    """Add the role `repeat` for the first unused column that numbers the responses of an agent to an item.

    The name of the column suggests a number of repeats, and the column has different values in the rows of the same agent and
    item. If there is no such column, if no agent has several rows for an item, or if a column has the role already, the roles are
    returned unchanged.
    """
    item = roles.columns.get("item", roles.columns.get("prompt"))  # without ids, prompts identify the items
    candidates = [name for name in roles.unused if _NUMBER_WORDS & split_into_words(name)]
    if item is None or not candidates or "repeat" in roles.columns:
        return roles

    repeat_column = _find_repeat_column(candidates, agents=roles.agents, item=item, table=table)
    if repeat_column is None:
        return roles
    columns = {**roles.columns, "repeat": repeat_column}
    unused = tuple(name for name in roles.unused if name != repeat_column)
    return replace(roles, columns=columns, unused=unused)


def _find_repeat_column(
    candidates: Sequence[str], *, agents: Sequence[str], item: str, table: TableColumns
) -> str | None:
    """Return the first column that distinguishes all rows of the same agent and item.

    candidates : columns to choose from, whose names suggest numbers of repeats
    agents : columns that together name an agent
    item : column that identifies an item

    Returns None if no column distinguishes the rows, or if no agent has several rows for an item.
    """
    cells = list(zip(table.join_columns([*agents]), table.join_columns([item]), strict=True))
    has_repeats = len(set(cells)) < len(cells)
    if not has_repeats:
        return None

    for candidate in candidates:
        repeats = table.join_columns([candidate])
        n_distinct_rows = len(set(zip(cells, repeats, strict=True)))
        if None not in repeats and n_distinct_rows == len(cells):
            return candidate
    return None


@dataclass(frozen=True)
class _Responses:
    """Agents, ids, prompts, repeats and responses of all rows of a table.

    Attributes
    ----------
    agents, ids, prompts, repeats : sequence of (str or None)
        One text per row.
    texts : sequence of tuple of str
        Responses of each row; several if each agent has a column.
    answered : sequence of int
        Positions of the rows that have an id and a response. Only these rows are examined.
    """

    agents: Keys
    ids: Keys
    prompts: Keys
    repeats: Keys
    texts: Sequence[tuple[str, ...]]
    answered: Sequence[int]

    @classmethod
    def from_table(cls, roles: Roles, table: TableColumns) -> _Responses:
        """Read the agents, ids, prompts, repeats and responses of all rows of a table.

        The responses are in the column of the role "text" or, if each agent has a column, in the columns
        `roles.agent_columns`. Each row has a tuple of responses, one per column; a missing response is the text "None". If no
        column names agents, the agent of each row is an empty text. Without a column of prompts, all prompts are None. Without
        a column of repeats, all repeats are empty texts.

        roles : columns by role, among them a column of the role "item"
        table : columns of the table
        """
        columns = roles.columns
        text_columns = [*roles.agent_columns]
        if "text" in columns:
            text_columns.append(columns["text"])
        # a missing response (None) becomes the text "None", so that a response "None" counts as missing, too
        texts_by_column = [map(str, table[name].values) for name in text_columns]
        texts = list(zip(*texts_by_column, strict=True))
        has_response = [any(text != "None" for text in row_texts) for row_texts in texts]

        ids = table.join_columns([columns["item"]])
        prompts: Keys = [None] * table.n_rows
        if "prompt" in columns:
            prompts = table.join_columns([columns["prompt"]])
        repeat_columns = [columns["repeat"]] if "repeat" in columns else []
        return cls(
            agents=table.join_columns([*roles.agents]),
            ids=ids,
            prompts=prompts,
            repeats=table.join_columns(repeat_columns),
            texts=texts,
            answered=[row for row, id_ in enumerate(ids) if id_ is not None and has_response[row]],
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
        return self._have_one_text_each(self.agents, self.ids, self.repeats)

    def _have_one_text_each(self, *columns: Keys) -> bool:
        """Return whether rows with the same values in all of some columns have the same responses."""
        keys = list(zip(*columns, strict=True))
        first_texts: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        return all(first_texts.setdefault(keys[row], self.texts[row]) == self.texts[row] for row in self.answered)

    def are_items_identified_by(self, groups: Keys, repeats: Keys) -> bool:
        """Return whether a group and an id together identify an item, although the id alone does not.

        All of these conditions must hold for the rows with a response:

        - Each row has a group, and an agent has the same id in two groups.
        - If there are prompts, the rows of an agent with the same group and id have the same prompt.
        - If there are no prompts, the rows of an agent with the same group, id and repeat have the same response, and the
          agents have items in common (`has_shared_items`).

        groups : group of items of each row (n_rows,), such as its subject or file; None if missing
        repeats : number or label of the repeat of each row (n_rows,); None if missing, "" in all rows without repeats
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

        has_one_text_each = self._have_one_text_each(self.agents, groups, self.ids, repeats)
        return has_one_text_each and self.has_shared_items(groups)

    def has_shared_items(self, groups: Keys) -> bool:
        """Return whether agents have items in common if a group and an id together identify an item.

        Two conditions must hold. Groups have at least two items on average. If there are several agents, at least half of the
        rows are responses to items to which another agent responded, too.

        groups : group of items of each row (n_rows,), such as its subject or file
        """
        items = [(groups[row], self.ids[row]) for row in self.answered]
        agents = [self.agents[row] for row in self.answered]
        agents_by_item = defaultdict(set)
        for item, agent in zip(items, agents, strict=True):
            agents_by_item[item].add(agent)

        n_groups = len({group for group, _ in items})
        if len(agents_by_item) < 2 * n_groups:
            return False
        if len(set(agents)) < 2:
            return True
        n_shared_rows = sum(len(agents_by_item[item]) > 1 for item in items)
        return n_shared_rows >= _MIN_SHARED_FRACTION * len(items)

    def find_lone_prompts(self) -> list[int]:
        """Return the positions of rows whose prompt only one agent has; empty if there is only one agent."""
        agents_by_prompt = defaultdict(set)
        for row in self.answered:
            agents_by_prompt[self.prompts[row]].add(self.agents[row])
        if len({self.agents[row] for row in self.answered}) < 2:
            return []
        return [row for row in self.answered if len(agents_by_prompt[self.prompts[row]]) == 1]


def _with_composite_item(roles: Roles, table: TableColumns, *, location: str) -> Roles:
    """Return roles in which a group, such as a subject, and an id together identify an item, if ids restart in each group.

    If no column has the groups, items are identified by their prompts. The roles are returned unchanged if ids do not
    restart.

    roles : columns by role
    location : path of the table, for errors

    Raises: ImportFormatError [import-ids] if it is unclear whether rows with the same id are repeats.
    """
    item = roles.columns.get("item")
    prompt = roles.columns.get("prompt")
    if item is None:
        return roles

    responses = _Responses.from_table(roles, table)
    if _are_items_identified(roles, responses):
        return roles

    if prompt is not None and _holds_item_groups(prompt, responses):
        # the supposed prompts are groups of items, so ignore them
        roles = _without_role(roles, "prompt")
        responses = _Responses.from_table(roles, table)
        if _are_items_identified(roles, responses):
            return roles

    group_columns = _find_group_columns(roles, table, responses)
    if group_columns:
        return _with_item_columns(roles, (*group_columns, item))
    return _with_unnamed_groups_or_prompts(roles, table, responses, location=location)


def _are_items_identified(roles: Roles, responses: _Responses) -> bool:
    """Return whether ids identify items: rows of an agent with the same id have one prompt, or else one response."""
    if responses.has_one_prompt_per_cell:
        return True
    if responses.has_prompts and roles.columns.get("repeat") == FILE_NUMBER:
        return False  # prompts differ between files, so that their numbers do not distinguish repeats of an item
    return responses.has_one_text_per_cell


def _list_group_candidates(roles: Roles, responses: _Responses) -> tuple[list[str], list[str]]:
    """List the unused columns that may hold groups of items, such as subjects with separate ids.

    roles : columns by role
    responses : rows of the table, with their ids

    Returns two lists: the columns whose names suggest groups of items, and all others. Columns whose names suggest repeats
    are in neither list. The columns of folders and files are in the first list only if the table has prompts.
    """
    # tables from folders and files always have these columns; only prompts show whether they are groups of items
    unreliable = () if responses.has_prompts else (FOLDER, FILE)
    named_like_groups = []
    other_columns = []
    for name in roles.unused:
        words = split_into_words(name)
        if words & _REPEAT_WORDS:
            continue
        if words & _GROUP_WORDS and name not in unreliable:
            named_like_groups.append(name)
        else:
            other_columns.append(name)
    return named_like_groups, other_columns


def _find_group_columns(roles: Roles, table: TableColumns, responses: _Responses) -> tuple[str, ...]:
    """Find one or two columns of groups, such as subjects, within which each id belongs to one item.

    Only columns whose names suggest groups of items are tried: single columns first, then pairs. Repeats of a response are
    distinguished by the column with the role `repeat`. If no columns are found, the search is repeated; repeats are then
    distinguished by all columns whose names suggest repeats.

    roles : columns by role
    responses : rows of the table, with their ids

    Returns one or two names of columns; an empty tuple if no columns make the ids unique.
    """
    group_columns, _ = _list_group_candidates(roles, responses)
    single_columns = [(name,) for name in group_columns]
    pairs_of_columns = list(combinations(group_columns[:4], 2))

    repeat_columns = [name for name in roles.unused if _REPEAT_WORDS & split_into_words(name)]
    if "repeat" in roles.columns:
        repeat_columns.insert(0, roles.columns["repeat"])

    for repeats in (responses.repeats, table.join_columns(repeat_columns)):
        for columns in (*single_columns, *pairs_of_columns):
            groups = table.join_columns(columns)
            if responses.are_items_identified_by(groups, repeats):
                return columns
    return ()


def _with_unnamed_groups_or_prompts(
    roles: Roles, table: TableColumns, responses: _Responses, *, location: str
) -> Roles:
    """Return roles in which items are identified by a column whose name does not suggest groups of items, or by prompts.

    There are four cases:

    - A column makes the ids unique, and prompts confirm it: the column and the ids together identify an item.
    - A column makes the ids unique, and there are no prompts: an error is raised, because the column may number repeats.
    - No column makes the ids unique, but there are prompts: the prompts identify the items.
    - There is neither: rows with the same id count as repeats, and the roles are returned unchanged.

    roles : columns by role
    responses : rows of the table, with their ids
    location : path of the table, for errors

    Raises: ImportFormatError [import-ids] in the second case, and in the third case if too many rows have a prompt that no
        other agent has.
    """
    item = roles.columns["item"]
    group_column = _find_unnamed_group_column(roles, table, responses)
    if group_column is not None and not responses.has_prompts:
        raise import_error(location, _describe_ambiguity(group_column, item, responses), slug="import-ids")
    if group_column is not None:
        return _with_item_columns(roles, (group_column, item))
    if not responses.has_prompts:
        return roles

    _check_prompts_are_shared(item, responses, location=location)
    return replace(_without_role(roles, "item"), has_generated_ids=True)


def _check_prompts_are_shared(item: str, responses: _Responses, *, location: str) -> None:
    """Check that prompts can identify the items: agents can be compared only by items to which several of them responded.

    item : column of ids, for the error message
    responses : rows of the table, with their prompts
    location : path of the table, for the error message

    Raises: ImportFormatError [import-ids] if more than a quarter of the rows have a prompt that only one agent has.
    """
    rows_of_lone_prompts = responses.find_lone_prompts()
    if len(rows_of_lone_prompts) > _MAX_LONE_FRACTION * len(responses.answered):
        row = rows_of_lone_prompts[0]
        problem = _describe_lone_prompt(item, responses.agents[row], responses.ids[row])
        raise import_error(location, problem, slug="import-ids")


def _find_unnamed_group_column(roles: Roles, table: TableColumns, responses: _Responses) -> str | None:
    """Find the first column that makes the ids unique although its name does not suggest groups of items.

    Columns of information about responses, such as scores, are ignored.

    roles : columns by role; only columns without a role are examined
    responses : rows of the table, with their ids

    Returns the name of the column, or None.
    """
    _, other_columns = _list_group_candidates(roles, responses)
    for name in other_columns:
        is_information = infer_role(name) == "about" and not _KINDS & split_into_words(name)
        if is_information:
            continue
        groups = table.join_columns([name])
        if responses.are_items_identified_by(groups, responses.repeats):
            return name
    return None


def _with_item_columns(roles: Roles, columns: tuple[str, ...]) -> Roles:
    """Return roles in which `columns` together identify an item."""
    unused = tuple(name for name in roles.unused if name not in columns)
    return replace(roles, columns={**roles.columns, "item": join_names(columns)}, unused=unused)


def _without_role(roles: Roles, removed_role: str) -> Roles:
    """Return roles without one of them, such as "prompt"; the column that had it is unused."""
    columns = {role: column for role, column in roles.columns.items() if role != removed_role}
    return replace(roles, columns=columns, unused=(*roles.unused, roles.columns[removed_role]))


def _holds_item_groups(prompt_column: str, responses: _Responses) -> bool:
    """Return whether a column that was taken for prompts holds groups of items instead, such as subjects.

    A group contains several items, whereas a prompt belongs to one item. Three conditions must hold:

    - The values of the column have no spaces, unless the name of the column suggests subjects.
    - A value occurs with at least two ids of items on average.
    - At least one agent has responses with several ids and the same value.

    prompt_column : name of the column
    responses : rows of the table, with their ids and with the values of the column as prompts
    """
    groups = responses.prompts
    distinct_groups = set(groups) - {None}
    have_spaces = any(" " in str(group) for group in distinct_groups)
    if have_spaces and not SUBJECTS & split_into_words(prompt_column):
        return False

    pairs = set(zip(groups, responses.ids, strict=True))
    items = [(group, id_) for group, id_ in pairs if group is not None and id_ is not None]
    if len(items) < 2 * len(distinct_groups):
        return False

    # there are more triples than pairs if an agent has several ids in a group
    n_agent_group_pairs = len(set(zip(responses.agents, groups, strict=True)))
    n_triples_with_id = len(set(zip(responses.agents, groups, responses.ids, strict=True)))
    return n_triples_with_id > n_agent_group_pairs


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
