"""Engines that sum the trials of a run in chunks of items, or run workers on a Ray cluster."""
