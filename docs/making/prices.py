"""Generate `configs/prices.json` from litellm's table: `python docs/making/prices.py`, in an environment with litellm.

The file contains the chat models of known providers that have both prices and are still served, one per line.
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
    """Return the text of the file; raise ValueError if the table has no such model. of: version of litellm."""
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
            f"The table of litellm {of} has no chat model of {', '.join(sorted(PROVIDERS))}. Check that it is the right file."
        )
    content = {"source": {"says": f"the table of litellm {of}, seen on {day.day} {day:%B %Y}"}, **kept}
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content.items()) + "\n}\n"


def main(words: list[str] | None = None) -> None:
    """Write the file, and print the number of models that were added and removed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, help=f"path of a {TABLE} [default: that of the installed litellm]")
    parser.add_argument("--of", help="version of litellm of the table [default: that of the installed litellm]")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args(words)
    if options.table is None:
        spec = find_spec("litellm")
        if spec is None or spec.origin is None:
            parser.error("litellm is not installed. Install it in a separate environment, or set --table and --of.")
        options.table = Path(spec.origin).parent / TABLE
    of = options.of or version("litellm")
    made = prices(json.loads(options.table.read_text("utf-8")), of=of, day=datetime.now(UTC).date())
    old, new = (
        set(json.loads(text)) for text in (options.out.read_text("utf-8") if options.out.exists() else "{}", made)
    )
    options.out.write_text(made, encoding="utf-8")
    print(f"{options.out}: {len(new) - 1} models of litellm {of}, {len(new - old)} added, {len(old - new)} removed")


if __name__ == "__main__":
    main()
