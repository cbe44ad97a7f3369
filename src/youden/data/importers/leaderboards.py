"""Import the outputs of AlpacaEval, FastChat (MT-Bench, Arena-Hard) and promptfoo.

Annotations and judgments are not imported, because a ranking needs only responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from youden.data.importers.table_header import describe_length
from youden.text.replacements import Replacements
from youden.text.sentences import format_count
from youden.types.pool import Json

RESULTS = "results"
"""Folder of AlpacaEval's leaderboard, in which each model has a separate folder."""


def read_alpaca_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import outputs of AlpacaEval.

    Each generator is an agent, and each instruction an item; items are numbered. If an agent has an instruction twice,
    these are two items.

    If each file is in a separate folder, as in the leaderboard, some agents are named after the folder, and the
    generator becomes their alias. This applies to files in a folder `results`, and to files with one generator if there
    are several files.

    Parameters
    ----------
    paths : sequence of Path
        Files with a list of {instruction, output, generator}, and folders of files model_outputs*.json.
    columns : mapping
        Ignored.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out.

    Raises
    ------
    ImportFormatError
        [import-format] if a file has a different layout; [import-empty] if a folder has no such file, or no row has a text.
    """
    files = find_files(paths, ("model_outputs*.json",), expected_kind="a model_outputs.json of AlpacaEval")
    builder = PoolBuilder(paths[0].stem)
    items = PromptItemIds()
    rows_by_file = {}
    generators_by_file = {}
    for file in files:
        rows = list(_read_rows(file, builder.replaced))
        rows_by_file[file] = rows
        generators_by_file[file] = {_get_generator(row) for _, row in rows}

    agent_by_file = _name_agents_of_files(generators_by_file)
    for file, rows in rows_by_file.items():
        has_single_generator = len(generators_by_file[file]) == 1
        for location, row in rows:
            instruction = row.get("instruction")
            if not isinstance(instruction, str) or not instruction.strip():
                builder.count_left_out("no instruction", location)
                continue

            generator = _get_generator(row)
            agent = agent_by_file.get(file) or generator or file.resolve().parent.name
            if has_single_generator and generator is not None and generator != agent:
                builder.set_alias(agent, generator)
            item = items.get_id(agent, instruction)
            builder.add(agent, item, row.get("output"), prompt=instruction, location=location)
    return builder.build()


def _read_rows(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the objects in a JSON file with a list of objects, each with its location for error messages."""
    for number, value in enumerate(require_list(read_json(file, replaced), file), 1):
        location = f"{file}, row {number}"
        yield location, require_object(value, location)


def _get_generator(row: Mapping[str, Json]) -> str | None:
    """Return the name of the model that generated the output of a row; None if the row does not name it."""
    return str(row["generator"]) if row.get("generator") else None


def _name_agents_of_files(generators_by_file: Mapping[Path, set[str | None]]) -> dict[Path, str]:
    """Name the agents of all files that contain the outputs of one agent only.

    A generator is the model that wrote an output. If two files share a folder, agents are named after their generators
    (`_name_agents_by_generator`). Otherwise, they are named after the folders. In this case, a file is of one agent if

    - its folder is in a folder `results`, as in the leaderboard, or
    - there are several files, and all of its rows have the same generator.

    generators_by_file : generators in the rows of each file; None for rows that name no generator

    Returns the name of the agent by file. The rows of other files belong to the agents that their generators name.
    """
    files = list(generators_by_file)
    folders = [file.resolve().parent for file in files]
    has_shared_folder = len(set(folders)) < len(folders)
    if has_shared_folder:
        return _name_agents_by_generator(generators_by_file)

    agents = {}
    folder_names = find_unique_suffixes(folders)
    for file, folder, folder_name in zip(files, folders, folder_names, strict=True):
        is_in_leaderboard = folder.parent.name == RESULTS
        has_single_generator = len(generators_by_file[file]) == 1
        if is_in_leaderboard or (has_single_generator and len(files) > 1):
            agents[file] = folder_name
    return agents


