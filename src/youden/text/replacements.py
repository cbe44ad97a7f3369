"""Counts the values that were replaced while files were read, for the one note that reports them.

A reader replaces what UTF-8 and strict JSON cannot represent instead of refusing a whole file, so each replacement is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from youden.text.sentences import counted


@dataclass
class Replacements:
    """Number of values that were replaced while files were read, and the place of the first."""

    n_nonfinite: int = 0
    n_texts: int = 0
    first: str = ""

    def add(self, *, n_nonfinite: int = 0, n_texts: int = 0, place: Path | str) -> None:
        """Count what was replaced at a place in a file."""
        if n_nonfinite or n_texts:
            self.n_nonfinite += n_nonfinite
            self.n_texts += n_texts
            self.first = self.first or str(place)

    def describe(self) -> str:
        """Return the note on what was replaced; empty if nothing was.

        >>> Replacements(n_nonfinite=2, first="a.json").describe()
        '2 numbers were NaN or infinite and are treated as missing (first: a.json)'
        >>> Replacements(n_texts=1, first="a.jsonl, line 7").describe()
        '1 text had an unpaired surrogate, replaced by U+FFFD (first: a.jsonl, line 7)'
        """
        parts = []
        if self.n_nonfinite:
            what = counted(self.n_nonfinite, "number", "was", "were")
            parts.append(f"{what} NaN or infinite and {'is' if self.n_nonfinite == 1 else 'are'} treated as missing")
        if self.n_texts:
            parts.append(f"{counted(self.n_texts, 'text')} had an unpaired surrogate, replaced by U+FFFD")
        return f"{'; '.join(parts)} (first: {self.first})" if parts else ""
