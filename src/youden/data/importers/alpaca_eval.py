"""Imports AlpacaEval's `model_outputs.json`: agents are generators, items are instructions.

It reads the keys instruction, output and generator, and leaves annotations out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import as_list, as_object, files_of, read_json


def read_alpaca_eval(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Each file is a list of {instruction, output, generator}. Files are joined by instruction; items are numbered.

    An instruction that a file gives twice is two items. A row without a generator belongs to its file's folder.

    Raises: ImportFormatError naming file and row.
    """
    joiner = Joiner(paths[0].stem)
    numbers: dict[tuple[str, int], int] = {}
    for file in files_of(paths, ("model_outputs*.json",), what="a model_outputs.json of AlpacaEval"):
        times: Counter[tuple[str, str]] = Counter()
        for number, row in enumerate(as_list(read_json(file), file), 1):
            place = f"{file}, row {number}"
            said = as_object(row, place)
            instruction, agent = said.get("instruction"), said.get("generator") or file.resolve().parent.name
            if not isinstance(instruction, str) or not instruction.strip():
                joiner.leave_out("no instruction", place)
                continue
            times[str(agent), instruction] += 1
            at = numbers.setdefault((instruction, times[str(agent), instruction]), len(numbers))
            joiner.add(agent, f"item-{at:04d}", said.get("output"), prompt=instruction, place=place)
    return joiner.pool()
