"""Guesses which column of other people's table is the agent, the item and the text: by usual names first, then by what stands
in it.

An item is something that several agents answer: among columns that could name items, that one is taken by which most rows are
cells that line up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations

from youden.nouns import Json

NAMES: Mapping[str, tuple[str, ...]] = {
    noun: tuple(names.split())
    for noun, names in {
        "agent": (
            "agent model model_name model_id generator system assistant bot prompt_version prompt_name version "
            "variant candidate engine deployment llm config configuration provider run experiment author name"
        ),
        "item": (
            "item item_id question_id prompt_id task_id example_id instance_id doc_id query_id sample_id "
            "test_id input_id qid case id number no nr index row key task"
        ),
        "text": (
            "response output answer completion generation prediction reply result summary translation text "
            "content message"
        ),
        "prompt": (
            "prompt question instruction input query user_input request problem source document article passage "
            "topic text title task"
        ),
        "group": "group family",
        "empty": "empty empty_answer answer_is_empty",
        "repeat": "repeat epoch",
    }.items()
}
"""What people call the columns of a pool, the surest name first. empty: says that an empty answer was given."""

_GENERIC = frozenset({"text", "content", "body", "id", "name", "string", "value", "full"})
_ABOUT = frozenset(
    name
    for names in (
        "expected reference gold golden ground truth correct label score scores rating grade rank pass metric judge eval",
        "cost price usd latency tokens time timestamp date created duration seconds temperature seed status error url",
        "comment comments note notes feedback reviewer category tag tags split system_prompt system_message",
    )
    for name in names.split()
)
SUBJECTS = frozenset(
    name
    for names in (
        "subject topic category subcategory domain discipline field theme chapter course exam split subset dataset corpus",
        "benchmark suite scenario collection language lang locale",
    )
    for name in names.split()
)
"""Words that name a group of items, and never an agent."""
_SURELY_AGENTS = ("agent", "model")
"""Names that say whose a response is, however few rows each agent has."""
_SHORT = 100
_MOST_AGENTS = 500
_MOST_CANDIDATES = 50
"""Columns without a telling name that are compared with each other, each with each."""
_TOGETHER = " + "

Row = Mapping[str, Json]


@dataclass(frozen=True)
class Guess:
    """places: noun → column. agents: the columns that name an agent together. wide: columns that are an agent each. made: whether
    items get an id that is made from their text. unused: the rest."""

    places: Mapping[str, str]
    agents: tuple[str, ...]
    wide: tuple[str, ...]
    made: bool
    unused: tuple[str, ...]


def plain_name(column: str) -> str:
    """Lower case, words joined by `_`.

    >>> plain_name("Model Name ")
    'model_name'
    """
    return re.sub(r"[^\w#]+", "_", column.casefold()).strip("_")


def words_of(column: str) -> set[str]:
    """Split a column's name into words, also without the s of a plural.

    >>> sorted(words_of("Source files"))
    ['file', 'files', 'source', 'source_files']
    """
    name = plain_name(column)
    return {name, *name.split("_"), *(word.removesuffix("s") for word in name.split("_"))}


def noun_of(column: str) -> str | None:
    """What a column is by its name; `about` for what is said about responses; None where the name says nothing.

    >>> noun_of("Question text"), noun_of("Model response"), noun_of("Expected answer"), noun_of("gpt-4")
    ('prompt', 'text', 'about', None)
    """
    name = plain_name(column.rpartition(".")[2] or column)
    words = name.split("_")
    if name in _ABOUT or _ABOUT & set(words):
        return "about"
    for one in (name, *([words[0]] if words[-1] in _GENERIC else []), words[-1]):
        for noun, names in NAMES.items():
            if one in names:
                return noun
    return None


def _order(column: str, noun: str) -> int:
    """How sure the name is, 0 surest."""
    name, names = plain_name(column.rpartition(".")[2] or column), NAMES[noun]
    words = name.split("_")
    return next((names.index(one) for one in (name, words[-1], words[0]) if one in names), len(names)) + (
        0 if name in names else len(names)
    )


def guess(rows: Sequence[Row], *, alone: bool, told: Mapping[str, str] | None = None) -> Guess | None:
    """Which column is what; None where no column can be the text. alone: no other file is joined with this one, so that it has
    to hold several agents. told: noun → column, where it is known; of texts also several columns, an agent each, with commas."""
    told = told or {}
    several = tuple(told.get("text", "").split(","))
    known = {*several, *told.values()}
    columns = [name for name in dict.fromkeys(chain.from_iterable(rows)) if _any_said(rows, name)]
    by_noun: dict[str | None, list[str]] = {}
    for column in columns:
        if column not in known:
            by_noun.setdefault(noun_of(column), []).append(column)
    for noun in NAMES:
        by_noun.get(noun, []).sort(key=partial(_order, noun=noun))
    by_noun |= {noun: [column] for noun, column in told.items()}
    texts = by_noun.get("text", [])
    unnamed = by_noun.get(None, [])
    prompts = [*by_noun.get("prompt", []), *texts[1:]]
    items = by_noun["item"] if "item" in told else [*by_noun.get("item", []), *prompts, *unnamed]
    if len(several) > 1:
        return _guessed(rows, columns, told, items=items, prompts=prompts, agents=(), text=None, wide=several)
    agents = [
        name
        for name in by_noun.get("agent", [])
        if "agent" in told or plain_name(name) in _SURELY_AGENTS or _names_agents(rows, name)
    ]
    found: tuple[str, ...] | None = (told["agent"],) if "agent" in told else None
    for others in (agents, [*by_noun.get("group", []), *(name for name in unnamed if _names_agents(rows, name))]):
        found = found or _best(rows, others, items)
    if found is None and "text" not in told and alone and (wide := _wide(rows, texts, unnamed)):
        return _guessed(rows, columns, told, items=items, prompts=prompts, agents=(), text=None, wide=wide)
    text = texts[0] if texts else max(unnamed, key=lambda name: _letters(rows, name), default=None)
    if text is None or (alone and not texts and found is None):  # nothing says that these are responses
        return None
    named = found or tuple(agents[:1])
    free = [name for name in items if name not in (text, *named)]
    return _guessed(rows, columns, told, items=free, prompts=prompts, agents=named, text=text, wide=())


def _guessed(
    rows: Sequence[Row],
    columns: Sequence[str],
    told: Mapping[str, str],
    *,
    items: Sequence[str],
    prompts: Sequence[str],
    agents: tuple[str, ...],
    text: str | None,
    wide: tuple[str, ...],
) -> Guess:
    agent_columns = {*wide}
    items = [name for name in items if name not in agent_columns]
    item = _item(rows, agents, items)
    called = item is not None and (told.get("item") == item or (item not in prompts and noun_of(item) == "item"))
    named = item is not None and called and not _long(rows, item)
    places = {} if text is None else {"text": text}
    if agents:
        places["agent"] = _TOGETHER.join(agents)
    if item is not None:
        places["item" if named else "prompt"] = item
    if named and (prompt := next((name for name in prompts if name not in (text, item, *agents, *wide)), None)):
        places["prompt"] = prompt
    for noun in ("group", "empty", "repeat"):
        free = (name for name in columns if noun_of(name) == noun and name not in (*agents, item, *told.values()))
        if noun in told:
            places[noun] = told[noun]
        elif (column := next(free, None)) is not None and (noun != "group" or _says_one(rows, agents, column)):
            places[noun] = column
    used = {*places.values(), *agents, *wide}
    return Guess(places, agents, wide, not named, tuple(name for name in columns if name not in used))


def joined(columns: Sequence[str]) -> str:
    """Name columns that are taken together as one, as `value` reads them."""
    return _TOGETHER.join(columns)


def value(row: Row, column: str) -> Json:
    """What stands in a column; of columns that are taken together, all of it."""
    if column in row or _TOGETHER not in column:
        return row.get(column)
    said = [row.get(name) for name in column.split(_TOGETHER)]
    return None if None in said else " / ".join(map(str, said))


def _any_said(rows: Iterable[Row], column: str) -> bool:
    """Whether something stands in the column."""
    return any(row.get(column) is not None for row in rows)


def _values(rows: Sequence[Row], columns: Sequence[str]) -> list[str | None]:
    found = []
    for row in rows:
        said = [row.get(name) for name in columns]
        found.append(None if None in said else " / ".join(" ".join(str(one).split()) for one in said))
    return found


def _names_agents(rows: Sequence[Row], column: str) -> bool:
    if SUBJECTS & words_of(column):
        return False
    said = [one for one in _values(rows, [column]) if one]
    names = set(said)
    return 0 < len(names) <= min(_MOST_AGENTS, max(1, len(said) // 2)) and max(map(len, names)) <= _SHORT


def _lined_up(rows: Sequence[Row], agents: Sequence[str], item: str) -> int:
    """Cells of items that two agents or more answer."""
    of: dict[str, set[str]] = {}
    for agent, one in zip(_values(rows, agents), _values(rows, [item]), strict=True):
        if agent and one:
            of.setdefault(one, set()).add(agent)
    return sum(len(names) for names in of.values() if len(names) > 1)


def _best(rows: Sequence[Row], agents: Sequence[str], items: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that name agents, so that most cells line up: one, or two of those that are called so."""
    apart = [(name,) for name in agents[:_MOST_CANDIDATES]] + list(combinations(agents[:4], 2))
    tried = items[:_MOST_CANDIDATES]
    scores = {
        names: max((_lined_up(rows, names, item) for item in tried if item not in names), default=0) for names in apart
    }
    best = max(scores, key=lambda names: (scores[names], -len(names)), default=None)
    return best if best is not None and scores[best] > 0 else None


