"""Import the logs of evaluation harnesses: Inspect, lm-evaluation-harness and HELM.

Agents are models and items are samples. Scores are not imported, because a ranking needs none.
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
    disambiguate_names,
    find_disambiguating_suffixes,
    find_files,
    format_tool_error,
    get_nested,
    import_error,
    parse_json,
    read_json,
    read_lines,
    require_list,
    require_object,
)
from youden.data.importers.pool_joiner import ImportedPool, PoolBuilder
from youden.data.importers.transcripts import Text, format_tool_call, to_text
from youden.decompression import UnpackLimit, inflate
from youden.errors import ImportFormatError
from youden.text.replacements import Replacements
from youden.types.pool import Json

_ZSTANDARD = 93
_HEADERS = ("header.json", "_journal/start.json")
_SUMMARY_FILES = {"eval-set.json", "logs.json"}
"""Files that Inspect writes into the folder of an eval set and that are not logs."""
_ATTACHMENT = "attachment://"
"""Prefix of a reference to a long text in the attachments of a sample."""
SCORER_NAME = "keep_response"
"""Name of the scorer of `youden.inspect` that stores a response as its answer."""


@dataclass(frozen=True)
class _Log:
    """A log of Inspect; `read_samples` reads its samples."""

    path: Path
    header: dict[str, Json]
    read_samples: Callable[[], Iterator[dict[str, Json]]]

    @property
    def model(self) -> str:
        """Name of the model, or of the file if the log does not state it."""
        return str(get_nested(self.header, "eval", "model") or self.path.stem)

    @property
    def task(self) -> str:
        """Name of the task; empty if the log does not state it."""
        return str(get_nested(self.header, "eval", "task") or "")

    @property
    def arguments(self) -> dict[str, Json]:
        """Arguments of the task and of the solver that are numbers or short texts; those of the task come first."""
        arguments: dict[str, Json] = {}
        for key in ("task_args", "solver_args"):
            values = get_nested(self.header, "eval", key)
            if isinstance(values, dict):
                arguments |= {name: value for name, value in values.items() if _may_name_agent(value)}
        return arguments


_MAX_NAME_CHARACTERS = 60
"""Maximum length of an argument that may name an agent. Longer texts are usually prompts."""


def _may_name_agent(value: Json) -> bool:
    """Return whether the value of an argument is a number or a short text on one line."""
    return isinstance(value, str | int | float) and len(str(value)) <= _MAX_NAME_CHARACTERS and str(value).isprintable()


def read_inspect(paths: Sequence[Path], /, *, columns: Mapping[str, str], text: Text = "answer") -> ImportedPool:
    """Import logs of Inspect.

    Each log is an agent, and each sample an item. An agent is named after its model. Several logs may have the same model and
    task. Then an argument of the task or solver whose value is different in each of these logs is added to the name, such as
    "(version=v2)". Without such an argument, a part of the path of the log is added. All existing samples of an unsuccessful log
    are imported. Epochs are repeats.

    Parameters
    ----------
    paths : sequence of Path
        Logs (.eval or .json), and folders of logs.
    columns : mapping
        Ignored.
    text : {"answer", "transcript"}, default "answer"
        Response of a sample. "answer": the answer that the scorer `youden.inspect.keep_response` stored, or else the
        output of the sample. "transcript": everything after the input, that is, messages, tool calls and their results.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out.

    Raises
    ------
    ImportFormatError
        [import-format] if a file is not a log; [import-empty] if no sample has an output.
    """
    files = find_files(paths, ("*.eval", "*.json"), expected_kind="an Inspect log")
    builder = PoolBuilder(paths[0].stem)
    log_files = [path for path in files if path in paths or path.name not in _SUMMARY_FILES]
    logs = [_read_log(path, builder.replaced) for path in log_files]
    models = [log.model for log in logs]
    tasks = [log.task for log in logs]
    has_several_tasks = len(set(tasks)) > 1
    names = _name_agents(models, tasks, [path.with_suffix("") for path in log_files])
    agents = _name_agents_by_arguments(logs, names)
    for log, agent in zip(logs, agents, strict=True):
        task = log.task if has_several_tasks else None
        status = log.header.get("status", "unfinished")
        if status != "success":
            builder.add_note(f"{log.path}: the run ended with status '{status}'; the samples that it has were imported")
        for number, sample in enumerate(log.read_samples(), 1):
            location = f"{log.path}, sample {number}"
            error = sample.get("error") or get_nested(sample, "output", "error")
            response = _get_response(sample) if text == "answer" else _format_transcript(sample)
            has_failed = bool(error) and not response
            if response is None or has_failed:
                reason = "the sample failed" if error else "the sample has no output"
                builder.count_left_out(reason, f"{location}{format_tool_error(error)}")
                continue

            item = _make_item_id(sample.get("id"), task)
            prompt = _get_prompt(sample.get("input"))
            builder.add(agent, item, response, prompt=prompt, location=location, repeat=sample.get("epoch"))
    return builder.build()


def _name_agents(models: Sequence[Json], tasks: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Name the agent of each run after its model, with a part of the path if several runs have the same model and task."""
    # with the task in the name for now, runs of different tasks do not get a part of the path
    models_and_tasks = [f"{model}\0{task}" for model, task in zip(models, tasks, strict=True)]
    names = disambiguate_names(models_and_tasks, paths)
    return [name.replace(f"\0{task}", "") for name, task in zip(names, tasks, strict=True)]


