"""Find the columns of a table that hold agents, items, prompts and responses.

The values of the columns come first: agents share items, no two agents give the same response, and questions differ
from row to row. The names of the columns decide only if the values allow several columns. If the names do not decide
either, the error names the option with which the user decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from youden.data.importers.column_names import (
    NAMES,
    PAIRED,
    SUBJECTS,
    infer_role,
    is_about_responses,
    is_agent_name,
    is_part_of_response,
    normalize_name,
    split_into_words,
    split_path,
)
from youden.data.importers.column_values import FILE, FOLDER, Row, UnclearColumnsError, are_determined, join_names
from youden.data.importers.wide_columns import WideTableSearch

_MAX_AGENTS = 500
_MAX_NAME_LENGTH = 100
_MAX_CANDIDATES = 50
"""Maximum number of agent columns, and of item columns, that are tried with each other."""
_RUN_NAMES = {"run", "experiment"}
"""Words for the run of an agent on a data set, as in "dataset_run_name"."""
_MIN_WORDS_OF_RESPONSE = 8
"""The name of a column may be a response, in a table without a header, if it has at least this number of words."""


@dataclass(frozen=True)
class Roles:
    """Columns of a table by role.

    Attributes
    ----------
    columns : mapping of str to str
        Column by role.
    agents : tuple of str
        Columns that together name an agent.
    agent_columns : tuple of str
        Columns that each hold the responses of one agent; empty unless the table is wide.
    has_generated_ids : bool
        Whether the ids of items are generated from their prompts.
    unused : tuple of str
        All other columns.
    """

    columns: Mapping[str, str]
    agents: tuple[str, ...]
    agent_columns: tuple[str, ...]
    has_generated_ids: bool
    unused: tuple[str, ...]

    def with_role(self, role: str, *columns: str) -> Roles:
        """Return roles in which columns together have a role; the columns are no longer unused."""
        unused = tuple(name for name in self.unused if name not in columns)
        return replace(self, columns={**self.columns, role: join_names(columns)}, unused=unused)

    def without_role(self, removed_role: str) -> Roles:
        """Return roles without one of them, such as "prompt"; the column that had it is unused."""
        columns = {role: column for role, column in self.columns.items() if role != removed_role}
        return replace(self, columns=columns, unused=(*self.unused, self.columns[removed_role]))


def find_roles(
    rows: Sequence[Row], *, location_columns: Sequence[str] = (), given: Mapping[str, str] | None = None
) -> Roles:
    """Find the role of each column of a table.

    The roles are agent, item, text (the response), prompt, group, empty (a mark for empty responses) and repeat. Only a
    column of texts and a column that identifies the items, an item or a prompt, are necessary.

    Parameters
    ----------
    rows : sequence of dict
        Rows of one table, or of several tables with the same columns; no value is nested.
    location_columns : sequence of str
        Columns that hold the folder and the file of a row, if there are several files.
    given : mapping of str to str, optional
        Column by role, as named by the user. The role text may have one column per agent, separated by commas. The rows
        must have these columns, which is not checked.

    Returns
    -------
    Roles
        Columns by role, and those without a role. In a wide table, the columns of the agents are `agent_columns`.

    Raises
    ------
    UnclearColumnsError
        If a necessary role has no column, or if several columns may have the role.
    """
    return _RoleSearch(rows, location_columns, given or {}).find_roles()


class _RoleSearch(WideTableSearch):
    """One search for the roles of the columns of a table; lists of candidates begin with the most reliable one.

    A cell is an agent and an item to which it responded. It is shared if another agent responded to the item, too.
    """

    def find_roles(self) -> Roles:
        """Find the columns of agents and responses, and then the columns of the other roles.

        A long table has a column that names the agent of each row, and one column of responses. A long table is recognized by
        items to which several agents responded. A wide table has a column of responses per agent. Other tables are read as long
        tables whose agents are not certain, for example because there is only one agent.

        Returns the columns by role, and the columns without a role.

        Raises: UnclearColumnsError if a role has no column or may have several.
        """
        self.check_no_pairs()
        if len(self.given_text_columns) > 1:
            return self.make_roles(agents=(), text=None, agent_columns=tuple(self.given_text_columns))

        candidates = self.get_candidates("agent")
        if "agent" not in self.given:
            candidates = [
                name for name in candidates if split_path(name)[-1] in self.AGENT_NAMES or self.can_name_agents(name)
            ]
        shared_agents = self.find_agent_name_columns(candidates)
        if shared_agents is not None:
            return self.find_roles_of_long_table(shared_agents, are_agents_certain=True)

        agent_columns = self.find_agent_columns() if self.may_be_wide(candidates) else ()
        if agent_columns:
            self.check_has_header(agent_columns)
            return self.make_roles(agents=(), text=None, agent_columns=agent_columns)

        self.check_agents_are_not_rows(candidates)
        possible_agents = tuple([*candidates, *self.location_columns][:1])
        return self.find_roles_of_long_table(possible_agents, are_agents_certain=False)

    def find_roles_of_long_table(self, agents: tuple[str, ...], *, are_agents_certain: bool) -> Roles:
        """Find the roles of the columns of a long table, in which one column has the responses of all agents.

        agents : columns that together name an agent
        are_agents_certain : whether the agents were found by the items that they have in common

        Returns the columns by role, and the columns without a role.

        Raises: UnclearColumnsError if no column or several columns may hold the responses, or if the table has several agents
            that are not certain and the user did not name the column of items.
        """
        # agents share questions, but no two agents give the same response
        prose_columns = [name for name in self.unnamed_columns if self.table[name].is_prose]
        prose_columns.sort(key=lambda name: self.table[name].mean_length)
        unshared_prose = [name for name in prose_columns if self.table.count_shared_cells(agents, name) == 0]
        can_choose = bool(prose_columns) and (are_agents_certain or bool(self.location_columns))
        may_hold_other_texts = len(unshared_prose) > 1 and set(agents) <= set(self.location_columns)
        if self.text_columns:
            text = self.text_columns[0]
        elif can_choose and not may_hold_other_texts:
            text = (unshared_prose or prose_columns)[-1]  # the longest texts
        else:
            raise self.make_no_text_column_error(unshared_prose)

        has_several_agents = len(set(self.table.join_columns(agents))) > 1
        if not are_agents_certain and "item" not in self.given and has_several_agents:
            raise UnclearColumnsError("no column holds ids or prompts that two agents share")
        self.check_has_header([text])
        roles = self.make_roles(agents=agents, text=text, agent_columns=())
        self.check_single_text_column(roles, unshared_prose)
        return roles

    def make_no_text_column_error(self, unshared_columns: Sequence[str]) -> UnclearColumnsError:
        """Make the error for a table in which no column clearly holds the responses.

        If several columns may hold responses, the error names them. If the table has several files or sheets, the error also
        proposes these columns as the columns of responses, because each may hold the responses of one agent.

        unshared_columns : columns of prose in which no two agents have the same text
        """
        problem = "no column holds responses as text"
        options: dict[str, str] = {}
        if len(unshared_columns) > 1:
            problem += f", or several do ({', '.join(unshared_columns)})"
            if self.location_columns:
                options["text"] = ",".join(unshared_columns)
        return UnclearColumnsError(problem, **options)

    def check_agents_are_not_rows(self, agent_candidates: Sequence[str]) -> None:
        """Raise UnclearColumnsError if each row seems to hold all responses of one agent, in a column per question.

        This is assumed if there are at least three columns of prose without a role, and each row has a different agent.

        agent_candidates : columns whose names and values suggest agents
        """
        if self.text_columns or self.given or self.table.n_rows < 2:
            return
        prose = [name for name in self.table.names if self.table[name].is_prose and not is_about_responses(name)]
        agent_ids = [self.table[name].value_texts for name in agent_candidates]
        has_agent_per_row = any(len(set(ids)) == self.table.n_rows for ids in agent_ids)
        if has_agent_per_row and len(prose) >= 3:
            raise UnclearColumnsError(self.ROW_PER_AGENT)

    def check_has_header(self, text_columns: Sequence[str]) -> None:
        """Raise UnclearColumnsError if the table seems to have no header.

        The first responses were then read as the names of the columns. This is assumed if all names are as long as responses,
        and at least one contains the end of a sentence. Nothing is checked if the user named one of the columns.

        text_columns : columns that hold responses
        """
        if not set(self.given_text_columns).isdisjoint(text_columns):
            return
        for name in text_columns:
            has_many_words = len(name.split()) >= _MIN_WORDS_OF_RESPONSE
            if not has_many_words or len(name) < 0.5 * self.table[name].mean_length:
                return
        if any(re.search(r"[.!。](\s|$)", name) for name in text_columns):
            raise UnclearColumnsError(
                "the first line seems to hold responses; insert a line with a name for each column"
            )

    def check_no_pairs(self) -> None:
        """Raise UnclearColumnsError if each row compares the responses of two models.

        The columns `model_a` and `model_b`, or columns with similar names, then hold the names of the two models. If one of these
        columns holds something else, such as prose, no error is raised, because the two columns may hold the responses of two
        agents in a wide table. The columns are not checked if the user named any.
        """
        paired_columns = [name for name in self.table.names if PAIRED.fullmatch(split_path(name)[-1])]
        if len(paired_columns) < 2 or self.given:
            return

        # a column of responses ends like the column of its model, as `response_a` and `model_a` do
        endings = tuple(name[-1] for name in paired_columns)
        other_columns = [name for name in self.table.names if name not in paired_columns]
        has_responses = any(name.endswith(endings) and infer_role(name) != "about" for name in other_columns)

        # columns of prose or of different values may hold the responses of one agent each
        for name in paired_columns:
            column = self.table[name]
            if column.is_prose or not (has_responses or column.is_repetitive):
                return
        raise UnclearColumnsError("each row holds responses of two models, which other columns name")

    def can_name_agents(self, name: str) -> bool:
        """Return whether the values of a column can be names of agents.

        The values must be short, and each value must occur in at least two rows on average. The result is False if the values are
        e-mail addresses, URLs or UUIDs, or if the name of the column suggests groups of items, such as "category".
        """
        column = self.table[name]
        words = split_into_words(name)
        names_subjects = bool(SUBJECTS & words) and not _RUN_NAMES & words
        if names_subjects or column.is_contact or not column.distinct_texts:
            return False

        n_filled_rows = sum(bool(text) for text in column.value_texts)
        max_agents = min(_MAX_AGENTS, max(1, n_filled_rows // 2))
        longest_value = max(map(len, column.distinct_texts))
        return len(column.distinct_texts) <= max_agents and longest_value <= _MAX_NAME_LENGTH

    def may_be_wide(self, agent_candidates: Sequence[str]) -> bool:
        """Return whether each agent may have a separate column, because nothing else names agents or texts."""
        if "text" in self.given or self.location_columns:
            return False
        return not any(is_agent_name(name) and len(set(self.table[name].value_texts)) > 1 for name in agent_candidates)

    def find_agent_name_columns(self, candidates: Sequence[str]) -> tuple[str, ...] | None:
        """Find the columns that name agents: the column that the user named, or one whose agents share items.

        Agents share an item if they responded to it. The search ends with the first of these steps that finds shared items:

        1. If there are folders and files, compare `candidates`, folders and files by the prompts that they share.
        2. Compare the same columns by the ids or prompts that their agents share. An id may begin again in each folder or
           file, so that the folder or file may be a part of the id.
        3. Compare the columns whose names do not suggest agents by the ids or prompts that they share.

        Parameters
        ----------
        candidates : sequence of str
            Columns whose names and values suggest agents, the most reliable first.

        Returns
        -------
        tuple of str or None
            Columns that together name an agent; None if no step finds shared items.

        Raises
        ------
        UnclearColumnsError
            If the folders and the files could both be the agents.
        """
        if "agent" in self.given:
            return (self.given["agent"],)

        likely_columns = [*candidates, *self.location_columns]
        if len(self.location_columns) == 2:
            # ids may begin again in each file, but a prompt identifies an item across files
            prompts = [name for name in self.prompt_columns if name in self.item_columns]
            columns = self.find_agents_sharing_most_items(likely_columns, prompts)
            if columns is not None:
                return columns

        item_columns = self.list_item_columns_by_location()
        if not candidates:
            self.check_locations_differ(item_columns)
        columns = self.find_agents_sharing_most_items(likely_columns, item_columns)
        return columns or self.find_agents_sharing_most_items(self.list_unlikely_agent_columns(), self.item_columns)

    def list_item_columns_by_location(self) -> list[str]:
        """List the columns of ids or prompts, and ids combined with the folder or the file, in which they may restart."""
        items = [] if "item" in self.given else self.get_candidates("item")
        pairs = product(items, self.location_columns)
        return [*self.item_columns, *(join_names((location, item)) for item, location in pairs)]

    def list_unlikely_agent_columns(self) -> list[str]:
        """List the columns that may name agents although their names do not suggest it, the most reliable first.

        These columns are tried if no column with a name such as "model" distinguishes the agents. Columns named like a group of
        agents, such as "family", come first. They are followed by the columns whose names suggest no role: first those of short
        texts, and then those of longer texts. A column is left out if at least half of its texts are questions.
        """
        candidates = []
        for name in self.unnamed_columns:
            column = self.table[name]
            if self.can_name_agents(name) and column.is_text and column.question_fraction < 0.5:
                candidates.append(name)
        short_texts_first = sorted(candidates, key=lambda name: self.table[name].mean_words >= self.MIN_WORDS)
        return [*self.get_candidates("group"), *short_texts_first]

    def find_agents_sharing_most_items(self, agents: Sequence[str], items: Sequence[str]) -> tuple[str, ...] | None:
        """Return the column, or pair of columns, whose agents have the most items in common; None if no agents share an item.

        Single columns are tried first, and then pairs of the first four columns. The first of equal choices is returned.
        The items in common are counted by `count_max_shared_cells`.

        agents : columns that may name agents
        items : columns of ids or prompts
        """
        choices = [*((name,) for name in agents[:_MAX_CANDIDATES]), *combinations(agents[:4], 2)]
        best_columns = None
        max_shared = 0
        for columns in choices:
            other_columns = [item for item in items[:_MAX_CANDIDATES] if item not in columns]
            n_shared = self.count_max_shared_cells(columns, other_columns)
            if n_shared > max_shared:
                best_columns, max_shared = columns, n_shared
        return best_columns

    def count_max_shared_cells(self, agents: Sequence[str], items: Sequence[str]) -> int:
        """Return the largest number of shared cells for one of the columns `items`; 0 without columns."""
        return max((self.table.count_shared_cells(agents, item) for item in items), default=0)

    def check_locations_differ(self, item_columns: Sequence[str]) -> None:
        """Raise UnclearColumnsError if the folders and the files could equally well be the agents.

        The shared cells are counted with the folders as agents, and again with the files as agents. The folders and files are
        ambiguous if the two numbers are equal and greater than 0.

        item_columns : columns of ids or prompts, also combined with folders or files
        """
        n_shared_of_locations = []
        for location in self.location_columns:
            # a combined column, such as "<folder> + id", contains the name of the location
            other_columns = [name for name in item_columns if location not in name]
            n_shared_of_locations.append(self.count_max_shared_cells([location], other_columns))
        if len(n_shared_of_locations) == 2 and n_shared_of_locations[0] == n_shared_of_locations[1] > 0:
            raise UnclearColumnsError(
                f"folders and files may both be the agents: add --column 'agent={FOLDER}' or --column 'agent={FILE}'"
            )

    def check_single_text_column(self, roles: Roles, unshared_prose: Sequence[str]) -> None:
        """Raise UnclearColumnsError if another column may hold the responses instead of the chosen column.

        Columns of prose are checked if their names suggest no role. If the name of the chosen column is unusual, columns of
        prose with a name such as "output" and other texts are checked, too. A column may hold the responses if it has no role,
        and all of these conditions hold:

        - It does not come from a nested value, and is not named like a part of a response, such as its reasoning.
        - Its texts seldom recur, and no two agents share a text: agents share questions, but not responses.

        Nothing is checked if the user named the column of texts, or if the table has several files.

        roles : all roles; the chosen column has the role "text"
        unshared_prose : columns of prose without a role in which no two agents have the same text
        """
        if "text" in self.given or self.location_columns:
            return
        chosen = roles.columns["text"]
        rivals = list(unshared_prose)
        if normalize_name(chosen) not in NAMES["text"]:
            for name in self.text_columns[1:]:
                is_equal = self.table[chosen].value_texts == self.table[name].value_texts
                if self.table[name].is_prose and not is_equal:
                    rivals.append(name)

        for name in rivals:
            is_part = "." in name or "[" in name or is_part_of_response(name)
            is_shared = self.table.count_shared_cells(roles.agents, name) > 0
            if name in roles.unused and not is_part and not is_shared and not self.table[name].is_repetitive:
                raise UnclearColumnsError(f"{chosen!r} and {name!r} could both hold the responses", text=chosen)

    def make_roles(self, *, agents: tuple[str, ...], text: str | None, agent_columns: tuple[str, ...]) -> Roles:
        """Find the columns of the remaining roles, and return all roles.

        The remaining roles are item, prompt, group, empty (a mark for responses that are empty on purpose) and repeat. If
        several columns may have one of these roles, the most reliable or the first one gets it, without an error.

        agents : columns that together name an agent; empty if the table has a column per agent
        text : column of responses; None if the table has a column per agent
        agent_columns : columns that each hold the responses of one agent; empty if a single column holds all responses
        """
        columns: dict[str, str] = {}
        if text is not None:
            columns["text"] = text
        if agents:
            columns["agent"] = join_names(agents)

        columns |= self.find_item_and_prompt_columns(agents, used={text, *agents, *agent_columns})
        excluded = {*agents, columns.get("item", columns.get("prompt")), *self.given.values()}
        for role in ("group", "empty", "repeat"):
            candidates = [name for name in self.get_candidates(role) if role in self.given or name not in excluded]
            if candidates and (role != "group" or self.may_be_group(candidates[0], agents)):
                columns[role] = candidates[0]

        used = {*columns.values(), *agents, *agent_columns}
        unused = tuple(name for name in self.table.names if name not in used)
        return Roles(columns, agents, agent_columns, has_generated_ids="item" not in columns, unused=unused)

    def may_be_group(self, column: str, agents: tuple[str, ...]) -> bool:
        """Return whether the user named a column of groups, or each agent has one group in this column.

        agents : columns that together name an agent; empty if each agent has its own column
        """
        is_determined = bool(agents) and are_determined(self.table[column].value_texts, self.table.join_columns(agents))
        return "group" in self.given or is_determined

    def find_item_and_prompt_columns(self, agents: tuple[str, ...], used: set[str | None]) -> dict[str, str]:
        """Return the columns of the roles "item" and "prompt". Without ids, items are identified by their prompts.

        A column without a usual name of ids contains ids if its values are not prose, and another column contains the prompts.

        agents : columns that together name an agent; empty if each agent has its own column
        used : columns that have another role
        """
        candidates = [name for name in self.item_columns if name not in used]
        item = self.find_item_column(agents, candidates)
        if item is None:
            return {}
        has_item_name = item not in self.prompt_columns and infer_role(item) == "item"
        may_be_id = item in self.unnamed_columns and not self.table[item].is_prose  # such as the column "번호" (number)
        has_ids = (has_item_name or may_be_id or self.given.get("item") == item) and not self.table[item].is_long
        prompt = self.given.get("prompt") or self.find_prompt_column(item, {*used, item})
        if not has_ids or (may_be_id and prompt is None):
            return {"prompt": item}
        return {"item": item, "prompt": prompt} if prompt else {"item": item}

    def find_item_column(self, agents: tuple[str, ...], candidates: Sequence[str]) -> str | None:
        """Return the column of ids or prompts that identifies items; None without candidates.

        The column with the most shared cells is chosen (`find_column_of_shared_items`). If no column has shared cells, or if
        each agent has its own column, the first column with at least 90% of the largest number of distinct values is chosen.

        agents : columns that together name an agent; empty if each agent has its own column
        candidates : columns to choose from, the most reliable first
        """
        candidates = [name for name in candidates if name not in agents]
        if not candidates:
            return None
        if agents:
            shared_column = self.find_column_of_shared_items(agents, candidates)
            if shared_column is not None:
                return shared_column

        n_distinct = {name: len(self.table[name].distinct_texts) for name in candidates}
        min_distinct = 0.9 * max(n_distinct.values())
        return next(name for name in candidates if n_distinct[name] >= min_distinct)

    def find_column_of_shared_items(self, agents: tuple[str, ...], candidates: Sequence[str]) -> str | None:
        """Return the column by which agents have the most items in common; None if no column gives common items.

        The column with the most shared cells (`TableColumns.count_shared_cells`) is returned.

        Several columns may have the same number of shared cells. Then the first one is returned, unless it holds ids that
        restart for each agent and do not identify items. In this case, a column of prompts is returned.

        agents : columns that together name an agent
        candidates : columns of ids or prompts, at least one
        """
        n_shared = {name: self.table.count_shared_cells(agents, name) for name in candidates}
        max_shared = max(n_shared.values())
        if max_shared == 0:
            return None

        first_column, *equal_columns = [name for name in candidates if n_shared[name] == max_shared]
        ids = self.table[first_column].value_texts
        for name in equal_columns if infer_role(first_column) != "prompt" else ():
            prompts = self.table[name].value_texts
            is_prompt = infer_role(name) == "prompt" and self.table[name].is_text
            # ids restart if some id has several prompts, and some prompt several ids
            if is_prompt and not are_determined(ids, prompts) and not are_determined(prompts, ids):
                return name
        return first_column

    def find_prompt_column(self, item: str, used: set[str | None]) -> str | None:
        """Return the column of prompts, or None.

        It is the first of these columns that exists:

        1. a column whose name suggests prompts, or a further column whose name suggests responses, in which each item has one
           prompt;
        2. a column with a name as in 1, in which items may have several prompts;
        3. a column of prose whose name suggests no role, in which each item has one prompt, and fewer than two items have
           the same prompt on average.

        In 1 and 2, the column must hold at least two different texts.

        item : column that identifies items
        used : columns that have another role
        """
        ids = self.table[item].value_texts
        named_columns = [name for name in self.prompt_columns if name not in used and self.table[name].is_text]
        candidates = [name for name in named_columns if len(set(self.table[name].value_texts)) > 1]
        if candidates:
            one_per_item = (name for name in candidates if are_determined(self.table[name].value_texts, ids))
            return next(one_per_item, candidates[0])

        min_distinct = len(set(ids)) / 2
        for name in self.unnamed_columns:
            column = self.table[name]
            is_varied = column.is_prose and len(column.distinct_texts) > min_distinct
            if name not in used and is_varied and are_determined(column.value_texts, ids):
                return name
        return None
