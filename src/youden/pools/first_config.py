"""Write a first config for a pool, which is imported first if it consists of files of other tools.

The config is a commented file. It names the pool and a judge, and its comments describe the pool, other possible
settings and the estimated cost.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from youden.data.folder.config_paths import find_nearby_judge
from youden.data.folder.joined_pools import MergedPool, merge_pools
from youden.data.folder.run_config import RunConfig, load_run_config, run_config_from_keys
from youden.data.folder.run_folder import RunFolder
from youden.data.importers import IMPORTERS
from youden.data.importers.excel_files import SHEETS_NOT_READ
from youden.data.importers.output_folder import check_output_folder, write_imported_pool
from youden.data.importers.pool_joiner import COPIED_RESPONSE, ImportedPool
from youden.data.importers.recognized_files import recognize_format
from youden.data.importers.table_import import read_table
from youden.data.pools.pool_reader import AGENTS_SPEC, RESPONSES, locate_pool, read_pool, write_pool
from youden.errors import ConfigError, PoolError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.config.judge_paths import find_local_judge, report_hidden_judge
from youden.pools.checks.check import estimate_run_cost, find_judge_problems
from youden.pools.checks.checked import DesignCost
from youden.pools.pool_files import POOL_TABLES, has_pool_columns
from youden.pools.pool_import import (
    FORMAT_NOTE,
    MAX_DESCRIPTION_CHARACTERS,
    TABLE_FORMATS,
    check_dropped,
    check_shared_items,
)
from youden.protocol.self_trials import needs_self_trials
from youden.run_keys import Key
from youden.text.printable import format_command
from youden.text.sentences import format_count, format_responses
from youden.types import Finding, Pool
from youden.types.arguments import check_unused

ONLINE_JUDGE, OFFLINE_JUDGE = "gpt-4o-mini", "lexical"
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA = ".youden/config.schema.json"
"""Path, in a config's folder, of the schema with which an editor completes and validates the config."""
MIN_AGENTS = 3
_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# Made by `youden init`. A line that starts with # is a comment: an explanation, or another possible setting.
#   youden check {file}     finds problems of the pool, and estimates the cost of judging it
#   youden run {file}       {purpose}; the same command resumes a run that was stopped

# {pool_summary}
{pool}

# The judge. `lexical` is offline and free, and compares only the words of two texts. `gpt-4o-mini` is a model; it needs
# {key} in the environment. Your own judge is a file judges/NAME.yaml next to this one; `youden doctor NAME` tests it.
{judge}
{alternative_judge}

# The maximum cost of the run over all commands, in USD. {cost}
{max_cost}

{plan_settings}

# The seed of the comparisons. Another seed selects other ones.
seed: 0
"""


_PLAN_SETTINGS = """\
# The design, which selects the comparisons: cyclic distributes them evenly over agents and items. `calls` or `half_width` sets
# their number; the default is 450 comparisons per agent, or every comparison if there are fewer.
design: cyclic
# calls: {calls}        # or calls: 5%, of all possible calls; or calls: 60/agent
# half_width: 0.05           # judge in rounds until nine in ten agents have intervals of ± 0.05

# What intervals describe: all items like these, or with `these-items` exactly these items.
target: items-like-these"""
_SELF_PLAN_SETTINGS = """\
# The number of self-trials, which compare the responses of one agent with each other. By default, up to 450 pairs of
# responses to the same item for each agent, and as many pairs of responses to different items.
# calls: {calls}        # or calls: 60/agent, which counts only pairs of responses to the same item

# What intervals describe: all items like these.
target: items-like-these"""


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
    findings : tuple of Finding
        Problems because of which the judge of a new config cannot judge the pool.
    """

    file: Path
    pool: Pool
    cost: DesignCost
    pool_path: Path
    imported: ImportedPool | None
    source: Path
    merge: MergedPool | None = None
    run: RunFolder | None = None
    findings: tuple[Finding, ...] = ()


