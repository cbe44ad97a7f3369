"""Define the commands before a first run: `init`, `check` and `completion`. None of them sends a request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from youden.cli import options, output, run_options
from youden.errors import YoudenError
from youden.text.printable import format_command, printable
from youden.text.sentences import describe_empty_responses, format_count, format_responses
from youden.text.tables import make_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from youden.data.folder.joined_pools import MergedPool
    from youden.data.folder.run_folder import RunFolder
    from youden.data.importers.pool_joiner import ImportedPool
    from youden.pools.checks.checked import Counts, PoolCheck
    from youden.pools.first_config import FirstConfig
    from youden.types import Finding
    from youden.types.pool import Json


@click.command("check")
@options.pool_or_config
@options.seed_option("the sample of items that is checked in a large pool")
@click.option("--all", "all_designs", is_flag=True, help="Show the cost of every design with every judge.")
@options.json
def check_command(source: Path, seed: int, all_designs: bool, as_json: bool) -> None:
    """Check a pool for problems, and estimate the cost of a run.

    Detects missing responses, clones, templates, copied sources, texts that address the judge, near-duplicate items, and mixed
    languages. Each finding describes the effect on the ranking and a remedy. Findings do not change the exit code, which is 0. No
    file is changed and no request is sent. For a large pool, slow checks use a random sample of the items, which --seed selects.

    The estimated cost of judging follows. For the CONFIG (.yaml) of a run, it is the cost with the judge, the design and the
    budget of the run. For a POOL, it is the cost of the default design with each configured judge whose API key is set or that
    needs none.
    """
    is_config = source.suffix.lower() in options.CONFIG_SUFFIXES
    check_source = _check_config_file if is_config else _check_pool_file
    pool_check = check_source(source, seed=seed, all_designs=all_designs)
    if as_json:
        output.print_json(pool_check.to_json())
        return

    basis = "this run" if is_config else "the default design"
    if all_designs:
        basis = "each design with its default budget"
    _print_check(pool_check, f"estimated cost of judging for {basis}")


def _check_config_file(file: Path, *, seed: int, all_designs: bool) -> PoolCheck:
    """Check the pool of a run, and estimate the cost of the run; with `all_designs`, also that of each design."""
    from youden.pools.checks.check import check_config

    config = run_options.load_config(file, {})
    designs = None if all_designs else ()
    return check_config(config, seed=seed, designs=designs)


def _check_pool_file(file: Path, *, seed: int, all_designs: bool) -> PoolCheck:
    """Check a pool, and estimate the cost of a run by the default design; with `all_designs`, by each design."""
    from youden.data.pools.pool_reader import read_pool
    from youden.pools.checks.check import DEFAULT_DESIGNS, check_pool

    designs = None if all_designs else DEFAULT_DESIGNS
    return check_pool(read_pool(file), seed=seed, designs=designs)


MAX_LISTED = 3
"""Maximum number of findings of the same kind, or of names, that are listed."""
MAX_FINDING_CHARACTERS = 600
"""Maximum length of the text of a finding."""


def _print_check(pool_check: PoolCheck, cost_title: str) -> None:
    """Print the size of a pool, the problems that were found in it, and a table of estimated costs.

    cost_title : title of the table
    """
    click.echo(printable(f"{pool_check.name}: {_describe_size(pool_check.counts)}."))
    for line in pool_check.notes:
        output.print_note(f"note: {line}")
    _print_findings(pool_check.findings)
    if not pool_check.costs:
        return

    rows = []
    for cost in pool_check.costs:
        usd = "unknown" if cost.usd is None else f"{cost.usd:,.2f}"
        rows.append([cost.design, cost.judge, f"{cost.calls:,}", f"{cost.tokens_in:,}", f"{cost.tokens_out:,}", usd])
    output.print_table(make_table(cost_title, ["design", "judge"], ["calls", "tokens in", "tokens out", "USD"], rows))


def _describe_size(counts: Counts) -> str:
    """Describe the numbers of agents, items and responses of a pool, and the length of its responses."""
    responses = format_responses(counts.n_responses, counts.n_all_responses, counts.n_missing)
    mean_words = "" if counts.mean_words is None else f", {counts.mean_words:.0f} words on average"
    return (
        f"{format_count(counts.n_agents, 'agent')} × {format_count(counts.n_items, 'item')}; {responses}, "
        f"{counts.n_blank:,} blank; {counts.shortest:,} to {counts.longest:,} characters per response "
        f"(median {counts.median:,}){mean_words}"
    )


def _print_findings(findings: Sequence[Finding]) -> None:
    """Print the problems of a pool, each with its effect on the ranking and its remedy.

    Findings with the same slug (the short name of a problem), effect and remedy are printed as one finding with joined messages.
    """
    messages_by_kind: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        kind = (finding.slug, finding.effect, finding.remedy)
        messages_by_kind.setdefault(kind, []).append(finding.message)

    for number, ((slug, effect, remedy), messages) in enumerate(messages_by_kind.items(), 1):
        click.echo()
        click.echo(printable(f"{number}. {_join_messages(messages)} [{slug}]"))
        click.echo(printable(f"   {effect}"))
        click.echo(printable(f"   To do: {remedy}"))
    if not findings:
        click.echo("\nNo problems found.")
    else:
        click.echo()  # a blank line after the last finding


def _join_messages(messages: Sequence[str]) -> str:
    """Join the first `MAX_LISTED` messages, to at most `MAX_FINDING_CHARACTERS` characters."""
    text = " ".join(messages[:MAX_LISTED])
    if len(messages) > MAX_LISTED:
        count = format_count(len(messages) - MAX_LISTED, "more finding")
        text += f" The option --json lists {count} of this kind."
    if len(text) > MAX_FINDING_CHARACTERS:
        text = f"{text[: MAX_FINDING_CHARACTERS - 2]} …"
    return text


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a script that completes commands and options.

    Run once, then open a new terminal:

    \b
    bash  echo 'eval "$(youden completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$(youden completion zsh)"' >> ~/.zshrc
    fish  youden completion fish > ~/.config/fish/completions/youden.fish
    """
    from youden.cli import youden

    completion_class = get_completion_class(shell)
    if completion_class is not None:
        click.echo(completion_class(youden, {}, "youden", "_YOUDEN_COMPLETE").source())


