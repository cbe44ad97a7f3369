"""Items by difficulty, with the text of the hardest and the easiest."""

from __future__ import annotations

from dataclasses import dataclass

from youden.data.folder.run_folder import RunFolder
from youden.report.data.evidence import Texts
from youden.report.data.shown import clipped

N_SHOWN = 5
EXCERPT = 600
"""Characters shown of an item's prompt."""


@dataclass(frozen=True)
class ItemLine:
    """One item. difficulty: in score units, None where it was never seen; text: its prompt's beginning, None where unknown."""

    item: str
    difficulty: float | None
    n_trials: int
    text: str | None


@dataclass(frozen=True)
class Items:
    """All items easiest first (unseen ones last), and the ends of that list with their texts."""

    ordered: tuple[ItemLine, ...]
    hardest: tuple[ItemLine, ...]
    easiest: tuple[ItemLine, ...]


def order_items(folder: RunFolder, texts: Texts) -> Items:
    """The items of `items.csv` by difficulty. Raises: RunFolderError."""
    prompts = {item.id: item.prompt for item in texts.pool.items} if texts.pool else {}
    lines = [
        ItemLine(row.item, row.difficulty, row.n_trials, _excerpt(prompts.get(row.item))) for row in folder.read_items()
    ]
    known = sorted((line for line in lines if line.difficulty is not None), key=lambda line: line.difficulty or 0.0)
    unknown = [line for line in lines if line.difficulty is None]
    n = min(N_SHOWN, len(known) // 2)
    return Items(
        ordered=tuple(known + unknown),
        hardest=tuple(reversed(known[len(known) - n :])),
        easiest=tuple(known[:n]),
    )


def _excerpt(prompt: str | None) -> str | None:
    return clipped(prompt, EXCERPT) if prompt else None
