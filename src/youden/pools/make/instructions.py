"""What an agent's model is told: a file of prompts/agents/ with a place for the text."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from youden.errors import ConfigError
from youden.judging.question.prompts import fence
from youden.nouns import Message
from youden.resources import find
from youden.text.misfits import misfit
from youden.text.yaml_text import YamlError, front_matter

_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str | None = None


@dataclass(frozen=True)
class Instruction:
    """digest: sha256 (hex) of the file's text."""

    name: str
    template: str
    system: str | None
    digest: str

    def messages(self, text: str, *, notes: str = "") -> tuple[Message, ...]:
        """The instruction with the text, and notes on it, between tags that they cannot contain."""
        text, notes = (part.encode("utf-8", "replace").decode() for part in (text, notes))
        tag = fence(text, notes)
        filled = {"text": f"<text-{tag}>\n{text}\n</text-{tag}>", "notes": f"<notes-{tag}>\n{notes}\n</notes-{tag}>"}
        user = Message("user", _PLACE.sub(lambda found: filled[found[1]], self.template).strip())
        return (user,) if self.system is None else (Message("system", self.system), user)


def load_instruction(name: str, *, folder: Path, notes: bool = False) -> Instruction:
    """`prompts/agents/NAME.md`, or the path that ends in .md, from `folder` where it is relative.

    notes: whether there will be notes to fill in.

    Raises: ConfigError [not-found], [instruction].
    """
    path = folder / name if name.endswith(".md") else find("prompts", f"agents/{name}.md")
    try:
        whole = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The instruction {path} cannot be read ({error}). Give a UTF-8 file.", slug="instruction"
        ) from None
    try:
        read = front_matter(whole)
        head = _Head() if read is None else _Head.model_validate(read.head or {})
    except (ValidationError, YamlError) as error:
        said = misfit(error) if isinstance(error, ValidationError) else error
        raise ConfigError(
            f"The front matter of {path} does not fit: {said}. It may say `system:`, no more.", slug="instruction"
        ) from None
    template = whole if read is None else read.body
    places = set(_PLACE.findall(template))
    allowed = {"text", "notes"} if notes else {"text"}
    if "text" not in places or not places <= allowed or (notes and "notes" not in places):
        needs = "{{text}} and {{notes}}" if notes else "{{text}}"
        raise ConfigError(
            f"The instruction {path} has the places {', '.join(sorted(places)) or 'none'}; this agent needs {needs}, no other.",
            slug="instruction",
        )
    return Instruction(path.stem, template, head.system, hashlib.sha256(whole.encode()).hexdigest())
