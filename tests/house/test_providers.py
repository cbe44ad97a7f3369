"""Test that the page of providers (docs/providers.md) agrees with `youden plan`, and prices with their source."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from book import making
from commands import Youden
from skip_reasons import NO_LITELLM
from youden.judging.backend_records import get_backend_record
from youden.judging.config.judge_files import list_judges, load_judge_config
from youden.judging.config.price_table import find_table_price
from youden.resources import find_resource_folders

DOCS = Path(__file__).parents[2] / "docs"
TABLE_NAMES = {
    "llama3.3-70b-deepinfra": "deepinfra/meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "llama3.3-70b-sambanova": "sambanova/Meta-Llama-3.3-70B-Instruct",
    "gpt-4o-mini-azure": "azure/gpt-4o-mini",
    "llama3.3-70b-bedrock": "us.meta.llama3-3-70b-instruct-v1:0",
}
"""litellm's names of models whose judge file has an address of its own, or another name of the model."""
PRICED = [
    judge.name for judge in list_judges() if judge.price_in and get_backend_record(judge.backend).is_priced_by_litellm
]
"""Judges whose prices are those of litellm's table."""


@pytest.mark.slow
def test_the_page_of_providers_has_the_costs_that_plan_prints(youden: Youden, tmp_path: Path) -> None:
    program = making("providers")
    program.write_pool(tmp_path / "words.csv", program.WORDS[0])
    (tmp_path / "words.yaml").write_text(f"pool: words.csv\ncalls: {program.PERCENT}%\n", encoding="utf-8")
    cost = json.loads(youden("plan", "words.yaml", "--judge", "mistral-small", "--json").out)["cost"]

    page = program.table()
    listed = re.findall(r"^\| .* \| `([\w.-]+)` \| [\d,]+ \|", page, re.MULTILINE)
    assert set(listed) == {*list_judge_files()} - program.TEMPLATES
    assert f"| `mistral-small` | {cost['calls']:,} | {cost['tokens_in'] / 1e6:.1f} M | {cost['usd']:.2f} |" in page
    assert "export MISTRAL_API_KEY=…\nyouden doctor mistral-small\n" in page


def list_judge_files() -> dict[str, Path]:
    folder = find_resource_folders("configs", local=False)[0] / "judges"
    return {path.stem: path for path in folder.glob("*.yaml")}


def test_every_shipped_judge_loads_and_prints_its_cost_but_no_key() -> None:
    files = list_judge_files()
    assert set(TABLE_NAMES) < set(PRICED) < set(files)
    for path in files.values():
        config = load_judge_config(path)
        assert config.price_in is not None
        assert config.price_out is not None
        assert config.price_source == "the judge's config"
        assert config.key_variable is None or config.key_variable.endswith(("_KEY", "_TOKEN"))


@pytest.mark.parametrize("name", PRICED)
def test_shipped_prices_equal_the_table_of_litellm(name: str) -> None:
    if find_spec("litellm") is None:
        pytest.skip(f"{NO_LITELLM}; .ci/run runs this file again where it is")
    config = load_judge_config(name)
    listed = load_judge_config({"backend": "litellm", "model": TABLE_NAMES[name]}) if name in TABLE_NAMES else config
    assert (config.price_in, config.price_out) == find_table_price(listed)


def test_shipped_prices_are_those_of_known_providers() -> None:
    """A new provider has no prices in the file until the next release updates it: CONTRIBUTING.md, "Release a version"."""
    prices = json.loads((DOCS.parent / "configs" / "prices.json").read_text(encoding="utf-8"))
    shipped = {entry.get("litellm_provider") for entry in prices.values()} - {None}
    assert {"openai", "anthropic", "gemini", "groq", "mistral"} < shipped <= making("prices").list_priced_providers()


def test_shipped_prices_are_rewritten_from_the_table_of_litellm(tmp_path: Path) -> None:
    priced = {"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06}
    kept = priced | {"litellm_provider": "openai"}
    table = {
        "new": kept | {"max_tokens": 9},
        "kept": kept | {"deprecation_date": "2999-01-01"},
        "gone": kept | {"deprecation_date": "2001-01-01"},
        "unknown": priced | {"litellm_provider": "elsewhere"},
        "free": kept | {"input_cost_per_token": 0},
        "picture": kept | {"mode": "image_generation"},
    }
    (tmp_path / "table.json").write_text(json.dumps(table), encoding="utf-8")
    (tmp_path / "prices.json").write_text('{"source": {}, "kept": {}, "gone": {}}', encoding="utf-8")
    words: list[str | Path] = [
        "--table",
        tmp_path / "table.json",
        "--litellm-version",
        "9.9",
        "--out",
        tmp_path / "prices.json",
    ]
    ran = subprocess.run(
        [sys.executable, DOCS / "making" / "prices.py", *words], check=True, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.endswith("2 models of litellm 9.9, 1 added, 1 removed\n")
    data = json.loads((tmp_path / "prices.json").read_text(encoding="utf-8"))
    assert data.pop("source")["description"].startswith("the table of litellm 9.9, seen on ")
    entry = {key: value for key, value in kept.items() if key != "mode"}
    assert data == {"kept": entry, "new": entry}