def _name_agents_by_arguments(logs: Sequence[_Log], names: Sequence[str]) -> list[str]:
    """Distinguish logs of the same model and task by an argument with a different value in each log.

    For example, two logs of the model "gpt" get the agents "gpt (version=v1)" and "gpt (version=v2)".

    logs : logs of Inspect
    names : name of the agent of each log, which is kept if there is no such argument
    """
    new_names = list(names)
    for model, task in {(log.model, log.task) for log in logs}:
        positions = [position for position, log in enumerate(logs) if (log.model, log.task) == (model, task)]
        argument = _find_distinguishing_argument([logs[position].arguments for position in positions])
        if argument is not None and len(positions) > 1:
            for position in positions:
                value = logs[position].arguments[argument]
                new_names[position] = f"{model} ({argument}={value})"
    return new_names


def _find_distinguishing_argument(arguments: Sequence[Mapping[str, Json]]) -> str | None:
    """Return the first argument that all logs have, with a different value in each; None if there is none."""
    for name in arguments[0]:
        values = {str(given[name]) for given in arguments if name in given}
        if len(values) == len(arguments):
            return name
    return None


def _read_log(path: Path, replaced: Replacements) -> _Log:
    """Read the header of a log of Inspect, which is a .json file or an .eval archive.

    replaced : counts the values that reading replaces, such as NaN, which becomes None

    Raises ImportFormatError [import-format] if the file is not a log.
    """
    if path.suffix.lower() == ".json":
        log = require_object(read_json(path, replaced), path)
        if not isinstance(log.get("eval"), dict):
            raise _make_no_log_error(path, "it has no key 'eval'")
        samples = _require_objects(log.get("samples"), path)
        return _Log(path, log, partial(iter, samples))
    return _read_archive(path, replaced)


def _read_archive(path: Path, replaced: Replacements) -> _Log:
    """Open a log that Inspect stored as an .eval archive, which is a ZIP file, and read its header.

    The header describes the run. It is in header.json or, if the run did not finish, in the first file of the journal. The
    samples may be large. They are read when `read_samples` of the returned log is called.

    path : the archive
    replaced : counts the values that reading replaces, such as NaN, which becomes None; also updated by `read_samples`

    Raises: ImportFormatError [import-format] if the file is not a log or is damaged.
    """
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError) as error:
        raise _archive_error(path, error) from error

    header_name = next((name for name in _HEADERS if name in names), None)
    if header_name is None:
        raise _make_no_log_error(path, "it has neither header.json nor a journal")
    header = next(_read_members(path, [header_name], replaced))

    sample_names = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    read_samples = partial(_read_members, path, sample_names, replaced)
    return _Log(path, header, read_samples)


