"""Checks of a pool for problems that distort a ranking."""
