"""Writes the JSON Schema of each file of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from youden.data.exporters.fresh import fresh_folder, of_run
from youden.data.exporters.terms import Exported, Terms
from youden.data.folder.run_folder import RunFolder
from youden.data.schemas.shipped import described, schema_file
from youden.nouns import Pool


def export_schema(source: Pool | RunFolder, out: Path, /, *, terms: Terms) -> Exported:
    """A folder with `<file>.schema.json` for each file that the run has. Raises: ConfigError [export-source], [export-exists]."""
    run = of_run(source, "schema")
    there = [name for name in described() if run.has(name)]
    with fresh_folder(out) as folder:
        for name in there:
            if (file := schema_file(name)) is not None:
                shutil.copyfile(file, folder / file.name)
    return Exported((out,), {"schemas": len(there)})
