"""Import the outputs of AlpacaEval, FastChat (MT-Bench, Arena-Hard) and promptfoo.

Annotations and judgments are not imported, because a ranking needs only responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from youden.data.importers.foreign_files import (
    disambiguate_names,
    find_files,
    find_unique_suffixes,
    format_tool_error,
    get_nested,
    import_error,
    read_json,
    read_lines,
    read_text,
    require_list,
    require_object,
)
from youden.data.importers.pool_joiner import ImportedPool, PoolBuilder, PromptItemIds
from youden.data.importers.response_values import extract_responses
from youden.data.importers.table_files import read_separated
from youden.text.replacements import Replacements
from youden.types.pool import Json

RESULTS = "results"
"""Folder of AlpacaEval's leaderboard, in which each model has a folder of its own."""


def read_alpaca_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import outputs of AlpacaEval: lists of {instruction, output, generator}, or folders of model_outputs*.json.

    Each generator is an agent, and each instruction an item; items are numbered. If an agent has an instruction twice,
    these are two items. If no two files are in one folder, some agents have the name of the folder, as in the
    leaderboard, and the generator is an alias: those of files in `results/`, and those of files with one generator if
    there are several files.
    """
    files = find_files(paths, ("model_outputs*.json",), what="a model_outputs.json of AlpacaEval")
    builder, items = PoolBuilder(paths[0].stem), PromptItemIds()
    rows_by_file = {file: list(_read_rows(file, builder.replaced)) for file in files}
    generators = {file: {_get_generator(row) for _, row in rows} for file, rows in rows_by_file.items()}
    agents = _name_agents(generators)
    for file, rows in rows_by_file.items():
        for location, row in rows:
            instruction, generator = row.get("instruction"), _get_generator(row)
            if not isinstance(instruction, str) or not instruction.strip():
                builder.leave_out("no instruction", location)
                continue
            agent = agents.get(file) or generator or file.resolve().parent.name
            if generator not in (None, agent) and len(generators[file]) == 1:
                builder.set_alias(agent, str(generator))
            item = items.get_id(agent, instruction)
            builder.add(agent, item, row.get("output"), prompt=instruction, location=location)
    return builder.build()


def _read_rows(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    for number, value in enumerate(require_list(read_json(file, replaced), file), 1):
        location = f"{file}, row {number}"
        yield location, require_object(value, location)


def _get_generator(row: Mapping[str, Json]) -> str | None:
    return str(row["generator"]) if row.get("generator") else None


def _name_agents(generators: Mapping[Path, set[str | None]]) -> dict[Path, str]:
    """Return the agent of each file that holds one agent.

    A file of several generators outside of `results/` is left out: its rows name their agents.
    """
    files = list(generators)
    folders = [file.resolve().parent for file in files]
    single = [file for file in files if len(generators[file]) == 1]
    if len(set(folders)) < len(folders):  # several files in one folder
        names = [next(iter(generators[file])) or file.resolve().parent.name for file in single]
        return dict(zip(single, disambiguate_names(names, [file.with_suffix("") for file in single]), strict=True))

    return {
        file: name
        for file, folder, name in zip(files, folders, find_unique_suffixes(folders), strict=True)
        if folder.parent.name == RESULTS or (file in single and len(files) > 1)
    }


QUESTIONS = "question.jsonl"
MAX_LEVELS_UP = 4
"""Number of folders above a file of answers in which its questions are searched for."""
OTHER_FOLDERS = ("reference_answer", "model_judgment")
"""Folders next to `model_answer` that hold no answers of agents."""


def read_fastchat(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import answers of FastChat or Arena-Hard.

    Files have one answer per line, {question_id, model_id, choices: [{turns}]} or {uid, model, messages}; of folders,
    the subfolders `reference_answer` and `model_judgment` are ignored. Each model is an agent, or the name of the file
    if an answer names none. Each turn of a question is an item: the first has the id of the question, later ones have
    `<question>#2`, … Several choices are repeats. Prompts are read from the files `question.jsonl` among the paths, and
    from the nearest one above each file of answers.
    """
    files = find_files(paths, ("*.jsonl",), what="a model_answer JSONL")
    folders = [path for path in paths if path.is_dir()]
    ignored = {file for folder in folders for name in OTHER_FOLDERS for file in folder.rglob(f"{name}/**/*.jsonl")}
    answer_files = [file for file in files if file.name != QUESTIONS and file not in ignored]
    if not answer_files:
        raise import_error(
            paths[0], "the files hold questions but no answers. Pass a folder model_answer.", slug="import-empty"
        )

    builder = PoolBuilder(paths[0].stem)
    question_files = {file for file in files if file.name == QUESTIONS}
    question_files.update(filter(None, map(_find_nearest_questions, answer_files)))
    prompts = _read_prompts(sorted(question_files), builder.replaced)
    if ignored:
        builder.add_note(
            f"{len(ignored)} files of {' or '.join(OTHER_FOLDERS)} were not read, because they hold no answers of agents"
        )
    names = find_unique_suffixes([file.with_suffix("") for file in answer_files])
    for file, name in zip(answer_files, names, strict=True):
        for location, row in read_lines(file, builder.replaced):
            agent = row.get("model_id") or row.get("model") or name
            question = row.get("question_id", row.get("uid"))
            choices = row.get("choices")
            n_choices = len(choices) if isinstance(choices, list) else 1
            if not any(_get_turns(row, choice) for choice in range(n_choices)):
                builder.leave_out("an answer without turns", location)
            for choice in range(max(1, n_choices)):
                for number, text in enumerate(_get_turns(row, choice), 1):
                    item = question if number == 1 else f"{question}#{number}"
                    prompt = prompts.get((str(question), number))
                    builder.add(agent, item, text, prompt=prompt, location=location, repeat=choice + 1)
    return builder.build()


