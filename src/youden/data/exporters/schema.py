"""Writes the JSON Schema of each file of a run."""

from __future__ import annotations

from pathlib import Path

from youden.data.exporters.fresh import fresh_folder, of_run
from youden.data.exporters.terms import Exported, Terms
from youden.data.folder.run_folder import RunFolder
from youden.data.schemas import ENDING, build_schemas
from youden.nouns import Pool


def export_schema(source: Pool | RunFolder, out: Path, /, *, terms: Terms) -> Exported:
    """A folder with `<file>.schema.json` for each file that the run has. Raises: ConfigError [export-source], [export-exists]."""
    run = of_run(source, "schema")
    there = {name: text for name, text in build_schemas().items() if run.has(name)}
    with fresh_folder(out) as folder:
        for name, text in there.items():
            (folder / f"{name}{ENDING}").write_text(text, encoding="utf-8", newline="\n")
    return Exported((out,), {"schemas": len(there)})
