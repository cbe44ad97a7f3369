"""Write an imported pool to a folder, unless the folder holds other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from youden.data.atomic import remove_leftovers
from youden.data.pools.pool_reader import AGENTS, ITEMS, RESPONSES, find_file_of_other_pool, read_pool, write_pool
from youden.errors import ImportFormatError
from youden.types import Pool

RUN_FILES = ("pool.json", "plan.parquet", "verdicts.parquet")


def check_output_folder(out: Path, *, run_files: Sequence[str] = RUN_FILES, last_file: str = RESPONSES) -> None:
    """Check that an import may write into a folder, and delete temporary files that a stopped import left in it.

    out : folder, which need not exist; it is not created
    run_files : names of the files of a run. A folder that contains one of them is refused. Default: pool.json, plan.parquet and
        verdicts.parquet.
    last_file : name of the file that an import writes last, by default responses.jsonl. A folder with this file contains a
        complete import and is accepted. A folder without it may contain only agents.jsonl and items.jsonl of a stopped import.

    Raises: ImportFormatError [out-not-empty] if `out` is a file, if it contains a run, or if it contains other files without
        `last_file`.
    """
    if any((out / file).exists() for file in run_files):
        raise ImportFormatError(
            f"{out} already holds a run. Set --out to another folder, or remove this one.", slug="out-not-empty"
        )
    remove_leftovers(out)
    is_complete_import = (out / last_file).exists()
    has_other_files = False
    if out.is_dir() and not is_complete_import:
        names = {path.name for path in out.iterdir()}
        has_other_files = not names <= {AGENTS, ITEMS}
    if out.is_file() or has_other_files:
        raise ImportFormatError(
            f"{out} exists, and no import wrote it. Set --out to a new or empty folder.",
            slug="out-not-empty",
        )


def write_imported_pool(pool: Pool, out: Path) -> None:
    """Write a pool into a folder, which may be new or empty, or contain the same pool.

    Raises: ImportFormatError [out-not-empty] if the folder holds a run, another pool or other files.
    """
    check_output_folder(out)
    if (out / RESPONSES).exists() and read_pool(out).digest != pool.digest:
        raise ImportFormatError(
            f"{out} already holds another pool. Set --out to another folder, or remove this one. To add new agents to a judged "
            "run, run `youden extend agents RUN OUT`.",
            slug="out-not-empty",
        )
    file_of_other_pool = find_file_of_other_pool(pool.agents, pool.items, out)
    if file_of_other_pool is not None:
        raise ImportFormatError(
            f"{file_of_other_pool} belongs to another pool. Set --out to a new or empty folder.", slug="out-not-empty"
        )
    write_pool(pool, out)
