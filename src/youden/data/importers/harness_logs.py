"""Imports logs of evaluation harnesses: Inspect, lm-evaluation-harness, HELM. Agents are models, items are samples;
scores are left out.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import pyarrow as pa

from youden.data.importers.foreign_files import (
    apart,
    as_list,
    as_object,
    distinct,
    error_said,
    files_of,
    inner,
    parse_json,
    read_json,
    read_lines,
    wrong,
)
from youden.data.importers.pool_joiner import ImportedPool, Joiner
from youden.data.importers.transcripts import Text, as_text, call_of
from youden.decompression import Unpacked, inflated
from youden.errors import ImportFormatError
from youden.text.replacements import Replacements
from youden.types.pool import Json

_ZSTANDARD = 93
_HEADERS = ("header.json", "_journal/start.json")
_BESIDE = {"eval-set.json", "logs.json"}
"""What Inspect writes beside the logs of an eval set, about them."""
_ATTACHED = "attachment://"
"""How Inspect's logs name a long text that stands in the sample's attachments."""
KEPT = "keep_response"
"""The scorer of `youden.inspect` that keeps a response as its answer."""


@dataclass(frozen=True)
class _Log:
    path: Path
    header: dict[str, Json]
    samples: Callable[[], Iterator[dict[str, Json]]]

    @property
    def model(self) -> str:
        return str(inner(self.header, "eval", "model") or self.path.stem)

    @property
    def task(self) -> str:
        return str(inner(self.header, "eval", "task") or "")


def read_inspect(paths: Sequence[Path], /, *, columns: Mapping[str, str], text: Text = "answer") -> ImportedPool:
    """One agent a log, named by its model (and its file, where two logs are of one model and task); items are sample ids.

    A response is what the scorer `youden.inspect.keep_response` kept, else the sample's output. As a transcript it is all that
    was said and done after the input: turns, calls of tools, their results.

    A log that did not succeed gives the samples that it has. Epochs are repeats.

    Raises: ImportFormatError for a file that is no log, or in which no sample has an output.
    """
    files = files_of(paths, ("*.eval", "*.json"), what="an Inspect log")
    joiner = Joiner(paths[0].stem)
    logs = [_read(path, joiner.replaced) for path in files if path in paths or path.name not in _BESIDE]
    tasks = {log.task for log in logs}
    names = distinct([f"{log.model}\0{log.task}" for log in logs], [log.path.with_suffix("") for log in logs])
    for log, name in zip(logs, names, strict=True):
        agent = name.replace(f"\0{log.task}", "")
        status = log.header.get("status", "unfinished")
        if status != "success":
            joiner.note(f"{log.path}: the run ended with status '{status}'; the samples it has were taken.")
        for number, sample in enumerate(log.samples(), 1):
            place = f"{log.path}, sample {number}"
            failed = sample.get("error") or inner(sample, "output", "error")
            said = _response(sample) if text == "answer" else "\n".join(_done(sample)) or None
            if said is None or (failed and not said):
                joiner.leave_out(
                    "the sample failed" if failed else "the sample has no output", f"{place}{error_said(failed)}"
                )
                continue
            item = sample.get("id")
            joiner.add(
                agent,
                f"{log.task}/{item}" if len(tasks) > 1 and item is not None else item,
                said,
                prompt=_prompt(sample.get("input")),
                place=place,
                repeat=sample.get("epoch"),
            )
    return joiner.pool()


def _read(path: Path, replaced: Replacements) -> _Log:
    if path.suffix == ".json":
        log = as_object(read_json(path, replaced), path)
        if not isinstance(log.get("eval"), dict):
            raise wrong(path, "it has no key 'eval', so it is no Inspect log.", slug="import-format")
        samples = _objects(log.get("samples"), path)
        return _Log(path, log, lambda: iter(samples))
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError) as error:
        raise _no_archive(path, error) from error
    header = next((name for name in _HEADERS if name in names), None)
    if header is None:
        raise wrong(path, "it has neither header.json nor a journal, so it is no Inspect log.", slug="import-format")
    members = [one for one in names if one.startswith("samples/") and one.endswith(".json")]
    return _Log(path, next(_members(path, [header], replaced)), partial(_members, path, members, replaced))


def _members(path: Path, names: Sequence[str], replaced: Replacements) -> Iterator[dict[str, Json]]:
    """The objects in the archive at `path`, one in memory at a time."""
    count = Unpacked(path)
    try:
        with path.open("rb") as file, ZipFile(file) as archive:
            for name in names:
                place = f"{path}/{name}"
                yield as_object(parse_json(_member(file, archive.getinfo(name), count), place, replaced), place)
    except (BadZipFile, OSError, zlib.error, pa.ArrowException) as error:
        raise _no_archive(path, error) from error


def _no_archive(path: Path, error: Exception) -> ImportFormatError:
    said = f"it is no whole .eval archive ({error}). Copy it again, or give the .json log."
    return wrong(path, said, slug="import-format")


def _member(file: BinaryIO, info: ZipInfo, count: Unpacked) -> bytes:
    """The content of one member. Inspect compresses by Zstandard, which `zipfile` reads from Python 3.14 on only."""
    file.seek(info.header_offset + 26)
    skipped = file.read(4)
    file.seek(int.from_bytes(skipped[:2], "little") + int.from_bytes(skipped[2:], "little"), 1)
    raw = file.read(info.compress_size)
    match info.compress_type:
        case method if method == ZIP_STORED:
            count.add(len(raw))
            return raw
        case method if method == ZIP_DEFLATED:
            return inflated(raw, count)
        case method if method == _ZSTANDARD:
            count.add(info.file_size)
            whole: bytes = pa.Codec("zstd").decompress(raw, info.file_size, asbytes=True)
            return whole
    raise BadZipFile(f"{info.filename} is compressed by method {info.compress_type}")


def _objects(value: Json, path: Path) -> list[dict[str, Json]]:
    return [as_object(sample, path) for sample in value] if isinstance(value, list) else []


def _response(sample: Mapping[str, Json]) -> str | None:
    """What a scorer kept as the response, else the output."""
    kept = inner(sample.get("scores"), KEPT, "answer")
    return kept if isinstance(kept, str) else _text(inner(sample.get("output"), "choices", 0, "message", "content"))


def _done(sample: Mapping[str, Json]) -> Iterator[str]:
    """The sample's messages after its input, each on its line."""
    given, kept = sample.get("input"), sample.get("attachments")
    asked: list[Json] = given if isinstance(given, list) else [{"role": "user", "content": given}]
    known = {_identity(message) for message in asked}
    messages = sample.get("messages")
    for message in messages if isinstance(messages, list) else []:
        role = inner(message, "role")
        if role == "system" or inner(message, "source") == "input" or _identity(message) in known:
            continue
        text = _text(inner(message, "content")) or ""
        text = as_text(inner(kept, text.removeprefix(_ATTACHED)) or text) if text.startswith(_ATTACHED) else text
        if role == "tool":
            failed = inner(message, "error", "message")
            yield f"result: {text or as_text(failed or '')}"
        elif text:
            yield f"{role}: {text}"
        calls = inner(message, "tool_calls")
        for one in calls if isinstance(calls, list) else []:
            yield call_of(inner(one, "function"), inner(one, "arguments"))


