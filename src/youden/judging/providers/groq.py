"""Groq, which serves open models."""

from __future__ import annotations

from youden.judging.backends.record import NO_LOGPROBS, OPEN_REASONING_MODELS, BackendRecord

RECORD = BackendRecord(
    address="https://api.groq.com/openai/v1",
    key_variable="GROQ_API_KEY",
    title="Groq",
    reasoning_pattern=OPEN_REASONING_MODELS,
    unsupported={"logprobs": NO_LOGPROBS, "logit_bias": "no logit_bias"},
)
