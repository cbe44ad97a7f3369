"""Import a pool from files of other tools, and write a first config for a pool.

The config is a commented file. It names the pool and a judge, and its comments describe the pool, other possible
settings and the estimated cost.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from youden.data.folder.config_paths import find_nearby_judge
from youden.data.folder.joined_pools import MergedPool, merge_pools
from youden.data.folder.run_config import RunConfig, load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.importers import IMPORTERS
from youden.data.importers.output_folder import check_output_folder, write_imported_pool
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool
from youden.data.importers.recognised_files import recognise_format
from youden.data.importers.role_messages import unclear_columns_error
from youden.data.importers.table_files import EXTENSIONS, read_rows
from youden.data.importers.table_import import read_table
from youden.data.pools.pool_reader import AGENTS_SPEC, RESPONSES, read_pool, write_pool
from youden.errors import ConfigError, ImportFormatError, PoolError, YoudenError
from youden.judging.config.judge_files import find_local_judge, load_judge_config, report_judge_shadow
from youden.pools.checks.check import estimate_run_cost
from youden.pools.checks.checked import DesignCost
from youden.run_keys import Key
from youden.text.printable import format_command
from youden.text.sentences import format_count
from youden.types import Pool

TABLE_FORMATS = frozenset({"table", "hf-dataset"})
TRANSCRIPT_FORMATS = frozenset({"inspect", "opentelemetry"})
_FORMAT_NOTE = "files in the format `{}`"
MAX_DESCRIPTION_CHARACTERS = 200
"""Maximum length of the description of columns in an error."""
MAX_DROPPED = 0.01
"""Maximum fraction of responses that an import may drop unless the user allows more."""


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
        Name of the format. With `table` and no `columns`, files of another format are also read if they are recognized.
    paths : sequence of Path
        Files or folders to import.
    out : Path
        Folder for the pool.
    columns : mapping, optional
        Field (agent, item, text, prompt, group or repeat) → name of the column; for tables only.
    text : {"answer", "transcript"}, default "answer"
        Whether a response is an agent's final answer or its complete transcript; for formats of transcripts only.
    hub : mapping, optional
        Split, revision and subset of a dataset on the Hugging Face Hub; for the format `hf-dataset` only.
    allow_dropped : bool, default False
        Whether more than 1 % of the responses may be dropped.

    Returns
    -------
    ImportedPool

    Raises
    ------
    ConfigError
        [unknown-format]: if there is no such format; [import-columns]: if an option does not fit the format.
    ImportFormatError
        [import-dropped]: if more than 1 % of the responses would be dropped; [import-columns] (tables) or
        [import-unshared]: if no item has responses of two agents; [out-not-empty]: if `out` contains a run or another
        pool. Also if a file cannot be read.
    """
    recognized = recognise_format(paths) if format_ == "table" and not columns else None
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
        imported = replace(imported, taken=_FORMAT_NOTE.format(recognized))
    if not allow_dropped:
        _check_dropped(imported)
    _check_shared_items(imported, paths[0], format_)
    write_imported_pool(imported.pool, out)
    return imported


def _check_shared_items(imported: ImportedPool, path: Path, format_: str) -> None:
    """Refuse a pool of several agents in which no item has responses of two of them.

    Raise ImportFormatError [import-columns] for a table whose columns were guessed, else [import-unshared].
    """
    # if the user named every column, no guess can be wrong
    is_explicit = format_ in TABLE_FORMATS and not imported.taken
    if is_explicit or imported.pool.n_agents < 2 or (imported.pool.present.sum(axis=0) > 1).any():
        return
    if format_ in TABLE_FORMATS:
        description = imported.taken[:MAX_DESCRIPTION_CHARACTERS]
        raise unclear_columns_error(path, f"no item has responses of two agents ({description})", ())
    raise ImportFormatError(
        f"{path}: no item has responses of two agents: got {format_count(imported.pool.n_agents, 'agent')} and "
        f"{format_count(imported.pool.n_items, 'item')}. Pass files in which the agents respond to the same items.",
        slug="import-unshared",
    )