def _identity(message: Json) -> str:
    """Return what identifies a message: its id, or without one its role and content."""
    return as_text(inner(message, "id") or [inner(message, "role"), inner(message, "content")])


def _text(content: Json) -> str | None:
    """The text of a message: a string, or the text parts of a list."""
    if isinstance(content, list):
        parts = [inner(part, "text") for part in content if inner(part, "type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _prompt(given: Json) -> str | None:
    if isinstance(given, list):
        said = (_text(inner(message, "content")) for message in given if inner(message, "role") == "user")
        return "\n\n".join(filter(None, said)) or None
    return given if isinstance(given, str) else None


_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)")


def read_lm_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One agent a model; items are `doc_id`, with the task before it if there are several.

    Where several folders are of one model each is an agent, named by the shortest end of its path that tells it apart. Where one
    folder holds a task twice, each time is an agent. All raw responses of generation tasks are taken, several as repeats; tasks
    by log-likelihood have none and are left out, counted.

    Raises: ImportFormatError naming file and line.
    """
    files = files_of(paths, ("samples_*.jsonl",), what="a samples_*.jsonl of lm-evaluation-harness")
    tasks = {_task(file) for file in files}
    agents = _agents(files)
    joiner = Joiner(paths[0].stem)
    for file, agent in zip(files, agents, strict=True):
        filters: dict[str, Json] = {}
        for place, row in read_lines(file, joiner.replaced):
            item = _item(row.get("doc_id"), _task(file) if len(tasks) > 1 else None)
            if filters.setdefault(str(item), row.get("filter")) != row.get("filter"):
                continue
            said = inner(row, "resps", 0)
            text = inner(said, 0) if isinstance(said, list) else said
            if isinstance(text, list | int | float | bool):
                joiner.leave_out("no text: the task is by log-likelihood", place)
                continue
            prompt = _lm_eval_prompt(row.get("arguments"))
            for repeat, one in enumerate(said if isinstance(said, list) else [said], 1):
                joiner.add(agent, item, one, prompt=prompt, place=place, repeat=repeat)
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


def _lm_eval_prompt(arguments: Json) -> Json:
    first = inner(arguments, "gen_args_0", "arg_0")
    return first if first is not None else inner(arguments, 0, 0)


STATE = "scenario_state.json"
_MODEL = re.compile(r"(?<=[:,])(model|model_deployment)=[^,]*,?")


def read_helm(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One agent a model, named by its folder too where a model did one scenario several times; items are instance ids, with the
    scenario before them if there are several.

    Several completions or trials are repeats. Requests that only score a given answer are left out. A perturbed instance is an
    item of its own.

    Raises: ImportFormatError naming file and request.
    """
    files = files_of(paths, (STATE,), what=f"a {STATE} of HELM")
    joiner = Joiner(paths[0].stem)
    states = [as_object(read_json(file, joiner.replaced), file) for file in files]
    scenarios = [_scenario(file) for file in files]
    runs = [f"{inner(state, 'adapter_spec', 'model')}\0{said}" for state, said in zip(states, scenarios, strict=True)]
    names = distinct(runs, [file.parent for file in files])
    for file, state, scenario, name in zip(files, states, scenarios, names, strict=True):
        agent = name.replace(f"\0{scenario}", "")
        for number, request in enumerate(as_list(state.get("request_states"), f"{file}, request_states"), 1):
            place = f"{file}, request {number}"
            completions = inner(request, "result", "completions")
            text = inner(completions, 0, "text")
            if inner(request, "reference_index") is not None:
                joiner.leave_out("no text: the request scores a given answer", place)
                continue
            if text is None:
                joiner.leave_out("the call failed", place)
                continue
            item = _helm_item(request, scenario if len(set(scenarios)) > 1 else None)
            prompt, trial = inner(request, "instance", "input", "text"), inner(request, "train_trial_index") or 0
            for nth, completion in enumerate(as_list(completions, place)):
                said = inner(completion, "text")
                joiner.add(agent, item, said, prompt=prompt, place=place, repeat=f"{trial}.{nth}")
    return joiner.pool()


def _scenario(file: Path) -> str:
    """The run's name without its model, such as `mmlu:subject=law`."""
    return _MODEL.sub("", file.resolve().parent.name).rstrip(":,")


def _helm_item(request: Json, scenario: str | None) -> str | None:
    number = inner(request, "instance", "id")
    if number is None:
        return None
    changed = inner(request, "instance", "perturbation", "name")
    name = f"{number} ({changed})" if changed else str(number)
    return name if scenario is None else f"{scenario}/{name}"
