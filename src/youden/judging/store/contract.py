"""What a place that keeps answers must do, and the tables it keeps them in.

It keeps rows; what they mean is the `Store`'s affair. Every method is one transaction, may be called by any thread, and raises
JudgeError with a way on where it fails. A place on another machine waits for it a while when it is away. Times are seconds by one
clock for all who use the place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, get_args

from youden.errors import ConfigError

VERSION = 2
TABLES = {
    "answers": (1, "key text", "completion text NOT NULL", "created float8 NOT NULL"),
    "failures": (
        1,
        "key text",
        "kind text NOT NULL",
        "status bigint",
        "reason text NOT NULL",
        "created float8 NOT NULL",
    ),
    "judges": (1, "config text", "created float8 NOT NULL"),
    "served": (2, "judge text", "name text", "created float8 NOT NULL"),
    "paid": (
        2,
        *("payer text", "key text", "usd float8", "tokens_in bigint NOT NULL", "tokens_out bigint NOT NULL"),
        "seconds float8 NOT NULL",
    ),
    "batches": (
        1,
        *("id text", "address text NOT NULL", "model text NOT NULL", "usd float8", "file text", "batch text"),
        *("keys text NOT NULL", "created float8 NOT NULL"),
    ),
    "claims": (1, "key text", "owner text NOT NULL", "expires float8 NOT NULL"),
    "members": (
        2,
        *("run text", "name text", "leads boolean", "granted bigint", "spent bigint", "answered bigint"),
        *("expires float8", "asks boolean"),
    ),
}
"""The tables of a store, whatever keeps them: how many of the first columns make a row's name, and the columns. SQLite reads
these types as its own."""

Kept = Literal["answers", "failures", "judges", "served", "paid", "batches"]
KEPT: tuple[Kept, ...] = get_args(Kept)
"""What can be copied from place to place."""


def names_of(table: str) -> list[str]:
    """The names of the table's columns.

    >>> names_of("served")
    ['judge', 'name', 'created']
    """
    return [str(column).split()[0] for column in TABLES[table][1:]]


def key_of_row(table: str) -> str:
    """The columns that make a row's name, as SQL lists them."""
    return ", ".join(names_of(table)[: int(TABLES[table][0])])


def definition(table: str) -> str:
    """The table's columns and key, as SQL defines them."""
    return f"({', '.join(map(str, TABLES[table][1:]))}, PRIMARY KEY ({key_of_row(table)}))"


Row = tuple[str | int | float | None, ...]
FailureRow = tuple[str, str, int | None, str]


@dataclass(frozen=True)
class Payment:
    """Cost of all attempts at one request."""

    usd: float
    """USD; NaN if a price is unknown."""
    tokens_in: int = 0
    """Tokens of the requests that were answered."""
    tokens_out: int = 0
    """Tokens of the answers."""
    seconds: float = 0.0
    """Wall time of the calls that were answered."""

    def __add__(self, other: Payment) -> Payment:
        return Payment(
            self.usd + other.usd,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.seconds + other.seconds,
        )


@dataclass
class PendingWrites:
    """What is written in one transaction."""

    answers: dict[str, str] = field(default_factory=dict)
    """Key of a request → answer as JSON."""
    failures: dict[str, FailureRow] = field(default_factory=dict)
    """Key of a request → row of its failure."""
    payments: dict[tuple[str, str], Payment] = field(default_factory=dict)
    """(account, key) → payment."""
    again: set[str] = field(default_factory=set)
    """Keys of repeated requests, whose outcome replaces the stored one."""
    settled: dict[str, Row | None] = field(default_factory=dict)
    """Name of a row of `batches` whose results these are → the row that replaces it, or None to delete it."""

    def __len__(self) -> int:
        """How many outcomes there are."""
        return len(self.answers) + len(self.failures)

    @property
    def is_empty(self) -> bool:
        return not (self.answers or self.failures or self.payments or self.settled)

    def pay(self, payer: str, key: str, payment: Payment) -> None:
        before = self.payments.get((payer, key))
        self.payments[payer, key] = payment if before is None else before + payment

    def and_then(self, later: PendingWrites) -> Self:
        self.answers |= later.answers
        self.failures |= later.failures
        self.again |= later.again
        self.settled |= later.settled
        for whose, payment in later.payments.items():
            self.pay(*whose, payment)
        return self


