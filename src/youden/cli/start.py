"""Commands to begin with: demo, init, check, doctor, completion.

`youden check POOL|CONFIG`: whether a pool can be ranked at all, before money is spent.

`youden completion SHELL`: what makes a shell complete commands, options and files.

`youden demo`: the whole path on the bundled pool, offline, without a key.

`youden doctor [JUDGE]`: what is installed; or one call, and what it says of a judge.

`youden init [POOL]`: a first config, with comments, for what is there.
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from youden import __version__
from youden.cli import options, output, run_options
from youden.errors import YoudenError
from youden.extras import EXTRAS
from youden.progress_bar import progress_bar
from youden.resources import find_resource
from youden.text.printable import format_command, printable
from youden.text.sentences import format_count, format_with_interval
from youden.text.tables import make_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from youden.data.folder.joined_pools import MergedPool
    from youden.data.importers.pool_joiner import ImportedPool
    from youden.judging.config.judge_files import JudgeConfig
    from youden.pools.checks.checked import PoolCheck
    from youden.pools.first_config import FirstConfig
    from youden.types.pool import Json


@click.command("check")
@options.pool_or_config
@options.seeded("the items that are looked at in a large pool")
@click.option("--all", "every", is_flag=True, help="Show what every design takes with every judge.")
@options.json
def check_command(source: Path, seed: int, every: bool, as_json: bool) -> None:
    """Look a pool over before money is spent.

    Looks for gaps, clones, templates, copied sources, texts that address a judge, items too alike, and languages. Every finding
    says what it does to the ranking and what to do. Nothing is changed and nothing is asked.

    Then it says what judging would take: for a run's CONFIG (.yaml) with its own judge, design and budget; for a POOL by the
    usual design with each judge there is a config for.
    """
    from youden.pools.checks.check import DEFAULT_DESIGNS, check_config, check_pool

    if source.suffix.lower() in options.CONFIGS:
        config = run_options.run_config(source, {})
        checked, by = check_config(config, seed=seed, designs=None if every else ()), "this run"
    else:
        from youden.data.pools.pool_reader import read_pool

        checked, by = (
            check_pool(read_pool(source), seed=seed, designs=None if every else DEFAULT_DESIGNS),
            "the usual design",
        )
    if as_json:
        output.print_json(checked.to_json())
        return
    _draw(checked, f"what judging would take, by {'each design at its own budget' if every else by}")


MOST_ALIKE, MOST_FINDING = 3, 600
"""Findings that say the same of several agents are shown as one, with so many of their sentences, and characters."""


def shortened(text: str, most: int) -> str:
    """The text, or as much of it as there is room for."""
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _draw(checked: PoolCheck, title: str) -> None:
    counts = checked.counts
    words = "" if counts.mean_words is None else f", {counts.mean_words:.0f} words in the mean"
    click.echo(
        f"{printable(checked.name)}: {counts.n_agents:,} agents × {counts.n_items:,} items, {counts.n_responses:,} responses, "
        f"{counts.n_missing:,} missing, {counts.n_blank:,} blank; {counts.shortest:,} to {counts.longest:,} characters "
        f"(median {counts.median:,}){words}."
    )
    for line in checked.notes:
        output.note(f"note: {line}")
    alike: dict[tuple[str, str, str], list[str]] = {}
    for finding in checked.findings:
        alike.setdefault((finding.slug, finding.effect, finding.todo), []).append(finding.says)
    for number, ((slug, effect, todo), said) in enumerate(alike.items(), 1):
        more = f" And {len(said) - MOST_ALIKE:,} more like these: --json has them." if len(said) > MOST_ALIKE else ""
        says = shortened(" ".join(said[:MOST_ALIKE]) + more, MOST_FINDING)
        click.echo(f"\n{number}. {printable(says)} [{slug}]\n   {effect}\n   To do: {todo}")
    click.echo("\nNothing found that a ranking would suffer from." if not checked.findings else "")
    if not checked.costs:
        return
    rows = (
        [
            cost.design,
            cost.judge,
            *(f"{n:,}" for n in (cost.calls, cost.tokens_in, cost.tokens_out)),
            "unknown" if cost.usd is None else f"{cost.usd:,.2f}",
        ]
        for cost in checked.costs
    )
    output.draw(make_table(title, ["design", "judge"], ["calls", "tokens in", "tokens out", "USD"], rows))


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print what makes a shell complete commands and options.

    Once, then open a new terminal:

    \b
    bash  echo 'eval "$(youden completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$(youden completion zsh)"' >> ~/.zshrc
    fish  youden completion fish > ~/.config/fish/completions/youden.fish
    """
    from youden.cli import youden

    made = get_completion_class(shell)
    if made is not None:
        click.echo(made(youden, {}, "youden", "_YOUDEN_COMPLETE").source())


