"""Imports AlpacaEval's `model_outputs.json`: agents are models, items are instructions.

It reads the keys instruction, output and generator, and leaves annotations out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from youden.data.importers.joining import ImportedPool, ItemsByPrompt, Joiner
from youden.data.importers.reading import as_list, as_object, files_of, read_json
from youden.data.importers.telling_apart import distinct, suffixes
from youden.nouns import Json

RESULTS = "results"
"""The folder of AlpacaEval's leaderboard, which calls a model by its folder in there."""


@dataclass(frozen=True)
class _Row:
    place: str
    instruction: Json
    output: Json
    generator: str | None


def read_alpaca_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Each file is a list of {instruction, output, generator}. Files are joined by instruction; items are numbered.

    One file a folder in `results/`, or files of one generator each in several folders: agents are called by the folder, as the
    leaderboard calls them, and the generator is an alias. Else they are called by the generator. An instruction that an agent has
    twice is two items.

    Raises: ImportFormatError naming file and row.
    """
    files = files_of(paths, ("model_outputs*.json",), what="a model_outputs.json of AlpacaEval")
    rows = {file: list(_rows(file)) for file in files}
    generators = {file: {row.generator for row in said} for file, said in rows.items()}
    names = _names(generators)
    joiner, items = Joiner(paths[0].stem), ItemsByPrompt()
    for file, said in rows.items():
        for row in said:
            if not isinstance(row.instruction, str) or not row.instruction.strip():
                joiner.leave_out("no instruction", row.place)
                continue
            agent = names.get(file) or row.generator or file.resolve().parent.name
            if row.generator not in (None, agent) and len(generators[file]) == 1:
                joiner.alias(agent, str(row.generator))
            item = items.item(agent, row.instruction)
            joiner.add(agent, item, row.output, prompt=row.instruction, place=row.place)
    return joiner.pool()


def _rows(file: Path) -> Iterator[_Row]:
    for number, value in enumerate(as_list(read_json(file), file), 1):
        place = f"{file}, row {number}"
        row = as_object(value, place)
        generator = row.get("generator")
        yield _Row(place, row.get("instruction"), row.get("output"), None if not generator else str(generator))


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
