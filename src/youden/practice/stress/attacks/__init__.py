"""Attacks on a ranking by agreement, one idea a file, and their names."""

from __future__ import annotations

from youden.practice.stress.attack import Attack
from youden.registry import Registry

ATTACKS: Registry[Attack] = Registry(
    "youden.attacks",
    "attack",
    {
        "clones": "youden.practice.stress.attacks.clones:EXACT",
        "clones-reworded": "youden.practice.stress.attacks.clones:REWORDED",
        "ring": "youden.practice.stress.attacks.ring:RING",
        "template": "youden.practice.stress.attacks.template:TEMPLATE",
        "concatenation": "youden.practice.stress.attacks.concatenation:CONCATENATION",
        "mirror": "youden.practice.stress.attacks.mirror:MIRROR",
        "central-reworded": "youden.practice.stress.attacks.central:CENTRAL",
        "source-copy": "youden.practice.stress.attacks.source:COPY",
        "source-reworded": "youden.practice.stress.attacks.source:REWORDED",
        "prompt-words": "youden.practice.stress.attacks.prompt_words:PROMPT_WORDS",
        "padding": "youden.practice.stress.attacks.padding:PADDING",
        "keyword-list": "youden.practice.stress.attacks.keyword_list:KEYWORD_LIST",
        "injection": "youden.practice.stress.attacks.injection:INJECTION",
        "transforms": "youden.practice.stress.attacks.transforms:TRANSFORMS",
    },
)
