"""Allows servers on this machine to receive the keys of tests and benchmarks, as a user does with `youden doctor --trust`."""

from __future__ import annotations

from pathlib import Path

from youden.judging.backend_records import BACKENDS, PROVIDERS
from youden.judging.config.judge_files import list_judges


def list_key_variables() -> list[str]:
    """Return the environment variables of the keys of all backends, providers and judge files, sorted."""
    records = (BACKENDS | PROVIDERS).values()
    variables = {record.key_variable for record in records} | {judge.key_variable for judge in list_judges()}
    variables.update(name for record in records for names in record.hosts.values() for name in names)
    return sorted(variable for variable in variables if variable is not None)


def allow_test_servers(folder: Path) -> None:
    """Write the permissions into the configuration directory `folder`, to which XDG_CONFIG_HOME has to point."""
    (folder / "youden").mkdir()
    lines = [f"{name}: [127.0.0.1, localhost]\n" for name in list_key_variables()]
    (folder / "youden" / "trusted.yaml").write_text("".join(lines))
