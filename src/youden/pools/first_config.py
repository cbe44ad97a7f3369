"""A pool brought in from other people's files, and a first config for one: what was found, what may be said besides, and
what it would cost.
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

from youden.data.folder.joined_pools import GrownPool, grown
from youden.data.folder.run_config import RunConfig, judge_beside, load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.importers import IMPORTERS
from youden.data.importers.pool_joiner import SECOND_RESPONSE, ImportedPool, refuse_other, write_imported
from youden.data.importers.recognised_files import recognised_format
from youden.data.importers.table_files import ENDINGS, table_rows
from youden.data.importers.table_import import read_table, unknown_layout
from youden.data.pools.pool_reader import RESPONSES, TO_GENERATE, read_pool, write_pool
from youden.errors import ConfigError, ImportFormatError, PoolError, YoudenError
from youden.judging.config.judge_files import load_judge_config, local_judge, report_judge_shadow
from youden.pools.checks.check import cost_of_run
from youden.pools.checks.checked import DesignCost
from youden.run_keys import Key
from youden.text.printable import typed
from youden.text.sentences import counted
from youden.types import Pool

TABLES = frozenset({"table", "hf-dataset"})
TRACES = frozenset({"inspect", "opentelemetry"})
_AS_FORMAT = "files in the format `{}`"
MOST_TAKEN = 200
"""Maximum number of characters that an error repeats of the description of columns."""
MAX_DROPPED = 0.01
"""The share of responses that an import may lose without being told that it may."""


def bring(
    format_: str,
    paths: Sequence[Path],
    out: Path,
    *,
    columns: Mapping[str, str] | None = None,
    text: str = "answer",
    hub: Mapping[str, str] | None = None,
    allow_dropped: bool = False,
) -> ImportedPool:
    """Import files of one format into the pool's folder `out`.

    columns: agent, item, text, prompt or group → a column's name, for tables only. text: `answer`, or `transcript` of a format in
    `TRACES`, so that a response is all that an agent did. hub: split, revision and subset of a dataset
    on the Hugging Face Hub. allow_dropped: go on, however many responses cannot be used.

    Raises: ConfigError [unknown-format], [import-columns]; ImportFormatError naming file and place,
    [import-dropped] where more than 1 % of the responses cannot be used, [import-other] where `out` holds a run or another pool.
    """
    recognised = recognised_format(paths) if format_ == "table" and not columns else None
    format_ = recognised or format_
    read = IMPORTERS.load(format_)
    if columns and format_ not in TABLES:
        raise ConfigError(
            f"The format '{format_}' has no columns to name, but {', '.join(columns)} was given. Leave --column out.",
            slug="import-columns",
        )
    if text != "answer" and format_ not in TRACES:
        raise ConfigError(
            f"The format '{format_}' holds answers alone, but --text {text} was given. Leave it out; transcripts are in: "
            f"{', '.join(sorted(TRACES))}.",
            slug="import-columns",
        )
    if hub and format_ != "hf-dataset":
        raise ConfigError(
            f"The format '{format_}' reads files, but --{', --'.join(hub)} was given, which is of a dataset on the Hub. "
            "Leave it out.",
            slug="import-columns",
        )
    imported = read(
        paths, columns=columns or {}, **({"hub": hub} if hub else {}), **({"text": text} if format_ in TRACES else {})
    )
    if recognised is not None:
        imported = replace(imported, taken=_AS_FORMAT.format(recognised))
    if not allow_dropped:
        _refuse_losses(imported)
    _refuse_unshared(imported, paths[0], format_)
    write_imported(imported.pool, out)
    return imported


def _refuse_unshared(imported: ImportedPool, path: Path, format_: str) -> None:
    """Refuse a pool of several agents in which no item has responses of two agents.

    Raises: ImportFormatError [import-columns], [import-unshared].
    """
    is_explicit = format_ in TABLES and not imported.taken  # every column is named, so that none is guessed wrongly
    if is_explicit or imported.pool.n_agents < 2 or (imported.pool.present.sum(axis=0) > 1).any():
        return
    if format_ in TABLES:
        raise unknown_layout(path, f"no item has responses of two agents ({imported.taken[:MOST_TAKEN]})", ())
    raise ImportFormatError(
        f"{path}: no item has responses of two agents: got {counted(imported.pool.n_agents, 'agent')} and "
        f"{counted(imported.pool.n_items, 'item')}. Pass files in which the agents respond to the same items.",
        slug="import-unshared",
    )


def _refuse_losses(imported: ImportedPool) -> None:
    if imported.share_dropped > MAX_DROPPED:
        has_second = SECOND_RESPONSE in imported.left_out
        columns = " If several columns name an item together, add --column item=A+B; if one numbers repeats, --column repeat=A."
        n_all = imported.n_dropped + imported.pool.n_responses
        raise ImportFormatError(
            f"{imported.n_dropped:,} of {n_all:,} responses would be lost ({imported.share_dropped:.0%}; {MAX_DROPPED:.0%} may): "
            f"{'; '.join(imported.dropped)}. Give files in which each agent answers an item once, or go on without them: "
            f"`youden import … --allow-dropped`.{columns * has_second}",
            slug="import-dropped",
        )


READS, OFFLINE = "gpt-4o-mini", "lexical"
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA = ".youden/config.schema.json"
"""Beside a config: what an editor completes and checks it by."""
LEAST_AGENTS = 3
_TEXT = """\
# yaml-language-server: $schema={schema}
# Made by `youden init`. A line that starts with # is a comment: it explains, or holds what you may say as well.
#   youden check {file}     what is wrong with the pool, and what judging it takes
#   youden run {file}       ranks; the same command goes on where it stopped

