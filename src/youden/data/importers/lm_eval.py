"""Imports what lm-evaluation-harness writes with `--log_samples`: agents are models, items are documents.

It reads `samples_<task>_<time>.jsonl` and the `results_<time>.json` beside it (lm-eval 0.4), and leaves metrics out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from youden.data.importers.joining import ImportedPool, Joiner, distinct
from youden.data.importers.reading import as_object, files_of, inner, read_json, read_lines
from youden.nouns import Json

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)")


def read_lm_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One agent a model, or a folder where two folders are of one model; items are `doc_id`, with the task before it if several.

    The first raw response of generation tasks is taken; tasks by log-likelihood have none and are left out, counted.

    Raises: ImportFormatError naming file and line.
    """
    files = files_of(paths, ("samples_*.jsonl",), what="a samples_*.jsonl of lm-evaluation-harness")
    tasks = {_task(file) for file in files}
    folders = list(dict.fromkeys(file.parent for file in files))
    results = [_model(folder) for folder in folders]
    agents = dict(zip(folders, distinct(results, [folder / "samples" for folder in folders]), strict=True))
    joiner = Joiner(paths[0].stem)
    for file in files:
        filters: dict[str, Json] = {}
        for place, row in read_lines(file):
            item = _item(row.get("doc_id"), _task(file) if len(tasks) > 1 else None)
            if filters.setdefault(str(item), row.get("filter")) != row.get("filter"):
                continue
            said = inner(row, "resps", 0)
            text = inner(said, 0) if isinstance(said, list) else said
            if isinstance(text, list | int | float | bool):
                joiner.leave_out("no text: the task is by log-likelihood", place)
                continue
            joiner.add(agents[file.parent], item, text, prompt=_prompt(row.get("arguments")), place=place)
    return joiner.pool()


def _task(file: Path) -> str:
    found = _NAME.fullmatch(file.stem)
    return found["task"] if found else file.stem.removeprefix("samples_")


def _model(folder: Path) -> str:
    for file in sorted(folder.glob("results_*.json"), reverse=True):
        said = as_object(read_json(file), file)
        for name in (said.get("model_name"), inner(said, "config", "model")):
            if isinstance(name, str) and name.strip():
                return name
    return folder.resolve().name


def _item(number: Json, task: str | None) -> Json:
    return number if task is None or number is None else f"{task}/{number}"


def _prompt(arguments: Json) -> Json:
    first = inner(arguments, "gen_args_0", "arg_0")
    return first if first is not None else inner(arguments, 0, 0)
