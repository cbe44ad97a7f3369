"""Log a run to MLflow: its inputs, its ranking with intervals, its costs, and its report as an artifact.

MLflow itself reads the address of the server and the name of the experiment from its environment variables.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from types import ModuleType

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.pipeline.recommendation import read_recommendation
from youden.text.printable import format_command, to_file_name
from youden.types.facts import RankingRow, RunFacts
from youden.types.pool import Json

ARTIFACTS = ("ranking.csv", "ranking.json", "items.csv", "fit.json", "signature.json", "report.html")
METRICS_PER_REQUEST = 500
"""Number of metrics per request; MLflow accepts up to 1,000."""


def check_tracking() -> None:
    """Check that MLflow is installed and its server answers.

    Raises
    ------
    ConfigError
        [mlflow-missing]: if MLflow is not installed; [mlflow-refused]: if its server does not answer.
    """
    mlflow = _import_mlflow()
    with _converted_errors(mlflow, "No request was sent and nothing was written."):
        mlflow.MlflowClient().search_experiments(max_results=1)


def log_run(folder: RunFolder) -> str:
    """Log a fitted run with its report as one MLflow run.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run. Its ranking is logged as the metrics `ability/AGENT`, `low/AGENT` and `high/AGENT`, with
        names that MLflow allows.

    Returns
    -------
    str
        Id of the run in MLflow.

    Raises
    ------
    ConfigError
        [mlflow-missing]: if MLflow is not installed; [mlflow-refused]: if its server does not accept the run.
    RunFolderError
        If a file of the run is missing or damaged.
    """
    mlflow = _import_mlflow()
    facts, signature = folder.read_facts(), folder.read_signature()
    metrics = _collect_metrics(folder.read_ranking(), facts)
    parameters = {name: _to_text(value) for name, value in signature.parts.items()}
    recommendation = read_recommendation(folder)
    best = ", ".join(recommendation.agents) if recommendation.form == "recommended" else ""
    tags = {
        "youden.signature": signature.text,
        "youden.digest": signature.digest,
        "youden.best": best,
        "youden.recommendation": recommendation.text,
    }
    command = format_command(["youden", "report", str(folder.path), "--mlflow"])
    with (
        _converted_errors(mlflow, f"The folder of the run is complete. Log it later with `{command}`."),
        mlflow.start_run(run_name=folder.path.resolve().name) as run,
    ):
        mlflow.set_tags(tags)
        mlflow.log_params({**parameters, "level": facts.level, "ranked_by": facts.ranked_by})
        names = list(metrics)
        for start in range(0, len(names), METRICS_PER_REQUEST):
            mlflow.log_metrics({name: metrics[name] for name in names[start : start + METRICS_PER_REQUEST]})
        for name in ARTIFACTS:
            if folder.has(name):
                mlflow.log_artifact(str(folder.file(name)))
        return str(run.info.run_id)


def _collect_metrics(ranking: Sequence[RankingRow], facts: RunFacts) -> dict[str, float]:
    """Collect the known numbers of a run, and the ability and interval of each agent, by the name of the metric."""
    numbers = _collect_numbers(facts)
    for row in ranking:
        agent = to_file_name(row.agent)
        numbers |= {f"ability/{agent}": row.ability, f"low/{agent}": row.low, f"high/{agent}": row.high}
    return {name: float(value) for name, value in numbers.items() if value is not None and math.isfinite(value)}


def _collect_numbers(facts: RunFacts) -> dict[str, float | None]:
    """Collect the numbers of a run that are logged to MLflow: quality of the ranking, calls, tokens and cost in USD."""
    calls, holdout = facts.calls, facts.holdout
    numbers: dict[str, float | None] = {
        "n_significant_pairs": facts.n_significant_pairs,
        "false_positive_rate": facts.fpr,
        "r2": facts.r2,
        "holdout_rmse": None if holdout is None else holdout.rmse,
    }
    if calls is not None:
        numbers |= {
            "calls": calls.n_done,
            "calls_missing": calls.n_missing,
            "tokens_in": calls.tokens_in,
            "tokens_out": calls.tokens_out,
            "usd": calls.usd,
        }
    return numbers


def _to_text(value: Json) -> str:
    """Convert a part of the signature to a text: a text is unchanged, any other value becomes JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


@contextmanager
def _converted_errors(mlflow: ModuleType, consequence: str) -> Iterator[None]:
    """Convert errors of MLflow within the block to ConfigError [mlflow-refused], and redirect its output to standard error.

    consequence : sentence of the message that states what was not logged
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (mlflow.exceptions.MlflowException, OSError) as error:
        reason = " ".join(str(error).split())[:400]
        raise ConfigError(
            f"MLflow did not accept the run: {reason}. {consequence} Set MLFLOW_TRACKING_URI to a running server, or remove "
            "--mlflow.",
            slug="mlflow-refused",
        ) from error


def _import_mlflow() -> ModuleType:
    """Import MLflow; raise ConfigError [mlflow-missing] if it is not installed."""
    try:
        return import_module("mlflow")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "--mlflow needs the package `mlflow`, which is not installed. Install youden[mlflow] for a tracking server, or "
            "mlflow itself, or remove --mlflow.",
            slug="mlflow-missing",
        ) from error