# {found}
{pool}

# Who compares. `lexical` is offline and free, and sees only which words two texts share. `gpt-4o-mini` reads; it needs
# {key} in the environment. A judge of your own is a file judges/NAME.yaml beside this one; `youden doctor NAME` tries it.
{judge}
{other}

# The most that one command may spend, in USD. {cost}
{max_cost}

# Which comparisons are made: cyclic spreads them evenly over agents and items. `calls` or `width` limits their number; the
# default is 450 comparisons per agent, or every comparison if there are fewer.
design: cyclic
# calls: {calls}        # or calls: 5%, of all possible calls; or calls: 60/agent
# width: 0.05           # ask in rounds until nine in ten agents are known to ± 0.05

# What intervals describe: more items like these, or `these-items` alone.
target: items-like-these

# Draws the comparisons. Another seed makes others.
seed: 0
"""


class FirstConfig(NamedTuple):
    """A config that was written, and what it says.

    cost: of its plan with its judge. place: of the pool. imported: what was made one; None where it was one. source: what the
    user named. grown: what came to the pool of a config that was there already, and stays as it is; run: the judged run that this
    may join.
    """

    file: Path
    pool: Pool
    cost: DesignCost
    place: Path
    imported: ImportedPool | None
    source: Path
    grown: GrownPool | None = None
    run: RunFolder | None = None


def find_pool(start: Path) -> Path:
    """The one pool in `start`, or in a folder of it. Raises: PoolError [init-none], [init-several]."""
    folders = [start, *sorted(one for one in start.iterdir() if one.is_dir() and not one.name.startswith("."))]
    tables = [file for file in sorted(start.iterdir()) if file.is_file() and file.suffix.lower() in ENDINGS]
    found = [folder for folder in folders if (folder / RESPONSES).is_file()]
    found += [file for file in tables if file.suffix.lower() in (".csv", ".parquet") and _fits(file)]
    found = found or tables
    if not found:
        raise PoolError(
            f"There is no pool here: no table ({', '.join(ENDINGS)}), and no folder with {RESPONSES}. Name one: "
            "youden init FILE. What other tools made is brought by `youden import`; to see one at work, `youden demo`.",
            slug="init-none",
        )
    if len(found) > 1:
        names = ", ".join(str(one) for one in found[:6]) + (" …" if len(found) > 6 else "")
        raise PoolError(f"There are {len(found)} pools here: {names}. Name one: youden init FILE.", slug="init-several")
    return found[0]


def _bring_any(
    path: Path, place: Path, *, columns: Mapping[str, str], known: Pool | None = None
) -> ImportedPool | None:
    """Import what `path` holds, as the pool that will be at `place`; None if it is a pool.

    `columns` gives the roles of columns of a table, `known` is the pool that was made of the same path before.
    """
    format_ = None if (path / RESPONSES).is_file() else recognised_format([path])
    if format_ is not None and (not columns or format_ in TABLES):
        imported = IMPORTERS.load(format_)([path], columns=columns)
        return _checked(replace(imported, taken=_AS_FORMAT.format(format_)), path, place, format_)
    bare = path.is_dir() and not (path / RESPONSES).is_file() and not (path / TO_GENERATE).is_file()
    if not bare and not (path.is_file() and path.suffix.lower() in ENDINGS):
        return None
    if not bare and not columns and path.suffix.lower() in (".csv", ".parquet") and _fits(path):
        with suppress(PoolError):
            if all(text is None or text.strip() for row in read_pool(path).texts for text in row):
                return None
    return _checked(read_table([path], columns=columns, exact=False, known=known), path, place, "table")


def _checked(imported: ImportedPool, path: Path, place: Path, format_: str) -> ImportedPool:
    """Return the pool if it can be ranked. Raises: ImportFormatError; PoolError [init-columns]."""
    _refuse_losses(imported)
    _refuse_unshared(imported, path, format_)
    if imported.pool.n_agents < LEAST_AGENTS:
        agents = f"That makes {counted(imported.pool.n_agents, 'agent')}, and a ranking needs {LEAST_AGENTS}."
        command = (
            f"youden import table {typed([str(path)])} --column agent=NAME --column text=NAME --out {place.as_posix()}"
        )
        raise PoolError(
            f"{path}, {imported.taken[:MOST_TAKEN]}. {agents} "
            + (
                f"Rename the column with the agents to `model`, or pass its name: {command}"
                if format_ == "table"
                else "Pass a folder with the files of all agents."
            ),
            slug="init-columns",
        )
    return imported


def _take_more(
    source: Path, file: Path, place: Path, columns: Mapping[str, str], report: Callable[[ImportedPool], None]
) -> FirstConfig:
    """What came to the pool of the config `file` since it was written. Before a run is judged the pool takes it; a judged run
    keeps its pool, and the whole stands in a new folder, from which it can join. Raises: ConfigError [init-exists]."""
    config = load_run_config(file)
    own = Path(config.pool).resolve()
    if own not in (source.resolve(), place.resolve()):
        raise ConfigError(
            f"{file} is there already, and its pool is {config.pool}. Give another --out, or delete it.",
            slug="init-exists",
        )
    run = RunFolder(config.folder)
    judged = run.has("verdicts.parquet") and run.has("plan.parquet")
    known = run.run_pool() if judged else read_pool(config.pool)
    imported = None if own == source.resolve() else _bring_any(source, place, columns=columns, known=known)
    if imported is not None:
        report(imported)
    found = grown(known, read_pool(source) if imported is None else imported.pool, keep=judged)
    if judged and found.pool.digest != known.digest:
        place = next(
            free
            for n in count(2)
            if not (free := place.with_name(f"{place.name}-{n}")).exists()
            or ((free / RESPONSES).is_file() and read_pool(free).digest == found.pool.digest)
        )
        write_imported(found.pool, place)
    elif not judged and imported is not None:
        write_pool(found.pool, place)
    else:
        place = Path(config.pool)
    return FirstConfig(file, found.pool, cost_of_run(config), place, imported, source, found, run if judged else None)


def write_first_config(
    pool: Path,
    *,
    out: Path | None = None,
    judge: str | None = None,
    columns: Mapping[str, str],
    environment: Mapping[str, str],
    report: Callable[[ImportedPool], None] = lambda _: None,
) -> FirstConfig:
    """A commented config for `pool` in the file `out` (NAME.yaml here). judge: None for the one that can be asked: one that reads
    where its key is in `environment`, else the offline one.

    Whatever table or texts people have become the pool `pools/NAME` first; the schema of a config is written beside it. A config
    that is there stays as it is, and what came to its pool since is taken. `columns` gives the roles of columns
    of a table; `report` is called with an imported pool before anything is written.

    Raises: PoolError, as reading does, and [init-columns] where too few agents were found; ImportFormatError; ConfigError
    [init-exists] where a config of another pool is there; PlanError where the pool cannot be ranked.
    """
    name = re.sub(r"[^\w.+-]", "-", pool.resolve().stem).lstrip(".+-")[:100] or "pool"
    file = Path(f"{name}.yaml") if out is None else out
    place, source = Path("pools") / (name if out is None else file.stem), pool
    if file.exists() and file.resolve() != pool.resolve():
        if judge is not None:
            raise ConfigError(
                f"{file} is there already, and stays as it is. Leave --judge out, or give another --out.",
                slug="init-exists",
            )
        return _take_more(pool, file, place, columns, report)
    if (imported := _bring_any(pool, place, columns=columns)) is not None:
        refuse_other(place)
        report(imported)
        pool = place
    read = read_pool(pool) if imported is None else imported.pool
    reads = load_judge_config(READS)
    may_read = _shadow_of(READS, file) is None and reads.key_found(environment)[0] is not None
    chosen = load_judge_config(judge or (READS if may_read else OFFLINE))
    other = reads if chosen.name != READS else load_judge_config(OFFLINE)
    asked = judge or chosen.name
    config = RunConfig.model_validate({"name": name, "pool": str(pool), "judge": asked})
    cost = cost_of_run(config, read)
    paid = cost if chosen.makes_calls else cost_of_run(config.model_copy(update={"judge": READS}), read)
    if imported is not None:
        write_imported(read, place)
    shipped = pool.parts[:1] == ("datasets",) and not pool.exists()
    where = str(pool) if shipped else Path(os.path.relpath(pool, file.parent)).as_posix()
    cap = f"max_cost: {_cap(paid.usd):.2f}"
    text = _TEXT.format(
        schema=SCHEMA,
        file=typed([str(file)]),
        found=_found(read),
        pool=_line("pool", where),
        judge=_line("judge", _judge_from(asked, file)),
        other=f"# {_line('judge', _judge_from(other.name, file))}",
        key=reads.key_variable,
        cost=_costs(paid),
        max_cost=cap if chosen.makes_calls else f"# {cap}",
        calls=cost.calls,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = file.parent / SCHEMA
    schema.parent.mkdir(exist_ok=True)
    schema.write_text(json.dumps(config_schema(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    return FirstConfig(file, read, cost, pool, imported, source)


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of a config that is written by hand, whose name may be that of its file."""
    schema: dict[str, Any] = RunConfig.model_json_schema()
    schema["$schema"] = SCHEMA_DIALECT
    schema["required"].remove("name")
    for name, field in RunConfig.model_fields.items():
        schema["properties"][name]["description"] = next(note.text for note in field.metadata if isinstance(note, Key))
    return schema


