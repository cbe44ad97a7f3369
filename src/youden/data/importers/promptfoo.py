"""Imports what promptfoo writes (`promptfoo eval -o`, .json, .jsonl or .csv): agents are providers, items are test cases.

It reads the layouts of results versions 2 and 3, and leaves assertions and scores out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import as_list, as_object, files_of, inner, read_json, read_lines, wrong
from youden.data.importers.tables.loose_table import separated
from youden.nouns import Json

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
    prompt: Json = None


def read_promptfoo(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Agents are providers by label or id (with the prompt's label, where a file has several prompts); items `test-<testIdx>`.

    Where results carry no test number, tests are told apart by their variables; in a CSV they are numbered by row. An output that
    is no string is written as JSON. A CSV holds no prompts.

    Raises: ImportFormatError naming file and result.
    """
    joiner = Joiner(paths[0].stem)
    by_variables: dict[bytes, int] = {}
    for file in files_of(
        paths, ("*.json", "*.jsonl", "*.csv"), what="a results file of promptfoo (.json, .jsonl or .csv)"
    ):
        results = list(_of_csv(file) if file.suffix.lower() == ".csv" else _of_json(file, by_variables))
        if not results:
            raise wrong(file, "its list of results is empty. Run the evaluation, then import.", slug="import-empty")
        several = len({result.label for result in results}) > 1
        for result in results:
            if result.output is None:
                joiner.leave_out("the call failed" if result.failed else "no text (null)", result.place)
                continue
            joiner.add(
                f"{result.provider} · {result.label}" if several else result.provider,
                f"test-{result.test:03d}",
                result.output if isinstance(result.output, str) else orjson.dumps(result.output).decode(),
                prompt=None if several else result.prompt,
                place=result.place,
            )
    return joiner.pool()


def _of_json(file: Path, by_variables: dict[bytes, int]) -> Iterator[_Result]:
    for place, row in read_lines(file) if file.suffix.lower() == ".jsonl" else _listed(file):
        at = row.get("testIdx")
        if not isinstance(at, int):
            key = orjson.dumps(row.get("vars"), option=orjson.OPT_SORT_KEYS)
            at = by_variables.setdefault(key, len(by_variables))
        yield _Result(
            place,
            provider=_provider(row.get("provider")),
            label=str(inner(row, "prompt", "label") or inner(row, "promptIdx") or ""),
            test=at,
            output=inner(row, "response", "output"),
            failed=bool(row.get("error")),
            prompt=inner(row, "prompt", "raw"),
        )


def _listed(file: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    whole = as_object(read_json(file), file)
    rows = inner(whole, "results", "results")
    if not isinstance(rows, list):
        rows = as_list(whole.get("results"), f"{file}, results")
    for number, row in enumerate(rows, 1):
        place = f"{file}, result {number}"
        yield place, as_object(row, place)


def _of_csv(file: Path) -> Iterator[_Result]:
    """A row a test; an output's column is called `[provider] prompt`, and the next one says its status."""
    rows = separated(file, ",")
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
        for at, found in outputs:
            failed = record[at + 1] == "ERROR"
            yield _Result(place, found["provider"], found["prompt"], test, None if failed else record[at], failed)


def _provider(provider: Json) -> str:
    name = provider if isinstance(provider, str) else inner(provider, "label") or inner(provider, "id")
    return str(name or "")
