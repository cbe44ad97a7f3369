"""Estimates of the mean label of each agent from labels and abilities (small-area estimation)."""
