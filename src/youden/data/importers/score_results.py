"""Read the scores in results of lm-eval, HELM, MTEB and SWE-bench, as rows with the columns model, item and scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from youden.data.importers.foreign_files import find_files, get_nested, read_json, read_lines, require_list
from youden.data.importers.harness_logs import name_lm_eval_agents, parse_helm_scenario, parse_lm_eval_task
from youden.data.importers.table_header import Row, Rows
from youden.types.pool import Json

_IDS = ("resolved_ids", "resolved")
"""Keys of the resolved instances in results of SWE-bench."""
_INSTANCES = re.compile(
    "resolved|unresolved|submitted|completed|incomplete|empty_patch|error|no_generation|no_logs"
    "|applied|generated|with_logs|install_fail|reset_failed|test_errored|test_timeout"
)
"""Keys of lists of instances in results of SWE-bench, without "_ids"."""

LocatedRows = Iterator[tuple[str, Row]]
"""Rows of a table, each with its location in the files (for messages) and its values by column."""


def read_result_rows(paths: Sequence[Path], notes: list[str]) -> Rows:
    """Read the results of a benchmark, with one row per model and item.

    Parameters
    ----------
    paths : sequence of Path
        Files or folders: samples_*.jsonl or results_*.json of lm-eval, per_instance_stats.json of HELM, result folders
        of MTEB with model_meta.json, and reports of SWE-bench.
    notes : list of str
        Receives what was assumed.

    Returns
    -------
    list of (str, dict)
        Location and values by column of each row; empty if the files are none of these.

    Raises
    ------
    ImportFormatError
        If a file cannot be read.
    """
    readers = {
        "samples_*.jsonl": (_read_lm_eval_samples, "results of lm-eval: a document is an item"),
        "per_instance_stats.json": (_read_helm, "results of HELM: an instance is an item"),
        "model_meta.json": (
            _read_mteb,
            "results of MTEB: the score of a task is the mean main_score of its subsets and splits",
        ),
        "results_*.json": (_read_lm_eval_results, "results of lm-eval: a task is an item"),
        "*.json": (_read_resolved, "results of SWE-bench: 0 if not resolved, without instances that no file lists"),
    }
    for pattern, (read, note) in readers.items():
        if all(any(path.rglob(pattern)) if path.is_dir() else path.match(pattern) for path in paths):
            rows = list(read(find_files(paths, (pattern,), what=f"a file {pattern}")))
            if rows:
                notes.append(note)
                return rows
    return []


def _read_lm_eval_samples(files: list[Path]) -> LocatedRows:
    """Yield the metrics of each document, named METRIC, or METRIC/FILTER for an answer that a filter extracted."""
    for file, model in zip(files, name_lm_eval_agents(files), strict=True):
        task = parse_lm_eval_task(file)
        for location, sample in read_lines(file):
            names = sample.get("metrics") or [key for key in sample if key != "doc_id"]
            row: Row = {"model": model, "item": f"{task}/{sample.get('doc_id')}"}
            for name in names if isinstance(names, list) else []:
                value = sample.get(str(name))
                if isinstance(value, int | float):
                    row[_name_metric(f"{name},{sample.get('filter', 'none')}")] = value
            yield location, row


def _read_lm_eval_results(files: list[Path]) -> LocatedRows:
    """Yield the metrics of each task, without standard errors and without groups of tasks."""
    for file in files:
        value = read_json(file)
        model = get_nested(value, "model_name") or get_nested(value, "config", "model") or file.parent.name
        for task, metrics in _get_entries(get_nested(value, "results")):
            if get_nested(value, "groups", task) is None:
                scores = {name: score for name, score in _get_entries(metrics) if "," in name and "_stderr" not in name}
                row: Row = {"model": model, "item": task}
                yield f"{file}, {task}", row | {_name_metric(name): score for name, score in scores.items()}


def _name_metric(name: str) -> str:
    """Convert the name of a metric in results, "acc,none", to METRIC or METRIC/FILTER."""
    return name.removesuffix(",none").replace(",", "/")


def _read_helm(files: list[Path]) -> LocatedRows:
    """Yield a row per instance with the mean of each of its statistics; a perturbed instance is a separate item.

    The model is that in run_spec.json, or in the name of the folder, such as "mmlu:subject=law,model=openai_gpt-4".
    """
    for file in files:
        scenario = parse_helm_scenario(file)
        specification = file.with_name("run_spec.json")
        if specification.is_file():
            model = get_nested(read_json(specification), "adapter_spec", "model")
        else:
            _, _, options_from_model = file.parent.name.partition("model=")
            model = options_from_model.partition(",")[0]
        for number, instance in enumerate(require_list(read_json(file), file), 1):
            perturbation = get_nested(instance, "perturbation", "name")
            item = f"{scenario}/{get_nested(instance, 'instance_id')}"
            row: Row = {"model": model, "item": f"{item} ({perturbation})" if perturbation else item}
            for stat in require_list(get_nested(instance, "stats"), file):
                row[str(get_nested(stat, "name", "name"))] = get_nested(stat, "mean")
            yield f"{file}, instance {number}", row


def _read_mteb(files: list[Path]) -> LocatedRows:
    """Yield the main score of each task, averaged over its subsets and splits.

    `files` are the files model_meta.json; the results of a model are the other JSON files of the same folder.
    """
    for model_file in files:
        for task_file in sorted(model_file.parent.glob("*.json")):
            result = read_json(task_file)
            scores = []
            for _, subsets in _get_entries(get_nested(result, "scores")):
                scores += [get_nested(subset, "main_score") for subset in require_list(subsets, task_file)]
            numbers = [score for score in scores if isinstance(score, int | float)]
            if numbers:
                model = get_nested(read_json(model_file), "name")
                task = get_nested(result, "task_name")
                yield str(task_file), {"model": model, "item": task, "score": fmean(numbers)}


def _read_resolved(files: list[Path]) -> LocatedRows:
    """Yield 1 for each resolved instance of a model and 0 for all others; nothing for files of another kind."""
    resolved: dict[str, list[str]] = {}
    instances: dict[str, None] = {}
    for file in files:
        value = read_json(file)
        lists = {key: names for key, names in _get_entries(value) if isinstance(names, list)}
        ids = {key: [name for name in names if isinstance(name, str)] for key, names in lists.items()}
        key = next((name for name in _IDS if name in ids), None)
        if key is not None:
            ids = {name: names for name, names in ids.items() if _INSTANCES.fullmatch(name.removesuffix("_ids"))}
            resolved[_find_model_name(file)] = ids[key]
        elif ids == value:
            resolved |= ids  # resolved instances by model
        else:
            continue
        instances |= dict.fromkeys(name for names in ids.values() for name in names)
    for model, names in resolved.items():
        successes = set(names)
        for item in instances:
            yield model, {"model": model, "item": item, "score": float(item in successes)}


def _find_model_name(file: Path) -> str:
    """Return the model in the path of a file of resolved instances: MODEL/results/results.json or MODEL.RUN.json."""
    if file.name == "results.json":
        folder = file.parent.parent if file.parent.name == "results" else file.parent
        return folder.name or file.stem
    return file.stem.rpartition(".")[0] or file.stem


def _get_entries(value: Json) -> list[tuple[str, Json]]:
    """Return the entries of an object; none for another value."""
    return list(value.items()) if isinstance(value, dict) else []
