"""Makes room for an export: nothing that is there is lost, and nothing half-written is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from youden.data.atomic import replacing_folder
from youden.data.exporters.terms import Terms
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.nouns import Pool


@contextmanager
def fresh_folder(out: Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes `out` if the block ends well. Raises: ConfigError [export-exists]."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(
            f"{out} is there already, and an export never replaces a folder. Give a new one, or take that one away.",
            slug="export-exists",
        )
    with replacing_folder(out) as folder:
        yield folder


def check_files(files: Sequence[Path], terms: Terms) -> None:
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
