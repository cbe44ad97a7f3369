"""DeepSeek."""

from __future__ import annotations

from youden.judging.backends.record import BackendRecord

RECORD = BackendRecord(
    address="https://api.deepseek.com/v1",
    key_variable="DEEPSEEK_API_KEY",
    title="DeepSeek",
    model_pattern="deepseek-",
)
