"""Pools beyond reading them: generation, checks and first configs."""
