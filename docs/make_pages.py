"""Write the pages of the book to build/pages, from which `zensical build` makes HTML: `python docs/make_pages.py`.

A page includes a table made from the code by a comment on a separate line, such as `<!-- made: commands -->`.
`$ … $` is an inline formula, `$$ … $$` a displayed one. Both become MathML, which browsers draw without a script.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from making import api, commands, designs, keys, messages, providers, schemas

DOCS = Path(__file__).parent
ROOT = DOCS.parent
MADE: dict[str, Callable[[str], str]] = {
    "commands": commands.table,
    "keys": keys.table,
    "messages": messages.table,
    "api": api.table,
    "designs": designs.table,
    "providers": providers.table,
    "facts": keys.facts,
    "columns": keys.columns,
    "schemas": schemas.page,
    "file": lambda path: f"```python\n{(ROOT / path).read_text(encoding='utf-8')}```",
}
_MARK = re.compile(r"^<!-- made: (\w+) ?(.*?) ?-->$", re.MULTILINE)
_NOTE = re.compile(r"^\*Not shown here: [^*]+\*\n\n", re.MULTILINE)
_FORMULA = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<![\w$])\$([^$\n]+)\$(?![\w$])")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def insert_tables(markdown: str) -> str:
    """Replace each comment `<!-- made: … -->` by its table, and remove the note that these tables are not shown."""
    return _MARK.sub(lambda mark: MADE[mark[1]](mark[2]), remove_notes(markdown))


def remove_notes(markdown: str) -> str:
    """Remove the notes for readers of the repository that a table is not shown."""
    return _NOTE.sub("", markdown)


def convert_formulas(markdown: str) -> str:
    """Convert formulas outside code to MathML."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - in the group `docs`, which the tests of tables do not need

    markdown = _FORMULA.sub(lambda found: convert(found[1], display="block"), markdown)
    parts = _CODE.split(markdown)
    parts[::2] = [_INLINE.sub(lambda found: convert(found[1]), part) for part in parts[::2]]
    return "".join(parts)


def write_pages(folder: Path) -> None:
    """Write the pages, and copy the files that they link to; files of `folder` that are no longer made are deleted."""
    written = set()
    for source in _iter_sources():
        target = folder / source.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        if source.suffix == ".md":
            page = source.read_text(encoding="utf-8")
            content = convert_formulas(insert_tables(page)).encode("utf-8")
        if not target.is_file() or target.read_bytes() != content:  # `zensical serve` builds changed pages again
            target.write_bytes(content)
        written.add(target)
    for path in folder.rglob("*"):
        if path.is_file() and path not in written:
            path.unlink()


def _iter_sources() -> Iterator[Path]:
    """Yield all files of docs/ but the programs that make pages."""
    for path in DOCS.rglob("*"):
        is_program = path.suffix in (".py", ".pyc") or "making" in path.relative_to(DOCS).parts
        if path.is_file() and not is_program:
            yield path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "pages")
    write_pages(parser.parse_args().out)