def _check_dropped(imported: ImportedPool) -> None:
    """Raise ImportFormatError [import-dropped] if more than 1 % of the responses were dropped."""
    if imported.share_dropped > MAX_DROPPED:
        has_second_responses = SECOND_RESPONSE in imported.left_out
        columns = (
            " If several columns identify an item, add --column item=A+B; if one numbers repeats, --column repeat=A."
        )
        n_all = imported.n_dropped + imported.pool.n_responses
        raise ImportFormatError(
            f"{imported.n_dropped:,} of {n_all:,} responses would be dropped ({imported.share_dropped:.0%}; the limit is "
            f"{MAX_DROPPED:.0%}): {'; '.join(imported.dropped)}. Pass files in which each agent responds to an item once, or run "
            f"`youden import … --allow-dropped` to drop them.{columns * has_second_responses}",
            slug="import-dropped",
        )


ONLINE_JUDGE, OFFLINE_JUDGE = "gpt-4o-mini", "lexical"
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA = ".youden/config.schema.json"
"""Path, in a config's folder, of the schema with which an editor completes and validates the config."""
MIN_AGENTS = 3
_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# Made by `youden init`. A line that starts with # is a comment: an explanation, or another possible setting.
#   youden check {file}     finds problems of the pool, and estimates the cost of judging it
#   youden run {file}       ranks the agents; the same command resumes a run that was stopped

# {pool_summary}
{pool}

# The judge. `lexical` is offline and free, and compares only the words of two texts. `gpt-4o-mini` is a model; it needs
# {key} in the environment. Your own judge is a file judges/NAME.yaml next to this one; `youden doctor NAME` tests it.
{judge}
{alternative_judge}

# The maximum cost of one command, in USD. {cost}
{max_cost}

# The design, which selects the comparisons: cyclic distributes them evenly over agents and items. `calls` or `half_width` sets
# their number; the default is 450 comparisons per agent, or every comparison if there are fewer.
design: cyclic
# calls: {calls}        # or calls: 5%, of all possible calls; or calls: 60/agent
# half_width: 0.05           # judge in rounds until nine in ten agents have intervals of ± 0.05

# What intervals describe: all items like these, or with `these-items` exactly these items.
target: items-like-these

