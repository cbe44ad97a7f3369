"""Read the scores in results of lm-eval, HELM, MTEB and SWE-bench, as rows with the columns model, item and scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

from youden.data.importers.foreign_files import (
    find_files,
    get_nested,
    import_error,
    read_json,
    read_lines,
    require_list,
)
from youden.data.importers.harness_logs import name_lm_eval_agents, parse_helm_scenario, parse_lm_eval_task
from youden.data.importers.recognized_files import recognize_format
from youden.data.importers.table_header import Row, Rows
from youden.types.pool import Json

_RESOLVED_KEYS = ("resolved_ids", "resolved")
"""Keys of the resolved instances in a report of SWE-bench. An instance is a task, and it is resolved if all its tests pass."""
_OUTCOMES = re.compile(
    "resolved|unresolved|submitted|completed|incomplete|empty_patch|error|no_generation|no_logs"
    "|applied|generated|with_logs|install_fail|reset_failed|test_errored|test_timeout"
)
"""Outcomes whose lists of instances a report of SWE-bench contains, each under the outcome as key, with or without "_ids"."""

_VERSION = re.compile(r".*\d\.\d\d?(?!\d)[^.]*")
"""Name of a model whose last dot is part of a version, such as "claude-3.5-sonnet". Any other last dot precedes a run."""

LocatedRows = Iterator[tuple[str, Row]]
"""Rows of a table, each with its location in the files (for messages) and its values by column."""


def read_result_rows(paths: Sequence[Path], notes: list[str]) -> Rows:
    """Read the results of a benchmark, with one row per model and item.

    paths : files or folders: samples_*.jsonl or results_*.json of lm-eval, per_instance_stats.json of HELM, result folders of
        MTEB with model_meta.json, and reports of SWE-bench
    notes : receives one note on what was assumed about the files

    Returns the location and the values by column of each row; empty if the files are none of these.

    Raises: ImportFormatError if a file cannot be read.
    """
    readers = {
        "samples_*.jsonl": (_read_lm_eval_samples, "results of lm-eval: a document is an item"),
        "per_instance_stats.json": (_read_helm, "results of HELM: an instance is an item"),
        "model_meta.json": (
            _read_mteb,
            "results of MTEB: the score of a task is the mean main_score of its subsets and splits",
        ),
        "results_*.json": (_read_lm_eval_results, "results of lm-eval: a task is an item"),
        "*.json": (_read_swe_bench, "results of SWE-bench: 0 if not resolved, without instances that no file lists"),
    }
    for pattern, (read_files, note) in readers.items():
        may_be_results = all(_has_matching_file(path, pattern) for path in paths)
        if may_be_results:
            files = find_files(paths, (pattern,), expected_kind=f"a file {pattern}")
            rows = list(read_files(files))
            if rows:
                notes.append(note)
                return rows
    return []


def _has_matching_file(path: Path, pattern: str) -> bool:
    """Return whether a path is a file whose name matches a pattern, or a folder that contains such a file."""
    if path.is_dir():
        return any(path.rglob(pattern))
    return path.match(pattern)


def _read_lm_eval_samples(files: list[Path]) -> LocatedRows:
    """Yield one row per document of a task, with one column per metric.

    lm-eval may apply a filter, such as a regular expression, which extracts the answer from a response. The column of a
    metric of filtered answers is called METRIC/FILTER, as in "acc/strict". Without a filter, it is called METRIC.

    files : samples_*.jsonl, one per model and task; files that are not logs of lm-eval are left out
    """
    logs = [file for file in files if recognize_format([file]) == "lm-eval"]
    for file, model in zip(logs, name_lm_eval_agents(logs), strict=True):
        task = parse_lm_eval_task(file)
        for location, sample in read_lines(file):
            row: Row = {"model": model, "item": f"{task}/{sample.get('doc_id')}"}
            filter_name = sample.get("filter", "none")
            for metric in _list_metrics(sample):
                score = sample.get(metric)
                if isinstance(score, int | float):
                    row[_name_score_column(f"{metric},{filter_name}")] = score
            yield location, row


def _list_metrics(sample: Row) -> list[str]:
    """List the metrics of a sample of lm-eval; without such a list, each of its keys may be a metric."""
    metrics = sample.get("metrics") or [key for key in sample if key != "doc_id"]
    return list(map(str, metrics)) if isinstance(metrics, list) else []


def _read_lm_eval_results(files: list[Path]) -> LocatedRows:
    """Yield one row per task, with one column per metric.

    The columns have the same names as in `_read_lm_eval_samples`. Groups of tasks and standard errors are left out.

    files : results_*.json, one per model
    """
    for file in files:
        content = read_json(file)
        model = get_nested(content, "model_name") or get_nested(content, "config", "model") or file.parent.name
        for task, entries in _get_entries(get_nested(content, "results")):
            is_group = get_nested(content, "groups", task) is not None
            if is_group:
                continue
            scores = {}
            for name, score in _get_entries(entries):
                is_metric = "," in name  # others are facts about the task, such as its alias
                if is_metric and "_stderr" not in name:
                    scores[_name_score_column(name)] = score
            if scores:
                yield f"{file}, {task}", {"model": model, "item": task, **scores}


def _name_score_column(name: str) -> str:
    """Convert the name of a metric and a filter, such as "acc,none" or "acc,strict", to METRIC or METRIC/FILTER."""
    return name.removesuffix(",none").replace(",", "/")


def _read_helm(files: list[Path]) -> LocatedRows:
    """Yield the results of HELM: a row per instance (item) of each file, with the mean of each of its statistics.

    HELM may perturb an instance, for example by adding typing errors. A perturbed instance is a separate item.

    files : files per_instance_stats.json, one per run of a model on a scenario

    Raises: ImportFormatError if a file cannot be read or has a different layout.
    """
    for file in files:
        scenario = parse_helm_scenario(file)
        model = _find_helm_model(file)
        for number, instance in enumerate(require_list(read_json(file), file), 1):
            perturbation = get_nested(instance, "perturbation", "name")
            item = f"{scenario}/{get_nested(instance, 'instance_id')}"
            row: Row = {"model": model, "item": f"{item} ({perturbation})" if perturbation else item}
            for stat in require_list(get_nested(instance, "stats"), file):
                row[str(get_nested(stat, "name", "name"))] = get_nested(stat, "mean")
            yield f"{file}, instance {number}", row


def _find_helm_model(file: Path) -> Json:
    """Return the name of the model of a run of HELM.

    The name is in the file run_spec.json of the run. Without this file, the name of the folder states it:
    "mmlu:subject=law,model=openai_gpt-4" is a run of "openai_gpt-4".

    file : any file in the folder of the run
    """
    specification = file.with_name("run_spec.json")
    if specification.is_file():
        return get_nested(read_json(specification), "adapter_spec", "model")
    _, _, model_and_other_options = file.parent.name.partition("model=")
    return model_and_other_options.partition(",")[0]


def _read_mteb(files: list[Path]) -> LocatedRows:
    """Yield the results of MTEB, a benchmark of text embeddings: a row per model and task.

    The score is the mean of all main scores of the task. There is one for each split, such as "test", and subset, such as a
    language. Files without a main score are skipped.

    files : files model_meta.json, one per model. Other JSON files in the same folder have one task each. Their key `scores`
        has a list for each split, with an object with the key `main_score` for each subset.

    Raises: ImportFormatError if the results of a split are not a list.
    """
    for model_file in files:
        model = get_nested(read_json(model_file), "name")
        for task_file in sorted(model_file.parent.glob("*.json")):
            result = read_json(task_file)
            splits = [require_list(split, task_file) for _, split in _get_entries(get_nested(result, "scores"))]
            scores = [get_nested(subset, "main_score") for subset in chain.from_iterable(splits)]
            main_scores = [score for score in scores if isinstance(score, int | float)]
            if main_scores:
                task = get_nested(result, "task_name")
                yield str(task_file), {"model": model, "item": task, "score": fmean(main_scores)}


def _read_swe_bench(files: list[Path]) -> LocatedRows:
    """Yield one row per model and task of SWE-bench, with the score 1 if the model resolved the task, else 0.

    Each report of a model gives a row for each task that any file lists.

    files : reports of SWE-bench, of one or of several models; other files are ignored

    Raises: ImportFormatError [scores-reports] if two reports of one model do not list the same instances.
    """
    reports: list[tuple[Path, str, set[str]]] = []  # file, model and resolved instances
    instances_by_file: dict[Path, dict[str, None]] = {}  # ordered sets
    for file in files:
        resolved_by_model, id_lists = _read_swe_bench_report(file)
        reports += [(file, model, set(ids)) for model, ids in resolved_by_model.items()]
        instances_by_file[file] = dict.fromkeys(chain.from_iterable(id_lists))

    first_files: dict[str, Path] = {}
    for file, model, _ in reports:
        first_file = first_files.setdefault(model, file)
        if instances_by_file[file].keys() != instances_by_file[first_file].keys():
            problem = f"this report of the model {model} and {first_file} list different instances."
            remedy = "Merge the reports, or give their models different names."
            raise import_error(file, f"{problem} {remedy}", slug="scores-reports")

    instances = dict.fromkeys(chain.from_iterable(instances_by_file.values()))
    for file, model, resolved in reports:
        for instance in instances:
            yield str(file), {"model": model, "item": instance, "score": float(instance in resolved)}


def _read_swe_bench_report(file: Path) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Read the ids of instances (tasks) in a report of SWE-bench, which states the tasks that models have resolved.

    A report has one of two layouts. The report of one model has a list of instances for each outcome, such as "resolved_ids"
    and "error_ids". A report of several models has a list of resolved instances for each model.

    Returns the ids of the resolved instances by model, and the lists of ids for all outcomes or models. Both are empty if
    the file has a different layout.
    """
    content = read_json(file)
    id_lists = _get_id_lists(content)

    # report of one model: the keys are outcomes
    resolved_keys = [key for key in _RESOLVED_KEYS if key in id_lists]
    if resolved_keys:
        model = _find_model_name(file)
        resolved_by_model = {model: id_lists[resolved_keys[0]]}
        lists_by_outcome = [ids for key, ids in id_lists.items() if _OUTCOMES.fullmatch(key.removesuffix("_ids"))]
        return resolved_by_model, lists_by_outcome

    # report of several models: the keys are models, and all values are lists of texts
    has_only_id_lists = id_lists == content
    if has_only_id_lists:
        return id_lists, list(id_lists.values())
    return {}, []


def _get_id_lists(content: Json) -> dict[str, list[str]]:
    """Return the lists in a JSON object by key, with the texts in each; empty if the content is not an object."""
    id_lists = {}
    for key, elements in _get_entries(content):
        if isinstance(elements, list):
            id_lists[key] = [element for element in elements if isinstance(element, str)]
    return id_lists


def _find_model_name(file: Path) -> str:
    """Return the model in the path of a file of resolved instances.

    The path is MODEL/results/results.json, MODEL/results.json, MODEL.RUN.json or MODEL.json.
    """
    if file.name == "results.json":
        folder = file.parent.parent if file.parent.name == "results" else file.parent
        return folder.name or file.stem
    if _VERSION.fullmatch(file.stem):
        return file.stem
    return file.stem.rpartition(".")[0] or file.stem


def _get_entries(value: Json) -> list[tuple[str, Json]]:
    """Return the entries of an object; none for any other value."""
    return list(value.items()) if isinstance(value, dict) else []
