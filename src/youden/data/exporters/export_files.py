"""What all exports share: their terms, room that replaces nothing, and the card of a folder for the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from youden.data.atomic import remove_leftovers, replacing_folder
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.text.sentences import quoted
from youden.types import Pool
from youden.types.pool import Json


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    files: tuple[Path, ...]
    """Files, or the folder."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows by table."""
    notes: tuple[str, ...] = ()
    """What a reader of the files has to know."""


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export."""

    overwrite: bool = False
    """Whether existing files are replaced; a folder never is."""
    organization: str | None = None
    """Who made the run, for formats that ask for it."""
    raw_cells: bool = False
    """Whether CSV files keep texts unchanged that a spreadsheet would run as formulas."""


@contextmanager
def fresh_folder(out: Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes `out` if the block ends well. Raises: ConfigError [export-exists]."""
    remove_leftovers(out)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(
            f"{out} is there already, and an export never replaces a folder. Give a new one, or take that one away.",
            slug="export-exists",
        )
    with replacing_folder(out) as folder:
        yield folder


def check_files(files: Sequence[Path], terms: ExportOptions) -> None:
    """Raises: ConfigError [export-exists] where a file is there and may not be replaced."""
    there = [file for file in files if file.exists()]
    if folders := [file for file in there if file.is_dir()]:
        raise ConfigError(f"{folders[0]} is a folder. Give a file.", slug="export-exists")
    if there and not terms.overwrite:
        raise ConfigError(
            f"{', '.join(map(str, there))} would be replaced. Add --overwrite, or give another file.",
            slug="export-exists",
        )


def of_run(source: Pool | RunFolder, name: str) -> RunFolder:
    """The source, which has to be a run. Raises: ConfigError [export-source]."""
    if isinstance(source, RunFolder):
        return source
    raise ConfigError(
        f"The format {name} holds a ranking, and the pool '{source.name}' has none. Give the folder of a fitted run.",
        slug="export-source",
    )


TAGS = ["youden", "llm-evaluation"]


def card(front: Mapping[str, Json], title: str, paragraphs: Sequence[str]) -> str:
    """front: what the Hub reads. title: shown as it is, whatever it holds. paragraphs: Markdown."""
    yaml_text = yaml.safe_dump(dict(front), sort_keys=False, allow_unicode=True, width=1000)
    return "\n\n".join([f"---\n{yaml_text}---", f"# {quoted(title)}", *paragraphs]) + "\n"


def config_of(name: str, *files: str, default: bool = False) -> dict[str, Json]:
    """One table of the dataset, as the Hub and `datasets` find it."""
    found: list[Json] = [*files]
    said: dict[str, Json] = {"config_name": name, "data_files": found if len(files) > 1 else files[0]}
    return said | ({"default": True} if default else {})
