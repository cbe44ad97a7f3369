"""Find the prices of models in litellm's table, and report how old the shipped part of this table is.

The table of the installed litellm is read without importing litellm. Without litellm, the shipped part of the table is used.
The network is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from youden.judging.backend_records import PROVIDERS, get_backend_record
from youden.judging.config.settings import JudgeConfig
from youden.resources import find_resource
from youden.types import Finding

PRICES = "prices.json"
"""File in configs/ with the part of litellm's table for the providers in `PROVIDERS`, and its version and date."""

MAX_AGE_DAYS = 180
"""Age of the shipped prices, in days, above which `youden doctor` warns."""

_LITELLM_TABLE = "model_prices_and_context_window_backup.json"


def find_table_price(config: JudgeConfig) -> tuple[float, float] | None:
    """Find the prices of a judge's model in litellm's table.

    Parameters
    ----------
    config : JudgeConfig
        Config of the judge whose model is looked up.

    Returns
    -------
    (float, float) or None
        USD per million tokens of requests and of answers. None if the table has no price for the model, or if the judge
        has a custom address, where any price is possible.
    """
    backend, model = config.backend, config.model
    if model is None or config.address not in ("", get_backend_record(backend).address):
        return None

    entry = find_table_entry(backend, model)
    if backend in PROVIDERS and entry.get("litellm_provider") != _get_table_provider(backend):
        return None  # a model of another provider with the same name
    usd_per_token_in = entry.get("input_cost_per_token")
    usd_per_token_out = entry.get("output_cost_per_token")
    if not usd_per_token_in or not usd_per_token_out:
        return None
    return round(1e6 * usd_per_token_in, 6), round(1e6 * usd_per_token_out, 6)


def find_table_entry(backend: str, model: str) -> Mapping[str, Any]:
    """Return a model's entry in the table of prices, listed with or without its provider; empty if there is none."""
    table = _load_price_table()
    return table.get(f"{_get_table_provider(backend)}/{model}") or table.get(model, {})


def describe_table() -> str:
    """Describe the table of prices by the version of litellm or, for the shipped part, by its source and date."""
    source = _load_price_table().get("source")
    if source is None:
        return f"litellm {version('litellm')}'s table"
    return str(source["description"])


def check_price_age() -> Finding:
    """Check the age of the shipped prices.

    Returns
    -------
    Finding
        Severity "warning" if the shipped prices are used and are older than `MAX_AGE_DAYS`, else "ok". The fact `age_days`
        is None if the prices of the installed litellm are used.
    """
    source = _load_price_table().get("source")
    if source is None:
        return Finding("prices", "the installed litellm has the prices", severity="ok", facts={"age_days": None})

    today = datetime.now(UTC).date()
    age_days = (today - date.fromisoformat(source["date"])).days
    message = f"the shipped prices are {age_days} days old"
    facts = {"age_days": age_days}
    if age_days <= MAX_AGE_DAYS:
        return Finding("prices", message, severity="ok", facts=facts)
    remedy = "Upgrade youden, install litellm, or set price_in and price_out."
    return Finding("prices", message, remedy=remedy, severity="warning", facts=facts)


def _get_table_provider(backend: str) -> str:
    """Return the name of a backend's provider in the table of prices."""
    return get_backend_record(backend).priced_as or backend


@cache
def _load_price_table() -> Mapping[str, Mapping[str, Any]]:
    """Load the table of prices of the installed litellm; without litellm, load the part of the table that ships with youden.

    Returns the entries by model, such as "gpt-4o" or "groq/openai/gpt-oss-20b". An entry maps litellm's field names,
    for example `input_cost_per_token`, to values. The shipped part also has an entry "source", with its date and description.
    The table is empty if litellm's file cannot be read.
    """
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return _read_price_table(find_resource("configs", PRICES, local=False))
    try:
        return _read_price_table(Path(spec.origin).parent / _LITELLM_TABLE)
    except (OSError, ValueError):
        return {}


def _read_price_table(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """Read a JSON file that maps each name to a mapping."""
    table: Mapping[str, Mapping[str, Any]] = orjson.loads(file.read_bytes())
    return table