def _import_if_needed(
    source: Path, pool_path: Path, *, columns: Mapping[str, str], known_pool: Pool | None = None
) -> ImportedPool | None:
    """Import files as a pool, unless they can be read as a pool without an import; then return None.

    The files may be tables, or have the format of another tool, such as logs of Inspect. See `_needs_table_import` for tables
    that already have the columns of a pool.

    source : file or folder that the user named
    pool_path : path at which the pool will be written, for messages
    columns : field of the pool → name of the table's column, for the columns that the user named; may be empty
    known_pool : pool that was imported from the same source before; its items keep their ids

    Raises ImportFormatError or PoolError if the files do not exist, cannot be read, or give a pool that cannot be ranked.
    """
    has_named_columns = bool(columns)
    format_name = _recognize_tool_format(source, has_named_columns=has_named_columns)
    if format_name is not None:
        import_files = IMPORTERS.load(format_name)
        pool_of_tool = import_files([source], columns=columns)
        imported = replace(pool_of_tool, used_columns=FORMAT_NOTE.format(format_name))
        _check_can_be_ranked(imported, source, pool_path, format_name)
        return imported

    if _needs_table_import(source, has_named_columns=has_named_columns):
        imported = read_table([source], columns=columns, exact=False, previous_pool=known_pool)
        _check_can_be_ranked(imported, source, pool_path, "table")
        return imported
    locate_pool(source)  # an error if there is no such pool
    check_unused(f"The pool {source}", column=columns)
    return None


def _recognize_tool_format(source: Path, *, has_named_columns: bool) -> str | None:
    """Recognize the format of files that another tool wrote; None for a pool, a plain table or an unknown format.

    has_named_columns : whether the user named columns of a table; then only formats of tables are recognized
    """
    is_pool_folder = (source / RESPONSES).is_file()
    if is_pool_folder:
        return None
    format_name = recognize_format([source])
    if has_named_columns and format_name not in TABLE_FORMATS:
        return None
    return format_name


def _needs_table_import(source: Path, *, has_named_columns: bool) -> bool:
    """Return whether the importer of tables has to read a file or folder.

    It reads a folder that is not a pool. It reads a file if the user named its columns, if it is not a pool, or if it has blank
    texts.

    has_named_columns : whether the user named columns
    """
    if source.is_dir():
        is_pool_folder = (source / RESPONSES).is_file() or (source / AGENTS_SPEC).is_file()
        return not is_pool_folder
    if not source.is_file():
        return False
    if has_named_columns:
        return True
    return not _is_pool_without_blank_texts(source)


def _check_can_be_ranked(imported: ImportedPool, source: Path, pool_path: Path, format_name: str) -> None:
    """Check that an imported pool can be ranked.

    A ranking needs at least `MIN_AGENTS` agents. A smaller pool is accepted only if its agents have repeats (several
    responses to an item), which can be compared with each other.

    imported : the pool, with descriptions of how it was imported
    source : file or folder that was imported
    pool_path : path at which the pool will be written, for messages
    format_name : name of the import format, "table" for a table

    Raises ImportFormatError if too many responses were dropped, or if no item has responses of two agents. Raises PoolError
    [init-columns] if there are too few agents.
    """
    check_dropped(imported)
    check_shared_items(imported, source, format_name)
    n_agents = imported.pool.n_agents
    can_be_ranked = n_agents >= MIN_AGENTS or needs_self_trials(imported.pool)
    if not can_be_ranked:
        description = imported.used_columns[:MAX_DESCRIPTION_CHARACTERS]
        raise PoolError(
            f"{source}, {description}. That gives {format_count(n_agents, 'agent')}, and a ranking needs {MIN_AGENTS}. "
            f"{_suggest_more_agents(imported, source, pool_path, format_name)}",
            slug="init-columns",
        )


def _suggest_more_agents(imported: ImportedPool, source: Path, pool_path: Path, format_name: str) -> str:
    """Suggest how to add agents to an imported pool that has too few of them for a ranking.

    imported : the pool, with a description of the columns that were used
    source : file or folder that was imported
    pool_path : path at which the pool is written
    format_name : name of the import format, "table" for a table

    Returns a sentence for an error message, with a command if one is useful.
    """
    if format_name != "table":
        return "Pass a folder with the files of all agents."

    # the importer describes a table with one column per agent in these words
    has_column_per_agent = "agents by each of" in imported.used_columns
    if has_column_per_agent:
        agents = ",".join(agent.id for agent in imported.pool.agents)
        command = format_command(["youden", "init", str(source), "--column", f"text={agents},NAME"])
        return f"If other columns hold responses, add their names: {command}"

    unread_sheets = [note for note in imported.notes if note.startswith(SHEETS_NOT_READ)]
    if unread_sheets:
        return f"If other sheets hold responses of agents, give their columns the names of the first sheet: {unread_sheets[0]}"

    if imported.left_out.get(COPIED_RESPONSE):
        command = format_command(["youden", "init", str(source), "--column", "repeat=rows"])
        return f"If rows with equal responses are further responses of the agent, and not copies, keep them: {command}"

    options = f"--column agent=NAME --column text=NAME --out {pool_path.as_posix()}"
    command = f"youden import table {format_command([str(source)])} {options}"
    return (
        "If each agent has a column, name all of them: --column text=NAME,NAME,NAME. Otherwise, rename the column with the "
        f"agents to `model`, or pass its name: {command}"
    )


