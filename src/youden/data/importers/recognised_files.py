"""Recognises the files of tools that have an import format of their own, by names and first bytes; no file is parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

_NAMES = {
    "scenario_state.json": "helm",
    "samples_*.jsonl": "lm-eval",
    "model_outputs*.json": "alpaca-eval",
    "*.eval": "inspect",
    "dataset_dict.json": "hf-dataset",
    "state.json": "hf-dataset",
}
"""Pattern of a file's name to format."""
_HEADS = {
    "inspect": r'\A\s*\{(\s*"(version|status|invalidated)":\s*[^,{}\[\]]+,)*\s*"eval":\s*\{',
    "opentelemetry": r'\A\s*\{\s*"resourceSpans":',
    "promptfoo": "|".join(
        (
            r'\A\s*\{\s*"evalId":.*?"results":',
            r'\A\s*\{.*?"promptIdx":.*?"testIdx":',
            r'\A.*?\[[^\]]+\] .*?,"?Status"?,"?Score"?,',
        )
    ),
    "fastchat": r'\A\s*\{.*?"choices":\s*\[\s*\{\s*"index":\s*\d+,\s*"turns":|\A\s*\{\s*"uid":.*?"ans_id":',
}
"""Format to pattern of a file's first bytes."""
_HEAD_SIZE = 65_536
_TEXT_FILES = (".json", ".jsonl", ".csv")


def recognised_format(paths: Sequence[Path]) -> str | None:
    """Return the import format of files, or of the first recognised file in folders; None if no file is recognised.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders.
    """
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and (format_ := _format_of(file)) is not None:
                return format_
    return None


def _format_of(file: Path) -> str | None:
    for pattern, format_ in _NAMES.items():
        if fnmatch(file.name, pattern):
            return format_
    if file.suffix.lower() not in _TEXT_FILES:
        return None
    with file.open("rb") as opened:
        head = opened.read(_HEAD_SIZE).decode("utf-8", "replace").removeprefix("\ufeff")
    return next((name for name, pattern in _HEADS.items() if re.search(pattern, head, re.DOTALL)), None)
