"""Write `configs/prices.json` from litellm's price table, in an environment with youden and litellm.

The file contains the chat models, with both prices, that the providers of `judging/providers/` serve today; one model per
line, so that a diff shows one model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from youden.judging.backend_records import PROVIDERS

FILE = Path(__file__).parents[2] / "configs" / "prices.json"
TABLE = "model_prices_and_context_window_backup.json"
KEYS = ("input_cost_per_token", "output_cost_per_token", "litellm_provider")


def list_priced_providers() -> set[str]:
    """Return litellm's names of the providers whose prices are part of the file."""
    records = {name: record for name, record in PROVIDERS.items() if record.address and record.is_priced_by_litellm}
    return {"openai", *(record.priced_as or name for name, record in records.items())}


def format_prices(table: Mapping[str, Mapping[str, Any]], *, litellm_version: str, day: date) -> str:
    """Return the content of the file; raise ValueError if the table has no model of a known provider."""
    providers = list_priced_providers()
    models = {
        name: {key: entry[key] for key in KEYS}
        for name, entry in sorted(table.items())
        if entry.get("mode") == "chat"
        and entry.get("litellm_provider") in providers
        and all(map(entry.get, KEYS))
        and str(entry.get("deprecation_date", "9999")) >= day.isoformat()
    }
    if not models:
        raise ValueError(
            f"The table of litellm {litellm_version} has no chat model of {', '.join(sorted(providers))}. Check the file."
        )
    description = f"the table of litellm {litellm_version}, seen on {day.day} {day:%B %Y}"
    source = {"description": description, "date": day.isoformat()}
    entries = {"source": source, **models}
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()) + "\n}\n"


def main(arguments: list[str] | None = None) -> None:
    """Write the file and print how many models were added and removed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, help=f"a file {TABLE} [default: that of the installed litellm]")
    parser.add_argument("--litellm-version", help="litellm's version of the table [default: the installed version]")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args(arguments)
    if options.table is None:
        spec = find_spec("litellm")
        if spec is None or spec.origin is None:
            parser.error(
                "litellm is not installed. Install it in a separate environment, or set --table and --litellm-version."
            )
        options.table = Path(spec.origin).parent / TABLE
    litellm_version = options.litellm_version or version("litellm")
    content = format_prices(
        json.loads(options.table.read_text("utf-8")), litellm_version=litellm_version, day=datetime.now(UTC).date()
    )
    previous = options.out.read_text("utf-8") if options.out.exists() else "{}"
    old, new = set(json.loads(previous)), set(json.loads(content))
    options.out.write_text(content, encoding="utf-8")
    n_added, n_removed = len(new - old), len(old - new)
    print(f"{options.out}: {len(new) - 1} models of litellm {litellm_version}, {n_added} added, {n_removed} removed")


if __name__ == "__main__":
    main()
