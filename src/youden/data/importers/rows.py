"""Which column of other people's tables is the agent, the item, the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from youden.data.importers.joining import Joiner
from youden.data.importers.reading import wrong
from youden.data.pools.grid import shown

NOUNS = ("agent", "item", "text", "prompt", "group")


@dataclass(frozen=True)
class Columns:
    """The name of each noun's column in one file; None where it has none."""

    names: Mapping[str, str | None]
    file: Path

    @classmethod
    def of(cls, file: Path, present: Sequence[str], *, columns: Mapping[str, str], joiner: Joiner) -> Columns:
        """Columns called as the nouns are, or as `columns` says. Others are ignored, with a note.

        Raises: ImportFormatError [import-columns] where item or text has none, or a named one is not there.
        """
        for noun, name in columns.items():
            if noun not in NOUNS or name not in present:
                problem = f"there is no column '{name}'" if noun in NOUNS else f"'{noun}' is none of {', '.join(NOUNS)}"
                raise wrong(
                    file, f"{problem}; it has {shown(', '.join(present))}. Correct --column.", slug="import-columns"
                )
        names = {noun: columns.get(noun, noun if noun in present else None) for noun in NOUNS}
        for noun in ("item", "text"):
            if names[noun] is None:
                raise wrong(
                    file,
                    f"no column {noun}; it has {shown(', '.join(present))}. Say which it is: --column {noun}=NAME.",
                    slug="import-columns",
                )
        unused = [name for name in present if name not in names.values()]
        if unused:
            joiner.note(f"{file}: columns not used: {', '.join(unused)}")
        return cls(names, file)

    def add(self, row: Mapping[str, object], joiner: Joiner, *, place: str) -> None:
        """One row; without a column for the agent it is the file's stem."""
        values = {noun: None if name is None else row.get(name) for noun, name in self.names.items()}
        if all(value is None or (isinstance(value, str) and not value.strip()) for value in values.values()):
            joiner.leave_out("an empty row", place)
            return
        joiner.add(
            self.file.stem if self.names["agent"] is None else values["agent"],
            values["item"],
            values["text"],
            prompt=values["prompt"],
            group=values["group"],
            place=place,
        )
