"""Hooks of MkDocs: insert tables generated from the code, convert formulas to MathML, add pages that the menu omits.

A comment on a separate line, such as `<!-- made: commands -->`, inserts a table into a page.
`$ … $` is an inline formula, `$$ … $$` a formula on separate lines.
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


def made(markdown: str) -> str:
    """Replace each comment of a page by the table that it names."""
    return _MARK.sub(lambda mark: MADE[mark[1]](mark[2]), markdown)


def formulas(markdown: str) -> str:
    """Convert the formulas of a page to MathML, which browsers display without a script; code is not changed."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - in the extra `docs`, which tests of the tables do not need

    markdown = _FORMULA.sub(lambda found: convert(found[1], display="block"), markdown)
    parts = _CODE.split(markdown)
    parts[::2] = [_INLINE.sub(lambda found: convert(found[1]), part) for part in parts[::2]]
    return "".join(parts)


def on_config(config: Any) -> Any:
    """Add how-to pages that the menu omits to the end of their section."""
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
    """Insert tables and convert formulas before a page is converted to HTML."""
    return formulas(made(markdown))
