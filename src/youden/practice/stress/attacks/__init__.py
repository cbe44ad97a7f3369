"""Attacks on a ranking by agreement, one idea a file, and their names."""

from __future__ import annotations

from youden.practice.stress.attack import Attack
from youden.registry import Registry

_HERE = "youden.practice.stress.attacks"

ATTACKS: Registry[Attack] = Registry(
    "youden.attacks",
    "attack",
    {
        "clones": f"{_HERE}.clones:EXACT",
        "clones-reworded": f"{_HERE}.clones:REWORDED",
        "ring": f"{_HERE}.ring:RING",
        "template": f"{_HERE}.template:TEMPLATE",
        "concatenation": f"{_HERE}.concatenation:CONCATENATION",
        "mirror": f"{_HERE}.mirror:MIRROR",
        "central-reworded": f"{_HERE}.central:CENTRAL",
        "source-copy": f"{_HERE}.source:COPY",
        "source-reworded": f"{_HERE}.source:REWORDED",
        "prompt-words": f"{_HERE}.prompt_words:PROMPT_WORDS",
        "padding": f"{_HERE}.padding:PADDING",
        "keyword-list": f"{_HERE}.keyword_list:KEYWORD_LIST",
        "injection": f"{_HERE}.injection:INJECTION",
        "transforms": f"{_HERE}.transforms:TRANSFORMS",
    },
)
