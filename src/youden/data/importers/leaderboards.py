"""Imports outputs of AlpacaEval, FastChat (MT-Bench, Arena-Hard) and promptfoo; annotations and judgements are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from youden.data.importers.foreign_files import (
    as_list,
    as_object,
    distinct,
    error_said,
    files_of,
    inner,
    read_json,
    read_lines,
    read_text,
    suffixes,
    wrong,
)
from youden.data.importers.pool_joiner import ImportedPool, ItemsByPrompt, Joiner
from youden.data.importers.response_values import response_values
from youden.data.importers.table_files import separated
from youden.text.replacements import Replacements
from youden.types.pool import Json

RESULTS = "results"
"""The folder of AlpacaEval's leaderboard, which calls a model by its folder in there."""


def read_alpaca_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Each file is a list of {instruction, output, generator}. Files are joined by instruction; items are numbered.

    One file a folder in `results/`, or files of one generator each in several folders: agents are called by the folder, as the
    leaderboard calls them, and the generator is an alias. Else they are called by the generator. An instruction that an agent has
    twice is two items.

    Raises: ImportFormatError naming file and row.
    """
    files = files_of(paths, ("model_outputs*.json",), what="a model_outputs.json of AlpacaEval")
    joiner, items = Joiner(paths[0].stem), ItemsByPrompt()
    rows = {file: list(_rows(file, joiner.replaced)) for file in files}
    generators = {file: {_generator(row) for _, row in listed} for file, listed in rows.items()}
    names = _names(generators)
    for file, listed in rows.items():
        for place, row in listed:
            instruction, generator = row.get("instruction"), _generator(row)
            if not isinstance(instruction, str) or not instruction.strip():
                joiner.leave_out("no instruction", place)
                continue
            agent = names.get(file) or generator or file.resolve().parent.name
            if generator not in (None, agent) and len(generators[file]) == 1:
                joiner.alias(agent, str(generator))
            item = items.item(agent, instruction)
            joiner.add(agent, item, row.get("output"), prompt=instruction, place=place)
    return joiner.pool()


def _rows(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    for number, value in enumerate(as_list(read_json(file, replaced), file), 1):
        place = f"{file}, row {number}"
        yield place, as_object(value, place)


def _generator(row: Mapping[str, Json]) -> str | None:
    return str(row["generator"]) if row.get("generator") else None


def _names(generators: Mapping[Path, set[str | None]]) -> dict[Path, str]:
    """The agent of each file that is one agent's; none where a file of several generators lies outside of `results/`."""
    files = list(generators)
    folders = [file.resolve().parent for file in files]
    single = [file for file in files if len(generators[file]) == 1]
    if len(set(folders)) < len(folders):
        names = [next(iter(generators[file])) or file.resolve().parent.name for file in single]
        return dict(zip(single, distinct(names, [file.with_suffix("") for file in single]), strict=True))
    return {
        file: name
        for file, folder, name in zip(files, folders, suffixes(folders), strict=True)
        if folder.parent.name == RESULTS or (file in single and len(files) > 1)
    }


QUESTIONS = "question.jsonl"
LEVELS_UP = 4
"""How far above an answer its questions may lie: `model_answer/<model>/results.jsonl` has them two folders up."""
NOT_ANSWERS = ("reference_answer", "model_judgment")
"""Folders beside `model_answer`, which hold no agent's answers."""


