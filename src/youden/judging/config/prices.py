"""What litellm's table of prices says of a model, read from the installed package without importing it.

A judge's own prices are in its config. The network is never asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from youden.judging.config.answering import OPENAI, Answering

_TABLE = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True)
class TablePrice:
    """USD per million tokens, and the table they are from."""

    price_in: float
    price_out: float
    source: str


def table_price(answering: Answering) -> TablePrice | None:
    """The price of the model. None where litellm is not installed or does not know it (0 stands for that too), and
    at an address of somebody's own, where it may cost anything.
    """
    if answering.model is None or answering.address not in ("", OPENAI):
        return None
    entry = _table().get(answering.model, {})
    price_in, price_out = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not price_in or not price_out:
        return None
    return TablePrice(round(1e6 * price_in, 6), round(1e6 * price_out, 6), f"litellm {_version()}'s table")


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    try:
        table: Mapping[str, Mapping[str, Any]] = orjson.loads((Path(spec.origin).parent / _TABLE).read_bytes())
    except (OSError, ValueError):
        return {}
    return table


def _version() -> str:
    try:
        return version("litellm")
    except PackageNotFoundError:
        return "of unknown version"
