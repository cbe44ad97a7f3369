"""Read the items to which agents respond: from a file, from a pool, or from a registered source.

The shipped source, `python-topics`, is the documentation of Python's own topics, which every installation has.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from youden.data.importers.foreign_files import read_lines
from youden.data.pools.pool_reader import ITEMS, read_pool
from youden.errors import ConfigError
from youden.registry import Registry
from youden.text.printable import find_name_fault, printable
from youden.text.replacements import Replacements
from youden.text.sentences import format_count
from youden.types import Item

_LOG = logging.getLogger(__name__)

MIN_TOPIC_WORDS = 100
MAX_TOPICS = 79

_UNDERLINE = re.compile(r"^[*=~^\"'-]{3,}$", re.MULTILINE)


def python_topics() -> tuple[Item, ...]:
    """Return topics of Python's documentation as items, with the text of a topic as the prompt.

    There are at most 79 topics, ordered by name, each with at least 100 words. Underlines of headings, and line breaks in
    paragraphs, are removed.
    """
    text_by_topic: dict[str, str] = import_module("pydoc_data.topics").topics
    items = []
    for name in sorted(text_by_topic):
        text = _UNDERLINE.sub("", text_by_topic[name])
        paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)]
        prompt = "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
        if len(prompt.split()) >= MIN_TOPIC_WORDS:
            items.append(Item(name, prompt))
    return tuple(items[:MAX_TOPICS])


ITEM_SOURCES: Registry[Callable[[], tuple[Item, ...]]] = Registry(
    "youden.item_sources", "item source", {"python-topics": "youden.pools.generation.item_sources:python_topics"}
)


def read_items(source: str) -> tuple[Item, ...]:
    """Read the items of a benchmark, each with its prompt, from a registered source or a file.

    Parameters
    ----------
    source : str
        Name of a registered source, path of an items.jsonl (keys id, prompt and, optionally, meta), or path of a pool,
        whose responses are ignored.

    Returns
    -------
    tuple of Item
        The items, at least one, in the order of the source.

    Raises
    ------
    ConfigError
        [items-invalid]: if there are no items, or two items have the same id; or if an item has no prompt, a value of a wrong
        type, or an id that a pool does not allow.
    PoolError, ImportFormatError
        If the pool or the file cannot be read.
    """
    path = Path(source)
    if not path.exists() and source in list(ITEM_SOURCES):
        items = ITEM_SOURCES.load(source)()
    elif path.is_dir() and (path / ITEMS).is_file():
        items = _read_items_of_file(path / ITEMS)
    elif path.suffix.lower() == ".jsonl" and path.is_file():
        items = _read_items_of_file(path)
    else:
        items = read_pool(source).items
    _check_items(items, source)
    return items


def _check_items(items: Sequence[Item], source: str) -> None:
    """Check that there are items, that each one has a prompt and an id that a pool allows, and that all ids are different.

    Agents respond to prompts, so no responses can be generated for an item without a prompt.

    source : name of the file or pool with the items, for error messages

    Raises ConfigError [items-invalid] if one of these conditions does not hold.
    """
    without_prompt = [item.id for item in items if not (item.prompt or "").strip()]
    if without_prompt or not items:
        first = f", first {without_prompt[0]!r}" if without_prompt else ""
        raise ConfigError(
            f"{source}: got {len(without_prompt)} of {format_count(len(items), 'item')} without a prompt{first}. "
            "Add a prompt to every item, because agents respond to prompts.",
            slug="items-invalid",
        )

    for item in items:
        fault = find_name_fault(item.id)
        if fault:
            raise ConfigError(f"{source}: the item id {item.id!r} {fault}", slug="items-invalid")

    duplicate, n_uses = Counter(item.id for item in items).most_common(1)[0]
    if n_uses > 1:
        raise ConfigError(f"{source}: the item '{duplicate}' occurs twice. Remove one of them.", slug="items-invalid")


def _read_items_of_file(path: Path) -> tuple[Item, ...]:
    """Read items from a JSONL file, one per line, with the keys `id`, `prompt` and, optionally, `meta`.

    Values that no pool can contain are replaced, with a warning. Raises ConfigError [items-invalid] if a value is missing or has
    a wrong type.
    """
    items = []
    replacements = Replacements()
    for location, row in read_lines(path, replacements):
        id_ = row.get("id")
        prompt = row.get("prompt")
        meta = row.get("meta", {})
        if not isinstance(id_, str) or not id_.strip() or not isinstance(prompt, str) or not isinstance(meta, dict):
            raise ConfigError(
                f"{location}: the item does not fit. Set id and prompt to strings, and meta, if it exists, to an object.",
                slug="items-invalid",
            )
        items.append(Item(id_, prompt, meta))
    note = replacements.describe()
    if note:
        _LOG.warning("%s", printable(note))
    return tuple(items)
