"""A pool brought in from other people's files, and a first config for one: what was found, what may be said besides, and
what it would cost.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from youden.data.folder.run_config import RunConfig
from youden.data.importers import IMPORTERS
from youden.data.importers.loose_table import table_rows
from youden.data.importers.pool_joiner import ImportedPool, write_imported
from youden.data.pools.pool_reader import RESPONSES, read_pool
from youden.errors import ConfigError, ImportFormatError, PoolError, YoudenError
from youden.judging.config.judge_files import load_judge_config
from youden.nouns import Pool
from youden.pools.look.check import cost_of_run
from youden.pools.look.checked import DesignCost

TABLES = frozenset({"table", "hf-dataset"})
MAX_DROPPED = 0.01
"""The share of responses that an import may lose without being told that it may."""


def bring(
    format_: str,
    paths: Sequence[Path],
    out: Path,
    *,
    columns: Mapping[str, str] | None = None,
    hub: Mapping[str, str] | None = None,
    allow_dropped: bool = False,
) -> ImportedPool:
    """Import files of one format into the pool's folder `out`.

    columns: agent, item, text, prompt or group → a column's name, for tables only. hub: split, revision and subset of a dataset
    on the Hugging Face Hub. allow_dropped: go on, however many responses cannot be used.

    Raises: ConfigError [unknown-format], [import-columns]; ImportFormatError naming file and place,
    [import-dropped] where more than 1 % of the responses cannot be used, [import-other] where `out` holds a run or another pool.
    """
    read = IMPORTERS.load(format_)
    if columns and format_ not in TABLES:
        raise ConfigError(
            f"The format '{format_}' has no columns to name, but {', '.join(columns)} was given. Leave --column out.",
            slug="import-columns",
        )
    if hub and format_ != "hf-dataset":
        raise ConfigError(
            f"The format '{format_}' reads files, but --{', --'.join(hub)} was given, which is of a dataset on the Hub. "
            "Leave it out.",
            slug="import-columns",
        )
    imported = read(paths, columns=columns or {}, **({"hub": hub} if hub else {}))
    if imported.share_dropped > MAX_DROPPED and not allow_dropped:
        n_all = imported.n_dropped + int(imported.pool.present.sum())
        raise ImportFormatError(
            f"{imported.n_dropped:,} of {n_all:,} responses would be lost ({imported.share_dropped:.0%}; {MAX_DROPPED:.0%} may): "
            f"{'; '.join(imported.dropped)}. Give files in which each agent answers an item once, or go on without them: "
            "--allow-dropped.",
            slug="import-dropped",
        )
    write_imported(imported.pool, out)
    return imported


READS, OFFLINE = "gpt-4o-mini", "lexical"
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_CALLED = {
    "agent": ("model", "model_name", "model_id", "generator", "system", "assistant", "provider"),
    "item": ("item_id", "question_id", "prompt_id", "task_id", "example_id", "instance_id", "doc_id", "task", "id"),
    "text": ("response", "output", "answer", "completion", "generation", "prediction", "content"),
    "prompt": ("instruction", "question", "input", "query"),
    "group": ("family", "category"),
}
"""What other people call the columns of a pool, the surest name first."""

_TEXT = """\
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

# Which comparisons are made: cyclic spreads them evenly over agents and items. How many, one of these says; where none does,
# it is 450 comparisons an agent, or every comparison where there are fewer.
design: cyclic
# calls: {calls}
# trials: 60            # an agent
# width: 0.05           # ask in rounds until nine in ten agents are known to ± 0.05

# What intervals describe: more items like these, or `these-items` alone.
target: items-like-these

