"""`youden doctor [JUDGE]`: what is installed; or one call, and what it says of a judge."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show

MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED ", "skipped": "skipped"}
NOT_USABLE = 2

if TYPE_CHECKING:
    from youden.nouns import Json


@click.command("doctor")
@click.argument("judge", required=False)
@options.json
def doctor_command(judge: str | None, as_json: bool) -> int:
    """Say what is installed and which keys are set, or try JUDGE.

    Without JUDGE: each extra, whether it is there, and which commands need it; each judge, and whether its key is set. Nothing is
    asked.

    JUDGE is a name in configs/judges/, or a path that ends in .yaml. It is sent one call: key, reachability, model served,
    parse, log-probabilities, price and latency. A model that turns a request for log-probabilities down is sent a second call
    without it. Exit codes: 0 usable, warnings or not; 2 not usable.
    """
    if judge is None:
        _installed(as_json=as_json)
        return 0
    from youden.judging.config.reading import load_judge_config
    from youden.judging.doctor import diagnose
    from youden.text.printable import printable

    diagnoses = diagnose(load_judge_config(judge), environment=os.environ)
    if as_json:
        show.print_json({"judges": [{**asdict(one), "usable": one.usable} for one in diagnoses]})
    else:
        for one in diagnoses:
            click.echo(printable(one.judge))
            for finding in one.findings:
                click.echo(f"  {MARKS[finding.status]}  {finding.step:<8}  {printable(finding.says)}")
    return 0 if all(one.usable for one in diagnoses) else NOT_USABLE


def _installed(*, as_json: bool) -> None:
    from youden import __version__
    from youden.extras import EXTRAS
    from youden.judging.config.reading import known_judges

    judges = known_judges()
    keys = {judge.name: judge.key_variable for judge in judges}
    by_litellm = {judge.name for judge in judges if judge.backend == "litellm"}
    if as_json:
        extras: Json = {name: {**extra._asdict(), "missing": list(extra.missing)} for name, extra in EXTRAS.items()}
        are_set: Json = {
            name: {"variable": key, "set": bool(key and os.environ.get(key))} for name, key in keys.items()
        }
        show.print_json({"version": __version__, "extras": extras, "keys": are_set})
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
    for name, key in keys.items():
        none = "litellm finds its provider's key" if name in by_litellm else "needs no key"
        said = none if key is None else f"{key} is {'set' if os.environ.get(key) else 'not set'}"
        click.echo(f"  {show.safe(name)}: {said}")