def _make_no_log_error(path: Path, reason: str) -> ImportFormatError:
    """Make the error that a file is not a log of Inspect.

    reason : what the file lacks, such as "it has no key 'eval'"
    """
    return import_error(path, f"{reason}, so it is not an Inspect log. Pass a log of Inspect.", slug="import-format")


def _read_members(path: Path, names: Sequence[str], replaced: Replacements) -> Iterator[dict[str, Json]]:
    """Yield the objects in members of an archive, with one member in memory at a time.

    names : names of the members in the archive
    replaced : counts the values that reading replaces, such as NaN, which becomes None
    """
    limit = UnpackLimit(path)
    try:
        with path.open("rb") as file, ZipFile(file) as archive:
            for name in names:
                location = f"{path}/{name}"
                content = _unpack_member(file, archive.getinfo(name), limit)
                yield require_object(parse_json(content, location, replaced), location)
    except (BadZipFile, OSError, zlib.error, pa.ArrowException) as error:
        raise _archive_error(path, error) from error


def _archive_error(path: Path, error: Exception) -> ImportFormatError:
    """Return the error that an .eval archive is damaged."""
    return import_error(
        path,
        f"it is not a complete .eval archive ({error}). Copy it again, or pass the .json log.",
        slug="import-format",
    )


def _unpack_member(file: BinaryIO, info: ZipInfo, limit: UnpackLimit) -> bytes:
    """Return the content of a member (file) of a zip archive.

    Inspect compresses by Zstandard, which `zipfile` supports only from Python 3.14 on. Therefore, the member is located
    by `_read_compressed` and decompressed here.

    file : the open archive
    info : position, size and compression of the member
    limit : limit on the unpacked bytes of the archive; the bytes of the member count towards the limit

    Raises: BadZipFile if the method of compression is unknown; InputError [unpacked-too-large] if the limit is exceeded.
    """
    raw = _read_compressed(file, info)
    method = info.compress_type
    if method == ZIP_STORED:
        limit.add(len(raw))
        return raw
    if method == ZIP_DEFLATED:
        return inflate(raw, limit)
    if method == _ZSTANDARD:
        limit.add(info.file_size)
        content: bytes = pa.Codec("zstd").decompress(raw, info.file_size, asbytes=True)
        return content
    raise BadZipFile(f"{info.filename} is compressed by method {method}")


def _read_compressed(file: BinaryIO, info: ZipInfo) -> bytes:
    """Read the bytes of a member (file) of a zip archive as they are stored, without decompressing them.

    `ZipFile` cannot return these bytes. Therefore, they are located by the header that precedes them.

    file : the open archive, whose reading position is changed
    info : position of that header, and number of compressed bytes

    Returns the compressed bytes, or the content itself if the member is not compressed.
    """
    # The local header is 30 bytes long. Its last two fields, of two bytes each, are the lengths of the name and of the
    # extra field, which follow the header.
    file.seek(info.header_offset + 26)
    lengths = file.read(4)
    name_length = int.from_bytes(lengths[:2], "little")
    extra_length = int.from_bytes(lengths[2:], "little")
    file.seek(name_length + extra_length, 1)
    return file.read(info.compress_size)


def _require_objects(value: Json, path: Path) -> list[dict[str, Json]]:
    """Return the objects in a list, or no objects if the value is not a list.

    Raises ImportFormatError [import-format] if an element is not an object.
    """
    if not isinstance(value, list):
        return []
    return [require_object(sample, path) for sample in value]


def _get_response(sample: Mapping[str, Json]) -> str | None:
    """Return the response that the scorer stored, or else the output of the sample; None if there is neither."""
    stored = get_nested(sample.get("scores"), SCORER_NAME, "answer")
    if isinstance(stored, str):
        return stored
    return _get_text(get_nested(sample.get("output"), "choices", 0, "message", "content"))


def _format_transcript(sample: Mapping[str, Json]) -> str | None:
    """Format all messages and tool calls after the input of a sample, one per line; None if there are none."""
    return "\n".join(_format_steps(sample)) or None


