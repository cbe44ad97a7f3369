"""Read the responses of a row from columns, paths inside columns, or known layouts of lists.

The columns are named by the caller; `column_roles` finds those of tables whose columns are not named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from youden.data.importers.column_values import collapse_spaces, split_composite, split_text_columns
from youden.data.importers.foreign_files import get_nested, import_error
from youden.data.importers.pool_joiner import NO_TEXTS, PoolBuilder, PromptItemIds, make_repeat_labels
from youden.data.importers.response_values import extract_responses, join_prompt, unwrap_single
from youden.data.pools.spool import format_excerpt
from youden.text.json_text import replace_nonfinite
from youden.text.printable import find_name_fault
from youden.text.sentences import suggest_name
from youden.types.pool import Json

_STEP = re.compile(r"\[(?P<position>(?:-?\d+)?)\]|\.?(?P<key>[^.\[\]]+)")


@dataclass(frozen=True)
class ColumnPath:
    """Path from a row to a value, or to a value in each element of a list.

    For example, `choices[].text` leads to the list `choices`, and has the element steps ("text",). The combination
    `subject+id` has the paths ("subject",) and ("id",).

    Attributes
    ----------
    paths : tuple of tuples of str or int
        Keys and list positions from the row to the value, or to the list; several if the values of columns are joined.
    element_steps : tuple of str or int, optional
        Keys and positions from each element of the list to its value; None if the path leads to one value.
    """

    paths: tuple[tuple[str | int, ...], ...]
    element_steps: tuple[str | int, ...] | None = None

    @classmethod
    def parse(cls, text: str, columns: Collection[str]) -> ColumnPath | None:
        """Parse the name of a column, names of columns joined by +, or a path, for example `choices[].text`.

        The name of an existing column is never split, even if it contains + or [].

        text : text to parse. A path starts with the name of a column, followed by keys (`.key`) and list positions (`[0]`,
            `[-1]`). It may contain one list, all of whose elements are meant, written as `[]`.
        columns : names of the columns of the table

        Returns the path, whose steps after the column are not checked; None if the text is none of these.
        """
        names = (text,) if text in columns else split_composite(text, columns)
        if names:
            return cls(tuple((name,) for name in names))

        steps = [int(position) if position else key for position, key in _STEP.findall(text)]  # "" for []
        is_path = "".join(match[0] for match in _STEP.finditer(text)) == text
        if not is_path or not steps or str(steps[0]) not in columns or steps.count("") > 1:
            return None
        if "" not in steps:
            return cls((tuple(steps),))
        list_position = steps.index("")
        steps_to_list = tuple(steps[:list_position])
        element_steps = tuple(steps[list_position + 1 :])
        return cls((steps_to_list,), element_steps)

    def get_value(self, row: Mapping[str, Json]) -> Json:
        """Return the value to which the path leads, or the whole list `choices` for `choices[].text`; None if it does not exist.

        Values of combined columns are joined, as in "maths / 7"; all of them must exist.
        """
        fields = row if isinstance(row, dict) else dict(row)  # copying a large row for each column would be slow
        values = [get_nested(fields, *steps) for steps in self.paths]
        if len(values) == 1:
            return values[0]
        return None if None in values else " / ".join(map(str, values))

    def has_cell(self, row: Mapping[str, Json]) -> bool:
        """Return whether a row has a field to which the path leads, even if the field is empty."""
        *parent_steps, last_step = self.paths[0]
        if not parent_steps:
            return last_step in row
        parent = get_nested(dict(row), *parent_steps)
        has_key = isinstance(parent, dict) and last_step in parent
        return has_key or get_nested(parent, last_step) is not None

    def get_elements(self, row: Mapping[str, Json]) -> list[Json]:
        """Return the value in each element of the list that the path leads to; empty without a list."""
        elements = self.get_value(row)
        if not isinstance(elements, list):
            return []
        return [get_nested(element, *(self.element_steps or ())) for element in elements]


PROMPTS = ("prompt", "instruction", "question")
ITEMS = ("item", "prompt_id", "question_id", "id")
_CHOSEN_AND_REJECTED = ("chosen", "rejected")
_AGENT_AND_TEXT_LISTS = (
    ("generation_models[]", "generations[]"),
    ("generation_model[]", "generations[]"),
    ("completions[].model", "completions[].response"),
    ("completions.model[]", "completions.response[]"),
)
"""Paths to the lists of agents and of texts of a row in known data sets."""


def detect_known_layout(row: Mapping[str, Json]) -> dict[str, str]:
    """Return where each kind of value is in a row if the row has the layout of a known data set; otherwise an empty dictionary.

    The keys of the result are roles, such as "agent", "text" or "item". The values are paths in the row.

    >>> detect_known_layout({"instruction": "i", "generations": ["a"], "generation_models": ["m"]})
    {'agent': 'generation_models[]', 'text': 'generations[]', 'prompt': 'instruction'}
    >>> detect_known_layout({"prompt": "p", "prompt_id": "x", "chosen": "a", "rejected": "b"})
    {'text': 'chosen,rejected', 'item': 'prompt_id', 'prompt': 'prompt'}
    """
    paths: dict[str, str] = {}
    if all(name in row for name in _CHOSEN_AND_REJECTED):
        paths = {"text": ",".join(_CHOSEN_AND_REJECTED)}
    for agent, text in _AGENT_AND_TEXT_LISTS:
        if _has_elements(row, agent) and _has_elements(row, text):
            paths = {"agent": agent, "text": text}
    if not paths:
        return {}

    for role, names in (("item", ITEMS), ("prompt", PROMPTS)):
        present = [name for name in names if name in row]
        if present:
            paths[role] = present[0]
    return paths


def _has_elements(row: Mapping[str, Json], text: str) -> bool:
    """Return whether a path such as `choices[].text` leads to a list of values in a row, none of which is missing."""
    path = ColumnPath.parse(text, row)
    elements = [] if path is None else path.get_elements(row)
    return bool(elements) and None not in elements


SHEET_ERROR = re.compile(
    r"\s*(#(REF!|N/A|VALUE!|NAME\?|DIV/0!|NULL!|NUM!|SPILL!|CALC!|FIELD!|BLOCKED!|GETTING_DATA|ERROR!)|Loading\.\.\.)\s*"
)
"""Text that a spreadsheet shows in a cell whose formula failed or is not finished."""
_TRUE = ("true", "yes", "y", "x", "1")
_MAX_ID_LENGTH = 100


def parse_column_paths(
    file: Path, row: Mapping[str, Json], columns: Mapping[str, str]
) -> tuple[dict[str, ColumnPath], dict[str, ColumnPath]]:
    """Parse the columns, or paths to values, that the user named.

    file : file of the table, for error messages; it is not read
    row : first row of the table, which may be nested
    columns : column or path by role; the role "text" may have several, separated by commas, one per agent. A path is, for
        example, `choices[].text`. Several columns that together have a role are joined by "+".

    Returns two dictionaries: role → path, and agent → path of its responses. The second is empty unless the role "text" has
    several columns. In this case, the agents are named after the columns, and the first dictionary has no role "text".

    Raises: ImportFormatError [import-columns] if the first column of a path does not exist, or the path is not valid; if the
        role "text" is missing; if the roles "item" and "prompt" are both missing; if both columns of texts and the role "agent"
        name the agents; if a path leads into a list (`[]`), and that of "text" does not.
    """
    paths: dict[str, ColumnPath] = {}
    agent_paths: dict[str, ColumnPath] = {}
    for role, text in columns.items():
        names = split_text_columns(text, row) if role == "text" else [text]
        for name in names:
            path = ColumnPath.parse(name, row)
            if path is None:
                suggestion = suggest_name(name, [column[:60] for column in row])
                message = f"there is no column '{name}'. {suggestion} Set --column {role}=NAME."
                raise import_error(file, message, slug="import-columns")
            if len(names) > 1:
                agent_paths[name] = path
            else:
                paths[role] = path

    problem = _find_column_problem(row, paths, agent_paths)
    if problem is not None:
        raise import_error(file, problem, slug="import-columns")
    return paths, agent_paths


def _find_column_problem(
    row: Mapping[str, Json], paths: Mapping[str, ColumnPath], agent_paths: Mapping[str, ColumnPath]
) -> str | None:
    """Describe why responses cannot be read from the named columns, and the remedy; None if they can be read.

    Two rules are checked:

    - If each agent has its own column of responses, no other column may name the agents.
    - If a path leads into a list (for example `choices[].model`), the path of the responses must lead into a list, too.

    row : first row of the table, whose columns the description lists
    paths : path to the value of each role, such as "item" or "text"
    agent_paths : path to the responses of each agent if each agent has a column; otherwise empty
    """
    has_items = "item" in paths or "prompt" in paths
    has_texts = "text" in paths or bool(agent_paths)
    if not has_items or not has_texts:
        missing_role = "text" if has_items else "item"
        columns = format_excerpt(", ".join(row))
        return f"no column has the role {missing_role}: the columns are {columns}. Set --column {missing_role}=NAME."
    if agent_paths and "agent" in paths:
        return "the columns of text name the agents, and so does the column agent. Remove agent."

    has_lists = any(path.element_steps is not None for path in paths.values())
    if has_lists and (agent_paths or paths["text"].element_steps is None):
        return "a path contains [], and the path of text does not. Set text to the path of the text in each element."
    return None


@dataclass
class ResponseReader:
    """Reads the responses of rows and adds them to a pool.

    Attributes
    ----------
    paths : mapping of str to ColumnPath
        Path by role, for the roles that the rows have.
    agent_paths : mapping of str to ColumnPath
        Path by agent, if each agent has a column.
    agent : str
        Agent of rows that name none.
    builder : PoolBuilder
        Receives the responses.
    items : PromptItemIds
        Generates the ids of items that have none.
    has_generated_ids : bool, default False
        Whether ids of items are generated from their prompts.
    is_exact : bool, default True
        Whether values are kept as they are. Otherwise runs of spaces in ids are collapsed, other values become texts,
        and an error of a spreadsheet is not a response.
    has_ordered_rows : bool, default False
        Whether rows of one agent and item are repeats, numbered in their order.
    """

    paths: Mapping[str, ColumnPath]
    agent_paths: Mapping[str, ColumnPath]
    agent: str
    builder: PoolBuilder
    items: PromptItemIds = field(default_factory=PromptItemIds)
    has_generated_ids: bool = False
    is_exact: bool = True
    has_ordered_rows: bool = False
    _n_rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    _numbers_of_responses: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Json], location: str) -> None:
        """Add the responses of one row to the pool.

        If each agent has a column, the row has one response per agent. If paths lead to the elements of lists (for
        example `choices[].text`), the row has one response per element. Otherwise it has a single response, or a list of
        responses.

        An empty cell is an empty response if the row has an agent and an item or prompt, and the table has no column `empty`.
        Otherwise it is counted as left out, and so is a row in which the cells of all agents or all lists are empty. The
        responses of lists with different lengths, and values that no pool can hold, are counted as dropped (`PoolBuilder.add`). A
        response that is a number is dropped if `is_exact` is true, because values are then not converted; otherwise, it becomes a
        text. No error is raised.

        row : values by column, which may be nested
        location : file and line, for messages
        """
        values = {role: path.get_value(row) for role, path in self.paths.items() if path.element_steps is None}
        for response_values in self._list_values_per_response(row, location):
            self._add_cell({**values, **response_values}, location)

    def _list_values_per_response(self, row: Mapping[str, Json], location: str) -> list[dict[str, Json]]:
        """Split a row into its responses, and return one dictionary (role → value) per response.

        It has only the values that differ between the responses:

        - If each agent has a column, these values are the agent and its text.
        - If paths lead into lists, these values are the elements of the lists.
        - If the row has a single response, its dictionary is empty.

        A row without responses is counted as left out or dropped.
        """
        if self.agent_paths:
            texts = {agent: path.get_value(row) for agent, path in self.agent_paths.items() if path.has_cell(row)}
            if not all(map(_is_blank, texts.values())):
                return [{"agent": agent, "text": text} for agent, text in texts.items()]
            self.builder.count_left_out("a row without responses", location)
            return []

        lists = {role: path.get_elements(row) for role, path in self.paths.items() if path.element_steps is not None}
        if lists:
            return self._split_lists(lists, location)
        if self.paths["text"].has_cell(row):
            return [{}]
        self.builder.count_left_out("a row without a text", location)
        return []

    def _split_lists(self, lists: Mapping[str, list[Json]], location: str) -> list[dict[str, Json]]:
        """Convert {"text": ["Yes", "No"]} to [{"text": "Yes"}, {"text": "No"}], with one dictionary per response.

        If the lists are empty or have different lengths, the result is empty, and the row is counted as left out or dropped.

        lists : lists of values in a row, by role
        location : file and line, for messages
        """
        lengths = set(map(len, lists.values()))
        if len(lengths) > 1:
            n_responses = len(lists["text"]) or max(lengths)
            self.builder.count_dropped(self.agent, "the lists of a row have different lengths", location, n=n_responses)
            return []
        if lengths == {0}:
            self.builder.count_left_out("a row without responses", location)
        return [dict(zip(lists, elements, strict=True)) for elements in zip(*lists.values(), strict=True)]

    def _add_cell(self, values: Mapping[str, Json], location: str) -> None:
        """Add the response, or the list of responses, of one agent to one item.

        values : value by role; the role text has one response or a list of responses
        location : file and line, for messages
        """
        if all(map(_is_blank, values.values())):
            self.builder.count_left_out("an empty row", location)
            return
        texts = extract_responses(values.get("text"))
        if not texts:
            self.builder.count_left_out(NO_TEXTS, location)
        labels = make_repeat_labels(values.get("repeat"), len(texts))
        for text, label in zip(texts, labels, strict=True):
            self._add_response({**values, "text": text, "repeat": label}, location, is_listed=len(texts) > 1)

    def _add_response(self, values: dict[str, Json], location: str, *, is_listed: bool) -> None:
        """Add one response to the pool that is being built.

        values : value of each role, such as "agent" and "text"
        location : file and row, for messages
        is_listed : whether the response comes from a list of several responses
        """
        has_agent = "agent" in self.paths or bool(self.agent_paths)
        agent = unwrap_single(values.get("agent")) if has_agent else self.agent
        item = unwrap_single(values.get("item"))
        prompt = join_prompt(values.get("prompt"))
        repeat = values["repeat"]
        if self.has_ordered_rows:
            cell = str(agent), str(item if "item" in self.paths else prompt)
            self._n_rows[cell] += 1
            repeat = self._n_rows[cell]

        text = _get_text(values)
        if text is None:
            has_item = not _is_blank(item) or not _is_blank(prompt)
            # a column `empty` would mark the empty cells that are responses
            is_response = has_item and not _is_blank(agent) and "empty" not in self.paths
            if not is_response:
                self.builder.count_left_out("an empty cell in place of a text", location)
                return
            text = ""

        response = {**values, "agent": agent, "item": item, "prompt": prompt, "repeat": repeat, "text": text}
        if not self.is_exact:
            self._add_cleaned_response(response, location, is_listed=is_listed)
            return
        if "item" not in self.paths and isinstance(prompt, str) and prompt.strip():
            response["item"] = self.items.get_id(str(agent), prompt, text, repeat=repeat)
        self._add_to_pool(response, location)

    def _add_to_pool(self, response: Mapping[str, Json], location: str) -> None:
        """Add a response to the pool; `response` has the value of each role."""
        roles = ("agent", "item", "text", "prompt", "group", "repeat")
        self.builder.add(**{role: response.get(role) for role in roles}, location=location)

    def _add_cleaned_response(self, values: dict[str, Json], location: str, *, is_listed: bool) -> None:
        """Clean the values of one response, number it among its repeats, and add it to the pool.

        - Several consecutive spaces in an id become one.
        - A response that is not a text is converted to JSON.
        - A response that is an error of the spreadsheet, such as #REF!, is not added.
        - Repeats are different responses of an agent to an item. They are numbered here if neither a column nor the order of
          rows numbers them.

        values : value of each role in the row
        location : file and row, for messages
        is_listed : whether the response comes from a list of several responses, in which equal responses are repeats, too
        """
        text, prompt, agent = values["text"], values["prompt"], values["agent"]
        if _is_sheet_error(text):
            self.builder.count_left_out("an error of the spreadsheet (such as #REF!) in place of a text", location)
            return
        if isinstance(agent, float) and not agent.is_integer():  # such as the version 1.1
            agent = f"{agent:g}"
        reason = self._explain_missing_id(agent, values["item"], prompt)
        if reason is not None:
            self.builder.count_dropped(agent, reason, location)
            return

        response = text if isinstance(text, str) else orjson.dumps(text, default=str).decode()
        agent = _collapse_spaces(agent)
        item = _collapse_spaces(values["item"])
        prompt = None if _is_sheet_error(prompt) else _collapse_spaces(prompt)
        # without an id and a prompt, each row is an item
        item_key = str(prompt or location) if _is_blank(item) else str(item)
        repeat = values["repeat"]
        if "repeat" not in self.paths and not self.has_ordered_rows and (response or is_listed):
            # equal texts are the same repeat, unless they are different elements of a list
            response_key = f"{repeat}: {response}" if is_listed else response
            repeat = self._number_response(str(agent), item_key, response_key)

        if self.has_generated_ids or not _can_be_id(item):
            prompt = values["prompt"] or join_prompt(values["item"])  # an item without an id may be its prompt
            item = self.items.get_id(str(agent), item_key, response, repeat=repeat)
        values.update(agent=agent, item=item, prompt=prompt, text=response, repeat=repeat)
        self._add_to_pool(values, location)

    def _number_response(self, agent: str, item_key: str, response_key: str) -> int:
        """Return the number of a response among the different responses of an agent to an item, in their order, from 1."""
        number_by_response = self._numbers_of_responses.setdefault((agent, item_key), {})
        return number_by_response.setdefault(response_key, len(number_by_response) + 1)

    def _explain_missing_id(self, agent: Json, item: Json, prompt: Json) -> str | None:
        """Return the reason why a row names no agent or no item; None if it names both.

        A spreadsheet error such as #REF! is not an id. If prompts identify the items, a row without a prompt has no item.
        Such a row may be a second header or a line of totals.
        """
        identifying_prompt = prompt if self.has_generated_ids else None
        identifiers = {"agent": agent, "item": item, "prompt": identifying_prompt}
        for role, identifier in identifiers.items():
            if role in self.paths and _is_sheet_error(identifier):
                return f"an error of the spreadsheet (such as #REF!) in place of the {role}"
        if self.has_generated_ids and "prompt" in self.paths and _is_blank(prompt):
            return "no prompt, which identifies the item"
        return None


def _can_be_id(item: Json) -> bool:
    """Return whether a value may be an id: it is not a text, or a short text that has only characters allowed in ids."""
    return not isinstance(item, str) or (len(item) <= _MAX_ID_LENGTH and not find_name_fault(item))


def _is_sheet_error(value: Json) -> bool:
    """Return whether a value is the error of a spreadsheet."""
    return isinstance(value, str) and SHEET_ERROR.fullmatch(value) is not None


def _get_text(values: Mapping[str, Json]) -> Json:
    """Return the response in the values of a row; None if it is missing.

    If the table has a column `empty`, it decides about blank texts: a blank text is a response only if the value is, for
    example, "yes". NaN and infinite numbers become None, because JSON has no such numbers.

    values : value of each role, such as "text" and "empty"
    """
    text: Json = replace_nonfinite(values.get("text"))
    if "empty" in values and _is_blank(text):
        is_marked = str(values["empty"]).casefold() in _TRUE
        return "" if is_marked else None
    return text


def _is_blank(value: Json) -> bool:
    """Return whether a value is null, or a text without visible characters."""
    return value is None or (isinstance(value, str) and not value.strip())


def _collapse_spaces(value: Json) -> Json:
    """Return a text with single spaces, so that equal ids and prompts are equal; any other value is returned unchanged."""
    return collapse_spaces(value) if isinstance(value, str) else value
