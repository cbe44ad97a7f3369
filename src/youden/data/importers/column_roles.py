"""Find the columns of a table that hold agents, items, prompts and responses.

The values of the columns come first: agents share items, no two agents give the same response, and questions differ
from row to row. The names of the columns decide only if the values allow several columns. If the names do not decide
either, the error names the option with which the user decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product

from youden.data.importers.column_names import (
    NAMES,
    PAIRED,
    REPEAT_NUMBERS,
    SUBJECTS,
    infer_role,
    is_about_responses,
    is_agent_name,
    is_part_of_response,
    normalize_name,
    split_into_words,
    split_path,
)
from youden.data.importers.column_values import (
    FILE,
    FOLDER,
    Row,
    UnclearColumnsError,
    are_determined_by,
    join_names,
    may_name_categories,
    split_names,
    with_similar_ids,
)
from youden.data.importers.wide_columns import WideTableSearch

_MAX_AGENTS = 500
_MAX_NAME_LENGTH = 100
_MAX_CANDIDATES = 50
"""Maximum number of agent columns, and of item columns, that are tried with each other."""
_RUN_NAMES = {"run", "experiment"}
"""Words for the run of an agent on a data set, as in "dataset_run_name"."""
_REPEAT_WORDS = REPEAT_NUMBERS - {"run", "sample", "trial"}
"""Words for the number of a repeat, without words that may also name items, such as that in "sample_id"."""
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
        Whether the ids of items are generated: from their prompts or, without prompts, one per row.
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

    The roles are agent, item, text (the response), prompt, group, empty (a mark for empty responses) and repeat. Only columns of
    texts are necessary. If each row names its agent and there are several agents, these must share items or prompts, unless the
    user named the column of items. In other tables, each row is an item if no column holds items or prompts.

    rows : values by column of each row of one table, or of several tables with the same columns; no value is nested
    location_columns : columns that hold the folder and the file of a row, in this order, if there are several files
    given : column by role, as named by the user. The role text may have one column per agent, separated by commas. The rows
        must have these columns, which is not checked. Default: all roles are inferred from the names and values of the columns.

    Returns the columns by role (`columns`; several columns that together have a role are joined, as in "a + b"), those that name
    the `agents`, and those without a role (`unused`). In a wide table, which has a column of responses per agent, the columns
    of the agents are `agent_columns`.

    Raises: UnclearColumnsError if no column holds responses, if several agents share no item, if several columns may have a role,
        or if the table seems to have no header. It is also raised if a row compares two models, or seems to hold all responses
        of an agent. Its `options` propose columns by role, if any are known.
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

        candidates = self.list_agent_candidates()
        shared_agents = self.find_agent_name_columns(candidates)
        if shared_agents is not None:
            return self.find_roles_of_long_table(shared_agents, are_agents_certain=True)

        agent_columns = self.find_agent_columns() if self.may_be_wide(candidates) else ()
        if agent_columns:
            self.check_has_header(agent_columns)
            return self.make_roles(agents=(), text=None, agent_columns=agent_columns)

        self.check_agents_are_not_rows(candidates)
        possible_agents = [*candidates, *self.location_columns]
        return self.find_roles_of_long_table(tuple(possible_agents[:1]), are_agents_certain=False)

    def list_agent_candidates(self) -> list[str]:
        """List the columns that may name agents by their names and values, or only the column that the user named."""
        candidates = self.get_candidates("agent")
        if "agent" in self.given:
            return candidates
        return [name for name in candidates if self.is_named_like_agents(name) or self.can_name_agents(name)]

    def is_named_like_agents(self, name: str) -> bool:
        """Return whether a column is called "agent" or "model", and holds names instead of texts of many words."""
        return split_path(name)[-1] in self.AGENT_NAMES and self.table[name].mean_words < self.MIN_WORDS

    def find_roles_of_long_table(self, agents: tuple[str, ...], *, are_agents_certain: bool) -> Roles:
        """Find the roles of the columns of a table in which one column has the responses of all agents.

        agents : columns that together name an agent; empty if all rows belong to one agent
        are_agents_certain : whether these columns certainly name the agents, because agents share items; otherwise they are a
            guess

        Returns the columns by role, and the columns without a role. The column of responses is the one that the user named, or
        else the first whose name suggests responses, or else the column of prose with the longest texts.

        Raises: UnclearColumnsError in four cases. (1) It is unclear which column holds the responses. (2) There are several
            agents, their columns are a guess, and the user did not name the column of items. (3) The table seems to have no
            header. (4) There is one agent, and several columns whose names suggest no role could identify the items.
        """
        prose_columns = [name for name in self.unnamed_columns if self.table[name].is_prose and name not in agents]
        prose_columns.sort(key=lambda name: self.table[name].mean_length)
        # agents share questions, but no two agents give the same response
        unshared_prose = [name for name in prose_columns if self.table.count_shared_cells(agents, name) == 0]
        if self.text_columns:
            text = self.text_columns[0]
        elif unshared_prose and self.can_choose_prose(agents, unshared_prose, are_agents_certain=are_agents_certain):
            text = unshared_prose[-1]  # the longest texts
        else:
            raise self.make_no_text_column_error(unshared_prose)

        has_several_agents = len(set(self.table.join_columns(agents))) > 1
        if not are_agents_certain and "item" not in self.given and has_several_agents:
            item_ids = chain.from_iterable(self.table[name].distinct_texts for name in self.get_candidates("item"))
            problem = "no column holds ids or prompts that two agents share"
            raise UnclearColumnsError(with_similar_ids(problem, item_ids))
        self.check_has_header([text])
        roles = self.make_roles(agents=agents, text=text, agent_columns=())
        self.check_single_text_column(roles, unshared_prose)
        if not has_several_agents:
            self.check_items_are_named(roles)
        return roles

    def check_items_are_named(self, roles: Roles) -> None:
        """Raise UnclearColumnsError if an unnamed column identifies the items of one agent, and another one could do so, too.

        Such a table may have a column of labels, such as "A" and "B", for each agent.

        roles : columns by role
        """
        item = roles.columns.get("item", roles.columns.get("prompt"))
        rivals = [name for name in roles.unused if name in self.unnamed_columns and self.table[name].is_text]
        if item in self.unnamed_columns and rivals:
            raise UnclearColumnsError(f"{item!r} and {rivals[0]!r} could both identify the items")

    def can_choose_prose(
        self, agents: tuple[str, ...], unshared_prose: Sequence[str], *, are_agents_certain: bool
    ) -> bool:
        """Return whether a column of prose may hold the responses of all agents although its name does not suggest it.

        Two conditions must hold. (1) The table has several files, or it is certain which columns name the agents. (2) `agents`
        has a column other than files and folders, or `unshared_prose` has at most one column. Otherwise, each column of prose
        may belong to a different agent.

        agents : columns that together name an agent
        unshared_prose : columns of prose in which no two agents have the same text
        are_agents_certain : whether the columns `agents` certainly name the agents, because agents share items
        """
        has_agent_column = not set(agents) <= set(self.location_columns)
        is_clear = has_agent_column or len(unshared_prose) <= 1
        return is_clear and (are_agents_certain or bool(self.location_columns))

    def make_no_text_column_error(self, candidates: Sequence[str]) -> UnclearColumnsError:
        """Make the error for a table in which no column clearly holds the responses.

        The error names the candidates if there are several. If the table also has several files or sheets, the error proposes
        that each candidate holds the responses of one agent.

        candidates : columns of prose in which no two agents have the same text
        """
        problem = "no column holds responses as text"
        options: dict[str, str] = {}
        if len(candidates) > 1:
            problem += f", or several do ({', '.join(candidates)})"
            if self.location_columns:
                options["text"] = ",".join(candidates)
        return UnclearColumnsError(problem, **options)

    def check_agents_are_not_rows(self, agent_candidates: Sequence[str]) -> None:
        """Raise UnclearColumnsError if each row seems to hold all responses of one agent, in one column per question.

        Such a table has a different agent in each row and at least three columns of prose.

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

        In a table without a header, the first responses are read as the names of the columns. Two signs together reveal this:
        each name is about as long as a response, and one name contains the end of a sentence. Nothing is checked if the user
        named one of the columns.

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

        Such a table has at least two columns with names like `model_a` and `model_b`, which hold names of models. A column
        holds names if it is not prose and one of these statements is true:

        - Its values recur.
        - Another column, for example `response_a`, holds the responses.

        Nothing is checked if the user named any column.
        """
        paired_columns = [name for name in self.table.names if PAIRED.fullmatch(split_path(name)[-1])]
        if len(paired_columns) < 2 or self.given:
            return

        # a column of responses ends with the same letter as the column of its model, as `response_a` and `model_a` do
        last_letters = tuple(name[-1] for name in paired_columns)
        other_columns = [name for name in self.table.names if name not in paired_columns]
        has_responses = any(name.endswith(last_letters) and infer_role(name) != "about" for name in other_columns)

        for name in paired_columns:
            column = self.table[name]
            holds_names = not column.is_prose and (has_responses or column.is_repetitive)
            if not holds_names:
                return
        raise UnclearColumnsError("each row holds responses of two models, which other columns name")

    def can_name_agents(self, name: str) -> bool:
        """Return whether the values of a column can be names of agents.

        - There are at most 500 different values, all of them short.
        - Each value occurs in at least two rows on average. If there is only one value, it may occur once.
        - The values are not e-mail addresses, URLs or UUIDs.
        - The name of the column does not suggest groups of items, as "category" does. The name of a run is allowed, such as
          "dataset_run_name".
        """
        column = self.table[name]
        words = split_into_words(name)
        names_item_groups = bool(SUBJECTS & words) and not _RUN_NAMES & words
        if names_item_groups or column.is_contact or not column.distinct_texts:
            return False

        n_values = len(column.distinct_texts)
        n_filled_rows = sum(bool(text) for text in column.value_texts)
        recurs = n_values == 1 or 2 * n_values <= n_filled_rows
        longest_value = max(map(len, column.distinct_texts))
        return recurs and n_values <= _MAX_AGENTS and longest_value <= _MAX_NAME_LENGTH

    def may_be_wide(self, agent_candidates: Sequence[str]) -> bool:
        """Return whether each agent may have a separate column, because nothing else names agents or texts."""
        if "text" in self.given or self.location_columns:
            return False
        return not any(is_agent_name(name) and len(set(self.table[name].value_texts)) > 1 for name in agent_candidates)

    def find_agent_name_columns(self, candidates: Sequence[str]) -> tuple[str, ...] | None:
        """Find the columns that name the agents: the column that the user named, or columns whose agents share items.

        Two agents share an item if both responded to it. The first of these steps that finds shared items decides:

        1. If there are several folders and files, `candidates`, folders and files may name agents. Equal prompts are shared
           items.
        2. The same columns may name agents. Equal prompts or ids are shared items. Ids may be combined with their folder or
           file.
        3. Columns whose names do not suggest agents may name them. Equal prompts or ids are shared items.

        candidates : columns whose names and values suggest agents, the most reliable first

        Returns the columns that together name an agent; None if no step finds shared items.

        Raises: UnclearColumnsError if the folders and the files could both be the agents.
        """
        if "agent" in self.given:
            return (self.given["agent"],)

        likely_columns = [*candidates, *self.location_columns]
        if len(self.location_columns) == 2:  # folders and files
            # ids may begin again in each file, but a prompt identifies an item across files
            prompts = [name for name in self.prompt_columns if name in self.item_columns]
            columns = self.find_agents_sharing_most_items(likely_columns, prompts)
            if columns is not None:
                return columns

        item_columns = self.list_item_columns_by_location()
        if not candidates:
            self.check_ambiguous_locations(item_columns)
        columns = self.find_agents_sharing_most_items(likely_columns, item_columns)
        return columns or self.find_agents_sharing_most_items(self.list_unlikely_agent_columns(), self.item_columns)

    def list_item_columns_by_location(self) -> list[str]:
        """List the columns of ids or prompts, and ids combined with the folder or the file, in which they may restart."""
        items = [] if "item" in self.given else self.get_candidates("item")
        pairs = product(items, self.location_columns)
        return [*self.item_columns, *(join_names((location, item)) for item, location in pairs)]

    def list_unlikely_agent_columns(self) -> list[str]:
        """List the columns that may name agents although their names do not suggest it, the most reliable first.

        The caller tries these columns if no column with a name such as "model" distinguishes the agents. Columns in which at
        least half of the texts are questions are left out. The order is:

        1. columns named like a group of agents, such as "family";
        2. columns of short texts whose names suggest no role;
        3. columns of longer texts whose names suggest no role.
        """
        candidates = []
        for name in self.unnamed_columns:
            column = self.table[name]
            if self.can_name_agents(name) and column.is_text and column.question_fraction < 0.5:
                candidates.append(name)
        short_texts_first = sorted(candidates, key=lambda name: self.table[name].mean_words >= self.MIN_WORDS)
        return [*self.get_candidates("group"), *short_texts_first]

    def find_agents_sharing_most_items(
        self, agent_columns: Sequence[str], item_columns: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Return the columns whose values, taken as names of agents, share the most items; None if no items are shared.

        The result is a single column or a pair of columns. Pairs are formed from the first four columns only. The choices are
        compared by `count_max_shared_cells`, in which a column of agents does not count as a column of items. Of equally good
        choices, the first one is returned; single columns come before pairs.

        agent_columns : columns that may name agents; only the first 50 are examined
        item_columns : columns of ids or prompts; only the first 50 are examined
        """
        single_columns = [(name,) for name in agent_columns[:_MAX_CANDIDATES]]
        pairs_of_columns = combinations(agent_columns[:4], 2)
        best_columns = None
        max_shared = 0
        for columns in [*single_columns, *pairs_of_columns]:
            other_columns = [name for name in item_columns[:_MAX_CANDIDATES] if name not in columns]
            n_shared = self.count_max_shared_cells(columns, other_columns)
            if n_shared > max_shared:
                best_columns, max_shared = columns, n_shared
        return best_columns

    def count_max_shared_cells(self, agents: Sequence[str], item_columns: Sequence[str]) -> int:
        """Count the shared cells for each column of items, and return the largest number; 0 without columns."""
        return max((self.count_shared_cells(agents, name) for name in item_columns), default=0)

    def count_shared_cells(self, agents: Sequence[str], item: str) -> int:
        """Count the responses that can be compared: those of agents to items to which another agent responded, too.

        Each pair of an agent and an item counts once; rows without an agent or an item do not count. Returns 0 if the items, or
        both the agents and the items, seem to be categories, for example channels and priorities.

        agents : columns that together name an agent
        item : column that may identify the items
        """
        are_categories = self.may_be_categories(agents, item) and not self.table.are_crossed(agents, item)
        return 0 if are_categories else self.table.count_shared_cells(agents, item)

    def may_be_categories(self, agents: Sequence[str], item: str) -> bool:
        """Return whether columns may hold categories, for example channels and priorities, instead of agents and items.

        Only names are compared, not values. The result is True if the name of `item` suggests subjects or authors of questions,
        or does not suggest a role. It is always False if the user named `item` as the items, or if the agents are known
        (`are_agents_known`).

        agents : columns that together may name an agent
        item : column that may identify the items
        """
        are_known = self.are_agents_known(agents) or item == self.given.get("item")
        return not are_known and may_name_categories(item)

    def are_agents_known(self, agents: Sequence[str]) -> bool:
        """Return whether the user, a folder, a file, or the name of a column indicates that columns name agents."""
        known_columns = {*self.location_columns, self.given.get("agent")}
        return any(is_agent_name(name) or name in known_columns for name in agents)

    def check_ambiguous_locations(self, item_columns: Sequence[str]) -> None:
        """Raise UnclearColumnsError if the folders and the files could equally well be the agents.

        Both choices are equally good if they give the same number of responses that can be compared with another agent's
        response.

        item_columns : columns of ids or prompts, also combined with folders or files
        """
        if len(self.location_columns) != 2:  # not both folders and files
            return
        shared_counts = []
        for location in self.location_columns:
            # a combined column, such as "<folder> + id", contains the name of the location
            other_columns = [name for name in item_columns if location not in name]
            shared_counts.append(self.count_max_shared_cells([location], other_columns))
        n_shared_by_folders, n_shared_by_files = shared_counts
        if n_shared_by_folders == n_shared_by_files > 0:
            raise UnclearColumnsError(
                f"folders and files may both be the agents: add --column 'agent={FOLDER}' or --column 'agent={FILE}'"
            )

    def check_single_text_column(self, roles: Roles, unshared_prose: Sequence[str]) -> None:
        """Raise UnclearColumnsError if a different column could hold the responses as well as the chosen column.

        If it is known which columns name the agents (from the user, a folder, a file, or the names of columns), the error
        proposes the chosen column as responses. Otherwise, it proposes one column per agent, without naming the columns. Nothing
        is checked if the user named the column of responses, or if the table has several files.

        roles : all roles; the chosen column has the role "text"
        unshared_prose : columns of prose without a role in which no two agents have the same text
        """
        if "text" in self.given or self.location_columns:
            return
        rival = self.find_rival_text_column(roles, unshared_prose)
        if rival is None:
            return
        chosen = roles.columns["text"]
        problem = f"{chosen!r} and {rival!r} could both hold the responses"
        if any(infer_role(agent) == "agent" for agent in roles.agents) or self.are_agents_known(roles.agents):
            remedy = "if both do, name all columns of an agent's responses: agent=NAME and text=A,B"
            raise UnclearColumnsError(f"{problem} ({remedy})", text=chosen)
        raise UnclearColumnsError(f"{problem} (if each agent has a column, name all of them: text=A,B)")

    def find_rival_text_column(self, roles: Roles, unshared_prose: Sequence[str]) -> str | None:
        """Return the first column that could hold the responses instead of the chosen column; None if there is none.

        The columns `unshared_prose` are the first candidates. If the name of the chosen column is unusual, further candidates are
        the other columns of prose whose names suggest responses, unless they equal the chosen column in all rows. A candidate
        must meet these conditions:

        - It has no role.
        - It does not come from a nested value, and is not named like a part of a response, for example its reasoning.
        - Its texts seldom recur (fewer than two rows per distinct text), and no two agents have the same text.

        roles : all roles; the chosen column has the role "text"
        unshared_prose : columns of prose whose names suggest no role, and in which no two agents have the same text
        """
        chosen = roles.columns["text"]
        candidates = list(unshared_prose)
        if normalize_name(chosen) not in NAMES["text"]:
            for name in self.text_columns[1:]:
                is_equal = self.table[chosen].value_texts == self.table[name].value_texts
                if self.table[name].is_prose and not is_equal:
                    candidates.append(name)

        for name in candidates:
            is_part = "." in name or "[" in name or is_part_of_response(name)
            is_shared = self.table.count_shared_cells(roles.agents, name) > 0
            if name in roles.unused and not is_part and not is_shared and not self.table[name].is_repetitive:
                return name
        return None

    def make_roles(self, *, agents: tuple[str, ...], text: str | None, agent_columns: tuple[str, ...]) -> Roles:
        """Choose the columns of the roles item, prompt, group, empty and repeat, and return the columns of all roles.

        A column with the role "empty" marks responses that are empty on purpose. A column with the role "repeat" numbers
        several responses of an agent to an item. If several columns fit a role, the first candidate gets it. Columns without
        a role become `unused`. If no column has the role "item", the ids of items are generated (`has_generated_ids`): from the
        prompts or, without prompts, one per row. No error is raised.

        agents : columns that together name an agent; empty if the table has a column per agent, or a single agent
        text : column of responses; None if the table has a column per agent
        agent_columns : columns that each hold the responses of one agent; empty if a single column holds all responses
        """
        columns: dict[str, str] = {}
        if text is not None:
            columns["text"] = text
        if agents:
            columns["agent"] = join_names(agents)

        columns |= self.find_item_and_prompt_columns(agents, used={text, *agents, *agent_columns})
        item_or_prompt = columns.get("item", columns.get("prompt"))
        for role in ("group", "empty", "repeat"):
            candidates = self.get_candidates(role)
            if role not in self.given:
                candidates = [name for name in candidates if name not in (*agents, item_or_prompt)]
            if candidates and (role != "group" or self.may_be_group(candidates[0], agents)):
                columns[role] = candidates[0]

        used = {*agent_columns}
        for column in columns.values():
            used.update(split_names(column, self.table.names))
        unused = tuple(name for name in self.all_names if name not in used)
        return Roles(columns, agents, agent_columns, has_generated_ids="item" not in columns, unused=unused)

    def may_be_group(self, column: str, agents: tuple[str, ...]) -> bool:
        """Return whether the user named a column of groups, or each agent has one group in this column.

        agents : columns that together name an agent; empty if each agent has its own column
        """
        if "group" in self.given:
            return True
        groups = self.table[column].value_texts
        return bool(agents) and are_determined_by(groups, self.table.join_columns(agents))

    def find_item_and_prompt_columns(self, agents: tuple[str, ...], used: set[str | None]) -> dict[str, str]:
        """Find the columns of the roles "item" (ids of the items) and "prompt". Without ids, prompts identify the items.

        Columns that the user named come first. A column whose name suggests no role gets the role "item" only if its values are
        not prose and another column holds the prompts; otherwise, it gets the role "prompt".

        agents : columns that together name an agent; empty if each agent has its own column
        used : columns that have another role

        Returns the column of each role that was found; empty if no column identifies the items.
        """
        candidates = [name for name in self.item_columns if name not in used]
        column = self.find_item_column(agents, candidates)
        if column is None:
            return {}
        may_be_ids = column in self.unnamed_columns and not self.table[column].is_prose  # such as "번호" (number)
        is_named_like_ids = column not in self.prompt_columns and infer_role(column) == "item"
        is_named_by_user = self.given.get("item") == column
        has_ids = is_named_by_user or is_named_like_ids or may_be_ids
        if self.table[column].is_long or not has_ids:
            return {"prompt": column}

        prompt = self.given.get("prompt") or self.find_prompt_column(column, {*used, column})
        if prompt:
            return {"item": column, "prompt": prompt}
        return {"prompt": column} if may_be_ids else {"item": column}

    def find_item_column(self, agents: tuple[str, ...], candidates: Sequence[str]) -> str | None:
        """Return the column of ids or prompts that identifies the items; None if there are no candidates.

        The column by which agents share the most items is chosen (`find_column_of_shared_items`). If there is no such column,
        the number of distinct values decides. The first candidate with at least 90% of the largest number is chosen. A
        reliable candidate may thus have a few repeated values.

        agents : columns that together name an agent; empty if each agent has its own column
        candidates : columns to choose from, the most reliable first
        """
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
        """Return the column by which agents share the most items; None if they share no items by any column.

        Columns are compared by `count_shared_cells`. A column that only numbers repeats, for example "epoch", is left out. It is
        recognized because most agents have a row for each of its numbers and each item. Of equally good columns, the first one
        is returned. If its ids restart for each agent, an equally good column of prompts is returned instead.

        agents : columns that together name an agent, at least one
        candidates : columns of ids or prompts, at least one
        """
        n_shared = {name: self.count_shared_cells(agents, name) for name in candidates}
        items = [name for name in candidates if n_shared[name] > 0 and _REPEAT_WORDS.isdisjoint(split_into_words(name))]
        for name in n_shared.keys() - items:
            if any(self.table.are_crossed((*agents, name), item) for item in items):
                n_shared[name] = 0
        max_shared = max(n_shared.values())
        if max_shared == 0:
            return None
        return self.prefer_prompts_to_restarting_ids([name for name in candidates if n_shared[name] == max_shared])

    def prefer_prompts_to_restarting_ids(self, columns: Sequence[str]) -> str:
        """Return the first column, or a column of prompts if the ids in the first column restart for each agent.

        Ids that restart do not identify items. They are recognized by two signs: one id has several prompts, and one prompt
        has several ids.

        columns : columns of ids or prompts that seem to identify the items equally well, at least one
        """
        first_column, *other_columns = columns
        if infer_role(first_column) == "prompt":
            return first_column
        ids = self.table[first_column].value_texts
        for name in other_columns:
            prompts = self.table[name].value_texts
            is_prompt = infer_role(name) == "prompt" and self.table[name].is_text
            if is_prompt and not are_determined_by(ids, prompts) and not are_determined_by(prompts, ids):
                return name
        return first_column

    def find_prompt_column(self, item: str, used: set[str | None]) -> str | None:
        """Return the column of prompts; None if there is none.

        The first case with a candidate decides, and its first candidate is returned:

        1. a column with a suitable name and one prompt per item;
        2. a column with a suitable name and several prompts for some items;
        3. a column of prose whose name suggests no role, with one prompt per item. Few items may share a prompt: there are
           more than half as many prompts as items.

        A suitable name suggests prompts or responses. In cases 1 and 2, the column must hold at least two different texts.

        item : column that identifies items
        used : columns that are not considered: `item`, and columns with another role
        """
        ids = self.table[item].value_texts
        named_columns = [name for name in self.prompt_columns if name not in used and self.table[name].is_text]
        candidates = [name for name in named_columns if len(set(self.table[name].value_texts)) > 1]
        for name in candidates:
            if are_determined_by(self.table[name].value_texts, ids):
                return name  # case 1: each item has one prompt
        if candidates:
            return candidates[0]  # case 2

        for name in self.unnamed_columns:  # case 3
            column = self.table[name]
            is_varied = column.is_prose and len(column.distinct_texts) > len(set(ids)) / 2
            if name not in used and is_varied and are_determined_by(column.value_texts, ids):
                return name
        return None
