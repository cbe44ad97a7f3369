"""Hooks that MkDocs calls while it builds the book: they insert tables made from the code, and convert formulas to MathML.

A page includes a table by a comment on a separate line, such as `<!-- made: commands -->`.
`$ … $` is an inline formula, `$$ … $$` a displayed one. How-to pages that the menu does not list are added to it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from making import api, commands, keys, messages, schemas

ROOT = Path(__file__).parents[2]
MADE: dict[str, Callable[[str], str]] = {
    "commands": commands.table,
    "keys": keys.table,
    "messages": messages.table,
    "api": api.table,
    "facts": keys.facts,
    "columns": keys.columns,
    "schemas": schemas.page,
    "file": lambda path: f"```python\n{(ROOT / path).read_text(encoding='utf-8')}```",
}
_MARK = re.compile(r"^<!-- made: (\w+) ?(.*?) ?-->$", re.MULTILINE)
_FORMULA = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<![\w$])\$([^$\n]+)\$(?![\w$])")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_HOW_TO = "how-to"


def insert_tables(markdown: str) -> str:
    """Replace each comment `<!-- made: … -->` by its table."""
    return _MARK.sub(lambda mark: MADE[mark[1]](mark[2]), markdown)


def convert_formulas(markdown: str) -> str:
    """Convert formulas outside code to MathML, which browsers draw without a script."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - in the group `docs`, which the tests of tables do not need

    markdown = _FORMULA.sub(lambda found: convert(found[1], display="block"), markdown)
    parts = _CODE.split(markdown)
    parts[::2] = [_INLINE.sub(lambda found: convert(found[1]), part) for part in parts[::2]]
    return "".join(parts)


def on_config(config: Any) -> Any:
    """Add how-to pages that the menu does not list to the end of their section."""
    listed = str(config.nav)
    (section,) = [entry["How to"] for entry in config.nav if isinstance(entry, dict) and "How to" in entry]
    folder = Path(config.docs_dir, _HOW_TO)
    section.extend(
        str(PurePosixPath(_HOW_TO, page.name))
        for page in sorted(folder.glob("*.md"))
        if f"'{_HOW_TO}/{page.name}'" not in listed
    )
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Insert tables and convert formulas before a page becomes HTML."""
    return convert_formulas(insert_tables(markdown))