def _item(rows: Sequence[Row], agents: tuple[str, ...], items: Sequence[str]) -> str | None:
    free = [name for name in items if name not in agents]
    if agents:
        scores = [_lined_up(rows, agents, name) for name in free]
        if max(scores, default=0) > 0:
            return free[scores.index(max(scores))]
    apart = [len({one for one in _values(rows, [name]) if one}) for name in free]
    return next((name for name, n in zip(free, apart, strict=True) if n >= 0.9 * max(apart)), None)


def _wide(rows: Sequence[Row], texts: Sequence[str], unnamed: Sequence[str]) -> tuple[str, ...]:
    """Columns that are an agent each: of texts, and not the one column of reference answers beside them."""
    sure = {name for name in texts if plain_name(name) in NAMES["text"]}
    free = [name for name in (*texts, *unnamed) if name not in sure and not SUBJECTS & words_of(name)]
    those = [name for name in free if _letters(rows, name) > 0]
    if len(those) < 2:
        return tuple(texts) if len(texts) > 1 and not unnamed and len(sure) != 1 else ()
    order = {name: n for n, name in enumerate(rows[0])}
    return tuple(sorted(those, key=lambda name: order.get(name, len(order))))


def _letters(rows: Sequence[Row], column: str) -> float:
    """Mean length of what stands there; 0 for a column of numbers."""
    said = [one for one in _values(rows, [column]) if one]
    if not said or all(re.fullmatch(r"[-+\d.,%$€ ]+|true|false", one, re.IGNORECASE) for one in said):
        return 0.0
    return sum(map(len, said)) / len(said)


def _long(rows: Sequence[Row], column: str) -> bool:
    """Whether these are texts rather than ids."""
    said = [row.get(column) for row in rows]
    return any(isinstance(one, str) and (len(one) > _SHORT or len(one.strip().splitlines()) > 1) for one in said)


def _says_one(rows: Sequence[Row], agents: Sequence[str], column: str) -> bool:
    if not agents:
        return False
    pairs = {pair for pair in zip(_values(rows, agents), _values(rows, [column]), strict=True) if None not in pair}
    return len(pairs) == len({agent for agent, _ in pairs})