def _update_pool(
    source: Path, file: Path, pool_path: Path, columns: Mapping[str, str], report: Callable[[ImportedPool], None]
) -> FirstConfig:
    """Add new agents, items and responses of a source to the pool of an existing config.

    Without a judged run, the pool itself is updated. A judged run keeps its pool; the updated pool is written to a new
    folder, from which the run can be extended.

    source : files with the agents, items and responses
    file : config
    pool_path : path of the pool
    columns : field of the pool → column of the table
    report : function that is called with the imported pool

    Returns the config with the updated pool. Raises ConfigError [init-exists] if the config has another pool.
    """
    config = load_run_config(file)
    config_pool = Path(config.pool).resolve()
    if config_pool not in (source.resolve(), pool_path.resolve()):
        raise ConfigError(
            f"{file} exists already, and its pool is {config.pool}. Set another --out, or remove the file.",
            slug="init-exists",
        )
    run = RunFolder(config.folder)
    is_judged = run.is_judged and run.has("plan.parquet")
    pool = run.read_judged_pool() if is_judged else read_pool(config.pool, empty=config.empty)
    imported = None
    if config_pool == source.resolve():
        check_unused(f"The pool {source}", column=columns)
    else:
        imported = _import_if_needed(source, pool_path, columns=columns, known_pool=pool)
    if imported is not None:
        report(imported)

    source_pool = read_pool(source) if imported is None else imported.pool
    merge = merge_pools(pool, source_pool, keep=is_judged)
    if is_judged and merge.pool.digest != pool.digest:
        pool_path = _find_free_path(pool_path, merge.pool.digest)
        write_imported_pool(merge.pool, pool_path)
    elif not is_judged and config_pool != source.resolve():
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
    """Return the first of the paths NAME-2, NAME-3, … at which there is nothing, or a pool with this digest."""
    paths = (pool_path.with_name(f"{pool_path.name}-{number}") for number in count(2))
    return next(path for path in paths if not path.exists() or _is_pool_with_digest(path, digest))


