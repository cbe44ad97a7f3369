"""Logs a run to MLflow: what it depends on, its ranking with intervals, its cost, and its report as an artifact.

Where to, and under which experiment, MLflow reads from its own environment variables.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from types import ModuleType

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.text.printable import path_part, typed
from youden.types.facts import RunFacts
from youden.types.pool import Json

ARTIFACTS = ("ranking.csv", "ranking.json", "items.csv", "fit.json", "signature.json", "report.html")
BATCH = 500
"""Metrics a request; MLflow takes up to 1,000."""


def check_tracking() -> None:
    """Raises: ConfigError [mlflow-missing] without MLflow, [mlflow-refused] where its store does not answer."""
    mlflow = _library()
    with _said_as_ours(mlflow, "Nothing was asked or written."):
        mlflow.MlflowClient().search_experiments(max_results=1)


def log_run(folder: RunFolder) -> str:
    """Log a fitted run with its report as one MLflow run; returns that run's id.

    An agent's numbers are metrics `ability/AGENT`, `low/AGENT`, `high/AGENT`, under a name like its own where that has to be.

    Raises: as `check_tracking`; RunFolderError for a file that the run lacks.
    """
    mlflow = _library()
    ranking, facts, signature = folder.read_ranking(), folder.read_facts(), folder.read_signature()
    numbers = _numbers(facts)
    for row in ranking:
        agent = path_part(row.agent)
        numbers |= {f"ability/{agent}": row.ability, f"low/{agent}": row.low, f"high/{agent}": row.high}
    metrics = {name: float(value) for name, value in numbers.items() if value is not None and math.isfinite(value)}
    parts = {name: _text(value) for name, value in signature.parts.items()}
    best = "" if facts.recommendation.form == "none" else facts.best or ""
    tags = {"youden.signature": signature.text, "youden.digest": signature.digest, "youden.best": best}
    tags["youden.recommendation"] = facts.recommendation.text
    again = typed(["youden", "report", str(folder.path), "--mlflow"])
    with (
        _said_as_ours(mlflow, f"The run is whole in its folder; log it with `{again}`."),
        mlflow.start_run(run_name=folder.path.resolve().name) as run,
    ):
        mlflow.set_tags(tags)
        mlflow.log_params({**parts, "level": facts.level, "ranked_by": facts.ranked_by})
        names = list(metrics)
        for start in range(0, len(names), BATCH):
            mlflow.log_metrics({name: metrics[name] for name in names[start : start + BATCH]})
        for name in ARTIFACTS:
            if folder.has(name):
                mlflow.log_artifact(str(folder.file(name)))
        return str(run.info.run_id)


def _numbers(facts: RunFacts) -> dict[str, float | None]:
    """What a run cost and how sure it is."""
    calls, holdout = facts.calls, facts.holdout
    numbers: dict[str, float | None] = {
        "told_apart": facts.told_apart,
        "false_positive_rate": facts.fpr,
        "r2": facts.r2,
        "holdout_rmse": None if holdout is None else holdout.rmse,
    }
    if calls is not None:
        numbers |= {
            "calls": calls.n_calls,
            "calls_missing": calls.n_missing,
            "tokens_in": calls.tokens_in,
            "tokens_out": calls.tokens_out,
            "usd": calls.usd,
        }
    return numbers


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


@contextmanager
def _said_as_ours(mlflow: ModuleType, then: str) -> Iterator[None]:
    """MLflow talks on standard output, which is for data, and raises errors of its own."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (mlflow.exceptions.MlflowException, OSError) as error:
        said = " ".join(str(error).split())[:400]
        raise ConfigError(
            f"MLflow did not take the run: {said}. {then} Set MLFLOW_TRACKING_URI to a server that is up, or leave --mlflow out.",
            slug="mlflow-refused",
        ) from error


def _library() -> ModuleType:
    try:
        return import_module("mlflow")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "--mlflow needs the package `mlflow`, which is not installed. Install youden[mlflow] for a tracking server, or "
            "mlflow itself, or leave --mlflow out.",
            slug="mlflow-missing",
        ) from error
