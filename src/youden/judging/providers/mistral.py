"""Mistral."""

from __future__ import annotations

from youden.judging.backends.record import NO_LOGPROBS, BackendRecord

RECORD = BackendRecord(
    address="https://api.mistral.ai/v1",
    key_variable="MISTRAL_API_KEY",
    title="Mistral",
    unsupported={"seed": "parameters: {random_seed: 0}", "logprobs": NO_LOGPROBS},
    model_pattern="(mi|mini|magi|code|pix)stral-|mistral-",
)
