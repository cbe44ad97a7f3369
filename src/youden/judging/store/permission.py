"""Decides which stores on a network may be opened: those that the user named, not those that only a folder's config names.

The module imports nothing else of a store, so that a command line is parsed without loading its libraries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from youden.errors import ConfigError
from youden.text.printable import is_on_network, shown

VARIABLE = "YOUDEN_STORE"

_LEADING = {"host", "hostaddr", "passfile", "service", "servicefile"}
"""Parameters of a PostgreSQL URL that may direct it to another server than it shows."""


@dataclass
class _Permission:
    """Stores on a network that may be opened although only a folder's config names them.

    every: whether all may. password: whether these may get the password in PGPASSWORD. places: stores that the user named.
    """

    every: bool
    password: bool
    places: set[str]

    def names(self, place: str | Path) -> bool:
        """Return whether the user named the store, in full or, as a config records it, without password and parameters."""
        given = {os.environ.get(VARIABLE, ""), *self.places}
        return str(place) in given | {shown(name) for name in given}


_permission = _Permission(every=False, password=True, places=set())


@contextmanager
def network_stores_allowed(*, password: bool = True) -> Iterator[None]:
    """Allow opening, inside the block, stores on a network that only a folder's config names.

    password: whether they may get the password in PGPASSWORD as well.
    """
    before = _permission.every, _permission.password
    _permission.every, _permission.password = True, password
    try:
        yield
    finally:
        _permission.every, _permission.password = before


def allow_store(place: str) -> None:
    """Allow opening the store at `place`, because the user named it."""
    _permission.places.add(place)


def check_store_allowed(place: str | Path) -> None:
    """Check that a command that reads a folder may open the store that the folder's config names.

    A file may be opened. A server may be opened only if the user named it on the command line or in YOUDEN_STORE, or passed
    --open-store, because it would get the user's password (PGPASSWORD, ~/.pgpass) and learn that the folder was read.

    Raises
    ------
    ConfigError
        [store-not-opened]: if it may not.
    """
    if not is_on_network(place) or _permission.every or _permission.names(place):
        return
    raise ConfigError(
        f"The folder's config names the store {shown(place)}. It was not opened, because your password could be sent to that "
        f"host. If you know the host, add --open-store, or name the store in the variable {VARIABLE}.",
        slug="store-not-opened",
    )


def check_password(place: str) -> None:
    """Check that no password of the user goes to a host that only a config names.

    Raises
    ------
    ConfigError
        [store-password]: if PGPASSWORD would be sent, or if the URL's parameters may name another host than the URL shows.
    """
    if not _permission.every or _permission.names(place):
        return
    _, _, credentials = place.partition("://")[2].rpartition("@")[0].partition(":")
    sends = not _permission.password and not credentials and os.environ.get("PGPASSWORD")
    leads = _LEADING & {name for name, _ in parse_qsl(place.partition("?")[2], keep_blank_values=True)}
    if sends or leads:
        why = f"it has the parameter {min(leads)}" if leads else "its host would get the password in PGPASSWORD"
        raise ConfigError(
            f"Only the config names the store {shown(place)}, and {why}. Nothing was sent. If you know the host, name the store "
            f"by --store or in the variable {VARIABLE}.",
            slug="store-password",
        )
