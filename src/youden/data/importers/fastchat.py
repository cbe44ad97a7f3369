"""Imports `model_answer` files of FastChat (MT-Bench) and Arena-Hard: agents are models, items are the turns of questions.

It reads both layouts of an answer and `question.jsonl`, and leaves judgements out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import files_of, inner, read_lines
from youden.nouns import Json

QUESTIONS = "question.jsonl"


def read_fastchat(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One line an answer: {question_id, model_id, choices: [{turns}]}, or Arena-Hard's {uid, model, messages}.

    The first turn is the item `<question>`, later ones `<question>#2`, … Of several choices the first is taken. Prompts come
    from a `question.jsonl` among the files, or in the folder above `model_answer`.

    Raises: ImportFormatError naming file and line.
    """
    files = files_of(paths, ("*.jsonl",), what="a model_answer JSONL")
    answers = [file for file in files if file.name != QUESTIONS]
    above = {file.parent.parent / QUESTIONS for file in answers} | {file.parent / QUESTIONS for file in answers}
    prompts = _prompts(sorted({*(file for file in files if file.name == QUESTIONS), *filter(Path.is_file, above)}))
    joiner = Joiner(paths[0].stem)
    for file in answers:
        for place, row in read_lines(file):
            agent = row.get("model_id") or row.get("model") or file.stem
            question = row.get("question_id", row.get("uid"))
            turns = list(_turns(row))
            if not turns:
                joiner.leave_out("an answer without turns", place)
            for number, text in enumerate(turns, 1):
                item = question if number == 1 else f"{question}#{number}"
                joiner.add(agent, item, text, prompt=prompts.get((str(question), number)), place=place)
    return joiner.pool()


def _turns(row: dict[str, Json]) -> Iterator[Json]:
    messages = row.get("messages")
    if isinstance(messages, list):
        said = [inner(message, "content") for message in messages if inner(message, "role") == "assistant"]
        yield from (inner(content, "answer") if isinstance(content, dict) else content for content in said)
        return
    turns = inner(row, "choices", 0, "turns")
    if isinstance(turns, list):
        yield from (inner(turn, "content") if isinstance(turn, dict) else turn for turn in turns)


def _prompts(files: Sequence[Path]) -> dict[tuple[str, int], Json]:
    found: dict[tuple[str, int], Json] = {}
    for file in files:
        for _, row in read_lines(file):
            question = str(row.get("question_id", row.get("uid")))
            turns = row.get("turns", row.get("prompt"))
            for number, turn in enumerate(turns if isinstance(turns, list) else [turns], 1):
                found[question, number] = inner(turn, "content") if isinstance(turn, dict) else turn
    return found
