"""Write the generated part of docs/providers.md: the providers, and what `youden plan --json` prints for each judge.

    python docs/make_providers.py

The pool has 30 agents and 200 items; all responses have the same number of words with five characters. The plan is `calls: 2%`,
seed 0. Tokens are estimated as characters / 4, even if a tokenizer is installed. tests/house/test_providers.py compares the page
with the output of this script, and the prices with litellm's table if litellm is installed.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from youden import cli
from youden.cli.output import format_minutes
from youden.extras import format_install
from youden.judging.backend_records import PROVIDERS, get_backend_record
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.resources import find_resource_folders

PAGE = Path(__file__).with_name("providers.md")
BEGIN, END = "<!-- made by docs/make_providers.py: begin -->", "<!-- end -->"

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


def main() -> None:
    """Update the page."""
    PAGE.write_text(update_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def update_page(page: str) -> str:
    """Return the page with a new generated part between its markers."""
    before, _, generated = page.partition(BEGIN)
    after = generated.partition(END)[2]
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        os.environ["TIKTOKEN_CACHE_DIR"] = scratch
        generated = f"{format_providers()}\n\n{format_judges()}"
    return f"{before}{BEGIN}\n{generated}{END}{after}"


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
    """Return the table of judges and the commands of each, as Markdown; write pools and plans to the current directory."""
    for n_words in WORDS:
        write_pool(Path(f"words-{n_words}.csv"), n_words)
        Path(f"words-{n_words}.yaml").write_text(f"pool: words-{n_words}.csv\ncalls: {PERCENT}%\n", encoding="utf-8")
    lines = [
        f"| judge | `--judge` | calls | tokens in | USD | USD at {WORDS[1]} words | time | assumptions for the time |",
        "| --- | --- | --: | --: | --: | --: | --- | --- |",
    ]
    commands = []
    for name, title in list_titles().items():
        short, long = (plan(f"words-{n_words}.yaml", "--judge", name)["cost"] for n_words in WORDS)
        lines.append(
            f"| {title} | `{name}` | {short['calls']:,} | {short['tokens_in'] / 1e6:.1f} M "
            f"| {short['usd']:.2f} | {long['usd']:.2f} | {format_minutes(short['minutes'])} | {short['pace']} |"
        )
        commands.append(f"### {title}\n\n```sh\n{format_commands(name, usd=short['usd'])}```\n")
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


def plan(*arguments: str) -> dict[str, Any]:
    """Return what `youden plan … --json` prints."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        cli.youden.main(["plan", *arguments, "--json"], standalone_mode=False)
    result: dict[str, Any] = json.loads(out.getvalue())
    return result


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


if __name__ == "__main__":
    main()
