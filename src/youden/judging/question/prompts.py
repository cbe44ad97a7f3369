"""A judge's prompt: a file with front matter (labels, grades, parser) and a template for two texts.

The texts are foreign: each stands between tags that it cannot contain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from youden.errors import ConfigError
from youden.resources import find, stays_in_folder
from youden.text.printable import sendable
from youden.text.regular_files import read_regular_text
from youden.text.yaml_text import YamlError, front_matter, misfit
from youden.types import Message

Parser = Literal["label/1"]

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_NAMES = ("first", "second", "fence")


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    labels: dict[str, float] = Field(min_length=2)
    yes_from: float = Field(gt=0, le=1)
    parser: Parser
    system: str | None = None


@dataclass(frozen=True)
class Prompt:
    """A question about two texts.

    labels: what may be answered → its grade in [0, 1], 1 for 'same source'.
    yes_from: the hard decision is yes from this grade on.
    digest: sha256 (hex) of the file's text.
    """

    name: str
    template: str
    system: str | None
    labels: Mapping[str, float]
    yes_from: float
    parser: Parser
    digest: str

    def messages(self, first: str, second: str, *, hint: str = "") -> tuple[Message, ...]:
        """The question about these two texts, in this order, each between tags that neither text can contain.

        hint: stands at the very end.
        """
        first, second = sendable(first), sendable(second)
        tag = fence(first, second)
        filled = {
            "first": f"<first-{tag}>\n{first}\n</first-{tag}>",
            "second": f"<second-{tag}>\n{second}\n</second-{tag}>",
            "fence": tag,
        }
        return self.filled(filled, hint=hint)

    def filled(self, filled: Mapping[str, str], *, hint: str = "") -> tuple[Message, ...]:
        """The question with these words where `first`, `second` and `fence` stand."""
        text = "".join([filled[part] if is_name else part for part, is_name in self._parts])
        user = Message("user", text + hint)
        return (user,) if self.system is None else (Message("system", self.system), user)

    @cached_property
    def _parts(self) -> list[tuple[str, bool]]:
        """The template's words and, between them, its placeholders' names (True)."""
        return [(part, n % 2 == 1) for n, part in enumerate(_PLACEHOLDER.split(self.template))]


def fence(first: str, second: str) -> str:
    """16 hex digits from both texts: the same for the same texts, and in neither of them.

    A text cannot hold its own fence, for putting it in changes the hash; where one does by luck, the next hash is taken.
    """
    return fence_of(len(first), first.encode(), second.encode()).decode()


def fence_of(n_first: int, first: bytes, second: bytes) -> bytes:
    """`fence` of two texts in UTF-8, of which the first has `n_first` characters."""
    hasher = hashlib.sha256(b"%d:%b%b" % (n_first, first, second))
    while (tag := hasher.hexdigest()[:16].encode()) in first or tag in second:
        hasher.update(b"+")
    return tag


def load_prompt(name_or_path: str | Path) -> Prompt:
    """The prompt `name` in prompts/, or the file at a path (anything that ends in `.md`).

    Raises: ConfigError [not-found], [prompt-unreadable], [prompt-front-matter], [prompt-labels], [prompt-placeholder].
    """
    path = Path(name_or_path)
    if path.suffix != ".md":
        path = find("prompts", f"{name_or_path}.md")
    if path.is_file() and not stays_in_folder(path):
        raise ConfigError(
            f"The prompt {path} links to a file outside its folder, which is not read. Pass the path of that file.",
            slug="prompt-unreadable",
        )
    try:
        text = read_regular_text(path)
    except FileNotFoundError:
        there = sorted(each.name for each in path.parent.glob("*.md")) if path.parent.is_dir() else []
        raise ConfigError(
            f"There is no prompt {path}. In {path.parent} there are: {', '.join(there[:20]) or 'no prompts'}"
            f"{' …' if len(there) > 20 else ''}. Give one of these, a name in prompts/ or another path.",
            slug="prompt-unreadable",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The prompt {path} cannot be read: {error}. Give a name in prompts/ or the path of a UTF-8 text file.",
            slug="prompt-unreadable",
        ) from None
    return parse_prompt(text, name=path.stem, where=str(path))


@lru_cache(maxsize=256)  # a command reads a judge's prompt again and again
def parse_prompt(text: str, *, name: str, where: str) -> Prompt:
    """The prompt that `text` spells. `where` names it in errors. Raises: as `load_prompt`."""
    try:
        read = front_matter(text)
        if read is None:
            raise ConfigError(
                f"The prompt {where} has no front matter. Begin it with '---', `labels`, `yes_from` and `parser`, '---'.",
                slug="prompt-front-matter",
            )
        head = _Head.model_validate(read.head)
    except YamlError as error:
        raise ConfigError(
            f"The front matter of {where} is no YAML: {error}. Write one `key: value` a line.",
            slug="prompt-front-matter",
        ) from None
    except ValidationError as error:
        raise ConfigError(
            f"The front matter of {where} does not fit: {misfit(error)}. "
            "It has `labels` (answer: grade, in quotes), `yes_from`, `parser: label/1` and, if wanted, `system`.",
            slug="prompt-front-matter",
        ) from None
    _check_labels(head, where)
    _check_placeholders(read.body, where)
    return Prompt(
        name=name,
        template=read.body.strip(),
        system=head.system,
        labels=head.labels,
        yes_from=head.yes_from,
        parser=head.parser,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )


def _check_labels(head: _Head, where: str) -> None:
    grades = head.labels.values()
    if not all(0 <= grade <= 1 for grade in grades):
        raise ConfigError(f"A grade in {where} lies outside [0, 1]: {head.labels}.", slug="prompt-labels")
    if len({label.strip().casefold() for label in head.labels} - {""}) < len(head.labels):
        raise ConfigError(f"Two labels in {where} read the same, or one is empty: {head.labels}.", slug="prompt-labels")
    if max(grades) < head.yes_from or min(grades) >= head.yes_from:
        raise ConfigError(
            f"Every label in {where} is on one side of yes_from = {head.yes_from}: {head.labels}. "
            "Set it so that one label is a yes and one is a no.",
            slug="prompt-labels",
        )


def _check_placeholders(template: str, where: str) -> None:
    found = _PLACEHOLDER.findall(template)
    unknown = sorted(set(found) - set(_NAMES))
    wrong = [f"{{{{{name}}}}}" for name in ("first", "second") if found.count(name) != 1]
    if unknown or wrong:
        says = f"unknown: {', '.join(unknown)}" if unknown else f"not there exactly once: {', '.join(wrong)}"
        raise ConfigError(
            f"The placeholders in {where} do not fit ({says}). "
            "Write {{first}} and {{second}} once each where the texts go; {{fence}} is the mark of their tags.",
            slug="prompt-placeholder",
        )
