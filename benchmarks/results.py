"""Print the results of a benchmark as JSON, and write them to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def print_results(results: Mapping[str, object], file: Path | None) -> None:
    """Print results as JSON, and write them to a file if one is given."""
    text = json.dumps(results, indent=1, ensure_ascii=False)
    print(text)
    if file is not None:
        file.write_text(text + "\n", encoding="utf-8")
