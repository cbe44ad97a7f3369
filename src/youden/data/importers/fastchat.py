"""Imports `model_answer` files of FastChat (MT-Bench) and Arena-Hard: agents are models, items are the turns of questions.

It reads both layouts of an answer and `question.jsonl`, and leaves judgements out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import files_of, inner, read_lines, wrong
from youden.data.importers.telling_apart import suffixes
from youden.nouns import Json

QUESTIONS = "question.jsonl"
LEVELS_UP = 4
"""How far above an answer its questions may lie: `model_answer/<model>/results.jsonl` has them two folders up."""
NOT_ANSWERS = ("reference_answer", "model_judgment")
"""Folders beside `model_answer`, which hold no agent's answers."""


def read_fastchat(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One line an answer: {question_id, model_id, choices: [{turns}]}, or Arena-Hard's {uid, model, messages}.

    The first turn is the item `<question>`, later ones `<question>#2`, … Of several choices the first is taken, the others are
    dropped. Prompts come from each `question.jsonl` among the files, and from the nearest in the folders above an answer. In a
    folder given, `reference_answer` and `model_judgment` are not read. An answer without a model belongs to its file.

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
    prompts = _prompts(sorted({*(file for file in files if file.name == QUESTIONS), *above}))
    joiner = Joiner(paths[0].stem)
    if elsewhere:
        joiner.note(f"{len(elsewhere)} files of {' or '.join(NOT_ANSWERS)} were not read: they hold no agent's answers")
    for file, name in zip(answers, suffixes([file.with_suffix("") for file in answers]), strict=True):
        for place, row in read_lines(file):
            agent = row.get("model_id") or row.get("model") or name
            question = row.get("question_id", row.get("uid"))
            turns = list(_turns(row))
            if not turns:
                joiner.leave_out("an answer without turns", place)
            choices = row.get("choices")
            if isinstance(choices, list):
                joiner.drop(agent, "a further choice (the first is taken)", place, n=len(choices[1:]))
            for number, text in enumerate(turns, 1):
                item = question if number == 1 else f"{question}#{number}"
                joiner.add(agent, item, text, prompt=prompts.get((str(question), number)), place=place)
    return joiner.pool()


def _nearest_questions(answer: Path) -> Path | None:
    folders = list(answer.resolve().parents)[:LEVELS_UP]
    return next((folder / QUESTIONS for folder in folders if (folder / QUESTIONS).is_file()), None)


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
