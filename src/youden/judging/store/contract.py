"""Define the contract of a storage backend, and the tables that it keeps.

A backend stores rows; their meaning is defined by `Store`. Every method is one transaction, may be called from any
thread, and raises JudgeError with a remedy if it fails. A backend on another machine retries for a while if the machine
cannot be reached. Times are seconds on one clock for all processes that use the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from youden.errors import ConfigError

VERSION = 4
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
    "response_models": (2, "judge text", "name text", "created float8 NOT NULL"),
    "costs": (
        2,
        *("payer text", "key text", "usd float8", "tokens_in bigint NOT NULL", "tokens_out bigint NOT NULL"),
        "seconds float8 NOT NULL",
    ),
    "batches": (
        1,
        *("id text", "address text NOT NULL", "model text NOT NULL", "account text", "usd float8", "file text"),
        *("batch text", "keys text NOT NULL", "created float8 NOT NULL"),
    ),
    "leases": (1, "key text", "owner text NOT NULL", "expires float8 NOT NULL"),
    "workers": (
        2,
        *("run text", "name text", "leads boolean", "granted bigint", "spent bigint", "answered bigint"),
        *("expires float8", "asks boolean"),
    ),
}
"""Tables of a store: for each, the number of its first columns that form the primary key, and the columns.

The types are PostgreSQL's; SQLite accepts them.
"""

CopiedTable = Literal["answers", "failures", "judges", "response_models", "costs", "batches"]
COPIED_TABLES: tuple[CopiedTable, ...] = get_args(CopiedTable)
"""Tables that are copied from one store to another."""


def column_names(table: str) -> list[str]:
    """Return the names of the columns of a table.

    >>> column_names("response_models")
    ['judge', 'name', 'created']
    """
    return [str(column).split()[0] for column in TABLES[table][1:]]


def primary_key(table: str) -> str:
    """Return the columns of a table's primary key as SQL.

    >>> primary_key("response_models")
    'judge, name'
    """
    n_key_columns = int(TABLES[table][0])
    return ", ".join(column_names(table)[:n_key_columns])


def table_definition(table: str) -> str:
    """Return the columns and the primary key of a table as SQL, for CREATE TABLE."""
    columns = ", ".join(map(str, TABLES[table][1:]))
    return f"({columns}, PRIMARY KEY ({primary_key(table)}))"


Row = tuple[str | int | float | None, ...]
"""Values of a row, in the order of the table's columns."""
FailureRow = tuple[str, str, int | None, str]
"""Key, kind, HTTP status and reason of a failure."""


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
    """Outcomes, payments and records of batches that are written in one transaction."""

    answers: dict[str, str] = field(default_factory=dict)
    """Key of a request → answer as JSON."""
    failures: dict[str, FailureRow] = field(default_factory=dict)
    """Key of a request → row of its failure."""
    payments: dict[tuple[str, str], Payment] = field(default_factory=dict)
    """(account, key) → payment."""
    again: set[str] = field(default_factory=set)
    """Keys of requests that were sent although the store had an answer. The new answers replace the stored ones."""
    settled: dict[str, Row | None] = field(default_factory=dict)
    """Batches whose results are among the outcomes: primary key of the row of `batches` → row that replaces it, or None to
    delete it."""

    def __len__(self) -> int:
        """Return the number of outcomes."""
        return len(self.answers) + len(self.failures)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.answers or self.failures or self.payments or self.settled)

    def pay(self, account: str, key: str, payment: Payment) -> None:
        """Add a payment, to be written with the outcomes.

        All payments of one account for one request are summed, including those that are already in the store.

        Parameters
        ----------
        account : str
            Cost account that the payment is booked to, for example the account of a run.
        key : str
            Key of the request.
        payment : Payment
            Cost in USD, tokens, and duration in seconds of one call.
        """
        previous = self.payments.get((account, key))
        self.payments[account, key] = payment if previous is None else previous + payment


@dataclass(frozen=True)
class Member:
    """One process that sends the requests of a run."""

    name: str
    """Unique name."""
    leads: bool
    """Whether it is the coordinator, which writes the run folder."""
    granted: int
    """Part of the run's cost cap that it may spend, in picodollars (10⁻¹² USD)."""
    spent: int
    """Part of `granted` that it has spent, in picodollars."""
    answered: int
    """Number of its answers."""
    expires: float
    """Time at which it counts as dead unless it is renewed."""
    asks: bool = True
    """Whether it makes calls, and so uses a share of their rate limit."""


Change = Callable[[float, Sequence[Member]], Sequence[Member]]
"""Function of the current time and the members of a run that returns the new members."""


def version_error(name: str, version: int | None) -> ConfigError:
    """Make the error for a store whose tables have another version; the store is not changed."""
    return ConfigError(
        f"The store {name} has another version: got {version}, this youden reads {VERSION}. It was not changed. Use the youden "
        "that created it, or pass another store.",
        slug="store-version",
    )


