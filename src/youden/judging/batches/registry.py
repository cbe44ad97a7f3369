"""The providers of batches, by the backend whose judges they serve."""

from __future__ import annotations

from typing import cast

from youden.judging.batches.provider import BatchProvider
from youden.judging.call.connection import Connection
from youden.judging.call.retry import RetryPolicy
from youden.registry import Registry

BATCHES: Registry[type] = Registry(
    "youden.batches",
    "batch-provider",
    dict.fromkeys(("openai", "wire"), "youden.judging.batches.openai:OpenAIBatches"),
)


def batch_provider(backend: str, connection: Connection, policy: RetryPolicy) -> BatchProvider:
    """The Batch API behind `connection`. Raises: ConfigError [unknown-batch-provider]."""
    return cast(BatchProvider, BATCHES.load(backend)(connection, policy=policy))
