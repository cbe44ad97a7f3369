"""How much of a reply is read: its decoded size has a bound, so that no reply fills the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from youden.judging.call.failures import CallError

MOST_BYTES = 16_000_000
"""Of a reply, unpacked. The longest text that a model writes is a hundredth of it."""

ABOUT_THE_FORM = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers that no longer hold once a reply is unpacked."""


async def read_bounded(chunks: AsyncIterator[bytes], *, most: int = MOST_BYTES) -> bytes:
    """All of `chunks`, each already unpacked. Raises: CallError, to be tried again, at the first byte beyond `most`."""
    parts: list[bytes] = []
    size = 0
    async for part in chunks:
        size += len(part)
        if size > most:
            raise CallError(f"The reply has more than {most / 1e6:g} MB, so no more of it was read.", kind="retry")
        parts.append(part)
    return b"".join(parts)
