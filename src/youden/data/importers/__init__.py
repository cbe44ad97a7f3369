"""Formats that pools can be imported from. One file each; a package elsewhere adds one by the group `youden.importers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from youden.registry import Registry

if TYPE_CHECKING:
    from youden.data.importers.pool_joiner import ImportedPool


class Importer(Protocol):
    """Reads other people's files, often one for each agent, and joins them by item.

    columns: agent, item, text, prompt or group → the column or path it has in these files; only formats that are tables take any.

    Raises: ImportFormatError naming file and place.
    """

    def __call__(self, paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool: ...


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
