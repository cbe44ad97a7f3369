"""Transforms: one text made from another by rule. One small pure function each in (text, rng), and their names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from youden.errors import ConfigError
from youden.nouns import Json
from youden.registry import Registry


class Transform(Protocol):
    """Makes a text from a text. What else it takes is keyword-only and has a default."""

    def __call__(self, text: str, rng: np.random.Generator, /) -> str: ...


TRANSFORMS: Registry[Transform] = Registry(
    "youden.transforms",
    "transform",
    {
        "reorder": "youden.text.transforms.structure:reorder",
        "omit": "youden.text.transforms.structure:omit",
        "truncate": "youden.text.transforms.structure:truncate",
        "repeat": "youden.text.transforms.structure:repeat",
        "clone": "youden.text.transforms.structure:unchanged",
        "dump": "youden.text.transforms.structure:unchanged",
        "pick": "youden.text.transforms.extracts:pick",
        "lead": "youden.text.transforms.extracts:lead",
        "textrank": "youden.text.transforms.extracts:textrank",
        "synonyms": "youden.text.transforms.wording:substitute",
        "filler": "youden.text.transforms.wording:filler",
        "pad": "youden.text.transforms.wording:pad",
        "case": "youden.text.transforms.wording:case",
        "bullets": "youden.text.transforms.wording:bullets",
        "template": "youden.text.transforms.effortless:template",
        "random": "youden.text.transforms.effortless:random_words",
        "empty": "youden.text.transforms.effortless:empty",
    },
)


@dataclass(frozen=True)
class Extension:
    """A transform by its registered name, with the options that differ from its defaults."""

    name: str
    options: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        allowed = [
            option
            for option, parameter in inspect.signature(TRANSFORMS.load(self.name)).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        if unknown := sorted(set(self.options) - set(allowed)):
            raise ConfigError(
                f"The transform '{self.name}' has no option '{unknown[0]}'. It has: {', '.join(allowed) or 'none'}.",
                slug="transform-option",
            )

    def __call__(self, text: str, rng: np.random.Generator) -> str:
        make: object = TRANSFORMS.load(self.name)
        if not callable(make):
            raise ConfigError(f"The transform '{self.name}' cannot be called. Register a function.", slug="transform")
        try:
            return str(make(text, rng, **self.options))
        except TypeError as error:
            raise ConfigError(
                f"The transform '{self.name}' cannot take {dict(self.options)} ({error}). Correct the option's type.",
                slug="transform-option",
            ) from error


def apply_steps(text: str, steps: Sequence[Extension], rng: np.random.Generator) -> str:
    """`text` after each step in turn.

    >>> apply_steps("One. Two.", [Extension("repeat"), Extension("case", {"to": "upper"})], np.random.default_rng(0))
    'ONE. TWO. ONE. TWO.'
    """
    for step in steps:
        text = step(text, rng)
    return text
