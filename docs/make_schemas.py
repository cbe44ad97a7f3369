"""Writes the JSON Schemas that are shipped, from the types behind a run's files: python docs/make_schemas.py"""

from __future__ import annotations

from pathlib import Path

from youden.data import schemas
from youden.data.schemas.building import build_schemas
from youden.data.schemas.shipped import ENDING


def main() -> None:
    """Replace them all."""
    folder = Path(schemas.__file__).parent
    for file in folder.glob(f"*{ENDING}"):
        file.unlink()
    for name, text in build_schemas().items():
        (folder / f"{name}{ENDING}").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
