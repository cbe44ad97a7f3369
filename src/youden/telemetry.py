"""Spans and metrics of a run for OpenTelemetry, where a variable `OTEL_…` asks for them; else nothing is loaded.

Only the API is used: what is told goes nowhere until an SDK is set up, as `opentelemetry-instrument youden run …` does. Names
of runs and judges and numbers are told, never texts, prompts or keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

Facts = Mapping[str, str | int | float]


def _api(part: str) -> Any:
    """`opentelemetry.trace` or `.metrics`, None where nobody asks or the API is not installed."""
    if any(name.startswith("OTEL_") for name in os.environ):
        with suppress(ImportError):
            return import_module(f"opentelemetry.{part}")
    return None


@contextmanager
def step(name: str, **facts: str | int | float) -> Iterator[None]:
    """A span `youden.NAME` around the block; an error that ends the block is its status."""
    trace = _api("trace")
    if trace is None:
        yield
        return
    with trace.get_tracer("youden").start_as_current_span(f"youden.{name}", attributes=facts):
        yield


def count(amounts: Mapping[str, float], facts: Facts) -> None:
    """Add `amounts` to the counters `youden.NAME`, each with `facts` for its attributes."""
    metrics = _api("metrics")
    if metrics is None:
        return
    meter = metrics.get_meter("youden")
    for name, amount in amounts.items():
        meter.create_counter(f"youden.{name}").add(amount, dict(facts))
