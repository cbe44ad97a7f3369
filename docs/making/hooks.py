"""What MkDocs calls while it builds the book: tables made from the code, formulas as MathML, pages that the menu does not name.

A page asks for a table by a comment of its own line, `<!-- made: commands -->`.
`$ … $` is a formula, `$$ … $$` one on lines of its own.
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
    """A page with what its comments ask for, below them."""
    return _MARK.sub(lambda mark: MADE[mark[1]](mark[2]), markdown)


def formulas(markdown: str) -> str:
    """A page with its formulas as MathML, which browsers draw by themselves; code is left as it is."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - of the extra `docs`, which tests of the tables do without

    markdown = _FORMULA.sub(lambda found: convert(found[1], display="block"), markdown)
    parts = _CODE.split(markdown)
    parts[::2] = [_INLINE.sub(lambda found: convert(found[1]), part) for part in parts[::2]]
    return "".join(parts)


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