def _find_nearest_questions(answers: Path) -> Path | None:
    folders = list(answers.resolve().parents)[:MAX_LEVELS_UP]
    return next((folder / QUESTIONS for folder in folders if (folder / QUESTIONS).is_file()), None)


def _get_turns(row: dict[str, Json], choice: int) -> list[Json]:
    """Return the responses of the turns of a choice, or of all messages of the assistant."""
    messages = row.get("messages")
    if isinstance(messages, list):
        contents = [
            get_nested(message, "content") for message in messages if get_nested(message, "role") == "assistant"
        ]
        answers = [get_nested(content, "answer") if isinstance(content, dict) else content for content in contents]
        return [response for answer in answers for response in extract_responses(answer)]
    turns = get_nested(row, "choices", choice, "turns")
    return [_get_content(turn) for turn in turns] if isinstance(turns, list) else []


def _get_content(turn: Json) -> Json:
    return get_nested(turn, "content") if isinstance(turn, dict) else turn


def _read_prompts(files: Sequence[Path], replaced: Replacements) -> dict[tuple[str, int], Json]:
    """Read the prompts by question and number of the turn, from 1."""
    prompts: dict[tuple[str, int], Json] = {}
    for file in files:
        for _, row in read_lines(file, replaced):
            question = str(row.get("question_id", row.get("uid")))
            turns = row.get("turns", row.get("prompt"))
            for number, turn in enumerate(turns if isinstance(turns, list) else [turns], 1):
                prompts[question, number] = _get_content(turn)
    return prompts


_OUTPUT = re.compile(r"\[(?P<provider>.*?)\] ?(?P<prompt>.*)", re.DOTALL)
_STATUS = "Status"


@dataclass(frozen=True)
class _Result:
    """One output of a provider for a test; `variables` encodes the variables of the test, None if it has none."""

    location: str
    provider: str
    label: str
    test: int
    output: Json
    failed: bool
    variables: bytes | None
    prompt: Json = None
    error: str = ""


