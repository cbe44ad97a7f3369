"""Draws which cells are held out, before anything is planned or scored."""

from __future__ import annotations

import numpy as np

from youden.errors import PlanError
from youden.nouns import Split, SplitRule
from youden.nouns.arrays import Bools
from youden.streams import stream


def draw_split(present: Bools, *, fraction: float, rule: SplitRule = "shared", seed: int) -> Split:
    """Hold out ⌊fraction · cells + ½⌋ of the existing cells, uniformly without replacement.

    present: bool[K, J], cells that have a response. Holding out 0 keeps every cell for training.

    Raises: PlanError for a fraction outside [0, 1).
    Source: the paper's appendix 'TVD-MI Score Construction'; rules as in `Split`.
    """
    if not 0 <= fraction < 1:
        raise PlanError(
            f"A holdout of {fraction} was asked for. Give a fraction from 0 (none) up to, but not, 1.", slug="holdout"
        )
    if rule not in ("shared", "own"):
        raise PlanError(f"'{rule}' is no holdout rule. Give shared or own.", slug="holdout-rule")
    cells = np.flatnonzero(present)
    n_holdout = int(fraction * len(cells) + 0.5)
    chosen = stream("holdout", seed).choice(cells, size=n_holdout, replace=False)
    holdout = np.zeros(present.shape, dtype=np.bool_)
    holdout.flat[chosen] = True
    return Split(train=present & ~holdout, holdout=holdout, rule=rule, fraction=fraction, seed=seed)
