"""Record spans and counters of a run for OpenTelemetry, if an environment variable `OTEL_…` is set.

They contain the names of runs and judges and numbers, never texts, prompts or keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Literal

from youden.engines.block_sums import count_calls
from youden.types import Verdicts


def _load_api(name: Literal["trace", "metrics"]) -> Any:
    """Load one of the two modules of the OpenTelemetry API, `opentelemetry.trace` or `opentelemetry.metrics`.

    The API alone records nothing. The command `opentelemetry-instrument youden run …` sets up the SDK, which does.

    Returns None if no environment variable `OTEL_…` is set, or if the package is not installed.
    """
    is_requested = any(variable.startswith("OTEL_") for variable in os.environ)
    if not is_requested:
        return None

    with suppress(ImportError):
        return import_module(f"opentelemetry.{name}")
    return None


@contextmanager
def trace_step(name: str, **attributes: str | int) -> Iterator[None]:
    """Open a span `youden.NAME` around the block; an error that ends the block is its status."""
    trace = _load_api("trace")
    if trace is None:
        yield
        return
    with trace.get_tracer("youden").start_as_current_span(f"youden.{name}", attributes=attributes):
        yield


def record_answer_counts(verdicts: Verdicts, attributes: Mapping[str, str | int]) -> None:
    """Add the numbers of answers and tokens of a run, and its cost, to OpenTelemetry counters.

    The counters are `youden.answers`, `youden.missing` (trials without an answer), `youden.tokens_in`, `youden.tokens_out` and
    `youden.usd`. Nothing happens if OpenTelemetry is not in use.

    attributes : names and values that describe the run, such as its judge, and that are attached to each number
    """
    metrics = _load_api("metrics")
    if metrics is None:
        return

    calls = count_calls(verdicts)
    n_answered = int(verdicts.answered.sum())
    amounts = {
        "answers": n_answered,
        "missing": len(verdicts) - n_answered,
        "tokens_in": calls.tokens_in,
        "tokens_out": calls.tokens_out,
        "usd": calls.usd or 0.0,
    }
    meter = metrics.get_meter("youden")
    for name, amount in amounts.items():
        meter.create_counter(f"youden.{name}").add(amount, dict(attributes))
