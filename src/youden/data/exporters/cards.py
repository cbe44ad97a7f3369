"""The README.md of a folder for the Hugging Face Hub: YAML in front, Markdown below; names from outside are only ever text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from youden.nouns import Json
from youden.text.quoting import quoted

TAGS = ["youden", "llm-evaluation"]


def card(front: Mapping[str, Json], title: str, paragraphs: Sequence[str]) -> str:
    """front: what the Hub reads. title: shown as it is, whatever it holds. paragraphs: Markdown."""
    yaml_text = yaml.safe_dump(dict(front), sort_keys=False, allow_unicode=True, width=1000)
    return "\n\n".join([f"---\n{yaml_text}---", f"# {quoted(title)}", *paragraphs]) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of texts that are shown as they are."""
    lines = [header, ["---"] * len(header), *([quoted(field) for field in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def config_of(name: str, *files: str, default: bool = False) -> dict[str, Json]:
    """One table of the dataset, as the Hub and `datasets` find it."""
    found: list[Json] = [*files]
    said: dict[str, Json] = {"config_name": name, "data_files": found if len(files) > 1 else files[0]}
    return said | ({"default": True} if default else {})