def _name_agents_by_generator(generators_by_file: Mapping[Path, set[str | None]]) -> dict[Path, str]:
    """Name the agent of each file whose rows all have the same generator, the model that wrote the outputs.

    The agent is named after the generator. If the rows name none, it is named after the folder of the file. Equal names get a
    part of the path in parentheses.

    generators_by_file : generators in the rows of each file; None for rows that name no generator

    Returns the name of the agent by file. Files with several generators are left out.
    """
    files = [file for file in generators_by_file if len(generators_by_file[file]) == 1]
    names = []
    for file in files:
        (generator,) = generators_by_file[file]
        names.append(generator or file.resolve().parent.name)
    unique_names = disambiguate_names(names, [file.with_suffix("") for file in files])
    return dict(zip(files, unique_names, strict=True))


QUESTIONS = "question.jsonl"
MAX_LEVELS_UP = 4
"""Number of folders above a file of answers in which its questions are searched for."""
OTHER_FOLDERS = ("reference_answer", "model_judgment")
"""Folders next to `model_answer` that hold no answers of agents."""


def read_fastchat(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import answers of FastChat or Arena-Hard.

    Each model is an agent; if an answer names no model, the agent has the name of the file. Each turn of a question is
    an item: the first one has the id of the question, and later ones have the ids `<question>#2`, … Several choices are
    repeats. Prompts are read from the files `question.jsonl` among the paths, and from the nearest one above each file
    of answers.

    Parameters
    ----------
    paths : sequence of Path
        Files with one answer per line, {question_id, model_id, choices: [{turns}]} or {uid, model, messages}, and
        folders of such files. The subfolders `reference_answer` and `model_judgment` are ignored.
    columns : mapping
        Ignored.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out.

    Raises
    ------
    ImportFormatError
        [import-empty] if there are no files of answers, or no answers in them; others if a file cannot be read.
    """
    files = find_files(paths, ("*.jsonl",), expected_kind="a model_answer JSONL")
    ignored: set[Path] = set()
    for folder in filter(Path.is_dir, paths):
        for name in OTHER_FOLDERS:
            ignored.update(folder.rglob(f"{name}/**/*.jsonl"))
    answer_files = [file for file in files if file.name != QUESTIONS and file not in ignored]
    if not answer_files:
        raise import_error(
            paths[0], "the files contain questions but no responses. Pass a folder model_answer.", slug="import-empty"
        )

    builder = PoolBuilder(paths[0].stem)
    question_files = {file for file in files if file.name == QUESTIONS}
    for file in answer_files:
        question_files.update(_find_nearest_questions(file))
    prompts = _read_prompts(sorted(question_files), builder.replaced)
    if ignored:
        builder.add_note(
            f"{format_count(len(ignored), 'file')} of {' or '.join(OTHER_FOLDERS)} not read, because such files hold no answers "
            "of agents"
        )
    names = find_unique_suffixes([file.with_suffix("") for file in answer_files])
    for file, name in zip(answer_files, names, strict=True):
        for location, row in read_lines(file, builder.replaced):
            agent = row.get("model_id") or row.get("model") or name
            _add_answer(builder, row, agent=agent, prompts=prompts, location=location)
    return builder.build()


def _add_answer(
    builder: PoolBuilder,
    row: dict[str, Json],
    *,
    agent: Json,
    prompts: Mapping[tuple[str, int], Json],
    location: str,
) -> None:
    """Add the responses in one row of a file of answers, which has a model's answers to one question.

    An answer is a conversation, and each of its turns is an item. A row may have several choices, which are sampled answers.
    Responses of the first choice get the repeat 1, those of the second choice get 2, and so on.

    builder : receives the responses; a row without any response is counted as left out
    row : values of the row by key
    agent : name of the model, as the row or the name of the file states it
    prompts : (id of a question, number of a turn from 1) → prompt
    location : file and line of the row, for messages
    """
    question = row.get("question_id", row.get("uid"))
    responses_by_choice = _list_responses_by_choice(row)
    if not any(responses_by_choice):
        builder.count_left_out("an answer without turns", location)
        return

    for choice_number, responses in enumerate(responses_by_choice, 1):
        for turn_number, response in enumerate(responses, 1):
            item = question if turn_number == 1 else f"{question}#{turn_number}"
            prompt = prompts.get((str(question), turn_number))
            builder.add(agent, item, response, prompt=prompt, location=location, repeat=choice_number)


def _find_nearest_questions(answers: Path) -> list[Path]:
    """Find the file of questions in the folder of a file of answers, or in the nearest folder above; empty without one."""
    folders = list(answers.resolve().parents)[:MAX_LEVELS_UP]
    candidates = [folder / QUESTIONS for folder in folders]
    return [file for file in candidates if file.is_file()][:1]


def _list_responses_by_choice(row: dict[str, Json]) -> list[list[Json]]:
    """List the responses in a row of answers: one list per choice (a sampled answer), with one response per turn.

    - FastChat writes a list `choices` of objects, each with a list `turns`.
    - Arena-Hard writes a list `messages`, which is the conversation of the only choice.
    - If a row has both lists, `messages` is ignored if the choices have turns.

    row : values of the row by key

    Returns an empty list for a choice without turns.
    """
    choices = row.get("choices")
    responses_by_choice: list[list[Json]] = []
    for choice in choices if isinstance(choices, list) else []:
        turns = get_nested(choice, "turns")
        contents = [_get_content(turn) for turn in turns] if isinstance(turns, list) else []
        responses_by_choice.append(contents)

    messages = row.get("messages")
    if isinstance(messages, list) and not any(responses_by_choice):
        return [_get_responses_of_assistant(messages)]
    return responses_by_choice


def _get_responses_of_assistant(messages: Sequence[Json]) -> list[Json]:
    """Return the responses in a conversation: the contents of the messages with the role "assistant".

    A content is a response, a list of responses, or an object with the response under the key `answer`.

    messages : messages of the conversation, which are objects with the keys `role` and `content`
    """
    responses: list[Json] = []
    for message in messages:
        if get_nested(message, "role") == "assistant":
            content = get_nested(message, "content")
            answer = get_nested(content, "answer") if isinstance(content, dict) else content
            responses += extract_responses(answer)
    return responses


def _get_content(turn: Json) -> Json:
    """Return the text of a turn, which is a string or an object with the key `content`."""
    return get_nested(turn, "content") if isinstance(turn, dict) else turn


def _read_prompts(files: Sequence[Path], replaced: Replacements) -> dict[tuple[str, int], Json]:
    """Read the prompts in files of questions.

    replaced : counts the values that reading replaces, such as NaN, which becomes None

    Returns a dictionary: (id of a question, number of a turn from 1) → prompt.
    """
    prompts: dict[tuple[str, int], Json] = {}
    for file in files:
        for _, row in read_lines(file, replaced):
            question = str(row.get("question_id", row.get("uid")))
            prompt = row.get("turns", row.get("prompt"))
            turns = prompt if isinstance(prompt, list) else [prompt]
            for number, turn in enumerate(turns, 1):
                prompts[question, number] = _get_content(turn)
    return prompts


_OUTPUT = re.compile(r"\[(?P<provider>.*?)\] ?(?P<prompt>.*)", re.DOTALL)
_STATUS = "Status"


@dataclass(frozen=True)
class _Result:
    """One output of a provider for a test.

    Attributes
    ----------
    location : str
        File and result or line, for messages.
    provider : str
        Label or id of the provider; empty if it has neither.
    label : str
        Label or number of the prompt; empty if it has neither.
    test : int
        Number of the test.
    output : JSON value
        The output; None if there is none.
    failed : bool
        Whether the call failed.
    variables : bytes or None
        Variables of the test, encoded as JSON; None if it has none.
    prompt : JSON value
        The prompt, None if the file does not state it.
    question : str or None
        Variables of the test that are texts; None if it has none.
    error : str
        Message of the error, from `format_tool_error`; empty if there is none.
    """

    location: str
    provider: str
    label: str
    test: int
    output: Json
    failed: bool
    variables: bytes | None
    prompt: Json = None
    question: str | None = None
    error: str = ""

    @property
    def text(self) -> str:
        """The output as text; JSON if it is not a text."""
        return self.output if isinstance(self.output, str) else orjson.dumps(self.output).decode()


def read_promptfoo(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Import results of promptfoo.

    Each provider is an agent with its label or id as name. If a file has several prompts, the label of the prompt is
    added, and the texts among the variables of a test become the prompt of the item. Each test is an item
    `test-<testIdx>`. promptfoo numbers its repeats as separate tests. Therefore, tests of one file with the same variables
    become one item, and the outputs of an agent to them become repeats. A test without a number is identified by its
    variables, and in a CSV by its row. An output that is not a string is converted to JSON. A CSV holds no prompts.

    Parameters
    ----------
    paths : sequence of Path
        Files .json, .jsonl or .csv, and folders of such files.
    columns : mapping
        Ignored.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out.

    Raises
    ------
    ImportFormatError
        [import-empty] if a file has no results; [import-format] or [import-csv] if a file has a different layout.
    """
    builder = PoolBuilder(paths[0].stem)
    tests_by_variables: dict[bytes, int] = {}
    patterns = ("*.json", "*.jsonl", "*.csv")
    for file in find_files(paths, patterns, expected_kind="a results file of promptfoo (.json, .jsonl or .csv)"):
        results = _read_file_results(file, tests_by_variables, builder.replaced)
        has_several_prompts = len({result.label for result in results}) > 1
        first_tests: dict[bytes, int] = {}  # variables → number of the first test with these variables
        for result in results:
            test = result.test
            if result.variables is not None:
                test = first_tests.setdefault(result.variables, test)
            if result.output is None:
                reason = "the call failed" if result.failed else "no text (null)"
                builder.count_left_out(reason, f"{result.location}{result.error}")
                continue
            agent = f"{result.provider} · {result.label}" if has_several_prompts else result.provider
            item = f"test-{test:03d}"
            prompt = result.question if has_several_prompts else result.prompt
            builder.add(agent, item, result.text, prompt=prompt, location=result.location, repeat=result.test)
    return builder.build()


def _read_file_results(file: Path, tests_by_variables: dict[bytes, int], replaced: Replacements) -> list[_Result]:
    """Read all results in a file of promptfoo, which is a CSV, JSON or JSON Lines file.

    A result is the output of one provider (a model) for one test.

    file : the file; its suffix determines the format
    tests_by_variables : numbers of tests that the file does not number, by their variables as JSON; new tests are added
    replaced : counts the values that reading replaces, such as NaN, which becomes None; changed in place

    Returns the results in the order of the file, at least one.

    Raises: ImportFormatError [import-empty] if the file has no results; others if the file has a different layout.
    """
    if file.suffix.lower() == ".csv":
        results = list(_read_csv(file, replaced))
    else:
        results = list(_read_results(file, tests_by_variables, replaced))
    if not results:
        raise import_error(
            file, "its list of results is empty. Run the evaluation before the import.", slug="import-empty"
        )
    return results


def _read_results(file: Path, tests_by_variables: dict[bytes, int], replaced: Replacements) -> Iterator[_Result]:
    """Yield the results of a JSON or JSON Lines file of promptfoo, one per test and provider (a model).

    file : the file
    tests_by_variables : numbers of tests that the file does not number, by their variables and description as JSON; new tests
        are added. Pass the same dictionary for all files, so that a test keeps its number.
    replaced : counts the values that reading replaces, such as NaN, which becomes None; changed in place

    Raises: ImportFormatError if the file cannot be read or has a different layout.
    """
    is_json_lines = file.suffix.lower() == ".jsonl"
    rows = read_lines(file, replaced) if is_json_lines else _read_result_list(file, replaced)
    for location, row in rows:
        variables = row.get("vars")
        description = get_nested(row, "testCase", "description")
        test_key = orjson.dumps([variables, description], option=orjson.OPT_SORT_KEYS)
        test_number = row.get("testIdx")
        if not isinstance(test_number, int):
            next_number = len(tests_by_variables)
            test_number = tests_by_variables.setdefault(test_key, next_number)
        label = get_nested(row, "prompt", "label") or get_nested(row, "promptIdx")
        yield _Result(
            location,
            provider=_get_provider_name(row.get("provider")),
            label=str(label or ""),
            test=test_number,
            output=get_nested(row, "response", "output"),
            failed=bool(row.get("error")),
            error=format_tool_error(row.get("error")),
            variables=test_key if variables else None,  # tests without variables are not repeats of each other
            prompt=get_nested(row, "prompt", "raw"),
            question=_format_variables(variables),
        )


def _format_variables(variables: Json) -> str | None:
    """Return the only text among the variables of a test, or a line "name: text" for each of several; None without one."""
    if not isinstance(variables, dict):
        return None
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}: {text}" for name, text in texts.items()) or None