@click.command("init")
@click.argument("pool", required=False, type=click.Path(path_type=Path))
@click.option("--judge", help="Name of a judge, or path of a .yaml file. [default: one whose API key is set]")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Config to write. [default: NAME.yaml]")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="FIELD=COLUMN",
    callback=options.parse_pairs("prompt=Ticket"),
    help="Column of a table that contains agent, item, text, prompt, group, empty or repeat; text=a,b: one agent per column "
    "or, with agent=NAME, repeats. Repeatable.",
)
@options.json
def init_command(
    pool: Path | None, judge: str | None, out: Path | None, columns: dict[str, str], as_json: bool
) -> None:
    """Write a config for POOL, and print the next command.

    POOL is a CSV, TSV, Excel, JSON or Parquet file with one row per response or one column per agent, a folder of such files,
    output files of an evaluation tool or of a provider's batch, a folder of texts per agent, or a pool. The default is the pool
    in the current folder. A table is converted to a pool in pools/, and its agents, question, items and unused columns are
    printed. If they are ambiguous, nothing is written, and the error names the --column FIELD=COLUMN to set. The config is the
    file --out, by default NAME.yaml in the current folder for a POOL called NAME. Its comments list what was found, the cost of
    the run, and further keys. The judge is gpt-4o-mini if its API key is set, else lexical.

    An existing config does not change. New agents, items and responses of POOL are added to its pool. Nothing is removed.
    Changed responses are listed. They are updated if the pool was not judged. If it was judged, its run keeps the pool: the
    extended pool is written to a new folder, and the command that extends the run is printed with its cost.
    """
    from youden.pools.first_config import write_first_config
    from youden.pools.pool_files import find_pool

    def report_import(imported: ImportedPool) -> None:
        if not as_json:
            _print_import(imported)

    first_config = write_first_config(
        pool or find_pool(Path()),
        out=out,
        judge=judge,
        columns=columns,
        environment=os.environ,
        report=report_import,
    )
    if as_json:
        output.print_json(_first_config_to_json(first_config))
    elif first_config.merge is not None:
        _print_merge(first_config, first_config.merge, columns)
    else:
        _print_new_config(first_config)