def _format_steps(sample: Mapping[str, Json]) -> Iterator[str]:
    """Yield one line of text for each message and each tool call that follows the input of a sample."""
    messages = sample.get("messages")
    if not isinstance(messages, list):
        return

    # the messages of a sample begin with those of its input
    sample_input = sample.get("input")
    input_messages: list[Json] = [{"role": "user", "content": sample_input}]
    if isinstance(sample_input, list):
        input_messages = sample_input
    input_identities = {_get_identity(message) for message in input_messages}

    for message in messages:
        role = get_nested(message, "role")
        is_input = get_nested(message, "source") == "input" or _get_identity(message) in input_identities
        if role != "system" and not is_input:
            yield from _format_message(message, sample.get("attachments"))


def _format_message(message: Json, attachments: Json) -> Iterator[str]:
    """Format one message of a sample, and the tool calls in it, as lines of a transcript.

    The line of a message has the role and the text of its author, as in "assistant: Done". The result of a tool is written as
    "result: 7"; if the tool failed, the line has its error message. A message without a text has no line, unless it is from a
    tool. Each tool call has a line after the message.

    message : message with a role such as "assistant" or "tool", as Inspect stores it
    attachments : long texts of the sample by id, to which a message may refer
    """
    role = get_nested(message, "role")
    text = _get_text_or_attachment(message, attachments)
    if role == "tool":
        error = get_nested(message, "error", "message")
        yield f"result: {text or to_text(error or '')}"
    elif text:
        yield f"{role}: {text}"

    tool_calls = get_nested(message, "tool_calls")
    if isinstance(tool_calls, list):
        for call in tool_calls:
            yield format_tool_call(get_nested(call, "function"), get_nested(call, "arguments"))


def _get_text_or_attachment(message: Json, attachments: Json) -> str:
    """Return the text of a message, or the attachment to which it refers; empty if it has no text.

    attachments : long texts of the sample by id; a message refers to one by "attachment://" and its id
    """
    text = _get_text(get_nested(message, "content")) or ""
    if not text.startswith(_ATTACHMENT):
        return text
    attachment = get_nested(attachments, text.removeprefix(_ATTACHMENT))
    return to_text(attachment or text)


def _get_identity(message: Json) -> str:
    """Return the id of a message; without an id, its role and content."""
    return to_text(get_nested(message, "id") or [get_nested(message, "role"), get_nested(message, "content")])


