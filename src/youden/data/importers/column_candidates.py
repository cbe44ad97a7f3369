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

        columns_by_role: dict[str | None, list[str]] = {}
        excluded = {*self.given_text_columns, *given.values(), *location_columns}
        for name in self.table.names:
            if name not in excluded:
                columns_by_role.setdefault(infer_role(name), []).append(name)
        for role in NAMES:
            columns_by_role.get(role, []).sort(key=partial(get_name_priority, role=role))
        for role, column in given.items():
            columns_by_role[role] = [column]
        self.columns_by_role = columns_by_role

        text_columns = self.get_candidates("text")
        if "text" not in given:
            text_columns = [name for name in text_columns if self.table[name].is_text]
            text_columns.sort(key=is_part_of_response)
        self.text_columns = text_columns

        # Rows without a response may lack other values, too.
        if text_columns:
            answered_rows = [row for row in rows if row.get(text_columns[0]) is not None]
            if answered_rows:
                self.table = TableColumns(answered_rows)

        self.unnamed_columns = self.get_candidates(None)
        self.prompt_columns = [*self.get_candidates("prompt"), *text_columns[1:]]
        self.item_columns = self.get_candidates("item")
        if "item" not in given:
            contacts_last = sorted(self.unnamed_columns, key=lambda name: self.table[name].is_contact)
            candidates = (*self.item_columns, *self.prompt_columns, *contacts_last)
            self.item_columns = [name for name in candidates if self.table[name].can_be_id]

    def get_candidates(self, role: str | None) -> list[str]:
        """Return the column that the user named for a role, or else the columns whose names suggest it."""
        return self.columns_by_role.get(role, [])
