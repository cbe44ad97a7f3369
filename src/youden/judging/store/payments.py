"""The books of a store: what each payer paid for each request, in all its passes.

They are written in the transaction that writes what came of the calls, so that a process that is killed takes no paid
answer's price with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from youden.nouns import Completion


@dataclass(frozen=True)
class Payment:
    """What the tries of one request took. usd: NaN where a price is unknown; tokens and seconds: of answers alone."""

    usd: float
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def __add__(self, other: Payment) -> Payment:
        return Payment(
            self.usd + other.usd,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.seconds + other.seconds,
        )


def payment_of(usd: float, completion: Completion | None) -> Payment:
    """What one try cost; completion: what it brought."""
    if completion is None:
        return Payment(usd)
    return Payment(usd, completion.tokens_in, completion.tokens_out, completion.seconds)
