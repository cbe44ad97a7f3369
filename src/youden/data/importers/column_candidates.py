"""List the columns of a table that may have a role, by their names and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from youden.data.importers.column_names import NAMES, get_name_priority, infer_role, is_part_of_response
from youden.data.importers.column_values import Row, TableColumns

AGENT_NAMES = {"agent", "model"}
"""Names of columns that may hold agents even if their values do not recur."""
MIN_WORDS = 4
"""A column with repeated values holds texts, not categories, if they have at least this mean number of words."""
ROW_PER_AGENT = (
    "each row seems to hold all responses of one agent; transpose the table, so that each agent has a column"
)
"""Problem of a table that has a row per agent."""


class UnclearColumnsError(Exception):
    """The roles of the columns of a table are ambiguous.

    Attributes
    ----------
    problem : str
        Description of the ambiguity.
    options : dict of str to str
        Column by role that would resolve it; empty if none is known.
    """

    def __init__(self, problem: str, **options: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.options = options


class ColumnCandidates:
    """Columns of a table that may have a role; lists begin with the most reliable candidate.

    Attributes
    ----------
    table : TableColumns
        Columns of the rows that have a response.
    given : mapping of str to str
        Column by role, as named by the user.
    location_columns : sequence of str
        Columns that hold the folder and the file of a row.
    columns_by_role : dict of str to list of str
        Columns whose names suggest a role, by role; None for columns whose names suggest none.
    text_columns, prompt_columns, item_columns, unnamed_columns : list of str
        Candidates for responses, for prompts and for ids of items; and columns whose names suggest no role.
    given_text_columns : list of str
        Columns that the user named for responses.
    """

    def __init__(self, rows: Sequence[Row], location_columns: Sequence[str], given: Mapping[str, str]) -> None:
        self.location_columns = location_columns
        self.given = given
        self.given_text_columns = given["text"].split(",") if "text" in given else []
        self.table = TableColumns(rows)

        self.columns_by_role = self._group_by_role()
        self.text_columns = self._find_text_columns()

        # Rows without a response may lack other values, too.
        if self.text_columns:
            answered_rows = [row for row in rows if row.get(self.text_columns[0]) is not None]
            if answered_rows:
                self.table = TableColumns(answered_rows)

        self.unnamed_columns = self.get_candidates(None)
        self.prompt_columns = [*self.get_candidates("prompt"), *self.text_columns[1:]]
        self.item_columns = self._find_item_columns()

    def _group_by_role(self) -> dict[str | None, list[str]]:
        """Group the names of the columns by role, such as "agent", "item" or "text".

        If the user named a column for a role, the role has only this column. Otherwise, it has all columns whose names
        suggest the role. The columns that state the folder and the file of a row (`location_columns`) are left out unless
        the user named them.

        Returns the names of the columns of each role, the most reliable first. The key None has the columns whose names
        suggest no role.
        """
        columns_by_role: dict[str | None, list[str]] = {}
        excluded = {*self.given_text_columns, *self.given.values(), *self.location_columns}
        for name in self.table.names:
            if name not in excluded:
                columns_by_role.setdefault(infer_role(name), []).append(name)

        for role in NAMES.keys() & columns_by_role.keys():
            columns_by_role[role].sort(key=partial(get_name_priority, role=role))

        columns_by_role |= {role: [column] for role, column in self.given.items()}
        return columns_by_role

    def _find_text_columns(self) -> list[str]:
        """Return the columns that may hold responses; parts of responses, such as their reasoning, come last."""
        candidates = self.get_candidates("text")
        if "text" in self.given:
            return candidates
        return sorted([name for name in candidates if self.table[name].is_text], key=is_part_of_response)

    def _find_item_columns(self) -> list[str]:
        """Return the columns of ids, prompts or unknown values that may identify items; contact data come last."""
        item_columns = self.get_candidates("item")
        if "item" in self.given:
            return item_columns
        contacts_last = sorted(self.unnamed_columns, key=lambda name: self.table[name].is_contact)
        return list(filter(self.can_be_id, (*item_columns, *self.prompt_columns, *contacts_last)))

    def can_be_id(self, name: str) -> bool:
        """Return whether the values of a column may identify items: texts, whole numbers, or lists of texts."""
        for value in self.table[name].values:
            if isinstance(value, bool | dict) or (isinstance(value, float) and not value.is_integer()):
                return False
        return True

    def get_candidates(self, role: str | None) -> list[str]:
        """Return the column that the user named for a role, or else the columns whose names suggest it."""
        return self.columns_by_role.get(role, [])
