"""Whether a ranking was held against labels, and whether what was found is still about this ranking."""

from __future__ import annotations

from youden.data.folder.run_folder import RunFolder
from youden.nouns import Validation

LABELS = "labels.json"


def current_labels(folder: RunFolder) -> tuple[Validation | None, str | None]:
    """What labels.json says, if it is about the ranking that stands there now; else None, and why not, if there is one.

    Raises: RunFolderError where it is damaged.
    """
    if not folder.has(LABELS):
        return None, None
    found = folder.read_labels()
    if found.tables == folder.tables_digest():
        return found, None
    return None, (
        f"{LABELS} is about an earlier ranking and is left out. Compare again: "
        f"youden fit {folder.path} --labels {found.source}"
    )
