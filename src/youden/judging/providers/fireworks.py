"""Fireworks, which serves open models."""

from __future__ import annotations

from youden.judging.backends.record import OPEN_REASONING_MODELS, BackendRecord

RECORD = BackendRecord(
    address="https://api.fireworks.ai/inference/v1",
    key_variable="FIREWORKS_API_KEY",
    title="Fireworks",
    reasoning_pattern=OPEN_REASONING_MODELS,
    priced_as="fireworks_ai",
)
