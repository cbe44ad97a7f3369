"""Decides which column of a table names the agents and the items, and which hold prompts and responses.

Values decide: an item is what several agents respond to, a response is a text that no other agent gave, and a question differs
from row to row and is no response. Names decide only between columns whose values allow both. If neither decides, the error
names the option that does.
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
    is_about_responses,
    name_order,
    names_agents_surely,
    path_parts,
    plain_name,
    role_of_name,
    words_of,
)
from youden.data.importers.column_values import FILE, FOLDER, SHORT, Row, TableColumns, joined, mean_overlap

_MOST_AGENTS = 500
_MOST_CANDIDATES = 50
"""Most columns that are compared with each other, each with each."""
_SURELY_AGENTS = {"agent", "model"}
"""Names of columns that name agents however few rows each agent has."""
_FEWEST_WORDS = 4
"""Mean number of words from which a column that repeats itself holds texts, not categories."""


class UnclearColumnsError(Exception):
    """The columns of a table allow several readings.

    Attributes
    ----------
    problem : str
    options : mapping
        Roles and columns that resolve the case; empty if none are known.
    """

    def __init__(self, problem: str, **options: str) -> None:
        super().__init__(problem)
        self.problem, self.options = problem, options


@dataclass(frozen=True)
class Roles:
    """Which columns have which role.

    Attributes
    ----------
    columns : mapping
        Role to column.
    agents : tuple of str
        Columns that together name an agent.
    wide : tuple of str
        Columns that each hold the responses of one agent.
    made : bool
        Whether items get ids that are made from their prompts.
    unused : tuple of str
        All other columns.
    """

    columns: Mapping[str, str]
    agents: tuple[str, ...]
    wide: tuple[str, ...]
    made: bool
    unused: tuple[str, ...]


def find_roles(rows: Sequence[Row], *, places: Sequence[str] = (), told: Mapping[str, str] | None = None) -> Roles:
    """Find which column has which role.

    Parameters
    ----------
    rows : sequence of mapping
        Flat rows of one table, or of several tables in files of their own.
    places : sequence of str
        Columns that hold the folder and the file of a row, if there are several files.
    told : mapping, optional
        Role to column, as far as it is known; for texts also several columns with commas, one per agent.

    Raises
    ------
    UnclearColumnsError
        If a role has no column, or several columns could have it.
    """
    return _Search(rows, places, told or {}).roles()


class _Search:
    """One search for the roles of columns."""

    def __init__(self, rows: Sequence[Row], places: Sequence[str], told: Mapping[str, str]) -> None:
        self.places, self.told = places, told
        self.told_texts = told["text"].split(",") if "text" in told else []
        self.table = TableColumns(rows)
        by_role: dict[str | None, list[str]] = {}
        for name in self.table.names:
            if name not in {*self.told_texts, *told.values(), *places}:
                by_role.setdefault(role_of_name(name), []).append(name)
        for role in NAMES:
            by_role.get(role, []).sort(key=partial(name_order, role=role))
        self.by_role = by_role | {role: [column] for role, column in told.items()}
        self.texts = [name for name in self.named("text") if "text" in told or self.table[name].is_text]
        if self.texts and (answered := [row for row in rows if row.get(self.texts[0]) is not None]):
            self.table = TableColumns(answered)
        self.unnamed = self.named(None)
        self.prompts = [*self.named("prompt"), *self.texts[1:]]
        others = sorted(self.unnamed, key=lambda name: self.table[name].is_contact)
        candidates = (*self.named("item"), *self.prompts, *others)
        ids = [name for name in candidates if self.table[name].can_be_id]
        self.items = self.named("item") if "item" in told else ids

    def named(self, role: str | None) -> list[str]:
        return self.by_role.get(role, [])

    def roles(self) -> Roles:
        table, told = self.table, self.told
        self.refuse_pairs()
        if len(self.told_texts) > 1:
            return self.made_of(agents=(), text=None, wide=tuple(self.told_texts))
        agents = [
            name
            for name in self.named("agent")
            if "agent" in told or path_parts(name)[-1] in _SURELY_AGENTS or self.names_agents(name)
        ]
        found, is_ambiguous = self.agent_columns(agents)
        is_named = any(names_agents_surely(name) and len(set(table[name].keys)) > 1 for name in agents)
        if found is None and not is_named and "text" not in told and not self.places:
            texts = [name for name in self.texts if plain_name(name) in NAMES["text"]]
            others = [name for name in (*self.unnamed, *self.named("agent")) if table[name].is_prose]
            if (len(texts) != 1 or len(others) > 2) and (wide := self.wide_columns()):
                return self.made_of(agents=(), text=None, wide=wide)
        named = found or tuple([*agents, *self.places][:1])
        prose = sorted(
            (name for name in self.unnamed if table[name].is_prose), key=lambda name: table[name].mean_length
        )
        own = [name for name in prose if not table.n_lined_up(named, name)]  # no agent shares these texts with another
        text = self.texts[0] if self.texts else (own or prose)[-1] if prose and (found or self.places) else None
        if text is None or (not self.texts and len(own) > 1 and {*named} <= {*self.places}):
            raise UnclearColumnsError(
                "no column holds responses as text" + f", or several do ({', '.join(own)})" * (len(own) > 1)
            )
        if is_ambiguous:
            raise UnclearColumnsError(
                f"folders and files may both be the agents: add --column 'agent={FOLDER}' or --column 'agent={FILE}'"
            )
        if found is None and "item" not in told and len(set(table.keys_of(named))) > 1:
            raise UnclearColumnsError("no column holds ids or prompts that two agents share")
        roles = self.made_of(agents=named, text=text, wide=())
        self.refuse_second_text(roles, own)
        return roles

    def refuse_pairs(self) -> None:
        """Refuse rows that hold the responses of two models, which other columns name."""
        paired = [name for name in self.table.names if PAIRED.fullmatch(path_parts(name)[-1])]
        ends = tuple(name[-1] for name in paired)
        others = (name for name in self.table.names if name not in paired and role_of_name(name) != "about")
        has_texts = any(name.endswith(ends) for name in others)
        columns = [self.table[name] for name in paired]
        are_texts = any(column.is_prose or not (has_texts or column.repeats) for column in columns)
        if len(paired) > 1 and not self.told and not are_texts:
            raise UnclearColumnsError("each row holds responses of two models, which other columns name")

    def names_agents(self, name: str) -> bool:
        column = self.table[name]
        if SUBJECTS & words_of(name) or column.is_contact:
            return False
        n_values = sum(bool(key) for key in column.keys)
        most = min(_MOST_AGENTS, max(1, n_values // 2))
        return 0 < len(column.distinct) <= most and max(map(len, column.distinct)) <= SHORT

    def agent_columns(self, agents: Sequence[str]) -> tuple[tuple[str, ...] | None, bool]:
        """Return the columns that name agents, and whether folders and files may both do so."""
        items, places = self.items, self.places
        if "agent" in self.told:
            return (self.told["agent"],), False
        shared = list(items)
        if places and "item" not in self.told:  # ids may restart in each folder or file
            shared += [joined((place, name)) for name in self.named("item") for place in places]
        others = [
            name
            for name in self.unnamed
            if self.names_agents(name) and self.table[name].is_text and self.table[name].share_asking < 0.5
        ]
        others.sort(key=lambda name: self.table[name].mean_words >= _FEWEST_WORDS)
        tried = [([*agents, *places], shared), ([*self.named("group"), *others], items)]
        if len(places) > 1:  # prompts tell whether folders or files are the agents; ids may restart in each
            tried.insert(0, (tried[0][0], [name for name in self.prompts if name in items]))
        is_ambiguous = False
        for candidates, ids in tried:
            is_ambiguous |= ids is shared and self.is_ambiguous(agents, ids)
            if (best := self.best(candidates, ids)) is not None:
                return best, is_ambiguous
        return None, is_ambiguous

    def best(self, agents: Sequence[str], items: Sequence[str]) -> tuple[str, ...] | None:
        """Return the columns that name agents, so that most cells line up: one, or two of the first four."""
        tried = items[:_MOST_CANDIDATES]
        apart = [(name,) for name in agents[:_MOST_CANDIDATES]] + list(combinations(agents[:4], 2))
        scores = {
            names: max((self.table.n_lined_up(names, item) for item in tried if item not in names), default=0)
            for names in apart
        }
        best = max(scores, key=lambda names: (scores[names], -len(names)), default=None)
        return best if best is not None and scores[best] > 0 else None

    def is_ambiguous(self, agents: Sequence[str], items: Sequence[str]) -> bool:
        """Return whether folders and files line up equally well as agents, and no column names any."""
        scores = {
            max((self.table.n_lined_up([place], item) for item in items if place not in item), default=0)
            for place in self.places
        }
        return len(self.places) > 1 and not agents and len(scores) == 1 and 0 not in scores

    def wide_columns(self) -> tuple[str, ...]:
        """Return the columns that are an agent each; none if there are fewer than two.

        The question among them is added to `prompts`. Raises: UnclearColumnsError.
        """
        table = self.table
        left = [name for name in table.names if name not in self.told.values() and not is_about_responses(name)]
        left = [
            name for name in left if table[name].is_text and not table[name].is_contact and not self.is_remark(name)
        ]
        prose, words = [], []
        for name in left:
            column = table[name]
            if column.is_prose and (column.mean_words >= _FEWEST_WORDS or not column.repeats):
                prose.append(name)
            elif not column.repeats and not any(re.search(r"\d", text) for text in column.texts):
                words.append(name)
        question = self.told.get("prompt") or self.question(prose)
        agents = [name for name in prose if name != question]
        if len(agents) < 2:
            named = [name for name in self.named("prompt") if name in words]
            agents, words = [name for name in left if name not in (*prose, *named) and not self.is_group(name)], []
        if len(agents) < 2:
            return ()
        if words:
            raise UnclearColumnsError(
                f"{', '.join(map(repr, words))} may be an agent or be about the items",
                text=",".join(agents),
                **({"prompt": question} if question else {}),
            )
        if question is not None:
            self.prompts = [question]
        self.items = [name for name in self.named("item") if table[name].can_be_id and name not in prose]
        self.items += [question] if question else [name for name in self.unnamed if table[name].is_contact]
        return tuple(agents)

    def is_remark(self, name: str) -> bool:
        """Return whether a column is about the agent of another one: "gpt rationale" beside "gpt response"."""
        *agent, last = plain_name(name).split("_")
        others = (plain_name(other).split("_") for other in self.table.names if other != name)
        return bool(agent) and last in ABOUT and any(words[: len(agent)] == agent for words in others)

    def is_group(self, name: str) -> bool:
        words = words_of(name)
        return bool(SUBJECTS & words and not _SURELY_AGENTS & words) or role_of_name(name) in (
            "item",
            "prompt",
            "about",
        )

    def question(self, prose: Sequence[str]) -> str | None:
        """Return the column of questions among columns of texts; None if all of them are responses."""
        named = [
            name for name in prose if role_of_name(name) in ("prompt", "item") or plain_name(name) in NAMES["prompt"]
        ]
        asking = sorted(prose, key=lambda name: -self.table[name].share_asking)
        if len(prose) < 3:
            return named[0] if named else None
        if not named and self.table[asking[0]].share_asking >= 0.5 + self.table[asking[1]].share_asking:
            named = asking[:1]
        if len(named) == 1:
            self.refuse_texts_before(named[0], prose)
            return named[0]
        if named:
            problem = f"{' and '.join(map(repr, named))} could both be the question"
            best = min(named, key=lambda name: (-self.table[name].share_asking, name_order(name, "prompt")))
        else:
            unlike = (
                name for name in (prose[0], prose[-1]) if self.differs(name, [one for one in prose if one != name])
            )
            if (best := next(unlike, "")) == "":
                return None
            problem = f"{best!r} could be the question or an agent"
        responses = [name for name in prose if name not in (named or [best])]
        raise UnclearColumnsError(problem, prompt=best, text=",".join(responses))

    def refuse_texts_before(self, question: str, prose: Sequence[str]) -> None:
        """Refuse texts on both sides of the question: those on one side may be about it."""
        at = prose.index(question)
        before, after = prose[:at], prose[at + 1 :]
        if before and after:
            few, responses = sorted((before, after), key=len)
            problem = f"{', '.join(map(repr, few))} may be an agent or belong to the question"
            raise UnclearColumnsError(problem, prompt=question, text=",".join(responses))

    def differs(self, first: str, others: Sequence[str]) -> bool:
        """Return whether a column differs from others in its name, its length or its words."""
        names = [words_of(name) | {plain_name(name)[:3]} for name in others]
        if common := set.intersection(*names):
            return not common & (words_of(first) | {plain_name(first)[:3]})
        columns = [self.table[name] for name in (first, *others[:8])]
        length = columns[0].mean_length / (sum(column.mean_length for column in columns[1:]) / len(columns[1:]))
        own = [mean_overlap(columns[0], column) for column in columns[1:]]
        mutual = [mean_overlap(one, other) for one, other in combinations(columns[1:], 2)]
        return not 0.75 < length < 1.33 or sum(own) / len(own) < 0.9 * sum(mutual) / len(mutual)

    def refuse_second_text(self, roles: Roles, own: Sequence[str]) -> None:
        """Refuse a column of texts that is left over, if nothing says what it is."""
        text = roles.columns["text"]
        left = [name for name in own if name in roles.unused and "." not in name and "[" not in name]
        left = [name for name in left if not self.table[name].repeats]
        if left and "text" not in self.told and not self.places:
            raise UnclearColumnsError(f"{text!r} and {left[0]!r} could both hold the responses", text=text)

    def made_of(self, *, agents: tuple[str, ...], text: str | None, wide: tuple[str, ...]) -> Roles:
        table, told = self.table, self.told
        items = [name for name in self.items if name not in (text, *agents, *wide)]
        item = self.item_column(agents, items)
        is_called_item = item is not None and (
            told.get("item") == item or (item not in self.prompts and role_of_name(item) == "item")
        )
        is_id = item is not None and is_called_item and not table[item].is_long
        columns = {} if text is None else {"text": text}
        if agents:
            columns["agent"] = joined(agents)
        if item is not None:
            columns["item" if is_id else "prompt"] = item
        if (
            item is not None
            and is_id
            and (prompt := told.get("prompt") or self.prompt_of(item, {text, item, *agents, *wide}))
        ):
            columns["prompt"] = prompt
        for role in ("group", "empty", "repeat"):
            taken = (*agents, item, *told.values())
            free = (name for name in table.names if role_of_name(name) == role and name not in taken)
            if role in told:
                columns[role] = told[role]
            elif (column := next(free, None)) is not None and (role != "group" or self.is_of_agents(agents, column)):
                columns[role] = column
        used = {*columns.values(), *agents, *wide}
        return Roles(columns, agents, wide, not is_id, tuple(name for name in table.names if name not in used))

    def item_column(self, agents: tuple[str, ...], items: Sequence[str]) -> str | None:
        table = self.table
        free = [name for name in items if name not in agents]
        if agents:
            scores = [table.n_lined_up(agents, name) for name in free]
            if (most := max(scores, default=0)) > 0:
                item, *others = (name for name, score in zip(free, scores, strict=True) if score == most)
                prompts = [name for name in others if role_of_name(name) == "prompt" and table[name].is_text]
                return next((name for name in prompts if self.restarts(item, name)), item)
        n_distinct = [len(table[name].distinct) for name in free]
        return next((name for name, n in zip(free, n_distinct, strict=True) if n >= 0.9 * max(n_distinct)), None)

    def restarts(self, item: str, prompt: str) -> bool:
        """Return whether ids number the rows of each agent, so that one id has several prompts, and no prompt has one id."""
        ids, prompts = self.table[item].keys, self.table[prompt].keys
        n_pairs = len(set(zip(ids, prompts, strict=True)))
        return role_of_name(item) != "prompt" and n_pairs > max(len(set(ids)), len(set(prompts)))

    def prompt_of(self, item: str, used: set[str | None]) -> str | None:
        """Return the first column of several prompts, preferably with one per item, as no agent's own template has."""
        ids = self.table[item].keys

        def is_shared(name: str) -> bool:
            return len(set(zip(ids, self.table[name].keys, strict=True))) == len(set(ids))

        named = [name for name in self.prompts if name not in used and self.table[name].is_text]
        varied = [name for name in named if len(set(self.table[name].keys)) > 1]
        unnamed = [name for name in self.unnamed if name not in used and self.table[name].is_prose]
        unnamed = [name for name in unnamed if len(self.table[name].distinct) > len(set(ids)) / 2 and is_shared(name)]
        return next(filter(is_shared, varied), next(iter(varied or unnamed), None))

    def is_of_agents(self, agents: Sequence[str], column: str) -> bool:
        """Return whether each agent has one value in a column."""
        if not agents:
            return False
        pairs = set(zip(self.table.keys_of(agents), self.table[column].keys, strict=True))
        complete = {pair for pair in pairs if None not in pair}
        return len(complete) == len({agent for agent, _ in complete})
