"""Imports what lm-evaluation-harness writes with `--log_samples`: agents are models, items are documents.

It reads `samples_<task>_<time>.jsonl` and the `results_<time>.json` beside it (lm-eval 0.4), and leaves metrics out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import as_object, files_of, inner, read_json, read_lines
from youden.data.importers.telling_apart import apart
from youden.nouns import Json

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)")


def read_lm_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One agent a model; items are `doc_id`, with the task before it if there are several.

    Where several folders are of one model each is an agent, named by the shortest end of its path that tells it apart. Where one
    folder holds a task twice, each time is an agent. The first raw response of generation tasks is taken, repeats are dropped;
    tasks by log-likelihood have none and are left out, counted.

    Raises: ImportFormatError naming file and line.
    """
    files = files_of(paths, ("samples_*.jsonl",), what="a samples_*.jsonl of lm-evaluation-harness")
    tasks = {_task(file) for file in files}
    agents = _agents(files)
    joiner = Joiner(paths[0].stem)
    for file, agent in zip(files, agents, strict=True):
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
            if isinstance(said, list):
                joiner.drop(agent, "a repeat (the first response is taken)", place, n=len(said) - 1)
            joiner.add(agent, item, text, prompt=_prompt(row.get("arguments")), place=place)
    return joiner.pool()


def _agents(files: Sequence[Path]) -> list[str]:
    """Each file's agent: its model; its folder where the model has several; its time where the folder has a task twice."""
    folders = [file.parent for file in files]
    models = [_model(file) for file in files]
    seen = Counter((file.parent, _task(file)) for file in files)
    rerun = {folder for (folder, _), n in seen.items() if n > 1}
    agents = []
    for model, file, end in zip(models, files, apart(models, folders), strict=True):
        behind = [said for said in (end, _time(file) if file.parent in rerun else "") if said]
        agents.append(f"{model} ({', '.join(behind)})" if behind else model)
    return agents


def _task(file: Path) -> str:
    found = _NAME.fullmatch(file.stem)
    return found["task"] if found else file.stem.removeprefix("samples_")


def _time(file: Path) -> str:
    found = _NAME.fullmatch(file.stem)
    return found["time"] if found else file.stem


def _model(samples: Path) -> str:
    """The model by the results of the same time; without any by the latest results in the folder, then by the folder."""
    beside = [
        samples.with_name(f"results_{_time(samples)}.json"),
        *sorted(samples.parent.glob("results_*.json"), reverse=True),
    ]
    for file in filter(Path.is_file, beside):
        said = as_object(read_json(file), file)
        for name in (said.get("model_name"), inner(said, "config", "model")):
            if isinstance(name, str) and name.strip():
                return name
    return samples.resolve().parent.name


def _item(number: Json, task: str | None) -> Json:
    return number if task is None or number is None else f"{task}/{number}"


def _prompt(arguments: Json) -> Json:
    first = inner(arguments, "gen_args_0", "arg_0")
    return first if first is not None else inner(arguments, 0, 0)