def read_promptfoo(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import results of promptfoo: files .json, .jsonl or .csv, and folders of such files.

    Each provider is an agent with its label or id as name; if a file has several prompts, the label of the prompt is
    added. Each test is an item `test-<testIdx>`. promptfoo numbers its repeats as separate tests; so tests of one file
    with the same variables are one item, and the outputs of an agent to them are repeats. A test without a number is
    identified by its variables, and in a CSV by its row. An output that is not a string is converted to JSON. A CSV
    holds no prompts.

    Raises: ImportFormatError [import-empty] if a file has no results; other errors are those of any importer.
    """
    builder = PoolBuilder(paths[0].stem)
    tests_by_variables: dict[bytes, int] = {}
    patterns = ("*.json", "*.jsonl", "*.csv")
    for file in find_files(paths, patterns, what="a results file of promptfoo (.json, .jsonl or .csv)"):
        if file.suffix.lower() == ".csv":
            results = list(_read_csv(file, builder.replaced))
        else:
            results = list(_read_results(file, tests_by_variables, builder.replaced))
        if not results:
            raise import_error(
                file, "its list of results is empty. Run the evaluation before the import.", slug="import-empty"
            )

        has_several_prompts = len({result.label for result in results}) > 1
        first_tests: dict[bytes, int] = {}
        for result in results:
            test = result.test
            if result.variables is not None:
                test = first_tests.setdefault(result.variables, test)
            if result.output is None:
                reason = "the call failed" if result.failed else "no text (null)"
                builder.leave_out(reason, f"{result.location}{result.error}")
                continue
            builder.add(
                f"{result.provider} · {result.label}" if has_several_prompts else result.provider,
                f"test-{test:03d}",
                result.output if isinstance(result.output, str) else orjson.dumps(result.output).decode(),
                prompt=None if has_several_prompts else result.prompt,
                location=result.location,
                repeat=result.test,
            )
    return builder.build()


def _read_results(file: Path, tests_by_variables: dict[bytes, int], replaced: Replacements) -> Iterator[_Result]:
    """Yield the results of a JSON or JSON Lines file; tests without a number are numbered in `tests_by_variables`."""
    is_lines = file.suffix.lower() == ".jsonl"
    for location, row in read_lines(file, replaced) if is_lines else _read_result_list(file, replaced):
        test, variables = row.get("testIdx"), row.get("vars")
        description = get_nested(row, "testCase", "description")
        key = orjson.dumps([variables, description], option=orjson.OPT_SORT_KEYS)
        if not isinstance(test, int):
            test = tests_by_variables.setdefault(key, len(tests_by_variables))
        yield _Result(
            location,
            provider=_get_provider_name(row.get("provider")),
            label=str(get_nested(row, "prompt", "label") or get_nested(row, "promptIdx") or ""),
            test=test,
            output=get_nested(row, "response", "output"),
            failed=bool(row.get("error")),
            error=format_tool_error(row.get("error")),
            variables=key if variables else None,
            prompt=get_nested(row, "prompt", "raw"),
        )


def _read_result_list(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    content = require_object(read_json(file, replaced), file)
    rows = get_nested(content, "results", "results")
    if not isinstance(rows, list):
        rows = require_list(content.get("results"), f"{file}, results")
    for number, row in enumerate(rows, 1):
        location = f"{file}, result {number}"
        yield location, require_object(row, location)


def _read_csv(file: Path, replaced: Replacements) -> Iterator[_Result]:
    """Yield the results of a CSV file with one row per test.

    The column of an output is called `[provider] prompt`, and the next column holds its status.
    """
    rows = read_separated(file, ",", text=read_text(file, replaced))
    _, header = next(rows, ("", []))
    outputs = []
    for column, name in enumerate(header[:-1]):
        if header[column + 1] == _STATUS and (match := _OUTPUT.fullmatch(name)):
            outputs.append((column, match))
    if not outputs:
        raise import_error(
            file,
            f"no column is called '[provider] prompt' and followed by '{_STATUS}', so promptfoo did not write it. Pass a file "
            "of promptfoo, or set the format `table`.",
            slug="import-format",
        )

    first_output = outputs[0][0]
    for test, (location, record) in enumerate(row for row in rows if row[1]):
        if len(record) != len(header):
            raise import_error(
                location,
                f"it has {len(record)} fields, but the header has {len(header)}. Export it again.",
                slug="import-csv",
            )
        values = record[:first_output]
        variables = orjson.dumps(values) if any(values) else None
        for column, match in outputs:
            failed = record[column + 1] == "ERROR"
            output = None if failed else record[column]
            yield _Result(location, match["provider"], match["prompt"], test, output, failed, variables)


def _get_provider_name(provider: Json) -> str:
    name = provider if isinstance(provider, str) else get_nested(provider, "label") or get_nested(provider, "id")
    return str(name or "")
