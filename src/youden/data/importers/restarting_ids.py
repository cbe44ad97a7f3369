"""Find item ids that restart in each subject, task or file, and the column that makes them unique.

If an agent has several rows with one id, they are either repeats, or different items whose ids restart. Prompts decide
if the table has any. Otherwise the name of a column decides; if it does not, the error asks the user.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from youden.data.importers.column_names import (
    REPEAT_NUMBERS,
    SUBJECTS,
    infer_role,
    is_agent_name,
    make_word_set,
    split_into_words,
)
from youden.data.importers.column_roles import Roles
from youden.data.importers.column_values import (
    FILE,
    FILE_NUMBER,
    FOLDER,
    Row,
    TableColumns,
    Values,
    are_determined_by,
    get_value,
    join_names,
)
from youden.data.importers.foreign_files import import_error
from youden.data.pools.spool import format_excerpt

_GROUP_WORDS = SUBJECTS | make_word_set(
    "task subtask file filename section part test module unit track turn document passage book folder directory path"
)
"""Words for groups of items within which ids may restart."""
_REPEAT_WORDS = REPEAT_NUMBERS | make_word_set(
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


def resolve_restarting_ids(roles: Roles, rows: Sequence[Row], *, location: str) -> Roles:
    """Return roles in which each item has its own id, although the same id may denote different items in the table.

    For example, the ids of questions may start again at 1 in each subject. The first of these cases that applies decides:

    1. Each id denotes one item: the ids identify the items.
    2. Other columns make the ids unique: these columns and the ids identify the items, as in "subject + id".
    3. The table has prompts: they identify the items.
    4. In all other tables, the ids identify the items, and rows of an agent with the same id count as repeats.

    Repeats are several responses of an agent to an item. A column that numbers them gets the role `repeat`. If the names of
    agents include the number of a run, this number is removed.

    roles : roles of the columns of the table
    rows : values by column of all rows of the table; no value is nested. The rows are not changed.
    location : name of the table, for error messages

    Returns the changed roles, or the given roles if nothing needs to be changed.

    Raises: ImportFormatError [import-ids] in three cases. (1) It is unclear whether a column makes the ids unique or numbers
        repeats. (2) Only prompts can identify the items, but more than a quarter of the rows have a prompt that no other agent
        has. (3) Prompts identify the items, and it is unclear whether a column distinguishes items with the same prompt or
        numbers repeats.
    """
    table = TableColumns(rows)
    roles = _remove_run_columns(roles, table)
    roles = _add_group_to_item(roles, table, location=location)
    roles = _assign_repeat_column(roles, table)
    _check_prompts_identify_items(roles, table, location=location)
    return roles


def _remove_run_columns(roles: Roles, table: TableColumns) -> Roles:
    """Remove the numbers of runs from the names of agents, so that all runs of a model are one agent.

    A column with the numbers of runs has a name with the word "run". Its values differ only by a number at the end, such as
    run-1 and run-2. The roles stay unchanged if no other column of the agents has a name that suggests models.
    """
    run_columns = set()
    for name in roles.agents:
        values_without_number = {re.sub(r"\d+$", "#", str(value)) for value in table[name].value_texts}
        if "run" in split_into_words(name) and len(values_without_number) == 1:
            run_columns.add(name)

    model_columns = tuple(name for name in roles.agents if name not in run_columns)
    if not run_columns or not any(map(is_agent_name, model_columns)):
        return roles
    columns = {**roles.columns, "agent": join_names(model_columns)}
    return replace(roles, agents=model_columns, columns=columns, unused=(*roles.unused, *run_columns))


def _assign_repeat_column(roles: Roles, table: TableColumns) -> Roles:
    """Find a column that numbers several responses of an agent to an item, and give it the role `repeat`.

    The first unused column that meets these conditions is chosen:

    - Its name suggests a number of repeats.
    - Each row has a value, and rows of the same agent and item have different values.

    The roles stay unchanged if there is no such column, if a column already has the role, or if there are no repeats.
    """
    item = roles.columns.get("item", roles.columns.get("prompt"))  # without ids, prompts identify the items
    if item is None or "repeat" in roles.columns:
        return roles
    agents_and_items = list(zip(table.join_columns(roles.agents), table.join_columns([item]), strict=True))
    if len(set(agents_and_items)) == len(agents_and_items):
        return roles

    for name in roles.unused:
        numbers = table.join_columns([name])
        is_number = bool(REPEAT_NUMBERS & split_into_words(name)) and None not in numbers
        # each row of an agent and item must have a different number
        if is_number and len({*zip(agents_and_items, numbers, strict=True)}) == len(numbers):
            return roles.with_role("repeat", name)
    return roles


def has_repeats_in_rows(roles: Roles, rows: Sequence[Row]) -> bool:
    """Return whether several rows of an agent and an item are repeated responses, although no column numbers them.

    Without repeats, such rows may be copies of one row. Two conditions must hold:

    - At least half of all pairs of an agent and an item have several rows.
    - The rows of at least one pair have different responses.
    """
    item = roles.columns.get("item", roles.columns.get("prompt"))
    text_columns = roles.agent_columns or (roles.columns["text"],)
    if item is None or "repeat" in roles.columns:
        return False
    table = TableColumns(rows)
    texts_by_cell = defaultdict[tuple[str | None, str | None], list[tuple[object, ...]]](list)
    cells = zip(table.join_columns(roles.agents), table.join_columns([item]), strict=True)
    for cell, row in zip(cells, rows, strict=True):
        texts = tuple(get_value(row, column) for column in text_columns)
        if any(isinstance(text, list) for text in texts):  # each list has the repeats of a cell
            return False
        texts_by_cell[cell].append(texts)

    n_cells_with_several = sum(len(texts) > 1 for texts in texts_by_cell.values())
    has_different_texts = any(len(set(map(str, texts))) > 1 for texts in texts_by_cell.values())
    return has_different_texts and n_cells_with_several >= len(texts_by_cell) / 2


class _Responses:
    """The rows of a table that have an id and a response; the ids are to be made unique.

    Attributes
    ----------
    agents, ids, prompts, repeats : sequence of (str or None)
        One text per row. Without a column, agents and repeats are empty texts, and prompts are None.
    texts : sequence of tuple of str
        Responses of each row; several if each agent has a column.
    has_prompts : bool
        Whether at least one row has a prompt.
    """

    def __init__(self, roles: Roles, table: TableColumns) -> None:
        self._table = table
        columns = roles.columns
        text_columns = roles.agent_columns or (columns["text"],)
        # a missing response (None) becomes the text "None". Therefore, a response "None" counts as missing
        texts_by_column = [map(str, table[name].values) for name in text_columns]
        texts = list(zip(*texts_by_column, strict=True))
        ids = table.join_columns([columns["item"]])
        self._rows = [row for row, id_ in enumerate(ids) if id_ is not None and {*texts[row]} != {"None"}]

        self.texts = [texts[row] for row in self._rows]
        self.ids = [ids[row] for row in self._rows]
        self.agents = self.get_values(*roles.agents)
        self.repeats: Values = [""] * len(self._rows)
        self.prompts: Values = [None] * len(self._rows)
        if "repeat" in columns:
            self.repeats = self.get_values(columns["repeat"])
        if "prompt" in columns:
            self.prompts = self.get_values(columns["prompt"])
        self.has_prompts = any(prompt is not None for prompt in self.prompts)

    def get_values(self, *columns: str) -> list[str | None]:
        """Return the joined values of columns in each row; empty texts without columns."""
        values = self._table.join_columns(columns)
        return [values[row] for row in self._rows]

    def have_unique_ids(self, *, prompts_decide: bool) -> bool:
        """Return whether each id belongs to one item, so that no other column must be added to the ids.

        One of these conditions is sufficient:

        - The table has prompts, and the rows of an agent with the same id have the same prompt.
        - The rows of an agent with the same id and the same number of a repeat have the same response.

        prompts_decide : whether the second condition is ignored if the table has prompts
        """
        if self.has_prompts:
            rows = [row for row in zip(self.agents, self.ids, self.prompts, strict=True) if row[-1] is not None]
            agents, ids, prompts = zip(*rows, strict=True)
            have_same_prompt = are_determined_by(prompts, agents, ids)
            if have_same_prompt or prompts_decide:
                return have_same_prompt
        return are_determined_by(self.texts, self.agents, self.ids, self.repeats)

    def have_unique_ids_in(self, groups: Values, repeats: Values) -> bool:
        """Return whether a group and an id together identify an item, although the id alone does not.

        A group of items is, for example, a subject or a file. Each row must have a group, and an agent must have the same id
        in two groups. The other conditions depend on the prompts:

        - With prompts, the rows of an agent with the same group and id have the same prompt.
        - Without prompts, the rows of an agent with the same group, id and repeat have the same response. In addition, groups
          have at least two ids on average, and the agents have items in common (`has_shared_items`).

        groups : group of each row (n_rows,); None if missing
        repeats : number or label of the repeat of each row (n_rows,); None if missing, "" in all rows without repeats
        """
        if None in groups or are_determined_by(groups, self.agents, self.ids):
            return False
        if self.has_prompts:
            return are_determined_by(self.prompts, self.agents, groups, self.ids)
        have_same_response = are_determined_by(self.texts, self.agents, groups, self.ids, repeats)
        have_several_ids = len(set(zip(groups, self.ids, strict=True))) >= 2 * len(set(groups))
        return have_same_response and have_several_ids and self.has_shared_items(groups)

    def may_be_distinguished_by(self, groups: Values) -> bool:
        """Return whether the values of a column, together with the ids, may identify the items.

        Each agent must have only one response per value and id, and agents must have such items in common (`has_shared_items`).

        groups : value of a column in each row (n_rows,); None if missing
        """
        determine_texts = None not in groups and are_determined_by(self.texts, self.agents, groups, self.ids)
        return determine_texts and self.has_shared_items(groups)

    def has_shared_items(self, groups: Values) -> bool:
        """Return whether agents have items in common if each pair of a group and an id is an item.

        If there are several agents, at least half of the rows must be responses to items to which another agent responded, too.

        groups : group of items of each row (n_rows,), such as its subject or file
        """
        n_agents = self.count_agents(list(zip(groups, self.ids, strict=True)))
        n_shared_rows = sum(n > 1 for n in n_agents)
        return len(set(self.agents)) < 2 or n_shared_rows >= _MIN_SHARED_FRACTION * len(n_agents)

    def count_agents(self, items: Values) -> list[int]:
        """Count, for each row, the agents that have a response to its item; `items` has the item of each row."""
        agents_by_item = defaultdict(set)
        for item, agent in zip(items, self.agents, strict=True):
            agents_by_item[item].add(agent)
        return [len(agents_by_item[item]) for item in items]

    def are_prompts_groups(self, prompt_column: str) -> bool:
        """Return whether the column of prompts holds groups of items instead, such as subjects.

        Three conditions must hold:

        - The values have no spaces, unless the name of the column suggests subjects.
        - Each value occurs with at least two ids of items on average.
        - At least one agent has several ids with the same value.

        prompt_column : name of the column
        """
        groups = set(self.prompts) - {None}
        have_spaces = any(" " in str(group) for group in groups)
        if have_spaces and not SUBJECTS & split_into_words(prompt_column):
            return False
        pairs = {(group, id_) for group, id_ in zip(self.prompts, self.ids, strict=True) if group is not None}
        have_several_ids = not are_determined_by(self.ids, self.agents, self.prompts)
        return have_several_ids and len(pairs) >= 2 * len(groups)


def _add_group_to_item(roles: Roles, table: TableColumns, *, location: str) -> Roles:
    """If the same ids occur in several groups, such as subjects, identify each item by its group and its id.

    If no column has the groups, items are identified by their prompts.

    roles : columns by role
    location : path of the table, for errors

    Returns the changed roles; the same roles if each id already belongs to one item.

    Raises: ImportFormatError [import-ids] if it is unclear whether rows with the same id are repeats.
    """
    if "item" not in roles.columns:
        return roles
    responses = _Responses(roles, table)
    # numbers in names of files may count repeats or parts of the data; in parts, equal ids have different prompts
    prompts_decide = roles.columns.get("repeat") == FILE_NUMBER
    if responses.have_unique_ids(prompts_decide=prompts_decide):
        return roles

    if responses.has_prompts and responses.are_prompts_groups(roles.columns["prompt"]):
        # without the role of prompts, the column becomes a candidate for the groups
        return _add_group_to_item(roles.without_role("prompt"), table, location=location)

    named_like_groups, other_columns = _list_group_candidates(roles, has_prompts=responses.has_prompts)
    group_columns = _find_group_columns(named_like_groups, roles, responses)
    if group_columns:
        return roles.with_role("item", *group_columns, roles.columns["item"])
    return _choose_unnamed_group_or_prompt(roles, other_columns, responses, location=location)


def _check_prompts_identify_items(roles: Roles, table: TableColumns, *, location: str) -> None:
    """Check that rows with the same prompt are not different items, such as the same question about several images.

    They may be different items if the table has a column without a role in which

    - several responses of an agent to one prompt have different values, and
    - several agents have the same values.

    Raises: ImportFormatError [import-ids] if there is such a column, because it may also number repeated responses to one
        item.
    """
    has_one_agent = not roles.agent_columns and len(set(table.join_columns(roles.agents))) == 1
    if "item" in roles.columns or "repeat" in roles.columns or "prompt" not in roles.columns or has_one_agent:
        return
    prompt = roles.columns["prompt"]
    responses = _Responses(roles.without_role("prompt").with_role("item", prompt), table)
    if are_determined_by(responses.texts, responses.agents, responses.ids):
        return

    for name in roles.unused:
        # rows of different sessions may be turns of different conversations, and thus different items
        is_information = infer_role(name) == "about" or (_REPEAT_WORDS - {"session"}) & split_into_words(name)
        may_distinguish = not is_information and name not in (FOLDER, FILE)
        if may_distinguish and responses.may_be_distinguished_by(responses.get_values(name)):
            raise import_error(location, _describe_ambiguity(name, prompt, responses, roles.agents), slug="import-ids")


def _list_group_candidates(roles: Roles, *, has_prompts: bool) -> tuple[list[str], list[str]]:
    """List the unused columns that may hold groups of items, such as subjects, each with its own numbering of the items.

    roles : columns by role
    has_prompts : whether the table has prompts; without them, it is not clear whether folders and files are groups of items

    Returns two lists. The first has the columns whose names suggest groups of items. The second has all others and, without
    prompts, the columns of folders and files. Columns whose names suggest repeated responses are in neither list.
    """
    candidates = [name for name in roles.unused if not split_into_words(name) & _REPEAT_WORDS]
    named_like_groups = [name for name in candidates if split_into_words(name) & _GROUP_WORDS]
    if not has_prompts:
        named_like_groups = [name for name in named_like_groups if name not in (FOLDER, FILE)]
    return named_like_groups, [name for name in candidates if name not in named_like_groups]


def _find_group_columns(group_columns: Sequence[str], roles: Roles, responses: _Responses) -> tuple[str, ...]:
    """Find one or two columns of groups, such as subjects, within which each id belongs to one item.

    Single columns are tried first, then pairs. Repeated responses of an agent to an item are recognized by the column with
    the role `repeat`. If nothing is found, the search is repeated. Then all columns whose names suggest repeats, such as
    "date", distinguish the responses.

    group_columns : columns whose names suggest groups of items
    roles : columns by role
    responses : rows of the table, with their ids

    Returns one or two names of columns; an empty tuple if no columns make the ids unique.
    """
    choices = [(name,) for name in group_columns] + list(combinations(group_columns[:4], 2))
    repeat_columns = [name for name in roles.unused if _REPEAT_WORDS & split_into_words(name)]
    if "repeat" in roles.columns:
        repeat_columns.insert(0, roles.columns["repeat"])

    for repeats in (responses.repeats, responses.get_values(*repeat_columns)):
        for columns in choices:
            if responses.have_unique_ids_in(responses.get_values(*columns), repeats):
                return columns
    return ()


def _choose_unnamed_group_or_prompt(
    roles: Roles, columns: Sequence[str], responses: _Responses, *, location: str
) -> Roles:
    """Identify the items by a column whose name does not suggest groups of items, or by their prompts.

    The first of these cases that applies decides:

    - A column makes the ids unique, and there are prompts, which confirm it. The column and the ids identify the items.
    - A column makes the ids unique, and there are no prompts. This is an error, because the column may number repeated
      responses.
    - No column makes the ids unique, and there are prompts. The prompts identify the items.
    - There is neither. Rows with the same id count as repeats, and the roles stay unchanged.

    roles : columns by role
    columns : columns whose names do not suggest groups; scores and other information about responses are ignored, except
        names with a word such as "level"
    responses : rows of the table, with their ids
    location : path of the table, for errors

    Returns the changed roles.

    Raises: ImportFormatError [import-ids] in the second case; in the third case, if more than a quarter of the rows have a
        prompt that no other agent has, because agents could then not be compared.
    """
    item = roles.columns["item"]
    for name in columns:
        may_be_group = infer_role(name) != "about" or not _KINDS.isdisjoint(split_into_words(name))
        if not may_be_group or not responses.have_unique_ids_in(responses.get_values(name), responses.repeats):
            continue
        if responses.has_prompts:
            return roles.with_role("item", name, item)
        raise import_error(location, _describe_ambiguity(name, item, responses, roles.agents), slug="import-ids")

    if not responses.has_prompts:
        return roles
    n_agents = responses.count_agents(responses.prompts)
    if len(set(responses.agents)) > 1 and n_agents.count(1) > _MAX_LONE_FRACTION * len(n_agents):
        row = n_agents.index(1)
        problem = (
            f"agent {responses.agents[row]!r} has responses to several prompts under {item} {responses.ids[row]!r}, and no other "
            "agent has these prompts. Remove rows that are not responses of the agents, such as those of a grader, or name the "
            "columns: --column item=NAME."
        )
        raise import_error(location, problem, slug="import-ids")
    return replace(roles.without_role("item"), has_generated_ids=True)


def _describe_ambiguity(column: str, item: str, responses: _Responses, agents: Sequence[str]) -> str:
    """Describe an ambiguous column and its remedy, for an error message.

    The values of the column may distinguish items, agents, or repeated responses to an item. The message names the option for
    each of these meanings.

    column : the ambiguous column
    item : column of the ids of items
    responses : rows of the table, with their ids
    agents : columns that together name an agent; empty if each agent has a column
    """
    counts = Counter(zip(responses.agents, responses.ids, strict=True))
    (agent, id_), _ = counts.most_common(1)[0]
    subject = "an agent" if not agent else f"agent {agent!r}"
    remedy = (
        f"If these are different items, use `youden import table` with --column 'item={column}+{item}'; if they are repeats, "
        f"with --column 'repeat={column}'"
    )
    if agents:
        remedy += f"; if they are responses of different agents, with --column 'agent={'+'.join([*agents, column])}'"
    problem = f"{subject} has several responses to {item} {format_excerpt(id_)}, which differ in the column {column!r}"
    return f"{problem}. {remedy}."