def _first_config_to_json(first_config: FirstConfig) -> dict[str, Json]:
    """Return the JSON output of `init`, which has these keys:

    config, pool : paths of the config and of the pool
    agents, items, missing : number of agents, items and missing responses of the pool
    used_columns, assumed, left_out, question, unused : only if a table was imported; see `_import_to_json`
    changes : only if the config existed before, so that new data were merged into its pool; see `_merge_to_json`
    judge, calls, usd : estimated cost of the run
    next : command to run next
    """
    pool, cost = first_config.pool, first_config.cost
    result: dict[str, Json] = {
        "config": str(first_config.file),
        "pool": first_config.pool_path.as_posix(),
        "agents": pool.n_agents,
        "items": pool.n_items,
        "missing": pool.n_missing,
    }

    if first_config.imported is not None:
        result |= _import_to_json(first_config.imported)
    if first_config.merge is None:
        command = f"youden check {format_command([str(first_config.file)])}"
    else:
        result["changes"] = _merge_to_json(first_config.merge)
        command, _remark = _find_next_command(first_config)
    return {**result, "judge": cost.judge, "calls": cost.calls, "usd": cost.usd, "next": command}


def _import_to_json(imported: ImportedPool) -> dict[str, Json]:
    """Convert the description of an import to keys of the output of `init`.

    used_columns, unused : description of the columns that were used, and the unused columns
    assumed : what was assumed about the meaning of columns, in sentences
    left_out : number of unused rows by reason
    question : column of the prompts
    """
    return {
        "used_columns": imported.used_columns,
        "assumed": [*imported.assumed],
        "left_out": dict(imported.left_out),
        "question": imported.question,
        "unused": [*imported.unused],
    }


def _merge_to_json(merge: MergedPool) -> dict[str, Json]:
    """Convert the changes of an existing pool to the value of "changes" in the output of `init`.

    The keys are the ids of the new `agents` and `items`, the number of new `repeats` (further responses), and the names of
    `changed` responses and of `removed` agents and items.
    """
    return {
        "agents": [*merge.agents],
        "items": [*merge.items],
        "repeats": merge.repeats,
        "changed": [*merge.changed],
        "removed": [*merge.removed],
        "prompts": [*merge.prompts],
    }


def _print_import(imported: ImportedPool) -> None:
    """Print how a file was read as a pool: used columns, summary, and notes on assumptions and on unused or missing data."""
    click.echo(printable(f"read {imported.used_columns}"))
    for line in imported.summary:
        click.echo(printable(line))

    notes_on_assumptions = imported.assumed
    notes_on_unused_rows = imported.account
    notes = [*notes_on_assumptions, *notes_on_unused_rows]
    n_missing = imported.pool.n_missing
    if n_missing:
        notes.append(f"{format_count(n_missing, 'cell', 'has', 'have')} no response")
    if not notes:
        notes.append("all rows were used")
    click.echo(printable("; ".join(notes)))


def _print_new_config(first_config: FirstConfig) -> None:
    """Print the files that were written, the size of the pool, the cost of the run, and the next commands."""
    written = str(first_config.file)
    if first_config.imported is not None:
        written = f"{first_config.pool_path.as_posix()} and {written}"
    click.echo(printable(f"wrote {written}: {_describe_planned_run(first_config)}"))
    if first_config.imported is None:
        note = describe_empty_responses(first_config.pool.n_empty_by_agent)
        if note:
            click.echo(printable(note))

    for finding in first_config.findings:
        output.print_note(f"warning: {finding.message} {finding.remedy} [{finding.slug}]")
    file = format_command([str(first_config.file)])
    click.echo(printable(f"next: youden check {file}    (checks the pool for problems; sends no request)"))
    would_fail = any(finding.severity == "failed" for finding in first_config.findings)
    remark = "    (when you have solved the problem above)" if would_fail else ""
    click.echo(printable(f"then: youden run {file}{remark}"))


def _describe_planned_run(first_config: FirstConfig) -> str:
    """Describe the size of the pool, the number of calls and their cost."""
    pool, cost = first_config.pool, first_config.cost
    size = f"{format_count(pool.n_agents, 'agent')} × {format_count(pool.n_items, 'item')}"
    calls = f"{format_count(cost.calls, 'call')} to {cost.judge}, each of which compares two responses"
    usd = "price unknown" if cost.usd is None else f"about ${cost.usd:,.2f}"
    return f"{size}; {calls}, {usd}"


