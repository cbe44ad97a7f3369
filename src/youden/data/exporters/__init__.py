"""Define the formats to which pools and runs can be exported.

Each format is one module; another package adds one with the entry-point group `youden.exporters`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from youden.registry import Registry

if TYPE_CHECKING:
    from youden.data.exporters.export_files import Exported, ExportOptions
    from youden.data.folder.run_folder import RunFolder
    from youden.types import Pool


class Exporter(Protocol):
    """Function that writes a pool or a run in the format of another tool."""

    def __call__(self, source: Pool | RunFolder, out: Path, /, *, options: ExportOptions) -> Exported:
        """Export a pool or a run.

        Parameters
        ----------
        source : Pool or RunFolder
            Pool or run to export.
        out : Path
            File or folder to write. It is written completely, or not at all.
        options : ExportOptions
            Options of the export.

        Returns
        -------
        Exported
            The files that were written, with their numbers of rows.

        Raises
        ------
        ConfigError
            [export-source]: if the format cannot represent the source; [export-exists]: if `out` exists and
            may not be replaced.
        RunFolderError
            If the run lacks a file.
        """
        ...


EXPORTERS: Registry[Exporter] = Registry(
    "youden.exporters",
    "format",
    {
        "tables": "youden.data.exporters.plain_tables:export_tables",
        "eee": "youden.data.exporters.every_eval_ever:export_every_eval_ever",
        "hf": "youden.data.exporters.hugging_face:export_hf_dataset",
    },
)
