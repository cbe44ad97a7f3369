"""What was paid for, kept: raw answers under the key of the request that was sent, and the books of who paid what for them.

What a store offers, whatever it is kept in: `known`, `answers` and `failures` read; `add` keeps what came of a call and `pay`
what it cost, both on disk after the same `flush`; `paid` reads the books; `claims` are who asks what; `remember_judge`, `judges`,
`remember_served` and `served` say whose answers they are; `close`. Nothing outside this room reads or writes its tables.

It holds neither requests nor secrets. Answers are written several at a time: a process that is killed loses fewer than
`MOST_UNWRITTEN` answers, none of them older than `LINGER` seconds while a run goes on, and the calls in flight. Where several
processes answer one request, the first answer stands. A payment is written in the transaction that writes what came of the
calls, so that a process that is killed takes no paid answer's price with it.

A place is named by a path, `sqlite:///path`, `postgresql://…`, or the URL of a kind that another package brings. YOUDEN_STORE
names it where nobody else does. A password is never shown or kept: a place that is written down without its password gets it
back from YOUDEN_STORE, where that is the same place, or from where its library looks (PGPASSWORD, ~/.pgpass).
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self, cast

import orjson

from youden.errors import ConfigError
from youden.judging.call.failures import CallError, Failure, FailureKind
from youden.judging.call.reply import trusted
from youden.judging.store.contract import FailureRow, Payment, PendingWrites, Place, Row, all_rows
from youden.judging.store.leases import Claims
from youden.judging.store.permission import VARIABLE, check_password, check_store_allowed
from youden.judging.store.sqlite import explanation
from youden.registry import Registry
from youden.text.printable import is_file, is_on_network, shown
from youden.types import Completion
from youden.types.pool import Json


def payment_of(usd: float, completion: Completion | None) -> Payment:
    """What one try cost; completion: what it brought."""
    if completion is None:
        return Payment(usd)
    return Payment(usd, completion.tokens_in, completion.tokens_out, completion.seconds)


STORES: Registry[Callable[..., Place]] = Registry(
    "youden.stores",
    "store",
    {
        "sqlite": "youden.judging.store.sqlite:SqlitePlace",
        "postgresql": "youden.judging.store.postgres:PostgresPlace",
        "postgres": "youden.judging.store.postgres:PostgresPlace",
    },
)


_LIBPQ = re.compile(
    r"\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|options|connect_timeout)\s*="
)


def open_place(place: str | Path, *, read_only: bool) -> Place:
    """Open it. Raises: ConfigError [store-url], [store-package]; as the kind of place does."""
    text = _with_password(str(place))
    if _LIBPQ.match(text) and not Path(text).exists():
        raise ConfigError(
            f"A store's place begins with '{text.partition('=')[0]}=', as a connection string of PostgreSQL does, which would "
            "become a local file of that name. Give a path, or postgresql://USER@HOST/DATABASE.",
            slug="store-url",
        )
    kind = "sqlite" if "://" not in text else text.partition("://")[0]
    if kind not in STORES or (kind == "sqlite" and not is_file(text)):
        raise ConfigError(
            f"There is no store for '{kind}://'. Give a path, sqlite:///path, or the URL of one of: {', '.join(STORES)}.",
            slug="store-url",
        )
    if is_on_network(text):
        check_password(text)
    try:
        make = STORES.load(kind)
    except ImportError as error:
        raise ConfigError(
            f"A store at {shown(text)} needs a package that is not there ({error}). "
            "Install it: pip install 'youden[postgres]'.",
            slug="store-package",
        ) from None
    return make(text, read_only=read_only)


def _with_password(place: str) -> str:
    said = os.environ.get(VARIABLE, "")
    return said if said and not is_file(place) and shown(said) == place else place


_FIELDS = {field.name for field in fields(Completion)}

MOST_UNWRITTEN = 64
LINGER = 0.25


def open_store(place: str | Path, *, read_only: bool = False) -> Store:
    """The store at `sqlite:///path`, at a path or at `postgresql://…`; made where there is none, unless `read_only`.

    Raises: ConfigError [store-url], [store-package], [store-missing], [store-foreign], [store-form],
    [store-server-old]; JudgeError [store-corrupt], [store-read-only], [store-full], [store-busy], [store-failed], [store-away].
    """
    return Store(open_place(place, read_only=read_only))


def open_store_of_folder(place: str | Path) -> Store:
    """Open, for reading, the store that a folder's config names. Raises: as `check_store_allowed` and `open_store`."""
    check_store_allowed(place)
    return open_store(place, read_only=True)


