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

    Where files of one generator each lie in several folders, one a folder, or in folders of `results/`, agents are called by the
    folder, as the leaderboard calls them, and the generator is an alias; else by the generator. An instruction that an agent has
    twice is two items.

    Raises: ImportFormatError naming file and row.
    """
    files = files_of(paths, ("model_outputs*.json",), what="a model_outputs.json of AlpacaEval")
    rows = {file: list(_rows(file)) for file in files}
    names = _names(rows)
    joiner, items = Joiner(paths[0].stem), ItemsByPrompt()
    for file, said in rows.items():
        for row in said:
            if not isinstance(row.instruction, str) or not row.instruction.strip():
                joiner.leave_out("no instruction", row.place)
                continue
            agent = names.get(file) or row.generator or file.resolve().parent.name
            if row.generator not in (None, agent):
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


def _names(rows: Mapping[Path, Sequence[_Row]]) -> dict[Path, str]:
    """The agent of each file of one generator; none where a file has several."""
    files = list(rows)
    generators = [{row.generator for row in said} for said in rows.values()]
    if any(len(said) != 1 for said in generators):
        return {}
    folders = [file.resolve().parent for file in files]
    alone = len(set(folders)) == len(folders)
    if alone and (len(folders) > 1 or folders[0].parent.name == RESULTS):
        return dict(zip(files, suffixes(folders), strict=True))
    names = [said.pop() or folder.name for said, folder in zip(generators, folders, strict=True)]
    return dict(zip(files, distinct(names, [file.with_suffix("") for file in files]), strict=True))
