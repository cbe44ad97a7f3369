"""Tabulate the providers, the cost of a ranking by each shipped judge as `youden plan` estimates it, and the commands of each.

The pool has 30 agents and 200 items; all responses have the same number of words with five characters. The plan is `calls: 2%`,
seed 0. Tokens are estimated as characters / 4, even if a tokenizer is installed.
"""

from __future__ import annotations

import csv
import math
import tempfile
from pathlib import Path
from unittest.mock import patch

from youden import make_plan, read_pool
from youden.cli.output import format_minutes
from youden.extras import format_install
from youden.judging.backend_records import PROVIDERS, get_backend_record
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.resources import find_resource_folders
from youden.types import Plan

N_AGENTS, N_ITEMS, PERCENT, WORDS = 30, 200, 2, (100, 300)
HOSTS = {
    "llama3-70b": "Llama 3 70B, Amazon Bedrock",
    "llama3.3-70b-deepinfra": "Llama 3.3 70B, DeepInfra",
    "llama3.3-70b-sambanova": "Llama 3.3 70B, SambaNova",
    "vllm": "Llama 3 70B, your own vLLM",
    "ollama": "Llama 3 70B, your own Ollama",
    "llama3.3-70b-bedrock": "Llama 3.3 70B, Amazon Bedrock",
    "gemini-3.5-flash-lite-vertex": "Gemini 3.5 Flash-Lite, Google Vertex AI",
}
"""Titles of judges whose host is not the title of their backend."""

TEMPLATES = {"local"}
"""Judge files without an address and a model, to be copied and completed."""

EXTRA_PACKAGES = {"bedrock": " boto3", "vertex_ai": " google-auth"}
"""Packages that litellm needs, by the host in the name of the model."""


def list_titles() -> dict[str, str]:
    """Return the title of each shipped judge by name: the paper's two, then by provider, then other hosts and servers."""
    files = {
        path.stem
        for root in find_resource_folders("configs", local=False)[:1]
        for path in (root / "judges").glob("*.yaml")
    } - TEMPLATES
    titles = {name: HOSTS[name] for name in HOSTS if name in files}
    for name in files - titles.keys():
        judge = load_judge_config(name)
        titles[name] = f"{str(judge.model).rpartition('/')[2]}, {get_backend_record(judge.backend).title}"
    first = ["gpt-4o-mini", "llama3-70b"]
    by_provider = sorted(files - set(first) - HOSTS.keys(), key=lambda name: (titles[name].rpartition(", ")[2], name))
    return {name: titles[name] for name in dict.fromkeys([*first, *by_provider, *HOSTS])}


def list_key_variables(judge: JudgeConfig) -> tuple[str, ...]:
    """Return the environment variables that the judge needs."""
    host = str(judge.model).partition("/")[0]
    return get_backend_record(judge.backend).hosts.get(
        host, () if judge.key_variable is None else (judge.key_variable,)
    )


def table(_: str = "") -> str:
    """Return the list of providers, the table of judges, and the commands of each judge."""
    return f"{format_providers()}\n\n{format_judges()}"


def format_providers() -> str:
    """List the providers of `--judge PROVIDER/MODEL`."""
    names = ["openai", *(name for name, record in PROVIDERS.items() if record.address)]
    providers = ", ".join(f"`{name}`" for name in names)
    hosts = " or ".join(f"`{name}`" for name in get_backend_record("litellm").hosts)
    return (
        f"PROVIDER in `--judge PROVIDER/MODEL` is one of {providers}. With litellm installed, it may also be\n"
        f"{hosts}; litellm reads the keys of these providers from its own environment variables."
    )


def format_judges() -> str:
    """Return the table of judges and the commands of each, as Markdown."""
    plans = [make_plan_of_words(n_words) for n_words in WORDS]
    lines = [
        f"| judge | `--judge` | calls | tokens in | USD | USD at {WORDS[1]} words | time | assumptions for the time |",
        "| --- | --- | --: | --: | --: | --: | --- | --- |",
    ]
    commands = []
    for name, title in list_titles().items():
        with tempfile.TemporaryDirectory() as empty, patch.dict("os.environ", TIKTOKEN_CACHE_DIR=empty):
            short, long = (plan.cost(judge=name) for plan in plans)
        lines.append(
            f"| {title} | `{name}` | {short.calls:,} | {short.tokens_in / 1e6:.1f} M "
            f"| {short.usd:.2f} | {long.usd:.2f} | {format_minutes(short.minutes)} | {short.pace} |"
        )
        commands.append(f"### {title}\n\n```sh\n{format_commands(name, usd=short.usd or 0.0)}```\n")
    return "\n".join([*lines, "", *commands])


def format_commands(name: str, *, usd: float) -> str:
    """Return the commands that use one judge, with 1.5 times the planned cost as the cap."""
    cap = f" --max-cost {math.ceil(1.5 * usd)}" if usd else ""
    judge = load_judge_config(name)
    host = str(judge.model).partition("/")[0]
    extra = f"{format_install('litellm')}{EXTRA_PACKAGES.get(host, '')}" if judge.backend == "litellm" else None
    return "".join(
        f"{line}\n"
        for line in [
            *([extra] if extra else []),
            *(f"export {key}=…" for key in list_key_variables(judge)),
            f"youden doctor {name}",
            f"youden plan mine.yaml --judge {name}",
            f"youden run mine.yaml --judge {name}{cap}",
        ]
    )


def make_plan_of_words(n_words: int) -> Plan:
    """Plan the comparisons of the pool that `write_pool` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool.csv"
        write_pool(path, n_words)
        return make_plan(read_pool(path), calls=f"{PERCENT}%")


def write_pool(path: Path, n_words: int) -> None:
    """Write a pool of which all texts have `n_words` words."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text"])
        for agent in range(N_AGENTS):
            for item in range(N_ITEMS):
                # the first word makes each text unique: trials of equal texts would share a request, which is paid for once
                first_word = f"{agent * N_ITEMS + item:05d}"
                writer.writerow([f"agent-{agent}", f"item-{item}", " ".join([first_word, *["words"] * (n_words - 1)])])