def _is_pool_with_digest(path: Path, digest: str) -> bool:
    """Return whether a path is the folder of a pool with a given digest."""
    return (path / RESPONSES).is_file() and read_pool(path).digest == digest


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
    config. An existing config is not changed. Only its pool is updated: agents, items and responses that were added to the files
    since then are added to it. NAME is the name of the config without its suffix. Missing folders are created.

    Parameters
    ----------
    pool : Path
        Folder of a pool, or a file or folder that can be imported.
    out : Path, optional
        The config. Default: a file in the current directory with the name of `pool` (without suffix, at most 100 characters, and
        with "-" in place of characters other than letters, digits and _.+-) and the suffix .yaml.
    judge : str, optional
        Name or file of the judge. Default: a model if its API key is in `environment`, else the offline judge.
    columns : mapping
        Field (agent, item, text, prompt, group or repeat) → name of the column of a table. If empty, the columns are inferred.
    environment : mapping
        Environment variables, searched for the API key of the default judge.
    report : callable, optional
        Called with the imported pool before anything is written; not called if nothing is imported.

    Returns
    -------
    FirstConfig
        Paths of config and pool, the pool, and the estimated calls and USD; for an existing config, also what was added.

    Raises
    ------
    PoolError
        [init-columns]: if too few agents were found. Also if the pool cannot be read.
    ImportFormatError
        If the files cannot be imported. [out-not-empty]: if `pools/NAME` contains a run or other files.
    ConfigError
        [init-suffix]: if the name of the config does not end in .yaml or .yml. [init-exists]: if the config exists, and
        either has another pool or `judge` was passed. [run-config]: if the name of the config cannot be that of a run.
        [option-unused]: if `columns` are set and the source is a pool. [unknown-judge]: if there is no such judge.
    PlanError
        If the pool cannot be ranked.
    """
    name = re.sub(r"[^\w.+-]", "-", pool.resolve().stem).lstrip(".+-")[:100] or "pool"
    file = Path(f"{name}.yaml") if out is None else out
    pool_path = Path("pools") / (name if out is None else file.stem)
    source = pool
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(
            f"The name of a config ends in .yaml: got '{file}'. Set --out {file}.yaml.", slug="init-suffix"
        )
    if file.exists() and file.resolve() != source.resolve():
        if judge is not None:
            raise ConfigError(
                f"{file} exists already, and is not changed. Remove --judge, or set another --out.", slug="init-exists"
            )
        return _update_pool(source, file, pool_path, columns, report)
    run_config_from_keys({"name": file.stem, "pool": str(pool)}, origin=f"--out {file}")  # checks the name

    imported = _import_if_needed(source, pool_path, columns=columns)
    if imported is None:
        pool_path = source
        ranked_pool = read_pool(source)
    else:
        check_output_folder(pool_path)
        report(imported)
        ranked_pool = imported.pool

    online_judge = load_judge_config(ONLINE_JUDGE)
    has_key = _find_replacing_file(ONLINE_JUDGE, file) is None and online_judge.find_key(environment)[0] is not None
    default_judge = ONLINE_JUDGE if has_key else OFFLINE_JUDGE
    judge_config = load_judge_config(judge or default_judge)
    alternative_config = online_judge if judge_config.name != ONLINE_JUDGE else load_judge_config(OFFLINE_JUDGE)
    judge_name = judge or judge_config.name

    config = RunConfig.model_validate({"name": name, "pool": str(pool_path), "judge": judge_name})
    cost = estimate_run_cost(config, ranked_pool)
    cost_for_cap = cost
    makes_calls = any(member.makes_calls for member in judge_config.judges or (judge_config,))
    if not makes_calls:
        cost_for_cap = estimate_run_cost(config.model_copy(update={"judge": ONLINE_JUDGE}), ranked_pool)
    if imported is not None:
        write_imported_pool(ranked_pool, pool_path)

    text = _format_config(
        file,
        ranked_pool,
        cost,
        cost_for_cap,
        lines={
            "pool": _format_entry("pool", _format_pool_reference(pool_path, file)),
            "judge": _format_entry("judge", _format_judge_reference(judge_name, file)),
            "alternative_judge": f"# {_format_entry('judge', _format_judge_reference(alternative_config.name, file))}",
        },
        key_variable=online_judge.key_variable,
        makes_calls=makes_calls,
    )
    _write_config(file, text)
    findings = tuple(find_judge_problems(judge_config, ranked_pool))
    return FirstConfig(file, ranked_pool, cost, pool_path, imported, source, findings=findings)


def _is_pool_without_blank_texts(table: Path) -> bool:
    """Return whether a file can be read as a pool and has no text that consists only of white space."""
    if table.suffix.lower() not in POOL_TABLES or not has_pool_columns(table):
        return False
    try:
        pool = read_pool(table)
    except PoolError:
        return False
    return all(text is None or text.strip() for text in pool.all_texts.ravel())


def _format_config(
    file: Path,
    pool: Pool,
    cost: DesignCost,
    cost_for_cap: DesignCost,
    *,
    lines: Mapping[str, str],
    key_variable: str | None,
    makes_calls: bool,
) -> str:
    """Format a commented config for a pool.

    file : path of the config
    pool : pool that the config names, which a comment describes
    cost : estimated cost of the plan with the judge of the config
    cost_for_cap : estimated cost from which the cost cap is derived: `cost` if the judge makes calls. A judge that makes no calls
        costs nothing; then it is the cost with `ONLINE_JUDGE`, which the config suggests as an alternative.
    lines : lines of the config by their placeholder in `_TEMPLATE`: "pool", "judge", and "alternative_judge", a comment
    key_variable : environment variable with the API key of `ONLINE_JUDGE`
    makes_calls : whether the judge of the config makes calls. If it does not, the cost cap is only a comment.
    """
    max_cost = f"max_cost: {_suggest_cap(cost_for_cap.usd):.2f}"
    if not makes_calls:
        max_cost = f"# {max_cost}"

    purpose, settings = "ranks the agents", _PLAN_SETTINGS
    if needs_self_trials(pool):
        purpose, settings = "measures the self-consistency of the agents", _SELF_PLAN_SETTINGS

    return _TEMPLATE.format(
        schema=SCHEMA,
        file=format_command([str(file)]),
        pool_summary=_describe_pool(pool),
        pool=lines["pool"],
        judge=lines["judge"],
        alternative_judge=lines["alternative_judge"],
        key=key_variable,
        cost=_describe_cost(cost_for_cap),
        max_cost=max_cost,
        purpose=purpose,
        plan_settings=settings.format(calls=cost.calls),
    )


def _write_config(file: Path, text: str) -> None:
    """Write a config that does not exist yet, and the schema of configs next to it."""
    schema_file = file.parent / SCHEMA
    schema_file.parent.mkdir(parents=True, exist_ok=True)
    schema = json.dumps(build_config_schema(), ensure_ascii=False, indent=1)
    schema_file.write_text(schema + "\n", encoding="utf-8")
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)


def build_config_schema() -> dict[str, Any]:
    """Build the JSON Schema of a config of a run, in which the key `name` is optional."""
    schema: dict[str, Any] = RunConfig.model_json_schema()
    schema["$schema"] = SCHEMA_DIALECT
    schema["required"].remove("name")
    for name, field in RunConfig.model_fields.items():
        schema["properties"][name]["description"] = next(note.text for note in field.metadata if isinstance(note, Key))
    return schema


def _describe_pool(pool: Pool) -> str:
    """Describe the size of a pool in one line, for a comment in the config."""
    responses = format_responses(pool.n_agents * pool.n_items - pool.n_missing, pool.n_responses, pool.n_missing)
    groups = {agent.group for agent in pool.agents} - {None}
    n_prompts = sum(bool(item.prompt) for item in pool.items)
    return (
        f"{format_count(pool.n_agents, 'agent')} × {format_count(pool.n_items, 'item')}: {responses}; "
        f"{format_count(len(groups), 'group')} of agents; {format_count(n_prompts, 'item')} with a prompt."
    )


def _describe_cost(cost: DesignCost) -> str:
    """Describe the number of calls of a plan and their price in one sentence, for a comment in the config."""
    usd = "at an unknown price" if cost.usd is None else f"about ${cost.usd:,.2f}"
    return f"This plan is {format_count(cost.calls, 'call')}, {usd} with {cost.judge}."


def _suggest_cap(usd: float | None) -> float:
    """Return a cost cap of 1.5 times the estimated cost, rounded up to 5 cents; 1 USD if the cost is unknown."""
    if usd is None:
        return 1.0
    steps_per_usd = 20
    return max(math.ceil(usd * 1.5 * steps_per_usd) / steps_per_usd, 0.05)


def _format_entry(key: str, value: str) -> str:
    """Format a line of a YAML file."""
    return yaml.safe_dump({key: value}, allow_unicode=True, width=1000).strip()


def _format_pool_reference(pool_path: Path, file: Path) -> str:
    """Return the value of `pool` in the config: the path from the config's folder, or datasets/NAME for a shipped pool."""
    is_shipped = pool_path.parts[:1] == ("datasets",) and not pool_path.exists()
    if is_shipped:
        return str(pool_path)
    return Path(os.path.relpath(pool_path, file.parent)).as_posix()


def _format_judge_reference(judge: str, file: Path) -> str:
    """Return the value of the key `judge` in the config: the name of the judge, or the path of its file.

    A path is used if the user named the judge by a path, or if a local file replaces the shipped judge of this name. The path is
    relative to the folder of the config.

    judge : name or path that the user passed
    file : path of the config
    """
    is_path = judge.lower().endswith((".yaml", ".yml"))
    judge_file = Path(judge) if is_path else _find_replacing_file(judge, file)
    if judge_file is None:
        return judge
    return Path(os.path.relpath(judge_file, file.parent)).as_posix()


def _find_replacing_file(judge: str, file: Path) -> Path | None:
    """Find a local file that replaces the shipped judge of the same name, and report it; None if there is none.

    judge : name of the judge
    file : path of the config, near which the local file may be
    """
    path = find_nearby_judge(judge, file.parent) or find_local_judge(judge)
    if path is None:
        return None
    hides_shipped_judge = report_hidden_judge(judge, path)
    return path if hides_shipped_judge else None
