"""Writes the figures and commands of docs/providers.md: what `youden plan --json` says of each judge on one pool.

    python docs/make_providers.py

The pool is 30 agents × 200 items, every response the same number of five-letter words; the plan is `calls: 2%`, seed 0.
Tokens are characters / 4 whatever tokenizers this machine has. tests/house/test_providers.py holds the page against this script,
and the judges' prices against litellm's table where that is installed.
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
"""Judges that their backend's record does not name, in words."""

OWN = {"local"}
"""Judges that say nothing until somebody has written an address and a model into a copy of their file."""

EXTRAS = {"bedrock": " boto3", "vertex_ai": " google-auth"}
"""What litellm needs beside, by the host's name before the model's."""


def titles() -> dict[str, str]:
    """Every judge that is shipped, by its name: the paper's two, providers by their names, then other hosts and servers."""
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
    """The variables that have to be set before it can be asked."""
    host = str(judge.model).partition("/")[0]
    return get_backend_record(judge.backend).hosts.get(
        host, () if judge.key_variable is None else (judge.key_variable,)
    )


def main() -> None:
    """Write the page again."""
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def current(page: str) -> str:
    """`page` with what stands between the markers made anew."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        os.environ["TIKTOKEN_CACHE_DIR"] = scratch
        made = figures()
    return f"{before}{BEGIN}\n{made}{END}{after}"


def figures() -> str:
    """The table, what it rests on, and the commands, as Markdown; writes its pools and plans where it runs."""
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
    """The commands that ask one judge; the cap is half as much again as the plan's dollars."""
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
    """What `youden plan … --json` prints."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        cli.youden.main(["plan", *words, "--json"], standalone_mode=False)
    said: dict[str, Any] = json.loads(out.getvalue())
    return said


def write_pool(path: Path, n_words: int) -> None:
    """A pool whose texts have the length that is asked for, and nothing else."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text"])
        text = " ".join(["words"] * n_words)
        writer.writerows([f"agent-{i}", f"item-{j}", text] for i in range(N_AGENTS) for j in range(N_ITEMS))


if __name__ == "__main__":
    main()
