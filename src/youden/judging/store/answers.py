"""Store raw answers by request hash, with the costs booked for them, in SQLite, PostgreSQL or a plugin's backend.

All access goes through `Store`, which holds neither requests nor secrets. Writes are collected: `add` and `pay` keep
outcomes and costs in memory, and `flush` writes both in one transaction, so that no answer is stored without its cost.
A killed process loses its calls in flight and fewer than `MAX_PENDING_WRITES` answers, none of them older than
`FLUSH_INTERVAL_SECONDS` while the run goes on. If several processes answer one request, the first answer is kept.

A store is named by a path, `sqlite:///path`, `postgresql://…`, or the URL of a plugin's backend; by default by the
variable YOUDEN_STORE. A password is never shown or stored. A recorded URL therefore lacks its password, which is then
taken from YOUDEN_STORE if that names the same store; otherwise the database library finds it (PGPASSWORD, ~/.pgpass).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self, cast

import orjson

from youden.errors import ConfigError
from youden.extras import format_install
from youden.judging.call.failures import CallError, Failure, FailureKind
from youden.judging.call.reply import validate_completion
from youden.judging.store.contract import (
    CopiedTable,
    FailureRow,
    Payment,
    PendingWrites,
    Row,
    StorageBackend,
    read_all_rows,
)
from youden.judging.store.leases import Leases
from youden.judging.store.permission import VARIABLE, check_password, check_store_allowed
from youden.judging.store.sqlite import make_store_error
from youden.project_store import check_store_address
from youden.registry import Registry
from youden.text.printable import is_local_file, is_on_network, redact_location
from youden.types import Completion
from youden.types.pool import Json


def make_payment(usd: float, completion: Completion | None) -> Payment:
    """Make the payment for one attempt, with the tokens and duration of the completion that it returned, if any."""
    if completion is None:
        return Payment(usd)
    return Payment(usd, completion.tokens_in, completion.tokens_out, completion.seconds)


STORES: Registry[Callable[..., StorageBackend]] = Registry(
    "youden.stores",
    "store",
    {
        "sqlite": "youden.judging.store.sqlite:SqliteBackend",
        "postgresql": "youden.judging.store.postgres:PostgresBackend",
        "postgres": "youden.judging.store.postgres:PostgresBackend",
    },
)


def open_backend(address: str | Path, *, read_only: bool) -> StorageBackend:
    """Open the storage backend of a store.

    Parameters
    ----------
    address : str or Path
        Path of an SQLite file, or a URL, whose scheme is a name in `STORES`.
    read_only : bool
        Whether to open an existing store for reading.

    Returns
    -------
    StorageBackend
        The open backend, which the caller has to close.

    Raises
    ------
    ConfigError
        [store-url] if the address is not valid; [store-package] if a library is missing; [store-password] if a password
        could be sent to an unknown host; others if the backend cannot be opened, see `open_store`.
    """
    text = _with_password(str(address))
    backend_class = load_backend_class(text)
    if is_on_network(text):
        check_password(text)
    return backend_class(text, read_only=read_only)


def load_backend_class(address: str) -> Callable[..., StorageBackend]:
    """Return the class of the storage backend of a store; nothing is opened.

    Parameters
    ----------
    address : str
        Path or URL of the store.

    Returns
    -------
    callable
        Opens the store, given its address and `read_only`.

    Raises
    ------
    ConfigError
        [store-url] if the address is not valid; [store-package] if a library is missing.
    """
    check_store_address(address)

    scheme, separator, _ = address.partition("://")
    kind = scheme if separator else "sqlite"
    if kind not in STORES or (kind == "sqlite" and not is_local_file(address)):
        raise ConfigError(
            f"There is no kind of store for '{kind}://'. Pass a path, sqlite:///path, or the URL of one of: {', '.join(STORES)}.",
            slug="store-url",
        )
    try:
        return STORES.load(kind)
    except ImportError as error:
        raise ConfigError(
            f"The store {redact_location(address)} needs a package that is not installed ({error}). "
            f"Install it with: {format_install('postgres')}.",
            slug="store-package",
        ) from None


def _with_password(address: str) -> str:
    """Return the URL in YOUDEN_STORE if it is `address` with a password, and `address` otherwise."""
    url = os.environ.get(VARIABLE, "")
    is_same_store = bool(url) and not is_local_file(address) and redact_location(url) == address
    return url if is_same_store else address


_FIELDS = {field.name for field in fields(Completion)}

MAX_PENDING_WRITES = 64
"""Number of outcomes in memory at which they are written."""
FLUSH_INTERVAL_SECONDS = 0.25
"""Time after which outcomes in memory are written."""


def open_store(address: str | Path, *, read_only: bool = False) -> Store:
    """Open a store, which is created if it does not exist.

    Parameters
    ----------
    address : str or Path
        Path, ``sqlite:///path``, ``postgresql://…``, or the URL of a plugin's backend.
    read_only : bool, default False
        Open an existing store for reading.

    Returns
    -------
    Store
        The open store, which is also a context manager.

    Raises
    ------
    ConfigError
        [store-url] if the address is not valid; [store-package] if a library is missing; [store-missing] if there is nothing to
        read; [not-a-store] if the file belongs to another application; [store-version] if it has another version;
        [store-server-old] if the server is not supported; [store-password] if a password could be sent to an unknown host.
    JudgeError
        [store-corrupt], [store-read-only], [store-full], [store-busy], [store-failed], [store-unreachable] if the backend fails.
    """
    return Store(open_backend(address, read_only=read_only))


def open_store_of_folder(address: str | Path) -> Store:
    """Open, for reading, the store that a folder's config names.

    Parameters
    ----------
    address : str or Path
        Path or URL of the store.

    Returns
    -------
    Store
        The open store.

    Raises
    ------
    ConfigError
        [store-not-opened] if the store is on a network and the user did not name it; the errors of `open_store`.
    """
    check_store_allowed(address)
    return open_store(address, read_only=True)


class Store:
    """A store of answers and failures by request hash, and of the costs that were booked for them.

    Use it as a context manager, or close it. All methods may be called from several threads.

    Parameters
    ----------
    backend : StorageBackend
        The storage backend.

    Attributes
    ----------
    backend : StorageBackend
        The storage backend.
    name : str
        Path or URL for display, without a password.
    """

    def __init__(self, backend: StorageBackend) -> None:
        self.backend = backend
        self.name = backend.name
        self._flush_lock = RLock()
        self._pending_lock = RLock()
        self._pending = PendingWrites()
        self._in_transaction = PendingWrites()
        self._last_flush = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of answers."""
        self.flush()
        return self.backend.count()

    def get_outcomes(self, keys: Sequence[str]) -> dict[str, Completion | Failure]:
        """Return the outcomes of requests, including those that are not written yet.

        Parameters
        ----------
        keys : sequence of str
            Request hashes.

        Returns
        -------
        dict of str to Completion or Failure
            Outcomes by request hash; requests without an outcome are left out. If a request has an answer and a failure,
            the outcome is the answer. A stored answer that this version of youden would reject as a reply is a failure.
        """
        # The outcomes in memory are read before those in the backend. Otherwise, a flush between the two steps could move an
        # outcome from memory to the backend unseen.
        with self._pending_lock:
            failures_in_memory = self._in_transaction.failures | self._pending.failures
            answers_in_memory = self._in_transaction.answers | self._pending.answers
        stored_answers, stored_failures = self.backend.find_outcomes(keys) if keys else ([], [])

        new_failures = [failures_in_memory[key] for key in keys if key in failures_in_memory]
        new_answers = {key: answers_in_memory[key] for key in keys if key in answers_in_memory}
        outcomes: dict[str, Completion | Failure] = {}
        for key, kind, status, reason in (*stored_failures, *new_failures):  # a new failure replaces a stored one
            outcomes[key] = Failure(cast(FailureKind, kind), status, reason)
        answer_texts = dict(stored_answers) | new_answers
        outcomes.update(self._parse_answers(answer_texts))  # an answer replaces a failure
        return outcomes

    def find_stored_since(self, start_time: float, keys: Iterable[str]) -> set[str]:
        """Return the requests whose outcome was stored at `start_time` or later, or is not written yet.

        Parameters
        ----------
        start_time : float
            Time by the clock of the store, in seconds.
        keys : iterable of str
            Request hashes, which are looked up one at a time.

        Returns
        -------
        set of str
            The hashes in `keys` with such an outcome.
        """
        with self._pending_lock:
            writes = (self._in_transaction, self._pending)
            keys_in_memory = {key for pending in writes for key in (*pending.answers, *pending.failures)}
        return {key for key in keys if key in keys_in_memory or self._find_storage_time(key) >= start_time}

    def _find_storage_time(self, key: str) -> float:
        """Return the time at which the outcome of a request was stored, by the clock of the store; −∞ if there is none."""
        time_stored = -math.inf
        tables: tuple[CopiedTable, ...] = ("answers", "failures")
        for table in tables:
            # the first row after a hash without its last digit is that of the request: SHA-256 hashes share no long prefix
            for stored_key, *_, created in self.backend.rows(table, (key[:-1],), n=1):
                if stored_key == key:
                    time_stored = max(time_stored, cast(float, created))
        return time_stored

    def _parse_answers(self, texts: Mapping[str, str]) -> dict[str, Completion | Failure]:
        """Parse stored answers by request hash; equal answers, which are frequent, are parsed once."""
        outcome_by_text = {text: self._parse_answer(text) for text in dict.fromkeys(texts.values())}
        return {key: outcome_by_text[text] for key, text in texts.items()}

    def answers(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored answers to requests.

        Parameters
        ----------
        keys : sequence of str
            Request hashes.

        Returns
        -------
        dict of str to Completion
            Requests without an answer are left out.
        """
        return {key: outcome for key, outcome in self.get_outcomes(keys).items() if isinstance(outcome, Completion)}

    def failures(self, keys: Sequence[str]) -> dict[str, Failure]:
        """Return the stored failures of requests that have no answer.

        Parameters
        ----------
        keys : sequence of str
            Request hashes.

        Returns
        -------
        dict of str to Failure
            Requests without a failure are left out.
        """
        return {key: outcome for key, outcome in self.get_outcomes(keys).items() if isinstance(outcome, Failure)}

    def add(
        self, key: str, outcome: Completion | Failure, *, replaces_answer: bool = False, may_flush: bool = True
    ) -> None:
        """Add an answer or a failure, to be written by the next `flush`.

        An answer replaces a stored failure, and, if `replaces_answer` is true, a stored answer. A failure replaces an earlier
        failure, and never an answer.

        Parameters
        ----------
        key : str
            Request hash.
        outcome : Completion or Failure
            Outcome of the request.
        replaces_answer : bool, default False
            Whether an answer replaces the stored answer, because the request was repeated. By default, a stored answer is kept.
            An answer that was added, but not flushed yet, is always replaced by a later answer.
        may_flush : bool, default True
            Whether this call may flush and wait for the disk. It flushes if 64 outcomes (`MAX_PENDING_WRITES`) are in memory, or
            if the last flush was at least 0.25 seconds (`FLUSH_INTERVAL_SECONDS`) ago. If False, the caller has to call `flush`.

        Raises
        ------
        JudgeError
            If this call flushes and the backend fails. The outcomes stay in memory.
        """
        with self._pending_lock:
            if isinstance(outcome, Completion):
                self._pending.answers[key] = orjson.dumps(outcome).decode()
                self._pending.failures.pop(key, None)
            else:
                self._pending.failures[key] = _make_failure_row(key, outcome)
            if replaces_answer:
                self._pending.again.add(key)
        if not may_flush:
            return
        seconds_since_flush = time.monotonic() - self._last_flush
        if self.n_pending >= MAX_PENDING_WRITES or seconds_since_flush >= FLUSH_INTERVAL_SECONDS:
            self.flush()

    def add_all(self, answers: Mapping[str, Completion], failures: Mapping[str, Failure], *, account: str) -> None:
        """Write many outcomes in a transaction of their own, after a `flush` of everything that was added before.

        This is for outcomes of an external engine, which received the requests in files. Pass only requests without a
        stored answer: a stored answer would be kept, but its tokens would be booked a second time.

        Parameters
        ----------
        answers, failures : mapping of str to Completion, of str to Failure
            Outcomes by request hash.
        account : str
            Cost account to which the answers are booked, with their tokens and an unknown cost (NaN). Failures are not booked.

        Raises
        ------
        JudgeError
            If the backend fails; nothing of this call is then written.
        """
        payments: dict[tuple[str, str], Payment] = {}
        for key, answer in answers.items():
            payments[account, key] = Payment(math.nan, answer.tokens_in, answer.tokens_out)
        failure_rows = {key: _make_failure_row(key, failure) for key, failure in failures.items()}
        writes = PendingWrites(_encode_answers(answers), failure_rows, payments)
        with self._flush_lock:
            self.flush()
            self.backend.write(writes)

    @property
    def n_pending(self) -> int:
        """Number of outcomes that are not on disk yet; while `flush` runs it can be too large, but never too small."""
        return len(self._pending) + len(self._in_transaction)

    def pay(self, account: str, key: str, payment: Payment) -> None:
        """Book the cost of an attempt. Call this before `add` for its outcome, so that one `flush` writes both."""
        with self._pending_lock:
            self._pending.pay(account, key, payment)

    def settle(self, number: str, remainder: Row | None) -> None:
        """Delete the record of a batch in the same `flush` that writes its results.

        number : id of the batch
        remainder : record that replaces it if results are missing; None if there are none
        """
        with self._pending_lock:
            self._pending.settled[number] = remainder

    def read_payments(self, account: str) -> dict[str, Payment]:
        """Return the payments of an account by request hash, summed over all invocations."""
        self.flush()
        return self.backend.paid(account)

    def flush(self) -> None:
        """Write all pending outcomes and costs, and release the leases on these requests.

        They are written in one transaction. A transaction that fails may have been committed, if only its confirmation was lost.
        The next flush therefore repeats it unchanged, so that the backend can recognize it.
        """
        with self._flush_lock:
            self._last_flush = time.monotonic()
            self._write_transaction()  # of a flush that failed
            with self._pending_lock:
                self._in_transaction, self._pending = self._pending, PendingWrites()
            self._write_transaction()

    def _write_transaction(self) -> None:
        """Write the outcomes and costs of the current transaction, if it has any, and release the leases."""
        if self._in_transaction.is_empty:
            return
        self.backend.write(self._in_transaction)
        with self._pending_lock:
            self._in_transaction = PendingWrites()

    def leases(self) -> Leases:
        """Return a new holder of leases on requests of this store."""
        return Leases(self.backend)

    def remember_judge(self, config: dict[str, Json]) -> None:
        """Record a judge whose answers are stored here, so that a replay finds its config."""
        self.backend.put_rows("judges", [(_to_text(config), time.time())])

    def judges(self) -> list[dict[str, Json]]:
        """Return the configs of the judges whose answers are stored here, oldest first."""
        rows = sorted(read_all_rows(self.backend, "judges"), key=lambda row: cast(float, row[1]))
        return [orjson.loads(cast(str, text)) for text, _ in rows]

    def add_response_models(self, config: dict[str, Json], names: Sequence[str]) -> None:
        """Record the names of the models that answered a judge's requests."""
        self.backend.put_rows("response_models", [(_to_text(config), name, time.time()) for name in names])

    def read_response_models(self, config: dict[str, Json]) -> list[str]:
        """Return the recorded names of the models that answered a judge's requests."""
        rows = read_all_rows(self.backend, "response_models")
        return [cast(str, name) for judge, name, _ in rows if judge == _to_text(config)]

    def close(self) -> None:
        """Flush, and close the backend."""
        try:
            self.flush()
        finally:
            self.backend.close()

    def _parse_answer(self, text: str) -> Completion | Failure:
        """Parse a stored answer; one that does not pass the checks of a reply is a failure."""
        try:
            return completion_from_fields(orjson.loads(text))
        except CallError as error:
            return Failure(error.kind, error.status, error.reason)
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise make_store_error(self.name, error) from None


def _to_text(config: dict[str, Json]) -> str:
    """Encode the config of a judge as JSON with sorted keys."""
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode()


def _encode_answers(answers: Mapping[str, Completion]) -> dict[str, str]:
    """Encode answers as JSON by request hash. An object that is the answer to many requests is encoded once."""
    text_by_id: dict[int, str] = {}
    for answer in answers.values():
        if id(answer) not in text_by_id:
            text_by_id[id(answer)] = orjson.dumps(answer).decode()
    return {key: text_by_id[id(answer)] for key, answer in answers.items()}


def _make_failure_row(key: str, failure: Failure) -> FailureRow:
    """Convert a failure to a row of the table of failures."""
    return key, failure.kind, failure.status, _replace_unstorable(failure.reason)


def _replace_unstorable(text: str) -> str:
    """Replace lone surrogates, which no database stores, and NUL, which PostgreSQL does not store."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def completion_from_fields(fields: dict[str, Any]) -> Completion:
    """Make a completion from its JSON fields, and check it like a reply. Raises: CallError if it is not valid."""
    fields["top_logprobs"] = fields["top_logprobs"] or ()
    if fields.keys() != _FIELDS:
        return validate_completion(Completion(**fields))
    completion = object.__new__(Completion)
    completion.__dict__.update(fields)  # what the constructor does, without its cost per field
    return validate_completion(completion)
