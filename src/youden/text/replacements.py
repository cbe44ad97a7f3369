"""Count the values that were replaced while files were read, for the one note that reports them.

A reader replaces what UTF-8 and strict JSON cannot represent instead of refusing a whole file, so each
replacement is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from youden.text.sentences import format_count


@dataclass
class Replacements:
    """Counts of the values that were replaced while files were read."""

    n_nonfinite: int = 0
    """Number of NaN and infinite numbers, which are treated as missing."""
    n_texts: int = 0
    """Number of texts in which a lone surrogate was replaced by U+FFFD."""
    first: str = ""
    """Location of the first replacement, such as "a.jsonl, line 7"; empty if there was none."""

    def add(self, *, n_nonfinite: int = 0, n_texts: int = 0, location: Path | str) -> None:
        """Add the numbers of values that were replaced at one location to the counts `n_nonfinite` and `n_texts`.

        If a value was replaced, and for the first time, the location is stored in `first`.

        Parameters
        ----------
        n_nonfinite : int, default 0
            Number of NaN and infinite numbers at the location, which strict JSON cannot represent.
        n_texts : int, default 0
            Number of texts at the location with a lone surrogate: one half of a character of UTF-16, which UTF-8 cannot
            represent.
        location : Path or str
            The file, with the line if it is known.
        """
        self.n_nonfinite += n_nonfinite
        self.n_texts += n_texts
        was_replaced = n_nonfinite > 0 or n_texts > 0
        if was_replaced and not self.first:
            self.first = str(location)

    def describe(self) -> str:
        """Format a note on what was replaced; an empty string if nothing was replaced.

        Examples
        --------
        >>> Replacements(n_nonfinite=2, first="a.json").describe()
        '2 numbers were NaN or infinite and are read as empty (first: a.json)'
        >>> Replacements(n_texts=1, first="a.jsonl, line 7").describe()
        '1 text had an unpaired surrogate, replaced by U+FFFD (first: a.jsonl, line 7)'
        """
        notes = []
        if self.n_nonfinite:
            count = format_count(self.n_nonfinite, "number", "was", "were")
            verb = "is" if self.n_nonfinite == 1 else "are"
            notes.append(f"{count} NaN or infinite and {verb} read as empty")
        if self.n_texts:
            notes.append(f"{format_count(self.n_texts, 'text')} had an unpaired surrogate, replaced by U+FFFD")
        if not notes:
            return ""
        return f"{'; '.join(notes)} (first: {self.first})"
