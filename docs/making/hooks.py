"""What MkDocs calls while it builds the book: tables made from the code, formulas as MathML, pages that the menu does not name.

A page asks for a table by a comment of its own line, `<!-- made: commands -->`. `$$ … $$` is a formula.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import api  # noqa: E402
import commands  # noqa: E402
import keys  # noqa: E402
import messages  # noqa: E402

MADE: dict[str, Callable[[str], str]] = {
    "commands": commands.table,
    "keys": keys.table,
    "messages": messages.table,
    "api": api.table,
    "facts": keys.facts,
}
_MARK = re.compile(r"^<!-- made: (\w+) ?(.*?) ?-->$", re.MULTILINE)
_FORMULA = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", re.MULTILINE | re.DOTALL)
_HOW_TO = "how-to"


def made(markdown: str) -> str:
    """A page with what its comments ask for, below them."""
    return _MARK.sub(lambda mark: MADE[mark[1]](mark[2]), markdown)


def formulas(markdown: str) -> str:
    """A page with its formulas as MathML, which browsers draw by themselves."""
    from latex2mathml.converter import convert

    return _FORMULA.sub(lambda found: convert(found[1], display="block"), markdown)


def on_config(config: Any) -> Any:
    """How-to pages that the menu does not name stand at the end of their part."""
    named = str(config.nav)
    (part,) = [entry["How to"] for entry in config.nav if isinstance(entry, dict) and "How to" in entry]
    folder = Path(config.docs_dir, _HOW_TO)
    part.extend(
        str(PurePosixPath(_HOW_TO, page.name))
        for page in sorted(folder.glob("*.md"))
        if f"'{_HOW_TO}/{page.name}'" not in named
    )
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called for each page before it becomes HTML."""
    return formulas(made(markdown))