def _found(pool: Pool) -> str:
    n = pool.n_agents * pool.n_items - pool.n_missing
    groups = {agent.group for agent in pool.agents} - {None}
    prompts = sum(bool(item.prompt) for item in pool.items)
    return (
        f"{pool.n_agents:,} agents × {pool.n_items:,} items: {n:,} responses, {pool.n_missing:,} missing; "
        f"{len(groups):,} groups of agents; {prompts:,} items with a prompt."
    )


def _costs(cost: DesignCost) -> str:
    usd = "at a price that its config does not say" if cost.usd is None else f"about ${cost.usd:,.2f}"
    return f"This plan is {cost.calls:,} calls, {usd} with {cost.judge}."


def _cap(usd: float | None) -> float:
    """Half as much again as it should cost, in whole 5 cents."""
    return 1.0 if usd is None else max(math.ceil(usd * 1.5 * 20) / 20, 0.05)


def _line(key: str, value: str) -> str:
    return yaml.safe_dump({key: value}, allow_unicode=True, width=1000).strip()


def _judge_from(judge: str, file: Path) -> str:
    """Return the judge as the config names it: by a path from the config's folder if it was given by a path, or if it is a local
    file with the name of a shipped judge."""
    path = judge if judge.endswith((".yaml", ".yml")) else _shadow_of(judge, file)
    return judge if path is None else Path(os.path.relpath(path, file.parent)).as_posix()


def _shadow_of(judge: str, file: Path) -> Path | None:
    """Find the local file that the config `file` would use for the name of a shipped judge; None if there is none."""
    path = judge_beside(judge, file.parent) or local_judge(judge)
    return path if path is not None and report_judge_shadow(judge, path) else None


def _fits(file: Path) -> bool:
    """Whether a table has the columns of a pool, or cannot be looked into, which reading then says better."""
    return {"agent", "item", "text"} <= set(_columns(file) or ("agent", "item", "text"))


def _columns(file: Path) -> list[str]:
    try:
        return [str(name) for name in next(iter(table_rows(file)))[1]]
    except (YoudenError, StopIteration):
        return []