def _print_merge(first_config: FirstConfig, merge: MergedPool, columns: Mapping[str, str]) -> None:
    """Print what was added to the pool of an existing config, what was changed or removed in its source, and the next command.

    columns : column by role, as named by the user, which the command for a separate run repeats
    """
    pool_path = first_config.pool_path.as_posix()
    lines = [f"{first_config.file} exists and is unchanged; {pool_path}: {_describe_additions(merge)}"]
    outcome = "not updated because the run was judged" if first_config.run else "updated in the pool"
    for noun, names in (("changed response", merge.changed), ("changed prompt", merge.prompts)):
        if names:
            lines.append(f"{format_count(len(names), noun)}, {outcome}: {_list_names(names)}")
    if merge.removed:
        lines.append(f"missing in the new file, and kept: {_list_names(merge.removed)}")

    command, remark = _find_next_command(first_config)
    suffix = f"    ({remark})" if remark else ""
    lines.append(f"next: {command}{suffix}")
    if merge.changed and first_config.run:
        new_config = f"{first_config.file.stem}-new.yaml"
        column_options: list[str] = []
        for role, name in columns.items():
            column_options += ["--column", f"{role}={name}"]
        command_for_new_run = format_command(
            ["youden", "init", str(first_config.source), *column_options, "--out", new_config]
        )
        lines.append(f"to rank by the changed responses in a separate run: {command_for_new_run}")
    for line in lines:
        click.echo(printable(line))


def _describe_additions(merge: MergedPool) -> str:
    """Describe what was added to an existing pool, for example "2 new agents and 1 new item"."""
    counts = {"new agent": len(merge.agents), "new item": len(merge.items), "further response": merge.repeats}
    additions = [format_count(n, name) for name, n in counts.items() if n]
    return " and ".join(additions) or "nothing new"


def _list_names(names: Sequence[str]) -> str:
    """Join the first names by commas, with the number of the others at the end."""
    listed = ", ".join(names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        listed += f" and {len(names) - MAX_LISTED:,} more"
    return listed


def _find_next_command(first_config: FirstConfig) -> tuple[str, str]:
    """Find the command that the user should run after `youden init` has updated the pool of an existing config.

    The command runs the config if it has no judged run. It extends a judged run by new agents, items or responses (the first of
    these that exist). If nothing is new, it writes the report of the run.

    Returns the command and, for an extension, a remark: its number of calls and cost, or why it is not possible.
    """
    merge, run = first_config.merge, first_config.run
    if run is None:
        return f"youden run {format_command([str(first_config.file)])}", ""

    subcommand = None if merge is None else _choose_extension(merge)
    if subcommand is None:
        return f"youden report {format_command([str(run.path)])}", ""

    pool_path = first_config.pool_path.as_posix()
    command = format_command(["youden", "extend", subcommand, str(run.path), pool_path])
    return command, _describe_extension(run, subcommand, pool_path)


def _choose_extension(merge: MergedPool) -> str | None:
    """Choose the subcommand of `youden extend` that adds the first kind of additions to a run; None without additions."""
    if merge.agents:
        return "agents"
    if merge.items:
        return "items"
    return "repeats" if merge.repeats else None


def _describe_extension(run: RunFolder, kind: str, pool_path: str) -> str:
    """Describe the cost of extending a run by the additions to its pool. The text is shown next to the suggested command.

    The extension is planned, but nothing is sent or written.

    run : judged run
    kind : what the pool has gained: "agents", "items" or "repeats" (further responses of an agent to an item)
    pool_path : path of the pool with the additions

    Returns the number of calls and their price, or the reason why nothing can be added at present.
    """
    from youden.workflows.extend import plan_extension

    addition: dict[str, Any] = {kind: pool_path}
    try:
        config = run_options.load_config(run.file("config.yaml"), {})
        planned = plan_extension(config, **addition)
    except YoudenError as error:
        return f"not possible yet: {error}"
    if isinstance(planned, str):  # the reason why nothing can be added
        return planned
    return f"{planned.cost.calls:,} calls, {output.format_usd(planned.cost.usd)}"