COMPARED = (("faithful", "low-effort"), ("faithful", "strategic"))
CONFIG = "runs/field-notes.yaml"
FLIPPER = "fact-flipper"


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/demo"), help="The run's folder.")
@options.json
def demo_command(out: Path, as_json: bool) -> None:
    """Rank the 12 agents of the pool `field-notes`, offline.

    The pool comes with the package. The judge is `lexical`, which only compares words: it needs no key, and shows what a run
    looks like and what such a judge cannot see.
    """
    from youden.judging.scheduler.options import JudgingOptions
    from youden.pipeline.fitted_run import fit_run
    from youden.pipeline.judged_run import judge_run, plan_run
    from youden.report.pages.writing import write_report
    from youden.study.known_groups import compute_group_aucs

    config = run_options.run_config(find_resource("configs", CONFIG, local=False), {"out": out})
    pool = find_resource("datasets", "field-notes", local=False)
    planned = plan_run(config.model_copy(update={"pool": str(pool)}))
    output.show_plan(planned, "short")
    with progress_bar() as bar:
        judge_run(planned, JudgingOptions(progress=bar))
    fit_run(planned.folder)
    summary = write_report(planned.folder).summary
    if as_json:
        output.show_result(summary, as_json=True)
        return
    output.show_asked(planned.folder, summary, "short")
    click.echo()
    for group in compute_group_aucs(planned.folder, COMPARED):
        auc = group.auc
        found = format_with_interval(auc.value, auc.low, auc.high, method=auc.method)
        how = "" if isnan(auc.low) else f" ({auc.level:.0%}, {auc.method})"
        click.echo(f"AUC of {group.above} ({group.n_above}) against {group.below} ({group.n_below}): {found}{how}")
    click.echo(
        "These intervals are about these agents' abilities; so few agents say little of other agents of their kind."
    )
    flipper = next(agent for agent in summary.ranking if agent.agent == FLIPPER)
    click.echo(
        f"\nWhat this judge cannot see: '{FLIPPER}' turns the central facts of every passage into their opposites, and stands at "
        f"place {flipper.ranks} of {summary.n_agents}. Its words are the "
        "passage's own, and words are all that `lexical` compares."
    )
    click.echo(
        f"\nThe run is in {planned.folder.path}; open {planned.folder.path / 'report.html'}.\n"
        "Next, a judge that reads: with OPENAI_API_KEY set,\n"
        "  youden plan configs/runs/field-notes.yaml --judge gpt-4o-mini --out runs/read     (what it would cost)\n"
        "  youden run configs/runs/field-notes.yaml --judge gpt-4o-mini --max-cost 1 --out runs/read\n"
        "Your own responses, in a spreadsheet or a folder of texts: youden init FILE makes a pool, and names what to run."
    )


MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED ", "skipped": "skipped"}
NOT_USABLE = 2


@click.command("doctor")
@click.argument("judge", required=False)
@click.option(
    "--trust",
    is_flag=True,
    help="From now on, allow JUDGE to send its keys to its hosts. No request is sent now. Read its file first.",
)
@options.json
def doctor_command(judge: str | None, trust: bool, as_json: bool) -> int:
    """Say what is installed and which keys are set, or try JUDGE.

    Without JUDGE: each extra, whether it is there, and which commands need it; each judge, and whether its key is set. Nothing is
    asked.

    JUDGE is a name in configs/judges/, a path that ends in .yaml, or a model such as gpt-4o or anthropic/NAME. A path may also be
    a run's config or a file of agents, for the judges named in it. It is sent one call: key, reachability, model served, parse,
    log-probabilities, price and latency. A model that refuses log-probabilities is sent a second call without them. Exit codes:
    0 usable, warnings or not; 2 not usable.
    """
    if judge is None:
        options.refuse((trust, "--trust needs a judge: got none. Name it: youden doctor JUDGE --trust"))
        _installed(as_json=as_json)
        return 0
    judges = _judges_named(judge)
    if trust:
        _trust(judges, as_json=as_json)
        return 0
    from youden.judging.doctor import diagnose

    diagnoses = [diagnosis for config in judges for diagnosis in diagnose(config, environment=os.environ)]
    if as_json:
        output.print_json({"judges": [{**asdict(one), "usable": one.is_usable} for one in diagnoses]})
    else:
        for one in diagnoses:
            click.echo(printable(one.judge))
            for finding in one.findings:
                click.echo(f"  {MARKS[finding.severity]}  {finding.slug:<8}  {printable(finding.says)}")
    return 0 if all(one.is_usable for one in diagnoses) else NOT_USABLE


