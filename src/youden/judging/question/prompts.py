"""Load the prompt of a judge: a file with front matter (labels, grades, parser) and a template for two texts.

The texts are untrusted. Each is put between tags that it cannot contain, so that it cannot pretend to end.
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
from youden.resources import find_resource, is_inside_folder
from youden.run_keys import Question
from youden.text.printable import to_encodable
from youden.text.regular_files import read_regular_text
from youden.text.yaml_text import YamlError, format_validation_error, split_front_matter
from youden.types import Message

Parser = Literal["label/1"]

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_PLACEHOLDER_NAMES = ("first", "second", "fence", "task")
_MAX_LISTED_PROMPTS = 20


class _FrontMatter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    labels: dict[str, float] = Field(min_length=2)
    yes_threshold: float = Field(gt=0, le=1)
    parser: Parser
    question: Question = "information"
    system: str | None = None


@dataclass(frozen=True)
class Prompt:
    """A question about two texts."""

    name: str
    """Name of the prompt, or of its file without `.md`."""
    template: str
    """Text of the question, with the placeholders {{first}}, {{second}} and {{fence}}."""
    system: str | None
    """Text of the system message; None to send none."""
    labels: Mapping[str, float]
    """Grade of each answer that the judge may give, in [0, 1]; 1 means "same source"."""
    yes_threshold: float
    """Smallest grade that counts as a yes in the hard decision."""
    parser: Parser
    """Name and version of the parser of the answers."""
    digest: str
    """SHA-256 (hex) of the text of the file."""
    question: Question = "information"
    """What the judge is asked: whether both texts have the same source, or which of them is better."""

    @property
    def shows_task(self) -> bool:
        """Whether the question contains the prompt of the item."""
        return any(part == "task" for part, is_placeholder in self._template_parts if is_placeholder)

    def messages(self, first: str, second: str, *, task: str = "", hint: str = "") -> tuple[Message, ...]:
        """Build the messages that ask the question about two texts.

        Parameters
        ----------
        first, second : str
            The texts, in the order in which the judge sees them. Each is put between tags that neither text contains.
            Lone surrogates, which cannot be encoded, are replaced.
        task : str, default ""
            Prompt of the item; without effect if the template does not contain {{task}}. If "", the message has empty tags.
        hint : str, default ""
            Text that is appended to the user message without a separator.

        Returns
        -------
        tuple of Message
            The system message, if the prompt has one, and the user message.
        """
        first = to_encodable(first)
        second = to_encodable(second)
        task = to_encodable(task)
        # the fence must occur in no text between tags, so it depends on all of them
        second_and_task = f"{second}\n{task}" if self.shows_task else second
        fence = make_fence(first, second_and_task)
        values = {
            "task": f"<task-{fence}>\n{task}\n</task-{fence}>",
            "first": f"<first-{fence}>\n{first}\n</first-{fence}>",
            "second": f"<second-{fence}>\n{second}\n</second-{fence}>",
            "fence": fence,
        }
        return self.fill_template(values, hint=hint)

    def fill_template(self, values: Mapping[str, str], *, hint: str = "") -> tuple[Message, ...]:
        """Build the messages to the judge by filling the placeholders of the template.

        A placeholder within an inserted text is not replaced, because the text comes from an agent and not from the template.

        Parameters
        ----------
        values : mapping of str to str
            Text for each placeholder. The texts for "first", "second" and "task" include the tags around them. The text for
            "fence" is a part of these tags that occurs in none of the texts.
        hint : str, default ""
            Text that is appended to the user message without a separator.

        Returns
        -------
        tuple of Message
            The system message, if the prompt has one, and the user message: the filled template followed by `hint`. The system
            message is returned unchanged.

        Raises
        ------
        KeyError
            If the text of a placeholder of the template is missing. Texts for other names are ignored.
        """
        filled_parts = []
        for text_or_name, is_placeholder in self._template_parts:
            filled_parts.append(values[text_or_name] if is_placeholder else text_or_name)
        user_message = Message("user", "".join(filled_parts) + hint)

        if self.system is None:
            return (user_message,)
        return Message("system", self.system), user_message

    @cached_property
    def _template_parts(self) -> list[tuple[str, bool]]:
        """The parts of the template: texts (False) and, between them, names of placeholders (True)."""
        return [(part, n % 2 == 1) for n, part in enumerate(_PLACEHOLDER.split(self.template))]


def make_fence(first: str, second: str) -> str:
    """Compute the fence of two texts: a part of the tags around them that neither text contains.

    Parameters
    ----------
    first, second : str
        The texts, in the order in which the prompt shows them.

    Returns
    -------
    str
        16 hex digits of a hash of both texts. A text cannot be made to contain its own fence, because inserting it
        changes the hash; if a text contains the fence by chance, the next hash is used.
    """
    return make_fence_bytes(len(first), first.encode(), second.encode()).decode()


def make_fence_bytes(n_first: int, first: bytes, second: bytes) -> bytes:
    """Compute the fence of two texts that are encoded already; `make_fence` returns the same for texts that are not.

    The fence is a part of the tags around the texts. Neither text contains the fence, so no text can close its own tag.

    n_first : number of characters of the first text. It is hashed with the texts, so that the fence also depends on where the
        second text begins.
    first, second : the texts in UTF-8

    Returns 16 hexadecimal digits in ASCII.
    """
    hasher = hashlib.sha256(b"%d:%b%b" % (n_first, first, second))
    fence = hasher.hexdigest()[:16].encode()
    while fence in first or fence in second:
        hasher.update(b"+")
        fence = hasher.hexdigest()[:16].encode()
    return fence


def load_prompt(name_or_path: str | Path) -> Prompt:
    """Load a prompt by its name or from a file.

    Parameters
    ----------
    name_or_path : str or Path
        Name of a prompt in prompts/, or a path that ends in `.md`.

    Returns
    -------
    Prompt
        The prompt. Its name is that of the file without the suffix.

    Raises
    ------
    ConfigError
        [not-found]: if no prompt has this name. [prompt-unreadable]: if the file cannot be read, or links to a file
        outside its folder. [prompt-front-matter], [prompt-labels], [prompt-placeholder]: if its front matter, labels or
        placeholders are invalid.
    """
    path = Path(name_or_path)
    if path.suffix.lower() != ".md":
        path = find_resource("prompts", f"{name_or_path}.md")
    if path.is_file() and not is_inside_folder(path):
        raise ConfigError(
            f"The prompt {path} links to a file outside its folder, which is not read. Pass the path of that file.",
            slug="prompt-unreadable",
        )
    try:
        text = read_regular_text(path)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no prompt {path}. In {path.parent} there are: {_list_prompts(path.parent)}. Pass one of these, a name in "
            "prompts/ or another path.",
            slug="prompt-unreadable",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The prompt {path} cannot be read: {error}. Pass a name in prompts/ or the path of a UTF-8 text file.",
            slug="prompt-unreadable",
        ) from None
    return parse_prompt(text, name=path.stem, location=str(path))


@lru_cache(maxsize=256)  # a command parses the prompt of a judge many times
def parse_prompt(text: str, *, name: str, location: str) -> Prompt:
    """Parse the text of a prompt file.

    Parameters
    ----------
    text : str
        Content of the file: front matter between lines of ---, and the template. The front matter is YAML with the keys
        `labels` (grade in [0, 1] by answer), `yes_threshold` (the smallest grade that means yes), `parser: label/1`, and
        optionally `question` ("information", the default, or "preference") and `system` (the system message). The template
        contains {{first}} and {{second}}, the two responses, once each, and optionally {{task}}, at most once, and {{fence}}.
    name : str
        Name of the prompt.
    location : str
        Path of the file, for error messages.

    Returns
    -------
    Prompt
        The prompt, with the SHA-256 of `text` as its digest.

    Raises
    ------
    ConfigError
        [prompt-front-matter] if the front matter is missing or invalid, or has an unknown key; [prompt-labels] if a grade is
        outside [0, 1], if a label is empty or two differ only in case and white space, or if all labels mean yes or all mean no;
        [prompt-placeholder] if {{first}} or {{second}} does not occur exactly once, if {{task}} occurs twice, if there is an
        unknown placeholder, or if `system` contains a placeholder.
    """
    try:
        parts = split_front_matter(text)
        if parts is None:
            raise ConfigError(
                f"The prompt {location} has no front matter. Begin it with '---', `labels`, `yes_threshold` and `parser`, '---'.",
                slug="prompt-front-matter",
            )
        front_matter = _FrontMatter.model_validate(parts.head)
    except YamlError as error:
        raise ConfigError(
            f"The front matter of {location} is not valid YAML: {error}. Write one `key: value` per line.",
            slug="prompt-front-matter",
        ) from None
    except ValidationError as error:
        raise ConfigError(
            f"The front matter of {location} is invalid: {format_validation_error(error)}. "
            "Set `labels` (answer: grade, in quotes), `yes_threshold`, `parser: label/1` and optionally `question` and `system`.",
            slug="prompt-front-matter",
        ) from None
    _check_labels(front_matter, location)
    _check_placeholders(parts.body, front_matter.system or "", location)
    return Prompt(
        name=name,
        template=parts.body.strip(),
        system=front_matter.system,
        labels=front_matter.labels,
        yes_threshold=front_matter.yes_threshold,
        parser=front_matter.parser,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        question=front_matter.question,
    )


def _list_prompts(folder: Path) -> str:
    """Return the names of the prompts in a folder, for display; "no prompts" if there are none or no such folder."""
    file_names = sorted(file.name for file in folder.glob("*.md")) if folder.is_dir() else []
    names = ", ".join(file_names[:_MAX_LISTED_PROMPTS]) or "no prompts"
    if len(file_names) > _MAX_LISTED_PROMPTS:
        names += " …"
    return names


def _check_labels(front_matter: _FrontMatter, location: str) -> None:
    """Check the labels of a prompt, which are the possible answers, and their grades.

    The grades must be in [0, 1]. The labels must differ. At least one label must mean yes (its grade reaches the threshold),
    and at least one must mean no.

    front_matter : YAML keys at the beginning of the prompt's file
    location : path of the file, for errors

    Raises: ConfigError [prompt-labels].
    """
    grade_by_label = front_matter.labels
    threshold = front_matter.yes_threshold
    grades = grade_by_label.values()
    if not all(0 <= grade <= 1 for grade in grades):
        raise ConfigError(
            f"A grade in {location} is outside [0, 1]: got {grade_by_label}. Set grades from 0 to 1.",
            slug="prompt-labels",
        )
    distinct_labels = {label.strip().casefold() for label in grade_by_label} - {""}
    if len(distinct_labels) < len(grade_by_label):
        raise ConfigError(
            f"The labels in {location} must be different and not empty: got {grade_by_label}. Set other labels.",
            slug="prompt-labels",
        )
    if max(grades) < threshold or min(grades) >= threshold:
        raise ConfigError(
            f"All labels in {location} are on one side of yes_threshold = {threshold}: got {grade_by_label}. "
            "Set yes_threshold so that one label is a yes and one is a no.",
            slug="prompt-labels",
        )


def _check_placeholders(template: str, system: str, location: str) -> None:
    """Check that a template has {{first}} and {{second}} exactly once, {{task}} at most once, and no unknown placeholder.

    template : text of the prompt file after its front matter
    system : system message, in which no placeholder is filled
    location : path of the file, for errors

    Raises: ConfigError [prompt-placeholder].
    """
    names = _PLACEHOLDER.findall(template)
    unknown_names = sorted(set(names) - set(_PLACEHOLDER_NAMES))
    names_with_wrong_count = [name for name in ("first", "second") if names.count(name) != 1]
    problems = []
    if unknown_names:
        problems.append(f"unknown: {', '.join(unknown_names)}")
    if names_with_wrong_count:
        placeholders = ", ".join("{{" + name + "}}" for name in names_with_wrong_count)
        problems.append(f"not exactly once: {placeholders}")
    if names.count("task") > 1:
        problems.append("more than once: {{task}}")
    if _PLACEHOLDER.search(system):
        problems.append(f"in `system`, where none is filled: {system!r:.80}")
    if not problems:
        return
    raise ConfigError(
        f"The placeholders in {location} are invalid ({'; '.join(problems)}). "
        "Write {{first}} and {{second}} exactly once, where the texts go; {{fence}}, the mark in their tags, and {{task}}, the "
        "prompt of the item, are optional.",
        slug="prompt-placeholder",
    )
