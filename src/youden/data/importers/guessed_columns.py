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

from youden.types.pool import Json

NAMES: Mapping[str, tuple[str, ...]] = {
    noun: tuple(names.split())
    for noun, names in {
        "agent": (
            "agent model model_name model_id generator system assistant bot prompt_version prompt_name version "
            "variant candidate engine deployment llm config configuration provider run experiment author name completion_fns"
        ),
        "item": (
            "item item_id question_id prompt_id task_id example_id instance_id doc_id query_id sample_id "
            "test_id input_id qid custom_id uid case id number no nr index row key task"
        ),
        "text": (
            "response output answer completion generation prediction reply result summary translation text "
            "content message sampled"
        ),
        "prompt": (
            "prompt question instruction input query user_input request problem source document article passage "
            "topic text title task messages contents history conversations conversation"
        ),
        "group": "group family",
        "empty": "empty empty_answer answer_is_empty",
        "repeat": "repeat epoch repetition_number",
    }.items()
}
"""What people call the columns of a pool, the surest name first. empty: says that an empty answer was given."""

_GENERIC = frozenset(
    {"text", "content", "body", "id", "name", "string", "value", "full", "messages", "contents", "parts"}
)
_ABOUT = frozenset(
    name
    for names in (
        "expected reference gold golden ground truth correct label score scores rating grade rank pass metric judge eval",
        "role cost price usd latency tokens time timestamp date created duration seconds temperature seed status error url",
        "comment comments note notes feedback reviewer category tag tags split system_prompt system_message event_id",
        "winner preference reason explanation rationale judgment judgement verdict critique object usage type kind level mime",
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
_ALL_NAMES = frozenset(name for names in NAMES.values() for name in names)
_ASKERS = frozenset({"user", "session", "thread", "customer", "account", "project"})
"""Words that name who asked, maybe more than once."""
LAST_ANSWER = "[-1].content"
"""End of the path to the last message of a conversation, which is a response."""
_PAIRED = re.compile(r"(model|agent|generator|assistant)_?(name|id)?_(a|b|1|2|left|right)")
_SURELY_AGENTS = ("agent", "model")
"""Names that say whose a response is, however few rows each agent has."""
_SHORT = 100
_MOST_AGENTS = 500
_MOST_CANDIDATES = 50
"""Columns without a telling name that are compared with each other, each with each."""
_TOGETHER = " + "
FOLDER, FILE = "<folder>", "<file>"
"""Columns that say from which folder and file a row comes."""
FILE_NUMBER = "<repeat>"
"""Column that numbers repeats by the names of files or folders."""

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

    >>> plain_name("Model Name "), plain_name("actualOutput")
    ('model_name', 'actual_output')
    """
    return re.sub(r"[^\w#]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column).casefold()).strip("_")


def _parts(column: str) -> list[str]:
    """The names along a path, at least one."""
    return [plain_name(part) for part in re.split(r"\.|\[-?\d*\]", column) if part.strip()] or [plain_name(column)]


def words_of(column: str) -> set[str]:
    """Split a column's name into words, also without the s of a plural.

    >>> sorted(words_of("Source files"))
    ['file', 'files', 'source', 'source_files']
    """
    name = plain_name(column)
    return {name, *name.split("_"), *(word.removesuffix("s") for word in name.split("_"))}


def noun_of(column: str) -> str | None:
    """Return what a column or path is by its name; `about` for what is said about responses; None if the name says nothing.

    A last part that says little, such as `text` or `id`, counts together with the one before.

    >>> noun_of("Question text"), noun_of("Model response"), noun_of("Expected answer"), noun_of("gpt-4")
    ('prompt', 'text', 'about', None)
    >>> noun_of("attributes.input.value"), noun_of("choices[].message.content"), noun_of("scores.answer"), noun_of("request_id")
    ('prompt', 'text', 'about', 'item')
    """
    parts = _parts(column)
    if any(part in _ABOUT or (_ABOUT & set(part.split("_")) and not part.endswith("_id")) for part in parts):
        return "about"
    if "[]" in column and parts[-1] == "index":
        return "repeat"
    if column.endswith(LAST_ANSWER):
        return "text"
    joined = "_".join(parts[-2:])
    if len(parts) == 1 or parts[-1] not in _GENERIC or joined in _ALL_NAMES:
        return _noun_of_name(joined if joined in _ALL_NAMES else parts[-1])
    return _noun_of_reference(_noun_of_name(parts[-2]), parts[-1]) or _noun_of_name(parts[-1])


def _noun_of_name(name: str) -> str | None:
    first, _, rest = name.partition("_")
    last = rest.rpartition("_")[2]
    if last in ("id", "name") and name not in _ALL_NAMES:
        return _noun_of_reference(_noun_of_name(first), last)
    words = (name, *([first] if last in _GENERIC else []), last)
    return next((noun for one in words for noun, names in NAMES.items() if one in names), None)


def _noun_of_reference(noun: str | None, last: str) -> str | None:
    """What a path or name is that ends in `last`, if what comes before is `noun`: an id of a response is none of an item."""
    if last not in ("id", "name"):
        return noun
    return {"text": "about", "prompt": "item", "item": "item", "agent": "agent"}.get(
        noun or "", "item" if last == "id" else "agent"
    )


def order(column: str, noun: str) -> int:
    """How sure the name is, 0 surest."""
    name, names = _parts(column)[-1], NAMES[noun]
    words = name.split("_")
    is_id = noun == "agent" and words[-1] == "id"  # a name says more
    return next((names.index(one) for one in (name, words[-1], words[0]) if one in names), len(names)) + (
        2 * len(names) if is_id else 0 if name in names else len(names)
    )


def guess(rows: Sequence[Row], *, places: Sequence[str] = (), told: Mapping[str, str] | None = None) -> Guess | str:
    """Find which column is what, or return in words which noun no column can be.

    Parameters
    ----------
    rows : sequence of mapping
        Flat rows of one table, or of several that lie in files of their own.
    places : sequence of str
        Columns that tell from which folder and file a row comes, if there are several files.
    told : mapping, optional
        Noun to column, where it is known; for texts also several columns with commas, one per agent.
    """
    told = told or {}
    several = tuple(told.get("text", "").split(","))
    columns = [
        name for name in dict.fromkeys(chain.from_iterable(rows)) if any(row.get(name) is not None for row in rows)
    ]
    known = {*several, *told.values(), *places}
    by_noun = _by_noun(column for column in columns if column not in known)
    by_noun |= {noun: [column] for noun, column in told.items()}
    texts = [name for name in by_noun.get("text", []) if "text" in told or is_text(rows, name)]
    if texts:
        rows = [row for row in rows if row.get(texts[0]) is not None] or rows
    unnamed = by_noun.get(None, [])
    prompts = [*by_noun.get("prompt", []), *texts[1:]]
    ids = [name for name in (*by_noun.get("item", []), *prompts, *unnamed) if _holds_ids(rows, name)]
    items = by_noun["item"] if "item" in told else ids
    paired = [name for name in columns if _PAIRED.fullmatch(_parts(name)[-1])]
    ends = tuple(name[-1] for name in paired)
    has_texts = any(name.endswith(ends) for name in columns if name not in paired and noun_of(name) != "about")
    are_texts = any(_is_prose(rows, name) or not (has_texts or _repeats(rows, name)) for name in paired)
    if len(paired) > 1 and not (told or are_texts):
        return "each row holds responses of two models, which other columns name"
    if len(several) > 1:
        return _guessed(rows, columns, told, items=items, prompts=prompts, agents=(), text=None, wide=several)
    agents = [
        name
        for name in by_noun.get("agent", [])
        if "agent" in told or _parts(name)[-1] in _SURELY_AGENTS or _names_agents(rows, name)
    ]
    shared_ids = list(items)
    if places and "item" not in told:  # ids may restart in each folder or file, which says nothing about items yet
        shared_ids += [_TOGETHER.join((place, name)) for name in by_noun.get("item", []) for place in places]
    others = [name for name in unnamed if _names_agents(rows, name) and _letters(rows, name)]
    tried = [([*agents, *places], shared_ids), ([*by_noun.get("group", []), *others], items)]
    if len(places) > 1:  # prompts tell whether folders or files are the agents; ids may restart in each
        tried.insert(0, (tried[0][0], [name for name in prompts if name in ids]))
    found: tuple[str, ...] | None = (told["agent"],) if "agent" in told else None
    is_ambiguous = False
    for candidates, shared in tried:
        is_ambiguous |= found is None and shared is shared_ids and _is_ambiguous(rows, agents, places, shared)
        found = found or _best(rows, candidates, shared)
    unnamed += [name for name in by_noun.get("agent", []) if name not in agents and names_agents_surely(name)]
    is_named = any(names_agents_surely(name) and len(set(_values(rows, [name]))) > 1 for name in agents)
    if found is None and not is_named and "text" not in told and not places and (wide := _wide(rows, texts, unnamed)):
        return _guessed(rows, columns, told, items=items, prompts=prompts, agents=(), text=None, wide=wide)
    named = found or tuple([*agents, *places][:1])
    prose = sorted((name for name in unnamed if _is_prose(rows, name)), key=partial(_letters, rows))
    own = [name for name in prose if not _lined_up(rows, named, name)]  # no agent shares these texts with another
    text = texts[0] if texts else (own or prose)[-1] if prose and (found is not None or places) else None
    if text is None or (not texts and len(own) > 1 and {*named} <= {*places}):
        return "no column holds responses as text" + f", or several do ({', '.join(own)})" * (len(own) > 1)
    if is_ambiguous or (found is None and "item" not in told and len(set(_values(rows, named))) > 1):
        which = f"folders and files may both be the agents: add --column 'agent={FOLDER}' or --column 'agent={FILE}'"
        return which if is_ambiguous else "no column holds ids or prompts that two agents share"
    free = [name for name in items if name not in (text, *named)]
    return _guessed(rows, columns, told, items=free, prompts=prompts, agents=named, text=text, wide=())


def _by_noun(columns: Iterable[str]) -> dict[str | None, list[str]]:
    """Columns by noun, the surest names first."""
    found: dict[str | None, list[str]] = {}
    for column in columns:
        found.setdefault(noun_of(column), []).append(column)
    for noun in NAMES:
        found.get(noun, []).sort(key=partial(order, noun=noun))
    return found


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
    asked = [name for name in prompts if name not in (text, item, *agents, *wide) and is_text(rows, name)]
    if item is not None and named and (prompt := told.get("prompt") or _prompt(rows, item, asked)):
        places["prompt"] = prompt
    for noun in ("group", "empty", "repeat"):
        free = (name for name in columns if noun_of(name) == noun and name not in (*agents, item, *told.values()))
        if noun in told:
            places[noun] = told[noun]
        elif (column := next(free, None)) is not None and (noun != "group" or _says_one(rows, agents, column)):
            places[noun] = column
    used = {*places.values(), *agents, *wide}
    return Guess(places, agents, wide, not named, tuple(name for name in columns if name not in used))


def _prompt(rows: Sequence[Row], item: str, prompts: Sequence[str]) -> str | None:
    """The first column of several texts, preferably with one text per item, as no agent's own template has."""
    texts = {name: _values(rows, [name]) for name in prompts}
    varied = [name for name in prompts if len(set(texts[name])) > 1]
    ids = _values(rows, [item])
    alike = (name for name in varied if len(set(zip(ids, texts[name], strict=True))) == len(set(ids)))
    return next(alike, varied[0] if varied else None)


def joined(columns: Sequence[str]) -> str:
    """Name columns that are taken together as one, as `value` reads them."""
    return _TOGETHER.join(columns)


def value(row: Row, column: str) -> Json:
    """What stands in a column; of columns that are taken together, all of it."""
    if column in row or _TOGETHER not in column:
        return row.get(column)
    said = [row.get(name) for name in column.split(_TOGETHER)]
    return None if None in said else " / ".join(map(str, said))


def names_agents_surely(column: str) -> bool:
    """Whether the name of a column says that it names models or agents.

    >>> names_agents_surely("providedModelName"), names_agents_surely("name"), names_agents_surely("modelParameters.top_p")
    (True, False, False)
    """
    return noun_of(column) == "agent" and not {"agent", "model", "generator", "llm"}.isdisjoint(
        _parts(column)[-1].split("_")
    )


def is_text(rows: Sequence[Row], column: str) -> bool:
    """Whether a column holds texts: strings that are not all numbers."""
    return _letters(rows, column) > 0


def _is_prose(rows: Sequence[Row], column: str) -> bool:
    """Whether most texts of a column have several words, as no id, path or time has."""
    texts = [text for row in rows if isinstance(text := row.get(column), str)]
    return sum(" " in text.strip() for text in texts) > len(texts) / 2


def _repeats(rows: Sequence[Row], column: str) -> bool:
    """Whether few values fill the column, as names and categories do."""
    return len(set(_values(rows, [column]))) <= len(rows) / 2


def _holds_ids(rows: Sequence[Row], column: str) -> bool:
    """Whether the values of a column may name items: texts and whole numbers, or lists of texts."""
    values = [one for row in rows if (one := row.get(column)) is not None]
    return not any(isinstance(one, bool | dict) or (isinstance(one, float) and not one.is_integer()) for one in values)


def _values(rows: Sequence[Row], columns: Sequence[str]) -> list[str | None]:
    """One text per row: the values of the columns, with runs of spaces as one; None if one is missing."""
    if len(columns) == 1 and _TOGETHER not in columns[0]:
        return [None if (one := row.get(columns[0])) is None else " ".join(str(one).split()) for row in rows]
    parts = [_values(rows, [name]) for column in columns for name in column.split(_TOGETHER)]
    joined_parts = zip(*parts, strict=True) if parts else [()] * len(rows)
    return [None if None in row else " / ".join(map(str, row)) for row in joined_parts]


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
    n_cells = sum(len(names) for names in of.values() if len(names) > 1)
    names_group = noun_of(item) is None or (SUBJECTS | _ASKERS) & words_of(item)
    is_category = n_cells < len(rows) and (len(of) == 1 or (names_group and n_cells < len(rows) / 2))
    return 0 if is_category else n_cells


def _best(rows: Sequence[Row], agents: Sequence[str], items: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that name agents, so that most cells line up: one, or two of those that are called so."""
    apart = [(name,) for name in agents[:_MOST_CANDIDATES]] + list(combinations(agents[:4], 2))
    tried = items[:_MOST_CANDIDATES]
    scores = {
        names: max((_lined_up(rows, names, item) for item in tried if item not in names), default=0) for names in apart
    }
    best = max(scores, key=lambda names: (scores[names], -len(names)), default=None)
    return best if best is not None and scores[best] > 0 else None


def _is_ambiguous(rows: Sequence[Row], agents: Sequence[str], places: Sequence[str], items: Sequence[str]) -> bool:
    """Whether folders and files line up equally well as agents, and no column names any."""
    scores = {
        max((_lined_up(rows, [place], item) for item in items if place not in item), default=0) for place in places
    }
    return len(places) > 1 and not agents and len(scores) == 1 and 0 not in scores


def _item(rows: Sequence[Row], agents: tuple[str, ...], items: Sequence[str]) -> str | None:
    free = [name for name in items if name not in agents]
    if agents:
        scores = [_lined_up(rows, agents, name) for name in free]
        if (most := max(scores, default=0)) > 0:
            item, *others = (name for name, score in zip(free, scores, strict=True) if score == most)
            prompts = [name for name in others if noun_of(name) == "prompt" and is_text(rows, name)]
            return next((name for name in prompts if _restarts(rows, item, name)), item)
    apart = [len({one for one in _values(rows, [name]) if one}) for name in free]
    return next((name for name, n in zip(free, apart, strict=True) if n >= 0.9 * max(apart)), None)


def _restarts(rows: Sequence[Row], item: str, prompt: str) -> bool:
    """Whether ids of items number the rows of each agent, so that one id has several prompts, and no prompt has one id."""
    ids, prompts = _values(rows, [item]), _values(rows, [prompt])
    n_pairs = len(set(zip(ids, prompts, strict=True)))
    return noun_of(item) != "prompt" and n_pairs > max(len(set(ids)), len(set(prompts)))


def _wide(rows: Sequence[Row], texts: Sequence[str], unnamed: Sequence[str]) -> tuple[str, ...]:
    """Columns that are an agent each: of texts, and not the one column of reference answers beside them."""
    sure = {name for name in texts if plain_name(name) in NAMES["text"]}
    free = [
        name for name in (*texts, *unnamed) if not SUBJECTS & (words := words_of(name)) or {*_SURELY_AGENTS} & words
    ]
    those = [name for name in free if name not in sure and _letters(rows, name) > 0]
    prose = [name for name in those if _is_prose(rows, name)]
    if len(prose) > 1:  # beside responses of several words, a column of single words is a category, or unclear
        those = prose if all(name in prose or _repeats(rows, name) for name in those) else []
    if len(those) < 2:
        return tuple(texts) if len(texts) > 1 and not unnamed and len(sure) != 1 else ()
    order = {name: n for n, name in enumerate(rows[0])}
    return tuple(sorted(those, key=lambda name: order.get(name, len(order))))


def _letters(rows: Sequence[Row], column: str) -> float:
    """Mean length of the texts in a column; 0 for a column of numbers."""
    texts = [text for row in rows if isinstance(text := row.get(column), str) or _are_texts(text)]
    said = [" ".join(str(text).split()) for text in texts if text]
    if not said or all(re.fullmatch(r"[-+\d.,:/%$€ TZ]+|true|false", one, re.IGNORECASE) for one in said):
        return 0.0
    return sum(map(len, said)) / len(said)


def _are_texts(value: Json) -> bool:
    """Whether a value is a list of texts, or of lists of them."""
    return isinstance(value, list) and all(isinstance(one, str) or _are_texts(one) for one in value)


def _long(rows: Sequence[Row], column: str) -> bool:
    """Whether these are texts rather than ids."""
    said = [row.get(column) for row in rows]
    return any(isinstance(one, str) and (len(one) > _SHORT or len(one.strip().splitlines()) > 1) for one in said)


def _says_one(rows: Sequence[Row], agents: Sequence[str], column: str) -> bool:
    if not agents:
        return False
    pairs = {pair for pair in zip(_values(rows, agents), _values(rows, [column]), strict=True) if None not in pair}
    return len(pairs) == len({agent for agent, _ in pairs})