def _judges_named(source: str) -> list[JudgeConfig]:
    """Load the judge `source`, or the judges that a run's config or a file of agents names."""
    from youden.judging.config.judge_files import load_judge_config, load_judge_of_run
    from youden.text.yaml_text import read_yaml

    path, keys = Path(source), None
    if path.suffix in options.CONFIGS and path.is_file():
        with suppress(OSError, ValueError):  # `load_judge_config` reports the fault
            keys = read_yaml(path)
    if isinstance(keys, dict) and "agents" in keys:
        from youden.pools.generation.agents import load_agents

        return [*load_agents(path).models.values()]
    if isinstance(keys, dict) and "pool" in keys:
        from youden.data.folder.run_config import load_run_config

        return [load_judge_of_run(load_run_config(path))]
    return [load_judge_config(source)]


def _trust(judges: Sequence[JudgeConfig], *, as_json: bool) -> None:
    """Allow these judges to send their keys, and print each variable with its host."""
    from youden.judging.config.trust import allow_uses, is_known

    for member in (member for judge in judges for member in judge.judges or (judge,)):
        member.check_addresses(sends_key=member.key_variable is not None)
    uses = list(dict.fromkeys(use for judge in judges for use in judge.find_key_uses() if not is_known(use)))
    path = str(allow_uses(uses)) if uses else None
    if as_json:
        output.print_json({"file": path, "allowed": [use._asdict() for use in uses]})
        return
    for use in uses:
        click.echo(printable(f"{use.variable} may now be sent to {use.host} (kept in {path})"))
    if not uses:
        click.echo("nothing to allow: no key is sent, or only to hosts that are known or allowed already")


def _installed(*, as_json: bool) -> None:
    from youden.judging.config.judge_files import list_judges

    judges = list_judges()
    keys = {judge.name: (judge.key_variable, judge.find_key(os.environ)[1]) for judge in judges}
    by_litellm = {judge.name for judge in judges if judge.backend == "litellm"}
    if as_json:
        extras: Json = {name: {**extra._asdict(), "missing": list(extra.missing)} for name, extra in EXTRAS.items()}
        are_set: Json = {
            name: {"variable": key, "set": bool(where), "in": where or None} for name, (key, where) in keys.items()
        }
        output.print_json({"version": __version__, "extras": extras, "keys": are_set})
        return
    click.echo(
        f"youden {__version__}, Python {platform.python_version()}; every command works but those named as missing\n"
    )
    for name, extra in EXTRAS.items():
        state = "missing" if extra.missing else "ok"
        click.echo(f"  {state:<7}  {name:<8} {extra.gives}")
        if extra.missing:
            click.echo(f"           {'; '.join(extra.commands)}\n           pip install 'youden[{name}]'")
    click.echo("\njudges; `youden doctor JUDGE` tries one with one call")
    for name, (key, where) in keys.items():
        none = "litellm finds its provider's key" if name in by_litellm else "needs no key"
        said = none if key is None else f"{key} is {f'set in {where}' if where else 'not set'}"
        click.echo(f"  {printable(name)}: {said}")