class StorageBackend(Protocol):
    """Stores the rows of the tables `TABLES`, for example in a database.

    Each method is one transaction, may be called from any thread, and raises JudgeError with a remedy if it fails.
    Times are seconds on one clock for all processes that use the store.

    Attributes
    ----------
    name : str
        Path or URL for display; it must not contain a password.
    """

    name: str

    def count(self) -> int:
        """Return the number of answers."""

    def find_outcomes(self, keys: Sequence[str]) -> tuple[list[tuple[str, str]], list[FailureRow]]:
        """Find the outcomes of requests.

        Parameters
        ----------
        keys : sequence of str
            Request hashes.

        Returns
        -------
        answers : list of (str, str)
            Key and answer as JSON of each request that is answered.
        failures : list of FailureRow
            Rows of the requests that failed.
        """

    def write(self, writes: PendingWrites) -> None:
        """Write outcomes, payments and rows of `batches`, and release the leases on the keys of the outcomes.

        A stored answer is kept, except that a new answer to a request in `writes.again` replaces it. A stored failure is
        replaced by a new answer or a new failure.

        Parameters
        ----------
        writes : PendingWrites
            What to write.
        """

    def paid(self, account: str) -> dict[str, Payment]:
        """Return the sum of an account's payments for each request.

        Parameters
        ----------
        account : str
            Name of the account.

        Returns
        -------
        dict of str to Payment
            By request hash.
        """

    def acquire_leases(self, keys: Sequence[str], owner: str, *, seconds: float, gone: Collection[str]) -> set[str]:
        """Acquire leases on keys.

        Parameters
        ----------
        keys : sequence of str
            Keys to lease.
        owner : str
            Name of the holder.
        seconds : float
            Time from now until the leases expire; also set for leases that `owner` held already.
        gone : collection of str
            Names of holders whose leases may be taken over, because they have expired; this is not checked again. An expired
            lease of any other holder is not taken over.

        Returns
        -------
        set of str
            The keys that `owner` now holds: those that were free, held by itself, or held by one of `gone`.
        """

    def owners(self) -> dict[str, float]:
        """Return the holders of leases and the latest expiry time of each, which changes whenever the holder renews."""

    def renew(self, owner: str, *, seconds: float) -> None:
        """Renew all leases of a holder, including expired ones that no other holder has acquired.

        If the holder has no leases, nothing happens.

        Parameters
        ----------
        owner : str
            Name of the holder.
        seconds : float
            Time from now until the leases expire.
        """

    def release(self, owner: str, keys: Collection[str] | None) -> None:
        """Release leases of a holder.

        Parameters
        ----------
        owner : str
            Name of the holder.
        keys : collection of str or None
            Keys to release; None for all. Keys that the holder has no lease on are ignored.
        """

    def replace_members(self, run: str, change: Change) -> Sequence[Member]:
        """Replace the members (worker processes) of a run; only one such change runs at a time.

        Parameters
        ----------
        run : str
            Name of the run.
        change : callable
            Gets the current time, in seconds as in `Member.expires`, and the members (none for a new run), and returns the new
            members. It may be called again if the connection was lost before its result was confirmed. If it raises an error,
            the members stay unchanged, and the error is raised to the caller.

        Returns
        -------
        sequence of Member
            The result of `change`.
        """

    def read_members(self, run: str) -> tuple[float, Sequence[Member]]:
        """Return the current time and the members of a run.

        Parameters
        ----------
        run : str
            Name of the run.

        Returns
        -------
        now : float
            Current time, on the clock of `Member.expires`.
        members : sequence of Member
            Members, of which some may have ended.
        """

    def read_all_members(self) -> tuple[float, Mapping[str, Sequence[Member]]]:
        """Return the current time, by the clock of `Member.expires`, and the members of each run by the name of the run."""

    def rows(self, table: CopiedTable, after: Row | None, *, n: int) -> list[Row]:
        """Return the next rows of a table.

        Parameters
        ----------
        table : {"answers", "failures", "judges", "response_models", "costs", "batches"}
            Name of the table.
        after : tuple or None
            Last row of the previous call; None for the first rows.
        n : int
            Largest number of rows.

        Returns
        -------
        list of tuple
            Values in the order of the table's columns; rows in the order of their primary key. The list is empty only if
            there are no more rows.
        """

    def put_rows(self, table: CopiedTable, rows: Iterable[Row]) -> int:
        """Insert the rows whose primary key is new; existing rows stay unchanged.

        Parameters
        ----------
        table : {"answers", "failures", "judges", "response_models", "costs", "batches"}
            Name of the table.
        rows : iterable of tuple
            Values in the order of the table's columns.

        Returns
        -------
        int
            Number of rows inserted.
        """

    def set_batch_ids(self, number: str, *, file: str | None, batch: str | None) -> bool:
        """Set the provider's ids in a row of `batches`.

        Parameters
        ----------
        number : str
            Primary key of the row.
        file, batch : str or None
            Ids of the file and of the batch; None if the provider has not assigned them yet. Both columns are overwritten.

        Returns
        -------
        bool
            Whether the row still exists; a missing row is not created.
        """

    def delete_batch(self, number: str) -> None:
        """Delete a row of `batches`.

        Parameters
        ----------
        number : str
            Primary key of the row.
        """

    def batches(self) -> list[str]:
        """Return the primary keys of the rows of `batches`, in order."""

    def close(self) -> None:
        """Close the connection."""


def read_all_rows(backend: StorageBackend, table: CopiedTable) -> list[Row]:
    """Return all rows of a table in the order of their primary key."""
    rows: list[Row] = []
    last_row: Row | None = None
    while next_rows := backend.rows(table, last_row, n=100):
        rows += next_rows
        last_row = rows[-1]
    return rows
