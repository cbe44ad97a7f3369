"""Rewrites `configs/prices.json` from litellm's table: `python docs/making/prices.py`, where litellm is installed.

Kept are the chat models of the providers that are known here, with both prices, that their
provider still serves; one a line, so that a change reads as one.
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

FILE = Path(__file__).parents[2] / "configs" / "prices.json"
TABLE = "model_prices_and_context_window_backup.json"
PROVIDERS = {"anthropic", "deepseek", "fireworks_ai", "gemini", "groq", "mistral", "openai", "together_ai"}
KEYS = ("input_cost_per_token", "output_cost_per_token", "litellm_provider")


def prices(table: Mapping[str, Mapping[str, Any]], *, of: str, day: date) -> str:
    """The file. of: litellm's version. Raises: ValueError where the table has none of these models."""
    kept = {
        name: {key: entry[key] for key in KEYS}
        for name, entry in sorted(table.items())
        if entry.get("mode") == "chat"
        and entry.get("litellm_provider") in PROVIDERS
        and all(map(entry.get, KEYS))
        and str(entry.get("deprecation_date", "9999")) >= day.isoformat()
    }
    if not kept:
        raise ValueError(
            f"The table of litellm {of} has no chat model of {', '.join(sorted(PROVIDERS))}: is it the right file?"
        )
    said = {"source": {"description": f"the table of litellm {of}, seen on {day.day} {day:%B %Y}"}, **kept}
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in said.items()) + "\n}\n"


def main(words: list[str] | None = None) -> None:
    """Write the file, and say how many models came and went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, help=f"a {TABLE} [default: of the litellm that is installed]")
    parser.add_argument("--of", help="the version of litellm that it is of [default: of the one that is installed]")
    parser.add_argument("--out", type=Path, default=FILE)
    said = parser.parse_args(words)
    if said.table is None:
        spec = find_spec("litellm")
        if spec is None or spec.origin is None:
            parser.error(
                "litellm is not installed here. Install it in an environment of its own, or give --table and --of."
            )
        said.table = Path(spec.origin).parent / TABLE
    of = said.of or version("litellm")
    made = prices(json.loads(said.table.read_text("utf-8")), of=of, day=datetime.now(UTC).date())
    old, new = (set(json.loads(text)) for text in (said.out.read_text("utf-8") if said.out.exists() else "{}", made))
    said.out.write_text(made, encoding="utf-8")
    print(f"{said.out}: {len(new) - 1} models of litellm {of}, {len(new - old)} new, {len(old - new)} gone")


if __name__ == "__main__":
    main()
