"""Recognize the import format of files by their names and their first bytes.

No file is parsed, so that a folder of large files is recognized quickly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

_NAMES = {
    "scenario_state.json": ("helm", ""),
    "samples_*.jsonl": ("lm-eval", r'(?=.*"doc_id":).*"(doc|resps)":'),
    "model_outputs*.json": ("alpaca-eval", r'"instruction":'),
    "*.eval": ("inspect", ""),
    "dataset_dict.json": ("hf-dataset", r'"splits":'),
    "state.json": ("hf-dataset", r'"_data_files":'),
}
"""Import format, and regular expression for the first bytes of a file, by glob pattern of its name."""
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
"""Regular expression for the first bytes of a file, by import format."""
_HEAD_BYTES = 65_536
_TEXT_FILES = (".json", ".jsonl", ".csv")


def recognize_format(paths: Sequence[Path]) -> str | None:
    """Recognize the import format of files, or of the files in a folder.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders; folders are searched at any depth.

    Returns
    -------
    str or None
        Format of the first file that is recognized; None if no file is recognized.
    """
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in filter(Path.is_file, files):
            format_ = _recognize_file(file)
            if format_ is not None:
                return format_
    return None


def _recognize_file(file: Path) -> str | None:
    """Return the import format of a file by its name and its first bytes; None if it is unknown."""
    candidates = [format_and_head for pattern, format_and_head in _NAMES.items() if fnmatch(file.name, pattern)]
    if file.suffix.lower() in _TEXT_FILES:
        candidates += _HEADS.items()
    if not candidates:
        return None
    with file.open("rb") as stream:
        first_bytes = stream.read(_HEAD_BYTES)
    head = first_bytes.decode("utf-8", "replace").removeprefix("\ufeff")
    for format_, pattern in candidates:
        if re.search(pattern, head, re.DOTALL):
            return format_
    return None
