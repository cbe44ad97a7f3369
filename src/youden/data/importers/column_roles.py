"""Find the columns of a table that hold agents, items, prompts and responses.

Values decide first: several agents respond to one item; a response is a text that no other agent gave; a question
differs from row to row and is not a response. Names decide only between columns whose values allow both. If neither
decides, the error names the option that does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from youden.data.importers.column_names import (
    ABOUT,
    NAMES,
    PAIRED,
    SUBJECTS,
    get_name_priority,
    infer_role,
    is_about_responses,
    is_agent_name,
    normalize_name,
    split_into_words,
    split_path,
)
from youden.data.importers.column_values import FILE, FOLDER, MAX_ID_LENGTH, Row, TableColumns, join_names, mean_overlap

_MAX_AGENTS = 500
_MAX_CANDIDATES = 50
"""Maximum number of agent columns, and of item columns, that are tried with each other."""
_AGENT_NAMES = {"agent", "model"}
"""Names of columns that are taken for agents even if no agent has several rows."""
_MIN_WORDS = 4
"""Mean number of words from which a column with repeated values holds texts rather than categories."""


class UnclearColumnsError(Exception):
    """The roles of the columns of a table are ambiguous.

    `problem` describes the ambiguity. `options` holds a column by role that would resolve it; empty if none is known.
    """

    def __init__(self, problem: str, **options: str) -> None:
        super().__init__(problem)
        self.problem, self.options = problem, options


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


def find_roles(
    rows: Sequence[Row], *, location_columns: Sequence[str] = (), given: Mapping[str, str] | None = None
) -> Roles:
    """Find the role of each column of a table; raise UnclearColumnsError if a role has no column or may have several.

    rows : flat rows of one table, or of several tables of the same layout
    location_columns : columns that hold the folder and the file of a row, if there are several files
    given : columns by role that the user named; for text also several columns, separated by commas, one per agent
    """
    return _RoleSearch(rows, location_columns, given or {}).find_roles()


class _RoleSearch:
    """One search for the roles of the columns of a table; lists of candidates begin with the most reliable one."""

    def __init__(self, rows: Sequence[Row], location_columns: Sequence[str], given: Mapping[str, str]) -> None:
        self.location_columns, self.given = location_columns, given
        self.given_texts = given["text"].split(",") if "text" in given else []
        self.table = TableColumns(rows)

        by_role: dict[str | None, list[str]] = {}
        for name in self.table.names:
            if name not in {*self.given_texts, *given.values(), *location_columns}:
                by_role.setdefault(infer_role(name), []).append(name)
        for role in NAMES:
            by_role.get(role, []).sort(key=partial(get_name_priority, role=role))
        self.by_role = by_role | {role: [column] for role, column in given.items()}

        self.text_columns = [
            name for name in self.get_candidates("text") if "text" in given or self.table[name].is_text
        ]
        if self.text_columns and (answered := [row for row in rows if row.get(self.text_columns[0]) is not None]):
            self.table = TableColumns(answered)

        self.unnamed_columns = self.get_candidates(None)
        self.prompt_columns = [*self.get_candidates("prompt"), *self.text_columns[1:]]
        contacts_last = sorted(self.unnamed_columns, key=lambda name: self.table[name].is_contact)
        candidates = (*self.get_candidates("item"), *self.prompt_columns, *contacts_last)
        ids = [name for name in candidates if self.table[name].can_be_id]
        self.item_columns = self.get_candidates("item") if "item" in given else ids

    def get_candidates(self, role: str | None) -> list[str]:
        """Return the column that the user named for a role, or else the columns whose names propose it."""
        return self.by_role.get(role, [])

    def find_roles(self) -> Roles:
        table, given = self.table, self.given
        self.check_no_pairs()
        if len(self.given_texts) > 1:
            return self.make_roles(agents=(), text=None, agent_columns=tuple(self.given_texts))

        candidates = [
            name
            for name in self.get_candidates("agent")
            if "agent" in given or split_path(name)[-1] in _AGENT_NAMES or self.can_name_agents(name)
        ]
        found_agents, is_ambiguous = self.find_agents(candidates)
        has_agent_name = any(is_agent_name(name) and len(set(table[name].keys)) > 1 for name in candidates)
        may_be_wide = found_agents is None and not has_agent_name and "text" not in given and not self.location_columns
        if may_be_wide and (agent_columns := self.find_agent_columns()):
            return self.make_roles(agents=(), text=None, agent_columns=agent_columns)

        agents = found_agents or tuple([*candidates, *self.location_columns][:1])
        prose = sorted(
            (name for name in self.unnamed_columns if table[name].is_prose), key=lambda name: table[name].mean_length
        )
        # Columns of responses: no two agents have the same text.
        unshared = [name for name in prose if not table.count_shared_cells(agents, name)]
        text = None
        if self.text_columns:
            text = self.text_columns[0]
        elif prose and (found_agents or self.location_columns):
            text = (unshared or prose)[-1]

        has_only_locations = {*agents} <= {*self.location_columns}
        if text is None or (not self.text_columns and len(unshared) > 1 and has_only_locations):
            several = f", or several do ({', '.join(unshared)})" if len(unshared) > 1 else ""
            raise UnclearColumnsError("no column holds responses as text" + several)
        if is_ambiguous:
            raise UnclearColumnsError(
                f"folders and files may both be the agents: add --column 'agent={FOLDER}' or --column 'agent={FILE}'"
            )
        if found_agents is None and "item" not in given and len(set(table.get_keys(agents))) > 1:
            raise UnclearColumnsError("no column holds ids or prompts that two agents share")
        roles = self.make_roles(agents=agents, text=text, agent_columns=())
        self.check_single_text(roles, unshared)
        return roles

    def check_no_pairs(self) -> None:
        """Raise UnclearColumnsError if each row holds responses of two models, which other columns name."""
        paired = [name for name in self.table.names if PAIRED.fullmatch(split_path(name)[-1])]
        suffixes = tuple(name[-1] for name in paired)
        others = (name for name in self.table.names if name not in paired and infer_role(name) != "about")
        has_texts = any(name.endswith(suffixes) for name in others)
        columns = [self.table[name] for name in paired]
        are_texts = any(column.is_prose or not (has_texts or column.is_repetitive) for column in columns)
        if len(paired) > 1 and not self.given and not are_texts:
            raise UnclearColumnsError("each row holds responses of two models, which other columns name")

    def can_name_agents(self, name: str) -> bool:
        """Return whether a column has few, short values that recur, and holds neither contacts nor subjects."""
        column = self.table[name]
        if SUBJECTS & split_into_words(name) or column.is_contact:
            return False
        n_values = sum(bool(key) for key in column.keys)
        max_agents = min(_MAX_AGENTS, max(1, n_values // 2))
        return 0 < len(column.distinct) <= max_agents and max(map(len, column.distinct)) <= MAX_ID_LENGTH

    def find_agents(self, candidates: Sequence[str]) -> tuple[tuple[str, ...] | None, bool]:
        """Return the columns that name agents, or None, and whether folders and files may both do so.

        candidates : columns whose names and values propose agents
        """
        items, locations = self.item_columns, self.location_columns
        if "agent" in self.given:
            return (self.given["agent"],), False

        shared = list(items)
        if locations and "item" not in self.given:  # ids may restart in each folder or file
            shared += [join_names((column, name)) for name in self.get_candidates("item") for column in locations]
        others = [
            name
            for name in self.unnamed_columns
            if self.can_name_agents(name) and self.table[name].is_text and self.table[name].question_fraction < 0.5
        ]
        others.sort(key=lambda name: self.table[name].mean_words >= _MIN_WORDS)

        attempts = [([*candidates, *locations], shared), ([*self.get_candidates("group"), *others], items)]
        if len(locations) > 1:  # prompts show whether folders or files are the agents; ids may restart in each
            attempts.insert(0, (attempts[0][0], [name for name in self.prompt_columns if name in items]))

        is_ambiguous = False
        for agents, ids in attempts:
            is_ambiguous |= ids is shared and self.has_ambiguous_locations(candidates, ids)
            if (best := self.find_best_agents(agents, ids)) is not None:
                return best, is_ambiguous
        return None, is_ambiguous

    def find_best_agents(self, agents: Sequence[str], items: Sequence[str]) -> tuple[str, ...] | None:
        """Return the column, or the pair among the first four, whose agents share most cells; None if none is shared.

        A cell is one agent's response to one item. It is shared if another agent responded to this item, too.
        """
        items = items[:_MAX_CANDIDATES]
        choices = [(name,) for name in agents[:_MAX_CANDIDATES]] + list(combinations(agents[:4], 2))
        scores = {
            names: max((self.table.count_shared_cells(names, item) for item in items if item not in names), default=0)
            for names in choices
        }
        best = max(scores, key=lambda names: (scores[names], -len(names)), default=None)
        return best if best is not None and scores[best] > 0 else None

    def has_ambiguous_locations(self, agents: Sequence[str], items: Sequence[str]) -> bool:
        """Return whether folders and files fit equally well as agents, and no column (`agents`) names agents."""
        scores = {
            max((self.table.count_shared_cells([column], item) for item in items if column not in item), default=0)
            for column in self.location_columns
        }
        return len(self.location_columns) > 1 and not agents and len(scores) == 1 and 0 not in scores

    def find_agent_columns(self) -> tuple[str, ...]:
        """Return the columns that each hold the responses of one agent; empty if there are fewer than two.

        Changes `prompt_columns` and `item_columns` to the candidates among the other columns.

        Raises: UnclearColumnsError if a column may be an agent or describe items.
        """
        table = self.table
        texts = [name for name in self.text_columns if normalize_name(name) in NAMES["text"]]
        others = [name for name in (*self.unnamed_columns, *self.get_candidates("agent")) if table[name].is_prose]
        if len(texts) == 1 and len(others) <= 2:
            return ()

        candidates = [name for name in table.names if name not in self.given.values() and not is_about_responses(name)]
        candidates = [name for name in candidates if table[name].is_text and not table[name].is_contact]
        candidates = [name for name in candidates if not self.is_remark(name)]
        prose, unclear = [], []
        for name in candidates:
            column = table[name]
            if column.is_prose and (column.mean_words >= _MIN_WORDS or not column.is_repetitive):
                prose.append(name)
            elif not column.is_repetitive and not any(re.search(r"\d", text) for text in column.texts):
                unclear.append(name)

        question = self.given.get("prompt") or self.find_question(prose)
        agents = [name for name in prose if name != question]
        if len(agents) < 2:  # responses of one word, such as labels
            prompts = [name for name in self.get_candidates("prompt") if name in unclear]
            agents = [name for name in candidates if name not in (*prose, *prompts) and not self.is_group(name)]
            unclear = []
        if len(agents) < 2:
            return ()
        if unclear:
            raise UnclearColumnsError(
                f"{', '.join(map(repr, unclear))} may be an agent or be about the items",
                text=",".join(agents),
                **({"prompt": question} if question else {}),
            )

        if question is not None:
            self.prompt_columns = [question]
        self.item_columns = [
            name for name in self.get_candidates("item") if table[name].can_be_id and name not in prose
        ]
        if question:
            self.item_columns.append(question)
        else:
            self.item_columns += [name for name in self.unnamed_columns if table[name].is_contact]
        return tuple(agents)

    def is_remark(self, name: str) -> bool:
        """Return whether a column annotates another one, for example "gpt rationale" a column "gpt response"."""
        *agent, last = normalize_name(name).split("_")
        others = (normalize_name(column).split("_") for column in self.table.names if column != name)
        return bool(agent) and last in ABOUT and any(words[: len(agent)] == agent for words in others)

    def is_group(self, name: str) -> bool:
        """Return whether the name of a column proposes items, prompts, groups of items, or information about them."""
        words = split_into_words(name)
        names_subject = bool(SUBJECTS & words and not _AGENT_NAMES & words)
        return names_subject or infer_role(name) in ("item", "prompt", "about")

    def find_question(self, prose: Sequence[str]) -> str | None:
        """Return the column of questions among columns of texts; None if all of them hold responses.

        Raises: UnclearColumnsError if a column may hold questions or responses.
        """
        by_name = [
            name for name in prose if infer_role(name) in ("prompt", "item") or normalize_name(name) in NAMES["prompt"]
        ]
        if len(prose) < 3:
            return by_name[0] if by_name else None

        by_fraction = sorted(prose, key=lambda name: -self.table[name].question_fraction)
        first, second = (self.table[name].question_fraction for name in by_fraction[:2])
        if not by_name and first >= 0.5 + second:
            by_name = by_fraction[:1]
        if len(by_name) == 1:
            self.check_question_position(by_name[0], prose)
            return by_name[0]

        if by_name:
            problem = f"{' and '.join(map(repr, by_name))} could both be the question"
            best = min(
                by_name, key=lambda name: (-self.table[name].question_fraction, get_name_priority(name, "prompt"))
            )
        else:
            ends = (prose[0], prose[-1])
            best = next((name for name in ends if self.is_different(name, [x for x in prose if x != name])), "")
            if not best:
                return None
            problem = f"{best!r} could be the question or an agent"
        responses = [name for name in prose if name not in (by_name or [best])]
        raise UnclearColumnsError(problem, prompt=best, text=",".join(responses))

    def check_question_position(self, question: str, prose: Sequence[str]) -> None:
        """Raise UnclearColumnsError if there are columns of texts on both sides of the question."""
        position = prose.index(question)
        before, after = prose[:position], prose[position + 1 :]
        if before and after:
            unclear, responses = sorted((before, after), key=len)
            problem = f"{', '.join(map(repr, unclear))} may be an agent or belong to the question"
            raise UnclearColumnsError(problem, prompt=question, text=",".join(responses))

    def is_different(self, name: str, others: Sequence[str]) -> bool:
        """Return whether a column of texts is unlike the others, as a question is among responses.

        Names decide if those of the others share a word or their first three letters: a different name shares neither.
        Otherwise texts decide: a different column has at most 0.75 or at least 1.33 times the mean length of the
        others, or overlaps with their words less than 0.9 times as much as they overlap with each other.
        """
        other_words = [split_into_words(peer) | {normalize_name(peer)[:3]} for peer in others]
        if common := set.intersection(*other_words):
            return not common & (split_into_words(name) | {normalize_name(name)[:3]})

        column = self.table[name]
        other_columns = [self.table[peer] for peer in others[:8]]
        mean_length = sum(peer.mean_length for peer in other_columns) / len(other_columns)
        overlap = [mean_overlap(column, peer) for peer in other_columns]
        mutual_overlap = [mean_overlap(a, b) for a, b in combinations(other_columns, 2)]
        has_similar_length = 0.75 < column.mean_length / mean_length < 1.33
        return not has_similar_length or (sum(overlap) / len(overlap) < 0.9 * sum(mutual_overlap) / len(mutual_overlap))

    def check_single_text(self, roles: Roles, unshared: Sequence[str]) -> None:
        """Raise UnclearColumnsError if an unused column of `unshared` texts may hold the responses, too."""
        text = roles.columns["text"]
        unused = [name for name in unshared if name in roles.unused and "." not in name and "[" not in name]
        unused = [name for name in unused if not self.table[name].is_repetitive]
        if unused and "text" not in self.given and not self.location_columns:
            raise UnclearColumnsError(f"{text!r} and {unused[0]!r} could both hold the responses", text=text)

    def make_roles(self, *, agents: tuple[str, ...], text: str | None, agent_columns: tuple[str, ...]) -> Roles:
        """Find the columns of the other roles, once agents and responses are known."""
        table, given = self.table, self.given
        item = self.find_item(
            agents, [name for name in self.item_columns if name not in (text, *agents, *agent_columns)]
        )
        has_ids = item is not None and self.has_item_name(item) and not table[item].is_long

        columns = {} if text is None else {"text": text}
        if agents:
            columns["agent"] = join_names(agents)
        if item is not None:
            columns["item" if has_ids else "prompt"] = item
        if item is not None and has_ids:
            prompt = given.get("prompt") or self.find_prompt(item, {text, item, *agents, *agent_columns})
            if prompt:
                columns["prompt"] = prompt

        for role in ("group", "empty", "repeat"):
            used = (*agents, item, *given.values())
            column = next((name for name in table.names if infer_role(name) == role and name not in used), None)
            if role in given:
                columns[role] = given[role]
            elif column is not None and (role != "group" or self.is_constant_per_agent(agents, column)):
                columns[role] = column

        all_used = {*columns.values(), *agents, *agent_columns}
        unused = tuple(name for name in table.names if name not in all_used)
        return Roles(columns, agents, agent_columns, not has_ids, unused)

    def has_item_name(self, column: str) -> bool:
        """Return whether the user named a column as the item, or its name proposes items."""
        return self.given.get("item") == column or (column not in self.prompt_columns and infer_role(column) == "item")

    def find_item(self, agents: tuple[str, ...], candidates: Sequence[str]) -> str | None:
        """Return the column of ids or prompts that identifies items; None if there is no candidate.

        It is the column with the most shared cells (see `find_best_agents`); of several, the first, or a column of
        prompts if the ids of the first restart. Without shared cells, it is the first column with at least 90 % of the
        maximum of distinct values.
        """
        table = self.table
        candidates = [name for name in candidates if name not in agents]
        if agents:
            scores = [table.count_shared_cells(agents, name) for name in candidates]
            if (max_score := max(scores, default=0)) > 0:
                item, *others = (name for name, score in zip(candidates, scores, strict=True) if score == max_score)
                prompts = [name for name in others if infer_role(name) == "prompt" and table[name].is_text]
                return next((name for name in prompts if self.has_restarting_ids(item, name)), item)

        n_distinct = {name: len(table[name].distinct) for name in candidates}
        return next((name for name, n in n_distinct.items() if n >= 0.9 * max(n_distinct.values())), None)

    def has_restarting_ids(self, item: str, prompt: str) -> bool:
        """Return whether ids may restart for each agent: some id has several prompts, and some prompt several ids."""
        ids, prompts = self.table[item].keys, self.table[prompt].keys
        n_pairs = len(set(zip(ids, prompts, strict=True)))
        return infer_role(item) != "prompt" and n_pairs > max(len(set(ids)), len(set(prompts)))

    def find_prompt(self, item: str, used: set[str | None]) -> str | None:
        """Return a column of prompts, preferably the first with one prompt per item; None if there is none."""
        table = self.table
        ids = table[item].keys

        def is_one_per_item(name: str) -> bool:
            return len(set(zip(ids, table[name].keys, strict=True))) == len(set(ids))

        by_name = [name for name in self.prompt_columns if name not in used and table[name].is_text]
        varied = [name for name in by_name if len(set(table[name].keys)) > 1]
        unnamed = [name for name in self.unnamed_columns if name not in used and table[name].is_prose]
        unnamed = [name for name in unnamed if len(table[name].distinct) > len(set(ids)) / 2 and is_one_per_item(name)]
        return next(filter(is_one_per_item, varied), next(iter(varied or unnamed), None))

    def is_constant_per_agent(self, agents: tuple[str, ...], column: str) -> bool:
        """Return whether each agent has one value in a column."""
        if not agents:
            return False
        pairs = set(zip(self.table.get_keys(agents), self.table[column].keys, strict=True))
        complete = {pair for pair in pairs if None not in pair}
        return len(complete) == len({agent for agent, _ in complete})
