"""Azure OpenAI, at an address that differs by user."""

from __future__ import annotations

from youden.judging.backends.record import BackendRecord

RECORD = BackendRecord(
    key_variable="AZURE_OPENAI_API_KEY",
    title="Azure OpenAI",
)
