"""Parts observed cells into folds at random."""

from __future__ import annotations

import numpy as np

from youden.nouns.arrays import Bools, Codes
from youden.streams import own_stream


def draw_folds(observed: Bools, *, n_folds: int, seed: int) -> Codes:
    """A fold for every observed cell, int8[K, J] in 0 … n_folds − 1, sizes equal to within one; −1 where unseen."""
    fold = np.full(observed.shape, -1, dtype=np.int8)
    n_cells = int(observed.sum())
    fold[observed] = own_stream(seed).permutation(n_cells) % n_folds
    return fold
