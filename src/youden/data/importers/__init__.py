"""Registry of the formats from which pools can be imported.

Other packages add formats by the entry-point group `youden.importers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from youden.registry import Registry

if TYPE_CHECKING:
    from youden.data.importers.pool_joiner import ImportedPool


class Importer(Protocol):
    """Function that reads files of another tool and makes one pool of the responses of all agents."""

    def __call__(self, paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
        """Import a pool.

        Parameters
        ----------
        paths : sequence of Path
            Files or folders, often one file per agent.
        columns : mapping of str to str
            Column, or path inside a column, by role: agent, item, text, prompt, group, empty or repeat. Formats that
            are not tables ignore it.

        Returns
        -------
        ImportedPool
            The pool, and which rows were not used and why.

        Raises
        ------
        ImportFormatError
            If the files do not have the expected format; the message starts with file and location.
        """
        ...


IMPORTERS: Registry[Importer] = Registry(
    "youden.importers",
    "format",
    {
        "inspect": "youden.data.importers.harness_logs:read_inspect",
        "opentelemetry": "youden.data.importers.transcripts:read_opentelemetry",
        "lm-eval": "youden.data.importers.harness_logs:read_lm_eval",
        "alpaca-eval": "youden.data.importers.leaderboards:read_alpaca_eval",
        "fastchat": "youden.data.importers.leaderboards:read_fastchat",
        "promptfoo": "youden.data.importers.leaderboards:read_promptfoo",
        "helm": "youden.data.importers.harness_logs:read_helm",
        "hf-dataset": "youden.data.importers.hub_datasets:read_hf_dataset",
        "table": "youden.data.importers.table_import:read_table",
    },
)
