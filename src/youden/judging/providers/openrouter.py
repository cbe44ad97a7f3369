"""OpenRouter, which passes calls on to other providers."""

from __future__ import annotations

from youden.judging.backends.record import OPEN_REASONING_MODELS, BackendRecord

RECORD = BackendRecord(
    address="https://openrouter.ai/api/v1",
    key_variable="OPENROUTER_API_KEY",
    title="OpenRouter",
    reasoning_pattern=OPEN_REASONING_MODELS,
    is_priced_by_litellm=False,
)