# The seed of the comparisons. Another seed selects other ones.
seed: 0
"""


class FirstConfig(NamedTuple):
    """A first config and its pool.

    Attributes
    ----------
    file : Path
        The config.
    pool : Pool
        The pool; for an existing config, with what was added since it was written.
    cost : DesignCost
        Estimated cost of the config's plan with its judge.
    pool_path : Path
        Path of the pool.
    imported : ImportedPool or None
        How the pool was imported; None if `source` is a pool.
    source : Path
        File or folder that the user named.
    merge : MergedPool or None
        What was added to the pool of an existing config; None for a new config.
    run : RunFolder or None
        Judged run of the existing config, which the additions can extend; None without one.
    """

    file: Path
    pool: Pool
    cost: DesignCost
    pool_path: Path
    imported: ImportedPool | None
    source: Path
    merge: MergedPool | None = None
    run: RunFolder | None = None


def find_pool(start: Path) -> Path:
    """Find the only pool in a folder or its subfolders.

    Parameters
    ----------
    start : Path
        The folder.

    Returns
    -------
    Path
        The only folder or table that is a pool. If there is no pool, the only table, which can be imported.

    Raises
    ------
    PoolError
        [init-none]: if there is no pool or table; [init-several]: if there are several pools (or tables).
    """
    subfolders = [path for path in start.iterdir() if path.is_dir() and not path.name.startswith(".")]
    folders = [start, *sorted(subfolders)]
    tables = [path for path in sorted(start.iterdir()) if path.is_file() and path.suffix.lower() in EXTENSIONS]
    pools = [folder for folder in folders if (folder / RESPONSES).is_file()]
    pools += [path for path in tables if path.suffix.lower() in (".csv", ".parquet") and _has_pool_columns(path)]
    candidates = pools or tables
    if not candidates:
        raise PoolError(
            f"There is no pool here: no table ({', '.join(EXTENSIONS)}), and no folder with {RESPONSES}. Run youden init FILE to "
            "name one, `youden import` to import files of other tools, or `youden demo` to see an example.",
            slug="init-none",
        )
    if len(candidates) > 1:
        names = ", ".join(str(path) for path in candidates[:6]) + (" …" if len(candidates) > 6 else "")
        raise PoolError(
            f"There are {len(candidates)} pools here: {names}. Run youden init FILE to name one.", slug="init-several"
        )
    return candidates[0]


def _import_if_needed(
    source: Path, pool_path: Path, *, columns: Mapping[str, str], known_pool: Pool | None = None
) -> ImportedPool | None:
    """Import the files at `source`, unless they are a pool already: then return None.

    `pool_path` is where the pool will be written, for messages. `columns` names columns of a table by their field.
    `known_pool` is the pool that was imported from the same source before.
    """
    format_ = None if (source / RESPONSES).is_file() else recognise_format([source])
    if format_ is not None and (not columns or format_ in TABLE_FORMATS):
        imported = IMPORTERS.load(format_)([source], columns=columns)
        imported = replace(imported, taken=_FORMAT_NOTE.format(format_))
        return _check_imported(imported, source, pool_path, format_)
    is_folder_of_files = source.is_dir() and not (source / RESPONSES).is_file() and not (source / AGENTS_SPEC).is_file()
    if not is_folder_of_files and not (source.is_file() and source.suffix.lower() in EXTENSIONS):
        return None
    may_be_pool = not is_folder_of_files and not columns and source.suffix.lower() in (".csv", ".parquet")
    if may_be_pool and _has_pool_columns(source):
        with suppress(PoolError):
            if all(text is None or text.strip() for row in read_pool(source).texts for text in row):
                return None
    imported = read_table([source], columns=columns, exact=False, previous_pool=known_pool)
    return _check_imported(imported, source, pool_path, "table")


def _check_imported(imported: ImportedPool, source: Path, pool_path: Path, format_: str) -> ImportedPool:
    """Return the imported pool if it can be ranked.

    Otherwise raise ImportFormatError, or PoolError [init-columns] if it has too few agents.
    """
    _check_dropped(imported)
    _check_shared_items(imported, source, format_)
    if imported.pool.n_agents < MIN_AGENTS:
        agents = f"That gives {format_count(imported.pool.n_agents, 'agent')}, and a ranking needs {MIN_AGENTS}."
        options = f"--column agent=NAME --column text=NAME --out {pool_path.as_posix()}"
        command = f"youden import table {format_command([str(source)])} {options}"
        raise PoolError(
            f"{source}, {imported.taken[:MAX_DESCRIPTION_CHARACTERS]}. {agents} "
            + (
                f"Rename the column with the agents to `model`, or pass its name: {command}"
                if format_ == "table"
                else "Pass a folder with the files of all agents."
            ),
            slug="init-columns",
        )
    return imported


def _update_pool(
    source: Path, file: Path, pool_path: Path, columns: Mapping[str, str], report: Callable[[ImportedPool], None]
) -> FirstConfig:
    """Add to the pool of an existing config what is new in its source.

    Without a judged run, the pool itself is updated. A judged run keeps its pool; the updated pool is written to a new
    folder, from which the run can be extended. Raise ConfigError [init-exists] if the config has another pool.
    """
    config = load_run_config(file)
    config_pool = Path(config.pool).resolve()
    if config_pool not in (source.resolve(), pool_path.resolve()):
        raise ConfigError(
            f"{file} exists already, and its pool is {config.pool}. Set another --out, or remove the file.",
            slug="init-exists",
        )
    run = RunFolder(config.folder)
    is_judged = run.has("verdicts.parquet") and run.has("plan.parquet")
    pool = run.read_judged_pool() if is_judged else read_pool(config.pool)
    imported = None
    if config_pool != source.resolve():
        imported = _import_if_needed(source, pool_path, columns=columns, known_pool=pool)
    if imported is not None:
        report(imported)

    merge = merge_pools(pool, read_pool(source) if imported is None else imported.pool, keep=is_judged)
    if is_judged and merge.pool.digest != pool.digest:
        pool_path = _find_free_path(pool_path, merge.pool.digest)
        write_imported_pool(merge.pool, pool_path)
    elif not is_judged and imported is not None:
        write_pool(merge.pool, pool_path)
    else:
        pool_path = Path(config.pool)
    return FirstConfig(
        file=file,
        pool=merge.pool,
        cost=estimate_run_cost(config),
        pool_path=pool_path,
        imported=imported,
        source=source,
        merge=merge,
        run=run if is_judged else None,
    )


def _find_free_path(pool_path: Path, digest: str) -> Path:
    """Append the first number to a path at which nothing exists, or a pool with this digest."""
    for number in count(2):
        path = pool_path.with_name(f"{pool_path.name}-{number}")
        if not path.exists() or ((path / RESPONSES).is_file() and read_pool(path).digest == digest):
            break
    return path


def write_first_config(
    pool: Path,
    *,
    out: Path | None = None,
    judge: str | None = None,
    columns: Mapping[str, str],
    environment: Mapping[str, str],
    report: Callable[[ImportedPool], None] = lambda _: None,
) -> FirstConfig:
    """Write a commented config for a pool.

    Files that are not a pool are first imported as the pool `pools/NAME`. The schema of a config is written next to the
    config. An existing config is not changed: only its pool is updated, with what was added to the files since then.

    Parameters
    ----------
    pool : Path
        A pool, or files that can be imported.
    out : Path, optional
        The config. Default: `NAME.yaml` in the current directory.
    judge : str, optional
        Name or file of the judge. Default: a model if its API key is in `environment`, else the offline judge.
    columns : mapping
        Field (agent, item, text, prompt, group or repeat) → name of the column of a table.
    environment : mapping
        Environment variables.
    report : callable, optional
        Called with the imported pool before anything is written; not called if nothing is imported.

    Returns
    -------
    FirstConfig

    Raises
    ------
    PoolError
        [init-columns]: if too few agents were found. Also if the pool cannot be read.
    ImportFormatError
        If the files cannot be imported.
    ConfigError
        [init-exists]: if the config exists, and either has another pool or `judge` was passed.
    PlanError
        If the pool cannot be ranked.
    """
    name = re.sub(r"[^\w.+-]", "-", pool.resolve().stem).lstrip(".+-")[:100] or "pool"
    file = Path(f"{name}.yaml") if out is None else out
    pool_path, source = Path("pools") / (name if out is None else file.stem), pool
    if file.exists() and file.resolve() != pool.resolve():
        if judge is not None:
            raise ConfigError(
                f"{file} exists already, and is not changed. Remove --judge, or set another --out.",
                slug="init-exists",
            )
        return _update_pool(pool, file, pool_path, columns, report)
    if (imported := _import_if_needed(pool, pool_path, columns=columns)) is not None:
        check_output_folder(pool_path)
        report(imported)
        pool = pool_path
    content = read_pool(pool) if imported is None else imported.pool

    online_judge = load_judge_config(ONLINE_JUDGE)
    has_key = _find_shadow(ONLINE_JUDGE, file) is None and online_judge.find_key(environment)[0] is not None
    chosen = load_judge_config(judge or (ONLINE_JUDGE if has_key else OFFLINE_JUDGE))
    alternative = online_judge if chosen.name != ONLINE_JUDGE else load_judge_config(OFFLINE_JUDGE)
    judge_name = judge or chosen.name

    config = RunConfig.model_validate({"name": name, "pool": str(pool), "judge": judge_name})
    cost = estimate_run_cost(config, content)
    online_cost = cost
    if not chosen.makes_calls:
        online_cost = estimate_run_cost(config.model_copy(update={"judge": ONLINE_JUDGE}), content)
    if imported is not None:
        write_imported_pool(content, pool_path)

    is_shipped = pool.parts[:1] == ("datasets",) and not pool.exists()
    pool_entry = str(pool) if is_shipped else Path(os.path.relpath(pool, file.parent)).as_posix()
    max_cost = f"max_cost: {_suggest_cap(online_cost.usd):.2f}"
    text = _TEMPLATE.format(
        schema=SCHEMA,
        file=format_command([str(file)]),
        pool_summary=_describe_pool(content),
        pool=_format_entry("pool", pool_entry),
        judge=_format_entry("judge", _judge_entry(judge_name, file)),
        alternative_judge=f"# {_format_entry('judge', _judge_entry(alternative.name, file))}",
        key=online_judge.key_variable,
        cost=_describe_cost(online_cost),
        max_cost=max_cost if chosen.makes_calls else f"# {max_cost}",
        calls=cost.calls,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = file.parent / SCHEMA
    schema.parent.mkdir(exist_ok=True)
    schema.write_text(json.dumps(build_config_schema(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    return FirstConfig(file, content, cost, pool, imported, source)


def build_config_schema() -> dict[str, Any]:
    """Build the JSON Schema of a config, in which `name` is optional."""
    schema: dict[str, Any] = RunConfig.model_json_schema()
    schema["$schema"] = SCHEMA_DIALECT
    schema["required"].remove("name")
    for name, field in RunConfig.model_fields.items():
        schema["properties"][name]["description"] = next(note.text for note in field.metadata if isinstance(note, Key))
    return schema


def _describe_pool(pool: Pool) -> str:
    n = pool.n_agents * pool.n_items - pool.n_missing
    groups = {agent.group for agent in pool.agents} - {None}
    prompts = sum(bool(item.prompt) for item in pool.items)
    return (
        f"{pool.n_agents:,} agents × {pool.n_items:,} items: {n:,} responses, {pool.n_missing:,} missing; "
        f"{len(groups):,} groups of agents; {prompts:,} items with a prompt."
    )


def _describe_cost(cost: DesignCost) -> str:
    usd = "at an unknown price" if cost.usd is None else f"about ${cost.usd:,.2f}"
    return f"This plan is {cost.calls:,} calls, {usd} with {cost.judge}."


def _suggest_cap(usd: float | None) -> float:
    """Return 1.5 times the estimated cost, rounded up to 5 cents; 1 USD if it is unknown."""
    return 1.0 if usd is None else max(math.ceil(usd * 1.5 * 20) / 20, 0.05)


def _format_entry(key: str, value: str) -> str:
    return yaml.safe_dump({key: value}, allow_unicode=True, width=1000).strip()


def _judge_entry(judge: str, file: Path) -> str:
    """Return the value of `judge` in the config: its name, or a path from the config's folder.

    A path is used for a judge that was named by path, and for a local file that shadows a shipped judge.
    """
    path = judge if judge.endswith((".yaml", ".yml")) else _find_shadow(judge, file)
    return judge if path is None else Path(os.path.relpath(path, file.parent)).as_posix()


def _find_shadow(judge: str, file: Path) -> Path | None:
    """Find the local file that a config would use for the name of a shipped judge; None if there is none."""
    path = find_nearby_judge(judge, file.parent) or find_local_judge(judge)
    return path if path is not None and report_judge_shadow(judge, path) else None


def _has_pool_columns(file: Path) -> bool:
    """Return whether a table has the columns of a pool.

    Also True if it cannot be opened, because reading it as a pool then gives a better error.
    """
    return {"agent", "item", "text"} <= set(_read_columns(file) or ("agent", "item", "text"))


def _read_columns(file: Path) -> list[str]:
    try:
        return [str(name) for name in next(iter(read_rows(file)))[1]]
    except (YoudenError, StopIteration):
        return []
