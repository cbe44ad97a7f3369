"""`youden doctor JUDGE`: one call, and what it says of the judge."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from youden.cli.terms import options, show

MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED ", "skipped": "skipped"}
NOT_USABLE = 2


@click.command("doctor")
@click.argument("judge")
@options.json
def command(judge: str, as_json: bool) -> int:
    """Send JUDGE (a name in configs/judges/, or a path that ends in .yaml) one call and say what works.

    Key, reachability, model served, parse, log-probabilities, price and latency. A model that turns a request for
    log-probabilities down is sent a second call without it. Exit codes: 0 usable, warnings or not; 2 not usable.
    """
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
