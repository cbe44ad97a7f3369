"""Together, which serves open models."""

from __future__ import annotations

from youden.judging.backends.record import OPEN_REASONING_MODELS, BackendRecord

RECORD = BackendRecord(
    address="https://api.together.xyz/v1",
    key_variable="TOGETHER_API_KEY",
    title="Together",
    reasoning_pattern=OPEN_REASONING_MODELS,
    priced_as="together_ai",
)
