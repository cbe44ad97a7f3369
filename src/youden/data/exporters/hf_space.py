"""Writes a run's report as a static Space for the Hugging Face Hub: a page that needs no server of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from youden.data.exporters.cards import TAGS, card
from youden.data.exporters.fresh import fresh_folder, of_run
from youden.data.exporters.terms import Exported, Terms
from youden.data.folder.run_files import missing
from youden.data.folder.run_folder import RunFolder
from youden.nouns import Json, Pool


def export_hf_space(source: Pool | RunFolder, out: Path, /, *, terms: Terms) -> Exported:
    """README.md, index.html (the report as it stands in the run) and ranking.json where the run has it.

    Raises: ConfigError [export-source], [export-exists]; RunFolderError [run-file-missing] for a run without a report.
    """
    run = of_run(source, "hf-space")
    if not run.has("report.html"):
        raise missing(run.file("report.html"))
    name = run.path.resolve().name
    with fresh_folder(out) as folder:
        shutil.copyfile(run.file("report.html"), folder / "index.html")
        if run.has("ranking.json"):
            shutil.copyfile(run.file("ranking.json"), folder / "ranking.json")
        front: dict[str, Json] = {
            "title": name,
            "sdk": "static",
            "app_file": "index.html",
            "pinned": False,
            "tags": [*TAGS],
        }
        said = "A ranking of agents without labels, made by [youden](https://pypi.org/project/youden/)."
        (folder / "README.md").write_text(card(front, name, [said]), encoding="utf-8", newline="\n")
    return Exported((out,), notes=("The report shows some of the judged texts to everybody who may see the Space.",))