@dataclass(frozen=True)
class Member:
    """One process that sends the requests of a run."""

    name: str
    """Unique name."""
    leads: bool
    """Whether it writes the run's folder."""
    granted: int
    """Its part of the run's cap, in picodollars."""
    spent: int
    """What it has spent of it, in picodollars."""
    answered: int
    """Number of its answers."""
    expires: float
    """Time at which it counts as gone unless it is renewed."""
    asks: bool = True
    """Whether it makes calls, and so takes a part of their rate."""


Change = Callable[[float, Sequence[Member]], Sequence[Member]]


def other_form(name: str, version: int | None) -> ConfigError:
    """What to say of a store whose tables have another version; it is left as it is."""
    return ConfigError(
        f"{name} is a store of another form (version {version}, this youden reads {VERSION}). It stays as it is: use it with the "
        "youden that made it, or give another place.",
        slug="store-form",
    )


class Place(Protocol):
    """Keeps the rows of a store, whose tables and columns are `TABLES`.

    Each method is one transaction, may be called from any thread, and raises JudgeError with a remedy if it fails. Times are
    seconds on one clock for all processes that use the store.

    Attributes
    ----------
    name : str
        What may be shown of the address: never a password.
    """

    name: str

    def count(self) -> int:
        """How many answers there are."""

    def known(self, keys: Sequence[str]) -> tuple[list[tuple[str, str]], list[FailureRow]]:
        """(key, JSON) of those of `keys` that are answered, and the failures of those that failed."""

    def write(self, batch: PendingWrites) -> None:
        """Write it and end the claims on its keys. The first outcome of a key stands, an answer before a failure."""

    def paid(self, payer: str) -> dict[str, Payment]:
        """key → all that `payer` paid for it."""

    def take(self, keys: Sequence[str], owner: str, *, seconds: float, gone: Collection[str]) -> set[str]:
        """Claim `keys` for `owner`. Returns those that are its now: they were free, its own, or of one `gone`."""

    def owners(self) -> dict[str, float]:
        """Who holds claims, and until when by the place's clock: a number that changes whenever they are renewed."""

    def renew(self, owner: str, *, seconds: float) -> None:
        """Let all claims of `owner` hold for so long from now."""

    def release(self, owner: str, keys: Collection[str] | None) -> None:
        """Give up the owner's claims on `keys`, None for all."""

    def members(self, run: str, change: Change) -> Sequence[Member]:
        """Who asks `run`, replaced by what `change` makes of them and of the time now; one such change at a time.

        `change` may be called again where the first call's outcome was lost. Returns what it made.
        """

    def rows(self, kept: Kept, after: Row | None, *, n: int) -> list[Row]:
        """The next `n` rows in the order of their names, after the one so named; None for the first ones."""

    def put_rows(self, kept: Kept, rows: Iterable[Row]) -> int:
        """Keep rows whose names are new. Returns how many that were."""

    def note_batch(self, number: str, *, file: str | None, batch: str | None) -> bool:
        """Set what the provider calls the row `number` of `batches`. Returns whether it is still there."""

    def forget_batch(self, number: str) -> None:
        """Take that row out."""

    def batches(self) -> list[str]:
        """The names of the rows of `batches`, in order."""

    def close(self) -> None: ...


def all_rows(place: Place, kept: Kept) -> list[Row]:
    """Every row of a table, in the order of their names."""
    rows: list[Row] = []
    while more := place.rows(kept, rows[-1] if rows else None, n=100):
        rows += more
    return rows
