"""Define the command `doctor`, which checks the installation and whether judges can be used.

Only `doctor JUDGE` sends a request, so that problems are found before a run costs money.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from youden import __version__
from youden.cli import options, output
from youden.errors import ConfigError, JudgeError
from youden.extras import EXTRAS, format_install
from youden.project_store import project_store, usual_store
from youden.text.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from youden.judging.config.judge_files import JudgeConfig
    from youden.judging.config.trust import KeyUse
    from youden.judging.doctor import Diagnosis
    from youden.types import Finding
    from youden.types.payments import RunPayments
    from youden.types.pool import Json


MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED ", "skipped": "skipped"}


NOT_USABLE = 2
"""Exit code of `doctor` if a judge is not usable."""


@click.command("doctor")
@click.argument("judge", required=False)
@click.option(
    "--trust",
    is_flag=True,
    help="From now on, allow the API keys of JUDGE to be sent to its hosts. No request is sent. Read the file of JUDGE first.",
)
@options.json
def doctor_command(judge: str | None, trust: bool, as_json: bool) -> int:
    """Check the installation, list payments, or test JUDGE.

    Without JUDGE, the command lists the extras (optional packages) with the commands that need them, and the judges with the
    state of their API keys. It states the age of the shipped prices, and warns if they are older than 180 days. It also states
    what each run has paid, according to the store in YOUDEN_STORE or, without this variable, .youden/answers.db of the project.

    JUDGE is the name of a judge in configs/judges/, the path of a .yaml file, or a model such as gpt-4o or anthropic/NAME. The
    file may also be the config of a run or a file of agents. One request is sent to check the key, the connection, the model, the
    format of the answer, log-probabilities, price and latency, and a second one if the model refuses log-probabilities.
    With --trust, no request is sent. The hosts of JUDGE may then receive its API keys from now on.
    Exit codes: 0 usable, possibly with warnings; 2 not usable.
    """
    if judge is None:
        options.check_usage((trust, "--trust requires a judge: got none. Run youden doctor JUDGE --trust."))
        _print_installation(as_json=as_json)
        return 0
    judges = _load_judges(judge)
    if trust:
        _trust_judges(judges, as_json=as_json)
        return 0

    from youden.judging.doctor import diagnose

    diagnoses: list[Diagnosis] = []
    for config in judges:
        diagnoses += diagnose(config, environment=os.environ)
    _print_diagnoses(diagnoses, as_json=as_json)
    return 0 if all(diagnosis.is_usable for diagnosis in diagnoses) else NOT_USABLE


def _print_diagnoses(diagnoses: Sequence[Diagnosis], *, as_json: bool) -> None:
    """Print the results of the tests of judges: below the name of each judge, one line per finding.

    A finding states the result of one step of a test, such as the check of the API key.

    diagnoses : one per tested server; a judge can have several servers, and its name is then printed for each
    as_json : whether to print one JSON object with all diagnoses instead of the text. The key "usable" of each diagnosis states
        whether a run can use the judge
    """
    if as_json:
        records: list[Json] = [{**asdict(diagnosis), "usable": diagnosis.is_usable} for diagnosis in diagnoses]
        output.print_json({"judges": records})
        return

    for diagnosis in diagnoses:
        click.echo(printable(diagnosis.judge))
        for finding in diagnosis.findings:
            click.echo(printable(f"  {MARKS[finding.severity]}  {finding.slug:<8}  {finding.message}"))


def _load_judges(source: str) -> list[JudgeConfig]:
    """Load the judges that a command-line argument names.

    source : name of a judge or of a model, or a YAML file. A file with the key `agents` describes agents, and their models
        are loaded. A file with the key `pool` is the config of a run, and the judge of the run is loaded. Any other file
        describes a judge.

    Raises ConfigError if a judge cannot be loaded, for example [unknown-judge], and the errors of the files that describe
    agents or a run.
    """
    from youden.judging.config.judge_files import load_judge_config, load_judge_of_run

    keys = _read_top_level_keys(source)
    if "agents" in keys:
        from youden.pools.generation.agents import load_agents

        return [*load_agents(Path(source)).models.values()]
    if "pool" in keys:
        from youden.data.folder.run_config import load_run_config

        return [load_judge_of_run(load_run_config(Path(source)))]
    return [load_judge_config(source)]


def _read_top_level_keys(source: str) -> set[str]:
    """Read the top-level keys of a YAML file, which show what the file describes.

    Returns an empty set if `source` is not a YAML file, or if the file cannot be read. The function that loads the file then
    reports the fault.
    """
    from youden.text.yaml_text import read_yaml

    path = Path(source)
    if path.suffix.lower() not in options.CONFIG_SUFFIXES or not path.is_file():
        return set()
    try:
        content = read_yaml(path)
    except (OSError, ValueError):
        return set()
    return set(content) if isinstance(content, dict) else set()


def _trust_judges(judges: Sequence[JudgeConfig], *, as_json: bool) -> None:
    """Allow judges to send their API keys to their hosts, and print each environment variable with its host.

    For a jury, the keys of its member judges are allowed.
    """
    from youden.judging.config.trust import allow_key_uses

    new_uses = _find_new_key_uses(judges)
    path = str(allow_key_uses(new_uses)) if new_uses else None  # file of permissions; None if it was not changed

    if as_json:
        output.print_json({"file": path, "allowed": [use._asdict() for use in new_uses]})
        return
    for use in new_uses:
        click.echo(printable(f"{use.variable} may now be sent to {use.host} (saved in {path})"))
    if not new_uses:
        click.echo("nothing to allow: the judge sends no key, or only to hosts that are already allowed")


def _find_new_key_uses(judges: Sequence[JudgeConfig]) -> list[KeyUse]:
    """Find the API keys that judges would send to a host only with the user's permission.

    A key may always be sent to the hosts of its own provider, for example OPENAI_API_KEY to api.openai.com. For any other host,
    the user must give permission.

    judges : judges whose keys the user wants to allow; a jury represents all its members

    Returns the distinct pairs of an environment variable, which contains the key, and a host.
    Raises: ConfigError [key-over-http] if a key would be sent over http to another machine.
    """
    from youden.judging.config.trust import is_known_key_use

    all_uses: list[KeyUse] = []
    for judge in judges:
        members = judge.judges or (judge,)  # the judges of a jury, or the judge itself
        for member in members:
            member.check_addresses(sends_key=member.key_variable is not None)
        all_uses += judge.find_key_uses()

    distinct_uses = dict.fromkeys(all_uses)
    return [use for use in distinct_uses if not is_known_key_use(use)]


def _print_installation(*, as_json: bool) -> None:
    """Print the version, the extras, the API keys of the judges and the age of the price table."""
    from youden.judging.config.judge_files import list_judges
    from youden.judging.config.price_table import check_price_age, describe_table

    judges = list_judges()
    price_finding = check_price_age()
    payments = _read_payments()
    if as_json:
        installation = _installation_to_json(judges, price_finding, describe_table())
        output.print_json({**installation, "payments": {run: asdict(paid) for run, paid in payments.items()}})
        return

    versions = f"youden {__version__}, Python {platform.python_version()}"
    click.echo(printable(f"{versions}; commands listed below a missing extra cannot be used"))
    click.echo()
    _print_extras()
    _print_keys(judges)

    click.echo()
    click.echo(printable(f"prices: {describe_table()}"))
    click.echo(printable(f"  {price_finding.severity:<7}  {price_finding.message}"))
    if price_finding.remedy:
        click.echo(printable(f"           {price_finding.remedy}"))
    if payments:
        click.echo("\npayments, by run")
    for run, paid in payments.items():
        click.echo(printable(f"  {run}: {paid.describe()}"))


def _read_payments() -> dict[str, RunPayments]:
    """Read what each run has paid from the default store; the result is empty if the store cannot be read.

    A run is named by the path of its folder relative to its store, or by the name of its folder if the store is on a server.
    """
    from youden.judging.store.answers import open_store
    from youden.judging.store.worker_group import list_total_payments

    try:
        with open_store(usual_store() or project_store(), read_only=True) as store:
            return list_total_payments(store)
    except (ConfigError, JudgeError) as error:
        if error.slug != "store-missing":
            output.print_warnings([f"the payments of the runs cannot be read: {error}"])
        return {}


def _installation_to_json(judges: Iterable[JudgeConfig], price_finding: Finding, price_source: str) -> dict[str, Json]:
    """Convert the state of the installation to JSON, for the option --json of the command without a judge.

    judges : judges whose API keys are looked up
    price_finding : finding that states whether the shipped price table is too old; its fact "age_days" is the age in days
    price_source : description of the price table

    Returns the version, the extras (optional dependencies) with their missing packages, the prices, and the API keys by judge. A
    key has an environment variable (`variable`), which may have a value (`set`), and the place where the value was found (`in`).
    """
    extras: Json = {name: {**extra._asdict(), "missing": list(extra.missing)} for name, extra in EXTRAS.items()}

    keys: dict[str, Json] = {}
    for judge in judges:
        _, location = judge.find_key(os.environ)
        keys[judge.name] = {"variable": judge.key_variable, "set": bool(location), "in": location or None}

    age_days = cast("Json", price_finding.facts["age_days"])
    prices: Json = {"source": price_source, "status": price_finding.severity, "age_days": age_days}
    return {"version": __version__, "extras": extras, "keys": keys, "prices": prices}


def _print_extras() -> None:
    """Print each extra; for a missing one, also the commands that need it, and how to install it."""
    for name, extra in EXTRAS.items():
        state = "missing" if extra.missing else "ok"
        click.echo(printable(f"  {state:<7}  {name:<8} {extra.gives}"))
        if extra.missing:
            click.echo(printable(f"           {'; '.join(extra.commands)}"))
            click.echo(printable(f"           {format_install(name)}"))


def _print_keys(judges: Iterable[JudgeConfig]) -> None:
    """Print whether the API key of each judge is set."""
    click.echo("\njudges; to test one with a request, run `youden doctor JUDGE`")
    for judge in judges:
        click.echo(printable(f"  {judge.name}: {_describe_key(judge)}"))


def _describe_key(judge: JudgeConfig) -> str:
    """Describe whether the API key of a judge is set, and where it was found."""
    variable = judge.key_variable
    if variable is None:
        return "litellm finds the key of its provider" if judge.backend == "litellm" else "needs no key"
    _, location = judge.find_key(os.environ)
    return f"{variable} is set in {location}" if location else f"{variable} is not set"