def _get_text(content: Json) -> str | None:
    """Return the text of a message, which is a string or a list of parts; None if it has none."""
    if isinstance(content, list):
        parts = [get_nested(part, "text") for part in content if get_nested(part, "type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _get_prompt(input_: Json) -> str | None:
    """Return the texts of the user in the input of a sample."""
    if isinstance(input_, list):
        user_messages = [message for message in input_ if get_nested(message, "role") == "user"]
        texts = (_get_text(get_nested(message, "content")) for message in user_messages)
        return "\n\n".join(filter(None, texts)) or None
    return input_ if isinstance(input_, str) else None


_SAMPLES_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)")


def read_lm_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import samples of lm-evaluation-harness.

    - Agents: each model is an agent. If several folders have the same model, each folder is an agent. If a folder has several
      files of one task, each timestamp in their names is an agent.
    - Items: each `doc_id` is an item. If there are several tasks, ids begin with the task.
    - Responses: raw responses of generation tasks are imported, and several responses to an item are repeats. Tasks that
      compare log-likelihoods have no responses and are left out.

    Parameters
    ----------
    paths : sequence of Path
        Files samples_*.jsonl, and folders of such files.
    columns : mapping
        Ignored.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out.

    Raises
    ------
    ImportFormatError
        [import-empty] if a folder has no such file, or no sample has a text; another slug if a file cannot be read.
    """
    files = find_files(paths, ("samples_*.jsonl",), expected_kind="a samples_*.jsonl of lm-evaluation-harness")
    has_several_tasks = len({parse_lm_eval_task(file) for file in files}) > 1
    builder = PoolBuilder(paths[0].stem)
    for file, agent in zip(files, name_lm_eval_agents(files), strict=True):
        task = parse_lm_eval_task(file) if has_several_tasks else None
        for location, row in _read_rows_of_first_filter(file, builder.replaced):
            responses = _get_lm_eval_responses(row)
            if responses is None:
                builder.count_left_out("no text: the task is by log-likelihood", location)
                continue
            item = _make_item_id(row.get("doc_id"), task)
            prompt = _get_lm_eval_prompt(row.get("arguments"))
            for repeat, response in enumerate(responses, 1):
                builder.add(agent, item, response, prompt=prompt, location=location, repeat=repeat)
    return builder.build()


def _get_lm_eval_responses(row: dict[str, Json]) -> list[Json] | None:
    """Return the responses of a model in a sample of lm-evaluation-harness; several responses are repeats of the sample.

    The sample has a list of responses per request under the key `resps`. Only the first request is used. The responses are
    those of the model, before a filter extracts an answer from them.

    row : values of the sample by key

    Returns None if the sample contains numbers instead of texts, because the task compares log-likelihoods.
    """
    first_request = get_nested(row, "resps", 0)
    responses: list[Json] = first_request if isinstance(first_request, list) else [first_request]

    # a log-likelihood is stored as a number, or as a list of a number and a truth value
    are_log_likelihoods = bool(responses) and isinstance(responses[0], list | int | float | bool)
    return None if are_log_likelihoods else responses


def _read_rows_of_first_filter(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the samples of a file of lm-evaluation-harness, each document once.

    A filter extracts the answer from a raw response, for example by a regular expression. If a task has several filters, the
    file repeats each sample for each filter, with the same raw responses. Only the samples of the first filter of a document
    are read.

    file : a file samples_*.jsonl
    replaced : counts the values that reading replaces, such as NaN, which becomes None

    Yields the location of each sample, for messages, and its values by key.
    """
    first_filters: dict[str, Json] = {}
    for location, row in read_lines(file, replaced):
        document = str(row.get("doc_id"))
        filter_name = row.get("filter")
        first_filter = first_filters.setdefault(document, filter_name)
        if filter_name == first_filter:
            yield location, row


def name_lm_eval_agents(files: Sequence[Path]) -> list[str]:
    """Return the name of the agent of each file of samples, such as "llama" or "llama (runs/a, 2024-05-01T10-00-00)".

    The name has up to three parts:

    - the model;
    - a part of the folder's path, if several folders contain files of this model;
    - the time in the name of the file, if the folder contains several files of one task, which come from repeated runs.

    files : files samples_*.jsonl, one per model and task

    Returns the names in the order of the files. Files of different tasks may have the same agent.
    """
    folders = [file.parent for file in files]
    models = [_find_model(file) for file in files]
    folder_suffixes = find_disambiguating_suffixes(models, folders)

    n_files_by_task = Counter((file.parent, parse_lm_eval_task(file)) for file in files)
    folders_with_reruns = {folder for (folder, _task), n_files in n_files_by_task.items() if n_files > 1}
    agents = []
    for model, file, folder_suffix in zip(models, files, folder_suffixes, strict=True):
        additions = [folder_suffix] if folder_suffix else []
        if file.parent in folders_with_reruns:
            additions.append(_parse_time(file))
        agents.append(f"{model} ({', '.join(additions)})" if additions else model)
    return agents


def parse_lm_eval_task(file: Path) -> str:
    """Return the task in the name of a file samples_TASK_TIME.jsonl."""
    match = _SAMPLES_FILE.fullmatch(file.stem)
    return match["task"] if match else file.stem.removeprefix("samples_")


def _parse_time(file: Path) -> str:
    """Return the time in the name of a file samples_TASK_TIME.jsonl, or the name without its ending if it has no time."""
    match = _SAMPLES_FILE.fullmatch(file.stem)
    return match["time"] if match else file.stem


def _find_model(samples: Path) -> str:
    """Find the model of a file of samples.

    The model is read from the results file of the same time. If this file names no model, the latest results file that names a
    model is used. If there is no such file, the name of the folder is returned.
    """
    results_of_same_time = samples.with_name(f"results_{_parse_time(samples)}.json")
    latest_first = sorted(samples.parent.glob("results_*.json"), reverse=True)
    for file in filter(Path.is_file, [results_of_same_time, *latest_first]):
        results = require_object(read_json(file), file)
        for name in (results.get("model_name"), get_nested(results, "config", "model")):
            if isinstance(name, str) and name.strip():
                return name
    return samples.resolve().parent.name


def _make_item_id(number: Json, task: str | None) -> Json:
    """Return the number of a document as an item id, preceded by the task if there is one, such as "gsm8k/7"."""
    if task is None or number is None:
        return number
    return f"{task}/{number}"


def _get_lm_eval_prompt(arguments: Json) -> Json:
    """Return the prompt in the arguments of a request, in the layout of recent or of older versions; None without one."""
    prompt = get_nested(arguments, "gen_args_0", "arg_0")
    return prompt if prompt is not None else get_nested(arguments, 0, 0)


STATE = "scenario_state.json"
_MODEL = re.compile(r"(?<=[:,])(model|model_deployment)=[^,]*,?")


def read_helm(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import scenario states of HELM.

    Each model is an agent, and each instance an item; a perturbed instance is a separate item. If a model ran a
    scenario several times, each folder is an agent. If there are several scenarios, item ids begin with the scenario.
    Several completions or trials are repeats. Requests that only score a given answer are left out.

    Parameters
    ----------
    paths : sequence of Path
        Files scenario_state.json, and folders of such files.
    columns : mapping
        Ignored.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out.

    Raises
    ------
    ImportFormatError
        [import-format] if a file has a different layout; [import-empty] if a folder has no such file, or no request has a
        text.
    """
    files = find_files(paths, (STATE,), expected_kind=f"a {STATE} of HELM")
    builder = PoolBuilder(paths[0].stem)
    states = [require_object(read_json(file, builder.replaced), file) for file in files]
    scenarios = [parse_helm_scenario(file) for file in files]
    has_several_scenarios = len(set(scenarios)) > 1
    models = [get_nested(state, "adapter_spec", "model") for state in states]
    agents = _name_agents(models, scenarios, [file.parent for file in files])
    for file, state, scenario, agent in zip(files, states, scenarios, agents, strict=True):
        task = scenario if has_several_scenarios else None
        requests = require_list(state.get("request_states"), f"{file}, request_states")
        for number, request in enumerate(requests, 1):
            location = f"{file}, request {number}"
            reason = _explain_missing_completion(request)
            if reason is not None:
                builder.count_left_out(reason, location)
                continue

            item = _make_helm_item_id(request, task)
            prompt = get_nested(request, "instance", "input", "text")
            trial = get_nested(request, "train_trial_index") or 0
            completions = require_list(get_nested(request, "result", "completions"), location)
            for position, completion in enumerate(completions):
                text = get_nested(completion, "text")
                builder.add(agent, item, text, prompt=prompt, location=location, repeat=f"{trial}.{position}")
    return builder.build()


def _explain_missing_completion(request: Json) -> str | None:
    """Return the reason why a request of HELM has no response; None if it has one."""
    if get_nested(request, "reference_index") is not None:
        return "no text: the request scores a given answer"
    if get_nested(request, "result", "completions", 0, "text") is None:
        return "the call failed"
    return None


def parse_helm_scenario(file: Path) -> str:
    """Return the name of the run without its model, such as `mmlu:subject=law`."""
    return _MODEL.sub("", file.resolve().parent.name).rstrip(":,")


def _make_helm_item_id(request: Json, scenario: str | None) -> str | None:
    """Return the item id of a request: the id of its instance, with scenario and perturbation if there are any."""
    instance_id = get_nested(request, "instance", "id")
    if instance_id is None:
        return None
    perturbation = get_nested(request, "instance", "perturbation", "name")
    item_id = f"{instance_id} ({perturbation})" if perturbation else str(instance_id)
    return item_id if scenario is None else f"{scenario}/{item_id}"