class Store:
    """Raw answers by key. Use it as a context manager, or close it. Several threads may use it.

    name: where it is, as it may be shown.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.name = place.name
        self._flushing = RLock()
        self._adding = RLock()
        self._unwritten = PendingWrites()
        self._being_written = PendingWrites()
        self._flushed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many answers it holds."""
        self.flush()
        return self.place.count()

    def known(self, keys: Sequence[str]) -> dict[str, Completion | Failure]:
        """key → what came of it, for those of `keys` that were answered or given up on the last time they were asked. An answer
        that cannot be trusted is a failure: replies were once kept as they came."""
        with self._adding:
            new_failures = self._being_written.failures | self._unwritten.failures
            new_answers = self._being_written.answers | self._unwritten.answers
        answers, failures = self.place.known(keys) if keys else ([], [])
        texts = dict(answers) | {key: new_answers[key] for key in keys if key in new_answers}
        read = {text: self._read(text) for text in set(texts.values())}
        failures += [new_failures[key] for key in keys if key in new_failures]
        found: dict[str, Completion | Failure] = {
            key: Failure(cast(FailureKind, kind), status, reason) for key, kind, status, reason in failures
        }
        return found | {key: read[text] for key, text in texts.items()}

    def answers(self, keys: Sequence[str]) -> dict[str, Completion]:
        """key → completion for those of `keys` that were answered."""
        return {key: one for key, one in self.known(keys).items() if isinstance(one, Completion)}

    def failures(self, keys: Sequence[str]) -> dict[str, Failure]:
        """key → failure for those of `keys` that have no answer and were given up on."""
        return {key: one for key, one in self.known(keys).items() if isinstance(one, Failure)}

    def add(self, key: str, outcome: Completion | Failure, *, again: bool = False, waits: bool = True) -> None:
        """Keep an answer or a failure. It is on disk after the next `flush`, at most `MOST_UNWRITTEN` additions later.

        again: it was asked again, so that it replaces what is there. waits: whether this call may write what came so far, and
        so wait for the disk; who says no calls `flush` from another thread.
        """
        with self._adding:
            if isinstance(outcome, Completion):
                self._unwritten.answers[key] = orjson.dumps(outcome).decode()
                self._unwritten.failures.pop(key, None)
            else:
                self._unwritten.failures[key] = _failure_row(key, outcome)
            if again:
                self._unwritten.again.add(key)
        if waits and (self.n_unwritten >= MOST_UNWRITTEN or time.monotonic() - self._flushed >= LINGER):
            self.flush()

    def add_all(
        self,
        answers: Mapping[str, Completion],
        failures: Mapping[str, Failure],
        *,
        payer: str,
    ) -> None:
        """Write many at once, by key: answers that `payer` paid for elsewhere, nobody knows how much. What was added before is
        written before."""
        texts = {id(one): orjson.dumps(one).decode() for one in {id(one): one for one in answers.values()}.values()}
        batch = PendingWrites(
            {key: texts[id(one)] for key, one in answers.items()},
            {key: _failure_row(key, one) for key, one in failures.items()},
            {(payer, key): Payment(math.nan, one.tokens_in, one.tokens_out) for key, one in answers.items()},
        )
        with self._flushing:
            self.flush()
            self.place.write(batch)

    @property
    def n_unwritten(self) -> int:
        """Outcomes that are not on disk yet; for a moment too many, while `flush` takes them over, and never too few."""
        return len(self._unwritten) + len(self._being_written)

    def pay(self, payer: str, key: str, payment: Payment) -> None:
        """Note what a try cost, before `add` keeps what came of it: both are written by the same `flush`."""
        with self._adding:
            self._unwritten.pay(payer, key, payment)

    def settle(self, number: str, rest: Row | None) -> None:
        """Forget the note of a batch, or let `rest` take its place, in the transaction that writes what was added before."""
        with self._adding:
            self._unwritten.settled[number] = rest

    def paid(self, payer: str) -> dict[str, Payment]:
        """key → what `payer` paid for that request, in this and all earlier passes."""
        self.flush()
        return self.place.paid(payer)

    def flush(self) -> None:
        """Write everything added so far, in one transaction, which also ends the claims on it."""
        with self._flushing:
            self._flushed = time.monotonic()
            with self._adding:
                if self._unwritten.is_empty:
                    return
                self._being_written, self._unwritten = self._unwritten, PendingWrites()
            try:
                self.place.write(self._being_written)
            except BaseException:
                with self._adding:
                    self._unwritten = self._being_written.and_then(self._unwritten)
                raise
            finally:
                with self._adding:
                    self._being_written = PendingWrites()

    def claims(self) -> Claims:
        """For one asker: who else asks into this store."""
        return Claims(self.place)

    def remember_judge(self, config: dict[str, Json]) -> None:
        """Note whose answers are kept here, so that a replay need not be told."""
        self.place.put_rows("judges", [(_text(config), time.time())])

    def judges(self) -> list[dict[str, Json]]:
        """The judges whose answers are kept here, oldest first."""
        rows = sorted(all_rows(self.place, "judges"), key=lambda row: cast(float, row[1]))
        return [orjson.loads(cast(str, text)) for text, _ in rows]

    def remember_served(self, config: dict[str, Json], names: Sequence[str]) -> None:
        """Note under which names a judge was served."""
        self.place.put_rows("served", [(_text(config), name, time.time()) for name in names])

    def served(self, config: dict[str, Json]) -> list[str]:
        """The names under which earlier runs of a judge were served."""
        return [cast(str, name) for judge, name, _ in all_rows(self.place, "served") if judge == _text(config)]

    def close(self) -> None:
        """Flush and let go of the place."""
        try:
            self.flush()
        finally:
            self.place.close()

    def _read(self, text: str) -> Completion | Failure:
        """A stored answer; a failure where it cannot be trusted."""
        try:
            return completion_from(orjson.loads(text))
        except CallError as error:
            return Failure(error.kind, error.status, error.reason)
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise explanation(self.name, str(error)) from None


def _text(config: dict[str, Json]) -> str:
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode()


def _failure_row(key: str, one: Failure) -> FailureRow:
    return key, one.kind, one.status, _storable(one.reason)


def _storable(text: str) -> str:
    """No database takes half a character, nor PostgreSQL a NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def completion_from(fields: dict[str, Any]) -> Completion:
    """The completion that was stored as these JSON fields. Raises: CallError where it cannot be trusted, as `trusted`."""
    fields["top_logprobs"] = fields["top_logprobs"] or ()
    if fields.keys() != _FIELDS:
        return trusted(Completion(**fields))
    said = object.__new__(Completion)
    said.__dict__.update(fields)  # as its constructor does, one by one
    return trusted(said)
