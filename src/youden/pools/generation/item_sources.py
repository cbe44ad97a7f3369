"""What agents respond to: items from a file, from a pool, or the topics of the standard library's own documentation."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from youden.data.importers.foreign_files import read_lines
from youden.data.pools.pool_reader import ITEMS, read_pool
from youden.errors import ConfigError
from youden.registry import Registry
from youden.text.printable import printable
from youden.text.replacements import Replacements
from youden.types import Item

_LOG = logging.getLogger(__name__)

LEAST_WORDS = 100
MOST_ITEMS = 79

_UNDERLINE = re.compile(r"^[*=~^\"'-]{3,}$", re.MULTILINE)


def topics() -> tuple[Item, ...]:
    """Topics of at least 100 words, by name, at most 79; headings without their underlines, white space as in running text."""
    texts: dict[str, str] = import_module("pydoc_data.topics").topics
    items = []
    for name in sorted(texts):
        paragraphs = re.split(r"\n\s*\n", _UNDERLINE.sub("", texts[name]))
        text = "\n\n".join(" ".join(part.split()) for part in paragraphs if part.split())
        if len(text.split()) >= LEAST_WORDS:
            items.append(Item(name, text))
    return tuple(items[:MOST_ITEMS])


ITEM_SOURCES: Registry[Callable[[], tuple[Item, ...]]] = Registry(
    "youden.items", "item source", {"python-topics": "youden.pools.generation.item_sources:topics"}
)


def read_items(place: str) -> tuple[Item, ...]:
    """The items at `place`: a registered source, an items.jsonl (id, prompt, meta?), or a pool (its items, responses unread).

    Raises: ConfigError [items] where an item has no prompt, or two have one id; PoolError, ImportFormatError.
    """
    path = Path(place)
    if not path.exists() and place in list(ITEM_SOURCES):
        items = ITEM_SOURCES.load(place)()
    elif path.is_dir() and (path / ITEMS).is_file():
        items = _lines(path / ITEMS)
    elif path.suffix == ".jsonl" and path.is_file():
        items = _lines(path)
    else:
        items = read_pool(place).items
    bare = [item.id for item in items if not (item.prompt or "").strip()]
    if bare or not items:
        raise ConfigError(
            f"{place}: {len(bare)} of {len(items)} items have no prompt{f', first {bare[0]!r}' if bare else ''}. "
            "Agents respond to prompts: give every item one.",
            slug="items",
        )
    ids = [item.id for item in items]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ConfigError(f"{place}: the item '{twice}' is there twice. Keep one of them.", slug="items")
    return items


def _lines(path: Path) -> tuple[Item, ...]:
    items, replaced = [], Replacements()
    for place, row in read_lines(path, replaced):
        name, prompt, meta = row.get("id"), row.get("prompt"), row.get("meta", {})
        if not isinstance(name, str) or not name.strip() or not isinstance(prompt, str) or not isinstance(meta, dict):
            raise ConfigError(f"{place}: give id and prompt as strings, and meta, if any, as an object.", slug="items")
        items.append(Item(name, prompt, meta))
    if note := replaced.describe():
        _LOG.warning("%s", printable(note))
    return tuple(items)