# Draws the comparisons. Another seed makes others.
seed: 0
"""


class Begun(NamedTuple):
    """A config that was written, and what it says. cost: of its plan with its judge."""

    file: Path
    pool: Pool
    cost: DesignCost


def find_pool(start: Path) -> Path:
    """The one pool in `start`, or in a folder of it. Raises: PoolError [init-none], [init-several]."""
    folders = [start, *sorted(one for one in start.iterdir() if one.is_dir() and not one.name.startswith("."))]
    found = [folder for folder in folders if (folder / RESPONSES).is_file()]
    found += [file for file in sorted(start.iterdir()) if file.suffix.lower() in (".csv", ".parquet") and _fits(file)]
    if not found:
        raise PoolError(
            "There is no pool here: no CSV or Parquet file with the columns agent, item and text, and no folder with "
            f"{RESPONSES}. Name one: youden init FILE. What other tools made is brought by `youden import`; to see one at work, "
            "`youden demo`.",
            slug="init-none",
        )
    if len(found) > 1:
        names = ", ".join(str(one) for one in found[:6]) + (" …" if len(found) > 6 else "")
        raise PoolError(f"There are {len(found)} pools here: {names}. Name one: youden init FILE.", slug="init-several")
    return found[0]


def write_first_config(
    pool: Path, *, out: Path | None = None, judge: str | None = None, environment: Mapping[str, str]
) -> Begun:
    """A commented config for `pool` in the file `out` (NAME.yaml here). judge: None for the one that can be asked: one that reads
    where its key is in `environment`, else the offline one.

    Raises: PoolError, as reading does, and [init-columns] with the command that brings a table whose columns are called
    otherwise; ConfigError [init-exists]; PlanError where the pool cannot be ranked.
    """
    name = re.sub(r"[^\w.+-]", "-", pool.resolve().stem).lstrip(".+-")[:100] or "pool"
    file = Path(f"{name}.yaml") if out is None else out
    if pool.is_file() and not _fits(pool):
        raise _other_columns(pool, name)
    read = read_pool(pool)
    if file.exists():
        raise ConfigError(f"{file} is there already. Give another --out, or delete it.", slug="init-exists")
    reads = load_judge_config(READS)
    chosen = load_judge_config(judge or (READS if environment.get(reads.key_variable or "") else OFFLINE))
    other = reads if chosen.name != READS else load_judge_config(OFFLINE)
    asked = judge or chosen.name
    config = RunConfig.model_validate({"name": name, "pool": str(pool), "judge": asked})
    cost = cost_of_run(config)
    paid = cost if chosen.makes_calls else cost_of_run(config.model_copy(update={"judge": READS}))
    shipped = pool.parts[:1] == ("datasets",) and not pool.exists()
    place = str(pool) if shipped else Path(os.path.relpath(pool, file.parent)).as_posix()
    cap = f"max_cost: {_cap(paid.usd):.2f}"
    text = _TEXT.format(
        file=shlex.quote(str(file)),
        found=_found(read),
        pool=_line("pool", place),
        judge=_line("judge", _judge_from(asked, file)),
        other=f"# {_line('judge', other.name)}",
        key=reads.key_variable,
        cost=_costs(paid),
        max_cost=cap if chosen.makes_calls else f"# {cap}",
        calls=cost.calls,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    return Begun(file, read, cost)


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
    """A judge given by a path is named from the config's own folder."""
    path = judge.endswith((".yaml", ".yml"))
    return Path(os.path.relpath(judge, file.parent)).as_posix() if path else judge


def _fits(file: Path) -> bool:
    """Whether a table has the columns of a pool, or cannot be looked into, which reading then says better."""
    return {"agent", "item", "text"} <= set(_columns(file) or ("agent", "item", "text"))


def _columns(file: Path) -> list[str]:
    if file.suffix.lower() not in _TABLES:
        return []
    try:
        return [str(name) for name in next(iter(table_rows(file)))[1]]
    except (YoudenError, StopIteration):
        return []


def _other_columns(file: Path, name: str) -> PoolError:
    """Says which command brings the table, with its columns guessed where their names are usual ones."""
    present = _columns(file)
    lower = {column.lower(): column for column in present}
    guessed = {
        noun: lower[found]
        for noun, names in _CALLED.items()
        if (found := next((n for n in (noun, *names) if n in lower), ""))
    }
    words = ["youden", "import", "table", str(file), "--out", f"pools/{name}"]
    for noun in ("agent", "item", "text", "prompt", "group"):
        if noun in guessed:
            words += [] if guessed[noun] == noun else ["--column", f"{noun}={guessed[noun]}"]
        elif noun in ("item", "text"):
            words += ["--column", f"{noun}=NAME"]
    shown = ", ".join(present[:12]) + (" …" if len(present) > 12 else "")
    return PoolError(
        f"{file} has the columns {shown}; a pool's table has agent, item and text, and perhaps prompt and group. Bring it with "
        f"`{shlex.join(words)}`, then `youden init pools/{name}`.",
        slug="init-columns",
    )