def read_fastchat(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One line an answer: {question_id, model_id, choices: [{turns}]}, or Arena-Hard's {uid, model, messages}.

    The first turn is the item `<question>`, later ones `<question>#2`, … Several choices are repeats. Prompts come from each
    `question.jsonl` among the files, and from the nearest in the folders above an answer. In a folder given, `reference_answer`
    and `model_judgment` are not read. An answer without a model belongs to its file.

    Raises: ImportFormatError naming file and line.
    """
    files = files_of(paths, ("*.jsonl",), what="a model_answer JSONL")
    elsewhere = {
        file for path in paths if path.is_dir() for name in NOT_ANSWERS for file in path.rglob(f"{name}/**/*.jsonl")
    }
    answers = [file for file in files if file.name != QUESTIONS and file not in elsewhere]
    if not answers:
        raise wrong(paths[0], "there are questions but no answers. Give a folder model_answer.", slug="import-empty")
    above = filter(None, map(_nearest_questions, answers))
    joiner = Joiner(paths[0].stem)
    questions = sorted({*(file for file in files if file.name == QUESTIONS), *above})
    prompts = _prompts(questions, joiner.replaced)
    if elsewhere:
        joiner.note(f"{len(elsewhere)} files of {' or '.join(NOT_ANSWERS)} were not read: they hold no agent's answers")
    for file, name in zip(answers, suffixes([file.with_suffix("") for file in answers]), strict=True):
        for place, row in read_lines(file, joiner.replaced):
            agent = row.get("model_id") or row.get("model") or name
            question = row.get("question_id", row.get("uid"))
            choices = row.get("choices")
            if not any(_turns(row, choice) for choice in range(len(choices) if isinstance(choices, list) else 1)):
                joiner.leave_out("an answer without turns", place)
            for choice in range(max(1, len(choices)) if isinstance(choices, list) else 1):
                for number, text in enumerate(_turns(row, choice), 1):
                    item = question if number == 1 else f"{question}#{number}"
                    prompt = prompts.get((str(question), number))
                    joiner.add(agent, item, text, prompt=prompt, place=place, repeat=choice + 1)
    return joiner.pool()


def _nearest_questions(answer: Path) -> Path | None:
    folders = list(answer.resolve().parents)[:LEVELS_UP]
    return next((folder / QUESTIONS for folder in folders if (folder / QUESTIONS).is_file()), None)


def _turns(row: dict[str, Json], choice: int) -> list[Json]:
    messages = row.get("messages")
    if isinstance(messages, list):
        said = [inner(message, "content") for message in messages if inner(message, "role") == "assistant"]
        answers = [inner(content, "answer") if isinstance(content, dict) else content for content in said]
        return [answer for content in answers for answer in response_values(content)]
    turns = inner(row, "choices", choice, "turns")
    if isinstance(turns, list):
        return [inner(turn, "content") if isinstance(turn, dict) else turn for turn in turns]
    return []


def _prompts(files: Sequence[Path], replaced: Replacements) -> dict[tuple[str, int], Json]:
    found: dict[tuple[str, int], Json] = {}
    for file in files:
        for _, row in read_lines(file, replaced):
            question = str(row.get("question_id", row.get("uid")))
            turns = row.get("turns", row.get("prompt"))
            for number, turn in enumerate(turns if isinstance(turns, list) else [turns], 1):
                found[question, number] = inner(turn, "content") if isinstance(turn, dict) else turn
    return found


_OUTPUT = re.compile(r"\[(?P<provider>.*?)\] ?(?P<prompt>.*)", re.DOTALL)
_STATUS = "Status"


@dataclass(frozen=True)
class _Result:
    place: str
    provider: str
    label: str
    test: int
    output: Json
    failed: bool
    variables: bytes | None
    prompt: Json = None
    error: str = ""


def read_promptfoo(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Agents are providers by label or id (with the prompt's label, where a file has several prompts); items `test-<testIdx>`.

    promptfoo numbers each of its repeats as a test: tests of one file with the same variables are one, the first, and an agent's
    outputs to them are repeats. Where results carry no test number, tests are told apart by their variables; in a CSV they are
    numbered by row. An output that is no string is written as JSON. A CSV holds no prompts.

    Raises: ImportFormatError naming file and result.
    """
    joiner = Joiner(paths[0].stem)
    by_variables: dict[bytes, int] = {}
    for file in files_of(
        paths, ("*.json", "*.jsonl", "*.csv"), what="a results file of promptfoo (.json, .jsonl or .csv)"
    ):
        is_csv = file.suffix.lower() == ".csv"
        results = list(_of_csv(file, joiner.replaced) if is_csv else _of_json(file, by_variables, joiner.replaced))
        if not results:
            raise wrong(file, "its list of results is empty. Run the evaluation, then import.", slug="import-empty")
        several = len({result.label for result in results}) > 1
        first_of: dict[bytes, int] = {}
        for result in results:
            test = result.test if result.variables is None else first_of.setdefault(result.variables, result.test)
            if result.output is None:
                joiner.leave_out(
                    "the call failed" if result.failed else "no text (null)", f"{result.place}{result.error}"
                )
                continue
            joiner.add(
                f"{result.provider} · {result.label}" if several else result.provider,
                f"test-{test:03d}",
                result.output if isinstance(result.output, str) else orjson.dumps(result.output).decode(),
                prompt=None if several else result.prompt,
                place=result.place,
                repeat=result.test,
            )
    return joiner.pool()


def _of_json(file: Path, by_variables: dict[bytes, int], replaced: Replacements) -> Iterator[_Result]:
    is_lines = file.suffix.lower() == ".jsonl"
    for place, row in read_lines(file, replaced) if is_lines else _listed(file, replaced):
        at, said = row.get("testIdx"), row.get("vars")
        key = orjson.dumps([said, inner(row, "testCase", "description")], option=orjson.OPT_SORT_KEYS)
        if not isinstance(at, int):
            at = by_variables.setdefault(key, len(by_variables))
        yield _Result(
            place,
            provider=_provider(row.get("provider")),
            label=str(inner(row, "prompt", "label") or inner(row, "promptIdx") or ""),
            test=at,
            output=inner(row, "response", "output"),
            failed=bool(row.get("error")),
            error=error_said(row.get("error")),
            variables=key if said else None,
            prompt=inner(row, "prompt", "raw"),
        )


def _listed(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    whole = as_object(read_json(file, replaced), file)
    rows = inner(whole, "results", "results")
    if not isinstance(rows, list):
        rows = as_list(whole.get("results"), f"{file}, results")
    for number, row in enumerate(rows, 1):
        place = f"{file}, result {number}"
        yield place, as_object(row, place)


def _of_csv(file: Path, replaced: Replacements) -> Iterator[_Result]:
    """A row a test; an output's column is called `[provider] prompt`, and the next one says its status."""
    rows = separated(file, ",", text=read_text(file, replaced))
    _, header = next(rows, ("", []))
    outputs = [
        (at, found)
        for at, name in enumerate(header[:-1])
        if header[at + 1] == _STATUS and (found := _OUTPUT.fullmatch(name))
    ]
    if not outputs:
        raise wrong(
            file,
            f"no column is called '[provider] prompt' and followed by '{_STATUS}', so promptfoo did not write it. Give its file, "
            "or use the format `table`.",
            slug="import-format",
        )
    for test, (place, record) in enumerate(row for row in rows if row[1]):
        if len(record) != len(header):
            raise wrong(
                place, f"it has {len(record)} fields, the header {len(header)}. Export it again.", slug="import-csv"
            )
        before = record[: outputs[0][0]]
        variables = orjson.dumps(before) if any(before) else None
        for at, found in outputs:
            failed = record[at + 1] == "ERROR"
            said = None if failed else record[at]
            yield _Result(place, found["provider"], found["prompt"], test, said, failed, variables)


def _provider(provider: Json) -> str:
    name = provider if isinstance(provider, str) else inner(provider, "label") or inner(provider, "id")
    return str(name or "")
