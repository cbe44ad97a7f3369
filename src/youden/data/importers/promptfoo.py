"""Imports promptfoo's results JSON (`promptfoo eval -o results.json`): agents are providers, items are test cases.

It reads the layouts of results versions 2 and 3, and leaves assertions and scores out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import as_list, as_object, files_of, inner, read_json, wrong
from youden.nouns import Json


def read_promptfoo(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """Agents are providers by label or id (with the prompt's label, where a file has several prompts); items `test-<testIdx>`.

    Where results carry no test number, tests are told apart by their variables. An output that is no string is written as JSON.

    Raises: ImportFormatError naming file and result.
    """
    joiner = Joiner(paths[0].stem)
    by_variables: dict[bytes, int] = {}
    for file in files_of(paths, ("*.json",), what="a results JSON of promptfoo"):
        whole = as_object(read_json(file), file)
        rows = inner(whole, "results", "results")
        if not isinstance(rows, list):
            rows = as_list(whole.get("results"), f"{file}, results")
        if not rows:
            raise wrong(file, "its list of results is empty. Run the evaluation, then import.", slug="import-empty")
        prompts = {_label(row) for row in rows}
        for number, row in enumerate(rows, 1):
            place = f"{file}, result {number}"
            said = as_object(row, place)
            output = inner(said, "response", "output")
            if output is None:
                joiner.leave_out("the call failed" if said.get("error") else "no text (null)", place)
                continue
            agent = _provider(said.get("provider"))
            if len(prompts) > 1:
                agent = f"{agent} · {_label(row)}"
            at = said.get("testIdx")
            if not isinstance(at, int):
                key = orjson.dumps(said.get("vars"), option=orjson.OPT_SORT_KEYS)
                at = by_variables.setdefault(key, len(by_variables))
            joiner.add(
                agent,
                f"test-{at:03d}",
                output if isinstance(output, str) else orjson.dumps(output).decode(),
                prompt=inner(said, "prompt", "raw") if len(prompts) == 1 else None,
                place=place,
            )
    return joiner.pool()


def _provider(provider: Json) -> str:
    name = provider if isinstance(provider, str) else inner(provider, "label") or inner(provider, "id")
    return str(name or "")


def _label(row: Json) -> str:
    return str(inner(row, "prompt", "label") or inner(row, "promptIdx") or "")