def _read_result_list(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the results in a JSON file of promptfoo, each with its location for error messages.

    The list of results is under the key `results`, or under the keys `results`, `results` of nested objects.

    replaced : counts the values that reading replaces, such as NaN, which becomes None; changed in place

    Raises: ImportFormatError if the file cannot be read, or if it has no list of objects in one of these places.
    """
    content = require_object(read_json(file, replaced), file)
    results = content.get("results")
    nested_results = get_nested(results, "results")
    rows = nested_results if isinstance(nested_results, list) else require_list(results, f"{file}, results")
    for number, row in enumerate(rows, 1):
        location = f"{file}, result {number}"
        yield location, require_object(row, location)


def _find_output_columns(header: Sequence[str], file: Path) -> list[tuple[int, str, str]]:
    """Find the columns of outputs in the header of a CSV file of promptfoo.

    Returns for each of these columns its position, the provider, and the label of the prompt.

    Raises: ImportFormatError [import-format] if there is no column of outputs.
    """
    outputs = []
    for position, (name, next_name) in enumerate(pairwise(header)):
        match = _OUTPUT.fullmatch(name)
        if match is not None and next_name == _STATUS:
            outputs.append((position, match["provider"], match["prompt"]))
    if not outputs:
        raise import_error(
            file,
            f"no column is called '[provider] prompt' and followed by '{_STATUS}', so promptfoo did not write it. Pass a file "
            "of promptfoo, or set the format `table`.",
            slug="import-format",
        )
    return outputs


def _read_csv(file: Path, replaced: Replacements) -> Iterator[_Result]:
    """Yield the results of a CSV file of promptfoo with one row per test, one result per provider and prompt.

    The first columns of a file are the variables of the tests. They are followed by two columns for each provider and prompt:
    the outputs, called "[provider] prompt", and "Status".

    replaced : counts the values that reading replaces, such as NaN, which becomes None; changed in place

    Raises: ImportFormatError [import-format] if the file has no such columns; [import-csv] if a row has more or fewer fields
        than the header.
    """
    rows = read_separated(file, ",", text=read_text(file, replaced))
    _, header = next(rows, ("", []))
    output_columns = _find_output_columns(header, file)
    n_variables, _, _ = output_columns[0]  # the columns before the first outputs
    test = 0
    for location, record in rows:
        if not record:  # a blank line
            continue
        if len(record) != len(header):
            raise import_error(location, describe_length(record, header), slug="import-csv")
        values = record[:n_variables]
        variables = orjson.dumps(values) if any(values) else None
        for position, provider, label in output_columns:
            has_failed = record[position + 1] == "ERROR"
            output = None if has_failed else record[position]
            yield _Result(
                location=location,
                provider=provider,
                label=label,
                test=test,
                output=output,
                failed=has_failed,
                variables=variables,
            )
        test += 1


def _get_provider_name(provider: Json) -> str:
    """Return the label or the id of a provider, which is a string or an object; empty if it has neither."""
    if isinstance(provider, str):
        return provider
    name = get_nested(provider, "label") or get_nested(provider, "id")
    return str(name or "")
