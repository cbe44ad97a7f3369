"""Another agent's answers through the transforms that leave most of a text's words where they are."""

from __future__ import annotations

import numpy as np

from youden.practice.stress.attack import Attack, Target
from youden.text.transforms import Extension

NAMES = ("reorder", "case", "bullets", "repeat", "filler", "omit")


def _transforms(target: Target) -> dict[str, list[str]]:
    lengths = [sum(len(text or "") for text in row) for row in target.pool.texts]
    source = int(np.argsort(lengths)[len(lengths) // 2])
    return {name: [Extension(name)(text or "", target.rng) for text in target.pool.texts[source]] for name in NAMES}


TRANSFORMS = Attack(f"the agent of median length again, once through each of {', '.join(NAMES)}", _transforms)
