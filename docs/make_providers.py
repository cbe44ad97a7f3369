"""Write the table and commands of docs/providers.md from the output of `youden plan --json` for each judge on one pool.

    python docs/make_providers.py

The pool has 30 agents × 200 items, and every response has the same number of five-letter words; the plan is `calls: 2%`, seed 0.
Tokens are estimated as characters / 4, even if a tokenizer is installed. tests/house/test_providers.py compares the page with
this script, and the prices of the judges with litellm's table if it is installed.
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
from youden.judging.backend_records import get_backend_record
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
"""Titles of judges that the record of their backend does not name."""

OWN = {"local"}
"""Judges that cannot be used until an address and a model are set in a copy of their file."""

EXTRAS = {"bedrock": " boto3", "vertex_ai": " google-auth"}
"""Further packages that litellm needs, by host, which is the first part of the name of the model."""


def titles() -> dict[str, str]:
    """Return the title of every shipped judge by name: the two of the paper, providers by name, other hosts and servers."""
    files = {
        path.stem
        for root in find_resource_folders("configs", local=False)[:1]
        for path in (root / "judges").glob("*.yaml")
    } - OWN
    known = {name: HOSTS[name] for name in HOSTS if name in files}
    for name in files - known.keys():
        judge = load_judge_config(name)
        known[name] = f"{str(judge.model).rpartition('/')[2]}, {get_backend_record(judge.backend).title}"
    first = ["gpt-4o-mini", "llama3-70b"]
    named = sorted(files - set(first) - HOSTS.keys(), key=lambda name: known[name].rpartition(", ")[2])
    return {name: known[name] for name in dict.fromkeys([*first, *named, *HOSTS])}


def keys_of(judge: JudgeConfig) -> tuple[str, ...]:
    """Return the environment variables that must be set before the judge can be queried."""
    host = str(judge.model).partition("/")[0]
    return get_backend_record(judge.backend).hosts.get(
        host, () if judge.key_variable is None else (judge.key_variable,)
    )


def main() -> None:
    """Update the page."""
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def current(page: str) -> str:
    """Return the page with the part between the markers generated again."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        os.environ["TIKTOKEN_CACHE_DIR"] = scratch
        made = figures()
    return f"{before}{BEGIN}\n{made}{END}{after}"


def figures() -> str:
    """Return the table and the commands as Markdown; write pools and plans to the current directory."""
    for n_words in WORDS:
        write_pool(Path(f"words-{n_words}.csv"), n_words)
        Path(f"words-{n_words}.yaml").write_text(f"pool: words-{n_words}.csv\ncalls: {PERCENT}%\n", encoding="utf-8")
    lines = [
        f"| judge | `--judge` | calls | tokens in | USD | USD at {WORDS[1]} words | time | assumptions for the time |",
        "| --- | --- | --: | --: | --: | --: | --- | --- |",
    ]
    commands = []
    for name, title in titles().items():
        short, long = (plan(f"words-{n_words}.yaml", "--judge", name)["cost"] for n_words in WORDS)
        lines.append(
            f"| {title} | `{name}` | {short['calls']:,} | {short['tokens_in'] / 1e6:.1f} M "
            f"| {short['usd']:.2f} | {long['usd']:.2f} | {format_minutes(short['minutes'])} | {short['pace']} |"
        )
        commands.append(f"### {title}\n\n```sh\n{how_to(name, usd=short['usd'])}```\n")
    return "\n".join([*lines, "", *commands])


def how_to(name: str, *, usd: float) -> str:
    """Return the commands for one judge; the cost cap is 1.5 times the planned cost."""
    cap = f" --max-cost {math.ceil(1.5 * usd)}" if usd else ""
    judge = load_judge_config(name)
    host = str(judge.model).partition("/")[0]
    extra = f"pip install 'youden[litellm]'{EXTRAS.get(host, '')}" if judge.backend == "litellm" else None
    return "".join(
        f"{line}\n"
        for line in [
            *([extra] if extra else []),
            *(f"export {key}=…" for key in keys_of(judge)),
            f"youden doctor {name}",
            f"youden plan mine.yaml --judge {name}",
            f"youden run mine.yaml --judge {name}{cap}",
        ]
    )


def plan(*words: str) -> dict[str, Any]:
    """Return the output of `youden plan … --json`."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        cli.youden.main(["plan", *words, "--json"], standalone_mode=False)
    output: dict[str, Any] = json.loads(out.getvalue())
    return output


def write_pool(path: Path, n_words: int) -> None:
    """Write a pool in which all texts have the same number of words."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text"])
        text = " ".join(["words"] * n_words)
        writer.writerows([f"agent-{i}", f"item-{j}", text] for i in range(N_AGENTS) for j in range(N_ITEMS))


if __name__ == "__main__":
    main()
