"""The providers of batches, by the backend whose judges they serve; and a folder, which serves any."""

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


FOLDER = "folder"
"""`batch_provider: folder` leaves files to whoever works them off; it needs no connection."""


def batch_provider(backend: str, connection: Connection, policy: RetryPolicy) -> BatchProvider:
    """The Batch API behind `connection`. Raises: ConfigError [unknown-batch-provider]."""
    return cast(BatchProvider, BATCHES.load(backend)(connection, policy=policy))
