"""The books of a store: what each payer paid for each request, in all its passes.

They are written in the transaction that writes what came of the calls, so that a process that is killed takes no paid
answer's price with it.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from youden.nouns import Completion

TABLE = """
CREATE TABLE IF NOT EXISTS paid
  (payer TEXT NOT NULL, key TEXT NOT NULL, usd REAL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,
   seconds REAL NOT NULL, PRIMARY KEY (payer, key)) WITHOUT ROWID;
"""

_ADD = """
INSERT INTO paid VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (payer, key) DO UPDATE SET usd = paid.usd + excluded.usd,
  tokens_in = paid.tokens_in + excluded.tokens_in, tokens_out = paid.tokens_out + excluded.tokens_out,
  seconds = paid.seconds + excluded.seconds
"""


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


def write(connection: sqlite3.Connection, payments: Iterable[tuple[str, str, Payment]]) -> None:
    """Add (payer, key, payment) to what is there, inside the caller's transaction."""
    rows = [
        (payer, key, None if math.isnan(one.usd) else one.usd, one.tokens_in, one.tokens_out, one.seconds)
        for payer, key, one in payments
    ]
    connection.executemany(_ADD, rows)


def read(connection: sqlite3.Connection, payer: str) -> dict[str, Payment]:
    """key → all that `payer` paid for it."""
    rows = connection.execute("SELECT key, usd, tokens_in, tokens_out, seconds FROM paid WHERE payer = ?", [payer])
    return {key: Payment(math.nan if usd is None else usd, *rest) for key, usd, *rest in rows}
