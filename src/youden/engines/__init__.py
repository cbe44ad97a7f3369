"""Sums over chunks of items, from which every run is ranked."""
