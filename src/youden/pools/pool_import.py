"""Import files of one format as a pool, and refuse an import that loses responses or cannot be ranked.

The importers of the formats are in `data/importers/`; this module selects one, checks its result and writes the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from youden.data.importers import IMPORTERS
from youden.data.importers.foreign_files import MAX_DROPPED
from youden.data.importers.output_folder import write_imported_pool
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool
from youden.data.importers.recognized_files import recognize_format
from youden.data.importers.role_messages import unclear_columns_error
from youden.errors import ConfigError, ImportFormatError
from youden.text.sentences import format_count

TABLE_FORMATS = frozenset({"table", "hf-dataset"})


TRANSCRIPT_FORMATS = frozenset({"inspect", "opentelemetry"})


FORMAT_NOTE = "files in the format `{}`"


MAX_DESCRIPTION_CHARACTERS = 200
"""Maximum length of the description of columns in an error."""


def import_pool(
    format_: str,
    paths: Sequence[Path],
    out: Path,
    *,
    columns: Mapping[str, str] | None = None,
    text: str = "answer",
    hub: Mapping[str, str] | None = None,
    allow_dropped: bool = False,
) -> ImportedPool:
    """Import files of one format as a pool.

    Parameters
    ----------
    format_ : str
        Name of a registered format, for example "table", "hf-dataset" or "inspect". With "table" and no `columns`, files of
        another format are also read if they are recognized.
    paths : sequence of Path
        Files or folders to import. For `hf-dataset`, also OWNER/NAME on the Hugging Face Hub.
    out : Path
        Folder for the pool; it may be new or empty, or contain the same pool. Missing parents are created.
    columns : mapping, optional
        Field (agent, item, text, prompt, group or repeat) → name of the column; for the formats `table` and `hf-dataset`.
        Default: columns are inferred.
    text : {"answer", "transcript"}, default "answer"
        Whether a response is an agent's final answer or its complete transcript; "transcript" only for the formats `inspect`
        and `opentelemetry`.
    hub : mapping, optional
        Split, revision and subset of a dataset on the Hugging Face Hub; for the format `hf-dataset` only.
    allow_dropped : bool, default False
        Whether more than 1% of the responses may be dropped. By default, this is an error.

    Returns
    -------
    ImportedPool
        The pool as it was written, with what was left out and what was assumed.

    Raises
    ------
    ConfigError
        [unknown-format]: if there is no such format; [import-columns]: if an option does not fit the format.
    ImportFormatError
        [import-dropped]: if more than 1% of the responses would be dropped. [out-not-empty]: if `out` contains files other than
        the files of the same pool. [import-columns], [import-unshared]: if there are several agents, but no item has responses of
        two agents; the first slug is for a table whose columns were inferred, the second one for other formats (a table with
        `columns` is not checked). Also if a file cannot be read.
    """
    recognized = recognize_format(paths) if format_ == "table" and not columns else None
    format_ = recognized or format_
    read = IMPORTERS.load(format_)
    if columns and format_ not in TABLE_FORMATS:
        raise ConfigError(
            f"The format '{format_}' has no named columns: got a column for {', '.join(columns)}. Remove --column.",
            slug="import-columns",
        )
    if text != "answer" and format_ not in TRANSCRIPT_FORMATS:
        raise ConfigError(
            f"The format '{format_}' contains only answers: got --text {text}. Remove it; transcripts are in the formats "
            f"{', '.join(sorted(TRANSCRIPT_FORMATS))}.",
            slug="import-columns",
        )
    if hub and format_ != "hf-dataset":
        raise ConfigError(
            f"The format '{format_}' reads files: got --{', --'.join(hub)}, which select a dataset on the Hub. Remove them.",
            slug="import-columns",
        )
    options: dict[str, Any] = {}
    if hub:
        options["hub"] = hub
    if format_ in TRANSCRIPT_FORMATS:
        options["text"] = text
    imported = read(paths, columns=columns or {}, **options)
    if recognized is not None:
        imported = replace(imported, used_columns=FORMAT_NOTE.format(recognized))
    if not allow_dropped:
        check_dropped(imported)
    check_shared_items(imported, paths[0], format_)
    write_imported_pool(imported.pool, out)
    return imported


def check_shared_items(imported: ImportedPool, path: Path, format_: str) -> None:
    """Check that at least one item of an imported pool has responses of two agents, so that agents can be compared.

    A table whose columns the user named, and a pool of one agent, are not checked.

    imported : the pool; its `used_columns` describe the inferred columns, and are empty if the user named the columns
    path : the imported file or folder
    format_ : name of its format

    Raises ImportFormatError [import-columns] for a table whose columns were inferred, [import-unshared] for another format.
    """
    # if the user named every column, the columns cannot have been inferred wrongly
    has_named_columns = format_ in TABLE_FORMATS and not imported.used_columns
    pool = imported.pool
    if has_named_columns or pool.n_agents < 2:
        return
    n_agents_by_item = pool.present.sum(axis=0)
    if (n_agents_by_item > 1).any():
        return

    if format_ in TABLE_FORMATS:
        description = imported.used_columns[:MAX_DESCRIPTION_CHARACTERS]
        raise unclear_columns_error(path, f"no item has responses of two agents ({description})", ())
    raise ImportFormatError(
        f"{path}: no item has responses of two agents: got {format_count(pool.n_agents, 'agent')} and "
        f"{format_count(pool.n_items, 'item')}. Pass files in which the agents respond to the same items.",
        slug="import-unshared",
    )


def check_dropped(imported: ImportedPool) -> None:
    """Raise ImportFormatError [import-dropped] if an import would drop more than 1% of the responses.

    A frequent reason is that an agent has two responses to an item in the files. The message then suggests columns that may
    distinguish the responses.
    """
    if imported.share_dropped <= MAX_DROPPED:
        return
    n_all = imported.n_dropped + imported.pool.n_responses
    message = (
        f"{imported.n_dropped:,} of {n_all:,} responses would be dropped ({imported.share_dropped:.0%}; the limit is "
        f"{MAX_DROPPED:.0%}): {'; '.join(imported.dropped)}. Pass files in which each agent responds to an item once, or run "
        "`youden import … --allow-dropped` to drop them."
    )
    has_second_responses = SECOND_RESPONSE in imported.left_out
    if has_second_responses:
        message += (
            " If several columns identify an item, add --column item=A+B; if one numbers repeats, --column repeat=A."
        )
    raise ImportFormatError(message, slug="import-dropped")