@click.command("init")
@click.argument("pool", required=False, type=click.Path(path_type=Path))
@click.option("--judge", help="A name, or a path that ends in .yaml. [default: one that can be asked]")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file. [default: NAME.yaml]")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    callback=options.pairs("prompt=Ticket"),
    help="The column of agent, item, text, prompt, group, empty or repeat in a table; text=a,b: one agent per column. "
    "Repeatable.",
)
@options.json
def init_command(
    pool: Path | None, judge: str | None, out: Path | None, columns: dict[str, str], as_json: bool
) -> None:
    """Write a first config for POOL, and say what comes next.

    POOL is what you have: CSV, TSV, Excel, JSON or Parquet with one row per response or one column per agent, a folder of them,
    files that an evaluation tool or a provider's batch wrote, a folder of texts for each agent, or a pool; by default the one in
    this folder. Its agents, question, items and unused columns are printed before a table becomes a pool in pools/. If they are
    unclear, nothing is written, and the error names the --column that resolves it. Comments in the config list what was found,
    what the run costs, and which other keys it may have. The judge is gpt-4o-mini if its key is set, else lexical. No request
    is sent.

    A config that exists stays as it is, and the pool takes in what POOL has gained since: new agents, items and responses.
    Nothing is removed, and answers that changed are named. A judged run keeps its pool: the larger one gets a folder of its
    own, and the command that adds it to the run is named, with its cost.
    """
    from youden.pools.first_config import find_pool, write_first_config

    begun = write_first_config(
        pool or find_pool(Path()),
        out=out,
        judge=judge,
        columns=columns,
        environment=os.environ,
        report=(lambda _: None) if as_json else _print_reading,
    )
    cost, file = begun.cost, format_command([str(begun.file)])
    if as_json:
        found: dict[str, Json] = {
            "agents": begun.pool.n_agents,
            "items": begun.pool.n_items,
            "missing": begun.pool.n_missing,
            "pool": begun.pool_path.as_posix(),
        }
        if (made := begun.imported) is not None:
            found |= {"taken": made.taken, "assumed": [*made.assumed], "left_out": dict(made.left_out)}
            found |= {"question": made.question, "unused": [*made.unused]}
        asked: dict[str, Json] = {"judge": cost.judge, "calls": cost.calls, "usd": cost.usd}
        way = f"youden check {file}"
        if (more := begun.merge) is not None:
            came = {"agents": more.agents, "items": more.items, "other": more.changed, "gone": more.removed}
            found["came"] = {"repeats": more.repeats, **{name: [*said] for name, said in came.items()}}
            way = _joining(begun)[0]
        output.print_json({"config": str(begun.file), **found, **asked, "next": way})
        return
    usd = "at an unknown price" if cost.usd is None else f"about ${cost.usd:,.2f}"
    size = f"{begun.pool.n_agents:,} agents × {begun.pool.n_items:,} items"
    if begun.merge is not None:
        _say_grown(begun, begun.merge)
        return
    there = "" if begun.imported is None else f"{begun.pool_path.as_posix()} and "
    click.echo(printable(f"{there}{begun.file}: {size}, {cost.calls:,} calls to {cost.judge}, {usd}"))
    click.echo(f"next: youden check {file}    (what is wrong with the pool; asks nothing)")
    click.echo(f"then: youden run {file}")


def _print_reading(imported: ImportedPool) -> None:
    """Print how a table was read."""
    n = imported.pool.n_missing
    account = [*imported.account, *([f"{format_count(n, 'cell', 'has', 'have')} no response"] if n else [])]
    click.echo(printable(f"took {imported.taken}"))
    for line in imported.summary:
        click.echo(printable(line))
    click.echo(printable("; ".join([*imported.assumed, *account]) or "nothing left out"))


def _say_grown(begun: FirstConfig, more: MergedPool) -> None:
    """What came to a pool whose config was there already, and the command that goes on."""
    what = {"agent": len(more.agents), "item": len(more.items), "further response": more.repeats}
    new = " and ".join(
        format_count(n, f"new {name}" if name != "further response" else name) for name, n in what.items() if n
    )
    click.echo(
        printable(f"{begun.file} is there already and stays; {begun.pool_path.as_posix()}: {new or 'nothing new'}")
    )
    if more.changed:
        stays = "the run keeps those that were judged" if begun.run else "they were taken"
        click.echo(
            printable(f"{format_count(len(more.changed), 'answer')} changed, and {stays}: {_first(more.changed)}")
        )
    if more.removed:
        click.echo(printable(f"no longer in the file, and kept: {_first(more.removed)}"))
    command, cost = _joining(begun)
    click.echo(printable(f"next: {command}{cost}"))
    if more.changed and begun.run:
        fresh = format_command(["youden", "init", str(begun.source), "--out", f"{begun.file.stem}-new.yaml"])
        click.echo(printable(f"to rank by the changed answers, a run of its own: {fresh}"))


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_ALIKE]) + (f" and {len(names) - MOST_ALIKE:,} more" if len(names) > MOST_ALIKE else "")


def _joining(begun: FirstConfig) -> tuple[str, str]:
    """The command by which what is new joins a judged run, else the one that runs the config; and its cost in words."""
    from youden.workflows.extend import plan_extension

    more, run = begun.merge, begun.run
    came = {} if more is None else {"agents": more.agents, "items": more.items, "repeats": more.repeats}
    kind = next((name for name, new in came.items() if new), None)
    if run is None or kind is None:
        return (
            f"youden {'run' if run is None else 'report'} {format_command([str(begun.file if run is None else run.path)])}",
            "",
        )
    command = format_command(["youden", "extend", kind, str(run.path), begun.pool_path.as_posix()])
    try:
        config = run_options.run_config(run.file("config.yaml"), {})
        pools = {name: begun.pool_path.as_posix() if name == kind else None for name in came}
        planned = plan_extension(config, agents=pools["agents"], items=pools["items"], repeats=pools["repeats"])
    except YoudenError as error:
        return command, f"    (not yet: {error})"
    if isinstance(planned, str):
        return command, f"    ({planned})"
    return command, f"    ({planned.cost.calls:,} calls, {output.dollars(planned.cost.usd)})"
