"""Google Gemini, through its endpoint in the OpenAI chat format."""

from __future__ import annotations

from youden.judging.backends.record import BackendRecord

RECORD = BackendRecord(
    address="https://generativelanguage.googleapis.com/v1beta/openai",
    key_variable="GEMINI_API_KEY",
    title="Google Gemini",
    model_pattern="gemini-",
    reasoning_pattern=r"gemini-([3-9]|2\.5-pro|2\.5-flash(?!-lite))",
    reasoning_keys={"temperature": None, "max_tokens": 2048},
)
