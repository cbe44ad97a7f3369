"""Write the install commands of the documentation as `youden.extras` formats them.

    python docs/making/install.py

`RELEASED` in src/youden/extras.py decides whether the package is installed from the Python Package Index or in a clone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from youden.extras import format_install

ROOT = Path(__file__).parents[2]
_COMMAND = re.compile(r"pip install '(?:youden|\.)\[([\w,]+)\]'")


def pages() -> Iterator[Path]:
    """Iterate over the pages of the documentation."""
    yield from sorted((ROOT / "docs").rglob("*.md"))


def rewrite(text: str) -> str:
    """Return a text with all install commands as `format_install` formats them."""
    return _COMMAND.sub(lambda command: format_install(*command[1].split(",")), text)


if __name__ == "__main__":
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(rewrite(text), encoding="utf-8", newline="\n")
