"""Define the options and the result of an export, and the card of a folder for the Hugging Face Hub.

An export never replaces a folder, and replaces files only on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from youden.data.atomic import atomic_write_folder, remove_leftovers
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.text.sentences import escape_markdown
from youden.types import Pool
from youden.types.pool import Json


@dataclass(frozen=True)
class Exported:
    """Result of an export."""

    files: tuple[Path, ...]
    """Files that were written, or the folder."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Name of a table → number of its rows."""
    notes: tuple[str, ...] = ()
    """Caveats about the files."""


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export."""

    overwrite: bool = False
    """Whether existing files are replaced; a folder is never replaced."""
    organization: str | None = None
    """Organization that made the run, for formats that contain it."""
    raw_cells: bool = False
    """Whether texts that a spreadsheet would run as formulas are written unchanged to CSV files."""


@contextmanager
def create_export_folder(out: Path) -> Iterator[Path]:
    """Create a folder for an export. The `with` block writes the files of the export.

    out : folder to create; it may exist if it is empty

    Yields an empty temporary folder, which is moved to `out` if the block succeeds.

    Raises: ConfigError [export-exists] if `out` is a file or is not empty.
    """
    remove_leftovers(out)
    is_empty_folder = out.is_dir() and not any(out.iterdir())
    if out.exists() and not is_empty_folder:
        raise ConfigError(
            f"{out} exists already, and an export never replaces a folder. Pass a new folder, or remove the existing one.",
            slug="export-exists",
        )
    with atomic_write_folder(out) as folder:
        yield folder


def check_output_files(files: Sequence[Path], options: ExportOptions) -> None:
    """Check that an export may write its files: each file is new, or the user has allowed replacement.

    files : files to write
    options : options of the export; if `overwrite` is true, existing files may be replaced

    Raises: ConfigError [export-exists] if a path is a folder, or if a file exists and may not be replaced.
    """
    existing = [file for file in files if file.exists()]
    for file in existing:
        if file.is_dir():
            raise ConfigError(f"{file} is a folder. Pass a file.", slug="export-exists")
    if existing and not options.overwrite:
        raise ConfigError(
            f"{', '.join(map(str, existing))} exists already. Add --overwrite to replace it, or pass another file.",
            slug="export-exists",
        )


def require_run_with_rates(source: Pool | RunFolder, export_format: str) -> RunFolder:
    """Check that an export gets a run with a ranking by true- and false-positive rates, and return the run.

    source : source of the export
    export_format : name of the export format, for the message

    Raises: ConfigError [export-source] if the source is a pool, which has no ranking; RunFolderError [run-preference] if the
        judge was asked which response is better, because such a run has no rates.
    """
    if not isinstance(source, RunFolder):
        raise ConfigError(
            f"The format {export_format} contains a ranking, and the pool '{source.name}' has none. Pass the folder of a "
            "fitted run.",
            slug="export-source",
        )
    source.check_information()  # an error if the run has preferences in place of rates
    return source


TAGS = ["youden", "llm-evaluation"]


def format_card(metadata: Mapping[str, Json], title: str, paragraphs: Sequence[str]) -> str:
    """Format the README.md of a dataset.

    metadata : JSON values by key, which the Hub reads; they become the YAML front matter, in the same order
    title : heading, as plain text; characters that Markdown would interpret are escaped
    paragraphs : paragraphs in Markdown, without line breaks at the end; they are not changed

    Returns the front matter, the heading and the paragraphs, separated by blank lines, with a line break at the end. No file is
    written.
    """
    yaml_text = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=1000)
    blocks = [f"---\n{yaml_text}---", f"# {escape_markdown(title)}", *paragraphs]
    return "\n\n".join(blocks) + "\n"


def dataset_config(name: str, *files: str, default: bool = False) -> dict[str, Json]:
    """Return the metadata that tell the Hugging Face Hub and the package `datasets` which files contain a table.

    name : name of the table
    files : paths of its files in the dataset, at least one
    default : whether the Hub shows this table first

    Returns an entry of `configs` in the metadata of the dataset card (README.md).
    """
    data_files: Json = list(files) if len(files) > 1 else files[0]
    config: dict[str, Json] = {"config_name": name, "data_files": data_files}
    if default:
        config["default"] = True
    return config
