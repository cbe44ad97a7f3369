"""Parts that several designs share: the base of the designs over cells, the choice of cells, and sequences of blocks."""
