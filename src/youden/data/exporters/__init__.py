"""Formats that pools and runs can be exported to. One file each; a package elsewhere adds one by the group `youden.exporters`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from youden.registry import Registry

if TYPE_CHECKING:
    from youden.data.exporters.export_files import Exported, ExportOptions
    from youden.data.folder.run_folder import RunFolder
    from youden.types import Pool


class Exporter(Protocol):
    """Writes a pool, or a run's folder, for another tool: whole, or not at all.

    Raises: ConfigError [export-source] for a source that this format does not take, [export-exists] where `out` is there;
    RunFolderError for a file that the run lacks.
    """

    def __call__(self, source: Pool | RunFolder, out: Path, /, *, terms: ExportOptions) -> Exported: ...


EXPORTERS: Registry[Exporter] = Registry(
    "youden.exporters",
    "format",
    {
        "tables": "youden.data.exporters.plain_tables:export_tables",
        "eee": "youden.data.exporters.every_eval_ever:export_every_eval_ever",
        "hf": "youden.data.exporters.hugging_face:export_hf_dataset",
    },
)
