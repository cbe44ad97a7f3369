"""Items from the standard library's own documentation: the topics that `help()` knows.

They come from `pydoc_data.topics`, which differs by Python version; none of it is bundled.
"""

from __future__ import annotations

import re
from importlib import import_module

from youden.nouns import Item

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
