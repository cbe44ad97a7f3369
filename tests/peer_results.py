"""Write result files in the format of the public peer-prediction data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def write_results(folder: Path, examples: Mapping[str, object]) -> Path:
    """Write one file per example: text unchanged, anything else as JSON."""
    inner = folder / "tvd_mi_individual_examples"
    inner.mkdir(parents=True, exist_ok=True)
    for name, content in examples.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (inner / f"tvd_mi_{name}.json").write_text(text, encoding="utf-8")
    return folder
